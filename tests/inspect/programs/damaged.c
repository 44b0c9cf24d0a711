// SPDX-License-Identifier: MIT
/* Stacks that make no sense: none, one that goes in circles, and one of random numbers. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mark.h"

static uint64_t words[1 << 16];

/* Writes what is at @text, with the stack pointer and the frame pointer given, and puts them back. */
static void write_with_stack(const char *text, uint64_t sp, uint64_t bp)
{
	/* at the stack */
	__asm__ volatile("mov %%rsp, %%r12\n\t"
			 "mov %%rbp, %%r13\n\t"
			 "mov %[sp], %%rsp\n\t"
			 "mov %[bp], %%rbp\n\t"
			 "syscall\n\t"
			 "mov %%r12, %%rsp\n\t"
			 "mov %%r13, %%rbp"
			 :
			 : "a"(1), "D"(1), "S"(text), "d"(strlen(text)), [sp] "r"(sp), [bp] "r"(bp)
			 : "r12", "r13", "rcx", "r11", "memory");
}

int main(void)
{
	uint64_t number = 88172645463325252ULL;
	size_t i;

	write_with_stack("at no stack\n", 8, 16);
	write_with_stack("at kernel stack\n", 0xffff888000001000ULL, 0xffffffff81000000ULL);
	for (i = 0; i < sizeof(words) / sizeof(*words); i += 2) {
		words[i] = (uint64_t)&words[i];
		words[i + 1] = (uint64_t)main + 8;
	}
	write_with_stack("at circle\n", (uint64_t)&words[64], (uint64_t)&words[128]);
	for (i = 0; i < sizeof(words) / sizeof(*words); i++) {
		number ^= number << 13;
		number ^= number >> 7;
		number ^= number << 17;
		/* half of them are addresses of code or of this array */
		words[i] = number & 1 ? number :
			   number & 2 ? (uint64_t)main + (number >> 8) % 64 :
					(uint64_t)&words[(number >> 8) % (1 << 16)];
	}
	write_with_stack("at random stack\n", (uint64_t)&words[64], (uint64_t)&words[96]);
	return 0;
}
