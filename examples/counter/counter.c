// SPDX-License-Identifier: MIT
/*
 * counter: two threads count to 1,000 each in one variable, and neither locks
 * it.
 *
 * To count is to read the variable, add 1 and store the sum: what the other
 * thread counts in between is lost. The loop has no system call, so that the
 * kernel does not get a look at it; only its clock can take the turn away.
 * The exit status is 0 if nothing was lost, 1 if something was.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMES 1000L

/* volatile: each turn of the loop has a load and a store of its own */
static volatile long counter;

static void *count(void *unused)
{
	(void)unused;
	for (long i = 0; i < TIMES; i++)
		counter++;
	return NULL;
}

static void check(int error, const char *what)
{
	if (error) {
		fprintf(stderr, "counter: %s: %s\n", what, strerror(error));
		exit(EXIT_FAILURE);
	}
}

int main(void)
{
	pthread_t threads[2];
	const size_t threads_count = sizeof(threads) / sizeof(threads[0]);
	const long expected = TIMES * threads_count;

	for (size_t i = 0; i < threads_count; i++)
		check(pthread_create(&threads[i], NULL, count, NULL), "thread");
	for (size_t i = 0; i < threads_count; i++)
		check(pthread_join(threads[i], NULL), "join");

	printf("counted to %ld, expected %ld\n", counter, expected);
	return counter == expected ? EXIT_SUCCESS : EXIT_FAILURE;
}
