/* SPDX-License-Identifier: Apache-2.0 */
/* accounts.h - questions about accounts, users and associations. Names of accounts are in small letters; rows live until the next apply. */
#ifndef STATE_ACCOUNTS_H
#define STATE_ACCOUNTS_H

#include "state/state.h"

const Wire__Accounts *state_accounts(const struct state *s);                   /* never NULL: a cluster begins with the account and the user root */
const Wire__AccountRow *account_find(const struct state *s, const char *name);  /* NULL: there is none; so is NULL as a name */
const Wire__AccountUser *account_user(const struct state *s, const char *name);
/* The association that lets this user (NULL: nobody) run under this account in this partition (NULL: in all of them); NULL: none does. */
const Wire__AssocRow *account_assoc(const Wire__AccountUser *u, const char *account, const char *partition);
/* Is `user` a coordinator of this account, or of one above it? */
bool account_coordinates(const struct state *s, const char *user, const char *account);
bool accounts_take(struct state *s, const Wire__Accounts *from);               /* of a snapshot; false: rows out of order */

#endif
