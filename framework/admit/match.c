/* SPDX-License-Identifier: Apache-2.0 */
/* match.c - which jobs a query means, and which of them the asker may see.
 *
 * Ids are resolved by the caller; here are the other words of squeue and scancel. A field of the packed request is unpacked only when the query
 * asks for one: a list of all jobs of a partition must not cost an unpack a job.
 */
#include <string.h>

#include "admit/private.h"
#include "base/hostlist.h"
#include "base/str.h"

bool admit_owns_job(const struct job *j, const struct spur_identity *who, enum rank rank)
{
    return rank == RANK_ADMIN || (who->role == SPUR_ROLE_USER && who->uid != UINT32_MAX && who->uid == j->uid);
}

bool admit_sees_job(const struct state *s, const struct job *j, const struct spur_identity *who, enum rank rank)
{
    if (rank >= RANK_OPERATOR || who->role == SPUR_ROLE_CONTROLLER || admit_owns_job(j, who, rank) || admit_coordinates(s, j, who))
        return true;
    if (who->role == SPUR_ROLE_NODE) {          /* its own jobs */
        for (uint32_t i = 0; i < j->alloc_count; i++)
            if (j->allocs[i].node < s->node_count && speaks_for(s, who, s->nodes[j->allocs[i].node].conf->name))
                return true;
        return false;
    }
    if (who->role != SPUR_ROLE_USER)
        return false;
    if (config_has_word(s->config, CONF_PrivateData, "jobs"))
        return false;
    /* Jobs of a hidden partition are shown to those who may use it or may do everything; the rest asks with --all, which is not a right. */
    return true;
}

static bool any_word(char *const *words, size_t n, const char *value)
{
    for (size_t i = 0; i < n; i++)
        if (list_names(words[i], value ? value : ""))
            return true;
    return false;
}

static bool any_user(const Wire__JobsRequest *r, const struct job *j)
{
    char uid[16];

    snprintf(uid, sizeof uid, "%u", j->uid);
    for (size_t i = 0; i < r->n_uids; i++)
        if (r->uids[i] == j->uid)
            return true;
    for (size_t i = 0; i < r->n_users; i++)
        if ((j->user && list_names(r->users[i], j->user)) || list_names(r->users[i], uid))
            return true;
    return false;
}

static bool any_partition(const Wire__JobsRequest *r, const struct job *j)
{
    const char *at = j->partition ? j->partition : "";
    char name[256];

    while (*at) {
        size_t n = strcspn(at, ",");

        if (n < sizeof name) {
            memcpy(name, at, n);
            name[n] = '\0';
            if (any_word(r->partitions, r->n_partitions, name))
                return true;
        }
        at += n + (at[n] == ',');
    }
    return false;
}

static bool any_state(const Wire__JobsRequest *r, const struct job *j)
{
    if (!r->n_states)
        return !job_state_is_end(j->state) || (j->flags & JOB_FLAG_COMPLETING);
    for (size_t i = 0; i < r->n_states; i++) {
        const char *at = r->states[i];

        while (*at) {
            size_t n = strcspn(at, ",");
            unsigned state = 0, flags = 0;
            char name[64];

            if (n < sizeof name) {
                memcpy(name, at, n);
                name[n] = '\0';
                if (word_eq(name, "all"))
                    return true;
                if (job_state_parse(name, &state, &flags) && (flags ? (j->flags & flags) != 0 : j->state == state))
                    return true;
            }
            at += n + (at[n] == ',');
        }
    }
    return false;
}

static bool any_node(const struct state *s, const Wire__JobsRequest *r, const struct job *j)
{
    bool found = false;

    for (size_t i = 0; i < r->n_nodes && !found; i++) {
        struct hostlist *h = NULL;

        if (hostlist_parse(r->nodes[i], &h, NULL) < 0)
            continue;
        for (uint32_t k = 0; k < j->alloc_count && !found; k++)
            found = j->allocs[k].node < s->node_count && hostlist_find(h, s->nodes[j->allocs[k].node].conf->name) >= 0;
        hostlist_destroy(h);
    }
    return found;
}

bool admit_matches(const struct state *s, const struct job *j, const Wire__JobsRequest *r)
{
    struct arena arena;
    Wire__JobSpec *spec;
    bool ok;

    if ((r->n_uids || r->n_users) && !any_user(r, j))
        return false;
    if ((r->n_partitions && !any_partition(r, j)) || (r->n_names && !any_word(r->names, r->n_names, j->name)) || !any_state(r, j))
        return false;
    if (r->n_nodes && !any_node(s, r, j))
        return false;
    if (!r->n_accounts && !r->n_qos && !r->n_reservations && !r->n_licenses)
        return true;
    arena_init(&arena, 0);
    spec = job_spec(j, &arena);
    ok = (!r->n_accounts || any_word(r->accounts, r->n_accounts, spec->account)) && (!r->n_qos || any_word(r->qos, r->n_qos, spec->qos)) &&
         (!r->n_reservations || any_word(r->reservations, r->n_reservations, spec->reservation)) &&
         (!r->n_licenses || any_word(r->licenses, r->n_licenses, spec->licenses));
    arena_fini(&arena);
    return ok;
}
