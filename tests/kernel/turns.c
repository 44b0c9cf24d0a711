// SPDX-License-Identifier: MIT
/* Threads that compete for the CPU, for perturbations. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static volatile long counter[2];
static volatile int done;

static void *count(void *mine)
{
	while (!done)
		++*(volatile long *)mine;
	return NULL;
}

/* One turn and a part of another. */
static void *count_a_while(void *mine)
{
	while (*(volatile long *)mine < 1000000)
		++*(volatile long *)mine;
	return NULL;
}

/* How many threads; with none, the first one counts itself; "short": two, one not for long. */
int turns(const char *how)
{
	int is_short = !strcmp(how, "short"), threads = is_short ? 2 : atoi(how), i;
	struct timespec begin, end;
	pthread_t thread[2];

	CHECK(threads <= 2);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (i = 0; i < threads; i++)
		CHECK(pthread_create(&thread[i], NULL, i && is_short ? count_a_while : count,
				     (void *)&counter[i]) == 0);
	/* a record to count from, and then nothing but the threads */
	(void)getppid();
	if (threads)
		usleep(50000);
	else
		for (i = 0; i < 1000000; i++)
			counter[0]++;
	done = 1;
	for (i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%lld ns\n", (end.tv_sec - begin.tv_sec) * 1000000000LL +
	       end.tv_nsec - begin.tv_nsec);
	return 0;
}
