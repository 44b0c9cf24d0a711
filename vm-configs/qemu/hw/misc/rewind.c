/*
 * The rewind device: takes down what the guest reports, hands it its job, and
 * acts on a schedule at exact instructions.
 *
 * Copyright (c) 2026 the rewind authors
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The guest's side of the interface is drivers/rewind/ of its kernel; both
 * follow docs/design.md. Everything here happens in the vCPU's thread, at an
 * instruction that is the same in every run: in a port access, or in a timer of
 * QEMU_CLOCK_VIRTUAL, which with -icount counts instructions. The host decides
 * nothing: a slow disk or a full pipe makes the machine slower, not different.
 */

#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qemu/cutils.h"
#include "qemu/error-report.h"
#include "qemu/main-loop.h"
#include "qemu/timer.h"
#include "qemu/units.h"
#include "qemu/qemu-plugin.h"
#include "qemu/rewind-plugin.h"
#include "exec/address-spaces.h"
#include "exec/cpu-common.h"
#include "exec/tb-flush.h"
#include "hw/core/cpu.h"
#include "hw/isa/isa.h"
#include "hw/misc/rewind.h"
#include "hw/qdev-properties.h"
#include "migration/vmstate.h"
#include "system/cpu-timers.h"
#include "system/runstate.h"
#include <sys/mman.h>

#define TYPE_REWIND "rewind"
OBJECT_DECLARE_SIMPLE_TYPE(RewindState, REWIND)

#define REWIND_MAGIC        0x52575744
#define REWIND_PORT         0x5e0
#define REWIND_PORTS        24

/* The guest's area: a record buffer, then a bulk buffer, 64 KiB each. */
#define AREA_SIZE           (128 * KiB)
#define BULK_OFFSET         (64 * KiB)
#define BULK_SIZE           (64 * KiB)
#define RECORD_MIN          16
#define RECORD_MAX          4096

/* A store of this vector to the local APIC is X86_PLATFORM_IPI_VECTOR. */
#define APIC_MSI_ADDRESS    0xfee00000
#define PERTURB_VECTOR      0xf7

/* Layers appear in windows whose place and size never change. */
#define WINDOW_BASE         (256 * GiB)
#define WINDOW_SIZE         (64 * GiB)
#define LAYERS              4

/*
 * Tasks that are watched: those whose number in the job's namespace is below
 * this, which is more than Linux gives out on one CPU (PID_MAX_DEFAULT).
 */
#define TASKS               32768

#define CHANNELS            64
#define PENDING             8

#define FRAME_MAGIC         0x52465752  /* "RWFR" */
#define FRAME_HEADER        32
#define FRAME_SIZE          (256 * KiB)

enum { PORT_RECORD = 0, PORT_AREA = 4, PORT_COMMAND = 8, PORT_SEND = 12,
       PORT_FETCH = 16, PORT_INPUT = 20 };
enum { PORT_PERTURB = 4, PORT_NS_LOW = 8, PORT_NS_HIGH = 12 };
enum { COMMAND_READY = 1, COMMAND_ATTACH, COMMAND_START, COMMAND_FINISHED,
       COMMAND_STALLED };
enum { END_FINISHED = 1, END_STALLED, END_TIMED_OUT };
enum { FRAME_RECORDS = 0, FRAME_END = 1, FRAME_SCHEDULE = 2 };

/* What is looked at of records, which drivers/rewind/rewind.h defines. */
enum { RECORD_ENTER = 2, RECORD_SWITCH = 4, RECORD_FORK = 5, RECORD_EXEC = 6,
       RECORD_TASK_END = 7 };
enum { AT_TYPE = 2, AT_PID = 4, AT_TID = 8, AT_AUX = 12, AT_CHILD_PID = 16,
       AT_NEXT_TID = 20 };

typedef enum { KIND_STALL = 1, KIND_RESCHEDULE, KIND_SHELL, KIND_INPUT,
               KIND_STOP } PerturbationKind;

/* In the schedule's frame, instead of a step: where it came. */
#define CAME_NEVER          UINT64_MAX
/* before the state that this machine has begun with, or never */
#define CAME_BEFORE         (UINT64_MAX - 1)

/*
 * At a step and an offset; or, with a task, after its @call-th system call and
 * @offset instructions of it in user mode.
 */
typedef struct {
    uint64_t step, offset, ns;
    uint64_t task, call;        /* task 0: at a step */
    PerturbationKind kind;
    int64_t due;                /* guest time, -1 if it is not known (yet) */
    bool done;
    uint64_t came_step, came_offset;
} Perturbation;

/* A task of the job that is alive. */
typedef struct {
    uint64_t tid, pid;
    uint64_t number;            /* by order of appearance, from 1; 0: none */
    uint64_t calls;             /* system calls that it has begun */
    /* since it began the last one: instructions in user mode, as far as left */
    uint64_t instructions;
    uint8_t entered;            /* and has it been in user mode at all? */
} Task;

struct RewindState {
    ISADevice parent_obj;

    MemoryRegion ports;
    MemoryRegion window[LAYERS], layer[LAYERS];

    /* properties */
    char *trace_path, *channels_path, *parameters_path, *schedule_path;
    char *input_path;
    char *layer_path[LAYERS];
    uint64_t time_limit;
    bool stop_at_ready;

    /* the host's side: none of it is seen by the guest */
    int trace_fd, channels_fd, channel_fd[CHANNELS];
    char *parameters;
    gsize parameters_size;
    uint8_t *area;
    QEMUTimer *perturb_timer, *limit_timer;
    GArray *schedule;
    guint next;                 /* first perturbation whose step is to come */
    GPtrArray *named;           /* those of the schedule with a task */
    Task *tasks;                /* by tid */
    uint8_t *frame;
    uint32_t frame_bytes, frame_records;
    uint64_t frame_step, frame_time;
    int input_fd;               /* -1: nothing will come any more, or ever */
    uint8_t *input;
    uint32_t input_bytes;
    bool input_new;             /* and the guest was not told of it */
    QemuCond input_cond;

    /* the guest's side: what travels with a snapshot */
    uint64_t area_pfn;
    uint64_t steps;             /* records taken since the job's start */
    int64_t step_time;          /* when the last one was taken */
    int64_t start_time;
    uint8_t started, attached, ended;
    uint32_t fetched;
    uint32_t npending, pending_kind[PENDING];
    uint64_t pending_ns[PENDING];
    uint64_t taken_ns;          /* of the perturbation the guest took last */
    uint64_t sent[CHANNELS];
    uint64_t ntasks;            /* of the job, so far */
    uint64_t current;           /* tid of the one that has the CPU, or 0 */
    uint8_t user;               /* the CPU is in user mode, */
    int64_t user_time;          /* since when */
    int32_t nlive;              /* those of the tasks that are alive */
    Task *live;
};

static RewindState *rewind_device;

static int64_t rewind_now(void)
{
    return qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
}

/*
 * What is lost here can't be told to the guest, and a run with a hole in it
 * is worse than none.
 */
static void rewind_write_all(int fd, const void *data, size_t size,
                             const char *what)
{
    if (qemu_write_full(fd, data, size) != size) {
        error_report("rewind: cannot write the %s: %s", what, strerror(errno));
        exit(1);
    }
}

/* --- trace */

static void rewind_write_frame(RewindState *s, uint32_t kind,
                               const uint8_t *data, uint32_t bytes,
                               uint32_t records, uint64_t step, uint64_t time)
{
    uint8_t header[FRAME_HEADER];

    stl_le_p(header, FRAME_MAGIC);
    stl_le_p(header + 4, bytes);
    stl_le_p(header + 8, records);
    stl_le_p(header + 12, kind);
    stq_le_p(header + 16, step);
    stq_le_p(header + 24, time);
    rewind_write_all(s->trace_fd, header, sizeof(header), "trace");
    rewind_write_all(s->trace_fd, data, bytes, "trace");
}

static void rewind_flush(RewindState *s)
{
    if (s->trace_fd >= 0 && s->frame_records) {
        rewind_write_frame(s, FRAME_RECORDS, s->frame, s->frame_bytes,
                           s->frame_records, s->frame_step, s->frame_time);
    }
    s->frame_bytes = 0;
    s->frame_records = 0;
}

/* Where each perturbation of the schedule came: u64 step, u64 offset. */
static void rewind_write_came(RewindState *s)
{
    g_autoptr(GByteArray) data = g_byte_array_new();
    uint8_t entry[16];
    guint i;

    for (i = 0; i < s->schedule->len; i++) {
        Perturbation *p = &g_array_index(s->schedule, Perturbation, i);

        if (p->kind == KIND_STALL || p->kind == KIND_RESCHEDULE) {
            stq_le_p(entry, p->came_step);
            stq_le_p(entry + 8, p->came_offset);
            g_byte_array_append(data, entry, sizeof(entry));
        }
    }
    if (data->len) {
        rewind_write_frame(s, FRAME_SCHEDULE, data->data, data->len, 0,
                           s->steps, rewind_now());
    }
}

static void rewind_end(RewindState *s, uint32_t reason)
{
    uint8_t end[32];

    if (s->ended) {
        return;
    }
    s->ended = 1;
    rewind_flush(s);
    if (s->trace_fd >= 0) {
        rewind_write_came(s);
        stl_le_p(end, reason);
        stl_le_p(end + 4, 0);
        stq_le_p(end + 8, s->steps);
        stq_le_p(end + 16, rewind_now());
        stq_le_p(end + 24, s->start_time);
        rewind_write_frame(s, FRAME_END, end, sizeof(end), 0, s->steps,
                           rewind_now());
    }
    /*
     * A shutdown request alone takes effect when the main loop gets to it, and
     * the guest would run on meanwhile, for as long as the host likes.
     */
    vm_stop(RUN_STATE_SHUTDOWN);
    qemu_system_shutdown_request(SHUTDOWN_CAUSE_GUEST_SHUTDOWN);
}

static void rewind_limit_reached(void *opaque)
{
    rewind_end(opaque, END_TIMED_OUT);
}

/* --- perturbations */

static void rewind_interrupt(void)
{
    address_space_stl_le(&address_space_memory, APIC_MSI_ADDRESS,
                         PERTURB_VECTOR, MEMTXATTRS_UNSPECIFIED, NULL);
}

static void rewind_perturb(RewindState *s, const Perturbation *p)
{
    if (p->kind == KIND_STOP) {
        vm_stop(RUN_STATE_PAUSED);
        return;
    }
    if (s->npending == PENDING) {
        error_report("rewind: more than %d perturbations wait for the guest to"
                     " take an interrupt", PENDING);
        exit(1);
    }
    s->pending_kind[s->npending] = p->kind;
    s->pending_ns[s->npending] = p->ns;
    s->npending++;
    rewind_interrupt();
}

/* Acts on every perturbation that is due, and sets the timer for the next. */
static void rewind_perturb_due(void *opaque)
{
    RewindState *s = opaque;

    for (;;) {
        Perturbation *first = NULL;
        guint i;

        for (i = 0; i < s->schedule->len; i++) {
            Perturbation *p = &g_array_index(s->schedule, Perturbation, i);

            if (!p->done && p->due >= 0 && (!first || p->due < first->due)) {
                first = p;
            }
        }
        if (!first) {
            return;
        }
        if (first->due > rewind_now()) {
            timer_mod(s->perturb_timer, first->due);
            return;
        }
        first->done = true;
        first->came_step = s->steps - 1;
        first->came_offset = first->due - s->step_time;
        rewind_perturb(s, first);
    }
}

/* Step number @step was taken at @time: start the offsets that count from it. */
static void rewind_schedule_step(RewindState *s, uint64_t step, int64_t time)
{
    bool any = false;

    while (s->next < s->schedule->len) {
        Perturbation *p = &g_array_index(s->schedule, Perturbation, s->next);

        if (!p->task) {
            if (p->step > step) {
                break;
            }
            if (p->step == step && time + (int64_t)p->offset >= rewind_now()) {
                p->due = time + p->offset;
                any = true;
            } else {
                p->came_step = CAME_BEFORE;
            }
        }
        s->next++;
    }
    if (any) {
        rewind_perturb_due(s);
    }
}

/*
 * --- the job's tasks
 *
 * Positions with a task count its instructions in user mode. Whatever has
 * happened before in others, in the kernel or in interrupts, it is the same
 * place in the program. Such a position is the first moment at which so many
 * instructions have been executed; its time is known whenever the task gets to
 * user mode, and not any more when it leaves it before.
 */

static Task *rewind_task(RewindState *s, uint64_t tid)
{
    return tid && tid < TASKS && s->tasks[tid].number ? &s->tasks[tid] : NULL;
}

static void rewind_new_task(RewindState *s, uint64_t pid, uint64_t tid)
{
    s->ntasks++;
    if (tid < TASKS) {
        s->tasks[tid] = (Task) { .tid = tid, .pid = pid, .number = s->ntasks };
    }
}

/*
 * A thread that execs takes the tid of its process's first one, which has
 * ended, as all the others have.
 */
static void rewind_take_tid(RewindState *s, uint64_t pid, uint64_t tid)
{
    uint64_t i;

    for (i = 1; tid < TASKS && i < TASKS; i++) {
        if (s->tasks[i].number && s->tasks[i].pid == pid) {
            s->tasks[tid] = s->tasks[i];
            s->tasks[tid].tid = tid;
            s->tasks[i] = (Task) {};
            return;
        }
    }
}

/* Looks at a record, which the guest has sent from the kernel. */
static void rewind_follow(RewindState *s, const uint8_t *record, uint32_t size)
{
    uint64_t tid = ldl_le_p(record + AT_TID);
    Task *task;

    switch (record[AT_TYPE]) {
    case RECORD_ENTER:
        task = rewind_task(s, tid);
        if (task) {
            task->calls++;
            task->instructions = 0;
            task->entered = 0;
        }
        break;
    case RECORD_SWITCH:
        if (size >= AT_NEXT_TID + 4) {
            s->current = ldl_le_p(record + AT_NEXT_TID);
        }
        break;
    case RECORD_FORK:
        if (size >= AT_CHILD_PID + 4) {
            rewind_new_task(s, ldl_le_p(record + AT_CHILD_PID),
                            ldl_le_p(record + AT_AUX));
        }
        break;
    case RECORD_EXEC:
        if (!rewind_task(s, tid)) {
            rewind_take_tid(s, ldl_le_p(record + AT_PID), tid);
        }
        s->current = tid;
        break;
    case RECORD_TASK_END:
        task = rewind_task(s, tid);
        if (task) {
            *task = (Task) {};
        }
        break;
    }
}

/* The instructions of the running @task in user mode since its last call. */
static uint64_t rewind_instructions(RewindState *s, const Task *task,
                                    int64_t now)
{
    return task->instructions + (s->user ? now - s->user_time : 0);
}

/*
 * The running @task is in user mode: from when on is @p due?  Returns the time,
 * or -1 if it is not due as long as the task executes nothing but user mode.
 */
static int64_t rewind_named_due(RewindState *s, const Task *task,
                                const Perturbation *p)
{
    if (p->done || p->task != task->number || p->call != task->calls ||
        p->offset < task->instructions ||
        p->offset - task->instructions > (uint64_t)(INT64_MAX - s->user_time)) {
        return -1;
    }
    return s->user_time + (p->offset - task->instructions);
}

/* The instruction is the last of its block: the time is exact. */
void rewind_user_mode(bool user)
{
    RewindState *s = rewind_device;
    Task *task;
    int64_t now;
    guint i;

    if (!s || !current_cpu) {
        return;
    }
    now = icount_peek(current_cpu, 0);
    task = rewind_task(s, s->current);
    if (!user) {
        if (task) {
            task->instructions = rewind_instructions(s, task, now);
        }
        s->user = 0;
        for (i = 0; i < s->named->len; i++) {
            Perturbation *p = g_ptr_array_index(s->named, i);

            /* What is due at this very moment comes, before all else does. */
            if (!p->done && p->due > now) {
                p->due = -1;
            }
        }
        return;
    }
    s->user = 1;
    s->user_time = now;
    if (!task) {
        return;
    }
    task->entered = 1;
    for (i = 0; i < s->named->len; i++) {
        Perturbation *p = g_ptr_array_index(s->named, i);
        int64_t due = rewind_named_due(s, task, p);

        if (due >= 0) {
            BQL_LOCK_GUARD();

            p->due = due;
            /*
             * Not at once, even if it is due: this is a helper, in which
             * nothing can be raised or stopped. The timer ends the loop of
             * blocks now.
             */
            timer_mod_anticipate(s->perturb_timer, due);
        }
    }
}

/*
 * The state was loaded: what of the named positions is over, and what is due.
 * Over is what its task has come to, in user mode. (It may be that it never
 * came there: its call was over before. This is not known here.)
 */
static void rewind_named_loaded(RewindState *s)
{
    guint i;
    int32_t j;

    for (i = 0; i < s->named->len; i++) {
        Perturbation *p = g_ptr_array_index(s->named, i);
        Task *task = NULL;
        bool running;

        if (p->task > s->ntasks) {
            continue;
        }
        for (j = 0; j < s->nlive && !task; j++) {
            if (s->live[j].number == p->task) {
                task = &s->live[j];
            }
        }
        running = task && s->user && task->tid == s->current;
        if (running) {
            p->due = rewind_named_due(s, task, p);
            if (p->due >= rewind_now()) {
                /* Not here, even if it is now: not all state is loaded yet. */
                timer_mod_anticipate(s->perturb_timer, p->due);
                continue;
            }
            p->due = -1;
        }
        if (task && (p->call > task->calls || (!running &&
            p->call == task->calls && (p->offset > task->instructions ||
            (p->offset == task->instructions && !task->entered))))) {
            continue;
        }
        p->done = true;
        p->came_step = CAME_BEFORE;
    }
}

/*
 * Where the machine stands, which is stopped: STEP OFFSET, and of the job's
 * task that has the CPU NUMBER CALLS INSTRUCTIONS, whether it is in user mode,
 * and whether it has been since its last call; all 0 without one.
 */
static char *rewind_get_standing(Object *obj, Error **errp)
{
    RewindState *s = REWIND(obj);
    Task *task = rewind_task(s, s->current);
    int64_t now = rewind_now();
    uint64_t step = s->steps ? s->steps - 1 : 0;
    uint64_t offset = s->steps ? now - s->step_time : 0;

    if (!task) {
        return g_strdup_printf("%" PRIu64 " %" PRIu64 " 0 0 0 0 0", step,
                               offset);
    }
    return g_strdup_printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
                           " %" PRIu64 " %d %d", step, offset, task->number,
                           task->calls, rewind_instructions(s, task, now),
                           s->user, task->entered);
}

static uint32_t rewind_take_perturbation(RewindState *s)
{
    uint32_t kind;

    if (!s->npending) {
        kind = s->input_new ? KIND_INPUT : 0;
        s->input_new = false;
        return kind;
    }
    kind = s->pending_kind[0];
    s->taken_ns = s->pending_ns[0];
    s->npending--;
    memmove(s->pending_kind, s->pending_kind + 1,
            s->npending * sizeof(s->pending_kind[0]));
    memmove(s->pending_ns, s->pending_ns + 1,
            s->npending * sizeof(s->pending_ns[0]));
    return kind;
}

/* --- what the guest asks for */

static void rewind_map_area(RewindState *s)
{
    MemoryRegionSection section =
        memory_region_find(get_system_memory(), s->area_pfn << 12, AREA_SIZE);

    s->area = NULL;
    if (section.mr) {
        if (memory_region_is_ram(section.mr) &&
            int128_ge(section.size, int128_make64(AREA_SIZE))) {
            s->area = (uint8_t *)memory_region_get_ram_ptr(section.mr) +
                      section.offset_within_region;
        }
        memory_region_unref(section.mr);
    }
}

static void rewind_map_layers(RewindState *s)
{
    int i;

    for (i = 0; i < LAYERS; i++) {
        if (memory_region_size(&s->layer[i])) {
            memory_region_add_subregion(&s->window[i], 0, &s->layer[i]);
        }
    }
}

static void rewind_arm_limit(RewindState *s)
{
    if (s->started && s->time_limit) {
        timer_mod(s->limit_timer, s->start_time + s->time_limit);
    }
}

static void rewind_record(RewindState *s, uint32_t size)
{
    int64_t now = rewind_now();

    if (!s->started || !s->area || size < RECORD_MIN || size > RECORD_MAX ||
        lduw_le_p(s->area) != size) {
        error_report("rewind: the guest's driver sent a malformed record");
        exit(1);
    }
    if (s->trace_fd >= 0) {
        if (s->frame_bytes + sizeof(uint64_t) + size > FRAME_SIZE) {
            rewind_flush(s);
        }
        if (!s->frame_records) {
            s->frame_step = s->steps;
            s->frame_time = now;
        }
        stq_le_p(s->frame + s->frame_bytes, now);
        memcpy(s->frame + s->frame_bytes + sizeof(uint64_t), s->area, size);
        s->frame_bytes += sizeof(uint64_t) + size;
        s->frame_records++;
    }
    s->step_time = now;
    rewind_follow(s, s->area, size);
    rewind_schedule_step(s, s->steps++, now);
}

static void rewind_command(RewindState *s, uint32_t command)
{
    switch (command) {
    case COMMAND_READY:
        if (s->stop_at_ready) {
            vm_stop(RUN_STATE_PAUSED);
        }
        break;
    case COMMAND_ATTACH:
        if (!s->attached) {
            s->attached = 1;
            rewind_map_layers(s);
        }
        break;
    case COMMAND_START:
        s->started = 1;
        s->steps = 0;
        s->start_time = rewind_now();
        /* The first process of the namespace, which asks for this. */
        memset(s->tasks, 0, TASKS * sizeof(*s->tasks));
        s->ntasks = 0;
        rewind_new_task(s, 1, 1);
        s->current = 1;
        rewind_arm_limit(s);
        break;
    case COMMAND_FINISHED:
        rewind_end(s, END_FINISHED);
        break;
    case COMMAND_STALLED:
        rewind_end(s, END_STALLED);
        break;
    }
}

static void rewind_send(RewindState *s, uint32_t channel, uint32_t size)
{
    g_autofree char *name = NULL;

    if (!s->area || channel >= CHANNELS || size > BULK_SIZE) {
        error_report("rewind: the guest's driver sent to a malformed channel");
        exit(1);
    }
    s->sent[channel] += size;
    if (s->channels_fd < 0) {
        return;
    }
    if (s->channel_fd[channel] < 0) {
        name = g_strdup_printf("%" PRIu32, channel);
        s->channel_fd[channel] = openat(s->channels_fd, name, O_WRONLY |
                                        O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (s->channel_fd[channel] < 0) {
            error_report("rewind: cannot create channel %s: %s", name,
                         strerror(errno));
            exit(1);
        }
    }
    rewind_write_all(s->channel_fd[channel], s->area + BULK_OFFSET, size,
                     "guest's output");
}

static void rewind_fetch(RewindState *s, uint32_t offset)
{
    s->fetched = 0;
    if (s->area && offset < s->parameters_size) {
        s->fetched = MIN(BULK_SIZE, s->parameters_size - offset);
        address_space_write(&address_space_memory,
                            (s->area_pfn << 12) + BULK_OFFSET,
                            MEMTXATTRS_UNSPECIFIED, s->parameters + offset,
                            s->fetched);
    }
}

/*
 * --- input
 *
 * What a user types into a fork comes whenever it comes: a machine with input is
 * no run, and nothing of it is recorded.
 */

static void rewind_input_listen(RewindState *s);

static void rewind_input_ready(void *opaque)
{
    RewindState *s = opaque;
    ssize_t n = read(s->input_fd, s->input + s->input_bytes,
                     BULK_SIZE - s->input_bytes);

    if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
        return;
    }
    if (n <= 0) {
        qemu_set_fd_handler(s->input_fd, NULL, NULL, NULL);
        s->input_fd = -1;
        qemu_cond_signal(&s->input_cond);
        return;
    }
    s->input_bytes += n;
    s->input_new = true;
    rewind_input_listen(s);
    rewind_interrupt();
    qemu_cond_signal(&s->input_cond);
}

static void rewind_input_listen(RewindState *s)
{
    if (s->input_fd >= 0) {
        qemu_set_fd_handler(s->input_fd, s->input_bytes < BULK_SIZE ?
                            rewind_input_ready : NULL, NULL, s);
    }
}

static void rewind_input_take(RewindState *s, uint32_t limit)
{
    s->fetched = 0;
    if (s->area && s->input_bytes) {
        s->fetched = MIN(limit, s->input_bytes);
        address_space_write(&address_space_memory,
                            (s->area_pfn << 12) + BULK_OFFSET,
                            MEMTXATTRS_UNSPECIFIED, s->input, s->fetched);
        s->input_bytes -= s->fetched;
        memmove(s->input, s->input + s->fetched, s->input_bytes);
        rewind_input_listen(s);
    }
}

/*
 * The guest has nothing to do but to wait for the user: until its next timer is
 * due, by the host's clock, or there is input. The main loop goes on meanwhile.
 */
static void rewind_input_wait(RewindState *s)
{
    int64_t start = qemu_clock_get_ms(QEMU_CLOCK_REALTIME);
    int64_t ns = qemu_clock_deadline_ns_all(QEMU_CLOCK_VIRTUAL,
                                            QEMU_TIMER_ATTR_ALL);

    while (s->input_fd >= 0 && !s->input_new && !current_cpu->stop &&
           !qatomic_read(&current_cpu->exit_request)) {
        int64_t left = start + ns / SCALE_MS -
                       qemu_clock_get_ms(QEMU_CLOCK_REALTIME);

        if (ns >= 0 && left <= 0) {
            break;
        }
        /* Now and then: whoever stops the CPU does not know of this. */
        qemu_cond_timedwait_bql(&s->input_cond,
                                ns >= 0 ? MIN(left, 100) : 100);
    }
}

static void rewind_port_write(void *opaque, hwaddr port, uint64_t value,
                              unsigned size)
{
    RewindState *s = opaque;

    switch (port) {
    case PORT_RECORD:
        rewind_record(s, value);
        break;
    case PORT_AREA:
        s->area_pfn = value;
        rewind_map_area(s);
        break;
    case PORT_COMMAND:
        rewind_command(s, value);
        break;
    case PORT_SEND:
        rewind_send(s, value >> 24, value & 0xffffff);
        break;
    case PORT_FETCH:
        rewind_fetch(s, value);
        break;
    case PORT_INPUT:
        rewind_input_take(s, value);
        break;
    }
}

static uint64_t rewind_port_read(void *opaque, hwaddr port, unsigned size)
{
    RewindState *s = opaque;

    switch (port) {
    case PORT_RECORD:
        return REWIND_MAGIC;
    case PORT_PERTURB:
        return rewind_take_perturbation(s);
    case PORT_NS_LOW:
        return (uint32_t)s->taken_ns;
    case PORT_NS_HIGH:
        return s->taken_ns >> 32;
    case PORT_FETCH:
        return s->fetched;
    case PORT_INPUT:
        rewind_input_wait(s);
        return 0;
    default:
        return 0;
    }
}

static const MemoryRegionOps rewind_port_ops = {
    .read = rewind_port_read,
    .write = rewind_port_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = { .min_access_size = 4, .max_access_size = 4 },
    .impl = { .min_access_size = 4, .max_access_size = 4 },
};

/* --- for plugins: include/qemu/rewind-plugin.h */

static void (*plugin_start)(void);
static QEMUTimer *plugin_timer;

int64_t rewind_time(unsigned int behind)
{
    return current_cpu ? icount_peek(current_cpu, behind) : rewind_now();
}

void rewind_stop_soon(void)
{
    BQL_LOCK_GUARD();

    vm_stop(RUN_STATE_PAUSED);
}

void rewind_stop_here(uintptr_t ra)
{
    if (!current_cpu->stop) {
        rewind_stop_soon();
    }
    /* Gives back what the block took from the budget from here on. */
    cpu_loop_exit_restore(current_cpu, ra);
}

static void rewind_plugin_stop(void *opaque)
{
    vm_stop(RUN_STATE_PAUSED);
}

void rewind_stop_at(int64_t time)
{
    if (!plugin_timer) {
        plugin_timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, rewind_plugin_stop,
                                    NULL);
    }
    if (time < 0) {
        timer_del(plugin_timer);
    } else {
        timer_mod(plugin_timer, time);
    }
}

bool rewind_read(uint64_t address, void *data, size_t size)
{
    return !cpu_memory_rw_debug(first_cpu, address, data, size, false);
}

void rewind_on_start(void (*start)(void))
{
    plugin_start = start;
}

void rewind_retranslate(void)
{
    tb_flush(first_cpu);
}

/* --- set-up */

/*
 * Lines "STEP OFFSET stall|reschedule|shell|stop NS", in order of step; and
 * "TASK:CALL INSTRUCTIONS stall|reschedule|shell|stop NS", anywhere.
 */
static bool rewind_read_schedule(RewindState *s, Error **errp)
{
    g_autofree char *text = NULL;
    g_autoptr(GError) err = NULL;
    g_auto(GStrv) lines = NULL;
    uint64_t last = 0;
    char **line;
    guint i;

    s->schedule = g_array_new(false, true, sizeof(Perturbation));
    s->named = g_ptr_array_new();
    if (!s->schedule_path) {
        return true;
    }
    if (!g_file_get_contents(s->schedule_path, &text, NULL, &err)) {
        error_setg(errp, "cannot read the schedule: %s", err->message);
        return false;
    }
    lines = g_strsplit(text, "\n", -1);
    for (line = lines; *line; line++) {
        Perturbation p = { .due = -1, .came_step = CAME_NEVER };
        char kind[16], rest;
        bool good;

        if (!**line) {
            continue;
        }
        if (strchr(*line, ':')) {
            good = sscanf(*line, "%" SCNu64 ":%" SCNu64 " %" SCNu64 " %15s %"
                          SCNu64 "%c", &p.task, &p.call, &p.offset, kind,
                          &p.ns, &rest) == 5 && p.task;
        } else {
            good = sscanf(*line, "%" SCNu64 " %" SCNu64 " %15s %" SCNu64 "%c",
                          &p.step, &p.offset, kind, &p.ns, &rest) == 4;
        }
        if (!good) {
            error_setg(errp, "malformed line in the schedule: %s", *line);
            return false;
        }
        if (!strcmp(kind, "stall")) {
            p.kind = KIND_STALL;
        } else if (!strcmp(kind, "reschedule")) {
            p.kind = KIND_RESCHEDULE;
        } else if (!strcmp(kind, "shell")) {
            p.kind = KIND_SHELL;
        } else if (!strcmp(kind, "stop")) {
            p.kind = KIND_STOP;
        } else {
            error_setg(errp, "unknown kind in the schedule: %s", kind);
            return false;
        }
        if (!p.task) {
            if (p.step < last) {
                error_setg(errp, "the schedule's steps are not in order: %s",
                           *line);
                return false;
            }
            last = p.step;
        }
        g_array_append_val(s->schedule, p);
    }
    /* Only now: an array moves as it grows. */
    for (i = 0; i < s->schedule->len; i++) {
        Perturbation *p = &g_array_index(s->schedule, Perturbation, i);

        if (p->task) {
            g_ptr_array_add(s->named, p);
        }
    }
    return true;
}

static bool rewind_open_layer(RewindState *s, int i, Error **errp)
{
    const char *path = s->layer_path[i];
    struct stat st;
    void *map;
    int fd = qemu_open(path, O_RDONLY, errp);

    if (fd < 0) {
        return false;
    }
    if (fstat(fd, &st) < 0) {
        error_setg_errno(errp, errno, "cannot read layer '%s'", path);
        close(fd);
        return false;
    }
    if (st.st_size == 0 || st.st_size > WINDOW_SIZE) {
        error_setg(errp, "layer '%s' is empty or larger than its window", path);
        close(fd);
        return false;
    }
    map = mmap(NULL, st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED) {
        error_setg_errno(errp, errno, "cannot map layer '%s'", path);
        return false;
    }
    /*
     * RAM of a device: read directly by translated code, but neither migrated
     * nor counted as the machine's memory.
     */
    memory_region_init_ram_device_ptr(&s->layer[i], OBJECT(s), "rewind-layer",
                                      ROUND_UP(st.st_size, 4 * KiB), map);
    memory_region_set_readonly(&s->layer[i], true);
    return true;
}

static void rewind_state_change(void *opaque, bool running, RunState state)
{
    if (running) {
        if (plugin_start) {
            plugin_start();
        }
    } else {
        /* Someone looks at the machine: let the trace be complete up to here. */
        rewind_flush(opaque);
    }
}

static void rewind_realize(DeviceState *dev, Error **errp)
{
    RewindState *s = REWIND(dev);
    g_autoptr(GError) err = NULL;
    int i;

    s->trace_fd = -1;
    s->channels_fd = -1;
    s->input_fd = -1;
    qemu_cond_init(&s->input_cond);
    memset(s->channel_fd, -1, sizeof(s->channel_fd));
    s->tasks = g_new0(Task, TASKS);

    if (s->trace_path) {
        s->trace_fd = qemu_create(s->trace_path, O_WRONLY, 0644, errp);
        if (s->trace_fd < 0) {
            return;
        }
        s->frame = g_malloc(FRAME_SIZE);
    }
    if (s->channels_path) {
        s->channels_fd = qemu_open(s->channels_path, O_RDONLY | O_DIRECTORY,
                                   errp);
        if (s->channels_fd < 0) {
            return;
        }
    }
    if (s->parameters_path &&
        !g_file_get_contents(s->parameters_path, &s->parameters,
                             &s->parameters_size, &err)) {
        error_setg(errp, "cannot read the parameters: %s", err->message);
        return;
    }
    if (s->input_path) {
        s->input_fd = qemu_open(s->input_path, O_RDONLY | O_NONBLOCK, errp);
        if (s->input_fd < 0) {
            return;
        }
        s->input = g_malloc(BULK_SIZE);
        rewind_input_listen(s);
    }
    if (!rewind_read_schedule(s, errp)) {
        return;
    }
    for (i = 0; i < LAYERS; i++) {
        g_autofree char *name = g_strdup_printf("rewind-window%d", i);

        memory_region_init(&s->window[i], OBJECT(s), name, WINDOW_SIZE);
        memory_region_add_subregion(get_system_memory(),
                                    WINDOW_BASE + i * WINDOW_SIZE,
                                    &s->window[i]);
        if (s->layer_path[i] && !rewind_open_layer(s, i, errp)) {
            return;
        }
    }
    s->perturb_timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, rewind_perturb_due, s);
    s->limit_timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, rewind_limit_reached, s);
    qemu_add_vm_change_state_handler(rewind_state_change, s);
    memory_region_init_io(&s->ports, OBJECT(s), &rewind_port_ops, s, "rewind",
                          REWIND_PORTS);
    isa_register_ioport(ISA_DEVICE(dev), &s->ports, REWIND_PORT);
    rewind_device = s;
}

static int rewind_pre_save(void *opaque)
{
    RewindState *s = opaque;
    uint64_t tid;

    s->nlive = 0;
    s->live = g_new(Task, TASKS);
    for (tid = 1; tid < TASKS; tid++) {
        if (s->tasks[tid].number) {
            s->live[s->nlive++] = s->tasks[tid];
        }
    }
    return 0;
}

static int rewind_free_live(void *opaque)
{
    RewindState *s = opaque;

    g_clear_pointer(&s->live, g_free);
    s->nlive = 0;
    return 0;
}

/*
 * Timers are not in the snapshot: they follow from what is, and from this
 * process's own schedule and limit, which may differ from the ones under
 * which the snapshot was taken.
 */
static int rewind_post_load(void *opaque, int version_id)
{
    RewindState *s = opaque;
    int32_t i;

    if (s->npending > PENDING) {
        return -EINVAL;
    }
    memset(s->tasks, 0, TASKS * sizeof(*s->tasks));
    for (i = 0; i < s->nlive; i++) {
        if (s->live[i].tid >= TASKS) {
            return -EINVAL;
        }
        s->tasks[s->live[i].tid] = s->live[i];
    }
    if (s->area_pfn) {
        rewind_map_area(s);
    }
    if (s->attached) {
        rewind_map_layers(s);
    }
    rewind_arm_limit(s);
    if (s->started && s->steps) {
        rewind_schedule_step(s, s->steps - 1, s->step_time);
        rewind_named_loaded(s);
    }
    return rewind_free_live(s);
}

static const VMStateDescription vmstate_task = {
    .name = TYPE_REWIND "/task",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]) {
        VMSTATE_UINT64(tid, Task),
        VMSTATE_UINT64(pid, Task),
        VMSTATE_UINT64(number, Task),
        VMSTATE_UINT64(calls, Task),
        VMSTATE_UINT64(instructions, Task),
        VMSTATE_UINT8(entered, Task),
        VMSTATE_END_OF_LIST()
    }
};

static const VMStateDescription vmstate_rewind = {
    .name = TYPE_REWIND,
    .version_id = 2,
    .minimum_version_id = 2,
    .pre_save = rewind_pre_save,
    .post_save = rewind_free_live,
    .post_load = rewind_post_load,
    .fields = (const VMStateField[]) {
        VMSTATE_UINT64(area_pfn, RewindState),
        VMSTATE_UINT64(steps, RewindState),
        VMSTATE_INT64(step_time, RewindState),
        VMSTATE_INT64(start_time, RewindState),
        VMSTATE_UINT8(started, RewindState),
        VMSTATE_UINT8(attached, RewindState),
        VMSTATE_UINT8(ended, RewindState),
        VMSTATE_UINT32(fetched, RewindState),
        VMSTATE_UINT32(npending, RewindState),
        VMSTATE_UINT32_ARRAY(pending_kind, RewindState, PENDING),
        VMSTATE_UINT64_ARRAY(pending_ns, RewindState, PENDING),
        VMSTATE_UINT64(taken_ns, RewindState),
        VMSTATE_UINT64_ARRAY(sent, RewindState, CHANNELS),
        VMSTATE_UINT64(ntasks, RewindState),
        VMSTATE_UINT64(current, RewindState),
        VMSTATE_UINT8(user, RewindState),
        VMSTATE_INT64(user_time, RewindState),
        VMSTATE_INT32(nlive, RewindState),
        VMSTATE_STRUCT_VARRAY_ALLOC(live, RewindState, nlive, 1, vmstate_task,
                                    Task),
        VMSTATE_END_OF_LIST()
    }
};

static const Property rewind_properties[] = {
    DEFINE_PROP_STRING("trace", RewindState, trace_path),
    DEFINE_PROP_STRING("channels", RewindState, channels_path),
    DEFINE_PROP_STRING("parameters", RewindState, parameters_path),
    DEFINE_PROP_STRING("schedule", RewindState, schedule_path),
    DEFINE_PROP_STRING("input", RewindState, input_path),
    DEFINE_PROP_STRING("layer0", RewindState, layer_path[0]),
    DEFINE_PROP_STRING("layer1", RewindState, layer_path[1]),
    DEFINE_PROP_STRING("layer2", RewindState, layer_path[2]),
    DEFINE_PROP_STRING("layer3", RewindState, layer_path[3]),
    DEFINE_PROP_UINT64("time-limit", RewindState, time_limit, 0),
    DEFINE_PROP_BOOL("stop-at-ready", RewindState, stop_at_ready, false),
};

static void rewind_class_init(ObjectClass *klass, void *data)
{
    DeviceClass *dc = DEVICE_CLASS(klass);

    dc->desc = "Records what the guest reports, and perturbs it on schedule";
    dc->realize = rewind_realize;
    dc->vmsd = &vmstate_rewind;
    dc->user_creatable = true;
    set_bit(DEVICE_CATEGORY_MISC, dc->categories);
    device_class_set_props(dc, rewind_properties);
    object_class_property_add_str(klass, "standing", rewind_get_standing, NULL);
}

static const TypeInfo rewind_info = {
    .name = TYPE_REWIND,
    .parent = TYPE_ISA_DEVICE,
    .instance_size = sizeof(RewindState),
    .class_init = rewind_class_init,
};

static void rewind_register_types(void)
{
    type_register_static(&rewind_info);
}

type_init(rewind_register_types)
