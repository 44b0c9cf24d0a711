// SPDX-License-Identifier: MIT
/*
 * The first process of a machine that tests the kernel and its driver. It does
 * with the device what the real init does, and nothing else: no layers, no
 * sandbox. The parameters are those of docs/design.md; `cores` and `arg` are
 * used, and what is run is this file system's /check.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <linux/random.h>

#include "uapi.h"

static int device;

static void die(const char *what)
{
	dprintf(device, "init: %s: %s\n", what, strerror(errno));
	reboot(RB_AUTOBOOT);
}

static void request(unsigned long number, unsigned long argument)
{
	if (ioctl(device, number, argument) < 0)
		die("ioctl");
}

static void mount_on(const char *path, const char *type)
{
	mkdir(path, 0755);
	if (mount("none", path, type, 0, NULL) < 0)
		die(path);
}

static void loopback_up(void)
{
	struct ifreq ifr = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (s < 0 || ioctl(s, SIOCSIFFLAGS, &ifr) < 0)
		die("lo");
	close(s);
}

static void seed(void)
{
	struct { struct rand_pool_info info; char bytes[64]; } pool = {
		.info = { .entropy_count = 512, .buf_size = 64 },
	};
	int fd = open("/dev/urandom", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || ioctl(fd, RNDADDENTROPY, &pool) < 0)
		die("/dev/urandom");
	close(fd);
}

/* All of the parameters, by reads of an odd size. */
static char *parameters(size_t *size)
{
	size_t room = 1 << 20;
	char *data = malloc(room);
	ssize_t n;

	*size = 0;
	while ((n = read(device, data + *size, room - *size < 10007 ? room - *size : 10007)) > 0)
		*size += n;
	if (n < 0)
		die("parameters");
	return data;
}

int main(void)
{
	char *argv[64] = { "check" }, *envp[] = { "PATH=/bin", NULL };
	unsigned long cores = 1;
	char *data, *at, line[64];
	int argc = 1, status;
	size_t size;
	pid_t pid;

	mount_on("/dev", "devtmpfs");
	/* the kernel may have had no console to open */
	while (open("/dev/null", O_RDWR) < 2)
		;
	device = open("/dev/rewind", O_RDWR | O_CLOEXEC);
	if (device < 0) {
		/* this is the test that the kernel runs without it */
		static const char note[] = "<3>init: without a device\n";
		int kmsg = open("/dev/kmsg", O_WRONLY);

		if (kmsg < 0 || write(kmsg, note, sizeof(note) - 1) < 0)
			return 1;
		reboot(RB_AUTOBOOT);
	}
	mount_on("/proc", "proc");
	mount_on("/sys", "sysfs");
	mount_on("/tmp", "tmpfs");
	mount_on("/dev/pts", "devpts");
	mkdir("/dev/shm", 01777);
	mount_on("/dev/shm", "tmpfs");
	mkdir("/dev/mqueue", 01777);
	mount_on("/dev/mqueue", "mqueue");
	loopback_up();
	request(REWIND_READY, 0);
	request(REWIND_ATTACH, 0);
	seed();

	data = parameters(&size);
	for (at = data; at < data + size;) {
		char key[16];
		size_t length;
		int used;

		if (sscanf(at, "%15s %zu%n", key, &length, &used) != 2)
			die("malformed parameters");
		at += used + 1;
		at[length] = 0;
		if (!strcmp(key, "cores"))
			cores = strtoul(at, NULL, 10);
		if (!strcmp(key, "arg") && argc < 63)
			argv[argc++] = at;
		at += length + 1;
	}
	/* the end of the first process is the kernel's */
	if (argc > 1 && !strcmp(argv[1], "panic"))
		return 1;
	request(REWIND_CORES, cores);

	pid = syscall(SYS_clone, SIGCHLD | CLONE_NEWPID | CLONE_NEWNS, 0, 0, 0, 0);
	if (pid < 0)
		die("clone");
	if (pid == 0) {
		/* the log is what the job writes: the device itself */
		int log = open("/dev/rewind", O_WRONLY);

		if (log < 0 || mount("none", "/proc", "proc", 0, NULL) < 0)
			die("proc");
		dup2(log, 1);
		dup2(log, 2);
		close(log);
		request(REWIND_START, 0);
		execve("/check", argv, envp);
		die("/check");
	}
	if (waitpid(pid, &status, 0) != pid)
		die("waitpid");
	request(REWIND_CHANNEL, REWIND_CHANNEL_RESULT);
	if (WIFEXITED(status))
		snprintf(line, sizeof(line), "exited %d\n", WEXITSTATUS(status));
	else
		snprintf(line, sizeof(line), "signaled %d\n", WTERMSIG(status));
	if (write(device, line, strlen(line)) < 0)
		die("result");
	request(REWIND_END, 0);
	die("END came back");
	return 1;
}
