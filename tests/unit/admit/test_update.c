/* SPDX-License-Identifier: Apache-2.0 */
/* test_update.c - scontrol update: the same value gets the same verdict as at submit, and what only an update can do wrong. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "desk.h"

static const char conf[] = "GresTypes=gpu\nEnforcePartLimits=ALL\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nNodeName=n[1-4] CPUs=4 RealMemory=1000 Gres=gpu:2 Feature=fast\n"
    "NodeName=n5 CPUs=4\nPartitionName=p Nodes=n[1-4] Default=YES MaxTime=60 MaxNodes=3\nPartitionName=root Nodes=ALL RootOnly=YES\nPartitionName=ops Nodes=ALL AllowGroups=ops\nPartitionName=lab Nodes=ALL AllowGroups=lab\n";

static int update(struct desk *d, const char *ids, Wire__JobUpdateRequest__Verb verb, const char *key, const char *value)
{
    Wire__JobUpdateRequest r = WIRE__JOB_UPDATE_REQUEST__INIT;
    Wire__KeyValue *kv = arena_alloc(&d->r.arena, sizeof *kv), **set = arena_alloc(&d->r.arena, sizeof *set);

    wire__key_value__init(kv);
    kv->key = arena_copy(&d->r.arena, key);
    kv->value = arena_copy(&d->r.arena, value);
    *set = kv;
    r.ids = arena_copy(&d->r.arena, ids);
    r.verb = verb;
    r.set = set;
    r.n_set = key != NULL;
    d->out = (struct admitted){ 0 };
    d->err = (struct spur_error){ 0 };
    return desk_errno(d, admit_job_update(d->r.s, &r, &d->who, &d->facts, &d->r.arena, &d->out, &d->err));
}
static int set(struct desk *d, const char *ids, const char *key, const char *value) { return update(d, ids, WIRE__JOB_UPDATE_REQUEST__VERB__SET, key, value); }

/* Each value as an option of submit and as a keyword of update. */
static const struct { const char *wish, *key, *value; } twins[] = {
    { "time=60", "TimeLimit", "60" }, { "time=61", "TimeLimit", "61" }, { "time=0", "TimeLimit", "0" }, { "nodes=3", "NumNodes", "3" }, { "nodes=4", "NumNodes", "4" }, { "nodes=3-2", "NumNodes", "3-2" },
    { "part=root", "Partition", "root" }, { "part=ops", "Partition", "ops" }, { "part=lab", "Partition", "lab" }, { "part=nope", "Partition", "nope" }, { "part=p,root", "Partition", "p,root" },
    { "prio=5", "Priority", "5" }, { "prio=0", "Priority", "0" }, { "minus", "Nice", "-5" }, { "nice=10", "Nice", "10" }, { "feat=fast", "Features", "fast" }, { "feat=slow", "Features", "slow" },
    { "gres=gpu:1", "Gres", "gpu:1" }, { "gres=fpga:1", "Gres", "fpga:1" }, { "w=n1", "ReqNodeList", "n1" }, { "w=n5", "ReqNodeList", "n5" }, { "w=n9", "ReqNodeList", "n9" }, { "x=n9", "ExcNodeList", "n9" },
    { "dep=afterok:99999", "Dependency", "afterok:99999" }, { "dep=singleton", "Dependency", "singleton" }, { "lic=x", "Licenses", "x" }, { "resv=x", "ReservationName", "x" },
    { "tasks=0", "NumTasks", "0" }, { "cpus=70000", "CPUsPerTask", "70000" }, { "account=any", "Account", "any" }, { "qos=x", "QOS", "x" }, { "tpn=600", "TasksPerNode", "600" },
    /* Other names of the same, and the sign behind the name: what apply understands, admit has to judge. */
    { "time=61", "TimeLimit+", "1" }, { "minus", "Nice-", "5" }, { "tasks=0", "ReqProcs", "0" }, { "corespec", "CoreSpec", "1" }, { "gpus=gpu:1", "TresPerJob", "gpu:1" },
    { "gpus=fpga:1", "TresPerJob", "fpga:1" }, { "pertask=fpga:1", "TresPerTask", "fpga:1" },
    { "mail=END", "MailType", "END" }, { "mail=NONE", "MailType", "NONE" }, { "tresfreq=gpu:low", "TresFreq", "gpu:low" },
};

START_TEST(same_verdict)
{
    static const uint32_t users[] = { ALICE, BOB, 0, SLURM };
    struct desk d;

    for (size_t u = 0; u < sizeof users / sizeof users[0]; u++) {
        int as_submit, as_update, id;
        char text[16];

        desk_init(&d, conf);
        desk_as(&d, users[u]);
        id = desk_submit(&d, "hold");
        ck_assert_int_gt(id, 0);
        snprintf(text, sizeof text, "%d", id);
        as_submit = desk_submit(&d, twins[_i].wish);
        as_update = set(&d, text, twins[_i].key, twins[_i].value);
        ck_assert_msg((as_submit > 0 ? 0 : as_submit) == as_update, "%u %s: submit %d, update %d %s", users[u], twins[_i].wish, as_submit, as_update, d.err.text);
        if (as_update == 0)
            ck_assert_int_eq(desk_apply(&d), 0);
        desk_fini(&d);
    }
}
END_TEST

/* Two values at once: taken by an update when, and only when, a submit takes them both. */
START_TEST(same_verdict_in_pairs)
{
    static const uint32_t users[] = { ALICE, 0 };
    struct desk d;

    for (size_t u = 0; u < sizeof users / sizeof users[0]; u++)
        for (size_t k = 0; k < sizeof twins / sizeof twins[0]; k++) {
            Wire__JobUpdateRequest r = WIRE__JOB_UPDATE_REQUEST__INIT;
            Wire__KeyValue kv[2], *set[2] = { &kv[0], &kv[1] };
            int as_submit, as_update, id;
            char text[16], wish[128];

            if (!strncmp(twins[_i].key, twins[k].key, 4))       /* one thing twice */
                continue;
            desk_init(&d, conf);
            desk_as(&d, users[u]);
            id = desk_submit(&d, "hold");
            snprintf(text, sizeof text, "%d", id);
            snprintf(wish, sizeof wish, "%s %s", twins[_i].wish, twins[k].wish);
            as_submit = desk_submit(&d, wish);
            for (int n = 0; n < 2; n++) {
                wire__key_value__init(&kv[n]);
                kv[n].key = arena_copy(&d.r.arena, twins[n ? k : (size_t)_i].key);
                kv[n].value = arena_copy(&d.r.arena, twins[n ? k : (size_t)_i].value);
            }
            r.ids = text;
            r.set = set;
            r.n_set = 2;
            d.out = (struct admitted){ 0 };
            d.err = (struct spur_error){ 0 };
            as_update = desk_errno(&d, admit_job_update(d.r.s, &r, &d.who, &d.facts, &d.r.arena, &d.out, &d.err));
            ck_assert_msg((as_submit > 0) == (as_update == 0), "%u %s: submit %d, update %d %s", users[u], wish, as_submit, as_update, d.err.text);
            if (as_update == 0)
                ck_assert_int_eq(desk_apply(&d), 0);
            desk_fini(&d);
        }
}
END_TEST

/* What is left out, empty, or a word for "none" lifts no limit: not at submit, not by an update. */
START_TEST(nothing_left_out_lifts_a_limit)
{
    static const char *const wishes[] = { "", "time=0", "nopart", "nopart time=0", "nodes=1", "tasks=1 nopart" };
    static const char *const changes[][2] = { { "TimeLimit", "0" }, { "TimeLimit", "UNLIMITED" }, { "TimeLimit", "INFINITE" }, { "TimeLimit", "" }, { "TimeLimit", "-1" }, { "TimeLimit", "4294967295" },
        { "TimeLimit", "+4294967295" }, { "TimeLimit+", "61" }, { "Partition", "" }, { "NumNodes", "" }, { "NumNodes", "0" }, { "NumNodes", "1-" }, { "MinTime", "" }, { "QOS", "" }, { "Account", "" } };

    for (size_t w = 0; w < sizeof wishes / sizeof *wishes; w++) {
        struct desk d;
        char text[16];
        int id;

        desk_init(&d, conf);
        id = desk_submit(&d, wishes[w]);
        if (id > 0) {
            ck_assert_msg(state_job(d.r.s, (uint32_t)id)->time_limit_min <= 60, "'%s': %u minutes", wishes[w], state_job(d.r.s, (uint32_t)id)->time_limit_min);
            ck_assert_str_eq(state_job(d.r.s, (uint32_t)id)->partition, "p");
            snprintf(text, sizeof text, "%d", id);
            for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
                const struct job *j;

                if (set(&d, text, changes[i][0], changes[i][1]) == 0)
                    desk_apply(&d);
                j = state_job(d.r.s, (uint32_t)id);
                ck_assert_msg(j->time_limit_min <= 60 && j->min_nodes <= 3 && !strcmp(j->partition, "p"), "'%s', then %s=%s: %u minutes, %u nodes, %s", wishes[w], changes[i][0], changes[i][1],
                              j->time_limit_min, j->min_nodes, j->partition);
            }
        }
        desk_fini(&d);
    }
}
END_TEST

START_TEST(rights)
{
    struct desk d;

    desk_init(&d, conf);
    ck_assert_int_eq(desk_submit(&d, "hold time=10"), 1);
    desk_as(&d, BOB);
    ck_assert_int_eq(set(&d, "1", "Comment", "hello"), -2002);
    ck_assert_int_eq(update(&d, "1", WIRE__JOB_UPDATE_REQUEST__VERB__HOLD, NULL, NULL), -2002);
    ck_assert_int_eq(update(&d, "1", WIRE__JOB_UPDATE_REQUEST__VERB__REQUEUE, NULL, NULL), -2002);
    desk_as(&d, ALICE);
    ck_assert_int_eq(set(&d, "1", "Comment", "hello"), 0);
    ck_assert_int_eq(set(&d, "1", "AdminComment", "hello"), -2002);
    ck_assert_int_eq(update(&d, "1", WIRE__JOB_UPDATE_REQUEST__VERB__RELEASE, NULL, NULL), 0);
    ck_assert_int_eq(update(&d, "1", WIRE__JOB_UPDATE_REQUEST__VERB__SUSPEND, NULL, NULL), -2002);
    ck_assert_int_eq(set(&d, "9", "Comment", "x"), -2017);
    ck_assert_int_eq(set(&d, "", "Comment", "x"), -2017);
    ck_assert_int_eq(set(&d, "1,9", "Comment", "x"), -2017);
    ck_assert_uint_eq(d.out.op_count, 0);
    desk_as(&d, 0);
    ck_assert_int_eq(update(&d, "1", WIRE__JOB_UPDATE_REQUEST__VERB__HOLD, NULL, NULL), 0);
    ck_assert_int_eq(desk_apply(&d), 0);
    desk_as(&d, ALICE);
    ck_assert_int_eq(update(&d, "1", WIRE__JOB_UPDATE_REQUEST__VERB__RELEASE, NULL, NULL), -2002);     /* root has held it */
    ck_assert_int_eq(set(&d, "1", "Priority", "5"), -2002);
    desk_fini(&d);
}
END_TEST

START_TEST(of_a_running_job)
{
    struct desk d;

    desk_init(&d, conf);
    ck_assert_int_eq(desk_submit(&d, "time=10"), 1);
    rig_pass(&d.r);
    ck_assert_str_eq(rig_state(&d.r, 1), "RUNNING");
    ck_assert_int_eq(set(&d, "1", "TimeLimit", "5"), 0);
    ck_assert_int_eq(set(&d, "1", "TimeLimit", "11"), -2002);
    ck_assert_int_eq(set(&d, "1", "TimeLimit", "+5"), -2002);
    ck_assert_int_eq(set(&d, "1", "TimeLimit", "-5"), 0);
    desk_as(&d, 0);
    ck_assert_int_eq(set(&d, "1", "TimeLimit", "+5"), 0);
    ck_assert_int_eq(desk_apply(&d), 0);
    ck_assert_uint_eq(state_job(d.r.s, 1)->time_limit_min, 15);
    rig_end(&d.r, 1, 0);
    ck_assert_int_eq(set(&d, "1", "TimeLimit", "5"), -2021);
    ck_assert_int_eq(set(&d, "1", "AdminComment", "done"), 0);
    desk_fini(&d);
}
END_TEST

START_TEST(times_become_seconds)
{
    struct desk d;

    desk_init(&d, conf);
    ck_assert_int_eq(desk_submit(&d, "hold"), 1);
    ck_assert_int_eq(set(&d, "1", "StartTime", "now+60"), 0);
    ck_assert_int_eq(strtoll(d.out.ops[0]->update->set[0]->value, NULL, 10), d.facts.wall_ms / 1000 + 60);
    ck_assert_int_eq(desk_apply(&d), 0);
    ck_assert_int_eq(state_job(d.r.s, 1)->begin_wall_s, d.facts.wall_ms / 1000 + 60);
    ck_assert_int_eq(set(&d, "1", "StartTime", "yesterday"), -2054);
    desk_fini(&d);
}
END_TEST

START_TEST(circles)
{
    struct desk d;

    desk_init(&d, conf);
    ck_assert_int_eq(desk_submit(&d, "hold"), 1);
    ck_assert_int_eq(desk_submit(&d, "dep=afterok:1"), 2);
    ck_assert_int_eq(desk_submit(&d, "dep=afterok:2"), 3);
    ck_assert_int_eq(set(&d, "1", "Dependency", "afterok:1"), -2038);
    ck_assert_int_eq(set(&d, "1", "Dependency", "afterok:3"), -2071);
    desk_fini(&d);
}
END_TEST

Suite *update_suite(void);
Suite *update_suite(void)
{
    Suite *s = suite_create("admit/update");
    TCase *t = tcase_create("update");

    tcase_add_loop_test(t, same_verdict, 0, sizeof twins / sizeof twins[0]);
    tcase_add_loop_test(t, same_verdict_in_pairs, 0, sizeof twins / sizeof twins[0]);
    tcase_add_test(t, nothing_left_out_lifts_a_limit);
    tcase_add_test(t, rights);
    tcase_add_test(t, of_a_running_job);
    tcase_add_test(t, times_become_seconds);
    tcase_add_test(t, circles);
    suite_add_tcase(s, t);
    return s;
}
