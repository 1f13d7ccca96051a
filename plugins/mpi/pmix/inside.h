/* SPDX-License-Identifier: Apache-2.0 */
/* inside.h - what the files of mpi/pmix share.
 *
 *     pmix.c      the operations of the plugin; ranks that join, finalize, abort, end      fence.c   fences, through the step's gathers
 *     describe.c  what libpmix is told of the step: nodes, ranks, folders                  fetch.c   one rank's data, from the node that has it
 *
 * libpmix calls its host on a thread of its own and wants no answer before such a call has returned: each is packed up and posted to the plugin's thread, which owns
 * everything below but what start() fixed: step, nspace, node_of.
 */
#ifndef PMIX_INSIDE_H
#define PMIX_INSIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <pmix.h>
#include <pmix.h>
#include <pmix_server.h>
#include <spur/mpi.h>

struct rank { uint32_t global; bool joined, finalized, ended; };
struct fence; struct fence_round; struct asked; struct wanted;

struct pmix {
    const struct spur_host *host;
    const struct spur_mpi_step *step;
    bool     is_open;           /* libpmix is initialised */
    char     nspace[PMIX_MAX_NSLEN + 1];
    uint32_t *node_of;          /* by rank */
    struct rank *ranks; uint32_t count;     /* of this node */
    bool     told_joined, told_ended;
    bool     some_joined; int64_t ended_alone;  /* node 0 knows: has any rank joined; one that ended without, -1 none */
    bool     aborted;
    char     lost[200];         /* "": all nodes are there */
    struct fence *fences;
    struct fence_round *rounds;
    struct asked *asked; uint32_t last_ask;
    struct wanted *wanted;
};

/* ---- pmix.c ---- */
extern struct pmix *pmix_served;        /* libpmix is one a process and hands its host no context */
int  pmix_failed(struct spur_error *err, const char *what, pmix_status_t status);
bool pmix_post(void (*fn)(void *arg), void *arg);       /* false: NULL arg, out of memory */
uint32_t pmix_node_of(const pmix_proc_t *proc);         /* UINT32_MAX: no rank of this step. Any thread */

/* ---- describe.c ---- */
int describe_step(struct pmix *p, struct spur_error *err);

/* ---- fence.c ---- */
pmix_status_t fence_called(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t ninfo, char *data, size_t ndata, pmix_modex_cbfunc_t done, void *arg);
void fence_gathered(struct pmix *p, const char *key, const struct spur_mpi_part *parts, uint32_t count, uint32_t part_size);
void fence_lost(struct pmix *p);
void fence_close(struct pmix *p);

/* ---- fetch.c ---- messages "Q" and "A" of the plugin's servers */
pmix_status_t fetch_called(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo, pmix_modex_cbfunc_t done, void *arg);
void fetch_received(struct pmix *p, uint32_t from, const unsigned char *data, size_t len);
void fetch_ended(struct pmix *p, uint32_t rank);        /* a rank of this node: what it has not given it never will */
void fetch_lost(struct pmix *p);
void fetch_close(struct pmix *p);

static inline void put32(unsigned char *at, uint32_t v) { for (int i = 0; i < 4; i++) at[i] = (unsigned char)(v >> 8 * i); }
static inline uint32_t get32(const unsigned char *at) { return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24; }

#endif
