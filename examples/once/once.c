// SPDX-License-Identifier: MIT
/*
 * once: the table of a checksum is made by the first thread that needs it.
 *
 * Who sees no table takes the lock, looks again, and makes one. Who sees one
 * takes no lock. But the table is there from the moment its address is stored,
 * and its entries are computed after that.
 * The exit status is 0 if both checksums are right, 1 if not.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE "123456789"
#define EXPECTED 0xcbf43926U

struct table {
	uint32_t entries[256];
};

static struct table *volatile table;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint32_t entry(uint32_t value)
{
	for (int i = 0; i < 8; i++)
		value = value & 1 ? value >> 1 ^ 0xedb88320U : value >> 1;
	return value;
}

static void make_table(void)
{
	table = calloc(1, sizeof(*table));
	if (!table)
		abort();
	for (uint32_t i = 0; i < 256; i++)
		table->entries[i] = entry(i);
}

static const struct table *crc_table(void)
{
	if (!table) {
		pthread_mutex_lock(&lock);
		if (!table)
			make_table();
		pthread_mutex_unlock(&lock);
	}
	return table;
}

static void *checksum(void *result)
{
	const struct table *crc = crc_table();
	uint32_t value = ~0U;

	for (const char *byte = MESSAGE; *byte; byte++)
		value = value >> 8 ^ crc->entries[(value ^ *byte) & 0xff];
	*(uint32_t *)result = ~value;
	return NULL;
}

static void check(int error, const char *what)
{
	if (error) {
		fprintf(stderr, "once: %s: %s\n", what, strerror(error));
		exit(EXIT_FAILURE);
	}
}

int main(void)
{
	pthread_t threads[2];
	uint32_t results[2];
	int status = EXIT_SUCCESS;

	for (int i = 0; i < 2; i++)
		check(pthread_create(&threads[i], NULL, checksum, &results[i]), "thread");
	for (int i = 0; i < 2; i++)
		check(pthread_join(threads[i], NULL), "join");

	for (int i = 0; i < 2; i++) {
		printf("checksum %08x, expected %08x\n", results[i], EXPECTED);
		if (results[i] != EXPECTED)
			status = EXIT_FAILURE;
	}
	return status;
}
