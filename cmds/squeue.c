/* SPDX-License-Identifier: Apache-2.0 */
/* squeue.c - shows jobs, or steps with -s.
 *
 * Asks the controller for what the format and the order need and no more. Lines are made as jobs come and sorted as text (squeue_rows.c); JSON
 * is written as it comes. Exit codes as Slurm's: one unknown id is an error, one unknown among several is not.
 */
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bitmap.h"
#include "base/duration.h"
#include "client/client.h"
#include "cmds/commands.h"
#include "cmds/common/columns.h"
#include "cmds/common/jobfields.h"
#include "cmds/common/json.h"
#include "cmds/common/list.h"
#include "cmds/common/options.h"
#include "cmds/common/taskset.h"
#include "cmds/squeue.h"
#include "state/apply.h"

#define ERRNO_NODE_NAME 2018        /* Slurm's ESLURM_INVALID_NODE_NAME */

#define FORMAT_DEFAULT "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
#define FORMAT_LONG    "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
#define FORMAT_START   "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"
#define FORMAT_STEPS   "%.15i %.8j %.9P %.8u %.9M %N"
#define STATES_KNOWN   "Valid job states include: PENDING,RUNNING,SUSPENDED,COMPLETED,CANCELLED,FAILED,TIMEOUT,NODE_FAIL,PREEMPTED,BOOT_FAIL,DEADLINE,OUT_OF_MEMORY,COMPLETING,CONFIGURING,REQUEUED,REQUEUE_HOLD"

struct squeue {
    struct list jobs, users, names, partitions, accounts, states, nodes, qos, reservations, licenses, steps;
    const char *format, *names_format, *sort, *clusters;
    bool no_header, is_long, start, show_steps, expand, json, fresh, only_state, me, notme, all, no_convert, by_partition, verbose;
    uint32_t iterate_s;
    int64_t over_s, under_s;
    /* while it runs */
    struct columns columns;
    struct rows rows;
    struct taskset wanted;          /* the tasks asked for with -j, where not the whole job is */
    char *cluster;
    const char *time_format;
    struct str scratch;
    size_t shown;
    struct json_writer *json_out;
};

#define TAKE(name) static int take_##name(void *request, const char *value, enum option_source from, struct spur_error *err)
#define UNUSED (void)value, (void)from, (void)err
#define SQ ((struct squeue *)request)
#define TAKE_LIST(name) TAKE(name) { UNUSED; list_add(&SQ->name, value); return 0; }
TAKE_LIST(users) TAKE_LIST(names) TAKE_LIST(partitions) TAKE_LIST(accounts) TAKE_LIST(qos) TAKE_LIST(reservations) TAKE_LIST(licenses)
TAKE(jobs) { (void)from; return value ? list_add_from(&SQ->jobs, value, err) : 0; }
TAKE(steps) { UNUSED; SQ->show_steps = true; if (value && !word_eq(value, "all")) list_add(&SQ->steps, value); return 0; }
TAKE(states)
{
    struct list words = { 0 };
    int rc = 0;

    (void)from;
    list_add(&words, value);
    for (size_t i = 0; i < words.count && !rc; i++) {
        unsigned state, flags;

        if (!word_eq(words.words[i], "all") && !job_state_parse(words.words[i], &state, &flags))
            rc = spur_fail(err, SPUR_EINVAL, "Invalid job state specified: %.24s\n" STATES_KNOWN, words.words[i]);
        list_put(&SQ->states, words.words[i]);
    }
    list_fini(&words);
    return rc;
}
TAKE(nodes) { (void)from; return list_add_hosts(&SQ->nodes, value, err); }
/* The last of -o, -O and --start on the line counts; the environment only where none was given. */
TAKE(format) { UNUSED; SQ->format = value; SQ->names_format = NULL; return 0; }
TAKE(names_format) { UNUSED; SQ->names_format = value; SQ->format = NULL; return 0; }
TAKE(sort) { UNUSED; SQ->sort = value; return 0; }
TAKE(no_header) { UNUSED; SQ->no_header = true; return 0; }
TAKE(long) { UNUSED; SQ->is_long = true; return 0; }
TAKE(start) { UNUSED; SQ->start = true; return 0; }
TAKE(expand) { UNUSED; SQ->expand = true; return 0; }
TAKE(fresh) { UNUSED; SQ->fresh = true; return 0; }
TAKE(json) { UNUSED; SQ->json = true; return 0; }
TAKE(clusters) { UNUSED; SQ->clusters = value; return 0; }
TAKE(me) { UNUSED; SQ->me = true; return 0; }
TAKE(notme) { UNUSED; SQ->notme = true; return 0; }
TAKE(all) { UNUSED; SQ->all = true; return 0; }
TAKE(hide) { UNUSED; SQ->all = false; return 0; }
TAKE(no_convert) { UNUSED; SQ->no_convert = true; return 0; }
TAKE(by_partition) { UNUSED; SQ->by_partition = true; return 0; }
TAKE(verbose) { UNUSED; SQ->verbose = true; return 0; }
TAKE(nothing) { UNUSED; (void)request; return 0; }
TAKE(only_state) { UNUSED; SQ->only_state = true; return 0; }
TAKE(iterate)
{
    (void)from;
    return number_u32(value, &SQ->iterate_s) && SQ->iterate_s ? 0 : spur_fail(err, SPUR_EINVAL, "--iterate=%s: a number of seconds above 0 is needed", value);
}
static int running_for(const char *option, const char *value, int64_t *out, struct spur_error *err)
{
    uint32_t s;

    if (seconds_parse(value, &s, err) < 0)
        return spur_context(err, "%s", option);
    *out = s;
    return 0;
}
TAKE(over) { (void)from; return running_for("--running-over", value, &SQ->over_s, err); }
TAKE(under) { (void)from; return running_for("--running-under", value, &SQ->under_s, err); }

static const struct option_row rows[] = {
    { "accounts", 'A', OPTION_VALUE, "LIST", "SQUEUE_ACCOUNT", take_accounts, "jobs of these accounts" },
    { "all", 'a', OPTION_NONE, NULL, "SQUEUE_ALL", take_all, "jobs of hidden partitions too" },
    { "array", 'r', OPTION_NONE, NULL, "SQUEUE_ARRAY", take_expand, "one line a task of a job array" },
    { "fresh", 0, OPTION_NONE, NULL, "SQUEUE_FRESH", take_fresh, "all that anybody was told before, from the leader" },
    { "hide", 0, OPTION_NONE, NULL, NULL, take_hide, "no jobs of hidden partitions, unless you are root" },
    { "iterate", 'i', OPTION_VALUE, "SECONDS", NULL, take_iterate, "again every so many seconds" },
    { "jobs", 'j', OPTION_MAY_WORD, "LIST", NULL, take_jobs, "these jobs: 12, 12_3, 12_[1-4]; - or a path: ids from there" },
    { "job", 0, OPTION_MAY_WORD, "LIST", NULL, take_jobs, NULL },
    { "json", 0, OPTION_MAY, "PARSER", "SLURM_JSON", take_json, "everything, as JSON" },
    { "licenses", 'L', OPTION_VALUE, "LIST", "SQUEUE_LICENSES", take_licenses, "jobs that ask for these licenses" },
    { "long", 'l', OPTION_NONE, NULL, NULL, take_long, "the long format" },
    { "clusters", 'M', OPTION_VALUE, "NAMES", "SLURM_CLUSTERS", take_clusters, "this cluster, by its name" },
    { "cluster", 0, OPTION_VALUE, "NAMES", NULL, take_clusters, NULL },
    { "me", 0, OPTION_NONE, NULL, NULL, take_me, "my jobs" },
    { "notme", 0, OPTION_NONE, NULL, NULL, take_notme, "all jobs but mine" },
    { "name", 'n', OPTION_VALUE, "LIST", "SQUEUE_NAMES", take_names, "jobs of these names" },
    { "noconvert", 0, OPTION_NONE, NULL, NULL, take_no_convert, "2048M stays 2048M and does not become 2G" },
    { "node", 0, OPTION_VALUE, "LIST", NULL, take_nodes, NULL },
    { "nodes", 0, OPTION_VALUE, "LIST", NULL, take_nodes, NULL },
    { "nodelist", 'w', OPTION_VALUE, "LIST", NULL, take_nodes, "jobs on these nodes" },
    { "noheader", 'h', OPTION_NONE, NULL, NULL, take_no_header, "no heading" },
    { "format", 'o', OPTION_VALUE, "FORMAT", NULL, take_format, "letters, \"%.18i %.9P %j\"" },
    { "Format", 'O', OPTION_VALUE, "FORMAT", NULL, take_names_format, "names, \"JobID:8,Name:.10|\"" },
    { "only-job-state", 0, OPTION_NONE, NULL, NULL, take_only_state, "id and state only, as JSON too" },
    { "partition", 'p', OPTION_VALUE, "LIST", "SQUEUE_PARTITION", take_partitions, "jobs of these partitions" },
    { "partitions", 0, OPTION_VALUE, "LIST", NULL, take_partitions, NULL },
    { "priority", 'P', OPTION_NONE, NULL, "SQUEUE_PRIORITY", take_by_partition, "a pending job of several partitions has a line for each" },
    { "qos", 'q', OPTION_VALUE, "LIST", "SQUEUE_QOS", take_qos, "jobs of these QOS" },
    { "reservation", 'R', OPTION_VALUE, "NAME", NULL, take_reservations, "jobs of this reservation" },
    { "running-over", 0, OPTION_VALUE, "TIME", NULL, take_over, "jobs that have run longer" },
    { "running-under", 0, OPTION_VALUE, "TIME", NULL, take_under, "jobs that have run less" },
    { "sort", 'S', OPTION_VALUE, "FIELDS", "SQUEUE_SORT", take_sort, "letters of the format, - in front for descending [P,t,-p]" },
    { "start", 0, OPTION_NONE, NULL, NULL, take_start, "expected start of pending jobs" },
    { "states", 't', OPTION_VALUE, "LIST", "SQUEUE_STATES", take_states, "jobs in these states, or all" },
    { "steps", 's', OPTION_MAY_WORD, "LIST", NULL, take_steps, "steps instead of jobs" },
    { "user", 'u', OPTION_VALUE, "LIST", "SQUEUE_USERS", take_users, "jobs of these users" },
    { "users", 0, OPTION_VALUE, "LIST", NULL, take_users, NULL },
    { "verbose", 'v', OPTION_NONE, NULL, NULL, take_verbose, "say who was asked and how much came" },
    { "local", 0, OPTION_NONE, NULL, "SQUEUE_LOCAL", take_nothing, NULL },
};
static const struct option_table table = {
    "squeue", "Usage: squeue [OPTIONS]\nShows the jobs that wait, run or have just ended.\n", rows, sizeof rows / sizeof *rows,
    "federation sib sibling yaml helpstate helpformat helpFormat expand-patterns account array-unique license partition step", "U", 1, false };

/* ---- rows -------------------------------------------------------------------------------------------------------------------- */

static bool row_wanted(const struct squeue *q, const Wire__JobInfo *j)
{
    if (q->notme && j->uid == getuid())
        return false;
    if (q->over_s >= 0 && !(j->state == JOB_RUNNING && j->run_s > q->over_s))
        return false;
    if (q->under_s >= 0 && !(j->state == JOB_RUNNING && j->run_s < q->under_s))
        return false;
    return !q->start || j->state == JOB_PENDING;
}

/* The line of an array's waiting tasks: all, those asked for, or a line each. */
static void tasks_print(struct squeue *q, struct job_row *row)
{
    struct bitmap tasks;
    struct str text;

    if (!q->expand && !taskset_narrows(&q->wanted, row->job)) {
        columns_row(&q->columns, row, &q->scratch, &q->rows.text);
        return;
    }
    taskset_tasks(&q->wanted, row->job, &tasks);
    str_init(&text);
    for (size_t t = bitmap_first(&tasks); q->expand && t < tasks.bits; t = bitmap_next(&tasks, t)) {
        str_clear(&text);
        str_addf(&text, "%zu", t);
        row->tasks = text.text;
        columns_row(&q->columns, row, &q->scratch, &q->rows.text);
    }
    if (!q->expand && !bitmap_empty(&tasks)) {
        bitmap_print_steps(&tasks, &text);
        row->tasks = text.text;
        columns_row(&q->columns, row, &q->scratch, &q->rows.text);
    }
    str_fini(&text);
    bitmap_fini(&tasks);
}

static void job_print(struct squeue *q, struct job_row *row)
{
    if (row->job->array_tasks && *row->job->array_tasks)
        tasks_print(q, row);
    else
        columns_row(&q->columns, row, &q->scratch, &q->rows.text);
    rows_add_job(&q->rows, row);
}

static int job_part(void *arg, void *part)
{
    struct squeue *q = arg;
    const Wire__JobsReply *r = part;

    if (!q->cluster && r->cluster)
        q->cluster = mem_copy(r->cluster);
    if (q->json && !q->json_out)
        q->json_out = json_begin("squeue", "jobs");
    for (size_t i = 0; i < r->n_jobs; i++) {
        struct job_row row = { .job = r->jobs[i], .now_s = r->wall_ms / 1000, .cluster = q->cluster, .time_format = q->time_format, .no_convert = q->no_convert };

        if (!row_wanted(q, r->jobs[i]))
            continue;
        q->shown++;
        if (q->json) {
            json_job(q->json_out, r->jobs[i], q->cluster, q->only_state);
            continue;
        }
        if (q->by_partition && r->jobs[i]->state == JOB_PENDING && r->jobs[i]->partition && strchr(r->jobs[i]->partition, ',')) {
            char *list = mem_copy(r->jobs[i]->partition), *cursor = list, *one;

            while ((one = word_next(&cursor, ","))) {
                r->jobs[i]->partition = one;
                job_print(q, &row);
            }
            r->jobs[i]->partition = NULL;
            free(list);
        } else {
            job_print(q, &row);
        }
    }
    return !r->last;
}

/* -s 12: all steps of it; -s 12.0, 12.batch: that one. */
static bool step_wanted(const struct squeue *q, const Wire__StepInfo *s)
{
    const char *id = s->id_text ? s->id_text : "";

    for (size_t k = 0; k < q->steps.count; k++) {
        size_t n = strlen(q->steps.words[k]);

        if (!strncmp(id, q->steps.words[k], n) && (id[n] == '\0' || id[n] == '.'))
            return true;
    }
    return q->steps.count == 0;
}

static bool list_names_one(const struct list *l, const char *value)
{
    for (size_t i = 0; i < l->count; i++)
        if (!strcmp(l->words[i], value ? value : ""))
            return true;
    return l->count == 0;
}

static int step_part(void *arg, void *part)
{
    struct squeue *q = arg;
    const Wire__StepsReply *r = part;

    for (size_t i = 0; i < r->n_steps; i++) {
        const Wire__StepInfo *s = r->steps[i];
        struct step_row row = { s, r->wall_ms / 1000, q->time_format };

        if (s->state != JOB_RUNNING || !step_wanted(q, s) || !list_names_one(&q->partitions, s->partition) || !list_names_one(&q->names, s->name) ||
            (q->notme && s->uid == getuid()))
            continue;
        q->shown++;
        columns_row(&q->columns, &row, &q->scratch, &q->rows.text);
        rows_add_step(&q->rows, &row);
    }
    return !r->last;
}

/* ---- one look ------------------------------------------------------------------------------------------------------------------ */

static int look_failed(const struct spur_error *err, int number)
{
    fprintf(stderr, "%s: %s\n", number == ERRNO_NODE_NAME ? "squeue: error" : "slurm_load_jobs error", err->text);
    return 1;
}

static int steps_ask(struct squeue *q, struct client *c, const Wire__JobsRequest *who, int *number, struct spur_error *err)
{
    Wire__StepsRequest request = WIRE__STEPS_REQUEST__INIT;

    request.id_texts = q->jobs.words;
    request.n_id_texts = q->jobs.count;
    request.uids = who->uids;
    request.n_uids = who->n_uids;
    return client_stream(c, WIRE__MESSAGE_TYPE__STEPS, &request.base, WIRE__MESSAGE_TYPE__STEPS_PART, &wire__steps_reply__descriptor, step_part, q, number, err);
}

/* The bare record where that is all the format, the order and the choice of rows look at; else what they need beside the usual one. */
static uint64_t jobs_fields(const struct squeue *q)
{
    bool is_bare = !q->json && q->over_s < 0 && q->under_s < 0;

    for (size_t i = 0; i < q->columns.count; i++)
        is_bare &= q->columns.list[i].field && q->columns.list[i].field->needs == JOB_FIELD_BARE;
    for (size_t i = 0; i < q->rows.key_count; i++)
        is_bare &= q->rows.fields[i]->needs == JOB_FIELD_BARE;
    if (is_bare)
        return JOB_FIELD_BARE;
    return q->json ? ~UINT64_C(0) : (columns_needs(&q->columns) | rows_needs(&q->rows)) & ~(uint64_t)JOB_FIELD_BARE;
}

static int jobs_ask(struct squeue *q, struct client *c, Wire__JobsRequest *r, int *number, struct spur_error *err)
{
    r->id_texts = q->jobs.words;           r->n_id_texts = q->jobs.count;
    r->names = q->names.words;             r->n_names = q->names.count;
    r->partitions = q->partitions.words;   r->n_partitions = q->partitions.count;
    r->accounts = q->accounts.words;       r->n_accounts = q->accounts.count;
    r->states = q->states.words;           r->n_states = q->states.count;
    r->nodes = q->nodes.words;             r->n_nodes = q->nodes.count;
    r->qos = q->qos.words;                 r->n_qos = q->qos.count;
    r->reservations = q->reservations.words; r->n_reservations = q->reservations.count;
    r->licenses = q->licenses.words;       r->n_licenses = q->licenses.count;
    r->has_fields = r->has_hide_hidden = 1;
    r->hide_hidden = !q->all;
    r->fields = jobs_fields(q);
    return client_stream(c, WIRE__MESSAGE_TYPE__JOBS, &r->base, WIRE__MESSAGE_TYPE__JOBS_PART, &wire__jobs_reply__descriptor, job_part, q, number, err);
}

/* A user without jobs may be one without an account: that is said, and is no error. */
static void users_check(char *const *users, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!getpwnam(users[i]))
            fprintf(stderr, "squeue: error: Invalid user: %s\n", users[i]);
}

static int look(struct squeue *q, struct client *c)
{
    Wire__JobsRequest request = WIRE__JOBS_REQUEST__INIT;
    struct spur_error err = { 0 };
    uint32_t *uids = mem_array(q->users.count + 1, sizeof *uids);
    char **users = mem_array(q->users.count + 1, sizeof *users);
    int number = 0, rc;

    for (size_t i = 0; i < q->users.count; i++) {
        const struct passwd *pw;

        if (number_u32(q->users.words[i], &uids[request.n_uids]))
            request.n_uids++;
        else if (q->show_steps && (pw = getpwnam(q->users.words[i])))
            uids[request.n_uids++] = pw->pw_uid;
        else
            users[request.n_users++] = q->users.words[i];
    }
    if (q->me)
        uids[request.n_uids++] = getuid();
    request.uids = uids;
    request.users = users;
    q->shown = 0;
    if (q->show_steps && request.n_users)
        rc = 0;                     /* users that nobody knows have no steps */
    else
        rc = q->show_steps ? steps_ask(q, c, &request, &number, &err) : jobs_ask(q, c, &request, &number, &err);
    if (rc < 0) {
        rc = look_failed(&err, number);
    } else if (q->json) {
        json_end(q->json_out ? q->json_out : json_begin("squeue", "jobs"));
        q->json_out = NULL;
    } else {
        if (!q->shown)
            users_check(request.users, request.n_users);
        if (!q->no_header) {
            if (q->clusters)
                printf("CLUSTER: %s\n", client_hint(c)->cluster);
            str_clear(&q->scratch);
            columns_heading(&q->columns, &q->scratch);
            fputs(q->scratch.text, stdout);
        }
        rows_show(&q->rows, stdout);
    }
    if (rc == 0)
        client_said_age(c, "squeue");
    if (q->verbose && rc >= 0)
        fprintf(stderr, "squeue: %zu shown of cluster %s, which %s names\n", q->shown, client_hint(c)->cluster, client_hint(c)->path);
    free(uids);
    free(users);
    return rc;
}

static int formats_choose(struct squeue *q, struct spur_error *err)
{
    const struct column_field *fields = q->show_steps ? step_fields : job_fields;
    size_t count = q->show_steps ? step_field_count : job_field_count;
    const char *order = q->sort ? q->sort : q->show_steps ? "P,i" : q->start ? "S" : "P,t,-p";

    if (!q->format && !q->names_format) {
        const char *env = getenv("SQUEUE_FORMAT"), *env2 = getenv("SQUEUE_FORMAT2");

        if (q->show_steps)
            q->format = FORMAT_STEPS;
        else if (q->start)
            q->format = FORMAT_START;
        else if (q->is_long)
            q->format = FORMAT_LONG;
        else if (env)
            q->format = env;
        else if (env2)
            q->names_format = env2;
        else
            q->format = FORMAT_DEFAULT;
    }
    if (q->names_format ? columns_parse_names(q->names_format, fields, count, &q->columns, err) < 0
                        : columns_parse(q->format + strspn(q->format, " "), fields, count, &q->columns, err) < 0)
        return err->code;
    return rows_init(&q->rows, order, q->show_steps, err);
}

static int ids_check(struct squeue *q, struct spur_error *err)
{
    for (size_t i = 0; i < q->jobs.count; i++)
        if (taskset_add(&q->wanted, q->jobs.words[i], err) < 0)
            return err->code;
    return 0;
}

int cmd_squeue(int argc, char **argv)
{
    struct squeue q = { .over_s = -1, .under_s = -1 };
    struct spur_error err = { 0 };
    struct client *c = NULL;
    int first, rc;

    if ((rc = options_environment(&table, &q)) || (rc = options_read(&table, argc, argv, &q, &first)))
        return rc == OPTIONS_DONE ? 0 : rc;
    if (first < argc) {
        fprintf(stderr, "squeue: error: Unrecognized option: %s\nTry \"squeue --help\" for more information\n", argv[first]);
        return 1;
    }
    str_init(&q.scratch);
    taskset_init(&q.wanted);
    q.time_format = getenv("SLURM_TIME_FORMAT");
    if (formats_choose(&q, &err) < 0 || ids_check(&q, &err) < 0 || client_open(NULL, &c, &err) < 0 ||
        cluster_is_own(q.clusters, client_hint(c)->cluster, &err) < 0) {
        fprintf(stderr, "squeue: error: %s\n", err.text);
        rc = 1;
        goto out;
    }
    if (q.fresh)
        client_fresh(c);
    for (;;) {
        if ((q.is_long || q.iterate_s) && !q.json)
            date_line();
        rc = look(&q, c);
        if (!q.iterate_s)
            break;
        fflush(stdout);
        sleep(q.iterate_s);
        putchar('\n');
    }
out:
    client_close(c);
    columns_fini(&q.columns);
    rows_fini(&q.rows);
    taskset_fini(&q.wanted);
    str_fini(&q.scratch);
    free(q.cluster);
    struct list *const lists[] = { &q.jobs, &q.users, &q.names, &q.partitions, &q.accounts, &q.states, &q.nodes, &q.qos, &q.reservations, &q.licenses, &q.steps };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        list_fini(lists[i]);
    return rc;
}
