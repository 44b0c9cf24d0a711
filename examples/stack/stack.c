// SPDX-License-Identifier: MIT
/*
 * stack: two threads take buffers from a lock-free stack, and give them back.
 *
 * To take one is to look at the top, and at what is below it, and to make that
 * the top if the top is still the same. If it is the same *again*, because
 * another thread has taken it and the one below, and given back the first, then
 * the new top is a buffer that is in use, and is handed out once more.
 * The exit status is 0 if both letters are what was written, 1 if not.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKERS 2
#define BUFFERS 6
#define SIZE 64

struct buffer {
	uint32_t below; /* the number of the next one in the stack, from 1 on; 0: none */
	char text[SIZE];
};

struct worker {
	pthread_t thread;
	int number;
	const struct buffer *letter;
};

static struct buffer buffers[BUFFERS];
/* The number of the first one. */
static _Atomic uint64_t top;

static struct buffer *take(void)
{
	uint64_t first = atomic_load(&top);
	struct buffer *buffer;

	do {
		if (!first)
			abort();
		buffer = &buffers[first - 1];
	} while (!atomic_compare_exchange_weak(&top, &first, buffer->below));
	return buffer;
}

static void give_back(struct buffer *buffer)
{
	uint64_t first = atomic_load(&top);

	do {
		buffer->below = first;
	} while (!atomic_compare_exchange_weak(&top, &first, buffer - buffers + 1));
}

static void write_letter(char *text, int number)
{
	for (int i = 0; i < SIZE - 1; i++)
		text[i] = 'a' + (i * 7 + number) % 26;
}

/* The letter stays with the worker, what it was drafted in does not. */
static void *work(void *arg)
{
	struct worker *worker = arg;
	struct buffer *draft = take();
	struct buffer *letter = take();

	write_letter(draft->text, worker->number);
	for (int i = 0; i < SIZE; i++)
		letter->text[i] = draft->text[i];
	give_back(draft);
	worker->letter = letter;
	return NULL;
}

static bool is_right(const struct worker *worker)
{
	char expected[SIZE] = "";

	write_letter(expected, worker->number);
	return !strcmp(worker->letter->text, expected);
}

static void check(int error, const char *what)
{
	if (error) {
		fprintf(stderr, "stack: %s: %s\n", what, strerror(error));
		exit(EXIT_FAILURE);
	}
}

int main(void)
{
	struct worker workers[WORKERS];
	int right = 0;

	for (int i = 0; i < BUFFERS; i++)
		give_back(&buffers[i]);
	for (int i = 0; i < WORKERS; i++) {
		workers[i].number = i;
		check(pthread_create(&workers[i].thread, NULL, work, &workers[i]), "thread");
	}
	for (int i = 0; i < WORKERS; i++)
		check(pthread_join(workers[i].thread, NULL), "join");

	for (int i = 0; i < WORKERS; i++)
		right += is_right(&workers[i]);
	printf("%d of %d letters are right\n", right, WORKERS);
	return right == WORKERS ? EXIT_SUCCESS : EXIT_FAILURE;
}
