/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_judge.c - brute force over sets of leaves. */
#include <stdio.h>
#include <string.h>

#include "fabric_judge.h"

uint32_t fabric_draw(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*seed >> 33);
}

void fabric_random(struct fabric_state *s, uint64_t *seed)
{
    s->leaves = 1 + fabric_draw(seed) % JUDGE_LEAVES;
    s->pods = 1 + fabric_draw(seed) % 4;
    for (uint32_t i = 0; i < s->leaves; i++) {
        s->pod[i] = fabric_draw(seed) % s->pods;
        s->idle[i] = fabric_draw(seed) % 4 ? fabric_draw(seed) % 17 : 0;
    }
}

static void rate(const struct fabric_state *s, uint32_t set, uint32_t need, uint32_t segment, struct fabric_answer *a)
{
    uint32_t units = 0, idle = 0, pods = 0, total[JUDGE_LEAVES] = { 0 };

    *a = (struct fabric_answer){ 0 };
    for (uint32_t i = 0; i < s->leaves; i++)
        if (set >> i & 1) {
            a->leaves++;
            units += s->idle[i] / segment;
            idle += s->idle[i];
            pods |= 1u << s->pod[i];
        }
    for (uint32_t i = 0; i < s->leaves; i++)
        total[s->pod[i]] += s->idle[i] / segment;
    a->pods = (uint32_t)__builtin_popcount(pods);
    a->waste = idle - need;
    a->level = units * segment < need || need % segment ? 3 : a->leaves == 1 ? 0 : a->pods == 1 ? 1 : 2;
}

void fabric_best(const struct fabric_state *s, uint32_t need, uint32_t segment, struct fabric_answer *best)
{
    *best = (struct fabric_answer){ .level = 3 };
    for (uint32_t set = 1; set < (1u << s->leaves); set++) {
        struct fabric_answer a;

        rate(s, set, need, segment, &a);
        if (a.level == 3)
            continue;
        if (a.level < best->level || (a.level == best->level && (a.leaves < best->leaves || (a.leaves == best->leaves &&
            (a.pods < best->pods || (a.pods == best->pods && a.waste < best->waste))))))
            *best = a;
    }
}

bool fabric_ask(const struct spur_select_ops *ops, void *self, const struct fabric_state *s, uint32_t need, uint32_t segment, struct fabric_answer *out)
{
    static uint64_t serial;
    static struct spur_node_view nodes[JUDGE_NODES];
    static struct spur_node_pick picks[JUDGE_NODES];
    static uint64_t cores[JUDGE_NODES], core = 1;
    static char names[JUDGE_LEAVES][2][32];
    uint64_t allowed[JUDGE_NODES / 64] = { 0 };
    uint32_t count = 0, leaf_of[JUDGE_NODES], set = 0;
    struct spur_view view = { .size = sizeof view, .node_size = sizeof nodes[0], .nodes = nodes, .serial = ++serial };
    struct spur_placement p = { .size = sizeof p, .pick_size = sizeof picks[0], .picks = picks, .pick_room = JUDGE_NODES };
    struct spur_ask ask = { .size = sizeof ask, .min_nodes = need, .max_nodes = need, .tasks = need, .cpus_per_task = 1, .gres_size = sizeof(struct spur_gres_ask),
                            .allowed = allowed, .node_words = JUDGE_NODES / 64, .exclusive = true, .cr = SPUR_CR_CORE, .segment = segment > 1 ? segment : 0 };
    struct spur_error err;

    for (uint32_t l = 0; l < s->leaves; l++) {
        snprintf(names[l][0], sizeof names[l][0], "leaf%u", l);
        snprintf(names[l][1], sizeof names[l][1], "pod%u/leaf%u", s->pod[l], l);
        for (uint32_t i = 0; i < s->idle[l]; i++, count++) {
            leaf_of[count] = l;
            allowed[count / 64] |= UINT64_C(1) << count % 64;
            picks[count].cores = &cores[count];
            picks[count].core_words = 1;
            nodes[count] = (struct spur_node_view){ .index = count, .flags = SPUR_NODE_USABLE | SPUR_NODE_IDLE, .name = "n", .features = "", .weight = 1, .sockets = 1,
                                                    .cores_per_socket = 1, .threads_per_core = 1, .cpus = 1, .mem_total = 1, .mem_free = 1, .core_free = &core,
                                                    .core_words = 1, .cpus_free = 1, .fabric = "", .block = "", .leaf = names[l][0], .path = names[l][1] };
        }
    }
    view.node_count = count;
    *out = (struct fabric_answer){ .level = 3 };
    if (ops->place(self, &view, &ask, &p, &err) != 0)
        return true;
    if (p.pick_count != need)
        return false;
    for (uint32_t i = 0; i < p.pick_count; i++) {
        if (picks[i].node >= count || (i && picks[i].node <= picks[i - 1].node))
            return false;
        out->taken[leaf_of[picks[i].node]]++;
        set |= 1u << leaf_of[picks[i].node];
    }
    for (uint32_t l = 0; l < s->leaves; l++)
        if (out->taken[l] % segment)
            return false;
    {
        struct fabric_answer a;

        rate(s, set, need, segment, &a);
        memcpy(a.taken, out->taken, sizeof a.taken);
        *out = a;
    }
    return true;
}
