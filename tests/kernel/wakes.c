// SPDX-License-Identifier: MIT
/* A thread that waits, and the ways to wake it up. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static int ends[2];
static volatile int word, woken, second;

static void on_signal(int unused)
{
	(void)unused;
}

/* Until something is to be read, or the futex or a signal wakes it up, or for 5 ms. */
static void *waiting(void *how)
{
	struct timespec a_while = { .tv_nsec = 5000000 };
	char byte;

	second = gettid();
	if (!strcmp(how, "futex"))
		syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL, NULL, 0);
	else if (!strcmp(how, "signal"))
		pause();
	else if (!strcmp(how, "timer"))
		nanosleep(&a_while, NULL);
	else if (read(ends[0], &byte, 1) != 1)
		return NULL;
	woken = 1;
	return how;
}

/* Two sockets on the loopback device: what is sent to the first comes from the second. */
static int datagrams(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);

	ends[0] = socket(AF_INET, SOCK_DGRAM, 0);
	ends[1] = socket(AF_INET, SOCK_DGRAM, 0);
	CHECK(bind(ends[0], (void *)&address, size) == 0);
	CHECK(getsockname(ends[0], (void *)&address, &size) == 0);
	CHECK(connect(ends[1], (void *)&address, size) == 0);
	return 0;
}

int wakes(const char *how)
{
	pthread_t thread;
	void *result;

	signal(SIGUSR1, on_signal);
	CHECK(strcmp(how, "datagram") ? pipe(ends) == 0 : datagrams() == 0);
	CHECK(pthread_create(&thread, NULL, waiting, (void *)how) == 0);
	if (!strcmp(how, "timer")) {
		/* let it begin to wait, then run when its time is over */
		usleep(1000);
		while (!woken)
			;
	} else {
		usleep(10000);
		CHECK(!woken);
		if (!strcmp(how, "futex"))
			CHECK(syscall(SYS_futex, &word, FUTEX_WAKE, 1, NULL, NULL, 0) == 1);
		else if (!strcmp(how, "signal"))
			/* pthread_kill() takes a lock, which the thread waits for to end */
			CHECK(syscall(SYS_tgkill, getpid(), second, SIGUSR1) == 0);
		else
			CHECK(write(ends[1], "x", 1) == 1);
	}
	CHECK(pthread_join(thread, &result) == 0 && result == how);
	return 0;
}
