// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
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

/* All users and groups that a container usually has, which are the same ones outside. */
#define EVERYBODY "0 0 65536"

/* Where init's root is while the builder's is being furnished. */
#define OLD_ROOT "/real-root"

/* What a job with a root of its own writes to it. */
#define WRITTEN "/written"

static const char *const devices[] = { "full", "null", "random", "tty", "urandom", "zero" };

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

/* What is to be in /dev, as names: where devices are mounted, and links. */
static void furnish_dev(const char *dev)
{
	static const char *const links[][2] = {
		{ "/proc/self/fd", "fd" },	{ "/proc/self/fd/0", "stdin" },
		{ "/proc/self/fd/1", "stdout" }, { "/proc/self/fd/2", "stderr" },
		{ "/dev/pts/ptmx", "ptmx" },
	};
	char path[64];

	snprintf(path, sizeof(path), "%s/shm", dev);
	make_directory(path, 0755);
	snprintf(path, sizeof(path), "%s/pts", dev);
	make_directory(path, 0755);
	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		snprintf(path, sizeof(path), "%s/%s", dev, links[i][1]);
		make_link(links[i][0], path);
	}
	for (size_t i = 0; i < ARRAY_SIZE(devices); i++)
		put_text(dev, devices[i], "");
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
	furnish_dev(SANDBOX "/dev");
	make_directory(SANDBOX "/proc", 0755);
	for (size_t i = 0; i < params->file_count; i++) {
		const struct file *file = &params->files[i];

		new_file(SANDBOX "/build", file->name, file->content.data, file->content.size);
	}
}

/* A directory for something to be mounted on, if there is none. */
static void need_directory(const char *path, mode_t mode)
{
	struct stat st;

	if (lstat(path, &st) < 0) {
		if (errno != ENOENT)
			fail_errno("sandbox: %s", path);
		make_directory(path, mode);
	} else if (!S_ISDIR(st.st_mode)) {
		fail("the root's %s is no directory", path + strlen(SANDBOX));
	}
}

void sandbox_prepare_root(void)
{
	struct stat root, hosts;

	/* With the user and mode of the layer's: it is what the job sees of it. */
	if (stat(LAYERS "/0", &root) < 0)
		fail_errno("sandbox: the root");
	make_directory(WRITTEN, 0700);
	make_directory(WRITTEN "/upper", root.st_mode & 07777);
	if (chown(WRITTEN "/upper", root.st_uid, root.st_gid) < 0)
		fail_errno("sandbox: the root");
	make_directory(WRITTEN "/work", 0700);
	/* The devices that there are, are those in /dev. */
	if (mount("none", SANDBOX, "overlay", MS_NODEV,
		  "lowerdir=" LAYERS "/0,upperdir=" WRITTEN "/upper,workdir=" WRITTEN "/work,"
		  "index=off,metacopy=off,redirect_dir=off,xino=off,uuid=null") < 0)
		fail_errno("sandbox: cannot mount the root");
	need_directory(SANDBOX "/dev", 0755);
	need_directory(SANDBOX "/proc", 0555);
	/* It may be a link. */
	if (lstat(SANDBOX "/tmp", &root) < 0)
		make_directory(SANDBOX "/tmp", 01777);
	/* An exported container's is empty: it was there for a file to be mounted on. */
	if (lstat(SANDBOX "/etc", &root) < 0 && errno == ENOENT)
		make_directory(SANDBOX "/etc", 0755);
	else if (!S_ISDIR(root.st_mode))
		return;
	if (lstat(SANDBOX "/etc/hosts", &hosts) == 0) {
		if (!S_ISREG(hosts.st_mode) || hosts.st_size)
			return;
		if (unlink(SANDBOX "/etc/hosts") < 0)
			fail_errno("sandbox: /etc/hosts");
	}
	put_text(SANDBOX "/etc", "hosts", "127.0.0.1 localhost\n"
					  "::1 localhost\n");
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

static void mount_rest(void)
{
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

static void set_up_process(const char *uid, const char *gid, const char *directory)
{
	/* A session of its own, without a controlling terminal. */
	if (setsid() < 0)
		fail_errno("sandbox: session");
	if (setgid(atoi(gid)) < 0 || setuid(atoi(uid)) < 0)
		fail_errno("sandbox: user");
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		fail_errno("sandbox: signal at the parent's end");
	if (personality(ADDR_NO_RANDOMIZE) < 0)
		fail_errno("sandbox: personality");
	if (chdir(directory) < 0)
		fail_errno("sandbox: %s", directory);
}

/* In the root directory: what Nix's sandbox has in it. */
static void furnish_as_nix(const struct params *params)
{
	bind_store(params->layers);
	bind_mount(params->shell, "/bin/sh");
	bind_mount("/build", "/build");
	mount_rest();
}

/* The same for a root of the job's own: /dev is ours, and all else it brings. */
static void furnish_root(void)
{
	if (mount("none", "/dev", "tmpfs", MS_NOSUID, "mode=0755,size=64k") < 0)
		fail_errno("sandbox: /dev");
	furnish_dev("/dev");
	mount_rest();
}

static void __attribute__((noreturn)) execute(const struct params *params)
{
	int status = 1;

	if (params->root) {
		/* PATH, in which it is looked for, is the job's. */
		environ = params->envp;
		execvp(params->builder, params->argv);
		/* As shells and container engines have it. */
		status = errno == ENOENT ? 127 : 126;
	} else {
		execve(params->builder, params->argv, params->envp);
	}
	/* In Nix's words; and with Nix, too, this is a build that failed. */
	dprintf(STDERR_FILENO, "error: executing '%s': %s\n", params->builder, strerror(errno));
	_exit(status);
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
	if (params.root)
		furnish_root();
	else
		furnish_as_nix(&params);
	set_up_descriptors(terminal);
	if (params.root)
		set_up_process("0", "0", params.root);
	else
		set_up_process(UID, GID, "/build");
	device_request(REWIND_START, 0, "start");
	execute(&params);
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

/* What differs between the two kinds of builders before they know their job. */
struct kind {
	const char *uids;
	const char *gids;
	bool as_nix;
};

static struct builder fork_as(int terminal, const struct kind *kind)
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
		if (kind->as_nix)
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
	write_proc(builder.pid, "uid_map", kind->uids);
	if (kind->as_nix)
		write_proc(builder.pid, "setgroups", "deny");
	write_proc(builder.pid, "gid_map", kind->gids);
	let_go_on(&builder);
	return builder;
}

struct builder sandbox_fork(int terminal)
{
	/* One user and one group, which are the superuser's outside: so Nix does as root. */
	return fork_as(terminal, &(struct kind){ UID " 0 1", GID " 0 1", true });
}

struct builder sandbox_fork_root(int terminal)
{
	return fork_as(terminal, &(struct kind){ EVERYBODY, EVERYBODY, false });
}

static void close_builder(const struct builder *builder)
{
	close(builder->go);
	close(builder->said);
}

void sandbox_drop(const struct builder *builder)
{
	if (kill(builder->pid, SIGKILL) < 0 || waitpid(builder->pid, NULL, 0) < 0)
		fail_errno("sandbox: cannot end a process");
	close_builder(builder);
}

void sandbox_start(const struct builder *builder)
{
	let_go_on(builder);
	close_builder(builder);
}
