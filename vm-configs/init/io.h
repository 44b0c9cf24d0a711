/* SPDX-License-Identifier: MIT */
/* Files and directories, whole. */
#ifndef IO_H
#define IO_H

#include <stddef.h>
#include <sys/types.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* Write it all; 0, or -1 and errno. */
int write_all(int fd, const void *data, size_t size);

/* Make a new file below the directory; fails if there is one. */
void new_file(const char *directory, const char *name, const void *data, size_t size);

/* The other end of a terminal whose master is open; -1 and errno. */
int open_slave(int master);

/* The names in a directory, but for "." and "..", in order of their bytes. */
struct names {
	char **name;
	size_t count;
};

/* List an open directory, and close it. */
struct names list_directory(int fd);
void free_names(struct names *names);

/* malloc and realloc that fail in fail()'s way. */
void *must_allocate(void *old, size_t count, size_t size);

#endif
