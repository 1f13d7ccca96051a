/* SPDX-License-Identifier: Apache-2.0 */
/* judge.h - the truth about sets of GPUs, by looking at all of them; shares no code with the plugins it judges. */
#ifndef TEST_SCORE_JUDGE_H
#define TEST_SCORE_JUDGE_H

#include <stdbool.h>
#include <stdint.h>
#include <spur/score.h>

#define JUDGE_MAX 16

struct judge_node {
    char     name[64];
    uint32_t n;
    uint64_t bw[JUDGE_MAX][JUDGE_MAX];          /* MB/s */
    int      links[JUDGE_MAX][JUDGE_MAX];       /* of the slurm_links rows: -1 self */
    int      numa[JUDGE_MAX], pcie_switch[JUDGE_MAX];
    uint32_t nic_count; struct { int pcie_switch; uint32_t mbps; } nics[16];
    /* the same as a plugin sees it */
    struct spur_device_table table;
    uint32_t mbps[JUDGE_MAX * JUDGE_MAX];
    uint8_t  link_count[JUDGE_MAX * JUDGE_MAX];
    int16_t  numa16[JUDGE_MAX], socket16[JUDGE_MAX], switch16[JUDGE_MAX];
    uint16_t card[JUDGE_MAX];
    uint64_t near[JUDGE_MAX];
    struct spur_nic nic16[16];
};

/* The objective up to `left`, in its order. */
struct judge_value { uint64_t sum, ring, min; uint32_t numa; uint64_t left; };

bool judge_read(const char *path, struct judge_node *out);      /* a NAME.txt of tests/data/topologies */
void judge_random(struct judge_node *out, uint32_t n, uint64_t *seed);
void judge_table(struct judge_node *node);                      /* fills `table` from the rest */
/* The same node as gres.conf's Links= tells it: counts of links that are all as wide as the first. */
void judge_by_links(struct judge_node *node);
void judge_rate(const struct judge_node *node, uint32_t set, uint32_t free, struct judge_value *out);
/* The best that any k of `free` can have. */
void judge_best(const struct judge_node *node, uint32_t free, uint32_t k, struct judge_value *out);
int  judge_compare(const struct judge_value *a, const struct judge_value *b);      /* > 0: a is better */
uint32_t judge_draw(uint64_t *seed);

#endif
