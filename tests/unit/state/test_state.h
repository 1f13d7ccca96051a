/* SPDX-License-Identifier: Apache-2.0 */
/* test_state.h - what the tests of state/ share: one op at a time onto a state, with its result and events at hand. */
#ifndef TEST_STATE_H
#define TEST_STATE_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "state/private.h"

struct stage {
    struct state *s;
    struct arena arena;         /* of the last op */
    struct applied last;
    struct state *twin;         /* when not NULL gets every op as well, and must stay equal */
    unsigned twin_ops;
};

void stage_open(struct stage *g, const char *text);
void stage_close(struct stage *g);
int  stage_op(struct stage *g, Wire__Op *op);           /* result code */
void stage_wait(struct stage *g, int64_t seconds);      /* both clocks */
unsigned stage_events(const struct stage *g, enum event_kind kind);

int  do_submit(struct stage *g, const Wire__JobSpec *spec, uint32_t uid);       /* job id, or a negative code */
int  do_simple(struct stage *g, const char *name, const char *array, const char *dependency);
int  do_start(struct stage *g, uint32_t job_id, uint32_t task, const char *node, const char *cores);
int  do_report(struct stage *g, uint32_t job_id, int kind, const char *node, uint32_t attempt, int status);
int  do_cancel(struct stage *g, uint32_t job_id, const char *tasks);
int  do_run(struct stage *g, uint32_t job_id, uint32_t task, int status);       /* start on the first free core, run, end, gone */
int  do_update(struct stage *g, uint32_t job_id, const char *tasks, int verb, const char *key, const char *value, bool by_admin);
int  do_register(struct stage *g, const char *node, uint64_t mem_mib, uint32_t cpus, const char *boot_id, const Wire__RunningStep *step);

/* test_het.c: a heterogeneous job of so many components, the first one perhaps a batch job; its start, component i on nodes[i] with cores[i]. */
int  do_het_submit(struct stage *g, const char *name, uint32_t count, uint32_t uid, bool batch);
int  do_het_start(struct stage *g, uint32_t job_id, uint32_t count, const char *const *nodes, const char *const *cores);

/* The invariants that hold after any op; fails the test with the name of the broken one. */
void stage_check(const struct stage *g);
/* Numbers from a seed. */
struct dice { uint64_t state; };
uint32_t dice_roll(struct dice *d, uint32_t sides);     /* 0 .. sides - 1 */

/* Saves and loads; the copy has the same digest. */
struct state *stage_copy(const struct stage *g);
uint8_t *stage_bytes(const struct stage *g, size_t *len);       /* the snapshot; free() it */
struct state *stage_load(const uint8_t *bytes, size_t len);     /* NULL: refused */

Suite *rules_suite(void);
Suite *life_suite(void);
Suite *array_suite(void);
Suite *dependency_suite(void);
Suite *devices_suite(void);
Suite *mesh_suite(void);
Suite *hosts_suite(void);
Suite *accounts_suite(void);
Suite *node_suite(void);
Suite *bind_suite(void);
Suite *layout_suite(void);
Suite *token_suite(void);
Suite *info_suite(void);
Suite *random_suite(void);
Suite *survive_suite(void);
Suite *het_suite(void);
Suite *hooks_suite(void);

#endif
