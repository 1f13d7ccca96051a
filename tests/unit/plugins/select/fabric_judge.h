/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_judge.h - the best way to take whole nodes of leaves and pods, by trying every set of leaves; and the plugin's way, for comparison. */
#ifndef TEST_SELECT_FABRIC_JUDGE_H
#define TEST_SELECT_FABRIC_JUDGE_H

#include <spur/select.h>

#define JUDGE_LEAVES 12
#define JUDGE_NODES  512

struct fabric_state { uint32_t leaves, pods, pod[JUDGE_LEAVES], idle[JUDGE_LEAVES]; };
/* level: 0 one leaf, 1 one pod, 2 across, 3 it does not fit. waste: idle nodes of the leaves taken that stay idle. */
struct fabric_answer { uint32_t level, leaves, pods, waste, taken[JUDGE_LEAVES]; };

void fabric_random(struct fabric_state *s, uint64_t *seed);
void fabric_best(const struct fabric_state *s, uint32_t need, uint32_t segment, struct fabric_answer *out);
/* Asks a select plugin, and checks that what it gives is there and in whole segments: false if not. */
bool fabric_ask(const struct spur_select_ops *ops, void *self, const struct fabric_state *s, uint32_t need, uint32_t segment, struct fabric_answer *out);
uint32_t fabric_draw(uint64_t *seed);

#endif
