/* SPDX-License-Identifier: MIT */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Inside a function that returns int: leave with 1 and say where, unless true. */
#define CHECK(what)								\
	do {									\
		if (!(what)) {							\
			printf("%s:%d: %s (%s)\n", __func__, __LINE__, #what,	\
			       strerror(errno));				\
			return 1;						\
		}								\
	} while (0)

/* Every feature that tests of packages use; the exit status is how many fail. */
int features(void);

/* The CPUs a program sees, by all the ways it may ask. */
int cpus(int expected);

/* Ways to wait: for good, or for a long time. By name. */
int wait_by(const char *how);

/* Threads that compete for the CPU, for perturbations. */
int turns(const char *how);

/* A thread that waits, woken up in a way that has a name. */
int wakes(const char *how);

/* Takes all the memory there is. */
int memory_hog(void);

/* System calls whose records are known. */
int calls(void);

#endif
