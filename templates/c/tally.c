// SPDX-License-Identifier: MIT
/*
 * tally: two clerks count votes into one sum.
 *
 * Each reads the sum, writes down in the log what it is about to add, and then
 * stores the new one. If the other clerk gets the CPU in between, its votes are
 * lost. That takes bad luck: the test hardly ever fails.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct clerk {
	pthread_t thread;
	long votes;
};

static long sum;

static void *count(void *arg)
{
	const struct clerk *clerk = arg;
	char line[64];
	long seen = sum;
	int length = snprintf(line, sizeof(line), "%ld more\n", clerk->votes);

	if (write(STDOUT_FILENO, line, length) != length)
		exit(EXIT_FAILURE);
	sum = seen + clerk->votes;
	return NULL;
}

int main(void)
{
	struct clerk clerks[] = { { .votes = 30 }, { .votes = 12 } };

	for (int i = 0; i < 2; i++)
		if (pthread_create(&clerks[i].thread, NULL, count, &clerks[i]))
			return EXIT_FAILURE;
	for (int i = 0; i < 2; i++)
		pthread_join(clerks[i].thread, NULL);
	printf("%ld votes\n", sum);
	return sum == 42 ? EXIT_SUCCESS : EXIT_FAILURE;
}
