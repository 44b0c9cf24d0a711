/* SPDX-License-Identifier: MIT */
#ifndef SECCOMP_H
#define SECCOMP_H

/*
 * Refuse what Nix's filter-syscalls refuses: set-user-ID and set-group-ID bits
 * (EPERM) and extended attributes (ENOTSUP), neither of which the store can
 * hold. Sets no_new_privs, as Nix does.
 */
void seccomp_as_nix(void);

#endif
