/* SPDX-License-Identifier: Apache-2.0 */
/* contract.h - what each kind of plugin promises, as cases that run against any plugin: ours, built in or as a file, and a vendor's.
 *
 * One suite, two fronts: `spur plugin check FILE.so` and the programs of tests/conformance. Each case runs in a child process of its own with
 * a deadline and an empty folder, so a plugin that crashes or hangs is reported and not suffered. A case opens its own instances through
 * the loader against a fake host: no daemon, no cluster, no network.
 */
#ifndef LOADER_CONTRACT_H
#define LOADER_CONTRACT_H

#include <stdbool.h>
#include <stddef.h>
#include <spur/plugin.h>

#include "base/arena.h"
#include "loader/loader.h"

/* Which plugin, and how it is opened. */
struct contract_target {
    enum spur_kind kind;
    const char *wanted;         /* "select/topo"; NULL: the file */
    const char *path;
    const char *options;        /* text of its section, NULL: defaults */
    unsigned deadline_ms;       /* a case; 0: 20,000 */
};

enum contract_verdict { CONTRACT_OK = 0, CONTRACT_FAILED, CONTRACT_SKIPPED, CONTRACT_CRASHED, CONTRACT_HUNG };

/* Runs every case of the target's kind; `row` is told each result in order. Returns how many failed, crashed or hung. */
int contract_run(const struct contract_target *target,
                 void (*row)(void *arg, const char *case_name, enum contract_verdict verdict, const char *text), void *arg);

/* Loads a file in a child process and tells what it is, or why this spur refuses it. Also when it crashes or hangs while loading. */
struct contract_about {
    enum spur_kind kind;
    uint16_t abi_major, abi_minor;
    char name[80], version[48], about[200];
};
int contract_describe(const char *path, struct contract_about *out, struct spur_error *err);

/* ---- for the files contract_KIND.c ---- */

#define CONTRACT_SKIP 1     /* a case's answer: this plugin does not offer the operation */

struct contract {           /* what a case gets */
    const struct contract_target *target;
    char dir[128];          /* empty folder, removed afterwards; the fake host's state_dir */
    struct fake *fake;
    struct arena memory;    /* of the case: contract_alloc */
};

struct contract_case { const char *name; int (*run)(struct contract *c, struct spur_error *err); };
extern const struct contract_case contract_common[], contract_store[], contract_select[], contract_switch[], contract_auth[],
    contract_priority[], contract_gpu[], contract_score[], contract_contain[], contract_mpi[];   /* each ends with a NULL name */

void *contract_alloc(struct contract *c, size_t size);     /* zeroed; freed with the case */
/* Opens one more instance of the target. */
int  contract_open(struct contract *c, struct loaded **out, struct spur_error *err);
/* What host->config says from now on; value NULL: unset. Texts are borrowed. */
void contract_set(struct contract *c, const char *key, const char *value);
/* Runs what plugins posted until *done or `ms` have passed; true: done. */
bool contract_loop(struct contract *c, const bool *done, unsigned ms);

/* Numbers that look random and are the same each time. */
uint32_t contract_random(uint64_t *seed);

#define CONTRACT_EXPECT(condition, ...) \
    do { if (!(condition)) return spur_fail(err, SPUR_EINVAL, __VA_ARGS__); } while (0)

#endif
