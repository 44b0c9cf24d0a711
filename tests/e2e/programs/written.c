// SPDX-License-Identifier: MIT
/*
 * written: two threads count, by a function that the program writes itself.
 *
 * As a JIT compiler does: the function is in no file, and there are no source
 * lines of it. Nothing orders what the two do.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const unsigned char code[] = {
	0x48, 0x8b, 0x07,		/* mov (%rdi), %rax */
	0x48, 0x83, 0xc0, 0x01,		/* add $1, %rax */
	0x48, 0x89, 0x07,		/* mov %rax, (%rdi) */
	0xc3,				/* ret */
};
static long counted;
static void (*add)(long *);

static void *work(void *unused)
{
	for (int i = 0; i < 10; i++) {
		add(&counted);
		sched_yield();
	}
	return unused;
}

int main(void)
{
	pthread_t threads[2];
	void *place = mmap(NULL, sizeof(code), PROT_READ | PROT_WRITE | PROT_EXEC,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (place == MAP_FAILED)
		return 1;
	memcpy(place, code, sizeof(code));
	add = place;
	for (int i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, work, NULL) != 0)
			return 1;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	return counted != 20 || open(getenv("out"), O_WRONLY | O_CREAT, 0666) < 0;
}
