#include <elfutils/libdw.h>
#include <glib.h>
#include <libelf.h>
#include <openssl/opensslv.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <zlib.h>
#include <zstd.h>

int main(void)
{
    unsigned char digest[SHA256_DIGEST_LENGTH];

    SHA256((const unsigned char *) "", 0, digest);
    printf("%s, %02x, zstd %s, libelf %u, zlib %s\n", g_strdup(OPENSSL_VERSION_TEXT), digest[0],
           ZSTD_versionString(), elf_version(EV_CURRENT), zlibVersion());
    return 0;
}
