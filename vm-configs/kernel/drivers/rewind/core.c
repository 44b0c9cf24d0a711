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

/* held over a use of the bulk buffer: copies to and from user memory may sleep */
static DEFINE_MUTEX(bulk_lock);

static void *bulk(void)
{
	return rewind_area + REWIND_BUFFER_SIZE;
}

static ssize_t rewind_read_parameters(struct file *file, char __user *buf,
				      size_t count, loff_t *pos)
{
	size_t done = 0;

	if (*pos < 0 || *pos > U32_MAX)
		return -EINVAL;

	mutex_lock(&bulk_lock);
	while (done < count) {
		size_t n, left;

		rewind_write(REWIND_FETCH, *pos);
		n = min3((size_t)rewind_read(REWIND_FETCHED), count - done,
			 (size_t)REWIND_BUFFER_SIZE);
		if (!n)
			break;
		left = copy_to_user(buf + done, bulk(), n);
		n -= left;
		done += n;
		*pos += n;
		if (left) {
			if (!done)
				done = -EFAULT;
			break;
		}
	}
	mutex_unlock(&bulk_lock);
	return done;
}

static ssize_t rewind_send(struct file *file, const char __user *buf,
			   size_t count, loff_t *pos)
{
	unsigned long channel = (unsigned long)file->private_data;
	size_t done = 0;

	mutex_lock(&bulk_lock);
	while (done < count) {
		size_t n = min(count - done, (size_t)REWIND_BUFFER_SIZE);
		size_t left = copy_from_user(bulk(), buf + done, n);

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
	mutex_unlock(&bulk_lock);
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
		rewind_write(REWIND_COMMAND, REWIND_COMMAND_FINISHED);
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
	.read		= rewind_read_parameters,
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
