/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_map.c - `spur gpu map`: the GPUs of the cluster drawn as text, node by node: how they are joined and who holds them.
 *
 * A row is a node, or several in order that look the same. Brackets hold an island, GPUs that are joined by links; inside it bars stand
 * between groups that the strongest links join. Where there are no links at all, round brackets hold what hangs on one PCIe switch. Each GPU is its number and a
 * letter for the job that holds it; the letters are told below. Rows of one leaf, NVLink domain and type stand together. Nothing is
 * wider than the terminal: a long row goes on below, between two brackets.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/bitmap.h"
#include "base/hostlist.h"
#include "base/table.h"
#include "client/client.h"
#include "cmds/common/json.h"
#include "cmds/gpu.h"
#include "state/apply.h"

static const char usage_text[] =
    "Usage: spur gpu map [--json] [--width=N] [NODES]\n"
    "\n"
    "Draws the GPUs of the cluster, or of NODES: islands of linked GPUs in brackets, and which job holds each.\n"
    "\n"
    "  --json       the same for programs\n"
    "  --width=N    characters a line [the terminal's, else 100]\n"
    "  -h, --help   this text\n";

enum { GPUS_MAX = 64, LABEL_MAX = 4, WIDTH_LEAST = 40 };

struct holder { uint32_t job; uint64_t mask; };        /* on one node */

struct seen_node {
    const Wire__NodeInfo *info;
    const Wire__DeviceTable *devices;   /* NULL: nothing is known of its links */
    struct holder *holders; size_t holder_count;
};

struct seen_job { const Wire__JobInfo *info; uint32_t gpus; char label[LABEL_MAX + 1]; struct hostlist *nodes; };

struct map {
    struct arena arena;
    struct seen_node *nodes; size_t node_count;
    struct seen_job *jobs; size_t job_count;
    struct table tables;                /* device_type -> Wire__DeviceTable */
    const struct hostlist *wanted;
    const char *cluster;
    size_t width;
};

/* ---- asking ---------------------------------------------------------------------------------------------------------------- */
static int node_part(void *arg, void *part)
{
    struct map *m = arg;
    const Wire__NodesReply *r = part;

    m->cluster = r->cluster ? r->cluster : m->cluster;
    m->nodes = mem_grow(m->nodes, m->node_count + r->n_nodes + 1, sizeof *m->nodes);
    for (size_t i = 0; i < r->n_nodes; i++) {
        struct seen_node n = { .info = r->nodes[i], .devices = r->nodes[i]->devices };

        if (n.devices)
            table_put(&m->tables, n.info->device_type, n.info->devices);
        else if (n.info->device_type)
            n.devices = table_get(&m->tables, n.info->device_type);
        if (!n.info->gpu_mask)
            continue;
        if (m->wanted && hostlist_find(m->wanted, n.info->name) < 0)
            continue;
        m->nodes[m->node_count++] = n;
    }
    return !r->last;
}

static uint64_t gpu_mask(const Wire__NodeAlloc *a)
{
    uint64_t mask = 0;

    for (size_t i = 0; i < a->n_gres; i++)
        if (word_eq(a->gres[i]->name, "gpu"))
            mask |= a->gres[i]->mask;
    return mask;
}

static int job_part(void *arg, void *part)
{
    struct map *m = arg;
    const Wire__JobsReply *r = part;

    m->jobs = mem_grow(m->jobs, m->job_count + r->n_jobs + 1, sizeof *m->jobs);
    for (size_t i = 0; i < r->n_jobs; i++) {
        struct seen_job j = { .info = r->jobs[i] };

        for (size_t k = 0; k < j.info->n_allocs; k++)
            j.gpus += (uint32_t)__builtin_popcountll(gpu_mask(j.info->allocs[k]));
        if (j.gpus)
            m->jobs[m->job_count++] = j;
    }
    return !r->last;
}

static int by_id(const void *a, const void *b)
{
    const struct seen_job *x = a, *y = b;

    return x->info->job_id < y->info->job_id ? -1 : x->info->job_id > y->info->job_id;
}

/* a, b, ... z, A, ... Z, and as many letters for all as the last one needs. */
static void label_make(char *label, size_t n, size_t of)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t len = 1;

    for (size_t room = 52; room < of && len < LABEL_MAX; room *= 52)
        len++;
    label[len] = '\0';
    while (len--) {
        label[len] = letters[n % 52];
        n /= 52;
    }
}

/* Jobs to nodes; those that hold nothing on a node that is shown are left out. */
static void holders_join(struct map *m)
{
    struct table by_name;
    size_t kept = 0;

    table_init(&by_name);
    for (size_t i = 0; i < m->node_count; i++)
        table_put_text(&by_name, m->nodes[i].info->name, &m->nodes[i]);
    if (m->job_count)
        qsort(m->jobs, m->job_count, sizeof *m->jobs, by_id);
    for (size_t i = 0; i < m->job_count; i++) {
        struct seen_job *j = &m->jobs[i];

        j->nodes = hostlist_create();
        for (size_t k = 0; k < j->info->n_allocs; k++) {
            struct seen_node *n = table_get_text(&by_name, j->info->allocs[k]->name);
            uint64_t mask = gpu_mask(j->info->allocs[k]);

            if (!n || !(mask & n->info->gpu_held))
                continue;               /* gone from there already */
            n->holders = mem_grow(n->holders, n->holder_count + 1, sizeof *n->holders);
            n->holders[n->holder_count++] = (struct holder){ (uint32_t)kept, mask & n->info->gpu_held };
            hostlist_add(j->nodes, n->info->name);
        }
        if (hostlist_count(j->nodes))
            m->jobs[kept++] = *j;
        else
            hostlist_destroy(j->nodes);
    }
    m->job_count = kept;
    for (size_t i = 0; i < kept; i++)
        label_make(m->jobs[i].label, i, kept);
    table_fini(&by_name);
}

static int load(struct map *m, struct spur_error *err)
{
    Wire__NodesRequest nodes = WIRE__NODES_REQUEST__INIT;
    Wire__JobsRequest jobs = WIRE__JOBS_REQUEST__INIT;
    char *states[] = { (char *)"running", (char *)"suspended", (char *)"completing" };
    struct client *client = NULL;
    int number, rc;

    nodes.has_fields = jobs.has_fields = 1;
    nodes.fields = NODE_FIELD_DETAILS | NODE_FIELD_DEVICES;
    jobs.fields = JOB_FIELD_ALLOCS;
    jobs.states = states;
    jobs.n_states = sizeof states / sizeof *states;
    if ((rc = client_open(NULL, &client, err)) < 0 ||
        (rc = client_stream_keep(client, WIRE__MESSAGE_TYPE__NODES, &nodes.base, WIRE__MESSAGE_TYPE__NODES_PART, &wire__nodes_reply__descriptor, &m->arena, node_part, m,
                                 &number, err)) < 0 ||
        (rc = client_stream_keep(client, WIRE__MESSAGE_TYPE__JOBS, &jobs.base, WIRE__MESSAGE_TYPE__JOBS_PART, &wire__jobs_reply__descriptor, &m->arena, job_part, m, &number,
                                 err)) < 0)
        client_close(client);
    else
        client_close(client), holders_join(m);
    return rc < 0 ? rc : 0;
}

/* ---- islands --------------------------------------------------------------------------------------------------------------- */
struct islands {
    uint32_t count;                     /* GPUs of the node: those with a number below it */
    uint8_t  island[GPUS_MAX], group[GPUS_MAX];     /* numbers of either, by GPU */
    uint32_t island_count, strongest;   /* strongest: links between two GPUs at most */
    bool     linked;
};

static uint32_t links_of(const Wire__DeviceTable *t, uint32_t i, uint32_t k)
{
    return t && t->n_links == (size_t)t->count * t->count && i < t->count && k < t->count ? t->links[i * t->count + k] : 0;
}

/* Numbers what is joined, by at least `least` links or by one switch; in the order of the lowest GPU. */
static uint32_t join(const struct seen_node *n, uint32_t count, uint32_t least, bool by_switch, uint8_t *out)
{
    const Wire__DeviceTable *t = n->devices;
    uint64_t left = n->info->gpu_mask;
    uint32_t number = 0;

    while (left) {
        uint64_t found = left & -left, before = 0;

        while (found != before) {
            before = found;
            for (uint32_t i = 0; i < count; i++)
                for (uint32_t k = 0; k < count; k++)
                    if ((found >> i & 1) && (left >> k & 1) &&
                        (by_switch ? t && t->n_pcie_switch > (i > k ? i : k) && t->pcie_switch[i] >= 0 && t->pcie_switch[i] == t->pcie_switch[k] : links_of(t, i, k) >= least))
                        found |= UINT64_C(1) << k;
        }
        for (uint32_t i = 0; i < count; i++)
            if (found >> i & 1)
                out[i] = (uint8_t)number;
        left &= ~found;
        number++;
    }
    return number;
}

static void islands_find(const struct seen_node *n, struct islands *s)
{
    memset(s, 0, sizeof *s);
    s->count = 64 - (uint32_t)__builtin_clzll(n->info->gpu_mask);
    for (uint32_t i = 0; i < s->count; i++)
        for (uint32_t k = 0; k < i; k++)
            s->strongest = links_of(n->devices, i, k) > s->strongest ? links_of(n->devices, i, k) : s->strongest;
    s->linked = s->strongest > 0;
    s->island_count = join(n, s->count, 1, !s->linked, s->island);
    join(n, s->count, s->linked ? s->strongest : 1, !s->linked, s->group);
}

/* ---- drawing --------------------------------------------------------------------------------------------------------------- */
static const char *state_word(const struct seen_node *n, struct str *out)
{
    str_clear(out);
    node_state_print(n->info->state, n->info->state_flags, true, false, out);
    return out->text;
}

static bool is_usable(const struct seen_node *n)
{
    return n->info->state != NODE_DOWN && n->info->state != NODE_UNKNOWN && n->info->state != NODE_FUTURE && !(n->info->state_flags & (NODE_FLAG_DRAIN | NODE_FLAG_NO_RESPOND));
}

static void cell_print(const struct map *m, const struct seen_node *n, uint32_t gpu, size_t label_len, struct str *out)
{
    const char *label = is_usable(n) ? "." : "-";
    size_t before;

    if (n->info->gpu_held >> gpu & 1)
        label = "?";                    /* somebody's whose jobs are not shown to us */
    for (size_t i = 0; i < n->holder_count; i++)
        if (n->holders[i].mask >> gpu & 1)
            label = m->jobs[n->holders[i].job].label;
    before = out->len;
    str_addf(out, "%u%s", gpu, label);
    str_add_blanks(out, (gpu < 10 ? 1 : 2) + label_len - (out->len - before));
}

/* Pieces of a row that may be parted at a line's end: one an island, and between groups of a large one. Each ends in a newline. */
static void row_pieces(const struct map *m, const struct seen_node *n, size_t label_len, struct str *out)
{
    struct islands s;

    islands_find(n, &s);
    for (uint32_t island = 0; island < s.island_count; island++) {
        uint32_t last_group = UINT32_MAX, in_piece = 0;
        bool open = false;

        for (uint32_t group = 0; group < GPUS_MAX; group++)
            for (uint32_t i = 0; i < s.count; i++) {
                if (!(n->info->gpu_mask >> i & 1) || s.island[i] != island || s.group[i] != group)
                    continue;
                if (!open)
                    str_add_char(out, s.linked ? '[' : '(');
                else if (group != last_group && in_piece >= 8)
                    str_add(out, "|\n"), in_piece = 0;
                else if (group != last_group)
                    str_add_char(out, '|');
                else if (in_piece >= 16)
                    str_add(out, " \n"), in_piece = 0;
                else
                    str_add_char(out, ' ');
                cell_print(m, n, i, label_len, out);
                open = true;
                last_group = group;
                in_piece++;
            }
        if (open)
            str_add(out, s.linked ? "]\n" : ")\n");
    }
}

static void row_print(const struct map *m, const char *names, size_t names_width, const char *state, const char *held, char *pieces)
{
    size_t indent = names_width + 2 + 8 + 7, at;
    char *cursor = pieces, *piece;
    bool first = true, joins = false;

    printf("%-*s  %-7s %6s ", (int)names_width, names, state, held);
    at = indent;
    while ((piece = word_next(&cursor, "\n"))) {
        size_t n = strlen(piece);

        if (!first && at + (joins ? 0 : 1) + n > m->width) {
            printf("\n%*s", (int)indent, "");
            at = indent;
        } else if (!first && !joins) {
            putchar(' ');
            at++;
        }
        fputs(piece, stdout);
        at += n;
        first = false;
        joins = piece[n - 1] != ']' && piece[n - 1] != ')';
    }
    putchar('\n');
}

static const char *text_of(const char *text) { return text ? text : ""; }

static bool same_heading(const struct seen_node *a, const struct seen_node *b)
{
    return !strcmp(text_of(a->info->leaf), text_of(b->info->leaf)) && !strcmp(text_of(a->info->fabric), text_of(b->info->fabric)) &&
           !strcmp(text_of(a->info->gpu_type), text_of(b->info->gpu_type)) && a->info->device_type == b->info->device_type && a->info->gpu_mask == b->info->gpu_mask;
}

static void heading_print(const struct map *m, const struct seen_node *n)
{
    struct bitmap amounts;
    struct str out;

    str_init(&out);
    if (n->info->leaf && *n->info->leaf)
        str_addf(&out, "%s: ", n->info->leaf);
    str_addf(&out, "%d x %s", __builtin_popcountll(n->info->gpu_mask), n->info->gpu_type ? n->info->gpu_type : "gpu");
    bitmap_init(&amounts, 256);
    for (uint32_t i = 0; n->devices && i < n->devices->count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (links_of(n->devices, i, k))
                bitmap_set(&amounts, links_of(n->devices, i, k));
    if (!n->devices)
        str_add(&out, ", nothing known of links");
    else if (bitmap_empty(&amounts))
        str_add(&out, ", no links");
    for (size_t i = bitmap_last(&amounts), first = 1; i && i < 256 && !bitmap_empty(&amounts); first = 0) {
        str_addf(&out, "%s%zu", first ? ", " : " or ", i);
        bitmap_clear(&amounts, i);
        if (bitmap_empty(&amounts))
            str_addf(&out, " link%s a pair", first && i == 1 ? "" : "s");
        else
            i = bitmap_last(&amounts);
    }
    if (n->info->fabric && *n->info->fabric)
        str_addf(&out, ", domain %s", n->info->fabric);
    out.text[utf8_cut(out.text, m->width)] = '\0';
    puts(out.text);
    bitmap_fini(&amounts);
    str_fini(&out);
}

static void jobs_print(const struct map *m)
{
    size_t id_width = 0, user_width = 0;
    char number[16];

    for (size_t i = 0; i < m->job_count; i++) {
        size_t id = (size_t)snprintf(number, sizeof number, "%u", m->jobs[i].info->job_id), user = strlen(text_of(m->jobs[i].info->user));

        id_width = id > id_width ? id : id_width;
        user_width = user > user_width ? user : user_width;
    }
    for (size_t i = 0; i < m->job_count; i++) {
        const struct seen_job *j = &m->jobs[i];
        struct str out, list;

        str_init(&out);
        str_init(&list);
        hostlist_print(j->nodes, &list);
        str_addf(&out, "%s  job %-*u  %-*s  %4u GPU%s  %s  ", j->label, (int)id_width, j->info->job_id, (int)user_width, text_of(j->info->user), j->gpus, j->gpus == 1 ? " " : "s", list.text);
        if (j->info->name) {
            size_t from = out.len;

            str_add(&out, j->info->name);
            str_printable(&out, from);
        }
        out.text[utf8_cut(out.text, m->width)] = '\0';
        puts(out.text);
        str_fini(&list);
        str_fini(&out);
    }
}

struct row { const struct seen_node *node; struct str pieces, names, state; uint32_t held, all; size_t count; };

static void row_fini(struct row *r)
{
    str_fini(&r->pieces);
    str_fini(&r->names);
    str_fini(&r->state);
}

static void draw(const struct map *m)
{
    size_t label_len = m->job_count ? strlen(m->jobs[0].label) : 1, row_count = 0, names_width = 4, held = 0, all = 0;
    struct row *rows = mem_array(m->node_count + 1, sizeof *rows);

    for (size_t i = 0, end; i < m->node_count; i = end) {
        struct row *r = &rows[row_count++];
        struct hostlist *h = hostlist_create();

        r->node = &m->nodes[i];
        str_init(&r->pieces);
        str_init(&r->names);
        str_init(&r->state);
        row_pieces(m, r->node, label_len, &r->pieces);
        state_word(r->node, &r->state);
        for (end = i; end < m->node_count; end++) {
            const struct seen_node *n = &m->nodes[end];
            struct str pieces, state;
            bool alike;

            str_init(&pieces);
            str_init(&state);
            row_pieces(m, n, label_len, &pieces);
            alike = same_heading(r->node, n) && !strcmp(pieces.text, r->pieces.text) && !strcmp(state_word(n, &state), r->state.text);
            str_fini(&pieces);
            str_fini(&state);
            if (!alike)
                break;
            hostlist_add(h, n->info->name);
            r->count++;
        }
        hostlist_print(h, &r->names);
        hostlist_destroy(h);
        r->held = (uint32_t)__builtin_popcountll(r->node->info->gpu_held);
        r->all = (uint32_t)__builtin_popcountll(r->node->info->gpu_mask);
        held += r->held * r->count;
        all += r->all * r->count;
        names_width = r->names.len > names_width ? r->names.len : names_width;
    }
    names_width = names_width < m->width / 3 ? names_width : m->width / 3;
    printf("%s: %zu of %zu GPUs held, %zu nodes\n", m->cluster ? m->cluster : "cluster", held, all, m->node_count);
    printf("[ ] linked  | strongest links between  %s( ) no links, one switch  . free  - not to be had\n\n", m->width < 92 ? "\n" : "");
    for (size_t i = 0; i < row_count; i++) {
        struct row *r = &rows[i];
        char held_text[32];

        if (i == 0 || !same_heading(rows[i - 1].node, r->node))
            heading_print(m, r->node);
        snprintf(held_text, sizeof held_text, "%u/%u", r->held, r->all);
        row_print(m, r->names.text, names_width, r->state.text, held_text, r->pieces.text);
    }
    for (size_t i = 0; i < row_count; i++)
        row_fini(&rows[i]);
    free(rows);
    if (m->job_count)
        putchar('\n');
    jobs_print(m);
}

/* ---- for programs ----------------------------------------------------------------------------------------------------------- */
static void node_json(const struct map *m, struct json_writer *w, const struct seen_node *n)
{
    struct islands s;
    struct str state;

    islands_find(n, &s);
    str_init(&state);
    json_open(w, NULL, '{');
    json_text(w, "name", n->info->name);
    json_text(w, "state", state_word(n, &state));
    json_text(w, "type", n->info->gpu_type);
    json_text(w, "leaf", n->info->leaf);
    json_text(w, "fabric", n->info->fabric);
    json_bool(w, "linked", s.linked);
    json_open(w, "islands", '[');
    for (uint32_t island = 0; island < s.island_count; island++) {
        json_open(w, NULL, '[');
        for (uint32_t i = 0; i < s.count; i++)
            if ((n->info->gpu_mask >> i & 1) && s.island[i] == island)
                json_number(w, NULL, i);
        json_close(w);
    }
    json_close(w);
    json_open(w, "gpus", '[');
    for (uint32_t i = 0; i < s.count; i++) {
        if (!(n->info->gpu_mask >> i & 1))
            continue;
        json_open(w, NULL, '{');
        json_number(w, "index", i);
        json_number(w, "numa", n->devices && i < n->devices->n_numa ? n->devices->numa[i] : -1);
        json_bool(w, "held", n->info->gpu_held >> i & 1);
        for (size_t k = 0; k < n->holder_count; k++)
            if (n->holders[k].mask >> i & 1)
                json_number(w, "job_id", m->jobs[n->holders[k].job].info->job_id);
        json_open(w, "links", '[');
        for (uint32_t k = 0; k < s.count; k++)
            json_number(w, NULL, links_of(n->devices, i, k));
        json_close(w);
        json_close(w);
    }
    json_close(w);
    json_close(w);
    str_fini(&state);
}

static void draw_json(const struct map *m)
{
    struct json_writer *w = json_begin("spur gpu map", "nodes");

    for (size_t i = 0; i < m->node_count; i++)
        node_json(m, w, &m->nodes[i]);
    json_close(w);
    json_open(w, "jobs", '[');
    for (size_t i = 0; i < m->job_count; i++) {
        const struct seen_job *j = &m->jobs[i];
        struct str list;

        str_init(&list);
        hostlist_print(j->nodes, &list);
        json_open(w, NULL, '{');
        json_number(w, "job_id", j->info->job_id);
        json_text(w, "user_name", j->info->user);
        json_text(w, "name", j->info->name);
        json_number(w, "gpus", j->gpus);
        json_text(w, "nodes", list.text);
        json_close(w);
        str_fini(&list);
    }
    json_end(w);
}

/* ---- the command ------------------------------------------------------------------------------------------------------------ */
static size_t terminal_width(void)
{
    const char *columns = getenv("COLUMNS");
    struct winsize size;
    uint32_t n;

    if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col)
        return size.ws_col;
    return columns && number_u32(columns, &n) && n >= WIDTH_LEAST ? n : 100;
}

int gpu_map(int argc, char **argv)
{
    static const struct option long_options[] = { { "json", no_argument, NULL, 'j' }, { "width", required_argument, NULL, 'w' }, { "autocomplete", no_argument, NULL, 'c' },
                                                  { "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 } };
    struct map m = { 0 };
    struct spur_error err = { 0 };
    struct hostlist *wanted = NULL;
    bool json = false;
    uint32_t width = 0;
    int c, rc = 1;

    optind = 1;
    while ((c = getopt_long(argc, argv, "h", long_options, NULL)) != -1)
        switch (c) {
        case 'j': json = true; break;
        case 'w':
            if (!number_u32(optarg, &width) || width < WIDTH_LEAST) {
                fprintf(stderr, "spur gpu map: --width=%s: a number of %d or more is needed\n", optarg, WIDTH_LEAST);
                return 1;
            }
            break;
        case 'c': return puts("--json\n--width="), 0;
        case 'h': return fputs(usage_text, stdout), 0;
        default: return 1;
        }
    if (argc - optind > 1)
        return fprintf(stderr, "spur gpu map: one list of nodes is taken, as in node[1-3,7]\n"), 1;
    if (optind < argc && hostlist_parse(argv[optind], &wanted, &err) < 0)
        return fprintf(stderr, "spur gpu map: %s\n", err.text), 1;
    m.wanted = wanted;
    m.width = width ? width : terminal_width();
    arena_init(&m.arena, 0);
    table_init(&m.tables);
    if (load(&m, &err) < 0) {
        fprintf(stderr, "spur gpu map: %s\n", err.text);
    } else if (json) {
        draw_json(&m);
        rc = 0;
    } else if (!m.node_count) {
        fprintf(stderr, wanted ? "spur gpu map: none of these nodes has a GPU with a number\n" : "spur gpu map: no node has a GPU with a number\n");
        rc = wanted != NULL;
    } else {
        draw(&m);
        rc = 0;
    }
    for (size_t i = 0; i < m.node_count; i++)
        free(m.nodes[i].holders);
    for (size_t i = 0; i < m.job_count; i++)
        hostlist_destroy(m.jobs[i].nodes);
    free(m.nodes);
    free(m.jobs);
    hostlist_destroy(wanted);
    table_fini(&m.tables);
    arena_fini(&m.arena);
    return rc;
}
