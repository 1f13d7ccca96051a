/* SPDX-License-Identifier: Apache-2.0 */
/* accounts.c - who may charge what: the tree of accounts, users, and the associations between them, changed by one operation at a time.
 *
 * The rows stay as they are on the wire and in the snapshot (struct Wire__Accounts), sorted by name, so a question is a search by halves. A change works on a
 * copy that takes the place of the rows when all of it could be done: several names in one change are done all or none. Whether somebody may make the change
 * is admit's (admit/account.c); whether it can be made is said here, as the rows may have changed since.
 */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "state/accounts.h"
#include "state/private.h"

#define NAME_MOST 64
#define TEXT_MOST 256
#define ROWS_MOST 200000u

/* As a cluster begins: the account root, and the user root in it. */
static Wire__AssocRow first_assoc;
static Wire__AssocRow *first_assocs[] = { &first_assoc };
static Wire__AccountRow first_account;
static Wire__AccountRow *first_account_list[] = { &first_account };
static Wire__AccountUser first_user;
static Wire__AccountUser *first_users[] = { &first_user };

static const Wire__Accounts *first_rows(void)
{
    static Wire__Accounts rows;
    static char root[] = "root", description[] = "default root account";

    if (rows.base.descriptor)
        return &rows;
    wire__assoc_row__init(&first_assoc);
    first_assoc.id = 2;
    first_assoc.account = root;
    wire__account_row__init(&first_account);
    first_account.id = 1;
    first_account.name = first_account.organization = root;
    first_account.description = description;
    wire__account_user__init(&first_user);
    first_user.name = first_user.default_account = root;
    first_user.has_admin_level = 1;
    first_user.admin_level = WIRE__ADMIN_LEVEL__ADMIN_ADMINISTRATOR;
    first_user.n_assocs = 1;
    first_user.assocs = first_assocs;
    wire__accounts__init(&rows);
    rows.n_accounts = rows.n_users = 1;
    rows.accounts = first_account_list;
    rows.users = first_users;
    rows.has_last_id = 1;
    rows.last_id = 2;
    return &rows;
}

const Wire__Accounts *state_accounts(const struct state *s) { return s->accounts ? s->accounts : first_rows(); }

/* ---- questions -------------------------------------------------------------------------------------------------------------- */

/* Where `name` is, or would be. */
#define PLACE_OF(rows, count, wanted, at, found) do { \
        size_t low_ = 0, high_ = (count); int order_ = 1; \
        while (low_ < high_) { size_t middle_ = low_ + (high_ - low_) / 2; order_ = strcmp((rows)[middle_]->name, (wanted)); \
            if (order_ == 0) { low_ = middle_; break; } \
            if (order_ < 0) low_ = middle_ + 1; else high_ = middle_; } \
        *(at) = low_; *(found) = order_ == 0; } while (0)

static Wire__AccountRow *account_in(const Wire__Accounts *a, const char *name, size_t *at)
{
    bool found;

    PLACE_OF(a->accounts, a->n_accounts, name, at, &found);
    return found ? a->accounts[*at] : NULL;
}

static Wire__AccountUser *user_in(const Wire__Accounts *a, const char *name, size_t *at)
{
    bool found;

    PLACE_OF(a->users, a->n_users, name, at, &found);
    return found ? a->users[*at] : NULL;
}

const Wire__AccountRow *account_find(const struct state *s, const char *name)
{
    size_t at;

    return name ? account_in(state_accounts(s), name, &at) : NULL;
}

const Wire__AccountUser *account_user(const struct state *s, const char *name)
{
    size_t at;

    return name ? user_in(state_accounts(s), name, &at) : NULL;
}

const Wire__AssocRow *account_assoc(const Wire__AccountUser *u, const char *account, const char *partition)
{
    const Wire__AssocRow *all = NULL;

    for (size_t i = 0; u && i < u->n_assocs; i++) {
        if (strcmp(u->assocs[i]->account, account) != 0)
            continue;
        if (!u->assocs[i]->partition)
            all = u->assocs[i];
        else if (partition && !strcmp(u->assocs[i]->partition, partition))
            return u->assocs[i];
    }
    return all;
}

static bool has_coordinator(const Wire__AccountRow *r, const char *user)
{
    for (size_t i = 0; i < r->n_coordinators; i++)
        if (!strcmp(r->coordinators[i], user))
            return true;
    return false;
}

bool account_coordinates(const struct state *s, const char *user, const char *account)
{
    const Wire__AccountRow *r = account_find(s, account);

    for (; user && r; r = r->parent ? account_find(s, r->parent) : NULL)      /* no loops: a change that would make one is refused */
        if (has_coordinator(r, user))
            return true;
    return false;
}

/* ---- changes ---------------------------------------------------------------------------------------------------------------- */

/* One change on its copy of the rows; `done`: something is other than before. */
struct change { struct doing *d; const Wire__AccountChange *o; Wire__Accounts *a; bool done; };

static Wire__Accounts *rows_copy(const Wire__Accounts *from)
{
    size_t n = wire__accounts__get_packed_size(from);
    uint8_t *packed = mem_alloc(n + 1);
    Wire__Accounts *copy;

    wire__accounts__pack(from, packed);
    copy = wire__accounts__unpack(NULL, n, packed);
    free(packed);
    return copy;
}

static void text_take(char **to, const char *text)
{
    free(*to);
    *to = *text ? mem_copy(text) : NULL;
}

static int check_text(struct change *c, const char *what, const char *text, size_t most, bool is_name)
{
    size_t n = text ? strlen(text) : 0;

    if (n > most || (is_name && !n))
        return refuse(c->d, SPUR_EINVAL, 0, "%s has %zu characters, the limit is %zu", what, n, most);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 127 || (is_name && strchr(" ,=\"'|", text[i])))
            return refuse(c->d, SPUR_EINVAL, 0, "%s has a character that no %s may have", what, is_name ? "name" : "text");
    return 0;
}

static bool is_in(char *const *list, size_t n, const char *word)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(list[i], word))
            return true;
    return false;
}

#define ROW_INSERT(list, count, at, row) do { \
        (list) = mem_grow((list), (count) + 1, sizeof *(list)); \
        memmove(&(list)[(at) + 1], &(list)[at], ((count) - (at)) * sizeof *(list)); \
        (list)[at] = (row); (count)++; } while (0)
#define ROW_REMOVE(list, count, at) do { (count)--; memmove(&(list)[at], &(list)[(at) + 1], ((count) - (at)) * sizeof *(list)); } while (0)

/* Does a job of `user` (NULL: of anybody) that has not ended run or wait under `account` (NULL: any)? Then Slurm refuses too. */
static int check_idle(struct change *c, const char *user, const char *account)
{
    struct state *s = c->d->s;
    const struct job *j;

    for (size_t at = 0; (j = table_next(&s->jobs, &at)); ) {
        const Wire__JobSpec *spec;

        if (job_phase(j) == PHASE_ENDED || (user && (!j->user || strcmp(j->user, user) != 0)))
            continue;
        spec = account ? job_spec(j, c->d->arena) : NULL;
        if (!account || (spec && spec->account && word_eq(spec->account, account)))
            return refuse(c->d, SPUR_EBUSY, 0, "job %u of user %s is in the queue or runs: cancel it first", j->job_id, j->user ? j->user : "?");
    }
    return 0;
}

static int add_account(struct change *c, const char *name)
{
    const Wire__AccountChange *o = c->o;
    const char *parent = o->parent ? o->parent : "root";
    Wire__AccountRow *r;
    size_t at, of;

    if (check_text(c, "the name of an account", name, NAME_MOST, true) < 0)
        return -1;
    if (account_in(c->a, name, &at))
        return 0;
    if (!account_in(c->a, parent, &of))
        return refuse(c->d, SPUR_ENOTFOUND, 0, "there is no account %s to be the parent of %s", parent, name);
    if (c->a->n_accounts >= ROWS_MOST)
        return refuse(c->d, SPUR_ELIMIT, 0, "there are %zu accounts, the limit is %u", c->a->n_accounts, ROWS_MOST);
    r = mem_alloc(sizeof *r);
    wire__account_row__init(r);
    r->id = ++c->a->last_id;
    r->name = mem_copy(name);
    r->parent = mem_copy(parent);
    r->description = mem_copy(o->description && *o->description ? o->description : name);
    r->organization = mem_copy(o->organization && *o->organization ? o->organization : strcmp(parent, "root") ? parent : name);
    ROW_INSERT(c->a->accounts, c->a->n_accounts, at, r);
    c->done = true;
    return 0;
}

static int modify_account(struct change *c, const char *name)
{
    const Wire__AccountChange *o = c->o;
    size_t at, of;
    Wire__AccountRow *r = account_in(c->a, name, &at), *up;

    if (!r)
        return refuse(c->d, SPUR_ENOTFOUND, 0, "there is no account %s", name);
    if (o->parent) {
        if (!strcmp(name, "root"))
            return refuse(c->d, SPUR_EINVAL, 0, "the account root has no parent");
        if (!(up = account_in(c->a, o->parent, &of)))
            return refuse(c->d, SPUR_ENOTFOUND, 0, "there is no account %s", o->parent);
        for (; up; up = up->parent ? account_in(c->a, up->parent, &of) : NULL)
            if (up == r)
                return refuse(c->d, SPUR_EINVAL, 0, "account %s stands above %s and cannot be below it", name, o->parent);
        text_take(&r->parent, o->parent);
    }
    if (o->description)
        text_take(&r->description, o->description);
    if (o->organization)
        text_take(&r->organization, o->organization);
    c->done = true;
    return 0;
}

static int remove_account(struct change *c, const char *name)
{
    size_t at, of;
    Wire__AccountRow *r = account_in(c->a, name, &at);

    if (!r)
        return refuse(c->d, SPUR_ENOTFOUND, 0, "there is no account %s", name);
    if (!strcmp(name, "root"))
        return refuse(c->d, SPUR_EINVAL, 0, "the account root stays");
    for (size_t i = 0; i < c->a->n_accounts; i++)
        if (c->a->accounts[i]->parent && !strcmp(c->a->accounts[i]->parent, name) && !is_in(c->o->names, c->o->n_names, c->a->accounts[i]->name))
            return refuse(c->d, SPUR_EBUSY, 0, "account %s is below %s: move or delete it first", c->a->accounts[i]->name, name);
    if (check_idle(c, NULL, name) < 0)
        return -1;
    for (size_t i = 0; i < c->a->n_users; i++) {
        Wire__AccountUser *u = c->a->users[i];

        for (size_t k = u->n_assocs; k-- > 0; )
            if (!strcmp(u->assocs[k]->account, name)) {
                wire__assoc_row__free_unpacked(u->assocs[k], NULL);
                ROW_REMOVE(u->assocs, u->n_assocs, k);
            }
        if (u->default_account && !strcmp(u->default_account, name)) {
            if (u->n_assocs)
                return refuse(c->d, SPUR_EBUSY, 0, "%s is the default account of user %s: give him another first", name, u->name);
            text_take(&u->default_account, "");
        }
    }
    account_in(c->a, name, &of);
    wire__account_row__free_unpacked(r, NULL);
    ROW_REMOVE(c->a->accounts, c->a->n_accounts, of);
    c->done = true;
    return 0;
}

static int assoc_add(struct change *c, Wire__AccountUser *u, const char *account, const char *partition)
{
    Wire__AssocRow *r;
    size_t at;

    if (!account_in(c->a, account, &at))
        return refuse(c->d, SPUR_ENOTFOUND, 0, "there is no account %s", account);
    if (partition && check_text(c, "the name of a partition", partition, NAME_MOST, true) < 0)
        return -1;
    for (size_t i = 0; i < u->n_assocs; i++)
        if (!strcmp(u->assocs[i]->account, account) && !strcmp(u->assocs[i]->partition ? u->assocs[i]->partition : "", partition ? partition : ""))
            return 0;
    if (u->n_assocs >= 10000)
        return refuse(c->d, SPUR_ELIMIT, 0, "user %s has %zu associations, the limit is 10000", u->name, u->n_assocs);
    r = mem_alloc(sizeof *r);
    wire__assoc_row__init(r);
    r->id = ++c->a->last_id;
    r->account = mem_copy(account);
    r->partition = partition ? mem_copy(partition) : NULL;
    ROW_INSERT(u->assocs, u->n_assocs, u->n_assocs, r);
    c->done = true;
    return 0;
}

static int set_user(struct change *c, Wire__AccountUser *u)
{
    const Wire__AccountChange *o = c->o;

    if (o->has_admin_level && o->admin_level != (u->has_admin_level ? u->admin_level : WIRE__ADMIN_LEVEL__ADMIN_NONE)) {
        u->has_admin_level = o->admin_level != WIRE__ADMIN_LEVEL__ADMIN_NONE;
        u->admin_level = o->admin_level;
        c->done = true;
    }
    if (o->default_account && *o->default_account) {
        bool has = false;

        for (size_t i = 0; i < u->n_assocs; i++)
            has |= !strcmp(u->assocs[i]->account, o->default_account);
        if (!has)
            return refuse(c->d, SPUR_EINVAL, 0, "user %s has no association with account %s: it cannot be his default account", u->name, o->default_account);
        c->done |= !u->default_account || strcmp(u->default_account, o->default_account) != 0;
        text_take(&u->default_account, o->default_account);
    }
    if (!u->default_account && u->n_assocs)
        text_take(&u->default_account, u->assocs[0]->account);
    return 0;
}

static int add_user(struct change *c, const char *name)
{
    const Wire__AccountChange *o = c->o;
    size_t at;
    Wire__AccountUser *u = user_in(c->a, name, &at);

    if (check_text(c, "the name of a user", name, NAME_MOST, true) < 0)
        return -1;
    if (!u && !o->n_accounts)
        return refuse(c->d, SPUR_EINVAL, 0, "user %s is new: say which account he has (account=NAME)", name);
    if (!u) {
        if (c->a->n_users >= ROWS_MOST)
            return refuse(c->d, SPUR_ELIMIT, 0, "there are %zu users, the limit is %u", c->a->n_users, ROWS_MOST);
        u = mem_alloc(sizeof *u);
        wire__account_user__init(u);
        u->name = mem_copy(name);
        ROW_INSERT(c->a->users, c->a->n_users, at, u);
        c->done = true;
    }
    for (size_t i = 0; i < o->n_accounts; i++) {
        for (size_t k = 0; k < o->n_partitions; k++)
            if (assoc_add(c, u, o->accounts[i], o->partitions[k]) < 0)
                return -1;
        if (!o->n_partitions && assoc_add(c, u, o->accounts[i], NULL) < 0)
            return -1;
    }
    return set_user(c, u);
}

static int modify_user(struct change *c, const char *name)
{
    size_t at;
    Wire__AccountUser *u = user_in(c->a, name, &at);

    if (!u)
        return refuse(c->d, SPUR_ENOTFOUND, 0, "there is no user %s", name);
    c->done = true;
    return set_user(c, u);
}

/* His associations with these accounts and partitions; without any, the whole user, who is no coordinator then either. */
static int remove_user(struct change *c, const char *name)
{
    const Wire__AccountChange *o = c->o;
    size_t at;
    Wire__AccountUser *u = user_in(c->a, name, &at);
    bool keeps_default = false;

    if (!u)
        return refuse(c->d, SPUR_ENOTFOUND, 0, "there is no user %s", name);
    if (!strcmp(name, "root"))
        return refuse(c->d, SPUR_EINVAL, 0, "the user root stays");
    if (!o->n_accounts && !o->n_partitions) {
        if (check_idle(c, name, NULL) < 0)
            return -1;
        for (size_t i = 0; i < c->a->n_accounts; i++)
            for (size_t k = c->a->accounts[i]->n_coordinators; k-- > 0; )
                if (!strcmp(c->a->accounts[i]->coordinators[k], name)) {
                    free(c->a->accounts[i]->coordinators[k]);
                    ROW_REMOVE(c->a->accounts[i]->coordinators, c->a->accounts[i]->n_coordinators, k);
                }
        wire__account_user__free_unpacked(u, NULL);
        ROW_REMOVE(c->a->users, c->a->n_users, at);
        c->done = true;
        return 0;
    }
    for (size_t k = u->n_assocs; k-- > 0; ) {
        const Wire__AssocRow *r = u->assocs[k];

        if ((o->n_accounts && !is_in(o->accounts, o->n_accounts, r->account)) || (o->n_partitions && !(r->partition && is_in(o->partitions, o->n_partitions, r->partition))))
            continue;
        if (check_idle(c, name, r->account) < 0)
            return -1;
        wire__assoc_row__free_unpacked(u->assocs[k], NULL);
        ROW_REMOVE(u->assocs, u->n_assocs, k);
        c->done = true;
    }
    for (size_t k = 0; k < u->n_assocs; k++)
        keeps_default |= u->default_account && !strcmp(u->assocs[k]->account, u->default_account);
    if (u->n_assocs && !keeps_default && u->default_account)
        return refuse(c->d, SPUR_EBUSY, 0, "%s is the default account of user %s: give him another first", u->default_account, name);
    if (!u->n_assocs && u->default_account)
        text_take(&u->default_account, "");
    return 0;
}

static int set_coordinator(struct change *c, const char *name, bool add)
{
    size_t at;

    if (add && !user_in(c->a, name, &at))
        return refuse(c->d, SPUR_ENOTFOUND, 0, "there is no user %s: add him first", name);
    for (size_t i = 0; i < c->o->n_accounts; i++) {
        Wire__AccountRow *r = account_in(c->a, c->o->accounts[i], &at);

        if (!r)
            return refuse(c->d, SPUR_ENOTFOUND, 0, "there is no account %s", c->o->accounts[i]);
        if (add && !has_coordinator(r, name)) {
            ROW_INSERT(r->coordinators, r->n_coordinators, r->n_coordinators, mem_copy(name));
            c->done = true;
        }
        for (size_t k = r->n_coordinators; !add && k-- > 0; )
            if (!strcmp(r->coordinators[k], name)) {
                free(r->coordinators[k]);
                ROW_REMOVE(r->coordinators, r->n_coordinators, k);
                c->done = true;
            }
    }
    return 0;
}

static int change_name(struct change *c, const char *name)
{
    bool adds = c->o->verb == WIRE__ACCOUNT_CHANGE__VERB__ADD, modifies = c->o->verb == WIRE__ACCOUNT_CHANGE__VERB__MODIFY;

    if (c->o->kind == WIRE__ACCOUNT_CHANGE__KIND__ACCOUNT)
        return adds ? add_account(c, name) : modifies ? modify_account(c, name) : remove_account(c, name);
    if (c->o->kind == WIRE__ACCOUNT_CHANGE__KIND__USER)
        return adds ? add_user(c, name) : modifies ? modify_user(c, name) : remove_user(c, name);
    return set_coordinator(c, name, adds);
}

void op_accounts(struct doing *d, const Wire__AccountChange *o)
{
    struct change c = { .d = d, .o = o };
    int rc = 0;

    if (check_text(&c, "the description", o->description, TEXT_MOST, false) < 0 || check_text(&c, "the organization", o->organization, TEXT_MOST, false) < 0)
        return;
    c.a = rows_copy(state_accounts(d->s));
    c.a->has_last_id = 1;
    for (size_t i = 0; rc == 0 && i < o->n_names; i++)
        rc = change_name(&c, o->names[i]);
    if (rc == 0 && !c.done)
        rc = refuse(d, SPUR_ESTALE, 0, o->verb == WIRE__ACCOUNT_CHANGE__VERB__ADD ? "Nothing new added." : "Nothing to change.");
    if (rc != 0) {
        wire__accounts__free_unpacked(c.a, NULL);
        return;
    }
    if (d->s->accounts)
        wire__accounts__free_unpacked(d->s->accounts, NULL);
    d->s->accounts = c.a;
    tell(d, EV_ACCOUNTS_CHANGED, NULL);
}

bool accounts_take(struct state *s, const Wire__Accounts *from)
{
    const char *last = "";

    for (size_t i = 0; i < from->n_accounts; last = from->accounts[i++]->name)
        if (i && strcmp(last, from->accounts[i]->name) >= 0)
            return false;
    for (size_t i = 0; i < from->n_users; last = from->users[i++]->name)
        if (i && strcmp(last, from->users[i]->name) >= 0)
            return false;
    s->accounts = rows_copy(from);
    return true;
}
