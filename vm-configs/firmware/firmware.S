/* SPDX-License-Identifier: MIT */
/*
 * The machine's firmware: enters a kernel that QEMU's loader devices have put
 * into memory, by its PVH entry, and does nothing else.
 *
 * A boot block at BOOT_BLOCK, which the recorder makes for each machine
 * (python/rewind/machine/boot.py), says where: the magic "RWBT", the entry, the
 * address of a struct hvm_start_info. The state of the CPU that the entry wants
 * is in Documentation/arch/x86/pvh.rst of Xen and in the kernel's
 * arch/x86/platform/pvh/head.S: 32-bit protected mode, flat segments, no
 * paging, interrupts off, %ebx the start info.
 *
 * The image is 64 KiB and mapped to end at 4 GiB; the CPU starts in real mode
 * 16 bytes before its end, with %cs based at 0xffff0000.
 */

	.set BASE, 0xffff0000
	.set BOOT_BLOCK, 0x7000
	.set BOOT_MAGIC, 0x54425752		/* "RWBT" */

	.section .text
	.code16
	.globl _start
_start:
	cli
	data32 lgdt %cs:gdt_pointer - _start
	movl	%cr0, %eax
	orl	$1, %eax
	movl	%eax, %cr0
	ljmpl	$8, $BASE + protected - _start

	.code32
protected:
	movl	$16, %eax
	movl	%eax, %ds
	movl	%eax, %es
	movl	%eax, %ss
	cmpl	$BOOT_MAGIC, BOOT_BLOCK
	jne	none
	movl	BOOT_BLOCK + 4, %eax
	movl	BOOT_BLOCK + 8, %ebx
	jmp	*%eax
none:	/* no kernel: a halted CPU with no timer, which the recorder reports */
	hlt
	jmp	none

	.balign	8
gdt:
	.quad	0
	.quad	0x00cf9b000000ffff		/* 8: flat code */
	.quad	0x00cf93000000ffff		/* 16: flat data */
gdt_pointer:
	.word	. - gdt - 1
	.long	BASE + gdt - _start

	.org	0xfff0, 0xff
	.code16
reset:
	jmp	_start
	.org	0x10000, 0xff
