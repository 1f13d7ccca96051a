/* SPDX-License-Identifier: Apache-2.0 */
/* judge.c - brute force: every subset, every ring. Slow on purpose, and plain. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "judge.h"

uint32_t judge_draw(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*seed >> 33);
}

void judge_table(struct judge_node *y)
{
    int most = 0;

    for (uint32_t i = 0; i < y->n; i++)
        most = y->numa[i] > most ? y->numa[i] : most;
    for (uint32_t i = 0; i < y->n; i++) {
        for (uint32_t j = 0; j < y->n; j++) {
            y->mbps[i * y->n + j] = (uint32_t)y->bw[i][j];
            y->link_count[i * y->n + j] = (uint8_t)(y->links[i][j] > 0 ? y->links[i][j] : 0);
        }
        y->numa16[i] = (int16_t)y->numa[i];
        y->socket16[i] = (int16_t)(y->numa[i] < 0 ? -1 : y->numa[i] * 2 / (most + 1));
        y->switch16[i] = (int16_t)y->pcie_switch[i];
        y->card[i] = (uint16_t)i;
    }
    for (uint32_t i = 0; i < y->nic_count; i++)
        y->nic16[i] = (struct spur_nic){ .pcie_switch = (int16_t)y->nics[i].pcie_switch, .numa = -1, .mbps = y->nics[i].mbps, .name = "nic" };
    y->table = (struct spur_device_table){ .size = sizeof y->table, .id = 1, .count = y->n, .mbps = y->mbps, .links = y->link_count, .numa = y->numa16, .socket = y->socket16,
                                           .pcie_switch = y->switch16, .card = y->card, .near_cores = y->near, .core_words = 1, .nics = y->nic16,
                                           .nic_count = y->nic_count, .nic_size = sizeof y->nic16[0] };
}

bool judge_read(const char *path, struct judge_node *y)
{
    FILE *f = fopen(path, "re");
    char line[1024];
    uint32_t row = 0;

    memset(y, 0, sizeof *y);
    if (!f)
        return false;
    while (fgets(line, sizeof line, f)) {
        unsigned i, numa;
        int sw, gbps;
        char *at = line + 2, *end;

        if (sscanf(line, "gpus %u", &i) == 1) {
            y->n = i;
        } else if (sscanf(line, "gpu %u bdf %*s numa %u pcisw %d", &i, &numa, &sw) == 3 && i < JUDGE_MAX) {
            y->numa[i] = (int)numa;
            y->pcie_switch[i] = sw;
        } else if (sscanf(line, "nic %*s bdf %*s numa %*d pcisw %d gbps %d", &sw, &gbps) == 2 && y->nic_count < 16) {
            y->nics[y->nic_count].pcie_switch = sw;
            y->nics[y->nic_count++].mbps = (uint32_t)gbps * 1000;
        } else if (strncmp(line, "bw ", 3) == 0 && row < JUDGE_MAX) {
            for (uint32_t k = 0; k < y->n && k < JUDGE_MAX; k++, at = end)
                y->bw[row][k] = (uint64_t)(strtod(at, &end) * 1000 + 0.5);
            row++;
        } else if (sscanf(line, "slurm_links %u", &i) == 1 && i < JUDGE_MAX) {
            at = strrchr(line, ' ');
            for (uint32_t k = 0; at && k < y->n && k < JUDGE_MAX; k++, at = end)
                y->links[i][k] = (int)strtol(at + 1, &end, 10);
        }
    }
    fclose(f);
    judge_table(y);
    return y->n > 0 && y->n <= JUDGE_MAX && row == y->n;
}

void judge_random(struct judge_node *y, uint32_t n, uint64_t *seed)
{
    uint32_t kinds = 2 + judge_draw(seed) % 4;

    memset(y, 0, sizeof *y);
    y->n = n;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < i; k++)
            y->bw[i][k] = y->bw[k][i] = judge_draw(seed) % kinds * 25000;
        y->numa[i] = (int)(judge_draw(seed) % 4);
        y->pcie_switch[i] = (int)(judge_draw(seed) % 4);
    }
    y->nic_count = 2;
    y->nics[0].pcie_switch = 1;
    y->nics[1].pcie_switch = 2;
    y->nics[0].mbps = y->nics[1].mbps = 200000;
    judge_table(y);
}

void judge_by_links(struct judge_node *y)
{
    uint64_t mbps_a_link = 25000;

    for (uint32_t i = 0; i < y->n * y->n; i++)
        if (y->links[i / y->n][i % y->n] > 0) {
            mbps_a_link = y->bw[i / y->n][i % y->n] / (uint64_t)y->links[i / y->n][i % y->n];
            break;
        }
    for (uint32_t i = 0; i < y->n; i++)
        for (uint32_t k = 0; k < y->n; k++)
            if (y->links[i][k] > 0 || y->bw[i][k] == 0)
                y->bw[i][k] = y->links[i][k] > 0 ? (uint64_t)y->links[i][k] * mbps_a_link : 0;
    judge_table(y);
}

static bool ring_from(const struct judge_node *y, const uint32_t *at, uint32_t k, uint32_t here, uint32_t seen, uint64_t least)
{
    if (seen == (1u << k) - 1)
        return y->bw[at[here]][at[0]] >= least;
    for (uint32_t next = 1; next < k; next++)
        if (!(seen >> next & 1) && y->bw[at[here]][at[next]] >= least && ring_from(y, at, k, next, seen | 1u << next, least))
            return true;
    return false;
}

static uint64_t ring_of(const struct judge_node *y, uint32_t set)
{
    uint32_t at[JUDGE_MAX], k = 0;
    uint64_t best = 0;

    for (uint32_t i = 0; i < y->n; i++)
        if (set >> i & 1)
            at[k++] = i;
    if (k < 2)
        return 0;
    if (k == 2)
        return y->bw[at[0]][at[1]];
    for (;;) {      /* the next bandwidth that occurs, as long as a ring of it exists */
        uint64_t next = UINT64_MAX;

        for (uint32_t i = 0; i < k; i++)
            for (uint32_t j = 0; j < i; j++)
                if (y->bw[at[i]][at[j]] > best && y->bw[at[i]][at[j]] < next)
                    next = y->bw[at[i]][at[j]];
        if (next == UINT64_MAX || !ring_from(y, at, k, 0, 1, next))
            return best;
        best = next;
    }
}

static uint64_t sum_of(const struct judge_node *y, uint32_t set)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < y->n; i++)
        for (uint32_t j = 0; j < i; j++)
            if ((set >> i & 1) && (set >> j & 1))
                sum += y->bw[i][j];
    return sum;
}

static void rate_rest(const struct judge_node *y, uint32_t set, uint32_t free, struct judge_value *v)
{
    bool any = false;

    v->ring = ring_of(y, set);
    v->min = v->numa = 0;
    for (uint32_t i = 0; i < y->n; i++) {
        bool is_new = set >> i & 1;

        for (uint32_t j = 0; j < i; j++)
            if ((set >> i & 1) && (set >> j & 1)) {
                if (!any || y->bw[i][j] < v->min)
                    v->min = y->bw[i][j];
                any = true;
                is_new = is_new && y->numa[i] != y->numa[j];
            }
        v->numa += is_new;
    }
    v->left = sum_of(y, free & ~set);
}

void judge_rate(const struct judge_node *y, uint32_t set, uint32_t free, struct judge_value *v)
{
    v->sum = sum_of(y, set);
    rate_rest(y, set, free, v);
}

int judge_compare(const struct judge_value *a, const struct judge_value *b)
{
    if (a->sum != b->sum)
        return a->sum > b->sum ? 1 : -1;
    if (a->ring != b->ring)
        return a->ring > b->ring ? 1 : -1;
    if (a->min != b->min)
        return a->min > b->min ? 1 : -1;
    if (a->numa != b->numa)
        return a->numa < b->numa ? 1 : -1;
    return a->left == b->left ? 0 : a->left > b->left ? 1 : -1;
}

void judge_best(const struct judge_node *y, uint32_t free, uint32_t k, struct judge_value *best)
{
    bool any = false;

    for (uint32_t set = free; set; set = (set - 1) & free) {
        struct judge_value v;

        if ((uint32_t)__builtin_popcount(set) != k)
            continue;
        v.sum = sum_of(y, set);
        if (any && v.sum < best->sum)
            continue;           /* the rest of its numbers cannot matter */
        rate_rest(y, set, free, &v);
        if (!any || judge_compare(&v, best) > 0)
            *best = v;
        any = true;
    }
}
