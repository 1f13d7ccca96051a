/* SPDX-License-Identifier: Apache-2.0 */
/* node.c - nodes as Slurm's clients read them, and the name of this host's node for pam_slurm.
 *
 * Every node keeps its place in the array, for node_inx of jobs and partitions counts on it: one that is not shown has no name.
 */
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "compat.h"

struct nodes {
    node_info_msg_t msg;            /* first: what the caller has */
    struct arena    arena;
    size_t          room;
    uint16_t        show;
};

/* What select_nodeinfo points to. */
struct in_use { uint16_t cpus, cpus_alloc; uint64_t mem_alloc_mib; char *tres; };

static uint16_t word16(uint64_t n)
{
    return (uint16_t)(n < NO_VAL16 ? n : NO_VAL16 - 1);
}

static void *in_use_of(const Wire__NodeInfo *n, struct arena *a)
{
    dynamic_plugin_data_t *info = arena_alloc(a, sizeof *info);
    struct in_use *u = info->data = arena_alloc(a, sizeof *u);

    u->cpus = word16(n->cpus);
    u->cpus_alloc = word16(n->cpus_alloc);
    u->mem_alloc_mib = n->mem_alloc_mib;
    u->tres = text_of(a, n->alloc_tres);
    return info;
}

static void node_fill(struct nodes *m, node_info_t *o, const Wire__NodeInfo *n)
{
    struct arena *a = &m->arena;

    memset(o, 0, sizeof *o);
    o->node_state = node_state_word(n->state, n->state_flags);
    o->next_state = NO_VAL;
    o->name = (o->node_state & NODE_STATE_BASE) == NODE_STATE_FUTURE && !(m->show & SHOW_FUTURE) ? NULL : text_of(a, n->name);
    o->node_addr = text_of(a, n->addr ? n->addr : n->name);
    o->node_hostname = text_of(a, n->hostname ? n->hostname : n->name);
    o->port = word16(n->port);
    o->boards = word16(n->boards ? n->boards : 1);
    o->sockets = word16(n->sockets);
    o->cores = word16(n->cores_per_socket);
    o->threads = word16(n->threads_per_core);
    o->cpus = o->cpus_efctv = word16(n->cpus);
    o->core_spec_cnt = word16(n->core_spec);
    o->mem_spec_limit = n->mem_spec_mib;
    o->cpu_load = n->has_load_hundredths ? n->load_hundredths : NO_VAL;
    o->free_mem = n->has_mem_free_mib ? n->mem_free_mib : NO_VAL64;
    o->real_memory = n->mem_mib;
    o->tmp_disk = (uint32_t)(n->tmp_mib < NO_VAL ? n->tmp_mib : NO_VAL - 1);
    o->weight = n->weight;
    o->owner = NO_VAL;
    o->arch = text_of(a, n->arch);
    o->os = text_of(a, n->os);
    o->version = text_of(a, n->version);
    o->features = text_of(a, n->features);
    o->features_act = text_of(a, n->features);
    o->gres = text_of(a, n->gres);
    o->gres_used = text_of(a, n->gres_used);
    o->partitions = text_of(a, n->partitions);
    o->comment = text_of(a, n->comment);
    o->extra = text_of(a, n->extra);
    o->reason = text_of(a, n->reason);
    o->reason_time = n->reason_wall_s;
    o->reason_uid = n->reason_uid;
    o->boot_time = n->boot_wall_s;
    o->slurmd_start_time = n->agent_start_wall_s;
    o->last_busy = n->last_busy_wall_s;
    o->tres_fmt_str = text_of(a, n->cfg_tres);
    o->energy = arena_alloc(a, sizeof *o->energy);
    o->ext_sensors = arena_alloc(a, sizeof *o->ext_sensors);
    o->power = arena_alloc(a, sizeof *o->power);
    o->energy->ave_watts = o->energy->current_watts = NO_VAL;
    o->ext_sensors->current_watts = o->ext_sensors->temperature = o->power->current_watts = NO_VAL;
    o->select_nodeinfo = in_use_of(n, a);
}

static int nodes_part(void *arg, void *part)
{
    struct nodes *m = arg;
    const Wire__NodesReply *r = part;

    if (r->wall_ms)
        m->msg.last_update = r->wall_ms / 1000;
    if (m->msg.record_count + r->n_nodes > m->room) {
        m->room = m->room ? 2 * m->room : 16;
        if (m->room < m->msg.record_count + r->n_nodes)
            m->room = m->msg.record_count + r->n_nodes;
        m->msg.node_array = mem_grow(m->msg.node_array, m->room, sizeof *m->msg.node_array);
    }
    for (size_t i = 0; i < r->n_nodes; i++)
        node_fill(m, &m->msg.node_array[m->msg.record_count++], r->nodes[i]);
    return 1;
}

static int nodes_load(Wire__NodesRequest *r, uint16_t show, node_info_msg_t **out)
{
    struct nodes *m;
    struct ask k;
    int rc;

    if (!out)
        return refuse(EINVAL);
    *out = NULL;
    if (ask_open(&k) < 0)
        return SLURM_ERROR;
    m = mem_alloc(sizeof *m);
    arena_init(&m->arena, 0);
    m->show = show;
    rc = ask_stream(&k, WIRE__MESSAGE_TYPE__NODES, &r->base, WIRE__MESSAGE_TYPE__NODES_PART, &wire__nodes_reply__descriptor, nodes_part, m);
    ask_close(&k);
    if (rc < 0) {
        int saved = errno;

        slurm_free_node_info_msg(&m->msg);
        return refuse(saved);
    }
    *out = &m->msg;
    return SLURM_SUCCESS;
}

int slurm_load_node(time_t update_time, node_info_msg_t **out, uint16_t show_flags)
{
    Wire__NodesRequest r = WIRE__NODES_REQUEST__INIT;

    (void)update_time;
    return nodes_load(&r, show_flags, out);
}

int slurm_load_node_single(node_info_msg_t **out, char *name, uint16_t show_flags)
{
    Wire__NodesRequest r = WIRE__NODES_REQUEST__INIT;
    int rc;

    if (!name || !*name)
        return refuse(EINVAL);
    r.n_nodes = 1;
    r.nodes = &name;
    rc = nodes_load(&r, show_flags, out);
    if (rc < 0 && errno == ESLURM_INVALID_JOB_ID)       /* what "not found" is called without a number */
        return refuse(ESLURM_INVALID_NODE_NAME);
    if (rc == 0 && (*out)->record_count == 0) {
        slurm_free_node_info_msg(*out);
        *out = NULL;
        return refuse(ESLURM_INVALID_NODE_NAME);
    }
    return rc;
}

void slurm_free_node_info_msg(node_info_msg_t *msg)
{
    struct nodes *m = (struct nodes *)msg;

    if (!m)
        return;
    free(m->msg.node_array);
    arena_fini(&m->arena);
    free(m);
}

void slurm_populate_node_partitions(node_info_msg_t *msg, partition_info_msg_t *partitions)
{
    struct nodes *m = (struct nodes *)msg;

    if (!m || !partitions)
        return;
    for (uint32_t i = 0; i < m->msg.record_count; i++)
        m->msg.node_array[i].partitions = NULL;
    for (uint32_t p = 0; p < partitions->record_count; p++) {
        const partition_info_t *one = &partitions->partition_array[p];

        for (const int32_t *at = one->node_inx; at && at[0] >= 0; at += 2)
            for (int32_t i = at[0]; i <= at[1] && (uint32_t)i < m->msg.record_count; i++) {
                char **list = &m->msg.node_array[i].partitions;

                *list = *list ? arena_printf(&m->arena, "%s,%s", *list, one->name) : arena_copy(&m->arena, one->name);
            }
    }
}

int slurm_get_select_nodeinfo(dynamic_plugin_data_t *nodeinfo, enum select_nodedata_type type, enum node_states state, void *data)
{
    const struct in_use *u = nodeinfo ? nodeinfo->data : NULL;

    if (!u || !data)
        return refuse(EINVAL);
    switch (type) {
    case SELECT_NODEDATA_SUBCNT:
        *(uint16_t *)data = state == NODE_STATE_ALLOCATED ? u->cpus_alloc : 0;
        return SLURM_SUCCESS;
    case SELECT_NODEDATA_MEM_ALLOC:
        *(uint64_t *)data = u->mem_alloc_mib;
        return SLURM_SUCCESS;
    case SELECT_NODEDATA_TRES_ALLOC_FMT_STR:
        *(char **)data = mem_copy(u->tres);
        return SLURM_SUCCESS;
    default:
        return refuse(ESLURM_NOT_SUPPORTED);
    }
}

/* ---- which node this is ----------------------------------------------------------------------------------------------------------- */

static bool same_host(const char *a, const char *b)
{
    size_t n = strcspn(a, ".");

    return word_eq(a, b) || (n == strcspn(b, ".") && strncasecmp(a, b, n) == 0 && (!a[n] || !b[n]));
}

static char *node_by(const node_info_msg_t *nodes, const char *host, bool by_addr)
{
    for (uint32_t i = 0; i < nodes->record_count; i++) {
        const node_info_t *n = &nodes->node_array[i];

        if (n->name && (by_addr ? word_eq(n->node_addr, host) : same_host(n->node_hostname, host) || same_host(n->name, host)))
            return mem_copy(n->name);
    }
    return NULL;
}

char *slurm_conf_get_nodename(const char *host)
{
    node_info_msg_t *nodes;
    char *name;

    if (!host || slurm_load_node(0, &nodes, SHOW_ALL) < 0)
        return NULL;
    name = node_by(nodes, host, false);
    slurm_free_node_info_msg(nodes);
    return name;
}

char *slurm_conf_get_aliased_nodename(void)
{
    char host[256] = "", addr[INET6_ADDRSTRLEN + 32];
    node_info_msg_t *nodes;
    struct ifaddrs *all = NULL;
    char *name;

    if (gethostname(host, sizeof host - 1) < 0 || slurm_load_node(0, &nodes, SHOW_ALL) < 0)
        return NULL;
    name = node_by(nodes, host, false);
    if (!name && getifaddrs(&all) == 0) {
        for (const struct ifaddrs *i = all; i && !name; i = i->ifa_next)
            if (i->ifa_addr && (i->ifa_addr->sa_family == AF_INET || i->ifa_addr->sa_family == AF_INET6) &&
                getnameinfo(i->ifa_addr, i->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6), addr, sizeof addr, NULL, 0,
                            NI_NUMERICHOST) == 0)
                name = node_by(nodes, addr, true);
        freeifaddrs(all);
    }
    slurm_free_node_info_msg(nodes);
    return name;
}
