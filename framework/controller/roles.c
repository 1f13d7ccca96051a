/* SPDX-License-Identifier: Apache-2.0 */
/* roles.c - names of people who have rights, and the numbers that admit knows them by.
 *
 * SlurmUser, the lists admins, operators and coordinators of spur.conf, and users with an AdminLevel or coordinators of accounts, stand as names in the log.
 * They are looked up once a configuration and after each change of accounts, here on the controller that was asked; a name that is nobody gives nobody any right. The numbers are no part of the state.
 */
#include <pwd.h>
#include <stdlib.h>

#include "controller/ctl.h"
#include "state/accounts.h"

static void user_look_up(struct config *cfg, const char *name)
{
    struct passwd pw, *found = NULL;
    char buf[16384];
    uint32_t number;

    if (!*name || number_u32(name, &number))
        return;
    for (size_t i = 0; i < cfg->user_count; i++)
        if (!strcmp(cfg->users[i].name, name))
            return;
    if (getpwnam_r(name, &pw, buf, sizeof buf, &found) != 0 || !found) {
        log_line(SPUR_LOG_WARN, "no user %s is known here: the name (spur.conf, or sacctmgr) gives nobody a right", name);
        return;
    }
    cfg->users = mem_grow(cfg->users, cfg->user_count + 1, sizeof *cfg->users);
    cfg->users[cfg->user_count++] = (struct config_user){ .name = mem_copy(name), .uid = found->pw_uid };
}

void roles_look_up(struct ctl *c)
{
    static const enum config_setting lists[] = { SETTING_admins, SETTING_operators, SETTING_coordinators };
    struct config *cfg = c->state->config;
    const Wire__Accounts *rows = state_accounts(c->state);
    struct config_value *v = cfg ? &cfg->values[CONF_SlurmUser] : NULL;
    struct passwd pw, *found = NULL;
    char buf[16384];

    if (!cfg || cfg->has_users)
        return;
    cfg->has_users = true;
    if (v->text && !v->number)          /* -1: no such user, or root, who needs no row */
        v->number = getpwnam_r(v->text, &pw, buf, sizeof buf, &found) == 0 && found && found->pw_uid ? (int64_t)found->pw_uid : -1;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        char *copy = mem_copy(config_setting(cfg, lists[i])), *cursor = copy, *word;

        while (copy && (word = word_next(&cursor, ","))) {
            char *colon = strrchr(word, ':');

            user_look_up(cfg, word_trim(colon ? colon + 1 : word));
        }
        free(copy);
    }
    for (size_t i = 0; i < rows->n_users; i++)
        if (rows->users[i]->has_admin_level && strcmp(rows->users[i]->name, "root") != 0)
            user_look_up(cfg, rows->users[i]->name);
    for (size_t i = 0; i < rows->n_accounts; i++)
        for (size_t k = 0; k < rows->accounts[i]->n_coordinators; k++)
            user_look_up(cfg, rows->accounts[i]->coordinators[k]);
}

void roles_changed(struct ctl *c)
{
    if (c->state->config)
        c->state->config->has_users = false;
}
