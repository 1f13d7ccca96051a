/* SPDX-License-Identifier: Apache-2.0 */
/* squeue.c - shows jobs, or steps with -s.
 *
 * Asks the controller for what the format needs and no more; rows are printed as they come unless a sort order is wanted, so a long queue
 * costs memory only when it is sorted. Exit codes as Slurm's: one unknown id is an error, one unknown among several is not.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/hostlist.h"
#include "client/client.h"
#include "cmds/commands.h"
#include "cmds/common/columns.h"
#include "cmds/common/jobfields.h"
#include "cmds/common/json.h"
#include "cmds/common/options.h"
#include "state/apply.h"

#define FORMAT_DEFAULT "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
#define FORMAT_LONG    "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
#define FORMAT_START   "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"
#define FORMAT_STEPS   "%.15i %.8j %.9P %.8u %.9M %N"

struct list { char **words; size_t count; };

struct squeue {
    struct list jobs, users, names, partitions, accounts, states, nodes, qos, reservations, licenses, steps;
    const char *format, *names_format, *sort;
    bool no_header, is_long, start, show_steps, expand, json, yaml, only_state, me, notme, all_states;
    uint32_t iterate_s;
    int64_t over_s, under_s;
    /* while it runs */
    struct columns columns;
    Wire__JobInfo **kept; size_t kept_count; struct arena kept_arena;
    int64_t now_s; char *cluster;
    struct str scratch;
    bool is_first;
    size_t rows;
    struct json_writer *json_out;
};

static void list_add(struct list *l, const char *text)
{
    char *copy = mem_copy(text), *cursor = copy, *word;
    int depth = 0;

    /* A comma inside brackets belongs to the word: 12_[1,3]. */
    while (cursor && *cursor) {
        word = cursor;
        for (depth = 0; *cursor && (*cursor != ',' || depth); cursor++)
            depth += *cursor == '[' ? 1 : *cursor == ']' ? -1 : 0;
        if (*cursor)
            *cursor++ = '\0';
        word = word_trim(word);
        if (!*word)
            continue;
        l->words = mem_grow(l->words, l->count + 1, sizeof *l->words);
        l->words[l->count++] = mem_copy(word);
    }
    free(copy);
}

#define TAKE(name) static int take_##name(void *request, const char *value, enum option_source from, struct spur_error *err)
#define UNUSED (void)value, (void)from, (void)err
#define SQ ((struct squeue *)request)
#define TAKE_LIST(name) TAKE(name) { UNUSED; list_add(&SQ->name, value); return 0; }
TAKE_LIST(users) TAKE_LIST(names) TAKE_LIST(partitions) TAKE_LIST(accounts) TAKE_LIST(qos) TAKE_LIST(reservations) TAKE_LIST(licenses)
TAKE(jobs) { UNUSED; if (value) list_add(&SQ->jobs, value); return 0; }
TAKE(steps) { UNUSED; SQ->show_steps = true; if (value && !word_eq(value, "all")) list_add(&SQ->steps, value); return 0; }
TAKE(states)
{
    struct list words = { 0 };

    (void)from;
    list_add(&words, value);
    for (size_t i = 0; i < words.count; i++) {
        unsigned state, flags;

        if (word_eq(words.words[i], "all")) {
            SQ->all_states = true;
        } else if (!job_state_parse(words.words[i], &state, &flags)) {
            return spur_fail(err, SPUR_EINVAL, "Invalid job state specified: %s", words.words[i]);
        }
        list_add(&SQ->states, words.words[i]);
    }
    return 0;
}
TAKE(nodes)
{
    struct hostlist *h;

    (void)from;
    if (hostlist_parse(value, &h, err) < 0)
        return err->code;
    for (size_t i = 0; i < hostlist_count(h); i++)
        list_add(&SQ->nodes, hostlist_nth(h, i));
    hostlist_destroy(h);
    return 0;
}
/* The last of -o, -O and --start on the line counts; the environment only where none was given. */
TAKE(format) { UNUSED; SQ->format = value; SQ->names_format = NULL; return 0; }
TAKE(names_format) { UNUSED; SQ->names_format = value; SQ->format = NULL; return 0; }
TAKE(sort) { UNUSED; SQ->sort = value; return 0; }
TAKE(no_header) { UNUSED; SQ->no_header = true; return 0; }
TAKE(long) { UNUSED; SQ->is_long = true; return 0; }
TAKE(start) { UNUSED; SQ->start = true; return 0; }
TAKE(expand) { UNUSED; SQ->expand = true; return 0; }
TAKE(json) { UNUSED; SQ->json = true; return 0; }
TAKE(me) { UNUSED; SQ->me = true; return 0; }
TAKE(notme) { UNUSED; SQ->notme = true; return 0; }
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
    { "all", 'a', OPTION_NONE, NULL, "SQUEUE_ALL", take_nothing, "jobs of hidden partitions too (always shown here)" },
    { "array", 'r', OPTION_NONE, NULL, "SQUEUE_ARRAY", take_expand, "one line a task of a job array" },
    { "hide", 0, OPTION_NONE, NULL, NULL, take_nothing, "the opposite of --all" },
    { "iterate", 'i', OPTION_VALUE, "SECONDS", NULL, take_iterate, "again every so many seconds" },
    { "jobs", 'j', OPTION_MAY_WORD, "LIST", NULL, take_jobs, "these jobs: 12, 12_3, 12_[1-4]" },
    { "job", 0, OPTION_MAY_WORD, "LIST", NULL, take_jobs, NULL },
    { "json", 0, OPTION_MAY, "PARSER", "SLURM_JSON", take_json, "everything, as JSON" },
    { "licenses", 'L', OPTION_VALUE, "LIST", "SQUEUE_LICENSES", take_licenses, "jobs that ask for these licenses" },
    { "long", 'l', OPTION_NONE, NULL, NULL, take_long, "the long format" },
    { "me", 0, OPTION_NONE, NULL, NULL, take_me, "my jobs" },
    { "notme", 0, OPTION_NONE, NULL, NULL, take_notme, "all jobs but mine" },
    { "name", 'n', OPTION_VALUE, "LIST", "SQUEUE_NAMES", take_names, "jobs of these names" },
    { "noconvert", 0, OPTION_NONE, NULL, NULL, take_nothing, "numbers in their own unit (always so here)" },
    { "node", 0, OPTION_VALUE, "LIST", NULL, take_nodes, NULL },
    { "nodes", 0, OPTION_VALUE, "LIST", NULL, take_nodes, NULL },
    { "nodelist", 'w', OPTION_VALUE, "LIST", NULL, take_nodes, "jobs on these nodes" },
    { "noheader", 'h', OPTION_NONE, NULL, NULL, take_no_header, "no heading" },
    { "format", 'o', OPTION_VALUE, "FORMAT", NULL, take_format, "letters, \"%.18i %.9P %j\"" },
    { "Format", 'O', OPTION_VALUE, "FORMAT", NULL, take_names_format, "names, \"JobID:8,Name:.10|\"" },
    { "only-job-state", 0, OPTION_NONE, NULL, NULL, take_only_state, "id and state only, as JSON too" },
    { "partition", 'p', OPTION_VALUE, "LIST", "SQUEUE_PARTITION", take_partitions, "jobs of these partitions" },
    { "partitions", 0, OPTION_VALUE, "LIST", NULL, take_partitions, NULL },
    { "priority", 'P', OPTION_NONE, NULL, "SQUEUE_PRIORITY", take_nothing, "jobs of several partitions by their priority in each (one line a job here)" },
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
    { "verbose", 'v', OPTION_NONE, NULL, NULL, take_nothing, "more words (there are none here)" },
    { "local", 0, OPTION_NONE, NULL, "SQUEUE_LOCAL", take_nothing, NULL },
    { "autocomplete", 0, OPTION_VALUE, NULL, NULL, NULL, NULL },
};
static const struct option_table table = {
    "squeue", "Usage: squeue [OPTIONS]\nShows the jobs that wait, run or have just ended.\n", rows, sizeof rows / sizeof *rows,
    "federation sib sibling clusters cluster yaml helpstate helpformat helpFormat expand-patterns account array-unique license partition step", "MU", 1, false };

/* ---- rows -------------------------------------------------------------------------------------------------------------------- */

static const struct column_field *sort_field(char letter)
{
    for (size_t i = 0; i < job_field_count; i++)
        if (job_fields[i].letter == letter)
            return &job_fields[i];
    return NULL;
}

static const struct squeue *sorting;      /* qsort has no argument of its own in C17 */

/* Numbers by value, the rest by text; a tie is broken by the newest first, as Slurm prints a queue of equals. */
static int row_compare(const void *x, const void *y)
{
    const Wire__JobInfo *a = *(Wire__JobInfo *const *)x, *b = *(Wire__JobInfo *const *)y;
    const char *p = sorting->sort ? sorting->sort : sorting->start ? "S" : "P,t,-p";
    struct job_row ra = { a, sorting->now_s, "", NULL, "" }, rb = { b, sorting->now_s, "", NULL, "" };
    struct str ta, tb;
    int result = 0;

    str_init(&ta);
    str_init(&tb);
    while (*p && !result) {
        bool down = false;
        const struct column_field *f;

        if (*p == ',' || *p == '+' || *p == ' ') { p++; continue; }
        if (*p == '-') { down = true; p++; }
        if (*p == '.') p++;
        switch (*p) {
        case 'i': case 'A': result = a->job_id < b->job_id ? -1 : a->job_id > b->job_id; break;
        case 'p': case 'Q': result = a->priority < b->priority ? -1 : a->priority > b->priority; break;
        case 'D': result = a->num_nodes < b->num_nodes ? -1 : a->num_nodes > b->num_nodes; break;
        case 'C': result = a->num_cpus < b->num_cpus ? -1 : a->num_cpus > b->num_cpus; break;
        case 'M': result = a->run_s < b->run_s ? -1 : a->run_s > b->run_s; break;
        case 'S': result = (a->start_wall_s ? a->start_wall_s : INT64_MAX) < (b->start_wall_s ? b->start_wall_s : INT64_MAX) ? -1 : a->start_wall_s != b->start_wall_s; break;
        case 'V': result = a->submit_wall_s < b->submit_wall_s ? -1 : a->submit_wall_s > b->submit_wall_s; break;
        case 'e': result = a->end_wall_s < b->end_wall_s ? -1 : a->end_wall_s > b->end_wall_s; break;
        case 'l': result = a->time_limit_min < b->time_limit_min ? -1 : a->time_limit_min > b->time_limit_min; break;
        case 't': case 'T': result = a->state < b->state ? -1 : a->state > b->state; break;
        default:
            f = sort_field(*p);
            if (f) {
                str_clear(&ta);
                str_clear(&tb);
                f->print(&ra, &ta);
                f->print(&rb, &tb);
                result = strcmp(ta.text, tb.text);
            }
        }
        if (down)
            result = -result;
        if (*p)
            p++;
    }
    str_fini(&ta);
    str_fini(&tb);
    if (!result)
        result = sorting->start ? (a->job_id < b->job_id ? -1 : 1) : (a->job_id > b->job_id ? -1 : 1);
    return result;
}

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

static void row_print(struct squeue *q, const Wire__JobInfo *j)
{
    struct job_row row = { j, q->now_s, q->cluster, getenv("SLURM_TIME_FORMAT"), "" };

    q->rows++;
    if (q->json) {
        json_job(q->json_out, j, q->only_state);
        return;
    }
    if (q->expand && j->array_tasks && *j->array_tasks) {
        struct bitmap tasks;
        char *text = mem_copy(j->array_tasks), *percent = strchr(text, '%');

        if (percent)
            *percent = '\0';
        bitmap_init(&tasks, 4000001);
        if (bitmap_parse(&tasks, text, NULL) == 0)
            for (size_t t = bitmap_first(&tasks); t < tasks.bits; t = bitmap_next(&tasks, t)) {
                snprintf(row.one_task, sizeof row.one_task, "%zu", t);
                columns_row(&q->columns, &row, &q->scratch, stdout);
            }
        bitmap_fini(&tasks);
        free(text);
        return;
    }
    columns_row(&q->columns, &row, &q->scratch, stdout);
}

static int job_part(void *arg, void *part)
{
    struct squeue *q = arg;
    const Wire__JobsReply *r = part;

    q->now_s = r->wall_ms / 1000;
    if (!q->cluster && r->cluster)
        q->cluster = mem_copy(r->cluster);
    for (size_t i = 0; i < r->n_jobs; i++) {
        size_t n;
        uint8_t *bytes;

        if (!row_wanted(q, r->jobs[i]))
            continue;
        n = wire__job_info__get_packed_size(r->jobs[i]);
        bytes = mem_alloc(n + 1);
        wire__job_info__pack(r->jobs[i], bytes);
        if ((q->kept_count & (q->kept_count - 1)) == 0)
            q->kept = mem_grow(q->kept, q->kept_count ? q->kept_count * 2 : 16, sizeof *q->kept);
        q->kept[q->kept_count] = wire__job_info__unpack(NULL, n, bytes);
        free(bytes);
        q->kept_count += q->kept[q->kept_count] != NULL;
    }
    return !r->last;
}

static int step_part(void *arg, void *part)
{
    struct squeue *q = arg;
    const Wire__StepsReply *r = part;

    for (size_t i = 0; i < r->n_steps; i++) {
        struct step_row row = { r->steps[i], r->wall_ms / 1000, getenv("SLURM_TIME_FORMAT") };
        bool wanted = q->steps.count == 0;

        for (size_t k = 0; k < q->steps.count; k++) {
            const char *id = r->steps[i]->id_text ? r->steps[i]->id_text : "";

            wanted |= !strcmp(id, q->steps.words[k]) || (!strncmp(id, q->steps.words[k], strlen(q->steps.words[k])) && id[strlen(q->steps.words[k])] == '.');
        }
        if (!wanted || r->steps[i]->state != JOB_RUNNING)
            continue;
        columns_row(&q->columns, &row, &q->scratch, stdout);
    }
    return !r->last;
}

/* ---- one look ------------------------------------------------------------------------------------------------------------------ */

static void date_line(void)
{
    char text[64];
    time_t now = time(NULL);
    struct tm tm;

    strftime(text, sizeof text, "%a %b %d %H:%M:%S %Y", localtime_r(&now, &tm));
    puts(text);
}

static int look_failed(const struct spur_error *err, bool is_json)
{
    (void)is_json;
    fprintf(stderr, "slurm_load_jobs error: %s\n", err->text);
    return 1;
}

static int steps_look(struct squeue *q, struct client *c, const uint32_t *uids, size_t uid_count)
{
    Wire__StepsRequest request = WIRE__STEPS_REQUEST__INIT;
    struct spur_error err = { 0 };
    uint32_t *ids = mem_array(q->jobs.count + 1, sizeof *ids);
    int number, rc;

    for (size_t i = 0; i < q->jobs.count; i++)
        if (number_u32(q->jobs.words[i], &ids[request.n_job_ids]))
            request.n_job_ids++;
    request.job_ids = ids;
    request.uids = (uint32_t *)(uintptr_t)uids;
    request.n_uids = uid_count;
    if (!q->no_header)
        columns_heading(&q->columns, stdout);
    rc = client_stream(c, WIRE__MESSAGE_TYPE__STEPS, &request.base, WIRE__MESSAGE_TYPE__STEPS_PART, &wire__steps_reply__descriptor, step_part, q, &number, &err);
    free(ids);
    return rc < 0 ? look_failed(&err, q->json) : 0;
}

static int look(struct squeue *q, struct client *c)
{
    Wire__JobsRequest request = WIRE__JOBS_REQUEST__INIT;
    struct spur_error err = { 0 };
    uint32_t *uids = mem_array(q->users.count + 1, sizeof *uids);
    char **users = mem_array(q->users.count + 1, sizeof *users);
    int number = 0, rc;

    for (size_t i = 0; i < q->users.count; i++)
        if (number_u32(q->users.words[i], &uids[request.n_uids]))
            request.n_uids++;
        else
            users[request.n_users++] = q->users.words[i];
    if (q->me)
        uids[request.n_uids++] = getuid();
    if (q->show_steps) {
        rc = steps_look(q, c, uids, request.n_uids);
        free(uids);
        free(users);
        return rc;
    }
    request.uids = uids;
    request.users = users;
    request.id_texts = q->jobs.words;           request.n_id_texts = q->jobs.count;
    request.names = q->names.words;             request.n_names = q->names.count;
    request.partitions = q->partitions.words;   request.n_partitions = q->partitions.count;
    request.accounts = q->accounts.words;       request.n_accounts = q->accounts.count;
    request.states = q->states.words;           request.n_states = q->states.count;
    request.nodes = q->nodes.words;             request.n_nodes = q->nodes.count;
    request.qos = q->qos.words;                 request.n_qos = q->qos.count;
    request.reservations = q->reservations.words; request.n_reservations = q->reservations.count;
    request.licenses = q->licenses.words;       request.n_licenses = q->licenses.count;
    request.has_fields = 1;
    request.fields = q->json ? ~UINT64_C(0) : columns_needs(&q->columns);
    if (q->sort && !q->json)
        for (const char *p = q->sort; *p; p++)
            request.fields |= sort_field(*p) ? sort_field(*p)->needs : 0;
    rc = client_stream(c, WIRE__MESSAGE_TYPE__JOBS, &request.base, WIRE__MESSAGE_TYPE__JOBS_PART, &wire__jobs_reply__descriptor, job_part, q, &number, &err);
    free(uids);
    free(users);
    if (rc < 0)
        return look_failed(&err, q->json);
    if (q->json)
        q->json_out = json_begin("squeue", "jobs");
    else if (!q->no_header)
        columns_heading(&q->columns, stdout);
    sorting = q;
    if (q->kept_count > 1)
        qsort(q->kept, q->kept_count, sizeof *q->kept, row_compare);
    for (size_t i = 0; i < q->kept_count; i++) {
        row_print(q, q->kept[i]);
        wire__job_info__free_unpacked(q->kept[i], NULL);
    }
    if (q->json)
        json_end(q->json_out);
    free(q->kept);
    q->kept = NULL;
    q->kept_count = 0;
    return 0;
}

static int formats_choose(struct squeue *q, struct spur_error *err)
{
    const struct column_field *fields = q->show_steps ? step_fields : job_fields;
    size_t count = q->show_steps ? step_field_count : job_field_count;

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
    if (q->names_format)
        return columns_parse_names(q->names_format, fields, count, &q->columns, err);
    return columns_parse(q->format + strspn(q->format, " "), fields, count, &q->columns, err);
}

static void list_free(struct list *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->words[i]);
    free(l->words);
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
    if (formats_choose(&q, &err) < 0) {
        fprintf(stderr, "squeue: error: %s\n", err.text);
        rc = 1;
        goto out;
    }
    if (client_open(NULL, &c, &err) < 0) {
        fprintf(stderr, "squeue: error: %s\n", err.text);
        rc = 1;
        goto out;
    }
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
    str_fini(&q.scratch);
    free(q.cluster);
    struct list *const lists[] = { &q.jobs, &q.users, &q.names, &q.partitions, &q.accounts, &q.states, &q.nodes, &q.qos, &q.reservations, &q.licenses, &q.steps };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        list_free(lists[i]);
    return rc;
}
