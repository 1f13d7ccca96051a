/* SPDX-License-Identifier: Apache-2.0 */
/* cpubind.c - binds tasks to CPUs and memory as the manual of srun says.
 *
 * Three sorts of words. Lists (map_cpu, mask_cpu, and of locality domains) say it task by task and are refused where they leave what the step holds. rank counts
 * through the CPUs. sockets, cores, threads, ldoms hand each task its --cpus-per-task CPUs in the order of --distribution's second and third level,
 * and then widen them to the whole sockets, cores or domains, as far as the step holds those. Without a word the counts decide: as many sockets, cores or
 * threads as tasks need CPUs, so they are meant.
 *
 * Numbers are those of the operating system, which is what taskset and hwloc-bind show. When more CPUs are asked for than there are, they are dealt again from
 * the start: tasks share, none is left without.
 */
#include "state/cpubind.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"

/* ---- words ---- */

static void list_fini(struct bind_list *l)
{
    for (uint32_t i = 0; i < l->count; i++)
        bitmap_fini(&l->sets[i]);
    free(l->sets);
    memset(l, 0, sizeof *l);
}

void cpubind_fini(struct cpubind *b) { list_fini(&b->list); }
void membind_fini(struct membind *b) { list_fini(&b->list); }

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* A mask of any length, "0x" before it or not. False: no such, empty, or with bits of no CPU. */
static bool mask_read(const char *word, struct bitmap *out)
{
    size_t n;

    if (word[0] == '0' && (word[1] == 'x' || word[1] == 'X'))
        word += 2;
    n = strlen(word);
    for (size_t i = 0; i < n; i++) {
        int digit = hex_digit(word[n - 1 - i]);

        if (digit < 0 || (digit && i * 4 + 4 > out->bits))
            return false;
        for (unsigned b = 0; b < 4; b++)
            if (digit >> b & 1)
                bitmap_set(out, i * 4 + b);
    }
    return !bitmap_empty(out);
}

static bool number_read(const char *word, size_t limit, struct bitmap *out)
{
    char *end = NULL;
    unsigned long long n;

    if (!is_digit(*word))
        return false;
    n = strtoull(word, &end, word[0] == '0' && (word[1] == 'x' || word[1] == 'X') ? 16 : 10);
    if (*end || n >= limit)
        return false;
    bitmap_set(out, (size_t)n);
    return true;
}

/* "0*4,0x3": values with repetitions. */
static int list_read(const char *text, bool is_map, uint32_t bits, struct bind_list *l, struct spur_error *err)
{
    char *copy = mem_copy(text), *at = copy, *word;
    int rc = 0;

    while (rc == 0 && (word = word_next(&at, ","))) {
        char *star = strchr(word, '*');
        uint32_t times = 1;
        struct bitmap set;

        if (star)
            *star++ = '\0';
        bitmap_init(&set, bits);
        if (star && (!number_u32(star, &times) || !times))
            rc = spur_fail(err, SPUR_EINVAL, "\"*%.20s\" is no number of repetitions", star);
        else if (is_map ? !number_read(word, bits, &set) : !mask_read(word, &set))
            rc = spur_fail(err, SPUR_EINVAL, is_map ? "\"%.40s\" is no number below %u" : "\"%.40s\" is no mask (hexadecimal, not 0, bits below %u)", word, bits);
        else if (times > CPUBIND_LIST - l->count)
            rc = spur_fail(err, SPUR_ELIMIT, "the list has more than %u elements", CPUBIND_LIST);
        if (rc == 0) {
            l->sets = mem_grow(l->sets, l->count + times, sizeof *l->sets);
            for (; times; times--) {
                bitmap_init(&l->sets[l->count], bits);
                bitmap_or(&l->sets[l->count++], &set);
            }
        }
        bitmap_fini(&set);
    }
    free(copy);
    if (rc == 0 && !l->count)
        rc = spur_fail(err, SPUR_EINVAL, "the list is empty");
    return rc;
}

/* Skips "verbose," and "quiet,"; what is left is the type, or "". */
static const char *manner(const char *text, bool *verbose)
{
    static const struct { const char *word; bool verbose; } words[] = { { "verbose", true }, { "v", true }, { "quiet", false }, { "q", false } };

    for (bool again = true; again; ) {
        size_t n = strcspn(text, ",:");

        again = false;
        for (size_t i = 0; i < sizeof words / sizeof *words && text[n] != ':'; i++)
            if (n == strlen(words[i].word) && word_starts(text, words[i].word)) {
                *verbose = words[i].verbose;
                text += n + (text[n] == ',');
                again = n > 0;
                break;
            }
    }
    return text;
}

#define CPU_WORDS "none, rank, map_cpu:LIST, mask_cpu:LIST, rank_ldom, map_ldom:LIST, mask_ldom:LIST, sockets, cores, threads, ldoms, with verbose, or quiet, before it"

/* A word of --cpu-bind or --mem-bind: alone, or with a list behind ":" (at most `bits` things, as numbers or as masks). */
struct bind_word { const char *word; unsigned kind; uint32_t bits; bool is_map; };

/* Finds the word that `text` begins with and takes what is behind it. 1 taken, 0 there is no such word, or a negative code. */
static int word_take(const struct bind_word *words, size_t count, const char *text, unsigned *kind, struct bind_list *list, struct spur_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const struct bind_word *w = &words[i];
        size_t n = strlen(w->word);

        if (w->bits ? !word_starts(text, w->word) || (text[n] != ':' && text[n] != '=') : !word_eq(text, w->word))
            continue;
        *kind = w->kind;
        return w->bits && list_read(text + n + 1, w->is_map, w->bits, list, err) < 0 ? spur_context(err, "\"%.80s\"", text) : 1;
    }
    return 0;
}

int cpubind_parse(const char *text, struct cpubind *out, struct spur_error *err)
{
    static const struct bind_word words[] = {
        { "none", CPUBIND_NONE, 0, 0 }, { "no", CPUBIND_NONE, 0, 0 }, { "rank", CPUBIND_RANK, 0, 0 }, { "rank_ldom", CPUBIND_RANK_LDOM, 0, 0 }, { "sockets", CPUBIND_SOCKETS, 0, 0 },
        { "socket", CPUBIND_SOCKETS, 0, 0 }, { "cores", CPUBIND_CORES, 0, 0 }, { "core", CPUBIND_CORES, 0, 0 }, { "threads", CPUBIND_THREADS, 0, 0 }, { "thread", CPUBIND_THREADS, 0, 0 },
        { "ldoms", CPUBIND_LDOMS_OF, 0, 0 }, { "ldom", CPUBIND_LDOMS_OF, 0, 0 },
        { "map_cpu", CPUBIND_MAP, CPUBIND_CPUS, true }, { "mapcpu", CPUBIND_MAP, CPUBIND_CPUS, true }, { "mask_cpu", CPUBIND_MASK, CPUBIND_CPUS, false },
        { "maskcpu", CPUBIND_MASK, CPUBIND_CPUS, false }, { "map_ldom", CPUBIND_MAP_LDOM, CPUBIND_LDOMS, true }, { "mapldom", CPUBIND_MAP_LDOM, CPUBIND_LDOMS, true },
        { "mask_ldom", CPUBIND_MASK_LDOM, CPUBIND_LDOMS, false }, { "maskldom", CPUBIND_MASK_LDOM, CPUBIND_LDOMS, false } };
    unsigned kind = 0;
    int rc;

    memset(out, 0, sizeof *out);
    text = manner(text ? text : "", &out->verbose);
    if (!*text)
        return 0;
    if ((rc = word_take(words, sizeof words / sizeof *words, text, &kind, &out->list, err)) > 0)
        out->kind = (enum cpubind_kind)kind;
    else if (rc < 0)
        cpubind_fini(out);
    else
        return spur_fail(err, SPUR_EINVAL, "\"%.80s\" is none of " CPU_WORDS, text);
    return rc < 0 ? rc : 0;
}

int membind_parse(const char *text, struct membind *out, struct spur_error *err)
{
    static const struct bind_word words[] = {
        { "none", MEMBIND_NONE, 0, 0 }, { "no", MEMBIND_NONE, 0, 0 }, { "rank", MEMBIND_RANK, 0, 0 }, { "local", MEMBIND_LOCAL, 0, 0 },
        { "map_mem", MEMBIND_MAP, CPUBIND_LDOMS, true }, { "mapmem", MEMBIND_MAP, CPUBIND_LDOMS, true }, { "mask_mem", MEMBIND_MASK, CPUBIND_LDOMS, false },
        { "maskmem", MEMBIND_MASK, CPUBIND_LDOMS, false } };
    unsigned kind = 0;
    int rc;

    memset(out, 0, sizeof *out);
    for (text = text ? text : ""; ; ) {
        const char *before = text;

        text = manner(text, &out->verbose);
        if (word_eq(text, "p") || word_eq(text, "prefer") || word_starts(text, "p,") || word_starts(text, "prefer,"))
            out->prefer = true;
        else if (text == before)
            break;
        else
            continue;
        text += strcspn(text, ",");
        text += *text == ',';
    }
    if (!*text)
        return 0;
    if ((rc = word_take(words, sizeof words / sizeof *words, text, &kind, &out->list, err)) > 0)
        out->kind = (enum membind_kind)kind;
    else if (rc < 0)
        membind_fini(out);
    else
        return spur_fail(err, SPUR_EINVAL, "\"%.80s\" is none of none, local, rank, map_mem:LIST, mask_mem:LIST, with verbose, quiet, prefer, or sort, before it", text);
    return rc < 0 ? rc : 0;
}

void cpubind_mask_print(const struct bitmap *mask, struct str *out)
{
    size_t digits = bitmap_empty(mask) ? 0 : bitmap_last(mask) / 4 + 1;

    str_add(out, "0x");
    for (size_t i = digits > 8 ? digits : 8; i-- > 0; ) {
        unsigned digit = 0;

        for (unsigned b = 0; b < 4; b++)
            digit |= (unsigned)bitmap_test(mask, i * 4 + b) << b;
        str_add_char(out, "0123456789ABCDEF"[digit]);
    }
}

/* ---- what the step holds ---- */

struct place { uint32_t core, socket, pu; bool used; };    /* one CPU that the step may use */
struct pool {
    const struct cpu_node *node;
    struct place *places; uint32_t count, used;
    uint32_t sockets;               /* numbers are below */
    uint32_t cores, sockets_held;   /* that hold a place */
    uint32_t *left;                 /* a socket: places of it that are not used */
    uint32_t *last_core;            /* a socket: of the CPU given last; UINT32_MAX: none */
    uint32_t socket;                /* of the CPU given last; UINT32_MAX: none */
};

static void pool_init(struct pool *p, const struct cpu_node *node)
{
    uint32_t *of_socket, room = 0;

    memset(p, 0, sizeof *p);
    p->node = node;
    p->socket = UINT32_MAX;
    for (uint32_t c = 0; c < node->core_count; c++) {
        room += node->cores[c].pu_count;
        p->sockets = node->cores[c].socket >= p->sockets ? node->cores[c].socket + 1 : p->sockets;
    }
    p->places = mem_array(room + 1u, sizeof *p->places);
    p->left = mem_array(p->sockets + 1u, sizeof *p->left);
    p->last_core = mem_array(p->sockets + 1u, sizeof *p->last_core);
    of_socket = mem_array(p->sockets + 1u, sizeof *of_socket);
    for (uint32_t c = 0; c < node->core_count; c++) {
        const struct cpu_core *core = &node->cores[c];
        uint32_t threads = node->threads_per_core && node->threads_per_core < core->pu_count ? node->threads_per_core : core->pu_count;

        if ((node->held && !bitmap_test(node->held, c)) || (node->cores_per_socket && of_socket[core->socket] >= node->cores_per_socket) || !threads)
            continue;
        p->cores++;
        p->sockets_held += of_socket[core->socket]++ == 0;
        for (uint32_t t = 0; t < threads; t++)
            if (core->pus[t] < CPUBIND_CPUS)
                p->places[p->count++] = (struct place){ c, core->socket, core->pus[t], false };
    }
    free(of_socket);
}

static void pool_fini(struct pool *p)
{
    free(p->places);
    free(p->left);
    free(p->last_core);
}

static void pool_renew(struct pool *p)
{
    for (uint32_t s = 0; s < p->sockets; s++) {
        p->left[s] = 0;
        p->last_core[s] = UINT32_MAX;
    }
    for (uint32_t i = 0; i < p->count; i++) {
        p->places[i].used = false;
        p->left[p->places[i].socket]++;
    }
    p->used = 0;
    p->socket = UINT32_MAX;
}

/* The next socket behind `after`, around, with at least `want` CPUs left; UINT32_MAX: none. */
static uint32_t socket_next(const struct pool *p, uint32_t after, uint32_t want)
{
    for (uint32_t i = 1; i <= p->sockets; i++) {
        uint32_t s = (after == UINT32_MAX ? i - 1 : after + i) % p->sockets;

        if (p->left[s] >= want)
            return s;
    }
    return UINT32_MAX;
}

static uint32_t socket_choose(const struct pool *p, enum deal deal, bool first, uint32_t want)
{
    uint32_t s;

    if (deal == DEAL_BLOCK)
        return p->socket != UINT32_MAX && p->left[p->socket] ? p->socket : socket_next(p, p->socket, 1);
    if (deal == DEAL_FCYCLIC)
        return socket_next(p, p->socket, 1);
    if (!first)
        return p->left[p->socket] ? p->socket : socket_next(p, p->socket, 1);
    s = socket_next(p, p->socket, want);        /* all of a task's CPUs on one socket if possible */
    return s == UINT32_MAX ? socket_next(p, p->socket, 1) : s;
}

/* A free place of the socket: of the core used last there or the next ones, around. */
static struct place *place_choose(struct pool *p, uint32_t socket, enum deal deal, bool first)
{
    bool stay = deal == DEAL_BLOCK || (deal == DEAL_CYCLIC && !first);
    uint32_t last = p->last_core[socket];
    struct place *around = NULL;

    for (uint32_t i = 0; i < p->count; i++) {
        struct place *at = &p->places[i];

        if (at->used || at->socket != socket)
            continue;
        if (last == UINT32_MAX || (stay ? at->core >= last : at->core > last))
            return at;
        if (!around)
            around = at;
    }
    return around;
}

/* The CPUs of one task, in the order of the distribution. */
static void task_deal(struct pool *p, const struct layout_how *how, struct bitmap *mask)
{
    enum deal by_socket = how->sockets == DEAL_DEFAULT ? DEAL_CYCLIC : how->sockets, by_core = how->cores == DEAL_DEFAULT ? by_socket : how->cores;
    uint32_t want = p->node->cpus_per_task ? p->node->cpus_per_task : 1;

    for (uint32_t k = 0; k < want && k < p->count; k++) {
        struct place *at;
        uint32_t s;

        if (p->used == p->count)
            pool_renew(p);
        s = socket_choose(p, by_socket, k == 0 || p->socket == UINT32_MAX, want);
        at = place_choose(p, s, by_core, k == 0);
        at->used = true;
        p->used++;
        p->left[s]--;
        p->last_core[s] = at->core;
        p->socket = s;
        bitmap_set(mask, at->pu);
    }
}

static void widen(const struct pool *p, enum cpubind_kind kind, struct bitmap *mask)
{
    struct bitmap whole;

    bitmap_init(&whole, mask->bits);
    for (uint32_t i = 0; i < p->count; i++) {
        if (!bitmap_test(mask, p->places[i].pu))
            continue;
        for (uint32_t k = 0; k < p->count; k++) {
            const struct place *a = &p->places[i], *b = &p->places[k];

            if (kind == CPUBIND_SOCKETS ? a->socket == b->socket : kind == CPUBIND_CORES ? a->core == b->core :
                kind == CPUBIND_LDOMS_OF ? p->node->cores[a->core].ldom == p->node->cores[b->core].ldom : i == k)
                bitmap_set(&whole, b->pu);
        }
    }
    bitmap_or(mask, &whole);
    bitmap_fini(&whole);
}

void cpubind_held(const struct cpu_node *node, struct bitmap *out)
{
    struct pool p;

    pool_init(&p, node);
    for (uint32_t i = 0; i < p.count; i++)
        bitmap_set(out, p.places[i].pu);
    pool_fini(&p);
}

static uint32_t ldom_count(const struct cpu_node *node)
{
    uint32_t n = 0;

    for (uint32_t c = 0; c < node->core_count; c++)
        n = node->cores[c].ldom >= n ? node->cores[c].ldom + 1 : n;
    return n;
}

static void ldom_add(const struct pool *p, uint32_t ldom, struct bitmap *mask)
{
    for (uint32_t i = 0; i < p->count; i++)
        if (p->node->cores[p->places[i].core].ldom == ldom)
            bitmap_set(mask, p->places[i].pu);
}

static enum cpubind_kind resolve(const struct cpubind *b, const struct pool *p)
{
    uint64_t need = (uint64_t)p->node->tasks * (p->node->cpus_per_task ? p->node->cpus_per_task : 1);

    if (b->kind != CPUBIND_AUTO)
        return b->kind;
    if (need == p->count)
        return CPUBIND_THREADS;
    if (need == p->cores)
        return CPUBIND_CORES;
    if (need == p->sockets_held)
        return CPUBIND_SOCKETS;
    return b->fallback == CPUBIND_AUTO ? CPUBIND_NONE : b->fallback;
}

/* The numbers in rising order: what "CPU zero" of rank counts. */
static uint32_t held_nth(const struct bitmap *held, uint32_t n)
{
    size_t at = bitmap_first(held), count = bitmap_count(held);

    for (n %= count ? (uint32_t)count : 1u; n; n--)
        at = bitmap_next(held, at);
    return (uint32_t)at;
}

static int bind_one(const struct cpubind *b, enum cpubind_kind kind, const struct layout_how *how, struct pool *p, const struct bitmap *held, uint32_t task, struct bitmap *mask,
                    struct spur_error *err)
{
    const struct bitmap *named = b->list.count ? &b->list.sets[task % b->list.count] : NULL;
    uint32_t ldoms = ldom_count(p->node);
    struct str all;

    switch (kind) {
    case CPUBIND_RANK:
        bitmap_set(mask, held_nth(held, task));
        return 0;
    case CPUBIND_RANK_LDOM:
        for (uint32_t i = 0; i < ldoms && bitmap_empty(mask); i++)
            ldom_add(p, (task + i) % ldoms, mask);
        return 0;
    case CPUBIND_MAP: case CPUBIND_MASK:
        bitmap_or(mask, named);
        if (bitmap_subset(mask, held))
            return 0;
        str_init(&all);
        cpubind_mask_print(held, &all);
        spur_fail(err, SPUR_EINVAL, "CPU binding outside of job step allocation, allocated CPUs are: %.160s.", all.text);
        str_fini(&all);
        return err->code;
    case CPUBIND_MAP_LDOM: case CPUBIND_MASK_LDOM:
        for (size_t l = bitmap_first(named); l < named->bits; l = bitmap_next(named, l))
            ldom_add(p, (uint32_t)l, mask);
        return bitmap_empty(mask) ? spur_fail(err, SPUR_EINVAL, "CPU binding outside of job step allocation: the step holds no CPU of locality domain %zu", bitmap_first(named)) : 0;
    default:
        task_deal(p, how, mask);
        widen(p, kind, mask);
        return 0;
    }
}

int cpubind_tasks(const struct cpubind *b, const struct layout_how *how, const struct cpu_node *node, struct bitmap *masks, enum cpubind_kind *kind, struct spur_error *err)
{
    struct bitmap held;
    struct pool p;
    int rc = 0;

    pool_init(&p, node);
    pool_renew(&p);
    bitmap_init(&held, CPUBIND_CPUS);
    for (uint32_t i = 0; i < p.count; i++)
        bitmap_set(&held, p.places[i].pu);
    *kind = resolve(b, &p);
    for (uint32_t t = 0; rc == 0 && t < node->tasks; t++) {
        if (*kind == CPUBIND_NONE || !p.count)
            bitmap_or(&masks[t], &held);
        else
            rc = bind_one(b, *kind, how, &p, &held, t, &masks[t], err);
    }
    if (rc == 0)
        rc = *kind != CPUBIND_NONE && p.count ? 1 : 0;
    bitmap_fini(&held);
    pool_fini(&p);
    return rc;
}

bool membind_task(const struct membind *b, const struct cpu_node *node, uint32_t task, const struct bitmap *cpus, struct bitmap *out)
{
    uint32_t ldoms = ldom_count(node);

    if (b->kind == MEMBIND_NONE || !ldoms)
        return false;
    if (b->kind == MEMBIND_RANK)
        bitmap_set(out, task % ldoms);
    else if (b->kind != MEMBIND_LOCAL)
        bitmap_or(out, &b->list.sets[task % b->list.count]);
    else
        for (uint32_t c = 0; c < node->core_count; c++)
            for (uint32_t t = 0; t < node->cores[c].pu_count; t++)
                if (node->cores[c].ldom < out->bits && bitmap_test(cpus, node->cores[c].pus[t]))
                    bitmap_set(out, node->cores[c].ldom);
    return !bitmap_empty(out);
}
