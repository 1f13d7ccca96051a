/* SPDX-License-Identifier: Apache-2.0 */
/* cluster.h - a small cluster, a wish and a placement written as text, for tests of select plugins.
 *
 * Nodes, one a line:  "n[1-4] 2s4c2t mem=1000 gpu=4 nic=2 weight=5 used=0-3 memused=100 gpuused=0-1 down"
 *     used: cores that jobs hold; gpu=a100:4,h100:2 for types; nic: a count without devices.
 * Wish, words:  "n=8 N=2-4 c=2 mem=100 mempercpu=10 mempergpu=10 tpn=2 gres=gpu:2 gresjob=gpu:8 grestask=gpu:1 cr=core,memory w=n1,n2 ..."
 * Placement: "n1:4t8c[0-3]m100gpu(0-1) n2:..." tasks, CPUs, cores, memory, devices.
 */
#ifndef TEST_SELECT_CLUSTER_H
#define TEST_SELECT_CLUSTER_H

#include <spur/select.h>

#define CLUSTER_NODES 64
#define CLUSTER_WORDS 4
#define CLUSTER_GRES  4

struct cluster {
    struct spur_view view;
    struct spur_node_view nodes[CLUSTER_NODES];
    char     names[CLUSTER_NODES][16];
    uint64_t cores[CLUSTER_NODES][CLUSTER_WORDS];
    struct spur_gres_view gres[CLUSTER_NODES][CLUSTER_GRES];
};
struct wish {
    struct spur_ask ask;
    struct spur_gres_ask gres[8];
    char     words[8][2][16];
    uint64_t allowed[1], required[1];
};
struct placed {
    struct spur_placement p;
    struct spur_node_pick picks[CLUSTER_NODES];
    uint64_t cores[CLUSTER_NODES][CLUSTER_WORDS];
};

void cluster_make(struct cluster *c, const char *text);
void wish_make(struct wish *w, const struct cluster *c, const char *text);
void placed_init(struct placed *p);
/* Opens the plugin once, asks, prints the answer into text; returns what place returned. */
int  cluster_place(const struct cluster *c, const struct wish *w, struct placed *p, struct spur_error *err);
void placed_print(const struct cluster *c, const struct placed *p, char *out, size_t room);

#endif
