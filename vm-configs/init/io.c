// SPDX-License-Identifier: MIT
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "fail.h"
#include "io.h"

int write_all(int fd, const void *data, size_t size)
{
	const char *next = data;

	while (size > 0) {
		ssize_t n = write(fd, next, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0) {
			errno = EIO;
			return -1;
		}
		next += n;
		size -= n;
	}
	return 0;
}

void new_file(const char *directory, const char *name, const void *data, size_t size)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		fail_errno("cannot make %s", path);
	if (write_all(fd, data, size) < 0 || close(fd) < 0)
		fail_errno("cannot write %s", path);
}

int open_slave(int master)
{
	if (ioctl(master, TIOCSPTLCK, &(int){ 0 }) < 0)
		return -1;
	return ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
}

void *must_allocate(void *old, size_t count, size_t size)
{
	void *new = reallocarray(old, count, size);

	if (!new)
		fail_errno("init has no memory left");
	return new;
}

static int by_bytes(const void *a, const void *b)
{
	/* strcmp compares unsigned bytes, as Nix does when it orders a directory. */
	return strcmp(*(char *const *)a, *(char *const *)b);
}

struct names list_directory(int fd)
{
	struct names names = { NULL, 0 };
	size_t room = 0;
	DIR *dir = fdopendir(fd);

	if (!dir)
		fail_errno("cannot list a directory");
	for (;;) {
		struct dirent *entry;

		errno = 0;
		entry = readdir(dir);
		if (!entry && errno)
			fail_errno("cannot list a directory");
		if (!entry)
			break;
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (names.count == room) {
			room = room ? room * 2 : 16;
			names.name = must_allocate(names.name, room, sizeof(*names.name));
		}
		names.name[names.count] = strdup(entry->d_name);
		if (!names.name[names.count])
			fail_errno("init has no memory left");
		names.count++;
	}
	closedir(dir);
	if (names.count)
		qsort(names.name, names.count, sizeof(*names.name), by_bytes);
	return names;
}

void free_names(struct names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->name[i]);
	free(names->name);
	names->name = NULL;
	names->count = 0;
}
