// SPDX-License-Identifier: MIT
/* The CPUs a program sees, by all the ways it may ask. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static int lines_with(const char *path, const char *start)
{
	char line[4096];
	FILE *f = fopen(path, "r");
	int n = 0;

	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f))
		n += !strncmp(line, start, strlen(start));
	fclose(f);
	return n;
}

static void *affinity_of_thread(void *count)
{
	cpu_set_t set;

	*(int *)count = pthread_getaffinity_np(pthread_self(), sizeof(set), &set) ?
			-1 : CPU_COUNT(&set);
	return NULL;
}

int cpus(int expected)
{
	cpu_set_t set, last, all;
	unsigned long small[1];
	int status, inherited, i;
	pthread_t thread;
	pid_t pid;

	/* the raw call, as musl uses it, and too small a buffer */
	CHECK(syscall(SYS_sched_getaffinity, 0, sizeof(small), small) == 8);
	CHECK(__builtin_popcountl(small[0]) == expected);
	CHECK(syscall(SYS_sched_getaffinity, 0, 4, small) == -1 && errno == EINVAL);
	CHECK(sched_getaffinity(0, sizeof(all), &all) == 0);
	CHECK(CPU_COUNT(&all) == expected);
	CHECK(sched_getaffinity(4711, sizeof(set), &set) == -1 && errno == ESRCH);
	CHECK(sysconf(_SC_NPROCESSORS_ONLN) == expected);
	CHECK(get_nprocs() == expected);
	CHECK(sysconf(_SC_NPROCESSORS_CONF) == expected);
	CHECK(lines_with("/proc/cpuinfo", "processor\t:") == expected);
	CHECK(lines_with("/proc/stat", "cpu") == expected + 1);

	/* a thread on each of them; and what a thread inherits */
	for (i = 0; i < expected; i++) {
		CPU_ZERO(&set);
		CPU_SET(i, &set);
		CHECK(sched_setaffinity(0, sizeof(set), &set) == 0);
		CHECK(sched_getaffinity(0, sizeof(last), &last) == 0);
		CHECK(CPU_EQUAL(&set, &last));
	}
	CHECK(pthread_create(&thread, NULL, affinity_of_thread, &inherited) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(inherited == 1);
	pid = fork();
	if (pid == 0)
		_exit(sched_getaffinity(getppid(), sizeof(set), &set) ||
		      !CPU_EQUAL(&set, &last) ||
		      sched_getaffinity(0, sizeof(set), &set) || !CPU_EQUAL(&set, &last));
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);

	/* CPUs that are not there do not count; none at all is refused */
	CPU_ZERO(&set);
	CPU_SET(expected, &set);
	CHECK(sched_setaffinity(0, sizeof(set), &set) == -1 && errno == EINVAL);
	CPU_SET(0, &set);
	CHECK(sched_setaffinity(0, sizeof(set), &set) == 0);
	CHECK(sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) == 1);
	CHECK(sched_setaffinity(0, sizeof(all), &all) == 0);
	CHECK(get_nprocs() == expected);
	return 0;
}
