/*
 * Finds pairs of accesses to the same memory by two threads, one of them a
 * write, and what has ordered the two.
 *
 *   -plugin races.so,control=/proc/self/fd/N
 *
 * Copyright (c) 2026 the rewind authors
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Passive: it only reads what the guest does. The control file is shared with
 * python/rewind/replay/races.py, which writes it while the machine does not
 * run, and reads the pairs then. The guest has one CPU and the kernel that the
 * control file tells of.
 *
 * Memory is known by its physical address, so that it is the same to all who
 * share it. For each 8 bytes that were touched there are the last RECORDS
 * accesses that differ; a page that the kernel clears or copies into is a new
 * one. Of each thread there are vector clocks: what is before it because
 * it was started, woken or joined, or got a message ("strong"), and what is
 * before it by atomic accesses to the same word besides ("weak"). Words of
 * libraries' own count for neither. A third clock, of which their locks are a
 * part ("heap"), is for memory that an allocator may have handed on.
 *
 * A lock is known by what is done: a thread changes a word by a locked
 * instruction and undoes that change later, by whatever store. What it does in
 * between, it does with the lock held. That orders nothing, as the other one
 * could have been the first. Two locks of which each was taken by a thread that
 * held the other one are "inverted": two threads can wait for one another. What
 * another thread undoes while it is held is a counter, and no such lock.
 *
 * Memory that is unmapped is written to, in whole.
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

#define CONTROL_MAGIC   "rwraces"
#define CONTROL_VERSION 4

#define THREADS         256     /* at a time */
#define PROCESSES       256
#define RANGES          4096
#define CHANNELS        8
#define CLEARS          4
#define DEPTH           3

/* What is kept, at most: 250 MB. */
#define RECORDS         8       /* of a word: the last ones that differ */
#define RECORDS_FIRST   2       /* as many as there is room for at first */
#define RECORDS_ALL     (1 << 21)
#define PAGES           (1 << 14)
#define ATOMS           (1 << 13)
#define MESSAGES        (1 << 12)
#define SECTIONS        (1 << 16)
#define PAIRS           (1 << 13)
#define PAIRS_LOCKED    (PAIRS - PAIRS / 4)
#define PAIRS_ORDERED   (PAIRS / 2)
#define NESTINGS        (1 << 10)
#define HELD            8       /* locks of a thread */
#define NOTED           3       /* of them in a record */

#define PAGE_BITS       12
#define PAGE_WORDS      512
#define DIRECT_MAP      0xffff888000000000ull
#define MAIN_STACK      0x7fffff000000ull
#define STACK_KEPT      (64 << 10)
#define DESCRIPTOR      0x1000  /* of a thread, from its thread pointer on */

#define FUTEX_COMMANDS  0x7f
#define FUTEX_WAIT          0
#define FUTEX_LOCK_PI       6
#define FUTEX_WAIT_BITSET   9
#define FUTEX_LOCK_PI2      13

/* preempt_count: serving a softirq, in a hardirq or an NMI */
#define IN_INTERRUPT    0xff0100u

/* struct pt_regs, as ptrace(2) has it, too */
#define REGS_SI         104
#define REGS_DI         112
#define REGS_IP         128

enum {
    CLASS_RACE = 1, CLASS_ATOMICS, CLASS_LOCKED, CLASS_ORDERED, CLASS_INVERTED,
};
enum {
    ACCESS_WRITE = 1, ACCESS_LOCKED = 2, ACCESS_UPDATE = 4, ACCESS_UNMAP = 8,
};
enum { SECTION_OPEN, SECTION_RELEASED, SECTION_LEFT };

typedef struct {
    uint64_t start, end;
    uint32_t process, reserved;
} Range;

/* Where messages are sent or received: by what is behind its first argument. */
typedef struct {
    uint64_t function;
    uint32_t send, depth;
    uint32_t offset[DEPTH + 1];
} Channel;

typedef struct {
    int64_t time;               /* before the instruction */
    int64_t locked;             /* when it took the lock that it had; or 0 */
    uint64_t pc;
    uint32_t pid, tid;          /* the kernel's own numbers */
    uint32_t flags, size;
} Side;

typedef struct {
    uint64_t address;           /* virtual, of the later one */
    uint64_t other;             /* of two locks: the one that b had */
    uint64_t count;
    uint32_t class, reserved;
    Side a, b;                  /* the first time; a was the earlier one */
} Pair;

typedef struct {
    char magic[8];
    uint32_t version;
    uint32_t plugin_version;    /* written here */

    /* the guest's kernel */
    uint64_t current_task;      /* address of the pointer to it */
    uint64_t preempt_count;
    uint64_t switch_to;         /* the function that changes the task */
    uint64_t switch_to_size;
    uint64_t wake, wake_new, exit, reap, clone, futex, unmap;  /* functions */
    uint64_t clear[CLEARS];     /* that make a page new */
    uint32_t pid_offset, tgid_offset, child_tid_offset;
    uint32_t stack_offset, stack_size_offset, tls_offset;
    Channel channel[CHANNELS];

    /* what is looked at */
    uint64_t generation;        /* another one for each set of it */
    uint32_t processes, foreign, images, shared;
    int64_t since;              /* pairs of which the later one was before
                                   are none */

    /* written here */
    uint64_t taken;             /* the generation that was taken up */
    uint64_t accesses;          /* that were looked at */
    uint64_t lost_words, lost_pairs, lost_threads, lost_atoms;
    uint64_t forgotten;         /* records that others took the place of */
    uint64_t pairs;

    uint32_t process[PROCESSES];
    Range foreign_range[RANGES];    /* code that is none of the program's */
    Range image_range[RANGES];      /* the program's own files */
    Range shared_range[RANGES];     /* memory that processes share */
    Pair pair[PAIRS];
} Control;

/* As python/rewind/replay/races.py has it. */
G_STATIC_ASSERT(sizeof(Range) == 24);
G_STATIC_ASSERT(sizeof(Channel) == 32);
G_STATIC_ASSERT(sizeof(Side) == 40);
G_STATIC_ASSERT(sizeof(Pair) == 112);
G_STATIC_ASSERT(offsetof(Control, generation) == 416);

static Control *control;

/* --- what is kept */

typedef struct {
    uint64_t physical;
    uint32_t number;            /* from 1 on */
    bool foreign;               /* it orders nothing of the program's */
    bool lock;                  /* what was done to it was undone */
    bool counter;               /* by another thread than had done it */
    struct Thread *owner;       /* who has it alone, ... */
    uint32_t section;           /* ... as long as it is in that one */
    uint32_t weak[THREADS], heap[THREADS];
} Atom;

typedef struct {
    Atom *atom;
    uint32_t section;
    bool nested;                /* there is a Nesting of it */
    uint64_t address;           /* virtual */
    int64_t time;
    uint64_t before, change;
} Held;

typedef struct Thread {
    uint64_t task;
    uint32_t pid, tgid;
    uint32_t slot;
    uint16_t process;           /* in process_numbers */
    bool ended;
    uint32_t strong[THREADS], weak[THREADS], heap[THREADS];
    uint64_t child_tid;         /* what the kernel clears at its end */
    Atom *waiting;              /* for another's release, in a futex call */
    Atom *last;                 /* that it has looked at, ... */
    uint64_t last_address;      /* ... and where */
    struct {
        uint64_t address, value;
        int64_t time;
    } load;
    uint32_t held_count;
    Held held[HELD];
} Thread;

typedef struct {
    uint64_t pc;
    int64_t time;
    uint32_t pid;
    uint32_t strong, weak, heap;
    uint32_t atom[NOTED], section[NOTED];
    uint32_t had;               /* for how long it has had the last lock */
    uint16_t slot, process;
    uint8_t mask, flags, sync, size;
} Record;

G_STATIC_ASSERT(sizeof(Record) == 72);

/* A lock was taken by a thread that had another one: the first time, or the
 * first that it gave both back. */
typedef struct {
    uint64_t pc, address, had_address;
    int64_t time;
    uint32_t atom, had;         /* numbers */
    uint32_t pid, tgid;
    uint32_t also[NOTED];       /* what it had besides */
    uint32_t section, had_section;
    bool released, had_released; /* it has undone what it did */
    bool counter;               /* one of them is no lock */
    uint16_t slot;
    uint32_t strong[THREADS];
} Nesting;

typedef struct {
    uint16_t slot;              /* of the thread that was first */
    bool shared;                /* with another one */
    uint8_t latest;             /* the number of a record */
    uint16_t count, room;
    Record record[];
} Word;

typedef struct {
    uint64_t number;            /* physical */
    uint64_t virtual;           /* of the last access, and whose */
    uint32_t tgid;
    bool atoms;
    Word *word[PAGE_WORDS];
} Page;

static Thread *threads[THREADS];
static uint32_t slots;          /* that have been used */
static GArray *process_numbers; /* tgids of all that were ever looked at */
static Thread *current;         /* if it is one that is looked at */
static uint64_t current_task;

static GHashTable *processes;   /* tgids */
static GHashTable *pages;       /* page number -> Page */
static GHashTable *atoms;       /* physical address -> Atom */
static GHashTable *messages;    /* the kernel's object -> clock */
static GHashTable *ended;       /* address and tgid -> Thread */
static GHashTable *updates;     /* pcs that read and write at once */
static uint64_t cached_updates[256];
static GHashTable *pairs;       /* key -> number + 1 */
static GHashTable *nestings;    /* key -> Nesting */
static GPtrArray *nested;       /* the same */
static uint32_t room, atom_numbers;
static Page *cached_pages[256];

/* Where in a page there is an atom, or a word that says that a thread ended. */
static bool special[4096 >> 2];

static uint32_t sections;
static struct {
    uint32_t number;
    uint8_t state;
} section[SECTIONS];

static bool instrumented;
static struct qemu_plugin_register *rdi, *rsi;

/* As in watch.c: what callbacks get in one word. */
#define PC_BITS 48
#define LOCKED (1ull << 63)

static bool in_kernel(uint64_t pc)
{
    return pc >> 63;
}

/* --- threads */

static Thread *find_thread(uint64_t task, uint32_t pid)
{
    uint32_t i;

    for (i = 0; i < slots; i++) {
        if (threads[i]->task == task && threads[i]->pid == pid &&
            !threads[i]->ended) {
            return threads[i];
        }
    }
    return NULL;
}

/*
 * A slot that was another's: of a process of which nothing is left, whose
 * clock goes on.
 */
static Thread *reuse_slot(void)
{
    uint32_t i, k;

    for (i = 0; i < slots; i++) {
        bool alive = false;

        for (k = 0; k < slots; k++) {
            alive |= threads[k]->tgid == threads[i]->tgid && !threads[k]->ended;
        }
        if (!alive) {
            return threads[i];
        }
    }
    return NULL;
}

static void forget_ended(Thread *thread)
{
    GHashTableIter it;
    void *value;

    g_hash_table_iter_init(&it, ended);
    while (g_hash_table_iter_next(&it, NULL, &value)) {
        if (value == thread) {
            g_hash_table_iter_remove(&it);
        }
    }
}

/* The number of a process in process_numbers, or -1 if there is no room. */
static int number_process(uint32_t tgid)
{
    guint i;

    for (i = process_numbers->len; i > 0; i--) {
        if (g_array_index(process_numbers, uint32_t, i - 1) == tgid) {
            return i - 1;
        }
    }
    if (process_numbers->len > UINT16_MAX) {
        return -1;
    }
    g_array_append_val(process_numbers, tgid);
    return process_numbers->len - 1;
}

static Thread *get_thread(uint64_t task, bool make)
{
    uint32_t pid = 0, tgid = 0, slot, clock = 0;
    Thread *thread;
    int process;

    if (!rewind_read(task + control->pid_offset, &pid, sizeof(pid)) ||
        !rewind_read(task + control->tgid_offset, &tgid, sizeof(tgid)) ||
        !g_hash_table_contains(processes, GUINT_TO_POINTER(tgid))) {
        return NULL;
    }
    thread = find_thread(task, pid);
    if (thread || !make) {
        return thread;
    }
    process = number_process(tgid);
    if (process < 0) {
        control->lost_threads++;
        return NULL;
    }
    if (slots < THREADS) {
        slot = slots++;
        thread = threads[slot] = g_new0(Thread, 1);
    } else {
        thread = reuse_slot();
        if (!thread) {
            control->lost_threads++;
            return NULL;
        }
        slot = thread->slot;
        clock = MAX(thread->heap[slot],
                    MAX(thread->strong[slot], thread->weak[slot]));
        forget_ended(thread);
        memset(thread, 0, sizeof(*thread));
    }
    thread->task = task;
    thread->pid = pid;
    thread->tgid = tgid;
    thread->slot = slot;
    thread->process = process;
    thread->strong[slot] = thread->weak[slot] = thread->heap[slot] = clock + 1;
    return thread;
}

static void set_task(uint64_t task)
{
    current_task = task;
    current = g_hash_table_size(processes) ? get_thread(task, true) : NULL;
}

static void on_switch(unsigned int vcpu, qemu_plugin_meminfo_t info,
                      uint64_t address, void *data)
{
    if (address == control->current_task) {
        set_task(qemu_plugin_mem_get_value(info).data.u64);
    }
}

static uint64_t read_register(struct qemu_plugin_register *which)
{
    g_autoptr(GByteArray) buffer = g_byte_array_new();
    uint64_t value = 0;

    if (which && qemu_plugin_read_register(which, buffer) == sizeof(value)) {
        memcpy(&value, buffer->data, sizeof(value));
    }
    return value;
}

/* --- clocks */

static void join_clock(uint32_t *to, const uint32_t *from)
{
    uint32_t i;

    for (i = 0; i < slots; i++) {
        to[i] = MAX(to[i], from[i]);
    }
}

/* What is before @a is before @b from now on. */
static void join_thread(Thread *b, const Thread *a)
{
    join_clock(b->strong, a->strong);
    join_clock(b->weak, a->weak);
    join_clock(b->heap, a->heap);
}

/* What a thread does from now on is after what it has told of. */
static void advance(Thread *thread)
{
    thread->strong[thread->slot]++;
    thread->weak[thread->slot]++;
    thread->heap[thread->slot]++;
}

/* What @a has done is before what @b does from now on, and that is forced. */
static void add_edge(Thread *a, Thread *b)
{
    join_thread(b, a);
    advance(a);
}

static bool in_interrupt(void)
{
    uint32_t count = 0;

    return !rewind_read(control->preempt_count, &count, sizeof(count)) ||
           (count & IN_INTERRUPT);
}

static void on_wake(unsigned int vcpu, void *data)
{
    Thread *woken;
    Atom *lock;

    if (!current || in_interrupt()) {
        return;
    }
    woken = get_thread(read_register(rdi), false);
    if (!woken || woken == current) {
        return;
    }
    /* Who waits for a lock is not ordered by it. */
    lock = woken->waiting;
    if (!lock || !(lock->lock || lock->foreign)) {
        add_edge(current, woken);
    }
}

static uint64_t ended_key(uint32_t tgid, uint64_t address)
{
    return address | (uint64_t)tgid << 47;
}

static void on_wake_new(unsigned int vcpu, void *data)
{
    uint64_t task = read_register(rdi), address;
    Thread *child;

    if (!current) {
        return;
    }
    child = get_thread(task, true);
    if (!child) {
        return;
    }
    add_edge(current, child);
    if (rewind_read(task + control->child_tid_offset, &address,
                    sizeof(address))) {
        g_hash_table_remove(ended, (void *)ended_key(child->tgid, address));
    }
}

static void on_exit_task(unsigned int vcpu, void *data)
{
    uint64_t address;

    if (!current) {
        return;
    }
    if (rewind_read(current->task + control->child_tid_offset, &address,
                    sizeof(address)) && address) {
        current->child_tid = address;
        special[(address & 4095) >> 2] = true;
        g_hash_table_insert(ended, (void *)ended_key(current->tgid, address),
                            current);
    }
}

/* Its parent has waited for it, or nobody will. */
static void on_reap(unsigned int vcpu, void *data)
{
    Thread *thread = get_thread(read_register(rdi), false);

    if (!thread) {
        return;
    }
    if (current && thread != current) {
        add_edge(thread, current);
    }
    thread->ended = true;
}

static void on_futex(unsigned int vcpu, void *data)
{
    uint32_t command = read_register(rsi) & FUTEX_COMMANDS;

    if (current && (command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET ||
                    command == FUTEX_LOCK_PI || command == FUTEX_LOCK_PI2)) {
        current->waiting = current->last &&
            current->last_address == read_register(rdi) ? current->last : NULL;
    }
}

static void on_message(unsigned int vcpu, void *data)
{
    const Channel *channel = data;
    uint64_t object = read_register(rdi);
    uint32_t *clock;
    uint32_t i;

    if (!current) {
        return;
    }
    for (i = 0; i < channel->depth; i++) {
        if (!rewind_read(object + channel->offset[i], &object,
                         sizeof(object)) || !object) {
            return;
        }
    }
    clock = g_hash_table_lookup(messages, (void *)object);
    if (!channel->send) {
        if (clock) {
            join_clock(current->strong, clock);
            join_clock(current->weak, clock);
            join_clock(current->heap, clock);
        }
        return;
    }
    if (!clock) {
        if (g_hash_table_size(messages) >= MESSAGES) {
            control->lost_atoms++;
            return;
        }
        clock = g_new0(uint32_t, THREADS);
        g_hash_table_insert(messages, (void *)object, clock);
    }
    join_clock(clock, current->strong);
    advance(current);
}

/* --- memory */

static Page *find_page(uint64_t number, bool make)
{
    Page **cached = &cached_pages[number % G_N_ELEMENTS(cached_pages)];
    Page *page = *cached;

    if (page && page->number == number) {
        return page;
    }
    page = g_hash_table_lookup(pages, (void *)number);
    if (!page && make) {
        if (g_hash_table_size(pages) >= PAGES) {
            return NULL;
        }
        page = g_new0(Page, 1);
        page->number = number;
        g_hash_table_insert(pages, (void *)number, page);
    }
    if (page) {
        *cached = page;
    }
    return page;
}

/*
 * Where pages of the current process are in the machine, as a processor would
 * keep it: until the kernel has it forgotten.
 */
static struct {
    uint64_t virtual;           /* a page's number and 1 bit more; 0: none */
    uint64_t number;
    Page *page;
} translations[256];

static void forget_translations(unsigned int vcpu, void *data)
{
    memset(translations, 0, sizeof(translations));
}

static void forget_words(Page *page, uint32_t first, uint32_t last)
{
    for (; first <= last; first++) {
        room -= page->word[first] ? page->word[first]->room : 0;
        g_free(page->word[first]);
        page->word[first] = NULL;
    }
}

static void forget_atom(Atom *atom)
{
    uint32_t i, k;

    for (i = 0; i < slots; i++) {
        Thread *thread = threads[i];

        if (thread->waiting == atom) {
            thread->waiting = NULL;
        }
        if (thread->last == atom) {
            thread->last = NULL;
        }
        for (k = 0; k < thread->held_count; k++) {
            if (thread->held[k].atom == atom) {
                thread->held[k--] = thread->held[--thread->held_count];
            }
        }
    }
}

static gboolean is_on_page(void *key, void *value, void *data)
{
    Atom *atom = value;

    if (atom->physical >> PAGE_BITS != *(uint64_t *)data) {
        return FALSE;
    }
    forget_atom(atom);
    return TRUE;
}

/* The kernel makes a page of what it has got from elsewhere. */
static void on_clear(unsigned int vcpu, void *data)
{
    uint64_t address = read_register(rdi), number;
    Page *page;

    if (address < DIRECT_MAP) {
        return;
    }
    number = (address - DIRECT_MAP) >> PAGE_BITS;
    page = find_page(number, false);
    if (!page) {
        return;
    }
    forget_words(page, 0, PAGE_WORDS - 1);
    if (page->atoms) {
        g_hash_table_foreach_remove(atoms, is_on_page, &number);
    }
    cached_pages[number % G_N_ELEMENTS(cached_pages)] = NULL;
    forget_translations(vcpu, NULL);
    g_hash_table_remove(pages, (void *)number);
}

/* A thread gets a stack that may have been another's. */
static void on_clone(unsigned int vcpu, void *data)
{
    uint64_t arguments = read_register(rdi), stack = 0, size = 0, tls = 0;
    uint64_t low, high;
    GHashTableIter it;
    void *value;

    if (!current ||
        !rewind_read(arguments + control->stack_offset, &stack,
                     sizeof(stack)) ||
        !rewind_read(arguments + control->stack_size_offset, &size,
                     sizeof(size)) ||
        !rewind_read(arguments + control->tls_offset, &tls, sizeof(tls)) ||
        !stack) {
        return;
    }
    low = stack - MIN(stack, size ? size : STACK_KEPT);
    high = tls >= stack && tls - stack < STACK_KEPT ? tls + DESCRIPTOR : stack;
    g_hash_table_iter_init(&it, pages);
    while (g_hash_table_iter_next(&it, NULL, &value)) {
        Page *page = value;
        uint64_t start = MAX(page->virtual, low);
        uint64_t end = MIN(page->virtual + 4096, high);

        if (page->tgid == current->tgid && start < end) {
            forget_words(page, (start - page->virtual) >> 3,
                         (end - 1 - page->virtual) >> 3);
        }
    }
}

/* --- atomic accesses, and locks */

static Atom *get_atom(uint64_t physical, bool foreign)
{
    Atom *atom = g_hash_table_lookup(atoms, (void *)physical);
    Page *page;

    if (!atom) {
        page = find_page(physical >> PAGE_BITS, true);
        if (!page || g_hash_table_size(atoms) >= ATOMS) {
            control->lost_atoms++;
            return NULL;
        }
        page->atoms = true;
        atom = g_new0(Atom, 1);
        atom->physical = physical;
        atom->number = ++atom_numbers;
        atom->foreign = foreign;
        g_hash_table_insert(atoms, (void *)physical, atom);
        special[(physical & 4095) >> 2] = true;
    }
    return atom;
}

static void end_section(uint32_t number, uint8_t state)
{
    if (section[number % SECTIONS].number == number) {
        section[number % SECTIONS].state = state;
    }
}

static uint32_t begin_section(void)
{
    uint32_t number = ++sections;

    section[number % SECTIONS].number = number;
    section[number % SECTIONS].state = SECTION_OPEN;
    return number;
}

static Held *find_held(Thread *thread, const Atom *atom)
{
    uint32_t i;

    for (i = 0; i < thread->held_count; i++) {
        if (thread->held[i].atom == atom) {
            return &thread->held[i];
        }
    }
    return NULL;
}

static void drop_held(Thread *thread, Held *held, uint8_t state)
{
    end_section(held->section, state);
    /* In the order in which they were taken. */
    memmove(held, held + 1,
            (uint8_t *)&thread->held[thread->held_count] -
            (uint8_t *)(held + 1));
    thread->held_count--;
}

/* @me is about to have a lock besides those that it has. */
static void nest(Thread *me, Held *taken, uint64_t pc, int64_t time)
{
    uint32_t i, k, n;

    for (i = 0; i < me->held_count; i++) {
        Held *had = &me->held[i];
        uint64_t key = (uint64_t)had->atom->number << 40 ^
            (uint64_t)taken->atom->number << 16 ^ me->slot;
        Nesting *one = g_hash_table_lookup(nestings, (void *)key);

        if ((one && one->released && one->had_released) ||
            had->atom->counter || taken->atom->counter) {
            continue;
        }
        if (!one) {
            if (nested->len >= NESTINGS) {
                control->lost_pairs++;
                return;
            }
            one = g_new(Nesting, 1);
            g_hash_table_insert(nestings, (void *)key, one);
            g_ptr_array_add(nested, one);
        }
        *one = (Nesting) {
            .pc = pc, .time = time, .pid = me->pid, .tgid = me->tgid,
            .address = taken->address, .had_address = had->address,
            .atom = taken->atom->number, .had = had->atom->number,
            .section = taken->section, .had_section = had->section,
            .slot = me->slot,
        };
        for (k = n = 0; k < me->held_count && n < NOTED; k++) {
            if (k != i) {
                one->also[n++] = me->held[k].atom->number;
            }
        }
        memcpy(one->strong, me->strong, sizeof(one->strong));
        taken->nested = had->nested = true;
    }
}

static void release_nested(uint32_t number)
{
    uint32_t i;

    for (i = 0; i < nested->len; i++) {
        Nesting *one = g_ptr_array_index(nested, i);

        one->released |= one->section == number;
        one->had_released |= one->had_section == number;
    }
}

static Held *find_owner(const Atom *atom)
{
    Held *held = atom->owner ? find_held(atom->owner, atom) : NULL;

    return held && held->section == atom->section ? held : NULL;
}

/* Who waits for a lock may change it, but does not give it back. */
static void find_counter(const Thread *me, Atom *atom, uint64_t before,
                         uint64_t after)
{
    const Held *held;
    uint32_t i;

    if (atom->counter || atom->owner == me || before == after) {
        return;
    }
    held = find_owner(atom);
    if (!held || held->before != after) {
        return;
    }
    atom->counter = true;
    for (i = 0; i < nested->len; i++) {
        Nesting *one = g_ptr_array_index(nested, i);

        one->counter |= one->atom == atom->number || one->had == atom->number;
    }
}

static void change_atom(Thread *me, Atom *atom, uint64_t address,
                        uint64_t before, uint64_t after, uint32_t size,
                        bool locked, uint64_t pc, int64_t time)
{
    uint64_t bits = size >= 8 ? ~0ull : (1ull << 8 * size) - 1;
    uint64_t change = (after - before) & bits;
    Held *held = find_held(me, atom);
    Held taken;

    find_counter(me, atom, before, after);
    if (held && (after == held->before ||
                 ((change + held->change) & bits) == 0)) {
        atom->lock = true;
        if (held->nested) {
            release_nested(held->section);
        }
        drop_held(me, held, SECTION_RELEASED);
        return;
    }
    if (!locked || !change) {
        return;
    }
    if (held) {
        drop_held(me, held, SECTION_LEFT);
    } else if (me->held_count == HELD) {
        drop_held(me, &me->held[0], SECTION_LEFT);
    }
    taken = (Held) {
        .atom = atom, .section = begin_section(), .address = address,
        .time = time, .before = before, .change = change,
    };
    if (!find_owner(atom)) {
        atom->owner = me;
        atom->section = taken.section;
    }
    nest(me, &taken, pc, time);
    me->held[me->held_count++] = taken;
}

static uint64_t value_of(qemu_plugin_meminfo_t info)
{
    qemu_plugin_mem_value value = qemu_plugin_mem_get_value(info);

    switch (value.type) {
    case QEMU_PLUGIN_MEM_VALUE_U8:
        return value.data.u8;
    case QEMU_PLUGIN_MEM_VALUE_U16:
        return value.data.u16;
    case QEMU_PLUGIN_MEM_VALUE_U32:
        return value.data.u32;
    case QEMU_PLUGIN_MEM_VALUE_U64:
        return value.data.u64;
    default:
        return value.data.u128.low;
    }
}

/* Whether it is an atomic access, as far as can be told. */
static __attribute__((noinline))
bool order(Thread *me, qemu_plugin_meminfo_t info, uint64_t address,
           uint64_t physical, uint32_t size, uint64_t pc, int64_t time,
           bool store, bool locked, bool foreign)
{
    Thread *gone;
    Atom *atom;

    if (!store) {
        gone = g_hash_table_lookup(ended,
                                   (void *)ended_key(me->tgid, address));
        /* The kernel has cleared it. */
        if (gone && gone != me && !(uint32_t)value_of(info)) {
            join_thread(me, gone);
        }
    }
    atom = locked ? get_atom(physical, foreign) :
        g_hash_table_lookup(atoms, (void *)physical);
    if (!atom) {
        return false;
    }
    me->last = atom;
    me->last_address = address;
    if (!store) {
        me->load.address = address;
        me->load.value = value_of(info);
        me->load.time = time;
    } else {
        uint64_t after = value_of(info);
        bool known = me->load.time == time && me->load.address == address;

        change_atom(me, atom, address, known ? me->load.value : after, after,
                    size, locked && known, pc, time);
    }
    if (atom->foreign && !atom->lock) {
        return true;
    }
    if (!store || locked) {
        join_clock(me->heap, atom->heap);
    }
    if (store) {
        join_clock(atom->heap, me->heap);
        me->heap[me->slot]++;
    }
    if (atom->foreign) {
        return true;
    }
    if (!store || locked) {
        join_clock(me->weak, atom->weak);
    }
    if (store) {
        join_clock(atom->weak, me->weak);
        me->weak[me->slot]++;
    }
    return true;
}

/* --- pairs */

static bool have_common_lock(const Record *y, const Record *x)
{
    Thread *other = threads[y->slot];
    uint32_t i, k, n;

    for (i = 0; i < NOTED && y->atom[i]; i++) {
        for (k = 0; k < NOTED && x->atom[k]; k++) {
            uint32_t number = y->section[i];
            bool open = false;

            if (y->atom[i] != x->atom[k] ||
                (section[number % SECTIONS].number == number &&
                 section[number % SECTIONS].state != SECTION_RELEASED)) {
                continue;
            }
            for (n = 0; n < other->held_count; n++) {
                open |= other->held[n].section == number;
            }
            if (!open) {
                return true;
            }
        }
    }
    return false;
}

static bool is_in(const Range *ranges, uint32_t count, uint64_t address)
{
    uint32_t i;

    for (i = 0; i < count; i++) {
        if (address >= ranges[i].start && address < ranges[i].end &&
            (!ranges[i].process || ranges[i].process == current->tgid)) {
            return true;
        }
    }
    return false;
}

static bool is_shared(uint64_t address)
{
    return is_in(control->shared_range, control->shared, address);
}

/* Whether one thread may have given it back and another one got it. */
static bool is_heap(uint64_t address)
{
    return address < MAIN_STACK && !is_shared(address) &&
           !is_in(control->image_range, control->images, address);
}

static uint32_t classify(uint64_t address, const Record *y, const Record *x)
{
    if (y->strong <= current->strong[y->slot]) {
        return CLASS_ORDERED;
    }
    /* Before the word's first atomic access, it was not known to be one. */
    if (x->sync && (y->sync || y->mask == x->mask)) {
        return CLASS_ATOMICS;
    }
    if (have_common_lock(y, x)) {
        return CLASS_LOCKED;
    }
    if (y->weak <= current->weak[y->slot] ||
        (y->heap <= current->heap[y->slot] && is_heap(address))) {
        return CLASS_ATOMICS;
    }
    return CLASS_RACE;
}

static Side side_of(const Record *record)
{
    return (Side) {
        .time = record->time, .pc = record->pc,
        .locked = record->atom[0] ? record->time - record->had : 0,
        .pid = g_array_index(process_numbers, uint32_t, record->process),
        .tid = record->pid, .flags = record->flags, .size = record->size,
    };
}

static void add_pair(uint64_t address, const Record *y, const Record *x)
{
    uint32_t class;
    uint64_t key;
    uintptr_t number;

    if (x->time < control->since) {
        return;
    }
    class = classify(address, y, x);
    key = y->pc * 0x9e3779b97f4a7c15ull ^
        x->pc * 0xc2b2ae3d27d4eb4full ^ (uint64_t)class << 60 ^
        (uint64_t)(y->flags << 4 | x->flags) << 52 ^ (uint64_t)x->process << 20;
    if (control->since) {
        /* Who was first is what matters then, in each pair of threads. */
        key ^= ((uint64_t)y->pid << 32 | x->pid) * 0xff51afd7ed558ccdull;
    }
    number = (uintptr_t)g_hash_table_lookup(pairs, (void *)key);
    if (!number) {
        static const uint32_t most[] = {
            [CLASS_RACE] = PAIRS, [CLASS_ATOMICS] = PAIRS_LOCKED,
            [CLASS_LOCKED] = PAIRS_LOCKED, [CLASS_ORDERED] = PAIRS_ORDERED,
            [CLASS_INVERTED] = PAIRS,
        };

        if (control->pairs >= most[class]) {
            control->lost_pairs++;
            return;
        }
        number = ++control->pairs;
        g_hash_table_insert(pairs, (void *)key, (void *)number);
        control->pair[number - 1] = (Pair) {
            .address = address, .class = class,
            .a = side_of(y), .b = side_of(x),
        };
    }
    control->pair[number - 1].count++;
}

/* Makes room for more records of a word, or NULL if there is none. */
static Word *grow(Word *word)
{
    uint32_t more = word ? word->room : RECORDS_FIRST;
    Word *grown;

    if (room + more > RECORDS_ALL) {
        return NULL;
    }
    room += more;
    grown = g_realloc(word, sizeof(*word) + (word ? 2 : 1) * more *
                      sizeof(Record));
    if (!word) {
        memset(grown, 0, sizeof(*grown));
        grown->slot = current->slot;
    }
    grown->room += more;
    return grown;
}

static bool is_same(const Record *y, uint16_t slot, uint64_t pc, uint8_t mask,
                    uint8_t flags)
{
    return y->slot == slot && y->pc == pc && y->mask == mask &&
        y->flags == flags;
}

static void note_locks(Record *x)
{
    uint32_t i;

    if (current->held_count) {
        int64_t had = x->time - current->held[current->held_count - 1].time;

        x->had = MIN(had, UINT32_MAX);
    }
    for (i = 0; i < NOTED && i < current->held_count; i++) {
        const Held *held = &current->held[current->held_count - 1 - i];

        x->atom[i] = held->atom->number;
        x->section[i] = held->section;
    }
}

/*
 * What most accesses are: one that has come before, to a word of this thread
 * alone. Others do not need to be compared with it, and only what may have
 * changed is written.
 */
static inline bool renew_record(Page *page, uint64_t address, uint64_t pc,
                                uint8_t mask, uint8_t flags, bool sync,
                                int64_t time)
{
    const Thread *me = current;
    Word *word = page->word[(address & 4095) >> 3];
    Record *same;
    uint32_t i, at;

    if (!word || word->shared || word->slot != me->slot) {
        return false;
    }
    /* In a loop, what comes next is what has come next before. */
    at = word->latest;
    for (i = 0; i < word->count; i++) {
        at = at + 1 < word->count ? at + 1 : 0;
        same = &word->record[at];
        if (is_same(same, me->slot, pc, mask, flags)) {
            break;
        }
    }
    if (i == word->count || same->pid != me->pid) {
        return false;
    }
    page->virtual = address & -4096ull;
    page->tgid = me->tgid;
    word->latest = at;
    same->time = time;
    same->strong = me->strong[me->slot];
    same->weak = me->weak[me->slot];
    same->heap = me->heap[me->slot];
    same->sync = sync;
    if (me->held_count || same->atom[0]) {
        memset(same->atom, 0, sizeof(same->atom));
        same->had = 0;
        note_locks(same);
    }
    return true;
}

/* Which of a word's records @x takes the place of, when there is no room. */
static Record *choose_victim(Word *word, const Record *x)
{
    Record *oldest = &word->record[0], *own = NULL;
    uint32_t i, count = 0;

    for (i = 0; i < word->count; i++) {
        Record *y = &word->record[i];

        if (y->time < oldest->time) {
            oldest = y;
        }
        if (y->slot == x->slot) {
            count++;
            if (!own || y->time < own->time) {
                own = y;
            }
        }
    }
    if (word->shared) {
        control->forgotten++;
    }
    return count > 1 ? own : oldest;
}

/* @x is an access to the word at the virtual @address. */
static __attribute__((noinline))
void add_record(uint64_t address, uint64_t physical, const Record *x)
{
    Page *page = find_page(physical >> PAGE_BITS, true);
    Word *word, *grown, **place;
    Record *same = NULL;
    uint32_t i;

    if (!page) {
        control->lost_words++;
        return;
    }
    page->virtual = address & -4096ull;
    page->tgid = current->tgid;
    place = &page->word[(physical & 4095) >> 3];
    word = *place;
    if (!word) {
        word = *place = grow(NULL);
        if (!word) {
            control->lost_words++;
            return;
        }
    }
    word->shared |= x->slot != word->slot;
    for (i = 0; i < word->count; i++) {
        Record *y = &word->record[i];

        if (is_same(y, x->slot, x->pc, x->mask, x->flags)) {
            same = y;
        }
    }
    if (word->shared) {
        for (i = 0; i < word->count; i++) {
            const Record *y = &word->record[i];

            if (y->slot == x->slot || !(y->mask & x->mask) ||
                !((y->flags | x->flags) & ACCESS_WRITE) ||
                /* It was a pair then. */
                (same && y->time < same->time) ||
                (y->process != x->process && !is_shared(address))) {
                continue;
            }
            add_pair(address + __builtin_ctz(y->mask & x->mask), y, x);
        }
    }
    if (same) {
        *same = *x;
        return;
    }
    if (word->count == word->room && word->room < RECORDS) {
        grown = grow(word);
        if (grown) {
            word = *place = grown;
        }
    }
    if (word->count < word->room) {
        word->record[word->count++] = *x;
    } else {
        *choose_victim(word, x) = *x;
    }
}

/* Memory goes away that others may have accessed, or will: that is a write. */
static void on_unmap(unsigned int vcpu, void *data)
{
    uint64_t regs = read_register(rdi), start = 0, size = 0, pc = 0, end;
    GHashTableIter it;
    void *value;
    Record x;
    uint32_t i, k;

    if (!current ||
        !rewind_read(regs + REGS_DI, &start, sizeof(start)) ||
        !rewind_read(regs + REGS_SI, &size, sizeof(size)) ||
        !rewind_read(regs + REGS_IP, &pc, sizeof(pc))) {
        return;
    }
    end = start + size;
    x = (Record) {
        .pc = pc, .time = rewind_time((uint64_t)(uintptr_t)data),
        .pid = current->pid, .process = current->process,
        .slot = current->slot, .flags = ACCESS_WRITE | ACCESS_UNMAP,
    };
    note_locks(&x);
    g_hash_table_iter_init(&it, pages);
    while (g_hash_table_iter_next(&it, NULL, &value)) {
        Page *page = value;

        if (page->tgid != current->tgid || page->virtual < start ||
            page->virtual >= end || is_shared(page->virtual)) {
            continue;
        }
        for (i = 0; i < PAGE_WORDS; i++) {
            const Word *word = page->word[i];

            for (k = 0; word && k < word->count; k++) {
                const Record *y = &word->record[k];

                if (y->slot != x.slot && y->process == x.process) {
                    add_pair(page->virtual + 8 * i + __builtin_ctz(y->mask),
                             y, &x);
                }
            }
        }
        forget_words(page, 0, PAGE_WORDS - 1);
    }
}

/* --- accesses */

static inline bool is_foreign(uint64_t address)
{
    /* Files are mapped by pages. */
    static struct {
        uint64_t page, generation;
        uint32_t tgid;
        bool foreign;
    } cache[64], *cached;
    uint64_t page = address >> PAGE_BITS;

    cached = &cache[page % G_N_ELEMENTS(cache)];
    if (cached->page != page || cached->tgid != current->tgid ||
        cached->generation != control->taken) {
        cached->page = page;
        cached->tgid = current->tgid;
        cached->generation = control->taken;
        cached->foreign = is_in(control->foreign_range, control->foreign,
                                address);
    }
    return cached->foreign;
}

/* The physical address of what was just accessed; ~0 of a device's. */
static uint64_t physical_of(qemu_plugin_meminfo_t info, uint64_t address)
{
    struct qemu_plugin_hwaddr *found = qemu_plugin_get_hwaddr(info, address);

    if (!found || qemu_plugin_hwaddr_is_io(found)) {
        return ~0ull;
    }
    return qemu_plugin_hwaddr_phys_addr(found);
}

/* The same, and what is kept of its page, if there is something. */
static inline uint64_t translate(qemu_plugin_meminfo_t info, uint64_t address,
                                 Page **page)
{
    uint64_t virtual = address >> PAGE_BITS, physical;
    uint32_t at = virtual % G_N_ELEMENTS(translations);

    if (translations[at].virtual != (virtual << 1 | 1)) {
        physical = physical_of(info, address);
        if (physical == ~0ull) {
            return physical;
        }
        translations[at].virtual = virtual << 1 | 1;
        translations[at].number = physical >> PAGE_BITS;
        translations[at].page = NULL;
    }
    if (!translations[at].page) {
        translations[at].page = find_page(translations[at].number, false);
    }
    *page = translations[at].page;
    return translations[at].number << PAGE_BITS | (address & 4095);
}

/* When the block that is executed ends, if nothing comes in between. */
static int64_t block_end;

static void on_block(unsigned int vcpu, void *data)
{
    if (current) {
        block_end = rewind_time((uintptr_t)data) + (uintptr_t)data;
    }
}

/* All words that are accessed. */
static __attribute__((noinline))
void add_records(qemu_plugin_meminfo_t info, uint64_t address,
                 uint64_t physical, uint64_t pc, uint32_t size, uint8_t flags,
                 bool sync, int64_t time)
{
    const Thread *me = current;
    uint64_t at;
    Record x = {
        .pc = pc, .time = time, .pid = me->pid, .process = me->process,
        .strong = me->strong[me->slot], .weak = me->weak[me->slot],
        .heap = me->heap[me->slot],
        .slot = me->slot, .sync = sync, .size = size, .flags = flags,
    };

    note_locks(&x);
    for (at = address & ~7ull; at < address + size; at += 8) {
        uint32_t low = address > at ? address - at : 0;
        uint32_t high = address + size < at + 8 ? address + size - at : 8;

        if (at > address && !(at & 4095)) {
            physical = physical_of(info, at);
            if (physical == ~0ull) {
                return;
            }
            physical -= at - address;
        }
        x.mask = ((1 << high) - 1) & ~((1 << low) - 1);
        add_record(at, physical - address + at, &x);
    }
}

static void on_access(unsigned int vcpu, qemu_plugin_meminfo_t info,
                      uint64_t address, void *data)
{
    uint64_t packed = (uint64_t)(uintptr_t)data;
    bool locked = packed & LOCKED;
    Thread *me = current;
    uint64_t pc, physical;
    Page *page;
    uint32_t size;
    int64_t time;
    bool store, foreign, sync = false;
    uint8_t flags;

    if (!me || address >> 47) {
        return;
    }
    me->waiting = NULL;
    pc = packed & ((1ull << PC_BITS) - 1);
    foreign = is_foreign(pc);
    if (foreign && !locked && !special[(address & 4095) >> 2]) {
        return;
    }
    physical = translate(info, address, &page);
    if (physical == ~0ull) {
        return;
    }
    control->accesses++;
    size = 1u << qemu_plugin_mem_size_shift(info);
    store = qemu_plugin_mem_is_store(info);
    time = block_end - (int64_t)(packed << 1 >> (PC_BITS + 1));
    if (locked || special[(address & 4095) >> 2]) {
        sync = order(me, info, address, physical, size, pc, time, store, locked,
                     foreign && is_foreign(address));
    }
    if (foreign) {
        return;
    }
    if (!store) {
        me->load.address = address;
        me->load.time = time;
        if (!sync) {
            me->load.value = 0;
        }
    } else if (me->load.address == address && me->load.time == time) {
        if (cached_updates[pc % G_N_ELEMENTS(cached_updates)] != pc) {
            cached_updates[pc % G_N_ELEMENTS(cached_updates)] = pc;
            g_hash_table_add(updates, (void *)pc);
        }
    }
    flags = (store ? ACCESS_WRITE : 0) | (locked ? ACCESS_LOCKED : 0);
    if (page && (address & 7) + size <= 8 &&
        renew_record(page, address, pc, ((1 << size) - 1) << (address & 7),
                     flags, sync, time)) {
        return;
    }
    add_records(info, address, physical, pc, size, flags, sync, time);
}

/* --- translation */

/* A lock prefix, or an exchange with memory. */
static bool is_locked(struct qemu_plugin_insn *insn)
{
    uint8_t bytes[16];
    size_t count = qemu_plugin_insn_data(insn, bytes, sizeof(bytes)), i;
    bool lock = false;

    for (i = 0; i < count; i++) {
        switch (bytes[i]) {
        case 0xf0:
            lock = true;
            continue;
        case 0x26: case 0x2e: case 0x36: case 0x3e:
        case 0x64 ... 0x67: case 0xf2: case 0xf3: case 0x40 ... 0x4f:
            continue;
        }
        break;
    }
    return lock || (i + 1 < count && (bytes[i] | 1) == 0x87 &&
                    bytes[i + 1] >> 6 != 3);
}

/* invlpg, invpcid, or a move to a control register. */
static bool forgets_translations(struct qemu_plugin_insn *insn)
{
    uint8_t bytes[16] = { 0 };
    size_t count = qemu_plugin_insn_data(insn, bytes, sizeof(bytes)), i = 0;

    while (i < count && (bytes[i] == 0x66 || (bytes[i] & 0xf0) == 0x40)) {
        i++;
    }
    if (i + 2 >= count || bytes[i] != 0x0f) {
        return false;
    }
    return bytes[i + 1] == 0x22 ||
        (bytes[i + 1] == 0x01 && bytes[i + 2] >> 6 != 3 &&
         (bytes[i + 2] >> 3 & 7) == 7) ||
        (bytes[i + 1] == 0x38 && bytes[i + 2] == 0x82);
}

static void instrument_kernel(struct qemu_plugin_insn *insn, uint64_t pc,
                              size_t left)
{
    const struct {
        uint64_t function;
        void (*callback)(unsigned int vcpu, void *data);
    } hooks[] = {
        { control->wake, on_wake }, { control->wake_new, on_wake_new },
        { control->exit, on_exit_task }, { control->reap, on_reap },
        { control->clone, on_clone }, { control->futex, on_futex },
        { control->unmap, on_unmap },
    };
    uint32_t i;

    if (pc - control->switch_to < control->switch_to_size) {
        qemu_plugin_register_vcpu_mem_cb(insn, on_switch,
                                         QEMU_PLUGIN_CB_NO_REGS,
                                         QEMU_PLUGIN_MEM_W, NULL);
    }
    if (forgets_translations(insn)) {
        qemu_plugin_register_vcpu_insn_exec_cb(insn, forget_translations,
                                               QEMU_PLUGIN_CB_NO_REGS, NULL);
    }
    for (i = 0; i < G_N_ELEMENTS(hooks); i++) {
        if (pc == hooks[i].function) {
            qemu_plugin_register_vcpu_insn_exec_cb(insn, hooks[i].callback,
                                                   QEMU_PLUGIN_CB_R_REGS,
                                                   (void *)left);
        }
    }
    for (i = 0; i < CLEARS; i++) {
        if (control->clear[i] && pc == control->clear[i]) {
            qemu_plugin_register_vcpu_insn_exec_cb(insn, on_clear,
                                                   QEMU_PLUGIN_CB_R_REGS, NULL);
        }
    }
    for (i = 0; i < CHANNELS; i++) {
        Channel *channel = &control->channel[i];

        if (channel->function && pc == channel->function) {
            qemu_plugin_register_vcpu_insn_exec_cb(insn, on_message,
                                                   QEMU_PLUGIN_CB_R_REGS,
                                                   channel);
        }
    }
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    size_t count = qemu_plugin_tb_n_insns(tb);
    size_t i;

    if (!instrumented) {
        return;
    }
    if (!in_kernel(qemu_plugin_tb_vaddr(tb))) {
        qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block,
                                             QEMU_PLUGIN_CB_NO_REGS,
                                             (void *)(uintptr_t)count);
    }
    for (i = 0; i < count; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        uint64_t pc = qemu_plugin_insn_vaddr(insn);

        if (in_kernel(pc)) {
            instrument_kernel(insn, pc, count - i);
        } else {
            qemu_plugin_register_vcpu_mem_cb(
                insn, on_access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
                (void *)(uintptr_t)(pc | (uint64_t)(count - i) << PC_BITS |
                                    (is_locked(insn) ? LOCKED : 0)));
        }
    }
}

/* --- set-up */

static void on_start(void)
{
    uint64_t task = 0;
    uint32_t i;

    if (control->taken != control->generation) {
        control->taken = control->generation;
        g_hash_table_remove_all(processes);
        for (i = 0; i < control->processes; i++) {
            g_hash_table_add(processes,
                             GUINT_TO_POINTER(control->process[i]));
        }
        if (control->processes && !instrumented) {
            instrumented = true;
            rewind_retranslate();
        }
    }
    if (!rewind_read(control->current_task, &task, sizeof(task))) {
        task = 0;
    }
    forget_translations(0, NULL);
    set_task(task);
}

static void on_vcpu(qemu_plugin_id_t id, unsigned int vcpu)
{
    g_autoptr(GArray) all = qemu_plugin_get_registers();
    uint32_t i;

    for (i = 0; i < all->len; i++) {
        qemu_plugin_reg_descriptor *one =
            &g_array_index(all, qemu_plugin_reg_descriptor, i);

        if (!strcmp(one->name, "rdi")) {
            rdi = one->handle;
        } else if (!strcmp(one->name, "rsi")) {
            rsi = one->handle;
        }
    }
}

/* Whether @a and @b could have waited for one another. */
static bool can_meet(const Nesting *a, const Nesting *b)
{
    uint32_t i, k;

    if (a->slot == b->slot || a->atom != b->had || a->had != b->atom ||
        a->strong[a->slot] <= b->strong[a->slot] ||
        a->counter || b->counter || !a->released || !a->had_released ||
        !b->released || !b->had_released) {
        return false;
    }
    for (i = 0; i < NOTED && a->also[i]; i++) {
        for (k = 0; k < NOTED && b->also[k]; k++) {
            if (a->also[i] == b->also[k]) {
                return false;
            }
        }
    }
    return true;
}

static Side side_of_nesting(const Nesting *one)
{
    return (Side) {
        .time = one->time, .pc = one->pc, .pid = one->tgid, .tid = one->pid,
        .flags = ACCESS_WRITE | ACCESS_LOCKED,
    };
}

static void find_inverted(void)
{
    uint32_t i, k;

    for (i = 0; i < nested->len; i++) {
        const Nesting *b = g_ptr_array_index(nested, i);

        for (k = 0; k < nested->len && b->time >= control->since; k++) {
            const Nesting *a = g_ptr_array_index(nested, k);

            if (a->time >= b->time || !can_meet(a, b)) {
                continue;
            }
            if (control->pairs >= PAIRS) {
                control->lost_pairs++;
                return;
            }
            control->pair[control->pairs++] = (Pair) {
                .address = b->address, .other = b->had_address, .count = 1,
                .class = CLASS_INVERTED,
                .a = side_of_nesting(a), .b = side_of_nesting(b),
            };
        }
    }
}

/* That an instruction does both is known when it has done the second. */
static void on_end(qemu_plugin_id_t id, void *data)
{
    uint64_t i;

    find_inverted();

    for (i = 0; i < control->pairs; i++) {
        Side *side[] = { &control->pair[i].a, &control->pair[i].b };
        uint32_t k;

        for (k = 0; k < 2; k++) {
            if (g_hash_table_contains(updates,
                                      (void *)(uintptr_t)side[k]->pc)) {
                side[k]->flags |= ACCESS_UPDATE;
            }
        }
    }
}

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
    processes = g_hash_table_new(NULL, NULL);
    nestings = g_hash_table_new(NULL, NULL);
    nested = g_ptr_array_new_with_free_func(g_free);
    process_numbers = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    pages = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    atoms = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    messages = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    ended = g_hash_table_new(NULL, NULL);
    updates = g_hash_table_new(NULL, NULL);
    pairs = g_hash_table_new(NULL, NULL);
    qemu_plugin_register_vcpu_init_cb(id, on_vcpu);
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_atexit_cb(id, on_end, NULL);
    rewind_on_start(on_start);
    return 0;
}
