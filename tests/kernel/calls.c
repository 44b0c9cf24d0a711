// SPDX-License-Identifier: MIT
/* System calls whose records are known; tests/kernel/test_kernel.py knows them too. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static void on_signal(int unused)
{
	(void)unused;
}

int calls(void)
{
	struct sockaddr_un address = { AF_UNIX, "/tmp/socket" };
	char data[100], long_path[300], *page;
	struct iovec vector[2] = { { "one", 3 }, { "two", 3 } };
	struct msghdr message = { .msg_iov = vector, .msg_iovlen = 2 };
	int fd, status, pair[2];
	pid_t pid;

	fd = open("/tmp/file", O_RDWR | O_CREAT, 0600);
	CHECK(fd >= 0);
	memset(data, 'd', sizeof(data));
	CHECK(write(fd, data, sizeof(data)) == sizeof(data));
	CHECK(pread(fd, data, 10, 0) == 10);
	CHECK(writev(fd, vector, 2) == 6);
	CHECK(rename("/tmp/file", "/tmp/renamed") == 0);

	memset(long_path, 'p', sizeof(long_path) - 1);
	long_path[sizeof(long_path) - 1] = 0;
	CHECK(access(long_path, F_OK) == -1);
	CHECK(syscall(SYS_access, NULL, F_OK) == -1 && errno == EFAULT);
	CHECK(access((char *)16, F_OK) == -1 && errno == EFAULT);

	/* a page of a file that nobody has touched: its string is not there yet */
	CHECK(pwrite(fd, "/tmp/untouched", 15, 4096) == 15);
	page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 4096);
	CHECK(page != MAP_FAILED);
	CHECK(mkdir(page, 0700) == 0);

	CHECK(symlink("where it leads", "/tmp/link") == 0);
	CHECK(readlink("/tmp/link", data, sizeof(data)) == 14);

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	CHECK(sendmsg(pair[0], &message, 0) == 6);
	CHECK(recv(pair[1], data, sizeof(data), 0) == 6);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK(bind(fd, (void *)&address, sizeof(address)) == 0);

	signal(SIGUSR1, on_signal);
	CHECK(raise(SIGUSR1) == 0);
	pid = fork();
	if (pid == 0) {
		char *argv[] = { "check", "exit", "7", NULL };

		execv("/check", argv);
		_exit(1);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 7);
	return 0;
}
