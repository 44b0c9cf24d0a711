// SPDX-License-Identifier: MIT
/*
 * Preloaded into a recorder and its QEMU: the host's clock is 1,000 days ahead and
 * runs at twice its speed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

#define AHEAD (1000L * 86400)

int clock_gettime(clockid_t clock, struct timespec *ts)
{
	static int (*real)(clockid_t, struct timespec *);
	int ret;

	if (!real)
		real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	ret = real(clock, ts);
	if (ret == 0 && clock == CLOCK_REALTIME) {
		ts->tv_sec += AHEAD;
	} else if (ret == 0 && clock == CLOCK_MONOTONIC) {
		ts->tv_nsec *= 2;
		ts->tv_sec = ts->tv_sec * 2 + ts->tv_nsec / 1000000000;
		ts->tv_nsec %= 1000000000;
	}
	return ret;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
	struct timespec ts;

	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &ts))
		return -1;
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *t)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_REALTIME, &ts))
		return -1;
	if (t)
		*t = ts.tv_sec;
	return ts.tv_sec;
}
