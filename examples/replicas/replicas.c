// SPDX-License-Identifier: MIT
/*
 * replicas: there are two replicas of a table. Each is rebuilt by a thread of
 * its own, and a client takes whichever is valid.
 *
 * A replica is not valid while it is rebuilt, for which there is the other one.
 * Nothing keeps the two from being rebuilt at the same time, though, and a
 * client that comes then finds none.
 * The exit status is 0 if the client has got an answer, 1 if not.
 *
 * With one processor it takes two stalls, and a single one cannot do it,
 * wherever it is and however long it lasts. The client has to find both threads
 * that rebuild between their stores to `valid`. In between they compute: they
 * make no call, start nobody and wake nobody, and they take far less than a
 * time slice. So a thread does not run there for one of two reasons: it is
 * stalled, or another thread has woken up and has the processor.
 *   Nobody sleeps by the clock here, the main thread waits for ends of threads
 * alone, and a thread that ends is not between these stores any more. So the
 * only one that wakes up while another computes is the one that was stalled,
 * once.
 *   If that is the client, or the main thread, at most one rebuilder does not run
 * in between: the one it has taken the processor from. (The client reads both
 * `valid` after that or before, and at once, but for its own stall. Stalled
 * between the two it has found the first replica invalid before, which nobody
 * had been stopped at.)
 *   If it is a rebuilder, it is between its stores until it wakes up, and goes on
 * to the second one at once. Before that, the other one has run through, or has
 * not begun. After it, it has a valid replica.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLICAS 2
#define ENTRIES 64
#define KEY 17U

struct replica {
	volatile bool valid;
	uint32_t entries[ENTRIES];
};

static struct replica replicas[REPLICAS];

static uint32_t value(uint32_t key)
{
	for (int i = 0; i < 16; i++)
		key = (key ^ key >> 5) * 0x9e3779b1U + 1;
	return key;
}

static void fill(struct replica *replica)
{
	for (uint32_t i = 0; i < ENTRIES; i++)
		replica->entries[i] = value(i);
}

static void *rebuild(void *arg)
{
	struct replica *replica = arg;

	replica->valid = false;
	fill(replica);
	replica->valid = true;
	return NULL;
}

static void *ask(void *result)
{
	bool *answered = result;

	for (int i = 0; i < REPLICAS; i++) {
		if (replicas[i].valid) {
			*answered = replicas[i].entries[KEY] == value(KEY);
			return NULL;
		}
	}
	return NULL;
}

static void check(int error, const char *what)
{
	if (error) {
		fprintf(stderr, "replicas: %s: %s\n", what, strerror(error));
		exit(EXIT_FAILURE);
	}
}

int main(void)
{
	pthread_t rebuilders[REPLICAS], client;
	bool answered = false;

	for (int i = 0; i < REPLICAS; i++) {
		fill(&replicas[i]);
		replicas[i].valid = true;
	}
	for (int i = 0; i < REPLICAS; i++)
		check(pthread_create(&rebuilders[i], NULL, rebuild, &replicas[i]), "thread");
	check(pthread_create(&client, NULL, ask, &answered), "thread");
	for (int i = 0; i < REPLICAS; i++)
		check(pthread_join(rebuilders[i], NULL), "join");
	check(pthread_join(client, NULL), "join");

	puts(answered ? "the client has got an answer" : "no replica was valid");
	return answered ? EXIT_SUCCESS : EXIT_FAILURE;
}
