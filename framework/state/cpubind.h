/* SPDX-License-Identifier: Apache-2.0 */
/* cpubind.h - which CPUs and which memory each task of a step is bound to on a node: the words of --cpu-bind and --mem-bind, and what they come to. Pure. */
#ifndef STATE_CPUBIND_H
#define STATE_CPUBIND_H

#include <stdbool.h>
#include <stdint.h>
#include <spur/error.h>

#include "base/bitmap.h"
#include "state/layout.h"

#define CPUBIND_CPUS   8192u        /* numbers of CPUs are below */
#define CPUBIND_LDOMS  1024u
#define CPUBIND_LIST   4096u        /* elements of one list, repetitions counted */

/* AUTO: nothing was said: what the counts of tasks and CPUs suggest, else `fallback`. LDOM: locality domain, a NUMA node. */
enum cpubind_kind { CPUBIND_AUTO, CPUBIND_NONE, CPUBIND_RANK, CPUBIND_MAP, CPUBIND_MASK, CPUBIND_RANK_LDOM, CPUBIND_MAP_LDOM, CPUBIND_MASK_LDOM,
                    CPUBIND_SOCKETS, CPUBIND_CORES, CPUBIND_THREADS, CPUBIND_LDOMS_OF };
enum membind_kind { MEMBIND_NONE, MEMBIND_RANK, MEMBIND_LOCAL, MEMBIND_MAP, MEMBIND_MASK };

struct bind_list { struct bitmap *sets; uint32_t count; };      /* of task 0, 1, ... of the node, again from the start behind the last */
struct cpubind { enum cpubind_kind kind, fallback; bool verbose; struct bind_list list; };
struct membind { enum membind_kind kind; bool verbose, prefer; struct bind_list list; };

/* "quiet,cores", "map_cpu:0*2,0x3", "mask_cpu:0x3,c", "rank": the values of the two options. NULL and "": AUTO, NONE. */
int  cpubind_parse(const char *text, struct cpubind *out, struct spur_error *err);
void cpubind_fini(struct cpubind *b);
int  membind_parse(const char *text, struct membind *out, struct spur_error *err);
void membind_fini(struct membind *b);

struct cpu_core { uint32_t socket, ldom, pu_count; const uint32_t *pus; };     /* pus: its threads, as the operating system numbers CPUs */
struct cpu_node {
    const struct cpu_core *cores; uint32_t core_count;
    const struct bitmap *held;      /* cores that the step has; NULL: all */
    uint32_t threads_per_core;      /* of each core that are used; 0: all */
    uint32_t cores_per_socket;      /* of each socket that are used; 0: all */
    uint32_t tasks, cpus_per_task;
};

/* CPUs of the step here. out: of CPUBIND_CPUS bits. */
void cpubind_held(const struct cpu_node *node, struct bitmap *out);
/* masks[node->tasks], of CPUBIND_CPUS bits each. 1: bound; *kind says how. 0: tasks have all that the step has. Negative: a list names what the step does not
 * hold. */
int  cpubind_tasks(const struct cpubind *b, const struct layout_how *how, const struct cpu_node *node, struct bitmap *masks, enum cpubind_kind *kind, struct spur_error *err);
/* The NUMA nodes of a task that has `cpus`; out: CPUBIND_LDOMS bits. False: not bound. */
bool membind_task(const struct membind *b, const struct cpu_node *node, uint32_t task, const struct bitmap *cpus, struct bitmap *out);

/* "0x0000000F", at least eight digits as Slurm writes them. */
void cpubind_mask_print(const struct bitmap *mask, struct str *out);

#endif
