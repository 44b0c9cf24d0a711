/* SPDX-License-Identifier: MIT */
/* The guest outside the sandbox: what init itself needs, and the job's layers. */
#ifndef MACHINE_H
#define MACHINE_H

#include "params.h"

/* Below init's root: the layers as LAYERS/0, LAYERS/1, …, and the builder's root. */
#define LAYERS "/layers"
#define SANDBOX "/sandbox"

/* Mount a root of its own for init, /dev and /proc, and fix what is inherited. */
void machine_prepare(void);

/* Let the kernel get done with what it has put off: to be called before the snapshot. */
void machine_settle(void);

/* Mount the layers, which must be attached. */
void machine_mount_layers(unsigned int count);

/* Mount one. */
void machine_mount_layer(unsigned int number);

void machine_set_clock(time_t epoch);
void machine_seed(struct bytes seed);

/* See how much is left for files; to be called now and then. */
void machine_watch_memory(void);

/* Say so on the channel of messages if there was not enough memory. */
void machine_report_memory(void);

#endif
