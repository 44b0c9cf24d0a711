/*
 * Watches a replay: says when a thread gets to an address, leaves a range of
 * addresses, or when memory is accessed, and stops the machine there or goes on
 * and keeps the last of them.
 *
 *   -plugin watch.so,control=/proc/self/fd/N
 *
 * Copyright (c) 2026 the rewind authors
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Passive: it only reads what the guest does. The control file is shared with
 * python/rewind/replay/watch.py, which writes it while the machine does not
 * run, and reads it then. The guest has one CPU and the kernel that the
 * control file tells of.
 *
 * What is translated has callbacks for what the conditions need. When others
 * need more, all is translated anew; what is not needed any more stays, with
 * conditions that are not met.
 */

#include <fcntl.h>
#include <glib.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <qemu-plugin.h>
#include <rewind-plugin.h>

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

#define CONTROL_MAGIC   "rwwatch"
#define CONTROL_VERSION 1

#define BREAKPOINTS     4096
#define ACCESSES        256
#define HITS            65536

enum { FLAG_STOP = 1, FLAG_LEAVING = 2 };
enum { ACCESS_READS = 1, ACCESS_WRITES = 2, ACCESS_PHYSICAL = 4 };
enum { HIT_BREAKPOINT = 1, HIT_LEAVING, HIT_READ, HIT_WRITE };

typedef struct {
    uint64_t address, size;
    uint32_t flags, reserved;
} Access;

typedef struct {
    int64_t time;               /* before the instruction */
    uint64_t pc;
    uint64_t address;           /* that was accessed, virtual */
    uint32_t size;
    uint32_t kind;
    uint32_t pid, tid;          /* the kernel's own numbers */
} Hit;

typedef struct {
    char magic[8];
    uint32_t version;
    uint32_t plugin_version;    /* written here */

    /* the guest's kernel */
    uint64_t current_task;      /* address of the pointer to it */
    uint64_t switch_to;         /* the function that changes it */
    uint64_t switch_to_size;
    uint64_t page_fault;        /* where page faults enter the kernel */
    uint32_t pid_offset, tgid_offset;   /* in struct task_struct */

    /* conditions */
    uint64_t generation;        /* another one for each set of them */
    uint32_t flags;
    uint32_t process, thread;   /* thread: that leaves; 0 for any */
    uint32_t keep;              /* hits, at most HITS */
    int64_t after, before;      /* hits have a time between these */
    int64_t until;              /* the machine stops then; -1: it doesn't */
    uint64_t leaving_start, leaving_end;
    uint32_t breakpoints, accesses;

    /* written here */
    uint64_t total;             /* hits since the conditions were set */
    uint64_t taken;             /* the generation that these are of */

    uint64_t breakpoint[BREAKPOINTS];
    Access access[ACCESSES];
    Hit hit[HITS];
} Control;

/* As python/rewind/replay/watch.py has it. */
G_STATIC_ASSERT(offsetof(Control, generation) == 56);
G_STATIC_ASSERT(offsetof(Control, total) == 128);
G_STATIC_ASSERT(sizeof(Access) == 24);
G_STATIC_ASSERT(sizeof(Hit) == 40);

static Control *control;

/* The task that the guest's kernel runs. */
static struct {
    uint64_t address;
    uint32_t pid, tgid;
} task;

/* What code that was translated has callbacks for. */
static struct {
    bool attention;
    uint32_t rw;                /* of memory accesses: ACCESS_READS, … */
    GHashTable *breakpoints;
} seen;

/*
 * Words that translated code looks at before it calls: whether the process
 * that has breakpoints runs; whether each of the program's instructions
 * matters, or the next one at all; whether page faults do.
 */
static struct qemu_plugin_scoreboard *scoreboard;
static qemu_plugin_u64 in_process, attention, fault;

static GHashTable *breakpoints;
static bool stopping;           /* before the next instruction */

/* Accesses are only looked at closer in here: */
static uint64_t lowest, highest;    /* virtual addresses */
static uint64_t granules;           /* physical ones: 64ths of a page */

/* The hits that would come again, when an instruction is executed again. */
static int64_t hit_time;
static int64_t access_time[ACCESSES][2];

/* The program's instruction that was looked at last, and was not done yet. */
typedef struct {
    uint64_t task, pc;
    int64_t time;
} Instruction;

static Instruction last, again;

/*
 * Callbacks get an instruction's address, the number of instructions of its
 * block from it on, and whether it repeats, in one word.
 */
#define PC_BITS 48
#define REPEATS (1ull << 63)

static void *pack(uint64_t pc, size_t behind, bool repeats)
{
    return (void *)(uintptr_t)((pc & ((1ull << PC_BITS) - 1)) |
                               (uint64_t)behind << PC_BITS |
                               (repeats ? REPEATS : 0));
}

static uint64_t pc_of(void *data)
{
    return (int64_t)((uint64_t)(uintptr_t)data << (64 - PC_BITS)) >>
           (64 - PC_BITS);
}

static int64_t time_of(void *data)
{
    return rewind_time((uint64_t)(uintptr_t)data << 1 >> (PC_BITS + 1));
}

static bool in_kernel(uint64_t pc)
{
    return pc >> 63;
}

/* --- tasks */

static bool is_watched_process(void)
{
    return control->process && task.tgid == control->process;
}

/* That makes a step: the others go on meanwhile, and may stop the machine. */
static bool is_leaving_thread(void)
{
    return is_watched_process() && (control->flags & FLAG_LEAVING) &&
           (!control->thread || task.pid == control->thread);
}

static void set_words(void)
{
    qemu_plugin_u64_set(in_process, 0, is_watched_process());
    qemu_plugin_u64_set(attention, 0, stopping || is_leaving_thread());
}

static void set_task(uint64_t address)
{
    task.address = address;
    task.pid = 0;
    task.tgid = 0;
    if (!rewind_read(address + control->pid_offset, &task.pid,
                     sizeof(task.pid)) ||
        !rewind_read(address + control->tgid_offset, &task.tgid,
                     sizeof(task.tgid))) {
        task.pid = 0;
        task.tgid = 0;
    }
    set_words();
}

static void on_switch(unsigned int vcpu, qemu_plugin_meminfo_t info,
                      uint64_t address, void *data)
{
    if (address == control->current_task) {
        set_task(qemu_plugin_mem_get_value(info).data.u64);
    }
}

/* --- hits */

static bool is_wanted(int64_t time)
{
    return time > control->after && time < control->before;
}

static void add_hit(int64_t time, uint32_t kind, uint64_t pc,
                    uint64_t address, uint32_t size)
{
    Hit *hit = &control->hit[control->total++ % control->keep];

    hit->time = time;
    hit->pc = pc;
    hit->address = address;
    hit->size = size;
    hit->kind = kind;
    hit->pid = task.tgid;
    hit->tid = task.pid;
}

/*
 * An instruction of the watched thread, which is not done yet: whether it is
 * one that was looked at before and begins again, after a page fault or, one
 * that repeats, after 65,535 times.
 */
static bool begins_again(uint64_t pc, int64_t time, bool repeats)
{
    bool same = again.task == task.address && again.pc == pc;

    if (again.task == task.address) {
        again.task = 0;
    }
    if (repeats && last.task == task.address && last.pc == pc &&
        last.time + 1 == time) {
        same = true;
    }
    last = (Instruction) { task.address, pc, time };
    qemu_plugin_u64_set(fault, 0, 1);
    return same;
}

static void on_fault(unsigned int vcpu, void *data)
{
    qemu_plugin_u64_set(fault, 0, 0);
    /* The instruction that faults is not counted. */
    if (last.task == task.address && last.time == time_of(data)) {
        again = last;
    }
}

static void on_instruction(uint32_t kind, void *data, uintptr_t ra)
{
    uint64_t pc = pc_of(data);
    int64_t time = time_of(data);

    if (begins_again(pc, time, (uint64_t)(uintptr_t)data & REPEATS) ||
        !is_wanted(time) || time == hit_time) {
        return;
    }
    hit_time = time;
    add_hit(time, kind, pc, 0, 0);
    if (control->flags & FLAG_STOP) {
        rewind_stop_here(ra);
    }
}

static void on_breakpoint(unsigned int vcpu, void *data)
{
    uint64_t pc = pc_of(data);

    if (g_hash_table_contains(breakpoints, (void *)(uintptr_t)pc)) {
        on_instruction(HIT_BREAKPOINT, data,
                       (uintptr_t)__builtin_return_address(0));
    }
}

static void on_attention(unsigned int vcpu, void *data)
{
    uint64_t pc = pc_of(data);
    uintptr_t ra = (uintptr_t)__builtin_return_address(0);

    if (stopping) {
        rewind_stop_here(ra);
    }
    if (in_kernel(pc)) {
        return;
    }
    if (pc < control->leaving_start || pc >= control->leaving_end) {
        on_instruction(HIT_LEAVING, data, ra);
    } else {
        begins_again(pc, time_of(data), (uint64_t)(uintptr_t)data & REPEATS);
    }
}

/* The physical address of what was just accessed; ~0 of a device's. */
static uint64_t physical(qemu_plugin_meminfo_t info, uint64_t address)
{
    struct qemu_plugin_hwaddr *found = qemu_plugin_get_hwaddr(info, address);

    if (!found || qemu_plugin_hwaddr_is_io(found)) {
        return ~0ull;
    }
    return qemu_plugin_hwaddr_phys_addr(found);
}

static bool overlap(uint64_t a, uint64_t a_size, uint64_t b, uint64_t b_size)
{
    return a < b + b_size && b < a + a_size;
}

static bool is_accessed(const Access *access, qemu_plugin_meminfo_t info,
                        uint64_t address, uint32_t size)
{
    uint64_t first = 4096 - (address & 4095);

    if (!(access->flags & ACCESS_PHYSICAL)) {
        return overlap(address, size, access->address, access->size) &&
               is_watched_process();
    }
    if (first >= size) {
        return overlap(physical(info, address), size, access->address,
                       access->size);
    }
    return overlap(physical(info, address), first, access->address,
                   access->size) ||
           overlap(physical(info, address + first), size - first,
                   access->address, access->size);
}

static void look_closer(qemu_plugin_meminfo_t info, uint64_t address,
                        uint32_t size, void *data)
{
    bool store = qemu_plugin_mem_is_store(info);
    int64_t time = 0;
    uint32_t i;

    for (i = 0; i < control->accesses; i++) {
        const Access *access = &control->access[i];

        if (!(access->flags & (store ? ACCESS_WRITES : ACCESS_READS)) ||
            !is_accessed(access, info, address, size)) {
            continue;
        }
        time = time_of(data);
        /* An instruction that repeats is one. */
        if (!is_wanted(time) || access_time[i][store] == time) {
            continue;
        }
        access_time[i][store] = time;
        add_hit(time, store ? HIT_WRITE : HIT_READ, pc_of(data), address, size);
        if ((control->flags & FLAG_STOP) && !stopping) {
            /* It is done: stop before the next one, or when the block ends. */
            stopping = true;
            set_words();
            rewind_stop_soon();
        }
    }
}

static void on_access(unsigned int vcpu, qemu_plugin_meminfo_t info,
                      uint64_t address, void *data)
{
    uint32_t size = 1u << qemu_plugin_mem_size_shift(info);
    uint64_t end = address + size;

    if ((address < highest && end > lowest) ||
        granules & (1ull << (address >> 6 & 63) |
                    1ull << ((end - 1) >> 6 & 63))) {
        look_closer(info, address, size, data);
    }
}

/* --- translation */

static bool repeats(struct qemu_plugin_insn *insn)
{
    uint8_t prefix;

    return qemu_plugin_insn_data(insn, &prefix, 1) == 1 &&
           (prefix == 0xf2 || prefix == 0xf3);
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    size_t count = qemu_plugin_tb_n_insns(tb);
    size_t i;

    for (i = 0; i < count; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        uint64_t pc = qemu_plugin_insn_vaddr(insn);
        void *data = pack(pc, count - i, false);

        if (in_kernel(pc)) {
            if (pc - control->switch_to < control->switch_to_size) {
                qemu_plugin_register_vcpu_mem_cb(insn, on_switch,
                                                 QEMU_PLUGIN_CB_NO_REGS,
                                                 QEMU_PLUGIN_MEM_W, NULL);
            }
            if (pc == control->page_fault) {
                qemu_plugin_register_vcpu_insn_exec_cond_cb(
                    insn, on_fault, QEMU_PLUGIN_CB_NO_REGS,
                    QEMU_PLUGIN_COND_NE, fault, 0, data);
            }
        } else if (seen.attention || g_hash_table_size(seen.breakpoints)) {
            data = pack(pc, count - i, repeats(insn));
        }
        if (g_hash_table_contains(seen.breakpoints, (void *)(uintptr_t)pc)) {
            qemu_plugin_register_vcpu_insn_exec_cond_cb(
                insn, on_breakpoint, QEMU_PLUGIN_CB_R_REGS,
                QEMU_PLUGIN_COND_NE, in_process, 0, data);
        }
        /* In the kernel only for a stop after an access. */
        if (seen.attention && (seen.rw || !in_kernel(pc))) {
            qemu_plugin_register_vcpu_insn_exec_cond_cb(
                insn, on_attention, QEMU_PLUGIN_CB_R_REGS,
                QEMU_PLUGIN_COND_NE, attention, 0, data);
        }
        if (seen.rw) {
            qemu_plugin_register_vcpu_mem_cb(
                insn, on_access, QEMU_PLUGIN_CB_NO_REGS,
                seen.rw == ACCESS_READS ? QEMU_PLUGIN_MEM_R :
                seen.rw == ACCESS_WRITES ? QEMU_PLUGIN_MEM_W :
                QEMU_PLUGIN_MEM_RW, data);
        }
    }
}

/* --- conditions */

/* What they need of translated code; whether that is more than it has. */
static bool need(void)
{
    uint32_t i, rw = seen.rw;
    bool attentive = seen.attention || (control->flags & FLAG_LEAVING) ||
                     (control->accesses && (control->flags & FLAG_STOP));
    bool more;

    for (i = 0; i < control->accesses; i++) {
        rw |= control->access[i].flags & (ACCESS_READS | ACCESS_WRITES);
    }
    more = rw != seen.rw || attentive != seen.attention;
    seen.rw = rw;
    seen.attention = attentive;
    for (i = 0; i < control->breakpoints; i++) {
        more |= g_hash_table_add(seen.breakpoints,
                                 (void *)(uintptr_t)control->breakpoint[i]);
    }
    return more;
}

static void take_conditions(void)
{
    uint32_t i;

    control->taken = control->generation;
    control->total = 0;
    hit_time = -1;
    memset(access_time, 0xff, sizeof(access_time));

    g_hash_table_remove_all(breakpoints);
    for (i = 0; i < control->breakpoints; i++) {
        g_hash_table_add(breakpoints,
                         (void *)(uintptr_t)control->breakpoint[i]);
    }

    lowest = ~0ull;
    highest = 0;
    granules = 0;
    for (i = 0; i < control->accesses; i++) {
        const Access *access = &control->access[i];
        uint64_t end = access->address + access->size;
        uint64_t granule;

        if (!(access->flags & ACCESS_PHYSICAL)) {
            lowest = MIN(lowest, access->address);
            highest = MAX(highest, end);
        } else if (access->size >= 4096) {
            granules = ~0ull;
        } else {
            for (granule = access->address >> 6; granule <= (end - 1) >> 6;
                 granule++) {
                granules |= 1ull << (granule & 63);
            }
        }
    }
    if (need()) {
        rewind_retranslate();
    }
}

static void on_start(void)
{
    uint64_t current = 0;

    if (control->taken != control->generation) {
        take_conditions();
    }
    stopping = false;
    rewind_stop_at(control->until);
    if (!rewind_read(control->current_task, &current, sizeof(current))) {
        current = 0;
    }
    set_task(current);
}

/* --- set-up */

static bool open_control(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDWR | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &st) < 0) {
        fprintf(stderr, "rewind-plugin: cannot open '%s'\n", path);
        return false;
    }
    if (st.st_size < sizeof(Control)) {
        fprintf(stderr, "rewind-plugin: '%s' is no control file\n", path);
        return false;
    }
    control = mmap(NULL, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED,
                   fd, 0);
    close(fd);
    if (control == MAP_FAILED) {
        fprintf(stderr, "rewind-plugin: cannot map '%s'\n", path);
        return false;
    }
    control->plugin_version = CONTROL_VERSION;
    if (memcmp(control->magic, CONTROL_MAGIC, sizeof(CONTROL_MAGIC)) ||
        control->version != CONTROL_VERSION) {
        fprintf(stderr, "rewind-plugin: this plugin is of version %d, and the"
                " control file of version %" PRIu32 "\n", CONTROL_VERSION,
                control->version);
        return false;
    }
    return true;
}

QEMU_PLUGIN_EXPORT
int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info,
                        int argc, char **argv)
{
    static const char option[] = "control=";

    if (argc != 1 || strncmp(argv[0], option, strlen(option))) {
        fprintf(stderr, "rewind-plugin: it takes one argument, control=FILE\n");
        return 1;
    }
    if (!open_control(argv[0] + strlen(option))) {
        return 1;
    }
    breakpoints = g_hash_table_new(NULL, NULL);
    seen.breakpoints = g_hash_table_new(NULL, NULL);
    scoreboard = qemu_plugin_scoreboard_new(3 * sizeof(uint64_t));
    in_process = (qemu_plugin_u64) { scoreboard, 0 };
    attention = (qemu_plugin_u64) { scoreboard, sizeof(uint64_t) };
    fault = (qemu_plugin_u64) { scoreboard, 2 * sizeof(uint64_t) };
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    rewind_on_start(on_start);
    return 0;
}
