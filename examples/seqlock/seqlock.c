// SPDX-License-Identifier: MIT
/*
 * seqlock: a network card's counters are kept consistent by a sequence lock,
 * and the reader does half of what it has to.
 *
 * The sequence number is odd while an update is under way, and the reader waits
 * until it is even. But it does not look at the number once more when it has
 * read: an update that comes meanwhile leaves it with some old counters and
 * some new ones.
 * The exit status is 0 if all that was read is consistent, 1 if not.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define UPDATES 8
#define LOOKS 5
#define MTU 1500UL

struct counters {
	unsigned long packets;
	unsigned long bytes;
	unsigned long bits;
};

static atomic_uint sequence;
static volatile struct counters counters;

static void wait_us(long us)
{
	const struct timespec time = { .tv_nsec = us * 1000 };

	nanosleep(&time, NULL);
}

static void count_packet(void)
{
	atomic_fetch_add(&sequence, 1);
	counters.packets++;
	counters.bytes += MTU;
	counters.bits += 8 * MTU;
	atomic_fetch_add(&sequence, 1);
}

static void *receive(void *unused)
{
	(void)unused;
	for (int i = 0; i < UPDATES; i++) {
		wait_us(700);
		count_packet();
	}
	return NULL;
}

/* The number before an update, not within one. */
static unsigned int begin(void)
{
	unsigned int number;

	while ((number = atomic_load(&sequence)) % 2)
		wait_us(100);
	return number;
}

static struct counters look(void)
{
	struct counters seen;

	begin();
	seen.packets = counters.packets;
	seen.bytes = counters.bytes;
	seen.bits = counters.bits;
	return seen;
}

static bool is_consistent(const struct counters *seen)
{
	return seen->bytes == seen->packets * MTU && seen->bits == seen->bytes * 8;
}

static void check(int error, const char *what)
{
	if (error) {
		fprintf(stderr, "seqlock: %s: %s\n", what, strerror(error));
		exit(EXIT_FAILURE);
	}
}

int main(void)
{
	pthread_t receiver;
	int status = EXIT_SUCCESS;

	check(pthread_create(&receiver, NULL, receive, NULL), "thread");
	for (int i = 0; i < LOOKS; i++) {
		struct counters seen;

		wait_us(1000);
		seen = look();
		if (!is_consistent(&seen)) {
			printf("%lu packets are %lu bytes and %lu bits?\n", seen.packets,
			       seen.bytes, seen.bits);
			status = EXIT_FAILURE;
		}
	}
	check(pthread_join(receiver, NULL), "join");
	printf("%lu packets\n", counters.packets);
	return status;
}
