// SPDX-License-Identifier: MIT
/*
 * deadlock: a builder whose two threads take two locks, one each way round.
 * When one is held up between its locks, both wait for ever.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t locks[] = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER };
static volatile unsigned int mind;

static void think(void)
{
	for (int i = 0; i < 10000; i++)
		mind = 3 * mind + 1;
}

static void *forwards(void *unused)
{
	pthread_mutex_lock(&locks[0]);
	think();
	pthread_mutex_lock(&locks[1]); /* forwards waits here */
	pthread_mutex_unlock(&locks[1]);
	pthread_mutex_unlock(&locks[0]);
	return unused;
}

static void *backwards(void *unused)
{
	pthread_mutex_lock(&locks[1]);
	think();
	pthread_mutex_lock(&locks[0]); /* backwards waits here */
	pthread_mutex_unlock(&locks[0]);
	pthread_mutex_unlock(&locks[1]);
	return unused;
}

int main(void)
{
	pthread_t threads[2];

	if (pthread_create(&threads[0], NULL, forwards, NULL) ||
	    pthread_create(&threads[1], NULL, backwards, NULL))
		return 3;
	pthread_join(threads[0], NULL); /* main waits here */
	pthread_join(threads[1], NULL); /* main waits here */
	return creat(getenv("out"), 0644) < 0 ? 2 : 0;
}
