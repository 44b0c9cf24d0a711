// SPDX-License-Identifier: MIT
/*
 * etxtbsy: one thread installs a program and runs it, another one starts a
 * server process.
 *
 * The program's file is open for writing while it is written. It is closed
 * before it is run, and on exec at the latest; but the server, which is forked
 * and does not exec, keeps what was open when it was forked. Linux does not
 * run a program that somebody may write: "Text file busy".
 */
#define _GNU_SOURCE /* pipe2 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TOOL "./tool"

struct server {
	pid_t pid;
	int stop; /* it ends when this pipe is closed */
};

static void die(const char *what)
{
	fprintf(stderr, "etxtbsy: ");
	perror(what);
	exit(EXIT_FAILURE);
}

static void install_tool(void)
{
	char data[4096];
	ssize_t count;
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int to = open(TOOL, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);

	if (from < 0 || to < 0)
		die(TOOL);
	while ((count = read(from, data, sizeof(data))) > 0)
		if (write(to, data, count) != count)
			die(TOOL);
	close(from);
	close(to);
}

static pid_t start_process(void)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	return pid;
}

/* Returns its exit status, or what the shell has for one that cannot be run. */
static int run_tool(void)
{
	pid_t pid = start_process();
	int status;

	if (!pid) {
		execl(TOOL, TOOL, "--version", NULL);
		perror("etxtbsy: " TOOL);
		_exit(126);
	}
	if (waitpid(pid, &status, 0) != pid)
		die("waitpid");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static void *build(void *result)
{
	install_tool();
	*(int *)result = run_tool();
	return NULL;
}

static struct server start_server(void)
{
	struct server server;
	int ends[2];
	char byte;

	if (pipe2(ends, O_CLOEXEC))
		die("pipe");
	server.pid = start_process();
	if (!server.pid) {
		close(ends[1]);
		while (read(ends[0], &byte, 1) > 0)
			;
		_exit(0);
	}
	close(ends[0]);
	server.stop = ends[1];
	return server;
}

static void stop_server(struct server *server)
{
	close(server->stop);
	if (waitpid(server->pid, NULL, 0) != server->pid)
		die("waitpid");
}

int main(int argc, char **argv)
{
	/* A server has a configuration to be read, and the like. */
	const struct timespec time = { .tv_nsec = 2000000 };
	struct server server;
	pthread_t builder;
	int result;

	if (argc == 2 && !strcmp(argv[1], "--version")) {
		puts("tool 1.0");
		return EXIT_SUCCESS;
	}
	if (pthread_create(&builder, NULL, build, &result))
		die("thread");
	nanosleep(&time, NULL);
	server = start_server();
	pthread_join(builder, NULL);
	stop_server(&server);
	return result;
}
