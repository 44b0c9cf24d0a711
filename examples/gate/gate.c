// SPDX-License-Identifier: MIT
/*
 * gate: a thread waits at a gate, which is made of a futex, until another one
 * opens it.
 *
 * The kernel puts the waiter to sleep only if the number of changes is still
 * what the waiter has seen, so that no change is missed. But the waiter looks
 * at that number after it has looked at the gate: a change in between is one it
 * has seen, as far as the kernel can tell, and there will be no other.
 */
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct gate {
	atomic_bool open;
	atomic_uint changes;
};

static struct gate gate;

static void futex(atomic_uint *word, int operation, unsigned int value)
{
	syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

static void gate_wait(struct gate *gate)
{
	while (!atomic_load(&gate->open)) {
		unsigned int seen = atomic_load(&gate->changes);

		futex(&gate->changes, FUTEX_WAIT_PRIVATE, seen);
	}
}

static void gate_open(struct gate *gate)
{
	atomic_store(&gate->open, true);
	atomic_fetch_add(&gate->changes, 1);
	futex(&gate->changes, FUTEX_WAKE_PRIVATE, INT_MAX);
}

static void *walk(void *unused)
{
	(void)unused;
	gate_wait(&gate);
	puts("the walker is through the gate");
	return NULL;
}

static void check(int error, const char *what)
{
	if (error) {
		fprintf(stderr, "gate: %s: %s\n", what, strerror(error));
		exit(EXIT_FAILURE);
	}
}

int main(void)
{
	/* The key is not found at once. */
	const struct timespec time = { .tv_nsec = 1000000 };
	pthread_t walker;

	check(pthread_create(&walker, NULL, walk, NULL), "thread");
	nanosleep(&time, NULL);
	gate_open(&gate);
	check(pthread_join(walker, NULL), "join");
	return EXIT_SUCCESS;
}
