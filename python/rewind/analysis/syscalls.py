"""The system calls of Linux on x86_64: numbers, names and what their arguments are.

Source: the kernel's public ABI, arch/x86/entry/syscalls/syscall_64.tbl for the numbers, the
SYSCALL_DEFINE of each call for its arguments, include/uapi for the flags. Nothing here depends
on a version: the numbers of calls never change.
"""

from collections.abc import Mapping

CALLS = """
0 read fd ptr size
1 write fd data size
2 open path open cmode
3 close fd
4 stat path ptr
5 fstat fd ptr
6 lstat path ptr
7 poll ptr uint int
8 lseek fd long whence
9 mmap ptr size prot map fd hex = hex
10 mprotect ptr size prot
11 munmap ptr size
12 brk ptr = hex
13 rt_sigaction signal ptr ptr size
14 rt_sigprocmask sigmask ptr ptr size
15 rt_sigreturn
16 ioctl fd ioctl hex
17 pread64 fd ptr size long
18 pwrite64 fd data size long
19 readv fd ptr int
20 writev fd data int
21 access path access
22 pipe ptr
23 select int ptr ptr ptr ptr
24 sched_yield
25 mremap ptr size size mremap ptr = hex
26 msync ptr size msync
27 mincore ptr size ptr
28 madvise ptr size madvise
29 shmget hex size ipc
30 shmat int ptr hex = hex
31 shmctl int int ptr
32 dup fd
33 dup2 fd fd
34 pause
35 nanosleep ptr ptr
36 getitimer itimer ptr
37 alarm uint
38 setitimer itimer ptr ptr
39 getpid
40 sendfile fd fd ptr size
41 socket domain socket int
42 connect fd address uint
43 accept fd ptr ptr
44 sendto fd data size msg address uint
45 recvfrom fd ptr size msg ptr ptr
46 sendmsg fd data msg
47 recvmsg fd ptr msg
48 shutdown fd shutdown
49 bind fd address uint
50 listen fd int
51 getsockname fd ptr ptr
52 getpeername fd ptr ptr
53 socketpair domain socket int ptr
54 setsockopt fd int int ptr uint
55 getsockopt fd int int ptr ptr
56 clone clone ptr ptr ptr hex
57 fork
58 vfork
59 execve path argv ptr
60 exit int
61 wait4 pid ptr wait ptr
62 kill pid signal
63 uname ptr
64 semget hex int ipc
65 semop int ptr size
66 semctl int int int hex
67 shmdt ptr
68 msgget hex ipc
69 msgsnd int ptr size ipc
70 msgrcv int ptr size long ipc
71 msgctl int int ptr
72 fcntl fd fcntl hex
73 flock fd flock
74 fsync fd
75 fdatasync fd
76 truncate path long
77 ftruncate fd long
78 getdents fd ptr uint
79 getcwd ptr size
80 chdir path
81 fchdir fd
82 rename path path
83 mkdir path mode
84 rmdir path
85 creat path mode
86 link path path
87 unlink path
88 symlink path path
89 readlink path ptr size
90 chmod path mode
91 fchmod fd mode
92 chown path id id
93 fchown fd id id
94 lchown path id id
95 umask mode
96 gettimeofday ptr ptr
97 getrlimit rlimit ptr
98 getrusage int ptr
99 sysinfo ptr
100 times ptr
101 ptrace ptrace pid hex hex
102 getuid
103 syslog int ptr int
104 getgid
105 setuid id
106 setgid id
107 geteuid
108 getegid
109 setpgid pid pid
110 getppid
111 getpgrp
112 setsid
113 setreuid id id
114 setregid id id
115 getgroups int ptr
116 setgroups int ptr
117 setresuid id id id
118 getresuid ptr ptr ptr
119 setresgid id id id
120 getresgid ptr ptr ptr
121 getpgid pid
122 setfsuid id
123 setfsgid id
124 getsid pid
125 capget ptr ptr
126 capset ptr ptr
127 rt_sigpending ptr size
128 rt_sigtimedwait ptr ptr ptr size
129 rt_sigqueueinfo pid signal ptr
130 rt_sigsuspend ptr size
131 sigaltstack ptr ptr
132 utime path ptr
133 mknod path mode hex
134 uselib path
135 personality hex
136 ustat hex ptr
137 statfs path ptr
138 fstatfs fd ptr
139 sysfs int hex hex
140 getpriority int int
141 setpriority int int int
142 sched_setparam pid ptr
143 sched_getparam pid ptr
144 sched_setscheduler pid int ptr
145 sched_getscheduler pid
146 sched_get_priority_max int
147 sched_get_priority_min int
148 sched_rr_get_interval pid ptr
149 mlock ptr size
150 munlock ptr size
151 mlockall int
152 munlockall
153 vhangup
154 modify_ldt int ptr size
155 pivot_root path path
156 _sysctl ptr
157 prctl prctl hex hex hex hex
158 arch_prctl arch_prctl hex
159 adjtimex ptr
160 setrlimit rlimit ptr
161 chroot path
162 sync
163 acct path
164 settimeofday ptr ptr
165 mount path path path hex ptr
166 umount2 path int
167 swapon path int
168 swapoff path
169 reboot hex hex hex ptr
170 sethostname ptr int
171 setdomainname ptr int
172 iopl int
173 ioperm size size int
174 create_module path size
175 init_module ptr size path
176 delete_module path open
177 get_kernel_syms ptr
178 query_module path int ptr size ptr
179 quotactl hex path int ptr
180 nfsservctl int ptr ptr
181 getpmsg
182 putpmsg
183 afs_syscall
184 tuxcall
185 security
186 gettid
187 readahead fd long size
188 setxattr path path data size int
189 lsetxattr path path data size int
190 fsetxattr fd path data size int
191 getxattr path path ptr size
192 lgetxattr path path ptr size
193 fgetxattr fd path ptr size
194 listxattr path ptr size
195 llistxattr path ptr size
196 flistxattr fd ptr size
197 removexattr path path
198 lremovexattr path path
199 fremovexattr fd path
200 tkill pid signal
201 time ptr
202 futex ptr futex uint hex ptr hex
203 sched_setaffinity pid uint ptr
204 sched_getaffinity pid uint ptr
205 set_thread_area ptr
206 io_setup uint ptr
207 io_destroy hex
208 io_getevents hex long long ptr ptr
209 io_submit hex long ptr
210 io_cancel hex ptr ptr
211 get_thread_area ptr
212 lookup_dcookie size ptr size
213 epoll_create int
214 epoll_ctl_old
215 epoll_wait_old
216 remap_file_pages ptr size prot size map
217 getdents64 fd ptr uint
218 set_tid_address ptr
219 restart_syscall
220 semtimedop int ptr uint ptr
221 fadvise64 fd long size int
222 timer_create clock ptr ptr
223 timer_settime int int ptr ptr
224 timer_gettime int ptr
225 timer_getoverrun int
226 timer_delete int
227 clock_settime clock ptr
228 clock_gettime clock ptr
229 clock_getres clock ptr
230 clock_nanosleep clock timer ptr ptr
231 exit_group int
232 epoll_wait fd ptr int int
233 epoll_ctl fd epoll fd ptr
234 tgkill pid pid signal
235 utimes path ptr
236 vserver
237 mbind ptr size int ptr size uint
238 set_mempolicy int ptr size
239 get_mempolicy ptr ptr size ptr hex
240 mq_open path open mode ptr
241 mq_unlink path
242 mq_timedsend fd data size uint ptr
243 mq_timedreceive fd ptr size ptr ptr
244 mq_notify fd ptr
245 mq_getsetattr fd ptr ptr
246 kexec_load size size ptr hex
247 waitid idtype pid ptr wait ptr
248 add_key path path ptr size int
249 request_key path path path int
250 keyctl int hex hex hex hex
251 ioprio_set int int int
252 ioprio_get int int
253 inotify_init
254 inotify_add_watch fd path hex
255 inotify_rm_watch fd int
256 migrate_pages pid size ptr ptr
257 openat dirfd path open cmode
258 mkdirat dirfd path mode
259 mknodat dirfd path mode hex
260 fchownat dirfd path id id at
261 futimesat dirfd path ptr
262 newfstatat dirfd path ptr at
263 unlinkat dirfd path at
264 renameat dirfd path dirfd path
265 linkat dirfd path dirfd path at
266 symlinkat path dirfd path
267 readlinkat dirfd path ptr size
268 fchmodat dirfd path mode
269 faccessat dirfd path access
270 pselect6 int ptr ptr ptr ptr ptr
271 ppoll ptr uint ptr ptr size
272 unshare clone
273 set_robust_list ptr size
274 get_robust_list pid ptr ptr
275 splice fd ptr fd ptr size splice
276 tee fd fd size splice
277 sync_file_range fd long long uint
278 vmsplice fd data int splice
279 move_pages pid size ptr ptr ptr int
280 utimensat dirfd path ptr at
281 epoll_pwait fd ptr int int ptr size
282 signalfd fd ptr size
283 timerfd_create clock fdflags
284 eventfd uint
285 fallocate fd int long long
286 timerfd_settime fd timer ptr ptr
287 timerfd_gettime fd ptr
288 accept4 fd ptr ptr socket
289 signalfd4 fd ptr size fdflags
290 eventfd2 uint fdflags
291 epoll_create1 fdflags
292 dup3 fd fd fdflags
293 pipe2 ptr fdflags
294 inotify_init1 fdflags
295 preadv fd ptr int size size
296 pwritev fd data int size size
297 rt_tgsigqueueinfo pid pid signal ptr
298 perf_event_open ptr pid int fd hex
299 recvmmsg fd ptr uint msg ptr
300 fanotify_init hex hex
301 fanotify_mark fd hex hex dirfd path
302 prlimit64 pid rlimit ptr ptr
303 name_to_handle_at dirfd path ptr ptr at
304 open_by_handle_at fd ptr open
305 clock_adjtime clock ptr
306 syncfs fd
307 sendmmsg fd data uint msg
308 setns fd clone
309 getcpu ptr ptr ptr
310 process_vm_readv pid ptr size ptr size size
311 process_vm_writev pid ptr size ptr size size
312 kcmp pid pid int size size
313 finit_module fd path int
314 sched_setattr pid ptr uint
315 sched_getattr pid ptr uint uint
316 renameat2 dirfd path dirfd path rename
317 seccomp int hex ptr
318 getrandom ptr size random
319 memfd_create path memfd
320 kexec_file_load fd fd size ptr hex
321 bpf int ptr uint
322 execveat dirfd path argv ptr at
323 userfaultfd hex
324 membarrier int hex int
325 mlock2 ptr size int
326 copy_file_range fd ptr fd ptr size hex
327 preadv2 fd ptr int size size hex
328 pwritev2 fd data int size size hex
329 pkey_mprotect ptr size prot int
330 pkey_alloc hex hex
331 pkey_free int
332 statx dirfd path at hex ptr
333 io_pgetevents hex long long ptr ptr ptr
334 rseq ptr uint int hex
424 pidfd_send_signal fd signal ptr hex
425 io_uring_setup uint ptr
426 io_uring_enter fd uint uint hex ptr size
427 io_uring_register fd uint ptr uint
428 open_tree dirfd path hex
429 move_mount dirfd path dirfd path hex
430 fsopen path hex
431 fsconfig fd uint path ptr int
432 fsmount fd hex hex
433 fspick dirfd path hex
434 pidfd_open pid hex
435 clone3 ptr size
436 close_range uint uint hex
437 openat2 dirfd path ptr size
438 pidfd_getfd fd fd hex
439 faccessat2 dirfd path access at
440 process_madvise fd ptr size madvise hex
441 epoll_pwait2 fd ptr int ptr ptr size
442 mount_setattr dirfd path hex ptr size
443 quotactl_fd fd hex int ptr
444 landlock_create_ruleset ptr size hex
445 landlock_add_rule fd int ptr hex
446 landlock_restrict_self fd hex
447 memfd_secret hex
448 process_mrelease fd hex
449 futex_waitv ptr uint hex ptr clock
450 set_mempolicy_home_node ptr size size hex
451 cachestat fd ptr ptr hex
452 fchmodat2 dirfd path mode at
453 map_shadow_stack ptr size hex = hex
454 futex_wake ptr hex int hex
455 futex_wait ptr hex hex hex ptr clock
456 futex_requeue ptr hex int int
457 statmount ptr ptr size hex
458 listmount ptr ptr size hex
459 lsm_get_self_attr uint ptr ptr hex
460 lsm_set_self_attr uint ptr uint hex
461 lsm_list_modules ptr ptr hex
462 mseal ptr size hex
"""
"""A call a line: number, name, what each argument is, and after ``=`` what it returns.

An argument is one of `KINDS`, or a name in `FLAGS` or `VALUES`. In `render.py`, the size after
``data`` is left out if the trace has all of the data, and ``cmode`` if no file can be made.
"""

KINDS: Mapping[str, str] = {
    "fd": "i",
    "dirfd": "i",
    "int": "i",
    "pid": "i",
    "id": "i",
    "uint": "I",
    "long": "q",
    "size": "Q",
    "hex": "Q",
    "ptr": "Q",
    "path": "Q",
    "data": "Q",
    "argv": "Q",
    "address": "Q",
    "mode": "I",
    "cmode": "I",
    "signal": "i",
}
"""How the register is to be read, as a struct format; flags and values are 32 bits."""


def _bits(text: str, prefix: str = "") -> dict[int, str]:
    """``NAME=VALUE …`` as a table from value to name; values are octal, hex or decimal."""
    table = {}
    for entry in text.split():
        name, _, value = entry.partition("=")
        table[int(value, 0)] = prefix + name
    return table


def _row(text: str, prefix: str = "", first: int = 0) -> dict[int, str]:
    """Names that count up from *first*."""
    return {number: prefix + name for number, name in enumerate(text.split(), first)}


_CLONE = _bits(
    """NEWTIME=0x80 VM=0x100 FS=0x200 FILES=0x400 SIGHAND=0x800 PIDFD=0x1000 PTRACE=0x2000
    VFORK=0x4000 PARENT=0x8000 THREAD=0x10000 NEWNS=0x20000 SYSVSEM=0x40000 SETTLS=0x80000
    PARENT_SETTID=0x100000 CHILD_CLEARTID=0x200000 DETACHED=0x400000 UNTRACED=0x800000
    CHILD_SETTID=0x1000000 NEWCGROUP=0x2000000 NEWUTS=0x4000000 NEWIPC=0x8000000
    NEWUSER=0x10000000 NEWPID=0x20000000 NEWNET=0x40000000 IO=0x80000000""",
    "CLONE_",
)

FLAGS: Mapping[str, tuple[dict[int, str], dict[int, str], int]] = {
    # name: (single bits, the values of the bits in the mask, mask)
    "open": (
        _bits(
            """CREAT=0o100 EXCL=0o200 NOCTTY=0o400 TRUNC=0o1000 APPEND=0o2000 NONBLOCK=0o4000
            DSYNC=0o10000 ASYNC=0o20000 DIRECT=0o40000 LARGEFILE=0o100000 DIRECTORY=0o200000
            NOFOLLOW=0o400000 NOATIME=0o1000000 CLOEXEC=0o2000000 PATH=0o10000000""",
            "O_",
        ),
        _row("RDONLY WRONLY RDWR ACCMODE", "O_"),
        3,
    ),
    "prot": (_bits("READ=1 WRITE=2 EXEC=4", "PROT_"), {}, 0),
    "map": (
        _bits(
            """FIXED=0x10 ANONYMOUS=0x20 32BIT=0x40 GROWSDOWN=0x100 DENYWRITE=0x800 LOCKED=0x2000
            NORESERVE=0x4000 POPULATE=0x8000 NONBLOCK=0x10000 STACK=0x20000 HUGETLB=0x40000
            SYNC=0x80000 FIXED_NOREPLACE=0x100000""",
            "MAP_",
        ),
        _row("SHARED PRIVATE SHARED_VALIDATE", "MAP_", 1),
        0xF,
    ),
    "mremap": (_bits("MAYMOVE=1 FIXED=2 DONTUNMAP=4", "MREMAP_"), {}, 0),
    "msync": (_bits("ASYNC=1 INVALIDATE=2 SYNC=4", "MS_"), {}, 0),
    "access": (_bits("X_OK=1 W_OK=2 R_OK=4"), {}, 0),
    "at": (
        _bits(
            """SYMLINK_NOFOLLOW=0x100 REMOVEDIR=0x200 SYMLINK_FOLLOW=0x400 NO_AUTOMOUNT=0x800
            EMPTY_PATH=0x1000 STATX_FORCE_SYNC=0x2000 STATX_DONT_SYNC=0x4000""",
            "AT_",
        ),
        {},
        0,
    ),
    "clone": (_CLONE, {}, 0xFF),
    "wait": (
        _bits(
            """WNOHANG=1 WUNTRACED=2 WEXITED=4 WCONTINUED=8 WNOWAIT=0x1000000 __WNOTHREAD=0x20000000
            __WALL=0x40000000 __WCLONE=0x80000000"""
        ),
        {},
        0,
    ),
    "socket": (
        _bits("NONBLOCK=0o4000 CLOEXEC=0o2000000", "SOCK_"),
        _row("STREAM DGRAM RAW RDM SEQPACKET DCCP", "SOCK_", 1),
        0xF,
    ),
    "msg": (
        _bits(
            """OOB=1 PEEK=2 DONTROUTE=4 CTRUNC=8 TRUNC=0x20 DONTWAIT=0x40 EOR=0x80 WAITALL=0x100
            CONFIRM=0x800 ERRQUEUE=0x2000 NOSIGNAL=0x4000 MORE=0x8000 WAITFORONE=0x10000
            ZEROCOPY=0x4000000 FASTOPEN=0x20000000 CMSG_CLOEXEC=0x40000000""",
            "MSG_",
        ),
        {},
        0,
    ),
    "fdflags": (_bits("NONBLOCK=0o4000 DIRECT=0o40000 CLOEXEC=0o2000000", "O_"), {}, 0),
    "ipc": (_bits("CREAT=0o1000 EXCL=0o2000 NOWAIT=0o4000", "IPC_"), {}, 0o777),
    "flock": (_bits("LOCK_SH=1 LOCK_EX=2 LOCK_NB=4 LOCK_UN=8"), {}, 0),
    "splice": (_bits("MOVE=1 NONBLOCK=2 MORE=4 GIFT=8", "SPLICE_F_"), {}, 0),
    "rename": (_bits("NOREPLACE=1 EXCHANGE=2 WHITEOUT=4", "RENAME_"), {}, 0),
    "random": (_bits("NONBLOCK=1 RANDOM=2 INSECURE=4", "GRND_"), {}, 0),
    "memfd": (
        _bits("CLOEXEC=1 ALLOW_SEALING=2 HUGETLB=4 NOEXEC_SEAL=8 EXEC=0x10", "MFD_"),
        {},
        0,
    ),
    "timer": (_bits("TIMER_ABSTIME=1 TIMER_CANCEL_ON_SET=2"), {}, 0),
    "futex": (
        _bits("PRIVATE=0x80 CLOCK_REALTIME=0x100"),
        _row(
            """WAIT WAKE FD REQUEUE CMP_REQUEUE WAKE_OP LOCK_PI UNLOCK_PI TRYLOCK_PI WAIT_BITSET
            WAKE_BITSET WAIT_REQUEUE_PI CMP_REQUEUE_PI LOCK_PI2""",
            "FUTEX_",
        ),
        0x7F,
    ),
}

VALUES: Mapping[str, dict[int, str]] = {
    "whence": _row("SEEK_SET SEEK_CUR SEEK_END SEEK_DATA SEEK_HOLE"),
    "sigmask": _row("SIG_BLOCK SIG_UNBLOCK SIG_SETMASK"),
    "itimer": _row("ITIMER_REAL ITIMER_VIRTUAL ITIMER_PROF"),
    "clock": _row(
        """REALTIME MONOTONIC PROCESS_CPUTIME_ID THREAD_CPUTIME_ID MONOTONIC_RAW REALTIME_COARSE
        MONOTONIC_COARSE BOOTTIME REALTIME_ALARM BOOTTIME_ALARM SGI_CYCLE TAI""",
        "CLOCK_",
    ),
    "domain": _row("AF_UNSPEC AF_UNIX AF_INET")
    | {10: "AF_INET6", 16: "AF_NETLINK", 17: "AF_PACKET"},
    "shutdown": _row("SHUT_RD SHUT_WR SHUT_RDWR"),
    "idtype": _row("P_ALL P_PID P_PGID P_PIDFD"),
    "epoll": _row("ADD DEL MOD", "EPOLL_CTL_", 1),
    "madvise": _row("NORMAL RANDOM SEQUENTIAL WILLNEED DONTNEED", "MADV_")
    | _row(
        """FREE REMOVE DONTFORK DOFORK MERGEABLE UNMERGEABLE HUGEPAGE NOHUGEPAGE DONTDUMP DODUMP
        WIPEONFORK KEEPONFORK COLD PAGEOUT POPULATE_READ POPULATE_WRITE DONTNEED_LOCKED COLLAPSE""",
        "MADV_",
        8,
    ),
    "fcntl": _row(
        """F_DUPFD F_GETFD F_SETFD F_GETFL F_SETFL F_GETLK F_SETLK F_SETLKW F_SETOWN F_GETOWN
        F_SETSIG F_GETSIG"""
    )
    | _row("F_OFD_GETLK F_OFD_SETLK F_OFD_SETLKW", first=36)
    | {1024: "F_SETLEASE", 1025: "F_GETLEASE", 1026: "F_NOTIFY", 1030: "F_DUPFD_CLOEXEC"}
    | {1031: "F_SETPIPE_SZ", 1032: "F_GETPIPE_SZ", 1033: "F_ADD_SEALS", 1034: "F_GET_SEALS"},
    "ioctl": _bits(
        """TCGETS=0x5401 TCSETS=0x5402 TCSETSW=0x5403 TCSETSF=0x5404 TIOCSCTTY=0x540e
        TIOCGPGRP=0x540f TIOCSPGRP=0x5410 TIOCOUTQ=0x5411 TIOCGWINSZ=0x5413 TIOCSWINSZ=0x5414
        FIONREAD=0x541b FIONBIO=0x5421 TIOCNOTTY=0x5422 FIONCLEX=0x5450 FIOCLEX=0x5451
        FIOASYNC=0x5452 TIOCGPTN=0x80045430 TIOCSPTLCK=0x40045431 TCGETS2=0x802c542a
        TCSETS2=0x402c542b TCSETSW2=0x402c542c TCSETSF2=0x402c542d FICLONE=0x40049409
        FS_IOC_GETFLAGS=0x80086601 FS_IOC_SETFLAGS=0x40086602"""
    ),
    "rlimit": _row(
        """CPU FSIZE DATA STACK CORE RSS NPROC NOFILE MEMLOCK AS LOCKS SIGPENDING MSGQUEUE NICE
        RTPRIO RTTIME""",
        "RLIMIT_",
    ),
    "prctl": _bits(
        """SET_PDEATHSIG=1 GET_PDEATHSIG=2 GET_DUMPABLE=3 SET_DUMPABLE=4 GET_KEEPCAPS=7
        SET_KEEPCAPS=8 SET_NAME=15 GET_NAME=16 GET_SECCOMP=21 SET_SECCOMP=22 CAPBSET_READ=23
        CAPBSET_DROP=24 GET_TSC=25 SET_TSC=26 GET_SECUREBITS=27 SET_SECUREBITS=28
        SET_TIMERSLACK=29 GET_TIMERSLACK=30 SET_MM=35 SET_CHILD_SUBREAPER=36
        GET_CHILD_SUBREAPER=37 SET_NO_NEW_PRIVS=38 GET_NO_NEW_PRIVS=39 SET_THP_DISABLE=41
        GET_THP_DISABLE=42 CAP_AMBIENT=47 SET_VMA=0x53564d41 SET_PTRACER=0x59616d61""",
        "PR_",
    ),
    "arch_prctl": _bits(
        """SET_GS=0x1001 SET_FS=0x1002 GET_FS=0x1003 GET_GS=0x1004 GET_CPUID=0x1011
        SET_CPUID=0x1012 GET_XCOMP_SUPP=0x1021 GET_XCOMP_PERM=0x1022 REQ_XCOMP_PERM=0x1023
        SHSTK_ENABLE=0x5001 SHSTK_DISABLE=0x5002 SHSTK_LOCK=0x5003 SHSTK_STATUS=0x5005""",
        "ARCH_",
    ),
    "ptrace": _row(
        """TRACEME PEEKTEXT PEEKDATA PEEKUSER POKETEXT POKEDATA POKEUSER CONT KILL SINGLESTEP""",
        "PTRACE_",
    )
    | _bits(
        """GETREGS=12 SETREGS=13 GETFPREGS=14 SETFPREGS=15 ATTACH=16 DETACH=17 SYSCALL=24
        SETOPTIONS=0x4200 GETEVENTMSG=0x4201 GETSIGINFO=0x4202 SETSIGINFO=0x4203 GETREGSET=0x4204
        SETREGSET=0x4205 SEIZE=0x4206 INTERRUPT=0x4207 LISTEN=0x4208 PEEKSIGINFO=0x4209
        GETSIGMASK=0x420a SETSIGMASK=0x420b GET_SYSCALL_INFO=0x420e""",
        "PTRACE_",
    ),
}

SIGNALS: Mapping[int, str] = _row(
    """HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT STOP
    TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS""",
    "SIG",
    1,
)

ERRORS: Mapping[int, str] = {
    **_row(
        """EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT
        ENOTBLK EBUSY EEXIST EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG
        ENOSPC ESPIPE EROFS EMLINK EPIPE EDOM ERANGE EDEADLK ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY
        ELOOP""",
        first=1,
    ),
    **_row(
        """ENOMSG EIDRM ECHRNG EL2NSYNC EL3HLT EL3RST ELNRNG EUNATCH ENOCSI EL2HLT EBADE EBADR
        EXFULL ENOANO EBADRQC EBADSLT""",
        first=42,
    ),
    **_row(
        """EBFONT ENOSTR ENODATA ETIME ENOSR ENONET ENOPKG EREMOTE ENOLINK EADV ESRMNT ECOMM EPROTO
        EMULTIHOP EDOTDOT EBADMSG EOVERFLOW ENOTUNIQ EBADFD EREMCHG ELIBACC ELIBBAD ELIBSCN ELIBMAX
        ELIBEXEC EILSEQ ERESTART ESTRPIPE EUSERS ENOTSOCK EDESTADDRREQ EMSGSIZE EPROTOTYPE
        ENOPROTOOPT EPROTONOSUPPORT ESOCKTNOSUPPORT EOPNOTSUPP EPFNOSUPPORT EAFNOSUPPORT EADDRINUSE
        EADDRNOTAVAIL ENETDOWN ENETUNREACH ENETRESET ECONNABORTED ECONNRESET ENOBUFS EISCONN
        ENOTCONN ESHUTDOWN ETOOMANYREFS ETIMEDOUT ECONNREFUSED EHOSTDOWN EHOSTUNREACH EALREADY
        EINPROGRESS ESTALE EUCLEAN ENOTNAM ENAVAIL EISNAM EREMOTEIO EDQUOT ENOMEDIUM EMEDIUMTYPE
        ECANCELED ENOKEY EKEYEXPIRED EKEYREVOKED EKEYREJECTED EOWNERDEAD ENOTRECOVERABLE ERFKILL
        EHWPOISON""",
        first=59,
    ),
    # The kernel's own: the call is to be made again after a signal. Programs never see them.
    512: "ERESTARTSYS",
    513: "ERESTARTNOINTR",
    514: "ERESTARTNOHAND",
    516: "ERESTART_RESTARTBLOCK",
}
