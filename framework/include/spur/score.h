/* SPDX-License-Identifier: Apache-2.0 */
/* spur/score.h - the kind `score`: which k of the free devices of one node work best together. ABI 0.1.
 *
 * A select plugin asks it; a vendor who knows his fabric better replaces it without rewriting placement (ScoreType=score/links
 * in spur.conf). Called on the loop's thread of the leader, must not block. Mandatory: best.
 */
#ifndef SPUR_SCORE_H
#define SPUR_SCORE_H

#include <stdbool.h>
#include <spur/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SPUR_DEVICES_MAX 64         /* devices of one node that have an index: as bits of a mask */

/* The devices of one node type (gres "gpu", by index) and how they are joined. One table is shared by all nodes of equal hardware; it is
 * never changed: another matrix is another table with another id. Every array has `count` rows unless said otherwise. Borrowed. */
struct spur_device_table {
    uint32_t size;
    uint32_t id;                    /* equal tables have equal ids within one view; never 0 */
    uint32_t count;                 /* devices: indices 0 .. count-1, at most SPUR_DEVICES_MAX */
    const uint32_t *mbps;           /* count x count, MB/s in one direction between i and j: direct links, or the share of a PCIe path by its class; diagonal 0 */
    const uint8_t  *links;          /* count x count, direct links between i and j; 0 none */
    const int16_t  *numa;           /* NUMA node; -1 unknown */
    const int16_t  *socket;         /* of that NUMA node; -1 unknown */
    const int16_t  *pcie_switch;    /* number of the PCIe switch it hangs on; -1 none or unknown */
    const uint16_t *card;           /* partitions of one physical device (MIG, CPX) have equal numbers; otherwise each its own */
    const uint64_t *near_cores;     /* count x core_words: bitmap of the cores near to it; all zero: any */
    uint32_t core_words;
    const struct spur_nic *nics; uint32_t nic_count, nic_size;
};
struct spur_nic { int16_t pcie_switch, numa; uint32_t mbps; char name[32]; };     /* mbps: Mbit/s */

/* What the chosen set must keep to. */
struct spur_score_ask {
    uint32_t size;
    uint32_t k;                     /* devices wanted, >= 1 */
    uint64_t free;                  /* devices that may be taken */
    uint64_t must;                  /* must all be in the set: subset of free; usually 0 */
};
struct spur_score {
    uint32_t size;
    uint64_t mask;                  /* the set */
    uint64_t sum_mbps, ring_mbps, min_mbps;     /* over its pairs; of the best Hamiltonian cycle's weakest pair (k=2: the pair); of the worst pair */
    uint32_t numa_count;
    uint64_t left_mbps;             /* pair bandwidth kept among the free devices that remain */
    double   share;                 /* 0..1: sum_mbps against the best set of k that this node type has when empty; 1 when nothing is joined */
};

struct spur_score_ops {
    uint32_t size;
    /* The best set. 0; SPUR_ELATER when fewer than k are free (or `must` is not free); `out->size` is set by the caller. */
    int (*best)(void *self, const struct spur_device_table *table, const struct spur_score_ask *ask, struct spur_score *out);
    /* The numbers of a given set, for people and for a select plugin that compares. Optional. */
    int (*rate)(void *self, const struct spur_device_table *table, uint64_t mask, uint64_t free, struct spur_score *out);
};

#ifdef __cplusplus
}
#endif
#endif
