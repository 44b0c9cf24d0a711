// SPDX-License-Identifier: MIT
/*
 * sharing: hands values from one thread or process to another in all ways, and
 * in some that are none. What begins with raced_ is accessed by two, and
 * nothing orders them; of what begins with right_ it is sure who is the first,
 * or that there is never more than one.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what)                                                      \
	do {                                                             \
		if (!(what)) {                                           \
			fprintf(stderr, "sharing: line %d\n", __LINE__); \
			exit(EXIT_FAILURE);                              \
		}                                                        \
	} while (0)

static pthread_t start(void *(*function)(void *), void *argument)
{
	pthread_t made;

	CHECK(!pthread_create(&made, NULL, function, argument));
	return made;
}

static void join(pthread_t thread)
{
	CHECK(!pthread_join(thread, NULL));
}

/* As long as the other thread takes to be where it waits, or done. */
static void rest(void)
{
	usleep(1000);
}

/* --- handed over: the one that gives comes first, or the one that takes waits */

static long right_join, right_semaphore, right_waited, right_pipe, right_socket;
static long right_event, right_condition, right_flag;
static sem_t given, wanted;
static int pipe_ends[2], socket_ends[2], event;
static pthread_mutex_t condition_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static bool condition_met;
static atomic_int flag;

static void *give(void *unused)
{
	char byte = 1;
	eventfd_t count = 1;

	(void)unused;
	right_join = 1;
	right_semaphore = 1;
	sem_post(&given);
	right_pipe = 1;
	CHECK(write(pipe_ends[1], &byte, 1) == 1);
	right_socket = 1;
	CHECK(write(socket_ends[1], &byte, 1) == 1);
	right_event = 1;
	CHECK(!eventfd_write(event, count));
	right_flag = 1;
	atomic_exchange(&flag, 1);
	rest();
	rest();
	right_waited = 1;
	sem_post(&wanted);
	rest();
	pthread_mutex_lock(&condition_lock);
	right_condition = 1;
	condition_met = true;
	pthread_cond_signal(&condition);
	pthread_mutex_unlock(&condition_lock);
	return NULL;
}

static void take(void)
{
	pthread_t giver = start(give, NULL);
	char byte;
	eventfd_t count;
	long sum = 0;

	/* All is there already, and nobody sleeps for it. */
	rest();
	sem_wait(&given);
	sum += right_semaphore;
	CHECK(read(pipe_ends[0], &byte, 1) == 1);
	sum += right_pipe;
	CHECK(read(socket_ends[0], &byte, 1) == 1);
	sum += right_socket;
	CHECK(!eventfd_read(event, &count));
	sum += right_event;
	while (!atomic_load(&flag))
		;
	sum += right_flag;
	/* It is not, and somebody does. */
	sem_wait(&wanted);
	sum += right_waited;
	pthread_mutex_lock(&condition_lock);
	while (!condition_met)
		pthread_cond_wait(&condition, &condition_lock);
	sum += right_condition;
	pthread_mutex_unlock(&condition_lock);
	join(giver);
	sum += right_join;
	CHECK(sum == 8);
}

/* --- kept apart */

static long right_mutex, right_spin, right_own, right_read, right_binary, right_stack;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_spinlock_t spin;
static pthread_rwlock_t readers = PTHREAD_RWLOCK_INITIALIZER;
static sem_t binary;
static atomic_flag own = ATOMIC_FLAG_INIT;

static void *keep_apart(void *unused)
{
	/* Where the other one's stack was, or will be. */
	volatile long mine[64] = { 1 };

	(void)unused;
	pthread_mutex_lock(&mutex);
	right_mutex++;
	pthread_mutex_unlock(&mutex);
	pthread_spin_lock(&spin);
	right_spin++;
	pthread_spin_unlock(&spin);
	while (atomic_flag_test_and_set(&own))
		;
	right_own++;
	atomic_flag_clear(&own);
	pthread_rwlock_wrlock(&readers);
	right_read++;
	pthread_rwlock_unlock(&readers);
	pthread_rwlock_rdlock(&readers);
	mine[1] = right_read;
	pthread_rwlock_unlock(&readers);
	sem_wait(&binary);
	right_binary++;
	sem_post(&binary);
	return (void *)mine[0];
}

static void *detach(void *done)
{
	pthread_detach(pthread_self());
	keep_apart(NULL);
	sem_post(done);
	return NULL;
}

/* Each has it for itself, and the next one gets what the last has given back. */
static void *allocate(void *unused)
{
	volatile long *right_heap = malloc(64 * sizeof(*right_heap));

	(void)unused;
	CHECK(right_heap);
	for (int i = 0; i < 64; i++)
		right_heap[i] = i;
	free((void *)right_heap);
	return NULL;
}

/* --- raced for */

static long raced_plain, raced_update, raced_after_a_lock;
static struct {
	long before;
	struct {
		long value;
	} raced_member[2];
} raced_struct;

static void *race(void *unused)
{
	(void)unused;
	raced_plain = raced_plain + 1;
	__asm__ volatile("addq $1, %0" : "+m"(raced_update));
	raced_struct.raced_member[1].value = 1;
	pthread_mutex_lock(&mutex);
	right_mutex++;
	pthread_mutex_unlock(&mutex);
	/* It would have to be before that. */
	raced_after_a_lock = 1;
	return NULL;
}

struct node {
	long number;
	long raced_in_heap;
};

static void *race_in_heap(void *argument)
{
	struct node *node = argument;

	node->raced_in_heap++;
	return NULL;
}

static void two(void *(*function)(void *), void *argument)
{
	pthread_t one = start(function, argument);

	rest();
	function(argument);
	join(one);
}

/* --- between processes */

struct shared {
	long raced_process;
	long right_process;
	long right_child;
	sem_t given;
};

static void processes(void)
{
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t child;
	int status;

	CHECK(shared != MAP_FAILED);
	CHECK(!sem_init(&shared->given, 1, 0));
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		shared->raced_process++;
		shared->right_process = 1;
		sem_post(&shared->given);
		shared->right_child = 1;
		_exit(EXIT_SUCCESS);
	}
	shared->raced_process++;
	sem_wait(&shared->given);
	CHECK(shared->right_process == 1);
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(shared->right_child == 1);
}

int main(void)
{
	sem_t done;
	pthread_t allocators[3];
	struct node *node = calloc(1, sizeof(*node));

	CHECK(node);
	CHECK(!sem_init(&given, 0, 0) && !sem_init(&wanted, 0, 0) && !sem_init(&binary, 0, 1));
	CHECK(!pipe(pipe_ends) && !socketpair(AF_UNIX, SOCK_STREAM, 0, socket_ends));
	event = eventfd(0, 0);
	CHECK(event >= 0);
	CHECK(!pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE));
	CHECK(!sem_init(&done, 0, 0));
	take();
	two(keep_apart, NULL);
	for (int i = 0; i < 3; i++)
		start(detach, &done);
	for (int i = 0; i < 3; i++)
		sem_wait(&done);
	rest();
	right_stack = (long)keep_apart(NULL);
	for (int i = 0; i < 3; i++) {
		allocators[i] = start(allocate, NULL);
		rest();
	}
	for (int i = 0; i < 3; i++)
		join(allocators[i]);
	two(race, NULL);
	two(race_in_heap, node);
	processes();
	free(node);
	puts("shared");
	return EXIT_SUCCESS;
}
