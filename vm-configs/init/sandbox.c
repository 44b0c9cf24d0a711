// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device.h"
#include "fail.h"
#include "io.h"
#include "machine.h"
#include "sandbox.h"
#include "seccomp.h"

#define UID "1000"
#define GID "100"

/* Where init's root is while the builder's is being furnished. */
#define OLD_ROOT "/real-root"

static void make_directory(const char *path, mode_t mode)
{
	/* Twice, because mkdir leaves out what the umask says and the sticky bit. */
	if (mkdir(path, mode) < 0 || chmod(path, mode) < 0)
		fail_errno("sandbox: cannot make %s", path);
}

static void make_link(const char *target, const char *path)
{
	if (symlink(target, path) < 0)
		fail_errno("sandbox: cannot make %s", path);
}

static void put_text(const char *directory, const char *name, const char *text)
{
	new_file(directory, name, text, strlen(text));
}

void sandbox_prepare(const struct params *params)
{
	if (chmod(SANDBOX, 0750) < 0)
		fail_errno("sandbox: " SANDBOX);
	make_directory(SANDBOX "/tmp", 01777);
	make_directory(SANDBOX "/etc", 0755);
	put_text(SANDBOX "/etc", "group", "root:x:0:\n"
					  "nixbld:!:" GID ":\n"
					  "nogroup:x:65534:\n");
	put_text(SANDBOX "/etc", "hosts", "127.0.0.1 localhost\n"
					  "::1 localhost\n");
	put_text(SANDBOX "/etc", "passwd",
		 "root:x:0:0:Nix build user:/build:/noshell\n"
		 "nixbld:x:" UID ":" GID ":Nix build user:/build:/noshell\n"
		 "nobody:x:65534:65534:Nobody:/:/noshell\n");
	if (chmod(SANDBOX "/etc", 0555) < 0)
		fail_errno("sandbox: /etc");
	make_directory(SANDBOX "/nix", 0755);
	make_directory(SANDBOX "/nix/store", 01775);
	make_directory(SANDBOX "/bin", 0755);
	put_text(SANDBOX "/bin", "sh", "");
	make_directory(SANDBOX "/build", 0700);
	make_directory(SANDBOX "/dev", 0755);
	make_directory(SANDBOX "/dev/shm", 0755);
	make_directory(SANDBOX "/dev/pts", 0755);
	make_link("/proc/self/fd", SANDBOX "/dev/fd");
	make_link("/proc/self/fd/0", SANDBOX "/dev/stdin");
	make_link("/proc/self/fd/1", SANDBOX "/dev/stdout");
	make_link("/proc/self/fd/2", SANDBOX "/dev/stderr");
	make_link("/dev/pts/ptmx", SANDBOX "/dev/ptmx");
	put_text(SANDBOX "/dev", "full", "");
	put_text(SANDBOX "/dev", "null", "");
	put_text(SANDBOX "/dev", "random", "");
	put_text(SANDBOX "/dev", "tty", "");
	put_text(SANDBOX "/dev", "urandom", "");
	put_text(SANDBOX "/dev", "zero", "");
	make_directory(SANDBOX "/proc", 0755);
	for (size_t i = 0; i < params->file_count; i++) {
		const struct file *file = &params->files[i];

		new_file(SANDBOX "/build", file->name, file->content.data, file->content.size);
	}
}

/* All below runs in the process that becomes the builder. */

static void set_up_network(void)
{
	struct ifreq request = { .ifr_name = "lo" };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	request.ifr_flags = IFF_UP | IFF_LOOPBACK | IFF_RUNNING;
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0)
		fail_errno("sandbox: loopback interface");
	close(fd);
}

static void set_up_names(void)
{
	static const char host[] = "localhost", domain[] = "(none)";

	if (sethostname(host, strlen(host)) < 0 || setdomainname(domain, strlen(domain)) < 0)
		fail_errno("sandbox: host name");
}

static void bind_mount(const char *source, const char *target)
{
	if (mount(source, target, NULL, MS_BIND, NULL) < 0)
		fail_errno("sandbox: cannot bind %s", target);
}

static void change_root(void)
{
	bind_mount(SANDBOX, SANDBOX);
	if (chdir(SANDBOX) < 0)
		fail_errno("sandbox: " SANDBOX);
	make_directory(&OLD_ROOT[1], 0500);
	if (syscall(SYS_pivot_root, ".", &OLD_ROOT[1]) < 0 || chroot(".") < 0)
		fail_errno("sandbox: cannot change the root directory");
}

/* A path of the store, and the layer it is taken from. */
struct input {
	char *name;
	unsigned int layer;
};

static int by_name_then_highest(const void *left, const void *right)
{
	const struct input *a = left, *b = right;
	int order = strcmp(a->name, b->name);

	return order ? order : (int)b->layer - (int)a->layer;
}

static void bind_input(const struct input *input)
{
	char source[PATH_MAX], target[PATH_MAX], link[PATH_MAX];
	struct stat st;
	ssize_t n;

	snprintf(source, sizeof(source), OLD_ROOT LAYERS "/%u/nix/store/%s", input->layer,
		 input->name);
	snprintf(target, sizeof(target), "/nix/store/%s", input->name);
	if (lstat(source, &st) < 0)
		fail_errno("sandbox: layer %u: %s", input->layer, target);
	switch (st.st_mode & S_IFMT) {
	case S_IFDIR:
		make_directory(target, 0755);
		bind_mount(source, target);
		break;
	case S_IFLNK:
		/* A link cannot be mounted: it is copied, its time as well. */
		n = readlink(source, link, sizeof(link) - 1);
		if (n < 0)
			fail_errno("sandbox: %s", target);
		link[n] = 0;
		make_link(link, target);
		if (utimensat(AT_FDCWD, target,
			      (const struct timespec[]){ st.st_atim, st.st_mtim },
			      AT_SYMLINK_NOFOLLOW) < 0)
			fail_errno("sandbox: %s", target);
		break;
	default:
		put_text("/nix/store", input->name, "");
		bind_mount(source, target);
	}
}

/*
 * Every input is mounted by itself, as Nix does it. An overlay of the layers'
 * stores would be fewer mounts; but then a hard link from an input to an output
 * could be made (Nix: EXDEV), inputs could be changed, and each of the job's
 * look-ups and reads of an input would pay for the overlay.
 */
static void bind_store(unsigned int layers)
{
	struct input *inputs = NULL;
	size_t count = 0;

	bind_mount("/nix/store", "/nix/store");
	/* Nix needs it shared to add inputs while it builds; it shows in mountinfo. */
	if (mount(NULL, "/nix/store", NULL, MS_SHARED, NULL) < 0)
		fail_errno("sandbox: /nix/store");
	for (unsigned int i = 0; i < layers; i++) {
		char path[PATH_MAX];
		struct names names;
		int fd;

		snprintf(path, sizeof(path), OLD_ROOT LAYERS "/%u/nix/store", i);
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			fail_errno("sandbox: layer %u: /nix/store", i);
		names = list_directory(fd);
		/* The names stay: this process is about to become another. */
		for (size_t j = 0; j < names.count; j++) {
			inputs = must_allocate(inputs, count + 1, sizeof(*inputs));
			inputs[count++] = (struct input){ names.name[j], i };
		}
	}
	if (!inputs)
		fail("sandbox: the layers' /nix/store is empty");
	qsort(inputs, count, sizeof(*inputs), by_name_then_highest);
	for (size_t i = 0; i < count; i++)
		if (!i || strcmp(inputs[i].name, inputs[i - 1].name))
			bind_input(&inputs[i]);
}

static void mount_rest(const char *shell)
{
	static const char *const devices[] = { "full", "null", "random", "tty", "urandom", "zero" };

	bind_mount(shell, "/bin/sh");
	bind_mount("/build", "/build");
	for (size_t i = 0; i < ARRAY_SIZE(devices); i++) {
		char source[64], target[64];

		snprintf(source, sizeof(source), OLD_ROOT "/dev/%s", devices[i]);
		snprintf(target, sizeof(target), "/dev/%s", devices[i]);
		bind_mount(source, target);
	}
	if (mount("none", "/proc", "proc", 0, NULL) < 0)
		fail_errno("sandbox: /proc");
	if (mount("none", "/dev/shm", "tmpfs", 0, "size=50%") < 0)
		fail_errno("sandbox: /dev/shm");
	if (mount("none", "/dev/pts", "devpts", 0, "newinstance,mode=0620") < 0 ||
	    chmod("/dev/pts/ptmx", 0666) < 0)
		fail_errno("sandbox: /dev/pts");
	if (umount2(OLD_ROOT, MNT_DETACH) < 0 || rmdir(OLD_ROOT) < 0)
		fail_errno("sandbox: cannot leave the old root directory");
}

static void set_up_descriptors(int terminal)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(terminal, STDOUT_FILENO) < 0 ||
	    dup2(terminal, STDERR_FILENO) < 0)
		fail_errno("sandbox: standard input and output");
}

static void set_up_process(void)
{
	/* A session of its own, without a controlling terminal. */
	if (setsid() < 0)
		fail_errno("sandbox: session");
	if (setgid(atoi(GID)) < 0 || setuid(atoi(UID)) < 0)
		fail_errno("sandbox: user");
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		fail_errno("sandbox: signal at the parent's end");
	if (personality(ADDR_NO_RANDOMIZE) < 0)
		fail_errno("sandbox: personality");
	if (chdir("/build") < 0)
		fail_errno("sandbox: /build");
}

static void __attribute__((noreturn)) become_builder(int terminal)
{
	struct params params;
	size_t size;
	char *data;

	data = device_parameters(&size);
	params = parse_params(data, size);
	/* A copy of init's, with the layers, which were not there when this process was made. */
	if (unshare(CLONE_NEWNS) < 0)
		fail_errno("sandbox: mount namespace");
	change_root();
	bind_store(params.layers);
	mount_rest(params.shell);
	set_up_descriptors(terminal);
	set_up_process();
	device_request(REWIND_START, 0, "start");
	execve(params.builder, params.argv, params.envp);
	/* In Nix's words; and with Nix, too, this is a build that failed. */
	dprintf(STDERR_FILENO, "error: executing '%s': %s\n", params.builder, strerror(errno));
	_exit(1);
}

static void await(int go)
{
	char byte;
	ssize_t n;

	do
		n = read(go, &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n != 1)
		fail_errno("sandbox: pipe");
}

/* Up to here. */

static void write_proc(pid_t pid, const char *name, const char *text)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		fail_errno("sandbox: %s", path);
	close(fd);
}

/* Let the process go on until it waits again, or has become the builder, or has ended. */
static void let_go_on(const struct builder *builder)
{
	char text[4096];
	ssize_t n;

	if (write_all(builder->go, "", 1) < 0)
		fail_errno("sandbox: pipe");
	do
		n = read(builder->said, text, sizeof(text));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		fail_errno("sandbox: pipe");
	if (n > 0 && text[0])
		fail("%.*s", (int)n, text);
}

struct builder sandbox_fork(int terminal)
{
	struct builder builder;
	int go[2], said[2];

	if (pipe2(go, O_CLOEXEC) < 0 || pipe2(said, O_CLOEXEC) < 0)
		fail_errno("sandbox: pipe");
	builder.pid = syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWIPC |
					 CLONE_NEWUTS | CLONE_NEWNET | SIGCHLD, 0, 0, 0, 0);
	if (builder.pid < 0)
		fail_errno("sandbox: clone");
	if (builder.pid == 0) {
		device_fail_to(said[1]);
		close(go[1]);
		close(said[0]);
		await(go[0]);
		set_up_network();
		set_up_names();
		/* It forbids nothing that is done from here on. */
		seccomp_as_nix();
		if (write_all(said[1], "", 1) < 0)
			fail_errno("sandbox: pipe");
		await(go[0]);
		become_builder(terminal);
	}
	close(go[0]);
	close(said[1]);
	builder.go = go[1];
	builder.said = said[0];
	/* One user and one group, which are the superuser's outside: so Nix does as root. */
	write_proc(builder.pid, "uid_map", UID " 0 1");
	write_proc(builder.pid, "setgroups", "deny");
	write_proc(builder.pid, "gid_map", GID " 0 1");
	let_go_on(&builder);
	return builder;
}

void sandbox_start(const struct builder *builder)
{
	let_go_on(builder);
	close(builder->go);
	close(builder->said);
}
