/* SPDX-License-Identifier: Apache-2.0 */
/* test_het.c - heterogeneous jobs at the desk: each component is judged like a job, and what the names 12, 12+1 and 13 mean to scancel and scontrol. */
#include <check.h>
#include <string.h>

#include "base/str.h"
#include "desk.h"

static const char conf[] = "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nEnforcePartLimits=ALL\nNodeName=n[1-4] CPUs=4 RealMemory=1000\nPartitionName=p Nodes=ALL Default=YES MaxTime=100\n"
    "PartitionName=q Nodes=n1 MaxNodes=1\n";
static const char whole_conf[] = "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nSchedulerParameters=whole_hetjob\nNodeName=n[1-4] CPUs=4\nPartitionName=p Nodes=ALL Default=YES\n";

static int submit(struct desk *d, const char *first, const char *second, const char *never)
{
    Wire__SubmitRequest r = WIRE__SUBMIT_REQUEST__INIT;
    Wire__JobSpec spec, more, *list[] = { &more };
    Wire__Blob script = WIRE__BLOB__INIT, *blobs[1] = { &script };
    const char **nevers = arena_alloc(&d->r.arena, sizeof *nevers);
    uint8_t *token = arena_alloc(&d->r.arena, 16), *hash = arena_alloc(&d->r.arena, 32);     /* what is admitted points to them */

    token[0] = 7;
    *nevers = never;
    rig_spec(&d->r, &spec, first);
    rig_spec(&d->r, &more, second);
    spec.work_dir = arena_copy(&d->r.arena, "/home");
    spec.has_script_hash = more.has_script_hash = true;
    spec.script_hash = more.script_hash = (ProtobufCBinaryData){ 32, hash };
    script.hash = spec.script_hash;
    script.data = (ProtobufCBinaryData){ 10, (uint8_t *)arena_copy(&d->r.arena, "#!/bin/sh\n") };
    r.blobs = blobs;
    r.n_blobs = 1;
    r.spec = &spec;
    r.het = list;
    r.n_het = 1;
    r.token = (ProtobufCBinaryData){ 16, token };
    r.token_wall_ms = d->facts.wall_ms;
    d->facts.het_never = nevers;
    d->out = (struct admitted){ 0 };
    d->err = (struct spur_error){ 0 };
    return admit_submit(d->r.s, &r, &d->who, &d->facts, &d->r.arena, &d->out, &d->err);
}

START_TEST(each_component_is_judged)
{
    static const struct { const char *first, *second, *never; int number; const char *why; } rows[] = {
        { "tasks=1", "tasks=2 nodes=2", NULL, 0, NULL }, { "tasks=1", "tasks=1 part=nowhere", NULL, 2000, "component 1" }, { "tasks=1", "tasks=1 time=1000", NULL, 2051, "component 1" },
        { "tasks=1", "nodes=2 part=q", NULL, 2006, "component 1" }, { "tasks=1", "tasks=1", "no cluster holds that", 2014, "no cluster holds that" },
        { "tasks=1 array=0-3", "tasks=1", NULL, 2081, "arrays" }, { "tasks=1", "tasks=1 array=0-3", NULL, 2081, "arrays" }, { "tasks=1", "tasks=1 dep=singleton", NULL, 2038, "first component" },
        { "tasks=1 dep=singleton", "tasks=1 dep=singleton", NULL, 0, NULL }, { "tasks=1 topo", "tasks=1", NULL, 2036, "topo" }, { "tasks=1", "tasks=1 dep=afterok:99", NULL, 2038, "component 1" } };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct desk d;
        int rc;

        desk_init(&d, conf);
        rc = submit(&d, rows[i].first, rows[i].second, rows[i].never);
        ck_assert_msg((rc < 0 ? d.out.slurm_errno : 0) == rows[i].number, "row %zu: %d %s", i, d.out.slurm_errno, d.err.text);
        if (rows[i].why)
            ck_assert_msg(strstr(d.err.text, rows[i].why), "row %zu: %s", i, d.err.text);
        if (rc == 0) {
            ck_assert_uint_eq(d.out.op_count, 1);
            ck_assert_uint_eq(d.out.ops[0]->submit->n_het, 1);
            ck_assert(!d.out.ops[0]->submit->het[0]->is_batch && !d.out.ops[0]->submit->het[0]->has_script_hash);
            ck_assert_str_eq(d.out.ops[0]->submit->het[0]->partition, "p");
            ck_assert_int_eq(desk_apply(&d), 0);
            ck_assert_uint_eq(table_count(&d.r.s->jobs), 2);
        }
        desk_fini(&d);
    }
}
END_TEST

/* Jobs: 1+0 and 1+1 (that is 2) held, 3+0, 3+1, 3+2 running. */
static void stage(struct desk *d, const char *text)
{
    desk_init(d, text);
    ck_assert_uint_eq(rig_submit_het(&d->r, 2, (const char *const[]){ "tasks=1 hold name=a", "tasks=1 name=a" }), 1);
    ck_assert_uint_eq(rig_submit_het(&d->r, 3, (const char *const[]){ "tasks=1 name=b", "tasks=1 name=b", "tasks=1 name=b" }), 3);
    rig_pass(&d->r);
    ck_assert_str_eq(rig_state(&d->r, 5), "RUNNING");
}

/* "4": job 4; "3!": its first component alone. */
static void ops_print(const struct desk *d, struct str *out)
{
    for (size_t i = 0; i < d->out.op_count; i++) {
        const Wire__Op *op = d->out.ops[i];

        if (op->cancel)
            str_addf(out, "%s%u%s", i ? " " : "", op->cancel->job_id, op->cancel->het_alone ? "!" : "");
        else
            str_addf(out, "%s%u%s", i ? " " : "", op->update->job_id, op->update->het_alone ? "!" : "");
    }
}

static void cancel(struct desk *d, const char *id, const char *user, Wire__DoneReply *reply)
{
    Wire__CancelRequest r = WIRE__CANCEL_REQUEST__INIT;
    char *ids[] = { (char *)id }, *users[] = { (char *)user };

    wire__done_reply__init(reply);
    r.ids = ids;
    r.n_ids = id != NULL;
    r.users = users;
    r.n_users = user != NULL;
    d->out = (struct admitted){ 0 };
    ck_assert_int_eq(admit_cancel(d->r.s, &r, &d->who, &d->facts, &d->r.arena, &d->out, reply, &d->err), 0);
}

START_TEST(names_of_scancel)
{
    static const struct { const char *conf, *id, *user, *ops; int answer, applied; } rows[] = {
        { conf, "1", NULL, "1", 0, 0 }, { conf, "1+1", NULL, "2!", 0, SPUR_EINVAL }, { conf, "2", NULL, "2", 0, SPUR_EINVAL }, { conf, "1+0", NULL, "1!", 0, SPUR_EINVAL },
        { conf, "1+2", NULL, "", SPUR_ENOTFOUND, 0 }, { conf, "2+0", NULL, "", SPUR_ENOTFOUND, 0 }, { conf, "3+1", NULL, "4!", 0, 0 }, { conf, "4", NULL, "4", 0, 0 }, { conf, "3", NULL, "3", 0, 0 },
        { conf, NULL, "alice", "1 3", 0, 0 }, { whole_conf, "2", NULL, "1", 0, 0 }, { whole_conf, "4", NULL, "3", 0, 0 }, { whole_conf, "3+1", NULL, "4!", 0, 0 }, { conf, "3+1.0", NULL, "", SPUR_ESTALE, 0 } };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Wire__DoneReply reply;
        struct desk d;
        struct str text;

        stage(&d, rows[i].conf);
        cancel(&d, rows[i].id, rows[i].user, &reply);
        str_init(&text);
        ops_print(&d, &text);
        ck_assert_msg(strcmp(text.text, rows[i].ops) == 0, "row %zu: %s", i, text.text);
        if (rows[i].id)
            ck_assert_int_eq(reply.results[0]->code, rows[i].answer);
        ck_assert_int_eq(desk_apply(&d), rows[i].applied);
        str_fini(&text);
        desk_fini(&d);
    }
}
END_TEST

START_TEST(names_of_scontrol)
{
    enum { HOLD = WIRE__JOB_UPDATE_REQUEST__VERB__HOLD, SET = WIRE__JOB_UPDATE_REQUEST__VERB__SET, REQUEUE = WIRE__JOB_UPDATE_REQUEST__VERB__REQUEUE };
    static const struct { const char *conf, *ids; int verb; const char *ops; int applied; } rows[] = {
        { conf, "1", HOLD, "1", 0 }, { conf, "1+1", HOLD, "2!", 0 }, { conf, "2", HOLD, "2", 0 }, { whole_conf, "2", HOLD, "1", 0 }, { whole_conf, "1+1", HOLD, "2!", 0 }, { conf, "1+0", SET, "1!", 0 },
        { conf, "1", SET, "1", 0 }, { conf, "3", REQUEUE, "3", 0 }, { conf, "3+1", REQUEUE, "4!", SPUR_EINVAL }, { conf, "5", REQUEUE, "5", SPUR_EINVAL }, { conf, "3+7", HOLD, NULL, 0 } };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Wire__JobUpdateRequest r = WIRE__JOB_UPDATE_REQUEST__INIT;
        Wire__KeyValue kv = WIRE__KEY_VALUE__INIT, *set = &kv;
        struct desk d;
        struct str text;
        int rc;

        stage(&d, rows[i].conf);
        kv.key = (char *)"Comment";
        kv.value = (char *)"x";
        r.ids = (char *)rows[i].ids;
        r.verb = (Wire__JobUpdateRequest__Verb)rows[i].verb;
        r.set = &set;
        r.n_set = rows[i].verb == SET;
        d.out = (struct admitted){ 0 };
        rc = admit_job_update(d.r.s, &r, &d.who, &d.facts, &d.r.arena, &d.out, &d.err);
        ck_assert_msg((rc == 0) == (rows[i].ops != NULL), "row %zu: %s", i, d.err.text);
        str_init(&text);
        ops_print(&d, &text);
        ck_assert_msg(!rows[i].ops || strcmp(text.text, rows[i].ops) == 0, "row %zu: %s", i, text.text);
        if (rc == 0)
            ck_assert_int_eq(desk_apply(&d), rows[i].applied);
        str_fini(&text);
        desk_fini(&d);
    }
}
END_TEST

Suite *het_suite(void);
Suite *het_suite(void)
{
    Suite *s = suite_create("admit/het");
    TCase *t = tcase_create("het");

    tcase_add_test(t, each_component_is_judged);
    tcase_add_test(t, names_of_scancel);
    tcase_add_test(t, names_of_scontrol);
    suite_add_tcase(s, t);
    return s;
}
