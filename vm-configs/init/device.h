/* SPDX-License-Identifier: MIT */
/* /dev/rewind, the way out of the machine: docs/design.md, "/dev/rewind". */
#ifndef DEVICE_H
#define DEVICE_H

#include <stddef.h>
#include <sys/ioctl.h>

/*
 * The requests of docs/design.md. The kernel's uapi.h has the same: init is
 * built without the kernel's tree, so that neither rebuilds the other.
 */
#define REWIND_CHANNEL	_IO('R', 1)
#define REWIND_READY	_IO('R', 2)
#define REWIND_ATTACH	_IO('R', 3)
#define REWIND_CORES	_IO('R', 4)
#define REWIND_START	_IO('R', 5)
#define REWIND_END	_IO('R', 6)
#define REWIND_INPUT	_IO('R', 7)
#define REWIND_TERMINAL _IO('R', 8)

enum channel {
	CHANNEL_LOG = 0,
	CHANNEL_RESULT = 1,
	CHANNEL_MESSAGES = 2,
	CHANNEL_SHELL_OUTPUT = 3, /* of a shell in a fork */
	CHANNEL_SHELL_ERRORS = 4,
	CHANNEL_SHELL_RESULT = 5,
	CHANNEL_OUTPUT = 16, /* and one more for each further output */
	CHANNEL_LIMIT = 64, /* the device has no more */
};

/* Open the device; it closes itself in a program that is started. */
void device_open(void);

/* Open it for what the user of a shell types; the descriptor does not block. */
int device_open_input(void);

/* Make a request; fails, naming what was asked, if the driver refuses. */
void device_request(unsigned long request, unsigned long argument, const char *what);

/* Append to a channel. */
void device_send(unsigned int channel, const void *data, size_t size);

/* Append a line, made as by printf, to a channel. */
void device_line(unsigned int channel, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The whole of the parameters, in memory of their own; each call reads them anew. */
char *device_parameters(size_t *size);

/* Stop the machine. */
void device_end(void) __attribute__((noreturn));

/* From now on fail() sends its line to this channel, and not with the job's result. */
void device_fail_on(unsigned int channel);

/*
 * From now on fail() writes to this descriptor and exits: for the process that
 * becomes the builder, whose parent reads the other end.
 */
void device_fail_to(int fd);

#endif
