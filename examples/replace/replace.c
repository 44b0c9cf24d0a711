// SPDX-License-Identifier: MIT
/*
 * replace: a daemon publishes an index again and again, and a client reads it.
 *
 * Each index is a new file that is given the name, and so is whole whenever it
 * is read. But the daemon was written where a name has to be free to be
 * given: it removes the old file first, and then there is none.
 * The exit status is 0 if the client has always found one, 1 if not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define INDEX "index"
#define EDITIONS 4
#define LOOKS 6

static void die(const char *what)
{
	fprintf(stderr, "replace: ");
	perror(what);
	exit(EXIT_FAILURE);
}

static void wait_us(long us)
{
	const struct timespec time = { .tv_nsec = us * 1000 };

	nanosleep(&time, NULL);
}

static void publish(int edition)
{
	FILE *file = fopen(INDEX ".new", "w");

	if (!file)
		die(INDEX ".new");
	fprintf(file, "edition %d\n", edition);
	if (fclose(file))
		die(INDEX ".new");
	unlink(INDEX);
	if (rename(INDEX ".new", INDEX))
		die(INDEX);
}

static void serve(void)
{
	for (int i = 1; i <= EDITIONS; i++) {
		wait_us(1500);
		publish(i);
	}
}

static void look(void)
{
	FILE *file = fopen(INDEX, "r");
	int edition;

	if (!file)
		die(INDEX);
	if (fscanf(file, "edition %d", &edition) != 1) {
		fprintf(stderr, "replace: %s: no edition\n", INDEX);
		exit(EXIT_FAILURE);
	}
	fclose(file);
	printf("edition %d\n", edition);
}

int main(void)
{
	pid_t daemon;
	int status;

	publish(0);
	daemon = fork();
	if (daemon < 0)
		die("fork");
	if (!daemon) {
		serve();
		return EXIT_SUCCESS;
	}
	for (int i = 0; i < LOOKS; i++) {
		wait_us(1000);
		look();
	}
	if (waitpid(daemon, &status, 0) != daemon)
		die("waitpid");
	return status ? EXIT_FAILURE : EXIT_SUCCESS;
}
