// SPDX-License-Identifier: MIT
/*
 * What tests of packages use of a kernel, one function each. Most are the raw
 * calls: a library may fall back to something else without a word.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/aio_abi.h>
#include <linux/audit.h>
#include <linux/bpf_common.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/if_packet.h>
#include <linux/io_uring.h>
#include <linux/kcmp.h>
#include <linux/membarrier.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

/* --- processes and threads */

static void *add(void *counter)
{
	for (int i = 0; i < 1000; i++)
		__atomic_add_fetch((long *)counter, 1, __ATOMIC_RELAXED);
	return NULL;
}

static int threads(void)
{
	pthread_t thread[64];
	long counter = 0;

	for (int i = 0; i < 64; i++)
		CHECK(pthread_create(&thread[i], NULL, add, &counter) == 0);
	for (int i = 0; i < 64; i++)
		CHECK(pthread_join(thread[i], NULL) == 0);
	CHECK(counter == 64000);
	return 0;
}

static int futex_pi(void)
{
	pthread_mutexattr_t attr;
	pthread_mutex_t mutex;

	CHECK(pthread_mutexattr_init(&attr) == 0);
	CHECK(pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT) == 0);
	CHECK(pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST) == 0);
	CHECK(pthread_mutex_init(&mutex, &attr) == 0);
	CHECK(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
	return 0;
}

/* More than a kernel for small machines has pids for, all at a time. */
static int many_processes(void)
{
	enum { COUNT = 5000 };
	int hold[2], status;
	char byte;

	CHECK(pipe(hold) == 0);
	for (int i = 0; i < COUNT; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			close(hold[1]);
			_exit(read(hold[0], &byte, 1) != 0);
		}
		CHECK(pid > 0);
	}
	close(hold[1]);
	close(hold[0]);
	for (int i = 0; i < COUNT; i++)
		CHECK(wait(&status) > 0 && status == 0);
	return 0;
}

static int pidfd(void)
{
	siginfo_t info;
	pid_t pid = fork();
	int fd;

	if (pid == 0)
		for (;;)
			pause();
	fd = syscall(SYS_pidfd_open, pid, 0);
	CHECK(fd >= 0);
	CHECK(syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) == 0);
	CHECK(waitid(P_PIDFD, fd, &info, WEXITED) == 0 && info.si_status == SIGKILL);
	CHECK(close_range(fd, fd, 0) == 0);
	return 0;
}

static int tracing(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		_exit(3);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
	CHECK(ptrace(PTRACE_SYSCALL, pid, 0, 0) == 0);
	CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
	CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
	CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 3);
	return 0;
}

static int core_dumps(void)
{
	struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };
	struct stat st;
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (chdir("/tmp") || setrlimit(RLIMIT_CORE, &limit))
			_exit(1);
		abort();
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && WCOREDUMP(status));
	CHECK(stat("/tmp/core", &st) == 0 && st.st_size > 4096);
	return 0;
}

static int filter(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTTY),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { 4, code };
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program))
			_exit(1);
		_exit(syscall(SYS_getppid) != -1 || errno != ENOTTY);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	return 0;
}

static int users(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(setgid(1000) || setuid(1000) || getuid() != 1000 ||
		      kill(1, 0) == 0 || setuid(0) == 0);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	return 0;
}

static int scheduling(void)
{
	struct sched_param param = { .sched_priority = 1 };
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){ 0 }) ||
		      sched_setscheduler(0, SCHED_FIFO, &param) || sched_yield() ||
		      setpriority(PRIO_PROCESS, 0, 5) || getpriority(PRIO_PROCESS, 0) != 5);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	return 0;
}

static int comparing(void)
{
	int fd = dup(1);

	CHECK(syscall(SYS_kcmp, getpid(), getpid(), KCMP_FILE, 1, fd) == 0);
	close(fd);
	return 0;
}

static int barriers(void)
{
	CHECK(syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0) > 0);
	return 0;
}

/* --- signals and time */

static int signal_fd(void)
{
	struct signalfd_siginfo info;
	union sigval value = { .sival_int = 42 };
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
	fd = signalfd(-1, &set, 0);
	CHECK(fd >= 0 && sigqueue(getpid(), SIGRTMIN, value) == 0);
	CHECK(read(fd, &info, sizeof(info)) == sizeof(info) && info.ssi_int == 42);
	CHECK(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
	close(fd);
	return 0;
}

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static volatile sig_atomic_t alarms;

static void on_alarm(int unused)
{
	(void)unused;
	alarms++;
}

static int timers(void)
{
	struct itimerspec spec = { { 0, 0 }, { 0, 200000 } };
	struct timespec short_time = { 0, 200000 };
	long long begin;
	uint64_t expired;
	timer_t timer;
	int fd;

	/* finer than a tick */
	begin = now();
	CHECK(nanosleep(&short_time, NULL) == 0);
	CHECK(now() - begin >= 200000 && now() - begin < 1000000);
	fd = timerfd_create(CLOCK_REALTIME, 0);
	CHECK(fd >= 0 && timerfd_settime(fd, 0, &spec, NULL) == 0);
	CHECK(read(fd, &expired, sizeof(expired)) == sizeof(expired) && expired == 1);
	close(fd);
	signal(SIGALRM, on_alarm);
	CHECK(timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0);
	CHECK(timer_settime(timer, 0, &spec, NULL) == 0);
	while (!alarms)
		pause();
	CHECK(timer_delete(timer) == 0);
	/* of CPU time */
	alarms = 0;
	signal(SIGPROF, on_alarm);
	CHECK(setitimer(ITIMER_PROF, &(struct itimerval){ { 0, 0 }, { 0, 10000 } }, NULL) == 0);
	while (!alarms)
		;
	return 0;
}

/* --- files in memory and events */

static int event_fds(void)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.u32 = 7 };
	int fd = eventfd(0, EFD_NONBLOCK), epoll = epoll_create1(EPOLL_CLOEXEC);

	CHECK(fd >= 0 && epoll >= 0);
	CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
	CHECK(eventfd_write(fd, 1) == 0);
	CHECK(epoll_wait(epoll, &event, 1, -1) == 1 && event.data.u32 == 7);
	close(fd);
	close(epoll);
	return 0;
}

static int pipes(void)
{
	char data[16] = "";
	int p[2], q[2];

	CHECK(pipe2(p, O_CLOEXEC) == 0 && pipe(q) == 0);
	CHECK(fcntl(p[0], F_SETPIPE_SZ, 1 << 20) == 1 << 20);
	CHECK(write(p[1], "through", 7) == 7);
	CHECK(splice(p[0], NULL, q[1], NULL, 7, 0) == 7);
	CHECK(read(q[0], data, 16) == 7 && !strcmp(data, "through"));
	return 0;
}

static int in_memory(void)
{
	int fd = memfd_create("test", MFD_ALLOW_SEALING | MFD_CLOEXEC), copy;

	CHECK(fd >= 0 && write(fd, "0123456789", 10) == 10);
	CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK) == 0);
	CHECK(write(fd, "x", 1) == -1 && errno == EPERM);
	copy = open("/tmp", O_TMPFILE | O_RDWR, 0600);
	CHECK(copy >= 0 && sendfile(copy, fd, &(off_t){ 0 }, 10) == 10);
	CHECK(fallocate(copy, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 5) == 0);
	CHECK(copy_file_range(copy, &(off_t){ 5 }, copy, &(off_t){ 20 }, 5, 0) == 5);
	close(fd);
	close(copy);
	return 0;
}

static int notification(void)
{
	char buffer[4096];
	struct inotify_event *event = (void *)buffer;
	int fd = inotify_init1(IN_NONBLOCK), file;

	CHECK(fd >= 0 && inotify_add_watch(fd, "/tmp", IN_CREATE) >= 0);
	file = open("/tmp/noticed", O_CREAT | O_WRONLY, 0644);
	CHECK(file >= 0 && read(fd, buffer, sizeof(buffer)) > 0);
	CHECK(!strcmp(event->name, "noticed"));
	/* dnotify, by a file descriptor of a directory */
	close(file);
	file = open("/tmp", O_RDONLY);
	CHECK(fcntl(file, F_NOTIFY, 0) == 0);
	close(file);
	close(fd);
	return 0;
}

static int attributes(void)
{
	/* a POSIX ACL: version 2, then entries of tag, permissions, id */
	static const unsigned char acl[] = {
		2, 0, 0, 0,
		1, 0, 6, 0, 255, 255, 255, 255,
		2, 0, 7, 0, 232, 3, 0, 0,
		4, 0, 4, 0, 255, 255, 255, 255,
		16, 0, 7, 0, 255, 255, 255, 255,
		32, 0, 4, 0, 255, 255, 255, 255,
	};
	char value[64];
	struct file_handle *handle = malloc(sizeof(*handle) + MAX_HANDLE_SZ);
	struct statx stx;
	int mount, fd = open("/tmp/attributes", O_CREAT | O_WRONLY, 0644);

	CHECK(fd >= 0 && setxattr("/tmp/attributes", "user.key", "value", 5, 0) == 0);
	CHECK(getxattr("/tmp/attributes", "user.key", value, sizeof(value)) == 5);
	CHECK(setxattr("/tmp/attributes", "trusted.key", "value", 5, 0) == 0);
	CHECK(setxattr("/tmp/attributes", "system.posix_acl_access", acl, sizeof(acl), 0) == 0);
	CHECK(statx(AT_FDCWD, "/tmp/attributes", 0, STATX_BTIME, &stx) == 0);
	handle->handle_bytes = MAX_HANDLE_SZ;
	CHECK(name_to_handle_at(AT_FDCWD, "/tmp/attributes", handle, &mount, 0) == 0);
	free(handle);
	close(fd);
	return 0;
}

static int locks(void)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int fd = open("/tmp/locks", O_CREAT | O_RDWR, 0644), again;

	CHECK(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0);
	again = open("/tmp/locks", O_RDWR);
	CHECK(flock(again, LOCK_EX | LOCK_NB) == -1 && errno == EWOULDBLOCK);
	CHECK(fcntl(fd, F_SETLK, &lock) == 0 && fcntl(fd, F_OFD_SETLK, &lock) == -1);
	close(fd);
	close(again);
	fd = open("/tmp/locks", O_RDONLY);
	CHECK(fcntl(fd, F_SETLEASE, F_RDLCK) == 0);
	close(fd);
	return 0;
}

static int terminals(void)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY), slave;
	char name[64], data[16] = "";

	CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
	CHECK(ptsname_r(master, name, sizeof(name)) == 0);
	slave = open(name, O_RDWR | O_NOCTTY);
	CHECK(slave >= 0 && isatty(slave));
	CHECK(write(slave, "line\n", 5) == 5);
	CHECK(read(master, data, sizeof(data)) == 6 && !strcmp(data, "line\r\n"));
	close(slave);
	close(master);
	return 0;
}

static int asynchronous(void)
{
	struct iocb block = { .aio_lio_opcode = IOCB_CMD_PWRITE,
			      .aio_buf = (unsigned long)"aio", .aio_nbytes = 3 };
	struct iocb *blocks[] = { &block };
	struct io_event event;
	aio_context_t context = 0;

	block.aio_fildes = open("/tmp/aio", O_CREAT | O_RDWR, 0644);
	CHECK(syscall(SYS_io_setup, 4, &context) == 0);
	CHECK(syscall(SYS_io_submit, context, 1, blocks) == 1);
	CHECK(syscall(SYS_io_getevents, context, 1, 1, &event, NULL) == 1 && event.res == 3);
	CHECK(syscall(SYS_io_destroy, context) == 0);
	close(block.aio_fildes);
	return 0;
}

static int uring(void)
{
	struct io_uring_params p = { 0 };
	struct io_uring_sqe *sqes;
	int fd = syscall(SYS_io_uring_setup, 4, &p), file;
	char *sq, *cq, data[8] = "";
	struct io_uring_cqe *cqe;

	CHECK(fd >= 0);
	sq = mmap(NULL, p.sq_off.array + p.sq_entries * 4, PROT_READ | PROT_WRITE,
		  MAP_SHARED, fd, IORING_OFF_SQ_RING);
	cq = mmap(NULL, p.cq_off.cqes + p.cq_entries * sizeof(*cqe), PROT_READ | PROT_WRITE,
		  MAP_SHARED, fd, IORING_OFF_CQ_RING);
	sqes = mmap(NULL, p.sq_entries * sizeof(*sqes), PROT_READ | PROT_WRITE,
		    MAP_SHARED, fd, IORING_OFF_SQES);
	CHECK(sq != MAP_FAILED && cq != MAP_FAILED && sqes != MAP_FAILED);
	file = open("/tmp/uring", O_CREAT | O_RDWR, 0644);
	CHECK(file >= 0 && write(file, "uring", 5) == 5);
	/* the second by a worker thread */
	for (unsigned int i = 0; i < 2; i++) {
		sqes[i] = (struct io_uring_sqe){
			.opcode = IORING_OP_READ, .flags = i ? IOSQE_ASYNC : 0, .fd = file,
			.addr = (unsigned long)data, .len = 5, .user_data = i,
		};
		((unsigned int *)(sq + p.sq_off.array))[i] = i;
	}
	__atomic_store_n((unsigned int *)(sq + p.sq_off.tail), 2, __ATOMIC_RELEASE);
	CHECK(syscall(SYS_io_uring_enter, fd, 2, 2, IORING_ENTER_GETEVENTS, NULL, 0) == 2);
	cqe = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
	CHECK(cqe[0].res == 5 && cqe[1].res == 5 && !strcmp(data, "uring"));
	close(fd);
	close(file);
	return 0;
}

/* --- memory */

static int memory(void)
{
	char other[8] = "", *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec local = { other, 5 }, remote = { page, 5 };
	unsigned char present;

	CHECK(page != MAP_FAILED);
	strcpy(page, "there");
	CHECK(process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 5);
	CHECK(!strcmp(other, "there"));
	CHECK(mincore(page, 4096, &present) == 0 && present & 1);
	CHECK(madvise(page, 4096, MADV_DONTNEED) == 0 && page[0] == 0);
	CHECK(mlock(page, 4096) == 0 && msync(page, 4096, MS_SYNC) == 0);
	CHECK(munlock(page, 4096) == 0);
	CHECK(mremap(page, 8192, 65536, MREMAP_MAYMOVE) != MAP_FAILED);
	return 0;
}

static int faults_by_user(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);

	CHECK(fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0);
	close(fd);
	return 0;
}

/* --- System V and POSIX IPC */

static int system_v(void)
{
	struct { long type; char text[4]; } message = { 1, "msg" };
	int shm = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
	int sem = semget(IPC_PRIVATE, 1, IPC_CREAT | 0600);
	int msg = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
	struct sembuf up = { 0, 1, 0 };
	char *at;

	CHECK(shm >= 0 && sem >= 0 && msg >= 0);
	at = shmat(shm, NULL, 0);
	CHECK(at != (void *)-1 && shmdt(at) == 0 && shmctl(shm, IPC_RMID, NULL) == 0);
	CHECK(semop(sem, &up, 1) == 0 && semctl(sem, 0, IPC_RMID) == 0);
	CHECK(msgsnd(msg, &message, 4, 0) == 0 && msgrcv(msg, &message, 4, 1, 0) == 4);
	CHECK(msgctl(msg, IPC_RMID, NULL) == 0);
	return 0;
}

static int posix_ipc(void)
{
	struct mq_attr attr = { .mq_maxmsg = 4, .mq_msgsize = 16 };
	mqd_t queue = mq_open("/queue", O_CREAT | O_RDWR, 0600, &attr);
	char data[16];
	sem_t *sem;
	int fd;

	CHECK(queue >= 0 && mq_send(queue, "hello", 5, 0) == 0);
	CHECK(mq_receive(queue, data, 16, NULL) == 5 && mq_unlink("/queue") == 0);
	sem = sem_open("/semaphore", O_CREAT, 0600, 1);
	CHECK(sem != SEM_FAILED && sem_wait(sem) == 0 && sem_unlink("/semaphore") == 0);
	fd = shm_open("/shared", O_CREAT | O_RDWR, 0600);
	CHECK(fd >= 0 && ftruncate(fd, 4096) == 0 && shm_unlink("/shared") == 0);
	close(fd);
	return 0;
}

static int keys(void)
{
	CHECK(syscall(SYS_add_key, "user", "name", "secret", 6, -2 /* process */) > 0);
	return 0;
}

/* --- sockets */

static int tcp(int family)
{
	struct sockaddr_storage address = { .ss_family = family };
	socklen_t size = family == AF_INET ? sizeof(struct sockaddr_in) :
					     sizeof(struct sockaddr_in6);
	int server = socket(family, SOCK_STREAM, 0), client, peer;
	char data[16] = "";

	if (family == AF_INET)
		((struct sockaddr_in *)&address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		((struct sockaddr_in6 *)&address)->sin6_addr = in6addr_loopback;
	CHECK(server >= 0 && bind(server, (void *)&address, size) == 0);
	CHECK(listen(server, 5) == 0 && getsockname(server, (void *)&address, &size) == 0);
	client = socket(family, SOCK_STREAM, 0);
	CHECK(connect(client, (void *)&address, size) == 0);
	peer = accept4(server, NULL, NULL, SOCK_CLOEXEC);
	CHECK(peer >= 0 && send(client, "tcp", 3, 0) == 3 && recv(peer, data, 16, 0) == 3);
	close(client);
	close(peer);
	close(server);
	return 0;
}

static int tcp4(void)
{
	return tcp(AF_INET);
}

static int tcp6(void)
{
	return tcp(AF_INET6);
}

static int udp(void)
{
	struct ip_mreqn group = { .imr_multiaddr.s_addr = htonl(0xe0000105), .imr_ifindex = 1 };
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);
	int s = socket(AF_INET, SOCK_DGRAM, 0);
	char data[8];

	CHECK(s >= 0 && bind(s, (void *)&address, size) == 0);
	CHECK(getsockname(s, (void *)&address, &size) == 0);
	CHECK(sendto(s, "udp", 3, 0, (void *)&address, size) == 3);
	CHECK(recv(s, data, 8, 0) == 3);
	CHECK(setsockopt(s, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof(group)) == 0);
	close(s);
	return 0;
}

static int local(void)
{
	char control[CMSG_SPACE(sizeof(int))] = "", byte = 'x';
	struct iovec vector = { &byte, 1 };
	struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1,
				  .msg_control = control, .msg_controllen = sizeof(control) };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	struct ucred credentials;
	socklen_t size = sizeof(credentials);
	int pair[2];

	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &pair[0], sizeof(int));
	CHECK(sendmsg(pair[0], &message, 0) == 1);
	CHECK(recvmsg(pair[1], &message, MSG_CMSG_CLOEXEC) == 1);
	CHECK(CMSG_FIRSTHDR(&message)->cmsg_type == SCM_RIGHTS);
	CHECK(getsockopt(pair[0], SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0);
	CHECK(credentials.pid == getpid());
	return 0;
}

static int netlink(void)
{
	struct { struct nlmsghdr header; struct rtgenmsg body; } request = {
		{ sizeof(request), RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 1, 0 }, { AF_UNSPEC },
	};
	int s = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE), diag, packet;
	char answer[8192];

	CHECK(s >= 0 && send(s, &request, sizeof(request), 0) == sizeof(request));
	CHECK(recv(s, answer, sizeof(answer), 0) > (ssize_t)sizeof(struct nlmsghdr));
	diag = socket(AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG);
	packet = socket(AF_PACKET, SOCK_RAW, htons(3));
	CHECK(diag >= 0 && packet >= 0);
	close(s);
	close(diag);
	close(packet);
	return 0;
}

/* --- namespaces */

static int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	int ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	close(fd);
	return ok;
}

/* As a user with no rights, as in a sandbox of a sandbox. */
static int in_namespaces(void)
{
	CHECK(setgid(1000) == 0 && setuid(1000) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0);
	CHECK(unshare(CLONE_NEWUSER) == 0);
	CHECK(write_file("/proc/self/setgroups", "deny"));
	CHECK(write_file("/proc/self/uid_map", "0 1000 1"));
	CHECK(write_file("/proc/self/gid_map", "0 1000 1"));
	CHECK(getuid() == 0);
	CHECK(unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
		      CLONE_NEWPID | CLONE_NEWCGROUP | 0x80 /* CLONE_NEWTIME */) == 0);
	CHECK(sethostname("inside", 6) == 0);
	CHECK(mount("none", "/tmp", "tmpfs", 0, NULL) == 0);
	CHECK(mkdir("/tmp/lower", 0755) == 0 && mkdir("/tmp/upper", 0755) == 0);
	CHECK(mkdir("/tmp/work", 0755) == 0 && mkdir("/tmp/merged", 0755) == 0);
	CHECK(mount("none", "/tmp/merged", "overlay", 0,
		    "lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work,userxattr") == 0);
	CHECK(mkdir("/tmp/merged/new", 0755) == 0 && access("/tmp/upper/new", F_OK) == 0);
	return 0;
}

static int namespaces(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(in_namespaces());
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	return 0;
}

/* --- what /proc has */

static int proc_files(void)
{
	static const char *const files[] = {
		"/proc/self/maps", "/proc/self/smaps", "/proc/self/smaps_rollup",
		"/proc/self/pagemap", "/proc/self/io", "/proc/self/status", "/proc/self/statm",
		"/proc/self/limits", "/proc/self/mountinfo", "/proc/self/cgroup",
		"/proc/self/cmdline", "/proc/self/environ", "/proc/self/auxv", "/proc/self/wchan",
		"/proc/self/oom_score_adj", "/proc/self/uid_map", "/proc/self/net/tcp",
		"/proc/self/net/unix", "/proc/self/net/if_inet6", "/proc/thread-self/children",
		"/proc/meminfo", "/proc/vmstat", "/proc/loadavg", "/proc/uptime", "/proc/version",
		"/proc/filesystems", "/proc/devices", "/proc/interrupts", "/proc/locks",
		"/proc/sys/kernel/pid_max", "/proc/sys/kernel/random/uuid",
		"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/threads-max",
		"/proc/sys/fs/file-max", "/proc/sys/fs/inotify/max_user_watches",
		"/proc/sys/fs/pipe-max-size", "/proc/sys/vm/overcommit_memory",
		"/proc/sys/net/core/somaxconn", "/proc/sysvipc/shm", "/proc/sys/fs/mqueue/msg_max",
		"/proc/sys/kernel/ns_last_pid", "/proc/sys/kernel/cap_last_cap",
	};
	char data[64];
	int bad = 0;

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		int fd = open(files[i], O_RDONLY);

		if (fd < 0 || read(fd, data, sizeof(data)) < 0) {
			printf("%s: %s\n", files[i], strerror(errno));
			bad++;
		}
		close(fd);
	}
	return bad;
}

static int random_numbers(void)
{
	char data[64];

	CHECK(getrandom(data, sizeof(data), 0) == sizeof(data));
	return 0;
}

/* A window with nothing attached: zeros, and nothing worse. */
static int empty_window(void)
{
	char data[4096];
	int fd;

	for (int i = 0; i < 4; i++) {
		char path[] = "/dev/pmem0";

		path[9] += i;
		fd = open(path, O_RDONLY);
		CHECK(fd >= 0 && lseek(fd, 0, SEEK_END) == 64LL << 30);
		CHECK(pread(fd, data, sizeof(data), 32LL << 30) == sizeof(data));
		close(fd);
	}
	CHECK(open("/dev/pmem4", O_RDONLY) == -1);
	return 0;
}

static const struct {
	const char *name;
	int (*test)(void);
} tests[] = {
	{ "threads", threads },
	{ "priority-inheriting, robust mutexes", futex_pi },
	{ "5,000 processes", many_processes },
	{ "pidfd", pidfd },
	{ "ptrace", tracing },
	{ "core dumps", core_dumps },
	{ "seccomp", filter },
	{ "users", users },
	{ "scheduling policies", scheduling },
	{ "kcmp", comparing },
	{ "membarrier", barriers },
	{ "signalfd", signal_fd },
	{ "timers", timers },
	{ "eventfd and epoll", event_fds },
	{ "pipes", pipes },
	{ "memfd and tmpfs", in_memory },
	{ "inotify", notification },
	{ "extended attributes", attributes },
	{ "locks and leases", locks },
	{ "terminals", terminals },
	{ "aio", asynchronous },
	{ "io_uring", uring },
	{ "memory", memory },
	{ "userfaultfd", faults_by_user },
	{ "System V IPC", system_v },
	{ "POSIX IPC", posix_ipc },
	{ "keys", keys },
	{ "TCP", tcp4 },
	{ "TCP over IPv6", tcp6 },
	{ "UDP", udp },
	{ "unix sockets", local },
	{ "netlink", netlink },
	{ "namespaces", namespaces },
	{ "/proc", proc_files },
	{ "random numbers", random_numbers },
	{ "empty windows", empty_window },
};

int features(void)
{
	int failed = 0;

	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		int bad = tests[i].test() != 0;

		printf("%s: %s\n", bad ? "FAILED" : "ok", tests[i].name);
		failed += bad;
	}
	return failed;
}
