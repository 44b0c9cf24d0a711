// SPDX-License-Identifier: GPL-2.0
/*
 * A shell in a fork of a run: at the position that a user asks for the device
 * raises its interrupt, the job is stopped, and another process of init takes
 * over, which starts the shell and hands on what goes in and out.
 *
 * What the user types comes at any time, and nobody records it. A run never has
 * any of this.
 */
#include <linux/sched/signal.h>
#include <linux/tty.h>
#include <linux/uaccess.h>
#include <linux/umh.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "rewind.h"

/* whether there is a shell */
static bool active;

/* what init is waiting on for input, and whether there may be some */
static DECLARE_WAIT_QUEUE_HEAD(input_wait);
static bool input_there;

/* the user's terminal, as the shell has it */
static struct tty_struct *terminal;

/*
 * Init's own file. The initramfs that it is from is out of sight: the root
 * directory of the kernel's threads is init's.
 */
static void run_init(struct work_struct *work)
{
	static char *argv[3] = { "/proc/1/exe", "shell" };
	static char *envp[1];
	int err = call_usermodehelper(argv[0], argv, envp, UMH_WAIT_EXEC);

	if (!err)
		return;
	pr_err("rewind: cannot start a shell: %d\n", err);
	rewind_write(REWIND_COMMAND, REWIND_COMMAND_FINISHED);
}

static DECLARE_WORK(run_init_work, run_init);

/*
 * Nothing of the job executes another instruction in user mode; what is in a
 * system call gets to its end, or to where a signal interrupts it.
 */
static void stop_job(void)
{
	struct task_struct *task;

	rcu_read_lock();
	for_each_process(task)
		if (rewind_of_job(task))
			do_send_sig_info(SIGSTOP, SEND_SIG_PRIV, task,
					 PIDTYPE_TGID);
	rcu_read_unlock();
}

/**
 * rewind_shell_start - Have init start a shell, beside a job that stands still
 *
 * Called from the device's interrupt.
 */
void rewind_shell_start(void)
{
	if (active)
		return;
	active = true;
	stop_job();
	schedule_work(&run_init_work);
}

/**
 * rewind_shell_input - There is input
 *
 * Called from the device's interrupt.
 */
void rewind_shell_input(void)
{
	input_there = true;
	wake_up_interruptible(&input_wait);
}

/**
 * rewind_shell_idle - The CPU has nothing to do
 * @stalled:	Whether no timer will give it anything to do
 *
 * Called with interrupts disabled, right before the CPU waits for one. An idle
 * machine goes straight to its next timer. While somebody waits for a key that
 * would make its clock run away, so then the device waits for that timer by the
 * host's clock, or for the user.
 *
 * Return: whether there is a shell, whose user can end any stall
 */
bool rewind_shell_idle(bool stalled)
{
	if (!active)
		return false;
	/* one CPU: nobody is about to join the queue */
	if (stalled || (terminal && waitqueue_active(&terminal->read_wait)))
		rewind_read(REWIND_WAIT);
	return true;
}

/**
 * rewind_shell_end - The machine is about to end
 *
 * Not with the job, if there is a shell: its end is to be told first.
 */
void rewind_shell_end(void)
{
	while (active && is_global_init(current))
		schedule_timeout_idle(MAX_SCHEDULE_TIMEOUT);
}

/**
 * rewind_shell_terminal - The caller's controlling terminal is the user's
 */
void rewind_shell_terminal(void)
{
	if (!terminal)
		terminal = get_current_tty();
}

/**
 * rewind_shell_read - Give what the user has typed
 * @file:	Open file, which may be non-blocking
 * @buf:	Where to
 * @count:	How much at most
 *
 * Return: how much, or a negative error code
 */
ssize_t rewind_shell_read(struct file *file, char __user *buf, size_t count)
{
	if (!count)
		return 0;
	for (;;) {
		size_t n;

		mutex_lock(&rewind_bulk_lock);
		/* before looking: what comes from here on sets it again */
		input_there = false;
		rewind_write(REWIND_TAKE,
			     min(count, (size_t)REWIND_BUFFER_SIZE));
		n = rewind_read(REWIND_FETCHED);
		/* there may be more */
		if (n)
			input_there = true;
		if (copy_to_user(buf, rewind_bulk(), n)) {
			mutex_unlock(&rewind_bulk_lock);
			return -EFAULT;
		}
		mutex_unlock(&rewind_bulk_lock);
		if (n)
			return n;
		if (file->f_flags & O_NONBLOCK)
			return -EAGAIN;
		if (wait_event_interruptible(input_wait, input_there))
			return -ERESTARTSYS;
	}
}

__poll_t rewind_shell_poll(struct file *file, poll_table *wait)
{
	poll_wait(file, &input_wait, wait);
	return input_there ? EPOLLIN | EPOLLRDNORM : 0;
}
