// SPDX-License-Identifier: MIT
/*
 * rare: two threads verify and decode a block of a file each, and count those
 * that are good in one counter.
 *
 * To verify and to decode takes some 36,000 instructions without a system call,
 * to count in between takes six. There is no lock: when the other thread
 * counts within these six, its block is lost.
 * The exit status is 0 if all blocks were counted, 1 if not.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS 2
#define SIZE 2560U
/* A counter that would overflow stays what it is. */
#define COUNT_MAX 9999U

struct block {
	pthread_t thread;
	uint32_t sum;
	uint8_t data[SIZE];
};

static struct block blocks[BLOCKS];
static unsigned int good;

/* FNV-1a */
static uint32_t sum(const uint8_t *data)
{
	uint32_t hash = 2166136261U;

	for (size_t i = 0; i < SIZE; i++)
		hash = (hash ^ data[i]) * 16777619U;
	return hash;
}

static void decode(uint8_t *data)
{
	uint32_t key = 1;

	for (size_t i = 0; i < SIZE; i++) {
		key = key * 1664525U + 1013904223U;
		data[i] ^= key >> 24;
	}
}

static void count(void)
{
	unsigned int seen = good;

	good = seen < COUNT_MAX ? seen + 1 : COUNT_MAX;
}

static void *work(void *arg)
{
	struct block *block = arg;

	if (sum(block->data) == block->sum)
		count();
	decode(block->data);
	return NULL;
}

static void check(int error, const char *what)
{
	if (error) {
		fprintf(stderr, "rare: %s: %s\n", what, strerror(error));
		exit(EXIT_FAILURE);
	}
}

int main(void)
{
	for (int i = 0; i < BLOCKS; i++) {
		for (size_t k = 0; k < SIZE; k++)
			blocks[i].data[k] = k * (i + 3) >> 2;
		blocks[i].sum = sum(blocks[i].data);
	}
	for (int i = 0; i < BLOCKS; i++)
		check(pthread_create(&blocks[i].thread, NULL, work, &blocks[i]), "thread");
	for (int i = 0; i < BLOCKS; i++)
		check(pthread_join(blocks[i].thread, NULL), "join");

	printf("%u of %d blocks are good\n", good, BLOCKS);
	return good == BLOCKS ? EXIT_SUCCESS : EXIT_FAILURE;
}
