// SPDX-License-Identifier: MIT
/*
 * config-reload: a service loads its configuration again whenever the file
 * changes, and an administrator changes it in place.
 *
 * To open a file for writing is to make it empty, and that is a change, too. The
 * service is told of it, and gives the administrator a millisecond for the rest.
 * That is enough, mostly.
 * The exit status is 0 if the service has seen every configuration it loaded
 * whole, 1 if not.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CONFIG "service.conf"
#define CHANGES 3

struct config {
	int generation;
	int workers;
	int timeout;
	int depth;
};

static void die(const char *what)
{
	fprintf(stderr, "config-reload: ");
	perror(what);
	exit(EXIT_FAILURE);
}

static void save(const struct config *config)
{
	FILE *file = fopen(CONFIG, "w");

	if (!file)
		die(CONFIG);
	/* line by line, as a script does */
	setvbuf(file, NULL, _IOLBF, 0);
	fprintf(file, "generation %d\n", config->generation);
	fprintf(file, "workers %d\n", config->workers);
	fprintf(file, "timeout %d\n", config->timeout);
	fprintf(file, "depth %d\n", config->depth);
	if (fclose(file))
		die(CONFIG);
}

/* Returns whether the file is a whole one. */
static bool load(struct config *config)
{
	FILE *file = fopen(CONFIG, "r");
	int found;

	if (!file)
		die(CONFIG);
	found = fscanf(file, "generation %d workers %d timeout %d depth %d", &config->generation,
		       &config->workers, &config->timeout, &config->depth);
	fclose(file);
	return found == 4;
}

static void wait_ms(int ms)
{
	const struct timespec time = { .tv_nsec = ms * 1000000L };

	nanosleep(&time, NULL);
}

static void administrate(void)
{
	for (int i = 1; i <= CHANGES; i++) {
		struct config config = {
			.generation = i,
			.workers = 2 * i,
			.timeout = 30,
			.depth = 64,
		};

		wait_ms(5);
		save(&config);
	}
}

static int serve(int watch)
{
	char events[4096];
	struct config config;

	do {
		if (read(watch, events, sizeof(events)) < 0)
			die("inotify");
		wait_ms(1);
		if (!load(&config)) {
			puts("service: that is no configuration");
			return EXIT_FAILURE;
		}
		printf("service: generation %d, %d workers\n", config.generation, config.workers);
	} while (config.generation < CHANGES);
	return EXIT_SUCCESS;
}

int main(void)
{
	const struct config first = { .generation = 0 };
	int watch = inotify_init1(IN_CLOEXEC);
	int status;
	pid_t administrator;

	save(&first);
	/* The directory: a file that takes the place of another is a change in it. */
	if (watch < 0 || inotify_add_watch(watch, ".", IN_MODIFY | IN_MOVED_TO) < 0)
		die("inotify");

	administrator = fork();
	if (administrator < 0)
		die("fork");
	if (!administrator) {
		administrate();
		return EXIT_SUCCESS;
	}
	status = serve(watch);
	waitpid(administrator, NULL, 0);
	return status;
}
