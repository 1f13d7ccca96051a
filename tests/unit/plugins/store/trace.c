/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c - the recording table of file operations, and images of crashed folders. */
#include "trace.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixture.h"

static struct op *op_add(struct trace *t, enum op_kind kind, const char *name, const char *to)
{
    struct op *op;

    if (t->count == t->room) {
        t->room = t->room ? 2 * t->room : 256;
        t->ops = realloc(t->ops, t->room * sizeof *t->ops);
        ck_assert_ptr_nonnull(t->ops);
    }
    op = &t->ops[t->count++];
    memset(op, 0, sizeof *op);
    op->kind = kind;
    snprintf(op->name, sizeof op->name, "%s", name);
    snprintf(op->to, sizeof op->to, "%s", to ? to : "");
    op->acknowledged = t->acknowledged;
    op->fence = t->fence;
    return op;
}

/* 0, or the errno that this call shall fail with. */
static int fault(struct trace *t, bool is_sync)
{
    if (t->fails_sync_only && !is_sync)
        return 0;
    t->calls++;
    if (t->fail_at && (t->calls == t->fail_at || (t->stays && t->calls > t->fail_at)))
        return -t->fail_with;
    return 0;
}

static int do_create(void *arg, int folder, const char *name)
{
    int rc = fault(arg, false);

    if (rc == 0)
        rc = wal_io_system.create(NULL, folder, name);
    if (rc >= 0)
        op_add(arg, OP_CREATE, name, NULL);
    return rc;
}

static int do_allocate(void *arg, int fd, const char *name, uint64_t size)
{
    struct trace *t = arg;
    int rc = fault(t, false);

    if (rc == 0 && size > t->space)
        rc = -ENOSPC;
    if (rc == 0 && t->space != UINT64_MAX)
        t->space -= size;
    if (rc == 0)
        rc = wal_io_system.allocate(NULL, fd, name, size);
    if (rc >= 0)
        op_add(t, OP_ALLOCATE, name, NULL)->at = size;
    return rc;
}

static ssize_t do_pwrite(void *arg, int fd, const char *name, const void *data, size_t n, uint64_t at)
{
    struct trace *t = arg;
    struct op *op;
    ssize_t rc = fault(t, false);

    if (rc < 0 && t->half_write && n > 1)
        n /= 2;
    else if (rc < 0)
        return rc;
    if (at >= t->file_limit)
        return -EFBIG;
    if (at + n > t->file_limit)
        n = (size_t)(t->file_limit - at);
    op = op_add(t, OP_WRITE, name, NULL);
    op->at = at;
    op->n = n;
    op->data = malloc(n);
    memcpy(op->data, data, n);
    if (wal_io_system.pwrite(NULL, fd, name, data, n, at) != (ssize_t)n)
        abort();
    return rc < 0 ? rc : (ssize_t)n;
}

static int do_fdatasync(void *arg, int fd, const char *name)
{
    int rc = fault(arg, true);

    (void)fd;
    if (rc == 0)
        op_add(arg, OP_SYNC, name, NULL);
    return rc;
}

static int do_rename(void *arg, int folder, const char *from, const char *to)
{
    int rc = fault(arg, false);

    if (rc == 0)
        rc = wal_io_system.rename(NULL, folder, from, to);
    if (rc >= 0)
        op_add(arg, OP_RENAME, from, to);
    return rc;
}

static int do_unlink(void *arg, int folder, const char *name)
{
    int rc = wal_io_system.unlink(NULL, folder, name);

    if (rc >= 0)
        op_add(arg, OP_UNLINK, name, NULL);
    return rc;
}

static int do_sync_folder(void *arg, int folder)
{
    int rc = fault(arg, false);

    (void)folder;
    if (rc == 0)
        op_add(arg, OP_SYNC_FOLDER, "", NULL);
    return rc;
}

/* One call at a time: the order in the record is the order on the disk. */
#define TRACED(ret, name, params, args) \
    static ret traced_##name params \
    { \
        struct trace *locked = arg; \
        ret rc; \
        pthread_mutex_lock(&locked->lock); \
        rc = do_##name args; \
        pthread_mutex_unlock(&locked->lock); \
        return rc; \
    }
TRACED(int, create, (void *arg, int folder, const char *name), (arg, folder, name))
TRACED(int, allocate, (void *arg, int fd, const char *name, uint64_t size), (arg, fd, name, size))
TRACED(ssize_t, pwrite, (void *arg, int fd, const char *name, const void *data, size_t n, uint64_t at), (arg, fd, name, data, n, at))
TRACED(int, fdatasync, (void *arg, int fd, const char *name), (arg, fd, name))
TRACED(int, rename, (void *arg, int folder, const char *from, const char *to), (arg, folder, from, to))
TRACED(int, unlink, (void *arg, int folder, const char *name), (arg, folder, name))
TRACED(int, sync_folder, (void *arg, int folder), (arg, folder))

void trace_told(struct trace *t, uint64_t acknowledged, uint64_t fence)
{
    pthread_mutex_lock(&t->lock);
    t->acknowledged = acknowledged;
    t->fence = fence;
    pthread_mutex_unlock(&t->lock);
}

void trace_init(struct trace *t)
{
    memset(t, 0, sizeof *t);
    t->space = t->file_limit = UINT64_MAX;
    pthread_mutex_init(&t->lock, NULL);
    t->io = (struct wal_io){ .arg = t, .create = traced_create, .allocate = traced_allocate, .pwrite = traced_pwrite, .fdatasync = traced_fdatasync,
                             .rename = traced_rename, .unlink = traced_unlink, .sync_folder = traced_sync_folder };
}

void trace_fini(struct trace *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->ops[i].data);
    free(t->ops);
    memset(t, 0, sizeof *t);
}

/* ---- images ---- */

struct image_file *image_file(struct image *m, const char *name)
{
    for (size_t i = 0; i < m->count; i++)
        if (strcmp(m->files[i].name, name) == 0)
            return &m->files[i];
    return NULL;
}

static void file_size(struct image_file *f, size_t size)
{
    if (size <= f->size)
        return;
    f->data = realloc(f->data, size);
    memset(f->data + f->size, 0, size - f->size);
    f->size = size;
}

static struct image_file *file_new(struct image *m, const char *name)
{
    struct image_file *f = image_file(m, name);

    if (!f) {
        ck_assert_uint_lt(m->count, IMAGE_FILES);
        f = &m->files[m->count++];
        memset(f, 0, sizeof *f);
        snprintf(f->name, sizeof f->name, "%s", name);
    }
    free(f->data);
    f->data = NULL;
    f->size = 0;
    return f;
}

static void file_drop(struct image *m, const char *name)
{
    struct image_file *f = image_file(m, name);

    if (!f)
        return;
    free(f->data);
    *f = m->files[--m->count];
}

static void op_apply(struct image *m, const struct op *op, size_t n)
{
    struct image_file *f;

    switch (op->kind) {
    case OP_CREATE:
        file_new(m, op->name);
        break;
    case OP_ALLOCATE:
        file_size(image_file(m, op->name), op->at);
        break;
    case OP_WRITE:
        f = image_file(m, op->name);
        file_size(f, op->at + n);
        if (n)
            memcpy(f->data + op->at, op->data, n);
        break;
    case OP_RENAME:
        file_drop(m, op->to);
        f = image_file(m, op->name);
        snprintf(f->name, sizeof f->name, "%s", op->to);
        break;
    case OP_UNLINK:
        file_drop(m, op->name);
        break;
    case OP_SYNC:
    case OP_SYNC_FOLDER:
        break;
    }
}

void image_after(struct image *m, const struct trace *t, size_t n, size_t torn)
{
    memset(m, 0, sizeof *m);
    for (size_t i = 0; i < n; i++)
        op_apply(m, &t->ops[i], t->ops[i].n);
    if (n < t->count && t->ops[n].kind == OP_WRITE && torn)
        op_apply(m, &t->ops[n], torn);
}

/* Does the file that op i writes to get synced by an op in (i, n)? Follows its name through renames. */
static bool is_synced(const struct trace *t, size_t i, size_t n)
{
    char name[40];

    snprintf(name, sizeof name, "%s", t->ops[i].name);
    for (size_t k = i + 1; k < n; k++) {
        const struct op *op = &t->ops[k];

        if (op->kind == OP_SYNC && strcmp(op->name, name) == 0)
            return true;
        if (op->kind == OP_RENAME && strcmp(op->name, name) == 0)
            snprintf(name, sizeof name, "%s", op->to);
    }
    return false;
}

/* Who decides what survives: all or none, the seed, or one bit a sector. */
struct pick { int how; uint64_t *seed; bool is_exact; uint64_t kept; unsigned asked; };

static bool is_kept(struct pick *p)
{
    if (p->is_exact)
        return p->kept >> (p->asked++ & 63) & 1;
    return p->how > 0 || (p->how < 0 && random_next(p->seed) % 2);
}

static void write_sectors(struct image *m, const struct op *op, struct pick *pick)
{
    struct image_file *f = image_file(m, op->name);

    file_size(f, op->at + op->n);
    for (uint64_t at = op->at; at < op->at + op->n; ) {
        uint64_t end = (at / 512 + 1) * 512 < op->at + op->n ? (at / 512 + 1) * 512 : op->at + op->n;

        if (is_kept(pick))
            memcpy(f->data + at, op->data + (at - op->at), end - at);
        at = end;
    }
}

/* Changes of names since the last sync of the folder, which is op *synced. */
static size_t names_open(const struct trace *t, size_t n, size_t *synced)
{
    size_t names = 0;

    *synced = 0;
    for (size_t i = 0; i < n; i++)
        if (t->ops[i].kind == OP_SYNC_FOLDER)
            *synced = i;
    for (size_t i = *synced; i < n; i++)
        names += t->ops[i].kind == OP_RENAME || t->ops[i].kind == OP_UNLINK;
    return names;
}

static void power_cut(struct image *m, const struct trace *t, size_t n, struct pick *pick, size_t kept)
{
    size_t synced, names = names_open(t, n, &synced);
    struct image whole = { .count = 0 };

    /* Contents are built under the names as the process saw them; afterwards each file gets the name that the disk knows it by. A file
     * keeps its own name while it is built, so two images run side by side: one with all renames, to find files, one as the disk has it. */
    memset(m, 0, sizeof *m);
    for (size_t i = 0; i < n; i++) {
        const struct op *op = &t->ops[i];

        if (op->kind == OP_WRITE && !is_synced(t, i, n))
            write_sectors(&whole, op, pick);
        else
            op_apply(&whole, op, op->n);
    }
    /* Undo the name changes that were lost, newest first. */
    for (size_t i = n, lost = names - kept; i-- > synced && lost > 0; ) {
        const struct op *op = &t->ops[i];

        if (op->kind == OP_RENAME) {
            struct image_file *f = image_file(&whole, op->to);

            if (f)
                snprintf(f->name, sizeof f->name, "%s", op->name);
            lost--;
        } else if (op->kind == OP_UNLINK) {
            lost--;             /* a file that is back: cut-off log pieces and left-overs are whole and may stay away too */
        }
    }
    *m = whole;
}

/* Names: those before the last sync of the folder, and a prefix of the changes since. */
void image_power_cut(struct image *m, const struct trace *t, size_t n, uint64_t *seed, int how)
{
    size_t synced, names = names_open(t, n, &synced);

    power_cut(m, t, n, &(struct pick){ .how = how, .seed = seed }, how == 0 ? 0 : how > 0 ? names : random_next(seed) % (names + 1));
}

void image_power_cut_at(struct image *m, const struct trace *t, size_t n, uint64_t kept, size_t names)
{
    power_cut(m, t, n, &(struct pick){ .is_exact = true, .kept = kept }, names);
}

void image_choices(const struct trace *t, size_t n, size_t *sectors, size_t *names)
{
    size_t synced;

    *sectors = 0;
    *names = names_open(t, n, &synced);
    for (size_t i = 0; i < n; i++)
        if (t->ops[i].kind == OP_WRITE && t->ops[i].n && !is_synced(t, i, n))
            *sectors += (t->ops[i].at + t->ops[i].n - 1) / 512 - t->ops[i].at / 512 + 1;
}

void image_read(struct image *m, const char *folder)
{
    DIR *d = opendir(folder);
    struct dirent *e;

    memset(m, 0, sizeof *m);
    ck_assert_ptr_nonnull(d);
    while ((e = readdir(d))) {
        struct image_file *f;
        struct stat st;
        int fd;

        if (e->d_name[0] == '.' || strcmp(e->d_name, "lock") == 0)
            continue;
        fd = openat(dirfd(d), e->d_name, O_RDONLY);
        ck_assert(fd >= 0 && fstat(fd, &st) == 0);
        f = file_new(m, e->d_name);
        file_size(f, (size_t)st.st_size);
        ck_assert(read(fd, f->data, f->size) == (ssize_t)f->size);
        close(fd);
    }
    closedir(d);
}

void image_write(const struct image *m, const char *folder)
{
    int dir;

    folder_remove(folder);
    ck_assert_int_eq(mkdir(folder, 0700), 0);
    dir = open(folder, O_RDONLY | O_DIRECTORY);
    for (size_t i = 0; i < m->count; i++) {
        int fd = openat(dir, m->files[i].name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

        ck_assert(fd >= 0 && write(fd, m->files[i].data, m->files[i].size) == (ssize_t)m->files[i].size);
        close(fd);
    }
    close(dir);
}

void image_fini(struct image *m)
{
    for (size_t i = 0; i < m->count; i++)
        free(m->files[i].data);
    m->count = 0;
}
