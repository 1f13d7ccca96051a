/* SPDX-License-Identifier: Apache-2.0 */
/* account.c - under which account a job runs, who may change accounts and users, and who sees them.
 *
 * A job without an account gets the default one of its user. AccountingStorageEnforce=associations asks for an association of the user with the account, for
 * each partition that the job names: a user nobody has added runs nothing. What may be changed: administrators everything; operators everything but
 * who is an operator or an administrator; a coordinator accounts and associations below the accounts that he coordinates; a user his own default account.
 */
#include <ctype.h>
#include <string.h>

#include "admit/private.h"
#include "base/str.h"
#include "state/accounts.h"

#define NAMES_MOST 10000u

/* Names of accounts are kept in small letters. */
static char *account_name(struct arena *a, const char *name)
{
    char *copy = arena_copy(a, name);

    for (char *at = copy; at && *at; at++)
        *at = (char)tolower((unsigned char)*at);
    return copy;
}

int check_account(const struct state *s, const char *user, Wire__JobSpec *spec, struct arena *a, struct admitted *out, struct spur_error *err)
{
    bool is_asked = config_has_word(s->config, CONF_AccountingStorageEnforce, "associations");
    const Wire__AccountUser *u = account_user(s, user);
    char *text, *at, *part;

    if (!is_asked && !s->accounts)      /* accounts are not used here */
        return 0;
    if ((!spec->account || !*spec->account) && u && u->default_account)
        spec->account = arena_copy(a, u->default_account);
    if (!is_asked)
        return 0;
    if (!user)
        return deny(out, err, REFUSE_ACCOUNT, "the name of this user is not known here, and AccountingStorageEnforce asks for his association");
    if (!u)
        return deny(out, err, REFUSE_ACCOUNT, "user %.64s has no association (AccountingStorageEnforce): an administrator adds him with `sacctmgr add user %.64s account=NAME`", user, user);
    if (!spec->account || !*spec->account)
        return deny(out, err, REFUSE_ACCOUNT, "user %.64s has no default account: name one (--account)", user);
    spec->account = account_name(a, spec->account);
    for (at = text = arena_copy(a, spec->partition ? spec->partition : ""); (part = word_next(&at, ",")); )
        if (!account_assoc(u, spec->account, part))
            return deny(out, err, REFUSE_ACCOUNT, "user %.64s has no association with account %.64s for partition %.64s", user, spec->account, part);
    return 0;
}

/* ---- changes ---------------------------------------------------------------------------------------------------------------- */

static bool coordinates_all(const struct state *s, const char *user, char *const *accounts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!account_coordinates(s, user, accounts[i]))
            return false;
    return n > 0;
}

/* What a user without rank may do. */
static int check_unranked(const struct state *s, const Wire__AccountChange *m, const char *user, struct admitted *out, struct spur_error *err)
{
    bool adds = m->verb == WIRE__ACCOUNT_CHANGE__VERB__ADD, modifies = m->verb == WIRE__ACCOUNT_CHANGE__VERB__MODIFY;

    if (!user)
        return deny(out, err, REFUSE_DENIED, "your name is not known on this controller");
    if (m->kind == WIRE__ACCOUNT_CHANGE__KIND__USER && modifies && m->n_names == 1 && !strcmp(m->names[0], user) && m->default_account && !m->has_admin_level)
        return 0;
    if (m->kind == WIRE__ACCOUNT_CHANGE__KIND__USER && !modifies && !m->has_admin_level && coordinates_all(s, user, m->accounts, m->n_accounts)) {
        for (size_t i = 0; adds && m->default_account && i < m->n_names; i++)
            if (account_user(s, m->names[i]))
                return deny(out, err, REFUSE_DENIED, "the default account of user %.64s is his to change, or an operator's", m->names[i]);
        return 0;
    }
    if (m->kind == WIRE__ACCOUNT_CHANGE__KIND__ACCOUNT && adds && m->parent && account_coordinates(s, user, m->parent))
        return 0;
    if (m->kind == WIRE__ACCOUNT_CHANGE__KIND__ACCOUNT && !adds && coordinates_all(s, user, m->names, m->n_names) && (!m->parent || account_coordinates(s, user, m->parent))) {
        for (size_t i = 0; i < m->n_names; i++) {
            const Wire__AccountRow *r = account_find(s, m->names[i]);

            /* The top of what he has been given is not his: he would free himself of those above, or lose it. */
            if (r && (!r->parent || !account_coordinates(s, user, r->parent)) && (m->parent || m->verb == WIRE__ACCOUNT_CHANGE__VERB__REMOVE))
                return deny(out, err, REFUSE_DENIED, "account %.64s is where your rights as coordinator begin: an operator moves or deletes it", m->names[i]);
        }
        return 0;
    }
    return deny(out, err, REFUSE_DENIED, "only operators, and coordinators of the accounts, may do this");
}

/* An operator changes nobody who is more than he: a rank that a row gives is given, taken and lost by administrators. */
static int check_operator(const struct state *s, const Wire__AccountChange *m, struct admitted *out, struct spur_error *err)
{
    if (m->has_admin_level)
        return deny(out, err, REFUSE_DENIED, "only administrators may set AdminLevel");
    for (size_t i = 0; m->kind == WIRE__ACCOUNT_CHANGE__KIND__USER && m->verb == WIRE__ACCOUNT_CHANGE__VERB__REMOVE && !m->n_accounts && i < m->n_names; i++) {
        const Wire__AccountUser *u = account_user(s, m->names[i]);

        if (u && u->has_admin_level && u->admin_level != WIRE__ADMIN_LEVEL__ADMIN_NONE)
            return deny(out, err, REFUSE_DENIED, "user %.64s has an AdminLevel: only administrators may delete him", u->name);
    }
    return 0;
}

int admit_account_change(struct state *s, const Wire__AccountChange *r, const struct spur_identity *who, const struct facts *f, struct arena *a, struct admitted *out, struct spur_error *err)
{
    struct asker asker = { .who = who, .facts = f, .rank = admit_rank(s, who), .uid = who->uid };
    Wire__AccountChange *m = arena_copy_bytes(a, r, sizeof *m);
    Wire__Op *op;
    int rc;

    if (who->role != SPUR_ROLE_USER || who->uid == UINT32_MAX)
        return deny(out, err, REFUSE_DENIED, "accounts are changed by users only");
    if (!m->n_names || m->n_names > NAMES_MOST || m->n_accounts > NAMES_MOST || m->n_partitions > NAMES_MOST)
        return deny(out, err, REFUSE_BAD_REQUEST, "a change has 1 to %u names", NAMES_MOST);
    if ((unsigned)m->verb > WIRE__ACCOUNT_CHANGE__VERB__REMOVE || (unsigned)m->kind > WIRE__ACCOUNT_CHANGE__KIND__COORDINATOR || (m->has_admin_level && (unsigned)m->admin_level > WIRE__ADMIN_LEVEL__ADMIN_ADMINISTRATOR))
        return deny(out, err, REFUSE_BAD_REQUEST, "no such change");
    if (m->has_token && (rc = check_token(s, true, m->token, m->token_wall_ms, out, err)) != 0)
        return rc < 0 ? rc : 0;
    if (m->kind == WIRE__ACCOUNT_CHANGE__KIND__COORDINATOR && (m->verb == WIRE__ACCOUNT_CHANGE__VERB__MODIFY || !m->n_accounts))
        return deny(out, err, REFUSE_BAD_REQUEST, "a coordinator is added to, or deleted from, accounts (account=NAME)");
    m->names = arena_copy_bytes(a, m->names, m->n_names * sizeof *m->names);
    for (size_t i = 0; m->kind == WIRE__ACCOUNT_CHANGE__KIND__ACCOUNT && i < m->n_names; i++)
        m->names[i] = account_name(a, m->names[i]);
    m->accounts = m->n_accounts ? arena_copy_bytes(a, m->accounts, m->n_accounts * sizeof *m->accounts) : NULL;
    for (size_t i = 0; i < m->n_accounts; i++)
        m->accounts[i] = account_name(a, m->accounts[i]);
    if (m->parent)
        m->parent = account_name(a, m->parent);
    if (m->default_account)
        m->default_account = account_name(a, m->default_account);
    if (asker.rank < RANK_OPERATOR)
        rc = check_unranked(s, m, f->user, out, err);
    else
        rc = asker.rank < RANK_ADMIN ? check_operator(s, m, out, err) : 0;
    if (rc < 0)
        return rc;
    op = op_new(a, &asker, m->token, m->has_token, m->token_wall_ms);
    op->accounts = m;
    op_add(out, a, op);
    return 0;
}

/* ---- who sees what ---------------------------------------------------------------------------------------------------------- */

/* Everything, or with PrivateData=accounts the accounts that he is in or coordinates, with PrivateData=users himself. */
const Wire__Accounts *admit_accounts_seen(const struct state *s, const struct spur_identity *who, const char *user, enum rank rank, struct arena *a)
{
    const Wire__Accounts *all = state_accounts(s);
    bool accounts = config_has_word(s->config, CONF_PrivateData, "accounts"), users = config_has_word(s->config, CONF_PrivateData, "users");
    const Wire__AccountUser *own = account_user(s, user);
    Wire__Accounts *seen;

    if (who->role != SPUR_ROLE_USER || rank >= RANK_OPERATOR || (!accounts && !users))
        return all;
    seen = arena_copy_bytes(a, all, sizeof *seen);
    if (accounts) {
        seen->n_accounts = 0;
        seen->accounts = arena_alloc(a, (all->n_accounts + 1) * sizeof *seen->accounts);
        for (size_t i = 0; i < all->n_accounts; i++) {
            bool is_in = account_coordinates(s, user, all->accounts[i]->name);

            for (size_t k = 0; own && k < own->n_assocs && !is_in; k++)
                is_in = !strcmp(own->assocs[k]->account, all->accounts[i]->name);
            if (is_in)
                seen->accounts[seen->n_accounts++] = all->accounts[i];
        }
    }
    seen->n_users = 0;
    seen->users = arena_alloc(a, (all->n_users + 1) * sizeof *seen->users);
    for (size_t i = 0; i < all->n_users; i++) {
        const Wire__AccountUser *u = all->users[i];
        bool is_his = u == own;

        for (size_t k = 0; k < u->n_assocs && !is_his; k++)
            is_his = account_coordinates(s, user, u->assocs[k]->account) || (!users && account_assoc(own, u->assocs[k]->account, NULL));
        if (is_his)
            seen->users[seen->n_users++] = all->users[i];
    }
    return seen;
}
