// SPDX-License-Identifier: MIT
/*
 * pidfile FILE: a daemon that writes its process ID to FILE, and runs until it
 * gets SIGTERM.
 *
 * It locks FILE, so that there are no two of it, starts, and writes the number
 * when it is ready. But FILE is there from the moment it is opened: whoever
 * reads it before the number is written finds nothing in it.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

static void die(const char *what)
{
	fprintf(stderr, "pidfile: ");
	perror(what);
	exit(EXIT_FAILURE);
}

static FILE *open_pidfile(const char *path)
{
	FILE *file = fopen(path, "w");

	if (!file || flock(fileno(file), LOCK_EX | LOCK_NB))
		die(path);
	return file;
}

static void write_pidfile(FILE *file, const char *path)
{
	if (fprintf(file, "%d\n", getpid()) < 0 || fflush(file))
		die(path);
}

/* What it serves. */
static void load(const char *path)
{
	FILE *file = fopen(path, "r");
	char line[4096];

	if (!file)
		die(path);
	while (fgets(line, sizeof(line), file))
		;
	fclose(file);
}

int main(int argc, char **argv)
{
	FILE *pidfile;
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

	pidfile = open_pidfile(argv[1]);
	load("/etc/hosts");
	load("/etc/passwd");
	load("/etc/group");
	write_pidfile(pidfile, argv[1]);
	sigwait(&stop, &signal);
	unlink(argv[1]);
	return EXIT_SUCCESS;
}
