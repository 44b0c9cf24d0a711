// SPDX-License-Identifier: MIT
/*
 * The first process of the machine: gives a job the world that Nix would give
 * it, runs it, and sends out what became of it. docs/design.md says how it
 * talks to the device.
 *
 * Everything here is a function of the parameters and the layers. There is one
 * thread.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "device.h"
#include "fail.h"
#include "io.h"
#include "machine.h"
#include "nar.h"
#include "params.h"
#include "sandbox.h"
#include "shell.h"

/* The two ends of the terminal that the builder writes to. */
struct terminal {
	int master;
	int slave;
};

static struct terminal open_terminal(void)
{
	struct terminal t;
	struct termios mode;

	t.master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	t.slave = open_slave(t.master);
	if (t.slave < 0 || tcgetattr(t.slave, &mode) < 0)
		fail_errno("cannot open a terminal");
	/* Raw, or each line would end in a carriage return. */
	cfmakeraw(&mode);
	if (tcsetattr(t.slave, TCSANOW, &mode) < 0)
		fail_errno("cannot set the terminal's mode");
	return t;
}

/*
 * Sends what is written to the terminal until nobody has it open any more, and
 * all of it was read. That is when Nix takes the builder to be done.
 */
static void send_log(int master)
{
	static char data[1 << 16];

	for (;;) {
		ssize_t n = read(master, data, sizeof(data));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EIO) /* EIO: the other end is closed */
			fail_errno("cannot read the builder's output");
		if (n <= 0)
			break;
		device_send(CHANNEL_LOG, data, n);
		machine_watch_memory();
	}
	close(master);
}

/*
 * How long a builder may take to end after it has closed its output, ms of
 * guest time. The last that a program of coreutils does is to close stdout and
 * stderr; Nix, on another CPU, is too late to kill one between that and its
 * exit, and init, woken by the close on the only CPU, never would be.
 */
#define END_MS 10

/*
 * A builder that has closed its output and goes on is killed, as Nix does it;
 * one that has ended is not affected. All else in its PID namespace goes with it.
 */
static int end_builder(pid_t pid)
{
	struct pollfd end = {
		.fd = syscall(SYS_pidfd_open, pid, 0),
		.events = POLLIN,
	};
	int status;

	if (end.fd < 0 || poll(&end, 1, END_MS) < 0)
		fail_errno("cannot wait for the builder");
	close(end.fd);
	if (kill(pid, SIGKILL) < 0)
		fail_errno("cannot kill the builder");
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			fail_errno("cannot wait for the builder");
	return status;
}

static void send_output_data(void *context, const void *data, size_t size)
{
	device_send(*(const unsigned int *)context, data, size);
}

/* Sends an output's NAR; false if there is no such output. */
static bool send_output(const struct output *output, unsigned int channel)
{
	char path[PATH_MAX];
	struct stat st;

	if (snprintf(path, sizeof(path), SANDBOX "%s", output->path) >= (int)sizeof(path))
		fail("output %s has too long a path", output->name);
	if (lstat(path, &st) < 0) {
		if (errno == ENOENT || errno == ENOTDIR)
			return false;
		fail_errno("output %s", output->path);
	}
	/* Nix's own words, and its own rule. */
	if (!S_ISLNK(st.st_mode) && st.st_mode & (S_IWGRP | S_IWOTH))
		fail("suspicious ownership or permission on '%s' for output '%s'; "
		     "rejecting this build output", output->path, output->name);
	nar_write(path, output->path, send_output_data, &channel);
	return true;
}

/*
 * The outputs go first: what is on the channel of results then says that all
 * else is complete.
 */
static void send_result(const struct params *params, int status)
{
	bool made[CHANNEL_LIMIT - CHANNEL_OUTPUT];

	if (WIFSIGNALED(status)) {
		device_line(CHANNEL_RESULT, "signaled %d", WTERMSIG(status));
		return;
	}
	if (WEXITSTATUS(status) != 0) {
		device_line(CHANNEL_RESULT, "exited %d", WEXITSTATUS(status));
		return;
	}
	for (size_t i = 0; i < params->output_count; i++)
		made[i] = send_output(&params->outputs[i], CHANNEL_OUTPUT + i);
	device_line(CHANNEL_RESULT, "exited 0");
	for (size_t i = 0; i < params->output_count; i++)
		if (!made[i])
			device_line(CHANNEL_RESULT, "missing %s", params->outputs[i].name);
}

int main(void)
{
	struct terminal terminal;
	struct builder builder;
	struct params params;
	size_t size;
	char *data;

	if (getpid() != 1)
		shell_main();
	/* What costs and is the same for every job: it is in the boot snapshot. */
	machine_prepare();
	device_open();
	terminal = open_terminal();
	builder = sandbox_fork(terminal.slave);
	close(terminal.slave);
	machine_settle();
	device_request(REWIND_READY, 0, "ready");

	device_request(REWIND_ATTACH, 0, "attach");
	data = device_parameters(&size);
	params = parse_params(data, size);
	machine_set_clock(params.epoch);
	machine_seed(params.seed);
	device_request(REWIND_CORES, params.cores, "cores");
	machine_mount_layers(params.layers);
	/* With the job's clock: what is made here shows when. */
	if (params.root) {
		/* Who it is was settled when the builder was made, and it is to be somebody else. */
		sandbox_drop(&builder);
		sandbox_prepare_root();
		terminal.slave = open_slave(terminal.master);
		if (terminal.slave < 0)
			fail_errno("cannot open a terminal");
		builder = sandbox_fork_root(terminal.slave);
		close(terminal.slave);
	} else {
		sandbox_prepare(&params);
	}

	sandbox_start(&builder);
	send_log(terminal.master);
	send_result(&params, end_builder(builder.pid));
	machine_report_memory();
	device_end();
}
