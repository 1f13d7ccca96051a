/* SPDX-License-Identifier: Apache-2.0 */
/* seen.c - two small files in the spool: "fence" (text) and "seen" (rows appended as they come, rewritten when most have expired). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/seen.h"
#include "base/str.h"
#include "rpc/folder.h"

#define SEEN_FILE  "seen"
#define FENCE_FILE "fence"
#define SEEN_MAX   (64u << 20)
#define REWRITE_AT 8192
#define PRUNE_AT   256

struct seen_row { uint32_t job_id, step_id, attempt, node; int64_t expires_wall_ms; };

static uint32_t place(const struct seen *s, uint32_t job_id, uint32_t step_id, uint32_t attempt, uint32_t node)
{
    uint64_t h = job_id * UINT64_C(0x9e3779b97f4a7c15) ^ step_id * UINT64_C(0xbf58476d1ce4e5b9) ^ attempt * UINT64_C(0x94d049bb133111eb) ^ node * UINT64_C(0x2545f4914f6cdd1d);

    h ^= h >> 29;
    return (uint32_t)(h * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (s->index_size - 1);
}

/* Slot of the row, or the empty slot where it belongs. Slots hold row number + 1. */
static uint32_t *slot_of(const struct seen *s, uint32_t job_id, uint32_t step_id, uint32_t attempt, uint32_t node)
{
    for (uint32_t i = place(s, job_id, step_id, attempt, node); ; i = (i + 1) & (s->index_size - 1)) {
        const struct seen_row *r = s->index[i] ? &s->rows[s->index[i] - 1] : NULL;

        if (!r || (r->job_id == job_id && r->step_id == step_id && r->attempt == attempt && r->node == node))
            return &s->index[i];
    }
}

static void reindex(struct seen *s, uint32_t size)
{
    free(s->index);
    s->index_size = size;
    s->index = mem_array(size, sizeof *s->index);
    for (uint32_t i = 0; i < s->count; i++)
        *slot_of(s, s->rows[i].job_id, s->rows[i].step_id, s->rows[i].attempt, s->rows[i].node) = i + 1;
}

static bool insert(struct seen *s, const struct seen_row *row)
{
    uint32_t *slot = slot_of(s, row->job_id, row->step_id, row->attempt, row->node);

    if (*slot) {
        if (row->expires_wall_ms > s->rows[*slot - 1].expires_wall_ms)
            s->rows[*slot - 1].expires_wall_ms = row->expires_wall_ms;
        return false;
    }
    if (s->count == s->room) {
        s->room = s->room ? s->room * 2 : 16;
        s->rows = mem_grow(s->rows, s->room, sizeof *s->rows);
    }
    s->rows[s->count++] = *row;
    *slot = s->count;
    if (s->count * 2 > s->index_size)
        reindex(s, s->index_size * 2);
    return true;
}

static void rewrite(struct seen *s)
{
    struct spur_error err = { 0 };

    if (s->folder_fd < 0)
        return;
    if (s->fd >= 0)
        close(s->fd);
    folder_write(s->folder_fd, SEEN_FILE, s->rows, s->count * sizeof *s->rows, 0600, false, &err);
    s->fd = openat(s->folder_fd, SEEN_FILE, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    s->appended = 0;
}

/* 21 bytes at the beginning, within one sector: there whole or not. */
static int fence_keep(const struct seen *s, uint64_t fence)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%020llu\n", (unsigned long long)fence);

    return pwrite(s->fence_fd, text, (size_t)n, 0) == n && fdatasync(s->fence_fd) == 0 ? 0 : -1;
}

int seen_open(struct seen *s, int folder_fd, int64_t now_wall_ms, struct spur_error *err)
{
    uint8_t *data = NULL;
    size_t n = 0;

    memset(s, 0, sizeof *s);
    s->folder_fd = folder_fd;
    s->fd = s->fence_fd = -1;
    reindex(s, 16);
    if (folder_fd < 0)
        return 0;
    if (folder_read(folder_fd, FENCE_FILE, 64, &data, &n, err) == 0 && n > 0) {
        data[n] = '\0';
        data[strcspn((char *)data, "\n")] = '\0';
        if (!number_u64((char *)data, &s->fence)) {
            free(data);
            return spur_fail(err, SPUR_ECORRUPT, "the file %s in the spool holds no number: remove it if no older controller may still launch here", FENCE_FILE);
        }
    }
    free(data);
    s->fence_fd = openat(folder_fd, FENCE_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->fence_fd < 0 || fence_keep(s, s->fence) < 0)
        return spur_fail(err, errno == ENOSPC ? SPUR_ENOSPACE : SPUR_EIO, "cannot write the file %s in the spool: %s", FENCE_FILE, strerror(errno));
    if (folder_read(folder_fd, SEEN_FILE, SEEN_MAX, &data, &n, err) == 0)
        for (size_t at = 0; at + sizeof(struct seen_row) <= n; at += sizeof(struct seen_row)) {
            struct seen_row row;

            memcpy(&row, data + at, sizeof row);
            if (row.expires_wall_ms > now_wall_ms)
                insert(s, &row);
        }
    free(data);
    s->loaded = s->count;
    rewrite(s);
    if (s->fd < 0)
        return spur_fail(err, SPUR_EIO, "cannot write the file %s in the spool: %s", SEEN_FILE, strerror(errno));
    return 0;
}

void seen_close(struct seen *s)
{
    if (s->fd >= 0)
        close(s->fd);
    if (s->fence_fd >= 0)
        close(s->fence_fd);
    free(s->rows);
    free(s->index);
    memset(s, 0, sizeof *s);
    s->fd = s->fence_fd = -1;
}

int seen_fence(struct seen *s, uint64_t fence, struct spur_error *err)
{
    if (fence < s->fence)
        return spur_fail(err, SPUR_ESTALE, "fencing number %llu is lower than %llu, which this node has seen: an old leader speaks",
                         (unsigned long long)fence, (unsigned long long)s->fence);
    if (fence == s->fence)
        return 0;
    if (s->fence_fd >= 0 && fence_keep(s, fence) < 0)
        return spur_fail(err, SPUR_EIO, "cannot keep the fencing number in the spool: %s", strerror(errno));
    s->fence = fence;
    return 0;
}

bool seen_has(const struct seen *s, uint32_t job_id, uint32_t step_id, uint32_t attempt, uint32_t node)
{
    return *slot_of(s, job_id, step_id, attempt, node) != 0;
}

bool seen_before(const struct seen *s, uint32_t job_id, uint32_t step_id, uint32_t attempt, uint32_t node)
{
    uint32_t slot = *slot_of(s, job_id, step_id, attempt, node);

    return slot && slot <= s->loaded;
}

void seen_add(struct seen *s, uint32_t job_id, uint32_t step_id, uint32_t attempt, uint32_t node, int64_t expires_wall_ms)
{
    struct seen_row row = { job_id, step_id, attempt, node, expires_wall_ms };

    if (insert(s, &row) && s->fd >= 0 && write(s->fd, &row, sizeof row) == sizeof row)
        s->appended++;
}

void seen_prune(struct seen *s, int64_t now_wall_ms)
{
    uint32_t kept = 0, loaded = 0, size = 16;

    if (s->count < PRUNE_AT || s->count < 2 * s->pruned)       /* only when it has doubled: the cost a row stays constant */
        return;
    for (uint32_t i = 0; i < s->count; i++)
        if (s->rows[i].expires_wall_ms > now_wall_ms) {
            loaded += i < s->loaded;
            s->rows[kept++] = s->rows[i];
        }
    s->count = s->pruned = kept;
    s->loaded = loaded;
    while (size < kept * 4)
        size *= 2;
    reindex(s, size);
    if (s->appended > REWRITE_AT)
        rewrite(s);
}
