/* SPDX-License-Identifier: MIT */
/*
 * A place that the test stops at: the step of this call. Each file of the programs says in a
 * comment "at NAME" on which line that is, and the test looks for it.
 */
#ifndef MARK_H
#define MARK_H

#include <string.h>
#include <unistd.h>

#define MARK(name) ((void)!write(1, "at " name "\n", sizeof("at " name)))

#endif
