/* SPDX-License-Identifier: Apache-2.0 */
/* ask.c - turns what a user wrote into what a select plugin is asked: defaults filled, absent numbers 0, names become bits.
 *
 * Called for each job that a pass looks at, by --test-only and by the check whether an empty cluster could ever hold it. Which nodes are
 * up is not its business: the view says that. Its answer depends on the job, the partition and the configuration alone.
 *
 * Memory follows Slurm: what the job says, else DefMemPer* of the partition, else of the cluster, else, where memory is a consumable, all of
 * the node. A --mem-per-cpu over MaxMemPerCPU is met with more CPUs a task, not refused.
 */
#include "plan/ask.h"

#include <string.h>
#include <strings.h>

#include "base/duration.h"
#include "base/hostlist.h"
#include "base/str.h"
#include "plan/features.h"
#include "plan/private.h"
#include "state/layout.h"

#define ASK_GRES_MAX SPUR_PICKS_MAX

/* ---- bitmaps in the arena ------------------------------------------------------------------------------------------------ */
static struct bitmap arena_bitmap(struct arena *a, size_t bits)
{
    return (struct bitmap){ .bits = bits, .words = arena_alloc(a, (bitmap_words(bits) + 1) * sizeof (uint64_t)) };
}

static int nodes_named(const struct state *s, const char *list, const char *option, struct bitmap *out, uint32_t *count, struct spur_error *err)
{
    struct hostlist *h = NULL;
    int rc;

    *count = 0;
    if ((rc = hostlist_parse(list, &h, err)) < 0)
        return rc;
    for (size_t i = 0; i < hostlist_count(h); i++) {
        const struct node *n = state_node(s, hostlist_nth(h, i));

        if (!n) {
            rc = spur_fail(err, SPUR_ENOTFOUND, "%s: unknown node %s", option, hostlist_nth(h, i));
            break;
        }
        if (!bitmap_test(out, n->index)) {
            bitmap_set(out, n->index);
            ++*count;
        }
    }
    hostlist_destroy(h);
    return rc;
}

/* ---- generic resources --------------------------------------------------------------------------------------------------- */
enum gres_way { PER_JOB, PER_NODE, PER_SOCKET, PER_TASK };

static int gres_add(struct spur_gres_ask *rows, uint32_t *count, const char *text, enum gres_way way, struct arena *a, struct spur_error *err)
{
    struct tres_row *tres = NULL;
    size_t n = 0;
    int rc;

    if (!text || !*text)
        return 0;
    if ((rc = tres_parse(text, &tres, &n, err)) < 0)
        return rc;
    for (size_t i = 0; i < n && rc == 0; i++) {
        const char *type = tres[i].type ? tres[i].type : "";
        struct spur_gres_ask *row = NULL;

        if (tres[i].count == 0)
            continue;
        for (uint32_t k = 0; k < *count && !row; k++)
            if (strcmp(rows[k].name, tres[i].name) == 0 && strcmp(rows[k].type, type) == 0)
                row = &rows[k];
        if (!row) {
            if (*count == ASK_GRES_MAX) {
                rc = spur_fail(err, SPUR_ELIMIT, "more than %d kinds of generic resources in one job", ASK_GRES_MAX);
                break;
            }
            row = &rows[(*count)++];
            row->name = arena_copy(a, tres[i].name);
            row->type = arena_copy(a, type);
        }
        switch (way) {
        case PER_JOB:    row->per_job += tres[i].count; break;
        case PER_NODE:   row->per_node += tres[i].count; break;
        case PER_SOCKET: row->per_socket += tres[i].count; break;
        case PER_TASK:   row->per_task += tres[i].count; break;
        }
    }
    tres_free(tres, n);
    return rc;
}

static uint64_t gpus_asked(const struct spur_gres_ask *rows, uint32_t count, enum gres_way way)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < count; i++)
        if (strcmp(rows[i].name, "gpu") == 0)
            n += way == PER_JOB ? rows[i].per_job : way == PER_NODE ? rows[i].per_node : way == PER_TASK ? rows[i].per_task : rows[i].per_socket;
    return n;
}

/* ---- parameters of the cluster ------------------------------------------------------------------------------------------- */
static const struct { const char *word; uint32_t bits; } cr_words[] = {
    { "CR_CPU", SPUR_CR_CPU }, { "CR_CPU_Memory", SPUR_CR_CPU | SPUR_CR_MEMORY }, { "CR_Core", SPUR_CR_CORE },
    { "CR_Core_Memory", SPUR_CR_CORE | SPUR_CR_MEMORY }, { "CR_Socket", SPUR_CR_SOCKET }, { "CR_Socket_Memory", SPUR_CR_SOCKET | SPUR_CR_MEMORY },
    { "CR_Memory", SPUR_CR_MEMORY }, { "CR_ONE_TASK_PER_CORE", SPUR_CR_ONE_TASK_PER_CORE }, { "CR_Pack_Nodes", SPUR_CR_PACK }, { "CR_LLN", SPUR_CR_LLN },
};

uint32_t select_parameters(const struct config *c, const struct config_partition *part)
{
    uint32_t cr = 0;

    for (size_t i = 0; i < sizeof cr_words / sizeof cr_words[0]; i++)
        if (config_has_word(c, CONF_SelectTypeParameters, cr_words[i].word))
            cr |= cr_words[i].bits;
    if (part && part->select_params)
        for (size_t i = 0; i < sizeof cr_words / sizeof cr_words[0]; i++)
            if (word_eq(part->select_params, cr_words[i].word))
                cr = (cr & ~(SPUR_CR_CPU | SPUR_CR_CORE | SPUR_CR_SOCKET | SPUR_CR_MEMORY)) | cr_words[i].bits;
    if (!(cr & (SPUR_CR_CPU | SPUR_CR_CORE | SPUR_CR_SOCKET)))
        cr |= SPUR_CR_CORE;
    if (part && part->lln)
        cr |= SPUR_CR_LLN;
    return cr;
}

uint32_t wish_time_limit(const Wire__JobSpec *spec, const struct config_partition *part)
{
    if (spec->has_time_limit_min && spec->time_limit_min != MINUTES_NOT_SET)
        return spec->time_limit_min;
    if (part->default_time_min != MINUTES_NOT_SET)
        return part->default_time_min;
    return part->max_time_min;
}

/* ---- limits of the partition --------------------------------------------------------------------------------------------- */
static uint64_t limit_or(uint64_t of_partition, const struct config *c, enum config_key key)
{
    int64_t n = config_number(c, key);

    return of_partition ? of_partition : n > 0 ? (uint64_t)n : 0;
}

unsigned partition_limit(const struct config *c, const struct config_partition *part, const Wire__JobSpec *spec, struct spur_error *err)
{
    uint32_t nodes = spec->has_min_nodes ? spec->min_nodes : 1, limit = wish_time_limit(spec, part);
    uint64_t per_node = limit_or(part->max_mem_per_node, c, CONF_MaxMemPerNode);

    if (spec->has_time_min_min && spec->time_min_min && spec->time_min_min < limit)
        limit = spec->time_min_min;
    if (spec->ntasks_per_node && spec->has_ntasks && nodes < (spec->ntasks + spec->ntasks_per_node - 1) / spec->ntasks_per_node)
        nodes = (spec->ntasks + spec->ntasks_per_node - 1) / spec->ntasks_per_node;
    if (nodes > part->max_nodes) {
        spur_fail(err, SPUR_ELIMIT, "%u nodes are more than the %u of partition %s (MaxNodes)", nodes, part->max_nodes, part->name);
        return REASON_PartitionNodeLimit;
    }
    if (part->min_nodes > 1 && spec->has_max_nodes && spec->max_nodes < part->min_nodes) {
        spur_fail(err, SPUR_ELIMIT, "%u nodes are fewer than the %u of partition %s (MinNodes)", spec->max_nodes, part->min_nodes, part->name);
        return REASON_PartitionNodeLimit;
    }
    if (part->max_time_min != MINUTES_UNLIMITED && limit > part->max_time_min) {
        struct str asked, most;

        str_init(&asked);
        str_init(&most);
        minutes_print(limit, &asked);
        minutes_print(part->max_time_min, &most);
        spur_fail(err, SPUR_ELIMIT, "time limit %s exceeds %s of partition %s (MaxTime)", asked.text, most.text, part->name);
        str_fini(&asked);
        str_fini(&most);
        return REASON_PartitionTimeLimit;
    }
    if (per_node && spec->has_mem_per_node_mib && spec->mem_per_node_mib > per_node) {
        spur_fail(err, SPUR_ELIMIT, "%llu MiB a node are more than the %llu of partition %s (MaxMemPerNode)", (unsigned long long)spec->mem_per_node_mib,
                  (unsigned long long)per_node, part->name);
        return REASON_MaxMemPerLimit;
    }
    return REASON_None;
}

/* ---- the ask -------------------------------------------------------------------------------------------------------------- */
static void ask_memory(struct spur_ask *ask, const Wire__JobSpec *spec, const struct config *c, const struct config_partition *part, bool wants_gpus)
{
    uint64_t per_cpu_max = limit_or(part->max_mem_per_cpu, c, CONF_MaxMemPerCPU);
    uint64_t def_gpu = limit_or(part->def_mem_per_gpu, c, CONF_DefMemPerGPU);

    if (spec->has_mem_per_node_mib) {
        ask->mem_per_node = spec->mem_per_node_mib ? spec->mem_per_node_mib : SPUR_MEM_ALL;
    } else if (spec->mem_per_cpu_mib) {
        ask->mem_per_cpu = spec->mem_per_cpu_mib;
    } else if (spec->mem_per_gpu_mib) {
        ask->mem_per_gpu = spec->mem_per_gpu_mib;
    } else if (wants_gpus && def_gpu) {
        ask->mem_per_gpu = def_gpu;
    } else if (part->def_mem_per_cpu || part->def_mem_per_node) {
        ask->mem_per_cpu = part->def_mem_per_cpu;
        ask->mem_per_node = part->def_mem_per_cpu ? 0 : part->def_mem_per_node;
    } else if (config_number(c, CONF_DefMemPerCPU) > 0) {
        ask->mem_per_cpu = (uint64_t)config_number(c, CONF_DefMemPerCPU);
    } else if (config_number(c, CONF_DefMemPerNode) > 0) {
        ask->mem_per_node = (uint64_t)config_number(c, CONF_DefMemPerNode);
    } else if (ask->cr & SPUR_CR_MEMORY) {
        ask->mem_per_node = SPUR_MEM_ALL;
    }
    if (per_cpu_max && ask->mem_per_cpu > per_cpu_max) {
        uint64_t factor = (ask->mem_per_cpu + per_cpu_max - 1) / per_cpu_max, cpus = factor * ask->cpus_per_task;

        ask->mem_per_cpu = (ask->mem_per_cpu + factor - 1) / factor;
        ask->cpus_per_task = cpus > UINT32_MAX ? UINT32_MAX : (uint32_t)cpus;
    } else if (per_cpu_max && ask->mem_per_node && ask->mem_per_node != SPUR_MEM_ALL) {
        uint64_t cpus = (ask->mem_per_node + per_cpu_max - 1) / per_cpu_max;

        if (cpus > ask->min_cpus_node)
            ask->min_cpus_node = cpus > UINT32_MAX ? UINT32_MAX : (uint32_t)cpus;
    }
}

static uint32_t rounded_up(uint64_t n, uint64_t by)
{
    uint64_t q = (n + by - 1) / by;

    return q > UINT32_MAX ? UINT32_MAX : (uint32_t)q;
}

static int ask_sizes(struct spur_ask *ask, const Wire__JobSpec *spec, const struct config_partition *part, uint64_t gpus_job, uint64_t gpus_node,
                     uint64_t gpus_task, struct spur_error *err)
{
    ask->cpus_per_task = spec->cpus_per_task ? spec->cpus_per_task : 1;
    ask->tasks_per_node = spec->ntasks_per_node;
    ask->tasks_per_socket = spec->ntasks_per_socket;
    ask->tasks_per_core = spec->ntasks_per_core;
    ask->min_cpus_node = spec->min_cpus_node;
    ask->min_sockets = spec->sockets_per_node;
    ask->min_cores_per_socket = spec->cores_per_socket;
    ask->threads_per_core = spec->hint && !word_eq(spec->hint, "multithread") ? 1 : spec->threads_per_core;
    ask->tmp = spec->tmp_mib;
    ask->tasks_set = spec->has_ntasks && spec->ntasks;
    ask->min_nodes = spec->has_min_nodes && spec->min_nodes ? spec->min_nodes : 1;
    ask->max_nodes = spec->has_max_nodes && spec->max_nodes ? spec->max_nodes : UINT32_MAX;
    if (ask->tasks_set && ask->tasks_per_node)
        ask->min_nodes = ask->min_nodes > rounded_up(spec->ntasks, ask->tasks_per_node) ? ask->min_nodes : rounded_up(spec->ntasks, ask->tasks_per_node);
    if (ask->tasks_set)
        ask->tasks = spec->ntasks;
    else if (spec->ntasks_per_gpu && gpus_job)
        ask->tasks = rounded_up(gpus_job * spec->ntasks_per_gpu, 1);
    else if (spec->ntasks_per_gpu && gpus_node)
        ask->tasks = rounded_up(gpus_node * spec->ntasks_per_gpu * ask->min_nodes, 1);
    else if (gpus_task && gpus_job)
        ask->tasks = rounded_up(gpus_job, gpus_task);
    else if (ask->tasks_per_node)
        ask->tasks = rounded_up((uint64_t)ask->min_nodes * ask->tasks_per_node, 1);
    else
        ask->tasks = ask->min_nodes;
    if (ask->tasks < ask->min_nodes)
        ask->tasks = ask->min_nodes;
    if (part->min_nodes > ask->min_nodes && part->min_nodes <= ask->max_nodes)
        ask->min_nodes = part->min_nodes;
    if (ask->tasks < ask->min_nodes)
        ask->tasks = ask->min_nodes;
    if (ask->max_nodes > part->max_nodes)
        ask->max_nodes = part->max_nodes;
    if (ask->tasks_set && ask->max_nodes > ask->tasks)
        ask->max_nodes = ask->tasks;            /* a node without a task would stand idle */
    if (!ask->tasks_set && !(spec->has_max_nodes && spec->max_nodes) && !gpus_job)
        ask->max_nodes = ask->min_nodes;        /* --gpus may need more nodes than one; nothing else does */
    if (spec->has_max_nodes && spec->max_nodes > ask->min_nodes)
        ask->want_nodes = ask->max_nodes;
    if (ask->max_nodes < ask->min_nodes)
        ask->max_nodes = ask->min_nodes;        /* over the partition's MaxNodes: partition_limit says so, the size stays what was asked */
    if (spec->has_max_nodes && spec->max_nodes && spec->max_nodes < (spec->has_min_nodes ? spec->min_nodes : 1))
        return spur_fail(err, SPUR_EINVAL, "at most %u nodes and at least %u cannot both be", spec->max_nodes, spec->min_nodes);
    return 0;
}

/* --spares: more nodes of the same kind, each with as many tasks as any other. Which of them are held back is apply's to say. */
static int ask_spares(struct spur_ask *ask, const Wire__JobSpec *spec, const struct config_partition *part, uint64_t gpus_job, struct spur_error *err)
{
    uint32_t each = ask->tasks / ask->min_nodes;

    if (!spec->spares)
        return 0;
    if (ask->max_nodes != ask->min_nodes || ask->tasks != (uint64_t)each * ask->min_nodes || gpus_job)
        return spur_fail(err, SPUR_EINVAL, "--spares=%u needs a number of nodes (-N), as many tasks on each (--ntasks-per-node), and GPUs asked for by node", spec->spares);
    if (spec->req_nodes && *spec->req_nodes)
        return spur_fail(err, SPUR_EINVAL, "--spares=%u and --nodelist cannot both be: a spare is any node", spec->spares);
    if (spec->spares > part->max_nodes || ask->min_nodes + spec->spares > part->max_nodes)
        return spur_fail(err, SPUR_ELIMIT, "%u nodes and %u spares are more than the %u of partition %s (MaxNodes)", ask->min_nodes, spec->spares, part->max_nodes, part->name);
    ask->min_nodes += spec->spares;
    ask->max_nodes = ask->min_nodes;
    ask->want_nodes = 0;
    ask->tasks = rounded_up((uint64_t)each * ask->min_nodes, 1);
    ask->tasks_per_node = each;
    return 0;
}

static void mix(uint64_t *h, const void *data, size_t n)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < n; i++)
        *h = (*h ^ p[i]) * UINT64_C(0x100000001b3);
}

static uint64_t ask_hash(const struct spur_ask *ask, uint64_t h)
{
    struct spur_ask plain;

    memcpy(&plain, ask, sizeof plain);
    /* Pointers and the job's number are left out; what they point to goes in by value. spur_ask has padding: it was zeroed when it was made. */
    plain.job_id = 0;
    plain.gres = NULL;
    plain.allowed = plain.required = NULL;
    mix(&h, &plain, sizeof plain);
    for (uint32_t i = 0; i < ask->gres_count; i++) {
        const struct spur_gres_ask *g = &ask->gres[i];
        uint64_t counts[4] = { g->per_job, g->per_node, g->per_socket, g->per_task };

        mix(&h, g->name, strlen(g->name) + 1);
        mix(&h, g->type, strlen(g->type) + 1);
        mix(&h, counts, sizeof counts);
    }
    for (uint32_t i = 0; i < ask->node_words; i++) {
        h = (h ^ ask->allowed[i]) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
    }
    for (uint32_t i = 0; ask->required && i < ask->node_words; i++) {
        h = (h ^ ask->required[i]) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
    }
    return h;
}

static bool has_word(const char *list, const char *word)
{
    size_t n = strlen(word);

    for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == n && strncasecmp(at, word, n) == 0)
            return true;
    return false;
}

/* -m cyclic and NoPack deal tasks out one by one: then the nodes get as many CPUs each as they can. */
static bool deals_evenly(const char *distribution)
{
    struct layout_how how;

    return layout_parse(distribution, &how, NULL) == 0 && (how.nodes == DEAL_CYCLIC || how.no_pack);
}

static void add_ask(struct wish *w, const struct spur_ask *base, const struct bitmap *within, const struct bitmap *choice, const struct bitmap *preferred,
                    struct arena *a)
{
    struct bitmap allowed = arena_bitmap(a, within->bits);
    struct spur_ask *ask = &w->asks[w->count];

    memcpy(allowed.words, within->words, bitmap_words(within->bits) * sizeof *allowed.words);
    bitmap_and(&allowed, choice);
    if (preferred)
        bitmap_and(&allowed, preferred);
    memcpy(ask, base, sizeof *ask);
    ask->allowed = allowed.words;
    w->hash = ask_hash(ask, w->hash);
    w->count++;
}

int wish_build(struct state *s, const Wire__JobSpec *spec, const struct config_partition *part, struct arena *a, struct wish *out, struct spur_error *err)
{
    struct spur_gres_ask *rows = arena_alloc(a, ASK_GRES_MAX * sizeof *rows);
    struct bitmap within = arena_bitmap(a, s->node_count), required = arena_bitmap(a, s->node_count), unwanted = arena_bitmap(a, s->node_count);
    struct spur_ask *base = arena_alloc(a, sizeof *base);
    struct features have = { .count = 0 }, prefer = { .count = 0 };
    uint32_t n_rows = 0, n_required = 0, n_unwanted = 0;
    uint64_t gpus_job, gpus_node, gpus_task, def_cpus;
    int rc;

    memset(out, 0, sizeof *out);
    out->hash = UINT64_C(0xcbf29ce484222325);
    base->size = sizeof *base;
    base->cr = select_parameters(s->config, part);
    if ((rc = gres_add(rows, &n_rows, spec->tres_per_job, PER_JOB, a, err)) < 0 || (rc = gres_add(rows, &n_rows, spec->tres_per_node, PER_NODE, a, err)) < 0 ||
        (rc = gres_add(rows, &n_rows, spec->tres_per_socket, PER_SOCKET, a, err)) < 0 || (rc = gres_add(rows, &n_rows, spec->tres_per_task, PER_TASK, a, err)) < 0)
        goto out;
    gpus_job = gpus_asked(rows, n_rows, PER_JOB);
    gpus_node = gpus_asked(rows, n_rows, PER_NODE);
    gpus_task = gpus_asked(rows, n_rows, PER_TASK);
    if (spec->ntasks_per_gpu && spec->ntasks && !gpus_job && !gpus_node && !gpus_task && n_rows < ASK_GRES_MAX) {
        gpus_job = rounded_up(spec->ntasks, spec->ntasks_per_gpu);
        rows[n_rows++] = (struct spur_gres_ask){ .name = "gpu", .type = "", .per_job = gpus_job };
    }
    base->gres = rows;
    base->gres_count = n_rows;
    base->gres_size = sizeof *rows;
    if ((rc = ask_sizes(base, spec, part, gpus_job, gpus_node, gpus_task, err)) < 0 || (rc = ask_spares(base, spec, part, gpus_job, err)) < 0)
        goto out;
    base->cpus_per_gpu = spec->cpus_per_gpu;
    def_cpus = limit_or(part->def_cpu_per_gpu, s->config, CONF_DefCPUPerGPU);
    if (!base->cpus_per_gpu && !spec->has_cpus_per_task && (gpus_job || gpus_node || gpus_task || gpus_asked(rows, n_rows, PER_SOCKET)))
        base->cpus_per_gpu = def_cpus > UINT32_MAX ? UINT32_MAX : (uint32_t)def_cpus;
    ask_memory(base, spec, s->config, part, gpus_asked(rows, n_rows, PER_SOCKET) || gpus_job || gpus_node || gpus_task);
    base->exclusive = word_eq(spec->exclusive, "exclusive") || part->exclusive_nodes;
    base->overcommit = spec->overcommit;
    base->contiguous = spec->contiguous;
    base->spread = spec->spread || (spec->has_min_nodes && spec->has_max_nodes && spec->min_nodes == spec->max_nodes && deals_evenly(spec->distribution));
    base->switches = spec->switches;
    base->gres_flags = (has_word(spec->gres_flags, "enforce-binding") ? SPUR_GRES_ENFORCE_BINDING : 0) |
                       (has_word(spec->gres_flags, "disable-binding") ? SPUR_GRES_DISABLE_BINDING : 0);
    base->segment = spec->segment;
    base->max_cpus_per_node = part->max_cpus_per_node == UINT32_MAX ? 0 : part->max_cpus_per_node;

    memcpy(within.words, part->nodes.words, bitmap_words(part->nodes.bits < within.bits ? part->nodes.bits : within.bits) * sizeof *within.words);
    for (uint32_t i = 0; spec->tmp_mib && i < s->node_count; i++)
        if (s->nodes[i].conf->tmp_mib < spec->tmp_mib)
            bitmap_clear(&within, i);
    if (spec->exc_nodes && *spec->exc_nodes) {
        if ((rc = nodes_named(s, spec->exc_nodes, "--exclude", &unwanted, &n_unwanted, err)) < 0)
            goto out;
        bitmap_and_not(&within, &unwanted);
    }
    if (spec->req_nodes && *spec->req_nodes) {
        if ((rc = nodes_named(s, spec->req_nodes, "--nodelist", &required, &n_required, err)) < 0)
            goto out;
        base->required = required.words;
        if (n_required > base->min_nodes) {
            base->min_nodes = n_required;
            if (base->max_nodes < n_required && !(spec->has_max_nodes && spec->max_nodes))
                base->max_nodes = n_required;
            if (base->tasks < n_required && !base->tasks_set)
                base->tasks = n_required;
        }
        if (n_required > base->max_nodes) {
            rc = spur_fail(err, SPUR_EINVAL, "--nodelist names %u nodes, but at most %u may be used", n_required, base->max_nodes);
            goto out;
        }
    }
    base->node_words = (uint32_t)bitmap_words(s->node_count);
    if ((rc = features_init(&have, s, spec->features, err)) < 0)
        goto out;
    if (spec->prefer && *spec->prefer && (rc = features_init(&prefer, s, spec->prefer, err)) < 0)
        goto out;
    out->asks = arena_alloc(a, (have.count * (prefer.count + 1)) * sizeof *out->asks);
    for (uint32_t p = 0; p < prefer.count; p++)
        for (uint32_t i = 0; i < have.count; i++)
            add_ask(out, base, &within, &have.choice[i], &prefer.choice[p], a);
    for (uint32_t i = 0; i < have.count; i++)
        add_ask(out, base, &within, &have.choice[i], NULL, a);
    out->alone = spec_is_alone(s, spec, part);
    out->hash ^= out->alone ? UINT64_C(0x94d049bb133111eb) : 0;
    out->time_limit_min = wish_time_limit(spec, part);
    out->time_min_min = spec->has_time_min_min ? spec->time_min_min : 0;
    rc = 0;
out:
    features_fini(&have);
    features_fini(&prefer);
    return rc;
}

int ask_build_spec(struct state *s, const Wire__JobSpec *spec, const struct config_partition *part, struct arena *a, struct spur_ask *out, struct spur_error *err)
{
    struct wish w;
    int rc = wish_build(s, spec, part, a, &w, err);

    if (rc < 0)
        return rc;
    /* The last one has no preference; alternatives in brackets are joined, which is the most that the job could use. */
    *out = w.asks[w.count - 1];
    for (uint32_t i = 0; i + 1 < w.count; i++)
        for (uint32_t k = 0; k < out->node_words; k++)
            ((uint64_t *)(uintptr_t)out->allowed)[k] |= w.asks[i].allowed[k];
    return 0;
}

struct spur_placement *placement_room(struct state *s, struct arena *a, uint32_t nodes)
{
    struct spur_placement *p = arena_alloc(a, sizeof *p);
    const struct spur_view *view = state_view(s);
    uint32_t words = 1;
    struct spur_node_pick *picks;
    uint64_t *cores;

    for (uint32_t i = 0; i < view->node_count; i++)
        if (spur_view_node(view, i)->core_words > words)
            words = spur_view_node(view, i)->core_words;
    if (nodes > view->node_count)
        nodes = view->node_count;
    p->size = sizeof *p;
    p->pick_size = sizeof *picks;
    p->pick_room = nodes;
    p->picks = picks = arena_alloc(a, (nodes + 1) * sizeof *picks);
    cores = arena_alloc(a, ((size_t)nodes * words + 1) * sizeof *cores);
    for (uint32_t i = 0; i < nodes; i++) {
        picks[i].cores = cores + (size_t)i * words;
        picks[i].core_words = words;
    }
    return p;
}
