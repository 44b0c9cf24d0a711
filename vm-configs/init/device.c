// SPDX-License-Identifier: MIT
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/reboot.h>
#include <unistd.h>

#include "device.h"
#include "fail.h"
#include "io.h"

/* More than any derivation has: Nix itself keeps a whole .drv in memory. */
#define PARAMETERS_MAX (64UL << 20)

static int device = -1;
static int fail_fd = -1;
static unsigned int fail_channel = CHANNEL_RESULT;

void device_open(void)
{
	device = open("/dev/rewind", O_RDWR | O_CLOEXEC);
	if (device < 0)
		fail_errno("cannot open /dev/rewind");
}

int device_open_input(void)
{
	int fd = open("/dev/rewind", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 || ioctl(fd, REWIND_INPUT, 0) < 0)
		fail_errno("/dev/rewind: input");
	return fd;
}

void device_request(unsigned long request, unsigned long argument, const char *what)
{
	if (ioctl(device, request, argument) < 0)
		fail_errno("/dev/rewind: %s", what);
}

void device_send(unsigned int channel, const void *data, size_t size)
{
	static unsigned int current = CHANNEL_LIMIT;

	if (channel != current) {
		device_request(REWIND_CHANNEL, channel, "channel");
		current = channel;
	}
	if (write_all(device, data, size) < 0)
		fail_errno("/dev/rewind: write to channel %u", channel);
}

/*
 * A line is one line whatever the names in it: what could end it, or do
 * something to a terminal, becomes a question mark.
 */
static void send_line(unsigned int channel, char *line)
{
	size_t size = strlen(line);

	for (size_t i = 0; i < size; i++)
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			line[i] = '?';
	line[size] = '\n';
	device_send(channel, line, size + 1);
}

void device_line(unsigned int channel, const char *format, ...)
{
	char line[8192];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	send_line(channel, line);
}

char *device_parameters(size_t *size)
{
	size_t room = 1 << 16;
	char *data = NULL;
	size_t used = 0;

	for (;;) {
		ssize_t n;

		if (!data || used == room) {
			room *= 2;
			if (room > PARAMETERS_MAX)
				fail("parameters: more than %lu bytes", PARAMETERS_MAX);
			data = realloc(data, room);
			if (!data)
				fail_errno("parameters");
		}
		n = pread(device, data + used, room - used, used);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			fail_errno("/dev/rewind: read parameters");
		if (n == 0)
			break;
		used += n;
	}
	*size = used;
	return data;
}

void device_end(void)
{
	ioctl(device, REWIND_END, 0);
	/* The device stops the CPU within that request. Without it, stop in any other way. */
	reboot(RB_AUTOBOOT);
	for (;;)
		pause();
}

void device_fail_on(unsigned int channel)
{
	fail_channel = channel;
}

void device_fail_to(int fd)
{
	fail_fd = fd;
}

static void __attribute__((noreturn)) vfail(int error, const char *format, va_list args)
{
	static bool failing;
	char line[8192] = "error ";
	size_t used = strlen(line);

	used += vsnprintf(line + used, sizeof(line) - used, format, args);
	if (error && used < sizeof(line))
		snprintf(line + used, sizeof(line) - used, ": %s", strerror(error));
	if (fail_fd >= 0) {
		const char *text = line + strlen("error ");

		/* If the parent is gone, so is the machine: nobody is left to tell. */
		if (write_all(fail_fd, text, strlen(text)) < 0)
			_exit(2);
		_exit(1);
	}
	/* With no device, or one that takes nothing, the kernel's log is what is left. */
	if (device < 0 || failing) {
		int log = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);

		dprintf(log < 0 ? STDERR_FILENO : log, "<3>init: %s\n", line);
		device_end();
	}
	failing = true;
	send_line(fail_channel, line);
	device_end();
}

void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfail(0, format, args);
}

void fail_errno(const char *format, ...)
{
	int error = errno;
	va_list args;

	va_start(args, format);
	vfail(error, format, args);
}
