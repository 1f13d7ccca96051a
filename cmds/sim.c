/* SPDX-License-Identifier: Apache-2.0 */
/* sim.c - `spur sim`: how a cluster of one type of node would run a load, decided by the code that the controller runs.
 *
 * Options and printing; the replay itself is framework/sim/replay.c. What is printed on standard output depends on the options alone, so that two
 * runs can be compared byte for byte; times measured on this machine go to standard error.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "cmds/commands.h"
#include "cmds/common/filetext.h"
#include "sim/replay.h"

static const char usage_text[] =
    "Usage: spur sim --topology FILE --nodes N --leaf L (--trace FILE | --synthetic SEED) [OPTIONS]\n"
    "\n"
    "Runs jobs on N nodes of one type under a virtual clock, with the admit, plan and select code of the controller, and prints a line a job\n"
    "and a summary.\n"
    "\n"
    "  --topology=FILE    the type of node: a topology file, or a name: mi300x, hgx_h100, ...\n"
    "  --nodes=N          nodes of it\n"
    "  --leaf=L           nodes a leaf switch\n"
    "  --pod=P            leaves a pod; all leaves hang on one spine otherwise\n"
    "  --trace=FILE       lines SUBMIT_S DURATION_S GPUS; - is standard input\n"
    "  --synthetic=SEED   draws a load instead:\n"
    "    --jobs=J           jobs [6000]\n"
    "    --load=SHARE       of the GPUs that they would keep busy [0.95]\n"
    "    --mix=LIST         GPUS:WEIGHT,... [" LOAD_MIX "]\n"
    "    --median=SECONDS   of the lognormal durations [600]\n"
    "    --sigma=S          of their logarithms [1.2]\n"
    "  --limit=FACTOR     a job's time limit, in its durations [1]\n"
    "  --no-links         nodes do not say how their GPUs are joined: what a scheduler gets that does not look\n"
    "  --fill             all jobs are submitted at once and none ends: until starts cease\n"
    "  --set=KEY=VALUE    a line of slurm.conf: SelectType=, SchedulerType=, ... (may be repeated)\n"
    "  --spur-conf=FILE   a spur.conf for the plugins\n"
    "  --why              the select plugin's line behind each job\n"
    "  --summary          the summary alone\n"
    "  -h, --help         this text\n"
    "\n"
    "A job's line: JOB SUBMIT_S START_S END_S GPUS LEAVES SHARE WHERE. SHARE is the bandwidth between its GPUs, as a share of the best\n"
    "that so many on an empty node have; WHERE its nodes and their GPUs. Times of decisions, as measured, go to standard error.\n";

enum { OPT_TOPOLOGY = 256, OPT_NODES, OPT_LEAF, OPT_POD, OPT_TRACE, OPT_SYNTHETIC, OPT_JOBS, OPT_LOAD, OPT_MIX, OPT_MEDIAN, OPT_SIGMA, OPT_LIMIT, OPT_FILL, OPT_NO_LINKS, OPT_SET, OPT_SPUR, OPT_WHY,
       OPT_SUMMARY, OPT_COMPLETE };

static const struct option long_options[] = {
    { "topology", required_argument, NULL, OPT_TOPOLOGY }, { "nodes", required_argument, NULL, OPT_NODES }, { "leaf", required_argument, NULL, OPT_LEAF },
    { "pod", required_argument, NULL, OPT_POD }, { "trace", required_argument, NULL, OPT_TRACE }, { "synthetic", required_argument, NULL, OPT_SYNTHETIC },
    { "jobs", required_argument, NULL, OPT_JOBS }, { "load", required_argument, NULL, OPT_LOAD }, { "mix", required_argument, NULL, OPT_MIX },
    { "median", required_argument, NULL, OPT_MEDIAN }, { "sigma", required_argument, NULL, OPT_SIGMA }, { "limit", required_argument, NULL, OPT_LIMIT },
    { "fill", no_argument, NULL, OPT_FILL }, { "no-links", no_argument, NULL, OPT_NO_LINKS }, { "set", required_argument, NULL, OPT_SET }, { "spur-conf", required_argument, NULL, OPT_SPUR },
    { "why", no_argument, NULL, OPT_WHY }, { "summary", no_argument, NULL, OPT_SUMMARY }, { "autocomplete", no_argument, NULL, OPT_COMPLETE },
    { "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 } };

#define NODES_MAX 100000u
#define SETTINGS_MAX 64

struct sim {
    const char *topology, *trace, *spur_path;
    uint32_t nodes, leaf, pod;
    bool     is_synthetic, why, summary_only;
    struct load_synthetic synthetic;
    struct replay_options replay;
    struct replay_setting settings[SETTINGS_MAX];
};

static int complain(const char *format, const char *what, const char *value)
{
    fprintf(stderr, "spur sim: ");
    fprintf(stderr, format, what, value);
    fprintf(stderr, "\n");
    return 1;
}

static bool real(const char *text, double least, double most, double *out)
{
    char *end;

    *out = strtod(text, &end);
    return *text && !*end && *out >= least && *out <= most;
}

static bool whole(const char *text, uint32_t least, uint32_t most, uint32_t *out) { return number_u32(text, out) && *out >= least && *out <= most; }

static int option(struct sim *s, int c, char *value)
{
    bool fine = true;
    char *eq;

    switch (c) {
    case OPT_TOPOLOGY: s->topology = value; break;
    case OPT_NODES: fine = whole(value, 1, NODES_MAX, &s->nodes); break;
    case OPT_LEAF: fine = whole(value, 1, NODES_MAX, &s->leaf); break;
    case OPT_POD: fine = whole(value, 1, NODES_MAX, &s->pod); break;
    case OPT_TRACE: s->trace = value; break;
    case OPT_SYNTHETIC: fine = number_u64(value, &s->synthetic.seed); s->is_synthetic = true; break;
    case OPT_JOBS: fine = whole(value, 1, 10000000, &s->synthetic.jobs); break;
    case OPT_LOAD: fine = real(value, 0.001, 100, &s->synthetic.share); break;
    case OPT_MIX: s->synthetic.mix = value; break;
    case OPT_MEDIAN: fine = real(value, 1, 1e8, &s->synthetic.median_s); break;
    case OPT_SIGMA: fine = real(value, 0, 5, &s->synthetic.sigma); break;
    case OPT_LIMIT: fine = real(value, 1, 1e6, &s->replay.limit_factor); break;
    case OPT_FILL: s->replay.fill = true; break;
    case OPT_NO_LINKS: s->replay.no_links = true; break;
    case OPT_WHY: s->why = true; break;
    case OPT_SUMMARY: s->summary_only = true; break;
    case OPT_SPUR: s->spur_path = value; break;
    case OPT_SET:
        eq = strchr(value, '=');
        fine = eq && eq > value && !strchr(value, '\n') && s->replay.setting_count < SETTINGS_MAX;
        if (fine) {
            *eq = '\0';
            s->settings[s->replay.setting_count++] = (struct replay_setting){ value, eq + 1 };
        }
        break;
    default: return 1;
    }
    for (size_t i = 0; !fine && long_options[i].name; i++)
        if (long_options[i].val == c)
            return complain("--%s=%s is not a value that it takes; spur sim --help says which", long_options[i].name, value);
    return 0;
}

static void row(void *arg, const struct replay_job *j)
{
    const struct sim *s = arg;
    double submit = (double)j->submit_ms / 1000, start = (double)j->start_ms / 1000, end = (double)j->end_ms / 1000;

    if (s->summary_only)
        return;
    if (j->refused)
        printf("- %.3f - - %u - - refused: %s\n", submit, j->gpus, j->where);
    else if (!j->started)
        printf("%u %.3f - - %u - - never started\n", j->job_id, submit, j->gpus);
    else if (!j->end_ms)
        printf("%u %.3f %.3f - %u %u %.3f %s", j->job_id, submit, start, j->gpus, j->leaves, j->share, j->where);
    else
        printf("%u %.3f %.3f %.3f %u %u %.3f %s", j->job_id, submit, start, end, j->gpus, j->leaves, j->share, j->where);
    if (j->started)
        printf(s->why && j->why ? "  # %s\n" : "\n", j->why);
}

static void summary(const struct replay_summary *r)
{
    printf("summary jobs %u\nsummary started %u\nsummary refused %u\nsummary never_started %u\n", r->jobs, r->started, r->refused, r->waiting);
    printf("summary bandwidth_ratio %.4f of %u jobs with two GPUs or more on a node\n", r->bandwidth_ratio, r->paired);
    printf("summary best_share %.4f of them have the best set there is\n", r->best_share);
    printf("summary one_leaf_share %.4f of %u jobs on several nodes\n", r->one_leaf_share, r->multi_node);
    printf("summary wait_mean_s %.1f\nsummary wait_p95_s %.1f\n", r->wait_mean_s, r->wait_p95_s);
    printf("summary utilisation %.4f of the GPUs over %.0f s\n", r->utilisation, r->span_s);
    printf("summary fragmentation %.4f of the free GPUs are on nodes that are partly held\n", r->fragmentation);
    printf("summary decisions %llu placements in %llu slices of the plan\n", (unsigned long long)r->decisions, (unsigned long long)r->slices);
    fflush(stdout);
    fprintf(stderr, "measured decision_us median %.1f p95 %.1f max %.1f\n", r->decision_us_median, r->decision_us_p95, r->decision_us_max);
    fprintf(stderr, "measured slice_ms max %.2f\n", r->slice_ms_max);
    fprintf(stderr, "measured cpu_s submits %.3f, plan and starts %.3f; cpu_ms per start %.3f\n", r->submit_s, r->start_s, r->started ? r->start_s * 1000 / r->started : 0);
}

static int run(struct sim *s)
{
    struct machine *machine = mem_alloc(sizeof *machine);
    struct replay_summary result;
    struct spur_error err = { 0 };
    struct load load = { 0 };
    char *spur_text = NULL, path[1100];
    int rc = 1;

    if (s->spur_path && !(spur_text = file_text(s->spur_path))) {
        complain("cannot read %s%s", s->spur_path, "");
        goto out;
    }
    snprintf(path, sizeof path, "%s", s->topology);
    if (access(path, R_OK) < 0 && !strchr(path, '/'))
        snprintf(path, sizeof path, "%s/topologies/%s.json", SPUR_DATADIR, s->topology);
    if (machine_read(path, machine, &err) < 0)
        goto failed;
    s->synthetic.gpus = (uint64_t)s->nodes * machine->gpus;
    if (s->trace ? load_read(s->trace, &load, &err) < 0 : load_make(&s->synthetic, &load, &err) < 0)
        goto failed;
    s->replay.machine = machine;
    s->replay.nodes = s->nodes;
    s->replay.leaf = s->leaf;
    s->replay.pod = s->pod;
    s->replay.load = &load;
    s->replay.settings = s->settings;
    s->replay.spur_conf = spur_text;
    if (!s->summary_only)
        printf("# JOB SUBMIT_S START_S END_S GPUS LEAVES SHARE WHERE\n");
    if (replay_run(&s->replay, row, s, &result, &err) < 0)
        goto failed;
    summary(&result);
    rc = 0;
    goto out;
failed:
    fprintf(stderr, "spur sim: %s\n", err.text);
out:
    load_fini(&load);
    machine_fini(machine);
    free(spur_text);
    free(machine);
    return rc;
}

int cmd_sim(int argc, char **argv)
{
    struct sim s = { .synthetic = { .jobs = 6000, .share = 0.95, .median_s = 600, .sigma = 1.2, .mix = LOAD_MIX }, .replay = { .limit_factor = 1 } };
    int c;

    optind = 1;
    while ((c = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        if (c == 'h')
            return fputs(usage_text, stdout), 0;
        if (c == OPT_COMPLETE) {
            for (size_t i = 0; long_options[i].name; i++)
                if (long_options[i].val != OPT_COMPLETE)
                    printf("--%s%s\n", long_options[i].name, long_options[i].has_arg ? "=" : "");
            return 0;
        }
        if (c == '?' || option(&s, c, optarg))
            return 1;
    }
    if (optind < argc)
        return complain("%s is not an option%s; spur sim --help lists them", argv[optind], "");
    if (!s.topology || !s.nodes || !s.leaf)
        return complain("%s%s", "--topology, --nodes and --leaf are needed; spur sim --help explains them", "");
    if (!s.trace == !s.is_synthetic)
        return complain("%s%s", "one of --trace and --synthetic is needed", "");
    return run(&s);
}
