// SPDX-License-Identifier: MIT
/* write-nar PATH: the NAR of PATH, on standard output. */
#include <stdio.h>
#include <unistd.h>

#include "fail.h"
#include "io.h"
#include "nar.h"

static void emit(void *context, const void *data, size_t size)
{
	(void)context;
	if (write_all(STDOUT_FILENO, data, size) < 0)
		fail_errno("standard output");
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: write-nar PATH\n");
		return 2;
	}
	nar_write(argv[1], argv[1], emit, NULL);
	return 0;
}
