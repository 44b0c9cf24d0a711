/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * /dev/rewind, as init uses it. read() gives the parameters of the job, write()
 * sends to the channel of the open file; the requests take their argument by
 * value.
 */
#ifndef REWIND_UAPI_H
#define REWIND_UAPI_H

#include <linux/ioctl.h>

/* what this open file's write() sends to: a channel, 0 to 255 */
#define REWIND_CHANNEL	_IO('R', 1)
/* the boot is over, no job is known yet */
#define REWIND_READY	_IO('R', 2)
/* map the layers into their windows */
#define REWIND_ATTACH	_IO('R', 3)
/* how many CPUs programs see: 1 to 64 */
#define REWIND_CORES	_IO('R', 4)
/* the caller's PID namespace is the job, and the trace begins */
#define REWIND_START	_IO('R', 5)
/* the job is finished; does not return */
#define REWIND_END	_IO('R', 6)
/* this open file's read() gives what the user of a shell types, and can be polled */
#define REWIND_INPUT	_IO('R', 7)
/* the user's terminal is the caller's controlling one */
#define REWIND_TERMINAL	_IO('R', 8)

#define REWIND_CHANNEL_LOG	0
#define REWIND_CHANNEL_RESULT	1
#define REWIND_CHANNEL_INIT	2
#define REWIND_CHANNEL_SHELL	3	/* its output, its errors, how it ended */
#define REWIND_CHANNEL_OUTPUT	16	/* of output 0; the others follow */

#endif
