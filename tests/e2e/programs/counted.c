// SPDX-License-Identifier: MIT
/*
 * counted: what makes counting a task's calls and instructions less than plain.
 *
 * A signal's handler, between a call and what follows it; a child that shares
 * the memory of its parent, which waits; and a thread that executes a program,
 * and goes on with the number of the process's first thread.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t handled;

static void handle(int signal)
{
	for (int i = 0; i < 100; i++)
		handled += signal;
}

static void *become(void *unused)
{
	(void)unused;
	execl("/proc/self/exe", "counted", "again", NULL);
	_exit(1);
}

static int again(void)
{
	int file = open(getenv("out"), O_WRONLY | O_CREAT, 0666);

	return file < 0 || write(file, "counted\n", 8) != 8;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	pid_t child;
	int status;

	(void)argv;
	if (argc > 1)
		return again();
	if (signal(SIGUSR1, handle) == SIG_ERR || kill(getpid(), SIGUSR1) || !handled)
		return 1;
	child = vfork();
	if (!child)
		_exit(7);
	if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 7)
		return 1;
	if (pthread_create(&thread, NULL, become, NULL))
		return 1;
	for (;;)
		pause();
}
