/* SPDX-License-Identifier: Apache-2.0 */
/* type.h - one node type as score/links keeps it: sums of link bandwidth of all its sets, and the answers given so far. Pure. */
#ifndef SCORE_LINKS_TYPE_H
#define SCORE_LINKS_TYPE_H

#include <spur/score.h>

#define LINKS_EXACT_MAX 16u     /* devices whose sets are looked through one by one; more are grouped by card */
#define LINKS_FULL_MAX  8u      /* up to so many, an answer for each free mask and k has a place of its own */
#define LINKS_NICS_MAX  64u
#define LINKS_TIES_MAX  12870u  /* sets of 8 out of 16 */

struct links_answer { uint64_t mask, sum, left, ring, min; uint32_t numa; bool is_known; };
struct links_slot { uint64_t free; uint32_t k; struct links_answer answer; };

struct links_type {
    struct links_type *next;
    uint32_t  count;
    uint32_t *mbps;             /* count x count; the whole of what a table says, copied: an id may be used again by another view */
    int16_t  *numa, *socket, *pcie_switch;
    uint16_t *card;
    uint64_t  nic_behind[SPUR_DEVICES_MAX];     /* of each device: bits of nics[] */
    uint32_t  nic_mbps[LINKS_NICS_MAX], nic_count;
    struct spur_nic *nics; uint32_t nics_given;
    uint64_t *sums;             /* of each mask; count <= LINKS_EXACT_MAX */
    struct links_answer *full;  /* count <= LINKS_FULL_MAX: [mask * (count + 1) + k] */
    struct links_slot *slots;   /* else: LINKS_SLOTS places, the newest answer of each */
    uint32_t *ties;             /* room for the sets of equal sum */
    bool      is_uniform;       /* every pair is joined alike */
    struct { uint32_t count; uint16_t of[SPUR_DEVICES_MAX]; uint64_t members[SPUR_DEVICES_MAX]; } cards;
};
#define LINKS_SLOTS 2048u

/* NULL: out of memory, or a table with more devices than a mask has bits. */
struct links_type *links_type_create(const struct spur_device_table *t);
void links_type_destroy(struct links_type *y);
bool links_type_is(const struct links_type *y, const struct spur_device_table *t);

/* The best set of k of `free` that holds `must`; k <= the number of free ones. */
void links_best(struct links_type *y, uint64_t free, uint64_t must, uint32_t k, struct links_answer *out);
/* All numbers of a given set. */
void links_rate(const struct links_type *y, uint64_t mask, uint64_t free, struct links_answer *out);

/* ring.c: the weakest pair of the best Hamiltonian cycle through the set; k=2: the pair; k=1: 0. Exact up to LINKS_EXACT_MAX devices, above that a
 * lower bound that is exact on uniform fabrics. */
uint64_t links_ring(const struct links_type *y, uint64_t mask);
/* Is there a cycle all of whose pairs have `least` MB/s or more? */
bool     links_ring_holds(const struct links_type *y, uint64_t mask, uint64_t least);

#endif
