/* SPDX-License-Identifier: Apache-2.0 */
/* scontrol.c - shows and changes jobs, nodes, partitions and the configuration; host lists; ping.
 *
 * A table of verbs; each gets the words behind it. Without a verb it reads commands from standard input, as Slurm's does. Records are printed by
 * common/records.c. Exit 1 when anything failed, after doing the rest.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/hostlist.h"
#include "client/client.h"
#include "cmds/commands.h"
#include "cmds/common/json.h"
#include "cmds/common/options.h"
#include "cmds/common/records.h"
#include "config/config.h"
#include "state/apply.h"

struct scontrol {
    bool one_line, details, quiet, json, is_done;
    struct client *client;
    struct arena arena;             /* of one command */
};

#define TAKE(name) static int take_##name(void *request, const char *value, enum option_source from, struct spur_error *err)
#define UNUSED (void)value, (void)from, (void)err
#define SC ((struct scontrol *)request)
TAKE(one_line) { UNUSED; SC->one_line = true; return 0; }
TAKE(details) { UNUSED; SC->details = true; return 0; }
TAKE(quiet) { UNUSED; SC->quiet = true; return 0; }
TAKE(json) { UNUSED; SC->json = true; return 0; }
TAKE(nothing) { UNUSED; (void)request; return 0; }
static const struct option_row rows[] = {
    { "all", 'a', OPTION_NONE, NULL, "SCONTROL_ALL", take_nothing, "hidden partitions too (always shown here)" },
    { "details", 'd', OPTION_NONE, NULL, NULL, take_details, "more of jobs and nodes: cores, devices" },
    { "future", 'F', OPTION_NONE, NULL, "SCONTROL_FUTURE", take_nothing, "nodes in state FUTURE too (always shown here)" },
    { "hide", 0, OPTION_NONE, NULL, NULL, take_nothing, "the opposite of --all" },
    { "json", 0, OPTION_MAY, "PARSER", NULL, take_json, "show jobs, nodes, partitions as JSON" },
    { "local", 0, OPTION_NONE, NULL, "SCONTROL_LOCAL", take_nothing, NULL },
    { "oneliner", 'o', OPTION_NONE, NULL, NULL, take_one_line, "one line a record" },
    { "quiet", 'Q', OPTION_NONE, NULL, NULL, take_quiet, "errors only" },
    { "verbose", 'v', OPTION_NONE, NULL, NULL, take_nothing, "more words (there are none here)" },
};
static const struct option_table table = {
    "scontrol",
    "Usage: scontrol [OPTIONS] [COMMAND]\n\n"
    "  show job|node|partition [NAME]     records; job NAME may be 12, 12_3\n"
    "  show config | steps [JOB] | daemons | hostnames [LIST] | hostlist LIST|FILE | hostlistsorted LIST|FILE\n"
    "  update jobid=N|nodename=LIST|partitionname=P KEY=VALUE ...\n"
    "  create|delete partitionname=P ...\n"
    "  hold|uhold|release|requeue|requeuehold|top JOB[,JOB...]\n"
    "  ping | reconfigure | shutdown | completing | wait_job JOB | write batch_script JOB [FILE|-] | errnumstr N | version\n\n"
    "Without a command it reads commands from its input.\n",
    rows, sizeof rows / sizeof *rows, "cluster clusters federation sibling uid yaml autocomplete", "Mu", 1, true };

/* ---- asking --------------------------------------------------------------------------------------------------------------------- */

static int client_ready(struct scontrol *s, struct spur_error *err)
{
    return s->client ? 0 : client_open(NULL, &s->client, err);
}

static int ask(struct scontrol *s, uint16_t type, const ProtobufCMessage *request, uint16_t reply_type, const ProtobufCMessageDescriptor *d, void **reply, struct spur_error *err)
{
    int number;

    return client_ready(s, err) < 0 ? err->code : client_call(s->client, type, request, reply_type, d, &s->arena, reply, &number, err);
}

static int failed(const struct scontrol *s, const char *what, const struct spur_error *err)
{
    if (!s->quiet || err->code != SPUR_ENOTFOUND)
        fprintf(stderr, "%s%s%s\n", what, *what ? " error: " : "", err->text);
    return 1;
}

/* ---- show ------------------------------------------------------------------------------------------------------------------------ */

struct showing { struct scontrol *s; struct json_writer *json; const char *wanted; size_t rows; };

static struct record record_new(const struct scontrol *s, int64_t wall_ms)
{
    return (struct record){ .one_line = s->one_line, .now_s = wall_ms / 1000, .time_format = getenv("SLURM_TIME_FORMAT") };
}

static int show_job_part(void *arg, void *part)
{
    struct showing *w = arg;
    const Wire__JobsReply *r = part;

    for (size_t i = 0; i < r->n_jobs; i++) {
        struct record rec = record_new(w->s, r->wall_ms);

        w->rows++;
        if (w->json) {
            json_job(w->json, r->jobs[i], false);
            continue;
        }
        record_begin(&rec);
        record_job(&rec, r->jobs[i], w->s->details);
        record_end(&rec, true);
    }
    return !r->last;
}

static int show_jobs(struct scontrol *s, int argc, char **argv)
{
    Wire__JobsRequest request = WIRE__JOBS_REQUEST__INIT;
    struct showing w = { .s = s };
    struct spur_error err = { 0 };
    char *all[] = { (char *)"all" }, **ids = NULL;
    int number, rc;

    request.states = all;
    request.n_states = 1;
    if (argc > 0) {
        char *cursor = argv[0], *word;
        int depth = 0;

        for (char *p = cursor; *p; p++) {       /* commas outside brackets part the ids */
            depth += *p == '[' ? 1 : *p == ']' ? -1 : 0;
            if (*p == ',' && !depth)
                *p = ' ';
        }
        while ((word = word_next(&cursor, " "))) {
            ids = mem_grow(ids, request.n_id_texts + 1, sizeof *ids);
            ids[request.n_id_texts++] = word;
        }
        request.id_texts = ids;
    }
    if (client_ready(s, &err) < 0) {
        free(ids);
        return failed(s, "slurm_load_jobs", &err);
    }
    if (s->json)
        w.json = json_begin("show job", "jobs");
    rc = client_stream(s->client, WIRE__MESSAGE_TYPE__JOBS, &request.base, WIRE__MESSAGE_TYPE__JOBS_PART, &wire__jobs_reply__descriptor, show_job_part, &w, &number, &err);
    if (w.json)
        json_end(w.json);
    free(ids);
    if (rc < 0)
        return failed(s, "slurm_load_jobs", &err);
    if (!w.rows && !s->json && !s->quiet)
        puts("No jobs in the system");
    return 0;
}

static int show_node_part(void *arg, void *part)
{
    struct showing *w = arg;
    const Wire__NodesReply *r = part;

    for (size_t i = 0; i < r->n_nodes; i++) {
        struct record rec = record_new(w->s, r->wall_ms);

        w->rows++;
        if (w->json) {
            json_node(w->json, r->nodes[i]);
            continue;
        }
        record_begin(&rec);
        record_node(&rec, r->nodes[i], w->s->details);
        record_end(&rec, true);
    }
    return !r->last;
}

static int show_nodes(struct scontrol *s, int argc, char **argv)
{
    struct showing w = { .s = s };
    struct spur_error err = { 0 };
    struct hostlist *names = NULL;
    int number, rc = 0;

    if (argc > 0 && hostlist_parse(argv[0], &names, &err) < 0)
        return failed(s, "", &err);
    if (client_ready(s, &err) < 0) {
        hostlist_destroy(names);
        return failed(s, "slurm_load_node", &err);
    }
    if (s->json)
        w.json = json_begin("show node", "nodes");
    for (size_t i = 0; i < (names ? hostlist_count(names) : 1); i++) {
        Wire__NodesRequest request = WIRE__NODES_REQUEST__INIT;
        char *one = names ? (char *)(uintptr_t)hostlist_nth(names, i) : NULL;

        request.nodes = &one;
        request.n_nodes = one ? 1 : 0;
        w.rows = 0;
        if (client_stream(s->client, WIRE__MESSAGE_TYPE__NODES, &request.base, WIRE__MESSAGE_TYPE__NODES_PART, &wire__nodes_reply__descriptor, show_node_part, &w, &number, &err) < 0) {
            rc = failed(s, "slurm_load_node", &err);
            break;
        }
        if (one && !w.rows) {
            if (!s->quiet)
                printf("Node %s not found\n", one);
            rc = 1;
        }
    }
    if (w.json)
        json_end(w.json);
    hostlist_destroy(names);
    return rc;
}

static int show_partition_part(void *arg, void *part)
{
    struct showing *w = arg;
    const Wire__PartitionsReply *r = part;

    for (size_t i = 0; i < r->n_partitions; i++) {
        struct record rec = record_new(w->s, r->wall_ms);

        if (w->wanted && strcmp(w->wanted, r->partitions[i]->name) != 0)
            continue;
        w->rows++;
        if (w->json) {
            json_partition(w->json, r->partitions[i]);
            continue;
        }
        record_begin(&rec);
        record_partition(&rec, r->partitions[i]);
        record_end(&rec, true);
    }
    return !r->last;
}

static int show_partitions(struct scontrol *s, int argc, char **argv)
{
    Wire__Empty request = WIRE__EMPTY__INIT;
    struct showing w = { .s = s, .wanted = argc > 0 ? argv[0] : NULL };
    struct spur_error err = { 0 };
    int number, rc;

    if (client_ready(s, &err) < 0)
        return failed(s, "slurm_load_partitions", &err);
    if (s->json)
        w.json = json_begin("show partition", "partitions");
    rc = client_stream(s->client, WIRE__MESSAGE_TYPE__PARTITIONS, &request.base, WIRE__MESSAGE_TYPE__PARTITIONS_PART, &wire__partitions_reply__descriptor, show_partition_part, &w, &number, &err);
    if (w.json)
        json_end(w.json);
    if (rc < 0)
        return failed(s, "slurm_load_partitions", &err);
    if (!w.rows && w.wanted) {
        if (!s->quiet)
            printf("Partition %s not found\n", w.wanted);
        return 1;
    }
    return 0;
}

static int show_config(struct scontrol *s, int argc, char **argv)
{
    Wire__Empty request = WIRE__EMPTY__INIT;
    Wire__ConfigReply *reply;
    struct spur_error err = { 0 };
    struct str when;
    void *got;

    (void)argc, (void)argv;
    if (ask(s, WIRE__MESSAGE_TYPE__CONFIG, &request.base, WIRE__MESSAGE_TYPE__CONFIG_ROWS, &wire__config_reply__descriptor, &got, &err) < 0)
        return failed(s, "slurm_load_ctl_conf", &err);
    reply = got;
    str_init(&when);
    moment_print(reply->wall_ms / 1000, getenv("SLURM_TIME_FORMAT"), reply->wall_ms / 1000, &when);
    if (!s->one_line)
        printf("Configuration data as of %s\n", when.text);
    str_clear(&when);
    for (size_t i = 0; i < reply->n_rows; i++) {
        const char *key = reply->rows[i]->key, *value = reply->rows[i]->value ? reply->rows[i]->value : "(null)";

        str_clear(&when);
        if (!strcmp(key, "SlurmUser") || !strcmp(key, "SlurmdUser"))
            config_show_user(value, &when);
        else
            str_add(&when, value);
        if (s->one_line)
            printf("%s%s=%s", i ? " " : "", key, when.text);
        else
            printf("%-23s = %s\n", key, when.text);
    }
    putchar('\n');
    str_fini(&when);
    return 0;
}

static int show_step_part(void *arg, void *part)
{
    struct showing *w = arg;
    const Wire__StepsReply *r = part;

    for (size_t i = 0; i < r->n_steps; i++) {
        struct record rec = record_new(w->s, r->wall_ms);

        if (r->steps[i]->state != JOB_RUNNING || (w->wanted && strchr(w->wanted, '.') && strcmp(w->wanted, r->steps[i]->id_text) != 0))
            continue;
        w->rows++;
        record_begin(&rec);
        record_step(&rec, r->steps[i]);
        record_end(&rec, true);
    }
    return !r->last;
}

static int show_steps(struct scontrol *s, int argc, char **argv)
{
    Wire__StepsRequest request = WIRE__STEPS_REQUEST__INIT;
    struct showing w = { .s = s, .wanted = argc > 0 ? argv[0] : NULL };
    struct spur_error err = { 0 };
    uint32_t id = argc > 0 ? (uint32_t)strtoul(argv[0], NULL, 10) : 0;
    int number;

    request.job_ids = &id;
    request.n_job_ids = id ? 1 : 0;
    if (client_ready(s, &err) < 0 ||
        client_stream(s->client, WIRE__MESSAGE_TYPE__STEPS, &request.base, WIRE__MESSAGE_TYPE__STEPS_PART, &wire__steps_reply__descriptor, show_step_part, &w, &number, &err) < 0)
        return failed(s, "slurm_get_job_steps", &err);
    if (!w.rows) {
        if (id)
            printf("Job step %s not found\n", argv[0]);
        else if (!s->quiet)
            puts("No job steps in the system");
        return id ? 1 : 0;
    }
    return 0;
}

/* A list, a file with one or more names a line, "-" for standard input, or the job's own nodes. */
static int list_get(int argc, char **argv, struct hostlist **out, bool may_read, struct spur_error *err)
{
    const char *text = argc > 0 ? argv[0] : getenv("SLURM_JOB_NODELIST");
    bool is_input = argc > 0 && !strcmp(argv[0], "-");
    FILE *f = NULL;
    char line[65536];

    if (!text || !*text)
        return spur_fail(err, SPUR_EINVAL, "host list is empty");
    if (is_input)
        f = stdin;
    else if (may_read && argc > 0 && strchr(text, '/') && !(f = fopen(text, "re")))
        return spur_fail(err, SPUR_ENOTFOUND, "%s: %s", text, strerror(errno));
    if (!f) {
        if (hostlist_parse(text, out, err) < 0)
            return err->code;
    } else {
        *out = hostlist_create();
        while (fgets(line, sizeof line, f)) {
            char *cursor = line, *word;

            while ((word = word_next(&cursor, " \t\r\n")))
                if (hostlist_add_list(*out, word, err) < 0) {
                    hostlist_destroy(*out);
                    if (f != stdin)
                        fclose(f);
                    return err->code;
                }
        }
        if (f != stdin)
            fclose(f);
    }
    if (hostlist_count(*out))
        return 0;
    hostlist_destroy(*out);
    return spur_fail(err, SPUR_EINVAL, "host list is empty");
}

static int list_failed(const struct spur_error *err)
{
    fprintf(stderr, "scontrol: error: %s\n", err->text);
    return 1;
}

static int show_hostnames(struct scontrol *s, int argc, char **argv)
{
    struct spur_error err = { 0 };
    struct hostlist *h;

    (void)s;
    if (list_get(argc, argv, &h, false, &err) < 0)
        return list_failed(&err);
    for (size_t i = 0; i < hostlist_count(h); i++)
        puts(hostlist_nth(h, i));
    hostlist_destroy(h);
    return 0;
}

static int show_list(int argc, char **argv, bool sorted)
{
    struct spur_error err = { 0 };
    struct hostlist *h;
    struct str text;

    if (list_get(argc, argv, &h, true, &err) < 0)
        return list_failed(&err);
    if (sorted)
        hostlist_sort(h);
    str_init(&text);
    hostlist_print(h, &text);
    puts(text.text);
    str_fini(&text);
    hostlist_destroy(h);
    return 0;
}

static int show_hostlist(struct scontrol *s, int argc, char **argv) { (void)s; return show_list(argc, argv, false); }
static int show_hostlistsorted(struct scontrol *s, int argc, char **argv) { (void)s; return show_list(argc, argv, true); }

static int show_daemons(struct scontrol *s, int argc, char **argv)
{
    struct config_hint hint;
    struct spur_error err = { 0 };
    char host[256] = "";

    (void)s, (void)argc, (void)argv;
    if (config_hint_read(NULL, &hint, &err) < 0)
        return failed(s, "", &err);
    gethostname(host, sizeof host - 1);
    host[strcspn(host, ".")] = '\0';
    for (size_t i = 0; i < hint.controller_count; i++)
        if (word_eq(hint.controllers[i].host, host))
            fputs("slurmctld ", stdout);
    putchar('\n');
    return 0;
}

static int show_none(struct scontrol *s, const char *text) { if (!s->quiet) puts(text); return 0; }
static int show_reservations(struct scontrol *s, int argc, char **argv)
{
    (void)argv;
    return argc > 0 ? (printf("Reservation %s not found\n", argv[0]), 1) : show_none(s, "No reservations in the system");
}
static int show_licenses(struct scontrol *s, int argc, char **argv) { (void)argc, (void)argv; return show_none(s, "No licenses configured in Slurm."); }

struct verb { const char *name; size_t least; int (*run)(struct scontrol *, int, char **); };

/* The verb that starts with this word, at least `least` characters of it. */
static const struct verb *verb_find(const struct verb *verbs, size_t count, const char *word)
{
    size_t n = strlen(word);

    for (size_t i = 0; i < count; i++)
        if (n >= verbs[i].least && n <= strlen(verbs[i].name) && strncasecmp(verbs[i].name, word, n) == 0)
            return &verbs[i];
    return NULL;
}

static int run_show(struct scontrol *s, int argc, char **argv)
{
    static const struct verb entities[] = {
        { "jobs", 1, show_jobs }, { "jobid", 4, show_jobs }, { "nodes", 1, show_nodes }, { "nodename", 5, show_nodes }, { "partitions", 1, show_partitions }, { "partitionname", 10, show_partitions },
        { "config", 2, show_config }, { "steps", 3, show_steps }, { "stepid", 5, show_steps }, { "hostnames", 5, show_hostnames }, { "hostlistsorted", 9, show_hostlistsorted },
        { "hostlist", 5, show_hostlist }, { "daemons", 2, show_daemons }, { "reservations", 1, show_reservations }, { "licenses", 1, show_licenses } };
    const struct verb *v;
    char *equals;

    if (argc < 1) {
        fprintf(stderr, "too few arguments for keyword:show\n");
        return 1;
    }
    if ((equals = strchr(argv[0], '='))) {      /* show job=12, show NodeName=n1 */
        *equals = '\0';
        argv[-1] = argv[0];
        argv[0] = equals + 1;
        argv--;
        argc++;
    }
    v = verb_find(entities, sizeof entities / sizeof *entities, argv[0]);
    if (!v) {
        fprintf(stderr, "invalid entity:%s for keyword:show \n", argv[0]);
        return 1;
    }
    return v->run(s, argc - 1, argv + 1);
}

/* ---- changing -------------------------------------------------------------------------------------------------------------------- */

static int job_verb(struct scontrol *s, int argc, char **argv, Wire__JobUpdateRequest__Verb verb, const char *what)
{
    int rc = 0;

    if (argc < 1) {
        fprintf(stderr, "too few arguments for keyword:%s\n", what);
        return 1;
    }
    for (int i = 0; i < argc; i++) {
        Wire__JobUpdateRequest r = WIRE__JOB_UPDATE_REQUEST__INIT;
        struct spur_error err = { 0 };
        uint8_t token[16];
        void *reply;
        bool by_name = word_starts(argv[i], "jobname=") || word_starts(argv[i], "name=");
        char *ids = by_name ? (char *)"" : word_starts(argv[i], "jobid=") ? argv[i] + 6 : argv[i];

        client_token(token, &r.token_wall_ms);
        r.has_token = r.has_token_wall_ms = 1;
        r.token.data = token;
        r.token.len = sizeof token;
        r.ids = ids;
        r.job_name = by_name ? strchr(argv[i], '=') + 1 : NULL;
        r.verb = verb;
        if (ask(s, WIRE__MESSAGE_TYPE__JOB_UPDATE, &r.base, WIRE__MESSAGE_TYPE__DONE, &wire__done_reply__descriptor, &reply, &err) < 0) {
            if (!s->quiet || err.code != SPUR_ENOTFOUND)
                fprintf(stderr, "%s for job %s\n", err.text, *ids ? ids : argv[i]);
            rc = 1;
        }
    }
    return rc;
}

#define JOB_VERB(name, verb) static int run_##name(struct scontrol *s, int argc, char **argv) { return job_verb(s, argc, argv, WIRE__JOB_UPDATE_REQUEST__VERB__##verb, #name); }
JOB_VERB(hold, HOLD) JOB_VERB(uhold, UHOLD) JOB_VERB(release, RELEASE) JOB_VERB(requeue, REQUEUE) JOB_VERB(requeuehold, REQUEUE_HOLD) JOB_VERB(top, TOP)
JOB_VERB(suspend, SUSPEND) JOB_VERB(resume, RESUME)

/* KEY=VALUE words; KEY+=VALUE keeps its sign in front of the value, as Slurm passes it. */
static int pairs_read(struct scontrol *s, int argc, char **argv, const char *entity, char **subject, Wire__KeyValue ***out, size_t *count)
{
    size_t n = 0;

    *out = arena_alloc(&s->arena, ((size_t)argc + 1) * sizeof **out);
    *subject = NULL;
    for (int i = 0; i < argc; i++) {
        char *equals = strchr(argv[i], '=');
        Wire__KeyValue *kv;

        if (!equals) {
            fprintf(stderr, "Invalid input: %s\nRequest aborted\n", argv[i]);
            return 1;
        }
        kv = arena_alloc(&s->arena, sizeof *kv);
        wire__key_value__init(kv);
        if (equals > argv[i] && (equals[-1] == '+' || equals[-1] == '-')) {
            kv->key = arena_printf(&s->arena, "%.*s", (int)(equals - argv[i] - 1), argv[i]);
            kv->value = arena_printf(&s->arena, "%c%s", equals[-1], equals + 1);
        } else {
            kv->key = arena_printf(&s->arena, "%.*s", (int)(equals - argv[i]), argv[i]);
            kv->value = arena_copy(&s->arena, equals + 1);
        }
        if (!*subject && word_eq(kv->key, entity))
            *subject = kv->value;
        else
            (*out)[n++] = kv;
    }
    *count = n;
    return 0;
}

static bool pair_is(int argc, char **argv, const char *key)
{
    size_t n = strlen(key);

    for (int i = 0; i < argc; i++)
        if (strncasecmp(argv[i], key, n) == 0 && argv[i][n] == '=')
            return true;
    return false;
}

static int update_jobs(struct scontrol *s, int argc, char **argv)
{
    Wire__JobUpdateRequest r = WIRE__JOB_UPDATE_REQUEST__INIT;
    struct spur_error err = { 0 };
    uint8_t token[16];
    char *ids;
    void *reply;

    if (pairs_read(s, argc, argv, pair_is(argc, argv, "jobid") ? "jobid" : pair_is(argc, argv, "job") ? "job" : "jobname", &ids, &r.set, &r.n_set))
        return 1;
    client_token(token, &r.token_wall_ms);
    r.has_token = r.has_token_wall_ms = 1;
    r.token.data = token;
    r.token.len = sizeof token;
    r.ids = pair_is(argc, argv, "jobid") || pair_is(argc, argv, "job") ? ids : (char *)"";
    r.job_name = *r.ids ? NULL : ids;
    r.verb = WIRE__JOB_UPDATE_REQUEST__VERB__SET;
    if (ask(s, WIRE__MESSAGE_TYPE__JOB_UPDATE, &r.base, WIRE__MESSAGE_TYPE__DONE, &wire__done_reply__descriptor, &reply, &err) < 0) {
        fprintf(stderr, "%s for job %s\n", err.text, ids);
        return 1;
    }
    return 0;
}

static int update_nodes(struct scontrol *s, int argc, char **argv)
{
    Wire__NodeUpdateRequest r = WIRE__NODE_UPDATE_REQUEST__INIT;
    struct spur_error err = { 0 };
    uint8_t token[16];
    void *reply;

    if (pairs_read(s, argc, argv, pair_is(argc, argv, "nodename") ? "nodename" : "node", &r.nodes, &r.set, &r.n_set))
        return 1;
    client_token(token, &r.token_wall_ms);
    r.has_token = r.has_token_wall_ms = 1;
    r.token.data = token;
    r.token.len = sizeof token;
    if (ask(s, WIRE__MESSAGE_TYPE__NODE_UPDATE, &r.base, WIRE__MESSAGE_TYPE__DONE, &wire__done_reply__descriptor, &reply, &err) < 0)
        return failed(s, "slurm_update", &err);
    return 0;
}

static int change_partition(struct scontrol *s, int argc, char **argv, bool create, bool erase)
{
    Wire__PartitionUpdateRequest r = WIRE__PARTITION_UPDATE_REQUEST__INIT;
    struct spur_error err = { 0 };
    uint8_t token[16];
    void *reply;

    if (pairs_read(s, argc, argv, pair_is(argc, argv, "partitionname") ? "partitionname" : "partition", &r.name, &r.set, &r.n_set))
        return 1;
    if (!r.name) {
        fprintf(stderr, "scontrol: error: partitionname=NAME is missing\n");
        return 1;
    }
    client_token(token, &r.token_wall_ms);
    r.has_token = r.has_token_wall_ms = 1;
    r.token.data = token;
    r.token.len = sizeof token;
    r.has_create = r.create = create;
    r.has_delete_ = r.delete_ = erase;
    if (ask(s, WIRE__MESSAGE_TYPE__PARTITION_UPDATE, &r.base, WIRE__MESSAGE_TYPE__DONE, &wire__done_reply__descriptor, &reply, &err) < 0)
        return failed(s, create ? "slurm_create_partition" : erase ? "slurm_delete_partition" : "slurm_update", &err);
    return 0;
}

static int run_update(struct scontrol *s, int argc, char **argv)
{
    if (argc && word_eq(argv[0], "job"))
        argc--, argv++;
    if (pair_is(argc, argv, "jobid") || pair_is(argc, argv, "job") || pair_is(argc, argv, "jobname"))
        return update_jobs(s, argc, argv);
    if (pair_is(argc, argv, "nodename") || pair_is(argc, argv, "node"))
        return update_nodes(s, argc, argv);
    if (pair_is(argc, argv, "partitionname") || pair_is(argc, argv, "partition"))
        return change_partition(s, argc, argv, false, false);
    if (pair_is(argc, argv, "reservationname") || pair_is(argc, argv, "reservation") || pair_is(argc, argv, "stepid") || pair_is(argc, argv, "slurmctlddebug")) {
        fprintf(stderr, "scontrol: error: not supported yet: update of reservations, steps and debug levels\n");
        return 1;
    }
    fprintf(stderr, "No valid entity in update command\nInput line must include \"NodeName\", \"PartitionName\", \"Reservation\", \"JobId\", or \"SlurmctldDebug\"\n");
    return 1;
}

static int run_create_delete(struct scontrol *s, int argc, char **argv, bool create)
{
    if (argc && word_eq(argv[0], "partition"))
        argc--, argv++;
    if (pair_is(argc, argv, "partitionname") || pair_is(argc, argv, "partition"))
        return change_partition(s, argc, argv, create, !create);
    fprintf(stderr, "scontrol: error: not supported yet: %s of anything but partitions\n", create ? "create" : "delete");
    return 1;
}
static int run_create(struct scontrol *s, int argc, char **argv) { return run_create_delete(s, argc, argv, true); }
static int run_delete(struct scontrol *s, int argc, char **argv) { return run_create_delete(s, argc, argv, false); }

static int plain(struct scontrol *s, uint16_t type, const char *what)
{
    Wire__Empty r = WIRE__EMPTY__INIT;
    struct spur_error err = { 0 };
    void *reply;

    return ask(s, type, &r.base, WIRE__MESSAGE_TYPE__DONE, &wire__done_reply__descriptor, &reply, &err) < 0 ? failed(s, what, &err) : 0;
}
static int run_reconfigure(struct scontrol *s, int argc, char **argv) { (void)argc, (void)argv; return plain(s, WIRE__MESSAGE_TYPE__RECONFIGURE, "slurm_reconfigure"); }
static int run_shutdown(struct scontrol *s, int argc, char **argv) { (void)argc, (void)argv; return plain(s, WIRE__MESSAGE_TYPE__SHUTDOWN, "slurm_shutdown"); }

static int run_ping(struct scontrol *s, int argc, char **argv)
{
    Wire__Empty r = WIRE__EMPTY__INIT;
    struct spur_error err = { 0 };
    struct config_hint hint;
    void *reply;
    int rc;

    (void)argc, (void)argv;
    rc = ask(s, WIRE__MESSAGE_TYPE__PING, &r.base, WIRE__MESSAGE_TYPE__PONG, &wire__pong__descriptor, &reply, &err);
    if (rc == 0) {
        const Wire__Pong *p = reply;

        printf("Slurmctld(primary) at %s is UP\n", p->host ? p->host : "");
        return 0;
    }
    if (config_hint_read(NULL, &hint, &err) < 0)
        return failed(s, "", &err);
    for (size_t i = 0; i < hint.controller_count; i++)
        printf("Slurmctld(%s) at %s is DOWN\n", i ? "backup" : "primary", hint.controllers[i].host);
    return 1;
}

static int run_wait_job(struct scontrol *s, int argc, char **argv)
{
    Wire__WaitRequest r = WIRE__WAIT_REQUEST__INIT;
    struct spur_error err = { 0 };
    Wire__JobsReply *reply;
    int number;

    if (argc < 1 || !number_u32(argv[0], &r.job_id)) {
        fprintf(stderr, "too few arguments for keyword:wait_job\n");
        return 1;
    }
    r.until = WIRE__WAIT_REQUEST__UNTIL__STARTED;
    if (client_ready(s, &err) < 0 || client_wait(s->client, &r, &s->arena, &reply, &number, &err) < 0)
        return failed(s, "", &err);
    if (!s->quiet)
        printf("Job %u is ready\n", r.job_id);
    return 0;
}

static int run_write(struct scontrol *s, int argc, char **argv)
{
    Wire__ScriptRequest r = WIRE__SCRIPT_REQUEST__INIT;
    struct spur_error err = { 0 };
    const Wire__Blob *blob;
    char name[64];
    void *reply;
    FILE *f = stdout;

    if (argc < 2 || !word_starts("batch_script", argv[0]) || !number_u32(argv[1], &r.job_id)) {
        fprintf(stderr, argc && word_eq(argv[0], "config") ? "scontrol: error: not supported yet: write config\n" : "invalid write argument: batch_script JOB [FILE|-] is known\n");
        return 1;
    }
    if (ask(s, WIRE__MESSAGE_TYPE__SCRIPT, &r.base, WIRE__MESSAGE_TYPE__SCRIPT_TEXT, &wire__blob__descriptor, &reply, &err) < 0)
        return failed(s, "", &err);
    blob = reply;
    snprintf(name, sizeof name, "slurm-%u.sh", r.job_id);
    if (argc < 3 || strcmp(argv[2], "-") != 0) {
        int fd = open(argc > 2 ? argv[2] : name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);

        if (fd < 0 || !(f = fdopen(fd, "w"))) {
            fprintf(stderr, "failed to open file `%s`: %s\n", argc > 2 ? argv[2] : name, strerror(errno));
            return 1;
        }
    }
    fwrite(blob->data.data, 1, blob->data.len, f);
    if (f != stdout) {
        fclose(f);
        printf("batch script for job %u written to %s\n", r.job_id, argc > 2 ? argv[2] : name);
    }
    return 0;
}

static int completing_part(void *arg, void *part)
{
    struct showing *w = arg;
    const Wire__JobsReply *r = part;

    for (size_t i = 0; i < r->n_jobs; i++) {
        struct record rec = record_new(w->s, r->wall_ms);

        if (!(r->jobs[i]->state_flags & JOB_FLAG_COMPLETING))
            continue;
        rec.one_line = true;
        record_begin(&rec);
        record_pair(&rec, "JobId", "%u", r->jobs[i]->job_id);
        record_time(&rec, "EndTime", r->jobs[i]->end_wall_s, "Unknown");
        record_pair(&rec, "Nodes(COMPLETING)", "%s", r->jobs[i]->nodes ? r->jobs[i]->nodes : "");
        record_end(&rec, false);
    }
    return !r->last;
}

static int run_completing(struct scontrol *s, int argc, char **argv)
{
    Wire__JobsRequest request = WIRE__JOBS_REQUEST__INIT;
    struct showing w = { .s = s };
    struct spur_error err = { 0 };
    char *states[] = { (char *)"completing" };
    int number;

    (void)argc, (void)argv;
    request.states = states;
    request.n_states = 1;
    if (client_ready(s, &err) < 0 ||
        client_stream(s->client, WIRE__MESSAGE_TYPE__JOBS, &request.base, WIRE__MESSAGE_TYPE__JOBS_PART, &wire__jobs_reply__descriptor, completing_part, &w, &number, &err) < 0)
        return failed(s, "slurm_load_jobs", &err);
    return 0;
}

static int run_version(struct scontrol *s, int argc, char **argv) { (void)s, (void)argc, (void)argv; puts(SLURM_GENERATION); return 0; }
static int run_oneliner(struct scontrol *s, int argc, char **argv) { (void)argc, (void)argv; s->one_line = true; return 0; }
static int run_details(struct scontrol *s, int argc, char **argv) { (void)argc, (void)argv; s->details = true; return 0; }
static int run_quiet(struct scontrol *s, int argc, char **argv) { (void)argc, (void)argv; s->quiet = true; return 0; }
static int run_nothing(struct scontrol *s, int argc, char **argv) { (void)s, (void)argc, (void)argv; return 0; }
static int run_quit(struct scontrol *s, int argc, char **argv) { (void)argc, (void)argv; s->is_done = true; return 0; }
static int run_help(struct scontrol *s, int argc, char **argv) { (void)s, (void)argc, (void)argv; options_help(&table); return 0; }
static int run_refused(struct scontrol *s, int argc, char **argv) { (void)s, (void)argc; fprintf(stderr, "scontrol: error: not supported yet: %s\n", argv[-1]); return 1; }

static const struct verb verbs[] = {
    { "show", 2, run_show }, { "update", 1, run_update }, { "create", 2, run_create }, { "delete", 3, run_delete }, { "hold", 3, run_hold }, { "holdu", 5, run_uhold }, { "uhold", 2, run_uhold },
    { "release", 3, run_release }, { "requeuehold", 8, run_requeuehold }, { "requeue", 3, run_requeue }, { "top", 3, run_top }, { "suspend", 2, run_suspend }, { "resume", 3, run_resume },
    { "ping", 3, run_ping }, { "reconfigure", 3, run_reconfigure }, { "shutdown", 4, run_shutdown }, { "completing", 4, run_completing }, { "wait_job", 4, run_wait_job }, { "write", 5, run_write },
    { "version", 4, run_version }, { "oneliner", 1, run_oneliner }, { "details", 1, run_details }, { "quiet", 4, run_quiet }, { "all", 3, run_nothing }, { "hide", 2, run_nothing }, { "verbose", 4, run_nothing },
    { "help", 1, run_help }, { "exit", 1, run_quit }, { "quit", 4, run_quit },
    { "abort", 5, run_refused }, { "cancel_reboot", 3, run_refused }, { "cluster", 2, run_refused }, { "fsdampeningfactor", 2, run_refused }, { "listpids", 1, run_refused }, { "notify", 1, run_refused },
    { "pidinfo", 3, run_refused }, { "power", 3, run_refused }, { "reboot", 3, run_refused }, { "schedloglevel", 3, run_refused }, { "setdebug", 8, run_refused }, { "setdebugflags", 9, run_refused },
    { "takeover", 8, run_refused }, { "token", 3, run_refused }, { "errnumstr", 3, run_refused }, { "getent", 3, run_refused }, { "gethost", 4, run_refused }, { "listjobs", 5, run_refused }, { "liststeps", 5, run_refused },
    { "bbstat", 2, run_refused }, { "dwstat", 2, run_refused },
};

static int run_words(struct scontrol *s, int argc, char **argv)
{
    const struct verb *v = verb_find(verbs, sizeof verbs / sizeof *verbs, argv[0]);
    int rc;

    if (!v) {
        fprintf(stderr, "invalid keyword: %s\n", argv[0]);
        return 1;
    }
    arena_init(&s->arena, 0);
    rc = v->run(s, argc - 1, argv + 1);
    arena_fini(&s->arena);
    return rc;
}

/* Commands from standard input, words parted by blanks, quotes keep them together. */
static int interactive(struct scontrol *s)
{
    char line[65536];
    bool is_terminal = isatty(STDIN_FILENO);
    int rc = 0;

    while (!s->is_done) {
        char *words[1024], *to, *p;
        int n = 1;

        if (is_terminal) {
            fputs("scontrol: ", stdout);
            fflush(stdout);
        }
        if (!fgets(line, sizeof line, stdin))
            break;
        words[0] = (char *)"scontrol";      /* room for the verbs that look one word back */
        for (p = line; n < 1023; ) {
            char quote = 0;

            while (isspace((unsigned char)*p))
                p++;
            if (!*p)
                break;
            words[n++] = to = p;
            for (; *p && (quote || !isspace((unsigned char)*p)); p++) {
                if (quote ? *p == quote : *p == '"' || *p == '\'')
                    quote = quote ? 0 : *p;
                else
                    *to++ = *p;
            }
            if (*p)
                p++;
            *to = '\0';
        }
        if (n > 1)
            rc = run_words(s, n - 1, words + 1);
    }
    return rc;
}

int cmd_scontrol(int argc, char **argv)
{
    struct scontrol s = { 0 };
    int first, rc;

    if ((rc = options_environment(&table, &s)) || (rc = options_read(&table, argc, argv, &s, &first)))
        return rc == OPTIONS_DONE ? 0 : rc;
    /* Options may stand behind the verb too: scontrol show job -d 12, scontrol show nodes --json. */
    for (int i = first; i < argc; i++) {
        bool *flag = !strcmp(argv[i], "-o") || !strcmp(argv[i], "--oneliner") ? &s.one_line : !strcmp(argv[i], "-d") || !strcmp(argv[i], "-dd") || !strcmp(argv[i], "--details") ? &s.details :
                     word_starts(argv[i], "--json") ? &s.json : !strcmp(argv[i], "-Q") || !strcmp(argv[i], "--quiet") ? &s.quiet : NULL;

        if (!flag)
            continue;
        *flag = true;
        memmove(argv + i, argv + i + 1, (size_t)(argc - i) * sizeof *argv);
        argc--;
        i--;
    }
    rc = first < argc ? run_words(&s, argc - first, argv + first) : interactive(&s);
    client_close(s.client);
    return rc;
}
