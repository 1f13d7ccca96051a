/* SPDX-License-Identifier: Apache-2.0 */
/* submit.c - a job description of Slurm's clients becomes a request, or is refused.
 *
 * Identity comes from the channel: user_id and group_id can only name the caller. What the description asks for and a request has no place for is
 * refused here (ESLURM_NOT_SUPPORTED); the rest is judged by the controller, as for sbatch. The environment travels as given: this interface has
 * no --export. A submit carries a token made once, so a retry inside the client is never a second job.
 */
#include <errno.h>
#include <limits.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "compat.h"

#define KNOWN_BITS (KILL_INV_DEP | NO_KILL_INV_DEP | SPREAD_JOB | USE_MIN_NODES | JOB_NTASKS_SET | JOB_CPUS_SET | JOB_MEM_SET | \
                    USE_DEFAULT_ACCT | USE_DEFAULT_PART | USE_DEFAULT_QOS | USE_DEFAULT_WCKEY)
#define PROFILE_NONE 1u

void slurm_init_job_desc_msg(job_desc_msg_t *d)
{
    memset(d, 0, sizeof *d);
    d->alloc_sid = d->cpu_freq_min = d->cpu_freq_max = d->cpu_freq_gov = d->delay_boot = d->group_id = d->job_id = d->nice = d->num_tasks = d->priority = NO_VAL;
    d->site_factor = d->task_dist = d->time_limit = d->time_min = d->user_id = d->min_cpus = d->max_cpus = d->min_nodes = d->max_nodes = NO_VAL;
    d->pn_min_tmp_disk = d->req_switch = d->wait4switch = NO_VAL;
    d->contiguous = d->core_spec = d->cpu_bind_type = d->kill_on_node_fail = d->mail_type = d->mem_bind_type = d->plane_size = d->reboot = d->requeue = NO_VAL16;
    d->shared = d->wait_all_nodes = d->cpus_per_task = d->sockets_per_node = d->cores_per_socket = d->threads_per_core = d->ntasks_per_node = NO_VAL16;
    d->ntasks_per_socket = d->ntasks_per_core = d->ntasks_per_tres = d->pn_min_cpus = NO_VAL16;
    d->pn_min_memory = NO_VAL64;
    d->overcommit = NO_VAL8;
}

/* ---- members that were set ---------------------------------------------------------------------------------------------------------- */

static bool has8(uint8_t v) { return v != NO_VAL8; }
static bool has16(uint16_t v) { return v != NO_VAL16 && v != INFINITE16; }
static bool has32(uint32_t v) { return v != NO_VAL; }
static bool asks8(uint8_t v) { return has8(v) && v; }
static bool asks16(uint16_t v) { return has16(v) && v; }
static bool asks32(uint32_t v) { return has32(v) && v; }
static bool asks(const char *text) { return text && *text; }

/* Borrowed: the request is packed before the call returns. */
static char *text(const char *t) { return asks(t) ? (char *)(uintptr_t)t : NULL; }

#define SET(field, value) do { s->has_##field = 1; s->field = (value); } while (0)
#define SET_IF(is_asked, field, value) do { if (is_asked) SET(field, value); } while (0)

/* What cannot be had through this library. */
static bool is_unsupported(const job_desc_msg_t *d)
{
    return asks(d->acctg_freq) || asks(d->cluster_features) || asks16(d->cpu_bind_type) || asks(d->cpu_bind) || asks32(d->cpu_freq_min) || asks32(d->cpu_freq_max) ||
           asks32(d->cpu_freq_gov) || d->crontab_entry || asks32(d->delay_boot) || d->end_time || d->fed_siblings_active || d->fed_siblings_viable ||
           asks32(d->het_job_offset) || asks32(d->job_id) || asks(d->job_id_str) || asks16(d->mail_type) || asks(d->mcs_label) || asks(d->mem_bind) ||
           asks16(d->mem_bind_type) || asks16(d->plane_size) || asks8(d->power_flags) || (asks32(d->profile) && d->profile != PROFILE_NONE) || asks(d->req_context) ||
           asks(d->selinux_context) || has32(d->site_factor) || d->spank_job_env_size || asks16(d->x11) || asks16(d->boards_per_node) || asks16(d->sockets_per_board) ||
           asks16(d->ntasks_per_board) || (d->bitflags & ~KNOWN_BITS);
}

/* "gres:gpu:3" and "gpu:3": 3 */
static bool per_gpu(const char *list, uint64_t *out)
{
    const char *at = list;

    at += strncmp(at, "gres:", 5) && strncmp(at, "gres/", 5) ? 0 : 5;
    return !strncmp(at, "gpu:", 4) && number_u64(at + 4, out);
}

/* ---- the request -------------------------------------------------------------------------------------------------------------------- */

static int fill_size(const job_desc_msg_t *d, Wire__JobSpec *s)
{
    uint32_t per = asks16(d->cpus_per_task) ? d->cpus_per_task : 1;
    uint64_t n;

    SET_IF(asks32(d->min_nodes), min_nodes, d->min_nodes);
    SET_IF(asks32(d->max_nodes), max_nodes, d->max_nodes);
    SET_IF(asks32(d->num_tasks), ntasks, d->num_tasks);
    SET_IF(asks16(d->cpus_per_task), cpus_per_task, d->cpus_per_task);
    if (asks32(d->min_cpus) && !s->has_ntasks)
        SET(ntasks, (d->min_cpus + per - 1) / per);
    else if (asks32(d->min_cpus) && (uint64_t)s->ntasks * per < d->min_cpus)
        return ESLURM_INVALID_CPU_COUNT;        /* more CPUs than the tasks take: no place in a request */
    if (asks32(d->max_cpus) && d->max_cpus != INFINITE && d->max_cpus < (s->has_ntasks ? (uint64_t)s->ntasks * per : per))
        return ESLURM_INVALID_CPU_COUNT;
    SET_IF(asks16(d->ntasks_per_node), ntasks_per_node, d->ntasks_per_node);
    SET_IF(asks16(d->ntasks_per_socket), ntasks_per_socket, d->ntasks_per_socket);
    SET_IF(asks16(d->ntasks_per_core), ntasks_per_core, d->ntasks_per_core);
    SET_IF(asks16(d->ntasks_per_tres), ntasks_per_gpu, d->ntasks_per_tres);
    SET_IF(asks16(d->sockets_per_node), sockets_per_node, d->sockets_per_node);
    SET_IF(asks16(d->cores_per_socket), cores_per_socket, d->cores_per_socket);
    SET_IF(asks16(d->threads_per_core), threads_per_core, d->threads_per_core);
    SET_IF(asks16(d->pn_min_cpus), min_cpus_node, d->pn_min_cpus);
    SET_IF(asks32(d->pn_min_tmp_disk), tmp_mib, d->pn_min_tmp_disk);
    if (d->pn_min_memory != NO_VAL64 && d->pn_min_memory & MEM_PER_CPU)
        SET(mem_per_cpu_mib, d->pn_min_memory & ~MEM_PER_CPU);
    else
        SET_IF(d->pn_min_memory != NO_VAL64, mem_per_node_mib, d->pn_min_memory);
    if (asks(d->cpus_per_tres)) {
        if (!per_gpu(d->cpus_per_tres, &n) || n > UINT16_MAX)
            return ESLURM_INVALID_TRES;
        SET(cpus_per_gpu, (uint32_t)n);
    }
    if (asks(d->mem_per_tres)) {
        if (!per_gpu(d->mem_per_tres, &n))
            return ESLURM_INVALID_TRES;
        SET(mem_per_gpu_mib, n);
    }
    s->tres_per_job = text(d->tres_per_job);
    s->tres_per_node = text(d->tres_per_node);
    s->tres_per_socket = text(d->tres_per_socket);
    s->tres_per_task = text(d->tres_per_task);
    s->tres_bind = text(d->tres_bind);
    s->tres_freq = text(d->tres_freq);
    return 0;
}

static int fill_rules(const job_desc_msg_t *d, Wire__JobSpec *s, struct arena *a)
{
    SET_IF(has32(d->time_limit), time_limit_min, d->time_limit);
    SET_IF(asks32(d->time_min), time_min_min, d->time_min);
    SET_IF(d->begin_time, begin_wall_s, d->begin_time);
    SET_IF(d->deadline, deadline_wall_s, d->deadline);
    SET_IF(has32(d->priority) && d->priority != INFINITE, priority, d->priority);
    SET_IF(has32(d->nice), nice, (int32_t)(d->nice - NICE_OFFSET));
    SET_IF(has16(d->requeue), requeue, d->requeue != 0);
    SET_IF(asks16(d->contiguous), contiguous, true);
    SET_IF(asks8(d->overcommit), overcommit, true);
    SET_IF(has16(d->kill_on_node_fail), no_kill, d->kill_on_node_fail == 0);
    SET_IF(has16(d->wait_all_nodes), wait_all_nodes, d->wait_all_nodes != 0);
    SET_IF(asks16(d->reboot), reboot, true);
    SET_IF(asks16(d->immediate), immediate, true);
    SET_IF(has16(d->core_spec), core_spec, d->core_spec);
    SET_IF(asks32(d->req_switch), switches, d->req_switch);
    SET_IF(asks32(d->wait4switch), switch_wait_s, d->wait4switch);
    SET_IF(d->bitflags & KILL_INV_DEP, kill_on_invalid_dep, true);
    SET_IF(d->bitflags & NO_KILL_INV_DEP, kill_on_invalid_dep, false);
    SET_IF(d->bitflags & SPREAD_JOB, spread, true);
    SET_IF(d->bitflags & USE_MIN_NODES, use_min_nodes, true);
    if (asks16(d->warn_signal)) {
        SET(warn_signal, d->warn_signal);
        SET(warn_time_s, d->warn_time);
        SET(warn_flags, (d->warn_flags & KILL_JOB_BATCH ? 1u : 0) | (d->warn_flags & KILL_JOB_RESV ? 2u : 0));
        s->signal = arena_printf(a, "%s%u@%u", s->warn_flags == 3 ? "BR:" : s->warn_flags == 2 ? "R:" : s->warn_flags == 1 ? "B:" : "", d->warn_signal, d->warn_time);
    }
    switch (d->shared) {
    case NO_VAL16:        break;
    case JOB_SHARED_NONE: s->exclusive = (char *)(uintptr_t)"exclusive"; break;
    case JOB_SHARED_OK:   s->exclusive = (char *)(uintptr_t)"oversubscribe"; break;
    case JOB_SHARED_USER: s->exclusive = (char *)(uintptr_t)"user"; break;
    case JOB_SHARED_MCS:  s->exclusive = (char *)(uintptr_t)"mcs"; break;
    default:              return ESLURM_NOT_SUPPORTED;
    }
    switch (d->task_dist) {
    case NO_VAL: case 0: case SLURM_DIST_UNKNOWN: break;
    case SLURM_DIST_CYCLIC: s->distribution = (char *)(uintptr_t)"cyclic"; break;
    case SLURM_DIST_BLOCK:  s->distribution = (char *)(uintptr_t)"block"; break;
    default:                return ESLURM_BAD_DIST;
    }
    switch (d->open_mode) {
    case 0:                  break;
    case OPEN_MODE_APPEND:   s->open_mode = (char *)(uintptr_t)"append"; break;
    case OPEN_MODE_TRUNCATE: s->open_mode = (char *)(uintptr_t)"truncate"; break;
    default:                 return EINVAL;
    }
    return 0;
}

static void fill_texts(const job_desc_msg_t *d, Wire__JobSpec *s, struct arena *a)
{
    char host[256] = "", here[PATH_MAX] = "/";
    mode_t mask = umask(0);

    umask(mask);
    if (!getcwd(here, sizeof here))
        strcpy(here, "/");
    gethostname(host, sizeof host - 1);
    s->name = text(d->name);
    s->partition = text(d->partition);
    s->account = text(d->account);
    s->qos = text(d->qos);
    s->comment = text(d->comment);
    s->admin_comment = text(d->admin_comment);
    s->wckey = text(d->wckey);
    s->reservation = text(d->reservation);
    s->licenses = text(d->licenses);
    s->features = text(d->features);
    s->prefer = text(d->prefer);
    s->batch_features = text(d->batch_features);
    s->req_nodes = text(d->req_nodes);
    s->exc_nodes = text(d->exc_nodes);
    s->dependency = text(d->dependency);
    s->array = text(d->array_inx);
    s->network = text(d->network);
    s->container = text(d->container);
    s->burst_buffer = text(d->burst_buffer);
    s->extra = text(d->extra);
    s->mail_user = text(d->mail_user);
    s->std_in = text(d->std_in);
    s->std_out = text(d->std_out);
    s->std_err = text(d->std_err);
    s->work_dir = asks(d->work_dir) ? text(d->work_dir) : arena_copy(a, here);
    s->submit_line = text(d->submit_line);
    s->alloc_node = asks(d->alloc_node) ? text(d->alloc_node) : arena_copy(a, host);
    SET(alloc_sid, has32(d->alloc_sid) ? d->alloc_sid : (uint32_t)getsid(0));
    SET(umask, (uint32_t)mask);
    SET(is_batch, true);
    if (d->argc && d->argv) {
        s->command = text(d->argv[0]);
        s->n_argv = d->argc - 1;
        s->argv = d->argv + 1;
    }
}

static void blob_fill(Wire__Blob *b, const void *data, size_t n, protobuf_c_boolean *has, ProtobufCBinaryData *hash, struct arena *a)
{
    wire__blob__init(b);
    hash->data = arena_alloc(a, 32);
    hash->len = 32;
    crypto_generichash(hash->data, 32, data, n, NULL, 0);
    *has = true;
    b->hash = *hash;
    b->data.data = (uint8_t *)(uintptr_t)data;
    b->data.len = n;
}

/* The number of a refusal, or 0. */
static int spec_fill(const job_desc_msg_t *d, const char *cluster, Wire__JobSpec *s, struct arena *a)
{
    int number;

    if (!asks(d->script))
        return ESLURM_JOB_SCRIPT_MISSING;
    if (!d->environment || !d->env_size)
        return ESLURM_ENVIRONMENT_MISSING;
    if (has32(d->user_id) && d->user_id != geteuid())
        return ESLURM_USER_ID_MISSING;
    if (has32(d->group_id) && d->group_id != getegid())
        return ESLURM_GROUP_ID_MISSING;
    if (asks(d->clusters) && !word_eq(d->clusters, cluster))
        return ESLURM_INVALID_CLUSTER_NAME;
    if (is_unsupported(d))
        return ESLURM_NOT_SUPPORTED;
    if ((number = fill_size(d, s)) || (number = fill_rules(d, s, a)))
        return number;
    fill_texts(d, s, a);
    return 0;
}

static char *environment_join(const job_desc_msg_t *d, size_t *n, struct arena *a)
{
    char *out, *at;

    *n = 0;
    for (uint32_t i = 0; i < d->env_size && d->environment[i]; i++)
        *n += strlen(d->environment[i]) + 1;
    out = at = arena_alloc(a, *n + 1);
    for (uint32_t i = 0; i < d->env_size && d->environment[i]; i++)
        at = stpcpy(at, d->environment[i]) + 1;
    return out;
}

static submit_response_msg_t *response_of(const Wire__SubmitReply *got)
{
    submit_response_msg_t *r = mem_alloc(sizeof *r);
    struct str words;

    r->job_id = got->job_id;
    r->step_id = SLURM_BATCH_SCRIPT;
    if (got->n_warnings) {
        str_init(&words);
        for (size_t i = 0; i < got->n_warnings; i++)
            str_addf(&words, "%s%s", i ? "\n" : "", got->warnings[i]);
        r->job_submit_user_msg = str_take(&words);
    }
    return r;
}

int slurm_submit_batch_job(job_desc_msg_t *desc, submit_response_msg_t **out)
{
    Wire__SubmitRequest r = WIRE__SUBMIT_REQUEST__INIT;
    Wire__JobSpec s = WIRE__JOB_SPEC__INIT;
    Wire__Blob blobs[2], *rows[2] = { &blobs[0], &blobs[1] };
    struct ask k;
    void *reply;
    char *env;
    size_t n;
    int rc;

    if (!desc || !out)
        return refuse(EINVAL);
    *out = NULL;
    if (ask_open(&k) < 0)
        return SLURM_ERROR;
    if ((rc = spec_fill(desc, client_hint(k.client)->cluster, &s, &k.arena)) != 0) {
        rc = refuse(rc);
        goto out;
    }
    env = environment_join(desc, &n, &k.arena);
    blob_fill(&blobs[0], desc->script, strlen(desc->script), &s.has_script_hash, &s.script_hash, &k.arena);
    blob_fill(&blobs[1], env, n, &s.has_env_hash, &s.env_hash, &k.arena);
    r.spec = &s;
    r.n_blobs = 2;
    r.blobs = rows;
    ask_token(&k, &r.token, &r.token_wall_ms);
    rc = ask_call(&k, WIRE__MESSAGE_TYPE__SUBMIT, &r.base, WIRE__MESSAGE_TYPE__SUBMITTED, &wire__submit_reply__descriptor, &reply);
    if (rc == 0)
        *out = response_of(reply);
out:
    ask_close(&k);
    return rc;
}

void slurm_free_submit_response_response_msg(submit_response_msg_t *msg)
{
    if (!msg)
        return;
    free(msg->job_submit_user_msg);
    free(msg);
}
