/* SPDX-License-Identifier: MIT */
/*
 * Nix archives, as the Nix manual describes them ("Nix Archive (NAR) format"):
 * what a tree is hashed and copied as. Of its metadata only what Nix keeps is
 * in it: the type, whether the owner may execute it, a link's target.
 */
#ifndef NAR_H
#define NAR_H

#include <stddef.h>

typedef void nar_emit(void *context, const void *data, size_t size);

/*
 * Writes the tree at path in pieces of up to 64 KiB. fail()s if it cannot be
 * read or has something in it that no store path can have (a device, a socket,
 * a pipe); label is what the tree is called then.
 */
void nar_write(const char *path, const char *label, nar_emit *emit, void *context);

#endif
