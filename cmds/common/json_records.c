/* SPDX-License-Identifier: Apache-2.0 */
/* json_records.c - jobs, nodes and partitions as JSON. Keys and shapes are those of Slurm's data_parser, so that programs find what they look for;
 * what spur does not have stands there as Slurm writes it for a job or node without it. Called by squeue, sinfo and scontrol.
 */
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/hostlist.h"
#include "base/str.h"
#include "cmds/common/json.h"
#include "cmds/common/signals.h"
#include "state/state.h"

static void exit_code(struct json_writer *w, const char *key, int32_t status)
{
    const char *name = signal_name(status & 127);

    json_open(w, key, '{');
    json_open(w, "status", '[');
    json_text(w, NULL, status & 127 ? "SIGNALED" : status ? "ERROR" : "SUCCESS");
    json_close(w);
    json_optional(w, "return_code", true, false, status >> 8 & 255);
    json_open(w, "signal", '{');
    json_optional(w, "id", (status & 127) != 0, false, status & 127);
    json_text(w, "name", name ? name : "");
    json_close(w);
    json_close(w);
}

static void when(struct json_writer *w, const char *key, int64_t s) { json_optional(w, key, true, false, s > 0 ? s : 0); }
static void minutes(struct json_writer *w, const char *key, bool is_set, uint32_t m) { json_optional(w, key, is_set && m != MINUTES_NOT_SET, is_set && m == MINUTES_UNLIMITED, m); }
static void count(struct json_writer *w, const char *key, bool is_set, int64_t n) { json_optional(w, key, is_set, false, n); }

/* A list of words as an array; NULL: []. */
static void words(struct json_writer *w, const char *key, const char *list, const char *seps)
{
    char *copy = mem_copy(list ? list : ""), *cursor = copy, *word;

    json_open(w, key, '[');
    while ((word = word_next(&cursor, seps)))
        json_text(w, NULL, word);
    json_close(w);
    free(copy);
}

/* ---- jobs ------------------------------------------------------------------------------------------------------------------------- */

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

static void job_resources(struct json_writer *w, const Wire__JobInfo *j)
{
    json_open(w, "job_resources", '{');
    if (j->nodes && *j->nodes) {
        json_number(w, "cpus", j->num_cpus);
        json_open(w, "nodes", '{');
        json_number(w, "count", j->num_nodes);
        json_text(w, "list", j->nodes);
        json_open(w, "allocation", '[');
        for (size_t i = 0; i < j->n_allocs; i++) {
            json_open(w, NULL, '{');
            json_number(w, "index", (int64_t)i);
            json_text(w, "name", j->allocs[i]->name);
            json_open(w, "cpus", '{');
            json_number(w, "count", j->allocs[i]->cpus);
            json_close(w);
            json_open(w, "memory", '{');
            json_number(w, "allocated", (int64_t)j->allocs[i]->mem_mib);
            json_close(w);
            json_close(w);
        }
        json_close(w);
        json_close(w);
    }
    json_close(w);
}

static void job_asked(struct json_writer *w, const Wire__JobInfo *j, const Wire__JobSpec *s)
{
    count(w, "core_spec", s->has_core_spec, s->core_spec);
    count(w, "cores_per_socket", s->has_cores_per_socket, s->cores_per_socket);
    count(w, "cpus_per_task", s->has_cpus_per_task, s->cpus_per_task);
    json_text(w, "cpus_per_tres", "");
    count(w, "delay_boot", true, 0);
    when(w, "deadline", s->deadline_wall_s);
    json_text(w, "excluded_nodes", s->exc_nodes);
    json_text(w, "features", s->features);
    json_text(w, "licenses", s->licenses);
    words(w, "mail_type", s->mail_type, ",");
    json_text(w, "mail_user", s->mail_user);
    count(w, "memory_per_cpu", s->has_mem_per_cpu_mib, (int64_t)s->mem_per_cpu_mib);
    count(w, "memory_per_node", s->has_mem_per_node_mib, (int64_t)s->mem_per_node_mib);
    count(w, "minimum_cpus_per_node", true, s->min_cpus_node);
    count(w, "minimum_tmp_disk_per_node", true, (int64_t)s->tmp_mib);
    json_text(w, "network", s->network);
    json_number(w, "nice", s->nice);
    json_text(w, "prefer", s->prefer);
    json_bool(w, "reboot", s->reboot);
    json_bool(w, "requeue", !s->has_requeue || s->requeue);
    json_text(w, "required_nodes", s->req_nodes);
    count(w, "required_switches", s->has_switches, s->switches);
    json_number(w, "maximum_switch_wait_time", s->switch_wait_s);
    json_text(w, "resv_name", s->reservation);
    words(w, "shared", !s->exclusive ? NULL : word_eq(s->exclusive, "oversubscribe") ? "oversubscribe" : word_eq(s->exclusive, "exclusive") ? "none" : s->exclusive, ",");
    json_number(w, "sockets_per_board", 0);
    count(w, "sockets_per_node", s->has_sockets_per_node, s->sockets_per_node);
    count(w, "tasks", true, j->num_tasks);
    count(w, "tasks_per_board", true, 0);
    count(w, "tasks_per_core", s->has_ntasks_per_core, s->ntasks_per_core);
    count(w, "tasks_per_node", s->has_ntasks_per_node, s->ntasks_per_node);
    count(w, "tasks_per_socket", s->has_ntasks_per_socket, s->ntasks_per_socket);
    count(w, "thread_spec", false, 0);
    count(w, "threads_per_core", s->has_threads_per_core, s->threads_per_core);
    minutes(w, "time_minimum", s->has_time_min_min && s->time_min_min, s->time_min_min);
    json_text(w, "tres_bind", s->tres_bind);
    json_text(w, "tres_freq", s->tres_freq);
    json_text(w, "tres_per_job", s->tres_per_job);
    json_text(w, "tres_per_node", s->tres_per_node);
    json_text(w, "tres_per_socket", s->tres_per_socket);
    json_text(w, "tres_per_task", s->tres_per_task);
    json_text(w, "wckey", s->wckey);
}

void json_job(struct json_writer *w, const Wire__JobInfo *j, const char *cluster, bool only_state)
{
    static const Wire__JobSpec none = WIRE__JOB_SPEC__INIT;
    static const char *const absent[] = { "batch_features", "burst_buffer", "burst_buffer_state", "cluster_features", "container", "container_id", "cron", "extra", "federation_origin",
        "federation_siblings_active", "federation_siblings_viable", "mcs_label", "memory_per_tres", "selinux_context", "system_comment" };
    const Wire__JobSpec *s = j->spec ? j->spec : &none;
    char het_set[32];

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
    json_number(w, "association_id", 0);
    json_optional(w, "billable_tres", j->nodes && *j->nodes, false, j->num_cpus);
    json_bool(w, "batch_flag", s->is_batch);
    json_text(w, "batch_host", j->batch_host);
    json_text(w, "cluster", cluster);
    json_text(w, "command", s->command);
    json_text(w, "comment", s->comment);
    json_bool(w, "contiguous", s->contiguous);
    json_optional(w, "cpus", true, false, j->num_cpus);
    json_text(w, "current_working_directory", s->work_dir);
    json_text(w, "dependency", j->dependency);
    exit_code(w, "derived_exit_code", j->derived_status);
    when(w, "eligible_time", j->eligible_wall_s);
    when(w, "end_time", j->end_wall_s);
    exit_code(w, "exit_code", j->exit_status);
    json_text(w, "failed_node", j->failed_node);
    words(w, "flags", NULL, ",");
    words(w, "gres_detail", j->gres_alloc, ",");
    json_number(w, "group_id", j->gid);
    json_text(w, "group_name", j->group);
    json_optional(w, "het_job_id", true, false, j->het_job_id);
    snprintf(het_set, sizeof het_set, "%u-%u", j->het_job_id, j->het_job_id + j->het_count - 1);
    json_text(w, "het_job_id_set", j->het_job_id ? het_set : "");
    json_optional(w, "het_job_offset", j->het_job_id != 0, false, j->het_offset);
    json_bool(w, "hold", j->state == JOB_PENDING && j->reason && !strncmp(j->reason, "JobHeld", 7));
    job_resources(w, j);
    when(w, "last_sched_evaluation", j->last_sched_wall_s);
    json_optional(w, "max_cpus", true, false, 0);
    json_optional(w, "max_nodes", true, false, s->max_nodes);
    json_text(w, "name", s->name);
    json_optional(w, "node_count", true, false, j->num_nodes);
    json_text(w, "nodes", j->nodes);
    json_text(w, "partition", j->partition);
    when(w, "pre_sus_time", 0);
    when(w, "preempt_time", j->preempt_wall_s);
    json_optional(w, "priority", true, false, (int64_t)j->priority);
    words(w, "profile", "NOT_SET", ",");
    json_text(w, "qos", j->qos ? j->qos : s->qos);
    when(w, "resize_time", 0);
    json_number(w, "restart_cnt", j->restarts);
    json_text(w, "scheduled_nodes", j->sched_nodes);
    json_text(w, "standard_error", j->std_err ? j->std_err : j->std_out);
    json_text(w, "standard_input", j->std_in);
    json_text(w, "standard_output", j->std_out);
    when(w, "start_time", j->start_wall_s);
    when(w, "submit_time", j->submit_wall_s);
    when(w, "suspend_time", j->suspend_wall_s);
    minutes(w, "time_limit", j->has_time_limit_min, j->time_limit_min);
    json_text(w, "tres_alloc_str", j->alloc_tres);
    json_text(w, "tres_req_str", j->req_tres);
    job_asked(w, j, s);
    json_number(w, "user_id", j->uid);
    json_text(w, "user_name", j->user);
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        json_text(w, absent[i], "");
    json_close(w);
}

/* ---- nodes ------------------------------------------------------------------------------------------------------------------------ */

static void node_states(struct json_writer *w, const Wire__NodeInfo *n)
{
    struct str state;

    str_init(&state);
    node_state_print(n->state, n->state_flags, false, true, &state);
    words(w, "state", state.text, "+*");
    str_fini(&state);
}

void json_node(struct json_writer *w, const Wire__NodeInfo *n, const char *cluster)
{
    json_open(w, NULL, '{');
    json_text(w, "name", n->name);
    json_text(w, "hostname", n->hostname);
    json_text(w, "address", n->addr);
    json_number(w, "port", n->port);
    json_text(w, "architecture", n->arch);
    json_text(w, "operating_system", n->os);
    json_text(w, "version", n->version);
    json_text(w, "cluster_name", cluster);
    node_states(w, n);
    words(w, "next_state_after_reboot", "INVALID", ",");
    json_number(w, "boards", n->boards);
    json_number(w, "sockets", n->sockets);
    json_number(w, "cores", n->cores_per_socket);
    json_number(w, "threads", n->threads_per_core);
    json_number(w, "cpus", n->cpus);
    json_number(w, "effective_cpus", n->cpus);
    json_number(w, "alloc_cpus", n->cpus_alloc);
    json_number(w, "alloc_idle_cpus", (int64_t)n->cpus - n->cpus_alloc);
    json_number(w, "cpu_load", n->has_load_hundredths ? n->load_hundredths : 0);
    json_number(w, "specialized_cores", n->core_spec);
    json_text(w, "specialized_cpus", "");
    json_number(w, "specialized_memory", (int64_t)n->mem_spec_mib);
    json_number(w, "real_memory", (int64_t)n->mem_mib);
    json_number(w, "alloc_memory", (int64_t)n->mem_alloc_mib);
    json_optional(w, "free_mem", n->has_mem_free_mib, false, (int64_t)n->mem_free_mib);
    json_number(w, "temporary_disk", (int64_t)n->tmp_mib);
    json_number(w, "weight", n->weight);
    words(w, "features", n->features, ",");
    words(w, "active_features", n->features, ",");
    json_text(w, "gres", n->gres);
    json_text(w, "gres_used", n->gres_used);
    json_text(w, "gres_drained", "N/A");
    words(w, "partitions", n->partitions, ",");
    json_text(w, "owner", n->owner);
    json_text(w, "mcs_label", "");
    json_text(w, "reservation", n->reservation);
    json_text(w, "reason", n->reason);
    when(w, "reason_changed_at", n->reason_wall_s);
    json_text(w, "reason_set_by_user", n->reason_user);
    when(w, "resume_after", 0);
    when(w, "boot_time", n->boot_wall_s);
    when(w, "slurmd_start_time", n->agent_start_wall_s);
    when(w, "last_busy", n->last_busy_wall_s);
    json_text(w, "tres", n->cfg_tres);
    json_text(w, "tres_used", n->alloc_tres);
    json_text(w, "instance_id", n->instance_id);
    json_text(w, "instance_type", n->instance_type);
    json_text(w, "comment", n->comment);
    json_text(w, "extra", n->extra);
    json_close(w);
}

/* ---- partitions -------------------------------------------------------------------------------------------------------------------- */

/* A value of the record that scontrol shows; "" for what means all or nothing. */
static const char *shown(const Wire__PartitionInfo *p, const char *key)
{
    for (size_t i = 0; i < p->n_show; i++)
        if (!strcmp(p->show[i]->key, key)) {
            const char *v = p->show[i]->value;

            return !v || !strcmp(v, "ALL") || !strcmp(v, "N/A") || !strcmp(v, "(null)") ? "" : v;
        }
    return "";
}

void json_partition(struct json_writer *w, const char *key, const Wire__PartitionInfo *p, const char *cluster)
{
    json_open(w, key, '{');
    json_text(w, "name", p->name);
    json_text(w, "cluster", cluster);
    json_text(w, "alternate", shown(p, "Alternate"));
    json_text(w, "node_sets", shown(p, "NodeSets"));
    json_open(w, "nodes", '{');
    json_text(w, "allowed_allocation", shown(p, "AllocNodes"));
    json_text(w, "configured", p->nodes);
    json_number(w, "total", p->total_nodes);
    json_close(w);
    json_open(w, "accounts", '{');
    json_text(w, "allowed", shown(p, "AllowAccounts"));
    json_text(w, "deny", shown(p, "DenyAccounts"));
    json_close(w);
    json_open(w, "groups", '{');
    json_text(w, "allowed", shown(p, "AllowGroups"));
    json_close(w);
    json_open(w, "qos", '{');
    json_text(w, "allowed", shown(p, "AllowQos"));
    json_text(w, "deny", shown(p, "DenyQos"));
    json_text(w, "assigned", shown(p, "QoS"));
    json_close(w);
    json_open(w, "cpus", '{');
    json_number(w, "task_binding", 0);
    json_number(w, "total", p->total_cpus);
    json_close(w);
    json_open(w, "partition", '{');
    json_open(w, "state", '[');
    json_text(w, NULL, p->state);
    json_close(w);
    json_close(w);
    json_open(w, "maximums", '{');
    json_optional(w, "cpus_per_node", p->max_cpus_per_node != UINT32_MAX, p->max_cpus_per_node == UINT32_MAX, p->max_cpus_per_node);
    json_optional(w, "nodes", p->max_nodes != UINT32_MAX, p->max_nodes == UINT32_MAX, p->max_nodes);
    json_optional(w, "time", p->max_time_min != MINUTES_UNLIMITED, p->max_time_min == MINUTES_UNLIMITED, p->max_time_min);
    json_close(w);
    json_open(w, "minimums", '{');
    json_number(w, "nodes", p->min_nodes);
    json_close(w);
    json_open(w, "defaults", '{');
    json_optional(w, "time", p->default_time_min < MINUTES_NOT_SET, false, p->default_time_min);
    json_text(w, "job", shown(p, "JobDefaults"));
    json_close(w);
    json_open(w, "priority", '{');
    json_number(w, "job_factor", p->priority_job_factor);
    json_number(w, "tier", p->priority_tier);
    json_close(w);
    json_open(w, "tres", '{');
    json_text(w, "billing_weights", shown(p, "TRESBillingWeights"));
    json_text(w, "configured", p->tres);
    json_close(w);
    json_close(w);
}

/* ---- sinfo --------------------------------------------------------------------------------------------------------------------------- */

static void span(struct json_writer *w, const char *key, int64_t value)
{
    json_open(w, key, '{');
    json_number(w, "minimum", value);
    json_number(w, "maximum", value);
    json_close(w);
}

static void one(struct json_writer *w, const char *key, const char *value)
{
    json_open(w, key, '[');
    json_text(w, NULL, value);
    json_close(w);
}

/* A node of a partition, in the shape that the newest sinfo writes for a line. kind: 0 allocated, 1 idle, 2 other. */
void json_place(struct json_writer *w, const Wire__PartitionInfo *p, const Wire__NodeInfo *n, unsigned kind, const char *cluster)
{
    int64_t rest = (int64_t)n->cpus - n->cpus_alloc;
    bool is_other = kind == 2 || n->state_flags & NODE_FLAG_DRAIN;

    json_open(w, NULL, '{');
    json_number(w, "port", n->port);
    json_open(w, "node", '{');
    node_states(w, n);
    json_close(w);
    json_open(w, "nodes", '{');
    json_number(w, "allocated", kind == 0);
    json_number(w, "idle", kind == 1);
    json_number(w, "other", kind == 2);
    json_number(w, "total", 1);
    one(w, "hostnames", n->hostname);
    one(w, "addresses", n->addr);
    one(w, "nodes", n->name);
    json_close(w);
    json_open(w, "cpus", '{');
    json_number(w, "allocated", n->cpus_alloc);
    json_number(w, "idle", is_other ? 0 : rest);
    json_number(w, "other", is_other ? rest : 0);
    json_number(w, "total", n->cpus);
    json_number(w, "minimum", n->cpus);
    json_number(w, "maximum", n->cpus);
    span(w, "load", n->has_load_hundredths ? n->load_hundredths : 0);
    json_close(w);
    span(w, "disk", (int64_t)n->tmp_mib);
    json_open(w, "memory", '{');
    json_number(w, "minimum", (int64_t)n->mem_mib);
    json_number(w, "maximum", (int64_t)n->mem_mib);
    json_number(w, "allocated", (int64_t)n->mem_alloc_mib);
    json_open(w, "free", '{');
    json_optional(w, "minimum", n->has_mem_free_mib, false, (int64_t)n->mem_free_mib);
    json_optional(w, "maximum", n->has_mem_free_mib, false, (int64_t)n->mem_free_mib);
    json_close(w);
    json_close(w);
    json_open(w, "features", '{');
    json_text(w, "total", n->features);
    json_text(w, "active", n->features);
    json_close(w);
    json_open(w, "gres", '{');
    json_text(w, "total", n->gres);
    json_text(w, "used", n->gres_used);
    json_close(w);
    json_text(w, "cluster", cluster);
    json_text(w, "comment", n->comment);
    json_text(w, "extra", n->extra);
    json_open(w, "reason", '{');
    json_text(w, "description", n->reason);
    when(w, "time", n->reason_wall_s);
    json_text(w, "user", n->reason_user);
    json_close(w);
    json_text(w, "reservation", n->reservation);
    span(w, "sockets", n->sockets);
    span(w, "cores", n->cores_per_socket);
    span(w, "threads", n->threads_per_core);
    span(w, "weight", n->weight);
    json_partition(w, "partition", p, cluster);
    json_close(w);
}
