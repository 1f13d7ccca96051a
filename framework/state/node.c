/* SPDX-License-Identifier: Apache-2.0 */
/* node.c - nodes: made from the configuration, their states in words, whether a job may start on one. */
#include <stdlib.h>
#include <string.h>

#include "state/private.h"

/* Devices of one name are numbered through in the order of the node's line: gpu:a:2,gpu:b:1 gives a 0-1, b 2. A resource whose pieces have
 * files, and every gpu, is handed out by index; others (mps, licences of a node, memory of a card) are counted. */
static bool gres_has_devices(const struct config *c, const struct config_gres *g)
{
    if (word_eq(g->name, "gpu"))
        return true;
    if (word_eq(g->name, "mps") || word_eq(g->name, "shard"))
        return false;
    for (size_t i = 0; i < c->gres_line_count; i++)
        if (c->gres_lines[i].files && word_eq(c->gres_lines[i].name, g->name))
            return true;
    return false;
}

void node_gres_setup(struct state *s, struct node *n)
{
    const struct config_node *conf = n->conf;

    for (uint32_t i = 0; i < n->gres_count; i++) {
        free(n->gres[i].name);
        free(n->gres[i].type);
    }
    free(n->gres);
    n->gres_count = (uint32_t)conf->gres_count;
    n->gres = mem_array(n->gres_count ? n->gres_count : 1, sizeof *n->gres);
    for (uint32_t i = 0; i < n->gres_count; i++) {
        const struct config_gres *g = &conf->gres[i];
        uint64_t first = 0;

        n->gres[i].name = mem_copy(g->name);
        n->gres[i].type = mem_copy(g->type);
        n->gres[i].total = g->count;
        n->gres[i].no_consume = g->no_consume;
        for (uint32_t k = 0; k < i; k++)
            if (word_eq(conf->gres[k].name, g->name))
                first += conf->gres[k].count;
        if (gres_has_devices(s->config, g) && g->count && g->count <= SPUR_GRES_MAX_INDEX && first <= SPUR_GRES_MAX_INDEX - g->count)
            n->gres[i].all_mask = (g->count == 64 ? UINT64_MAX : (UINT64_C(1) << g->count) - 1) << first;
    }
}

/* The state that a node's line gives it at first; later the line no longer matters unless it changes. */
static void node_first_state(struct node *n)
{
    static const struct { const char *word; uint8_t base; uint32_t flags; } words[] = {
        { "UNKNOWN", NODE_UNKNOWN, 0 }, { "IDLE", NODE_UNKNOWN, 0 }, { "DOWN", NODE_DOWN, 0 }, { "DRAIN", NODE_UNKNOWN, NODE_FLAG_DRAIN },
        { "DRAINED", NODE_UNKNOWN, NODE_FLAG_DRAIN }, { "DRAINING", NODE_UNKNOWN, NODE_FLAG_DRAIN }, { "FAIL", NODE_UNKNOWN, NODE_FLAG_FAIL },
        { "FAILING", NODE_UNKNOWN, NODE_FLAG_FAIL }, { "FUTURE", NODE_FUTURE, 0 }, { "CLOUD", NODE_IDLE, NODE_FLAG_CLOUD | NODE_FLAG_POWERED_DOWN },
        { "MAINT", NODE_UNKNOWN, NODE_FLAG_MAINT },
    };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (n->conf->state && word_eq(n->conf->state, words[i].word)) {
            n->base = words[i].base;
            n->flags = words[i].flags;
        }
    text_set(&n->reason, n->conf->reason);
}

void node_setup(struct node *n, const struct config_node *conf, uint32_t index)
{
    memset(n, 0, sizeof *n);
    n->index = index;
    n->conf = conf;
    n->weight = conf->weight;
    n->boards = conf->boards;
    n->sockets = conf->sockets;
    n->cores_per_socket = conf->cores_per_socket;
    n->threads_per_core = conf->threads_per_core;
    n->cpus = conf->cpus;
    n->mem_mib = conf->mem_mib;
    n->tmp_mib = conf->tmp_mib;
    bitmap_init(&n->cores_used, node_cores(n));
    node_first_state(n);
}

void node_record_fini(struct state *s, struct node *n)
{
    for (uint32_t i = 0; i < n->gres_count; i++) {
        free(n->gres[i].name);
        free(n->gres[i].type);
    }
    free(n->gres);
    free(n->reason);
    free(n->reason_user);
    free(n->version);
    free(n->os);
    free(n->arch);
    free(n->addr);
    free(n->hostname);
    free(n->core_threads_used);
    free(n->comment);
    free(n->extra);
    free(n->features);
    free(n->boot_id);
    free(n->mesh_endpoint);
    free(n->instance_id);
    free(n->instance_type);
    free(n->foreign);
    free(n->job_ids);
    devices_drop(s, n->devices);
    share_drop(s, n->fabric);
    bitmap_fini(&n->cores_used);
}

unsigned node_state_now(const struct node *n)
{
    if (n->base != NODE_IDLE || !n->jobs)
        return n->base;
    return n->exclusive_job || n->cpus_used >= n->conf->cpus || bitmap_count(&n->cores_used) + n->conf->core_spec >= node_cores(n) ? NODE_ALLOCATED : NODE_MIXED;
}

uint32_t node_flags_now(const struct node *n)
{
    return n->flags | (n->completing ? NODE_FLAG_COMPLETING : 0) | (n->away && n->base != NODE_UNKNOWN && n->base != NODE_FUTURE &&
                                                                    !(n->flags & NODE_FLAG_POWERED_DOWN) ? NODE_FLAG_NO_RESPOND : 0);
}

bool node_may_start(const struct node *n)
{
    const uint32_t not = NODE_FLAG_DRAIN | NODE_FLAG_NO_RESPOND | NODE_FLAG_FAIL | NODE_FLAG_INVALID_REG | NODE_FLAG_POWERED_DOWN | NODE_FLAG_REBOOT_ISSUED;

    return n->base == NODE_IDLE && !(n->flags & not) && !n->foreign_count;
}

bool node_is_usable(const struct node *n)
{
    return node_may_start(n) && !n->away;
}

static void print_full(unsigned base, uint32_t flags, struct str *out)
{
    static const char *const bases[] = { "UNKNOWN", "DOWN", "IDLE", "ALLOCATED", "ERROR", "MIXED", "FUTURE" };
    static const struct { uint32_t flag; const char *text; } words[] = {
        { NODE_FLAG_CLOUD, "CLOUD" }, { NODE_FLAG_COMPLETING, "COMPLETING" }, { NODE_FLAG_DRAIN, "DRAIN" }, { NODE_FLAG_INVALID_REG, "INVALID_REG" },
        { NODE_FLAG_MAINT, "MAINTENANCE" }, { NODE_FLAG_POWERED_DOWN, "POWERED_DOWN" }, { NODE_FLAG_FAIL, "FAIL" },
        { NODE_FLAG_REBOOT_REQUESTED, "REBOOT_REQUESTED" }, { NODE_FLAG_REBOOT_ISSUED, "REBOOT_ISSUED" }, { NODE_FLAG_RESERVED, "RESERVED" }, { NODE_FLAG_NO_RESPOND, "NOT_RESPONDING" },
        { NODE_FLAG_PLANNED, "PLANNED" },
    };

    str_add(out, base < sizeof bases / sizeof *bases ? bases[base] : "UNKNOWN");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (flags & words[i].flag) {
            str_add_char(out, '+');
            str_add(out, words[i].text);
        }
}

void node_state_print(unsigned base, uint32_t flags, bool compact, bool full, struct str *out)
{
    bool busy = base == NODE_ALLOCATED || base == NODE_MIXED || flags & NODE_FLAG_COMPLETING;
    const char *text;

    if (full) {
        print_full(base, flags, out);
        return;
    }
    if (flags & NODE_FLAG_REBOOT_ISSUED) {
        str_add(out, compact ? "boot^" : "reboot^");
        return;
    }
    if (flags & NODE_FLAG_MAINT && base != NODE_DOWN && !busy)
        text = "maint";
    else if (flags & NODE_FLAG_DRAIN)
        text = busy ? compact ? "drng" : "draining" : compact ? "drain" : "drained";
    else if (flags & NODE_FLAG_FAIL)
        text = busy ? compact ? "failg" : "failing" : "fail";
    else if (flags & NODE_FLAG_INVALID_REG)
        text = "inval";
    else if (base == NODE_DOWN)
        text = "down";
    else if (base == NODE_ALLOCATED)
        text = compact ? "alloc" : "allocated";
    else if (base == NODE_MIXED)
        text = compact ? "mix" : "mixed";
    else if (base == NODE_IDLE)
        text = flags & NODE_FLAG_COMPLETING ? compact ? "comp" : "completing" : flags & NODE_FLAG_RESERVED ? compact ? "resv" : "reserved" :
               flags & NODE_FLAG_PLANNED ? compact ? "plnd" : "planned" : "idle";
    else if (base == NODE_FUTURE)
        text = compact ? "futr" : "future";
    else
        text = compact ? "unk" : "unknown";
    str_add(out, text);
    if (base == NODE_ALLOCATED && flags & NODE_FLAG_COMPLETING && !(flags & (NODE_FLAG_DRAIN | NODE_FLAG_FAIL)))
        str_add_char(out, '+');
    if (flags & NODE_FLAG_NO_RESPOND)
        str_add_char(out, '*');
    else if (flags & NODE_FLAG_REBOOT_REQUESTED)
        str_add_char(out, '@');
    else if (flags & NODE_FLAG_POWERED_DOWN)
        str_add_char(out, '~');
}

void node_changed(struct doing *d, struct node *n)
{
    view_touch(d->s, n->index);
    tell(d, EV_NODE_CHANGED, NULL)->node = n->index;
}

void node_set_reason(struct doing *d, struct node *n, const char *reason, bool ours, const char *user, uint32_t uid)
{
    text_set(&n->reason, reason);
    text_set(&n->reason_user, reason ? user : NULL);
    n->reason_uid = uid;
    n->reason_wall_s = n->reason ? d->s->wall_ms / 1000 : 0;
    n->reason_is_ours = ours && n->reason;
}

void node_foreign_add(struct node *n, uint32_t job_id, uint32_t attempt)
{
    for (uint32_t i = 0; i < n->foreign_count; i++)
        if (n->foreign[i].job_id == job_id && n->foreign[i].attempt == attempt)
            return;
    n->foreign = mem_grow(n->foreign, n->foreign_count + 1, sizeof *n->foreign);
    n->foreign[n->foreign_count++] = (struct node_foreign){ job_id, attempt };
}

bool node_foreign_remove(struct node *n, uint32_t job_id, uint32_t attempt)
{
    for (uint32_t i = 0; i < n->foreign_count; i++)
        if (n->foreign[i].job_id == job_id && n->foreign[i].attempt == attempt) {
            n->foreign[i] = n->foreign[--n->foreign_count];
            return true;
        }
    return false;
}

void state_node_away(struct state *s, struct node *n, bool away)
{
    if (n->away == away)
        return;
    n->away = away;
    view_touch(s, n->index);
}
