// SPDX-License-Identifier: MIT
/*
 * ring: a producer sends messages to a consumer, another process, by a ring in
 * memory that they share.
 *
 * There is a message where `head` is ahead of `tail`. The producer counts
 * `head` up when it has found a free slot, and fills that slot then: a consumer
 * that looks in between reads what was there before.
 * The exit status is 0 if all messages were read as they were sent, 1 if not.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SLOTS 4U
#define MESSAGES 6U

struct message {
	uint32_t number;
	uint32_t sum;
};

struct ring {
	atomic_uint head; /* the next to be written */
	atomic_uint tail; /* the next to be read */
	struct message slots[SLOTS];
};

static void die(const char *what)
{
	fprintf(stderr, "ring: ");
	perror(what);
	exit(EXIT_FAILURE);
}

static void wait_us(long us)
{
	const struct timespec time = { .tv_nsec = us * 1000 };

	nanosleep(&time, NULL);
}

static uint32_t sum(uint32_t number)
{
	uint32_t value = number + 1;

	for (int i = 0; i < 8; i++)
		value = (value ^ value >> 3) * 0x9e3779b1U;
	return value;
}

static void send_message(struct ring *ring, uint32_t number)
{
	unsigned int head = atomic_load(&ring->head);
	struct message *slot = &ring->slots[head % SLOTS];

	while (head - atomic_load(&ring->tail) == SLOTS)
		wait_us(200);
	atomic_store(&ring->head, head + 1);
	slot->number = number;
	slot->sum = sum(number);
}

static struct message receive_message(struct ring *ring)
{
	unsigned int tail = atomic_load(&ring->tail);
	struct message message;

	while (atomic_load(&ring->head) == tail)
		wait_us(200);
	message = ring->slots[tail % SLOTS];
	atomic_store(&ring->tail, tail + 1);
	return message;
}

static void produce(struct ring *ring)
{
	for (uint32_t i = 0; i < MESSAGES; i++) {
		wait_us(500);
		send_message(ring, i);
	}
}

static int consume(struct ring *ring)
{
	int status = EXIT_SUCCESS;

	for (uint32_t i = 0; i < MESSAGES; i++) {
		struct message message = receive_message(ring);

		if (message.number == i && message.sum == sum(i)) {
			printf("message %u\n", i);
		} else {
			printf("message %u is broken\n", i);
			status = EXIT_FAILURE;
		}
	}
	return status;
}

int main(void)
{
	struct ring *ring = mmap(NULL, sizeof(*ring), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t producer;
	int status;

	if (ring == MAP_FAILED)
		die("mmap");
	producer = fork();
	if (producer < 0)
		die("fork");
	if (!producer) {
		produce(ring);
		return EXIT_SUCCESS;
	}
	status = consume(ring);
	waitpid(producer, NULL, 0);
	return status;
}
