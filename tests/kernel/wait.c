// SPDX-License-Identifier: MIT
/* Ways to wait: for good, or for a long time; and a way not to have to. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;

static void *other_thread(void *unused)
{
	pthread_mutex_lock(&b);
	usleep(1000);
	pthread_mutex_lock(&a);
	return unused;
}

static int deadlock(void)
{
	pthread_t thread;

	pthread_mutex_lock(&a);
	CHECK(pthread_create(&thread, NULL, other_thread, NULL) == 0);
	usleep(1000);
	pthread_mutex_lock(&b);
	return 1;
}

/* A TCP connection that was closed leaves a timer of a minute behind. */
static int connection(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);
	int server = socket(AF_INET, SOCK_STREAM, 0), client, peer;
	char byte;

	CHECK(bind(server, (void *)&address, size) == 0 && listen(server, 1) == 0);
	CHECK(getsockname(server, (void *)&address, &size) == 0);
	client = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(connect(client, (void *)&address, size) == 0);
	peer = accept(server, NULL, NULL);
	CHECK(peer >= 0 && write(client, "x", 1) == 1 && read(peer, &byte, 1) == 1);
	close(client);
	close(peer);
	return 0;
}

/* A child that waits for its parent, which waits for it. */
static int pipes(void)
{
	int up[2], down[2];
	char byte;

	CHECK(pipe(up) == 0 && pipe(down) == 0);
	if (fork() == 0) {
		if (read(down[0], &byte, 1) == 1)
			(void)!write(up[1], &byte, 1);
		_exit(0);
	}
	return read(up[0], &byte, 1) == 1;
}

static int timer(long seconds, long again)
{
	struct itimerspec spec = { { again, 0 }, { seconds, 0 } };
	int fd = timerfd_create(CLOCK_MONOTONIC, 0), epoll = epoll_create1(0);
	struct epoll_event event = { .events = EPOLLIN };

	CHECK(timerfd_settime(fd, 0, &spec, NULL) == 0);
	CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
	CHECK(epoll_wait(epoll, &event, 1, -1) == 1);
	return 0;
}

/* io_uring: a read that a worker thread waits with, of a pipe that nobody writes to */
static int ring(void)
{
	struct io_uring_params p = { 0 };
	struct io_uring_sqe *sqes;
	unsigned int *sq;
	char byte;
	int fd = syscall(SYS_io_uring_setup, 1, &p), ends[2];

	CHECK(fd >= 0 && pipe(ends) == 0);
	sq = mmap(NULL, p.sq_off.array + 4, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		  IORING_OFF_SQ_RING);
	sqes = mmap(NULL, sizeof(*sqes), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		    IORING_OFF_SQES);
	CHECK(sq != MAP_FAILED && sqes != MAP_FAILED);
	for (int i = 0; i < 2; i++) {
		/* the first, which does nothing, leaves a worker that is idle */
		*sqes = (struct io_uring_sqe){
			.opcode = i ? IORING_OP_READ : IORING_OP_NOP, .flags = IOSQE_ASYNC,
			.fd = ends[0], .addr = (unsigned long)&byte, .len = 1,
		};
		__atomic_store_n((unsigned int *)((char *)sq + p.sq_off.tail), i + 1,
				 __ATOMIC_RELEASE);
		CHECK(syscall(SYS_io_uring_enter, fd, 1, i + 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1);
	}
	return 0;
}

int memory_hog(void)
{
	for (;;) {
		char *piece = malloc(1 << 20);

		CHECK(piece);
		memset(piece, 1, 1 << 20);
	}
}

static void on_alarm(int unused)
{
	(void)unused;
}

int wait_by(const char *how)
{
	struct timespec long_time = { .tv_sec = 100000 };
	sigset_t set;

	/* for good */
	if (!strcmp(how, "pause"))
		return pause();
	if (!strcmp(how, "deadlock"))
		return deadlock();
	if (!strcmp(how, "pipes"))
		return pipes();
	if (!strcmp(how, "poll"))
		return poll(NULL, 0, -1);
	if (!strcmp(how, "connection"))
		return connection() || pause();
	if (!strcmp(how, "ring"))
		return ring();
	if (!strcmp(how, "signal")) {
		sigfillset(&set);
		return sigwaitinfo(&set, NULL);
	}
	if (!strcmp(how, "stopped")) {
		/* not this process: the first of a namespace does not stop */
		if (fork() == 0)
			raise(SIGSTOP);
		return wait(NULL) < 0;
	}

	/* for a time */
	if (!strcmp(how, "sleep"))
		return clock_nanosleep(CLOCK_MONOTONIC, 0, &long_time, NULL);
	if (!strcmp(how, "timer"))
		return timer(100000, 0);
	if (!strcmp(how, "poll-timeout"))
		return poll(NULL, 0, 100000000);
	if (!strcmp(how, "alarm")) {
		signal(SIGALRM, on_alarm);
		alarm(100000);
		return pause() != -1;
	}
	if (!strcmp(how, "receive")) {
		struct timeval limit = { .tv_sec = 100000 };
		int pair[2];
		char byte;

		/* SO_RCVTIMEO is a timer of the wheel, not a high-resolution one */
		CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
		CHECK(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0);
		return recv(pair[0], &byte, 1, 0) != -1 || errno != EAGAIN;
	}
	printf("unknown way to wait: %s\n", how);
	return 2;
}
