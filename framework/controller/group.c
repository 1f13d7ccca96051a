/* SPDX-License-Identifier: Apache-2.0 */
/* group.c - the group of controllers as this one sees it: who leads, where he is, and what is asked of the group itself.
 *
 * A request that only the leader may take and that comes while nobody leads is parked: most elections are over before it would have been asked
 * again, so it goes on the moment the store names a leader, here or with a refusal that says where. What waits too long is refused with
 * the number of controllers that answer, from which a client concludes that there is no majority. Parked requests are
 * bytes: they are decoded and admitted when they go on, by the state of then.
 */
#include <stdlib.h>

#include "controller/ctl.h"

#define PARK_MS 700
#define PARK_BYTES_MAX (32u << 20)

struct parked { uint64_t conn; struct frame frame; int64_t until_ms; struct parked *next; uint8_t body[]; };
struct group { uv_timer_t timer; struct ctl *ctl; struct parked *first, **last; size_t bytes; bool is_walking; };

static void status(const struct ctl *c, struct spur_store_status *st)
{
    *st = (struct spur_store_status){ .size = sizeof *st, .age_ms = -1 };
    c->store_ops->status(c->store->self, st);
}

bool group_leads(const struct ctl *c)
{
    return c->role == SPUR_STORE_LEADER && c->is_live && c->state->config && !c->is_config_due;
}

int64_t group_age_ms(const struct ctl *c)
{
    struct spur_store_status st;

    if (c->role == SPUR_STORE_LEADER)      /* who was stopped for a while and may be none any more: group_has_lost_lease */
        return 0;
    status(c, &st);
    return st.age_ms < 0 ? INT64_MAX : st.age_ms;
}

bool group_has_lost_lease(const struct ctl *c, int64_t for_ms)
{
    struct spur_store_status st;

    status(c, &st);
    return c->role == SPUR_STORE_LEADER && st.age_ms > for_ms;
}

/* A store of one member does not count: it is its own majority. */
void group_voters(const struct ctl *c, uint32_t *voters, uint32_t *reachable)
{
    struct spur_store_status st;

    status(c, &st);
    *voters = st.voters ? st.voters : 1;
    *reachable = st.voters ? st.voters_reachable : c->role == SPUR_STORE_LEADER;
}

uint32_t group_level(const struct ctl *c)
{
    struct spur_store_status st;

    status(c, &st);
    return st.voters ? st.feature_min : STATE_LEVEL;
}

/* Where clients reach the leader: as SlurmctldHost says, else the host of the store's own address, with SlurmctldPort. */
bool group_leader_addr(const struct ctl *c, char out[160])
{
    const struct config *cfg = c->state->config ? c->state->config : c->file_config;
    struct spur_store_status st;
    char *colon;

    out[0] = '\0';
    if (!*c->leader)
        return false;
    for (size_t i = 0; i < cfg->controller_count; i++)
        if (word_eq(cfg->controllers[i].host, c->leader)) {
            snprintf(out, 160, "%s", cfg->controllers[i].addr ? cfg->controllers[i].addr : cfg->controllers[i].host);
            return true;
        }
    status(c, &st);
    snprintf(out, 160, "%s", st.leader_addr);
    if (out[0] != '[' && (colon = strchr(out, ':')) && !strchr(colon + 1, ':'))
        *colon = '\0';
    return *out != '\0';
}

void group_refuse(struct ctl *c, uint64_t conn, uint64_t seq)
{
    struct peer *p = ctl_peer(c, conn);
    Wire__Refusal no = WIRE__REFUSAL__INIT;
    char addr[160], text[240];

    if (!p)
        return;
    no.code = SPUR_ENOTLEADER;
    no.text = text;
    if (*c->leader && (c->role != SPUR_STORE_LEADER || group_leads(c))) {
        snprintf(text, sizeof text, "%s leads, not %s", c->leader, c->name);
        no.leader = c->leader;
        no.leader_addr = group_leader_addr(c, addr) ? addr : NULL;
    } else {
        group_voters(c, &no.voters, &no.reachable);
        no.has_voters = no.has_reachable = 1;
        if (no.reachable * 2 <= no.voters)
            snprintf(text, sizeof text, "no majority of the controllers answers: %u of %u", no.reachable, no.voters);
        else
            snprintf(text, sizeof text, "%s does not lead, and no controller that does is known yet", c->name);
    }
    rpc_send(p->conn, WIRE__MESSAGE_TYPE__REFUSED, seq, &no.base);
}

void group_refuse_dropped(struct ctl *c, uint64_t conn, uint64_t seq, const struct spur_error *why)
{
    if (why->code == SPUR_ENOTLEADER || why->code == SPUR_ESTALE || why->code == SPUR_ECLOSED)
        group_refuse(c, conn, seq);
    else
        ctl_refuse(c, conn, seq, why, 0);
}

/* ---- parked requests ------------------------------------------------------------------------------------------------ */

static void parked_go(struct ctl *c, struct parked *k)
{
    struct peer *p = ctl_peer(c, k->conn);

    if (p && group_leads(c))
        dispatch_message(c, p->conn, &k->frame, k->body);
    else
        group_refuse(c, k->conn, k->frame.seq);
    free(k);
}

static void park_rang(uv_timer_t *timer);

static void park_arm(struct group *g)
{
    int64_t in = g->first ? g->first->until_ms - clock_boot_ms() : 0;

    if (g->first)
        uv_timer_start(&g->timer, park_rang, in > 0 ? (uint64_t)in : 0, 0);
    else
        uv_timer_stop(&g->timer);
}

/* Lets go of what is due, or of all. What is parked anew meanwhile stands behind the last of now. */
static void park_walk(struct ctl *c, bool all)
{
    struct group *g = c->group;
    int64_t now = clock_boot_ms();
    struct parked *k, *due = NULL, **last = &due;

    while ((k = g->first) && (all || k->until_ms <= now)) {
        if (!(g->first = k->next))
            g->last = &g->first;
        g->bytes -= k->frame.length;
        k->next = NULL;
        *last = k;
        last = &k->next;
    }
    while ((k = due)) {
        due = k->next;
        parked_go(c, k);
    }
    park_arm(g);
}

static void park_rang(uv_timer_t *timer) { park_walk(((struct group *)timer->data)->ctl, false); }

void group_park(struct ctl *c, struct peer *p, const struct frame *f, const uint8_t *body)
{
    struct group *g = c->group;
    struct parked *k;

    if (*c->leader && c->role != SPUR_STORE_LEADER) {
        group_refuse(c, p->number, f->seq);
        return;
    }
    if (c->is_stopping || g->bytes + f->length > PARK_BYTES_MAX) {
        group_refuse(c, p->number, f->seq);
        return;
    }
    k = mem_alloc(sizeof *k + f->length);
    k->conn = p->number;
    k->frame = *f;
    k->until_ms = clock_boot_ms() + PARK_MS;
    if (f->length)
        memcpy(k->body, body, f->length);
    *g->last = k;
    g->last = &k->next;
    g->bytes += f->length;
    if (g->first == k)
        park_arm(g);
}

void group_role(struct ctl *c)
{
    if (c->group && c->group->first && (group_leads(c) || (*c->leader && c->role != SPUR_STORE_LEADER)))
        park_walk(c, true);
}

void group_create(struct ctl *c)
{
    struct group *g = c->group = mem_alloc(sizeof *g);

    g->ctl = c;
    g->last = &g->first;
    uv_timer_init(c->loop, &g->timer);
    g->timer.data = g;
}

static void group_free(uv_handle_t *h)
{
    struct group *g = h->data;

    while (g->first) {
        struct parked *k = g->first;

        g->first = k->next;
        free(k);
    }
    free(g);
}

void group_destroy(struct ctl *c)
{
    if (c->group)
        uv_close((uv_handle_t *)&c->group->timer, group_free);
    c->group = NULL;
}

/* ---- what is asked of the group itself ------------------------------------------------------------------------------ */

const char *group_role_word(enum spur_store_role role)
{
    switch (role) {
    case SPUR_STORE_LEADER: return "leader";
    case SPUR_STORE_FOLLOWER: return "follower";
    case SPUR_STORE_LEARNER: return "learner";
    case SPUR_STORE_FAILED: return "failed";
    default: return "starting";
    }
}

static void member_fill(Wire__MemberInfo *w, const struct spur_store_member *m, struct arena *a)
{
    wire__member_info__init(w);
    w->name = arena_copy(a, m->name);
    w->addr = arena_copy(a, m->addr);
    w->role = (char *)(uintptr_t)group_role_word(m->role);
    w->has_voter = w->has_reachable = w->has_index = w->has_lag = w->has_heard_ms = w->has_flush_p50_us = w->has_flush_p99_us = w->has_level = w->has_is_self = 1;
    w->voter = m->voter;
    w->reachable = m->reachable || m->is_self;
    w->index = m->index;
    w->lag = m->lag;
    w->heard_ms = m->heard_ms;
    w->flush_p50_us = m->flush_p50_us;
    w->flush_p99_us = m->flush_p99_us;
    w->level = m->feature;
    w->is_self = m->is_self;
    w->has_is_installing = m->is_installing;
    w->is_installing = m->is_installing;
}

void group_members(struct ctl *c, Wire__MembersReply *out, struct arena *a)
{
    struct spur_store_status st;
    struct spur_store_member m = { 0 };
    char addr[160];

    status(c, &st);
    out->name = c->name;
    out->role = (char *)(uintptr_t)group_role_word(c->role);
    out->leader = c->leader;
    out->leader_addr = group_leader_addr(c, addr) ? arena_copy(a, addr) : NULL;
    out->version = (char *)(uintptr_t)PACKAGE_VERSION;
    out->store = arena_printf(a, "store/%s", c->store->desc->name);
    out->cluster = (char *)(uintptr_t)config_text(c->file_config, CONF_ClusterName);
    out->change = arena_copy(a, st.change);
    out->group = arena_copy(a, st.group);
    out->has_term = out->has_fence = out->has_index = out->has_committed = out->has_durable = out->has_snapshot_index = out->has_log_bytes = 1;
    out->has_disk_free = out->has_flush_p50_us = out->has_flush_p99_us = out->has_flush_max_us = out->has_age_ms = out->has_level = out->has_level_all = 1;
    out->has_voters = out->has_reachable = out->has_is_muted = 1;
    out->term = st.term;
    out->fence = c->fence;
    out->index = c->state->index;
    out->committed = st.committed;
    out->durable = st.durable;
    out->snapshot_index = st.snapshot_index;
    out->log_bytes = st.log_bytes;
    out->disk_free = st.disk_free;
    out->flush_p50_us = st.flush_p50_us;
    out->flush_p99_us = st.flush_p99_us;
    out->flush_max_us = st.flush_max_us;
    out->age_ms = st.age_ms < 0 || st.age_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)st.age_ms;
    out->level = STATE_LEVEL;
    out->level_all = group_level(c);
    group_voters(c, &out->voters, &out->reachable);
    out->is_muted = st.is_muted;
    if (!SPUR_HAS(c->store_ops, member))
        return;
    out->members = arena_alloc(a, (st.member_count + 1) * sizeof *out->members);
    for (uint32_t i = 0; i < st.member_count; i++) {
        if (c->store_ops->member(c->store->self, i, &m) < 0)
            continue;
        out->members[out->n_members] = arena_alloc(a, sizeof **out->members);
        member_fill(out->members[out->n_members++], &m, a);
    }
}

static const char *group_addr_of(const struct ctl *c, const Wire__MemberChangeRequest *r)
{
    const struct config *cfg = c->state->config ? c->state->config : c->file_config;

    if (r->addr && *r->addr)
        return r->addr;
    for (size_t i = 0; i < cfg->controller_count; i++)
        if (word_eq(cfg->controllers[i].host, r->name))
            return cfg->controllers[i].addr ? cfg->controllers[i].addr : cfg->controllers[i].host;
    return r->name;
}

static bool group_has(const struct ctl *c, const char *name, struct spur_store_member *m)
{
    struct spur_store_status st;

    status(c, &st);
    for (uint32_t i = 0; i < st.member_count; i++)
        if (c->store_ops->member(c->store->self, i, m) == 0 && word_eq(m->name, name))
            return true;
    return false;
}

bool group_is_member(const struct ctl *c, const char *name)
{
    struct spur_store_member m;

    return group_has(c, name, &m);
}

const char *group_member_addr(const struct ctl *c, const char *name, struct arena *a)
{
    struct spur_store_member m;
    char *addr, *colon;

    if (!group_has(c, name, &m) || !m.addr[0])
        return NULL;
    addr = arena_copy(a, m.addr);
    if (*addr == '[') {
        addr++;
        addr[strcspn(addr, "]")] = '\0';
    } else if ((colon = strchr(addr, ':')) && !strchr(colon + 1, ':')) {
        *colon = '\0';
    }
    return addr;
}

const char *group_addr(const struct ctl *c, const Wire__MemberChangeRequest *r) { return group_addr_of(c, r); }

int group_change(struct ctl *c, const Wire__MemberChangeRequest *r, struct str *text, struct spur_error *err)
{
    struct spur_store_member m;
    struct spur_store_status st;
    uint32_t voters, reachable;

    status(c, &st);
    group_voters(c, &voters, &reachable);
    if (!SPUR_HAS(c->store_ops, member_add) || !loader_can(c->store, SPUR_CAP_REPLICATED))
        return spur_fail(err, SPUR_EUNSUPPORTED, "store/%s keeps the state of one controller; a group of several needs StoreType=store/raft in slurm.conf and a restart",
                         c->store->desc->name);
    if (r->verb != WIRE__MEMBER_CHANGE_REQUEST__VERB__TRANSFER && r->verb != WIRE__MEMBER_CHANGE_REQUEST__VERB__PROMOTE && (!r->name || !*r->name))
        return spur_fail(err, SPUR_EINVAL, "which controller? its name, as in SlurmctldHost, is missing");
    if (r->name && strlen(r->name) > 63)
        return spur_fail(err, SPUR_EINVAL, "%.80s...: a controller's name has at most 63 characters", r->name);
    switch (r->verb) {
    case WIRE__MEMBER_CHANGE_REQUEST__VERB__ADD:
        if (group_has(c, r->name, &m))
            return spur_fail(err, SPUR_EEXISTS, "%s is a member already (%s)", r->name, m.voter ? "a voter" : "a learner");
        if (c->store_ops->member_add(c->store->self, r->name, group_addr_of(c, r), true, err) < 0)
            return spur_context(err, "%s", r->name);
        str_addf(text, "%s is being asked; it joins as a learner and votes when it has caught up (`spur controller status`)", r->name);
        return 0;
    case WIRE__MEMBER_CHANGE_REQUEST__VERB__REMOVE:
        if (!group_has(c, r->name, &m))
            return spur_fail(err, SPUR_ENOTFOUND, "%s is no member of the group; `spur controller status` lists them", r->name);
        if (m.voter && voters <= 1)
            return spur_fail(err, SPUR_EDENIED, "%s is the only voter: without it the group is gone", r->name);
        if (c->store_ops->member_remove(c->store->self, r->name, err) < 0)
            return spur_context(err, "%s", r->name);
        joins_forget(c, r->name);
        str_addf(text, "%s is being removed; stop its spurctld, and take its SlurmctldHost line and its key away", r->name);
        return 0;
    case WIRE__MEMBER_CHANGE_REQUEST__VERB__TRANSFER:
        if (r->name && *r->name && !group_has(c, r->name, &m))
            return spur_fail(err, SPUR_ENOTFOUND, "%s is no member of the group; `spur controller status` lists them", r->name);
        if (r->name && *r->name && word_eq(r->name, c->name)) {
            str_addf(text, "%s leads already", c->name);
            return 0;
        }
        if (r->name && *r->name && !m.voter)
            return spur_fail(err, SPUR_EDENIED, "%s is a learner: it reads along and cannot lead", r->name);
        if (voters < 2)
            return spur_fail(err, SPUR_ENOTFOUND, "%s is the only voter: there is nobody to hand over to", c->name);
        if (c->store_ops->transfer(c->store->self, r->name && *r->name ? r->name : NULL, err) < 0)
            return err->code;
        str_addf(text, "%s hands over to %s", c->name, r->name && *r->name ? r->name : "the controller that is furthest");
        return 0;
    case WIRE__MEMBER_CHANGE_REQUEST__VERB__PROMOTE:
        if (!r->has_force || !r->force)
            return spur_fail(err, SPUR_EDENIED, "promote makes this controller the whole group and gives up what only the others have: it needs --force");
        if (st.has_leader)
            return spur_fail(err, SPUR_EBUSY, "%s leads: there is nothing to force; `spur controller transfer %s` hands over", st.leader, c->name);
        if (!SPUR_HAS(c->store_ops, promote_force))
            return spur_fail(err, SPUR_EUNSUPPORTED, "store/%s cannot be forced", c->store->desc->name);
        if (c->store_ops->promote_force(c->store->self, err) < 0)
            return err->code;
        log_line(SPUR_LOG_WARN, "%s was forced to be the whole group: what only other controllers had is given up", c->name);
        str_addf(text, "%s is the whole group now; wipe the state of the others before they start again (spurctld -c), then `spur controller add` them", c->name);
        return 0;
    default:
        return spur_fail(err, SPUR_EUNSUPPORTED, "a change of the group that this version does not know (%d)", (int)r->verb);
    }
}
