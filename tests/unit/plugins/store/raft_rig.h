/* SPDX-License-Identifier: Apache-2.0 */
/* raft_rig.h - several members of store/raft in one process, over loopback, each with a host, a loop and a state of its own.
 *
 * The state of a member is the chain of hashes over its entries and who of the numbered ones it has. One thread turns all loops. A member can be cut off
 * from the others: its bytes stop, its connections stay.
 */
#ifndef TEST_RAFT_RIG_H
#define TEST_RAFT_RIG_H

#include <check.h>
#include <pthread.h>

#include "raft.h"

#define RIG_NODES   5
#define RIG_NUMBERS 8192

struct rig_post { void (*fn)(void *arg); void *arg; };

struct node {
    struct rig *rig;
    char     name[16], addr[64], folder[64];
    struct spur_host host;
    struct spur_channels channels;
    struct peers *peers;
    struct spur_store_events events;
    void    *store;                     /* NULL: down */
    uint64_t segment_bytes, snapshot_bytes;
    const struct wal_io *io;
    bool     may_leave_slow_disk;
    uint64_t snapshot_rate;             /* 0: as fast as it goes */
    pthread_mutex_t lock;
    struct rig_post posts[256]; size_t post_count;      /* under lock */
    char     log[32768];                /* under lock */
    atomic_bool is_cut;
    bool     is_standing;               /* its loop does not turn */
    /* The state. */
    uint64_t hash, count, index;
    uint8_t  seen[RIG_NUMBERS];
    uint64_t installs, replays;
    enum spur_store_role role;
    uint64_t fence;
    char     leader[64];
    struct spur_error failed;
};

struct rig {
    unsigned count, listed;             /* nodes made, lines of SlurmctldHost */
    struct node nodes[RIG_NODES];
    uint64_t next;                      /* number of the next entry */
    uint8_t  acked[RIG_NUMBERS];        /* the answer was: committed */
    uint64_t answers;                   /* of any kind */
    unsigned failures;
};

void rig_init(struct rig *r, unsigned nodes, unsigned listed);
void rig_fini(struct rig *r);
int  rig_open(struct node *n, struct spur_error *err);      /* start */
void rig_up(struct node *n);
void rig_down(struct node *n);          /* a clean stop */
void rig_wipe(struct node *n);          /* its folder is empty */
void rig_wipe_running(struct rig *r, struct node *n);       /* down, wiped, up */
void rig_auth(struct node *n);          /* its channels prove themselves as the node */
void rig_cut(struct node *n);
void rig_heal(struct node *n);
void rig_turn(struct rig *r);
#define rig_until(r, condition) do { int64_t rig_end_ = boot_ms() + 30000; while (!(condition)) { rig_turn(r); \
    ck_assert_msg(boot_ms() < rig_end_, "waited 30 s in vain for %s\n%s", #condition, rig_logs(r)); } } while (0)
/* The same; `order` is given to whoever leads (`at`), again and again: a leader may lose it together with the leadership. */
#define rig_order(r, condition, order) do { unsigned turn_ = 0; rig_until(r, (condition) || (rig_leader(r) && turn_++ % 500 == 0 && \
    ((void)(at = rig_leader(r)), (void)(order), false))); } while (0)
const char *rig_logs(struct rig *r);
struct node *rig_leader(struct rig *r); /* the one that leads now and can be asked; NULL: none */
struct node *rig_lead(struct rig *r);   /* waits for one */
/* Proposes `count` numbered entries at whoever leads until each of them is acknowledged. */
void rig_propose(struct rig *r, unsigned count, size_t size);
bool rig_agree(struct rig *r);          /* all that are up have the same state, and all that was acknowledged */
bool rig_logged(struct node *n, const char *text);
void rig_forget_log(struct node *n);
struct spur_store_status rig_status(struct node *n);
unsigned rig_voters(struct node *n);

#endif
