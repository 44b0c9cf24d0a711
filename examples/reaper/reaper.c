// SPDX-License-Identifier: MIT
/*
 * reaper: a service runs hooks one after the other, and has a handler of
 * SIGCHLD that waits for whatever child has ended, so that no zombie stays of
 * its background jobs.
 *
 * When a hook ends while the service waits for it, the service is told, and the
 * handler finds nothing. When it ends before the service has come to that, the
 * handler has its status, and the service is told that there is no such child.
 * The exit status is 0 if that of each hook was 0, 1 if not.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HOOKS 4

static volatile sig_atomic_t reaped;

static void reap(int signal)
{
	int error = errno;

	(void)signal;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		reaped++;
	errno = error;
}

static void work(long us)
{
	const struct timespec time = { .tv_nsec = us * 1000 };

	nanosleep(&time, NULL);
}

static void die(const char *what)
{
	fprintf(stderr, "reaper: ");
	perror(what);
	exit(EXIT_FAILURE);
}

/* A process that has something to do for @us. */
static pid_t start(long us)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (!pid) {
		work(us);
		_exit(EXIT_SUCCESS);
	}
	return pid;
}

static void run(int hook)
{
	pid_t pid = start(500);
	int status;

	printf("hook %d is process %d\n", hook, pid);
	/* A signal whose handler runs meanwhile, and finds others. */
	while (waitpid(pid, &status, 0) != pid)
		if (errno != EINTR)
			die("waitpid");
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		exit(EXIT_FAILURE);
}

int main(void)
{
	struct sigaction action = { .sa_handler = reap, .sa_flags = SA_RESTART };

	/* A line is written when it ends, as to a terminal. */
	setvbuf(stdout, NULL, _IOLBF, 0);

	sigaction(SIGCHLD, &action, NULL);
	start(1200);
	for (int i = 1; i <= HOOKS; i++)
		run(i);
	printf("%d in the background\n", (int)reaped);
	return EXIT_SUCCESS;
}
