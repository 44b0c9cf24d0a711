/*
 * What the rewind device is told by the CPU.
 *
 * Copyright (c) 2026 the rewind authors
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_REWIND_H
#define HW_MISC_REWIND_H

/*
 * The CPU begins or ends to be in user mode. The time is exact then: the
 * instruction that does it is the last of its block, and what an exception or an
 * interrupt has cut short was given back to the budget.
 */
void rewind_user_mode(bool user);

#endif
