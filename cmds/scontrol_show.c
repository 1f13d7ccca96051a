/* SPDX-License-Identifier: Apache-2.0 */
/* scontrol_show.c - `scontrol show`: records of jobs, nodes, partitions, steps, the configuration; host lists. Records are printed by common/records.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/hostlist.h"
#include "base/table.h"
#include "cmds/common/json.h"
#include "cmds/common/list.h"
#include "cmds/common/records.h"
#include "cmds/common/taskset.h"
#include "cmds/scontrol.h"
#include "config/config.h"
#include "state/apply.h"

struct showing { struct scontrol *s; struct json_writer *json; const char *wanted; size_t rows; struct taskset *tasks; };

static struct record record_new(const struct scontrol *s, int64_t wall_ms)
{
    return (struct record){ .one_line = s->one_line, .now_s = wall_ms / 1000, .time_format = getenv("SLURM_TIME_FORMAT") };
}

/* Of the waiting tasks of an array those that were named. */
static void job_narrow(struct showing *w, Wire__JobInfo *j)
{
    struct bitmap tasks;
    struct str text;

    taskset_tasks(w->tasks, j, &tasks);
    str_init(&text);
    bitmap_print_steps(&tasks, &text);
    j->array_tasks = arena_copy(&w->s->arena, text.text);
    str_fini(&text);
    bitmap_fini(&tasks);
}

static int show_job_part(void *arg, void *part)
{
    struct showing *w = arg;
    const Wire__JobsReply *r = part;

    if (w->s->json && !w->json)
        w->json = json_begin("show job", "jobs");
    for (size_t i = 0; i < r->n_jobs; i++) {
        struct record rec = record_new(w->s, r->wall_ms);

        if (w->tasks && taskset_narrows(w->tasks, r->jobs[i]))
            job_narrow(w, r->jobs[i]);
        w->rows++;
        if (w->json) {
            json_job(w->json, r->jobs[i], client_hint(w->s->client)->cluster, false);
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
    struct taskset tasks;
    struct showing w = { .s = s, .tasks = &tasks };
    struct spur_error err = { 0 };
    char *all[] = { (char *)"all" }, **ids = NULL;
    int number, rc;

    request.states = all;
    request.n_states = 1;
    request.has_hide_hidden = 1;
    request.hide_hidden = !s->all;
    taskset_init(&tasks);
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
            taskset_add(&tasks, word, NULL);
        }
        request.id_texts = ids;
    }
    if (scontrol_ready(s, &err) < 0) {
        free(ids);
        taskset_fini(&tasks);
        return scontrol_failed(s, "slurm_load_jobs", &err);
    }
    rc = client_stream(s->client, WIRE__MESSAGE_TYPE__JOBS, &request.base, WIRE__MESSAGE_TYPE__JOBS_PART, &wire__jobs_reply__descriptor, show_job_part, &w, &number, &err);
    if (s->json && rc >= 0)
        json_end(w.json ? w.json : json_begin("show job", "jobs"));
    free(ids);
    taskset_fini(&tasks);
    if (rc < 0 && err.code == SPUR_ESYNTAX)
        spur_fail(&err, SPUR_ENOTFOUND, "Invalid job id specified");
    if (rc < 0)
        return scontrol_failed(s, "slurm_load_jobs", &err);
    if (!w.rows && !s->json && !s->quiet)
        puts("No jobs in the system");
    return 0;
}

/* A list, a file with one or more names a line, "-" for standard input, or the job's own nodes. */
static int list_get(int argc, char **argv, struct hostlist **out, bool may_read, struct spur_error *err)
{
    const char *text = argc > 0 ? argv[0] : getenv("SLURM_JOB_NODELIST");
    bool is_input = argc > 0 && !strcmp(argv[0], "-");
    FILE *f = NULL;
    char *line = NULL;
    size_t room = 0;
    int rc = 0;

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
        while (rc == 0 && getline(&line, &room, f) >= 0) {      /* one line may name every node there is */
            char *cursor = line, *word;

            while (rc == 0 && (word = word_next(&cursor, " \t\r\n")))
                rc = hostlist_add_list(*out, word, err);
        }
        free(line);
        if (f != stdin)
            fclose(f);
        if (rc < 0) {
            hostlist_destroy(*out);
            return rc;
        }
    }
    if (hostlist_count(*out))
        return 0;
    hostlist_destroy(*out);
    return spur_fail(err, SPUR_EINVAL, "host list is empty");
}

struct nodes { struct arena arena; Wire__NodeInfo **list; size_t count; int64_t wall_ms; };

static int node_part(void *arg, void *part)
{
    struct nodes *all = arg;
    const Wire__NodesReply *r = part;

    all->wall_ms = r->wall_ms;
    all->list = mem_grow(all->list, all->count + r->n_nodes + 1, sizeof *all->list);
    for (size_t i = 0; i < r->n_nodes; i++)
        all->list[all->count++] = r->nodes[i];
    return !r->last;
}

static void nodes_fini(struct nodes *all)
{
    arena_fini(&all->arena);
    free(all->list);
}

static int nodes_load(struct scontrol *s, struct nodes *all, struct spur_error *err)
{
    Wire__NodesRequest request = WIRE__NODES_REQUEST__INIT;
    int number;

    if (scontrol_ready(s, err) < 0)
        return err->code;
    return client_stream_keep(s->client, WIRE__MESSAGE_TYPE__NODES, &request.base, WIRE__MESSAGE_TYPE__NODES_PART, &wire__nodes_reply__descriptor, &all->arena,
                              node_part, all, &number, err);
}

static void node_show(struct showing *w, const Wire__NodeInfo *n, int64_t wall_ms)
{
    struct record rec = record_new(w->s, wall_ms);

    if (w->json) {
        json_node(w->json, n, client_hint(w->s->client)->cluster);
        return;
    }
    record_begin(&rec);
    record_node(&rec, n, w->s->details);
    record_end(&rec, true);
}

/* In the order of names, as Slurm keeps its nodes. */
static int show_nodes(struct scontrol *s, int argc, char **argv)
{
    struct showing w = { .s = s };
    struct spur_error err = { 0 };
    struct hostlist *names = NULL;
    struct nodes all = { 0 };
    struct table by_name;
    int rc = 0;

    if (argc > 0 && list_get(argc, argv, &names, true, &err) < 0)
        return scontrol_failed(s, "", &err);
    if (nodes_load(s, &all, &err) < 0) {
        hostlist_destroy(names);
        nodes_fini(&all);
        return scontrol_failed(s, "slurm_load_node", &err);
    }
    table_init(&by_name);
    for (size_t i = 0; i < all.count; i++)
        table_put_text(&by_name, all.list[i]->name, all.list[i]);
    if (!names) {
        names = hostlist_create();
        for (size_t i = 0; i < all.count; i++)
            if (s->future || all.list[i]->state != NODE_FUTURE)
                hostlist_add(names, all.list[i]->name);
        hostlist_sort(names);
    }
    if (s->json)
        w.json = json_begin("show node", "nodes");
    for (size_t i = 0; i < hostlist_count(names); i++) {
        const Wire__NodeInfo *n = table_get_text(&by_name, hostlist_nth(names, i));

        if (n) {
            node_show(&w, n, all.wall_ms);
        } else {
            if (!s->quiet)
                printf("Node %s not found\n", hostlist_nth(names, i));
            rc = 1;
        }
    }
    if (!hostlist_count(names) && !s->json && !s->quiet)
        puts("No nodes in the system");
    if (w.json)
        json_end(w.json);
    hostlist_destroy(names);
    table_fini(&by_name);
    nodes_fini(&all);
    return rc;
}

/* The nodes that this host, or the named one, answers for. */
static int show_aliases(struct scontrol *s, int argc, char **argv)
{
    struct spur_error err = { 0 };
    struct nodes all = { 0 };
    char host[256] = "";
    const char *gap = "";

    gethostname(host, sizeof host - 1);
    if (argc > 0)
        snprintf(host, sizeof host, "%s", argv[0]);
    else
        host[strcspn(host, ".")] = '\0';
    if (nodes_load(s, &all, &err) < 0) {
        nodes_fini(&all);
        return scontrol_failed(s, "slurm_load_node", &err);
    }
    for (size_t i = 0; i < all.count; i++)
        if (word_eq(all.list[i]->hostname, host)) {
            printf("%s%s", gap, all.list[i]->name);
            gap = " ";
        }
    if (*gap)
        putchar('\n');
    nodes_fini(&all);
    return 0;
}

static int show_partition_part(void *arg, void *part)
{
    struct showing *w = arg;
    const Wire__PartitionsReply *r = part;

    for (size_t i = 0; i < r->n_partitions; i++) {
        struct record rec = record_new(w->s, r->wall_ms);

        if ((w->wanted && strcmp(w->wanted, r->partitions[i]->name) != 0) || (r->partitions[i]->hidden && !w->s->all && getuid() != 0))
            continue;
        w->rows++;
        if (w->json) {
            json_partition(w->json, NULL, r->partitions[i], client_hint(w->s->client)->cluster);
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

    if (scontrol_ready(s, &err) < 0)
        return scontrol_failed(s, "slurm_load_partitions", &err);
    if (s->json)
        w.json = json_begin("show partition", "partitions");
    rc = client_stream(s->client, WIRE__MESSAGE_TYPE__PARTITIONS, &request.base, WIRE__MESSAGE_TYPE__PARTITIONS_PART, &wire__partitions_reply__descriptor, show_partition_part, &w, &number, &err);
    if (w.json)
        json_end(w.json);
    if (rc < 0)
        return scontrol_failed(s, "slurm_load_partitions", &err);
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
    if (scontrol_ask(s, WIRE__MESSAGE_TYPE__CONFIG, &request.base, WIRE__MESSAGE_TYPE__CONFIG_ROWS, &wire__config_reply__descriptor, &got, NULL, &err) < 0)
        return scontrol_failed(s, "slurm_load_ctl_conf", &err);
    reply = got;
    str_init(&when);
    moment_print(reply->wall_ms / 1000, getenv("SLURM_TIME_FORMAT"), reply->wall_ms / 1000, &when);
    printf("Configuration data as of %s\n", when.text);      /* no other form with -o, as in Slurm */
    for (size_t i = 0; i < reply->n_rows; i++) {
        const char *key = reply->rows[i]->key, *value = reply->rows[i]->value ? reply->rows[i]->value : "(null)";

        str_clear(&when);
        if (!strcmp(key, "SlurmUser") || !strcmp(key, "SlurmdUser"))
            config_show_user(value, &when);
        else
            str_add(&when, value);
        printf("%-23s = %s\n", key, when.text);
    }
    putchar('\n');
    str_fini(&when);
    return scontrol_ping(s, 0, NULL);
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
    char *id = NULL;
    int number;

    if (w.wanted) {
        id = arena_copy(&s->arena, w.wanted);
        id[strcspn(id, ".")] = '\0';
        request.id_texts = &id;
        request.n_id_texts = 1;
    }
    if (scontrol_ready(s, &err) < 0 ||
        client_stream(s->client, WIRE__MESSAGE_TYPE__STEPS, &request.base, WIRE__MESSAGE_TYPE__STEPS_PART, &wire__steps_reply__descriptor, show_step_part, &w, &number, &err) < 0)
        return scontrol_failed(s, "slurm_get_job_steps", &err);
    if (!w.rows) {
        if (w.wanted)
            printf("Job step %s not found\n", w.wanted);
        else if (!s->quiet)
            puts("No job steps in the system");
        return w.wanted ? 1 : 0;
    }
    return 0;
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
    struct nodes all = { 0 };
    bool has_node = false;
    char host[256] = "";

    (void)argc, (void)argv;
    if (config_hint_read(NULL, &hint, &err) < 0)
        return scontrol_failed(s, "", &err);
    gethostname(host, sizeof host - 1);
    host[strcspn(host, ".")] = '\0';
    for (size_t i = 0; i < hint.controller_count; i++)
        if (word_eq(hint.controllers[i].host, host))
            fputs("slurmctld ", stdout);
    if (nodes_load(s, &all, &err) >= 0)         /* no controller, no names of nodes: then only what the file says */
        for (size_t i = 0; i < all.count; i++)
            has_node |= word_eq(all.list[i]->hostname, host);
    puts(has_node ? "slurmd" : "");
    nodes_fini(&all);
    return 0;
}

static int show_none(struct scontrol *s, const char *text) { if (!s->quiet) puts(text); return 0; }
static int show_reservations(struct scontrol *s, int argc, char **argv)
{
    (void)argv;
    return argc > 0 ? (printf("Reservation %s not found\n", argv[0]), 1) : show_none(s, "No reservations in the system");
}
static int show_licenses(struct scontrol *s, int argc, char **argv) { (void)argc, (void)argv; return show_none(s, "No licenses configured in Slurm."); }

int scontrol_show(struct scontrol *s, int argc, char **argv)
{
    static const struct verb entities[] = {
        { "jobs", 1, show_jobs }, { "jobid", 4, show_jobs }, { "nodes", 1, show_nodes }, { "nodename", 5, show_nodes }, { "partitions", 1, show_partitions }, { "partitionname", 10, show_partitions },
        { "config", 2, show_config }, { "steps", 3, show_steps }, { "stepid", 5, show_steps }, { "hostnames", 5, show_hostnames }, { "hostlistsorted", 9, show_hostlistsorted },
        { "hostlist", 5, show_hostlist }, { "daemons", 2, show_daemons }, { "reservations", 1, show_reservations }, { "licenses", 1, show_licenses },
        { "aliases", 1, show_aliases }, { "topology", 1, scontrol_show_topology } };
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
        static const char *const refused[] = { "assoc_mgr", "bbstat", "burstbuffer", "dwstat", "federations", "frontends", "slurmd", "topoconf", "resources", "cache", NULL };

        for (size_t i = 0; refused[i]; i++)
            if (word_starts(refused[i], argv[0]))
                return fprintf(stderr, "scontrol: error: not supported yet: show %s\n", refused[i]), 1;
        fprintf(stderr, "invalid entity:%s for keyword:show \n", argv[0]);
        return 1;
    }
    return v->run(s, argc - 1, argv + 1);
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

int scontrol_completing(struct scontrol *s, int argc, char **argv)
{
    Wire__JobsRequest request = WIRE__JOBS_REQUEST__INIT;
    struct showing w = { .s = s };
    struct spur_error err = { 0 };
    char *states[] = { (char *)"completing" };
    int number;

    (void)argc, (void)argv;
    request.states = states;
    request.n_states = 1;
    if (scontrol_ready(s, &err) < 0 ||
        client_stream(s->client, WIRE__MESSAGE_TYPE__JOBS, &request.base, WIRE__MESSAGE_TYPE__JOBS_PART, &wire__jobs_reply__descriptor, completing_part, &w, &number, &err) < 0)
        return scontrol_failed(s, "slurm_load_jobs", &err);
    return 0;
}
