// SPDX-License-Identifier: MIT
/*
 * Two threads make argv[1] million accesses to memory that both use: each smooths its half of a
 * signal again and again, and reads the other's where they meet.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 2
#define HALF 2048L
#define ACCESSES 4L /* for each value: three reads and a write */

static long numbers[THREADS] = { 0, 1 };
static volatile long signal[THREADS * HALF + 2];
static pthread_barrier_t barrier;
static long rounds;

static void *smooth(void *arg)
{
	volatile long *own = &signal[1 + *(long *)arg * HALF];

	for (long i = 0; i < rounds; i++) {
		pthread_barrier_wait(&barrier);
		for (long k = 0; k < HALF; k++)
			own[k] = (own[k - 1] + 2 * own[k] + own[k + 1]) / 4;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];

	rounds = argc > 1 ? strtol(argv[1], NULL, 10) * 1000000 / (THREADS * HALF * ACCESSES) : 0;
	for (long i = 0; i < THREADS * HALF + 2; i++)
		signal[i] = i * 0x9e3779b1;
	if (pthread_barrier_init(&barrier, NULL, THREADS))
		return EXIT_FAILURE;
	for (long i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, smooth, &numbers[i]))
			return EXIT_FAILURE;
	for (long i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%ld\n", signal[HALF]);
	return EXIT_SUCCESS;
}
