/* SPDX-License-Identifier: Apache-2.0 */
/* blobs.c - scripts and environments by their BLAKE2b-256 hash, one file each in STATE/blobs, with the recent ones in memory.
 *
 * A blob rides in the entry of the job that names it first, so the log makes it durable; the file is written when the entry is applied and
 * synced before a snapshot cuts that part of the log. A file is dropped with the last job that names it; what a
 * crash left over goes at the next start (blobs_sweep).
 *
 * A submit whose script a living job names already need not carry it again: most submits bring what the one before brought, and a log that holds a
 * thousand copies of one environment is a slow log. A job that has not ended cannot be forgotten while the new entry is under way.
 */
#include "controller/ctl.h"
#include "rpc/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <unistd.h>

#define BLOBS_CACHE_BYTES (16u << 20)
#define BLOBS_MAX (64u << 20)
#define SWEEP_FILES 64             /* looked at in a turn of the loop */

struct blob { uint8_t hash[32]; uint8_t *data; size_t n; bool is_filed; uint32_t job_id; struct blob *newer, *older; };     /* is_filed: its file is there and whole */
/* unfiled: hashes whose file could not be written, as uint8_t[32]; sweep: the walk through the files after a start, NULL when it is over */
struct blobs { int dir; DIR *sweep; struct table cache, unfiled; struct blob *newest, *oldest; size_t bytes; };

static uint64_t blob_key(const uint8_t hash[32])
{
    uint64_t k;

    memcpy(&k, hash, sizeof k);
    return k ? k : 1;
}

static void blob_name(const uint8_t hash[32], char out[65]) { sodium_bin2hex(out, 65, hash, 32); }

static void blob_unlink(struct blobs *b, struct blob *x)
{
    if (x->newer) x->newer->older = x->older; else b->newest = x->older;
    if (x->older) x->older->newer = x->newer; else b->oldest = x->newer;
    x->newer = x->older = NULL;
}

static void blob_front(struct blobs *b, struct blob *x)
{
    x->older = b->newest;
    if (b->newest) b->newest->newer = x; else b->oldest = x;
    b->newest = x;
}

static void blob_drop(struct blobs *b, struct blob *x)
{
    blob_unlink(b, x);
    table_del(&b->cache, blob_key(x->hash));
    b->bytes -= x->n;
    free(x->data);
    free(x);
}

static struct blob *blob_cache(struct blobs *b, const uint8_t hash[32], uint8_t *take_data, size_t n)
{
    struct blob *x = table_get(&b->cache, blob_key(hash));

    if (x)
        blob_drop(b, x);
    x = mem_alloc(sizeof *x);
    memcpy(x->hash, hash, 32);
    x->data = take_data;
    x->n = n;
    table_put(&b->cache, blob_key(hash), x);
    blob_front(b, x);
    b->bytes += n;
    while (b->bytes > BLOBS_CACHE_BYTES && b->oldest != x)
        blob_drop(b, b->oldest);
    return x;
}

int blobs_create(struct ctl *c, struct spur_error *err)
{
    char path[1200];

    snprintf(path, sizeof path, "%s/blobs", c->state_dir);
    if (folder_make(path, 0700, err) < 0)
        return err->code;
    c->blobs = mem_alloc(sizeof *c->blobs);
    c->blobs->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (c->blobs->dir < 0)
        return spur_fail(err, SPUR_EIO, "%s: cannot open this folder: %s", path, strerror(errno));
    table_init(&c->blobs->cache);
    table_init(&c->blobs->unfiled);
    return 0;
}

void blobs_destroy(struct ctl *c)
{
    struct blobs *b = c->blobs;
    uint8_t *hash;

    if (!b)
        return;
    while (b->oldest)
        blob_drop(b, b->oldest);
    table_fini(&b->cache);
    for (size_t at = 0; (hash = table_next(&b->unfiled, &at)); )
        free(hash);
    table_fini(&b->unfiled);
    if (b->sweep)
        closedir(b->sweep);
    if (b->dir >= 0)
        close(b->dir);
    free(b);
    c->blobs = NULL;
}

/* The bytes of a file, checked against its name; NULL: not there or damaged. free() them. */
static uint8_t *blob_read(const struct blobs *b, const uint8_t hash[32], size_t *n)
{
    uint8_t check[32], *data;
    char name[65];

    blob_name(hash, name);
    if (folder_read(b->dir, name, BLOBS_MAX, &data, n, NULL) < 0)
        return NULL;
    crypto_generichash(check, 32, data, *n, NULL, 0);
    if (memcmp(check, hash, 32) == 0)
        return data;
    log_line(SPUR_LOG_ERROR, "blob %s is damaged: its hash differs", name);
    free(data);
    return NULL;
}

/* Failure to write is no loss yet: the log still has the bytes, and blobs_sync refuses the snapshot that would cut it. A file that is there
 * already may be half of one, left by a power cut before it was synced: it is read, and written again when it is not whole. */
static bool blob_write(const struct blobs *b, const uint8_t hash[32], const void *data, size_t n)
{
    char name[65];
    bool done;
    int fd;

    blob_name(hash, name);
    fd = openat(b->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST) {
        size_t there;
        uint8_t *old = blob_read(b, hash, &there);

        free(old);
        if (old)
            return true;
        unlinkat(b->dir, name, 0);
        fd = openat(b->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    }
    if (fd < 0)
        return false;
    done = write(fd, data, n) == (ssize_t)n;
    if (!done)
        unlinkat(b->dir, name, 0);
    close(fd);
    return done;
}

/* Most submits bring what the one before brought: then nothing is to be done. */
void blobs_put(struct ctl *c, const uint8_t hash[32], const void *data, size_t n)
{
    struct blob *x = table_get(&c->blobs->cache, blob_key(hash));

    if (x && x->is_filed && memcmp(x->hash, hash, 32) == 0) {
        blob_unlink(c->blobs, x);
        blob_front(c->blobs, x);
        return;
    }
    x = blob_cache(c->blobs, hash, mem_copy_bytes(data, n), n);
    x->is_filed = blob_write(c->blobs, hash, data, n);
    if (!x->is_filed && !table_get(&c->blobs->unfiled, blob_key(hash)))
        table_put(&c->blobs->unfiled, blob_key(hash), mem_copy_bytes(hash, 32));
}

const uint8_t *blobs_get(struct ctl *c, const uint8_t hash[32], size_t *n)
{
    struct blob *x = table_get(&c->blobs->cache, blob_key(hash));
    uint8_t *data;

    if (x && memcmp(x->hash, hash, 32) == 0) {
        blob_unlink(c->blobs, x);
        blob_front(c->blobs, x);
        *n = x->n;
        return x->data;
    }
    if (!(data = blob_read(c->blobs, hash, n)))
        return NULL;
    x = blob_cache(c->blobs, hash, data, *n);
    x->is_filed = true;
    return x->data;
}

void blobs_named(struct ctl *c, const uint8_t *hash, uint32_t job_id)
{
    struct blob *x = hash ? table_get(&c->blobs->cache, blob_key(hash)) : NULL;

    if (x && memcmp(x->hash, hash, 32) == 0)
        x->job_id = job_id;
}

bool blobs_is_kept(struct ctl *c, const uint8_t hash[32])
{
    struct blob *x = table_get(&c->blobs->cache, blob_key(hash));
    const struct job *j = x && x->is_filed && x->job_id && memcmp(x->hash, hash, 32) == 0 ? state_job(c->state, x->job_id) : NULL;

    return j && !job_state_is_end(j->state) &&
           ((j->has_script && memcmp(j->script_hash, hash, 32) == 0) || (j->has_env && memcmp(j->env_hash, hash, 32) == 0));
}

bool blobs_has(struct ctl *c, const uint8_t hash[32])
{
    struct blob *x = table_get(&c->blobs->cache, blob_key(hash));
    char name[65];

    if (x && memcmp(x->hash, hash, 32) == 0)
        return true;
    blob_name(hash, name);
    return faccessat(c->blobs->dir, name, F_OK, 0) == 0;
}

static bool blob_is_filed(struct blobs *b, const uint8_t hash[32])
{
    struct blob *x = table_get(&b->cache, blob_key(hash));
    char name[65];

    blob_name(hash, name);
    if (faccessat(b->dir, name, F_OK, 0) != 0 && x && memcmp(x->hash, hash, 32) == 0)
        x->is_filed = blob_write(b, hash, x->data, x->n);
    return faccessat(b->dir, name, F_OK, 0) == 0;
}

/* Not all that the state names is looked at: every file was there when its job was entered, but for these few, and those that another member still
 * has to send (fetch.c). In the store's child this runs beside the living controller, which may drop files meanwhile. */
int blobs_sync(struct ctl *c, struct spur_error *err)
{
    uint8_t *hash;
    int missing = 0;

    for (size_t at = 0; (hash = table_next(&c->blobs->unfiled, &at)); ) {
        if (!blob_is_filed(c->blobs, hash)) {
            missing++;
            continue;
        }
        table_del(&c->blobs->unfiled, blob_key(hash));
        free(hash);
    }
    if (missing)
        return spur_fail(err, SPUR_ENOSPACE, "%s/blobs: %d scripts could not be written; the log keeps them until they can", c->state_dir, missing);
    if (syncfs(c->blobs->dir) < 0)
        return spur_fail(err, SPUR_EIO, "%s/blobs: %s", c->state_dir, strerror(errno));
    return 0;
}

void blobs_drop(struct ctl *c, const uint8_t hash[32])
{
    struct blob *x = table_get(&c->blobs->cache, blob_key(hash));
    char name[65];

    if (x)
        blob_drop(c->blobs, x);
    free(table_del(&c->blobs->unfiled, blob_key(hash)));
    blob_name(hash, name);
    unlinkat(c->blobs->dir, name, 0);
}

/* A look at a few files: a start must not wait for a million. What is not named now is not needed by any later entry that does not bring it. */
void blobs_sweep(struct ctl *c)
{
    struct blobs *b = c->blobs;
    struct dirent *d;
    uint8_t hash[32];
    size_t n;

    for (int looked = 0; b && b->sweep && looked < SWEEP_FILES; looked++) {
        if (!(d = readdir(b->sweep))) {
            closedir(b->sweep);
            b->sweep = NULL;
        } else if (sodium_hex2bin(hash, 32, d->d_name, strlen(d->d_name), NULL, &n, NULL) == 0 && n == 32 && !state_blob_used(c->state, hash)) {
            unlinkat(b->dir, d->d_name, 0);
        }
    }
}

void blobs_sweep_start(struct ctl *c)
{
    int fd = openat(c->blobs->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0 && !(c->blobs->sweep = fdopendir(fd)))
        close(fd);
}
