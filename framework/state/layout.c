/* SPDX-License-Identifier: Apache-2.0 */
/* layout.c - deals tasks to nodes as --distribution says.
 *
 * Counts first, numbers then: how many tasks a node gets depends on what is free there, which number they have only on the counts. So the plan decides
 * counts, and controller, supervisors and srun can each tell from these alone which task is where. How tasks lie inside a node, on sockets and cores, is
 * the business of cpubind.c.
 */
#include "state/layout.h"

#include <stdlib.h>
#include <string.h>

#include "base/hostlist.h"
#include "base/str.h"

static int level(const char *word, enum deal *out)
{
    static const struct { const char *word; enum deal deal; } words[] = { { "*", DEAL_DEFAULT }, { "block", DEAL_BLOCK }, { "cyclic", DEAL_CYCLIC }, { "fcyclic", DEAL_FCYCLIC } };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (word_eq(word, words[i].word)) {
            *out = words[i].deal;
            return 0;
        }
    return -1;
}

static int bad(const char *text, struct spur_error *err)
{
    return spur_fail(err, SPUR_EINVAL, "Invalid --distribution specification: \"%.50s\"; use block, cyclic, plane=N or arbitrary, then :block, :cyclic or :fcyclic for "
                     "sockets, the same for cores, then ,Pack or ,NoPack", text);
}

int layout_parse(const char *text, struct layout_how *out, struct spur_error *err)
{
    char *copy, *comma, *at, *colon, *words[4] = { NULL };
    size_t n = 0;
    int rc = 0;

    memset(out, 0, sizeof *out);
    if (!text || !*text)
        return 0;
    copy = mem_copy(text);
    if ((comma = strchr(copy, ','))) {
        *comma++ = '\0';
        out->pack = word_eq(comma, "Pack");
        out->no_pack = word_eq(comma, "NoPack");
        if (!out->pack && !out->no_pack)
            rc = bad(text, err);
    }
    for (at = copy; at && n < 4; at = colon) {
        if ((colon = strchr(at, ':')))
            *colon++ = '\0';
        words[n++] = at;
    }
    if (n > 3 || !*words[0])
        rc = bad(text, err);
    if (rc == 0 && word_starts(words[0], "plane")) {
        out->nodes = DEAL_PLANE;
        if (words[0][5] == '=' ? !number_u32(words[0] + 6, &out->plane) || !out->plane : words[0][5])
            rc = bad(text, err);
    } else if (rc == 0 && word_eq(words[0], "arbitrary")) {
        out->nodes = DEAL_ARBITRARY;
    } else if (rc == 0 && (level(words[0], &out->nodes) < 0 || out->nodes == DEAL_FCYCLIC)) {
        rc = bad(text, err);
    }
    if (rc == 0 && ((words[1] && level(words[1], &out->sockets) < 0) || (words[2] && level(words[2], &out->cores) < 0)))
        rc = bad(text, err);
    free(copy);
    return rc;
}

/* ---- counts ---- */

static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

bool layout_counts(const struct layout_how *how, uint32_t ntasks, const uint32_t *room, uint32_t nodes, uint32_t *tasks)
{
    uint32_t left = ntasks;

    for (uint32_t i = 0; i < nodes; i++) {
        tasks[i] = left && room[i] ? 1 : 0;
        left -= tasks[i];
    }
    if (how->nodes == DEAL_PLANE)           /* planes start anew: the first one fills what the one task above has begun */
        for (uint32_t i = 0; i < nodes && left; i++) {
            uint32_t more = tasks[i] ? smaller(smaller(how->plane ? how->plane - 1 : 0, left), room[i] - tasks[i]) : 0;

            tasks[i] += more;
            left -= more;
        }
    while (left) {
        uint32_t before = left;

        for (uint32_t i = 0; i < nodes && left; i++) {
            uint32_t step = how->nodes == DEAL_CYCLIC || how->no_pack ? 1 : how->nodes == DEAL_PLANE && how->plane ? how->plane : UINT32_MAX;
            uint32_t more = smaller(smaller(step, left), room[i] - tasks[i]);

            tasks[i] += more;
            left -= more;
        }
        if (left == before)
            return false;
    }
    return true;
}

/* ---- numbers ---- */

bool layout_is_plain(const struct layout_how *how, uint32_t nodes)
{
    return nodes < 2 || (how->nodes != DEAL_CYCLIC && how->nodes != DEAL_PLANE && how->nodes != DEAL_ARBITRARY);
}

static void ids_named(const uint32_t *tasks, uint32_t nodes, const uint32_t *named, uint32_t *ids)
{
    uint32_t at = 0, ntasks = 0;

    for (uint32_t i = 0; i < nodes; i++)
        ntasks += tasks[i];
    for (uint32_t i = 0; i < nodes; i++)
        for (uint32_t t = 0; t < ntasks; t++)
            if (named[t] == i)
                ids[at++] = t;
}

/* In turns: `turn` tasks to each node that has any left to get, until all are dealt. */
static void ids_in_turn(const uint32_t *tasks, uint32_t nodes, uint32_t turn, uint32_t *ids)
{
    uint32_t *given = mem_array(nodes + 1u, sizeof *given), *first = mem_array(nodes + 1u, sizeof *first), next = 0, total = 0;

    for (uint32_t i = 0; i < nodes; i++) {
        first[i] = total;
        total += tasks[i];
    }
    while (next < total)
        for (uint32_t i = 0; i < nodes; i++)
            for (uint32_t k = 0; k < turn && given[i] < tasks[i]; k++)
                ids[first[i] + given[i]++] = next++;
    free(given);
    free(first);
}

void layout_ids(const struct layout_how *how, const uint32_t *tasks, uint32_t nodes, const uint32_t *named, uint32_t *ids)
{
    if (how->nodes == DEAL_ARBITRARY && named)
        ids_named(tasks, nodes, named, ids);
    else if (how->nodes == DEAL_CYCLIC)
        ids_in_turn(tasks, nodes, 1, ids);
    else if (how->nodes == DEAL_PLANE && how->plane)
        ids_in_turn(tasks, nodes, how->plane, ids);
    else
        ids_in_turn(tasks, nodes, UINT32_MAX, ids);
}

bool layout_named(const char *list, const char *const *names, uint32_t nodes, uint32_t ntasks, uint32_t *out)
{
    struct hostlist *all = NULL, *own = hostlist_create();
    bool fine = list && hostlist_parse(list, &all, NULL) == 0 && hostlist_count(all) >= ntasks;

    for (uint32_t i = 0; i < nodes; i++)
        hostlist_add(own, names[i]);
    for (uint32_t t = 0; fine && t < ntasks; t++) {
        ptrdiff_t at = hostlist_find(own, hostlist_nth(all, t));

        fine = at >= 0;
        out[t] = fine ? (uint32_t)at : 0;
    }
    hostlist_destroy(all);
    hostlist_destroy(own);
    return fine;
}
