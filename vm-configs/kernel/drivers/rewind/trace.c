// SPDX-License-Identifier: GPL-2.0
/*
 * The records: what the tasks of the job do, from the tracepoints of the kernel.
 *
 * All of them run with preemption disabled, some with interrupts off or the run
 * queue locked. User memory is therefore read only as far as it is present.
 */
#include <linux/binfmts.h>
#include <linux/interrupt.h>
#include <linux/mm_types.h>
#include <linux/pid_namespace.h>
#include <linux/signal.h>
#include <linux/socket.h>
#include <linux/uaccess.h>
#include <linux/uio.h>
#include <asm/syscall.h>
#include <trace/events/irq.h>
#include <trace/events/sched.h>
#include <trace/events/signal.h>
#include <trace/events/syscalls.h>
#include <trace/events/task.h>

#include "rewind.h"

/* how much of what an argument points to is kept, in bytes */
#define MAX_STRING	256
#define MAX_DATA	64
#define MAX_ADDRESS	128	/* a struct sockaddr_un fits */
#define MAX_ARGUMENTS	512

/* flags of a record */
#define COMPAT		1	/* enter, exit: a call by int $0x80 */
#define LAST_THREAD	1	/* end of task: and of its process */
#define IN_INTERRUPT	1	/* wake: by an interrupt or a softirq */

/*
 * Who runs. It is looked up when a task gets the CPU, not for each record, and
 * so also names a task that has ended and has no pid any more.
 */
struct rewind_ids rewind_current;

/* the namespace the job's tasks are visible in; none until the trace has started */
static struct pid_namespace *job;

static struct rewind_ids ids_of(struct task_struct *task)
{
	struct rewind_ids ids = {};

	if (job && !(task->flags & PF_KTHREAD)) {
		ids.tid = task_pid_nr_ns(task, job);
		if (ids.tid)
			ids.pid = task_tgid_nr_ns(task, job);
	}
	return ids;
}

/*
 * Softirqs that go on with what a task began: to send over the loopback device
 * is to receive in one of them. The others see to timers and to what the kernel
 * put off, whoever may have raised them.
 */
#define SOFTIRQS_OF_TASKS	(BIT(NET_TX_SOFTIRQ) | BIT(NET_RX_SOFTIRQ) | \
				 BIT(HI_SOFTIRQ) | BIT(TASKLET_SOFTIRQ))

/* by softirq, the tid of the task that raised it last; and of the one that runs */
static u32 raised_by[NR_SOFTIRQS];
static u32 softirq_of;

/*
 * Of whom the record of something that just happens is: of the running task or
 * of nobody. Not of a task that was merely interrupted, but of one whose own
 * doing a softirq is.
 */
static struct rewind_ids actor(void)
{
	if (in_task() || (!in_hardirq() && softirq_of == rewind_current.tid))
		return rewind_current;
	return (struct rewind_ids){};
}

static void probe_softirq_raise(void *data, unsigned int nr)
{
	raised_by[nr] = actor().tid;
}

static void probe_softirq_entry(void *data, unsigned int nr)
{
	softirq_of = BIT(nr) & SOFTIRQS_OF_TASKS ? raised_by[nr] : 0;
}

/* details: what an argument points to */

struct detail {
	u8 argument;
	u8 kind;
	u16 length;
	u8 bytes[];
} __packed;

static void *add_bytes(void *at, u8 argument, u8 kind, const void __user *from,
		       size_t length, size_t limit)
{
	struct detail *d = at;

	d->argument = argument;
	d->kind = length > limit ? kind | REWIND_LONGER : kind;
	d->length = min(length, limit);
	if (copy_from_user_nofault(d->bytes, from, d->length))
		return NULL;
	return d->bytes + d->length;
}

static void *add_string(void *at, u8 argument, const char __user *from)
{
	struct detail *d = at;
	/* one more than fits and its NUL, to tell what is longer from what fits */
	long n = strncpy_from_user_nofault(d->bytes, from, MAX_STRING + 2);

	if (n <= 0)
		return NULL;
	d->argument = argument;
	d->kind = n > MAX_STRING + 1 ? REWIND_STRING | REWIND_LONGER : REWIND_STRING;
	d->length = min_t(long, n - 1, MAX_STRING);
	return d->bytes + d->length;
}

static unsigned long argument(const unsigned long *args, unsigned int n)
{
	return n < 6 ? args[n] : 0;
}

/*
 * Data of an argument: as much as @length says going in (the next argument if
 * negative), or coming out, where @length is the call's result.
 */
static void *add_data(void *at, const unsigned long *args, u8 n, u8 what,
		      long length)
{
	void __user *from = (void __user *)args[n];
	size_t size = length < 0 ? argument(args, n + 1) : length;
	struct user_msghdr message;
	struct iovec vector;

	switch (what) {
	case REWIND_BUFFER:
		return add_bytes(at, n, REWIND_DATA, from, size, MAX_DATA);
	case REWIND_TEXT:
		return add_bytes(at, n, REWIND_STRING, from, size, MAX_STRING);
	case REWIND_ADDRESS:
		return add_bytes(at, n, REWIND_DATA, from, (int)size, MAX_ADDRESS);
	case REWIND_MESSAGE:
		if (copy_from_user_nofault(&message, from, sizeof(message)))
			return NULL;
		if (!message.msg_iovlen)
			return at;
		from = message.msg_iov;
		fallthrough;
	case REWIND_VECTOR:
		if (what == REWIND_VECTOR && length < 0 && !size)
			return at;
		if (copy_from_user_nofault(&vector, from, sizeof(vector)))
			return NULL;
		size = length < 0 ? vector.iov_len :
				    min_t(size_t, vector.iov_len, length);
		return add_bytes(at, n, REWIND_DATA, vector.iov_base, size,
				 MAX_DATA);
	default:
		return at;
	}
}

/*
 * What could not be read when a call was entered, since its page was not there
 * yet, is tried again when it returns: bit N for argument N, per task. The place
 * is that of journalling file systems, of which this kernel has none; a task that
 * forks is in a call that has no such argument, so nothing is inherited.
 */
static unsigned long *missed_of(struct task_struct *task)
{
	return (unsigned long *)&task->journal_info;
}

/*
 * Add the details of the arguments in @wanted. Those that cannot be read are left
 * out and remembered in @missed.
 */
static void *add_details(void *at, const struct rewind_call *call,
			 const unsigned long *args, unsigned long wanted,
			 unsigned long *missed)
{
	unsigned int i;

	for (i = 0; i < 6; i++) {
		void *end;

		if (!(call->strings & wanted & BIT(i)) || !args[i])
			continue;
		end = add_string(at, i, (const char __user *)args[i]);
		if (end)
			at = end;
		else
			*missed |= BIT(i);
	}
	for (i = 0; i < ARRAY_SIZE(call->in); i++) {
		u8 n = call->in[i].argument;
		void *end;

		if (!call->in[i].what || !(wanted & BIT(n)) || !args[n])
			continue;
		end = add_data(at, args, n, call->in[i].what, -1);
		if (end)
			at = end;
		else
			*missed |= BIT(n);
	}
	return at;
}

/* system calls */

static u8 compat_flag(void)
{
	return IS_ENABLED(CONFIG_IA32_EMULATION) && in_ia32_syscall() ? COMPAT : 0;
}

static void probe_enter(void *data, struct pt_regs *regs, long nr)
{
	unsigned long missed = 0, flags;
	struct rewind_record *rec;
	unsigned long *payload;
	void *end;
	u8 compat;

	if (!rewind_current.pid)
		return;

	compat = compat_flag();
	local_irq_save(flags);
	rec = rewind_begin(REWIND_ENTER, compat, rewind_current, nr);
	payload = (unsigned long *)rec->payload;
	syscall_get_arguments(current, regs, payload);
	payload[6] = regs->ip;
	end = payload + 7;
	if (!compat)
		end = add_details(end, rewind_call(nr), payload, ~0UL, &missed);
	*missed_of(current) = missed;
	rewind_commit(rec, end);
	local_irq_restore(flags);
}

static void probe_exit(void *data, struct pt_regs *regs, long ret)
{
	unsigned long wanted, missed = 0, flags;
	const struct rewind_call *call;
	struct rewind_record *rec;
	unsigned long args[6];
	u32 nr;
	u8 compat;
	void *end;

	if (!rewind_current.pid)
		return;

	rewind_cpus_exit(regs, ret);
	ret = syscall_get_return_value(current, regs);
	nr = syscall_get_nr(current, regs);
	/* the registers are of what the signal interrupted */
	if (nr == (u32)-1)
		nr = __NR_rt_sigreturn;
	compat = compat_flag();

	local_irq_save(flags);
	rec = rewind_begin(REWIND_EXIT, compat, rewind_current, nr);
	*(s64 *)rec->payload = ret;
	end = rec->payload + sizeof(s64);

	call = rewind_call(nr);
	wanted = *missed_of(current);
	*missed_of(current) = 0;
	/* a program that has begun has neither the arguments nor the memory */
	if (!ret && (nr == __NR_execve || nr == __NR_execveat))
		wanted = 0;
	if (!compat && (wanted || (call->out.what && ret > 0))) {
		void *more;

		syscall_get_arguments(current, regs, args);
		if (wanted)
			end = add_details(end, call, args, wanted, &missed);
		if (call->out.what && ret > 0 && args[call->out.argument]) {
			more = add_data(end, args, call->out.argument,
					call->out.what, ret);
			if (more)
				end = more;
		}
	}
	rewind_commit(rec, end);
	local_irq_restore(flags);
}

/* tasks */

static void probe_switch(void *data, bool preempt, struct task_struct *prev,
			 struct task_struct *next, unsigned int state)
{
	struct rewind_ids from = rewind_current;
	struct rewind_record *rec;
	u32 *payload;

	rewind_current = ids_of(next);
	if (!from.pid && !rewind_current.pid)
		return;

	/* interrupts are off: the run queue is locked */
	rec = rewind_begin(REWIND_SWITCH, 0, from, state);
	payload = (u32 *)rec->payload;
	*payload++ = rewind_current.pid;
	*payload++ = rewind_current.tid;
	memcpy(payload, next->comm, TASK_COMM_LEN);
	rewind_commit(rec, (u8 *)payload + TASK_COMM_LEN);
}

/*
 * A task of the job can run again. There is exactly one record for each time that
 * it was switched from in a state other than running and had not ended:
 *
 * - A task that is woken up while it runs, on its way to sleep, never left off
 *   being runnable: no record. Only for such a one interrupts may be on here.
 * - Any other is woken up under the lock of the run queue with interrupts off.
 *   It may still be in the queue, as the scheduler takes some that sleep out of
 *   it later (sched_delayed); those do not get the CPU and are woken up like the
 *   rest. None is in the queue because it was preempted on its way to sleep:
 *   that would take a preemptible kernel.
 * - A new task comes by another tracepoint. It has its fork record.
 */
static void probe_wakeup(void *data, struct task_struct *task)
{
	struct rewind_record *rec;
	struct rewind_ids ids;

	if (task == current)
		return;
	ids = ids_of(task);
	if (!ids.pid)
		return;

	rec = rewind_begin(REWIND_WAKE, in_task() ? 0 : IN_INTERRUPT, actor(),
			   ids.tid);
	*(u32 *)rec->payload = ids.pid;
	rewind_commit(rec, rec->payload + sizeof(u32));
}

/* not sched_process_fork, which does not know the flags and misses io_uring's threads */
static void probe_newtask(void *data, struct task_struct *task,
			  unsigned long clone_flags)
{
	struct rewind_ids ids = ids_of(task);
	struct rewind_record *rec;
	unsigned long flags;
	u32 *payload;

	if (!ids.pid)
		return;
	/* clone(2) has the signal in the flags, the kernel has it apart */
	if (task->exit_signal > 0)
		clone_flags |= task->exit_signal;

	local_irq_save(flags);
	rec = rewind_begin(REWIND_FORK, 0, rewind_current, ids.tid);
	payload = (u32 *)rec->payload;
	*payload++ = ids.pid;
	*payload++ = 0;
	*(u64 *)payload = clone_flags;
	rewind_commit(rec, payload + 2);
	local_irq_restore(flags);
}

static void probe_exec(void *data, struct task_struct *task, pid_t old_pid,
		       struct linux_binprm *bprm)
{
	struct mm_struct *mm = task->mm;
	struct rewind_record *rec;
	unsigned long flags;
	struct detail *path;
	void *end, *more;
	size_t length;

	/* a thread that execs takes its leader's tid */
	rewind_current = ids_of(task);
	if (!rewind_current.pid)
		return;

	local_irq_save(flags);
	rec = rewind_begin(REWIND_EXEC, 0, rewind_current, 0);
	path = (struct detail *)rec->payload;
	length = strlen(bprm->filename);
	path->argument = 0;
	path->kind = length > MAX_STRING ? REWIND_STRING | REWIND_LONGER : REWIND_STRING;
	path->length = min_t(size_t, length, MAX_STRING);
	memcpy(path->bytes, bprm->filename, path->length);
	end = path->bytes + path->length;
	/* just written, so it is there */
	more = add_bytes(end, 1, REWIND_LIST, (void __user *)mm->arg_start,
			 mm->arg_end - mm->arg_start, MAX_ARGUMENTS);
	if (!WARN_ON_ONCE(!more))
		end = more;
	rewind_commit(rec, end);
	local_irq_restore(flags);
}

static void probe_task_end(void *data, struct task_struct *task)
{
	bool last = !atomic_read(&task->signal->live);
	struct rewind_record *rec;
	unsigned long flags;

	if (!rewind_current.pid)
		return;

	local_irq_save(flags);
	rec = rewind_begin(REWIND_TASK_END, last ? LAST_THREAD : 0,
			   rewind_current, task->exit_code);
	memcpy(rec->payload, task->comm, TASK_COMM_LEN);
	rewind_commit(rec, rec->payload + TASK_COMM_LEN);
	local_irq_restore(flags);
}

/* signals */

struct cause {
	s32 code;
	u32 sender;
};

/* Most of what the kernel sends has no siginfo, but a number in place of one. */
static struct cause cause_of(int sig, const struct kernel_siginfo *info)
{
	struct cause cause = {};

	if (info == SEND_SIG_NOINFO) {
		cause.code = SI_USER;
		return cause;
	}
	if (info == SEND_SIG_PRIV) {
		cause.code = SI_KERNEL;
		return cause;
	}
	cause.code = info->si_code;
	switch (siginfo_layout(sig, info->si_code)) {
	case SIL_KILL:
	case SIL_CHLD:
	case SIL_RT:
		cause.sender = info->si_pid;
		break;
	default:
		break;
	}
	return cause;
}

static void probe_deliver(void *data, int sig, struct kernel_siginfo *info,
			  struct k_sigaction *action)
{
	struct cause cause = cause_of(sig, info);
	struct rewind_record *rec;
	unsigned long flags;
	u32 *payload;

	if (!rewind_current.pid)
		return;

	local_irq_save(flags);
	rec = rewind_begin(REWIND_DELIVERED, 0, rewind_current, sig);
	payload = (u32 *)rec->payload;
	*payload++ = cause.code;
	*payload++ = cause.sender;
	rewind_commit(rec, payload);
	local_irq_restore(flags);
}

static void probe_generate(void *data, int sig, struct kernel_siginfo *info,
			   struct task_struct *task, int group, int result)
{
	struct rewind_ids from = actor(), to = ids_of(task);
	struct rewind_record *rec;
	unsigned long flags;
	u32 *payload;

	if (!from.pid && !to.pid)
		return;

	local_irq_save(flags);
	rec = rewind_begin(REWIND_SENT, 0, from, sig);
	payload = (u32 *)rec->payload;
	*payload++ = to.pid;
	*payload++ = to.tid;
	*payload++ = cause_of(sig, info).code;
	rewind_commit(rec, payload);
	local_irq_restore(flags);
}

/**
 * rewind_of_job - Whether a task is one of the job's
 * @task:	The task; the caller sees to it that it stays
 *
 * Return: whether it is visible in the job's PID namespace
 */
bool rewind_of_job(struct task_struct *task)
{
	return ids_of(task).pid;
}

/**
 * rewind_trace_prepare - Get ready to trace
 *
 * The tracepoints cost nothing before, which is most of the boot.
 *
 * Return: 0 or a negative error code
 */
int rewind_trace_prepare(void)
{
	return register_trace_sched_switch(probe_switch, NULL) ?:
	       register_trace_sched_wakeup(probe_wakeup, NULL) ?:
	       register_trace_softirq_raise(probe_softirq_raise, NULL) ?:
	       register_trace_softirq_entry(probe_softirq_entry, NULL) ?:
	       register_trace_task_newtask(probe_newtask, NULL) ?:
	       register_trace_sched_process_exec(probe_exec, NULL) ?:
	       register_trace_sched_process_exit(probe_task_end, NULL) ?:
	       register_trace_signal_generate(probe_generate, NULL) ?:
	       register_trace_signal_deliver(probe_deliver, NULL) ?:
	       register_trace_sys_enter(probe_enter, NULL) ?:
	       register_trace_sys_exit(probe_exit, NULL);
}

/**
 * rewind_trace_start - Trace the PID namespace of the running task from now on
 */
void rewind_trace_start(void)
{
	job = get_pid_ns(task_active_pid_ns(current));
	rewind_current = ids_of(current);
}
