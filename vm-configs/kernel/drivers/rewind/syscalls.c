// SPDX-License-Identifier: GPL-2.0
/*
 * Which arguments of which system calls are strings, or data that goes in or
 * comes out. What is not here is recorded by its numbers alone.
 */
#include <linux/bits.h>
#include <linux/kernel.h>
#include <asm/unistd.h>

#include "rewind.h"

#define STRING(n)		.strings = BIT(n)
#define STRINGS(n, m)		.strings = BIT(n) | BIT(m)
#define IN(n, w)		.in = { { n, REWIND_##w } }
#define IN2(n, w, n2, w2)	.in = { { n, REWIND_##w }, { n2, REWIND_##w2 } }
#define OUT(n, w)		.out = { n, REWIND_##w }

static const struct rewind_call calls[] = {
	/* data */
	[__NR_read]		= { OUT(1, BUFFER) },
	[__NR_pread64]		= { OUT(1, BUFFER) },
	[__NR_readv]		= { OUT(1, VECTOR) },
	[__NR_preadv]		= { OUT(1, VECTOR) },
	[__NR_preadv2]		= { OUT(1, VECTOR) },
	[__NR_write]		= { IN(1, BUFFER) },
	[__NR_pwrite64]		= { IN(1, BUFFER) },
	[__NR_writev]		= { IN(1, VECTOR) },
	[__NR_pwritev]		= { IN(1, VECTOR) },
	[__NR_pwritev2]		= { IN(1, VECTOR) },
	[__NR_vmsplice]		= { IN(1, VECTOR) },
	[__NR_getrandom]	= { OUT(0, BUFFER) },
	[__NR_sethostname]	= { IN(0, BUFFER) },
	[__NR_setdomainname]	= { IN(0, BUFFER) },

	/* sockets */
	[__NR_connect]		= { IN(1, ADDRESS) },
	[__NR_bind]		= { IN(1, ADDRESS) },
	[__NR_sendto]		= { IN2(1, BUFFER, 4, ADDRESS) },
	[__NR_sendmsg]		= { IN(1, MESSAGE) },
	/* struct mmsghdr begins with its msghdr */
	[__NR_sendmmsg]		= { IN(1, MESSAGE) },
	[__NR_recvfrom]		= { OUT(1, BUFFER) },
	[__NR_recvmsg]		= { OUT(1, MESSAGE) },

	/* message queues */
	[__NR_mq_open]		= { STRING(0) },
	[__NR_mq_unlink]	= { STRING(0) },
	[__NR_mq_timedsend]	= { IN(1, BUFFER) },
	[__NR_mq_timedreceive]	= { OUT(1, BUFFER) },

	/* programs */
	[__NR_execve]		= { STRING(0) },
	[__NR_execveat]		= { STRING(1) },
	[__NR_uselib]		= { STRING(0) },

	/* files */
	[__NR_open]		= { STRING(0) },
	[__NR_openat]		= { STRING(1) },
	[__NR_openat2]		= { STRING(1) },
	[__NR_creat]		= { STRING(0) },
	[__NR_memfd_create]	= { STRING(0) },
	[__NR_name_to_handle_at] = { STRING(1) },
	[__NR_truncate]		= { STRING(0) },
	[__NR_access]		= { STRING(0) },
	[__NR_faccessat]	= { STRING(1) },
	[__NR_faccessat2]	= { STRING(1) },
	[__NR_stat]		= { STRING(0) },
	[__NR_lstat]		= { STRING(0) },
	[__NR_newfstatat]	= { STRING(1) },
	[__NR_statx]		= { STRING(1) },
	[__NR_statfs]		= { STRING(0) },
	[__NR_readlink]		= { STRING(0), OUT(1, TEXT) },
	[__NR_readlinkat]	= { STRING(1), OUT(2, TEXT) },
	[__NR_inotify_add_watch] = { STRING(1) },
	[__NR_fanotify_mark]	= { STRING(4) },

	/* directories */
	[__NR_getcwd]		= { OUT(0, TEXT) },
	[__NR_chdir]		= { STRING(0) },
	[__NR_chroot]		= { STRING(0) },
	[__NR_mkdir]		= { STRING(0) },
	[__NR_mkdirat]		= { STRING(1) },
	[__NR_mknod]		= { STRING(0) },
	[__NR_mknodat]		= { STRING(1) },
	[__NR_rmdir]		= { STRING(0) },
	[__NR_unlink]		= { STRING(0) },
	[__NR_unlinkat]		= { STRING(1) },
	[__NR_link]		= { STRINGS(0, 1) },
	[__NR_linkat]		= { STRINGS(1, 3) },
	[__NR_symlink]		= { STRINGS(0, 1) },
	[__NR_symlinkat]	= { STRINGS(0, 2) },
	[__NR_rename]		= { STRINGS(0, 1) },
	[__NR_renameat]		= { STRINGS(1, 3) },
	[__NR_renameat2]	= { STRINGS(1, 3) },

	/* attributes */
	[__NR_chmod]		= { STRING(0) },
	[__NR_fchmodat]		= { STRING(1) },
	[__NR_fchmodat2]	= { STRING(1) },
	[__NR_chown]		= { STRING(0) },
	[__NR_lchown]		= { STRING(0) },
	[__NR_fchownat]		= { STRING(1) },
	[__NR_utime]		= { STRING(0) },
	[__NR_utimes]		= { STRING(0) },
	[__NR_futimesat]	= { STRING(1) },
	[__NR_utimensat]	= { STRING(1) },
	[__NR_setxattr]		= { STRINGS(0, 1), IN(2, BUFFER) },
	[__NR_lsetxattr]	= { STRINGS(0, 1), IN(2, BUFFER) },
	[__NR_fsetxattr]	= { STRING(1), IN(2, BUFFER) },
	[__NR_getxattr]		= { STRINGS(0, 1), OUT(2, BUFFER) },
	[__NR_lgetxattr]	= { STRINGS(0, 1), OUT(2, BUFFER) },
	[__NR_fgetxattr]	= { STRING(1), OUT(2, BUFFER) },
	[__NR_listxattr]	= { STRING(0), OUT(1, BUFFER) },
	[__NR_llistxattr]	= { STRING(0), OUT(1, BUFFER) },
	[__NR_flistxattr]	= { OUT(1, BUFFER) },
	[__NR_removexattr]	= { STRINGS(0, 1) },
	[__NR_lremovexattr]	= { STRINGS(0, 1) },
	[__NR_fremovexattr]	= { STRING(1) },

	/* mounts and the rest of the system */
	[__NR_mount]		= { .strings = BIT(0) | BIT(1) | BIT(2) },
	[__NR_umount2]		= { STRING(0) },
	[__NR_pivot_root]	= { STRINGS(0, 1) },
	[__NR_open_tree]	= { STRING(1) },
	[__NR_move_mount]	= { STRINGS(1, 3) },
	[__NR_fsopen]		= { STRING(0) },
	[__NR_fspick]		= { STRING(1) },
	[__NR_mount_setattr]	= { STRING(1) },
	[__NR_quotactl]		= { STRING(1) },
	[__NR_swapon]		= { STRING(0) },
	[__NR_swapoff]		= { STRING(0) },
	[__NR_acct]		= { STRING(0) },
	[__NR_add_key]		= { STRINGS(0, 1), IN(2, BUFFER) },
	[__NR_request_key]	= { .strings = BIT(0) | BIT(1) | BIT(2) },
};

/**
 * rewind_call - What the arguments of a system call point to
 * @nr: The system call's number
 *
 * Return: what is known of the call; of most, nothing
 */
const struct rewind_call *rewind_call(unsigned long nr)
{
	static const struct rewind_call nothing;

	return nr < ARRAY_SIZE(calls) ? &calls[nr] : &nothing;
}
