// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "device.h"
#include "fail.h"
#include "io.h"
#include "machine.h"
#include "params.h"
#include "seccomp.h"
#include "shell.h"

/* Younger than some headers. */
#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE 1
#endif
#ifndef OPEN_TREE_CLOEXEC
#define OPEN_TREE_CLOEXEC O_CLOEXEC
#endif
#ifndef MOVE_MOUNT_F_EMPTY_PATH
#define MOVE_MOUNT_F_EMPTY_PATH 4
#endif

/* How long the job's threads may take to come to a stop, ms of guest time. */
#define STOP_MS 10

/* The process whose view the shell has, as far as that must be read from outside. */
struct target {
	int directory; /* below /proc */
	int process; /* a pidfd */
	int root, cwd;
	char *environment; /* as /proc/PID/environ has it */
	size_t environment_size;
	char program[PATH_MAX]; /* what it executes, as it sees it */
	unsigned long personality;
	mode_t umask;
	struct rlimit limits[RLIM_NLIMITS];
};

/* A path of the store that is to be there besides. */
struct extra {
	char *name;
	mode_t mode;
	int mount; /* a mount that is nowhere yet */
	char *link; /* of a link, which cannot be mounted */
};

struct extras {
	struct extra *list;
	size_t count;
};

/* The ends of what the shell reads and writes; without a terminal these are three pipes. */
struct streams {
	int input, output, errors; /* ours; with a terminal the first two are its master */
	int child[3];
	bool terminal;
};

/* --- where it is started */

/* The kernel starts this in init's root directory, with no standard descriptors. */
static void prepare(void)
{
	const struct rlimit many = { 16384, 16384 };
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd < STDERR_FILENO);
	if (fd < 0)
		fail_errno("shell: /dev/null");
	if (fd > STDERR_FILENO)
		close(fd);
	/* A mount for each path that is to be there besides. */
	if (setrlimit(RLIMIT_NOFILE, &many) < 0)
		fail_errno("shell: cannot open many files");
	signal(SIGPIPE, SIG_IGN);
}

static void set_oom_score(const char *score)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, score, strlen(score)) < 0)
		fail_errno("shell: oom_score_adj");
	close(fd);
}

/* --- the process */

/* The whole of a file below /proc; a NUL follows it. */
static char *read_proc(int directory, const char *name, size_t *size)
{
	size_t room = 4096, used = 0;
	char *data = must_allocate(NULL, room, 1);
	int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		fail_errno("shell: /proc/PID/%s", name);
	while ((n = read(fd, data + used, room - used - 1)) > 0) {
		used += n;
		if (used == room - 1) {
			room *= 2;
			data = must_allocate(data, room, 1);
		}
	}
	if (n < 0)
		fail_errno("shell: /proc/PID/%s", name);
	close(fd);
	data[used] = 0;
	if (size)
		*size = used;
	return data;
}

/* What follows NAME and a colon in /proc/PID/status. */
static const char *field(const char *status, const char *name)
{
	size_t length = strlen(name);

	for (const char *line = status; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, name, length) && line[length] == ':')
			return line + length + 1;
	}
	fail("shell: /proc/PID/status has no %s", name);
}

/* Whether a process that has this /proc/PID/status is the one the job knows as @pid. */
static bool is_process(const char *status, unsigned int pid)
{
	char *end;

	/* Its number here, in the job's namespace, and in those within that. */
	strtoul(field(status, "NSpid"), &end, 10);
	return *end == '\t' && strtoul(end, NULL, 10) == pid;
}

/* The directory below /proc of that process. */
static int find_process(unsigned int pid)
{
	int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct names names = list_directory(dup(proc));
	int found = -1;

	for (size_t i = 0; i < names.count && found < 0; i++) {
		char *status;
		char state;

		if (strspn(names.name[i], "0123456789") != strlen(names.name[i]))
			continue;
		found = openat(proc, names.name[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (found < 0)
			continue;
		status = read_proc(found, "status", NULL);
		if (!is_process(status, pid)) {
			close(found);
			found = -1;
		} else if (sscanf(field(status, "State"), " %c", &state) == 1 &&
			   (state == 'Z' || state == 'X')) {
			fail("process %u has ended", pid);
		}
		free(status);
	}
	close(proc);
	free_names(&names);
	if (found < 0)
		fail("there is no process %u", pid);
	return found;
}

static struct target look_at(unsigned int pid)
{
	struct target t = { .directory = find_process(pid) };
	char *status, *text;
	pid_t number;
	ssize_t n;

	status = read_proc(t.directory, "status", NULL);
	number = strtol(field(status, "Pid"), NULL, 10);
	t.umask = strtoul(field(status, "Umask"), NULL, 8);
	free(status);
	t.process = syscall(SYS_pidfd_open, number, 0);
	t.root = openat(t.directory, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	t.cwd = openat(t.directory, "cwd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (t.process < 0 || t.root < 0 || t.cwd < 0)
		fail_errno("shell: process %u", pid);
	t.environment = read_proc(t.directory, "environ", &t.environment_size);
	text = read_proc(t.directory, "personality", NULL);
	t.personality = strtoul(text, NULL, 16);
	free(text);
	n = readlinkat(t.directory, "exe", t.program, sizeof(t.program) - 1);
	t.program[n < 0 ? 0 : n] = 0;
	for (int i = 0; i < RLIM_NLIMITS; i++)
		if (prlimit(number, i, NULL, &t.limits[i]) < 0)
			fail_errno("shell: limits of process %u", pid);
	return t;
}

/*
 * The shell gets the process's limits, and cannot raise its own any more when it
 * is there. This process keeps what it has.
 */
static void raise_limits(const struct target *t)
{
	for (int i = 0; i < RLIM_NLIMITS; i++) {
		struct rlimit limit;

		if (getrlimit(i, &limit) < 0)
			fail_errno("shell: limits");
		if (limit.rlim_max >= t->limits[i].rlim_max)
			continue;
		limit.rlim_max = t->limits[i].rlim_max;
		if (setrlimit(i, &limit) < 0)
			fail_errno("shell: limits");
	}
}

/* --- what is to be there besides */

static struct extras open_extras(unsigned int layer)
{
	struct extras extras = { NULL, 0 };
	struct names names;
	char path[64];
	int store;

	machine_mount_layer(layer);
	snprintf(path, sizeof(path), LAYERS "/%u/nix/store", layer);
	store = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (store < 0)
		fail_errno("shell: layer %u: /nix/store", layer);
	names = list_directory(dup(store));
	extras.list = must_allocate(NULL, names.count + 1, sizeof(*extras.list));
	for (size_t i = 0; i < names.count; i++) {
		struct extra *e = &extras.list[extras.count++];
		char link[PATH_MAX];
		struct stat st;
		ssize_t n;

		*e = (struct extra){ .name = names.name[i], .mount = -1 };
		if (fstatat(store, e->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			fail_errno("shell: layer %u: %s", layer, e->name);
		e->mode = st.st_mode;
		if (S_ISLNK(st.st_mode)) {
			n = readlinkat(store, e->name, link, sizeof(link) - 1);
			if (n < 0)
				fail_errno("shell: layer %u: %s", layer, e->name);
			link[n] = 0;
			e->link = strdup(link);
			continue;
		}
		e->mount = syscall(SYS_open_tree, store, e->name,
				   OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
		if (e->mount < 0)
			fail_errno("shell: layer %u: %s", layer, e->name);
	}
	close(store);
	return extras;
}

/* Each by itself, as the job's inputs are; where the job has the path it keeps its own. */
static void place(const struct extra *e)
{
	char path[PATH_MAX];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "/nix/store/%s", e->name);
	if (lstat(path, &st) == 0)
		return;
	if (S_ISLNK(e->mode)) {
		if (symlink(e->link, path) < 0)
			fail_errno("shell: %s", path);
		return;
	}
	if (S_ISDIR(e->mode)) {
		if (mkdir(path, 0755) < 0)
			fail_errno("shell: %s", path);
	} else {
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
		if (fd < 0)
			fail_errno("shell: %s", path);
		close(fd);
	}
	if (syscall(SYS_move_mount, e->mount, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		fail_errno("shell: cannot mount %s", path);
}

/* --- into its view */

static void join(const struct target *t)
{
	if (setns(t->process, CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC |
				      CLONE_NEWUTS | CLONE_NEWNET | CLONE_NEWCGROUP) < 0)
		fail_errno("shell: cannot enter the job's namespaces");
	if (fchdir(t->root) < 0 || chroot(".") < 0)
		fail_errno("shell: the process's root directory");
}

static struct streams open_pipes(void)
{
	struct streams s;
	int pipes[3][2];

	for (int i = 0; i < 3; i++)
		if (pipe2(pipes[i], O_CLOEXEC) < 0)
			fail_errno("shell: pipe");
	s.input = pipes[0][1];
	s.child[0] = pipes[0][0];
	s.output = pipes[1][0];
	s.child[1] = pipes[1][1];
	s.errors = pipes[2][0];
	s.child[2] = pipes[2][1];
	s.terminal = false;
	return s;
}

/*
 * A terminal of the job's own, so that it has a name there; of init's, @other,
 * where the job has none to give.
 */
static struct streams open_terminal(int other, const struct shell_params *params)
{
	const struct winsize size = { .ws_row = params->rows, .ws_col = params->columns };
	int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	struct streams s;
	int slave;

	if (master < 0)
		master = other;
	else
		close(other);
	slave = open_slave(master);
	if (slave < 0 || ioctl(master, TIOCSWINSZ, &size) < 0)
		fail_errno("shell: terminal");
	s = (struct streams){ master, master, -1, { slave, slave, slave }, true };
	return s;
}

/* --- the shell's process */

/* A NAME=VALUE takes the place of any other with that name. */
static void set_variable(char ***env, size_t *count, char *variable)
{
	size_t length = strchr(variable, '=') - variable + 1;

	for (size_t i = 0; i < *count; i++)
		if (!strncmp((*env)[i], variable, length)) {
			(*env)[i] = variable;
			return;
		}
	*env = must_allocate(*env, *count + 2, sizeof(**env));
	(*env)[(*count)++] = variable;
	(*env)[*count] = NULL;
}

static void set_environment(const struct target *t, const struct shell_params *params)
{
	char **env = must_allocate(NULL, 1, sizeof(*env));
	const char *end = t->environment + t->environment_size;
	size_t count = 0;

	env[0] = NULL;
	for (char *at = t->environment; at < end; at += strlen(at) + 1)
		if (strchr(at, '='))
			set_variable(&env, &count, at);
	for (size_t i = 0; i < params->envc; i++)
		set_variable(&env, &count, params->envp[i]);
	environ = env;
	/* The last is put first. */
	for (size_t i = params->path_count; i-- > 0;) {
		const char *path = getenv("PATH");
		char *with;

		if (asprintf(&with, "PATH=%s%s%s", params->paths[i], path ? ":" : "",
			     path ? path : "") < 0)
			fail_errno("shell: PATH");
		set_variable(&env, &count, with);
		environ = env;
	}
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool executable(const char *path)
{
	return path && path[0] == '/' && access(path, X_OK) == 0;
}

static const char *bash_on_path(void)
{
	static char found[PATH_MAX];
	const char *path = getenv("PATH");

	while (path && *path) {
		size_t length = strcspn(path, ":");

		if (snprintf(found, sizeof(found), "%.*s/bash", (int)length, path) <
			    (int)sizeof(found) &&
		    executable(found))
			return found;
		path += length + (path[length] == ':');
	}
	return NULL;
}

static const char *choose_shell(const struct target *t, const struct shell_params *params)
{
	const char *bash;

	if (params->shell)
		return params->shell;
	if (executable(getenv("SHELL")))
		return getenv("SHELL");
	bash = bash_on_path();
	if (bash)
		return bash;
	/* A builder has an environment without any of these, and mostly is one. */
	if (!strcmp(base_name(t->program), "bash") && executable(t->program))
		return t->program;
	return "/bin/sh";
}

static void set_ids(const struct target *t)
{
	/* With the numbers that whoever opens it, here within the job, sees. */
	char *status = read_proc(t->directory, "status", NULL);
	unsigned int uid[3], gid[3];

	if (sscanf(field(status, "Uid"), "%u %u %u", &uid[0], &uid[1], &uid[2]) != 3 ||
	    sscanf(field(status, "Gid"), "%u %u %u", &gid[0], &gid[1], &gid[2]) != 3)
		fail("shell: /proc/PID/status has no user");
	free(status);
	if (setresgid(gid[0], gid[1], gid[2]) < 0 || setresuid(uid[0], uid[1], uid[2]) < 0)
		fail_errno("shell: user");
}

static void __attribute__((noreturn))
become_shell(const struct target *t, const struct shell_params *params, const struct streams *s)
{
	const char *shell;
	int error;

	set_oom_score("0");
	if (setsid() < 0)
		fail_errno("shell: session");
	for (int i = 0; i < 3; i++)
		if (dup2(s->child[i], i) < 0)
			fail_errno("shell: standard input and output");
	if (s->terminal) {
		if (ioctl(STDIN_FILENO, TIOCSCTTY, 0) < 0)
			fail_errno("shell: terminal");
		device_request(REWIND_TERMINAL, 0, "terminal");
	}
	set_environment(t, params);
	set_ids(t);
	for (int i = 0; i < RLIM_NLIMITS; i++)
		if (setrlimit(i, &t->limits[i]) < 0)
			fail_errno("shell: limits");
	umask(t->umask);
	if (personality(t->personality) < 0)
		fail_errno("shell: personality");
	if (fchdir(t->cwd) < 0)
		fail_errno("shell: working directory");
	signal(SIGPIPE, SIG_DFL);
	/* To all that are in this namespace, but for its first and this one; and to the first. */
	if (params->going && ((kill(-1, SIGCONT) < 0 && errno != ESRCH) || kill(1, SIGCONT) < 0))
		fail_errno("shell: cannot let the job go on");
	seccomp_as_nix();

	if (params->argc) {
		execvp(params->argv[0], params->argv);
		shell = params->argv[0];
	} else {
		shell = choose_shell(t, params);
		execl(shell, base_name(shell), params->script ? "-c" : NULL, params->script, NULL);
	}
	error = errno;
	dprintf(STDERR_FILENO, "rewind: executing '%s': %s\n", shell, strerror(error));
	/* As shells have it. */
	_exit(error == ENOENT ? 127 : 126);
}

/* --- what goes in and out */

/*
 * What comes in is a sequence of frames: a letter, a byte of nothing, the length
 * of what follows with 16 bits, and that: 'd', data; 'e', the end of the data;
 * 'w', the window's rows and columns, 16 bits each.
 */
#define FRAME_HEADER 4

struct input {
	int device;
	unsigned char data[1 << 17];
	size_t used;
	size_t left; /* of the data of a frame that has begun */
	bool full; /* whoever reads is to read first */
};

static unsigned int number_at(const unsigned char *at)
{
	return at[0] | at[1] << 8;
}

static void drop(struct input *in, size_t n)
{
	in->used -= n;
	memmove(in->data, in->data + n, in->used);
}

static void close_input(struct streams *s)
{
	/* A terminal's is its output too. */
	if (!s->terminal && s->input >= 0)
		close(s->input);
	s->input = -1;
}

static void set_window(int master, const unsigned char *data)
{
	const struct winsize size = { .ws_row = number_at(data), .ws_col = number_at(data + 2) };

	if (ioctl(master, TIOCSWINSZ, &size) < 0)
		fail_errno("shell: window");
}

/* Hand on what has come, as far as it is taken. */
static void hand_on(struct input *in, struct streams *s)
{
	in->full = false;
	for (;;) {
		size_t length;

		if (in->left && in->used) {
			size_t some = in->left < in->used ? in->left : in->used;
			ssize_t n = some;

			if (s->input >= 0)
				n = write(s->input, in->data, some);
			if (n < 0 && errno == EINTR)
				continue;
			if (n < 0 && errno == EAGAIN) {
				in->full = true;
				return;
			}
			if (n < 0) {
				/* Nobody reads any more; what comes is for nobody. */
				close_input(s);
				continue;
			}
			in->left -= n;
			drop(in, n);
			continue;
		}
		if (in->left || in->used < FRAME_HEADER)
			return;
		length = number_at(in->data + 2);
		switch (in->data[0]) {
		case 'd':
			in->left = length;
			break;
		case 'e':
			close_input(s);
			break;
		case 'w':
			if (in->used < FRAME_HEADER + length)
				return;
			if (s->terminal && length == 4 && s->output >= 0)
				set_window(s->output, in->data + FRAME_HEADER);
			drop(in, length);
			break;
		default:
			fail("shell: input of an unknown kind, %u", in->data[0]);
		}
		drop(in, FRAME_HEADER);
	}
}

static void take_input(struct input *in, struct streams *s)
{
	ssize_t n = read(in->device, in->data + in->used, sizeof(in->data) - in->used);

	if (n < 0 && errno != EAGAIN && errno != EINTR)
		fail_errno("shell: input");
	if (n > 0)
		in->used += n;
	hand_on(in, s);
}

/* What a pipe can hold, if a program has enlarged it. */
#define PIPE_MAX (1 << 20)

/* Send some of what there is, or @all of it; false when there will be no more. */
static bool send_output(int fd, unsigned int channel, bool all)
{
	static char data[1 << 16];
	size_t done = 0;
	ssize_t n;

	do {
		n = read(fd, data, sizeof(data));
		if (n > 0) {
			device_send(channel, data, n);
			done += n;
		}
		/* Another process may write on, for ever. */
	} while (n > 0 && all && done < PIPE_MAX);
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

static int serve(struct streams *s, int device, pid_t shell)
{
	static struct input in;
	int ended = syscall(SYS_pidfd_open, shell, 0);
	bool over = false;
	int status;

	in.device = device;
	if (ended < 0)
		fail_errno("shell: cannot wait for it");
	while (!over) {
		struct pollfd fds[] = {
			{ .fd = ended, .events = POLLIN },
			{ .fd = in.full ? -1 : in.device, .events = POLLIN },
			{ .fd = in.full ? s->input : -1, .events = POLLOUT },
			{ .fd = s->output, .events = POLLIN },
			{ .fd = s->errors, .events = POLLIN },
		};

		if (poll(fds, ARRAY_SIZE(fds), -1) < 0 && errno != EINTR)
			fail_errno("shell: poll");
		/* What it wrote before it ended is there by now. */
		over = fds[0].revents;
		if (fds[1].revents)
			take_input(&in, s);
		if (fds[2].revents)
			hand_on(&in, s);
		/* A bit at a time: who writes without end is to be interrupted, too. */
		if (s->output >= 0 && (over || fds[3].revents) &&
		    !send_output(s->output, CHANNEL_SHELL_OUTPUT, over))
			s->output = -1;
		if (s->errors >= 0 && (over || fds[4].revents) &&
		    !send_output(s->errors, CHANNEL_SHELL_ERRORS, over))
			s->errors = -1;
	}
	while (waitpid(shell, &status, 0) < 0)
		if (errno != EINTR)
			fail_errno("shell: cannot wait for it");
	return status;
}

static void set_nonblocking(int fd)
{
	if (fd >= 0 && fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0)
		fail_errno("shell: fcntl");
}

void shell_main(void)
{
	struct extras extras = { NULL, 0 };
	struct shell_params params;
	struct streams streams;
	struct target target;
	int input, terminal = -1;
	pid_t shell;
	int status;
	size_t size;
	char *data;

	prepare();
	device_open();
	device_fail_on(CHANNEL_SHELL_RESULT);
	set_oom_score("-1000");
	data = device_parameters(&size);
	params = parse_shell_params(data, size);
	nanosleep(&(struct timespec){ .tv_nsec = STOP_MS * 1000 * 1000 }, NULL);

	target = look_at(params.pid);
	raise_limits(&target);
	if (params.has_layer)
		extras = open_extras(params.layer);
	if (params.rows)
		terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	input = device_open_input();
	join(&target);
	for (size_t i = 0; i < extras.count; i++)
		place(&extras.list[i]);
	streams = params.rows ? open_terminal(terminal, &params) : open_pipes();

	shell = fork();
	if (shell < 0)
		fail_errno("shell: fork");
	if (shell == 0)
		become_shell(&target, &params, &streams);
	/* A terminal stays open: one that nobody has is one that has been hung up. */
	for (int i = 0; i < 3 && !streams.terminal; i++)
		close(streams.child[i]);
	set_nonblocking(streams.input);
	set_nonblocking(streams.output);
	set_nonblocking(streams.errors);
	status = serve(&streams, input, shell);
	if (WIFSIGNALED(status))
		device_line(CHANNEL_SHELL_RESULT, "signaled %d", WTERMSIG(status));
	else
		device_line(CHANNEL_SHELL_RESULT, "exited %d", WEXITSTATUS(status));
	device_end();
}
