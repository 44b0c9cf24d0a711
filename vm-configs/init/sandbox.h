/* SPDX-License-Identifier: MIT */
/*
 * The world a builder lives in, which is that of Nix's sandbox on Linux: as
 * seen in builds under Nix 2.26, run by root without build users, item by item.
 * docs/fidelity.md lists what differs and why.
 */
#ifndef SANDBOX_H
#define SANDBOX_H

#include <sys/types.h>

#include "params.h"

/* Make the builder's root directory, with the job's files in its /build. */
void sandbox_prepare(const struct params *params);

/* Make the root directory of a job that brings its own: layer 0, and it can write to it. */
void sandbox_prepare_root(void);

/*
 * The process that is to become the builder, in its namespaces (but that of
 * mounts), and waiting. It needs to know nothing of the job, and it is a good part
 * of the work: to make it before the boot snapshot is taken saves each run that.
 */
struct builder {
	pid_t pid;
	int go; /* a byte lets it go on */
	int said; /* it says a byte when it waits, or what went wrong */
};

/* Make it. The terminal will be its standard output and error. */
struct builder sandbox_fork(int terminal);

/*
 * The same for a job with a root of its own, which has all users there and is
 * number 0 of them, as in a container: docs/roots.md says what differs.
 */
struct builder sandbox_fork_root(int terminal);

/* End one that waits, and was not started. */
void sandbox_drop(const struct builder *builder);

/*
 * Start the builder: it reads the parameters by itself. When this returns, it
 * runs, or could not be executed and has said so on its terminal.
 */
void sandbox_start(const struct builder *builder);

#endif
