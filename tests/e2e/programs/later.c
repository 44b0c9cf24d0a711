// SPDX-License-Identifier: MIT
/*
 * later: two threads add to a number, without a lock.
 *
 * What loses a sum is a stall within the first add. The line in which the
 * second thread adds for the last time comes long after that, though still
 * before the first thread is at the same instruction again.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static volatile long sum;

static void add(volatile long *number)
{
	long seen = *number;

	for (volatile int i = 0; i < 20; i++)
		;
	*number = seen + 1; /* loses or is lost */
}

static void *first(void *unused)
{
	add(&sum);
	usleep(300000);
	add(&sum);
	return unused;
}

static void *second(void *unused)
{
	add(&sum);
	usleep(250000);
	sum = sum + 1; /* not this one */
	return unused;
}

int main(void)
{
	pthread_t threads[2];

	if (pthread_create(&threads[0], NULL, first, NULL) != 0 ||
	    pthread_create(&threads[1], NULL, second, NULL) != 0)
		return 1;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	return sum != 4 || open(getenv("out"), O_WRONLY | O_CREAT, 0666) < 0;
}
