/* SPDX-License-Identifier: Apache-2.0 */
/* core_read.c - reads that see everything committed before them, without an entry of their own.
 *
 * By lease: a voter that has answered an append promises not to vote for promise_ms from when it heard it, which is not before we sent it. So
 * within promise_ms less the drift of clocks, counted from the SEND time of the newest append that a majority has answered, nobody else can lead.
 * By round: else a heartbeat round is sent, and the read waits until a majority has answered that round or a later one.
 * Neither before an entry of this term is committed: until then the leader's own commit index may be old.
 */
#include "core_inside.h"

#include <string.h>

static uint64_t lease_of(const struct raft *r, const struct peer *p)
{
    (void)r;
    return p->lease_ms;
}

static uint64_t round_of(const struct raft *r, const struct peer *p)
{
    (void)r;
    return p->round;
}

/* 0: none. Off while and after a hand-over in this term: its target need not wait for anybody's promise. */
uint64_t lease_until(const struct raft *r)
{
    uint64_t sent;

    if (r->role != RAFT_LEADER || !r->is_leader_ready || r->is_lease_off || r->transfer_to != RAFT_NOBODY || r->promise_ms <= r->config.drift_ms)
        return 0;
    sent = members_order(r, r->now, lease_of);
    return sent ? sent + r->promise_ms - r->config.drift_ms : 0;
}

bool raft_has_lease(const struct raft *r, uint64_t now_ms)
{
    if (r->role == RAFT_LEADER && r->is_leader_ready && members_voters(r) == 1 && members_is_voter(r, r->config.self))
        return true;
    return now_ms < lease_until(r);
}

static void answer(struct raft *r, uint64_t id, uint64_t index, bool is_refused)
{
    r->answers = raft_grow(r->answers, &r->answer_room, r->answer_count, sizeof *r->answers);
    r->answers[r->answer_count++] = (struct raft_read){ .id = id, .index = index, .is_refused = is_refused };
}

int raft_read(struct raft *r, uint64_t now_ms, uint64_t id, struct spur_error *err)
{
    input_begin(r, now_ms);
    if (r->role != RAFT_LEADER)
        return spur_fail(err, SPUR_ENOTLEADER, "this controller does not lead: ask the one that does");
    r->reads = raft_grow(r->reads, &r->read_room, r->read_count, sizeof *r->reads);
    r->reads[r->read_count++] = (struct read){ .id = id };
    read_check(r);
    return 0;
}

/* A round of 0 means that the read came before the no-op was committed: it starts when that is. The index to wait for is taken at the end; it is
 * never lower than at the start. */
void read_check(struct raft *r)
{
    size_t kept = 0;
    uint64_t round;
    bool has_lease;

    if (r->role != RAFT_LEADER || r->read_count == 0 || (!r->is_leader_ready && !RAFT_FAULT(READ_BEFORE_NOOP)))
        return;
    has_lease = raft_has_lease(r, r->now);
    round = members_order(r, r->round, round_of);
    for (size_t i = 0; i < r->read_count; i++) {
        struct read *read = &r->reads[i];

        if (has_lease || (read->round && read->round <= round)) {
            answer(r, read->id, r->commit, false);
            continue;
        }
        if (read->round == 0) {
            read->round = r->round + 1;
            r->is_round_wanted = true;
        }
        r->reads[kept++] = *read;
    }
    r->read_count = kept;
}

void read_refuse_all(struct raft *r)
{
    for (size_t i = 0; i < r->read_count; i++)
        answer(r, r->reads[i].id, 0, true);
    r->read_count = 0;
}
