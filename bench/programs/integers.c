// SPDX-License-Identifier: MIT
/* Counts the primes below argv[1] times ten, in memory of that size: integers and branches. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	size_t end = argc > 1 ? strtoul(argv[1], NULL, 10) * 10 : 0;
	unsigned char *composite = calloc(end ? end : 1, 1);
	size_t count = 0;

	if (!composite)
		return EXIT_FAILURE;
	for (size_t i = 2; i < end; i++) {
		if (composite[i])
			continue;
		count++;
		for (size_t j = i * i; j < end; j += i)
			composite[j] = 1;
	}
	printf("%zu\n", count);
	return EXIT_SUCCESS;
}
