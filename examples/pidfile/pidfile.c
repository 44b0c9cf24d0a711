// SPDX-License-Identifier: MIT
/*
 * pidfile FILE: a daemon that writes its process ID to FILE, and runs until it
 * gets SIGTERM.
 *
 * The file is there from the moment it is opened. Whoever reads it before the
 * number is written finds nothing in it.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void die(const char *what)
{
	fprintf(stderr, "pidfile: ");
	perror(what);
	exit(EXIT_FAILURE);
}

static void write_pid(const char *path)
{
	FILE *file = fopen(path, "w");

	if (!file)
		die(path);
	fprintf(file, "%d\n", getpid());
	if (fclose(file))
		die(path);
}

int main(int argc, char **argv)
{
	sigset_t stop;
	int signal;

	if (argc != 2) {
		fprintf(stderr, "usage: pidfile FILE\n");
		return EXIT_FAILURE;
	}

	/* Whoever has read the file may send the signal: it has to wait for sigwait. */
	sigemptyset(&stop);
	sigaddset(&stop, SIGTERM);
	sigprocmask(SIG_BLOCK, &stop, NULL);

	write_pid(argv[1]);
	sigwait(&stop, &signal);
	unlink(argv[1]);
	return EXIT_SUCCESS;
}
