/* SPDX-License-Identifier: Apache-2.0 */
/* json.c - streams the JSON of the query commands; see json.h. Keys are those of Slurm's data_parser, so that programs find what they look for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/str.h"
#include "cmds/commands.h"
#include "cmds/common/json.h"
#include "state/state.h"

#define DEPTH_MAX 16
#define FLUSH_AT  65536

struct json_writer { FILE *out; struct str text; char closes[DEPTH_MAX]; int depth; bool is_fresh[DEPTH_MAX + 1]; const char *command; };

static void quote(struct json_writer *w, const char *text)
{
    const unsigned char *p = (const unsigned char *)(text ? text : ""), *from = p;

    str_add_char(&w->text, '"');
    while (*p) {
        uint32_t point;
        size_t n = utf8_char((const char *)p, &point);

        if (n && *p != '"' && *p != '\\' && *p >= 0x20 && *p != 0x7f) {
            p += n;
            continue;
        }
        str_add_n(&w->text, (const char *)from, (size_t)(p - from));
        if (*p == '"' || *p == '\\') {
            str_add_char(&w->text, '\\');
            str_add_char(&w->text, (char)*p);
        } else if (n) {
            str_addf(&w->text, "\\u%04x", *p);
        } else {
            str_add(&w->text, "\xef\xbf\xbd");       /* no UTF-8: the sign for a bad character */
        }
        from = ++p;
    }
    str_add_n(&w->text, (const char *)from, (size_t)(p - from));
    str_add_char(&w->text, '"');
}

static void line_begin(struct json_writer *w)
{
    if (w->text.len > FLUSH_AT) {
        fwrite(w->text.text, 1, w->text.len, w->out);
        str_clear(&w->text);
    }
    str_add_char(&w->text, '\n');
    for (int i = 0; i < w->depth; i++)
        str_add(&w->text, "  ");
}

static void key_put(struct json_writer *w, const char *key)
{
    if (!w->is_fresh[w->depth])
        str_add_char(&w->text, ',');
    w->is_fresh[w->depth] = false;
    line_begin(w);
    if (key) {
        quote(w, key);
        str_add(&w->text, ": ");
    }
}

void json_open(struct json_writer *w, const char *key, char bracket)
{
    key_put(w, key);
    str_add_char(&w->text, bracket);
    if (w->depth + 1 >= DEPTH_MAX)
        abort();        /* our own nesting, never the data's */
    w->closes[w->depth++] = bracket == '{' ? '}' : ']';
    w->is_fresh[w->depth] = true;
}

void json_close(struct json_writer *w)
{
    bool is_empty = w->is_fresh[w->depth];

    w->depth--;
    if (!is_empty)
        line_begin(w);
    str_add_char(&w->text, w->closes[w->depth]);
}

static void integer(struct json_writer *w, int64_t value)
{
    char digits[24], *p = digits + sizeof digits;
    uint64_t n = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;

    do
        *--p = (char)('0' + n % 10);
    while (n /= 10);
    if (value < 0)
        *--p = '-';
    str_add_n(&w->text, p, (size_t)(digits + sizeof digits - p));
}

void json_text(struct json_writer *w, const char *key, const char *value) { key_put(w, key); quote(w, value); }
void json_number(struct json_writer *w, const char *key, int64_t value) { key_put(w, key); integer(w, value); }
void json_bool(struct json_writer *w, const char *key, bool value) { key_put(w, key); str_add(&w->text, value ? "true" : "false"); }

void json_optional(struct json_writer *w, const char *key, bool is_set, bool is_infinite, int64_t value)
{
    is_set = is_set && !is_infinite;
    key_put(w, key);
    str_add(&w->text, is_set ? "{ \"set\": true, \"infinite\": false, \"number\": " : is_infinite ? "{ \"set\": false, \"infinite\": true, \"number\": "
                                                                                        : "{ \"set\": false, \"infinite\": false, \"number\": ");
    integer(w, is_set ? value : 0);
    str_add(&w->text, " }");
}

struct json_writer *json_begin_on(FILE *out, const char *command, const char *array)
{
    struct json_writer *w = mem_alloc(sizeof *w);

    w->out = out;
    w->command = command;
    str_init(&w->text);
    str_add_char(&w->text, '{');
    w->closes[w->depth++] = '}';
    w->is_fresh[w->depth] = true;
    json_open(w, array, '[');
    return w;
}

struct json_writer *json_begin(const char *command, const char *array) { return json_begin_on(stdout, command, array); }

void json_end(struct json_writer *w)
{
    json_close(w);
    json_open(w, "meta", '{');
    json_open(w, "plugin", '{');
    json_text(w, "type", "");
    json_text(w, "name", "");
    json_text(w, "data_parser", "data_parser/v0.0.43");
    json_close(w);
    json_open(w, "slurm", '{');
    json_open(w, "version", '{');
    json_text(w, "major", CONFIG_SLURM_MAJOR);
    json_text(w, "micro", "0");
    json_text(w, "minor", CONFIG_SLURM_MINOR);
    json_close(w);
    json_text(w, "release", CONFIG_SLURM_VERSION);
    json_close(w);
    json_open(w, "command", '[');
    json_text(w, NULL, w->command);
    json_close(w);
    json_close(w);
    json_open(w, "errors", '[');
    json_close(w);
    json_open(w, "warnings", '[');
    json_close(w);
    json_close(w);
    str_add_char(&w->text, '\n');
    fwrite(w->text.text, 1, w->text.len, w->out);
    str_fini(&w->text);
    free(w);
}

static void exit_code(struct json_writer *w, const char *key, int32_t status)
{
    json_open(w, key, '{');
    json_open(w, "status", '[');
    json_text(w, NULL, status & 127 ? "SIGNALED" : status ? "ERROR" : "SUCCESS");
    json_close(w);
    json_optional(w, "return_code", true, false, status >> 8 & 255);
    json_open(w, "signal", '{');
    json_optional(w, "id", (status & 127) != 0, false, status & 127);
    json_text(w, "name", "");
    json_close(w);
    json_close(w);
}

static void when(struct json_writer *w, const char *key, int64_t s) { json_optional(w, key, true, false, s > 0 ? s : 0); }

/* State as a list: base state, then the flags by name. */
static void job_states(struct json_writer *w, const Wire__JobInfo *j)
{
    static const struct { uint32_t flag; const char *name; } flags[] = { { JOB_FLAG_COMPLETING, "COMPLETING" }, { JOB_FLAG_CONFIGURING, "CONFIGURING" },
        { JOB_FLAG_REQUEUE, "REQUEUED" }, { JOB_FLAG_REQUEUE_HOLD, "REQUEUE_HOLD" }, { JOB_FLAG_SPECIAL_EXIT, "SPECIAL_EXIT" }, { JOB_FLAG_STOPPED, "STOPPED" } };

    json_open(w, "job_state", '[');
    json_text(w, NULL, job_state_name(j->state, 0, false));
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (j->state_flags & flags[i].flag)
            json_text(w, NULL, flags[i].name);
    json_close(w);
}

void json_job(struct json_writer *w, const Wire__JobInfo *j, bool only_state)
{
    static const Wire__JobSpec none = WIRE__JOB_SPEC__INIT;
    const Wire__JobSpec *s = j->spec ? j->spec : &none;

    json_open(w, NULL, '{');
    json_number(w, "job_id", j->job_id);
    json_optional(w, "array_job_id", true, false, j->array_job_id);
    json_optional(w, "array_task_id", j->array_job_id && !j->array_tasks, false, j->array_task_id);
    json_text(w, "array_task_string", j->array_tasks);
    job_states(w, j);
    json_text(w, "state_reason", j->reason ? j->reason : "None");
    if (only_state) {
        json_close(w);
        return;
    }
    json_text(w, "state_description", j->reason_text);
    json_text(w, "account", s->account);
    when(w, "accrue_time", j->accrue_wall_s);
    json_text(w, "admin_comment", s->admin_comment);
    json_text(w, "allocating_node", s->alloc_node);
    json_optional(w, "array_max_tasks", true, false, j->array_throttle);
    json_bool(w, "batch_flag", s->is_batch);
    json_text(w, "batch_host", j->batch_host);
    json_text(w, "cluster", getenv("SLURM_CLUSTER_NAME"));
    json_text(w, "command", s->command);
    json_text(w, "comment", s->comment);
    json_bool(w, "contiguous", s->contiguous);
    json_optional(w, "cpus", true, false, j->num_cpus);
    json_optional(w, "cpus_per_task", s->has_cpus_per_task, false, s->cpus_per_task);
    json_text(w, "current_working_directory", s->work_dir);
    when(w, "deadline", s->deadline_wall_s);
    json_text(w, "dependency", j->dependency);
    exit_code(w, "derived_exit_code", j->derived_status);
    when(w, "eligible_time", j->eligible_wall_s);
    when(w, "end_time", j->end_wall_s);
    json_text(w, "excluded_nodes", s->exc_nodes);
    exit_code(w, "exit_code", j->exit_status);
    json_text(w, "features", s->features);
    json_text(w, "gres_detail_alloc", j->gres_alloc);
    json_number(w, "group_id", j->gid);
    json_text(w, "group_name", j->group);
    json_bool(w, "hold", j->state == JOB_PENDING && j->reason && !strncmp(j->reason, "JobHeld", 7));
    when(w, "last_sched_evaluation", j->last_sched_wall_s);
    json_text(w, "licenses", s->licenses);
    json_optional(w, "max_nodes", true, false, s->max_nodes);
    json_optional(w, "memory_per_cpu", s->has_mem_per_cpu_mib, false, (int64_t)s->mem_per_cpu_mib);
    json_optional(w, "memory_per_node", s->has_mem_per_node_mib, false, (int64_t)s->mem_per_node_mib);
    json_optional(w, "minimum_cpus_per_node", true, false, s->min_cpus_node);
    json_text(w, "name", s->name);
    json_number(w, "nice", s->nice);
    json_optional(w, "node_count", true, false, j->num_nodes);
    json_text(w, "nodes", j->nodes);
    json_text(w, "partition", j->partition);
    json_optional(w, "priority", true, false, (int64_t)j->priority);
    json_text(w, "qos", j->qos ? j->qos : s->qos);
    json_bool(w, "requeue", !s->has_requeue || s->requeue);
    json_text(w, "required_nodes", s->req_nodes);
    json_number(w, "restart_cnt", j->restarts);
    json_text(w, "scheduled_nodes", j->sched_nodes);
    json_text(w, "standard_error", j->std_err ? j->std_err : j->std_out);
    json_text(w, "standard_input", j->std_in);
    json_text(w, "standard_output", j->std_out);
    when(w, "start_time", j->start_wall_s);
    when(w, "submit_time", j->submit_wall_s);
    when(w, "suspend_time", j->suspend_wall_s);
    json_optional(w, "tasks", true, false, j->num_tasks);
    json_optional(w, "tasks_per_node", s->has_ntasks_per_node, false, s->ntasks_per_node);
    json_optional(w, "threads_per_core", s->has_threads_per_core, false, s->threads_per_core);
    json_optional(w, "time_limit", j->has_time_limit_min && j->time_limit_min != MINUTES_NOT_SET, j->time_limit_min == MINUTES_UNLIMITED, j->time_limit_min);
    json_text(w, "tres_req_str", j->req_tres);
    json_text(w, "tres_alloc_str", j->alloc_tres);
    json_text(w, "tres_bind", s->tres_bind);
    json_text(w, "tres_per_job", s->tres_per_job);
    json_text(w, "tres_per_node", s->tres_per_node);
    json_text(w, "tres_per_socket", s->tres_per_socket);
    json_text(w, "tres_per_task", s->tres_per_task);
    json_number(w, "user_id", j->uid);
    json_text(w, "user_name", j->user);
    json_text(w, "wckey", s->wckey);
    json_close(w);
}

void json_node(struct json_writer *w, const Wire__NodeInfo *n)
{
    struct str state;
    char *cursor, *word;

    str_init(&state);
    node_state_print(n->state, n->state_flags, false, true, &state);
    json_open(w, NULL, '{');
    json_text(w, "name", n->name);
    json_text(w, "hostname", n->hostname);
    json_text(w, "address", n->addr);
    json_number(w, "port", n->port);
    json_text(w, "architecture", n->arch);
    json_text(w, "operating_system", n->os);
    json_text(w, "version", n->version);
    json_open(w, "state", '[');
    for (cursor = state.text; (word = word_next(&cursor, "+*")); )
        json_text(w, NULL, word);
    json_close(w);
    json_number(w, "boards", n->boards);
    json_number(w, "sockets", n->sockets);
    json_number(w, "cores", n->cores_per_socket);
    json_number(w, "threads", n->threads_per_core);
    json_number(w, "cpus", n->cpus);
    json_number(w, "effective_cpus", n->has_cpus_usable ? n->cpus_usable : n->cpus);
    json_number(w, "alloc_cpus", n->cpus_alloc);
    json_number(w, "alloc_idle_cpus", (int64_t)n->cpus - n->cpus_alloc);
    json_optional(w, "cpu_load", n->has_load_hundredths, false, n->load_hundredths);
    json_number(w, "real_memory", (int64_t)n->mem_mib);
    json_number(w, "alloc_memory", (int64_t)n->mem_alloc_mib);
    json_optional(w, "free_mem", n->has_mem_free_mib, false, (int64_t)n->mem_free_mib);
    json_number(w, "temporary_disk", (int64_t)n->tmp_mib);
    json_number(w, "weight", n->weight);
    json_open(w, "features", '[');
    { char *copy = mem_copy(n->features ? n->features : ""); for (cursor = copy; (word = word_next(&cursor, ",")); ) json_text(w, NULL, word); free(copy); }
    json_close(w);
    json_text(w, "gres", n->gres);
    json_text(w, "gres_used", n->gres_used);
    json_open(w, "partitions", '[');
    { char *copy = mem_copy(n->partitions ? n->partitions : ""); for (cursor = copy; (word = word_next(&cursor, ",")); ) json_text(w, NULL, word); free(copy); }
    json_close(w);
    json_text(w, "reason", n->reason);
    when(w, "reason_changed_at", n->reason_wall_s);
    json_text(w, "reason_set_by_user", n->reason_user);
    when(w, "boot_time", n->boot_wall_s);
    when(w, "slurmd_start_time", n->agent_start_wall_s);
    when(w, "last_busy", n->last_busy_wall_s);
    json_text(w, "tres", n->cfg_tres);
    json_text(w, "tres_used", n->alloc_tres);
    json_text(w, "comment", n->comment);
    json_text(w, "extra", n->extra);
    json_close(w);
    str_fini(&state);
}

void json_partition(struct json_writer *w, const Wire__PartitionInfo *p)
{
    json_open(w, NULL, '{');
    json_text(w, "name", p->name);
    json_open(w, "nodes", '{');
    json_text(w, "configured", p->nodes);
    json_number(w, "total", p->total_nodes);
    json_close(w);
    json_open(w, "cpus", '{');
    json_number(w, "total", p->total_cpus);
    json_close(w);
    json_open(w, "partition", '{');
    json_open(w, "state", '[');
    json_text(w, NULL, p->state);
    json_close(w);
    json_close(w);
    json_open(w, "maximums", '{');
    json_optional(w, "nodes", p->max_nodes != UINT32_MAX, p->max_nodes == UINT32_MAX, p->max_nodes);
    json_optional(w, "time", p->max_time_min != MINUTES_UNLIMITED, p->max_time_min == MINUTES_UNLIMITED, p->max_time_min);
    json_close(w);
    json_open(w, "minimums", '{');
    json_number(w, "nodes", p->min_nodes);
    json_close(w);
    json_open(w, "defaults", '{');
    json_optional(w, "time", p->default_time_min < MINUTES_NOT_SET, false, p->default_time_min);
    json_close(w);
    json_open(w, "priority", '{');
    json_number(w, "job_factor", p->priority_job_factor);
    json_number(w, "tier", p->priority_tier);
    json_close(w);
    json_open(w, "tres", '{');
    json_text(w, "configured", p->tres);
    json_close(w);
    json_close(w);
}
