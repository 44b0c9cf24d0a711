// SPDX-License-Identifier: MIT
/* Goes into the kernel by system calls, page faults, and a timer's interrupts. */
#include <stdlib.h>

#include "mark.h"

static volatile int sink;

static __attribute__((noinline)) void work(void)
{
	char *page;
	int i;

	MARK("begin"); /* at begin */
	for (i = 0; i < 8; i++) {
		page = malloc(1 << 20);
		if (!page)
			exit(1);
		page[4096] = 1;
		getppid();
		free(page);
	}
	/* Some time slices. */
	for (i = 0; i < 20 * 1000 * 1000; i++)
		sink = i;
}

int main(void)
{
	work();
	return sink == 0;
}
