// SPDX-License-Identifier: MIT
/* What runs as the job, in the tests of the kernel. */
#define _GNU_SOURCE
#include <stdlib.h>

#include "check.h"

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!strcmp(what, "features"))
		return features();
	if (!strcmp(what, "cpus"))
		return cpus(atoi(argv[2]));
	if (!strcmp(what, "wait"))
		return wait_by(argv[2]);
	if (!strcmp(what, "turns"))
		return turns(argv[2]);
	if (!strcmp(what, "wakes"))
		return wakes(argv[2]);
	if (!strcmp(what, "hog"))
		return memory_hog();
	if (!strcmp(what, "calls"))
		return calls();
	if (!strcmp(what, "exit"))
		return atoi(argv[2]);
	printf("unknown check: %s\n", what);
	return 2;
}
