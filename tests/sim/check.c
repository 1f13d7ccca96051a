/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - the invariants. It knows what every member and disk has, which no member does.
 *
 * Two kinds. What must never be seen from outside: two leaders of one term, two entries at one index, a lost acknowledged submit, a read of old
 * news, a job done twice. And what core.h promises, at the moment it would be broken and not when it hurts: a vote or an acknowledgement
 * that leaves before the disk has it, a commit that a majority of disks could forget, a lease while another commits.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cluster.h"
#include "state/private.h"

void say(struct cluster *c, const char *format, ...)
{
    va_list args;

    if (!c->is_verbose)
        return;
    printf("%9.3f  ", (double)now_us(c) / SECOND);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

void fail(struct cluster *c, const char *format, ...)
{
    va_list args;
    int n;

    if (c->has_failed)
        return;
    c->has_failed = true;
    n = snprintf(c->failure, sizeof c->failure, "at %.3f s: ", (double)now_us(c) / SECOND);
    va_start(args, format);
    vsnprintf(c->failure + n, sizeof c->failure - (size_t)n, format, args);
    va_end(args);
    if (c->is_verbose)
        printf("%s\n", c->failure);
}

#define U(x) ((unsigned long long)(x))

/* ---- the log ---- */

static struct fact *fact_at(struct truth *t, uint64_t index)
{
    if (index >= t->room) {
        uint64_t room = 2 * index + 256;

        t->facts = mem_grow(t->facts, room, sizeof *t->facts);
        memset(t->facts + t->room, 0, (room - t->room) * sizeof *t->facts);
        t->room = room;
    }
    return &t->facts[index];
}

static struct pair *pair_slot(struct truth *t, uint64_t index, uint64_t term)
{
    size_t i = (size_t)((index * UINT64_C(0x9e3779b97f4a7c15) ^ term * UINT64_C(0xc2b2ae3d27d4eb4f)) >> 20) & (t->pair_room - 1);

    while (t->pairs[i].term && (t->pairs[i].index != index || t->pairs[i].term != term))
        i = (i + 1) & (t->pair_room - 1);
    return &t->pairs[i];
}

static uint64_t entry_hash(const struct raft_entry *e)
{
    return sim_hash(e->type + e->n * 4, e->data, e->n);
}

/* Log matching: an index and a term name one entry, and one term before it. */
static void check_matching(struct member *m, const struct raft_entry *e, uint64_t before)
{
    struct truth *t = &m->c->truth;
    uint64_t hash = entry_hash(e);
    struct pair *p;

    if (2 * t->pair_count >= t->pair_room) {
        struct pair *old = t->pairs;
        size_t room = t->pair_room;

        t->pair_room = room ? 2 * room : 1024;
        t->pairs = mem_array(t->pair_room, sizeof *t->pairs);
        for (size_t i = 0; i < room; i++)
            if (old[i].term)
                *pair_slot(t, old[i].index, old[i].term) = old[i];
        free(old);
    }
    p = pair_slot(t, e->index, e->term);
    if (!p->term) {
        *p = (struct pair){ .index = e->index, .term = e->term, .before = before, .hash = hash };
        t->pair_count++;
    } else if (p->hash != hash) {
        fail(m->c, "log matching: m%u writes another entry %llu of term %llu than there was", m->place, U(e->index), U(e->term));
    } else if (p->before != before) {
        fail(m->c, "log matching: m%u has term %llu before entry %llu of term %llu, another had %llu", m->place, U(before), U(e->index), U(e->term), U(p->before));
    }
}

static void config_push(struct member *m, uint64_t index, const struct raft_members *members)
{
    if (m->config_count == sizeof m->config_log / sizeof *m->config_log) {
        memmove(&m->config_log[0], &m->config_log[1], (m->config_count - 1) * sizeof *m->config_log);
        m->config_count--;
    }
    m->config_log[m->config_count].index = index;
    m->config_log[m->config_count++].members = *members;
}

static void check_write(struct member *m, const struct raft_ready *rd)
{
    uint64_t before = rd->entries[0].index > 1 ? raft_term_at(m->raft, rd->entries[0].index - 1) : 0;
    struct raft_status st;

    while (m->config_count && m->config_log[m->config_count - 1].index >= rd->entries[0].index)
        m->config_count--;
    if (rd->entries[0].index <= m->applied)
        fail(m->c, "m%u replaces entry %llu, but %llu are applied", m->place, U(rd->entries[0].index), U(m->applied));
    for (size_t i = 0; i < rd->count; i++) {
        const struct raft_entry *e = &rd->entries[i];
        struct raft_members members;

        if (i && e->index != rd->entries[i - 1].index + 1)
            fail(m->c, "m%u writes entry %llu after %llu", m->place, U(e->index), U(rd->entries[i - 1].index));
        check_matching(m, e, before);
        before = e->term;
        if (e->type == RAFT_ENTRY_MEMBERS && raft_members_unpack(&members, e->data, e->n) == 0)
            config_push(m, e->index, &members);
    }
    /* One change at a time: a leader begins none before his last one is committed, nor before an entry of his own term is. */
    raft_status(m->raft, &st);
    if (st.role == RAFT_LEADER && m->config_count > 1 && m->config_log[m->config_count - 1].index >= rd->entries[0].index && rd->entries[0].term == st.term &&
        m->config_log[m->config_count - 2].index > st.commit)
        fail(m->c, "m%u changes the members at %llu, and the change at %llu is not committed", m->place, U(m->config_log[m->config_count - 1].index),
             U(m->config_log[m->config_count - 2].index));
}

/* ---- votes and messages ---- */

static void check_vote(struct member *m, uint64_t term, uint64_t for_whom)
{
    struct truth *t = &m->c->truth;

    for (size_t i = 0; i < t->vote_count; i++)
        if (t->votes[i].member == m->id && t->votes[i].term == term) {
            if (t->votes[i].for_whom != for_whom)
                fail(m->c, "m%u votes twice in term %llu", m->place, U(term));
            return;
        }
    if (t->vote_count == t->vote_room)
        t->votes = mem_grow(t->votes, t->vote_room = t->vote_room ? 2 * t->vote_room : 64, sizeof *t->votes);
    t->votes[t->vote_count].member = m->id;
    t->votes[t->vote_count].term = term;
    t->votes[t->vote_count++].for_whom = for_whom;
}

static void check_durable_vote(struct member *m, uint64_t term, uint64_t for_whom, const char *what)
{
    if (m->drive.term < term || (m->drive.term == term && m->drive.vote != for_whom))
        fail(m->c, "m%u %s in term %llu before its disk has the vote", m->place, what, U(term));
}

static void check_message(struct member *m, const struct raft_message *k)
{
    struct cluster *c = m->c;
    struct member *to = member_by_id(c, k->to);
    uint64_t mine, theirs;

    switch (k->type) {
    case RAFT_VOTE:
        check_vote(m, k->term, m->id);
        check_durable_vote(m, k->term, m->id, "asks for votes");
        if (k->index && k->index >= m->drive.snapshots[0].index && drive_term_at(&m->drive, k->index) != k->log_term)
            fail(c, "m%u asks for votes with entry %llu of term %llu, which its disk has not", m->place, U(k->index), U(k->log_term));
        break;
    case RAFT_VOTE_REPLY:
        if (k->reject)
            break;
        check_vote(m, k->term, k->to);
        check_durable_vote(m, k->term, k->to, "grants a vote");
        break;
    case RAFT_APPEND_REPLY:
    case RAFT_SNAPSHOT_REPLY:
        if (k->reject || !k->match)
            break;
        mine = drive_term_at(&m->drive, k->match);
        if (!mine && k->match > m->drive.snapshots[0].index) {
            fail(c, "m%u acknowledges entry %llu, which its disk has not", m->place, U(k->match));
            break;
        }
        theirs = to && to->raft && to->role == RAFT_LEADER && to->term == k->term ? raft_term_at(to->raft, k->match) : 0;
        if (mine && theirs && mine != theirs)
            fail(c, "m%u acknowledges entry %llu of term %llu, the leader's has term %llu", m->place, U(k->match), U(mine), U(theirs));
        break;
    default:
        break;
    }
}

/* ---- roles and commits ---- */

static void check_new_leader(struct member *m, const struct raft_status *st)
{
    struct truth *t = &m->c->truth;

    m->c->elections++;
    for (size_t i = 0; i < t->leader_count; i++)
        if (t->leaders[i].term == st->term && t->leaders[i].leader != m->id)
            fail(m->c, "election safety: m%u leads in term %llu, and so did another", m->place, U(st->term));
    if (t->leader_count == t->leader_room)
        t->leaders = mem_grow(t->leaders, t->leader_room = t->leader_room ? 2 * t->leader_room : 64, sizeof *t->leaders);
    t->leaders[t->leader_count].term = st->term;
    t->leaders[t->leader_count++].leader = m->id;
    nemesis_elected(m);
    check_vote(m, st->term, m->id);
    check_durable_vote(m, st->term, m->id, "leads");
    for (uint64_t i = 1; i <= t->commit; i++) {
        const struct fact *f = fact_at(t, i);
        uint64_t term = raft_term_at(m->raft, i);

        if (f->committed_in >= st->term || !f->term || (!term && i <= st->snapshot_index))
            continue;
        if (term != f->term) {
            fail(m->c, "leader completeness: m%u leads in term %llu without entry %llu of term %llu, committed in term %llu", m->place, U(st->term), U(i), U(f->term),
                 U(f->committed_in));
            return;
        }
    }
}

/* Can the disks of the voters forget this entry? Whoever lacks it must not find a majority that would elect him. */
static void check_kept(struct member *m, const struct raft_status *st)
{
    struct cluster *c = m->c;
    uint64_t term = raft_term_at(m->raft, st->commit);
    struct { struct member *m; bool has; uint64_t index, term; } voters[RAFT_MEMBERS_MAX];
    uint32_t count = 0, have = 0;

    for (uint32_t i = 0; i < st->members.count; i++) {
        struct member *v = st->members.rows[i].is_voter ? member_by_id(c, st->members.rows[i].id) : NULL;

        if (!v)
            continue;
        voters[count].m = v;
        voters[count].has = v->is_muted || drive_term_at(&v->drive, st->commit) == term || v->drive.snapshots[0].index >= st->commit;
        drive_last(&v->drive, &voters[count].index, &voters[count].term);
        have += voters[count++].has;
    }
    if (2 * have <= count) {
        fail(c, "m%u commits entry %llu of term %llu, which %u of %u disks have", m->place, U(st->commit), U(term), have, count);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t votes = 0;

        if (voters[i].has || voters[i].m->is_gone)
            continue;
        for (uint32_t k = 0; k < count; k++)
            votes += !voters[k].m->is_gone && !voters[k].m->is_muted &&
                     (voters[i].term > voters[k].term || (voters[i].term == voters[k].term && voters[i].index >= voters[k].index));
        if (2 * votes > count)
            fail(c, "m%u commits entry %llu of term %llu, but m%u could be elected without it", m->place, U(st->commit), U(term), voters[i].m->place);
    }
}

/* `leads`: it does, or did until now: a leader who commits his own removal steps down with that. */
static void check_commit(struct member *m, const struct raft_status *st, bool leads)
{
    struct cluster *c = m->c;
    struct truth *t = &c->truth;

    if (st->commit <= m->commit)
        return;
    if (!leads && st->commit > t->commit)
        fail(c, "m%u takes entry %llu for committed, no leader has committed more than %llu", m->place, U(st->commit), U(t->commit));
    if (leads)
        check_kept(m, st);
    for (uint64_t i = m->commit + 1; i <= st->commit && !c->has_failed; i++) {
        struct fact *f = fact_at(t, i);
        uint64_t term = raft_term_at(m->raft, i);

        if (!f->committed_in)
            f->committed_in = st->term;
        if (!f->term)
            f->term = term;
        else if (term && term != f->term)
            fail(c, "state machine safety: m%u commits entry %llu of term %llu, before it had term %llu", m->place, U(i), U(term), U(f->term));
    }
    if (st->commit > t->commit) {
        t->commit = st->commit;
        for (unsigned i = 0; i < c->member_count; i++)
            if (c->members[i] != m && c->members[i]->raft && raft_has_lease(c->members[i]->raft, member_now_ms(c->members[i])))
                fail(c, "lease: m%u of term %llu commits entry %llu while m%u of term %llu has a lease", m->place, U(st->term), U(st->commit), i, U(c->members[i]->term));
    }
    m->commit = st->commit;
}

static void check_config(struct member *m, const struct raft_status *st)
{
    const struct raft_members *newest = m->config_count ? &m->config_log[m->config_count - 1].members : NULL;
    bool same = newest && newest->count == st->members.count;

    if (!newest && !st->members.count)
        return;
    for (uint32_t i = 0; same && i < newest->count; i++)
        same = newest->rows[i].id == st->members.rows[i].id && newest->rows[i].is_voter == st->members.rows[i].is_voter;
    if (!same)
        fail(m->c, "m%u does not go by the newest configuration in its log (%u members, %u in force)", m->place, newest ? newest->count : 0, st->members.count);
}

/* Whom a follower takes for the leader of this term has won it. */
static void check_leader(struct member *m, const struct raft_status *st)
{
    const struct truth *t = &m->c->truth;

    for (size_t i = t->leader_count; i-- > 0; )
        if (t->leaders[i].term == st->term && t->leaders[i].leader == st->leader)
            return;
    fail(m->c, "m%u follows somebody in term %llu who was never elected in it", m->place, U(st->term));
}

static void check_status(struct member *m)
{
    struct raft_status st;
    bool leads;

    raft_status(m->raft, &st);
    leads = st.role == RAFT_LEADER || (m->role == RAFT_LEADER && m->term == st.term);
    if (st.term < m->term)
        fail(m->c, "m%u goes back from term %llu to %llu", m->place, U(m->term), U(st.term));
    if (st.role == RAFT_LEADER && (m->role != RAFT_LEADER || m->term != st.term))
        check_new_leader(m, &st);
    if (st.leader != RAFT_NOBODY && st.leader != m->id && (st.leader != m->leader || st.term != m->term))
        check_leader(m, &st);
    m->role = st.role;
    m->term = st.term;
    m->leader = st.leader;
    check_commit(m, &st, leads);
    check_config(m, &st);
    if (m->is_muted && !st.is_muted) {
        m->is_muted = false;
        m->c->unmuted++;
        say(m->c, "m%u: votes again, at %llu", m->place, U(st.last_index));
    }
}

void check_ready(struct member *m, const struct raft_ready *rd)
{
    m->c->steps++;
    if (rd->count)
        check_write(m, rd);
    check_status(m);
    for (size_t i = 0; i < rd->message_count && !m->c->has_failed; i++)
        check_message(m, &rd->messages[i]);
}

void check_step(struct member *m)
{
    m->c->steps++;
    check_status(m);
}

void check_start(struct member *m, const struct raft_restored *restored)
{
    m->config_count = 0;
    m->commit = 0;
    m->c->restarts++;
    m->term = restored->term;
    if (restored->snapshot_index)
        config_push(m, restored->snapshot_index, &restored->snapshot_members);
    for (size_t i = 0; i < restored->count; i++) {
        struct raft_members members;

        if (restored->entries[i].type == RAFT_ENTRY_MEMBERS && raft_members_unpack(&members, restored->entries[i].data, restored->entries[i].n) == 0)
            config_push(m, restored->entries[i].index, &members);
    }
}

void check_installed(struct member *m)
{
    uint32_t keep = 0;

    /* Behind a snapshot that the log continues its later configurations stay. */
    for (uint32_t i = 0; i < m->config_count; i++)
        if (m->config_log[i].index > m->drive.snapshots[0].index && drive_term_at(&m->drive, m->config_log[i].index))
            m->config_log[keep++] = m->config_log[i];
    memmove(&m->config_log[1], &m->config_log[0], (keep < 31 ? keep : 31) * sizeof *m->config_log);
    m->config_log[0].index = m->drive.snapshots[0].index;
    m->config_log[0].members = m->drive.snapshots[0].members;
    m->config_count = (keep < 31 ? keep : 31) + 1;
}

/* ---- the state ---- */

void check_apply(struct member *m, const struct raft_entry *e)
{
    struct truth *t = &m->c->truth;
    struct fact *f = fact_at(t, e->index);
    uint64_t hash = entry_hash(e);

    if (e->index != m->applied + 1)
        fail(m->c, "m%u hands out entry %llu after %llu", m->place, U(e->index), U(m->applied));
    else if (e->index > t->commit)
        fail(m->c, "m%u hands out entry %llu, committed are %llu", m->place, U(e->index), U(t->commit));
    else if (f->is_known && (f->hash != hash || f->term != e->term))
        fail(m->c, "state machine safety: m%u hands out another entry %llu (term %llu, was %llu)", m->place, U(e->index), U(e->term), U(f->term));
    f->is_known = true;
    f->hash = hash;
    f->term = e->term;
}

void check_digest(struct member *m, uint64_t index)
{
    struct fact *f = fact_at(&m->c->truth, index);
    uint8_t digest[32];

    state_digest(m->state, digest);
    if (!f->has_digest) {
        f->has_digest = true;
        memcpy(f->digest, digest, 32);
    } else if (memcmp(f->digest, digest, 32) != 0) {
        fail(m->c, "m%u has another state at index %llu than another member had", m->place, U(index));
    }
}

void check_result(struct member *m, uint64_t index, const Wire__Op *op, const struct op_result *result)
{
    struct cluster *c = m->c;
    uint32_t number, owner;
    struct op *o;

    if (!op->has_token || result->code)
        return;
    memcpy(&number, op->token.data, 4);
    o = &c->ops[number];
    if (!o->applied_at && !result->repeated) {
        o->applied_at = index;
        o->applied_job = result->job_id;
        if (o->kind == OP_CANCEL)
            return;
        owner = result->job_id < sizeof c->truth.jobs / sizeof *c->truth.jobs ? c->truth.jobs[result->job_id] : UINT32_MAX;
        if (owner)
            fail(c, "job id %u is given to request %u and was request %u's", result->job_id, number, owner - 1);
        else
            c->truth.jobs[result->job_id] = number + 1;
        return;
    }
    if (!result->repeated && o->applied_at != index)
        fail(c, "exactly once: m%u does request %u at index %llu, it was done at %llu", m->place, number, U(index), U(o->applied_at));
    else if (!o->applied_at)
        fail(c, "exactly once: m%u takes request %u for done at index %llu", m->place, number, U(index));
    else if (o->applied_job != result->job_id)
        fail(c, "exactly once: request %u made job %u, m%u says %u", number, o->applied_job, m->place, result->job_id);
}

/* An acknowledged request is in the state of every later leader. */
void check_leader_state(struct member *m)
{
    struct cluster *c = m->c;

    for (uint32_t i = 0; i < c->op_count; i++) {
        const struct op *o = &c->ops[i];
        struct op_result known;

        if (!o->is_done || o->code || fact_at(&c->truth, o->applied_at)->committed_in > m->term)     /* a leader who woke up late knows nothing of a later one's */
            continue;
        if (state_token(m->state, o->token, o->token_wall_ms, &known) != 1 || known.job_id != o->job_id) {
            fail(c, "m%u leads without request %u, which was acknowledged", m->place, i);
            return;
        }
        if (o->kind != OP_CANCEL && !c->is_purging && !state_job(m->state, o->job_id)) {
            fail(c, "m%u leads without job %u, which was acknowledged", m->place, o->job_id);
            return;
        }
    }
}

bool check_is_settled(struct cluster *c, char *why, size_t room)
{
    struct member *leader = NULL;
    struct raft_status st;
    uint8_t a[32], b[32];

    for (unsigned i = 0; i < c->member_count; i++)
        if (member_is_leader(c->members[i]) && c->members[i]->is_leader_ready && (!leader || leader->term < c->members[i]->term))
            leader = c->members[i];
    if (!leader)
        return snprintf(why, room, "nobody leads"), false;
    if (!clients_are_done(c))
        return snprintf(why, room, "a client has no answer"), false;
    raft_status(leader->raft, &st);
    for (uint32_t i = 0; i < st.members.count; i++) {
        const struct member *m = member_by_id(c, st.members.rows[i].id);

        if (!m || m->is_gone || !m->raft)
            return snprintf(why, room, "m%u is a member and is not there", m ? m->place : 99), false;
        if (!st.members.rows[i].is_voter)
            return snprintf(why, room, "m%u is still a learner", m->place), false;
        if (m->is_muted)
            return snprintf(why, room, "m%u is still muted", m->place), false;
        if (m->applied != st.last_index)
            return snprintf(why, room, "m%u has applied %llu of %llu", m->place, U(m->applied), U(st.last_index)), false;
    }
    state_digest(leader->state, a);
    for (uint32_t i = 0; i < st.members.count; i++) {
        state_digest(member_by_id(c, st.members.rows[i].id)->state, b);
        if (memcmp(a, b, 32) != 0)
            fail(c, "at the end m%u has another state than the leader", member_by_id(c, st.members.rows[i].id)->place);
    }
    check_leader_state(leader);
    return true;
}

void check_fini(struct truth *t)
{
    free(t->facts);
    free(t->pairs);
    free(t->votes);
    free(t->leaders);
}
