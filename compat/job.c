/* SPDX-License-Identifier: Apache-2.0 */
/* job.c - jobs as Slurm's clients read them: slurm_load_job*() and what hangs on a record.
 *
 * Values for what is not used follow what 22.05 puts there (measured member by member): NO_VAL16 for a count of cores nobody asked for, but
 * INFINITE16 for ntasks_per_core.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bitmap.h"
#include "base/str.h"
#include "compat.h"

#define SELECT_PLUGIN_CONS_TRES 109

struct jobs {
    job_info_msg_t msg;             /* first: what the caller has */
    struct arena   arena;
    size_t         room;
    uint16_t       show;
    const struct places *places;    /* while loading */
};

static uint16_t count16(bool is_set, uint32_t n, uint16_t none)
{
    return is_set && n ? (uint16_t)(n < NO_VAL16 ? n : NO_VAL16 - 1) : none;
}

static uint16_t shared_of(const Wire__JobSpec *s)
{
    return !s->exclusive ? NO_VAL16 : word_eq(s->exclusive, "oversubscribe") ? JOB_SHARED_OK : word_eq(s->exclusive, "user") ? JOB_SHARED_USER :
           word_eq(s->exclusive, "mcs") ? JOB_SHARED_MCS : JOB_SHARED_NONE;
}

static char *gres_detail(const Wire__NodeAlloc *n, struct arena *a)
{
    struct str out;
    char *text;

    str_init(&out);
    for (size_t i = 0; i < n->n_gres; i++) {
        const Wire__GresAlloc *g = n->gres[i];
        uint64_t mask = g->mask;
        struct bitmap devices = { 64, &mask };

        str_addf(&out, "%s%s%s%s:%" PRIu64, i ? "," : "", g->name, g->type && *g->type ? ":" : "", g->type ? g->type : "", g->count);
        if (mask) {
            str_add(&out, "(IDX:");
            bitmap_print(&devices, &out);
            str_add_char(&out, ')');
        }
    }
    text = arena_copy(a, out.text);
    str_fini(&out);
    return text;
}

static char *command_of(const Wire__JobSpec *s, struct arena *a)
{
    struct str out;
    char *text;

    if (!s->command || !*s->command)
        return NULL;
    str_init(&out);
    str_add(&out, s->command);
    for (size_t i = 0; i < s->n_argv; i++)
        str_addf(&out, " %s", s->argv[i]);
    text = arena_copy(a, out.text);
    str_fini(&out);
    return text;
}

static uint64_t bitflags_of(const Wire__JobSpec *s)
{
    return (s->kill_on_invalid_dep ? KILL_INV_DEP : 0) | (s->spread ? SPREAD_JOB : 0) | (s->use_min_nodes ? USE_MIN_NODES : 0) |
           (s->has_ntasks ? JOB_NTASKS_SET : 0) | (s->has_cpus_per_task ? JOB_CPUS_SET : 0) | (s->has_mem_per_node_mib || s->has_mem_per_cpu_mib ? JOB_MEM_SET : 0) |
           (s->account ? 0 : USE_DEFAULT_ACCT) | (s->partition ? 0 : USE_DEFAULT_PART) | (s->qos ? 0 : USE_DEFAULT_QOS) | (s->wckey ? 0 : USE_DEFAULT_WCKEY);
}

/* What was asked for. */
static void fill_request(slurm_job_info_t *o, const Wire__JobSpec *s, struct arena *a)
{
    uint32_t per = s->has_cpus_per_task && s->cpus_per_task ? s->cpus_per_task : 1, least = per;

    if (s->ntasks_per_node && s->ntasks_per_node * per > least)
        least = s->ntasks_per_node * per;
    if (s->min_cpus_node > least)
        least = s->min_cpus_node;
    o->account = text_of(a, s->account);
    o->admin_comment = text_of(a, s->admin_comment);
    o->alloc_node = text_of(a, s->alloc_node);
    o->alloc_sid = s->alloc_sid;
    o->batch_features = text_of(a, s->batch_features);
    o->batch_flag = s->is_batch;
    o->bitflags = bitflags_of(s);
    o->burst_buffer = text_of(a, s->burst_buffer);
    o->command = command_of(s, a);
    o->comment = text_of(a, s->comment);
    o->container = text_of(a, s->container);
    o->contiguous = s->contiguous;
    o->core_spec = count16(s->has_core_spec, s->core_spec, NO_VAL16);
    o->cores_per_socket = count16(s->has_cores_per_socket, s->cores_per_socket, NO_VAL16);
    o->sockets_per_node = count16(s->has_sockets_per_node, s->sockets_per_node, NO_VAL16);
    o->threads_per_core = count16(s->has_threads_per_core, s->threads_per_core, NO_VAL16);
    o->ntasks_per_core = count16(s->has_ntasks_per_core, s->ntasks_per_core, INFINITE16);
    o->ntasks_per_socket = count16(s->has_ntasks_per_socket, s->ntasks_per_socket, INFINITE16);
    o->ntasks_per_node = count16(s->has_ntasks_per_node, s->ntasks_per_node, 0);
    o->ntasks_per_tres = count16(s->has_ntasks_per_gpu, s->ntasks_per_gpu, 0);
    o->cpus_per_task = count16(true, per, 1);
    o->cpu_freq_min = o->cpu_freq_max = o->cpu_freq_gov = NO_VAL;
    o->cpus_per_tres = s->cpus_per_gpu ? arena_printf(a, "gres:gpu:%u", s->cpus_per_gpu) : NULL;
    o->mem_per_tres = s->mem_per_gpu_mib ? arena_printf(a, "gres:gpu:%" PRIu64, s->mem_per_gpu_mib) : NULL;
    o->deadline = s->deadline_wall_s;
    o->exc_nodes = text_of(a, s->exc_nodes);
    o->req_nodes = text_of(a, s->req_nodes);
    o->features = text_of(a, s->features);
    o->prefer = text_of(a, s->prefer);
    o->licenses = text_of(a, s->licenses);
    o->max_nodes = s->max_nodes;
    o->network = text_of(a, s->network);
    o->nice = NICE_OFFSET + (uint32_t)s->nice;
    o->pn_min_memory = s->has_mem_per_cpu_mib && s->mem_per_cpu_mib ? s->mem_per_cpu_mib | MEM_PER_CPU : s->mem_per_node_mib;
    o->pn_min_cpus = count16(true, least, 1);
    o->pn_min_tmp_disk = (uint32_t)(s->tmp_mib < NO_VAL ? s->tmp_mib : NO_VAL - 1);
    o->reboot = s->reboot;
    o->req_switch = s->switches;
    o->wait4switch = s->switch_wait_s;
    o->requeue = !s->has_requeue || s->requeue;
    o->resv_name = text_of(a, s->reservation);
    o->shared = shared_of(s);
    o->time_min = s->time_min_min;
    o->tres_bind = text_of(a, s->tres_bind);
    o->tres_freq = text_of(a, s->tres_freq);
    o->tres_per_job = text_of(a, s->tres_per_job);
    o->tres_per_node = text_of(a, s->tres_per_node);
    o->tres_per_socket = text_of(a, s->tres_per_socket);
    o->tres_per_task = text_of(a, s->tres_per_task);
    o->wckey = text_of(a, s->wckey);
    o->work_dir = text_of(a, s->work_dir);
}

static void fill_place(slurm_job_info_t *o, const Wire__JobInfo *j, const Wire__JobSpec *s, const struct jobs *m, struct arena *a)
{
    o->batch_host = text_of(a, j->batch_host);
    o->nodes = text_of(a, j->nodes);
    o->sched_nodes = text_of(a, j->sched_nodes);
    o->node_inx = places_of(m->places, j->nodes, a);
    o->req_node_inx = places_of(m->places, s->req_nodes, a);
    o->exc_node_inx = places_of(m->places, s->exc_nodes, a);
    o->num_cpus = j->num_cpus;
    o->num_nodes = j->num_nodes;
    o->num_tasks = j->num_tasks;
    o->partition = text_of(a, j->partition);
    o->gres_total = text_of(a, j->gres_alloc);
    o->tres_req_str = text_of(a, j->req_tres);
    o->tres_alloc_str = text_of(a, j->alloc_tres);
    if (m->show & SHOW_DETAIL && j->n_allocs && j->gres_alloc && *j->gres_alloc) {
        o->gres_detail_cnt = (uint32_t)j->n_allocs;
        o->gres_detail_str = arena_alloc(a, j->n_allocs * sizeof *o->gres_detail_str);
        for (size_t i = 0; i < j->n_allocs; i++)
            o->gres_detail_str[i] = gres_detail(j->allocs[i], a);
    }
}

static void fill_life(slurm_job_info_t *o, const Wire__JobInfo *j, struct arena *a)
{
    o->job_state = job_state_word(j->state, j->state_flags);
    o->state_reason = (uint16_t)reason_number(j->reason);
    o->state_desc = text_of(a, j->reason_text);
    o->priority = (uint32_t)(j->priority < NO_VAL ? j->priority : NO_VAL - 1);
    o->submit_time = j->submit_wall_s;
    o->eligible_time = j->eligible_wall_s;
    o->accrue_time = j->accrue_wall_s;
    o->start_time = j->start_wall_s;
    o->end_time = j->end_wall_s;
    o->suspend_time = j->suspend_wall_s;
    o->preempt_time = j->preempt_wall_s;
    o->last_sched_eval = j->last_sched_wall_s;
    o->time_limit = j->has_time_limit_min ? j->time_limit_min : NO_VAL;
    o->restart_cnt = (uint16_t)j->restarts;
    o->exit_code = (uint32_t)j->exit_status;
    o->derived_ec = (uint32_t)j->derived_status;
    o->dependency = text_of(a, j->dependency);
    o->std_in = text_of(a, j->std_in);
    o->std_out = text_of(a, j->std_out);
}

static void job_fill(struct jobs *m, slurm_job_info_t *o, const Wire__JobInfo *j, const char *cluster)
{
    static const Wire__JobSpec none = WIRE__JOB_SPEC__INIT;
    const Wire__JobSpec *s = j->spec ? j->spec : &none;
    struct arena *a = &m->arena;

    memset(o, 0, sizeof *o);
    fill_request(o, s, a);
    fill_place(o, j, s, m, a);
    fill_life(o, j, a);
    o->job_id = j->job_id;
    o->array_job_id = j->array_job_id;
    o->array_task_id = j->has_array_task_id ? j->array_task_id : NO_VAL;
    o->array_task_str = text_of(a, j->array_tasks);
    o->array_max_tasks = j->array_throttle;
    o->het_job_id = j->het_job_id;
    o->het_job_offset = j->het_job_id ? j->het_offset : NO_VAL;
    o->het_job_id_set = j->het_job_id ? arena_printf(a, "%u-%u", j->het_job_id, j->het_job_id + j->het_count - 1) : NULL;
    if (j->array_tasks && *j->array_tasks && !o->array_job_id)
        o->array_job_id = j->job_id;
    o->name = text_of(a, s->name ? s->name : j->name);
    o->user_id = j->uid;
    o->user_name = text_of(a, j->user);
    o->group_id = j->gid;
    o->mail_user = text_of(a, s->mail_user ? s->mail_user : j->user);
    o->qos = text_of(a, j->qos ? j->qos : s->qos);
    o->std_err = s->std_err && *s->std_err ? text_of(a, j->std_err) : NULL;
    o->cluster = text_of(a, cluster);
    o->billable_tres = j->nodes && *j->nodes ? (double)j->num_cpus : (double)NO_VAL;
    o->site_factor = NICE_OFFSET;
    o->show_flags = m->show;
    o->start_protocol_ver = 38 << 8;
    o->select_jobinfo = arena_alloc(a, sizeof *o->select_jobinfo);
    o->select_jobinfo->plugin_id = SELECT_PLUGIN_CONS_TRES;
}

static int jobs_part(void *arg, void *part)
{
    struct jobs *m = arg;
    const Wire__JobsReply *r = part;

    if (r->wall_ms)
        m->msg.last_update = r->wall_ms / 1000;
    if (m->msg.record_count + r->n_jobs > m->room) {
        m->room = m->room ? 2 * m->room : 16;
        if (m->room < m->msg.record_count + r->n_jobs)
            m->room = m->msg.record_count + r->n_jobs;
        m->msg.job_array = mem_grow(m->msg.job_array, m->room, sizeof *m->msg.job_array);
    }
    for (size_t i = 0; i < r->n_jobs; i++)
        job_fill(m, &m->msg.job_array[m->msg.record_count++], r->jobs[i], r->cluster);
    return 1;
}

static int jobs_load(Wire__JobsRequest *r, uint16_t show, job_info_msg_t **out)
{
    static char all[] = "all";
    char *states[] = { all };
    struct places places;
    struct jobs *m;
    struct ask k;
    int rc = 0;

    if (!out)
        return refuse(EINVAL);
    *out = NULL;
    if (ask_open(&k) < 0)
        return SLURM_ERROR;
    m = mem_alloc(sizeof *m);
    arena_init(&m->arena, 0);
    m->show = show;
    r->n_states = 1;
    r->states = states;
    r->has_fields = true;
    r->fields = job_fields(show & SHOW_DETAIL);
    if (show & SHOW_DETAIL && (rc = places_load(&places, &k)) == 0)
        m->places = &places;
    if (rc == 0)
        rc = ask_stream(&k, WIRE__MESSAGE_TYPE__JOBS, &r->base, WIRE__MESSAGE_TYPE__JOBS_PART, &wire__jobs_reply__descriptor, jobs_part, m);
    if (m->places)
        places_fini(&places);
    m->places = NULL;
    ask_close(&k);
    if (rc < 0) {
        int saved = errno;

        slurm_free_job_info_msg(&m->msg);
        return refuse(saved);
    }
    *out = &m->msg;
    return SLURM_SUCCESS;
}

int slurm_load_jobs(time_t update_time, job_info_msg_t **out, uint16_t show_flags)
{
    Wire__JobsRequest r = WIRE__JOBS_REQUEST__INIT;

    (void)update_time;
    return jobs_load(&r, show_flags, out);
}

int slurm_load_job(job_info_msg_t **out, uint32_t job_id, uint16_t show_flags)
{
    Wire__JobsRequest r = WIRE__JOBS_REQUEST__INIT;
    int rc;

    r.n_job_ids = 1;
    r.job_ids = &job_id;
    rc = jobs_load(&r, show_flags, out);
    if (rc == 0 && (*out)->record_count == 0) {
        slurm_free_job_info_msg(*out);
        *out = NULL;
        return refuse(ESLURM_INVALID_JOB_ID);
    }
    return rc;
}

int slurm_load_job_user(job_info_msg_t **out, uint32_t user_id, uint16_t show_flags)
{
    Wire__JobsRequest r = WIRE__JOBS_REQUEST__INIT;

    r.n_uids = 1;
    r.uids = &user_id;
    return jobs_load(&r, show_flags, out);
}

void slurm_free_job_info_msg(job_info_msg_t *msg)
{
    struct jobs *m = (struct jobs *)msg;

    if (!m)
        return;
    free(m->msg.job_array);
    arena_fini(&m->arena);
    free(m);
}

/* ---- what hangs on a job ---------------------------------------------------------------------------------------------------------- */

void slurm_get_job_stdin(char *buf, int size, job_info_t *job)
{
    if (size > 0)
        snprintf(buf, (size_t)size, "%s", !job || !job->batch_flag ? "" : job->std_in ? job->std_in : "/dev/null");
}

void slurm_get_job_stdout(char *buf, int size, job_info_t *job)
{
    if (size > 0)
        snprintf(buf, (size_t)size, "%s", !job || !job->batch_flag || !job->std_out ? "" : job->std_out);
}

void slurm_get_job_stderr(char *buf, int size, job_info_t *job)
{
    if (job && job->batch_flag && job->std_err && size > 0)
        snprintf(buf, (size_t)size, "%s", job->std_err);
    else
        slurm_get_job_stdout(buf, size, job);
}

int slurm_get_end_time(uint32_t job_id, time_t *end)
{
    const char *own = getenv("SLURM_JOB_ID");
    job_info_msg_t *jobs;

    if (!end || (job_id == 0 && (!own || !number_u32(own, &job_id))))
        return refuse(EINVAL);
    if (slurm_load_job(&jobs, job_id, SHOW_ALL) < 0)
        return SLURM_ERROR;
    *end = jobs->job_array[0].end_time;
    slurm_free_job_info_msg(jobs);
    return SLURM_SUCCESS;
}

long slurm_get_rem_time(uint32_t job_id)
{
    time_t end;

    if (slurm_get_end_time(job_id, &end) < 0)
        return -1;
    return end == 0 ? (long)INFINITE : end > time(NULL) ? (long)(end - time(NULL)) : 0;
}

int slurm_job_batch_script(FILE *out, uint32_t job_id)
{
    Wire__ScriptRequest r = WIRE__SCRIPT_REQUEST__INIT;
    const Wire__Blob *script;
    struct ask k;
    void *reply;
    int rc;

    if (!out)
        return refuse(EINVAL);
    if (ask_open(&k) < 0)
        return SLURM_ERROR;
    r.job_id = job_id;
    if ((rc = ask_call(&k, WIRE__MESSAGE_TYPE__SCRIPT, &r.base, WIRE__MESSAGE_TYPE__SCRIPT_TEXT, &wire__blob__descriptor, &reply)) == 0) {
        script = reply;
        if (fwrite(script->data.data, 1, script->data.len, out) != script->data.len)
            rc = SLURM_ERROR;
    }
    ask_close(&k);
    return rc;
}
