// SPDX-License-Identifier: MIT
/*
 * Calls that the compiler inlines, and a library's that calls back. Built as a PIE, without one,
 * statically, and stripped.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "mark.h"
#ifdef PART
#include "part.h"
#endif

static volatile int sink;

static inline __attribute__((always_inline)) void innermost(int value)
{
	sink = value;
	MARK("inlined"); /* at inlined */
	sink = value + 1;
}

static inline __attribute__((always_inline)) void inner(int value)
{
	innermost(value * 2); /* calls: inner */
}

__attribute__((noinline)) int outer(int value)
{
	inner(value + 1); /* calls: outer */
	return sink;
}

static void handler(int number)
{
	sink = number;
	MARK("handler"); /* at handler */
	sink = number + 1;
}

__attribute__((noinline)) static int interrupted(int value)
{
	raise(SIGUSR1); /* calls: interrupted */
	return sink + value;
}

int main(void)
{
	int value;

	signal(SIGUSR1, handler);
#ifdef PART
	value = part_apply(outer, 1); /* calls: main */
#else
	value = outer(1); /* calls: main without a library */
#endif
	value += interrupted(value); /* calls: main interrupted */
	return value == 0;
}
