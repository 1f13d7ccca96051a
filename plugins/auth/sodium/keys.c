/* SPDX-License-Identifier: Apache-2.0 */
/* keys.c - reads the key folder, and refuses what others could have read or written.
 *
 * A file is looked at (one stat) at each use and read again when it has changed, so a new host or a rotated key needs no restart. A
 * change that cannot be used (half written, loose mode) leaves the last good reading in force, and is said once.
 * Seeds pass through one buffer that is wiped; secret keys live in sodium_malloc memory, which is locked and left out of cores.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sodium.h>

#include "keys.h"

#define FILE_MAX (16u << 20)        /* about 100,000 hosts */

static const struct { const char *text; int role; } roles[] = {
    { "controller", SPUR_ROLE_CONTROLLER }, { "login", SPUR_ROLE_LOGIN }, { "compute", SPUR_ROLE_NODE }, { "token", SPUR_ROLE_TOKEN },
    { "revoked", KEY_REVOKED }, { "retired", KEY_RETIRED }, { "untoken", KEY_UNTOKEN } };

const char *key_role_text(int role)
{
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (roles[i].role == role)
            return roles[i].text;
    return "unknown";
}

static int role_parse(const char *text)
{
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (strcmp(roles[i].text, text) == 0)
            return roles[i].role;
    return SPUR_ROLE_NONE;
}

void key_ring_init(struct key_ring *r, const char *dir)
{
    memset(r, 0, sizeof *r);
    snprintf(r->own_file.path, sizeof r->own_file.path, "%s/host.key", dir);
    snprintf(r->hosts_file.path, sizeof r->hosts_file.path, "%s/hosts", dir);
    snprintf(r->joined_file.path, sizeof r->joined_file.path, "%s/hosts.joined", dir);
}

static void own_free(struct key_own *own, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sodium_free(own[i].secret);
    free(own);
}

static void hosts_free(struct key_host *hosts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(hosts[i].name);
    free(hosts);
}

void key_ring_fini(struct key_ring *r)
{
    own_free(r->own, r->own_count);
    hosts_free(r->hosts, r->host_count);
    memset(r, 0, sizeof *r);
}

/* ---- files ---------------------------------------------------------------------------------------------------------------- */

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size && a->st_mode == b->st_mode &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* Owner and mode, of the open file: what was checked is what is read. */
static int check_mode(const char *path, const struct stat *st, bool is_secret, struct spur_error *err)
{
    if (!S_ISREG(st->st_mode))
        return spur_fail(err, SPUR_EDENIED, "%s is no plain file", path);
    if (is_secret && st->st_uid != geteuid() && st->st_uid != 0)
        return spur_fail(err, SPUR_EDENIED, "%s belongs to user %u, not to root or to us (%u): chown it", path, (unsigned)st->st_uid, (unsigned)geteuid());
    if (is_secret && (st->st_mode & 077))
        return spur_fail(err, SPUR_EDENIED, "%s has mode %04o: others can reach a secret key: chmod 0600 it, and make a new key if they may have read it",
                         path, (unsigned)st->st_mode & 07777);
    if (st->st_mode & 022)
        return spur_fail(err, SPUR_EDENIED, "%s has mode %04o: others can write it: chmod go-w it and look whether its lines are right", path, (unsigned)st->st_mode & 07777);
    return 0;
}

/* The whole file, terminated; the caller wipes and frees. 1: as it was at the last reading. */
static int file_read(struct key_file *f, bool is_secret, char **out, size_t *out_len, struct spur_error *err)
{
    struct stat st;
    char *text;
    size_t n = 0;
    ssize_t got;
    int fd, rc;

    if (f->is_read && stat(f->path, &st) == 0 && is_same(&st, &f->seen))
        return 1;
    if ((fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)) < 0 || fstat(fd, &st) < 0) {
        rc = errno;
        if (fd >= 0)
            close(fd);
        return spur_fail(err, rc == ENOENT ? SPUR_ENOTFOUND : SPUR_EIO, "%s: %s%s", f->path, strerror(rc),
                         rc == ENOENT ? ": this host has no key: `spur cluster init` makes a cluster's, `spur join TOKEN` gets one in a cluster that runs" : "");
    }
    if ((rc = check_mode(f->path, &st, is_secret, err)) < 0) {
        close(fd);
        return rc;
    }
    if (st.st_size > FILE_MAX || !(text = malloc((size_t)st.st_size + 1))) {
        close(fd);
        return spur_fail(err, SPUR_ELIMIT, "%s is too long (%lld bytes)", f->path, (long long)st.st_size);
    }
    while (n < (size_t)st.st_size && (got = read(fd, text + n, (size_t)st.st_size - n)) > 0)
        n += (size_t)got;
    close(fd);
    text[n] = '\0';
    f->seen = st;
    f->is_read = true;
    *out = text;
    *out_len = n;
    return 0;
}

/* Next line with something in it, cut into its three words: 1; 0 at the end; negative: not three words. */
static int line_next(const char *path, char **cursor, unsigned *line, char *word[3], struct spur_error *err)
{
    char *at, *end, *save = NULL;

    while (*cursor && **cursor) {
        at = *cursor;
        end = strchr(at, '\n');
        *cursor = end ? end + 1 : NULL;
        if (end)
            *end = '\0';
        (*line)++;
        if ((end = strchr(at, '#')))
            *end = '\0';
        if (!(word[0] = strtok_r(at, " \t\r", &save)))
            continue;
        word[1] = strtok_r(NULL, " \t\r", &save);
        word[2] = word[1] ? strtok_r(NULL, " \t\r", &save) : NULL;
        if (!word[2] || strtok_r(NULL, " \t\r", &save))
            return spur_fail(err, SPUR_ESYNTAX, "%s:%u: not NAME ROLE KEY", path, *line);
        if (strlen(word[0]) > 63)
            return spur_fail(err, SPUR_ESYNTAX, "%s:%u: a host's name has at most 63 characters", path, *line);
        if (role_parse(word[1]) == SPUR_ROLE_NONE)
            return spur_fail(err, SPUR_ESYNTAX, "%s:%u: role '%.20s': controller, login or compute", path, *line, word[1]);
        return 1;
    }
    return 0;
}

/* 64 hex digits; a key of zeros is what a forgotten step leaves, never a key. */
static bool key_parse(const char *text, uint8_t out[32])
{
    size_t n;
    const char *end;

    return strlen(text) == 64 && sodium_hex2bin(out, 32, text, 64, NULL, &n, &end) == 0 && n == 32 && !*end && !sodium_is_zero(out, 32);
}

/* The last good reading stays; without one the failure is the caller's. */
static int keep_or_fail(bool has_old, int rc, struct spur_error *err)
{
    if (!has_old)
        return rc;
    spur_context(err, "kept as it was");
    return 0;
}

int key_own_refresh(struct key_ring *r, struct spur_error *err)
{
    struct key_own *list = NULL, *grown, k;
    size_t n = 0, len = 0;
    char *text = NULL, *cursor, *word[3];
    uint8_t seed[32];
    unsigned line = 0;
    int rc = file_read(&r->own_file, true, &text, &len, err);

    if (rc == 1)
        return 0;
    for (cursor = text; rc == 0 && (rc = line_next(r->own_file.path, &cursor, &line, word, err)) > 0;) {
        memset(&k, 0, sizeof k);
        snprintf(k.name, sizeof k.name, "%s", word[0]);
        k.role = (uint8_t)role_parse(word[1]);
        if (k.role >= KEY_REVOKED) {
            rc = spur_fail(err, SPUR_ESYNTAX, "%s:%u: role '%.20s' is of no host's own key", r->own_file.path, line, word[1]);
            break;
        }
        if (!key_parse(word[2], seed)) {
            rc = spur_fail(err, SPUR_ESYNTAX, "%s:%u: the key is not 64 hex digits", r->own_file.path, line);
            break;
        }
        if (!(k.secret = sodium_malloc(crypto_sign_SECRETKEYBYTES)) || !(grown = realloc(list, (n + 1) * sizeof *list))) {
            sodium_free(k.secret);
            rc = spur_fail(err, SPUR_ENOMEM, "%s: no locked memory for the key (RLIMIT_MEMLOCK?)", r->own_file.path);
            break;
        }
        list = grown;
        crypto_sign_seed_keypair(k.public_key, k.secret, seed);
        sodium_mprotect_readonly(k.secret);
        list[n++] = k;
        rc = 0;
    }
    sodium_memzero(seed, sizeof seed);
    if (text)
        sodium_memzero(text, len);
    free(text);
    if (rc == 0 && n == 0)
        rc = spur_fail(err, SPUR_ESYNTAX, "%s holds no key", r->own_file.path);
    if (rc < 0) {
        own_free(list, n);
        return keep_or_fail(r->own_count > 0, rc, err);
    }
    own_free(r->own, r->own_count);
    r->own = list;
    r->own_count = n;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct key_host *)a)->name, ((const struct key_host *)b)->name);
}

struct host_list { struct key_host *rows; size_t n, cap; };

static int hosts_read(struct key_file *f, struct host_list *l, struct spur_error *err)
{
    struct key_host k, *grown;
    size_t len = 0;
    char *text = NULL, *cursor, *word[3];
    unsigned line = 0;
    int rc;

    f->is_read = false;
    rc = file_read(f, false, &text, &len, err);
    for (cursor = text; rc == 0 && (rc = line_next(f->path, &cursor, &line, word, err)) > 0;) {
        k.role = (uint8_t)role_parse(word[1]);
        if (k.role == KEY_UNTOKEN) {
            memset(k.public_key, 0, sizeof k.public_key);
        } else if (!key_parse(word[2], k.public_key)) {
            rc = spur_fail(err, SPUR_ESYNTAX, "%s:%u: the key is not 64 hex digits", f->path, line);
            break;
        }
        if (l->n == l->cap) {
            l->cap = l->cap ? l->cap * 2 : 16;
            if (!(grown = realloc(l->rows, l->cap * sizeof *l->rows))) {
                rc = spur_fail(err, SPUR_ENOMEM, "%s: out of memory", f->path);
                break;
            }
            l->rows = grown;
        }
        if (!(k.name = strdup(word[0]))) {
            rc = spur_fail(err, SPUR_ENOMEM, "%s: out of memory", f->path);
            break;
        }
        l->rows[l->n++] = k;
        rc = 0;
    }
    free(text);
    return rc;
}

/* An absent hosts.joined is as good as an empty one. */
static bool is_changed(const struct key_file *f)
{
    static const struct stat none;
    struct stat st;

    if (!f->is_read)
        return true;
    return stat(f->path, &st) == 0 ? !is_same(&st, &f->seen) : !is_same(&none, &f->seen);
}

int key_hosts_refresh(struct key_ring *r, struct spur_error *err)
{
    struct host_list l = { 0 };
    struct spur_error joined = { 0 };
    int rc;

    if (!is_changed(&r->hosts_file) && !is_changed(&r->joined_file))
        return 0;
    rc = hosts_read(&r->hosts_file, &l, err);
    if (rc == 0 && l.n == 0)
        rc = spur_fail(err, SPUR_ESYNTAX, "%s names no host", r->hosts_file.path);
    if (rc == 0 && (rc = hosts_read(&r->joined_file, &l, &joined)) == SPUR_ENOTFOUND) {
        memset(&r->joined_file.seen, 0, sizeof r->joined_file.seen);
        r->joined_file.is_read = true;
        rc = 0;
    } else if (rc < 0 && joined.code && err) {
        *err = joined;
    }
    if (rc < 0) {
        hosts_free(l.rows, l.n);
        return keep_or_fail(r->host_count > 0, rc, err);
    }
    qsort(l.rows, l.n, sizeof *l.rows, by_name);
    hosts_free(r->hosts, r->host_count);
    r->hosts = l.rows;
    r->host_count = l.n;
    return 0;
}

/* Each election tells the same again; the disk need not hear it. */
static bool is_text_of(const char *path, const char *lines, size_t n)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    char *text = fd >= 0 ? malloc(n + 1) : NULL;
    bool same = text && read(fd, text, n + 1) == (ssize_t)n && memcmp(text, lines, n) == 0;

    if (fd >= 0)
        close(fd);
    free(text);
    return same;
}

int key_joined_write(struct key_ring *r, const char *lines, struct spur_error *err)
{
    char path[600];
    size_t n = strlen(lines);
    int fd, rc = 0;

    snprintf(path, sizeof path, "%s.new", r->joined_file.path);
    if (n == 0) {
        if (unlink(r->joined_file.path) < 0 && errno != ENOENT)
            rc = spur_fail(err, SPUR_EIO, "%s: %s", r->joined_file.path, strerror(errno));
        return rc;
    }
    if (is_text_of(r->joined_file.path, lines, n))
        return 0;
    unlink(path);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0 || fchmod(fd, 0644) < 0 || write(fd, lines, n) != (ssize_t)n || fsync(fd) < 0)
        rc = spur_fail(err, SPUR_EIO, "%s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    if (rc == 0 && rename(path, r->joined_file.path) < 0)
        rc = spur_fail(err, SPUR_EIO, "%s: %s", r->joined_file.path, strerror(errno));
    if (rc < 0)
        unlink(path);
    return rc;
}

/* ---- looking up ----------------------------------------------------------------------------------------------------------- */

const struct key_own *key_own_find(const struct key_ring *r, const char *name, int role)
{
    const struct key_own *found = NULL;

    for (size_t i = 0; i < r->own_count; i++) {
        if (*name && strcmp(r->own[i].name, name) != 0)
            continue;
        if (r->own[i].role == role)
            return &r->own[i];
        if (!found)
            found = &r->own[i];
    }
    return found;
}

const struct key_host *key_host_find(const struct key_ring *r, const char *name, size_t *n)
{
    size_t low = 0, high = r->host_count;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if (strcmp(r->hosts[mid].name, name) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    *n = 0;
    while (low + *n < r->host_count && strcmp(r->hosts[low + *n].name, name) == 0)
        ++*n;
    return r->hosts + low;
}

int key_barred(const struct key_ring *r, const char *name, const uint8_t public_key[32])
{
    size_t n;
    const struct key_host *h = key_host_find(r, name, &n);

    for (size_t i = 0; i < n; i++)
        if ((h[i].role == KEY_REVOKED || h[i].role == KEY_RETIRED) && memcmp(h[i].public_key, public_key, 32) == 0)
            return h[i].role;
    return 0;
}
