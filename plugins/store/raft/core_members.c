/* SPDX-License-Identifier: Apache-2.0 */
/* core_members.c - owns the configurations: who belongs to the group, who votes, and how that changes.
 *
 * A configuration counts from the moment its entry is appended, committed or not, and the one before is in force again when the entry
 * is cut off; so all that the log names are kept, oldest first. One change at a time, of one voter at most: any two majorities
 * then share a member. A leader changes nothing before an entry of his own term is committed (the hole found in 2015).
 *
 * What comes from a peer or from the disk is checked in full by raft_members_unpack.
 */
#include "core_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- bytes: version, count, then a member: id (8, little end first), flags, length and name, length and address ---- */

#define PACK_VERSION 1u
enum { FLAG_VOTER = 1, FLAG_WILL_VOTE = 2 };

static bool text_valid(const char *text, size_t room)
{
    return memchr(text, '\0', room) != NULL;
}

bool members_valid(const struct raft_members *m)
{
    uint32_t voters = 0;

    if (m->count == 0 || m->count > RAFT_MEMBERS_MAX)
        return false;
    for (uint32_t i = 0; i < m->count; i++) {
        const struct raft_member *row = &m->rows[i];

        if (row->id == RAFT_NOBODY || !text_valid(row->name, sizeof row->name) || !text_valid(row->addr, sizeof row->addr))
            return false;
        for (uint32_t j = 0; j < i; j++)
            if (m->rows[j].id == row->id)
                return false;
        voters += row->is_voter;
    }
    return voters > 0;
}

static size_t text_pack(uint8_t *out, size_t at, size_t room, const char *text, size_t max)
{
    size_t n = strnlen(text, max - 1);

    if (at + 1 + n <= room) {
        out[at] = (uint8_t)n;
        memcpy(out + at + 1, text, n);
    }
    return at + 1 + n;
}

size_t raft_members_pack(const struct raft_members *m, uint8_t *out, size_t room)
{
    size_t at = 2;

    if (room >= 2) {
        out[0] = PACK_VERSION;
        out[1] = (uint8_t)m->count;
    }
    for (uint32_t i = 0; i < m->count; i++) {
        const struct raft_member *row = &m->rows[i];

        if (at + 9 <= room) {
            for (int byte = 0; byte < 8; byte++)
                out[at + (size_t)byte] = (uint8_t)(row->id >> (8 * byte));
            out[at + 8] = (uint8_t)((row->is_voter ? FLAG_VOTER : 0) | (row->will_vote ? FLAG_WILL_VOTE : 0));
        }
        at = text_pack(out, at + 9, room, row->name, sizeof row->name);
        at = text_pack(out, at, room, row->addr, sizeof row->addr);
    }
    return at;
}

static bool text_unpack(const uint8_t *in, size_t n, size_t *at, char *out, size_t room)
{
    size_t length;

    if (*at >= n)
        return false;
    length = in[(*at)++];
    if (length >= room || length > n - *at || memchr(in + *at, '\0', length))
        return false;
    memcpy(out, in + *at, length);
    *at += length;
    return true;
}

int raft_members_unpack(struct raft_members *m, const void *data, size_t n)
{
    const uint8_t *in = data;
    size_t at = 2;

    memset(m, 0, sizeof *m);
    if (n < 2 || in[0] != PACK_VERSION || in[1] > RAFT_MEMBERS_MAX)
        return SPUR_ECORRUPT;
    for (m->count = 0; m->count < in[1]; m->count++) {
        struct raft_member *row = &m->rows[m->count];

        if (n - at < 9)
            return SPUR_ECORRUPT;
        for (int byte = 0; byte < 8; byte++)
            row->id |= (uint64_t)in[at + (size_t)byte] << (8 * byte);
        row->is_voter = in[at + 8] & FLAG_VOTER;
        row->will_vote = in[at + 8] & FLAG_WILL_VOTE;
        at += 9;
        if (!text_unpack(in, n, &at, row->name, sizeof row->name) || !text_unpack(in, n, &at, row->addr, sizeof row->addr))
            return SPUR_ECORRUPT;
    }
    return at == n && members_valid(m) ? 0 : SPUR_ECORRUPT;
}

/* ---- which one is in force ---- */

const struct raft_member *members_find(const struct raft_members *m, uint64_t id)
{
    for (uint32_t i = 0; i < m->count; i++)
        if (m->rows[i].id == id)
            return &m->rows[i];
    return NULL;
}

void members_refresh(struct raft *r)
{
    size_t at = r->config_count;

    while (at > 1 && RAFT_FAULT(LATE_MEMBERS) && r->configs[at - 1].index > r->log.durable)
        at--;
    if (at == 0) {
        if (r->members.count == 0)
            return;
        memset(&r->members, 0, sizeof r->members);
        r->members_index = 0;
    } else {
        const struct config *c = &r->configs[at - 1];

        if (r->members_index == c->index && memcmp(&r->members, &c->members, sizeof r->members) == 0)
            return;
        r->members = c->members;
        r->members_index = c->index;
    }
    r->is_members_dirty = true;
    if (r->role != RAFT_FOLLOWER)
        peers_rebuild(r, false);
}

void members_push(struct raft *r, uint64_t index, const struct raft_members *m)
{
    RAFT_MUST(members_valid(m) && (r->config_count == 0 || r->configs[r->config_count - 1].index < index || RAFT_FAULT(NO_ROLL_BACK)));
    r->configs = raft_grow(r->configs, &r->config_room, r->config_count, sizeof *r->configs);
    r->configs[r->config_count].index = index;
    r->configs[r->config_count++].members = *m;
    members_refresh(r);
}

void members_cut(struct raft *r, uint64_t from)
{
    while (r->config_count && r->configs[r->config_count - 1].index >= from && !RAFT_FAULT(NO_ROLL_BACK))
        r->config_count--;
    members_refresh(r);
}

void members_floor(struct raft *r, uint64_t index)
{
    size_t gone = 0;

    while (gone + 1 < r->config_count && r->configs[gone + 1].index <= index)
        gone++;
    if (gone == 0)
        return;
    memmove(r->configs, r->configs + gone, (r->config_count - gone) * sizeof *r->configs);
    r->config_count -= gone;
}

const struct raft_members *raft_members_at(const struct raft *r, uint64_t index)
{
    static const struct raft_members nobody;
    size_t at = r->config_count;

    while (at && r->configs[at - 1].index > index)
        at--;
    return at ? &r->configs[at - 1].members : &nobody;
}

static bool is_changing(const struct raft *r)
{
    return r->config_count && r->configs[r->config_count - 1].index > r->commit;
}

/* ---- counting ---- */

bool members_is_voter(const struct raft *r, uint64_t id)
{
    const struct raft_member *m = members_find(&r->members, id);

    return m && m->is_voter;
}

uint32_t members_voters(const struct raft *r)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < r->members.count; i++)
        n += r->members.rows[i].is_voter;
    return n;
}

uint32_t members_quorum(const struct raft *r)
{
    return members_voters(r) / 2 + 1;
}

uint64_t members_order(const struct raft *r, uint64_t own, uint64_t (*of)(const struct raft *r, const struct peer *p))
{
    uint64_t values[RAFT_MEMBERS_MAX];
    uint32_t n = 0, quorum = members_quorum(r);

    for (uint32_t i = 0; i <= r->peer_count; i++) {
        uint64_t value;
        uint32_t at;

        if (i == r->peer_count ? !members_is_voter(r, r->config.self) : !r->peers[i].is_voter)
            continue;
        value = i == r->peer_count ? own : of(r, &r->peers[i]);
        for (at = n++; at > 0 && values[at - 1] < value; at--)
            values[at] = values[at - 1];
        values[at] = value;
    }
    return n >= quorum ? values[quorum - 1] : 0;
}

/* ---- changes ---- */

static void members_append(struct raft *r, const struct raft_members *m)
{
    uint8_t bytes[RAFT_MEMBERS_MAX * sizeof(struct raft_member)];
    size_t n = raft_members_pack(m, bytes, sizeof bytes);

    RAFT_MUST(n <= sizeof bytes && members_valid(m));
    log_append(r, r->term, RAFT_ENTRY_MEMBERS, bytes, n, NULL);
    replicate_commit(r);
}

static int change_check(struct raft *r, uint64_t now_ms, struct spur_error *err)
{
    input_begin(r, now_ms);
    if (r->role != RAFT_LEADER)
        return spur_fail(err, SPUR_ENOTLEADER, "this controller does not lead: ask the one that does");
    if (!r->is_leader_ready)
        return spur_fail(err, SPUR_EBUSY, "the leader has just been elected: try again in a moment");
    if (r->transfer_to != RAFT_NOBODY)
        return spur_fail(err, SPUR_EBUSY, "leadership is being handed over: try again in a moment");
    if (is_changing(r) && !RAFT_FAULT(MEMBERS_ANY_TIME))
        return spur_fail(err, SPUR_EBUSY, "another change of the controllers is not finished: try again when `spur controller status` shows none");
    return 0;
}

int raft_member_add(struct raft *r, uint64_t now_ms, const struct raft_member *m, struct spur_error *err)
{
    struct raft_members next;
    struct raft_member *row;
    int rc = change_check(r, now_ms, err);

    if (rc < 0)
        return rc;
    if (m->id == RAFT_NOBODY || !text_valid(m->name, sizeof m->name) || !text_valid(m->addr, sizeof m->addr))
        return spur_fail(err, SPUR_EINVAL, "a controller needs an id, a name and an address");
    next = r->members;
    row = (struct raft_member *)members_find(&next, m->id);
    if (!row) {
        if (next.count == RAFT_MEMBERS_MAX)
            return spur_fail(err, SPUR_ELIMIT, "there are %u controllers already, more cannot be: remove one first", RAFT_MEMBERS_MAX);
        row = &next.rows[next.count++];
        memset(row, 0, sizeof *row);
        row->id = m->id;
    }
    snprintf(row->name, sizeof row->name, "%s", m->name);
    snprintf(row->addr, sizeof row->addr, "%s", m->addr);
    row->will_vote = !row->is_voter && m->is_voter;
    if (memcmp(&next, &r->members, sizeof next) == 0)
        return spur_fail(err, SPUR_EEXISTS, "controller %s is a member already", m->name);
    members_append(r, &next);
    return 0;
}

int raft_member_remove(struct raft *r, uint64_t now_ms, uint64_t id, struct spur_error *err)
{
    struct raft_members next;
    const struct raft_member *row;
    size_t at;
    int rc = change_check(r, now_ms, err);

    if (rc < 0)
        return rc;
    next = r->members;
    if (!(row = members_find(&next, id)))
        return spur_fail(err, SPUR_ENOTFOUND, "there is no such controller: `spur controller status` lists them");
    if (row->is_voter && members_voters(r) == 1)
        return spur_fail(err, SPUR_EINVAL, "controller %s is the only one that votes: add another first", row->name);
    at = (size_t)(row - next.rows);
    memmove(&next.rows[at], &next.rows[at + 1], (next.count - at - 1) * sizeof next.rows[0]);
    memset(&next.rows[--next.count], 0, sizeof next.rows[0]);
    members_append(r, &next);
    return 0;
}

/* A learner that was promised a vote gets it when it has kept up: it reached, within one election timeout, the end that the log had when that
 * round of catching up began. The promise is in the configuration, so a new leader keeps it too. */
void members_promote(struct raft *r)
{
    if (r->role != RAFT_LEADER || !r->is_leader_ready || is_changing(r) || r->transfer_to != RAFT_NOBODY)
        return;
    for (uint32_t i = 0; i < r->peer_count; i++) {
        struct peer *p = &r->peers[i];
        struct raft_members next = r->members;
        struct raft_member *row = (struct raft_member *)members_find(&next, p->id);

        if (!row || !row->will_vote || p->state != PEER_REPLICATE)
            continue;
        if (p->catch_ms == 0 || p->match >= p->catch_target) {
            bool is_fast = p->catch_ms != 0 && r->now - p->catch_ms <= r->config.election_max_ms;

            p->catch_target = r->log.last;
            p->catch_ms = r->now ? r->now : 1;
            if (!is_fast)
                continue;
            row->is_voter = true;
            row->will_vote = false;
            members_append(r, &next);
            return;
        }
    }
}

void members_committed(struct raft *r)
{
    if (r->role == RAFT_LEADER && !is_changing(r) && !members_is_voter(r, r->config.self))
        election_step_down(r, true);
}

int raft_found(struct raft *r, const struct raft_members *members, struct spur_error *err)
{
    uint8_t bytes[RAFT_MEMBERS_MAX * sizeof(struct raft_member)];
    const struct raft_member *own;
    bool was_begun = r->term == 1 && r->vote == r->config.self;     /* the power failed between the vote of the founding and its entry */

    RAFT_MUST(!r->is_lent);
    if (r->log.last > 0 || (r->term > 0 && !was_begun) || r->snapshot_index > 0)
        return spur_fail(err, SPUR_EEXISTS, "this controller belongs to a group already: a new group needs an empty folder");
    if (!members_valid(members) || !(own = members_find(members, r->config.self)) || !own->is_voter)
        return spur_fail(err, SPUR_EINVAL, "the founder of a group must be one of its voters");
    r->term = 1;
    r->vote = r->config.self;
    r->is_hard_dirty = true;
    log_append(r, 1, RAFT_ENTRY_MEMBERS, bytes, raft_members_pack(members, bytes, sizeof bytes), NULL);
    r->deadline = r->now;
    return 0;
}

/* The majority is gone for good, says the administrator. Its members must never come back: the shell gives the group a new identity, which keeps
 * them out; here they would only be older. */
int raft_force_alone(struct raft *r, uint64_t now_ms, struct spur_error *err)
{
    const struct raft_member *own = members_find(&r->members, r->config.self);
    struct raft_members alone = { .count = 1 };

    input_begin(r, now_ms);
    if (!own)
        return spur_fail(err, SPUR_EINVAL, "this controller is not a member of the group: there is nothing it could go on with");
    if (r->is_muted || r->receiving.is_installing)
        return spur_fail(err, SPUR_ECORRUPT, "this controller's state is damaged or being replaced: force one that is whole");
    if (r->role == RAFT_LEADER && members_voters(r) == 1)
        return spur_fail(err, SPUR_EEXISTS, "this controller is the only voter and leads already");
    alone.rows[0] = *own;
    alone.rows[0].is_voter = true;
    alone.rows[0].will_vote = false;
    /* Should what was the majority come back, its terms stay below: who obeys the higher fence obeys this one. */
    become_follower(r, r->term + RAFT_FORCE_TERMS, RAFT_NOBODY);
    r->vote = r->config.self;
    become_leader(r);
    members_append(r, &alone);
    return 0;
}
