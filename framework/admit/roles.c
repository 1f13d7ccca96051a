/* SPDX-License-Identifier: Apache-2.0 */
/* roles.c - what a person is in this cluster: user, coordinator of an account, operator, administrator.
 *
 * Administrators are root, SlurmUser and the `admins` of spur.conf; operators and coordinators stand there too. Lists name people or numbers; a name means
 * whom the controller has found for it (struct config_user), and one that was not found is nobody. A coordinator has for the jobs of his account the
 * rights of their owners and no more: his rank stays that of a user.
 */
#include <string.h>

#include "admit/private.h"
#include "base/str.h"

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

enum rank admit_rank(const struct state *s, const struct spur_identity *who)
{
    const struct config_value *user = s->config ? &s->config->values[CONF_SlurmUser] : NULL;
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
    if (s->config && names_user(s->config, SETTING_operators, who->uid))
        return RANK_OPERATOR;
    return RANK_USER;
}

bool admit_coordinates(const struct state *s, const struct job *j, const struct spur_identity *who)
{
    const char *at = s->config ? config_setting(s->config, SETTING_coordinators) : NULL;
    const Wire__JobSpec *spec;
    struct arena arena;
    const char *account;
    bool found = false;

    if (!at || who->role != SPUR_ROLE_USER || who->uid == UINT32_MAX)
        return false;
    arena_init(&arena, 0);
    spec = NULL;
    for (size_t n; !found && (n = word_at(&at)) > 0; at += n) {
        const char *colon = memchr(at, ':', n);
        size_t len = colon ? (size_t)(colon - at) : 0;

        if (!len || !is_user(s->config, colon + 1, n - len - 1, who->uid))
            continue;
        if (!spec)
            spec = job_spec(j, &arena);
        account = spec && spec->account ? spec->account : "";
        found = strlen(account) == len && strncasecmp(account, at, len) == 0;
    }
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
