// SPDX-License-Identifier: MIT
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/random.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "device.h"
#include "fail.h"
#include "io.h"
#include "machine.h"

/*
 * One file system in memory holds all that the job writes. It may not take all
 * of the memory: a job that fills it is to get ENOSPC, as on a full disk, and
 * the processes that hear of it have to run somewhere.
 */
#define SHARE "80%"

static bool was_full;

static void make_directory(const char *path)
{
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		fail_errno("cannot make %s", path);
}

static void do_mount(const char *source, const char *path, const char *type,
		     unsigned long flags, const char *options)
{
	make_directory(path);
	if (mount(source, path, type, flags, options) < 0)
		fail_errno("cannot mount %s", path);
}

/*
 * Limits are inherited, by Nix's builders as well; the kernel's own depend on
 * how much memory there is, and a run's limits should not. A job in this
 * sandbox is the superuser's, whom NPROC does not hold back: it is the number
 * programs are told.
 */
static void set_limits(void)
{
	static const struct {
		int resource;
		struct rlimit limit;
	} limits[] = {
		{ RLIMIT_CORE, { 0, RLIM_INFINITY } }, /* as Nix sets it */
		{ RLIMIT_NOFILE, { 16384, 16384 } },
		{ RLIMIT_NPROC, { 32768, 32768 } },
		{ RLIMIT_SIGPENDING, { 32768, 32768 } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		if (setrlimit(limits[i].resource, &limits[i].limit) < 0)
			fail_errno("cannot set limit %d", limits[i].resource);
}

/*
 * The kernel starts init in its initramfs. That is no place to work in: it
 * cannot be left by pivot_root, and has no limit on its size.
 */
static void change_root(void)
{
	do_mount("none", "/new", "tmpfs", 0, "mode=0755,size=" SHARE);
	if (chdir("/new") < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0)
		fail_errno("cannot change the root directory");
}

/*
 * The kernel looks at its pmem devices on a worker thread, which on one CPU may
 * not have had its turn yet. Reading this file waits until it is done (the
 * kernel's drivers/nvdimm/core.c).
 */
static void wait_for_windows(void)
{
	char answer;
	int fd;

	do_mount("none", "/sys", "sysfs", 0, NULL);
	fd = open("/sys/bus/nd/devices/ndbus0/wait_probe", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, &answer, 1) != 1)
		fail_errno("cannot wait for the windows of the layers");
	close(fd);
	if (umount("/sys") < 0)
		fail_errno("cannot unmount /sys");
}

void machine_prepare(void)
{
	int fd;

	umask(022);
	change_root();
	do_mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
	do_mount("none", "/dev/pts", "devpts", 0, "mode=0620,ptmxmode=0666");
	do_mount("none", "/proc", "proc", 0, NULL);
	/* Used by nobody; but until it was mounted once, /proc/self/cgroup is empty. */
	do_mount("none", "/cgroup", "cgroup2", 0, NULL);
	make_directory(LAYERS);
	make_directory(SANDBOX);
	/* Without a console the first three descriptors are closed: nothing else may get them. */
	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd < STDERR_FILENO);
	if (fd < 0)
		fail_errno("cannot open /dev/null");
	if (fd > STDERR_FILENO)
		close(fd);
	wait_for_windows();
	set_limits();
}

/*
 * To become ready, the random number generator has code of the kernel patched
 * and says so; of the mounts and devices made so far there is work left for
 * kernel threads. All of it is the same for every job. The guest idles for most
 * of this time, which takes none of the host's.
 */
void machine_settle(void)
{
	static char seed[] = "boot";

	machine_seed((struct bytes){ seed, strlen(seed) });
	nanosleep(&(struct timespec){ .tv_nsec = 100 * 1000 * 1000 }, NULL);
}

void machine_mount_layer(unsigned int number)
{
	char device[32], path[32];
	int fd;

	snprintf(device, sizeof(device), "/dev/pmem%u", number);
	snprintf(path, sizeof(path), LAYERS "/%u", number);
	/*
	 * Whatever the kernel read here when it booted, with nothing attached
	 * yet, was zeros, and may still be in the cache.
	 */
	fd = open(device, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, BLKFLSBUF, 0) < 0)
		fail_errno("layer %u: %s", number, device);
	close(fd);
	make_directory(path);
	if (mount(device, path, "erofs", MS_RDONLY, NULL) < 0)
		fail_errno("layer %u: cannot mount %s", number, device);
}

void machine_mount_layers(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		machine_mount_layer(i);
}

void machine_set_clock(time_t epoch)
{
	struct timespec now = { .tv_sec = epoch };

	if (clock_settime(CLOCK_REALTIME, &now) < 0)
		fail_errno("cannot set the clock to %lld", (long long)epoch);
}

/*
 * The generator was seeded while the machine booted, always with the same.
 * What is added is credited with all that the generator asks for, however
 * short it is: nothing in the machine is meant to be secret.
 */
void machine_seed(struct bytes seed)
{
	struct rand_pool_info *info = malloc(sizeof(*info) + seed.size);
	int fd = open("/dev/urandom", O_RDWR | O_CLOEXEC);

	if (!info || fd < 0)
		fail_errno("cannot seed the random number generator");
	info->entropy_count = 256;
	info->buf_size = seed.size;
	memcpy(info->buf, seed.data, seed.size);
	if (ioctl(fd, RNDADDENTROPY, info) < 0 || ioctl(fd, RNDRESEEDCRNG) < 0)
		fail_errno("cannot seed the random number generator");
	close(fd);
	free(info);
}

void machine_watch_memory(void)
{
	struct statvfs fs;

	if (statvfs("/", &fs) < 0)
		fail_errno("cannot see how full the file system is");
	if (fs.f_bfree < fs.f_blocks / 50 || fs.f_ffree < fs.f_files / 50)
		was_full = true;
}

/* How many processes the kernel has killed for want of memory. */
static unsigned long oom_kills(void)
{
	unsigned long kills = 0;
	char line[128];
	FILE *f = fopen("/proc/vmstat", "re");

	if (!f)
		fail_errno("cannot read /proc/vmstat");
	while (fgets(line, sizeof(line), f))
		sscanf(line, "oom_kill %lu", &kills);
	fclose(f);
	return kills;
}

void machine_report_memory(void)
{
	unsigned long kills = oom_kills();

	machine_watch_memory();
	if (was_full)
		device_line(CHANNEL_MESSAGES,
			    "the job's files filled the share of the memory that they may have (%s): "
			    "the machine needs more memory", SHARE);
	if (kills)
		device_line(CHANNEL_MESSAGES,
			    "memory ran out, and the kernel killed %lu of the job's processes: "
			    "the machine needs more memory", kills);
}
