/* SPDX-License-Identifier: Apache-2.0 */
/* roles.c - what a person is in this cluster: user, coordinator of an account, operator, administrator.
 *
 * Administrators are root, SlurmUser, the `admins` of spur.conf and whose row of users says so (AdminLevel); operators and coordinators likewise. Lists name people or numbers; a name means
 * whom the controller has found for it (struct config_user), and one that was not found is nobody. A coordinator has for the jobs of his account the
 * rights of their owners and no more: his rank stays that of a user.
 */
#include <ctype.h>
#include <string.h>

#include "admit/private.h"
#include "base/str.h"
#include "state/accounts.h"

/* Is this word of a list, n characters, the number or the name of uid? */
static bool is_user(const struct config *cfg, const char *word, size_t n, uint32_t uid)
{
    char text[64];
    uint32_t number;

    if (n == 0 || n >= sizeof text)
        return false;
    memcpy(text, word, n);
    text[n] = '\0';
    if (number_u32(text, &number))
        return number == uid;
    for (size_t i = 0; i < cfg->user_count; i++)
        if (!strcmp(cfg->users[i].name, text))
            return cfg->users[i].uid == uid;
    return false;
}

/* The name that the controller has found for this number among those that have a right; NULL: none. */
static const char *user_name(const struct config *cfg, uint32_t uid)
{
    for (size_t i = 0; cfg && i < cfg->user_count; i++)
        if (cfg->users[i].uid == uid)
            return cfg->users[i].name;
    return NULL;
}

/* Goes to the next word, without blanks; 0: the end. */
static size_t word_at(const char **at)
{
    size_t n;

    *at += strspn(*at, ", \t");
    n = strcspn(*at, ",");
    while (n && ((*at)[n - 1] == ' ' || (*at)[n - 1] == '\t'))
        n--;
    return n;
}

static bool names_user(const struct config *cfg, enum config_setting list, uint32_t uid)
{
    const char *at = config_setting(cfg, list);

    for (size_t n; at && (n = word_at(&at)) > 0; at += n)
        if (is_user(cfg, at, n, uid))
            return true;
    return false;
}

/* What the rows of users say of him. */
static Wire__AdminLevel admin_level(const struct state *s, uint32_t uid)
{
    const char *name = user_name(s->config, uid);
    const Wire__AccountUser *u = name ? account_user(s, name) : NULL;

    return u && u->has_admin_level ? u->admin_level : WIRE__ADMIN_LEVEL__ADMIN_NONE;
}

enum rank admit_rank(const struct state *s, const struct spur_identity *who)
{
    const struct config_value *user = s->config ? &s->config->values[CONF_SlurmUser] : NULL;
    Wire__AdminLevel level;
    uint32_t uid;

    if (who->role != SPUR_ROLE_USER)
        return RANK_NONE;
    if (who->uid == 0)
        return RANK_ADMIN;
    if (who->uid == UINT32_MAX)
        return RANK_NONE;
    /* SlurmUser: a number as written, or the number the controller has found for the name. */
    if (user && ((number_u32(user->text ? user->text : "", &uid) && uid == who->uid) || (user->number > 0 && user->number == who->uid)))
        return RANK_ADMIN;
    if (s->config && names_user(s->config, SETTING_admins, who->uid))
        return RANK_ADMIN;
    level = admin_level(s, who->uid);
    if (level == WIRE__ADMIN_LEVEL__ADMIN_ADMINISTRATOR)
        return RANK_ADMIN;
    if (s->config && names_user(s->config, SETTING_operators, who->uid))
        return RANK_OPERATOR;
    return level == WIRE__ADMIN_LEVEL__ADMIN_OPERATOR ? RANK_OPERATOR : RANK_USER;
}

/* Does a list of spur.conf ("account:user,...") or the row of the account make him its coordinator? */
static bool coordinates(const struct state *s, const char *account, uint32_t uid)
{
    const char *at = config_setting(s->config, SETTING_coordinators), *name = user_name(s->config, uid);
    char small[128];
    size_t i;

    for (i = 0; account[i] && i + 1 < sizeof small; i++)
        small[i] = (char)tolower((unsigned char)account[i]);
    small[i] = '\0';
    if (name && account_coordinates(s, name, small))
        return true;
    for (size_t n; at && (n = word_at(&at)) > 0; at += n) {
        const char *colon = memchr(at, ':', n);
        size_t len = colon ? (size_t)(colon - at) : 0;

        if (len && strlen(account) == len && strncasecmp(account, at, len) == 0 && is_user(s->config, colon + 1, n - len - 1, uid))
            return true;
    }
    return false;
}

/* Does he coordinate anything at all? */
static bool is_coordinator(const struct state *s, uint32_t uid)
{
    return config_setting(s->config, SETTING_coordinators) || (s->accounts && user_name(s->config, uid));
}

bool admit_coordinates(const struct state *s, const struct job *j, const struct spur_identity *who)
{
    const Wire__JobSpec *spec;
    struct arena arena;
    bool found;

    if (!s->config || who->role != SPUR_ROLE_USER || who->uid == UINT32_MAX || !is_coordinator(s, who->uid))
        return false;
    arena_init(&arena, 0);
    spec = job_spec(j, &arena);
    found = spec && spec->account && *spec->account && coordinates(s, spec->account, who->uid);
    arena_fini(&arena);
    return found;
}

int admit_private(const struct state *s, unsigned message_type, const struct spur_identity *who, enum rank rank, struct spur_error *err)
{
    if (who->role != SPUR_ROLE_USER || rank >= RANK_OPERATOR || !s->config)
        return 0;
    if ((message_type == WIRE__MESSAGE_TYPE__NODES || message_type == WIRE__MESSAGE_TYPE__MESH) && config_has_word(s->config, CONF_PrivateData, "nodes"))
        return spur_fail(err, SPUR_EDENIED, "Access/permission denied: nodes are shown to operators only (PrivateData=nodes)");
    if (message_type == WIRE__MESSAGE_TYPE__PARTITIONS && config_has_word(s->config, CONF_PrivateData, "partitions"))
        return spur_fail(err, SPUR_EDENIED, "Access/permission denied: partitions are shown to operators only (PrivateData=partitions)");
    return 0;
}
