// SPDX-License-Identifier: GPL-2.0
/*
 * What the schedule does to a job: at a position the device raises an
 * interrupt, and the task that is running then loses the CPU, as a task may on
 * any machine.
 *
 * A stall takes the CPU away for a time. Whoever else can run does; if nobody
 * can, the time passes.
 *
 * A reschedule gives the turn to the others that are runnable. Asking the
 * scheduler is not enough: it picks by virtual deadline among those that have
 * not had their share, and that may well be the same task again, also after
 * yield(). So the task sleeps, for a tick as one that lost its turn to the tick
 * would wait, and less if the CPU has nothing else to do.
 *
 * Both happen when the task returns to user mode, where it holds no lock of the
 * kernel that the others would wait for.
 */
#include <linux/hrtimer.h>
#include <linux/irq_work.h>
#include <linux/jiffies.h>
#include <linux/sched/stat.h>
#include <linux/sched/task_stack.h>
#include <linux/task_work.h>
#include <linux/wait.h>
#include <asm/hw_irq.h>
#include <asm/irq_regs.h>

#include "rewind.h"

enum {
	STALL = 1,
	RESCHEDULE,
	/* what is no perturbation, and never in a run */
	SHELL,		/* begin a shell */
	INPUT,		/* its user has typed something */
};

/* flags of a record: no task of the job was running, nothing was done */
#define NOTHING_DONE 1

/*
 * Perturbations that wait for their task to return to user mode or last on.
 * Memory is not allocated for them: that would change what the next allocation
 * of the guest gives, and can fail.
 */
#define MAX_PERTURBATIONS 64
static struct perturbation {
	struct callback_head work;
	u32 kind;
	bool used;
	u64 ns;
} perturbations[MAX_PERTURBATIONS];

/* tasks that gave up their turn */
static DECLARE_WAIT_QUEUE_HEAD(yielded);

/*
 * TASK_IDLE: no signal cuts the time short, as none gives a task the CPU that
 * it does not have, and the load average does not count it.
 */
static void sleep_until(ktime_t end)
{
	while (ktime_before(ktime_get(), end)) {
		set_current_state(TASK_IDLE);
		schedule_hrtimeout_range(&end, 0, HRTIMER_MODE_ABS);
	}
}

static void give_turn(ktime_t end)
{
	DEFINE_WAIT(wait);

	/* nobody to give it to */
	if (single_task_running())
		return;
	prepare_to_wait(&yielded, &wait, TASK_IDLE);
	schedule_hrtimeout_range(&end, 0, HRTIMER_MODE_ABS);
	finish_wait(&yielded, &wait);
}

static void lose_cpu(struct callback_head *work)
{
	struct perturbation *p = container_of(work, struct perturbation, work);

	if (p->kind == STALL)
		sleep_until(ktime_add_ns(ktime_get(), p->ns));
	else
		give_turn(ktime_add_ns(ktime_get(), TICK_NSEC));
	p->used = false;
}

static void wake_yielded(struct irq_work *work)
{
	wake_up_all(&yielded);
}

static DEFINE_IRQ_WORK(wake_work, wake_yielded);

/**
 * rewind_perturb_idle - The CPU has nothing to do
 *
 * Called with interrupts disabled, right before the CPU waits for one.
 *
 * Return: whether a task that gave up its turn is about to have it back
 */
bool rewind_perturb_idle(void)
{
	/* one CPU: nobody is about to join the queue */
	if (!waitqueue_active(&yielded))
		return false;
	/* an interrupt, for the idle task to notice that it is not idle */
	irq_work_queue(&wake_work);
	return true;
}

static struct perturbation *find_unused(void)
{
	struct perturbation *p;

	for (p = perturbations; p < perturbations + MAX_PERTURBATIONS; p++)
		if (!p->used)
			return p;
	return NULL;
}

static bool perturb(u32 kind, u64 ns)
{
	struct perturbation *p;

	if (!rewind_current.pid || (kind != STALL && kind != RESCHEDULE))
		return false;
	p = find_unused();
	if (!p)
		return false;
	p->kind = kind;
	p->ns = ns;
	init_task_work(&p->work, lose_cpu);
	if (task_work_add(current, &p->work, TWA_RESUME))
		return false;
	p->used = true;
	return true;
}

static void report(u32 kind, u64 ns, bool done)
{
	struct rewind_record *rec;
	u64 *payload;

	rec = rewind_begin(REWIND_PERTURBATION, done ? 0 : NOTHING_DONE,
			   rewind_current, kind);
	payload = (u64 *)rec->payload;
	*payload++ = ns;
	*payload++ = get_irq_regs()->ip;
	/* where the task goes on in user mode: the same if that was interrupted */
	*payload++ = rewind_current.pid ? task_pt_regs(current)->ip : 0;
	rewind_commit(rec, payload);
}

/*
 * The interrupt; interrupts are off. One interrupt may stand for several
 * perturbations: a local APIC remembers that a vector was raised, not how often.
 */
static void perturb_interrupt(void)
{
	u32 kind;

	while ((kind = rewind_read(REWIND_PERTURB))) {
		u64 ns = rewind_read(REWIND_NS_LOW);

		ns |= (u64)rewind_read(REWIND_NS_HIGH) << 32;
		if (kind == SHELL)
			rewind_shell_start();
		else if (kind == INPUT)
			rewind_shell_input();
		else
			report(kind, ns, perturb(kind, ns));
	}
}

void __init rewind_perturb_init(void)
{
	x86_platform_ipi_callback = perturb_interrupt;
}
