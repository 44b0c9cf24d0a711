// SPDX-License-Identifier: MIT
/* Threads and processes that wait, each for something else. The last mark is when they all do. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "mark.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t other = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static struct {
	long other;
	pthread_mutex_t locks[2];
} many[3];
static pthread_t owner;
static int pipes[2], full[2];

static void *own(void *unused)
{
	pthread_mutex_lock(&mutex);
	for (;;)
		pause(); /* waits: owner */
	return unused;
}

static void *lock(void *unused)
{
	pthread_mutex_lock(&mutex); /* waits: lock */
	return unused;
}

static void *wait_for_condition(void *unused)
{
	pthread_mutex_lock(&other);
	pthread_cond_wait(&never, &other); /* waits: condition */
	return unused;
}

static void *join(void *unused)
{
	pthread_join(owner, NULL); /* waits: join */
	return unused;
}

static void *read_pipe(void *unused)
{
	char byte;

	(void)!read(pipes[0], &byte, 1); /* waits: reader */
	return unused;
}

static void *write_pipe(void *unused)
{
	static char much[1 << 20];

	(void)!write(full[1], much, sizeof(much)); /* waits: writer */
	return unused;
}

static void *poll_pipe(void *unused)
{
	struct pollfd polled = { .fd = pipes[0], .events = POLLIN };

	poll(&polled, 1, -1); /* waits: poll */
	return unused;
}

static void *poll_by_epoll(void *unused)
{
	struct epoll_event event = { .events = EPOLLIN };
	int poll = epoll_create1(0);

	epoll_ctl(poll, EPOLL_CTL_ADD, pipes[0], &event);
	epoll_wait(poll, &event, 1, -1); /* waits: epoll */
	return unused;
}

static void *poll_by_select(void *unused)
{
	fd_set polled;

	FD_ZERO(&polled);
	FD_SET(full[1], &polled);
	select(full[1] + 1, NULL, &polled, NULL, NULL); /* waits: select */
	return unused;
}

static void *lock_of_file(void *unused)
{
	flock(open("locked", O_RDWR), LOCK_EX); /* waits: flock */
	return unused;
}

static void *lock_of_record(void *unused)
{
	struct flock record = { .l_type = F_WRLCK, .l_start = 1, .l_len = 1 };

	fcntl(open("locked", O_RDWR), F_OFD_SETLKW, &record); /* waits: record */
	return unused;
}

static void *lock_of_many(void *unused)
{
	pthread_mutex_lock(&many[2].locks[1]); /* waits: many */
	return unused;
}

static void *sleep_long(void *unused)
{
	nanosleep(&(struct timespec){ .tv_sec = 1000 }, NULL); /* waits: sleep */
	return unused;
}

static void short_pause(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 10 * 1000 * 1000 }, NULL);
}

static pthread_t start(const char *name, void *(*function)(void *))
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, function, NULL))
		exit(1);
	pthread_setname_np(thread, name);
	short_pause();
	return thread;
}

int main(void)
{
	struct flock all = { .l_type = F_WRLCK };
	pid_t child, parent;
	int file;

	if (pipe(pipes) || pipe(full))
		return 1;
	/* A process that waits for its child, which does nothing but live. */
	parent = fork();
	if (!parent) {
		prctl(PR_SET_NAME, "parent");
		child = fork();
		if (!child) {
			prctl(PR_SET_NAME, "child");
			for (;;)
				pause(); /* waits: child */
		}
		waitpid(child, NULL, 0); /* waits: parent */
		_exit(0);
	}
	owner = start("owner", own);
	start("lock", lock);
	start("condition", wait_for_condition);
	start("join", join);
	start("reader", read_pipe);
	start("writer", write_pipe);
	start("poll", poll_pipe);
	start("epoll", poll_by_epoll);
	start("select", poll_by_select);
	pthread_mutex_lock(&many[2].locks[1]);
	start("many", lock_of_many);
	file = open("locked", O_RDWR | O_CREAT, 0600);
	if (flock(file, LOCK_EX) || fcntl(file, F_SETLK, &all))
		return 1;
	start("flock", lock_of_file);
	start("record", lock_of_record);
	start("sleep", sleep_long);
	MARK("all wait"); /* at all wait */
	_exit(0);
}
