// SPDX-License-Identifier: GPL-2.0
/*
 * The machine as the kernel is to find it: what it would otherwise measure, wait
 * for or look for in vain.
 *
 * The parameter "rewind", which is in the kernel's own command line, has this
 * run before the clocks are set up. Without the device it changes nothing.
 */
#include <linux/init.h>
#include <linux/ioport.h>
#include <linux/jiffies.h>
#include <linux/reboot.h>
#include <linux/sizes.h>
#include <asm/apic.h>
#include <asm/cpufeature.h>
#include <asm/mpspec.h>
#include <asm/x86_init.h>

#include "rewind.h"

/* an instruction takes 1 ns; the TSC and the timer of the APIC count ns */
#define HZ_OF_CLOCKS	1000000000UL

static unsigned long __init clock_khz(void)
{
	return HZ_OF_CLOCKS / 1000;
}

/*
 * The boot knows no date: a snapshot taken after it serves jobs of any date. Init
 * sets the clock.
 */
static void get_wallclock(struct timespec64 *now)
{
	now->tv_sec = 0;
	now->tv_nsec = 0;
}

static int set_wallclock(const struct timespec64 *now)
{
	return -ENODEV;
}

/* one CPU with its APIC, whatever tables the firmware left */
static void __init parse_smp_cfg(void)
{
	register_lapic_address(APIC_DEFAULT_PHYS_BASE);
	topology_register_apic(0, CPU_ACPIID_INVALID, true);
	smp_found_config = 1;
}

static int __init rewind_platform_init(char *unused)
{
	if (!rewind_present())
		return 0;

	x86_platform.calibrate_cpu = clock_khz;
	x86_platform.calibrate_tsc = clock_khz;
	setup_force_cpu_cap(X86_FEATURE_TSC_KNOWN_FREQ);
	setup_force_cpu_cap(X86_FEATURE_TSC_RELIABLE);
	lapic_timer_period = HZ_OF_CLOCKS / HZ;

	x86_platform.get_wallclock = get_wallclock;
	x86_platform.set_wallclock = set_wallclock;
	x86_platform.legacy.rtc = 0;

	x86_init.mpparse.find_mptable = x86_init_noop;
	x86_init.mpparse.early_parse_smp_cfg = x86_init_noop;
	x86_init.mpparse.parse_smp_cfg = parse_smp_cfg;

	/* the only way out of this machine */
	reboot_type = BOOT_TRIPLE;
	reboot_default = 0;
	return 0;
}
early_param("rewind", rewind_platform_init);

/*
 * The windows the device maps layers into become /dev/pmem0 to /dev/pmem3. They
 * are no memory in the firmware's map, which would have to be as large.
 */
#define FIRST_WINDOW	(256ULL * SZ_1G)
#define WINDOW_SIZE	(64ULL * SZ_1G)

static struct resource windows[4];

static int __init rewind_windows_init(void)
{
	unsigned int i;

	if (!rewind_present())
		return 0;

	for (i = 0; i < ARRAY_SIZE(windows); i++) {
		struct resource *window = &windows[i];
		int err;

		window->name = "rewind layer";
		window->start = FIRST_WINDOW + i * WINDOW_SIZE;
		window->end = window->start + WINDOW_SIZE - 1;
		window->flags = IORESOURCE_MEM;
		window->desc = IORES_DESC_PERSISTENT_MEMORY_LEGACY;
		err = insert_resource(&iomem_resource, window);
		if (err) {
			pr_err("rewind: no room for window %u: %d\n", i, err);
			return err;
		}
	}
	return 0;
}
arch_initcall(rewind_windows_init);
