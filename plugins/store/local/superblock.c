/* SPDX-License-Identifier: Apache-2.0 */
/* superblock.c - two slots, each with a generation and a CRC; the newest whole one counts.
 *
 * A write goes to the slot that is older, so power may fail at any byte of it. What a lost slot may have said beyond the
 * one that is left is bounded: each write raises the fence by one at most, and its place in the log is a lower bound that
 * is only less sharp when older.
 */
#include "superblock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crc32c.h"

static const char superblock_name[] = "superblock";

static void slot_encode(const struct superblock *s, uint8_t *slot)
{
    memset(slot, 0, SUPERBLOCK_SLOT);
    memcpy(slot + SUP_MAGIC, SUPERBLOCK_MAGIC, 8);
    put32(slot + SUP_VERSION, WAL_VERSION);
    put64(slot + SUP_GENERATION, s->generation);
    memcpy(slot + SUP_ID, s->id, WAL_ID_BYTES);
    put64(slot + SUP_FENCE, s->fence);
    put64(slot + SUP_SEGMENT, s->segment);
    put64(slot + SUP_OFFSET, s->offset);
    put64(slot + SUP_INDEX, s->index);
    put32(slot + SUP_CRC, crc32c(0, slot, SUP_CRC));
}

static bool slot_is_whole(const uint8_t *slot)
{
    return memcmp(slot + SUP_MAGIC, SUPERBLOCK_MAGIC, 8) == 0 && crc32c(0, slot, SUP_CRC) == get32(slot + SUP_CRC);
}

static void slot_decode(struct superblock *s, const uint8_t *slot)
{
    s->generation = get64(slot + SUP_GENERATION);
    memcpy(s->id, slot + SUP_ID, WAL_ID_BYTES);
    s->fence = get64(slot + SUP_FENCE);
    s->segment = get64(slot + SUP_SEGMENT);
    s->offset = get64(slot + SUP_OFFSET);
    s->index = get64(slot + SUP_INDEX);
}

static int superblock_create(struct superblock *s, int folder, const char *path, const struct wal_io *io, struct spur_error *err)
{
    uint8_t slots[2 * SUPERBLOCK_SLOT];
    int rc;

    if (getrandom(s->id, sizeof s->id, 0) != (ssize_t)sizeof s->id)
        return spur_fail(err, SPUR_EIO, "%s: the system gives no random bytes: %s", path, strerror(errno));
    s->generation = 1;
    slot_encode(s, slots);
    s->generation = 2;
    slot_encode(s, slots + SUPERBLOCK_SLOT);
    rc = s->fd = io->create(io->arg, folder, "superblock.tmp");
    if (rc >= 0)
        rc = wal_io_write(io, s->fd, "superblock.tmp", slots, sizeof slots, 0);
    if (rc == 0)
        rc = io->fdatasync(io->arg, s->fd, "superblock.tmp");
    if (rc == 0)
        rc = io->rename(io->arg, folder, "superblock.tmp", superblock_name);
    if (rc == 0)
        rc = io->sync_folder(io->arg, folder);
    if (rc < 0)
        return spur_fail(err, wal_io_is_full(rc) ? SPUR_ENOSPACE : SPUR_EIO, "%s/%s: can't be made: %s", path, superblock_name, strerror(-rc));
    return 0;
}

int superblock_open(struct superblock *s, int folder, const char *path, const struct wal_io *io, bool may_create, bool *created, struct spur_error *err)
{
    uint8_t slots[2 * SUPERBLOCK_SLOT];
    bool whole[2];
    ssize_t got;
    int newest;

    memset(s, 0, sizeof *s);
    *created = false;
    s->fd = openat(folder, superblock_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (s->fd < 0 && errno == ENOENT && may_create) {
        *created = true;
        return superblock_create(s, folder, path, io, err);
    }
    if (s->fd < 0)
        return spur_fail(err, errno == ENOENT ? SPUR_ECORRUPT : SPUR_EIO, "%s/%s: %s%s", path, superblock_name, strerror(errno),
                         errno == ENOENT ? ", but there is a log beside it: bring the file back from a backup" : "");
    memset(slots, 0, sizeof slots);
    got = wal_io_read(s->fd, slots, sizeof slots, 0);
    if (got < 0)
        return spur_fail(err, SPUR_EIO, "%s/%s: %s", path, superblock_name, strerror((int)-got));
    whole[0] = slot_is_whole(slots);
    whole[1] = slot_is_whole(slots + SUPERBLOCK_SLOT);
    if (!whole[0] && !whole[1])
        return spur_fail(err, SPUR_ECORRUPT, "%s/%s: both copies are damaged: bring the file back from a backup", path, superblock_name);
    newest = !whole[0] || (whole[1] && get64(slots + SUPERBLOCK_SLOT + SUP_GENERATION) > get64(slots + SUP_GENERATION));
    if (get32(slots + newest * SUPERBLOCK_SLOT + SUP_VERSION) != WAL_VERSION)
        return spur_fail(err, SPUR_EUNSUPPORTED, "%s/%s: written in format %u, this version reads format %d: use the newer version", path,
                         superblock_name, (unsigned)get32(slots + newest * SUPERBLOCK_SLOT + SUP_VERSION), WAL_VERSION);
    slot_decode(s, slots + newest * SUPERBLOCK_SLOT);
    if (!whole[!newest])
        s->fence++;
    /* The next write goes to the slot that is not `newest`: keep generation and slot number in step. */
    if ((int)((s->generation + 1) % 2) != newest)
        s->generation++;
    return 0;
}

int superblock_write(struct superblock *s, const struct wal_io *io, bool is_synced)
{
    uint8_t slot[SUPERBLOCK_SLOT];
    int rc;

    s->generation++;
    slot_encode(s, slot);
    rc = wal_io_write(io, s->fd, superblock_name, slot, sizeof slot, (s->generation + 1) % 2 * SUPERBLOCK_SLOT);
    if (rc == 0 && is_synced)
        rc = io->fdatasync(io->arg, s->fd, superblock_name);
    return rc;
}

void superblock_close(struct superblock *s)
{
    if (s->fd > 0)
        close(s->fd);
    s->fd = -1;
}
