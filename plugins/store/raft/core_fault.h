/* SPDX-License-Identifier: Apache-2.0 */
/* core_fault.h - the known ways to get consensus wrong, each put in on purpose by tests/sim to see that the simulator finds it.
 *
 * In the product RAFT_FAULT is the constant 0 and the compiler removes what hangs on it. The simulator compiles the same files with
 * -DRAFT_FAULTS and sets bits of raft_faults. framework/doc/raft.md says what each fault does and at which seed it is caught.
 */
#ifndef RAFT_CORE_FAULT_H
#define RAFT_CORE_FAULT_H

#include <stdint.h>

#define RAFT_FAULT_LIST(X) \
    X(FIGURE8,            "entries of earlier terms are committed by counting copies") \
    X(UNBOUNDED_ACK,      "a follower acknowledges its own last entry, compared with this leader or not") \
    X(OLD_TERM_ACK,       "what was matched under an earlier leader is acknowledged to the new one") \
    X(ACK_UNWRITTEN,      "a follower acknowledges entries before the disk has them") \
    X(LEADS_UNWRITTEN,    "the leader's copy counts before, or without, its disk's confirmation") \
    X(RESIGN_IGNORED,     "a leader whose disk has failed goes on leading") \
    X(COMMIT_PAST_SENT,   "a follower commits up to the leader's word, past what was compared") \
    X(DOUBLE_VOTE,        "a transfer target gets a vote although it was given away in this term") \
    X(EARLY_VOTE,         "a vote is answered before the disk has it") \
    X(EARLY_CANDIDACY,    "a candidate asks, and counts itself, before its term, vote and entries are durable") \
    X(LATE_MEMBERS,       "a configuration counts when written, not when appended") \
    X(NO_ROLL_BACK,       "a configuration stays in force when its entry is cut off") \
    X(MEMBERS_ANY_TIME,   "a configuration is changed while the last change is not committed") \
    X(SNAPSHOT_ACK,       "an installed snapshot is acknowledged with the last index of the log") \
    X(OLD_LEADERS_SNAPSHOT, "a snapshot from the leader of an earlier term is taken") \
    X(NOT_STICKY,         "votes are given while a leader is heard") \
    X(LEASE_FROM_REPLY,   "the lease is counted from when the replies came, not from when the round was sent") \
    X(READ_BEFORE_NOOP,   "a new leader answers reads before an entry of its term is committed")

enum raft_fault {
#define RAFT_FAULT_ROW(name, text) RAFT_FAULT_##name,
    RAFT_FAULT_LIST(RAFT_FAULT_ROW)
#undef RAFT_FAULT_ROW
    RAFT_FAULT_COUNT
};

#ifdef RAFT_FAULTS
extern uint32_t raft_faults;            /* bit 1 << enum raft_fault; defined in core.c */
#define RAFT_FAULT(name) ((raft_faults >> RAFT_FAULT_##name) & 1u)
#else
#define RAFT_FAULT(name) 0
#endif

#endif
