/* SPDX-License-Identifier: Apache-2.0 */
/* sstat.c - what the tasks of running steps use now: asks the supervisors, which dial back with one message each.
 *
 * A step's row is made of its tasks on all nodes: averages over the tasks, the most with the node and the task that has it. A node that does not answer is named, and
 * the rest is shown. Without a step the first running one of the job, or its batch script.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "client/link.h"
#include "cmds/commands.h"
#include "cmds/common/dialled.h"
#include "cmds/common/json.h"
#include "cmds/common/list.h"
#include "cmds/common/options.h"
#include "state/job.h"

#define ANSWER_MS  20000
#define FORMAT_ALL "JobID,MaxVMSize,MaxVMSizeNode,MaxVMSizeTask,AveVMSize,MaxRSS,MaxRSSNode,MaxRSSTask,AveRSS,MaxPages,MaxPagesNode,MaxPagesTask,AvePages,MinCPU,MinCPUNode," \
    "MinCPUTask,AveCPU,NTasks,MaxDiskRead,MaxDiskReadNode,MaxDiskReadTask,AveDiskRead,MaxDiskWrite,MaxDiskWriteNode,MaxDiskWriteTask,AveDiskWrite"

enum measure { CPU, RSS, VM, PAGES, READ, WRITE, MEASURES };

struct peak { uint64_t value; uint32_t task; const char *node; };

struct row {                    /* a step */
    struct step_name name;
    uint32_t expected, answered, tasks;
    uint64_t sum[MEASURES];
    struct peak most[MEASURES], least[MEASURES];
    struct str pids;
    const char *node_list;
};

struct sstat {
    bool all_steps, no_header, parsable, parsable2, pids, json, no_convert;
    const char *format;
    struct list jobs;
    struct client *client;
    struct arena arena;
    struct step_io *io;
    struct row *rows; size_t count;
    struct link **links; size_t link_count;
};

#define ST ((struct sstat *)request)
#define TAKE(name) static int take_##name(void *request, const char *value, enum option_source from, struct spur_error *err)
#define UNUSED (void)value, (void)from, (void)err
TAKE(all) { UNUSED; ST->all_steps = true; return 0; }
TAKE(format) { UNUSED; ST->format = value; return 0; }
TAKE(pidformat) { UNUSED; ST->pids = true; return 0; }
TAKE(jobs) { UNUSED; list_add(&ST->jobs, value); return 0; }
TAKE(noheader) { UNUSED; ST->no_header = true; return 0; }
TAKE(noconvert) { UNUSED; ST->no_convert = true; return 0; }
TAKE(parsable) { UNUSED; ST->parsable = true; return 0; }
TAKE(parsable2) { UNUSED; ST->parsable2 = true; return 0; }
TAKE(json) { UNUSED; ST->json = true; return 0; }
TAKE(helpformat);

static const struct option_row rows[] = {
    { "allsteps", 'a', OPTION_NONE, NULL, NULL, take_all, "all running steps of the jobs" },
    { "fields", 0, OPTION_VALUE, "LIST", NULL, take_format, NULL },
    { "format", 'o', OPTION_VALUE, "LIST", NULL, take_format, "columns: names, with %WIDTH if wanted" },
    { "helpformat", 'e', OPTION_NONE, NULL, NULL, take_helpformat, "show the names of columns" },
    { "jobs", 'j', OPTION_VALUE, "LIST", NULL, take_jobs, "jobs and steps: 12, 12.0, 12.batch" },
    { "json", 0, OPTION_NONE, NULL, NULL, take_json, "as JSON" },
    { "noconvert", 0, OPTION_NONE, NULL, NULL, take_noconvert, "sizes stay in K" },
    { "noheader", 'n', OPTION_NONE, NULL, NULL, take_noheader, "no heading" },
    { "parsable", 'p', OPTION_NONE, NULL, NULL, take_parsable, "columns end with |" },
    { "parsable2", 'P', OPTION_NONE, NULL, NULL, take_parsable2, "columns with | between them" },
    { "pidformat", 'i', OPTION_NONE, NULL, NULL, take_pidformat, "the processes: JobId, Nodelist, Pids" },
};
static const struct option_table table = {
    .command = "sstat", .usage = "Usage: sstat [OPTIONS] -j JOB[.STEP],...\nShows what the tasks of running steps use: one's own, and everybody's for administrators.\n",
    .rows = rows, .count = sizeof rows / sizeof *rows, .refused = "usage", .refused_letters = "", .unknown_exit = 1,
};

/* ---- columns ---- */

enum what { IS_JOB, IS_NTASKS, IS_NODES, IS_PIDS, IS_AVE, IS_MAX, IS_MAX_NODE, IS_MAX_TASK, IS_MIN, IS_MIN_NODE, IS_MIN_TASK };

static const struct field { const char *name; int width; enum what what; enum measure of; } fields[] = {
    { "JobID", 12, IS_JOB, 0 }, { "NTasks", 8, IS_NTASKS, 0 }, { "Nodelist", 20, IS_NODES, 0 }, { "Pids", 20, IS_PIDS, 0 },
#define MEASURE(word, of) { "Ave" word, 10, IS_AVE, of }, { "Max" word, 10, IS_MAX, of }, { "Max" word "Node", 14, IS_MAX_NODE, of }, { "Max" word "Task", 12, IS_MAX_TASK, of }
    { "AveCPU", 10, IS_AVE, CPU }, { "MinCPU", 10, IS_MIN, CPU }, { "MinCPUNode", 10, IS_MIN_NODE, CPU }, { "MinCPUTask", 10, IS_MIN_TASK, CPU },
    MEASURE("RSS", RSS), MEASURE("VMSize", VM), MEASURE("Pages", PAGES), MEASURE("DiskRead", READ), MEASURE("DiskWrite", WRITE),
};
#define FIELD_COUNT (sizeof fields / sizeof *fields)

static int take_helpformat(void *request, const char *value, enum option_source from, struct spur_error *err)
{
    (void)request; UNUSED;
    for (size_t i = 0; i < FIELD_COUNT; i++)
        printf("%-20s%s", fields[i].name, i % 4 == 3 || i + 1 == FIELD_COUNT ? "\n" : " ");
    exit(0);
}

static void size_print(const struct sstat *s, uint64_t kib, struct str *out)
{
    if (s->no_convert || kib < 1024 * 1024)
        str_addf(out, "%lluK", (unsigned long long)kib);
    else
        str_addf(out, "%.2fG", (double)kib / (1024 * 1024));
}

static void measure_print(const struct sstat *s, enum measure m, uint64_t value, struct str *out)
{
    if (m == CPU)
        str_addf(out, "%02llu:%02llu:%02llu", (unsigned long long)(value / 3600000000u), (unsigned long long)(value / 60000000 % 60), (unsigned long long)(value / 1000000 % 60));
    else if (m == PAGES)
        str_addf(out, "%llu", (unsigned long long)value);
    else
        size_print(s, m == READ || m == WRITE ? value >> 10 : value, out);
}

static void value_print(const struct sstat *s, const struct row *r, const struct field *f, struct str *out)
{
    char name[32];

    switch (f->what) {
    case IS_JOB: step_name_print(&r->name, name); str_add(out, name); return;
    case IS_NTASKS: str_addf(out, "%u", r->tasks); return;
    case IS_NODES: str_add(out, r->node_list); return;
    case IS_PIDS: str_add(out, r->pids.text); return;
    default: break;
    }
    if (!r->tasks)
        return;
    switch (f->what) {
    case IS_AVE: measure_print(s, f->of, r->sum[f->of] / r->tasks, out); break;
    case IS_MAX: measure_print(s, f->of, r->most[f->of].value, out); break;
    case IS_MAX_NODE: str_add(out, r->most[f->of].node); break;
    case IS_MAX_TASK: str_addf(out, "%u", r->most[f->of].task); break;
    case IS_MIN: measure_print(s, f->of, r->least[f->of].value, out); break;
    case IS_MIN_NODE: str_add(out, r->least[f->of].node); break;
    default: str_addf(out, "%u", r->least[f->of].task);
    }
}

struct column { const struct field *field; int width; };

static int columns_read(struct sstat *s, struct column *out, size_t *count, struct spur_error *err)
{
    char *copy = arena_copy(&s->arena, s->pids ? "JobID,Nodelist,Pids" : s->format ? s->format : FORMAT_ALL), *cursor = copy, *word;

    *count = 0;
    while ((word = word_next(&cursor, ","))) {
        char *width = strchr(word, '%');
        size_t i;

        if (width)
            *width++ = '\0';
        for (i = 0; i < FIELD_COUNT && !word_eq(fields[i].name, word); i++)
            ;
        if (i == FIELD_COUNT || *count == 64)
            return spur_fail(err, SPUR_EINVAL, "Invalid field requested: \"%.60s\"", word);
        out[(*count)++] = (struct column){ &fields[i], width ? atoi(width) : fields[i].width };
    }
    return 0;
}

static void line_print(const struct sstat *s, const struct row *r, const struct column *c, size_t n)
{
    struct str text;

    str_init(&text);
    for (size_t i = 0; i < n; i++) {
        int width = c[i].width < 0 ? -c[i].width : c[i].width;

        str_clear(&text);
        if (r)
            value_print(s, r, c[i].field, &text);
        else
            str_add(&text, c[i].field->name);
        if (s->parsable || s->parsable2)
            printf("%s%s", text.text, s->parsable || i + 1 < n ? "|" : "");
        else
            printf(c[i].width < 0 || c[i].field->what == IS_JOB ? "%-*.*s " : "%*.*s ", width, width, text.text);
    }
    putchar('\n');
    if (!r && !s->parsable && !s->parsable2) {
        for (size_t i = 0; i < n; i++) {
            for (int k = 0; k < abs(c[i].width); k++)
                putchar('-');
            putchar(' ');
        }
        putchar('\n');
    }
    str_fini(&text);
}

static void json_print(const struct sstat *s)
{
    static const struct { const char *name; enum measure of; } measures[] = { { "cpu_us", CPU }, { "rss_kib", RSS }, { "vm_kib", VM }, { "pages", PAGES }, { "disk_read_bytes", READ },
                                                                              { "disk_write_bytes", WRITE } };
    struct json_writer *w = json_begin("sstat", "steps");
    char name[32];

    for (size_t i = 0; i < s->count; i++) {
        const struct row *r = &s->rows[i];

        step_name_print(&r->name, name);
        json_open(w, NULL, '{');
        json_text(w, "id", name);
        json_text(w, "nodes", r->node_list);
        json_number(w, "tasks", r->tasks);
        json_text(w, "pids", r->pids.text);
        for (size_t m = 0; m < sizeof measures / sizeof *measures && r->tasks; m++) {
            enum measure of = measures[m].of;

            json_open(w, measures[m].name, '{');
            json_number(w, "average", (int64_t)(r->sum[of] / r->tasks));
            json_number(w, "total", (int64_t)r->sum[of]);
            json_number(w, "max", (int64_t)r->most[of].value);
            json_text(w, "max_node", r->most[of].node);
            json_number(w, "max_task", r->most[of].task);
            json_number(w, "min", (int64_t)r->least[of].value);
            json_close(w);
        }
        json_close(w);
    }
    json_end(w);
}

/* ---- figures ---- */

static void add(struct row *r, enum measure m, uint64_t now, uint64_t most, uint32_t task, const char *node)
{
    r->sum[m] += now;
    if (!r->most[m].node || most > r->most[m].value)
        r->most[m] = (struct peak){ most, task, node };
    if (!r->least[m].node || now < r->least[m].value)
        r->least[m] = (struct peak){ now, task, node };
}

static void take_figures(struct sstat *s, const Wire__StepFigures *f)
{
    const char *node = arena_copy(&s->arena, f->node);
    struct row *r = NULL;

    for (size_t i = 0; i < s->count && !r; i++)
        if (s->rows[i].name.job_id == f->job_id && s->rows[i].name.step_id == f->step_id)
            r = &s->rows[i];
    if (!r || r->answered >= r->expected)
        return;
    r->answered++;
    for (size_t i = 0; i < f->n_tasks; i++) {
        const Wire__TaskFigures *t = f->tasks[i];

        if (!t->pid)
            continue;                   /* has ended */
        r->tasks++;
        add(r, CPU, t->cpu_us, t->cpu_us, t->task, node);
        add(r, RSS, t->rss_kib, t->max_rss_kib, t->task, node);
        add(r, VM, t->vm_kib, t->vm_kib, t->task, node);
        add(r, PAGES, t->pages, t->pages, t->task, node);
        add(r, READ, t->read_bytes, t->read_bytes, t->task, node);
        add(r, WRITE, t->write_bytes, t->write_bytes, t->task, node);
    }
    for (size_t i = 0; i < f->n_pids; i++)
        str_addf(&r->pids, "%s%u", r->pids.len ? "," : "", f->pids[i]);
}

/* False: it is over with this connection. */
static bool link_take(struct sstat *s, struct link *l)
{
    struct spur_error err = { 0 };
    const uint8_t *body;
    struct frame f;
    int rc = link_read(l, 1u << 20, &err), got;

    while ((got = link_next(l, &f, &body, &err)) > 0)
        if (f.type == WIRE__MESSAGE_TYPE__STEP_FIGURES) {
            Wire__StepFigures *m = wire__step_figures__unpack(NULL, f.length, body);

            if (m)
                take_figures(s, m);
            wire__step_figures__free_unpacked(m, NULL);
            return false;
        }
    return rc >= 0 && got >= 0 && link_flush(l, &err) >= 0;
}

static void collect(struct sstat *s)
{
    int64_t until = clock_mono_ms() + ANSWER_MS;

    for (;;) {
        struct pollfd *fds = mem_array(s->link_count + 1, sizeof *fds);
        size_t n = s->link_count, missing = 0;
        struct link l;
        int64_t left = until - clock_mono_ms();

        for (size_t i = 0; i < s->count; i++)
            missing += s->rows[i].expected - s->rows[i].answered;
        if (!missing || left <= 0) {
            free(fds);
            return;
        }
        fds[0] = (struct pollfd){ .fd = step_io_fd(s->io), .events = POLLIN };
        for (size_t i = 0; i < n; i++)
            fds[i + 1] = (struct pollfd){ .fd = s->links[i]->fd, .events = (short)(POLLIN | (link_backlog(s->links[i]) ? POLLOUT : 0)) };
        poll(fds, n + 1, (int)left);
        for (size_t i = 0; i < n; i++)
            if (fds[i + 1].fd >= 0 && fds[i + 1].revents && !link_take(s, s->links[i]))
                link_close(s->links[i]);
        while (fds[0].revents && step_io_accept(s->io, &l)) {
            s->links = mem_grow(s->links, s->link_count + 1, sizeof *s->links);
            s->links[s->link_count] = mem_alloc(sizeof l);
            *s->links[s->link_count++] = l;
        }
        free(fds);
    }
}

static int row_add(struct sstat *s, const struct step_name *name, struct spur_error *err)
{
    Wire__DialReply *reply;
    struct row *r;
    int rc;

    s->rows = mem_grow(s->rows, s->count + 1, sizeof *s->rows);     /* first, as the answer may be quick */
    r = &s->rows[s->count];
    memset(r, 0, sizeof *r);
    r->name = *name;
    str_init(&r->pids);
    rc = dialled_ask(s->client, s->io, WIRE__DIAL_REQUEST__PURPOSE__SSTAT, name, &s->arena, &reply, err);
    if (rc < 0)
        return rc;
    r->node_list = reply->nodes;
    r->expected = (uint32_t)reply->n_tasks;
    if (reply->absent)
        fprintf(stderr, "sstat: error: %s cannot be reached now\n", reply->absent);
    s->count++;
    return 0;
}

struct found { uint32_t ids[4096]; size_t count; };

static void found_add(void *arg, const Wire__StepInfo *i)
{
    struct found *f = arg;

    if (f->count < sizeof f->ids / sizeof *f->ids)
        f->ids[f->count++] = i->step_id;
}

/* A job without a step: its first running step, or all of them; the batch script when there is none, and with all. */
static int job_add(struct sstat *s, struct step_name *name, struct spur_error *err)
{
    struct found *f = mem_alloc(sizeof *f);
    struct spur_error batch = { 0 };
    int rc = 0;

    if (name->has_step) {
        free(f);
        return row_add(s, name, err);
    }
    rc = steps_of_job(s->client, &s->arena, name->job_id, found_add, f, err);
    name->has_step = true;
    for (size_t i = 0; rc >= 0 && i < f->count && (i == 0 || s->all_steps); i++) {
        name->step_id = f->ids[i];
        rc = row_add(s, name, err);
    }
    if (rc >= 0 && (s->all_steps || !f->count)) {
        name->step_id = STEP_BATCH;
        if (row_add(s, name, &batch) < 0 && !f->count) {
            *err = batch;
            rc = err->code;
        }
    }
    free(f);
    return rc;
}

static int run(struct sstat *s)
{
    struct spur_error err = { 0 };
    struct column columns[64];
    size_t count = 0;
    int rc = 0;

    if (columns_read(s, columns, &count, &err) < 0 || client_open(NULL, &s->client, &err) < 0 || !(s->io = dialled_listen(s->client, &err))) {
        fprintf(stderr, "sstat: error: %s\n", err.text);
        return 1;
    }
    for (size_t i = 0; i < s->jobs.count; i++) {
        struct step_name name;

        err = (struct spur_error){ 0 };
        if (step_name_parse(s->client, &s->arena, s->jobs.words[i], &name, &err) < 0 || job_add(s, &name, &err) < 0) {
            fprintf(stderr, "sstat: error: couldn't get steps for job %s: %s\n", s->jobs.words[i], err.text);
            rc = 1;
        }
    }
    collect(s);
    if (s->json) {
        json_print(s);
    } else {
        if (!s->no_header)
            line_print(s, NULL, columns, count);
        for (size_t i = 0; i < s->count; i++)
            line_print(s, &s->rows[i], columns, count);
    }
    for (size_t i = 0; i < s->count; i++)
        if (s->rows[i].answered < s->rows[i].expected) {
            fprintf(stderr, "sstat: error: %u of the nodes of job %u have not answered\n", s->rows[i].expected - s->rows[i].answered, s->rows[i].name.job_id);
            rc = 1;
        }
    return rc;
}

int cmd_sstat(int argc, char **argv)
{
    struct sstat s = { 0 };
    int first, rc;

    arena_init(&s.arena, 0);
    if ((rc = options_environment(&table, &s)) == 0 && (rc = options_read(&table, argc, argv, &s, &first)) == 0) {
        for (int i = first; i < argc; i++)
            list_add(&s.jobs, argv[i]);
        if (!s.jobs.count) {
            fprintf(stderr, "sstat: error: You didn't give me any jobs to stat.\n");
            rc = 1;
        } else {
            rc = run(&s);
        }
    }
    for (size_t i = 0; i < s.link_count; i++) {
        link_close(s.links[i]);
        free(s.links[i]);
    }
    for (size_t i = 0; i < s.count; i++)
        str_fini(&s.rows[i].pids);
    free(s.links);
    free(s.rows);
    list_fini(&s.jobs);
    step_io_close(s.io);
    client_close(s.client);
    arena_fini(&s.arena);
    return rc == OPTIONS_DONE ? 0 : rc;
}
