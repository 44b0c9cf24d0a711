/* SPDX-License-Identifier: MIT */
/* Of a shared library that is made in the same build. */
int part_apply(int (*function)(int), int value);
