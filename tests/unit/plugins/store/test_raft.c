/* SPDX-License-Identifier: Apache-2.0 */
/* test_raft.c - store/raft with several members in one process: found, elect, replicate, lose, come back, change.
 *
 * What is acknowledged is there on every member afterwards, once, and all states are the same; where a test waits, it polls with a deadline that
 * a slow machine keeps. Kills and power cuts of whole processes are the integration tests', the algorithm's odd cases the simulator's.
 */
#include "raft_rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixture.h"
#include "local.h"
#include "rpc/peers.h"

static struct rig rig;

static void up(unsigned nodes)
{
    rig_init(&rig, nodes, nodes);
    for (unsigned i = 0; i < nodes; i++)
        rig_up(&rig.nodes[i]);
}

START_TEST(three_found_elect_and_replicate)
{
    struct node *leader;

    up(3);
    leader = rig_lead(&rig);
    ck_assert_uint_gt(leader->fence, 0);
    rig_propose(&rig, 200, 100);
    rig_propose(&rig, 3, 300000);
    rig_until(&rig, rig_agree(&rig));
    rig_until(&rig, rig_status(leader).feature_min == 7);
    rig_until(&rig, rig_voters(leader) == 3 && rig_status(leader).voters_reachable == 3);
    for (unsigned i = 0; i < 3; i++) {
        struct spur_error err = { 0 };
        struct node *n = &rig.nodes[i];

        if (n != rig_leader(&rig)) {
            rig_until(&rig, store_raft_ops.propose(n->store, "x", 1, n, &err) == SPUR_ENOTLEADER && strstr(err.text, "leads"));
            rig_until(&rig, rig_status(n).age_ms >= 0 && rig_status(n).age_ms < 2000);
        }
    }
    rig_fini(&rig);
}
END_TEST

START_TEST(a_leader_that_stops_hands_over)
{
    struct node *first, *second;

    up(3);
    first = rig_lead(&rig);
    rig_propose(&rig, 50, 60);
    rig_down(first);
    second = rig_lead(&rig);
    ck_assert_ptr_ne(first, second);
    rig_propose(&rig, 50, 60);
    rig_up(first);
    rig_propose(&rig, 50, 60);
    rig_until(&rig, rig_agree(&rig));
    rig_fini(&rig);
}
END_TEST

START_TEST(all_stop_and_come_back)
{
    up(3);
    for (unsigned round = 0; round < 3; round++) {
        rig_propose(&rig, 100, 50);
        rig_until(&rig, rig_agree(&rig));
        for (unsigned i = 0; i < 3; i++)
            rig_down(&rig.nodes[i]);
        for (unsigned i = 0; i < 3; i++)
            rig_up(&rig.nodes[i]);
    }
    rig_propose(&rig, 10, 50);
    rig_until(&rig, rig_agree(&rig));
    rig_fini(&rig);
}
END_TEST

START_TEST(a_wiped_member_is_taken_in_again)
{
    struct node *leader, *lost;

    up(3);
    leader = rig_lead(&rig);
    rig_propose(&rig, 100, 50);
    lost = leader == &rig.nodes[0] ? &rig.nodes[1] : &rig.nodes[0];
    rig_down(lost);
    rig_wipe(lost);
    rig_propose(&rig, 20, 50);
    rig_up(lost);
    rig_until(&rig, rig_voters(rig_lead(&rig)) == 3 && rig_status(rig_lead(&rig)).member_count == 3 && rig_agree(&rig));
    rig_until(&rig, lost->role == SPUR_STORE_FOLLOWER || lost->role == SPUR_STORE_LEADER);
    rig_propose(&rig, 20, 50);
    rig_until(&rig, rig_agree(&rig));
    rig_fini(&rig);
}
END_TEST

START_TEST(a_leader_that_is_cut_off_loses_nothing)
{
    struct node *old, *leader;
    struct spur_error err;

    up(3);
    old = rig_lead(&rig);
    rig_propose(&rig, 60, 80);
    rig_cut(old);
    /* It takes entries as long as it believes to lead; none of them may be acknowledged. */
    for (unsigned i = 0; i < 5; i++)
        store_raft_ops.propose(old->store, "lost", 3, &err, &err);
    leader = rig_lead(&rig);
    ck_assert_ptr_ne(leader, old);
    rig_propose(&rig, 60, 80);
    rig_until(&rig, old->role != SPUR_STORE_LEADER);
    ck_assert_int_lt(store_raft_ops.propose(old->store, "x", 1, old, &err), 0);
    rig_until(&rig, rig_status(old).age_ms > 1000 || rig_status(old).age_ms < 0);       /* -1: it was cut off before it knew itself to be up to date */
    rig_heal(old);
    rig_propose(&rig, 10, 80);
    rig_until(&rig, rig_agree(&rig));
    rig_fini(&rig);
}
END_TEST

START_TEST(without_a_majority_nothing_is_taken)
{
    struct node *n;
    struct spur_error err;
    int64_t end;

    up(3);
    n = rig_lead(&rig);
    rig_propose(&rig, 20, 50);
    rig_until(&rig, rig_agree(&rig));
    for (unsigned i = 0; i < 3; i++)
        if (&rig.nodes[i] != n)
            rig_down(&rig.nodes[i]);
    rig_until(&rig, n->role != SPUR_STORE_LEADER);
    rig_until(&rig, store_raft_ops.propose(n->store, "x", 1, n, &err) == SPUR_ENOTLEADER && strstr(err.text, "majority"));
    ck_assert_uint_ge(n->count, 20);            /* what is there can still be read */
    end = boot_ms() + 600;
    while (boot_ms() < end)
        rig_turn(&rig);
    ck_assert(n->role != SPUR_STORE_LEADER);
    for (unsigned i = 0; i < 3; i++)
        if (&rig.nodes[i] != n)
            rig_up(&rig.nodes[i]);
    rig_propose(&rig, 20, 50);
    rig_until(&rig, rig_agree(&rig));
    rig_fini(&rig);
}
END_TEST

START_TEST(three_become_four_and_three_again)
{
    struct spur_error err = { 0 };
    struct node *leader, *other, *fourth, *at;

    rig_init(&rig, 4, 3);
    fourth = &rig.nodes[3];
    for (unsigned i = 0; i < 3; i++)
        rig_up(&rig.nodes[i]);
    leader = rig_lead(&rig);
    rig_propose(&rig, 30, 50);
    ck_assert_int_eq(store_raft_ops.member_remove(leader->store, "nobody", &err), SPUR_ENOTFOUND);
    /* The fourth reads the list of three, itself behind them: it waits for the first to take it in. */
    rig.listed = 4;
    rig_up(fourth);
    rig.listed = 3;
    rig_order(&rig, rig_leader(&rig) && rig_voters(rig_leader(&rig)) == 4, store_raft_ops.member_add(at->store, fourth->name, fourth->addr, true, &err));
    rig_propose(&rig, 30, 50);
    rig_until(&rig, rig_agree(&rig) && (fourth->role == SPUR_STORE_FOLLOWER || fourth->role == SPUR_STORE_LEADER));
    /* One of the first three goes, the leader too when it is its turn. */
    leader = rig_lead(&rig);
    other = leader == &rig.nodes[0] ? &rig.nodes[1] : &rig.nodes[0];
    rig_order(&rig, rig_leader(&rig) && rig_voters(rig_leader(&rig)) == 3, store_raft_ops.member_remove(at->store, other->name, &err));
    rig_down(other);
    rig_propose(&rig, 30, 50);
    rig_until(&rig, rig_agree(&rig));
    /* Who was removed stays outside with what it has, and disturbs nobody, until it is added again. */
    rig_up(other);
    rig_until(&rig, strstr(rig_status(other).change, "taken out of the group"));
    rig_propose(&rig, 10, 50);
    ck_assert_uint_eq(rig_voters(rig_lead(&rig)), 3);
    rig_order(&rig, rig_leader(&rig) && rig_voters(rig_leader(&rig)) == 4, store_raft_ops.member_add(at->store, other->name, other->addr, true, &err));
    rig_until(&rig, rig_agree(&rig));
    rig_fini(&rig);
}
END_TEST

START_TEST(the_leadership_goes_where_it_is_sent)
{
    struct spur_error err = { 0 };

    up(3);
    rig_propose(&rig, 30, 50);
    for (unsigned round = 0; round < 3; round++) {
        struct node *leader = rig_lead(&rig), *to = leader == &rig.nodes[round] ? &rig.nodes[(round + 1) % 3] : &rig.nodes[round], *at;

        rig_until(&rig, rig_agree(&rig));
        rig_order(&rig, rig_leader(&rig) == to, store_raft_ops.transfer(at->store, to->name, &err));
        rig_propose(&rig, 10, 50);
    }
    ck_assert_int_eq(store_raft_ops.transfer(rig_lead(&rig)->store, "nobody", &err), SPUR_ENOTFOUND);
    rig_until(&rig, rig_agree(&rig));
    rig_fini(&rig);
}
END_TEST

/* A member that is behind what the logs still have is filled by a snapshot, over several segments and a cut log. */
START_TEST(a_member_far_behind_gets_a_snapshot)
{
    struct spur_error err = { 0 };
    struct node *leader, *behind;

    rig_init(&rig, 3, 3);
    for (unsigned i = 0; i < 3; i++) {
        rig.nodes[i].segment_bytes = 1 * MIB;
        rig_up(&rig.nodes[i]);
    }
    leader = rig_lead(&rig);
    rig_propose(&rig, 20, 50);
    rig_until(&rig, rig_agree(&rig));
    behind = leader == &rig.nodes[0] ? &rig.nodes[1] : &rig.nodes[0];
    rig_down(behind);
    for (unsigned round = 0; round < 3; round++) {
        rig_propose(&rig, 40, 60000);
        for (unsigned i = 0; i < 3; i++) {
            struct node *n = &rig.nodes[i];
            uint64_t index = n->store ? rig_status(n).snapshot_index : 0;

            if (!n->store)
                continue;
            rig_until(&rig, rig_agree(&rig));
            rig_until(&rig, store_raft_ops.snapshot(n->store, &err) == 0);
            rig_until(&rig, rig_status(n).snapshot_index > index);
        }
    }
    rig_propose(&rig, 5, 50);
    rig_up(behind);
    rig_until(&rig, rig_agree(&rig));
    ck_assert_uint_eq(behind->installs, 1);
    rig_propose(&rig, 5, 50);
    rig_until(&rig, rig_agree(&rig));
    /* It starts again from what it was given. */
    rig_down(behind);
    rig_up(behind);
    rig_propose(&rig, 5, 50);
    rig_until(&rig, rig_agree(&rig));
    rig_wipe_running(&rig, behind);
    rig_until(&rig, rig_voters(rig_lead(&rig)) == 3 && rig_agree(&rig));
    rig_fini(&rig);
}
END_TEST

/* The connection breaks in the middle of a snapshot: the rest follows, and it is installed once. */
static bool rig_is_installing(struct rig *r)
{
    struct node *n = rig_leader(r);
    struct spur_store_member m;

    for (uint32_t i = 0; n && store_raft_ops.member(n->store, i, &m) == 0; i++)
        if (m.is_installing)
            return true;
    return false;
}

START_TEST(a_broken_transfer_goes_on)
{
    struct spur_error err = { 0 };
    struct node *leader, *behind;
    int64_t end;

    rig_init(&rig, 3, 3);
    for (unsigned i = 0; i < 3; i++) {
        rig.nodes[i].segment_bytes = 1 * MIB;
        rig.nodes[i].snapshot_rate = 1 * MIB;
        rig_up(&rig.nodes[i]);
    }
    leader = rig_lead(&rig);
    behind = leader == &rig.nodes[0] ? &rig.nodes[1] : &rig.nodes[0];
    rig_down(behind);
    for (unsigned round = 0; round < 3; round++) {
        rig_propose(&rig, 40, 60000);
        rig_until(&rig, rig_agree(&rig));
        for (unsigned i = 0; i < 3; i++) {
            struct node *n = &rig.nodes[i];
            uint64_t index = n->store ? rig_status(n).snapshot_index : 0;

            if (!n->store)
                continue;
            rig_until(&rig, store_raft_ops.snapshot(n->store, &err) == 0);
            rig_until(&rig, rig_status(n).snapshot_index > index);
        }
    }
    rig_up(behind);
    rig_until(&rig, rig_is_installing(&rig) || rig_agree(&rig));
    rig_cut(behind);
    end = boot_ms() + 1500;
    while (boot_ms() < end)
        rig_turn(&rig);
    rig_heal(behind);
    rig_until(&rig, rig_agree(&rig));
    ck_assert_uint_eq(behind->installs, 1);
    rig_propose(&rig, 5, 50);
    rig_until(&rig, rig_agree(&rig));
    rig_fini(&rig);
}
END_TEST

/* The usual pair of lines: one voter, one copy that can be made the leader by force. */
START_TEST(two_are_a_voter_and_a_copy)
{
    struct spur_error err = { 0 };
    struct node *a, *b;

    up(2);
    a = &rig.nodes[0];
    b = &rig.nodes[1];
    ck_assert_ptr_eq(rig_lead(&rig), a);
    rig_propose(&rig, 30, 50);
    rig_until(&rig, rig_agree(&rig) && b->role == SPUR_STORE_LEARNER);
    rig_until(&rig, rig_voters(a) == 1);
    rig_down(b);
    rig_propose(&rig, 10, 50);                  /* the first goes on alone */
    rig_up(b);
    rig_until(&rig, rig_agree(&rig));
    rig_until(&rig, rig_status(b).has_leader);
    ck_assert_int_eq(store_raft_ops.promote_force(b->store, &err), SPUR_EBUSY);
    rig_down(a);
    rig_until(&rig, !rig_status(b).has_leader);
    ck_assert_msg(store_raft_ops.promote_force(b->store, &err) == 0, "%s", err.text);
    rig_until(&rig, rig_leader(&rig) == b);
    rig_propose(&rig, 10, 50);
    /* What the first still has is another history: it is refused until its folder is moved away, then it is a member again. */
    rig_up(a);
    rig_until(&rig, a->role == SPUR_STORE_FAILED);
    ck_assert_msg(strstr(a->failed.text, "promoted by force"), "%s", a->failed.text);
    rig_until(&rig, rig_status(b).member_count == 1);
    rig_down(a);
    ck_assert_int_eq(rig_open(a, &err), SPUR_ESTALE);
    rig_wipe(a);
    rig_up(a);
    rig_until(&rig, rig_status(b).member_count == 2 && rig_agree(&rig));
    rig_propose(&rig, 10, 50);
    rig_until(&rig, rig_agree(&rig));
    rig_fini(&rig);
}
END_TEST

/* A third host beside the usual pair gives automatic fail-over: the copy votes too from then on. */
START_TEST(a_pair_becomes_three)
{
    struct node *old;

    rig_init(&rig, 3, 2);
    for (unsigned i = 0; i < 2; i++)
        rig_up(&rig.nodes[i]);
    rig_lead(&rig);
    rig_propose(&rig, 20, 50);
    rig_until(&rig, rig_agree(&rig));
    for (unsigned i = 0; i < 2; i++)
        rig_down(&rig.nodes[i]);
    rig.listed = 3;
    for (unsigned i = 0; i < 3; i++)
        rig_up(&rig.nodes[i]);
    rig_until(&rig, rig_voters(rig_lead(&rig)) == 3 && rig_agree(&rig));
    old = rig_lead(&rig);
    rig_cut(old);
    ck_assert_ptr_ne(rig_lead(&rig), old);
    rig_propose(&rig, 20, 50);
    rig_heal(old);
    rig_until(&rig, rig_agree(&rig));
    rig_fini(&rig);
}
END_TEST

START_TEST(one_founds_alone_and_grows)
{
    struct node *a, *b, *c;

    rig_init(&rig, 3, 1);
    a = &rig.nodes[0];
    b = &rig.nodes[1];
    c = &rig.nodes[2];
    rig_up(a);
    rig_lead(&rig);
    rig_propose(&rig, 30, 50);
    rig_down(a);
    rig.listed = 3;                             /* two more lines, and a restart */
    rig_up(a);
    rig_lead(&rig);
    rig_propose(&rig, 10, 50);
    rig_up(b);
    rig_up(c);
    rig_until(&rig, rig_voters(rig_lead(&rig)) == 3 && rig_agree(&rig));
    rig_propose(&rig, 10, 50);
    rig_until(&rig, rig_agree(&rig));
    rig_fini(&rig);
}
END_TEST

START_TEST(a_folder_of_a_single_controller_is_taken_over)
{
    struct local_config config = { .segment_bytes = 1 * MIB, .snapshot_bytes = 256 * MIB, .is_synced = true };
    extern const struct spur_plugin spur_plugin_store_local;
    struct spur_error err = { 0 };
    struct node *a;
    uint64_t hash;
    void *local;

    rig_init(&rig, 3, 1);
    a = &rig.nodes[0];
    config.path = a->folder;
    ck_assert_int_eq(local_create(&a->host, &config, &local, &err), 0);
    for (unsigned round = 0; round < 3; round++) {
        a->hash = a->count = a->index = 0;
        memset(a->seen, 0, sizeof a->seen);
        ck_assert_msg(local_ops.start(local, &a->events, &err) == 0, "%s", err.text);
        rig_until(&rig, a->role == SPUR_STORE_LEADER);
        a->role = SPUR_STORE_STARTING;
        for (unsigned i = 0; i < 40; i++) {
            unsigned char data[40000] = { 0 };
            unsigned number = (unsigned)rig.next++;

            memcpy(data, &number, sizeof number);
            while (local_ops.propose(local, data, sizeof data, (void *)(uintptr_t)number, &err) < 0)
                rig_turn(&rig);
        }
        rig_until(&rig, a->count == (round + 1) * 40);
        if (round == 1) {
            ck_assert_int_eq(local_ops.snapshot(local, &err), 0);
            rig_turn(&rig);
        }
        local_ops.stop(local);
    }
    spur_plugin_store_local.close(local);
    hash = a->hash;
    rig.listed = 3;
    a->segment_bytes = 1 * MIB;
    rig_up(a);
    ck_assert_uint_eq(a->hash, hash);
    ck_assert_uint_eq(a->count, 120);
    rig_lead(&rig);
    rig_propose(&rig, 5, 50);
    rig_down(a);
    /* There is no way back but by this word. */
    ck_assert_int_eq(local_create(&a->host, &config, &local, &err), 0);
    ck_assert_int_eq(local_ops.start(local, &a->events, &err), SPUR_EUNSUPPORTED);
    ck_assert_msg(strstr(err.text, "store/raft"), "%s", err.text);
    spur_plugin_store_local.close(local);
    rig_up(a);
    rig_lead(&rig);
    for (unsigned i = 1; i < 3; i++)
        rig_up(&rig.nodes[i]);
    rig_until(&rig, rig_voters(rig_lead(&rig)) == 3 && rig_agree(&rig));
    rig_fini(&rig);
}
END_TEST

START_TEST(a_folder_belongs_to_one)
{
    struct spur_error err = { 0 };
    struct node *a, *b;
    char own[64];

    rig_init(&rig, 2, 1);
    a = &rig.nodes[0];
    b = &rig.nodes[1];
    rig_up(a);
    rig_lead(&rig);
    memcpy(own, b->folder, sizeof own);
    memcpy(b->folder, a->folder, sizeof own);
    ck_assert_int_eq(rig_open(b, &err), SPUR_EBUSY);
    ck_assert_msg(strstr(err.text, "in use"), "%s", err.text);
    memcpy(b->folder, own, sizeof own);
    rig_fini(&rig);
}
END_TEST

/* A flipped byte in what was acknowledged. */
static void rot(struct node *n, const char *file, off_t at)
{
    char path[200];
    uint8_t byte;
    int fd;

    snprintf(path, sizeof path, "%s/%s", n->folder, file);
    fd = open(path, O_RDWR);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
    byte ^= 0x10;
    ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

START_TEST(rot_is_named_and_the_member_filled_again)
{
    struct node *n;

    up(3);
    rig_lead(&rig);
    rig_propose(&rig, 100, 200);
    rig_until(&rig, rig_agree(&rig));
    for (unsigned round = 0; round < 2; round++) {
        n = &rig.nodes[round];
        rig_down(n);
        if (round) {
            rot(n, "superblock", 100);
            rot(n, "superblock", 4096 + 100);
        } else {
            rot(n, "log-0000000000000001", 4096 + 5000);
        }
        rig_up(n);
        ck_assert_msg(rig_logged(n, round ? "superblock: both copies are damaged" : "log-0000000000000001: damaged at offset"), "%s", rig_logs(&rig));
        ck_assert(rig_logged(n, "does not vote"));
        rig_propose(&rig, 10, 50);
        rig_until(&rig, rig_voters(rig_lead(&rig)) == 3 && rig_status(rig_lead(&rig)).member_count == 3 && rig_agree(&rig));
        rig_forget_log(n);
    }
    rig_fini(&rig);
}
END_TEST

START_TEST(rot_of_a_lone_controller_is_refused)
{
    struct spur_error err = { 0 };
    struct node *n;

    rig_init(&rig, 1, 1);
    n = &rig.nodes[0];
    rig_up(n);
    rig_lead(&rig);
    rig_propose(&rig, 100, 200);
    rig_down(n);
    rot(n, "log-0000000000000001", 4096 + 5000);
    ck_assert_int_eq(rig_open(n, &err), SPUR_ECORRUPT);
    ck_assert_msg(strstr(err.text, "log-0000000000000001: damaged at offset") && strstr(err.text, "recover_at"), "%s", err.text);
    rig_fini(&rig);
}
END_TEST

/* A loop that does not turn is no reason to lose the leadership for a moment, and one to give it up when it lasts. */
START_TEST(a_leader_whose_loop_stands_gives_up)
{
    struct node *old;

    up(3);
    old = rig_lead(&rig);
    rig_propose(&rig, 20, 50);
    old->is_standing = true;
    rig_until(&rig, rig_leader(&rig) != NULL && rig_leader(&rig) != old);
    old->is_standing = false;
    rig_propose(&rig, 20, 50);
    rig_until(&rig, rig_agree(&rig));
    rig_fini(&rig);
}
END_TEST

/* The disk does not confirm a flush: the member ends, the others go on. */
static atomic_int sync_fails;

static int failing_sync(void *arg, int fd, const char *name)
{
    (void)arg;
    if (atomic_load(&sync_fails) && strncmp(name, "log-", 4) == 0)
        return -EIO;
    return wal_io_system.fdatasync(NULL, fd, name);
}

START_TEST(a_disk_that_does_not_confirm_ends_the_member)
{
    struct wal_io io = wal_io_system;
    struct node *old;

    io.fdatasync = failing_sync;
    rig_init(&rig, 3, 3);
    for (unsigned i = 0; i < 3; i++)
        rig_up(&rig.nodes[i]);
    old = rig_lead(&rig);
    rig_down(old);
    old->io = &io;
    rig_up(old);
    rig_propose(&rig, 20, 50);
    rig_until(&rig, rig_agree(&rig));
    atomic_store(&sync_fails, 1);
    rig_propose(&rig, 20, 50);
    rig_until(&rig, old->role == SPUR_STORE_FAILED);
    ck_assert_msg(strstr(old->failed.text, "did not confirm"), "%s", old->failed.text);
    ck_assert_int_eq(rig_status(old).role, SPUR_STORE_FAILED);
    atomic_store(&sync_fails, 0);
    rig_down(old);
    rig_up(old);
    rig_propose(&rig, 20, 50);
    rig_until(&rig, rig_agree(&rig));
    rig_fini(&rig);
}
END_TEST

/* A disk much slower than the others' disks: the leadership goes there. */
static atomic_int is_disk_slow;

static int slow_sync(void *arg, int fd, const char *name)
{
    struct timespec pause = { .tv_nsec = 150000000 };

    (void)arg;
    if (atomic_load(&is_disk_slow))
        nanosleep(&pause, NULL);
    return wal_io_system.fdatasync(NULL, fd, name);
}

START_TEST(a_leader_with_a_slow_disk_hands_over)
{
    struct wal_io io = wal_io_system;
    struct spur_error err;
    struct node *old;
    struct node *at;

    io.fdatasync = slow_sync;
    rig_init(&rig, 3, 3);
    for (unsigned i = 0; i < 3; i++)
        rig_up(&rig.nodes[i]);
    old = rig_lead(&rig);
    rig_down(old);
    old->io = &io;
    old->may_leave_slow_disk = true;
    rig_up(old);
    rig_until(&rig, rig_agree(&rig) && rig_voters(rig_lead(&rig)) == 3);
    rig_order(&rig, rig_leader(&rig) == old, store_raft_ops.transfer(at->store, old->name, &err));
    atomic_store(&is_disk_slow, 1);
    /* Entries, one a turn, until the others are seen to be faster for two seconds. */
    rig_until(&rig, (rig_leader(&rig) && rig_leader(&rig) != old) || (rig_leader(&rig) && (store_raft_ops.propose(old->store, "x", 1, &err, &err), false)));
    atomic_store(&is_disk_slow, 0);
    rig_propose(&rig, 10, 50);
    rig_until(&rig, rig_agree(&rig));
    rig_fini(&rig);
}
END_TEST

/* No room for the next segment: the leader hands over, and comes back by itself when there is some. */
static atomic_int is_disk_full;

static int full_allocate(void *arg, int fd, const char *name, uint64_t size)
{
    (void)arg;
    return atomic_load(&is_disk_full) ? -ENOSPC : wal_io_system.allocate(NULL, fd, name, size);
}

START_TEST(a_full_disk_hands_over_and_comes_back)
{
    struct wal_io io = wal_io_system;
    struct node *old;

    io.allocate = full_allocate;
    rig_init(&rig, 3, 3);
    for (unsigned i = 0; i < 3; i++) {
        rig.nodes[i].segment_bytes = 1 * MIB;
        rig_up(&rig.nodes[i]);
    }
    old = rig_lead(&rig);
    rig_down(old);
    old->io = &io;
    rig_up(old);
    rig_propose(&rig, 5, 50);
    rig_until(&rig, rig_agree(&rig));
    atomic_store(&is_disk_full, 1);
    rig_propose(&rig, 100, 60000);              /* six segments; it has room for three at most */
    rig_until(&rig, rig_logged(old, "no space"));
    rig_until(&rig, rig_leader(&rig) && rig_leader(&rig) != old);
    atomic_store(&is_disk_full, 0);
    rig_until(&rig, rig_agree(&rig));
    rig_propose(&rig, 5, 50);
    rig_until(&rig, rig_agree(&rig));
    rig_fini(&rig);
}
END_TEST

/* A lone member with a full disk refuses in words, keeps what it took, and goes on by itself. */
START_TEST(a_lone_member_with_a_full_disk_refuses)
{
    struct spur_error err = { 0 };
    struct wal_io io = wal_io_system;
    struct node *n;
    char data[50000] = { 0 };
    unsigned number, asked = 0;
    int rc = 0;

    io.allocate = full_allocate;
    rig_init(&rig, 1, 1);
    n = &rig.nodes[0];
    n->segment_bytes = 1 * MIB;
    n->io = &io;
    rig_up(n);
    rig_lead(&rig);
    atomic_store(&is_disk_full, 1);
    for (; asked < 200 && rc != SPUR_ENOSPACE; rig_turn(&rig)) {
        number = (unsigned)rig.next;
        memcpy(data, &number, sizeof number);
        if ((rc = store_raft_ops.propose(n->store, data, sizeof data, (void *)(uintptr_t)number, &err)) == 0) {
            rig.next++;
            asked++;
        }
    }
    ck_assert_msg(rc == SPUR_ENOSPACE && strstr(err.text, "space"), "%d after %u: %s", rc, asked, err.text);
    rig_until(&rig, rig.answers == asked);
    ck_assert_uint_eq(rig.failures, 0);
    atomic_store(&is_disk_full, 0);
    rig_until(&rig, store_raft_ops.propose(n->store, "x", 1, &err, &err) == 0);
    rig_down(n);
    rig_up(n);
    rig_lead(&rig);
    ck_assert_uint_eq(n->count, asked + 1);
    rig_fini(&rig);
}
END_TEST

/* Strangers: wrong role, bytes that are none of ours, a connection that says nothing. */
START_TEST(strangers_are_refused)
{
    struct node *a, *stranger;

    rig_init(&rig, 2, 2);
    a = &rig.nodes[0];
    stranger = &rig.nodes[1];
    rig_up(a);
    snprintf(stranger->name, sizeof stranger->name, "node7");       /* proves itself as a compute node */
    rig.listed = 2;
    rig_up(stranger);
    rig_until(&rig, rig_logged(a, "no controller"));
    ck_assert(a->role != SPUR_STORE_LEADER);
    rig_down(stranger);
    rig_fini(&rig);
}
END_TEST

/* ---- what a controller with a good key, or somebody without one, may try on the wire ---- */

static int connect_to(struct node *n)
{
    struct sockaddr_in a = { .sin_family = AF_INET };
    char addr[64], *port;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    snprintf(addr, sizeof addr, "%s", n->addr);
    port = strchr(addr, ':');
    *port++ = '\0';
    inet_pton(AF_INET, addr, &a.sin_addr);
    a.sin_port = htons((uint16_t)atoi(port));
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

static int meet_as(struct node *as, int fd, struct spur_channel **out, struct spur_error *err)
{
    struct spur_identity who = { .size = sizeof who };

    fcntl(fd, F_SETFL, O_NONBLOCK);
    return as->channels.meet(as->channels.ctx, fd, true, "store/raft", boot_ms() + 5000, out, &who, err);
}

static void say(struct node *as, int fd, struct spur_channel *c, uint16_t type, const void *data, size_t n, unsigned times)
{
    struct spur_error err;
    const void *out;
    size_t len;

    ck_assert_int_eq(as->channels.send(c, type, data, n, &err), 0);
    len = as->channels.output(c, &out);
    for (unsigned i = 0; i < times; i++)
        ck_assert_int_eq(send(fd, out, len, MSG_NOSIGNAL), (ssize_t)len);
    as->channels.written(c, len);
}

START_TEST(bad_peers_are_refused)
{
    struct node *leader, *other, *us;
    struct spur_channel *c;
    struct spur_error err = { 0 };
    struct hello h = { .protocol = RAFT_PROTOCOL, .line = LINE_CONTROL, .member = 4711, .group = 99, .name = "c4" };
    uint8_t *packed, junk[3000];
    size_t n;
    int fd;

    rig_init(&rig, 4, 3);
    us = &rig.nodes[3];
    for (unsigned i = 0; i < 3; i++)
        rig_up(&rig.nodes[i]);
    leader = rig_lead(&rig);
    rig_propose(&rig, 20, 50);
    memset(junk, 0x55, sizeof junk);
    /* Bytes that are none of ours. */
    fd = connect_to(leader);
    ck_assert_int_eq(send(fd, junk, sizeof junk, MSG_NOSIGNAL), (ssize_t)sizeof junk);
    rig_until(&rig, rig_logged(leader, "no greeting of spur"));
    close(fd);
    /* Another cluster: of two lines of one kind in a minute one is said, so another member hears it. */
    other = leader == &rig.nodes[0] ? &rig.nodes[1] : &rig.nodes[0];
    peers_destroy(us->peers);
    us->peers = peers_create("another");
    rig_auth(us);
    fd = connect_to(other);
    ck_assert_int_lt(meet_as(us, fd, &c, &err), 0);
    ck_assert_msg(strstr(err.text, "another cluster"), "%s", err.text);
    close(fd);
    peers_destroy(us->peers);
    us->peers = peers_create("test");
    rig_auth(us);
    /* A good key and another group. */
    fd = connect_to(leader);
    ck_assert_int_eq(meet_as(us, fd, &c, &err), 0);
    ck_assert_ptr_nonnull(packed = hello_pack(&h, &n));
    say(us, fd, c, FRAME_HELLO, packed, n, 1);
    rig_until(&rig, rig_logged(leader, "belongs to group 0000000000000063"));
    free(packed);
    us->channels.close(c);
    close(fd);
    /* The right group, then bytes that are no message; and a record that is said twice. */
    h.group = strtoull(rig_status(leader).group, NULL, 16);
    for (unsigned twice = 0; twice < 2; twice++) {
        fd = connect_to(leader);
        ck_assert_int_eq(meet_as(us, fd, &c, &err), 0);
        ck_assert_ptr_nonnull(packed = hello_pack(&h, &n));
        say(us, fd, c, FRAME_HELLO, packed, n, 1 + twice);
        if (!twice)
            say(us, fd, c, FRAME_MESSAGE, junk, sizeof junk, 1);
        rig_until(&rig, rig_logged(leader, twice ? "does not open" : "no message between controllers"));
        free(packed);
        us->channels.close(c);
        close(fd);
    }
    ck_assert_uint_eq(rig_status(leader).member_count, 3);
    rig_propose(&rig, 20, 50);
    rig_until(&rig, rig_agree(&rig));
    rig_fini(&rig);
}
END_TEST

static void barrier_done(void *arg, const struct spur_error *err) { *(int *)arg = err ? -1 : 1; }

START_TEST(reads_are_ordered_behind_what_was_committed)
{
    struct spur_error err;
    struct node *n;

    up(3);
    for (unsigned round = 0; round < 10; round++) {
        int done = 0;

        rig_propose(&rig, 10, 50);
        n = rig_lead(&rig);
        if (store_raft_ops.barrier(n->store, barrier_done, &done, &err) < 0)
            continue;
        rig_until(&rig, done != 0);
        if (done > 0)
            for (unsigned k = 1; k < rig.next; k++)
                ck_assert(n->seen[k]);
    }
    rig_fini(&rig);
}
END_TEST

static Suite *raft_suite(void)
{
    Suite *s = suite_create("store/raft");
    TCase *t = tcase_create("members");

    tcase_set_timeout(t, 180);
    tcase_add_test(t, three_found_elect_and_replicate);
    tcase_add_test(t, a_leader_that_stops_hands_over);
    tcase_add_test(t, all_stop_and_come_back);
    tcase_add_test(t, a_wiped_member_is_taken_in_again);
    tcase_add_test(t, a_leader_that_is_cut_off_loses_nothing);
    tcase_add_test(t, without_a_majority_nothing_is_taken);
    tcase_add_test(t, three_become_four_and_three_again);
    tcase_add_test(t, the_leadership_goes_where_it_is_sent);
    tcase_add_test(t, a_member_far_behind_gets_a_snapshot);
    tcase_add_test(t, a_broken_transfer_goes_on);
    tcase_add_test(t, two_are_a_voter_and_a_copy);
    tcase_add_test(t, a_pair_becomes_three);
    tcase_add_test(t, one_founds_alone_and_grows);
    tcase_add_test(t, a_folder_of_a_single_controller_is_taken_over);
    tcase_add_test(t, a_folder_belongs_to_one);
    tcase_add_test(t, rot_is_named_and_the_member_filled_again);
    tcase_add_test(t, rot_of_a_lone_controller_is_refused);
    tcase_add_test(t, a_leader_whose_loop_stands_gives_up);
    tcase_add_test(t, a_disk_that_does_not_confirm_ends_the_member);
    tcase_add_test(t, a_leader_with_a_slow_disk_hands_over);
    tcase_add_test(t, a_full_disk_hands_over_and_comes_back);
    tcase_add_test(t, a_lone_member_with_a_full_disk_refuses);
    tcase_add_test(t, strangers_are_refused);
    tcase_add_test(t, bad_peers_are_refused);
    tcase_add_test(t, reads_are_ordered_behind_what_was_committed);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    SRunner *r = srunner_create(raft_suite());
    int failed;

    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
