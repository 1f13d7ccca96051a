/* SPDX-License-Identifier: Apache-2.0 */
/* partition.c - may this user use these partitions, and does the wish keep within their limits?
 *
 * Access (RootOnly, AllowGroups, AllowAccounts, AllocNodes, ...) is asked of each partition that the job names: one that is closed to him refuses the
 * job, else a list would be a way around. Limits are asked as EnforcePartLimits says: ALL of them, ANY of them, or not at submit (NO): such a job
 * waits, with the reason, until the partition or the job is changed.
 */
#include <stdlib.h>
#include <string.h>

#include "admit/private.h"
#include "base/str.h"
#include "plan/ask.h"

static bool group_in(const struct facts *f, const char *list)
{
    if (f->group && list_names(list, f->group))
        return true;
    for (size_t i = 0; f->group_names && i < f->group_count; i++)
        if (f->group_names[i] && list_names(list, f->group_names[i]))
            return true;
    for (size_t i = 0; i < f->group_count; i++) {       /* a number as a name */
        char number[16];

        snprintf(number, sizeof number, "%u", f->groups[i]);
        if (list_names(list, number))
            return true;
    }
    return false;
}

static bool is_all(const char *list) { return !list || !*list || word_eq(list, "ALL"); }

static bool host_in(const char *list, const char *host)
{
    struct hostlist *h = NULL;
    bool found = false;

    if (!host[0] || hostlist_parse(list, &h, NULL) < 0)
        return false;           /* unknown is not yes */
    for (size_t i = 0; i < hostlist_count(h) && !found; i++) {
        const char *name = hostlist_nth(h, i);

        found = word_eq(name, host) || (!strchr(name, '.') && strlen(name) == strcspn(host, ".") && strncasecmp(name, host, strlen(name)) == 0);
    }
    hostlist_destroy(h);
    return found;
}

static int check_access(const struct state *s, const struct config_partition *p, const Wire__JobSpec *spec, const struct asker *asker, struct admitted *out, struct spur_error *err)
{
    bool admin = asker->rank == RANK_ADMIN;

    if (word_eq(p->state, "DRAIN") || word_eq(p->state, "INACTIVE"))
        return deny(out, err, REFUSE_PARTITION_CLOSED, "partition %s is in state %s", p->name, p->state);
    if (p->disable_root_jobs && asker->uid == 0 && config_number(s->config, CONF_DisableRootJobs))
        return deny(out, err, REFUSE_USER_ID, "jobs of user root are disabled (DisableRootJobs), and partition %s does not allow them (DisableRootJobs=NO on its line)", p->name);
    if (p->disable_root_jobs && asker->uid == 0)
        return deny(out, err, REFUSE_DENIED, "partition %s runs no jobs of user root (DisableRootJobs)", p->name);
    if (p->root_only && !admin)
        return deny(out, err, REFUSE_DENIED, "partition %s is for user root only (RootOnly)", p->name);
    if (p->req_resv && !(spec->reservation && *spec->reservation))
        return deny(out, err, REFUSE_DENIED, "partition %s takes jobs with a reservation only (ReqResv)", p->name);
    if (!admin && !is_all(p->allow_groups) && !group_in(asker->facts, p->allow_groups))
        return deny(out, err, REFUSE_GROUP_DENIED, "partition %s is for the groups %.100s", p->name, p->allow_groups);
    if (!is_all(p->allow_accounts)) {
        if (!(spec->account && list_names(p->allow_accounts, spec->account)) && !(asker->uid == 0))
            return deny(out, err, REFUSE_ACCOUNT, "partition %s is for the accounts %.100s", p->name, p->allow_accounts);
    } else if (p->deny_accounts && spec->account && list_names(p->deny_accounts, spec->account)) {
        return deny(out, err, REFUSE_ACCOUNT, "account %s may not use partition %s", spec->account, p->name);
    }
    if (!is_all(p->allow_qos)) {
        if (!(spec->qos && list_names(p->allow_qos, spec->qos)) && !(asker->uid == 0))
            return deny(out, err, REFUSE_QOS, "partition %s is for the qos %.100s", p->name, p->allow_qos);
    } else if (p->deny_qos && spec->qos && list_names(p->deny_qos, spec->qos)) {
        return deny(out, err, REFUSE_QOS, "qos %s may not use partition %s", spec->qos, p->name);
    }
    if (!is_all(p->alloc_nodes) && !admin && !host_in(p->alloc_nodes, asker->who->host))
        return deny(out, err, REFUSE_DENIED, "jobs for partition %s are taken from the hosts %.100s only (AllocNodes)", p->name, p->alloc_nodes);
    return 0;
}

static int refuse_limit(unsigned limit, const struct spur_error *why, struct admitted *out, struct spur_error *err)
{
    char text[sizeof why->text];

    memcpy(text, why->text, sizeof text);
    return deny(out, err, limit == REASON_PartitionTimeLimit ? REFUSE_TIME_LIMIT : limit == REASON_MaxMemPerLimit ? REFUSE_MEMORY : REFUSE_NODE_COUNT, "%s", text);
}

int check_partitions(struct state *s, const Wire__JobSpec *spec, const struct asker *asker, struct admitted *out, struct spur_error *err)
{
    const char *enforce = config_text(s->config, CONF_EnforcePartLimits);
    bool all = word_eq(enforce, "ALL") || word_eq(enforce, "YES"), any = word_eq(enforce, "ANY"), within = false;
    char *text = mem_copy(spec->partition ? spec->partition : ""), *at = text, *word;
    struct spur_error why = { 0 };
    unsigned limit = REASON_None, n = 0;
    int rc = 0;

    while (rc == 0 && (word = word_next(&at, ","))) {
        const struct config_partition *p = config_partition_find(s->config, word);
        unsigned broken;

        n++;
        if (!p) {
            rc = deny(out, err, REFUSE_PARTITION_UNKNOWN, "%.64s", word);
            break;
        }
        if ((rc = check_access(s, p, spec, asker, out, err)) < 0)
            break;
        broken = partition_limit(s->config, p, spec, limit == REASON_None ? &why : NULL);
        if (broken == REASON_None)
            within = true;
        else if (limit == REASON_None)
            limit = broken;
        if (broken != REASON_None && all)
            rc = refuse_limit(broken, &why, out, err);
    }
    if (rc == 0 && n == 0)
        rc = deny(out, err, REFUSE_PARTITION_MISSING, NULL);
    if (rc == 0 && any && !within)
        rc = refuse_limit(limit, &why, out, err);
    free(text);
    return rc;
}
