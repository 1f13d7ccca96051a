/* SPDX-License-Identifier: Apache-2.0 */
/* place.c - `spur place`: what the daemon would choose, from the command line.
 *
 * Two questions, both read line by line from standard input. Inside a node: which K of the free GPUs; the score plugin of the daemon answers. Across
 * nodes: how many idle nodes of which leaf; a cluster of such nodes is made and the daemon's select plugin places a job of whole nodes on it.
 * Blank lines and those that begin with # are passed over. Exit status 1 when a line could not be read.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <spur/score.h>
#include <spur/select.h>

#include "base/bitmap.h"
#include "base/str.h"
#include "base/table.h"
#include "cmds/commands.h"
#include "hardware/rig.h"
#include "loader/loader.h"

static const char usage_text[] =
    "Usage: spur place --topology FILE [--score NAME]\n"
    "       spur place --cluster STATE [--select NAME]\n"
    "\n"
    "Says what the daemon would choose, by the same code. Reads lines from standard input and prints one for each.\n"
    "\n"
    "  --topology=FILE    lines FREEMASK K: which K of the free GPUs of such a node. Prints FREEMASK K SETMASK SCORE; the score is the\n"
    "                     sum over the pairs of the set, GB/s in one direction. Masks in hexadecimal (0x) or decimal, answered as they\n"
    "                     were asked; \"- -\" when fewer than K are free. FILE: a topology in JSON, hwloc's XML, a KFD tree as a file or\n"
    "                     a folder; or a name: mi300x, hgx_h100, ...\n"
    "  --cluster=STATE    STATE has lines LEAF POD IDLE: idle nodes under a leaf switch. Lines NEED [SEGMENT] from standard input: that many\n"
    "                     whole nodes, in groups of SEGMENT under one leaf. Prints LEAF:COUNT,... or - when they do not fit\n"
    "  --score=NAME       the score plugin [score/links]\n"
    "  --select=NAME      the select plugin [select/topo]\n"
    "  -h, --help         this text\n";

enum { OPT_TOPOLOGY = 256, OPT_CLUSTER, OPT_SCORE, OPT_SELECT, OPT_COMPLETE };

static const struct option long_options[] = {
    { "topology", required_argument, NULL, OPT_TOPOLOGY }, { "cluster", required_argument, NULL, OPT_CLUSTER }, { "score", required_argument, NULL, OPT_SCORE },
    { "select", required_argument, NULL, OPT_SELECT }, { "autocomplete", no_argument, NULL, OPT_COMPLETE }, { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 } };

/* ---- lines ---- */

struct lines { FILE *file; const char *name; unsigned number; char *text; size_t room; };

/* The next line that says something, without blanks around it; NULL at the end. */
static char *line_next(struct lines *l)
{
    while (getline(&l->text, &l->room, l->file) >= 0) {
        char *line = word_trim(l->text);

        l->number++;
        if (*line && *line != '#')
            return line;
    }
    return NULL;
}

static int line_bad(const struct lines *l, const char *wanted)
{
    fprintf(stderr, "spur place: %s:%u: %s are wanted\n", l->name, l->number, wanted);
    return 1;
}

static bool number_read(const char *text, uint64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoull(text, &end, word_starts(text, "0x") ? 16 : 10);
    return *text && *text != '-' && *text != '+' && !*end && !errno;
}

/* ---- inside a node ---- */

static int sets_answer(const struct spur_device_table *table, const struct loaded *plugin)
{
    static const char wanted[] = "FREEMASK K, a mask of the node's free GPUs and a number,";
    struct lines in = { .file = stdin, .name = "standard input" };
    const struct spur_score_ops *ops = loader_ops(plugin);
    uint64_t all = table->count >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << table->count) - 1;
    char *line;
    int rc = 0;

    while ((line = line_next(&in))) {
        struct spur_score score = { .size = sizeof score };
        struct spur_score_ask ask = { .size = sizeof ask };
        char mask_text[64], k_text[64], extra[4];
        uint64_t k;

        if (sscanf(line, "%63s %63s %3s", mask_text, k_text, extra) != 2 || !number_read(mask_text, &ask.free) || !number_read(k_text, &k) || k < 1 || k > 64 ||
            (ask.free & ~all)) {
            rc = line_bad(&in, wanted);
            continue;
        }
        ask.k = (uint32_t)k;
        if (ops->best(plugin->self, table, &ask, &score) < 0)
            printf("%s %s - -\n", mask_text, k_text);
        else
            printf(word_starts(mask_text, "0x") ? "%s %s 0x%" PRIx64 " %.10g\n" : "%s %s %" PRIu64 " %.10g\n", mask_text, k_text, score.mask, (double)score.sum_mbps / 1000);
    }
    free(in.text);
    return rc;
}

static int inside(const char *topology, const char *scorer)
{
    struct spur_device_table *table = NULL;
    struct loaded *plugin = NULL;
    struct spur_error err = { 0 };
    struct rig rig = { 0 };
    char path[1100];
    int rc = 1;

    snprintf(path, sizeof path, "%s", topology);
    if (access(path, R_OK) < 0 && !strchr(path, '/'))
        snprintf(path, sizeof path, "%s/topologies/%s.json", SPUR_DATADIR, topology);
    if (rig_read(path, &rig, &err) < 0 || loader_open(SPUR_KIND_score, scorer, NULL, NULL, &plugin, &err) < 0)
        fprintf(stderr, "spur place: %s\n", err.text);
    else if (!(table = rig_table(&rig)))
        fprintf(stderr, "spur place: %s: there is no GPU in it\n", path);
    else
        rc = sets_answer(table, plugin);
    free(table);
    loader_close(plugin);
    rig_fini(&rig);
    return rc;
}

/* ---- across nodes ---- */

#define IDLE_MAX 1000000u

struct fabric_leaf { char *name, *path; uint32_t first, idle; };
struct fabric {
    struct fabric_leaf *leaves; uint32_t count;
    struct spur_node_view *nodes; uint32_t node_count;
    uint64_t core;                  /* of every node: one, free */
    uint64_t *allowed; uint32_t words;
    struct spur_node_pick *picks; uint64_t *cores;
};

static int fabric_read(const char *path, struct fabric *f)
{
    static const char wanted[] = "LEAF POD IDLE, two names and the number of idle nodes,";
    struct lines in = { .file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re"), .name = path };
    struct table seen;
    uint64_t total = 0;
    char *line;
    int rc = 0;

    if (!in.file) {
        fprintf(stderr, "spur place: %s: %s\n", path, strerror(errno));
        return 1;
    }
    table_init(&seen);
    while (rc == 0 && (line = line_next(&in))) {
        char leaf[256], pod[256], idle[32], extra[4];
        struct fabric_leaf *l;
        struct str text;
        uint64_t n;

        if (sscanf(line, "%255s %255s %31s %3s", leaf, pod, idle, extra) != 3 || !number_read(idle, &n) || (total += n) > IDLE_MAX) {
            rc = line_bad(&in, wanted);
            break;
        }
        if (table_get_text(&seen, leaf)) {
            fprintf(stderr, "spur place: %s:%u: leaf %s stands there twice\n", in.name, in.number, leaf);
            rc = 1;
            break;
        }
        f->leaves = mem_grow(f->leaves, f->count + 1, sizeof *f->leaves);
        l = &f->leaves[f->count++];
        str_init(&text);
        str_addf(&text, "%s/%s", pod, leaf);
        *l = (struct fabric_leaf){ .name = mem_copy(leaf), .path = mem_copy(text.text), .first = (uint32_t)(total - n), .idle = (uint32_t)n };
        str_fini(&text);
        table_put_text(&seen, l->name, l->name);
    }
    table_fini(&seen);
    f->node_count = (uint32_t)total;
    free(in.text);
    if (in.file != stdin)
        fclose(in.file);
    return rc;
}

static void fabric_fill(struct fabric *f)
{
    uint32_t n = f->node_count;

    f->core = 1;
    f->words = (uint32_t)bitmap_words(n);
    f->nodes = mem_array(n + 1, sizeof *f->nodes);
    f->allowed = mem_array(f->words + 1, sizeof *f->allowed);
    f->picks = mem_array(n + 1, sizeof *f->picks);
    f->cores = mem_array(n + 1, sizeof *f->cores);
    for (uint32_t l = 0; l < f->count; l++)
        for (uint32_t i = f->leaves[l].first; i < f->leaves[l].first + f->leaves[l].idle; i++) {
            f->nodes[i] = (struct spur_node_view){
                .index = i, .flags = SPUR_NODE_USABLE | SPUR_NODE_IDLE, .name = f->leaves[l].name, .features = "", .weight = 1, .sockets = 1, .cores_per_socket = 1,
                .threads_per_core = 1, .cpus = 1, .mem_total = 1, .mem_free = 1, .core_free = &f->core, .core_words = 1, .cpus_free = 1, .class_id = 1, .fabric = "",
                .leaf = f->leaves[l].name, .block = "", .path = f->leaves[l].path };
            f->allowed[i / 64] |= UINT64_C(1) << i % 64;
            f->picks[i].cores = &f->cores[i];
            f->picks[i].core_words = 1;
        }
}

static void fabric_print(const struct fabric *f, const struct spur_placement *out)
{
    const char *comma = "";
    uint32_t at = 0;

    for (uint32_t l = 0; l < f->count; l++) {
        uint32_t count = 0;

        for (; at < out->pick_count && spur_placement_pick(out, at)->node < f->leaves[l].first + f->leaves[l].idle; at++)
            count++;
        if (count) {
            printf("%s%s:%u", comma, f->leaves[l].name, count);
            comma = ",";
        }
    }
    printf("\n");
}

static int nodes_answer(struct fabric *f, const struct loaded *plugin)
{
    static const char wanted[] = "NEED [SEGMENT], numbers of nodes,";
    struct spur_view view = { .size = sizeof view, .node_size = sizeof *f->nodes, .version = 1, .nodes = f->nodes, .node_count = f->node_count, .serial = 1 };
    struct spur_placement out = { .size = sizeof out, .pick_size = sizeof *f->picks, .picks = f->picks, .pick_room = f->node_count };
    const struct spur_select_ops *ops = loader_ops(plugin);
    struct lines in = { .file = stdin, .name = "standard input" };
    char *line;
    int rc = 0;

    if (SPUR_HAS(ops, changed))
        ops->changed(plugin->self, &view, NULL, 0);
    while ((line = line_next(&in))) {
        char need_text[32], segment_text[32] = "0", extra[4];
        struct spur_error err = { 0 };
        uint64_t need, segment;
        int words = sscanf(line, "%31s %31s %3s", need_text, segment_text, extra);

        if (words < 1 || words > 2 || !number_read(need_text, &need) || !number_read(segment_text, &segment) || need < 1 || need > UINT32_MAX || segment > UINT32_MAX) {
            rc = line_bad(&in, wanted);
            continue;
        }
        if (need > f->node_count) {
            printf("-\n");
            continue;
        }
        out.pick_count = 0;
        if (ops->place(plugin->self, &view, &(struct spur_ask){ .size = sizeof(struct spur_ask), .job_id = 1, .min_nodes = (uint32_t)need, .max_nodes = (uint32_t)need,
                                                                .tasks = (uint32_t)need, .cpus_per_task = 1, .gres_size = sizeof(struct spur_gres_ask),
                                                                .allowed = f->allowed, .node_words = f->words, .exclusive = true, .cr = SPUR_CR_CORE,
                                                                .segment = (uint32_t)segment }, &out, &err) == 0)
            fabric_print(f, &out);
        else
            printf("-\n");
    }
    free(in.text);
    return rc;
}

static int across(const char *state, const char *selector)
{
    struct fabric f = { 0 };
    struct loaded *plugin = NULL;
    struct spur_error err = { 0 };
    int rc = fabric_read(state, &f);

    if (rc == 0 && loader_open(SPUR_KIND_select, selector, NULL, NULL, &plugin, &err) < 0) {
        fprintf(stderr, "spur place: %s\n", err.text);
        rc = 1;
    } else if (rc == 0) {
        fabric_fill(&f);
        rc = nodes_answer(&f, plugin);
    }
    loader_close(plugin);
    for (uint32_t l = 0; l < f.count; l++) {
        free(f.leaves[l].name);
        free(f.leaves[l].path);
    }
    free(f.leaves);
    free(f.nodes);
    free(f.allowed);
    free(f.picks);
    free(f.cores);
    return rc;
}

int cmd_place(int argc, char **argv)
{
    const char *topology = NULL, *cluster = NULL, *scorer = "score/links", *selector = "select/topo";
    int c;

    optind = 1;
    while ((c = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        switch (c) {
        case OPT_TOPOLOGY: topology = optarg; break;
        case OPT_CLUSTER: cluster = optarg; break;
        case OPT_SCORE: scorer = optarg; break;
        case OPT_SELECT: selector = optarg; break;
        case OPT_COMPLETE:
            for (size_t i = 0; long_options[i].name; i++)
                if (long_options[i].val != OPT_COMPLETE)
                    printf("--%s%s\n", long_options[i].name, long_options[i].has_arg ? "=" : "");
            return 0;
        case 'h': return fputs(usage_text, stdout), 0;
        default: return 1;
        }
    }
    if (optind < argc || !topology == !cluster) {
        fprintf(stderr, "spur place: one of --topology and --cluster is needed; spur place --help explains them\n");
        return 1;
    }
    return topology ? inside(topology, scorer) : across(cluster, selector);
}
