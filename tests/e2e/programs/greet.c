// SPDX-License-Identifier: MIT
#include <unistd.h>

void greet(int number);

void greet(int number)
{
	char text[] = "hello 0\n";
	text[6] += number;
	if (write(1, text, sizeof(text) - 1) < 0)
		_exit(1);
}
