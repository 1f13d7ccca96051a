/* SPDX-License-Identifier: Apache-2.0 */
/* faults.h - faults put in on purpose: those of the core (core_fault.h) and those of the shell around it, by name. */
#ifndef TEST_SIM_FAULTS_H
#define TEST_SIM_FAULTS_H

#include <stdbool.h>

#define SIM_FAULT_LIST(X) \
    X(NO_TOKENS_IN_SNAPSHOT, "a state that comes from a snapshot knows no token") \
    X(VOTE_FORGOTTEN,        "a restarted member does not know whom it voted for") \
    X(WRITTEN_EARLY,         "the shell confirms a write before the disk has it") \
    X(TAIL_KEPT,             "entries that another leader has replaced come back at a restart") \
    X(AMNESIA,               "a wiped member comes back under its old id") \
    X(ROT_IGNORED,           "a member that lost a part of its log goes on voting") \
    X(CLOCK_STOPS,           "the clock of a process stands still while it is stopped")

enum sim_fault_kind {
#define SIM_FAULT_ROW(name, text) SIM_FAULT_##name,
    SIM_FAULT_LIST(SIM_FAULT_ROW)
#undef SIM_FAULT_ROW
    SIM_FAULT_COUNT
};
extern unsigned sim_faults;             /* bits */
#define SIM_FAULT(name) ((sim_faults >> SIM_FAULT_##name) & 1u)

bool fault_set(const char *name);       /* either kind; NULL: none. False: there is no such */
const char *fault_name(unsigned i, const char **text);      /* NULL: no more */

#endif
