// SPDX-License-Identifier: MIT
/*
 * philosophers: two of them at a table with two forks. To eat, each takes the
 * fork at the left, thinks about it, and takes the one at the right.
 *
 * What is at the left of one is at the right of the other. When one thinks for
 * so long that the other sits down meanwhile, each has a fork and waits for the
 * one that the other has, for ever.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEATS 2
#define MEALS 3
#define THOUGHTS 200

struct philosopher {
	pthread_t thread;
	unsigned int seat;
	unsigned int mind;
};

static pthread_mutex_t forks[SEATS] = {
	PTHREAD_MUTEX_INITIALIZER,
	PTHREAD_MUTEX_INITIALIZER,
};

static unsigned int meals;

/* A few thousand instructions, none of which is a system call. */
static void think(struct philosopher *philosopher)
{
	for (int i = 0; i < THOUGHTS; i++)
		philosopher->mind = philosopher->mind % 2 ? 3 * philosopher->mind + 1 :
							    philosopher->mind / 2 + 7;
}

static void *dine(void *arg)
{
	struct philosopher *philosopher = arg;
	unsigned int left = philosopher->seat;
	unsigned int right = (left + 1) % SEATS;
	pthread_mutex_t *first = &forks[left];
	pthread_mutex_t *second = &forks[right];

	for (int i = 0; i < MEALS; i++) {
		pthread_mutex_lock(first);
		think(philosopher);
		pthread_mutex_lock(second);
		/* Whoever eats has all forks there are. */
		meals++;
		pthread_mutex_unlock(second);
		pthread_mutex_unlock(first);
	}
	return NULL;
}

static void check(int error, const char *what)
{
	if (error) {
		fprintf(stderr, "philosophers: %s: %s\n", what, strerror(error));
		exit(EXIT_FAILURE);
	}
}

int main(void)
{
	struct philosopher philosophers[SEATS];

	for (unsigned int i = 0; i < SEATS; i++) {
		philosophers[i].seat = i;
		philosophers[i].mind = i;
		check(pthread_create(&philosophers[i].thread, NULL, dine, &philosophers[i]),
		      "thread");
	}
	for (unsigned int i = 0; i < SEATS; i++)
		check(pthread_join(philosophers[i].thread, NULL), "join");

	printf("%u meals, expected %u\n", meals, SEATS * MEALS);
	return meals == SEATS * MEALS ? EXIT_SUCCESS : EXIT_FAILURE;
}
