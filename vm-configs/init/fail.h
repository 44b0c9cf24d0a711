/* SPDX-License-Identifier: MIT */
/*
 * What happens when init cannot go on.
 *
 * device.c has the machine's version of these; a test brings its own, so that
 * the parts it looks at can be built without a machine.
 */
#ifndef FAIL_H
#define FAIL_H

/* Say why, in one line without a line feed, and never return. */
void fail(const char *format, ...)
	__attribute__((noreturn, format(printf, 1, 2)));

/* The same, and what errno says. */
void fail_errno(const char *format, ...)
	__attribute__((noreturn, format(printf, 1, 2)));

#endif
