/* SPDX-License-Identifier: MIT */
/*
 * A shell in a fork of a run: docs/design.md, "A shell in a fork". The kernel's
 * driver starts another process of init for it; init itself goes on as it was.
 */
#ifndef SHELL_H
#define SHELL_H

void shell_main(void) __attribute__((noreturn));

#endif
