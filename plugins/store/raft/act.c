/* SPDX-License-Identifier: Apache-2.0 */
/* act.c - does what the core has ready: messages to lines, writes to the writer, committed entries and news to the loop, work to the files thread.
 *
 * All of it is handed over, nothing waited for. A ring that is full is no reason to wait either: what does not fit stands in a list here
 * until it does. Between raft_ready and raft_done the core takes no input, so whatever would be one comes afterwards.
 */
#include "raft.h"

#include <stdio.h>
#include <stdlib.h>

void order_send(struct store *s, struct order *o)
{
    o->next = NULL;
    if (!s->orders_first && ring_put(&s->orders, o)) {
        raft_wake(s->writer_fd);
        return;
    }
    *s->orders_end = o;
    s->orders_end = &o->next;
}

void orders_flush(struct store *s)
{
    bool any = false;

    while (s->orders_first) {
        struct order *next = s->orders_first->next;

        if (!ring_put(&s->orders, s->orders_first))
            break;
        any = true;
        if (!(s->orders_first = next))
            s->orders_end = &s->orders_first;
    }
    if (any)
        raft_wake(s->writer_fd);
}

static void *must(void *p)
{
    if (!p)
        abort();        /* the core ends the process without memory too: half of what is ready cannot be left undone */
    return p;
}

/* One block: the order, its rows, their data. */
static struct order *order_make(const struct store *s, const struct raft_ready *r)
{
    size_t bytes = 0;
    struct order *o;
    uint8_t *to;

    for (size_t i = 0; i < r->count; i++)
        bytes += r->entries[i].n;
    o = must(malloc(sizeof *o + r->count * sizeof *o->entries + bytes));
    *o = (struct order){ .kind = ORDER_WRITE, .seq = r->write_seq, .has_vote = r->has_vote, .term = r->term, .vote = r->vote, .commit = s->handed_out,
                         .count = r->count, .entries = (struct raft_entry *)(o + 1) };
    to = (uint8_t *)(o->entries + r->count);
    for (size_t i = 0; i < r->count; i++) {
        o->entries[i] = r->entries[i];
        o->entries[i].data = to;
        if (r->entries[i].n)
            memcpy(to, r->entries[i].data, r->entries[i].n);
        to += r->entries[i].n;
    }
    return o;
}

static void committed(struct store *s, const struct raft_entry *e)
{
    struct item *item = e->type == RAFT_ENTRY_DATA ? raft_cookie(s->core, e->index, e->term) : NULL;

    if (!item) {
        size_t n = e->type == RAFT_ENTRY_DATA ? e->n : 0;

        item = must(malloc(sizeof *item + n));
        memset(item, 0, sizeof *item);
        item->n = n;
        if (n)
            memcpy(item->data, e->data, n);
    }
    item->kind = e->type == RAFT_ENTRY_DATA ? ITEM_ENTRY : ITEM_SKIP;
    item->index = e->index;
    item->term = e->term;
    if (e->type == RAFT_ENTRY_MEMBERS) {
        item->kind = ITEM_MEMBERS;
        item->members = must(malloc(sizeof *item->members));
        if (raft_members_unpack(item->members, e->data, e->n) < 0)
            abort();
    }
    s->handed_out = e->index;
    item_tell(s, item);
}

/* Reads whose index has been handed out follow it to the loop. */
static void barriers_pass(struct store *s)
{
    struct item **at = &s->barriers;

    while (*at) {
        struct item *item = *at;

        if (item->index > s->handed_out) {
            at = &item->next;
            continue;
        }
        *at = item->next;
        item_tell(s, item);
    }
}

static void read_answered(struct store *s, const struct raft_read *r)
{
    struct item **at = &s->reads, *item;

    while (*at && (*at)->index != r->id)
        at = &(*at)->next;
    if (!(item = *at))
        return;
    *at = item->next;
    if (r->is_refused)
        spur_fail(&item->why, SPUR_ENOTLEADER, "the leadership was lost while a read waited for it");
    item->index = r->is_refused ? 0 : r->index;
    item->next = s->barriers;
    s->barriers = item;
}

static void role_changed(struct store *s, const struct raft_ready *r)
{
    if (r->has_role) {
        if (s->core_role == RAFT_LEADER && r->role != RAFT_LEADER)
            s->is_leader_told = false;
        s->core_role = r->role;
        s->core_leader = r->leader;
        if (r->role != RAFT_LEADER)
            atomic_store(&s->may_propose, 0);
    }
}

/* Tells the loop who it is, when that has changed. */
static void role_tell(struct store *s, bool is_leader_ready)
{
    const struct host *leader = s->core_leader ? raft_group_host_of(s, s->core_leader) : NULL;
    struct raft_status st;
    struct item *item;

    if (s->core_role == RAFT_LEADER) {
        if (!is_leader_ready || s->is_leader_told)
            return;
        s->is_leader_told = true;
        atomic_store(&s->may_propose, 1);
    }
    raft_status(s->core, &st);
    item = must(calloc(1, sizeof *item));
    item->kind = ITEM_ROLE;
    item->role = s->core_role == RAFT_LEADER ? SPUR_STORE_LEADER : SPUR_STORE_LEARNER;
    for (uint32_t i = 0; i < s->config.count && item->role == SPUR_STORE_LEARNER; i++)
        if (s->config.rows[i].id == s->id && s->config.rows[i].is_voter)
            item->role = SPUR_STORE_FOLLOWER;
    item->term = st.term;
    for (uint32_t i = 0; i < s->config.count; i++)
        if (s->config.rows[i].id == s->core_leader)
            snprintf(item->name, sizeof item->name, "%s", s->config.rows[i].name);
    if (!*item->name && leader)
        snprintf(item->name, sizeof item->name, "%s", leader->name);
    if (s->hand_over_ms && s->core_role != RAFT_LEADER)
        s->hand_over_ms = s->change[0] = 0;
    raft_status_make(s);                /* who asks after the event sees the same */
    item_tell(s, item);
}

static void job_send(struct store *s, const struct raft_send *send)
{
    struct host *h = raft_group_host_of(s, send->to);
    struct job *j = must(calloc(1, sizeof *j));
    int64_t now = boot_ms();

    j->kind = JOB_SEND;
    j->peer = send->to;
    j->index = send->snapshot_index;
    j->offset = send->offset;
    if (h) {
        if (h->tokens_ms < now)
            h->tokens_ms = now;
        j->due_ms = h->tokens_ms;
        h->tokens_ms += (int64_t)(MIB * 1000 / s->o.snapshot_rate);
    }
    j->next = s->delayed;
    s->delayed = j;
}

void jobs_release(struct store *s, int64_t now)
{
    struct job **at = &s->delayed;

    while (*at) {
        struct job *j = *at;

        if (j->due_ms > now) {
            at = &j->next;
            continue;
        }
        *at = j->next;
        files_put(s, j);
    }
}

static void job_chunk(struct store *s, const struct raft_message *m)
{
    struct job *j = must(calloc(1, sizeof *j));

    j->kind = JOB_CHUNK;
    j->index = m->index;
    j->term = m->log_term;
    j->offset = m->offset;
    j->total = m->total;
    j->is_last = m->is_last;
    if (m->members)
        j->members = *m->members;
    j->n = m->n;
    j->data = must(malloc(m->n ? m->n : 1));
    if (m->n)
        memcpy(j->data, m->data, m->n);
    files_put(s, j);
}

static void act_once(struct store *s)
{
    struct raft_ready r;
    bool has_news, is_leader_ready;

    raft_ready(s->core, &r);
    for (size_t i = 0; i < r.message_count; i++)
        lines_send(s, &r.messages[i]);
    if (r.write_seq)
        order_send(s, order_make(s, &r));
    for (size_t i = 0; i < r.committed_count; i++)
        committed(s, &r.committed[i]);
    for (size_t i = 0; i < r.read_count; i++)
        read_answered(s, &r.reads[i]);
    for (size_t i = 0; i < r.dropped_count; i++) {
        struct item *item = r.dropped[i].cookie;

        spur_fail(&item->why, SPUR_ESTALE, "the leadership has changed: the new leader may or may not have this entry");
        item_tell(s, item);
    }
    role_changed(s, &r);
    if (r.has_members)
        raft_group_members(s, r.members);
    for (size_t i = 0; i < r.send_count; i++)
        job_send(s, &r.sends[i]);
    if (r.chunk)
        job_chunk(s, r.chunk);
    if (r.load_count) {
        struct job *j = must(calloc(1, sizeof *j));

        j->kind = JOB_LOAD;
        j->first = r.load_first;
        j->count = r.load_count;
        files_put(s, j);
    }
    if (r.wants_snapshot) {
        struct item *item = must(calloc(1, sizeof *item));

        item->kind = ITEM_TAKE;
        item_tell(s, item);
    }
    has_news = r.has_role || r.is_leader_ready || r.has_members;
    is_leader_ready = r.is_leader_ready;
    raft_done(s->core);
    barriers_pass(s);
    if (has_news)
        role_tell(s, is_leader_ready);
}

void raft_act(struct store *s)
{
    while (raft_has_ready(s->core))
        act_once(s);
    if (s->barriers)
        barriers_pass(s);
}

/* ---- what the files thread has done ---- */

static void took_load(struct store *s, struct job *j, uint64_t now)
{
    raft_loaded(s->core, now, j->entries, j->code < 0 ? 0 : j->count);
}

static void took_send(struct store *s, struct job *j, uint64_t now)
{
    struct item *item;
    struct raft_message m = { .index = j->index, .log_term = j->term, .offset = j->offset, .total = j->total, .data = j->data, .n = j->n, .is_last = j->is_last };

    m.members = &j->members;
    if (j->code < 0)
        raft_say_rarely(s, "snapshot", "%s", j->why.text);
    if ((j->code == SPUR_ECORRUPT || j->code == SPUR_ENOTFOUND) && (item = calloc(1, sizeof *item))) {
        item->kind = ITEM_TAKE;         /* damaged, or of before there was a group: a new one is the way */
        item_tell(s, item);
    }
    raft_snapshot_chunk(s->core, now, j->peer, &m);
}

static void took_publish(struct store *s, struct job *j)
{
    struct item *item = must(calloc(1, sizeof *item));

    if (j->code == 0) {
        raft_snapshot_taken(s->core, j->index, j->term, &j->members);
        s->snapshot_known = j->index;
        if (j->first) {
            struct order *o = must(calloc(1, sizeof *o));
            uint64_t keep = raft_log_keep(s->core);

            o->kind = ORDER_CUT;
            o->index = keep < j->first ? keep : j->first;
            order_send(s, o);
        }
    }
    item->kind = ITEM_TAKEN;
    item->index = j->index;
    item->why = j->why;
    item->why.code = j->code;
    item->n = j->size;
    item_tell(s, item);
}

static void took_chunk(struct store *s, struct job *j, uint64_t now)
{
    if (j->code < 0) {
        raft_say_rarely(s, "install", "%s", j->why.text);
        raft_snapshot_refused(s->core, now);
    } else if (j->is_last) {
        struct item *item = must(calloc(1, sizeof *item));

        item->kind = ITEM_INSTALL;
        item->index = j->index;
        item->term = j->term;
        item->n = j->total;
        item->members = must(malloc(sizeof *item->members));
        *item->members = j->members;
        item_tell(s, item);
    }
}

void jobs_take(struct store *s)
{
    uint64_t now = (uint64_t)boot_ms();
    struct job *list, *j;

    pthread_mutex_lock(&s->jobs_lock);
    list = s->jobs_done.first;
    s->jobs_done = (struct job_list){ NULL, &s->jobs_done.first };
    pthread_mutex_unlock(&s->jobs_lock);
    while ((j = list)) {
        list = j->next;
        switch (j->kind) {
        case JOB_LOAD: took_load(s, j, now); break;
        case JOB_SEND: took_send(s, j, now); break;
        case JOB_PUBLISH: took_publish(s, j); break;
        case JOB_CHUNK: took_chunk(s, j, now); break;
        case JOB_ROSTER:
            if (j->code < 0)
                raft_say_rarely(s, "members", "%s", j->why.text);
            break;
        }
        raft_job_free(j);
        raft_act(s);
    }
}
