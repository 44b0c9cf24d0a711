// SPDX-License-Identifier: MIT
/* Files that not everybody sees, in a process that works elsewhere, and some without a name. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mark.h"

static void check(int result)
{
	if (result < 0) {
		perror("files");
		exit(1);
	}
}

static void put(const char *path, const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

	check(fd);
	check((int)write(fd, text, strlen(text)));
	close(fd);
}

static char *map(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	void *mapped;

	check(fd);
	mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return mapped;
}

/* Without users of its own it could make no files in what it mounts. */
static void own_namespaces(void)
{
	unsigned int user = getuid(), group = getgid();
	char text[64];

	check(unshare(CLONE_NEWUSER | CLONE_NEWNS));
	put("/proc/self/setgroups", "deny", 0);
	snprintf(text, sizeof(text), "%u %u 1", user, user);
	put("/proc/self/uid_map", text, 0);
	snprintf(text, sizeof(text), "%u %u 1", group, group);
	put("/proc/self/gid_map", text, 0);
}

int main(void)
{
	char *mapped;
	int fd;

	check(mkdir("files.d", 0755));
	check(chdir("files.d"));
	check(mkdir("mount", 0700));
	put("mount/below", "covered\n", 0644);
	check(mkdir("root", 0755));
	put("root/inside", "inside\n", 0600);
	check(symlink("mount/own", "link"));
	check(symlink("/inside", "root/absolute"));
	check(mkfifo("fifo", 0640));

	put("open", "open and deleted\n", 0644);
	fd = open("open", O_RDONLY);
	check(fd);
	check(dup2(fd, 50));
	check(unlink("open"));

	put("mapped", "mapped", 0644);
	mapped = map("mapped");
	check(unlink("mapped"));
	memcpy(mapped, "MAPPED", 6);

	fd = memfd_create("nameless", 0);
	check(fd);
	check((int)write(fd, "in a memfd\n", 11));
	check(dup2(fd, 51));

	/* Its own file systems, one on another's place, and its own root. */
	if (!fork()) {
		prctl(PR_SET_NAME, "elsewhere");
		own_namespaces();
		check(mount("none", "mount", "tmpfs", 0, NULL));
		put("mount/own", "its own\n", 0644);
		check(mkdir("mount/gone", 0755));
		check(chdir("mount/gone"));
		put("left", "left\n", 0644);
		if (!fork()) {
			prctl(PR_SET_NAME, "changed-root");
			check(chroot("/build/programs/files.d/root"));
			check(chdir("/"));
			for (;;)
				pause();
		}
		for (;;)
			pause();
	}
	usleep(100 * 1000);
	MARK("files"); /* at files */
	_exit(0);
}
