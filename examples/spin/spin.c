// SPDX-License-Identifier: MIT
/*
 * spin: two threads take turns by a plain flag, and wait for it in a loop
 * without a system call.
 *
 * Nothing is wrong here, on x86. Where one CPU runs, the thread that waits has
 * it, and the other one gets it by nothing but the kernel's clock.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 3

/* Whose turn it is. */
static volatile int turn;

static void *play(void *arg)
{
	const int *own = arg;

	for (int i = 0; i < ROUNDS; i++) {
		while (turn != *own)
			;
		turn = !*own;
	}
	return NULL;
}

static void check(int error, const char *what)
{
	if (error) {
		fprintf(stderr, "spin: %s: %s\n", what, strerror(error));
		exit(EXIT_FAILURE);
	}
}

int main(void)
{
	static int numbers[2] = { 0, 1 };
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		check(pthread_create(&threads[i], NULL, play, &numbers[i]), "thread");
	for (int i = 0; i < 2; i++)
		check(pthread_join(threads[i], NULL), "join");

	printf("%d turns\n", 2 * ROUNDS);
	return EXIT_SUCCESS;
}
