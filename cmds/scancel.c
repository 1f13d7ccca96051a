/* SPDX-License-Identifier: Apache-2.0 */
/* scancel.c - ends or signals jobs, array tasks and steps.
 *
 * One request whatever the number of ids: the controller picks what matches and may be touched. An id that is unknown or has ended is silent and
 * exit 0, as Slurm's; a job of somebody else is an error.
 */
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/client.h"
#include "cmds/commands.h"
#include "cmds/common/jobfields.h"
#include "cmds/common/list.h"
#include "cmds/common/options.h"
#include "cmds/common/signals.h"
#include "cmds/common/taskset.h"
#include "state/job.h"

#define ALREADY_DONE 2021       /* Slurm's ESLURM_ALREADY_DONE */

struct scancel {
    struct list ids, users, names, partitions, states, accounts, nodes, qos, reservations, wckeys;
    const char *clusters;
    uint32_t signal;
    bool signal_set, batch, full, interactive, quiet, verbose, me;
};

#define TAKE(name) static int take_##name(void *request, const char *value, enum option_source from, struct spur_error *err)
#define UNUSED (void)value, (void)from, (void)err
#define SC ((struct scancel *)request)
TAKE(account) { UNUSED; list_add(&SC->accounts, value); return 0; }
TAKE(name) { UNUSED; list_add(&SC->names, value); return 0; }
TAKE(partition) { UNUSED; list_add(&SC->partitions, value); return 0; }
TAKE(qos) { UNUSED; list_add(&SC->qos, value); return 0; }
TAKE(reservation) { UNUSED; list_add(&SC->reservations, value); return 0; }
TAKE(wckey) { UNUSED; list_add(&SC->wckeys, value); return 0; }
TAKE(user) { UNUSED; list_add(&SC->users, value); return 0; }
TAKE(me) { UNUSED; SC->me = true; return 0; }
TAKE(batch) { UNUSED; SC->batch = true; return 0; }
TAKE(full) { UNUSED; SC->full = true; return 0; }
TAKE(interactive) { UNUSED; SC->interactive = true; return 0; }
TAKE(quiet) { UNUSED; SC->quiet = true; return 0; }
TAKE(verbose) { UNUSED; SC->verbose = true; return 0; }
TAKE(nothing) { UNUSED; (void)request; return 0; }
TAKE(clusters) { UNUSED; SC->clusters = value; return 0; }
TAKE(nodelist) { (void)from; return list_add_hosts(&SC->nodes, value, err); }
TAKE(state)
{
    unsigned state, flags;

    (void)from;
    if (!job_state_parse(value, &state, &flags) || (state != JOB_PENDING && state != JOB_RUNNING && state != JOB_SUSPENDED))
        return spur_fail(err, SPUR_EINVAL, "Invalid job state specified: %.60s\nValid job states are PENDING, RUNNING, and SUSPENDED", value);
    list_put(&SC->states, job_state_name(state, 0, false));
    return 0;
}
TAKE(signal)
{
    int number = signal_parse(value);

    (void)from;
    if (number < 0)
        return spur_fail(err, SPUR_EINVAL, "Unknown job signal: %s", value);
    SC->signal = (uint32_t)number;
    SC->signal_set = true;
    return 0;
}

static const struct option_row rows[] = {
    { "account", 'A', OPTION_VALUE, "NAME", "SCANCEL_ACCOUNT", take_account, "jobs of this account" },
    { "batch", 'b', OPTION_NONE, NULL, "SCANCEL_BATCH", take_batch, "signal the batch shell alone" },
    { "clusters", 'M', OPTION_VALUE, "NAMES", "SLURM_CLUSTERS", take_clusters, "this cluster, by its name" },
    { "cluster", 0, OPTION_VALUE, "NAMES", NULL, take_clusters, NULL },
    { "ctld", 0, OPTION_NONE, NULL, "SCANCEL_CTLD", take_nothing, "through the controller (always so here)" },
    { "full", 'f', OPTION_NONE, NULL, "SCANCEL_FULL", take_full, "signal the batch shell too, not only steps" },
    { "hurry", 'H', OPTION_NONE, NULL, "SCANCEL_HURRY", take_nothing, "no stage-out of burst buffers (there are none here)" },
    { "interactive", 'i', OPTION_NONE, NULL, "SCANCEL_INTERACTIVE", take_interactive, "ask before each job" },
    { "jobname", 0, OPTION_VALUE, "NAME", NULL, take_name, NULL },
    { "name", 'n', OPTION_VALUE, "NAME", "SCANCEL_NAME", take_name, "jobs of this name" },
    { "me", 0, OPTION_NONE, NULL, NULL, take_me, "my jobs" },
    { "nodelist", 'w', OPTION_VALUE, "LIST", NULL, take_nodelist, "jobs on these nodes" },
    { "partition", 'p', OPTION_VALUE, "NAME", "SCANCEL_PARTITION", take_partition, "jobs of this partition" },
    { "qos", 'q', OPTION_VALUE, "NAME", "SCANCEL_QOS", take_qos, "jobs of this QOS" },
    { "quiet", 'Q', OPTION_NONE, NULL, NULL, take_quiet, "no word about jobs that have ended" },
    { "reservation", 'R', OPTION_VALUE, "NAME", NULL, take_reservation, "jobs of this reservation" },
    { "signal", 's', OPTION_VALUE, "SIGNAL", NULL, take_signal, "send this signal instead of ending the job" },
    { "state", 't', OPTION_VALUE, "STATE", "SCANCEL_STATE", take_state, "jobs in this state: PENDING, RUNNING, SUSPENDED" },
    { "user", 'u', OPTION_VALUE, "NAME", "SCANCEL_USER", take_user, "jobs of this user" },
    { "verbose", 'v', OPTION_NONE, NULL, "SCANCEL_VERBOSE", take_verbose, "say what is done" },
    { "wckey", 0, OPTION_VALUE, "NAME", "SCANCEL_WCKEY", take_wckey, "jobs of this wckey" },
};
static const struct option_table table = {
    "scancel", "Usage: scancel [OPTIONS] [JOB[_TASKS][.STEP] ...]\nEnds jobs, array tasks or steps, or sends them a signal.\n", rows, sizeof rows / sizeof *rows,
    "cron sibling admin-comment", "c", 1, false };

static bool needs(const struct scancel *s)
{
    return s->ids.count || s->users.count || s->names.count || s->partitions.count || s->states.count || s->accounts.count || s->nodes.count || s->qos.count ||
           s->reservations.count || s->wckeys.count;
}

/* What can be seen to be wrong from here, in Slurm's words. */
static int check(struct scancel *s)
{
    struct taskset ids;
    struct spur_error err = { 0 };
    uint32_t uid;
    int rc = 0;

    if (!needs(s)) {
        fprintf(stderr, "scancel: error: No job identification provided\n");
        return 1;
    }
    taskset_init(&ids);
    for (size_t i = 0; i < s->ids.count && !rc; i++) {
        char *id = mem_copy(s->ids.words[i]);

        id[strcspn(id, ".")] = '\0';
        if (taskset_add(&ids, id, &err) < 0) {
            fprintf(stderr, "scancel: error: Invalid job id %s\n", s->ids.words[i]);
            rc = 1;
        }
        free(id);
    }
    taskset_fini(&ids);
    for (size_t i = 0; i < s->users.count && !rc; i++)
        if (!number_u32(s->users.words[i], &uid) && !getpwnam(s->users.words[i])) {
            fprintf(stderr, "scancel: error: Invalid user name: %s\n", s->users.words[i]);
            rc = 1;
        }
    return rc;
}

/* ---- --interactive --------------------------------------------------------------------------------------------------------------------- */

struct asking { struct list yes; const char *step; };       /* step: the id of one, whose job the records are of */

static int ask_part(void *arg, void *part)
{
    struct asking *q = arg;
    const Wire__JobsReply *r = part;
    char answer[16];
    struct str id;

    str_init(&id);
    for (size_t i = 0; i < r->n_jobs; i++) {
        str_clear(&id);
        job_id_print(r->jobs[i], NULL, &id);
        printf("Cancel %s=%s name=%s partition=%s [y/n]? ", q->step ? "step_id" : "job_id", q->step ? q->step : id.text, r->jobs[i]->name ? r->jobs[i]->name : "", r->jobs[i]->partition ? r->jobs[i]->partition : "");
        fflush(stdout);
        if (!fgets(answer, sizeof answer, stdin))
            break;
        if (answer[0] == 'y' || answer[0] == 'Y') {
            str_clear(&id);
            str_addf(&id, "%u", r->jobs[i]->job_id);
            list_put(&q->yes, q->step ? q->step : id.text);
        }
    }
    str_fini(&id);
    return !r->last;
}

static int ask_some(struct scancel *s, struct client *c, struct asking *q, char **ids, size_t n, struct spur_error *err)
{
    Wire__JobsRequest r = WIRE__JOBS_REQUEST__INIT;
    int number;

    r.id_texts = ids;                       r.n_id_texts = n;
    r.users = s->users.words;               r.n_users = s->users.count;
    r.names = s->names.words;               r.n_names = s->names.count;
    r.partitions = s->partitions.words;     r.n_partitions = s->partitions.count;
    r.states = s->states.words;             r.n_states = s->states.count;
    r.accounts = s->accounts.words;         r.n_accounts = s->accounts.count;
    r.nodes = s->nodes.words;               r.n_nodes = s->nodes.count;
    r.qos = s->qos.words;                   r.n_qos = s->qos.count;
    r.reservations = s->reservations.words; r.n_reservations = s->reservations.count;
    r.has_fields = 1;
    return client_stream(c, WIRE__MESSAGE_TYPE__JOBS, &r.base, WIRE__MESSAGE_TYPE__JOBS_PART, &wire__jobs_reply__descriptor, ask_part, q, &number, err);
}

/* Asks for each job that matches, and for each step by its job; those with a yes become the ids. */
static int ask_each(struct scancel *s, struct client *c, struct spur_error *err)
{
    struct list jobs = { 0 };
    struct asking q = { 0 };
    int rc = 0;

    for (size_t i = 0; i < s->ids.count; i++)
        if (!strchr(s->ids.words[i], '.'))
            list_put(&jobs, s->ids.words[i]);
    if (jobs.count || !s->ids.count)
        rc = ask_some(s, c, &q, jobs.words, jobs.count, err);
    for (size_t i = 0; i < s->ids.count && rc >= 0; i++) {
        char *job = mem_copy(s->ids.words[i]);

        if (strchr(job, '.')) {
            job[strcspn(job, ".")] = '\0';
            q.step = s->ids.words[i];
            rc = ask_some(s, c, &q, &job, 1, err);
        }
        free(job);
    }
    list_fini(&jobs);
    list_fini(&s->ids);
    s->ids = q.yes;
    return rc;
}

/* ---- the request ----------------------------------------------------------------------------------------------------------------------- */

static int cancel(struct scancel *s, struct client *c, struct arena *a, const Wire__DoneReply **done, struct spur_error *err)
{
    Wire__CancelRequest r = WIRE__CANCEL_REQUEST__INIT;
    uint8_t token[16];
    void *reply = NULL;
    int number = 0;

    r.ids = s->ids.words;                    r.n_ids = s->ids.count;
    r.users = s->users.words;                r.n_users = s->users.count;
    r.names = s->names.words;                r.n_names = s->names.count;
    r.partitions = s->partitions.words;      r.n_partitions = s->partitions.count;
    r.states = s->states.words;              r.n_states = s->states.count;
    r.accounts = s->accounts.words;          r.n_accounts = s->accounts.count;
    r.nodes = s->nodes.words;                r.n_nodes = s->nodes.count;
    r.qos = s->qos.words;                    r.n_qos = s->qos.count;
    r.reservations = s->reservations.words;  r.n_reservations = s->reservations.count;
    r.wckeys = s->wckeys.words;              r.n_wckeys = s->wckeys.count;
    r.has_signal = r.has_signal_set = s->signal_set;
    r.signal = s->signal;
    r.signal_set = s->signal_set;
    r.has_batch_only = r.batch_only = s->batch;
    r.has_full = r.full = s->full;
    client_token(token, &r.token_wall_ms);
    r.has_token = r.has_token_wall_ms = 1;
    r.token.data = token;
    r.token.len = sizeof token;
    if (client_call(c, WIRE__MESSAGE_TYPE__CANCEL, &r.base, WIRE__MESSAGE_TYPE__DONE, &wire__done_reply__descriptor, a, &reply, &number, err) < 0 &&
        (number != ALREADY_DONE || s->verbose || (s->signal_set && s->signal != SIGKILL)))      /* else another was first, between the question and the log */
        return err->code;
    *done = reply;
    return 0;
}

/* Ending what is not there or has ended is no error; sending it a signal is. */
static int report(const struct scancel *s, const Wire__DoneReply *d)
{
    bool is_signal = s->signal_set && s->signal != SIGKILL;
    int rc = 0;

    for (size_t i = 0; i < d->n_results; i++) {
        const Wire__JobResult *x = d->results[i];
        bool is_gone = x->code == SPUR_ENOTFOUND || x->code == SPUR_ESTALE;

        if (s->verbose && !is_gone && is_signal)
            fprintf(stderr, "scancel: Signal %u to job %u\n", s->signal, x->job_id);
        else if (s->verbose && !is_gone)
            fprintf(stderr, "scancel: Terminating job %u\n", x->job_id);
        if (x->code == 0 || (is_gone && (s->quiet || (!is_signal && !s->verbose))))
            continue;
        fprintf(stderr, "scancel: error: Kill job error on job id %u: %s\n", x->job_id, x->text ? x->text : "refused");
        rc |= !is_gone || is_signal;
    }
    return rc;
}

int cmd_scancel(int argc, char **argv)
{
    struct scancel s = { 0 };
    struct spur_error err = { 0 };
    const Wire__DoneReply *done = NULL;
    struct client *c = NULL;
    struct arena a;
    char uid[16];
    int first, rc;

    if ((rc = options_environment(&table, &s)) || (rc = options_read(&table, argc, argv, &s, &first)))
        return rc == OPTIONS_DONE ? 0 : rc;
    for (int i = first; i < argc; i++)
        list_add(&s.ids, argv[i]);
    if (s.me) {
        snprintf(uid, sizeof uid, "%u", (unsigned)getuid());
        list_put(&s.users, uid);
    }
    arena_init(&a, 0);
    if ((rc = check(&s)))
        goto out;
    if (client_open(NULL, &c, &err) < 0 || cluster_is_own(s.clusters, client_hint(c)->cluster, &err) < 0 || (s.interactive && ask_each(&s, c, &err) < 0) ||
        ((!s.interactive || s.ids.count) && cancel(&s, c, &a, &done, &err) < 0)) {
        fprintf(stderr, "scancel: error: %s\n", err.text);
        rc = 1;
    } else if (done) {
        rc = report(&s, done);
    }
out:
    client_close(c);
    arena_fini(&a);
    struct list *const lists[] = { &s.ids, &s.users, &s.names, &s.partitions, &s.states, &s.accounts, &s.nodes, &s.qos, &s.reservations, &s.wckeys };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        list_fini(lists[i]);
    return rc;
}
