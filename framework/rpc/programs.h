/* SPDX-License-Identifier: Apache-2.0 */
/* programs.h - programs of the site, run beside the loop: prologs and epilogs. Each run has a thread of its own while it lasts, so neither a folder on a server
 * that hangs nor a program that never ends holds the loop; at most `limit` run at once, the others wait their turn. */
#ifndef RPC_PROGRAMS_H
#define RPC_PROGRAMS_H

#include "config.h"
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

/* As a pattern: this very program, as `spurstepd --spank` (agent/spank_node.c). */
#define PROGRAMS_SELF "/proc/self/exe"

struct programs;

/* How a run has ended. text: which program and why, when it failed. */
struct programs_end { bool failed, timed_out; char text[200]; };

/* What to run: each line of `patterns` is a path, or a pattern for several, taken in the order of their names. The first that fails is the last that runs.
 * env ends with NULL and is complete. Each program has timeout_s seconds; 0: as long as it likes. Texts are copied. `done` is called from the loop. */
struct programs_order {
    const char *what, *patterns;        /* "Prolog" */
    char *const *env;
    uint32_t timeout_s;
    void (*done)(void *arg, const struct programs_end *end);
    void *arg;
};

struct programs *programs_create(uv_loop_t *loop, unsigned limit);
void programs_limit(struct programs *p, unsigned limit);        /* from the next start on */
/* A number for programs_stop; never 0. */
uint64_t programs_run(struct programs *p, const struct programs_order *order);
/* Ends it and what it has started, as far as that is still in its session. `done` is called all the same. */
void programs_stop(struct programs *p, uint64_t number);
/* No `done` is called any more. What runs goes on, and ends by itself or at its time. */
void programs_destroy(struct programs *p);

#endif
