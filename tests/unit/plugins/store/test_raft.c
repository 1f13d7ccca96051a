/* SPDX-License-Identifier: Apache-2.0 */
/* test_raft.c - store/raft with several members in one process: found, elect, replicate, lose, come back, change.
 *
 * What is acknowledged is there on every member afterwards, once, and all states are the same; where a test waits, it polls with a deadline that
 * a slow machine keeps. Kills and power cuts of whole processes are the integration tests', the algorithm's odd cases the simulator's.
 */
#include "raft_rig.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixture.h"

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

static Suite *raft_suite(void)
{
    Suite *s = suite_create("store/raft");
    TCase *t = tcase_create("members");

    tcase_set_timeout(t, 180);
    tcase_add_test(t, three_found_elect_and_replicate);
    tcase_add_test(t, a_leader_that_stops_hands_over);
    tcase_add_test(t, all_stop_and_come_back);
    tcase_add_test(t, a_wiped_member_is_taken_in_again);
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
