/* SPDX-License-Identifier: Apache-2.0 */
/* test_accounts.c - who may change accounts and users, who sees them, and which jobs AccountingStorageEnforce=associations takes.
 *
 * Rights: each change by each asker against one line a change, written down by hand (SA-04). Askers: u alice, a plain user; c bob, coordinator of phys; o an operator; a an
 * administrator by his row of users; r root.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "desk.h"
#include "state/accounts.h"

#define OPER  1002u
#define BOSS  1004u

static const char conf[] = "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nNodeName=n[1-2] CPUs=4\nPartitionName=p Nodes=ALL Default=YES\nPartitionName=q Nodes=ALL\n";

enum { ADD = WIRE__ACCOUNT_CHANGE__VERB__ADD, MODIFY = WIRE__ACCOUNT_CHANGE__VERB__MODIFY, REMOVE = WIRE__ACCOUNT_CHANGE__VERB__REMOVE };
enum { ACCOUNT = WIRE__ACCOUNT_CHANGE__KIND__ACCOUNT, USER = WIRE__ACCOUNT_CHANGE__KIND__USER, COORDINATOR = WIRE__ACCOUNT_CHANGE__KIND__COORDINATOR };
struct wish { int verb, kind; const char *name, *account, *partition, *parent, *fallback; int level; };

static int ask(struct desk *d, const struct wish *w)
{
    static Wire__AccountChange m;
    static char *name, *account, *partition;

    wire__account_change__init(&m);
    name = (char *)(uintptr_t)w->name;
    account = (char *)(uintptr_t)w->account;
    partition = (char *)(uintptr_t)w->partition;
    m.verb = (Wire__AccountChange__Verb)w->verb;
    m.kind = (Wire__AccountChange__Kind)w->kind;
    m.names = &name;
    m.n_names = 1;
    m.accounts = &account;
    m.n_accounts = account != NULL;
    m.partitions = &partition;
    m.n_partitions = partition != NULL;
    m.parent = (char *)(uintptr_t)w->parent;
    m.default_account = (char *)(uintptr_t)w->fallback;
    m.has_admin_level = w->level > 0;
    m.admin_level = (Wire__AdminLevel)(w->level > 0 ? w->level : 0);
    d->out = (struct admitted){ 0 };
    d->err = (struct spur_error){ 0 };
    return admit_account_change(d->r.s, &m, &d->who, &d->facts, &d->r.arena, &d->out, &d->err);
}

static void as(struct desk *d, uint32_t uid, const char *name)
{
    desk_as(d, uid);
    d->facts.user = name;
}

static void done(struct desk *d, struct wish w)
{
    as(d, 0, "root");
    ck_assert_int_eq(ask(d, &w), 0);
    ck_assert_int_eq(desk_apply(d), 0);
}

static void knows(struct desk *d, const char *name, uint32_t uid)
{
    struct config *cfg = d->r.s->config;

    cfg->users = realloc(cfg->users, (cfg->user_count + 1) * sizeof *cfg->users);
    cfg->users[cfg->user_count++] = (struct config_user){ .name = strdup(name), .uid = uid };
}

static void stage(struct desk *d, const char *more)
{
    char text[1024];

    snprintf(text, sizeof text, "%s%s", more, conf);
    desk_init(d, text);
    done(d, (struct wish){ ADD, ACCOUNT, "Phys" });                 /* kept in small letters */
    done(d, (struct wish){ ADD, ACCOUNT, "laser", .parent = "phys" });
    done(d, (struct wish){ ADD, ACCOUNT, "bio" });
    done(d, (struct wish){ ADD, USER, "alice", "laser" });
    done(d, (struct wish){ ADD, USER, "alice", "bio", .partition = "q" });
    done(d, (struct wish){ ADD, USER, "bob", "phys" });
    done(d, (struct wish){ ADD, USER, "oper", "bio", .level = 1 });
    done(d, (struct wish){ ADD, USER, "boss", "bio", .level = 2 });
    done(d, (struct wish){ ADD, COORDINATOR, "bob", "phys" });
    knows(d, "bob", BOB);
    knows(d, "oper", OPER);
    knows(d, "boss", BOSS);
}

START_TEST(ranks_come_from_rows)
{
    struct desk d;

    stage(&d, "");
    desk_as(&d, OPER);
    ck_assert_int_eq(admit_rank(d.r.s, &d.who), RANK_OPERATOR);
    desk_as(&d, BOSS);
    ck_assert_int_eq(admit_rank(d.r.s, &d.who), RANK_ADMIN);
    desk_as(&d, BOB);
    ck_assert_int_eq(admit_rank(d.r.s, &d.who), RANK_USER);
    d.who.role = SPUR_ROLE_NODE;
    d.who.uid = BOSS;
    ck_assert_int_eq(admit_rank(d.r.s, &d.who), RANK_NONE);
    done(&d, (struct wish){ REMOVE, USER, "oper" });
    desk_as(&d, OPER);
    ck_assert_int_eq(admit_rank(d.r.s, &d.who), RANK_USER);
    desk_fini(&d);
}
END_TEST

START_TEST(who_may_change_what)
{
    static const struct { const char *may; struct wish w; } table[] = {
        { "oar",  { ADD, ACCOUNT, "new" } },                            { "coar", { ADD, ACCOUNT, "new", .parent = "phys" } },
        { "coar", { ADD, ACCOUNT, "new", .parent = "LASER" } },         { "oar",  { ADD, ACCOUNT, "new", .parent = "bio" } },
        { "coar", { ADD, USER, "carol", "laser" } },                    { "oar",  { ADD, USER, "carol", "bio" } },
        { "ar",   { ADD, USER, "carol", "laser", .level = 1 } },        { "ar",   { MODIFY, USER, "alice", .level = 2 } },
        { "ar",   { MODIFY, USER, "oper", .level = 2 } },               { "coar", { ADD, USER, "alice", "phys" } },
        { "oar",  { ADD, USER, "alice", "phys", .fallback = "phys" } }, { "uoar", { MODIFY, USER, "alice", .fallback = "laser" } },
        { "coar", { MODIFY, USER, "bob", .fallback = "phys" } },        { "coar", { REMOVE, USER, "alice", "laser" } },
        { "oar",  { REMOVE, USER, "alice", "bio" } },                   { "oar",  { REMOVE, USER, "alice" } },
        { "ar",   { REMOVE, USER, "boss" } },                           { "ar",   { REMOVE, USER, "oper" } },
        { "coar", { REMOVE, ACCOUNT, "laser" } },                       { "oar",  { REMOVE, ACCOUNT, "phys" } },
        { "oar",  { REMOVE, ACCOUNT, "bio" } },                         { "coar", { MODIFY, ACCOUNT, "laser", .parent = "phys" } },
        { "oar",  { MODIFY, ACCOUNT, "laser", .parent = "bio" } },      { "oar",  { MODIFY, ACCOUNT, "phys", .parent = "laser" } },
        { "oar",  { MODIFY, ACCOUNT, "bio", .parent = "phys" } },       { "oar",  { ADD, COORDINATOR, "alice", "laser" } },
        { "oar",  { ADD, COORDINATOR, "bob", "bio" } },                 { "oar",  { REMOVE, COORDINATOR, "bob", "phys" } },
        { "oar",  { ADD, USER, "carol", "nowhere" } },
    };
    static const struct { char letter; uint32_t uid; const char *name; } askers[] = { { 'u', ALICE, "alice" }, { 'c', BOB, "bob" }, { 'o', OPER, "oper" }, { 'a', BOSS, "boss" }, { 'r', 0, "root" } };
    struct desk d;

    stage(&d, "");
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (size_t k = 0; k < sizeof askers / sizeof *askers; k++) {
            int rc;

            as(&d, askers[k].uid, askers[k].name);
            rc = ask(&d, &table[i].w);
            ck_assert_msg((rc == 0) == !!strchr(table[i].may, askers[k].letter), "row %zu by %c: %d %s", i, askers[k].letter, rc, d.err.text);
            ck_assert(rc == 0 || rc == SPUR_EDENIED);
        }
    /* Nobody's name, and the rights of a coordinator that has become none. */
    as(&d, BOB, NULL);
    ck_assert_int_eq(ask(&d, &(struct wish){ ADD, USER, "carol", "laser" }), SPUR_EDENIED);
    done(&d, (struct wish){ REMOVE, COORDINATOR, "bob", "phys" });
    as(&d, BOB, "bob");
    ck_assert_int_eq(ask(&d, &(struct wish){ ADD, USER, "carol", "laser" }), SPUR_EDENIED);
    ck_assert_int_eq(ask(&d, &(struct wish){ 7, USER, "carol", "laser" }), SPUR_EINVAL);
    ck_assert_int_eq(ask(&d, &(struct wish){ ADD, 9, "carol", "laser" }), SPUR_EINVAL);
    ck_assert_int_eq(ask(&d, &(struct wish){ MODIFY, COORDINATOR, "carol", "laser" }), SPUR_EINVAL);
    ck_assert_int_eq(ask(&d, &(struct wish){ ADD, COORDINATOR, "carol" }), SPUR_EINVAL);
    desk_fini(&d);
}
END_TEST

static int submit(struct desk *d, uint32_t uid, const char *name, const char *wish)
{
    as(d, uid, name);
    return desk_submit(d, wish);
}

START_TEST(jobs_need_an_association)
{
    struct desk d;

    stage(&d, "AccountingStorageEnforce=associations\n");
    ck_assert_int_gt(submit(&d, ALICE, "alice", "tasks=1 hold"), 0);                       /* her default: laser */
    ck_assert_int_gt(submit(&d, ALICE, "alice", "tasks=1 hold account=Laser part=p,q"), 0);
    ck_assert_int_eq(submit(&d, ALICE, "alice", "tasks=1 hold account=phys"), -2045);      /* an account above is another one */
    ck_assert_int_gt(submit(&d, ALICE, "alice", "tasks=1 hold account=bio part=q"), 0);
    ck_assert_int_eq(submit(&d, ALICE, "alice", "tasks=1 hold account=bio"), -2045);       /* in q alone */
    ck_assert_int_eq(submit(&d, ALICE, "alice", "tasks=1 hold account=bio part=q,p"), -2045);
    ck_assert_int_eq(submit(&d, BOB, "bob", "tasks=1 hold account=nowhere"), -2045);
    ck_assert_int_eq(submit(&d, 1009, "eve", "tasks=1 hold"), -2045);
    ck_assert_ptr_nonnull(strstr(d.err.text, "sacctmgr add user eve"));
    ck_assert_int_eq(submit(&d, 1009, NULL, "tasks=1 hold account=bio"), -2045);           /* unknown is not yes */
    ck_assert_int_gt(submit(&d, 0, "root", "tasks=1 hold"), 0);
    done(&d, (struct wish){ ADD, USER, "carol", "bio" });
    ck_assert_int_gt(submit(&d, 1010, "carol", "tasks=1 hold"), 0);
    /* Who has jobs stays; who is gone has nothing, from the next request on. */
    as(&d, 0, "root");
    ck_assert_int_eq(ask(&d, &(struct wish){ REMOVE, USER, "carol" }), 0);
    ck_assert_int_eq(desk_apply(&d), SPUR_EBUSY);
    done(&d, (struct wish){ REMOVE, USER, "bob" });
    ck_assert_int_eq(submit(&d, BOB, "bob", "tasks=1 hold"), -2045);
    desk_fini(&d);
    stage(&d, "");
    ck_assert_int_gt(submit(&d, 1009, "eve", "tasks=1 hold account=anything"), 0);         /* nobody asks */
    desk_fini(&d);
}
END_TEST

/* What an update gives is judged as a submit's. */
START_TEST(an_update_needs_one_too)
{
    static const struct { const char *key, *value; int rc; } rows[] = { { "Account", "bio", -2045 }, { "Account", "phys", -2045 }, { "Account", "laser", 0 }, { "Partition", "q", 0 } };
    struct desk d;

    stage(&d, "AccountingStorageEnforce=associations\n");
    ck_assert_int_eq(submit(&d, ALICE, "alice", "tasks=1 hold"), 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Wire__JobUpdateRequest r = WIRE__JOB_UPDATE_REQUEST__INIT;
        Wire__KeyValue set = WIRE__KEY_VALUE__INIT, *sets = &set;

        set.key = (char *)(uintptr_t)rows[i].key;
        set.value = (char *)(uintptr_t)rows[i].value;
        r.ids = (char *)(uintptr_t)"1";
        r.set = &sets;
        r.n_set = 1;
        d.out = (struct admitted){ 0 };
        as(&d, i % 2 ? 0 : ALICE, i % 2 ? "root" : "alice");        /* root changes it for her: it is her association that counts */
        ck_assert_int_eq(desk_errno(&d, admit_job_update(d.r.s, &r, &d.who, &d.facts, &d.r.arena, &d.out, &d.err)), rows[i].rc);
    }
    desk_fini(&d);
}
END_TEST

START_TEST(private_rows)
{
    static const struct { const char *conf; uint32_t uid; const char *name; size_t accounts, users; } rows[] = {
        { "", ALICE, "alice", 4, 5 }, { "PrivateData=users\n", ALICE, "alice", 4, 1 }, { "PrivateData=users\n", BOB, "bob", 4, 2 },
        { "PrivateData=accounts\n", ALICE, "alice", 2, 1 }, { "PrivateData=accounts,users\n", BOB, "bob", 2, 2 }, { "PrivateData=accounts,users\n", OPER, "oper", 4, 5 },
        { "PrivateData=accounts,users\n", 1009, "eve", 0, 0 }, { "PrivateData=accounts,users\n", 1009, NULL, 0, 0 }, { "PrivateData=accounts,users\n", 0, "root", 4, 5 },
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const Wire__Accounts *seen;
        struct desk d;

        stage(&d, rows[i].conf);
        as(&d, rows[i].uid, rows[i].name);
        seen = admit_accounts_seen(d.r.s, &d.who, rows[i].name, admit_rank(d.r.s, &d.who), &d.r.arena);
        ck_assert_msg(seen->n_accounts == rows[i].accounts && seen->n_users == rows[i].users, "row %zu: %zu accounts, %zu users", i, seen->n_accounts, seen->n_users);
        desk_fini(&d);
    }
}
END_TEST

Suite *accounts_suite(void);
Suite *accounts_suite(void)
{
    Suite *s = suite_create("admit/accounts");
    TCase *t = tcase_create("accounts");

    tcase_add_test(t, ranks_come_from_rows);
    tcase_add_test(t, who_may_change_what);
    tcase_add_test(t, jobs_need_an_association);
    tcase_add_test(t, an_update_needs_one_too);
    tcase_add_test(t, private_rows);
    suite_add_tcase(s, t);
    return s;
}
