// SPDX-License-Identifier: MIT
/* Two threads count, and one count in a while is lost. Linked statically: it needs no other file. */
#include <pthread.h>
#include <stdio.h>

static int total;

static void *work(void *unused)
{
	for (int i = 0; i < 1000; i++) {
		int seen = total;

		total = seen + 1;
	}
	return unused;
}

int main(void)
{
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("%d\n", total);
	return total != 2000;
}
