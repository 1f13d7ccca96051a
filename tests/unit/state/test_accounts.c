/* SPDX-License-Identifier: Apache-2.0 */
/* test_accounts.c - accounts, users and associations: what a change may do, that it is whole or not at all, and that a snapshot has it all. The random run
 * checks after each change that nothing hangs in the air: parents and accounts exist, names stand in order, defaults are associations, numbers are not used twice. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "state/accounts.h"
#include "test_state.h"

enum { ADD = WIRE__ACCOUNT_CHANGE__VERB__ADD, MODIFY = WIRE__ACCOUNT_CHANGE__VERB__MODIFY, REMOVE = WIRE__ACCOUNT_CHANGE__VERB__REMOVE };
enum { ACCOUNT = WIRE__ACCOUNT_CHANGE__KIND__ACCOUNT, USER = WIRE__ACCOUNT_CHANGE__KIND__USER, COORDINATOR = WIRE__ACCOUNT_CHANGE__KIND__COORDINATOR };

struct wish { int verb, kind; const char *names[3], *accounts[3], *partition, *parent, *fallback; int level; };

static size_t count(const char *const *list)
{
    size_t n = 0;

    while (n < 3 && list[n])
        n++;
    return n;
}

static int change(struct stage *g, struct wish w)
{
    Wire__AccountChange m = WIRE__ACCOUNT_CHANGE__INIT;
    Wire__Op op = WIRE__OP__INIT;
    char *partition = (char *)(uintptr_t)w.partition;

    m.verb = (Wire__AccountChange__Verb)w.verb;
    m.kind = (Wire__AccountChange__Kind)w.kind;
    m.names = (char **)(uintptr_t)w.names;
    m.n_names = count(w.names);
    m.accounts = (char **)(uintptr_t)w.accounts;
    m.n_accounts = count(w.accounts);
    m.partitions = &partition;
    m.n_partitions = w.partition != NULL;
    m.parent = (char *)(uintptr_t)w.parent;
    m.default_account = (char *)(uintptr_t)w.fallback;
    m.has_admin_level = w.level > 0;
    m.admin_level = (Wire__AdminLevel)(w.level > 0 ? w.level : 0);
    op.accounts = &m;
    return stage_op(g, &op);
}

static bool same(const struct state *a, const struct state *b)
{
    uint8_t x[32], y[32];

    state_digest(a, x);
    state_digest(b, y);
    return memcmp(x, y, 32) == 0;
}

START_TEST(a_cluster_begins_with_root)
{
    struct stage g;

    stage_open(&g, "node n1 cpus 8");
    ck_assert_uint_eq(state_accounts(g.s)->n_accounts, 1);
    ck_assert_ptr_nonnull(account_assoc(account_user(g.s, "root"), "root", "main"));
    ck_assert_ptr_null(account_user(g.s, "alice"));
    ck_assert_ptr_null(account_user(g.s, NULL));
    ck_assert_int_eq(change(&g, (struct wish){ ADD, ACCOUNT, { "root" } }), SPUR_ESTALE);
    ck_assert_int_eq(change(&g, (struct wish){ REMOVE, ACCOUNT, { "root" } }), SPUR_EINVAL);
    ck_assert_int_eq(change(&g, (struct wish){ REMOVE, USER, { "root" } }), SPUR_EINVAL);
    ck_assert_ptr_null(g.s->accounts);
    stage_close(&g);
}
END_TEST

START_TEST(accounts_users_and_coordinators)
{
    struct stage g;
    struct state *copy;

    stage_open(&g, "node n1 cpus 8");
    ck_assert_int_eq(change(&g, (struct wish){ ADD, ACCOUNT, { "phys", "bio" } }), 0);
    ck_assert_int_eq(change(&g, (struct wish){ ADD, ACCOUNT, { "laser" }, .parent = "phys" }), 0);
    ck_assert_int_eq(change(&g, (struct wish){ ADD, ACCOUNT, { "x" }, .parent = "nowhere" }), SPUR_ENOTFOUND);
    ck_assert_int_eq(change(&g, (struct wish){ ADD, ACCOUNT, { "a b" } }), SPUR_EINVAL);
    ck_assert_int_eq(change(&g, (struct wish){ ADD, ACCOUNT, { "" } }), SPUR_EINVAL);
    ck_assert_int_eq(change(&g, (struct wish){ ADD, ACCOUNT, { "phys" } }), SPUR_ESTALE);
    /* One name that cannot be: none is there. */
    ck_assert_int_eq(change(&g, (struct wish){ ADD, USER, { "alice", "bob" }, { "phys", "nope" } }), SPUR_ENOTFOUND);
    ck_assert_ptr_null(account_user(g.s, "alice"));
    ck_assert_int_eq(change(&g, (struct wish){ ADD, USER, { "alice" } }), SPUR_EINVAL);
    ck_assert_int_eq(change(&g, (struct wish){ ADD, USER, { "alice", "bob" }, { "phys" } }), 0);
    ck_assert_int_eq(change(&g, (struct wish){ ADD, USER, { "alice" }, { "bio" }, .partition = "gpu" }), 0);
    ck_assert_str_eq(account_user(g.s, "alice")->default_account, "phys");
    ck_assert_ptr_nonnull(account_assoc(account_user(g.s, "alice"), "phys", "main"));
    ck_assert_ptr_nonnull(account_assoc(account_user(g.s, "alice"), "bio", "gpu"));
    ck_assert_ptr_null(account_assoc(account_user(g.s, "alice"), "bio", "main"));
    ck_assert_ptr_null(account_assoc(account_user(g.s, "alice"), "bio", NULL));
    ck_assert_ptr_null(account_assoc(account_user(g.s, "bob"), "bio", "gpu"));
    ck_assert_int_eq(change(&g, (struct wish){ MODIFY, USER, { "bob" }, .fallback = "bio" }), SPUR_EINVAL);
    ck_assert_int_eq(change(&g, (struct wish){ MODIFY, USER, { "alice" }, .fallback = "bio" }), 0);
    ck_assert_int_eq(change(&g, (struct wish){ MODIFY, USER, { "bob" }, .level = 1 }), 0);
    ck_assert_int_eq((int)account_user(g.s, "bob")->admin_level, 1);
    /* Coordinators reach down the tree, and a tree has no loops. */
    ck_assert_int_eq(change(&g, (struct wish){ ADD, COORDINATOR, { "carol" }, { "phys" } }), SPUR_ENOTFOUND);
    ck_assert_int_eq(change(&g, (struct wish){ ADD, COORDINATOR, { "bob" }, { "phys" } }), 0);
    ck_assert(account_coordinates(g.s, "bob", "laser"));
    ck_assert(!account_coordinates(g.s, "bob", "bio"));
    ck_assert(!account_coordinates(g.s, "bob", "root"));
    ck_assert_int_eq(change(&g, (struct wish){ MODIFY, ACCOUNT, { "phys" }, .parent = "laser" }), SPUR_EINVAL);
    ck_assert_int_eq(change(&g, (struct wish){ MODIFY, ACCOUNT, { "phys" }, .parent = "phys" }), SPUR_EINVAL);
    ck_assert_int_eq(change(&g, (struct wish){ MODIFY, ACCOUNT, { "laser" }, .parent = "bio" }), 0);
    ck_assert(!account_coordinates(g.s, "bob", "laser"));
    copy = stage_copy(&g);
    ck_assert(same(copy, g.s));
    ck_assert_str_eq(account_user(copy, "alice")->default_account, "bio");
    state_destroy(copy);
    /* What goes, and what has to go first. */
    ck_assert_int_eq(change(&g, (struct wish){ REMOVE, ACCOUNT, { "bio" } }), SPUR_EBUSY);             /* laser is below it */
    ck_assert_int_eq(change(&g, (struct wish){ REMOVE, ACCOUNT, { "bio", "laser" } }), SPUR_EBUSY);    /* alice's default */
    ck_assert_int_eq(change(&g, (struct wish){ REMOVE, USER, { "alice" }, { "bio" } }), SPUR_EBUSY);
    ck_assert_int_eq(change(&g, (struct wish){ MODIFY, USER, { "alice" }, .fallback = "phys" }), 0);
    ck_assert_int_eq(change(&g, (struct wish){ REMOVE, ACCOUNT, { "bio", "laser" } }), 0);
    ck_assert_ptr_null(account_assoc(account_user(g.s, "alice"), "bio", "gpu"));
    ck_assert_int_eq(change(&g, (struct wish){ REMOVE, USER, { "bob" } }), 0);
    ck_assert(!account_coordinates(g.s, "bob", "phys"));
    ck_assert_int_eq(change(&g, (struct wish){ REMOVE, USER, { "alice" }, { "phys" } }), 0);
    ck_assert_ptr_nonnull(account_user(g.s, "alice"));
    ck_assert_ptr_null(account_user(g.s, "alice")->default_account);
    stage_close(&g);
}
END_TEST

static void check_rows(const struct state *s)
{
    const Wire__Accounts *a = state_accounts(s);
    bool seen[20000] = { false };

    for (size_t i = 0; i < a->n_accounts; i++) {
        const Wire__AccountRow *r = a->accounts[i];

        ck_assert(i == 0 || strcmp(a->accounts[i - 1]->name, r->name) < 0);
        ck_assert_ptr_eq(account_find(s, r->name), r);
        ck_assert(!r->parent == !strcmp(r->name, "root"));
        ck_assert(!r->parent || account_find(s, r->parent));
        ck_assert(r->id <= a->last_id && !seen[r->id]);
        seen[r->id] = true;
        for (size_t k = 0; k < r->n_coordinators; k++)
            ck_assert_ptr_nonnull(account_user(s, r->coordinators[k]));
    }
    for (size_t i = 0; i < a->n_users; i++) {
        const Wire__AccountUser *u = a->users[i];
        bool has_default = !u->default_account;

        ck_assert(i == 0 || strcmp(a->users[i - 1]->name, u->name) < 0);
        ck_assert_ptr_eq(account_user(s, u->name), u);
        for (size_t k = 0; k < u->n_assocs; k++) {
            ck_assert_ptr_nonnull(account_find(s, u->assocs[k]->account));
            ck_assert(u->assocs[k]->id <= a->last_id && !seen[u->assocs[k]->id]);
            seen[u->assocs[k]->id] = true;
            has_default |= u->default_account && !strcmp(u->default_account, u->assocs[k]->account);
        }
        ck_assert(has_default);
        ck_assert(!u->n_assocs == !u->default_account);
    }
}

START_TEST(random_changes_leave_nothing_in_the_air)
{
    static const char *const accounts[] = { "root", "a", "b", "c", "d", "e" }, *const users[] = { "root", "u", "v", "w" }, *const parts[] = { NULL, "main", "gpu" };
    struct stage g;
    unsigned good = 0;

    stage_open(&g, "node n1 cpus 8");
    srand(20261201);
    for (unsigned i = 0; i < 4000; i++) {
        struct wish w = { rand() % 3, rand() % 3, .level = rand() % 4 };
        int rc;

        for (int k = 0, n = 1 + rand() % 2; k < n; k++)
            w.names[k] = w.kind == ACCOUNT ? accounts[rand() % 6] : users[rand() % 4];
        for (int k = 0, n = rand() % 3; k < n; k++)
            w.accounts[k] = accounts[rand() % 6];
        w.partition = parts[rand() % 3];
        w.parent = rand() % 2 ? accounts[rand() % 6] : NULL;
        w.fallback = rand() % 3 ? NULL : accounts[rand() % 6];
        rc = change(&g, w);
        good += rc == 0;
        check_rows(g.s);
        if (i % 100 == 0) {
            struct state *copy = stage_copy(&g);

            ck_assert(same(copy, g.s));
            state_destroy(copy);
        }
    }
    ck_assert_uint_gt(good, 400);
    stage_close(&g);
}
END_TEST

Suite *accounts_suite(void);
Suite *accounts_suite(void)
{
    Suite *s = suite_create("accounts");
    TCase *t = tcase_create("accounts");

    tcase_add_test(t, a_cluster_begins_with_root);
    tcase_add_test(t, accounts_users_and_coordinators);
    tcase_add_test(t, random_changes_leave_nothing_in_the_air);
    suite_add_tcase(s, t);
    return s;
}
