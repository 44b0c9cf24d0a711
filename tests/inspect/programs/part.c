// SPDX-License-Identifier: MIT
#include "part.h"

int part_apply(int (*function)(int), int value)
{
	return function(value) + 1; /* calls: part */
}
