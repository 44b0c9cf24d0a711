// SPDX-License-Identifier: MIT
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fail.h"
#include "io.h"
#include "nar.h"

/* A directory that is being written, and how far. */
struct level {
	struct names names;
	size_t next;
};

struct writer {
	nar_emit *emit;
	void *context;
	const char *label;
	/*
	 * The way from the root to where we are. One directory is open at a
	 * time, whatever the depth: the way back up is "..".
	 */
	struct level *levels;
	size_t depth;
	size_t used;
	char buffer[1 << 16]; /* the device takes as much at once */
};

/* Where we are, as a path that starts with the tree's label. */
static const char *place(const struct writer *w)
{
	static char path[PATH_MAX];
	size_t used = snprintf(path, sizeof(path), "%s", w->label);

	for (size_t i = 0; i < w->depth && used < sizeof(path); i++)
		used += snprintf(path + used, sizeof(path) - used, "/%s",
				 w->levels[i].names.name[w->levels[i].next - 1]);
	return path;
}

static void flush(struct writer *w)
{
	w->emit(w->context, w->buffer, w->used);
	w->used = 0;
}

static void put(struct writer *w, const void *data, size_t size)
{
	const char *next = data;

	while (size > 0) {
		size_t room = sizeof(w->buffer) - w->used;
		size_t n = size < room ? size : room;

		memcpy(w->buffer + w->used, next, n);
		w->used += n;
		next += n;
		size -= n;
		if (w->used == sizeof(w->buffer))
			flush(w);
	}
}

/* Numbers are 64 bits, little endian, as is every machine init runs on. */
static void put_number(struct writer *w, uint64_t n)
{
	put(w, &n, sizeof(n));
}

static void put_padding(struct writer *w, uint64_t size)
{
	static const char zeros[8];

	put(w, zeros, -size & 7);
}

static void put_bytes(struct writer *w, const void *data, size_t size)
{
	put_number(w, size);
	put(w, data, size);
	put_padding(w, size);
}

static void put_string(struct writer *w, const char *s)
{
	put_bytes(w, s, strlen(s));
}

static void put_file(struct writer *w, int directory, const char *name, const struct stat *st)
{
	uint64_t left = st->st_size;
	int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		fail_errno("output %s", place(w));
	put_string(w, "regular");
	if (st->st_mode & S_IXUSR) {
		put_string(w, "executable");
		put_string(w, "");
	}
	put_string(w, "contents");
	put_number(w, left);
	while (left > 0) {
		size_t room = sizeof(w->buffer) - w->used;
		ssize_t n = read(fd, w->buffer + w->used, left < room ? left : room);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			fail_errno("output %s", place(w));
		if (n == 0)
			fail("output %s became shorter", place(w));
		w->used += n;
		left -= n;
		if (w->used == sizeof(w->buffer))
			flush(w);
	}
	put_padding(w, st->st_size);
	close(fd);
}

static void put_link(struct writer *w, int directory, const char *name)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(directory, name, target, sizeof(target));

	if (n < 0)
		fail_errno("output %s", place(w));
	put_string(w, "symlink");
	put_string(w, "target");
	put_bytes(w, target, n);
}

static void enter(struct writer *w, int *directory, const char *name)
{
	int fd = openat(*directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int listing = fd < 0 ? -1 : openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (listing < 0)
		fail_errno("output %s", place(w));
	if (*directory != AT_FDCWD)
		close(*directory);
	*directory = fd;
	w->levels = must_allocate(w->levels, w->depth + 1, sizeof(*w->levels));
	w->levels[w->depth].names = list_directory(listing);
	w->levels[w->depth].next = 0;
	w->depth++;
}

static void leave(struct writer *w, int *directory)
{
	int up;

	w->depth--;
	free_names(&w->levels[w->depth].names);
	up = openat(*directory, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (up < 0)
		fail_errno("output %s", place(w));
	close(*directory);
	*directory = up;
}

static const char *kind(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFIFO:
		return "a named pipe";
	case S_IFSOCK:
		return "a socket";
	case S_IFBLK:
	case S_IFCHR:
		return "a device";
	default:
		return "a file of an unknown type";
	}
}

/*
 * Writes a node but for the parenthesis that closes it, which for a directory
 * comes after its entries.
 */
static void open_node(struct writer *w, int *directory, const char *name)
{
	struct stat st;

	if (fstatat(*directory, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		fail_errno("output %s", place(w));
	put_string(w, "(");
	put_string(w, "type");
	switch (st.st_mode & S_IFMT) {
	case S_IFREG:
		put_file(w, *directory, name, &st);
		put_string(w, ")");
		break;
	case S_IFLNK:
		put_link(w, *directory, name);
		put_string(w, ")");
		break;
	case S_IFDIR:
		put_string(w, "directory");
		enter(w, directory, name);
		break;
	default:
		fail("output %s is %s, which a store path cannot contain", place(w),
		     kind(st.st_mode));
	}
}

void nar_write(const char *path, const char *label, nar_emit *emit, void *context)
{
	static struct writer w;
	int directory = AT_FDCWD;

	w.emit = emit;
	w.context = context;
	w.label = label;
	put_string(&w, "nix-archive-1");
	open_node(&w, &directory, path);
	while (w.depth > 0) {
		struct level *level = &w.levels[w.depth - 1];

		if (level->next < level->names.count) {
			const char *name = level->names.name[level->next++];
			size_t depth = w.depth;

			put_string(&w, "entry");
			put_string(&w, "(");
			put_string(&w, "name");
			put_string(&w, name);
			put_string(&w, "node");
			open_node(&w, &directory, name);
			if (w.depth == depth)
				put_string(&w, ")"); /* the entry */
		} else {
			leave(&w, &directory);
			put_string(&w, ")"); /* the directory */
			if (w.depth > 0)
				put_string(&w, ")"); /* its entry */
		}
	}
	if (directory != AT_FDCWD)
		close(directory);
	free(w.levels);
	w.levels = NULL;
	flush(&w);
}
