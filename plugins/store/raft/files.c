/* SPDX-License-Identifier: Apache-2.0 */
/* files.c - a thread for what takes long on the disk and decides nothing: snapshots brought to the disk, sent and received, old entries read back.
 *
 * A snapshot is sent as its data, chunk by chunk straight from the file, which is checked whole before its first byte goes out; the receiver writes
 * a file of its own with its own identity, so nothing of another folder's secrets travels. It is put in place like one of its own:
 * written aside, synced, renamed. A transfer that breaks goes on where the receiver is, as long as both sides still have the files.
 */
#include "raft.h"

#include <stdio.h>
#include <stdlib.h>

#define LOOK_MS 10                       /* how long the thread looks at a child before it looks at its jobs again */
#define CHUNK_BYTES (1u << 20)
#define LOAD_BYTES  (4u << 20)

void raft_job_free(struct job *j)
{
    if (!j)
        return;
    for (uint32_t i = 0; j->entries && i < j->count; i++)
        free((void *)j->entries[i].data);
    free(j->entries);
    free(j->data);
    free(j);
}

void files_put(struct store *s, struct job *j)
{
    pthread_mutex_lock(&s->jobs_lock);
    j->next = NULL;
    *s->jobs.end = j;
    s->jobs.end = &j->next;
    pthread_cond_signal(&s->jobs_wake);
    pthread_mutex_unlock(&s->jobs_lock);
}

/* ---- old entries ---- */

static int load_one(void *arg, const struct wal_record *r)
{
    struct job *j = arg;
    struct raft_entry *e = &j->entries[j->count];

    *e = (struct raft_entry){ .term = r->term, .index = r->index, .n = r->n,
                              .type = r->type == WAL_ENTRY ? RAFT_ENTRY_DATA : r->type == WAL_NOOP ? RAFT_ENTRY_NOOP : RAFT_ENTRY_MEMBERS };
    if (r->n) {
        void *copy = malloc(r->n);

        if (!copy)
            return SPUR_ENOMEM;
        memcpy(copy, r->data, r->n);
        e->data = copy;
    }
    j->count++;
    return 0;
}

static void job_load(struct store *s, struct job *j)
{
    uint32_t wanted = j->count;

    j->count = 0;
    if (!(j->entries = calloc(wanted, sizeof *j->entries)))
        return;
    wal_load(s->wal, j->first, wanted, LOAD_BYTES, load_one, j);
}

/* ---- snapshots ---- */

static void job_publish(struct store *s, struct job *j)
{
    struct snapfile_writer *w = j->writer;

    j->size = w->bytes;
    j->code = snapfile_publish(w, &j->why);
    if (j->code == 0)
        j->first = snapfile_trim(s->wal->folder, s->wal->config.io, 2);         /* the log stays since the older one: the newest may turn out damaged */
    free(w);
}

static void outgoing_close(struct store *s)
{
    if (!s->outgoing)
        return;
    snapfile_close(s->outgoing);
    free(s->outgoing);
    s->outgoing = NULL;
}

/* The newest whole snapshot, or the one a peer has a part of. */
static int outgoing_open(struct store *s, struct job *j)
{
    uint64_t indices[8];
    int n, rc = SPUR_ENOTFOUND;

    if (s->outgoing && j->index && s->outgoing->index == j->index)
        return 0;
    outgoing_close(s);
    n = snapfile_list(s->wal->folder, indices, 8);
    if (!(s->outgoing = malloc(sizeof *s->outgoing)))
        return spur_fail(&j->why, SPUR_ENOMEM, "out of memory");
    for (int i = 0; i < n && rc < 0; i++)
        if (!j->index || indices[i] == j->index)
            rc = snapfile_open(s->outgoing, s->wal->folder, s->path, s->wal->super.id, indices[i], &j->why);
    if (rc < 0) {
        free(s->outgoing);
        s->outgoing = NULL;
        return n > 0 && j->why.code ? rc : spur_fail(&j->why, SPUR_ENOTFOUND, "there is no snapshot of entry %llu any more", (unsigned long long)j->index);
    }
    return 0;
}

static void job_send(struct store *s, struct job *j)
{
    struct snapfile_reader *r;
    uint64_t left;
    ssize_t got;

    j->total = 0;
    if ((j->code = outgoing_open(s, j)) == SPUR_ENOTFOUND && j->index) {
        /* Gone meanwhile: the newest from its start. */
        j->index = j->offset = 0;
        j->why.code = 0;
        j->code = outgoing_open(s, j);
    }
    if (j->code < 0)
        return;
    r = s->outgoing;
    if (j->offset > r->bytes) {
        j->code = spur_fail(&j->why, SPUR_EINVAL, "a peer asks for byte %llu of a snapshot of %llu", (unsigned long long)j->offset, (unsigned long long)r->bytes);
        return;
    }
    left = r->bytes - j->offset;
    j->n = left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES;
    if (!(j->data = malloc(j->n ? j->n : 1))) {
        j->code = spur_fail(&j->why, SPUR_ENOMEM, "out of memory for a chunk of a snapshot");
        return;
    }
    got = wal_io_read(r->fd, j->data, j->n, WAL_HEADER_BYTES + j->offset);
    if (got != (ssize_t)j->n) {
        j->code = spur_fail(&j->why, SPUR_EIO, "the snapshot of entry %llu cannot be read at %llu", (unsigned long long)r->index, (unsigned long long)j->offset);
        outgoing_close(s);
        return;
    }
    j->index = r->index;
    j->term = r->term;
    j->total = r->bytes;
    j->is_last = j->offset + j->n == r->bytes;
    if (raft_members_unpack(&j->members, r->extra, r->extra_n) < 0)
        j->code = spur_fail(&j->why, SPUR_ECORRUPT, "the snapshot of entry %llu does not say who the members were", (unsigned long long)r->index);
    if (j->code < 0)
        j->total = 0;
}

static void incoming_drop(struct store *s)
{
    if (!s->incoming)
        return;
    snapfile_discard(s->incoming);
    free(s->incoming);
    s->incoming = NULL;
}

static int incoming_begin(struct store *s, struct job *j)
{
    uint8_t extra[SNAPFILE_EXTRA];
    size_t n = raft_members_pack(&j->members, extra, sizeof extra);
    int rc;

    incoming_drop(s);
    if (!(s->incoming = calloc(1, sizeof *s->incoming)))
        return spur_fail(&j->why, SPUR_ENOMEM, "out of memory for a snapshot");
    rc = snapfile_begin_as(s->incoming, "incoming.tmp", s->wal->folder, s->path, s->wal->config.io, s->wal->super.id, j->index, &j->why);
    if (rc == 0)
        rc = snapfile_stamp(s->incoming, j->term, extra, n, &j->why);
    s->incoming_index = j->index;
    s->incoming_term = j->term;
    s->incoming_members = j->members;
    return rc;
}

static void job_chunk(struct store *s, struct job *j)
{
    if (!j->offset)
        j->code = incoming_begin(s, j);
    else if (!s->incoming || s->incoming_index != j->index || s->incoming->bytes != j->offset)
        j->code = spur_fail(&j->why, SPUR_ESTALE, "a part of a snapshot does not follow the last one: asked for again");
    if (j->code == 0 && snapfile_write(s->incoming, j->data, j->n) < 0) {
        j->code = s->incoming->err.code;
        j->why = s->incoming->err;
    }
    if (j->code == 0 && j->is_last) {
        j->code = s->incoming->bytes == j->total ? snapfile_end(s->incoming, &j->why) :
                  spur_fail(&j->why, SPUR_ECORRUPT, "a snapshot of %llu bytes came with %llu", (unsigned long long)j->total, (unsigned long long)s->incoming->bytes);
        if (j->code == 0)
            j->code = snapfile_publish(s->incoming, &j->why);
        if (j->code == 0) {
            snapfile_trim(s->wal->folder, s->wal->config.io, 2);
            free(s->incoming);
            s->incoming = NULL;
        }
        j->members = s->incoming_members;
    }
    if (j->code < 0)
        incoming_drop(s);
}

/* A look at the child that writes a snapshot. True: it has ended, and its job can be done or has failed. */
static bool child_look(struct store *s)
{
    struct job *j = s->forked;
    int rc = snapfork_poll(&j->fork, LOOK_MS, &j->why);

    if (rc == 0)
        return false;
    s->forked = NULL;
    j->is_forked = false;
    j->code = rc < 0 ? rc : 0;
    if (rc < 0) {
        snapfile_discard(j->writer);
        free(j->writer);
    } else {
        job_publish(s, j);
    }
    return true;
}

static void job_done(struct store *s, struct job *j)
{
    j->next = NULL;
    *s->jobs_done.end = j;
    s->jobs_done.end = &j->next;
    raft_wake(s->wake_fd);
}

static void job_roster(struct store *s, struct job *j)
{
    j->code = roster_follow(s, j->index, &(struct roster){ .group = j->group, .former = j->former, .members = j->members }, &j->why);
}

void *files_main(void *arg)
{
    struct store *s = arg;

    pthread_mutex_lock(&s->jobs_lock);
    while (!s->files_stop || s->jobs.first) {
        struct job *j = s->jobs.first;

        if (!j && s->forked) {
            j = s->forked;
            pthread_mutex_unlock(&s->jobs_lock);
            if (!child_look(s))
                j = NULL;
            pthread_mutex_lock(&s->jobs_lock);
            if (j)
                job_done(s, j);
            continue;
        }
        if (!j) {
            pthread_cond_wait(&s->jobs_wake, &s->jobs_lock);
            continue;
        }
        if (!(s->jobs.first = j->next))
            s->jobs.end = &s->jobs.first;
        if (j->kind == JOB_PUBLISH && j->is_forked) {       /* the loop begins the next when this one is told: there is one at a time */
            s->forked = j;
            continue;
        }
        pthread_mutex_unlock(&s->jobs_lock);
        switch (j->kind) {
        case JOB_LOAD: job_load(s, j); break;
        case JOB_PUBLISH: job_publish(s, j); break;
        case JOB_SEND: job_send(s, j); break;
        case JOB_CHUNK: job_chunk(s, j); break;
        case JOB_ROSTER: job_roster(s, j); break;
        }
        pthread_mutex_lock(&s->jobs_lock);
        job_done(s, j);
    }
    pthread_mutex_unlock(&s->jobs_lock);
    if (s->forked) {
        snapfork_kill(&s->forked->fork);
        snapfile_discard(s->forked->writer);
        free(s->forked->writer);
        raft_job_free(s->forked);
        s->forked = NULL;
    }
    incoming_drop(s);
    outgoing_close(s);
    return NULL;
}
