// SPDX-License-Identifier: MIT
/*
 * bank: two tellers pay into one account, and neither locks it.
 *
 * A teller reads the balance, prints a receipt and stores the new balance.
 * When the other teller is done in between, what that one paid in is lost.
 * The exit status is 0 if the balance is right at the end, 1 if it is not.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPENING 150L

struct teller {
	pthread_t thread;
	int number;
	long amount;
};

static long balance = OPENING;

static void deposit(const struct teller *teller)
{
	char receipt[64];
	long seen = balance;
	int length = snprintf(receipt, sizeof(receipt), "teller %d: %ld + %ld\n",
			      teller->number, seen, teller->amount);

	/* No stdio: its lock would be one of the things the tellers meet at. */
	if (write(STDOUT_FILENO, receipt, length) != length) {
		perror("bank: receipt");
		exit(EXIT_FAILURE);
	}
	balance = seen + teller->amount;
}

static void *work(void *teller)
{
	deposit(teller);
	return NULL;
}

static void check(int error, const char *what)
{
	if (error) {
		fprintf(stderr, "bank: %s: %s\n", what, strerror(error));
		exit(EXIT_FAILURE);
	}
}

int main(void)
{
	struct teller tellers[] = {
		{ .number = 1, .amount = 10 },
		{ .number = 2, .amount = 50 },
	};
	const size_t count = sizeof(tellers) / sizeof(tellers[0]);
	long expected = OPENING;

	for (size_t i = 0; i < count; i++) {
		expected += tellers[i].amount;
		check(pthread_create(&tellers[i].thread, NULL, work, &tellers[i]), "thread");
	}
	for (size_t i = 0; i < count; i++)
		check(pthread_join(tellers[i].thread, NULL), "join");

	printf("balance %ld, expected %ld\n", balance, expected);
	return balance == expected ? EXIT_SUCCESS : EXIT_FAILURE;
}
