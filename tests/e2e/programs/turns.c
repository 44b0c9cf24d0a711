// SPDX-License-Identifier: MIT
/*
 * turns: two threads take turns, by one mutex and one condition variable.
 *
 * There is nothing wrong with it. Each of the two both waits and tells the
 * other, so each changes all of the counters in the condition variable, and
 * back again.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static intptr_t turn;

static void *work(void *number)
{
	for (int i = 0; i < 20; i++) {
		pthread_mutex_lock(&mutex);
		while (turn != (intptr_t)number)
			pthread_cond_wait(&changed, &mutex);
		turn = !turn;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&mutex);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[2];

	for (intptr_t i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, work, (void *)i) != 0)
			return 1;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	return open(getenv("out"), O_WRONLY | O_CREAT, 0666) < 0;
}
