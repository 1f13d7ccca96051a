/* SPDX-License-Identifier: Apache-2.0 */
/* local.h - the way into store/local for its tests: sizes that options do not offer, and file operations of one's own. */
#ifndef STORE_LOCAL_H
#define STORE_LOCAL_H

#include <spur/store.h>

#include "wal_io.h"

struct local_config {
    const char *path;
    uint64_t segment_bytes, snapshot_bytes;
    bool     is_synced;
    const struct wal_io *io;    /* NULL: the system's */
    const char *recover_at;     /* see wal.h; copied */
};

int local_create(const struct spur_host *host, const struct local_config *config, void **self, struct spur_error *err);
extern const struct spur_store_ops local_ops;

#endif
