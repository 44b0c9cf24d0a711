/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the parts of the driver share. docs/design.md has the protocol of the
 * device and the layout of a record.
 */
#ifndef REWIND_H
#define REWIND_H

#include <linux/io.h>
#include <linux/irqflags.h>
#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/sched.h>
#include <linux/types.h>

#define REWIND_PORT	0x5e0

/* registers, as offsets from the port: written ... */
#define REWIND_RECORD	0
#define REWIND_AREA	4
#define REWIND_COMMAND	8
#define REWIND_SEND	12
#define REWIND_FETCH	16
#define REWIND_TAKE	20
/* ... and read */
#define REWIND_MAGIC	0
#define REWIND_PERTURB	4
#define REWIND_NS_LOW	8
#define REWIND_NS_HIGH	12
#define REWIND_FETCHED	16
#define REWIND_WAIT	20

#define REWIND_MAGIC_VALUE	0x52575744

#define REWIND_COMMAND_READY	1
#define REWIND_COMMAND_ATTACH	2
#define REWIND_COMMAND_START	3
#define REWIND_COMMAND_FINISHED	4
#define REWIND_COMMAND_STALLED	5

/* the area the device reads and fills: a record, then a bulk buffer */
#define REWIND_BUFFER_SIZE	0x10000

enum rewind_type {
	REWIND_ENTER = 2,
	REWIND_EXIT,
	REWIND_SWITCH,
	REWIND_FORK,
	REWIND_EXEC,
	REWIND_TASK_END,
	REWIND_DELIVERED,
	REWIND_SENT,
	REWIND_PERTURBATION,
	REWIND_WAKE,
};

struct rewind_record {
	u16 size;	/* with this header */
	u8 type;
	u8 flags;
	u32 pid;
	u32 tid;
	u32 aux;
	u8 payload[];
};

/* a task as the job's PID namespace shows it; all 0 is everything else */
struct rewind_ids {
	u32 pid;
	u32 tid;
};

static inline u32 rewind_read(int reg)
{
	return inl(REWIND_PORT + reg);
}

static inline void rewind_write(int reg, u32 value)
{
	outl(value, REWIND_PORT + reg);
}

static inline bool rewind_present(void)
{
	return rewind_read(REWIND_MAGIC) == REWIND_MAGIC_VALUE;
}

/* core.c */

extern void *rewind_area;

/* held over a use of the bulk buffer: copies to and from user memory may sleep */
extern struct mutex rewind_bulk_lock;

static inline void *rewind_bulk(void)
{
	return rewind_area + REWIND_BUFFER_SIZE;
}

/*
 * A record is written where the device reads it. Interrupts are off from begin
 * to commit: an interrupt may report a signal or a wake-up. What is done in
 * between reports nothing itself: user memory is read without handling faults.
 */
static inline struct rewind_record *
rewind_begin(enum rewind_type type, u8 flags, struct rewind_ids ids, u32 aux)
{
	struct rewind_record *rec = rewind_area;

	lockdep_assert_irqs_disabled();
	rec->type = type;
	rec->flags = flags;
	rec->pid = ids.pid;
	rec->tid = ids.tid;
	rec->aux = aux;
	return rec;
}

static inline void rewind_commit(struct rewind_record *rec, const void *end)
{
	u32 size = (const u8 *)end - (const u8 *)rec;

	rec->size = size;
	rewind_write(REWIND_RECORD, size);
}

/* trace.c */

/* the running task, kept at each switch; see trace.c */
extern struct rewind_ids rewind_current;

int rewind_trace_prepare(void);
void rewind_trace_start(void);
bool rewind_of_job(struct task_struct *task);

/* cpus.c */

int rewind_set_cores(unsigned long cores);
void rewind_cpus_start(void);
void rewind_cpus_exit(struct pt_regs *regs, long ret);

/* idle.c */

int rewind_idle_prepare(void);
void rewind_idle_start(void);

/* perturb.c */

void rewind_perturb_init(void);
bool rewind_perturb_idle(void);

/* shell.c */

void rewind_shell_start(void);
void rewind_shell_input(void);
bool rewind_shell_idle(bool stalled);
void rewind_shell_end(void);
void rewind_shell_terminal(void);
ssize_t rewind_shell_read(struct file *file, char __user *buf, size_t count);
__poll_t rewind_shell_poll(struct file *file, poll_table *wait);

/* syscalls.c */

/* kinds of a detail */
#define REWIND_STRING	1
#define REWIND_DATA	2
#define REWIND_LIST	3
#define REWIND_LONGER	0x80

enum rewind_data {
	REWIND_NO_DATA,
	REWIND_BUFFER,	/* a buffer; going in, its length is the next argument */
	REWIND_ADDRESS,	/* a socket address, length likewise */
	REWIND_TEXT,	/* a string that does not end in a NUL */
	REWIND_VECTOR,	/* struct iovec: its first */
	REWIND_MESSAGE,	/* struct msghdr: its first iovec */
};

/* what an argument of a system call that is worth a detail points to */
struct rewind_call {
	u8 strings;			/* bit N: argument N is a string */
	struct {
		u8 argument;
		u8 what;		/* enum rewind_data */
	} in[2], out;
};

const struct rewind_call *rewind_call(unsigned long nr);

#endif
