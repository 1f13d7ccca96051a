/* SPDX-License-Identifier: Apache-2.0 */
/* jobfields.c - one row a field: what squeue's -o letters and -O names show of a job or a step.
 *
 * Headings and the words for nothing ("(null)", "N/A", "*") are as measured on Slurm 22.05. A field that the controller does not fill prints
 * what Slurm prints for a job without it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "cmds/common/jobfields.h"
#include "state/apply.h"

#define J (((const struct job_row *)row)->job)
#define ROW ((const struct job_row *)row)
#define SPEC(member) (J->spec ? J->spec->member : 0)
#define FIELD(name) static void show_##name(const void *row, struct str *out)

static void text_or(struct str *out, const char *text, const char *none) { str_add(out, text && *text ? text : none); }
static void number(struct str *out, uint64_t n) { str_add_number(out, n); }
static void moment(const struct job_row *r, struct str *out, int64_t s)
{
    if (s > 0)
        moment_print(s, r->time_format, r->now_s, out);
    else
        str_add(out, "N/A");
}

/* The pending tasks of an array, cut as Slurm cuts them: at SLURM_BITSTR_LEN characters (64; 0: never), the %limit stays. */
void job_tasks_print(const char *tasks, struct str *out)
{
    const char *percent = strchr(tasks, '%'), *env = getenv("SLURM_BITSTR_LEN");
    size_t n = percent ? (size_t)(percent - tasks) : strlen(tasks);
    uint32_t most = 64;

    if (env)
        number_u32(env, &most);
    if (most >= 4 && n >= most) {
        str_add_n(out, tasks, most - 4);
        str_add(out, "...");
        str_add(out, percent ? percent : "");
    } else {
        str_add(out, tasks);
    }
}

void job_id_print(const Wire__JobInfo *j, const char *only, struct str *out)
{
    if (j->array_tasks && *j->array_tasks) {
        uint32_t id = j->array_job_id ? j->array_job_id : j->job_id;
        bool is_one = only && only[strspn(only, "0123456789")] == '\0';

        str_addf(out, is_one ? "%u_" : "%u_[", id);
        job_tasks_print(only ? only : j->array_tasks, out);
        str_add(out, is_one ? "" : "]");
    } else if (j->array_job_id) {
        str_addf(out, "%u_%u", j->array_job_id, j->array_task_id);
    } else if (j->het_job_id) {
        str_addf(out, "%u+%u", j->het_job_id, j->het_offset);
    } else {
        str_add_number(out, j->job_id);
    }
}

/* "(Reason)" while it waits or when it failed with one, the nodes while it has some. */
void job_reason_print(const Wire__JobInfo *j, struct str *out)
{
    bool is_pending = j->state == JOB_PENDING;
    bool is_bad_end = j->state == JOB_TIMEOUT || j->state == JOB_OOM || j->state == JOB_DEADLINE || j->state == JOB_FAILED;

    if (!is_pending && !is_bad_end)
        text_or(out, j->nodes, "");
    else if (j->reason_text && *j->reason_text)
        str_addf(out, "(%s)", j->reason_text);
    else
        str_addf(out, "(%s)", j->reason ? j->reason : "None");
}

int64_t job_time_left_s(const Wire__JobInfo *j)
{
    if (!j->has_time_limit_min || j->time_limit_min >= MINUTES_NOT_SET)
        return INT64_MAX;
    return (int64_t)j->time_limit_min * 60 - j->run_s;
}

static void gres_print(struct str *out, const char *text) { text_or(out, text, "N/A"); }

FIELD(account) { text_or(out, SPEC(account), "(null)"); }
FIELD(accrue) { moment(ROW, out, J->accrue_wall_s); }
FIELD(admin_comment) { text_or(out, SPEC(admin_comment), "(null)"); }
FIELD(alloc_nodes) { text_or(out, SPEC(alloc_node), ""); }
FIELD(alloc_sid) { number(out, SPEC(alloc_sid)); }
FIELD(array_job_id) { number(out, J->array_job_id ? J->array_job_id : J->job_id); }
FIELD(array_task_id)
{
    if (J->array_tasks && *J->array_tasks)
        job_tasks_print(ROW->tasks ? ROW->tasks : J->array_tasks, out);
    else if (J->array_job_id)
        number(out, J->array_task_id);
    else
        str_add(out, "N/A");
}
FIELD(het_id) { if (J->het_job_id) number(out, J->het_job_id); else str_add(out, "N/A"); }
FIELD(het_offset) { if (J->het_job_id) number(out, J->het_offset); else str_add(out, "N/A"); }
FIELD(het_set)
{
    if (J->het_job_id)
        str_addf(out, "%u-%u", J->het_job_id, J->het_job_id + J->het_count - 1);
    else
        str_add(out, "N/A");
}
FIELD(zero) { (void)row; str_add(out, "0"); }
FIELD(na) { (void)row; str_add(out, "N/A"); }
FIELD(null) { (void)row; str_add(out, "(null)"); }
FIELD(empty) { (void)row; (void)out; }
FIELD(batch_flag) { str_add(out, SPEC(is_batch) ? "1" : "0"); }
FIELD(batch_host) { text_or(out, J->batch_host, "n/a"); }
FIELD(cluster) { text_or(out, ROW->cluster, ""); }
FIELD(command)
{
    text_or(out, SPEC(command), "(null)");
    for (size_t i = 0; J->spec && J->spec->command && i < J->spec->n_argv; i++)
        str_addf(out, " %s", J->spec->argv[i]);
}
FIELD(comment) { text_or(out, SPEC(comment), "(null)"); }
FIELD(contiguous) { str_add(out, SPEC(contiguous) ? "1" : "0"); }
static void star_or(struct str *out, uint32_t n) { if (n) number(out, n); else str_add(out, "*"); }
FIELD(cores) { star_or(out, SPEC(cores_per_socket)); }
FIELD(sockets) { star_or(out, SPEC(sockets_per_node)); }
FIELD(threads) { star_or(out, SPEC(threads_per_core)); }
FIELD(sct) { star_or(out, SPEC(sockets_per_node)); str_add_char(out, ':'); star_or(out, SPEC(cores_per_socket)); str_add_char(out, ':'); star_or(out, SPEC(threads_per_core)); }
FIELD(core_spec) { if (J->spec && J->spec->has_core_spec) number(out, J->spec->core_spec); else str_add(out, "N/A"); }
FIELD(cpus_per_task) { if (J->spec && J->spec->has_cpus_per_task) number(out, J->spec->cpus_per_task); else str_add(out, "1"); }
FIELD(cpus_per_tres) { if (SPEC(cpus_per_gpu)) str_addf(out, "gres:gpu:%u", J->spec->cpus_per_gpu); else str_add(out, "N/A"); }
FIELD(mem_per_tres) { if (SPEC(mem_per_gpu_mib)) str_addf(out, "gres:gpu:%llu", (unsigned long long)J->spec->mem_per_gpu_mib); else str_add(out, "N/A"); }
FIELD(deadline) { moment(ROW, out, SPEC(deadline_wall_s)); }
FIELD(dependency) { text_or(out, J->dependency, "(null)"); }
FIELD(derived) { str_addf(out, "%d", J->derived_status); }         /* as wait() gives it: 256 is exit 1 */
FIELD(exit_code) { str_addf(out, "%d", J->exit_status); }
FIELD(eligible) { moment(ROW, out, J->eligible_wall_s); }
FIELD(end)
{
    if (J->start_wall_s && !J->end_wall_s && J->time_limit_min == MINUTES_UNLIMITED)
        str_add(out, "NONE");
    else
        moment(ROW, out, J->end_wall_s);
}
FIELD(zero_time) { (void)row; str_add(out, "0:00"); }
FIELD(not_here) { (void)row; str_add(out, "NA"); }
FIELD(exc_nodes) { text_or(out, SPEC(exc_nodes), ""); }
FIELD(features) { text_or(out, SPEC(features), "(null)"); }
FIELD(prefer) { text_or(out, SPEC(prefer), "(null)"); }
FIELD(group) { text_or(out, J->group, ""); if (!J->group) number(out, J->gid); }
FIELD(gid) { number(out, J->gid); }
FIELD(job_array_id) { job_id_print(J, ROW->tasks, out); }
FIELD(job_id) { number(out, J->job_id); }
FIELD(last_sched) { moment(ROW, out, J->last_sched_wall_s); }
FIELD(licenses) { text_or(out, SPEC(licenses), "(null)"); }
FIELD(max_nodes) { number(out, J->num_nodes_max ? J->num_nodes_max : J->num_nodes); }
FIELD(min_cpus)
{
    uint32_t n = SPEC(min_cpus_node), per = SPEC(cpus_per_task) ? SPEC(cpus_per_task) : 1;

    if (SPEC(ntasks_per_node) && SPEC(ntasks_per_node) * per > n)
        n = SPEC(ntasks_per_node) * per;
    number(out, n > per ? n : per);
}
static void size(const struct job_row *r, uint64_t mib, struct str *out)
{
    if (r->no_convert && mib)
        str_addf(out, "%lluM", (unsigned long long)mib);
    else
        mebibytes_print(mib, out);
}
FIELD(min_memory)
{
    bool by_cpu = J->spec && J->spec->has_mem_per_cpu_mib && J->spec->mem_per_cpu_mib;

    size(ROW, by_cpu ? J->spec->mem_per_cpu_mib : J->spec ? J->spec->mem_per_node_mib : 0, out);
}
FIELD(min_time) { if (J->spec && J->spec->has_time_min_min) minutes_print_short(J->spec->time_min_min, out); else str_add(out, "0:00"); }
FIELD(tmp) { size(ROW, SPEC(tmp_mib), out); }
FIELD(name) { text_or(out, J->name, ""); }
FIELD(network) { text_or(out, SPEC(network), "(null)"); }
FIELD(nice) { str_addf(out, "%d", SPEC(nice)); }
FIELD(node_list) { text_or(out, J->nodes, ""); }
FIELD(reason_list) { job_reason_print(J, out); }
FIELD(per_core) { if (SPEC(ntasks_per_core)) number(out, SPEC(ntasks_per_core)); else str_add(out, "N/A"); }
FIELD(per_node) { if (SPEC(ntasks_per_node)) number(out, SPEC(ntasks_per_node)); else str_add(out, "0"); }
FIELD(per_socket) { if (SPEC(ntasks_per_socket)) number(out, SPEC(ntasks_per_socket)); else str_add(out, "N/A"); }
FIELD(num_cpus) { number(out, J->num_cpus); }
FIELD(num_nodes) { number(out, J->num_nodes); }
FIELD(num_tasks) { number(out, J->num_tasks); }
FIELD(oversubscribe)
{
    const char *e = J->spec ? J->spec->exclusive : NULL;

    str_add(out, !e ? "OK" : word_eq(e, "oversubscribe") ? "YES" : word_eq(e, "user") ? "USER" : "NO");
}
FIELD(partition) { text_or(out, J->partition, ""); }
FIELD(pending)
{
    int64_t until = J->start_wall_s && J->start_wall_s < ROW->now_s ? J->start_wall_s : ROW->now_s;

    str_addf(out, "%lld", (long long)(until > J->submit_wall_s ? until - J->submit_wall_s : 0));
}
FIELD(preempt) { moment(ROW, out, J->preempt_wall_s); }
FIELD(priority) { str_addf(out, "%.14f", (double)J->priority / 4294967295.0); }
FIELD(priority_long) { number(out, J->priority); }
FIELD(profile) { (void)row; str_add(out, "NotSet"); }
FIELD(qos) { text_or(out, J->qos ? J->qos : SPEC(qos), "(null)"); }
FIELD(reason) { text_or(out, J->reason, "None"); }
FIELD(req_nodes) { text_or(out, SPEC(req_nodes), ""); }
FIELD(req_switch) { number(out, SPEC(switches)); }
FIELD(requeue) { str_add(out, J->spec && J->spec->has_requeue && !J->spec->requeue ? "0" : "1"); }
FIELD(reservation) { text_or(out, SPEC(reservation), "(null)"); }
FIELD(restarts) { number(out, J->restarts); }
FIELD(sched_nodes) { text_or(out, J->sched_nodes, "(null)"); }
FIELD(start) { moment(ROW, out, J->start_wall_s); }
FIELD(state) { str_add(out, job_state_name(J->state, J->state_flags, false)); }
FIELD(state_compact) { str_add(out, job_state_name(J->state, J->state_flags, true)); }
FIELD(stdin) { text_or(out, J->std_in, "/dev/null"); }
FIELD(stdout) { text_or(out, J->std_out, ""); }
FIELD(stderr) { text_or(out, J->std_err ? J->std_err : J->std_out, ""); }
FIELD(submit) { moment(ROW, out, J->submit_wall_s); }
FIELD(time_left)
{
    int64_t left = job_time_left_s(J);

    if (J->has_time_limit_min && J->time_limit_min == MINUTES_NOT_SET)
        str_add(out, "NOT_SET");
    else if (left == INT64_MAX)
        str_add(out, "UNLIMITED");
    else if (left < 0)
        str_add(out, "INVALID");
    else
        seconds_print_short(left, out);
}
FIELD(time_limit) { minutes_print_short(J->has_time_limit_min ? J->time_limit_min : MINUTES_NOT_SET, out); }
FIELD(time_used) { seconds_print_short(J->run_s > 0 ? J->run_s : 0, out); }
FIELD(tres) { text_or(out, J->alloc_tres ? J->alloc_tres : J->req_tres, "N/A"); }
FIELD(tres_bind) { text_or(out, SPEC(tres_bind), "N/A"); }
FIELD(tres_freq) { text_or(out, SPEC(tres_freq), "N/A"); }
FIELD(tres_job) { gres_print(out, SPEC(tres_per_job)); }
FIELD(tres_node) { gres_print(out, SPEC(tres_per_node)); }
FIELD(tres_socket) { gres_print(out, SPEC(tres_per_socket)); }
FIELD(tres_task) { gres_print(out, SPEC(tres_per_task)); }
FIELD(uid) { number(out, J->uid); }
FIELD(user) { if (J->user && *J->user) str_add(out, J->user); else number(out, J->uid); }
FIELD(wait4switch) { seconds_print_short(SPEC(switch_wait_s), out); }
FIELD(wckey) { text_or(out, SPEC(wckey), "(null)"); }
FIELD(work_dir) { text_or(out, SPEC(work_dir), ""); }

#define S JOB_FIELD_SPEC
#define T JOB_FIELD_TEXTS
#define B JOB_FIELD_BARE
#define F(name, letter, heading, needs, fn) { name, letter, heading, needs, show_##fn }
const struct column_field job_fields[] = {
    F("Account", 'a', "ACCOUNT", S, account), F("AccrueTime", 0, "ACCRUE_TIME", 0, accrue), F("admin_comment", 0, "ADMIN_COMMENT", S, admin_comment),
    F("AllocNodes", 0, "ALLOC_NODES", S, alloc_nodes), F("AllocSID", 0, "ALLOC_SID", S, alloc_sid), F("ArrayJobId", 'F', "ARRAY_JOB_ID", B, array_job_id),
    F("ArrayTaskId", 'K', "ARRAY_TASK_ID", B, array_task_id), F("AssocId", 0, "ASSOC_ID", 0, zero), F("BatchFlag", 0, "BATCH_FLAG", S, batch_flag),
    F("BatchHost", 'B', "EXEC_HOST", 0, batch_host), F("BoardsPerNode", 0, "BOARDS_PER_NODE", 0, zero), F("BurstBuffer", 0, "BURST_BUFFER", 0, null),
    F("BurstBufferState", 0, "BURST_BUFFER_STATE", 0, null), F("Cluster", 0, "CLUSTER", 0, cluster), F("ClusterFeature", 0, "CLUSTER_FEATURES", 0, null),
    F("Command", 'o', "COMMAND", S, command), F("Comment", 'k', "COMMENT", S, comment), F("Container", 0, "CONTAINER", 0, null), F("ContainerId", 0, "CONTAINER_ID", 0, null),
    F("Contiguous", 'O', "CONTIGUOUS", S, contiguous), F("Cores", 'I', "CORES_PER_SOCKET", S, cores), F("CoreSpec", 'X', "CORE_SPEC", S, core_spec),
    F("CPUsPerTask", 0, "CPUS_PER_TASK", S, cpus_per_task), F("cpus-per-task", 0, "CPUS_PER_TASK", S, cpus_per_task), F("cpus-per-tres", 0, "CPUS_PER_TRES", S, cpus_per_tres),
    F("CronJob", 0, "CRON_JOB", 0, zero), F("Deadline", 0, "DEADLINE", S, deadline), F("DelayBoot", 0, "DELAY_BOOT", 0, zero_time), F("Dependency", 'E', "DEPENDENCY", T, dependency),
    F("DerivedEC", 0, "DERIVED_EC", 0, derived), F("EligibleTime", 0, "ELIGIBLE_TIME", 0, eligible), F("EndTime", 'e', "END_TIME", 0, end), F("ExcNodes", 'x', "EXC_NODES", S, exc_nodes),
    F("Exclusive", 0, "EXCLUSIVE", S, oversubscribe), F("exit_code", 0, "EXIT_CODE", 0, exit_code), F("Feature", 'f', "FEATURES", S, features),
    F("Gres", 'b', "TRES_PER_NODE", S, tres_node), F("GroupId", 'G', "GROUP", 0, gid), F("GroupName", 'g', "GROUP", T, group), F("HetJobId", 0, "HET_JOB_ID", 0, het_id),
    F("HetJobIdSet", 0, "HET_JOB_ID_SET", 0, het_set), F("HetJobOffset", 0, "HET_JOB_OFFSET", 0, het_offset), F("JobArrayId", 'i', "JOBID", B, job_array_id), F("JobId", 'A', "JOBID", B, job_id),
    F("LastSchedEval", 0, "LAST_SCHED_EVAL", 0, last_sched), F("Licenses", 'W', "LICENSES", S, licenses), F("LicensesAlloc", 0, "LICENSES_ALLOC", 0, null),
    F("MaxCPUs", 0, "MAX_CPUS", 0, num_cpus), F("MaxNodes", 0, "MAX_NODES", 0, max_nodes), F("mem-per-tres", 0, "MEM_PER_TRES", S, mem_per_tres), F("MCSLabel", 0, "MCSLABEL", 0, null),
    F("MinCPUs", 'c', "MIN_CPUS", S, min_cpus), F("MinMemory", 'm', "MIN_MEMORY", S, min_memory), F("MinTime", 0, "TIME_MIN", S, min_time), F("MinTmpDisk", 'd', "MIN_TMP_DISK", S, tmp),
    F("Name", 'j', "NAME", 0, name), F("Network", 0, "NETWORK", S, network), F("Nice", 'y', "NICE", S, nice), F("NodeList", 'N', "NODELIST", 0, node_list),
    F("NTPerCore", 0, "NTASKS_PER_CORE", S, per_core), F("NTPerNode", 0, "NTASKS_PER_NODE", S, per_node), F("NTPerSocket", 0, "NTASKS_PER_SOCKET", S, per_socket), F("NTPerBoard", 0, "NTASKS_PER_BOARD", 0, zero),
    F("NumCPUs", 'C', "CPUS", 0, num_cpus), F("NumNodes", 'D', "NODES", 0, num_nodes), F("NumTasks", 0, "TASKS", 0, num_tasks), F("Origin", 0, "ORIGIN", 0, not_here), F("OriginRaw", 0, "ORIGIN_RAW", 0, not_here),
    F("OverSubscribe", 'h', "OVER_SUBSCRIBE", S, oversubscribe), F("Shared", 0, "OVER_SUBSCRIBE", S, oversubscribe), F("PackJobId", 0, "HET_JOB_ID", 0, het_id), F("PackJobIdSet", 0, "HET_JOB_ID_SET", 0, het_set),
    F("PackJobOffset", 0, "HET_JOB_OFFSET", 0, het_offset), F("Partition", 'P', "PARTITION", B, partition), F("PendingTime", 0, "PENDING_TIME", 0, pending), F("PreemptTime", 0, "PREEMPT_TIME", 0, preempt),
    F("Prefer", 0, "PREFER", S, prefer), F("Priority", 'p', "PRIORITY", B, priority), F("PriorityLong", 'Q', "PRIORITY", B, priority_long), F("Profile", 0, "PROFILE", 0, profile),
    F("QOS", 'q', "QOS", S, qos), F("Reason", 'r', "REASON", 0, reason), F("ReasonList", 'R', "NODELIST(REASON)", T, reason_list), F("Reboot", 0, "REBOOT", 0, zero),
    F("ReqNodes", 'n', "REQ_NODES", S, req_nodes), F("ReqSwitch", 0, "REQ_SWITCH", S, req_switch), F("Requeue", 0, "REQUEUE", S, requeue), F("Reservation", 'v', "RESERVATION", S, reservation),
    F("ResizeTime", 0, "RESIZE_TIME", 0, na), F("RestartCnt", 0, "RESTART_COUNT", 0, restarts), F("Runtime", 0, "RUNTIME", 0, null), F("SchedNodes", 'Y', "SCHEDNODES", T, sched_nodes),
    F("SCT", 'z', "S:C:T", S, sct), F("SegmentSize", 0, "SEGMENT_SIZE", 0, na), F("SiblingsActive", 0, "ACTIVE_SIBLINGS", 0, not_here), F("SiblingsActiveRaw", 0, "ACTIVE_SIBLINGS_RAW", 0, not_here),
    F("SiblingsViable", 0, "VIABLE_SIBLINGS", 0, not_here), F("SiblingsViableRaw", 0, "VIABLE_SIBLINGS_RAW", 0, not_here), F("SLUID", 's', "SLUID", 0, empty), F("Sockets", 'H', "SOCKETS_PER_NODE", S, sockets),
    F("SPerBoard", 0, "SOCKETS_PER_BOARD", 0, zero), F("StartTime", 'S', "START_TIME", 0, start), F("State", 'T', "STATE", B, state), F("StateCompact", 't', "ST", B, state_compact),
    F("StdErr", 0, "STDERR", JOB_FIELD_PATHS, stderr), F("StdIn", 0, "STDIN", JOB_FIELD_PATHS, stdin), F("StdOut", 0, "STDOUT", JOB_FIELD_PATHS, stdout), F("SubmitTime", 'V', "SUBMIT_TIME", 0, submit),
    F("system_comment", 0, "SYSTEM_COMMENT", 0, null), F("Threads", 'J', "THREADS_PER_CORE", S, threads), F("TimeLeft", 'L', "TIME_LEFT", 0, time_left), F("TimeLimit", 'l', "TIME_LIMIT", 0, time_limit),
    F("TimeUsed", 'M', "TIME", 0, time_used), F("Tres", 0, "TRES_ALLOC", JOB_FIELD_TRES, tres), F("tres-alloc", 0, "TRES_ALLOC", JOB_FIELD_TRES, tres), F("tres-bind", 0, "TRES_BIND", S, tres_bind),
    F("tres-freq", 0, "TRES_FREQ", S, tres_freq), F("tres-per-job", 0, "TRES_PER_JOB", S, tres_job), F("tres-per-node", 0, "TRES_PER_NODE", S, tres_node), F("tres-per-socket", 0, "TRES_PER_SOCKET", S, tres_socket),
    F("tres-per-task", 0, "TRES_PER_TASK", S, tres_task), F("UserId", 'U', "UID", B, uid), F("UserName", 'u', "USER", 0, user), F("Wait4Switch", 0, "WAIT4SWITCH", S, wait4switch),
    F("WCKey", 'w', "WCKEY", S, wckey), F("WorkDir", 'Z', "WORK_DIR", S, work_dir),
};
const size_t job_field_count = sizeof job_fields / sizeof *job_fields;
#undef F
#undef J
#undef ROW

#define STEP (((const struct step_row *)row)->step)
FIELD(s_array) { number(out, STEP->array_job_id ? STEP->array_job_id : STEP->job_id); }
FIELD(s_array_task) { if (STEP->array_job_id) number(out, STEP->array_task_id); else str_add(out, "N/A"); }
FIELD(s_job) { number(out, STEP->job_id); }
FIELD(s_nodes) { text_or(out, STEP->nodes, ""); }
FIELD(s_cpus) { number(out, STEP->num_cpus); }
FIELD(s_tasks) { number(out, STEP->ntasks); }
FIELD(s_partition) { text_or(out, STEP->partition, ""); }
FIELD(s_start)
{
    const struct step_row *r = row;

    moment_print(STEP->start_wall_s, r->time_format, r->now_s, out);
}
FIELD(s_id) { text_or(out, STEP->id_text, ""); }
FIELD(s_name) { text_or(out, STEP->name, ""); }
FIELD(s_state) { str_add(out, job_state_name(STEP->state, 0, false)); }
FIELD(s_limit) { minutes_print_short(STEP->has_time_limit_min ? STEP->time_limit_min : MINUTES_UNLIMITED, out); }
FIELD(s_used) { seconds_print_short(STEP->run_s, out); }
FIELD(s_tres) { text_or(out, STEP->tres, "N/A"); }
FIELD(s_uid) { number(out, STEP->uid); }
FIELD(s_user) { if (STEP->user && *STEP->user) str_add(out, STEP->user); else number(out, STEP->uid); }
FIELD(s_in) { text_or(out, STEP->std_in, ""); }
FIELD(s_out) { text_or(out, STEP->std_out, ""); }
FIELD(s_err) { text_or(out, STEP->std_err, ""); }
#define F(name, letter, heading, fn) { name, letter, heading, 0, show_##fn }
const struct column_field step_fields[] = {
    F("ArrayJobId", 0, "ARRAY_JOB_ID", s_array), F("ArrayTaskId", 0, "ARRAY_TASK_ID", s_array_task), F("JobId", 0, "JOBID", s_job), F("Nodes", 'N', "NODELIST", s_nodes), F("NumCPUs", 0, "CPUS", s_cpus),
    F("NumTasks", 'A', "TASKS", s_tasks), F("Partition", 'P', "PARTITION", s_partition), F("StartTime", 'S', "START_TIME", s_start), F("StepId", 'i', "STEPID", s_id), F("StepName", 'j', "NAME", s_name),
    F("StepState", 0, "STATE", s_state), F("TimeLimit", 'l', "TIME_LIMIT", s_limit), F("TimeUsed", 'M', "TIME", s_used), F("tres-per-node", 'b', "TRES_PER_NODE", s_tres), F("Gres", 0, "TRES_PER_NODE", s_tres),
    F("tres-per-step", 0, "TRES_PER_STEP", s_tres), F("UserId", 'U', "UID", s_uid), F("UserName", 'u', "USER", s_user), F("StdIn", 0, "STDIN", s_in), F("StdOut", 0, "STDOUT", s_out), F("StdErr", 0, "STDERR", s_err),
};
const size_t step_field_count = sizeof step_fields / sizeof *step_fields;
