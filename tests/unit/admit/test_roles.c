/* SPDX-License-Identifier: Apache-2.0 */
/* test_roles.c - users, coordinators, operators, administrators: what each may do to his own jobs, to others' and to those that are not there.
 *
 * The matrix is made from three lists (message, asker, object) and one rule that is written down here once more by hand: so a slip in admit shows, and so
 * does a difference between "not yours" and "not there" where others' jobs are private (SA-01, SA-04).
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "desk.h"

#define OPER  1002u
#define COORD 1003u         /* of account bio */
#define ADMIN 1004u

static const char conf[] = "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nNodeName=n[1-2] CPUs=4\nPartitionName=p Nodes=ALL Default=YES\n";

static void setting(struct desk *d, enum config_setting k, const char *text)
{
    free(d->r.s->config->settings[k].text);
    d->r.s->config->settings[k].text = text ? strdup(text) : NULL;
}

/* Jobs: 1 alice's, 2 bob's of account bio, 3 bob's of account chem; all held. 99 is not there. */
static void stage(struct desk *d, const char *more)
{
    char text[1024];

    snprintf(text, sizeof text, "%s%s", more, conf);
    desk_init(d, text);
    setting(d, SETTING_operators, " 7 , 1002");
    setting(d, SETTING_admins, "1004");
    setting(d, SETTING_coordinators, "Bio:1003,phys:1000");
    ck_assert_int_eq(desk_submit(d, "tasks=1 hold"), 1);
    desk_as(d, BOB);
    ck_assert_int_eq(desk_submit(d, "tasks=1 hold account=bio"), 2);
    ck_assert_int_eq(desk_submit(d, "tasks=1 hold account=chem"), 3);
}

enum verdict { DONE, DENIED, UNKNOWN };

static enum verdict verdict_of(struct desk *d, int rc)
{
    return rc == 0 ? DONE : d->out.slurm_errno == 2017 ? UNKNOWN : DENIED;
}

static enum verdict cancel(struct desk *d, const char *id)
{
    Wire__CancelRequest r = WIRE__CANCEL_REQUEST__INIT;
    Wire__DoneReply reply = WIRE__DONE_REPLY__INIT;
    char *ids[] = { (char *)(uintptr_t)id };
    int rc;

    r.ids = ids;
    r.n_ids = 1;
    d->out = (struct admitted){ 0 };
    d->err = (struct spur_error){ 0 };
    rc = admit_cancel(d->r.s, &r, &d->who, &d->facts, &d->r.arena, &d->out, &reply, &d->err);
    if (rc == 0 && d->out.op_count == 0)        /* an answer for each id */
        return reply.n_results == 1 && strstr(reply.results[0]->text ? reply.results[0]->text : "", "nvalid job id") ? UNKNOWN : DENIED;
    return verdict_of(d, rc);
}

static enum verdict update(struct desk *d, const char *id)
{
    Wire__JobUpdateRequest r = WIRE__JOB_UPDATE_REQUEST__INIT;
    Wire__KeyValue value = WIRE__KEY_VALUE__INIT, *row = &value;

    value.key = (char *)(uintptr_t)"Comment";
    value.value = (char *)(uintptr_t)"x";
    r.ids = (char *)(uintptr_t)id;
    r.set = &row;
    r.n_set = 1;
    d->out = (struct admitted){ 0 };
    d->err = (struct spur_error){ 0 };
    return verdict_of(d, admit_job_update(d->r.s, &r, &d->who, &d->facts, &d->r.arena, &d->out, &d->err));
}

static enum verdict see(struct desk *d, const char *id)
{
    const struct job *j = state_job(d->r.s, (uint32_t)atoi(id));

    return j && admit_sees_job(d->r.s, j, &d->who, admit_rank(d->r.s, &d->who)) ? DONE : UNKNOWN;
}

static enum verdict script(struct desk *d, const char *id)
{
    const struct job *j = state_job(d->r.s, (uint32_t)atoi(id));

    return !j ? UNKNOWN : admit_owns_job(j, &d->who, admit_rank(d->r.s, &d->who)) ? DONE : DENIED;
}

static const struct { const char *name; enum verdict (*ask)(struct desk *, const char *); } messages[] = { { "cancel", cancel }, { "update", update }, { "see", see }, { "script", script } };
static const struct { const char *name; uint32_t uid; char letter; } askers[] = { { "alice", ALICE, 'a' }, { "bob", BOB, 'b' }, { "operator", OPER, 'o' }, { "coordinator", COORD, 'c' },
                                                                                   { "admin", ADMIN, 'r' }, { "root", 0, 'r' }, { "SlurmUser", SLURM, 'r' }, { "stranger", 1999, 'x' } };
/* Who may do what is an owner's with which job. */
static const struct { const char *id, *may; } objects[] = { { "1", "aor" }, { "2", "bocr" }, { "3", "bor" }, { "99", "" } };

START_TEST(every_message_role_and_job)
{
    bool is_private = _i;
    struct desk d;

    stage(&d, is_private ? "PrivateData=jobs\n" : "");
    for (size_t m = 0; m < sizeof messages / sizeof *messages; m++)
        for (size_t a = 0; a < sizeof askers / sizeof *askers; a++)
            for (size_t o = 0; o < sizeof objects / sizeof *objects; o++) {
                bool may = strchr(objects[o].may, askers[a].letter) != NULL, is_there = *objects[o].may, hides = is_private && !may;
                enum verdict got, want = may ? DONE : !is_there || hides ? UNKNOWN : DENIED;

                /* Everybody's jobs are shown; scripts are the owner's and an administrator's. */
                if (messages[m].ask == see && !is_private && is_there)
                    want = DONE;
                if (messages[m].ask == script)
                    want = !is_there ? UNKNOWN : askers[a].letter == 'r' || objects[o].may[0] == askers[a].letter ? DONE : DENIED;
                desk_as(&d, askers[a].uid);
                got = messages[m].ask(&d, objects[o].id);
                /* Where jobs are private, no answer may tell a job of others from one that is not there. */
                ck_assert_msg(got == want, "%s of job %s by %s%s: %d, not %d (%s)", messages[m].name, objects[o].id, askers[a].name, is_private ? ", private" : "", got, want, d.err.text);
            }
    desk_fini(&d);
}
END_TEST

START_TEST(ranks_come_from_lists)
{
    static const struct { uint32_t uid; enum rank rank; } rows[] = { { 0, RANK_ADMIN }, { SLURM, RANK_ADMIN }, { ADMIN, RANK_ADMIN }, { OPER, RANK_OPERATOR }, { 7, RANK_OPERATOR },
                                                                     { COORD, RANK_USER }, { ALICE, RANK_USER }, { 100, RANK_USER }, { 10, RANK_USER }, { UINT32_MAX, RANK_NONE } };
    struct desk d;

    stage(&d, "");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        desk_as(&d, rows[i].uid);
        ck_assert_int_eq(admit_rank(d.r.s, &d.who), rows[i].rank);
    }
    /* A name is whom the controller found for it, and nobody before that. */
    setting(&d, SETTING_operators, "carol");
    desk_as(&d, BOB);
    ck_assert_int_eq(admit_rank(d.r.s, &d.who), RANK_USER);
    d.r.s->config->users = calloc(1, sizeof *d.r.s->config->users);
    d.r.s->config->users[0] = (struct config_user){ .name = strdup("carol"), .uid = BOB };
    d.r.s->config->user_count = 1;
    ck_assert_int_eq(admit_rank(d.r.s, &d.who), RANK_OPERATOR);
    desk_fini(&d);
}
END_TEST

START_TEST(private_kinds)
{
    static const struct { const char *words; unsigned message; bool is_hidden; } rows[] = {
        { "nodes", WIRE__MESSAGE_TYPE__NODES, true }, { "nodes", WIRE__MESSAGE_TYPE__MESH, true }, { "nodes", WIRE__MESSAGE_TYPE__PARTITIONS, false },
        { "partitions", WIRE__MESSAGE_TYPE__PARTITIONS, true }, { "partitions", WIRE__MESSAGE_TYPE__NODES, false }, { "jobs", WIRE__MESSAGE_TYPE__NODES, false },
        { "jobs", WIRE__MESSAGE_TYPE__JOBS, false }, { "none", WIRE__MESSAGE_TYPE__NODES, false } };
    char text[64];
    struct desk d;

    snprintf(text, sizeof text, "PrivateData=%s\n", rows[_i].words);
    stage(&d, text);
    for (size_t a = 0; a < sizeof askers / sizeof *askers; a++) {
        enum rank rank;
        int rc;

        desk_as(&d, askers[a].uid);
        rank = admit_rank(d.r.s, &d.who);
        rc = admit_private(d.r.s, rows[_i].message, &d.who, rank, &d.err);
        ck_assert_int_eq(rc, rows[_i].is_hidden && rank < RANK_OPERATOR ? SPUR_EDENIED : 0);
    }
    desk_node(&d, "n1");
    ck_assert_int_eq(admit_private(d.r.s, rows[_i].message, &d.who, RANK_NONE, &d.err), 0);
    desk_fini(&d);
}
END_TEST

START_TEST(a_token_may_what_its_scope_says)
{
    static const unsigned reads[] = { WIRE__MESSAGE_TYPE__PING, WIRE__MESSAGE_TYPE__JOBS, WIRE__MESSAGE_TYPE__NODES, WIRE__MESSAGE_TYPE__PARTITIONS, WIRE__MESSAGE_TYPE__STEPS,
                                      WIRE__MESSAGE_TYPE__CONFIG, WIRE__MESSAGE_TYPE__CONFIG_FILES, WIRE__MESSAGE_TYPE__STATS, WIRE__MESSAGE_TYPE__WAIT, WIRE__MESSAGE_TYPE__MEMBERS,
                                      WIRE__MESSAGE_TYPE__SCRIPT, WIRE__MESSAGE_TYPE__TEST_ONLY, WIRE__MESSAGE_TYPE__ACCOUNTS };
    const ProtobufCEnumDescriptor *types = &wire__message_type__descriptor;
    struct desk d;

    stage(&d, "");
    for (unsigned i = 0; i < types->n_values; i++) {
        unsigned type = (unsigned)types->values[i].value;
        bool is_read = false, makes = type == WIRE__MESSAGE_TYPE__USER_TOKEN || type == WIRE__MESSAGE_TYPE__HOST_CHANGE;

        for (size_t k = 0; k < sizeof reads / sizeof *reads; k++)
            is_read |= reads[k] == type;
        desk_as(&d, ALICE);
        ck_assert_int_eq(admit_scope(type, &d.who, 100, &d.err), 0);           /* no token */
        strcpy(d.who.token, "0123");
        d.who.until_wall_s = 100;
        d.who.scope = SPUR_SCOPE_ALL;
        ck_assert_int_eq(admit_scope(type, &d.who, 100, &d.err), makes ? SPUR_EDENIED : 0);
        ck_assert_int_eq(admit_scope(type, &d.who, 101, &d.err), SPUR_EDENIED);     /* its time is over */
        d.who.scope = SPUR_SCOPE_READ;
        ck_assert_int_eq(admit_scope(type, &d.who, 100, &d.err), is_read ? 0 : SPUR_EDENIED);
        d.who.scope = SPUR_SCOPE_NONE;
        ck_assert_int_eq(admit_scope(type, &d.who, 100, &d.err), is_read ? 0 : SPUR_EDENIED);
    }
    desk_fini(&d);
}
END_TEST

START_TEST(root_where_the_partition_lets_him)
{
    struct desk d;

    desk_init(&d, "DisableRootJobs=YES\nNodeName=n1\nPartitionName=p Nodes=ALL Default=YES\nPartitionName=r Nodes=ALL DisableRootJobs=NO\n");
    desk_as(&d, 0);
    ck_assert_int_eq(desk_submit(&d, "tasks=1"), -2010);
    ck_assert_int_gt(desk_submit(&d, "tasks=1 part=r"), 0);
    desk_as(&d, ALICE);
    ck_assert_int_gt(desk_submit(&d, "tasks=1"), 0);
    desk_fini(&d);
}
END_TEST

Suite *roles_suite(void);
Suite *roles_suite(void)
{
    Suite *s = suite_create("admit/roles");
    TCase *t = tcase_create("roles");

    tcase_add_loop_test(t, every_message_role_and_job, 0, 2);
    tcase_add_test(t, ranks_come_from_lists);
    tcase_add_loop_test(t, private_kinds, 0, 8);
    tcase_add_test(t, a_token_may_what_its_scope_says);
    tcase_add_test(t, root_where_the_partition_lets_him);
    suite_add_tcase(s, t);
    return s;
}
