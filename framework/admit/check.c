/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - one checker of a job's wish, for a new job and for an updated one: the same value gets the same verdict.
 *
 * Sizes first (every string and number comes from outside), then what the user may ask for at all, then whether the parts fit together and the
 * names exist. Whether an empty cluster could hold it is a fact that comes in (facts->never); partitions are partition.c's.
 * What spur cannot do is refused here, whatever program sent it: an option is never taken and then dropped.
 */
#include <stdlib.h>
#include <string.h>

#include "admit/private.h"
#include "base/duration.h"
#include "base/hostlist.h"
#include "base/str.h"
#include "plan/features.h"
#include "plan/plan.h"
#include "state/bind.h"

/* ---- sizes ----------------------------------------------------------------------------------------------------------------- */
#define TEXT_MAX  1024u
#define ARGV_MAX  (2u << 20)
#define SPANK_MAX (64u << 10)
#define NODES_MAX 1000000u
#define TASKS_MAX (1u << 26)
#define NICE_MAX  2147483645

static const struct { const char *field; uint32_t most; } text_limits[] = {
    { "dependency", 128u << 10 }, { "array", 64u << 10 }, { "req_nodes", 64u << 10 }, { "exc_nodes", 64u << 10 }, { "features", 8192 },
    { "submit_line", 128u << 10 }, { "export_env", 128u << 10 }, { "site_options", 64u << 10 }, { "comment", 8192 }, { "extra", 8192 },
    { "std_in", 4096 }, { "std_out", 4096 }, { "std_err", 4096 }, { "work_dir", 4096 }, { "command", 4096 }, { "mail_user", 4096 },
};

static int check_texts(const Wire__JobSpec *spec, struct admitted *out, struct spur_error *err)
{
    const ProtobufCMessageDescriptor *d = &wire__job_spec__descriptor;
    uint64_t argv = 0, spank = 0;

    for (unsigned i = 0; i < d->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &d->fields[i];
        uint32_t most = TEXT_MAX;
        const char *text;

        if (f->type != PROTOBUF_C_TYPE_STRING || f->label == PROTOBUF_C_LABEL_REPEATED)
            continue;
        text = *(char *const *)(const void *)((const char *)spec + f->offset);
        for (size_t k = 0; k < sizeof text_limits / sizeof text_limits[0]; k++)
            if (strcmp(text_limits[k].field, f->name) == 0)
                most = text_limits[k].most;
        if (text && strlen(text) > most)
            return deny(out, err, REFUSE_TOO_LONG, "%s has %zu characters, the limit is %u", f->name, strlen(text), most);
    }
    for (size_t i = 0; i < spec->n_argv; i++)
        argv += strlen(spec->argv[i]) + 1;
    if (argv > ARGV_MAX)
        return deny(out, err, REFUSE_TOO_LONG, "arguments of the script have %llu bytes, the limit is %u", (unsigned long long)argv, ARGV_MAX);
    for (size_t i = 0; i < spec->n_spank_env; i++)
        spank += strlen(spec->spank_env[i]) + 1;
    if (spank > SPANK_MAX)
        return deny(out, err, REFUSE_TOO_LONG, "options and variables of SPANK plugins have %llu bytes, the limit is %u", (unsigned long long)spank, SPANK_MAX);
    if (spec->n_rlimits > 32)
        return deny(out, err, REFUSE_TOO_LONG, "%zu resource limits, the limit is 32", spec->n_rlimits);
    return 0;
}

static int check_number(bool has, uint64_t n, uint64_t least, uint64_t most, const char *option, enum refusal why, struct admitted *out, struct spur_error *err)
{
    if (has && (n < least || n > most))
        return deny(out, err, why, "%s is %llu, it must be %llu to %llu", option, (unsigned long long)n, (unsigned long long)least, (unsigned long long)most);
    return 0;
}

static int check_numbers(const struct state *s, const Wire__JobSpec *spec, struct admitted *out, struct spur_error *err)
{
    int64_t per_node = config_number(s->config, CONF_MaxTasksPerNode);
    int rc;

    if ((rc = check_number(spec->has_min_nodes, spec->min_nodes, 1, NODES_MAX, "--nodes", REFUSE_NODE_COUNT, out, err)) < 0 ||
        (rc = check_number(spec->has_max_nodes, spec->max_nodes, 1, NODES_MAX, "--nodes", REFUSE_NODE_COUNT, out, err)) < 0 ||
        (rc = check_number(spec->has_ntasks, spec->ntasks, 1, TASKS_MAX, "--ntasks", REFUSE_TASK_COUNT, out, err)) < 0 ||
        (rc = check_number(spec->has_cpus_per_task, spec->cpus_per_task, 1, 65534, "--cpus-per-task", REFUSE_CPU_COUNT, out, err)) < 0 ||
        (rc = check_number(spec->has_ntasks_per_node, spec->ntasks_per_node, 0, per_node > 0 ? (uint64_t)per_node : 65533, "--ntasks-per-node", REFUSE_TASK_COUNT, out, err)) < 0 ||
        (rc = check_number(spec->has_ntasks_per_socket, spec->ntasks_per_socket, 0, 65533, "--ntasks-per-socket", REFUSE_TASK_COUNT, out, err)) < 0 ||
        (rc = check_number(spec->has_ntasks_per_core, spec->ntasks_per_core, 0, 65533, "--ntasks-per-core", REFUSE_TASK_COUNT, out, err)) < 0 ||
        (rc = check_number(spec->has_ntasks_per_gpu, spec->ntasks_per_gpu, 0, 65533, "--ntasks-per-gpu", REFUSE_TASK_COUNT, out, err)) < 0 ||
        (rc = check_number(spec->has_min_cpus_node, spec->min_cpus_node, 0, 65533, "--mincpus", REFUSE_CPU_COUNT, out, err)) < 0 ||
        (rc = check_number(spec->has_cpus_per_gpu, spec->cpus_per_gpu, 0, 65533, "--cpus-per-gpu", REFUSE_CPU_COUNT, out, err)) < 0 ||
        (rc = check_number(spec->has_mem_per_node_mib, spec->mem_per_node_mib, 0, UINT64_C(1) << 40, "--mem (MiB)", REFUSE_MEMORY, out, err)) < 0 ||
        (rc = check_number(spec->has_mem_per_cpu_mib, spec->mem_per_cpu_mib, 0, UINT64_C(1) << 40, "--mem-per-cpu (MiB)", REFUSE_MEMORY, out, err)) < 0 ||
        (rc = check_number(spec->has_mem_per_gpu_mib, spec->mem_per_gpu_mib, 0, UINT64_C(1) << 40, "--mem-per-gpu (MiB)", REFUSE_MEMORY, out, err)) < 0 ||
        (rc = check_number(spec->has_warn_signal, spec->warn_signal, 1, 64, "--signal", REFUSE_BAD_REQUEST, out, err)) < 0 ||
        (rc = check_number(spec->has_warn_time_s, spec->warn_time_s, 0, 65535, "--signal time", REFUSE_TIME_VALUE, out, err)) < 0)
        return rc;
    if (spec->has_min_nodes && spec->has_max_nodes && spec->max_nodes < spec->min_nodes)
        return deny(out, err, REFUSE_NODE_COUNT, "at most %u nodes and at least %u cannot both be", spec->max_nodes, spec->min_nodes);
    if (spec->has_nice && (spec->nice > NICE_MAX || spec->nice < -NICE_MAX))
        return deny(out, err, REFUSE_NICE, "%d is beyond +/-%d", spec->nice, NICE_MAX);
    if (spec->has_ntasks && (uint64_t)spec->ntasks * (spec->cpus_per_task ? spec->cpus_per_task : 1) > UINT32_MAX)
        return deny(out, err, REFUSE_CPU_COUNT, "%u tasks of %u CPUs", spec->ntasks, spec->cpus_per_task);
    if (!!spec->has_mem_per_node_mib + (spec->mem_per_cpu_mib > 0) + (spec->mem_per_gpu_mib > 0) > 1)
        return deny(out, err, REFUSE_MEMORY, "--mem, --mem-per-cpu and --mem-per-gpu are mutually exclusive");
    return 0;
}

/* ---- rights ---------------------------------------------------------------------------------------------------------------- */
static bool same_text(const char *a, const char *b) { return strcmp(a ? a : "", b ? b : "") == 0; }

static int check_rights(const Wire__JobSpec *spec, const Wire__JobSpec *was, const struct asker *asker, struct admitted *out, struct spur_error *err)
{
    static const Wire__JobSpec none = WIRE__JOB_SPEC__INIT;
    const Wire__JobSpec *before = was ? was : &none;

    if (asker->rank >= RANK_OPERATOR)
        return 0;
    if (spec->has_nice && spec->nice < 0 && !(before->has_nice && spec->nice >= before->nice))
        return deny(out, err, REFUSE_DENIED, "only operators may use a negative nice value (%d)", spec->nice);
    if (was && (spec->has_nice ? spec->nice : 0) < (was->has_nice ? was->nice : 0))
        return deny(out, err, REFUSE_DENIED, "only operators may lower nice (from %d to %d)", was->has_nice ? was->nice : 0, spec->nice);
    /* 0 holds the job, which is the user's right. */
    if (spec->has_priority && spec->priority != 0 && !(before->has_priority && spec->priority <= before->priority))
        return deny(out, err, REFUSE_DENIED, "only operators may set a priority (%u)", spec->priority);
    if (spec->admin_comment && *spec->admin_comment && !same_text(spec->admin_comment, before->admin_comment))
        return deny(out, err, REFUSE_DENIED, "only operators may set AdminComment");
    if (spec->reboot && !before->reboot)
        return deny(out, err, REFUSE_DENIED, "only operators may reboot nodes");
    return 0;
}

/* ---- what cannot be done --------------------------------------------------------------------------------------------------- */
static int check_supported(const struct state *s, const Wire__JobSpec *spec, struct arena *a, struct admitted *out, struct spur_error *err)
{
    if (spec->reservation && *spec->reservation)
        return deny(out, err, REFUSE_RESERVATION, "there is no reservation %.64s", spec->reservation);
    if (spec->licenses && *spec->licenses)
        return deny(out, err, REFUSE_LICENSES, "licenses are not counted by this version (%.64s)", spec->licenses);
    if (spec->burst_buffer && *spec->burst_buffer)
        return deny(out, err, REFUSE_BURST_BUFFER, "burst buffers are not served by this version");
    if (spec->container && *spec->container)
        return deny(out, err, REFUSE_NOT_SUPPORTED, "--container");
    if (spec->batch_features && *spec->batch_features)
        return deny(out, err, REFUSE_BATCH_FEATURES, "--batch is not supported yet");
    if (spec->reboot)
        return deny(out, err, REFUSE_NOT_SUPPORTED, "--reboot");
    if (spec->immediate)
        return deny(out, err, REFUSE_NOT_SUPPORTED, "--immediate");
    if (spec->has_core_spec && spec->core_spec)
        return deny(out, err, REFUSE_NOT_SUPPORTED, "--core-spec and --thread-spec");
    if (spec->cpu_freq && *spec->cpu_freq)
        return deny(out, err, REFUSE_NOT_SUPPORTED, "--cpu-freq");
    if (spec->tres_bind && *spec->tres_bind) {
        struct bind b;

        if (bind_parse_tres(spec->tres_bind, &b, err) < 0)
            return deny(out, err, REFUSE_GRES, "%s", arena_copy(a, err->text));
        bind_fini(&b);
    }
    if (spec->tres_freq && *spec->tres_freq)
        return deny(out, err, REFUSE_NOT_SUPPORTED, "--gpu-freq");
    if (spec->mail_type && *spec->mail_type && !word_eq(spec->mail_type, "NONE"))
        return deny(out, err, REFUSE_NOT_SUPPORTED, "no mail is sent by this version (MailType %.64s)", spec->mail_type);
    if (spec->has_time_min_min && spec->time_min_min)
        return deny(out, err, REFUSE_TIME_MIN, "--time-min is not supported yet; use --time alone");
    if (spec->exclusive && *spec->exclusive && !word_eq(spec->exclusive, "exclusive") && !word_eq(spec->exclusive, "oversubscribe") &&
        !word_eq(spec->exclusive, "topo"))
        return deny(out, err, REFUSE_NOT_SUPPORTED, "--exclusive=%.32s", spec->exclusive);
    if (spec->qos && *spec->qos && config_has_word(s->config, CONF_AccountingStorageEnforce, "qos"))
        return deny(out, err, REFUSE_QOS, "qos %.64s", spec->qos);
    return 0;
}

/* ---- names ----------------------------------------------------------------------------------------------------------------- */
static int check_gres(const struct state *s, const char *text, const char *option, struct admitted *out, struct spur_error *err)
{
    struct tres_row *rows = NULL;
    struct spur_error why = { 0 };
    size_t n = 0;
    int rc = 0;

    if (!text || !*text)
        return 0;
    if (tres_parse(text, &rows, &n, &why) < 0)
        return deny(out, err, REFUSE_GRES, "%s: %s", option, why.text);
    for (size_t i = 0; i < n && rc == 0; i++)
        if (!list_names(config_text(s->config, CONF_GresTypes), rows[i].name))
            rc = deny(out, err, REFUSE_GRES, "%s: %.64s is not in GresTypes (%.64s)", option, rows[i].name,
                      config_text(s->config, CONF_GresTypes) ? config_text(s->config, CONF_GresTypes) : "empty");
    tres_free(rows, n);
    return rc;
}

/* Wishes for GPUs that say how many belong to something that was not asked for, in Slurm's words. */
static int check_gpus(const Wire__JobSpec *spec, struct admitted *out, struct spur_error *err)
{
    const char *const lists[] = { spec->tres_per_job, spec->tres_per_node, spec->tres_per_socket, spec->tres_per_task };
    bool per_job = spec->tres_per_job && strstr(spec->tres_per_job, "gpu"), any = false;

    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        any = any || (lists[i] && strstr(lists[i], "gpu"));
    if (spec->has_mem_per_gpu_mib && spec->mem_per_gpu_mib && !any)
        return deny(out, err, REFUSE_GRES, "--mem-per-gpu is given but the job did not request any GPU");
    if (spec->tres_per_task && strstr(spec->tres_per_task, "gpu") && !per_job && !spec->ntasks && !spec->ntasks_per_node && !spec->has_min_nodes)
        return deny(out, err, REFUSE_GRES, "--gpus-per-task used without either --gpus or -n/--ntasks is not allowed");
    if (spec->tres_per_socket && strstr(spec->tres_per_socket, "gpu") && !spec->sockets_per_node)
        return deny(out, err, REFUSE_GRES, "--gpus-per-socket option requires --sockets-per-node specification");
    if (spec->cpus_per_gpu && spec->has_cpus_per_task && spec->cpus_per_task)
        return deny(out, err, REFUSE_GRES, "--cpus-per-gpu is mutually exclusive with --cpus-per-task");
    if (spec->ntasks_per_gpu && !any && !spec->ntasks && !spec->has_min_nodes)
        return deny(out, err, REFUSE_GRES, "--ntasks-per-gpu needs either a GRES GPU specification or a node/ntask specification");
    return 0;
}

/* Names of nodes: all known; counts them and how many of them stand in any of the partitions. */
static int check_nodes(const struct state *s, const char *list, const char *option, const struct bitmap *of_parts, uint32_t *count, uint32_t *in_parts,
                       struct admitted *out, struct spur_error *err)
{
    struct hostlist *h = NULL;
    struct spur_error why = { 0 };
    int rc = 0;

    *count = *in_parts = 0;
    if (!list || !*list)
        return 0;
    if (hostlist_parse(list, &h, &why) < 0)
        return deny(out, err, REFUSE_NODE_UNKNOWN, "%s: %s", option, why.text);
    hostlist_uniq(h);
    for (size_t i = 0; i < hostlist_count(h) && rc == 0; i++) {
        const struct node *n = state_node(s, hostlist_nth(h, i));

        if (!n)
            rc = deny(out, err, REFUSE_NODE_UNKNOWN, "%s: %.64s", option, hostlist_nth(h, i));
        else {
            ++*count;
            *in_parts += bitmap_test(of_parts, n->index);
        }
    }
    hostlist_destroy(h);
    return rc;
}

static int check_names(struct state *s, const Wire__JobSpec *spec, struct admitted *out, struct spur_error *err)
{
    struct features f = { .count = 0 };
    struct spur_error why = { 0 };
    struct bitmap parts;
    uint32_t named = 0, inside = 0, unwanted = 0, ignored;
    char *text = mem_copy(spec->partition ? spec->partition : ""), *at = text, *word;
    int rc;

    bitmap_init(&parts, s->node_count);
    while ((word = word_next(&at, ","))) {
        const struct config_partition *p = config_partition_find(s->config, word);

        if (p && p->nodes.bits == parts.bits)
            bitmap_or(&parts, &p->nodes);
    }
    free(text);
    if ((rc = check_nodes(s, spec->req_nodes, "--nodelist", &parts, &named, &inside, out, err)) < 0 ||
        (rc = check_nodes(s, spec->exc_nodes, "--exclude", &parts, &unwanted, &ignored, out, err)) < 0)
        goto out;
    if (named != inside) {
        rc = deny(out, err, REFUSE_NODES_NOT_IN_PART, "--nodelist %.80s: %u of its %u nodes are in partition %.64s", spec->req_nodes, inside, named, spec->partition);
        goto out;
    }
    if (spec->has_max_nodes && named > spec->max_nodes) {
        rc = deny(out, err, REFUSE_NODE_COUNT, "--nodelist names %u nodes, at most %u are asked for", named, spec->max_nodes);
        goto out;
    }
    if (named && unwanted) {
        struct hostlist *a = NULL, *b = NULL;

        if (hostlist_parse(spec->req_nodes, &a, NULL) == 0 && hostlist_parse(spec->exc_nodes, &b, NULL) == 0)
            for (size_t i = 0; i < hostlist_count(a) && rc == 0; i++)
                if (hostlist_find(b, hostlist_nth(a, i)) >= 0)
                    rc = deny(out, err, REFUSE_NODE_UNKNOWN, "node %.64s is both required and excluded", hostlist_nth(a, i));
        hostlist_destroy(a);
        hostlist_destroy(b);
        if (rc < 0)
            goto out;
    }
    if ((rc = features_init(&f, s, spec->features, &why)) < 0) {
        rc = deny(out, err, rc == SPUR_EUNSUPPORTED ? REFUSE_NOT_SUPPORTED : REFUSE_FEATURES, "%s", why.text);
        goto out;
    }
    features_fini(&f);
    if ((rc = features_init(&f, s, spec->prefer, &why)) < 0) {
        rc = deny(out, err, REFUSE_PREFER, "%s", why.text);
        goto out;
    }
    features_fini(&f);
    if ((rc = check_gres(s, spec->tres_per_job, "--gpus", out, err)) < 0 || (rc = check_gres(s, spec->tres_per_node, "--gres", out, err)) < 0 ||
        (rc = check_gres(s, spec->tres_per_socket, "--gpus-per-socket", out, err)) < 0 || (rc = check_gres(s, spec->tres_per_task, "--gpus-per-task", out, err)) < 0)
        goto out;
    rc = 0;
out:
    bitmap_fini(&parts);
    return rc;
}

/* ---- times ----------------------------------------------------------------------------------------------------------------- */
static int check_times(const struct state *s, const Wire__JobSpec *spec, const Wire__JobSpec *was, const struct asker *asker, struct admitted *out, struct spur_error *err)
{
    int64_t now_s = asker->facts->wall_ms / 1000, from = spec->begin_wall_s > now_s ? spec->begin_wall_s : now_s;
    struct str text;

    (void)s;
    if (spec->has_time_limit_min && spec->time_limit_min == 0)
        return deny(out, err, REFUSE_TIME_LIMIT, "a time limit of 0 minutes");
    if (spec->has_begin_wall_s && spec->begin_wall_s > INT64_C(253402300799))
        return deny(out, err, REFUSE_TIME_VALUE, "--begin lies beyond the year 9999");
    if (!spec->deadline_wall_s || (was && was->deadline_wall_s == spec->deadline_wall_s))
        return 0;
    str_init(&text);
    moment_print(spec->deadline_wall_s, NULL, now_s, &text);
    if (spec->deadline_wall_s <= now_s)
        deny(out, err, REFUSE_TIME_LIMIT, "the deadline %s has passed", text.text);
    else if (spec->has_time_limit_min && spec->time_limit_min != MINUTES_UNLIMITED && from + (int64_t)spec->time_limit_min * 60 > spec->deadline_wall_s)
        deny(out, err, REFUSE_TIME_LIMIT, "a job of %u minutes cannot end before the deadline %s", spec->time_limit_min, text.text);
    else
        out->slurm_errno = 0;
    str_fini(&text);
    return out->slurm_errno ? err->code : 0;
}

/* What an update changes: the new spec without the texts that are as they were. A new job changes everything. */
static Wire__JobSpec changes(const Wire__JobSpec *spec, const Wire__JobSpec *was)
{
    const ProtobufCMessageDescriptor *d = &wire__job_spec__descriptor;
    Wire__JobSpec delta = *spec;

    for (unsigned i = 0; was && i < d->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &d->fields[i];

        if (f->type == PROTOBUF_C_TYPE_STRING && f->label != PROTOBUF_C_LABEL_REPEATED) {
            char **text = (char **)(void *)((char *)&delta + f->offset);

            if (same_text(*text, *(char *const *)(const void *)((const char *)was + f->offset)))
                *text = NULL;
        }
    }
    if (was && was->switches == spec->switches)
        delta.switches = 0;
    if (was && was->segment == spec->segment)
        delta.segment = 0;
    if (was && was->core_spec == spec->core_spec)
        delta.has_core_spec = false;
    if (was && was->time_min_min == spec->time_min_min)
        delta.has_time_min_min = false;
    return delta;
}

static bool same_sizes(const Wire__JobSpec *a, const Wire__JobSpec *b)
{
    return a->min_nodes == b->min_nodes && a->max_nodes == b->max_nodes && a->ntasks == b->ntasks && a->ntasks_per_node == b->ntasks_per_node &&
           a->has_time_limit_min == b->has_time_limit_min && a->time_limit_min == b->time_limit_min && a->has_mem_per_node_mib == b->has_mem_per_node_mib &&
           a->mem_per_node_mib == b->mem_per_node_mib;
}

int check_spec(struct state *s, const Wire__JobSpec *spec, const Wire__JobSpec *was, const struct asker *asker, struct arena *a, struct admitted *out, struct spur_error *err)
{
    struct bitmap tasks = { 0 };
    struct spur_error why = { 0 };
    uint32_t limit = 0;
    int64_t most = config_number(s->config, CONF_MaxArraySize);
    Wire__JobSpec delta = changes(spec, was);
    int rc;

    (void)a;
    out->slurm_errno = 0;
    if ((rc = check_texts(spec, out, err)) < 0 || (rc = check_numbers(s, spec, out, err)) < 0 || (rc = check_rights(spec, was, asker, out, err)) < 0 ||
        (rc = check_supported(s, &delta, a, out, err)) < 0 || (rc = check_times(s, spec, was, asker, out, err)) < 0)
        return rc;
    if ((!was || delta.partition || delta.account || delta.qos || !same_sizes(spec, was)) && (rc = check_partitions(s, spec, asker, out, err)) < 0)
        return rc;
    if ((!was || delta.partition || delta.features || delta.prefer || delta.req_nodes || delta.exc_nodes || delta.tres_per_job || delta.tres_per_node ||
         delta.tres_per_socket || delta.tres_per_task) && (rc = check_names(s, spec, out, err)) < 0)
        return rc;
    if (!was && (rc = check_gpus(spec, out, err)) < 0)
        return rc;
    if (spec->work_dir && spec->work_dir[0] != '/')
        return deny(out, err, REFUSE_BAD_REQUEST, "work directory %.100s is not absolute", spec->work_dir);
    if (!was && spec->array && *spec->array) {
        if (!spec->is_batch)
            return deny(out, err, REFUSE_ARRAY, "only batch jobs can be arrays");
        bitmap_init(&tasks, 0);
        rc = array_parse(spec->array, most > 0 ? (uint32_t)most : 1001, &tasks, &limit, &why);
        bitmap_fini(&tasks);
        if (rc < 0)
            return deny(out, err, REFUSE_ARRAY, "%s", why.text);
    }
    if (asker->facts->never)
        return deny(out, err, REFUSE_NEVER_FITS, "%s", asker->facts->never);
    return 0;
}
