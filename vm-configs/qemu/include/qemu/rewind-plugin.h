/*
 * What the rewind device offers to plugins, beside qemu-plugin.h, which is to
 * be included first.
 *
 * Copyright (c) 2026 the rewind authors
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Time is the guest's: nanoseconds since the machine was started, as
 * QEMU_CLOCK_VIRTUAL counts them with -icount shift=0. Nothing here changes
 * what the guest does, nor when by its own clock.
 */

#ifndef REWIND_PLUGIN_H
#define REWIND_PLUGIN_H

/*
 * The time before an instruction. For its callbacks, of execution and of memory
 * accesses: @behind is the number of instructions of its translation block from
 * it on, itself included. (A block's instructions are taken from the budget
 * when the block is entered.) Outside of callbacks of the vCPU: the time, and
 * @behind must be 0.
 */
QEMU_PLUGIN_API
int64_t rewind_time(unsigned int behind);

/*
 * Stops the machine exactly before an instruction, and does not return. Only
 * for a callback of its execution, with QEMU_PLUGIN_CB_R_REGS; @ra is
 * __builtin_return_address(0) of the function that QEMU has called.
 */
QEMU_PLUGIN_API
void rewind_stop_here(uintptr_t ra) __attribute__((noreturn));

/* Stops the machine at the end of the translation block that is executed. */
QEMU_PLUGIN_API
void rewind_stop_soon(void);

/*
 * Stops the machine at @time, or at once if that is over; takes the place of
 * the last one that was asked for, and -1 asks for none. Only in a callback of
 * rewind_on_start().
 */
QEMU_PLUGIN_API
void rewind_stop_at(int64_t time);

/*
 * Reads the guest's memory at a virtual address, as the vCPU would see it now
 * with the rights of the kernel. False if nothing is there.
 */
QEMU_PLUGIN_API
bool rewind_read(uint64_t address, void *data, size_t size);

/*
 * Calls @start whenever the machine is about to run, at first and after each
 * stop: the vCPU is not executing anything.
 */
QEMU_PLUGIN_API
void rewind_on_start(void (*start)(void));

/*
 * Forgets all translated code, so that the plugin sees it again. Only in a
 * callback of rewind_on_start().
 */
QEMU_PLUGIN_API
void rewind_retranslate(void);

#endif
