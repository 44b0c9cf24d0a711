// SPDX-License-Identifier: GPL-2.0
/*
 * The guest's side of the rewind device: finding it, and /dev/rewind, by which
 * init gets its job, sends what comes of it, and says when it begins and ends.
 */
#include <linux/fs.h>
#include <linux/gfp.h>
#include <linux/init.h>
#include <linux/miscdevice.h>
#include <linux/mutex.h>
#include <linux/pid_namespace.h>
#include <linux/uaccess.h>

#include "rewind.h"
#include "uapi.h"

void *rewind_area;

/* of the bulk buffer, see rewind.h */
DEFINE_MUTEX(rewind_bulk_lock);

/* in private_data: what read() gives is the user's input, not the parameters */
#define INPUT	0x100

static ssize_t rewind_read_file(struct file *file, char __user *buf,
				size_t count, loff_t *pos)
{
	size_t done = 0;

	if ((unsigned long)file->private_data == INPUT)
		return rewind_shell_read(file, buf, count);
	if (*pos < 0 || *pos > U32_MAX)
		return -EINVAL;

	mutex_lock(&rewind_bulk_lock);
	while (done < count) {
		size_t n, left;

		rewind_write(REWIND_FETCH, *pos);
		n = min3((size_t)rewind_read(REWIND_FETCHED), count - done,
			 (size_t)REWIND_BUFFER_SIZE);
		if (!n)
			break;
		left = copy_to_user(buf + done, rewind_bulk(), n);
		n -= left;
		done += n;
		*pos += n;
		if (left) {
			if (!done)
				done = -EFAULT;
			break;
		}
	}
	mutex_unlock(&rewind_bulk_lock);
	return done;
}

static __poll_t rewind_poll(struct file *file, poll_table *wait)
{
	if ((unsigned long)file->private_data == INPUT)
		return rewind_shell_poll(file, wait);
	return DEFAULT_POLLMASK;
}

static ssize_t rewind_send(struct file *file, const char __user *buf,
			   size_t count, loff_t *pos)
{
	unsigned long channel = (unsigned long)file->private_data;
	size_t done = 0;

	if (channel == INPUT)
		return -EBADF;

	mutex_lock(&rewind_bulk_lock);
	while (done < count) {
		size_t n = min(count - done, (size_t)REWIND_BUFFER_SIZE);
		size_t left = copy_from_user(rewind_bulk(), buf + done, n);

		n -= left;
		if (n)
			rewind_write(REWIND_SEND, channel << 24 | n);
		done += n;
		if (left) {
			if (!done)
				done = -EFAULT;
			break;
		}
	}
	mutex_unlock(&rewind_bulk_lock);
	return done;
}

/*
 * Enabling tracepoints rewrites code in some hundred places, each of which QEMU
 * translates anew: once, before the boot snapshot, and not in every run.
 */
static int prepare(void)
{
	static bool prepared;
	int err;

	if (prepared)
		return 0;
	err = rewind_trace_prepare() ?: rewind_idle_prepare();
	prepared = !err;
	return err;
}

static int start(void)
{
	static bool started;
	int err;

	if (started)
		return -EBUSY;
	err = prepare();
	if (err)
		return err;
	started = true;
	rewind_cpus_start();
	rewind_idle_start();
	/* no record before the command, and nothing that sleeps from here on */
	rewind_write(REWIND_COMMAND, REWIND_COMMAND_START);
	rewind_trace_start();
	return 0;
}

static long rewind_ioctl(struct file *file, unsigned int request,
			 unsigned long arg)
{
	int err;

	switch (request) {
	case REWIND_CHANNEL:
		if (arg > 255)
			return -EINVAL;
		file->private_data = (void *)arg;
		return 0;
	case REWIND_READY:
		err = prepare();
		if (err)
			return err;
		rewind_write(REWIND_COMMAND, REWIND_COMMAND_READY);
		return 0;
	case REWIND_ATTACH:
		rewind_write(REWIND_COMMAND, REWIND_COMMAND_ATTACH);
		return 0;
	case REWIND_CORES:
		return rewind_set_cores(arg);
	case REWIND_START:
		return start();
	case REWIND_END:
		rewind_shell_end();
		rewind_write(REWIND_COMMAND, REWIND_COMMAND_FINISHED);
		return 0;
	case REWIND_INPUT:
		file->private_data = (void *)INPUT;
		return 0;
	case REWIND_TERMINAL:
		rewind_shell_terminal();
		return 0;
	default:
		return -ENOTTY;
	}
}

static int rewind_open(struct inode *inode, struct file *file)
{
	/* misc_open() left the device here; channel 0 until told otherwise */
	file->private_data = NULL;
	return 0;
}

static const struct file_operations rewind_fops = {
	.owner		= THIS_MODULE,
	.open		= rewind_open,
	.read		= rewind_read_file,
	.poll		= rewind_poll,
	.write		= rewind_send,
	.unlocked_ioctl	= rewind_ioctl,
	.llseek		= default_llseek,
};

static struct miscdevice rewind_misc = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "rewind",
	.mode	= 0600,
	.fops	= &rewind_fops,
};

static int __init rewind_init(void)
{
	int err;

	if (!rewind_present())
		return -ENODEV;

	rewind_area = (void *)__get_free_pages(GFP_KERNEL | __GFP_ZERO,
					       get_order(2 * REWIND_BUFFER_SIZE));
	if (!rewind_area)
		return -ENOMEM;
	rewind_write(REWIND_AREA, PHYS_PFN(virt_to_phys(rewind_area)));
	rewind_perturb_init();

	err = misc_register(&rewind_misc);
	if (err)
		pr_err("rewind: no device node: %d\n", err);
	return err;
}
device_initcall(rewind_init);
