// SPDX-License-Identifier: GPL-2.0
/*
 * A machine that is idle and that no timer will give anything to do is stalled:
 * the run ends there, as one that waits for good would on any machine.
 *
 * The device cannot tell. Some timer is nearly always set: the tick that looks
 * after the longest sleep a clock can take, works that keep house every few
 * minutes for ever. They wake up no task of the job and are looked past here.
 * Idle time costs nothing, so a timer that fires and is gone may well hold the
 * end of the run back; only one that comes again and again must not.
 */
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/sched.h>
#include <linux/tick.h>
#include <linux/timer.h>
#include <linux/workqueue.h>
#include <trace/events/power.h>

#include "../../kernel/time/tick-sched.h"
#include "rewind.h"

/*
 * Delayed works that were waiting when the job began are the kernel's own, for
 * instance the reseeding of its random numbers. Kept by function: the same work
 * of another network namespace is no other.
 */
#define MAX_WORKS 32

static work_func_t works[MAX_WORKS];
static unsigned int nr_works;

static bool watching;

static work_func_t delayed_work_of(const struct timer_list *timer)
{
	if (timer->function != delayed_work_timer_fn)
		return NULL;
	return container_of(timer, struct delayed_work, timer)->work.func;
}

static bool known_work(work_func_t func)
{
	unsigned int i;

	for (i = 0; i < nr_works; i++)
		if (works[i] == func)
			return true;
	return false;
}

static bool note_work(const struct timer_list *timer)
{
	work_func_t func = delayed_work_of(timer);

	if (!func || known_work(func))
		return false;
	if (nr_works == MAX_WORKS)
		return true;
	works[nr_works++] = func;
	return false;
}

static bool matters(const struct timer_list *timer)
{
	work_func_t func;

	/* does not end an idle time by itself */
	if (timer->flags & TIMER_DEFERRABLE)
		return false;
	func = delayed_work_of(timer);
	return !func || !known_work(func);
}

static bool any_timer(unsigned int cpu)
{
	struct hrtimer *tick = &tick_get_tick_sched(cpu)->sched_timer;

	return hrtimer_next_event_without(tick) != KTIME_MAX ||
	       timer_find_pending(matters);
}

static void probe_idle(void *data, unsigned int state, unsigned int cpu)
{
	bool stalled;

	if (state == PWR_EVENT_EXIT || !watching || rewind_perturb_idle())
		return;
	if (local_softirq_pending())
		return;
	stalled = !any_timer(cpu);
	if (!rewind_shell_idle(stalled) && stalled)
		rewind_write(REWIND_COMMAND, REWIND_COMMAND_STALLED);
}

/**
 * rewind_idle_prepare - Get ready to look for a stall
 *
 * Return: 0 or a negative error code
 */
int rewind_idle_prepare(void)
{
	return register_trace_cpu_idle(probe_idle, NULL);
}

/**
 * rewind_idle_start - Look for a stall from now on
 */
void rewind_idle_start(void)
{
	local_irq_disable();
	if (timer_find_pending(note_work))
		panic("rewind: more than %d delayed works\n", MAX_WORKS);
	watching = true;
	local_irq_enable();
}
