/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - small states written as text, for tests: "node n1 cpus 8 mem 16000 gpus 4; partition p nodes n1; job 7 pending; job 8 running n1 cores 0-3".
 *
 * Words: `config KEY=VALUE` (a line of slurm.conf), `node NAME [cpus N] [sockets N] [cores N] [threads N] [mem MIB] [gpus N] [features A,B] [weight N] [down|drain]`,
 * `partition NAME [nodes LIST] [KEY=VALUE ...]`, `job ID pending|running|held [NODE [cores LIST] [gpus LIST]] [uid N] [name X] [time MIN] [tasks N] [cpus N] [array TEXT]
 * [dependency TEXT] [alloc]`. Nodes are up. Without a partition there is one, "main", with all nodes, the default.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "state/private.h"

struct reading { struct str slurm, gres; struct arena arena; char *items[512]; size_t item_count; bool has_partition; };

static const char *value_after(char **words, size_t n, const char *key)
{
    for (size_t i = 0; i + 1 < n; i++)
        if (word_eq(words[i], key))
            return words[i + 1];
    return NULL;
}

static bool has_word(char **words, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (word_eq(words[i], key))
            return true;
    return false;
}

static size_t split(struct arena *a, const char *item, char **words, size_t room)
{
    char *cursor = arena_copy(a, item), *word;
    size_t n = 0;

    while (n < room && (word = word_next(&cursor, " \t\n")))
        words[n++] = word;
    return n;
}

static void read_node(struct reading *r, char **w, size_t n)
{
    const char *sockets = value_after(w, n, "sockets"), *cores = value_after(w, n, "cores"), *threads = value_after(w, n, "threads");

    str_addf(&r->slurm, "NodeName=%s State=UNKNOWN RealMemory=%s", w[1], value_after(w, n, "mem") ? value_after(w, n, "mem") : "16000");
    if (cores)
        str_addf(&r->slurm, " Sockets=%s CoresPerSocket=%s ThreadsPerCore=%s", sockets ? sockets : "1", cores, threads ? threads : "1");
    else
        str_addf(&r->slurm, " CPUs=%s", value_after(w, n, "cpus") ? value_after(w, n, "cpus") : "8");
    if (value_after(w, n, "gpus"))
        str_addf(&r->slurm, " Gres=gpu:%s", value_after(w, n, "gpus"));
    if (value_after(w, n, "features"))
        str_addf(&r->slurm, " Feature=%s", value_after(w, n, "features"));
    if (value_after(w, n, "weight"))
        str_addf(&r->slurm, " Weight=%s", value_after(w, n, "weight"));
    str_add(&r->slurm, "\n");
}

static void read_partition(struct reading *r, char **w, size_t n)
{
    str_addf(&r->slurm, "PartitionName=%s Nodes=%s", w[1], value_after(w, n, "nodes") ? value_after(w, n, "nodes") : "ALL");
    if (!r->has_partition)
        str_add(&r->slurm, " Default=YES");
    for (size_t i = 2; i < n; i++)
        if (strchr(w[i], '='))
            str_addf(&r->slurm, " %s", w[i]);
    str_add(&r->slurm, "\n");
    r->has_partition = true;
}

static void op_apply(struct state *s, Wire__Op *op)
{
    Wire__Entry entry = WIRE__ENTRY__INIT;
    struct applied out;
    struct arena a;

    arena_init(&a, 0);
    entry.ops = &op;
    entry.n_ops = 1;
    entry.cluster_ms = s->cluster_ms;
    entry.wall_ms = s->wall_ms;
    apply(s, s->index + 1, &entry, &a, &out);
    if (out.results[0].code)
        fprintf(stderr, "state_from_text: %s\n", out.results[0].text ? out.results[0].text : "?");
    assert(out.results[0].code == 0);
    arena_fini(&a);
}

static void make_job(struct state *s, struct arena *a, char **w, size_t n)
{
    Wire__JobSpec spec = WIRE__JOB_SPEC__INIT;
    Wire__OpSubmit submit = WIRE__OP_SUBMIT__INIT;
    Wire__Op op = WIRE__OP__INIT;
    uint32_t id = 0, next = s->next_job_id, uid = 1000;
    const char *v;

    number_u32(w[1], &id);
    spec.name = (char *)(value_after(w, n, "name") ? value_after(w, n, "name") : "test");
    spec.has_is_batch = 1;
    spec.is_batch = !has_word(w, n, "alloc");
    if ((v = value_after(w, n, "time")))
        spec.has_time_limit_min = number_u32(v, &spec.time_limit_min);
    if ((v = value_after(w, n, "tasks")))
        spec.has_ntasks = number_u32(v, &spec.ntasks);
    if ((v = value_after(w, n, "cpus")))
        spec.has_cpus_per_task = number_u32(v, &spec.cpus_per_task);
    if ((v = value_after(w, n, "uid")))
        number_u32(v, &uid);
    spec.array = (char *)value_after(w, n, "array");
    spec.dependency = (char *)value_after(w, n, "dependency");
    spec.partition = (char *)value_after(w, n, "partition");
    spec.has_hold = 1;
    spec.hold = has_word(w, n, "held");
    submit.spec = &spec;
    submit.uid = submit.gid = uid;
    op.submit = &submit;
    s->next_job_id = id;
    op_apply(s, &op);
    s->next_job_id = next > id ? next : id + 1;
    if (!has_word(w, n, "running"))
        return;
    for (size_t i = 0; i + 1 < n; i++)
        if (word_eq(w[i], "running")) {
            Wire__OpStart start = WIRE__OP_START__INIT;
            Wire__NodeAlloc alloc = WIRE__NODE_ALLOC__INIT, *allocs = &alloc;
            Wire__GresAlloc gres = WIRE__GRES_ALLOC__INIT, *gres_list = &gres;
            struct node *node = state_node(s, w[i + 1]);
            struct bitmap cores, gpus;

            assert(node);
            bitmap_init(&cores, node_cores(node));
            bitmap_init(&gpus, 64);
            v = value_after(w, n, "cores");
            if (!v || bitmap_parse(&cores, v, NULL) < 0)
                bitmap_set(&cores, 0);
            alloc.name = node->conf->name;
            alloc.node = node->index;
            alloc.cores = cores.words;
            alloc.n_cores = bitmap_words(cores.bits);
            alloc.has_cpus = alloc.has_tasks = 1;
            alloc.cpus = (uint32_t)bitmap_count(&cores) * (node->conf->cpus > node_cores(node) ? node->conf->cpus / node_cores(node) : 1);
            alloc.tasks = 1;
            v = value_after(w, n, "gpus");
            if (v && bitmap_parse(&gpus, v, NULL) == 0) {
                gres.name = (char *)"gpu";
                gres.has_count = gres.has_mask = 1;
                gres.count = bitmap_count(&gpus);
                gres.mask = gpus.words[0];
                alloc.gres = &gres_list;
                alloc.n_gres = 1;
            }
            start.job_id = id;
            start.allocs = &allocs;
            start.n_allocs = 1;
            op.submit = NULL;
            op.start = &start;
            op_apply(s, &op);
            bitmap_fini(&cores);
            bitmap_fini(&gpus);
            break;
        }
    (void)a;
}

struct state *state_from_text(const char *text)
{
    struct state *s = state_create();
    struct reading r = { 0 };
    char *cursor, *item, *w[64];
    Wire__ConfigFiles files = WIRE__CONFIG_FILES__INIT;
    Wire__OpConfig config = WIRE__OP_CONFIG__INIT;
    Wire__Op op = WIRE__OP__INIT;

    s->wall_ms = INT64_C(1700000000000);
    s->cluster_ms = 1000000;
    arena_init(&r.arena, 0);
    str_init(&r.slurm);
    str_add(&r.slurm, "ClusterName=test\nSlurmctldHost=ctl\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\nGresTypes=gpu\nReturnToService=1\n");
    cursor = arena_copy(&r.arena, text);
    while (r.item_count < 512 && (item = word_next(&cursor, ";")))
        r.items[r.item_count++] = word_trim(item);
    for (size_t i = 0; i < r.item_count; i++) {
        size_t n = split(&r.arena, r.items[i], w, 64);

        if (n > 1 && word_eq(w[0], "config"))
            str_addf(&r.slurm, "%s\n", w[1]);
        else if (n > 1 && word_eq(w[0], "node"))
            read_node(&r, w, n);
        else if (n > 1 && word_eq(w[0], "partition"))
            read_partition(&r, w, n);
    }
    if (!r.has_partition)
        str_add(&r.slurm, "PartitionName=main Nodes=ALL Default=YES\n");
    files.slurm = r.slurm.text;
    config.files = &files;
    op.config = &config;
    op_apply(s, &op);
    for (uint32_t i = 0; i < s->node_count; i++) {
        s->nodes[i].base = NODE_IDLE;
        s->nodes[i].registered = true;
        view_touch(s, i);
    }
    for (size_t i = 0; i < r.item_count; i++) {
        size_t n = split(&r.arena, r.items[i], w, 64);
        struct hostlist *names = NULL;

        if (n > 2 && word_eq(w[0], "job"))
            make_job(s, &r.arena, w, n);
        if (n < 2 || !word_eq(w[0], "node") || hostlist_parse(w[1], &names, NULL) < 0)
            continue;
        for (size_t k = 0; k < hostlist_count(names); k++) {
            struct node *node = state_node(s, hostlist_nth(names, k));

            if (has_word(w, n, "down"))
                node->base = NODE_DOWN;
            if (has_word(w, n, "drain"))
                node->flags |= NODE_FLAG_DRAIN;
            view_touch(s, node->index);
        }
        hostlist_destroy(names);
    }
    str_fini(&r.slurm);
    arena_fini(&r.arena);
    return s;
}
