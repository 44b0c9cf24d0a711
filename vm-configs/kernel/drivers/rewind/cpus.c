// SPDX-License-Identifier: GPL-2.0
/*
 * The CPUs programs see. One runs, but a program that counts them, from its
 * affinity or from /proc, finds as many as the job's setting says, and may bind
 * its threads to any of them.
 *
 * On a uniprocessor task_struct::cpus_mask means nothing to the scheduler, is
 * inherited over fork, and has room for 64 bits: it holds what a task sees as
 * its affinity.
 */
#include <linux/bits.h>
#include <linux/cpumask.h>
#include <linux/pid.h>
#include <linux/rewind.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>
#include <asm/processor.h>
#include <asm/syscall.h>

#include "rewind.h"

static int cores = 1;

int rewind_cores(void)
{
	return cores;
}

int rewind_set_cores(unsigned long n)
{
	if (n < 1 || n > BITS_PER_LONG)
		return -EINVAL;
	cores = n;
	return 0;
}

static unsigned long all(void)
{
	return GENMASK(cores - 1, 0);
}

static unsigned long *mask_of(struct task_struct *task)
{
	return cpumask_bits(&task->cpus_mask);
}

void rewind_cpus_start(void)
{
	*mask_of(current) = all();
}

static struct task_struct *find_task(pid_t pid)
{
	return pid ? find_task_by_vpid(pid) : current;
}

/*
 * The kernel wrote 8 bytes: one word with a bit for CPU 0. It has just done so,
 * and nothing that could have taken the page away has run since.
 */
static void show_affinity(pid_t pid, unsigned long __user *user)
{
	struct task_struct *task = find_task(pid);

	if (WARN_ON_ONCE(!task))
		return;
	if (copy_to_user_nofault(user, mask_of(task), sizeof(*user)))
		WARN_ONCE(1, "rewind: an affinity mask that was just written is gone\n");
}

/*
 * The kernel has checked the call but for the mask, which it finds empty if CPU
 * 0 is not in it.
 */
static void set_affinity(struct pt_regs *regs, pid_t pid, size_t len,
			 const unsigned long __user *user, long ret)
{
	struct task_struct *task = find_task(pid);
	unsigned long mask = 0;

	if ((ret && ret != -EINVAL) || !task || (task->flags & PF_NO_SETAFFINITY))
		return;
	if (copy_from_user_nofault(&mask, user, min(len, sizeof(mask))))
		return;
	mask &= all();
	if (!mask)
		return;
	*mask_of(task) = mask;
	syscall_set_return_value(current, regs, 0, 0);
}

/**
 * rewind_cpus_exit - Make the result of an affinity call what it should be
 * @regs:	Registers of the running task, which is of the job
 * @ret:	What the call is about to return
 *
 * Called at the end of each system call.
 */
void rewind_cpus_exit(struct pt_regs *regs, long ret)
{
	switch (regs->orig_ax) {
	case __NR_sched_getaffinity:
		if (ret > 0)
			show_affinity(regs->di, (void __user *)regs->dx);
		break;
	case __NR_sched_setaffinity:
		set_affinity(regs, regs->di, (unsigned int)regs->si,
			     (const void __user *)regs->dx, ret);
		break;
	}
}

/* /proc/cpuinfo: the one processor, as often as there seem to be CPUs */

extern const struct seq_operations cpuinfo_op;

static void *cpuinfo_start(struct seq_file *m, loff_t *pos)
{
	return *pos < cores ? (void *)(unsigned long)(*pos + 1) : NULL;
}

static void *cpuinfo_next(struct seq_file *m, void *v, loff_t *pos)
{
	++*pos;
	return cpuinfo_start(m, pos);
}

static void cpuinfo_stop(struct seq_file *m, void *v)
{
}

static int cpuinfo_show(struct seq_file *m, void *v)
{
	struct cpuinfo_x86 cpu = cpu_data(0);

	cpu.cpu_index = (unsigned long)v - 1;
	return cpuinfo_op.show(m, &cpu);
}

extern const struct seq_operations rewind_cpuinfo_op;
const struct seq_operations rewind_cpuinfo_op = {
	.start	= cpuinfo_start,
	.next	= cpuinfo_next,
	.stop	= cpuinfo_stop,
	.show	= cpuinfo_show,
};
