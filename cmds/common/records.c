/* SPDX-License-Identifier: Apache-2.0 */
/* records.c - what `scontrol show job|node|partition|step` prints, pair by pair, in Slurm's order.
 *
 * Order, spelling and words for nothing as measured on Slurm 22.05; where newer generations differ (ReqTRES and AllocTRES instead of TRES) the
 * newest counts, see framework/doc/slurm-versions.md. Called by scontrol only.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/hostlist.h"
#include "cmds/common/jobfields.h"
#include "cmds/common/records.h"
#include "state/state.h"

#define SLURMD_PORT 6818        /* the usual one is not shown */

void record_begin(struct record *r)
{
    str_init(&r->text);
    r->at_start = true;
}

void record_pair(struct record *r, const char *key, const char *format, ...)
{
    va_list args;
    size_t value;

    if (!r->at_start)
        str_add_char(&r->text, ' ');
    r->at_start = false;
    str_addf(&r->text, "%s=", key);
    value = r->text.len;
    va_start(args, format);
    str_vaddf(&r->text, format, args);
    va_end(args);
    str_printable(&r->text, value);
}

void record_line(struct record *r)
{
    if (r->one_line)
        return;
    str_add(&r->text, "\n   ");
    r->at_start = true;
}

void record_time(struct record *r, const char *key, int64_t wall_s, const char *none)
{
    struct str t;

    str_init(&t);
    if (wall_s > 0)
        moment_print(wall_s, r->time_format, r->now_s, &t);
    else
        str_add(&t, none);
    record_pair(r, key, "%s", t.text);
    str_fini(&t);
}

void record_end(struct record *r, bool blank_line)
{
    fputs(r->text.text, stdout);
    fputs(r->one_line || !blank_line ? "\n" : "\n\n", stdout);
    str_fini(&r->text);
}

static const char *or_null(const char *text) { return text && *text ? text : "(null)"; }

static void record_minutes(struct record *r, const char *key, bool is_set, uint32_t minutes, const char *none)
{
    struct str t;

    str_init(&t);
    if (is_set)
        minutes_print(minutes, &t);
    else
        str_add(&t, none);
    record_pair(r, key, "%s", t.text);
    str_fini(&t);
}

static void record_size(struct record *r, const char *key, uint64_t mib)
{
    struct str t;

    str_init(&t);
    mebibytes_print(mib, &t);
    record_pair(r, key, "%s", t.text);
    str_fini(&t);
}

static void star(char out[16], bool is_set, uint32_t n)
{
    if (is_set && n)
        snprintf(out, 16, "%u", n);
    else
        snprintf(out, 16, "*");
}

static const char *sharing(const Wire__JobSpec *s)
{
    return !s->exclusive ? "OK" : word_eq(s->exclusive, "oversubscribe") ? "YES" : word_eq(s->exclusive, "user") ? "USER" : word_eq(s->exclusive, "mcs") ? "MCS" : "NO";
}

/* A sentence is one word here, as Slurm prints it: scripts cut this output at its spaces. */
static void job_reason(struct record *r, const Wire__JobInfo *j)
{
    size_t from = r->text.len + 1;

    record_pair(r, "Reason", "%s", j->reason_text && *j->reason_text ? j->reason_text : j->reason ? j->reason : "None");
    for (size_t i = from; i < r->text.len; i++)
        if (r->text.text[i] == ' ')
            r->text.text[i] = '_';
}

static void job_head(struct record *r, const Wire__JobInfo *j, const Wire__JobSpec *s)
{
    record_pair(r, "JobId", "%u", j->job_id);
    if (j->het_job_id) {
        record_pair(r, "HetJobId", "%u", j->het_job_id);
        record_pair(r, "HetJobOffset", "%u", j->het_offset);
    }
    if (j->array_job_id || (j->array_tasks && *j->array_tasks)) {
        record_pair(r, "ArrayJobId", "%u", j->array_job_id ? j->array_job_id : j->job_id);
        if (j->array_tasks && *j->array_tasks) {
            struct str tasks;

            str_init(&tasks);
            job_tasks_print(j->array_tasks, &tasks);
            record_pair(r, "ArrayTaskId", "%s", tasks.text);
            str_fini(&tasks);
            if (j->array_throttle)
                record_pair(r, "ArrayTaskThrottle", "%u", j->array_throttle);
        } else {
            record_pair(r, "ArrayTaskId", "%u", j->array_task_id);
        }
    }
    record_pair(r, "JobName", "%s", s->name ? s->name : "");
    record_line(r);
    if (j->het_job_id) {
        record_pair(r, "HetJobIdSet", "%u-%u", j->het_job_id, j->het_job_id + j->het_count - 1);
        record_line(r);
    }
    record_pair(r, "UserId", "%s(%u)", j->user && *j->user ? j->user : "", j->uid);
    record_pair(r, "GroupId", "%s(%u)", j->group && *j->group ? j->group : "", j->gid);
    record_pair(r, "MCS_label", "N/A");
    record_line(r);
    record_pair(r, "Priority", "%" PRIu64, j->priority);
    record_pair(r, "Nice", "%d", s->nice);
    record_pair(r, "Account", "%s", or_null(s->account));
    record_pair(r, "QOS", "%s", or_null(j->qos ? j->qos : s->qos));
    if (s->wckey && *s->wckey)
        record_pair(r, "WCKey", "%s", s->wckey);
    record_line(r);
    record_pair(r, "JobState", "%s", job_state_name(j->state, j->state_flags, false));
    job_reason(r, j);
    if (j->failed_node && *j->failed_node)
        record_pair(r, "FailedNode", "%s", j->failed_node);
    record_pair(r, "Dependency", "%s", or_null(j->dependency));
    record_line(r);
    record_pair(r, "Requeue", "%d", !s->has_requeue || s->requeue);
    record_pair(r, "Restarts", "%u", j->restarts);
    record_pair(r, "BatchFlag", "%d", s->is_batch ? 1 : 0);
    record_pair(r, "Reboot", "%d", s->reboot ? 1 : 0);
    record_pair(r, "ExitCode", "%d:%d", j->exit_status >> 8 & 255, j->exit_status & 127);
}

static void job_times(struct record *r, const Wire__JobInfo *j, const Wire__JobSpec *s)
{
    struct str run;

    str_init(&run);
    seconds_print_long(j->run_s > 0 ? j->run_s : 0, &run);
    record_line(r);
    record_pair(r, "RunTime", "%s", run.text);
    record_minutes(r, "TimeLimit", true, j->has_time_limit_min ? j->time_limit_min : MINUTES_NOT_SET, "");
    record_minutes(r, "TimeMin", s->has_time_min_min && s->time_min_min, s->time_min_min, "N/A");
    record_line(r);
    record_time(r, "SubmitTime", j->submit_wall_s, "Unknown");
    record_time(r, "EligibleTime", j->eligible_wall_s, "Unknown");
    record_line(r);
    record_time(r, "AccrueTime", j->accrue_wall_s, "Unknown");
    record_line(r);
    record_time(r, "StartTime", j->start_wall_s, "Unknown");
    record_time(r, "EndTime", j->end_wall_s, "Unknown");
    record_time(r, "Deadline", s->deadline_wall_s, "N/A");
    record_line(r);
    record_time(r, "SuspendTime", j->suspend_wall_s, "None");
    record_pair(r, "SecsPreSuspend", "%" PRId64, j->suspend_wall_s && j->run_s > 0 ? j->run_s : 0);
    record_time(r, "LastSchedEval", j->last_sched_wall_s, "Unknown");
    record_pair(r, "Scheduler", "%s", j->sched_nodes && *j->sched_nodes ? "Backfill" : "Main");
    str_fini(&run);
}

/* One node's share, without its name: nodes of equal shares stand on one line. */
static void share_print(const Wire__NodeAlloc *a, struct str *out)
{
    struct bitmap cores = { a->n_cores * 64, a->cores }, cpus;
    size_t threads = a->threads_per_core ? a->threads_per_core : 1;

    bitmap_init(&cpus, cores.bits * threads);
    for (size_t c = bitmap_first(&cores); c < cores.bits; c = bitmap_next(&cores, c))
        bitmap_set_range(&cpus, c * threads, (c + 1) * threads - 1);
    str_add(out, " CPU_IDs=");
    bitmap_print(&cpus, out);
    bitmap_fini(&cpus);
    str_addf(out, " Mem=%" PRIu64 " GRES=", a->mem_mib);
    for (size_t k = 0; k < a->n_gres; k++) {
        const Wire__GresAlloc *g = a->gres[k];
        uint64_t mask = g->mask;
        struct bitmap devices = { 64, &mask };

        str_addf(out, "%s%s%s%s:%" PRIu64, k ? "," : "", g->name, g->type && *g->type ? ":" : "", g->type ? g->type : "", g->count);
        if (mask) {
            str_add(out, "(IDX:");
            bitmap_print(&devices, out);
            str_add_char(out, ')');
        }
    }
}

/* With -d: what it holds on each node. */
static void job_allocs(struct record *r, const Wire__JobInfo *j)
{
    struct str share, next;

    record_line(r);
    record_pair(r, "JOB_GRES", "%s", or_null(j->gres_alloc));
    str_init(&share);
    str_init(&next);
    for (size_t i = 0, end; i < j->n_allocs; i = end) {
        struct hostlist *names = hostlist_create();

        str_clear(&share);
        share_print(j->allocs[i], &share);
        for (end = i; end < j->n_allocs; end++) {
            str_clear(&next);
            share_print(j->allocs[end], &next);
            if (strcmp(share.text, next.text) != 0)
                break;
            hostlist_add(names, j->allocs[end]->name);
        }
        str_add(&r->text, r->one_line ? " Nodes=" : "\n     Nodes=");
        hostlist_print(names, &r->text);
        str_add(&r->text, share.text);
        hostlist_destroy(names);
    }
    str_fini(&share);
    str_fini(&next);
}

static void job_place(struct record *r, const Wire__JobInfo *j, const Wire__JobSpec *s, bool details)
{
    char sockets[16], cores[16], threads[16], spec[16];
    uint32_t per = s->has_cpus_per_task && s->cpus_per_task ? s->cpus_per_task : 1, least = per;

    star(sockets, s->has_sockets_per_node, s->sockets_per_node);
    star(cores, s->has_cores_per_socket, s->cores_per_socket);
    star(threads, s->has_threads_per_core, s->threads_per_core);
    star(spec, s->has_core_spec, s->core_spec);
    record_line(r);
    record_pair(r, "Partition", "%s", j->partition ? j->partition : "");
    record_pair(r, "AllocNode:Sid", "%s:%u", s->alloc_node ? s->alloc_node : "", s->alloc_sid);
    record_line(r);
    record_pair(r, "ReqNodeList", "%s", or_null(s->req_nodes));
    record_pair(r, "ExcNodeList", "%s", or_null(s->exc_nodes));
    record_line(r);
    record_pair(r, "NodeList", "%s", j->nodes ? j->nodes : "");
    if (j->sched_nodes && *j->sched_nodes)
        record_pair(r, "SchedNodeList", "%s", j->sched_nodes);
    if (s->spares) {            /* ours; shown only where it was asked for */
        record_pair(r, "Spares", "%u", s->spares);
        record_pair(r, "SpareNodeList", "%s", j->spare_nodes ? j->spare_nodes : "");
    }
    if (j->batch_host && *j->batch_host) {
        record_line(r);
        record_pair(r, "BatchHost", "%s", j->batch_host);
    }
    record_line(r);
    if (j->state == JOB_PENDING && j->num_nodes_max && j->num_nodes_max >= j->num_nodes && s->has_max_nodes)
        record_pair(r, "NumNodes", "%u-%u", j->num_nodes, j->num_nodes_max);
    else
        record_pair(r, "NumNodes", "%u", j->num_nodes);
    record_pair(r, "NumCPUs", "%u", j->num_cpus);
    record_pair(r, "NumTasks", "%u", j->num_tasks);
    record_pair(r, "CPUs/Task", "%u", per);
    record_pair(r, "ReqB:S:C:T", "0:%s:%s:%s", s->has_sockets_per_node && s->sockets_per_node ? sockets : "0", cores, threads);
    record_line(r);
    record_pair(r, "ReqTRES", "%s", or_null(j->req_tres));
    record_line(r);
    record_pair(r, "AllocTRES", "%s", or_null(j->alloc_tres));
    record_line(r);
    record_pair(r, "Socks/Node", "%s", sockets);
    record_pair(r, "NtasksPerN:B:S:C", "%u:0:%s:%s", s->ntasks_per_node, s->ntasks_per_socket ? (snprintf(sockets, sizeof sockets, "%u", s->ntasks_per_socket), sockets) : "*",
                s->ntasks_per_core ? (snprintf(cores, sizeof cores, "%u", s->ntasks_per_core), cores) : "*");
    record_pair(r, "CoreSpec", "%s", spec);
    if (details)
        job_allocs(r, j);
    record_line(r);
    if (s->ntasks_per_node && s->ntasks_per_node * per > least)
        least = s->ntasks_per_node * per;
    if (s->min_cpus_node > least)
        least = s->min_cpus_node;
    record_pair(r, "MinCPUsNode", "%u", least);
    if (s->has_mem_per_cpu_mib && s->mem_per_cpu_mib)
        record_size(r, "MinMemoryCPU", s->mem_per_cpu_mib);
    else
        record_size(r, "MinMemoryNode", s->mem_per_node_mib);
    record_size(r, "MinTmpDiskNode", s->tmp_mib);
}

void record_job(struct record *r, const Wire__JobInfo *j, bool details)
{
    static const Wire__JobSpec none = WIRE__JOB_SPEC__INIT;
    const Wire__JobSpec *s = j->spec ? j->spec : &none;
    struct { const char *key, *value; } rows[] = { { "TresPerJob", s->tres_per_job }, { "TresPerNode", s->tres_per_node }, { "TresPerSocket", s->tres_per_socket },
        { "TresPerTask", s->tres_per_task }, { "TresBind", s->tres_bind }, { "TresFreq", s->tres_freq } };

    job_head(r, j, s);
    if (details) {
        record_line(r);
        record_pair(r, "DerivedExitCode", "%d:%d", j->derived_status >> 8 & 255, j->derived_status & 127);
    }
    job_times(r, j, s);
    job_place(r, j, s, details);
    record_line(r);
    record_pair(r, "Features", "%s", or_null(s->features));
    record_pair(r, "DelayBoot", "00:00:00");
    if (s->reservation && *s->reservation) {
        record_line(r);
        record_pair(r, "Reservation", "%s", s->reservation);
    }
    record_line(r);
    record_pair(r, "OverSubscribe", "%s", sharing(s));
    record_pair(r, "Contiguous", "%d", s->contiguous ? 1 : 0);
    record_pair(r, "Licenses", "%s", or_null(s->licenses));
    record_pair(r, "Network", "%s", or_null(s->network));
    if (s->is_batch || s->command) {
        record_line(r);
        record_pair(r, "Command", "%s", or_null(s->command));
        for (size_t i = 0; i < s->n_argv; i++)
            str_addf(&r->text, " %s", s->argv[i]);
    }
    if (details && s->submit_line) {
        record_line(r);
        record_pair(r, "SubmitLine", "%s", s->submit_line);
    }
    record_line(r);
    record_pair(r, "WorkDir", "%s", s->work_dir ? s->work_dir : "");
    if (s->admin_comment && *s->admin_comment) {
        record_line(r);
        record_pair(r, "AdminComment", "%s ", s->admin_comment);
    }
    if (s->comment && *s->comment) {
        record_line(r);
        record_pair(r, "Comment", "%s ", s->comment);
    }
    if (s->is_batch) {
        record_line(r);
        record_pair(r, "StdErr", "%s", j->std_err && *j->std_err ? j->std_err : j->std_out ? j->std_out : "");
        record_line(r);
        record_pair(r, "StdIn", "%s", j->std_in && *j->std_in ? j->std_in : "/dev/null");
        record_line(r);
        record_pair(r, "StdOut", "%s", j->std_out ? j->std_out : "");
    }
    if (s->has_switches && s->switches) {
        record_line(r);
        record_pair(r, "Switches", "%u@%u", s->switches, s->switch_wait_s);
    }
    if (s->cpus_per_gpu) {
        record_line(r);
        record_pair(r, "CpusPerTres", "gres:gpu:%u", s->cpus_per_gpu);
    }
    if (s->mem_per_gpu_mib) {
        record_line(r);
        record_pair(r, "MemPerTres", "gres:gpu:%" PRIu64, s->mem_per_gpu_mib);
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].value && *rows[i].value) {
            record_line(r);
            record_pair(r, rows[i].key, "%s", rows[i].value);
        }
    if (s->mail_type && *s->mail_type) {
        record_line(r);
        record_pair(r, "MailUser", "%s", s->mail_user ? s->mail_user : j->user ? j->user : "");
        record_pair(r, "MailType", "%s", s->mail_type);
    }
    if (s->has_kill_on_invalid_dep || s->spread) {
        record_line(r);
        if (s->has_kill_on_invalid_dep)
            record_pair(r, "KillOInInvalidDependent", "%s", s->kill_on_invalid_dep ? "Yes" : "No");     /* Slurm's spelling */
        if (s->spread)
            record_pair(r, "SpreadJob", "Yes");
    }
    if (details && j->why_there && *j->why_there) {
        record_line(r);
        record_pair(r, "Placement", "%s", j->why_there);
    }
    if (details && (j->has_share_permille || (j->leaves && *j->leaves))) {
        record_line(r);
        if (j->has_share_permille)
            record_pair(r, "GpuLinkShare", "%u.%u%%", j->share_permille / 10, j->share_permille % 10);
        if (j->leaves && *j->leaves)
            record_pair(r, "Leaves", "%s", j->leaves);
    }
}

void record_node(struct record *r, const Wire__NodeInfo *n, bool details)
{
    struct str state;

    str_init(&state);
    node_state_print(n->state, n->state_flags, false, true, &state);
    record_pair(r, "NodeName", "%s", n->name);
    if (n->arch && *n->arch)
        record_pair(r, "Arch", "%s", n->arch);
    record_pair(r, "CoresPerSocket", "%u ", n->cores_per_socket);
    record_line(r);
    record_pair(r, "CPUAlloc", "%u", n->cpus_alloc);
    record_pair(r, "CPUEfctv", "%u", n->has_cpus_usable ? n->cpus_usable : n->cpus);
    record_pair(r, "CPUTot", "%u", n->cpus);
    if (n->has_load_hundredths)
        record_pair(r, "CPULoad", "%u.%02u", n->load_hundredths / 100, n->load_hundredths % 100);
    else
        record_pair(r, "CPULoad", "N/A");
    record_line(r);
    record_pair(r, "AvailableFeatures", "%s", or_null(n->features));
    record_line(r);
    record_pair(r, "ActiveFeatures", "%s", or_null(n->features));
    record_line(r);
    record_pair(r, "Gres", "%s", or_null(n->gres));
    if (details || (n->gres && *n->gres)) {      /* without devices as Slurm, which shows the line with -d alone */
        record_line(r);
        record_pair(r, "GresUsed", "%s", or_null(n->gres_used));
    }
    record_line(r);
    record_pair(r, "NodeAddr", "%s", n->addr && *n->addr ? n->addr : n->name);
    record_pair(r, "NodeHostName", "%s ", n->hostname && *n->hostname ? n->hostname : n->name);
    r->at_start = true;         /* the blank behind the name is the one between the pairs */
    if (n->port && n->port != SLURMD_PORT)
        record_pair(r, "Port", "%u", n->port);
    if (n->version && *n->version)
        record_pair(r, "Version", "%s", n->version);
    if (n->os && *n->os) {
        record_line(r);
        record_pair(r, "OS", "%s ", n->os);
    }
    record_line(r);
    record_pair(r, "RealMemory", "%" PRIu64, n->mem_mib);
    record_pair(r, "AllocMem", "%" PRIu64, n->mem_alloc_mib);
    if (n->has_mem_free_mib && n->mem_free_mib)
        record_pair(r, "FreeMem", "%" PRIu64, n->mem_free_mib);
    else
        record_pair(r, "FreeMem", "N/A");
    record_pair(r, "Sockets", "%u", n->sockets);
    record_pair(r, "Boards", "%u", n->boards ? n->boards : 1);
    if (n->core_spec)
        record_pair(r, "CoreSpecCount", "%u", n->core_spec);
    if (n->cpu_spec_list)
        record_pair(r, "CPUSpecList", "%s ", n->cpu_spec_list);
    if (n->mem_spec_mib)
        record_pair(r, "MemSpecLimit", "%" PRIu64, n->mem_spec_mib);
    record_line(r);
    record_pair(r, "State", "%s", state.text);
    record_pair(r, "ThreadsPerCore", "%u", n->threads_per_core);
    record_pair(r, "TmpDisk", "%" PRIu64, n->tmp_mib);
    record_pair(r, "Weight", "%u", n->weight);
    record_pair(r, "Owner", "%s", n->owner && *n->owner ? n->owner : "N/A");
    record_pair(r, "MCS_label", "N/A");
    if (n->partitions && *n->partitions) {
        record_line(r);
        record_pair(r, "Partitions", "%s ", n->partitions);
    }
    record_line(r);
    record_time(r, "BootTime", n->boot_wall_s, "None");
    record_time(r, "SlurmdStartTime", n->agent_start_wall_s, "None");
    record_line(r);
    record_time(r, "LastBusyTime", n->last_busy_wall_s, "Unknown");
    record_pair(r, "ResumeAfterTime", "None");
    record_line(r);
    record_pair(r, "CfgTRES", "%s", n->cfg_tres ? n->cfg_tres : "");
    record_line(r);
    record_pair(r, "AllocTRES", "%s", n->alloc_tres ? n->alloc_tres : "");
    record_line(r);
    record_pair(r, "CurrentWatts", "0");
    record_pair(r, "AveWatts", "0");
    if (n->reason && *n->reason) {
        struct str when;

        str_init(&when);
        if (n->reason_wall_s) {     /* a reason of slurm.conf has no hour */
            str_addf(&when, " [%s@", n->reason_user ? n->reason_user : "");
            moment_print(n->reason_wall_s, r->time_format, r->now_s, &when);
            str_add_char(&when, ']');
        }
        record_line(r);
        record_pair(r, "Reason", "%s%s", n->reason, when.len ? when.text : "");
        str_fini(&when);
    }
    if (n->comment && *n->comment) {
        record_line(r);
        record_pair(r, "Comment", "%s", n->comment);
    }
    if (n->extra && *n->extra) {
        record_line(r);
        record_pair(r, "Extra", "%s", n->extra);
    }
    if (n->reservation && *n->reservation) {
        record_line(r);
        record_pair(r, "ReservationName", "%s", n->reservation);
    }
    str_fini(&state);
}

/* The pairs come from the controller in Slurm's order; these keys begin a line. */
void record_partition(struct record *r, const Wire__PartitionInfo *p)
{
    static const char *const begins[] = { "AllowGroups", "AllocNodes", "DefaultTime", "MaxNodes", "Nodes", "NodeSets", "PriorityJobFactor", "OverTimeLimit", "State",
                                          "JobDefaults", "DefMemPerCPU", "DefMemPerNode", "TRES", "TRESBillingWeights", NULL };

    for (size_t i = 0; i < p->n_show; i++) {
        for (size_t k = 0; begins[k] && i; k++)
            if (!strcmp(begins[k], p->show[i]->key))
                record_line(r);
        record_pair(r, p->show[i]->key, "%s", p->show[i]->value ? p->show[i]->value : "");
    }
}

void record_step(struct record *r, const Wire__StepInfo *s)
{
    bool is_batch = s->step_id == STEP_BATCH;

    record_pair(r, "StepId", "%s", s->id_text ? s->id_text : "");
    record_pair(r, "UserId", "%u", s->uid);
    record_time(r, "StartTime", s->start_wall_s, "Unknown");
    record_minutes(r, "TimeLimit", true, s->has_time_limit_min ? s->time_limit_min : MINUTES_UNLIMITED, "");
    record_line(r);
    record_pair(r, "State", "%s", job_state_name(s->state, 0, false));
    record_pair(r, "Partition", "%s", s->partition ? s->partition : "");
    record_pair(r, "NodeList", "%s", s->nodes ? s->nodes : "");
    record_line(r);
    record_pair(r, "Nodes", "%u", s->num_nodes);
    record_pair(r, "CPUs", "%u", is_batch ? 0 : s->num_cpus);
    record_pair(r, "Tasks", "%u", s->ntasks);
    record_pair(r, "Name", "%s", s->name ? s->name : "");
    record_pair(r, "Network", "(null)");
    record_line(r);
    record_pair(r, "TRES", "%s", is_batch ? "(null)" : or_null(s->tres));
    record_line(r);
    record_pair(r, "ResvPorts", "(null)");
    record_line(r);
    record_pair(r, "CPUFreqReq", "Default");
}
