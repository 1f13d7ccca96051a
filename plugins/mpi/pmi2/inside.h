/* SPDX-License-Identifier: Apache-2.0 */
/* inside.h - what the files of mpi/pmi2 share.
 *
 *     pmi2.c    the operations of the plugin, ranks, fences        wire1.c   PMI-1: lines of "cmd=put key=... value=..."
 *     kvs.c     keys and values of the step                        wire2.c   PMI-2: six digits of length, "cmd=kvs-put;key=...;"
 *     names.c   published names, which the server of node 0 keeps
 */
#ifndef PMI2_INSIDE_H
#define PMI2_INSIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <spur/mpi.h>

#define KVS_NAME_MAX  256
#define KVS_KEY_MAX   64        /* what MPICH's own process manager allows; clients have buffers of these sizes */
#define KVS_VALUE_MAX 1024
#define REQUEST_MAX   (64 << 10)

/* ---- kvs.c ---- */
struct kvs_entry { char *key, *value; };
struct kvs { struct kvs_entry *slots; size_t room, count; };
void kvs_free(struct kvs *k);
int  kvs_put(struct kvs *k, const char *key, const char *value);       /* 0, or SPUR_ENOMEM; a later value replaces an earlier one */
const char *kvs_get(const struct kvs *k, const char *key);             /* NULL: not there */
void kvs_drop(struct kvs *k, const char *key);
const struct kvs_entry *kvs_at(const struct kvs *k, size_t *from);     /* the next entry at or after *from, which is advanced; NULL: no more */

/* ---- ranks ---- */
enum wire { WIRE_UNKNOWN = 0, WIRE_PMI1, WIRE_PMI2 };
/* A rank that asked for a node attribute which nobody has put yet. */
struct waiting { struct waiting *next; uint32_t local; char thread[32]; char key[KVS_KEY_MAX + 1]; };

struct rank {
    uint32_t global;
    int      fd;                /* -1: closed */
    enum wire wire;
    bool     joined, finalized, in_fence, broken;
    int      cause;             /* errno of what broke the socket; 0: its end came */
    char     fence_thread[32];  /* PMI-2: thrid of the request that waits */
    char    *in; size_t in_len, in_room;
    bool     in_spawn;          /* PMI-1: within the lines of a spawn request */
};

struct pmi {
    const struct spur_mpi_step *step;
    struct rank *ranks; uint32_t count;
    struct kvs kvs, node, names;
    struct waiting *waiting;
    char    *fresh; size_t fresh_len, fresh_room;       /* what this node's ranks have put since the last fence, as it travels */
    uint32_t fence;             /* number of the one that comes next */
    bool     fencing;           /* this node has given its part */
    char     lost[200];         /* "": all nodes are there */
    char     job[48];           /* "7.0" */
    char    *mapping;
};

/* pmi2.c, for the wires. text/len: what goes to the rank as it is. */
void rank_say(struct pmi *p, struct rank *r, const char *text, size_t len);
void rank_fence(struct pmi *p, struct rank *r);
int  rank_put(struct pmi *p, const char *key, const char *value);      /* 0; SPUR_EINVAL over a limit; SPUR_ENOMEM */
void rank_abort(struct pmi *p, struct rank *r, int exit_code, const char *text);
static inline uint32_t rank_local(const struct pmi *p, const struct rank *r) { return (uint32_t)(r - p->ranks); }

/* One request is complete: wire1_take gets a line, wire2_take a body. Negative: it is none. */
int  wire1_take(struct pmi *p, struct rank *r, char *line);
int  wire2_take(struct pmi *p, struct rank *r, char *body);
void wire1_fenced(struct pmi *p, struct rank *r, const char *fault);   /* fault NULL: it is whole */
void wire2_fenced(struct pmi *p, struct rank *r, const char *fault);
void wire1_named(struct pmi *p, struct rank *r, char op, bool found, const char *port);
void wire2_named(struct pmi *p, struct rank *r, char op, const char *thread, bool found, const char *port);
void wire2_attribute(struct pmi *p, const char *key);                  /* a node attribute has come: answer who waits for it */

/* ---- names.c ---- op: 'P' publish, 'U' unpublish, 'L' look up. The answer comes through wireN_named, now or later. */
void names_ask(struct pmi *p, struct rank *r, char op, const char *thread, const char *service, const char *port);
void names_received(struct pmi *p, uint32_t from, const void *data, size_t len);

#endif
