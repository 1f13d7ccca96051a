/* SPDX-License-Identifier: Apache-2.0 */
/* group.c - who belongs to the group: founding it, taking in members that are new or were wiped, the words of an administrator.
 *
 * A member is a data folder: its id is drawn with the folder, so a host that was wiped is somebody new, and never votes twice in one term.
 *
 * Founding: the first SlurmctldHost founds, once a majority of the listed hosts has answered and every one that answered is as fresh as itself; it waits
 * a little for the rest. Whoever is not there then joins later, as a new host does: the leader sees a fresh folder under a listed name, removes the
 * member that had the name before, and adds the new one as a learner that becomes a voter when it has caught up. One change at a time.
 *
 * Of an even number of lines the last one is a learner: two lines are one voter and a copy that serves reads, for two voters would stop
 * when either of them does.
 */
#include "raft.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#define FOUND_WAIT_MS   3000            /* a majority is there and fresh: so long the others may still come */

struct host *raft_group_host(struct store *s, const char *name)
{
    for (uint32_t i = 0; i < s->host_count; i++)
        if (strcmp(s->hosts[i].name, name) == 0)
            return &s->hosts[i];
    return NULL;
}

struct host *raft_group_host_of(struct store *s, uint64_t id)
{
    for (uint32_t i = 0; i < s->host_count; i++)
        if (id != RAFT_NOBODY && s->hosts[i].id == id)
            return &s->hosts[i];
    return NULL;
}

struct host *raft_group_host_add(struct store *s, const char *name, const char *addr)
{
    struct host *h = raft_group_host(s, name);

    if (h)
        return h;
    if (s->host_count == RAFT_HOSTS_MAX)
        return NULL;
    h = &s->hosts[s->host_count++];
    memset(h, 0, sizeof *h);
    snprintf(h->name, sizeof h->name, "%s", name);
    snprintf(h->addr, sizeof h->addr, "%s", addr);
    h->is_self = strcmp(name, s->name) == 0;
    if (h->is_self)
        h->id = s->id;
    return h;
}

static void addr_make(const struct store *s, const char *addr, char out[128])
{
    const char *colon = strrchr(addr, ':');

    if (colon && strchr(addr, ':') == colon)
        snprintf(out, 128, "%s", addr);                         /* with a port of its own */
    else if (colon && *addr != '[')
        snprintf(out, 128, "[%.110s]:%u", addr, s->o.port);
    else
        snprintf(out, 128, "%.110s:%u", addr, s->o.port);
}

void raft_group_hosts(struct store *s)
{
    struct spur_controller c;
    struct host *h;
    char addr[128];

    s->host_count = s->listed_count = 0;
    for (uint32_t i = 0; SPUR_HAS(s->host, controller) && i < RAFT_HOSTS_MAX - 8 && s->host->controller(s->host->ctx, i, &c) == 0; i++) {
        addr_make(s, c.addr, addr);
        if ((h = raft_group_host_add(s, c.name, addr)) && !h->listed)
            h->listed = ++s->listed_count;
    }
    if (!(h = raft_group_host(s, s->name))) {
        snprintf(addr, sizeof addr, "127.0.0.1:%u", s->o.port);
        h = raft_group_host_add(s, s->name, addr);
    }
    snprintf(s->addr, sizeof s->addr, "%s", h->addr);
}

/* Shall a host of this line vote? */
static bool line_votes(const struct store *s, uint32_t listed)
{
    return listed < s->listed_count || s->listed_count % 2 == 1;
}

/* ---- joining ---- */

/* This folder, fresh as it is, belongs to a group from now on. */
static void group_join(struct store *s, uint64_t group, const char *by)
{
    struct roster r = { .group = group, .members = s->config };
    struct spur_error err = { 0 };

    if (roster_write(s, &r, &err) < 0) {
        raft_say_rarely(s, "members", "%s", err.text);
        return;
    }
    s->group = group;
    snprintf(s->change, sizeof s->change, "joining the group of %s", by);
    raft_say(s, SPUR_LOG_INFO, "this member is new in group %016llx, known from %s", (unsigned long long)group, by);
    lines_hello(s);
}

void raft_group_hello(struct store *s, struct line *l, const struct hello *hello)
{
    struct host *h = raft_group_host(s, hello->name);

    if (hello->group && !s->group)
        group_join(s, hello->group, hello->name);
    if (!h)
        return;
    if (h->is_self)
        return;
    if (h->id != hello->member && h->id)
        for (uint32_t kind = LINE_CONTROL; kind <= LINE_BULK; kind++)
            if (h->out[kind] && h->out[kind] != l && h->out[kind]->has_hello && h->out[kind]->hello.member != hello->member)
                h->out[kind]->is_dead = true, h->out[kind] = NULL;      /* of the life before */
    h->id = hello->member;
    h->group = hello->group;
    h->is_fresh = hello->is_fresh;
    h->feature = hello->feature;
    h->is_seen = true;
    h->heard_ms = boot_ms();
    l->host = h;
    if (!l->has_dialled) {
        /* It is up: no reason to wait before it is dialled. */
        for (uint32_t kind = LINE_CONTROL; kind <= LINE_BULK; kind++)
            if (!h->out[kind]) {
                h->dial_ms[kind] = 0;
                h->backoff_ms[kind] = 0;
            }
    }
    s->house_ms = 0;
}

static const struct raft_member *member_named(const struct store *s, const char *name)
{
    for (uint32_t i = 0; i < s->config.count; i++)
        if (strcmp(s->config.rows[i].name, name) == 0)
            return &s->config.rows[i];
    return NULL;
}

/* A host whose folder is new to the group: true when a change was begun or is under way. */
static bool take_in(struct store *s, struct host *h, bool is_voter, int64_t now)
{
    const struct raft_member *old = member_named(s, h->name);
    struct spur_error err = { 0 };
    struct raft_member m = { .id = h->id, .is_voter = is_voter };
    int rc;

    if (old && old->id == h->id)
        return false;
    if (old) {
        rc = raft_member_remove(s->core, (uint64_t)now, old->id, &err);
        if (rc == 0)
            raft_say(s, SPUR_LOG_INFO, "%s comes with a new folder: what it was before leaves the group", h->name);
    } else {
        snprintf(m.name, sizeof m.name, "%s", h->name);
        snprintf(m.addr, sizeof m.addr, "%s", h->addr);
        rc = raft_member_add(s->core, (uint64_t)now, &m, &err);
        if (rc == 0) {
            raft_say(s, SPUR_LOG_INFO, "%s joins the group%s", h->name, is_voter ? ", and votes when it has caught up" : " as a learner");
            snprintf(s->change, sizeof s->change, "%s joins", h->name);
        }
    }
    if (rc < 0 && rc != SPUR_EBUSY)
        raft_say_rarely(s, "join", "%s cannot join: %s", h->name, err.text);
    return true;
}

/* A member of the configuration as it shall be: it becomes a voter, or has another address in SlurmctldHost. True: a change was begun or is under way. */
static bool adjust(struct store *s, struct host *h, bool is_voter, int64_t now)
{
    const struct raft_member *row = member_named(s, h->name);
    struct spur_error err = { 0 };
    struct raft_member m;
    int rc;

    if (!row || row->id != h->id || ((row->is_voter || row->will_vote || !is_voter) && strcmp(row->addr, h->addr) == 0))
        return false;
    m = *row;
    m.is_voter |= is_voter || row->will_vote;
    snprintf(m.addr, sizeof m.addr, "%s", h->addr);
    rc = raft_member_add(s->core, (uint64_t)now, &m, &err);
    if (rc == 0)
        raft_say(s, SPUR_LOG_INFO, "%s %s", h->name, m.is_voter && !row->is_voter ? "becomes a voter" : "has a new address");
    else if (rc != SPUR_EBUSY)
        raft_say_rarely(s, "join", "%s cannot be changed: %s", h->name, err.text);
    return true;
}

static bool is_connected(const struct host *h)
{
    return h->out[LINE_CONTROL] && h->out[LINE_BULK] && h->out[LINE_CONTROL]->has_hello && h->out[LINE_BULK]->has_hello &&
           h->out[LINE_CONTROL]->hello.member == h->id;
}

static void wanted_turn(struct store *s, int64_t now)
{
    struct host *h = raft_group_host(s, s->wanted.name);
    const struct raft_member *m = h ? member_named(s, h->name) : NULL;

    if (m && h->id == m->id && m->is_voter >= s->wanted.is_voter) {
        snprintf(s->change, sizeof s->change, "%s is a member", h->name);
        s->wanted_until_ms = 0;
        return;
    }
    if (now > s->wanted_until_ms) {
        snprintf(s->change, sizeof s->change, "%s was not added: %s", s->wanted.name, h && is_connected(h) ? "it has not caught up in time; it stays a learner" :
                 h && *h->trouble ? h->trouble : "it does not answer");
        s->wanted_until_ms = 0;
        return;
    }
    if (h && is_connected(h) && h->group == s->group && !take_in(s, h, s->wanted.is_voter, now))
        adjust(s, h, s->wanted.is_voter, now);
}

static void leader_turn(struct store *s, int64_t now)
{
    bool are_all_here = true;

    if (s->wanted_until_ms) {
        wanted_turn(s, now);
        return;
    }
    for (uint32_t i = 0; i < s->host_count; i++) {
        struct host *h = &s->hosts[i];
        const struct raft_member *old = member_named(s, h->name);

        if (h->listed && !(h->is_self || is_connected(h)))
            are_all_here = false;
        if (h->listed && !old)
            are_all_here = false;
        if (h->is_self || !h->listed || !h->is_fresh || h->group != s->group || !is_connected(h))
            continue;
        if (take_in(s, h, old ? old->is_voter : line_votes(s, h->listed), now))
            return;
    }
    /* The copy of a pair votes when a third is there, not before: two voters stop when either does. */
    for (uint32_t i = 0; i < s->host_count; i++) {
        struct host *h = &s->hosts[i];

        if (h->listed && (h->is_self || is_connected(h)) && adjust(s, h, are_all_here && line_votes(s, h->listed), now))
            return;
    }
}

/* ---- founding ---- */

static void group_found(struct store *s)
{
    struct roster r = { 0 };
    struct raft_members *m = &r.members;
    struct spur_error err = { 0 };
    uint64_t group = 0;

    for (uint32_t i = 0; i < s->host_count; i++) {
        const struct host *h = &s->hosts[i];
        struct raft_member *row = &m->rows[m->count];

        if ((!h->listed && !h->is_self) || (!h->is_self && !is_connected(h)) || m->count == RAFT_MEMBERS_MAX)
            continue;
        row->id = h->id;
        row->is_voter = h->is_self || line_votes(s, h->listed);
        snprintf(row->name, sizeof row->name, "%s", h->name);
        snprintf(row->addr, sizeof row->addr, "%s", h->addr);
        m->count++;
    }
    while (!group)
        if (getrandom(&group, sizeof group, 0) != (ssize_t)sizeof group)
            return;
    r.group = group;
    if (roster_write(s, &r, &err) < 0 || raft_found(s->core, m, &err) < 0) {
        raft_say_rarely(s, "found", "the group cannot be founded: %s", err.text);
        return;
    }
    s->group = group;
    s->is_fresh = false;
    s->change[0] = '\0';
    raft_say(s, SPUR_LOG_INFO, "group %016llx is founded with %u member%s", (unsigned long long)group, m->count, m->count == 1 ? "" : "s");
    lines_hello(s);
}

static void founder_turn(struct store *s, int64_t now)
{
    uint32_t reached = 1, listed = s->listed_count ? s->listed_count : 1;
    char missing[160] = "";
    size_t n = 0;

    for (uint32_t i = 0; i < s->host_count; i++) {
        const struct host *h = &s->hosts[i];

        if (h->is_self || !h->listed)
            continue;
        if (is_connected(h) && h->is_fresh && !h->group)
            reached++;
        else if (n < sizeof missing - 1)
            n += (size_t)snprintf(missing + n, sizeof missing - n, " %s", h->name);
    }
    if (reached <= listed / 2) {
        s->found_since_ms = now;
        snprintf(s->change, sizeof s->change, "the group is founded when %u of %u controllers answer; waiting for%s", listed / 2 + 1, listed, missing);
        if (now - s->start_ms > 5000)
            raft_say_rarely(s, "founding", "%s", s->change);
        return;
    }
    if (reached < listed && now - s->found_since_ms < FOUND_WAIT_MS)
        return;
    group_found(s);
}

void raft_group_turn(struct store *s, int64_t now)
{
    const struct host *self = raft_group_host(s, s->name);

    if (s->is_fresh && !s->group) {
        if (self->listed <= 1 || s->listed_count <= 1) {
            founder_turn(s, now);
            return;
        }
        for (uint32_t i = 0; i < s->host_count; i++)
            if (s->hosts[i].listed == 1) {
                snprintf(s->change, sizeof s->change, "waiting for %s, the first SlurmctldHost, to found the group%s%s", s->hosts[i].name,
                         *s->hosts[i].trouble ? ": " : "", s->hosts[i].trouble);
                if (now - s->start_ms > 5000)
                    raft_say_rarely(s, "founding", "%s", s->change);
            }
        return;
    }
    if (s->core_role == RAFT_LEADER && s->is_leader_told)
        leader_turn(s, now);
}

/* The configuration in force. */
void raft_group_members(struct store *s, const struct raft_members *m)
{
    struct job *j = s->group ? calloc(1, sizeof *j) : NULL;

    s->config = *m;
    if (!s->wanted_until_ms)
        s->change[0] = '\0';           /* what was under way has come about */
    for (uint32_t i = 0; i < m->count; i++) {
        struct host *h = raft_group_host_add(s, m->rows[i].name, m->rows[i].addr);

        if (h && !h->id)
            h->id = m->rows[i].id;
        if (h && !h->listed && !h->is_self && strcmp(h->addr, m->rows[i].addr) != 0)
            snprintf(h->addr, sizeof h->addr, "%s", m->rows[i].addr);
        if (m->rows[i].id == s->id && s->is_fresh) {
            s->is_fresh = false;
            s->change[0] = '\0';
            lines_hello(s);
        }
    }
    if (j) {                            /* elsewhere: consensus waits for no disk */
        j->kind = JOB_ROSTER;
        j->index = roster_seq(s);
        j->group = s->group;
        j->former = s->former;
        j->members = *m;
        files_put(s, j);
    }
    s->house_ms = 0;
}

/* What the others still have is another group from now on: they must not meet again as equals. */
int raft_group_force(struct store *s, struct spur_error *err)
{
    uint64_t group = 0;
    int rc;

    if (s->core_leader && s->core_leader != s->id)
        return spur_fail(err, SPUR_EBUSY, "there is a leader: `spur controller transfer` is the way");
    if (s->is_fresh)
        return spur_fail(err, SPUR_EINVAL, "this member has no data yet");
    while (!group)
        if (getrandom(&group, sizeof group, 0) != (ssize_t)sizeof group)
            return spur_fail(err, SPUR_EIO, "the system gives no random bytes");
    if ((rc = roster_write(s, &(struct roster){ .group = group, .former = s->group, .members = s->config }, err)) < 0)
        return rc;
    s->former = s->group;
    s->group = group;
    lines_hello(s);
    return 0;
}

/* Another member was promoted by force, and its group is the one that counts: this folder leads and votes no more. */
void raft_group_superseded(struct store *s, const char *by)
{
    struct roster r = { .group = s->group, .former = s->former, .is_superseded = true, .members = s->config };
    struct spur_error err = { 0 };

    if (roster_write(s, &r, &err) < 0)
        raft_say(s, SPUR_LOG_ERROR, "%s", err.text);
    spur_fail(&err, SPUR_ESTALE, "%s was promoted by force and goes on without this folder: move %s away, then this controller joins again", by, s->path);
    consensus_fail(s, &err);
}
