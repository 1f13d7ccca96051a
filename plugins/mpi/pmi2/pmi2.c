/* SPDX-License-Identifier: Apache-2.0 */
/* pmi2.c - mpi/pmi2: the process management interface of MPICH and its kin (Intel MPI, MVAPICH), both generations of its wire, on the socket in PMI_FD.
 *
 * A rank's first request says which generation it speaks. Keys that ranks put are kept at once for those of this node; a fence (PMI-1: barrier) gives what
 * is new to all nodes and answers when every node has given. A fence wants the ranks that may still come to one: who has finalized, or never joined and ended, is not
 * waited for; who joined and went without finalize ends the step, for the others would wait for ever.
 * Values live as long as the step. Spawning ranks is refused in words: a step has the size it was given.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "inside.h"

/* ---- to a rank ---- */

void rank_say(struct pmi *p, struct rank *r, const char *text, size_t len)
{
    (void)p;
    while (len > 0 && !r->broken) {
        ssize_t n = send(r->fd, text, len, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {                    /* gone, or 200 KiB of answers that nobody reads */
            r->broken = true;
            r->cause = errno;
            return;
        }
        text += n;
        len -= (size_t)n;
    }
}

void rank_abort(struct pmi *p, struct rank *r, int exit_code, const char *text)
{
    char line[400];

    r->finalized = true;                /* its end is no second reason */
    snprintf(line, sizeof line, "rank %u: %.350s", r->global, text);
    line[strcspn(line, "\r\n")] = '\0';
    p->step->abort(p->step->ctx, exit_code, line);
}

/* ---- keys and fences ---- */

static int fresh_add(struct pmi *p, const char *text)
{
    size_t n = strlen(text) + 1;

    if (p->fresh_len + n > p->fresh_room) {
        size_t room = (p->fresh_len + n) * 2;
        char *grown = realloc(p->fresh, room);

        if (!grown)
            return SPUR_ENOMEM;
        p->fresh = grown;
        p->fresh_room = room;
    }
    memcpy(p->fresh + p->fresh_len, text, n);
    p->fresh_len += n;
    return 0;
}

int rank_put(struct pmi *p, const char *key, const char *value)
{
    if (!*key || strlen(key) > KVS_KEY_MAX || strlen(value) > KVS_VALUE_MAX)
        return SPUR_EINVAL;
    if (kvs_put(&p->kvs, key, value) < 0 || fresh_add(p, key) < 0 || fresh_add(p, value) < 0)
        return SPUR_ENOMEM;
    return 0;
}

static void fenced(struct pmi *p, const char *fault)
{
    p->fencing = false;
    for (uint32_t i = 0; i < p->count; i++) {
        struct rank *r = &p->ranks[i];

        if (!r->in_fence)
            continue;
        r->in_fence = false;
        if (r->wire == WIRE_PMI2)
            wire2_fenced(p, r, fault);
        else
            wire1_fenced(p, r, fault);
    }
}

static bool is_over(const struct rank *r) { return r->finalized || r->fd < 0; }

/* Gives this node's part once every rank that can come to the fence is in it. */
static void fence_try(struct pmi *p)
{
    struct spur_error err = { 0 };
    uint32_t in = 0, over = 0;
    char key[32];

    for (uint32_t i = 0; i < p->count; i++) {
        in += p->ranks[i].in_fence;
        over += is_over(&p->ranks[i]) && !p->ranks[i].in_fence;
    }
    if (p->fencing || in == 0 || in + over < p->count)
        return;
    if (p->lost[0]) {
        fenced(p, p->lost);
        return;
    }
    snprintf(key, sizeof key, "fence/%u", p->fence);
    p->fencing = true;
    if (p->step->gather(p->step->ctx, key, NULL, 0, p->fresh, p->fresh_len, &err) < 0)
        fenced(p, err.text);
    p->fresh_len = 0;
}

void rank_fence(struct pmi *p, struct rank *r)
{
    r->in_fence = true;
    fence_try(p);
}

static void take_part(struct pmi *p, const char *data, size_t len)
{
    size_t at = 0;

    if (len == 0 || data[len - 1])
        return;
    while (at < len) {
        const char *key = data + at, *value;

        at += strlen(key) + 1;
        if (at >= len)
            return;
        value = data + at;
        at += strlen(value) + 1;
        kvs_put(&p->kvs, key, value);
    }
}

static void pmi2_gathered(void *self, const char *key, const struct spur_mpi_part *parts, uint32_t count, uint32_t part_size)
{
    struct pmi *p = self;
    char mine[32];

    snprintf(mine, sizeof mine, "fence/%u", p->fence);
    if (!p->fencing || strcmp(key, mine))
        return;                         /* of a fence that has failed in between */
    for (uint32_t i = 0; i < count; i++) {
        const struct spur_mpi_part *part = (const struct spur_mpi_part *)(const void *)((const char *)parts + (size_t)i * part_size);

        if (part->node != p->step->node_rank)
            take_part(p, part->data, part->len);
    }
    p->fence++;
    fenced(p, NULL);
}

static void pmi2_lost(void *self, const char *why)
{
    struct pmi *p = self;

    if (!p->lost[0])
        snprintf(p->lost, sizeof p->lost, "a node of the step is gone: %.150s", why && *why ? why : "no reason given");
    if (p->fencing)
        fenced(p, p->lost);
}

static void pmi2_received(void *self, uint32_t from, const void *data, size_t len) { names_received(self, from, data, len); }

/* ---- from a rank ---- */

/* The length of the first whole request in the buffer, 0 none yet, negative: none of ours. *body: where its text begins; it ends with a NUL after this. */
static ssize_t request_whole(struct rank *r, char **body)
{
    char *nl;

    if (r->wire != WIRE_PMI2 || !r->joined) {               /* a line; PMI-2 begins with one too */
        if (!(nl = memchr(r->in, '\n', r->in_len)))
            return r->in_len > REQUEST_MAX ? -1 : 0;
        *nl = '\0';
        *body = r->in;
        return nl + 1 - r->in;
    }
    if (r->in_len < 6)
        return 0;
    else {
        char digits[7] = { 0 }, *end;
        long n;

        memcpy(digits, r->in, 6);
        n = strtol(digits, &end, 10);
        if (end[strspn(end, " ")] || n < 0 || n > REQUEST_MAX)      /* MPICH fills with blanks in front, Slurm's library behind */
            return -1;
        if (r->in_len < 6 + (size_t)n)
            return 0;
        /* the text needs a NUL behind it, where the next request begins: move it over its own six digits */
        memmove(r->in, r->in + 6, (size_t)n);
        r->in[n] = '\0';
        *body = r->in;
        return 6 + n;
    }
}

static int take_requests(struct pmi *p, struct rank *r)
{
    char *body;
    ssize_t n;

    while ((n = request_whole(r, &body)) > 0) {
        int rc = r->wire == WIRE_PMI2 && r->joined ? wire2_take(p, r, body) : wire1_take(p, r, body);

        if (rc < 0)
            return rc;
        r->in_len -= (size_t)n;
        memmove(r->in, r->in + n, r->in_len);
    }
    return (int)n;
}

static void rank_gone(struct pmi *p, struct rank *r)
{
    r->fd = -1;                         /* closed by the host */
    if (r->joined && !r->finalized) {
        char text[160];

        snprintf(text, sizeof text, "has ended without finalizing MPI%s%s%s; the other ranks would wait for it", r->cause ? " (its PMI socket: " : "",
                 r->cause ? strerror(r->cause) : "", r->cause ? ")" : "");
        rank_abort(p, r, 0, text);
    }
    r->in_fence = false;
    fence_try(p);
}

static int pmi2_input(void *self, uint32_t local)
{
    struct pmi *p = self;
    struct rank *r = &p->ranks[local];
    ssize_t n;

    if (r->in_len + 4096 > r->in_room) {
        char *grown = realloc(r->in, r->in_room + 8192);

        if (!grown) {
            rank_abort(p, r, 1, "out of memory in mpi/pmi2");
            return -1;
        }
        r->in = grown;
        r->in_room += 8192;
    }
    n = recv(r->fd, r->in + r->in_len, r->in_room - r->in_len, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n > 0) {
        r->in_len += (size_t)n;
        if (take_requests(p, r) < 0) {
            rank_abort(p, r, 1, "sent what is no request of PMI-1 or PMI-2");
            rank_gone(p, r);
            return -1;
        }
        if (!r->broken)
            return 0;
    } else if (n < 0) {
        r->cause = errno;
    }
    rank_gone(p, r);
    return -1;
}

/* ---- start ---- */

/* "(vector,(0,4,2))": from node 0 on, 4 nodes of 2 ranks each, as long as there are ranks; so (0,2,1),(0,2,1) is two nodes dealt out in turn. */
static char *mapping_make(const struct spur_mpi_step *s)
{
    uint32_t *node_of = calloc(s->ntasks + 1, sizeof *node_of), node = 0, nodes = 0, size = 0, before = 0;
    size_t at = 7, room = KVS_VALUE_MAX + 64;
    char *text = malloc(room);

    if (!text || !node_of) {
        free(text);
        free(node_of);
        return NULL;
    }
    strcpy(text, "(vector");
    for (uint32_t i = 0; i < s->node_count; i++)
        for (uint32_t k = s->first[i]; k < s->first[i + 1]; k++)
            if (s->tasks[k] < s->ntasks)
                node_of[s->tasks[k]] = i;
    for (uint32_t t = 0, run; t < s->ntasks && at <= KVS_VALUE_MAX; t += run) {
        for (run = 1; t + run < s->ntasks && node_of[t + run] == node_of[t]; run++)
            ;
        if (nodes && run == size && node_of[t] == before + 1) {
            nodes++;
        } else {
            if (nodes)
                at += (size_t)snprintf(text + at, room - at, ",(%u,%u,%u)", node, nodes, size);
            node = node_of[t];
            nodes = 1;
            size = run;
        }
        before = node_of[t];
    }
    if (at <= KVS_VALUE_MAX)
        at += (size_t)snprintf(text + at, room - at, ",(%u,%u,%u))", node, nodes, size);
    if (at > KVS_VALUE_MAX)                 /* too long to be asked for: MPICH then finds out by host names */
        text[0] = '\0';
    free(node_of);
    return text;
}

static int pmi2_start(void *self, const struct spur_mpi_step *step, struct spur_error *err)
{
    struct pmi *p = self;

    p->step = step;
    p->count = step->first[step->node_rank + 1] - step->first[step->node_rank];
    p->ranks = calloc(p->count + 1, sizeof *p->ranks);
    p->mapping = mapping_make(step);
    if (!p->ranks || !p->mapping)
        return spur_fail(err, SPUR_ENOMEM, "out of memory for %u ranks", p->count);
    snprintf(p->job, sizeof p->job, "%u.%u", step->job_id, step->step_id);
    for (uint32_t i = 0; i < p->count; i++) {
        p->ranks[i].global = step->tasks[step->first[step->node_rank] + i];
        p->ranks[i].fd = -1;
    }
    return kvs_put(&p->kvs, "PMI_process_mapping", p->mapping) < 0 ? spur_fail(err, SPUR_ENOMEM, "out of memory") : 0;
}

static int pmi2_task(void *self, uint32_t local, int fd, const struct spur_mpi_env *env, struct spur_error *err)
{
    struct pmi *p = self;
    char number[16];

    (void)err;
    p->ranks[local].fd = fd;
    snprintf(number, sizeof number, "%d", SPUR_MPI_TASK_FD);
    env->set(env->arg, "PMI_FD", number);
    snprintf(number, sizeof number, "%u", p->ranks[local].global);
    env->set(env->arg, "PMI_RANK", number);
    snprintf(number, sizeof number, "%u", p->step->ntasks);
    env->set(env->arg, "PMI_SIZE", number);
    env->set(env->arg, "PMI_JOBID", p->job);
    env->set(env->arg, "PMI_SPAWNED", "0");
    return 0;
}

static int pmi2_open(const struct spur_host *host, const struct spur_conf *conf, void **self, struct spur_error *err)
{
    (void)host;
    (void)conf;
    if (!(*self = calloc(1, sizeof(struct pmi))))
        return spur_fail(err, SPUR_ENOMEM, "out of memory");
    return 0;
}

static void pmi2_close(void *self)
{
    struct pmi *p = self;

    if (!p)
        return;
    for (uint32_t i = 0; p->ranks && i < p->count; i++)
        free(p->ranks[i].in);
    for (struct waiting *w = p->waiting, *next; w; w = next) {
        next = w->next;
        free(w);
    }
    free(p->ranks);
    free(p->fresh);
    free(p->mapping);
    kvs_free(&p->kvs);
    kvs_free(&p->node);
    kvs_free(&p->names);
    free(p);
}

static const struct spur_option pmi2_options[] = { { NULL, 0, NULL, NULL } };
static const struct spur_mpi_ops pmi2_ops = { .size = sizeof pmi2_ops, .start = pmi2_start, .task = pmi2_task, .input = pmi2_input, .gathered = pmi2_gathered,
                                              .received = pmi2_received, .lost = pmi2_lost };

SPUR_PLUGIN(mpi, pmi2, .about = "PMI-1 and PMI-2: MPICH, Intel MPI, MVAPICH", .stands_for = "pmi1", .caps = SPUR_CAP_SERVES, .options = pmi2_options,
            .ops = &pmi2_ops, .open = pmi2_open, .close = pmi2_close);
