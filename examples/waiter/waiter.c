// SPDX-License-Identifier: MIT
/*
 * waiter: a waiter waits until the kitchen rings, and the kitchen does not take
 * the lock when it does.
 *
 * The waiter looks whether the meal is ready, says that it is not, and waits on
 * a condition variable. A kitchen that rings between the look and the wait
 * wakes nobody, and rings only once: the waiter waits for ever.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t bell = PTHREAD_COND_INITIALIZER;
static bool ready;

static void *serve(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&lock);
	while (!ready) {
		puts("waiter: not ready yet");
		pthread_cond_wait(&bell, &lock);
	}
	pthread_mutex_unlock(&lock);
	puts("waiter: here you are");
	return NULL;
}

static void cook(void)
{
	/* a millisecond; a waiter takes a fraction of it to be waiting */
	const struct timespec time = { .tv_nsec = 1000000 };

	nanosleep(&time, NULL);
}

static void check(int error, const char *what)
{
	if (error) {
		fprintf(stderr, "waiter: %s: %s\n", what, strerror(error));
		exit(EXIT_FAILURE);
	}
}

int main(void)
{
	pthread_t waiter;

	/* A line is written when it ends, as to a terminal. */
	setvbuf(stdout, NULL, _IOLBF, 0);

	check(pthread_create(&waiter, NULL, serve, NULL), "thread");
	cook();
	ready = true;
	pthread_cond_signal(&bell);
	check(pthread_join(waiter, NULL), "join");
	return EXIT_SUCCESS;
}
