/* SPDX-License-Identifier: Apache-2.0 */
/* spool.c - the file "reports" in the agent's spool.
 *
 * Record: u32 magic | u32 length | u64 checksum (first 8 bytes of BLAKE2b over the packed report) | packed Report. Written at once, flushed in
 * groups on libuv's pool: while one flush runs, the next reports gather for the one after it, so hundreds of jobs that end together cost
 * two flushes. A supervisor is acknowledged only after the flush that covers its report. Damage before the tail would mean the disk
 * lies; reading stops there too, is logged by the caller, and the steps' own state files fill the gap.
 */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/spool.h"
#include "base/str.h"
#include "rpc/folder.h"

#define SPOOL_FILE "reports"
#define SPOOL_MAX  (256u << 20)
#define RECORD_MAGIC 0x53504c31u
#define RETRY_MS 1000

struct record_head { uint32_t magic, len; uint64_t check; };

struct spool {
    uv_loop_t *loop;
    int      folder_fd, fd;
    uint64_t next_seq;
    struct spooled *first, **last;
    size_t   count, dropped;
    off_t    size;
    bool     flushing, wanted, behind;      /* behind: a write has failed; records from `unwritten` on are not in the file */
    uint64_t flush_upto, written_upto;
    uv_work_t work;
    uv_timer_t *retry;
    int      flush_errno;
    bool     closing;
};

static uint64_t check_of(const void *data, size_t n)
{
    uint8_t hash[16];
    uint64_t sum;

    crypto_generichash(hash, sizeof hash, data, n, NULL, 0);
    memcpy(&sum, hash, sizeof sum);
    return sum;
}

static void free_one(struct spooled *e)
{
    free(e->node);
    free(e->bytes);
    free(e);
}

static struct spooled *keep(struct spool *s, const Wire__Report *r)
{
    struct spooled *e = mem_alloc(sizeof *e);

    e->seq = r->seq;
    e->node = mem_copy(r->node);
    e->len = wire__report__get_packed_size(r);
    e->bytes = mem_alloc(e->len + 1);
    wire__report__pack(r, e->bytes);
    *s->last = e;
    s->last = &e->next;
    s->count++;
    return e;
}

/* ---- at start ---- */

static void recover(struct spool *s, const uint8_t *data, size_t n)
{
    struct record_head h;
    size_t at = 0;

    while (at + sizeof h <= n) {
        Wire__Report *r;
        struct spooled *e;

        memcpy(&h, data + at, sizeof h);
        if (h.magic != RECORD_MAGIC || h.len > n - at - sizeof h || check_of(data + at + sizeof h, h.len) != h.check)
            break;
        if (!(r = wire__report__unpack(NULL, h.len, data + at + sizeof h)))
            break;
        if (r->seq >= s->next_seq)
            s->next_seq = r->seq + 1;
        e = keep(s, r);
        e->durable = true;
        wire__report__free_unpacked(r, NULL);
        at += sizeof h + h.len;
    }
    s->size = (off_t)at;
    s->dropped = n - at;
}

int spool_open(uv_loop_t *loop, int folder_fd, uint64_t now_wall_us, struct spool **out, struct spur_error *err)
{
    struct spool *s = mem_alloc(sizeof *s);
    uint8_t *data = NULL;
    size_t n = 0;
    int rc;

    s->loop = loop;
    s->folder_fd = folder_fd;
    s->fd = -1;
    s->last = &s->first;
    s->next_seq = now_wall_us + 1;
    *out = s;
    if (folder_fd < 0)
        return 0;
    rc = folder_read(folder_fd, SPOOL_FILE, SPOOL_MAX, &data, &n, err);
    if (rc < 0 && rc != SPUR_ENOTFOUND) {
        spool_close(s);
        return rc;
    }
    recover(s, data, n);
    free(data);
    s->fd = openat(folder_fd, SPOOL_FILE, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->fd < 0 || ftruncate(s->fd, s->size) < 0) {
        spool_close(s);
        return spur_fail(err, SPUR_EIO, "cannot write the file %s in the spool: %s", SPOOL_FILE, strerror(errno));
    }
    return 0;
}

static void settle(struct spooled *e)
{
    void (*then)(void *arg, uint64_t number) = e->then;

    e->then = NULL;
    if (then)
        then(e->arg, e->seq);
}

static void retry_closed(uv_handle_t *h) { free(h); }

void spool_close(struct spool *s)
{
    if (!s)
        return;
    s->closing = true;
    if (s->retry)
        uv_close((uv_handle_t *)s->retry, retry_closed);
    s->retry = NULL;
    if (s->flushing)
        return;                     /* the flush frees it */
    while (s->first) {
        struct spooled *e = s->first;

        s->first = e->next;
        e->seq = 0;                 /* not durable, and nobody will say so */
        settle(e);
        free_one(e);
    }
    if (s->fd >= 0)
        close(s->fd);
    free(s);
}

/* ---- writing ---- */

static bool write_record(struct spool *s, const struct spooled *e)
{
    struct record_head h = { .magic = RECORD_MAGIC, .len = (uint32_t)e->len, .check = check_of(e->bytes, e->len) };
    size_t n = sizeof h + e->len;
    uint8_t *buf = mem_alloc(n);
    ssize_t w;

    memcpy(buf, &h, sizeof h);
    memcpy(buf + sizeof h, e->bytes, e->len);
    w = pwrite(s->fd, buf, n, s->size);     /* a short write is written over by the next try */
    free(buf);
    if (w != (ssize_t)n)
        return false;
    s->size += (off_t)n;
    s->written_upto = e->seq;
    return true;
}

static void flush_begin(struct spool *s);

static void flush_work(uv_work_t *w)
{
    struct spool *s = w->data;

    s->flush_errno = fdatasync(s->fd) < 0 ? errno : 0;
}

static void write_rest(struct spool *s);

static void retry_now(uv_timer_t *t)
{
    write_rest(t->data);
}

static void retry_later(struct spool *s)
{
    if (!s->loop || s->closing)
        return;
    if (!s->retry) {
        s->retry = mem_alloc(sizeof *s->retry);
        uv_timer_init(s->loop, s->retry);
        s->retry->data = s;
    }
    uv_timer_start(s->retry, retry_now, RETRY_MS, 0);
}

static void flush_end(struct spool *s)
{
    s->flushing = false;
    if (s->closing) {
        spool_close(s);
        return;
    }
    if (s->flush_errno) {
        s->behind = true;
        retry_later(s);
        return;
    }
    for (struct spooled *e = s->first, *next; e; e = next) {
        next = e->next;
        if (!e->durable && e->seq <= s->flush_upto) {
            e->durable = true;
            settle(e);
        }
    }
    if (s->wanted && !s->flushing)      /* what was settled may have added a report, and that a flush: one work item is never queued twice */
        flush_begin(s);
}

static void flush_done(uv_work_t *w, int status)
{
    (void)status;
    flush_end(w->data);
}

static void flush_begin(struct spool *s)
{
    s->wanted = false;
    s->flush_upto = s->written_upto;
    s->flushing = true;
    if (!s->loop) {
        s->work.data = s;
        flush_work(&s->work);
        flush_end(s);
        return;
    }
    s->work.data = s;
    uv_queue_work(s->loop, &s->work, flush_work, flush_done);
}

/* Writes what is not in the file yet, in order, and has it flushed. */
static void write_rest(struct spool *s)
{
    bool any = false;

    for (struct spooled *e = s->first; e; e = e->next) {
        if (e->durable || e->acked || e->seq <= s->written_upto)
            continue;
        if (!write_record(s, e)) {
            s->behind = true;
            retry_later(s);
            break;
        }
        any = true;
    }
    if (!any && !s->behind)
        return;
    s->behind = false;
    if (s->flushing)
        s->wanted = true;
    else
        flush_begin(s);
}

const struct spooled *spool_add(struct spool *s, Wire__Report *r, void (*then)(void *arg, uint64_t number), void *arg)
{
    struct spooled *e;

    r->seq = s->next_seq++;
    e = keep(s, r);
    e->then = then;
    e->arg = arg;
    if (s->fd < 0) {
        e->durable = true;
        settle(e);
        return e;
    }
    write_rest(s);
    return e;
}

const struct spooled *spool_add_volatile(struct spool *s, Wire__Report *r)
{
    struct spooled *e;

    r->seq = s->next_seq++;
    e = keep(s, r);
    e->durable = e->in_memory = true;
    return e;
}

bool spool_acked(struct spool *s, uint64_t seq, Wire__Report **out)
{
    struct spooled **at = &s->first, *e;
    bool rest = false;

    while (*at && (*at)->seq != seq)
        at = &(*at)->next;
    if (!(e = *at))
        return false;
    *at = e->next;
    if (s->last == &e->next)
        s->last = at;
    s->count--;
    e->acked = true;
    if (out)
        *out = wire__report__unpack(NULL, e->len, e->bytes);
    settle(e);
    free_one(e);
    for (const struct spooled *o = s->first; o; o = o->next)
        if (!o->in_memory)
            rest = true;
    if (!rest && s->fd >= 0 && s->size > 0 && !s->flushing && ftruncate(s->fd, 0) == 0)
        s->size = 0;
    return true;
}

const struct spooled *spool_first(const struct spool *s) { return s->first; }
size_t spool_count(const struct spool *s) { return s->count; }
size_t spool_dropped(const struct spool *s) { return s->dropped; }
