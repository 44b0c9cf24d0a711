// SPDX-License-Identifier: MIT
/* makefile: prints its version, which make writes into a header. */
#include "version.h"

#include <stdio.h>

int main(void)
{
	puts("makefile " VERSION);
	return 0;
}
