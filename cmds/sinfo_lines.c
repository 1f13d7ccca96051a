/* SPDX-License-Identifier: Apache-2.0 */
/* sinfo_lines.c - which nodes sinfo shows, which of them share a line, and in which order the lines stand.
 *
 * Nodes share a line when every shown field that tells nodes apart is the same for them. Partitions count as a difference only where the format
 * shows something in which they differ, so `sinfo -h -o %C` is one line for the cluster, where a node of two partitions counts once; with -N a line
 * is a node of a partition. The order is Slurm's "#P,-t": partitions as configured, then state and flags as a number, down.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/hostlist.h"
#include "cmds/sinfo.h"
#include "state/state.h"

/* ---- what is wanted -------------------------------------------------------------------------------------------------------------- */

static bool is_draining(const Wire__NodeInfo *n) { return n->state_flags & NODE_FLAG_DRAIN && sinfo_node_kind(n) == 0; }

static const struct { const char *name; unsigned base; uint32_t flag; } states[] = {      /* base UINT_MAX: the flag alone */
    { "unknown", NODE_UNKNOWN, 0 }, { "unk", NODE_UNKNOWN, 0 }, { "down", NODE_DOWN, 0 }, { "idle", NODE_IDLE, 0 }, { "allocated", NODE_ALLOCATED, 0 }, { "alloc", NODE_ALLOCATED, 0 },
    { "mixed", NODE_MIXED, 0 }, { "mix", NODE_MIXED, 0 }, { "future", NODE_FUTURE, 0 }, { "futr", NODE_FUTURE, 0 }, { "error", NODE_ERROR, 0 },
    { "drain", 0, NODE_FLAG_DRAIN }, { "no_respond", 0, NODE_FLAG_NO_RESPOND }, { "noresp", 0, NODE_FLAG_NO_RESPOND }, { "reserved", 0, NODE_FLAG_RESERVED }, { "resv", 0, NODE_FLAG_RESERVED },
    { "cloud", 0, NODE_FLAG_CLOUD }, { "completing", 0, NODE_FLAG_COMPLETING }, { "comp", 0, NODE_FLAG_COMPLETING }, { "fail", 0, NODE_FLAG_FAIL }, { "failing", 0, NODE_FLAG_FAIL },
    { "maint", 0, NODE_FLAG_MAINT }, { "powered_down", 0, NODE_FLAG_POWERED_DOWN }, { "power_down", 0, NODE_FLAG_POWERED_DOWN }, { "planned", 0, NODE_FLAG_PLANNED },
    { "reboot", 0, NODE_FLAG_REBOOT_REQUESTED | NODE_FLAG_REBOOT_ISSUED }, { "reboot_requested", 0, NODE_FLAG_REBOOT_REQUESTED }, { "inval", 0, NODE_FLAG_INVALID_REG }, { "invalid_reg", 0, NODE_FLAG_INVALID_REG },
    { "all", 0, 0 }, { "drained", 0, 0 }, { "drng", 0, 0 }, { "draining", 0, 0 }, { "powering_up", 0, 0 }, { "powering_down", 0, 0 }, { "reboot_issued", 0, NODE_FLAG_REBOOT_ISSUED },
};

static bool word_matches(const char *word, const Wire__NodeInfo *n)
{
    if (word_eq(word, "all"))
        return true;
    if (word_eq(word, "drained"))
        return n->state_flags & NODE_FLAG_DRAIN && !is_draining(n);
    if (word_eq(word, "draining") || word_eq(word, "drng"))
        return is_draining(n);
    if (word_eq(word, "idle"))
        return n->state == NODE_IDLE && !(n->state_flags & (NODE_FLAG_DRAIN | NODE_FLAG_COMPLETING));
    if (word_eq(word, "alloc") || word_eq(word, "allocated"))
        return n->state == NODE_ALLOCATED || n->state == NODE_MIXED;
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        if (word_eq(word, states[i].name))
            return states[i].flag ? (n->state_flags & states[i].flag) != 0 : states[i].base == n->state && (states[i].base || word[0] == 'u' || word[0] == 'U');
    return false;
}

/* "idle&drain": all of these. */
static bool states_match(const char *words, const Wire__NodeInfo *n)
{
    char *copy = mem_copy(words), *cursor = copy, *word;
    bool matches = true;

    while (matches && (word = word_next(&cursor, "&")))
        matches = word_matches(word, n);
    free(copy);
    return matches;
}

bool sinfo_state_known(const char *words)
{
    char *copy = mem_copy(words), *cursor = copy, *word;
    bool known = true;

    while (known && (word = word_next(&cursor, "&"))) {
        known = false;
        for (size_t i = 0; i < sizeof states / sizeof *states && !known; i++)
            known = word_eq(word, states[i].name);
    }
    free(copy);
    return known;
}

bool sinfo_node_wanted(const struct sinfo *s, const Wire__NodeInfo *n)
{
    bool wanted = s->states.count == 0;

    for (size_t i = 0; i < s->states.count && !wanted; i++)
        wanted = states_match(s->states.words[i], n);
    if (!wanted || (s->dead && !(n->state_flags & NODE_FLAG_NO_RESPOND)) || (s->responding && n->state_flags & NODE_FLAG_NO_RESPOND) ||
        (s->reasons && !(n->reason && *n->reason)))
        return false;
    if (n->state == NODE_FUTURE && !s->future && !s->states.count)
        return false;
    for (size_t i = 0; i < s->nodes.count; i++)
        if (!strcmp(s->nodes.words[i], n->name))
            return true;
    return s->nodes.count == 0;
}

bool sinfo_partition_wanted(const struct sinfo *s, const Wire__PartitionInfo *p)
{
    for (size_t i = 0; i < s->partitions.count; i++)
        if (!strcmp(s->partitions.words[i], p->name))
            return true;
    return s->partitions.count == 0 && (!p->hidden || s->all || getuid() == 0);
}

/* ---- lines ----------------------------------------------------------------------------------------------------------------------- */

struct place { const Wire__NodeInfo *node; size_t rank; struct line **in; size_t in_count; };     /* a node: its place by name, the lines it is on */
struct lines { struct line **list; size_t count; struct table by_key; };

/* Text that tells lines apart. */
static char *line_key(const struct sinfo *s, const Wire__PartitionInfo *p, const Wire__NodeInfo *n)
{
    struct line one = { .partition = p, .nodes = &n, .count = n ? 1 : 0, .sinfo = s };
    struct str key;

    str_init(&key);
    for (size_t i = 0; i < s->columns.count; i++) {
        const struct column_field *f = s->columns.list[i].field;

        if (f->needs & FIELD_SUMS || (f->needs & FIELD_LEAST && !s->exact && !s->node_wise))
            continue;
        f->print(&one, &key);
        str_add_char(&key, '\x1f');
    }
    if (s->node_wise)
        str_addf(&key, "\x1e%s\x1f%s", n ? n->name : "", p->name);
    return str_take(&key);
}

static void lines_put(struct lines *all, const struct sinfo *s, const Wire__PartitionInfo *p, struct place *at)
{
    char *key = line_key(s, p, at ? at->node : NULL);
    struct line *l = table_get_text(&all->by_key, key);

    if (!l) {
        l = mem_alloc(sizeof *l);
        l->partition = p;
        l->sinfo = s;
        l->key = key;
        l->order = all->count;
        l->rank = at ? at->rank : 0;
        if ((all->count & (all->count - 1)) == 0)
            all->list = mem_grow(all->list, all->count ? all->count * 2 : 16, sizeof *all->list);
        all->list[all->count++] = l;
        table_put_text(&all->by_key, key, l);
    } else {
        free(key);
    }
    for (size_t i = 0; at && i < at->in_count; i++)
        if (at->in[i] == l)
            return;
    if (!at)
        return;
    at->in = mem_grow(at->in, at->in_count + 1, sizeof *at->in);
    at->in[at->in_count++] = l;
    if ((l->count & (l->count - 1)) == 0)
        l->nodes = mem_grow(l->nodes, l->count ? l->count * 2 : 1, sizeof *l->nodes);
    l->nodes[l->count++] = at->node;
}

static const struct sinfo *sorting;

static const struct column_field *field_of(char letter)
{
    for (size_t i = 0; i < sinfo_field_count; i++)
        if (sinfo_fields[i].letter == letter)
            return &sinfo_fields[i];
    return NULL;
}

static int order_by(uint64_t a, uint64_t b) { return a < b ? -1 : a > b; }

static size_t partition_place(const Wire__PartitionInfo *p)
{
    for (size_t i = 0; i < sorting->partition_count; i++)
        if (sorting->partition[i] == p)
            return i;
    return sorting->partition_count;
}

static int text_compare(const struct line *a, const struct line *b, const struct column_field *f)
{
    struct str ta, tb;
    int result;

    str_init(&ta);
    str_init(&tb);
    f->print(a, &ta);
    f->print(b, &tb);
    result = strcmp(ta.text, tb.text);
    str_fini(&ta);
    str_fini(&tb);
    return result;
}

static int line_compare(const void *x, const void *y)
{
    const struct line *a = *(struct line *const *)x, *b = *(struct line *const *)y;
    const Wire__NodeInfo *na = a->count ? a->nodes[0] : NULL, *nb = b->count ? b->nodes[0] : NULL;

    for (const char *p = sorting->sort; *p; p++) {
        bool down = false, as_configured = false;
        const struct column_field *f;
        int result = 0;

        for (; *p == '-' || *p == '+' || *p == '#'; p++) {
            down |= *p == '-';
            as_configured |= *p == '#';
        }
        if (!*p)
            break;
        switch (*p) {
        case 'P': case 'R': result = as_configured ? order_by(partition_place(a->partition), partition_place(b->partition)) : strcmp(a->partition->name, b->partition->name); break;
        case 't': case 'T': result = na && nb ? order_by(sinfo_state_number(na), sinfo_state_number(nb)) : 0; break;
        case 'N': case 'n': result = order_by(a->rank, b->rank); break;
        case 'D': result = order_by(a->count, b->count); break;
        case 'c': result = na && nb ? order_by(na->cpus, nb->cpus) : 0; break;
        case 'm': result = na && nb ? order_by(na->mem_mib, nb->mem_mib) : 0; break;
        case 'd': result = na && nb ? order_by(na->tmp_mib, nb->tmp_mib) : 0; break;
        case 'w': result = na && nb ? order_by(na->weight, nb->weight) : 0; break;
        case 'X': result = na && nb ? order_by(na->sockets, nb->sockets) : 0; break;
        case 'Y': result = na && nb ? order_by(na->cores_per_socket, nb->cores_per_socket) : 0; break;
        case 'Z': result = na && nb ? order_by(na->threads_per_core, nb->threads_per_core) : 0; break;
        case 'l': result = order_by(a->partition->max_time_min, b->partition->max_time_min); break;
        case 'p': result = order_by(a->partition->priority_tier, b->partition->priority_tier); break;
        case 'H': result = na && nb ? order_by((uint64_t)na->reason_wall_s, (uint64_t)nb->reason_wall_s) : 0; break;
        default: result = (f = field_of(*p)) ? text_compare(a, b, f) : 0;
        }
        if (result)
            return down ? -result : result;
    }
    return order_by(a->order, b->order);
}

/* Places by name, so that no comparison of lines has to look into names. */
static struct place *places_make(struct sinfo *s, struct table *by_name)
{
    struct place *places = mem_array(s->node_count + 1, sizeof *places);
    struct hostlist *names = hostlist_create();

    for (size_t i = 0; i < s->node_count; i++) {
        places[i].node = s->node[i];
        table_put_text(by_name, s->node[i]->name, &places[i]);
        hostlist_add(names, s->node[i]->name);
    }
    hostlist_sort(names);
    for (size_t i = 0; i < hostlist_count(names); i++) {
        struct place *at = table_get_text(by_name, hostlist_nth(names, i));

        if (at)
            at->rank = i;
    }
    hostlist_destroy(names);
    return places;
}

void sinfo_places(struct sinfo *s, void (*fn)(void *arg, const Wire__PartitionInfo *p, const Wire__NodeInfo *n), void *arg)
{
    struct table by_name;
    struct hostlist *h;

    table_init(&by_name);
    for (size_t i = 0; i < s->node_count; i++)
        table_put_text(&by_name, s->node[i]->name, s->node[i]);
    for (size_t i = 0; i < s->partition_count; i++) {
        if (!sinfo_partition_wanted(s, s->partition[i]) || hostlist_parse(s->partition[i]->nodes ? s->partition[i]->nodes : "", &h, NULL) < 0)
            continue;
        for (size_t k = 0; k < hostlist_count(h); k++) {
            const Wire__NodeInfo *n = table_get_text(&by_name, hostlist_nth(h, k));

            if (n && sinfo_node_wanted(s, n))
                fn(arg, s->partition[i], n);
        }
        hostlist_destroy(h);
    }
    table_fini(&by_name);
}

static void lines_collect(struct sinfo *s, struct lines *all, const struct table *by_name)
{
    bool shows_partition = false;

    for (size_t i = 0; i < s->columns.count; i++)
        shows_partition |= s->columns.list[i].field->needs == FIELD_NAMES_PART;
    for (size_t i = 0; i < s->partition_count; i++) {
        const Wire__PartitionInfo *p = s->partition[i];
        struct hostlist *h;
        size_t shown = 0;

        if (!sinfo_partition_wanted(s, p) || hostlist_parse(p->nodes ? p->nodes : "", &h, NULL) < 0)
            h = NULL;
        for (size_t k = 0; h && k < hostlist_count(h); k++) {
            struct place *at = table_get_text(by_name, hostlist_nth(h, k));

            if (at && sinfo_node_wanted(s, at->node)) {
                lines_put(all, s, p, at);
                shown++;
            }
        }
        if (!shown && shows_partition && !s->node_wise && !s->reasons && sinfo_partition_wanted(s, p))
            lines_put(all, s, p, NULL);
        hostlist_destroy(h);
    }
}

static bool is_bare(const struct column_field *f) { return f && f->needs & (FIELD_BARE | FIELD_PART | FIELD_NAMES_PART); }

bool sinfo_needs_details(const struct sinfo *s)
{
    bool needs = s->json || s->reasons;

    for (size_t i = 0; i < s->columns.count; i++)
        needs |= !is_bare(s->columns.list[i].field);
    for (const char *p = s->sort; *p; p++)
        needs |= *p != '-' && *p != '+' && *p != '#' && *p != ',' && *p != ' ' && !is_bare(field_of(*p));
    return needs;
}

void sinfo_lines(struct sinfo *s)
{
    struct lines all = { 0 };
    struct table by_name;
    struct place *places;
    struct str scratch, out;

    table_init(&all.by_key);
    table_init(&by_name);
    str_init(&scratch);
    str_init(&out);
    places = places_make(s, &by_name);
    lines_collect(s, &all, &by_name);
    sorting = s;
    if (all.count > 1)
        qsort(all.list, all.count, sizeof *all.list, line_compare);
    for (size_t i = 0; i < all.count; i++)
        columns_fit(&s->columns, all.list[i], &scratch);
    if (!s->no_header)
        columns_heading(&s->columns, &out);
    for (size_t i = 0; i < all.count; i++) {
        columns_row(&s->columns, all.list[i], &scratch, &out);
        free(all.list[i]->key);
        free(all.list[i]->nodes);
        free(all.list[i]);
    }
    fwrite(out.text, 1, out.len, stdout);
    for (size_t i = 0; i < s->node_count; i++)
        free(places[i].in);
    free(places);
    free(all.list);
    str_fini(&scratch);
    str_fini(&out);
    table_fini(&all.by_key);
    table_fini(&by_name);
}
