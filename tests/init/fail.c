// SPDX-License-Identifier: MIT
/* fail() for a part of init that is tested without a machine: says why, exits with status 3. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"

static void __attribute__((noreturn)) end(int error, const char *format, va_list args)
{
	vfprintf(stderr, format, args);
	fprintf(stderr, error ? ": %s\n" : "\n", strerror(error));
	exit(3);
}

void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	end(0, format, args);
}

void fail_errno(const char *format, ...)
{
	int error = errno;
	va_list args;

	va_start(args, format);
	end(error, format, args);
}
