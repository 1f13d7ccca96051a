/* SPDX-License-Identifier: Apache-2.0 */
/* cluster.c - reads clusters and wishes from text for tests of select plugins. */
#include "cluster.h"

#include <check.h>
#include <stdlib.h>

extern const struct spur_plugin spur_plugin_select_topo;

/* "0-3,8": as a mask of 64. */
static uint64_t mask_read(const char *text)
{
    uint64_t mask = 0;

    while (*text) {
        char *end;
        unsigned long first = strtoul(text, &end, 10), last = first;

        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        for (; first <= last; first++)
            mask |= UINT64_C(1) << first;
        text = *end == ',' ? end + 1 : end;
        if (*end && *end != ',')
            break;
    }
    return mask;
}

static const char *const gres_names[] = { "gpu", "nic", "fpga" };
static const char *const type_names[] = { "a100", "h100", "mi300x" };

static void gres_add(struct cluster *c, uint32_t i, const char *name, const char *type, uint64_t total, bool has_devices)
{
    struct spur_node_view *n = &c->nodes[i];
    struct spur_gres_view *g = &c->gres[i][n->gres_count++];

    ck_assert_uint_le(n->gres_count, CLUSTER_GRES);
    memset(g, 0, sizeof *g);
    for (uint32_t k = 0; k < 3; k++) {
        if (strcmp(gres_names[k], name) == 0) {
            g->name = gres_names[k];
            g->name_id = k + 1;
        }
        if (strcmp(type_names[k], type) == 0) {
            g->type = type_names[k];
            g->type_id = k + 1;
        }
    }
    if (!g->type)
        g->type = "";
    ck_assert_msg(g->name != NULL, "gres %s", name);
    g->total = total;
    if (has_devices) {
        uint64_t first = 0;         /* indices go on over the types of one name */

        for (uint32_t k = 0; k + 1 < n->gres_count; k++)
            if (c->gres[i][k].name_id == g->name_id)
                first += c->gres[i][k].total;
        g->all_mask = g->free_mask = ((UINT64_C(1) << total) - 1) << first;
    }
}

static void node_word(struct cluster *c, uint32_t i, char *word)
{
    struct spur_node_view *n = &c->nodes[i];
    unsigned s, k, t;
    char *value = strchr(word, '=');

    if (value)
        *value++ = '\0';
    if (sscanf(word, "%us%uc%ut", &s, &k, &t) == 3) {
        n->sockets = s;
        n->cores_per_socket = k;
        n->threads_per_core = t;
        n->cpus = s * k * t;
        for (uint32_t core = 0; core < s * k; core++)
            c->cores[i][core / 64] |= UINT64_C(1) << core % 64;
    } else if (strcmp(word, "down") == 0) {
        n->flags &= ~SPUR_NODE_USABLE;
    } else if (strcmp(word, "mem") == 0) {
        n->mem_total = n->mem_free = strtoull(value, NULL, 10);
    } else if (strcmp(word, "weight") == 0) {
        n->weight = (uint32_t)strtoul(value, NULL, 10);
    } else if (strcmp(word, "memused") == 0) {
        n->mem_free -= strtoull(value, NULL, 10);
        n->jobs = 1;
    } else if (strcmp(word, "used") == 0) {
        c->cores[i][0] &= ~mask_read(value);
        n->jobs = 1;
    } else if (strcmp(word, "gpuused") == 0) {
        for (uint32_t g = 0; g < n->gres_count; g++)
            if (c->gres[i][g].name_id == 1) {
                c->gres[i][g].free_mask &= ~mask_read(value);
                c->gres[i][g].used = c->gres[i][g].total - (uint64_t)__builtin_popcountll(c->gres[i][g].free_mask);
            }
        n->jobs = 1;
    } else if (strcmp(word, "gpu") == 0) {
        char *save, *kind = strtok_r(value, ",", &save);

        for (; kind; kind = strtok_r(NULL, ",", &save)) {
            char *count = strchr(kind, ':');

            if (count)
                *count++ = '\0';
            gres_add(c, i, "gpu", count ? kind : "", strtoull(count ? count : kind, NULL, 10), true);
        }
    } else if (strcmp(word, "nic") == 0) {
        gres_add(c, i, "nic", "", strtoull(value, NULL, 10), false);
    } else {
        ck_abort_msg("node: word %s", word);
    }
}

static void node_make(struct cluster *c, const char *line, uint32_t number)
{
    uint32_t i = c->view.node_count++;
    struct spur_node_view *n = &c->nodes[i];
    char copy[256], *save, *word;

    ck_assert_uint_lt(i, CLUSTER_NODES);
    memset(n, 0, sizeof *n);
    memset(c->cores[i], 0, sizeof c->cores[i]);
    snprintf(copy, sizeof copy, "%s", line);
    snprintf(c->names[i], sizeof c->names[i], "n%u", number);
    n->index = i;
    n->flags = SPUR_NODE_USABLE;
    n->name = c->names[i];
    n->features = "";
    n->weight = 1;
    n->core_free = c->cores[i];
    n->core_words = CLUSTER_WORDS;
    n->gres = c->gres[i];
    n->gres_size = sizeof c->gres[i][0];
    strtok_r(copy, " ", &save);
    while ((word = strtok_r(NULL, " ", &save)))
        node_word(c, i, word);
    for (uint32_t k = 0; k < CLUSTER_WORDS; k++)
        n->cpus_free += (uint32_t)__builtin_popcountll(c->cores[i][k]) * n->threads_per_core;
    if (!n->jobs)
        n->flags |= SPUR_NODE_IDLE;
}

void cluster_make(struct cluster *c, const char *text)
{
    char copy[4096], *save, *line;

    memset(c, 0, sizeof *c);
    c->view = (struct spur_view){ .size = sizeof c->view, .node_size = sizeof c->nodes[0], .version = 1, .nodes = c->nodes };
    snprintf(copy, sizeof copy, "%s", text);
    for (line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        unsigned first, last;
        int n;

        if ((n = sscanf(line, "n[%u-%u]", &first, &last)) != 2) {
            ck_assert_int_eq(sscanf(line, "n%u", &first), 1);
            last = first;
        }
        for (; first <= last; first++)
            node_make(c, line, first);
    }
}

static struct spur_gres_ask *gres_row(struct wish *w, const char *value, uint64_t *count)
{
    char copy[64], *second, *third;

    snprintf(copy, sizeof copy, "%s", value);
    second = strchr(copy, ':');
    *second++ = '\0';
    third = strchr(second, ':');
    if (third)
        *third++ = '\0';
    *count = strtoull(third ? third : second, NULL, 10);
    for (uint32_t i = 0; i < w->ask.gres_count; i++)
        if (strcmp(w->words[i][0], copy) == 0 && strcmp(w->words[i][1], third ? second : "") == 0)
            return &w->gres[i];
    snprintf(w->words[w->ask.gres_count][0], 16, "%.15s", copy);
    snprintf(w->words[w->ask.gres_count][1], 16, "%.15s", third ? second : "");
    w->gres[w->ask.gres_count].name = w->words[w->ask.gres_count][0];
    w->gres[w->ask.gres_count].type = w->words[w->ask.gres_count][1];
    return &w->gres[w->ask.gres_count++];
}

static uint64_t nodes_read(const struct cluster *c, char *value)
{
    char *save, *name;
    uint64_t mask = 0;

    for (name = strtok_r(value, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
        uint32_t i = 0;

        while (i < c->view.node_count && strcmp(c->names[i], name) != 0)
            i++;
        ck_assert_uint_lt(i, c->view.node_count);
        mask |= UINT64_C(1) << i;
    }
    return mask;
}

static void wish_word(struct wish *w, const struct cluster *c, char *word)
{
    static const struct { const char *name; uint32_t bit; } crs[] = { { "cpu", SPUR_CR_CPU }, { "core", SPUR_CR_CORE }, { "socket", SPUR_CR_SOCKET },
        { "memory", SPUR_CR_MEMORY }, { "one", SPUR_CR_ONE_TASK_PER_CORE }, { "pack", SPUR_CR_PACK }, { "lln", SPUR_CR_LLN } };
    struct spur_ask *a = &w->ask;
    char *value = strchr(word, '=');
    const struct { const char *name; uint32_t *to; } numbers[] = { { "c", &a->cpus_per_task }, { "tpn", &a->tasks_per_node }, { "tps", &a->tasks_per_socket },
        { "tpc", &a->tasks_per_core }, { "mincpus", &a->min_cpus_node }, { "sockets", &a->min_sockets }, { "cores", &a->min_cores_per_socket },
        { "threads", &a->threads_per_core }, { "cpg", &a->cpus_per_gpu }, { "maxcpus", &a->max_cpus_per_node }, { "want", &a->want_nodes } };
    const struct { const char *name; uint64_t *to; } sizes[] = { { "mem", &a->mem_per_node }, { "mempercpu", &a->mem_per_cpu }, { "mempergpu", &a->mem_per_gpu } };
    uint64_t count;

    if (value)
        *value++ = '\0';
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(word, numbers[i].name) == 0) {
            *numbers[i].to = (uint32_t)strtoul(value, NULL, 10);
            return;
        }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (strcmp(word, sizes[i].name) == 0) {
            *sizes[i].to = strcmp(value, "all") == 0 ? SPUR_MEM_ALL : strtoull(value, NULL, 10);
            return;
        }
    if (strcmp(word, "n") == 0) {
        a->tasks = (uint32_t)strtoul(value, NULL, 10);
        a->tasks_set = true;
    } else if (strcmp(word, "tasks") == 0) {        /* derived by the caller, not the user's -n */
        a->tasks = (uint32_t)strtoul(value, NULL, 10);
    } else if (strcmp(word, "N") == 0) {
        char *end;

        a->min_nodes = a->max_nodes = (uint32_t)strtoul(value, &end, 10);
        if (*end == '-')
            a->max_nodes = (uint32_t)strtoul(end + 1, NULL, 10);
    } else if (strcmp(word, "gres") == 0) {
        gres_row(w, value, &count)->per_node = count;
    } else if (strcmp(word, "gresjob") == 0) {
        gres_row(w, value, &count)->per_job = count;
    } else if (strcmp(word, "grestask") == 0) {
        gres_row(w, value, &count)->per_task = count;
    } else if (strcmp(word, "gressocket") == 0) {
        gres_row(w, value, &count)->per_socket = count;
    } else if (strcmp(word, "cr") == 0) {
        char *save, *name;

        a->cr = 0;
        for (name = strtok_r(value, ",", &save); name; name = strtok_r(NULL, ",", &save))
            for (size_t i = 0; i < sizeof crs / sizeof *crs; i++)
                if (strcmp(name, crs[i].name) == 0)
                    a->cr |= crs[i].bit;
    } else if (strcmp(word, "w") == 0) {
        w->required[0] = nodes_read(c, value);
        a->required = w->required;
    } else if (strcmp(word, "x") == 0) {
        w->allowed[0] &= ~nodes_read(c, value);
    } else if (strcmp(word, "exclusive") == 0) {
        a->exclusive = true;
    } else if (strcmp(word, "overcommit") == 0) {
        a->overcommit = true;
    } else if (strcmp(word, "contiguous") == 0) {
        a->contiguous = true;
    } else if (strcmp(word, "spread") == 0) {
        a->spread = true;
    } else {
        ck_abort_msg("wish: word %s", word);
    }
}

void wish_make(struct wish *w, const struct cluster *c, const char *text)
{
    char copy[512], *save, *word;
    struct spur_ask *a = &w->ask;

    memset(w, 0, sizeof *w);
    *a = (struct spur_ask){ .size = sizeof *a, .job_id = 7, .min_nodes = 1, .max_nodes = UINT32_MAX, .tasks = 0, .cpus_per_task = 1, .gres = w->gres,
                            .gres_size = sizeof w->gres[0], .allowed = w->allowed, .node_words = 1, .cr = SPUR_CR_CORE | SPUR_CR_MEMORY };
    w->allowed[0] = c->view.node_count == 64 ? UINT64_MAX : (UINT64_C(1) << c->view.node_count) - 1;
    snprintf(copy, sizeof copy, "%s", text);
    for (word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save))
        wish_word(w, c, word);
    if (!a->tasks)
        a->tasks = a->min_nodes * (a->tasks_per_node ? a->tasks_per_node : 1);
}

void placed_init(struct placed *p)
{
    memset(p, 0, sizeof *p);
    p->p = (struct spur_placement){ .size = sizeof p->p, .pick_size = sizeof p->picks[0], .picks = p->picks, .pick_room = CLUSTER_NODES };
    for (uint32_t i = 0; i < CLUSTER_NODES; i++) {
        p->picks[i].cores = p->cores[i];
        p->picks[i].core_words = CLUSTER_WORDS;
    }
}

int cluster_place(const struct cluster *c, const struct wish *w, struct placed *p, struct spur_error *err)
{
    static void *self;
    const struct spur_select_ops *ops = spur_plugin_select_topo.ops;
    static const struct spur_host host = { .size = sizeof host };

    if (!self)
        ck_assert_int_eq(spur_plugin_select_topo.open(&host, NULL, &self, err), 0);
    placed_init(p);
    memset(err, 0, sizeof *err);
    return ops->place(self, &c->view, &w->ask, &p->p, err);
}

static size_t mask_print(char *out, size_t room, const uint64_t *words, uint32_t count)
{
    size_t used = 0;
    const char *comma = "";

    for (uint32_t i = 0; i < count * 64; i++) {
        uint32_t last = i;

        if (!(words[i / 64] >> i % 64 & 1))
            continue;
        while (last + 1 < count * 64 && words[(last + 1) / 64] >> (last + 1) % 64 & 1)
            last++;
        used += (size_t)(last == i ? snprintf(out + used, room - used, "%s%u", comma, i) : snprintf(out + used, room - used, "%s%u-%u", comma, i, last));
        comma = ",";
        i = last;
    }
    return used;
}

void placed_print(const struct cluster *c, const struct placed *p, char *out, size_t room)
{
    size_t used = 0;

    *out = '\0';
    for (uint32_t i = 0; i < p->p.pick_count; i++) {
        const struct spur_node_pick *k = &p->picks[i];

        used += (size_t)snprintf(out + used, room - used, "%s%s:%ut%uc[", i ? " " : "", c->names[k->node], k->tasks, k->cpus);
        used += mask_print(out + used, room - used, k->cores, k->core_words);
        used += (size_t)snprintf(out + used, room - used, "]m%llu", (unsigned long long)k->mem);
        for (uint32_t g = 0; g < k->gres_count; g++) {
            used += (size_t)snprintf(out + used, room - used, "%s", c->gres[k->node][k->gres[g].gres].name);
            if (k->gres[g].mask) {
                used += (size_t)snprintf(out + used, room - used, "(");
                used += mask_print(out + used, room - used, &k->gres[g].mask, 1);
                used += (size_t)snprintf(out + used, room - used, ")");
            } else {
                used += (size_t)snprintf(out + used, room - used, "%llu", (unsigned long long)k->gres[g].count);
            }
        }
    }
}
