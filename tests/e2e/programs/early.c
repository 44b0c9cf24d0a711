// SPDX-License-Identifier: MIT
/*
 * early: a builder that looks for its thread's result before it is there. It
 * fails, unless something holds the first thread up.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static volatile int result;
static volatile unsigned int mind;

static void *work(void *unused)
{
	usleep(50);
	result = 1;
	return unused;
}

int main(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, work, NULL))
		return 3;
	/* Without a system call, but for a while. */
	for (int i = 0; i < 2000; i++)
		mind = 3 * mind + 1;
	if (!result)
		return 1;
	return creat(getenv("out"), 0644) < 0 ? 2 : 0;
}
