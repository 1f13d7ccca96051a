/* SPDX-License-Identifier: Apache-2.0 */
/* consensus.c - the thread that is the member: a poll loop around the core. It waits for sockets, timers and its own eventfd, and for nothing else.
 *
 * The scheduler's loop may be busy for seconds, the disk may stall: heartbeats go out here all the same. A leader whose loop does not
 * turn is alive and useless, so the loop is asked for a sign of life and the leadership is given up when none comes; likewise when the own disk has become
 * much slower than the others' disks. Times are CLOCK_BOOTTIME: a suspended machine finds its lease over.
 *
 * The time that a read's lease is checked against is taken after the read was taken from the ring, never before: a pause between the two must
 * not let an old lease vouch for a new read.
 */
#include "raft.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define HOUSE_MS        100     /* dialling, joining, watching */
#define STATUS_MS       50
#define INFO_MS         500
#define PING_MS         250
#define SLOW_MS         2000    /* a slow disk must be slow that long */
#define SLOW_TIMES      5u
#define SLOW_FLOOR_US   2000u   /* faster than this is fast enough, whatever the others do */
#define DONE_MOST       (64u << 20)     /* committed and not taken by the loop: then entries are read from no peer for a while */
#define POLLS_MAX       (4u + 4u * RAFT_HOSTS_MAX + 64u)

void consensus_fail(struct store *s, const struct spur_error *why)
{
    pthread_mutex_lock(&s->status_lock);
    if (!s->failed.code)
        s->failed = *why;
    pthread_mutex_unlock(&s->status_lock);
    atomic_store(&s->may_propose, 0);
    raft_wake(s->wake_fd);
}

/* ---- what the loop asks ---- */

static void answer(struct store *s, struct item *item, int rc)
{
    item->why.code = rc;
    item_tell(s, item);
}

static uint64_t member_of(const struct store *s, const char *name)
{
    for (uint32_t i = 0; i < s->config.count; i++)
        if (strcmp(s->config.rows[i].name, name) == 0)
            return s->config.rows[i].id;
    return RAFT_NOBODY;
}

static void asked_add(struct store *s, struct item *item, int64_t now)
{
    struct host *h;

    snprintf(s->wanted.name, sizeof s->wanted.name, "%s", item->name);
    snprintf(s->wanted.addr, sizeof s->wanted.addr, "%s", item->addr);
    s->wanted.is_voter = item->is_voter;
    s->wanted_until_ms = now + 15000;
    h = raft_group_host_add(s, item->name, item->addr);
    if (!h) {
        snprintf(s->change, sizeof s->change, "%s cannot be added: %u hosts are known already", item->name, s->host_count);
        s->wanted_until_ms = 0;
        return;
    }
    if (*item->addr)
        snprintf(h->addr, sizeof h->addr, "%s", item->addr);
    h->dial_ms[LINE_CONTROL] = h->dial_ms[LINE_BULK] = 0;
    snprintf(s->change, sizeof s->change, "%s is asked to join", item->name);
    s->house_ms = 0;
}

/* Changes that an administrator orders: begun or refused here, seen in status. The first checks were the loop's. */
static void asked_change(struct store *s, struct item *item, int64_t now)
{
    struct spur_error err = { 0 };
    uint64_t id = *item->name ? member_of(s, item->name) : RAFT_NOBODY;
    int rc = 0;

    switch (item->kind) {
    case ITEM_ADD:
        asked_add(s, item, now);
        break;
    case ITEM_REMOVE:
        rc = raft_member_remove(s->core, (uint64_t)now, id, &err);
        snprintf(s->change, sizeof s->change, rc < 0 ? "%s is not removed: %s" : "%s is being removed", item->name, err.text);
        break;
    case ITEM_TRANSFER:
        rc = raft_transfer(s->core, (uint64_t)now, id, &err);
        snprintf(s->change, sizeof s->change, rc < 0 ? "no hand-over%s%s: %s" : "hand-over%s%s", *item->name ? " to " : "", item->name, err.text);
        s->hand_over_ms = now;
        break;
    case ITEM_RESIGN:
        if (s->core_role == RAFT_LEADER && raft_transfer(s->core, (uint64_t)now, RAFT_NOBODY, &err) < 0)
            raft_resign(s->core, (uint64_t)now);
        break;
    case ITEM_FORCE:
        if ((rc = raft_group_force(s, &err)) == 0)
            rc = raft_force_alone(s->core, (uint64_t)now, &err);
        snprintf(s->change, sizeof s->change, rc < 0 ? "not promoted: %s" : "promoted by force: this member alone is the group%s", rc < 0 ? err.text : "");
        raft_say(s, SPUR_LOG_WARN, "%s", s->change);
        break;
    default:
        break;
    }
    free(item);
}

/* False: not now. While a hand-over is under way the core takes nothing: what comes waits for its end, then this member still leads, or says who does not. */
static bool proposed(struct store *s, struct item *item, int64_t now)
{
    int rc = raft_propose(s->core, (uint64_t)now, item->data, item->n, item, &item->index, &item->why);

    if (rc == SPUR_EBUSY) {
        memset(&item->why, 0, sizeof item->why);
        return false;
    }
    if (rc < 0)
        answer(s, item, rc);
    return true;
}

static void held_propose(struct store *s)
{
    struct item *item;

    while ((item = s->held)) {
        struct item *next = item->next;

        if (!proposed(s, item, boot_ms()))
            return;
        if (!(s->held = next))
            s->held_end = &s->held;
    }
}

static void asked(struct store *s, struct item *item, int64_t now)
{
    int rc;

    switch (item->kind) {
    case ITEM_ENTRY:
        if (!s->held && proposed(s, item, now))
            break;
        item->next = NULL;
        *s->held_end = item;
        s->held_end = &item->next;
        break;
    case ITEM_BARRIER:
        item->index = ++s->next_read;
        rc = raft_read(s->core, (uint64_t)now, item->index, &item->why);
        if (rc < 0) {
            answer(s, item, rc);
            break;
        }
        item->next = s->reads;
        s->reads = item;
        break;
    case ITEM_INSTALL: {
        /* The state is replaced. When the old log does not lead up to it, the next write begins behind it. */
        struct order *o;

        if (raft_snapshot_installed(s->core, (uint64_t)now, item->index, item->term, item->members) && (o = calloc(1, sizeof *o))) {
            o->kind = ORDER_RESET;
            o->index = item->index;
            o->term = item->term;
            order_send(s, o);
        }
        s->snapshot_known = item->index;
        if (s->handed_out < item->index)
            s->handed_out = item->index;
        free(item->members);
        free(item);
        break;
    }
    default:
        asked_change(s, item, now);
        break;
    }
}

static void asks_take(struct store *s)
{
    struct item *item;
    uint64_t applied;

    held_propose(s);
    while ((item = ring_take(&s->asks))) {
        bool is_entry = item->kind == ITEM_ENTRY;

        asked(s, item, boot_ms());
        if (!is_entry)                  /* entries are gathered: one write for all that wait here */
            raft_act(s);
    }
    applied = atomic_load(&s->applied);
    if (applied && applied <= s->handed_out)
        raft_applied(s->core, applied);
}

/* ---- watching ---- */

/* The slowest of the others, by what they have said lately: slower than all of them by far is slow. */
static uint32_t others_flush(const struct store *s, int64_t now)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < s->host_count; i++)
        if (s->hosts[i].info.flush_p50_us > most && s->hosts[i].is_seen && now - s->hosts[i].heard_ms < 5000)
            most = s->hosts[i].info.flush_p50_us;
    return most;
}

static bool is_alone(const struct store *s)
{
    uint32_t voters = 0;

    for (uint32_t i = 0; i < s->config.count; i++)
        voters += s->config.rows[i].is_voter;
    return voters <= 1;
}

static void watch_loop(struct store *s, int64_t now)
{
    int64_t silent = now - atomic_load(&s->loop_seen_ms);

    if (silent > PING_MS && !atomic_exchange(&s->is_pinged, true))
        raft_ring_loop(s);
    if (s->core_role != RAFT_LEADER || is_alone(s) || !s->o.watchdog_ms || silent < (int64_t)s->o.watchdog_ms)
        return;
    raft_say_rarely(s, "watchdog", "the controller has not turned for %lld ms: the leadership is given up", (long long)silent);
    raft_resign(s->core, (uint64_t)now);
}

static void watch_disk(struct store *s, int64_t now)
{
    uint32_t p50 = 0, p99 = 0, most = 0, count = 0, others;
    struct spur_error err;

    if (s->core_role != RAFT_LEADER || is_alone(s)) {
        atomic_store(&s->is_cramped, false);
        return;
    }
    if (atomic_exchange(&s->is_cramped, false)) {
        raft_say_rarely(s, "full", "there is no space for the log: the leadership is given up");
        atomic_store(&s->cramped_ms, (long long)now);
        if (raft_transfer(s->core, (uint64_t)now, RAFT_NOBODY, &err) < 0)
            raft_resign(s->core, (uint64_t)now);
        return;
    }
    if (atomic_load(&s->is_full)) {
        raft_say_rarely(s, "full", "there is no space for the log: the leadership is given up");
        if (raft_transfer(s->core, (uint64_t)now, RAFT_NOBODY, &err) < 0 || now - s->full_ms > 1000)
            raft_resign(s->core, (uint64_t)now);
        return;
    }
    s->full_ms = now;
    if (!s->o.may_leave_slow_disk)
        return;
    flush_times(s, &p50, &p99, &most, now - SLOW_MS, &count);
    others = others_flush(s, now);
    if (count < 8 || !others || p50 < SLOW_FLOOR_US || p50 < SLOW_TIMES * others) {
        s->slow_since_ms = now;
        return;
    }
    if (now - s->slow_since_ms < SLOW_MS)
        return;
    raft_say_rarely(s, "slow", "a flush takes %u us here and at most %u us on the other members: the leadership is handed over", p50, others);
    if (raft_transfer(s->core, (uint64_t)now, RAFT_NOBODY, &err) == 0)
        s->slow_since_ms = now;
}

static void infos_send(struct store *s)
{
    struct info i = { .feature = s->events.feature, .applied = atomic_load(&s->applied) };
    uint32_t most, count;

    flush_times(s, &i.flush_p50_us, &i.flush_p99_us, &most, boot_ms() - 10000, &count);
    for (uint32_t k = 0; k < s->host_count; k++) {
        struct line *l = s->hosts[k].out[LINE_CONTROL];
        uint8_t *data;
        size_t n;

        if (!l || !l->has_hello)
            continue;
        i.is_outsider = s->core_role == RAFT_LEADER && s->group;
        for (uint32_t m = 0; m < s->config.count; m++)
            if (s->config.rows[m].id == l->hello.member)
                i.is_outsider = false;
        if ((data = info_pack(&i, &n)))
            line_send(s, l, FRAME_INFO, data, n);
        free(data);
    }
}

/* The timers must leave room for the disk: an acknowledgement waits for a flush. */
static void check_timers(struct store *s)
{
    uint32_t p50, p99, most, count;

    flush_times(s, &p50, &p99, &most, boot_ms() - 60000, &count);
    if (count >= 100 && p99 / 1000 * 10 > s->o.election_min_ms)
        raft_say_rarely(s, "timers", "the disk takes %u ms for one flush in a hundred; election = %u ms is less than ten times that: set it to %u ms or more", p99 / 1000,
                        s->o.election_min_ms, p99 / 100);
}

static void age_turn(struct store *s, int64_t now)
{
    struct raft_status st;

    if (s->seen_commit && atomic_load(&s->applied) >= s->seen_commit) {
        atomic_store(&s->fresh_ms, s->seen_ms);
        s->seen_commit = 0;
    }
    if (s->core_role == RAFT_LEADER) {
        raft_status(s->core, &st);
        atomic_store(&s->lease_ms, (long long)st.lease_until_ms);
        if (raft_has_lease(s->core, (uint64_t)now) && atomic_load(&s->applied) >= st.commit)
            atomic_store(&s->fresh_ms, now);
    } else {
        atomic_store(&s->lease_ms, 0);
    }
}

static void house(struct store *s, int64_t now)
{
    if (now >= s->status_ms) {
        age_turn(s, now);
        raft_status_make(s);
        s->status_ms = now + STATUS_MS;
    }
    if (now < s->house_ms)
        return;
    s->house_ms = now + HOUSE_MS;
    lines_sweep(s, now);
    if (s->hand_over_ms && now > s->hand_over_ms + 3 * (int64_t)s->o.election_max_ms) {
        s->hand_over_ms = 0;
        if (strncmp(s->change, "hand-over", 9) == 0)
            snprintf(s->change, sizeof s->change, "the hand-over did not come about: the other one was not ready, or did not answer");
    }
    raft_group_turn(s, now);
    lines_dial(s, now);
    watch_loop(s, now);
    watch_disk(s, now);
    if (now >= s->info_ms) {
        s->info_ms = now + INFO_MS;
        infos_send(s);
        check_timers(s);
    }
}

/* ---- the loop ---- */

static int wait_ms(struct store *s, int64_t now)
{
    int64_t next = (int64_t)raft_next_ms(s->core), most = s->host_count > 1 ? HOUSE_MS : PING_MS;

    for (const struct job *j = s->delayed; j; j = j->next)
        if (j->due_ms < now + most)
            most = j->due_ms > now ? j->due_ms - now : 0;
    if (s->held)
        most = 5;
    if (s->done_first || s->orders_first)
        most = 2;                       /* a ring was full */
    if (raft_has_ready(s->core))
        return 0;
    if (next < now + most)
        most = next > now ? next - now : 0;
    return (int)most;
}

static void sockets(struct store *s, const struct pollfd *polls, size_t n, struct line **of)
{
    for (size_t i = 0; i < n; i++) {
        if (!of[i] || of[i]->is_dead)
            continue;
        if (polls[i].revents & POLLOUT)
            line_write(s, of[i]);
        if (polls[i].revents & (POLLIN | POLLHUP | POLLERR))
            line_read(s, of[i]);
    }
}

static void turn(struct store *s)
{
    struct pollfd polls[POLLS_MAX];
    struct line *of[POLLS_MAX] = { NULL };
    const void *ignored;
    uint64_t count, written;
    size_t n = 0;
    int64_t now = boot_ms();

    polls[n++] = (struct pollfd){ .fd = s->wake_fd, .events = POLLIN };
    if (s->listen_fd >= 0)
        polls[n++] = (struct pollfd){ .fd = s->listen_fd, .events = POLLIN };
    for (struct line *l = s->lines; l && n < POLLS_MAX; l = l->next) {
        if (l->is_dead)
            continue;
        of[n] = l;
        polls[n].fd = l->fd;
        polls[n].events = l->kind == LINE_BULK && !l->has_dialled && s->done_bytes > DONE_MOST ? 0 : POLLIN;
        if (s->host->channels->output(l->channel, &ignored) > 0)
            polls[n].events |= POLLOUT;
        polls[n++].revents = 0;
    }
    if (poll(polls, n, wait_ms(s, now)) < 0 && errno != EINTR)
        return;
    if (polls[0].revents && read(s->wake_fd, &count, sizeof count) < 0)
        errno = 0;
    if (s->listen_fd >= 0 && polls[1].revents)
        lines_accept(s);
    lines_met(s);
    sockets(s, polls, n, of);
    written = atomic_load(&s->written);
    if (written > s->write_done) {
        s->write_done = written;
        raft_written(s->core, (uint64_t)boot_ms(), written);
    }
    asks_take(s);
    raft_act(s);                             /* what was asked is on its way before anything else is looked at */
    jobs_take(s);
    jobs_release(s, boot_ms());
    tell_flush(s);
    orders_flush(s);
    now = boot_ms();
    raft_tick(s->core, (uint64_t)now);
    raft_act(s);
    house(s, now);
    raft_act(s);
    for (struct line *l = s->lines; l; l = l->next)
        if (!l->is_dead)
            line_write(s, l);
    raft_act(s);
}

/* The store cannot go on: the loop is told, all that waits is answered, nothing is sent any more. */
static void failed(struct store *s)
{
    struct item *item = calloc(1, sizeof *item);

    lines_close(s);
    if (item) {
        item->kind = ITEM_ROLE;
        item->role = SPUR_STORE_FAILED;
        pthread_mutex_lock(&s->status_lock);
        item->why = s->failed;
        s->status.role = SPUR_STORE_FAILED;
        pthread_mutex_unlock(&s->status_lock);
        item_tell(s, item);
    }
}

void *consensus_main(void *arg)
{
    struct store *s = arg;
    bool has_failed = false;

    while (!atomic_load(&s->is_stopping)) {
        pthread_mutex_lock(&s->status_lock);
        has_failed = s->failed.code != 0;
        pthread_mutex_unlock(&s->status_lock);
        if (has_failed)
            break;
        turn(s);
    }
    if (has_failed)
        failed(s);
    return NULL;
}

/* ---- status ---- */

static void member_make(struct store *s, const struct raft_status *st, const struct raft_member *row, int64_t now, struct spur_store_member *out)
{
    const struct host *h = raft_group_host_of(s, row->id);

    *out = (struct spur_store_member){ .voter = row->is_voter, .heard_ms = -1, .is_self = row->id == s->id };
    snprintf(out->name, sizeof out->name, "%s", row->name);
    snprintf(out->addr, sizeof out->addr, "%s", row->addr);
    out->role = row->id == st->leader ? SPUR_STORE_LEADER : row->is_voter ? SPUR_STORE_FOLLOWER : SPUR_STORE_LEARNER;
    if (out->is_self) {
        uint32_t most, count;

        out->reachable = true;
        out->heard_ms = 0;
        out->index = st->written;
        out->feature = s->events.feature;
        flush_times(s, &out->flush_p50_us, &out->flush_p99_us, &most, now - 60000, &count);
    } else if (h) {
        out->reachable = h->out[LINE_CONTROL] && h->out[LINE_CONTROL]->has_hello;
        out->heard_ms = h->heard_ms ? now - h->heard_ms : -1;
        out->flush_p50_us = h->info.flush_p50_us;
        out->flush_p99_us = h->info.flush_p99_us;
        out->feature = h->feature;
    }
    for (uint32_t i = 0; i < st->peer_count; i++)
        if (st->peers[i].id == row->id && st->role == RAFT_LEADER) {
            out->index = st->peers[i].match;
            out->is_installing = st->peers[i].is_snapshotting;
        }
    if (st->role == RAFT_LEADER || out->is_self) {
        uint64_t target = st->role == RAFT_LEADER ? st->last_index : st->commit;

        out->lag = target > out->index ? target - out->index : 0;
    }
}

void raft_status_make(struct store *s)
{
    struct spur_store_status new = { .size = sizeof new };
    struct spur_store_member rows[RAFT_MEMBERS_MAX];
    struct raft_status st;
    int64_t now = boot_ms();
    bool is_known = true;

    raft_status(s->core, &st);
    new.fence = new.term = st.term;
    new.committed = st.commit;
    new.durable = st.written;
    new.last_index = st.last_index;
    new.applied = atomic_load(&s->applied);
    new.snapshot_index = s->snapshot_known;
    new.member_count = st.members.count;
    new.is_muted = st.is_muted;
    new.feature_min = UINT32_MAX;
    for (uint32_t i = 0; i < st.members.count; i++) {
        member_make(s, &st, &st.members.rows[i], now, &rows[i]);
        if (rows[i].voter) {
            new.voters++;
            new.voters_reachable += rows[i].reachable;
            is_known &= rows[i].feature != 0 || rows[i].is_self;
            if (rows[i].feature < new.feature_min)
                new.feature_min = rows[i].feature;
        }
        if (rows[i].role == SPUR_STORE_LEADER) {
            new.has_leader = true;
            snprintf(new.leader, sizeof new.leader, "%s", rows[i].name);
            snprintf(new.leader_addr, sizeof new.leader_addr, "%s", rows[i].addr);
        }
    }
    if (!is_known || !new.voters)
        new.feature_min = 0;
    if (s->group)
        snprintf(new.group, sizeof new.group, "%016llx", (unsigned long long)s->group);
    snprintf(new.change, sizeof new.change, "%.199s", s->change);
    pthread_mutex_lock(&s->status_lock);
    s->status = new;
    memcpy(s->members, rows, st.members.count * sizeof *rows);
    pthread_mutex_unlock(&s->status_lock);
}
