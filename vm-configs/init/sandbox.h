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

/*
 * Start the builder, with the terminal as its standard output and error. When
 * this returns, it runs, or could not be executed and has said so there.
 */
pid_t sandbox_start(const struct params *params, int terminal);

#endif
