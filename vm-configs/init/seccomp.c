// SPDX-License-Identifier: MIT
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "fail.h"
#include "seccomp.h"

#ifndef __NR_fchmodat2 /* of Linux 6.6, younger than some headers */
#define __NR_fchmodat2 452
#endif

/* The lower half of an argument: modes have no more. */
#define ARGUMENT(n) (offsetof(struct seccomp_data, args) + 8 * (n))

#define LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset)
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)
/* At place `at`: go to `to` if the value loaded compares so, else go on. */
#define IF(at, how, value, to) \
	[at] = BPF_JUMP(BPF_JMP | (how) | BPF_K, value, (to) - (at) - 1, 0)

/*
 * Places in the filter. It looks at the number alone before it lets a call
 * pass: so the kernel can work out beforehand which calls always pass
 * (SECCOMP_CACHE), and runs the filter for none of those.
 */
enum {
	LOAD_ARCH,
	IS_64,
	OTHER,
	LOAD_NUMBER,
	ABOVE_XATTR,
	XATTR,
	CHMOD,
	FCHMOD,
	FCHMODAT,
	FCHMODAT2,
	PASS,
	MODE_IS_SECOND,
	TEST_SECOND,
	PASS_SECOND,
	MODE_IS_THIRD,
	TEST_THIRD,
	PASS_THIRD,
	NOT_PERMITTED,
	NOT_SUPPORTED,
	LENGTH,
};

void seccomp_as_nix(void)
{
	static struct sock_filter filter[LENGTH] = {
		/* The machine's kernel has no 32-bit calls, whose numbers would be others. */
		[LOAD_ARCH] = LOAD(offsetof(struct seccomp_data, arch)),
		IF(IS_64, BPF_JEQ, AUDIT_ARCH_X86_64, LOAD_NUMBER),
		[OTHER] = RETURN(SECCOMP_RET_KILL_PROCESS),

		[LOAD_NUMBER] = LOAD(offsetof(struct seccomp_data, nr)),
		/* The three setxattr and the three getxattr follow one another. */
		IF(ABOVE_XATTR, BPF_JGT, __NR_fgetxattr, CHMOD),
		IF(XATTR, BPF_JGE, __NR_setxattr, NOT_SUPPORTED),
		IF(CHMOD, BPF_JEQ, __NR_chmod, MODE_IS_SECOND),
		IF(FCHMOD, BPF_JEQ, __NR_fchmod, MODE_IS_SECOND),
		IF(FCHMODAT, BPF_JEQ, __NR_fchmodat, MODE_IS_THIRD),
		IF(FCHMODAT2, BPF_JEQ, __NR_fchmodat2, MODE_IS_THIRD),
		[PASS] = RETURN(SECCOMP_RET_ALLOW),

		[MODE_IS_SECOND] = LOAD(ARGUMENT(1)),
		IF(TEST_SECOND, BPF_JSET, S_ISUID | S_ISGID, NOT_PERMITTED),
		[PASS_SECOND] = RETURN(SECCOMP_RET_ALLOW),
		[MODE_IS_THIRD] = LOAD(ARGUMENT(2)),
		IF(TEST_THIRD, BPF_JSET, S_ISUID | S_ISGID, NOT_PERMITTED),
		[PASS_THIRD] = RETURN(SECCOMP_RET_ALLOW),
		[NOT_PERMITTED] = RETURN(SECCOMP_RET_ERRNO | EPERM),
		[NOT_SUPPORTED] = RETURN(SECCOMP_RET_ERRNO | ENOTSUP),
	};
	struct sock_fprog program = { .len = LENGTH, .filter = filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		fail_errno("sandbox: seccomp");
}
