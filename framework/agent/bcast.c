/* SPDX-License-Identifier: Apache-2.0 */
/* bcast.c - writes what sbcast sends; see bcast.h.
 *
 * Runs with the user's ids alone, so his own rights say where a file may be. A file is written beside its place under a name of chance, which nobody can
 * have made before (O_EXCL, no link is followed), gets its mode when its hash is right, and takes its place by a rename: a program that runs from the old
 * one goes on with it, and half a file is never seen. Without --force the rename is one that replaces nothing. The process ends with the connection, or
 * when nothing has come for two minutes, and then leaves no half file.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/bcast.h"
#include "agent/drop.h"
#include "base/str.h"
#include "client/callback.h"

#define SILENCE_MS 120000
#define READ_MAX   (1u << 20)

struct writer {
    const Wire__StepOrder *order;
    struct link link;
    uint64_t seq;
    int      fd;                    /* -1: no file is open */
    char    *path, *temporary;
    Wire__BcastFile file;
    uint64_t written;
    crypto_generichash_state hash;
};

static void say(struct writer *w, bool done, const char *error)
{
    Wire__BcastState s = WIRE__BCAST_STATE__INIT;
    struct spur_error err = { 0 };

    s.node = w->order->node;
    s.has_number = w->path != NULL;
    s.number = w->file.number;
    s.has_done = s.done = done;
    s.error = (char *)(uintptr_t)error;
    if (link_send(&w->link, WIRE__MESSAGE_TYPE__BCAST_STATE, ++w->seq, &s.base, &err) >= 0)
        link_flush(&w->link, &err);
}

static void file_forget(struct writer *w)
{
    if (w->fd >= 0) {
        close(w->fd);
        unlink(w->temporary);
    }
    w->fd = -1;
    free(w->path);
    free(w->temporary);
    w->path = w->temporary = NULL;
}

static void file_failed(struct writer *w, const char *what, int cause)
{
    char text[400];

    snprintf(text, sizeof text, "%s %.256s: %s", what, w->path, strerror(cause));
    if (w->fd >= 0) {
        close(w->fd);
        unlink(w->temporary);
    }
    w->fd = -1;
    say(w, false, text);
}

static void file_begin(struct writer *w, const Wire__BcastFile *f)
{
    struct str text;
    uint8_t chance[8];
    char *slash;

    file_forget(w);
    w->file = *f;
    w->file.path = w->file.work_dir = NULL;
    str_init(&text);
    if (f->path[0] != '/')
        str_addf(&text, "%s/", f->work_dir && *f->work_dir ? f->work_dir : "/tmp");
    str_add(&text, f->path);
    w->path = str_take(&text);
    slash = strrchr(w->path, '/');
    if (f->make_folder && slash && slash > w->path) {
        *slash = '\0';
        if (mkdir(w->path, 0700) < 0 && errno != EEXIST) {
            int cause = errno;

            *slash = '/';
            file_failed(w, "cannot make the folder of", cause);
            return;
        }
        *slash = '/';
    }
    randombytes_buf(chance, sizeof chance);
    str_init(&text);
    str_addf(&text, "%.*s.sbcast.", slash ? (int)(slash + 1 - w->path) : 0, w->path);
    for (size_t i = 0; i < sizeof chance; i++)
        str_addf(&text, "%02x", chance[i]);
    w->temporary = str_take(&text);
    w->written = 0;
    crypto_generichash_init(&w->hash, NULL, 0, 32);
    if (!f->force && faccessat(AT_FDCWD, w->path, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
        file_failed(w, "cannot create", EEXIST);
        return;
    }
    w->fd = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (w->fd < 0)
        file_failed(w, "cannot create", errno);
}

static int rename_without_replacing(const char *from, const char *to)
{
    if (syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 1u) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    if (link(from, to) < 0)             /* a file system without that: a second name fails where there is a first one */
        return -1;
    return unlink(from);
}

static void file_end(struct writer *w, const Wire__BcastPart *p)
{
    struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_nsec = UTIME_OMIT } };
    uint8_t hash[32];

    crypto_generichash_final(&w->hash, hash, sizeof hash);
    if (p->hash.len != sizeof hash || memcmp(hash, p->hash.data, sizeof hash) || w->written != w->file.size) {
        char text[300];

        snprintf(text, sizeof text, "%.200s: what has come is not what was sent; is the file being changed?", w->path);
        close(w->fd);
        unlink(w->temporary);
        w->fd = -1;
        say(w, false, text);
        return;
    }
    if (w->file.has_mtime_ns)
        times[1] = (struct timespec){ .tv_sec = w->file.mtime_ns / 1000000000, .tv_nsec = w->file.mtime_ns % 1000000000 };
    if (w->file.has_atime_ns)
        times[0] = (struct timespec){ .tv_sec = w->file.atime_ns / 1000000000, .tv_nsec = w->file.atime_ns % 1000000000 };
    if (fchmod(w->fd, w->file.mode & 0777) < 0 || futimens(w->fd, times) < 0) {
        file_failed(w, "cannot set the mode of", errno);
        return;
    }
    if ((w->file.force ? rename(w->temporary, w->path) : rename_without_replacing(w->temporary, w->path)) < 0) {
        file_failed(w, "cannot create", errno);
        return;
    }
    close(w->fd);
    w->fd = -1;
    say(w, true, NULL);
}

static void file_part(struct writer *w, const Wire__BcastPart *p)
{
    if (w->fd < 0)
        return;                         /* it has failed, and that is said */
    for (size_t at = 0; at < p->data.len; ) {
        ssize_t n = write(w->fd, p->data.data + at, p->data.len - at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            file_failed(w, "cannot write", errno);
            return;
        }
        at += (size_t)n;
    }
    w->written += p->data.len;
    crypto_generichash_update(&w->hash, p->data.data, p->data.len);
    if (p->last)
        file_end(w, p);
}

static bool take_message(struct writer *w, const struct frame *f, const uint8_t *body)
{
    bool fine = false;

    if (f->type == WIRE__MESSAGE_TYPE__BCAST_FILE) {
        Wire__BcastFile *file = wire__bcast_file__unpack(NULL, f->length, body);

        if ((fine = file != NULL))
            file_begin(w, file);
        wire__bcast_file__free_unpacked(file, NULL);
    } else if (f->type == WIRE__MESSAGE_TYPE__BCAST_PART) {
        Wire__BcastPart *part = wire__bcast_part__unpack(NULL, f->length, body);

        if ((fine = part != NULL))
            file_part(w, part);
        wire__bcast_part__free_unpacked(part, NULL);
    }
    return fine;
}

static bool dial(struct writer *w)
{
    const Wire__Credential *c = w->order->grant;
    struct spur_error err = { 0 };
    char *hosts = mem_copy(c->io_host), *next = hosts;
    bool there = false;

    while (!there && callback_next(&w->link, &next, c->io_port, w->order->cluster, c->io_key.data, &err) == 0) {
        struct pollfd p = { .fd = w->link.fd, .events = POLLOUT };

        there = poll(&p, 1, CALLBACK_MS) > 0 && callback_connected(&w->link, &err) == 0;
    }
    free(hosts);
    return there;
}

int bcast_run(const Wire__StepOrder *order)
{
    struct writer w = { .order = order, .link = { .fd = -1 }, .fd = -1 };
    const Wire__Credential *c = order->grant;
    gid_t *groups = mem_array(c->n_groups + 1, sizeof *groups);
    struct drop drop = { .uid = c->uid, .gid = c->gid, .groups = groups, .group_count = c->n_groups };
    struct spur_error err = { 0 };
    bool greeted = false;
    int rc = 0;

    for (size_t i = 0; i < c->n_groups; i++)
        groups[i] = c->groups[i];
    prctl(PR_SET_NAME, "spur-sbcast");
    if (drop_become(&drop, &err) < 0 || sodium_init() < 0)
        return 1;
    umask(077);
    if (c->io_key.len != 32 || !c->io_host || !dial(&w))
        return 1;
    while (rc >= 0) {
        struct pollfd p = { .fd = w.link.fd, .events = (short)(POLLIN | (link_backlog(&w.link) ? POLLOUT : 0)) };
        const uint8_t *body;
        struct frame f;

        if ((rc = link_flush(&w.link, &err)) < 0)
            break;
        p.events = (short)(POLLIN | (link_backlog(&w.link) ? POLLOUT : 0));
        if (poll(&p, 1, SILENCE_MS) <= 0)
            break;
        rc = link_read(&w.link, READ_MAX, &err);
        for (int got = 1; got > 0; ) {
            if ((got = link_next(&w.link, &f, &body, &err)) > 0 && !take_message(&w, &f, body))
                got = -1;
            rc = got < 0 ? got : rc;
        }
        if (!greeted && channel_want(w.link.channel) == CHANNEL_READY) {
            greeted = true;
            say(&w, false, NULL);
        }
    }
    file_forget(&w);
    link_close(&w.link);
    free(groups);
    return 0;
}
