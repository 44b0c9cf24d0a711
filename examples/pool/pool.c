// SPDX-License-Identifier: MIT
/*
 * pool: a thread pool whose shutdown frees the queue before it joins the
 * workers.
 *
 * When all results are there, nobody seems to need the queue any more. But a
 * worker has yet to write into it that its last job is done. If it loses its
 * turn between the result and that, the queue is gone when it goes on, and the
 * program dies of a segmentation fault.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKERS 2
#define JOBS 8

struct job {
	void (*run)(void *arg);
	void *arg;
	bool done;
};

/* So large that malloc makes it a mapping of its own, which free takes away. */
struct queue {
	size_t first; /* the next to be taken */
	size_t last; /* the next to be added */
	struct job jobs[16384];
};

struct pool {
	pthread_t workers[WORKERS];
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool stopping;
	struct queue *queue;
};

static void check(int error, const char *what)
{
	if (error) {
		fprintf(stderr, "pool: %s: %s\n", what, strerror(error));
		exit(EXIT_FAILURE);
	}
}

/* The next job, NULL if there will be none; with the lock held. */
static struct job *take(struct pool *pool)
{
	while (!pool->stopping && pool->queue->first == pool->queue->last)
		pthread_cond_wait(&pool->changed, &pool->lock);
	return pool->stopping ? NULL : &pool->queue->jobs[pool->queue->first++];
}

static void *work(void *arg)
{
	struct pool *pool = arg;
	struct job *job;

	pthread_mutex_lock(&pool->lock);
	while ((job = take(pool))) {
		pthread_mutex_unlock(&pool->lock);
		job->run(job->arg);
		pthread_mutex_lock(&pool->lock);
		job->done = true;
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

static void submit(struct pool *pool, void (*run)(void *arg), void *arg)
{
	pthread_mutex_lock(&pool->lock);
	pool->queue->jobs[pool->queue->last++] = (struct job){ .run = run, .arg = arg };
	pthread_cond_signal(&pool->changed);
	pthread_mutex_unlock(&pool->lock);
}

static void start(struct pool *pool)
{
	pool->queue = calloc(1, sizeof(*pool->queue));
	check(pool->queue ? 0 : ENOMEM, "queue");
	for (size_t i = 0; i < WORKERS; i++)
		check(pthread_create(&pool->workers[i], NULL, work, pool), "thread");
}

/* Jobs that no worker has taken are dropped. */
static void shut_down(struct pool *pool)
{
	pthread_mutex_lock(&pool->lock);
	pool->stopping = true;
	pthread_cond_broadcast(&pool->changed);
	pthread_mutex_unlock(&pool->lock);
	free(pool->queue);

	for (size_t i = 0; i < WORKERS; i++)
		check(pthread_join(pool->workers[i], NULL), "join");
}

struct square {
	long number;
	long result;
	sem_t *done;
};

static void compute(void *arg)
{
	struct square *square = arg;

	square->result = square->number * square->number;
	sem_post(square->done);
}

int main(void)
{
	struct pool pool = {
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.changed = PTHREAD_COND_INITIALIZER,
	};
	struct square squares[JOBS];
	sem_t done;
	long sum = 0;

	sem_init(&done, 0, 0);
	start(&pool);
	for (long i = 0; i < JOBS; i++) {
		squares[i] = (struct square){ .number = i, .done = &done };
		submit(&pool, compute, &squares[i]);
	}
	for (size_t i = 0; i < JOBS; i++)
		sem_wait(&done);
	for (size_t i = 0; i < JOBS; i++)
		sum += squares[i].result;
	printf("sum of %d squares: %ld\n", JOBS, sum);
	fflush(stdout);

	shut_down(&pool);
	return EXIT_SUCCESS;
}
