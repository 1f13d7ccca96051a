/* SPDX-License-Identifier: Apache-2.0 */
/* apply.c - one entry of the log onto the state: its times, its operations in order, their results and events.
 *
 * Total: whatever an entry says, there is an answer and the next entry can be applied. Times never go back: the larger of what the state
 * has and what is stamped. What one op causes elsewhere (dependents) is settled before the next op.
 */
#include <stdlib.h>
#include <string.h>

#include "state/private.h"
#include "wire/unpack.h"

#define TOKEN_AHEAD_MS (3600 * 1000ll)      /* a client's clock may be that far ahead of the leader's */
#define TIME_MAX_MS (INT64_C(1) << 52)      /* no clock shows more, and sums stay far from overflow */

static void dispatch(struct doing *d, const Wire__Op *op)
{
    if (op->config)
        op_config(d, op->config);
    else if (op->submit)
        op_submit(d, op->submit);
    else if (op->start)
        op_start(d, op->start);
    else if (op->report)
        op_report(d, op->report);
    else if (op->cancel)
        op_cancel(d, op->cancel);
    else if (op->update)
        op_update(d, op->update);
    else if (op->time_limit)
        op_time_limit(d, op->time_limit);
    else if (op->step)
        op_step(d, op->step);
    else if (op->purge)
        op_purge(d, op->purge);
    else if (op->partition)
        op_partition(d, op->partition);
    else if (op->hook)
        op_hook(d, op->hook);
    else if (op->hosts)
        op_hosts(d, op->hosts);
    else if (op->accounts)
        op_accounts(d, op->accounts);
    else if (op->mesh_host)
        op_mesh_host(d, op->mesh_host);
    else if (op->het_start)
        op_het_start(d, op->het_start);
    else if (op->het_step)
        op_het_step(d, op->het_step);
    else if (op->node_reboot)
        op_node_reboot(d, op->node_reboot);
    else if (!d->s->config && (op->register_node || op->node_update || op->node_lost))
        refuse(d, SPUR_EBUSY, 0, "the cluster has no configuration yet");
    else if (op->register_node)
        op_register(d, op->register_node);
    else if (op->node_update)
        op_node_update(d, op->node_update);
    else if (op->node_lost)
        op_node_lost(d, op->node_lost);
    else
        refuse(d, SPUR_EUNSUPPORTED, 0, "this operation is not known to this version");
}

static bool has_token(const Wire__Op *op)
{
    return op->has_token && op->token.len == 16;
}

static bool same_token(const Wire__Op *a, const Wire__Op *b)
{
    return has_token(a) && has_token(b) && !memcmp(a->token.data, b->token.data, 16);
}

/* True: the request was answered before, or is too old to know; the result says so. */
static bool token_answers(struct doing *d, const Wire__Op *op)
{
    int rc;

    if (op->has_token && op->token.len != 16) {
        refuse(d, SPUR_EINVAL, 0, "a request's token has 16 bytes");
        return true;
    }
    if (!op->has_token)
        return false;
    if (op->token_wall_ms > d->s->wall_ms + TOKEN_AHEAD_MS) {
        refuse(d, SPUR_EINVAL, 0, "the request was made %lld s from now: set this host's clock", (long long)(op->token_wall_ms - d->s->wall_ms) / 1000);
        return true;
    }
    rc = state_token(d->s, op->token.data, op->token_wall_ms, d->result);
    if (rc == SPUR_ESTALE)
        refuse(d, SPUR_ESTALE, 0, "the request is too old to know whether it was done already: look whether it was, then ask anew");
    return rc != 0;
}

/* Ops first..end carry one token, or it is a single op without. */
static void apply_request(struct doing *d, const Wire__Entry *entry, size_t first, size_t end, struct op_result *results)
{
    bool kept = false, submitted = false;

    for (size_t i = first; i < end; i++) {
        const Wire__Op *op = entry->ops[i];

        d->op = op;
        d->result = &results[i];
        d->has_uid = op->has_actor_uid;
        d->op_uid = op->actor_uid;
        if (!kept && token_answers(d, op))
            continue;
        if (submitted && (op->submit || op->step || op->het_step)) {    /* the same request twice in one entry */
            token_answers(d, op);
            continue;
        }
        dispatch(d, op);
        dependency_settle(d);
        if (has_token(op) && !kept && d->result->code == 0) {
            token_add(d->s, op->token.data, op->token_wall_ms, d->result->job_id, d->result->step_id);
            kept = true;
        }
        submitted |= op->submit || op->step || op->het_step;
    }
}

/* 2: hooks of the site, the text of hosts line by line; suspended jobs, spares, reboots. 3: accounts, heterogeneous jobs. 4: controllers in the mesh. */
uint32_t state_op_level(const Wire__Op *op)
{
    bool suspends = op->update && (op->update->verb == WIRE__JOB_UPDATE_REQUEST__VERB__SUSPEND || op->update->verb == WIRE__JOB_UPDATE_REQUEST__VERB__RESUME);

    if (op->mesh_host)
        return 4;
    if (op->accounts || op->het_start || op->het_step || (op->submit && op->submit->n_het))
        return 3;
    return op->node_reboot || suspends || (op->submit && op->submit->spec->spares) || op->hosts || op->hook ||
           (op->report && (op->report->report->drain || op->report->report->has_prolog_failed || op->report->report->has_not_started)) ? 2 : 1;
}

int apply(struct state *s, uint64_t index, const Wire__Entry *entry, struct arena *arena, struct applied *out)
{
    struct doing d = { .s = s, .arena = arena };

    s->index = index;
    if (entry->fence > s->fence)
        s->fence = entry->fence;
    if (entry->cluster_ms > s->cluster_ms && entry->cluster_ms < TIME_MAX_MS)
        s->cluster_ms = entry->cluster_ms;
    if (entry->wall_ms > s->wall_ms && entry->wall_ms < TIME_MAX_MS)
        s->wall_ms = entry->wall_ms;
    token_expire(s);
    out->result_count = entry->n_ops;
    out->results = arena_alloc(arena, (entry->n_ops + 1) * sizeof *out->results);
    for (size_t i = 0, end; i < entry->n_ops; i = end) {
        for (end = i + 1; end < entry->n_ops && same_token(entry->ops[i], entry->ops[end]); end++)
            ;
        apply_request(&d, entry, i, end, out->results);
    }
    out->event_count = d.event_count;
    out->events = arena_copy_bytes(arena, d.events ? d.events : (void *)&d, d.event_count * sizeof *d.events);
    free(d.events);
    list32_fini(&d.woken);
    return 0;
}

int apply_bytes(struct state *s, uint64_t index, const void *data, size_t n, struct arena *arena, struct applied *out, struct spur_error *err)
{
    Wire__Entry *entry = wire_unpack(&wire__entry__descriptor, data, n, arena);

    memset(out, 0, sizeof *out);
    if (!entry)
        return spur_fail(err, SPUR_ECORRUPT, "log entry %llu: %zu bytes that are no entry", (unsigned long long)index, n);
    return apply(s, index, entry, arena, out);
}

void state_reemit(const struct state *s, struct arena *arena, struct applied *out)
{
    struct doing d = { .s = (struct state *)s, .arena = arena };
    struct job *j;

    for (size_t at = 0; (j = table_next(&s->jobs, &at)); ) {
        enum job_phase phase = job_phase(j);

        if (phase == PHASE_LAUNCHING || (phase == PHASE_RUNNING && !j->is_batch))
            tell(&d, EV_JOB_STARTED, j)->node = j->allocs[0].node;
        else if (phase == PHASE_COMPLETING || phase == PHASE_REQUEUEING)
            job_kill_event(&d, j);
        else if (phase == PHASE_SUSPENDED)
            tell(&d, EV_JOB_FREEZE, j);
        if (phase == PHASE_RUNNING && j->suspended_ms)      /* a node may not have heard that it goes on */
            tell(&d, EV_JOB_FREEZE, j);
        for (struct step *st = j->steps; st && (phase == PHASE_LAUNCHING || phase == PHASE_RUNNING); st = st->next) {
            bool waiting = false;

            for (uint32_t i = 0; i < st->alloc_count; i++)
                waiting |= !st->allocs[i].started && !st->allocs[i].gone;
            if (waiting && !job_state_is_end(st->state))
                tell(&d, EV_STEP_CREATED, j)->step_id = st->step_id;
        }
    }
    for (uint32_t i = 0; i < s->node_count; i++) {
        if (s->nodes[i].flags & NODE_FLAG_REBOOT_ISSUED)
            tell(&d, EV_NODE_REBOOT, NULL)->node = i;
        for (uint32_t k = 0; k < s->nodes[i].foreign_count; k++) {
            struct event *e = tell(&d, EV_ORPHAN, NULL);

            e->job_id = s->nodes[i].foreign[k].job_id;
            e->attempt = s->nodes[i].foreign[k].attempt;
            e->node = i;
        }
    }
    memset(out, 0, sizeof *out);
    out->event_count = d.event_count;
    out->events = arena_copy_bytes(arena, d.events ? d.events : (void *)&d, d.event_count * sizeof *d.events);
    free(d.events);
}
