/* SPDX-License-Identifier: Apache-2.0 */
/* wal_load.c - reads single entries back from a log that is being written: a peer needs what memory no longer has.
 *
 * A mark each 64 KiB says where an entry stands. Between two marks the records are walked; what lies there is live, because an entry that
 * replaces a tail removes the marks behind it and gets one of its own. The walk checks the chain, so a flipped bit ends it, and a file that
 * was cut off meanwhile does too: the caller then has less, or nothing, and falls back on a snapshot.
 */
#include "wal.h"

#include <stdlib.h>
#include <unistd.h>

#include "crc32c.h"
#include "wal_format.h"

#define MARK_BYTES (64u << 10)

/* Marks are an aid: without memory for one, the way from the one before is only longer. A mark that must go for a lower index does go. */
void wal_mark(struct wal *w, uint64_t index, uint64_t segment, uint64_t offset, uint32_t chain, uint64_t bytes)
{
    bool is_replaced = false;

    pthread_mutex_lock(&w->mark_lock);
    while (w->mark_count && w->marks[w->mark_count - 1].index >= index) {
        w->mark_count--;
        is_replaced = true;
    }
    /* A tail may be replaced without a mark in it: seen by the index that does not follow. */
    is_replaced |= index != w->marked_index + 1;
    w->marked_index = index;
    w->marked_at += bytes;
    if (!is_replaced && w->mark_count && w->marks[w->mark_count - 1].segment == segment && w->marked_at < MARK_BYTES) {
        pthread_mutex_unlock(&w->mark_lock);
        return;
    }
    if (w->mark_count == w->mark_room) {
        size_t room = w->mark_room ? 2 * w->mark_room : 64;
        struct wal_mark *bigger = realloc(w->marks, room * sizeof *bigger);

        if (!bigger) {
            w->mark_count = 0;          /* a replaced tail must not be found by an older mark */
            pthread_mutex_unlock(&w->mark_lock);
            return;
        }
        w->marks = bigger;
        w->mark_room = room;
    }
    w->marks[w->mark_count++] = (struct wal_mark){ .index = index, .segment = segment, .offset = offset, .chain = chain };
    w->marked_at = 0;
    pthread_mutex_unlock(&w->mark_lock);
}

void wal_mark_reset(struct wal *w)
{
    pthread_mutex_lock(&w->mark_lock);
    w->mark_count = 0;
    pthread_mutex_unlock(&w->mark_lock);
}

void wal_mark_forget(struct wal *w, uint64_t segment)
{
    size_t n = 0;

    pthread_mutex_lock(&w->mark_lock);
    while (n < w->mark_count && w->marks[n].segment < segment)
        n++;
    if (n) {
        memmove(w->marks, w->marks + n, (w->mark_count - n) * sizeof *w->marks);
        w->mark_count -= n;
    }
    pthread_mutex_unlock(&w->mark_lock);
}

/* The mark at or before `index`, and the index at which what follows it ends (0: at the end of the log). */
static bool mark_find(struct wal *w, uint64_t index, struct wal_mark *out, uint64_t *until)
{
    size_t low = 0, high;

    pthread_mutex_lock(&w->mark_lock);
    high = w->mark_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (w->marks[middle].index <= index)
            low = middle + 1;
        else
            high = middle;
    }
    if (low)
        *out = w->marks[low - 1];
    *until = low < w->mark_count ? w->marks[low].index : 0;
    pthread_mutex_unlock(&w->mark_lock);
    return low > 0;
}

/* One stretch between marks: entries from `first` on. Returns how many were visited. */
static long stretch_load(struct wal *w, const struct wal_mark *mark, uint64_t first, uint64_t end, uint64_t bytes_max, uint64_t *bytes, uint8_t **buffer, size_t *room,
                         int (*visit)(void *arg, const struct wal_record *record), void *arg)
{
    struct wal_segment s = { .sequence = mark->segment };
    uint64_t at = mark->offset, index = mark->index;
    uint32_t chain = mark->chain, crc;
    int fd = wal_segment_open(w, &s, NULL);
    long count = 0;

    while (fd >= 0 && index < end) {
        uint8_t head[WAL_HEAD_BYTES];
        struct wal_record r;
        size_t size;

        if (wal_io_read(fd, head, sizeof head, at) != (ssize_t)sizeof head || get32(head + REC_TYPE) == 0)
            break;
        r = (struct wal_record){ .type = get32(head + REC_TYPE), .n = get32(head + REC_LENGTH), .term = get64(head + REC_TERM), .index = get64(head + REC_INDEX) };
        if (r.n > w->config.segment_bytes && r.n > 1u << 30)
            break;
        size = (size_t)wal_record_bytes(r.n);
        if (size > *room) {
            uint8_t *bigger = realloc(*buffer, size);

            if (!bigger)
                break;
            *buffer = bigger;
            *room = size;
        }
        if (wal_io_read(fd, *buffer, size, at) != (ssize_t)size)
            break;
        crc = crc32c(chain, *buffer + 4, size - 4);
        if (crc != get32(*buffer + REC_CRC))
            break;
        chain = crc;
        at += size;
        if (!wal_is_entry(r.type))
            continue;
        if (r.index != index)
            break;
        index++;
        if (r.index < first)
            continue;
        r.data = *buffer + WAL_HEAD_BYTES;
        if (count && *bytes + r.n > bytes_max)
            break;
        *bytes += r.n;
        if (visit(arg, &r) < 0)
            break;
        count++;
    }
    if (fd >= 0)
        close(fd);
    return count;
}

long wal_load(struct wal *w, uint64_t first, uint64_t count, uint64_t bytes_max, int (*visit)(void *arg, const struct wal_record *record), void *arg)
{
    uint8_t *buffer = NULL;
    size_t room = 0;
    uint64_t bytes = 0, index = first;

    while (index < first + count && (index == first || bytes < bytes_max)) {
        struct wal_mark mark = { 0 };
        uint64_t until = 0, end = first + count;
        long got;

        if (!mark_find(w, index, &mark, &until))
            break;
        if (until && until < end)
            end = until;
        got = stretch_load(w, &mark, index, end, bytes_max, &bytes, &buffer, &room, visit, arg);
        index += (uint64_t)got;
        if (index < end)
            break;
    }
    free(buffer);
    return (long)(index - first);
}
