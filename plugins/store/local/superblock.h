/* SPDX-License-Identifier: Apache-2.0 */
/* superblock.h - the one small file that a store's folder starts from: who it is, how often it was started, how far it surely got.
 *
 * Two slots with a CRC each, written in turn, so that one of them is whole at any moment. One thread at a time.
 */
#ifndef STORE_SUPERBLOCK_H
#define STORE_SUPERBLOCK_H

#include "wal_format.h"
#include "wal_io.h"

struct superblock {
    uint64_t generation;        /* of the slot written last */
    uint8_t  id[WAL_ID_BYTES];  /* random, made with the folder */
    uint64_t fence;             /* grows with each start */
    uint64_t segment, offset;   /* everything below this place of the log is durable; segment 0: no log yet */
    uint64_t index;             /* of the last entry below it */
    int      fd;
};

/* Reads the newest whole slot; makes the file when `may_create`. *created says which. A lost slot may have held a higher fence: then
 * the fence read is raised by one. Refuses a file without a whole slot. */
int  superblock_open(struct superblock *s, int folder, const char *path, const struct wal_io *io, bool may_create, bool *created, struct spur_error *err);
/* Writes the other slot and waits for the disk. 0 or a negative errno. */
int  superblock_write(struct superblock *s, const struct wal_io *io, bool is_synced);
void superblock_close(struct superblock *s);

#endif
