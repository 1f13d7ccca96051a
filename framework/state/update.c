/* SPDX-License-Identifier: Apache-2.0 */
/* update.c - what people change about a job: hold, release, requeue, and the keywords of `scontrol update job`.
 *
 * Who may change what was decided by admit; here stands whether it can be. Points in time come as Unix seconds, for apply knows no time
 * zone. A change of one task, or of some, of an array splits them off as a record of their own. A request is gone through twice, the first
 * time as a trial, so that one bad keyword changes nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "state/private.h"
#include "wire/unpack.h"

struct change {
    struct doing *d;
    struct job *j;
    Wire__JobSpec *spec;        /* copy in the arena: what will be packed again */
    struct arena *arena;
    const char *key, *value;
    bool by_admin, trial;       /* trial: see whether it can be, leave the record alone */
    struct spur_error *err;
};

static int bad(struct change *c, const char *wanted)
{
    return spur_fail(c->err, SPUR_EINVAL, "%.40s=%.60s: %s", c->key, c->value, wanted);
}

static int set_text(struct change *c, char **field)
{
    *field = *c->value ? arena_copy(c->arena, c->value) : NULL;
    return 0;
}

static int set_count(struct change *c, uint32_t *out)
{
    return number_u32(c->value, out) ? 0 : bad(c, "not a number");
}

static int set_flag(struct change *c, protobuf_c_boolean *has, protobuf_c_boolean *out)
{
    bool yes = word_eq(c->value, "yes") || word_eq(c->value, "1") || word_eq(c->value, "true");

    if (!yes && !word_eq(c->value, "no") && !word_eq(c->value, "0") && !word_eq(c->value, "false"))
        return bad(c, "neither yes nor no");
    *has = 1;
    *out = yes;
    return 0;
}

static int set_memory(struct change *c, bool by_cpu)
{
    uint64_t mib;

    if (mebibytes_parse(c->value, &mib, c->err) < 0)
        return c->err->code;
    c->spec->has_mem_per_node_mib = !by_cpu;
    c->spec->has_mem_per_cpu_mib = by_cpu;
    *(by_cpu ? &c->spec->mem_per_cpu_mib : &c->spec->mem_per_node_mib) = mib;
    return 0;
}

static int set_seconds(struct change *c, int64_t *out)
{
    return number_i64(c->value, out) && *out >= 0 ? 0 : bad(c, "not a point in time (Unix seconds)");
}

/* ---- keywords that also stand in the record ---- */

/* TimeLimit=5, TimeLimit=+5, TimeLimit=-5; also of a running job. */
static int set_time_limit(struct change *c)
{
    const char *text = c->value;
    uint32_t minutes, old = c->j->time_limit_min;
    bool more = *text == '+', less = *text == '-' && text[1] && strcmp(text, "-1");

    if (minutes_parse(text + (more || less), &minutes, c->err) < 0)
        return c->err->code;
    if (more || less) {
        if (old >= MINUTES_NOT_SET || minutes >= MINUTES_NOT_SET)
            return bad(c, "there is no present limit to add to or take from");
        if (less && minutes >= old)
            return bad(c, "that would leave no time");
        minutes = more ? old + minutes : old - minutes;
    }
    if (!minutes)
        return bad(c, "a job needs at least a minute");
    c->spec->has_time_limit_min = 1;
    c->spec->time_limit_min = minutes;
    return 0;
}

static int set_priority(struct change *c)
{
    uint32_t n;

    if (!number_u32(c->value, &n))
        return bad(c, "not a number");
    if (c->trial)
        return 0;
    if (!n) {
        *(c->by_admin ? &c->j->held_by_admin : &c->j->held_by_user) = true;
        return 0;
    }
    c->j->held_by_admin = c->j->held_by_user = false;
    c->j->has_priority_set = true;
    c->j->priority = n;
    c->j->nice = c->spec->nice = 0;
    return 0;
}

static int set_nice(struct change *c)
{
    int64_t n = 100;

    if (*c->value && (!number_i64(c->value, &n) || n > 2147483645 || n < -2147483645))
        return bad(c, "not a number from -2147483645 to 2147483645");
    c->spec->has_nice = 1;
    c->spec->nice = (int32_t)n;
    return 0;
}

static int set_partition(struct change *c)
{
    char *copy = arena_copy(c->arena, c->value), *name;

    if (!*c->value)
        return bad(c, "a partition's name is needed");
    while ((name = word_next(&copy, ",")))
        if (!config_partition_find(c->d->s->config, name))
            return spur_fail(c->err, SPUR_ENOTFOUND, "partition %.60s does not exist", name);
    return set_text(c, &c->spec->partition);
}

static int set_nodes(struct change *c)
{
    char *copy = arena_copy(c->arena, c->value), *dash = strchr(copy, '-');
    uint32_t low, high;

    if (dash)
        *dash++ = '\0';
    if (!number_u32(copy, &low) || !low)
        return bad(c, "not a number of nodes, as in 2 or 2-4");
    high = low;
    if (dash && (!number_u32(dash, &high) || high < low))
        return bad(c, "not a number of nodes, as in 2 or 2-4");
    c->spec->has_min_nodes = c->spec->has_max_nodes = 1;
    c->spec->min_nodes = low;
    c->spec->max_nodes = high;
    return 0;
}

static int set_node_list(struct change *c, char **field)
{
    struct hostlist *list = NULL;
    int rc = hostlist_parse(c->value, &list, c->err);

    for (size_t i = 0; rc == 0 && i < hostlist_count(list); i++)
        if (!state_node(c->d->s, hostlist_nth(list, i)))
            rc = spur_fail(c->err, SPUR_ENOTFOUND, "node %.64s is not in the configuration", hostlist_nth(list, i));
    hostlist_destroy(list);
    return rc < 0 ? rc : set_text(c, field);
}

static int set_gres(struct change *c, char **field)
{
    struct tres_row *rows = NULL;
    size_t count = 0;

    if (tres_parse(c->value, &rows, &count, c->err) < 0)
        return c->err->code;
    tres_free(rows, count);
    return set_text(c, field);
}

static int set_throttle(struct change *c)
{
    struct job *root = job_root(c->d->s, c->j);
    uint32_t n;

    if (!root->array)
        return spur_fail(c->err, SPUR_EINVAL, "job %u is no array", c->j->job_id);
    if (!number_u32(c->value, &n))
        return bad(c, "not a number of tasks");
    if (!c->trial)
        root->array->limit = n;
    return 0;
}

static int set_switches(struct change *c)
{
    char *copy = arena_copy(c->arena, c->value), *at = strchr(copy, '@');
    uint32_t n, wait = 0;

    if (at)
        *at++ = '\0';
    if (!number_u32(copy, &n) || (at && seconds_parse(at, &wait, c->err) < 0))
        return bad(c, "not a number of switches, as in 1 or 1@60");
    c->spec->has_switches = 1;
    c->spec->switches = n;
    c->spec->has_switch_wait_s = at != NULL;
    c->spec->switch_wait_s = wait;
    return 0;
}

static int set_dependency(struct change *c)
{
    struct job trial = *c->j;
    int rc;

    trial.deps = NULL;
    trial.dep_count = 0;
    rc = dependency_set(c->d, c->trial ? &trial : c->j, c->value, c->err);
    if (c->trial)
        dep_terms_free(trial.deps, trial.dep_count);
    if (c->trial || rc < 0)
        return rc;
    c->j->eligible_wall_s = c->j->dep_count ? 0 : c->d->s->wall_ms / 1000;
    dependency_enter(c->d, c->j);
    return set_text(c, &c->spec->dependency);
}

/* ---- the table ---- */

enum kind { TEXT, NUMBER, FLAG, CALL };
#define TEXT_KEY(name, when, field)   { name, when, TEXT,   offsetof(Wire__JobSpec, field), 0 }
#define NUMBER_KEY(name, when, field) { name, when, NUMBER, offsetof(Wire__JobSpec, field), offsetof(Wire__JobSpec, has_##field) }
#define FLAG_KEY(name, when, field)   { name, when, FLAG,   offsetof(Wire__JobSpec, field), offsetof(Wire__JobSpec, has_##field) }
#define CALL_KEY(name, when, number)  { name, when, CALL, number, 0 }
enum when { PENDING_ONLY, ALIVE, ALWAYS };
enum call { CALL_TIME, CALL_PRIORITY, CALL_NICE, CALL_PARTITION, CALL_NODES, CALL_REQ, CALL_EXC, CALL_GRES, CALL_TRES_JOB, CALL_TRES_TASK, CALL_TRES_SOCKET,
            CALL_THROTTLE, CALL_SWITCHES, CALL_DEPENDENCY, CALL_START, CALL_DEADLINE, CALL_REQUEUE, CALL_MEM_CPU, CALL_MEM_NODE, CALL_TMP, CALL_SHARE, CALL_TIME_MIN, CALL_ACCRUE };

static const struct update_key { const char *name; enum when when; enum kind kind; size_t field, has; } keys[] = {
    TEXT_KEY("Account", PENDING_ONLY, account),
    TEXT_KEY("AdminComment", ALWAYS, admin_comment),
    CALL_KEY("ArrayTaskThrottle", ALIVE, CALL_THROTTLE),
    TEXT_KEY("BurstBuffer", PENDING_ONLY, burst_buffer),
    TEXT_KEY("Comment", ALWAYS, comment),
    FLAG_KEY("Contiguous", PENDING_ONLY, contiguous),
    NUMBER_KEY("CoreSpec", PENDING_ONLY, core_spec),
    NUMBER_KEY("CPUsPerTask", PENDING_ONLY, cpus_per_task),
    CALL_KEY("Deadline", PENDING_ONLY, CALL_DEADLINE),
    CALL_KEY("Dependency", PENDING_ONLY, CALL_DEPENDENCY),
    CALL_KEY("EligibleTime", PENDING_ONLY, CALL_START),
    CALL_KEY("ExcNodeList", PENDING_ONLY, CALL_EXC),
    TEXT_KEY("Extra", ALWAYS, extra),
    TEXT_KEY("Features", PENDING_ONLY, features),
    CALL_KEY("Gres", PENDING_ONLY, CALL_GRES),
    TEXT_KEY("JobName", ALIVE, name),
    TEXT_KEY("Licenses", PENDING_ONLY, licenses),
    TEXT_KEY("MailType", ALIVE, mail_type),
    TEXT_KEY("MailUser", ALIVE, mail_user),
    NUMBER_KEY("MinCPUsNode", PENDING_ONLY, min_cpus_node),
    CALL_KEY("MinMemoryCPU", PENDING_ONLY, CALL_MEM_CPU),
    CALL_KEY("MinMemoryNode", PENDING_ONLY, CALL_MEM_NODE),
    CALL_KEY("MinTmpDiskNode", PENDING_ONLY, CALL_TMP),
    TEXT_KEY("Name", ALIVE, name),
    CALL_KEY("Nice", PENDING_ONLY, CALL_NICE),
    CALL_KEY("NumNodes", PENDING_ONLY, CALL_NODES),
    NUMBER_KEY("NumTasks", PENDING_ONLY, ntasks),
    CALL_KEY("OverSubscribe", PENDING_ONLY, CALL_SHARE),
    CALL_KEY("Partition", PENDING_ONLY, CALL_PARTITION),
    TEXT_KEY("Prefer", PENDING_ONLY, prefer),
    CALL_KEY("Priority", PENDING_ONLY, CALL_PRIORITY),
    TEXT_KEY("QOS", PENDING_ONLY, qos),
    NUMBER_KEY("ReqCores", PENDING_ONLY, cores_per_socket),
    CALL_KEY("ReqNodeList", PENDING_ONLY, CALL_REQ),
    CALL_KEY("ReqNodes", PENDING_ONLY, CALL_NODES),
    NUMBER_KEY("ReqProcs", PENDING_ONLY, ntasks),
    NUMBER_KEY("ReqSockets", PENDING_ONLY, sockets_per_node),
    NUMBER_KEY("ReqThreads", PENDING_ONLY, threads_per_core),
    CALL_KEY("Requeue", ALIVE, CALL_REQUEUE),
    TEXT_KEY("ReservationName", PENDING_ONLY, reservation),
    CALL_KEY("ResetAccrueTime", PENDING_ONLY, CALL_ACCRUE),
    CALL_KEY("Shared", PENDING_ONLY, CALL_SHARE),
    CALL_KEY("StartTime", PENDING_ONLY, CALL_START),
    TEXT_KEY("StdErr", PENDING_ONLY, std_err),
    TEXT_KEY("StdIn", PENDING_ONLY, std_in),
    TEXT_KEY("StdOut", PENDING_ONLY, std_out),
    CALL_KEY("Switches", PENDING_ONLY, CALL_SWITCHES),
    NUMBER_KEY("TasksPerNode", PENDING_ONLY, ntasks_per_node),
    CALL_KEY("TimeLimit", ALIVE, CALL_TIME),
    CALL_KEY("TimeMin", PENDING_ONLY, CALL_TIME_MIN),
    TEXT_KEY("TresBind", PENDING_ONLY, tres_bind),
    TEXT_KEY("TresFreq", PENDING_ONLY, tres_freq),
    CALL_KEY("TresPerJob", PENDING_ONLY, CALL_TRES_JOB),
    CALL_KEY("TresPerNode", PENDING_ONLY, CALL_GRES),
    CALL_KEY("TresPerSocket", PENDING_ONLY, CALL_TRES_SOCKET),
    CALL_KEY("TresPerTask", PENDING_ONLY, CALL_TRES_TASK),
    TEXT_KEY("WCKey", PENDING_ONLY, wckey),
    TEXT_KEY("WorkDir", PENDING_ONLY, work_dir),
};

static int change_call(struct change *c, enum call what)
{
    uint64_t mib;
    uint32_t n;

    switch (what) {
    case CALL_TIME: return set_time_limit(c);
    case CALL_PRIORITY: return set_priority(c);
    case CALL_NICE: return set_nice(c);
    case CALL_PARTITION: return set_partition(c);
    case CALL_NODES: return set_nodes(c);
    case CALL_REQ: return set_node_list(c, &c->spec->req_nodes);
    case CALL_EXC: return set_node_list(c, &c->spec->exc_nodes);
    case CALL_GRES: return set_gres(c, &c->spec->tres_per_node);
    case CALL_TRES_JOB: return set_gres(c, &c->spec->tres_per_job);
    case CALL_TRES_TASK: return set_gres(c, &c->spec->tres_per_task);
    case CALL_TRES_SOCKET: return set_gres(c, &c->spec->tres_per_socket);
    case CALL_THROTTLE: return set_throttle(c);
    case CALL_SWITCHES: return set_switches(c);
    case CALL_DEPENDENCY: return set_dependency(c);
    case CALL_START: c->spec->has_begin_wall_s = 1; return set_seconds(c, &c->spec->begin_wall_s);
    case CALL_DEADLINE: c->spec->has_deadline_wall_s = 1; return set_seconds(c, &c->spec->deadline_wall_s);
    case CALL_REQUEUE: return set_flag(c, &c->spec->has_requeue, &c->spec->requeue);
    case CALL_MEM_CPU: return set_memory(c, true);
    case CALL_MEM_NODE: return set_memory(c, false);
    case CALL_TMP:
        if (mebibytes_parse(c->value, &mib, c->err) < 0)
            return c->err->code;
        c->spec->has_tmp_mib = 1;
        c->spec->tmp_mib = mib;
        return 0;
    case CALL_SHARE:
        if (!word_eq(c->value, "yes") && !word_eq(c->value, "no"))
            return bad(c, "neither yes nor no");
        c->spec->exclusive = arena_copy(c->arena, word_eq(c->value, "yes") ? "oversubscribe" : "exclusive");
        return 0;
    case CALL_TIME_MIN:
        if (minutes_parse(c->value, &n, c->err) < 0)
            return c->err->code;
        c->spec->has_time_min_min = 1;
        c->spec->time_min_min = n;
        return 0;
    case CALL_ACCRUE:
        if (c->j->eligible_wall_s && !c->trial)
            c->j->eligible_wall_s = c->d->s->wall_ms / 1000;
        return 0;
    }
    return 0;
}

static int change_one(struct change *c)
{
    const struct update_key *k = NULL;
    uint32_t n;

    for (size_t i = 0; !k && i < sizeof keys / sizeof *keys; i++)
        if (word_eq(keys[i].name, c->key))
            k = &keys[i];
    if (!k)
        return spur_fail(c->err, SPUR_EUNSUPPORTED, "%.60s of a job cannot be changed here", c->key);
    if (k->when == PENDING_ONLY && c->j->state != JOB_PENDING)
        return spur_fail(c->err, SPUR_EINVAL, "%s of job %u can only be changed while it is pending", k->name, c->j->job_id);
    if (k->when == ALIVE && job_state_is_end(c->j->state))
        return spur_fail(c->err, SPUR_ESTALE, "job %u has ended already", c->j->job_id);
    switch (k->kind) {
    case TEXT: return set_text(c, (char **)(void *)((char *)c->spec + k->field));
    case FLAG: return set_flag(c, (protobuf_c_boolean *)(void *)((char *)c->spec + k->has), (protobuf_c_boolean *)(void *)((char *)c->spec + k->field));
    case CALL: return change_call(c, (enum call)k->field);
    case NUMBER:
        if (set_count(c, &n) < 0)
            return c->err->code;
        *(protobuf_c_boolean *)(void *)((char *)c->spec + k->has) = 1;
        *(uint32_t *)(void *)((char *)c->spec + k->field) = n;
        return 0;
    }
    return 0;
}

int job_update_set(struct doing *d, struct job *j, Wire__KeyValue *const *set, size_t n, bool by_admin, struct spur_error *err)
{
    struct state *s = d->s;
    struct arena arena;
    struct change c = { .d = d, .j = j, .arena = &arena, .by_admin = by_admin, .err = err };
    bool running = j->state != JOB_PENDING;
    char *partition = running ? share_more(j->partition) : NULL;
    uint32_t ntasks = j->ntasks, time_limit = j->time_limit_min;
    bool exclusive = j->exclusive, by_time = false;
    int rc = 0;

    arena_init(&arena, 0);
    for (int round = 0; rc == 0 && round < 2; round++) {
        c.trial = round == 0;
        c.spec = job_spec(j, &arena);
        for (size_t i = 0; rc == 0 && i < n; i++) {
            size_t len = strlen(set[i]->key);
            char *key = arena_copy(&arena, set[i]->key);

            c.value = set[i]->value ? set[i]->value : "";
            if (len > 1 && (key[len - 1] == '+' || key[len - 1] == '-')) {      /* "TimeLimit+=30" */
                c.value = arena_printf(&arena, "%c%s", key[len - 1], c.value);
                key[len - 1] = '\0';
            }
            c.key = key;
            by_time |= word_eq(key, "TimeLimit");
            rc = change_one(&c);
        }
    }
    if (rc < 0)
        goto out;
    name_leave(s, j);
    job_take_spec(s, j, c.spec);
    if (running) {      /* where and with what it runs is no wish any more */
        share_drop(s, j->partition);
        j->partition = partition;
        partition = NULL;
        j->ntasks = ntasks;
        j->exclusive = exclusive;
    } else {
        j->part_index = job_part_index(s, j);
    }
    if (!by_time)
        j->time_limit_min = time_limit;
    if (c.spec->has_requeue)
        j->requeue = c.spec->requeue;
    if (j->state == JOB_PENDING && !j->dep_count && !j->held_by_user && !j->held_by_admin)
        j->eligible_wall_s = j->begin_wall_s > s->wall_ms / 1000 ? j->begin_wall_s : j->eligible_wall_s ? j->eligible_wall_s : s->wall_ms / 1000;
    name_moved(d, j);
    tell(d, EV_JOB_CHANGED, j);
out:
    share_drop(s, partition);
    arena_fini(&arena);
    return rc;
}

/* ---- verbs ---- */

static int job_hold(struct doing *d, struct job *j, bool by_admin, struct spur_error *err)
{
    if (j->state != JOB_PENDING)
        return spur_fail(err, job_state_is_end(j->state) ? SPUR_ESTALE : SPUR_EINVAL, "job %u is not pending", j->job_id);
    *(by_admin ? &j->held_by_admin : &j->held_by_user) = true;
    tell(d, EV_JOB_CHANGED, j);
    return 0;
}

static int job_release(struct doing *d, struct job *j, bool by_admin, struct spur_error *err)
{
    if (j->state != JOB_PENDING)
        return spur_fail(err, job_state_is_end(j->state) ? SPUR_ESTALE : SPUR_EINVAL, "job %u is not pending", j->job_id);
    if (j->held_by_admin && !by_admin)
        return spur_fail(err, SPUR_EDENIED, "job %u is held by an administrator", j->job_id);
    j->held_by_user = j->held_by_admin = false;
    j->has_priority_set = false;
    j->priority = 0;
    if (j->reason == REASON_JobHoldMaxRequeue || j->reason == REASON_JobLaunchFailure) {
        j->reason = REASON_None;
        text_set(&j->reason_text, NULL);
    }
    j->launch_fails = 0;
    if (!j->dep_count)
        j->eligible_wall_s = j->begin_wall_s > d->s->wall_ms / 1000 ? j->begin_wall_s : d->s->wall_ms / 1000;
    tell(d, EV_JOB_CHANGED, j);
    return 0;
}

static int job_requeue(struct doing *d, struct job *j, bool hold, struct spur_error *err)
{
    enum job_phase phase = job_phase(j);

    if (j->het_offset)
        return spur_fail(err, SPUR_EINVAL, "Job not heterogeneous job leader: only all of job %u can be requeued", j->het_job_id);
    if (!j->is_batch)
        return spur_fail(err, SPUR_EINVAL, "job %u is no batch job: only those can be requeued", j->job_id);
    if (phase == PHASE_PENDING)
        return hold ? job_hold(d, j, false, err) : spur_fail(err, SPUR_EINVAL, "job %u is pending", j->job_id);
    if (phase == PHASE_COMPLETING)
        return spur_fail(err, SPUR_EBUSY, "job %u is completing: try again when its nodes are empty", j->job_id);
    if (phase == PHASE_ENDED && !j->attempt)
        return spur_fail(err, SPUR_EINVAL, "job %u has never run: submit it again", j->job_id);
    if (hold)
        j->flags |= JOB_FLAG_REQUEUE_HOLD;
    return job_happens(d, j, JOB_REQUEUE_, NULL);
}

static int update_one(struct doing *d, struct job *j, const Wire__OpUpdate *o, struct spur_error *err)
{
    switch (o->verb) {
    case WIRE__JOB_UPDATE_REQUEST__VERB__SET: return job_update_set(d, j, o->set, o->n_set, o->by_admin, err);
    case WIRE__JOB_UPDATE_REQUEST__VERB__HOLD: return job_hold(d, j, o->by_admin, err);
    case WIRE__JOB_UPDATE_REQUEST__VERB__UHOLD: return job_hold(d, j, false, err);
    case WIRE__JOB_UPDATE_REQUEST__VERB__RELEASE: return job_release(d, j, o->by_admin, err);
    case WIRE__JOB_UPDATE_REQUEST__VERB__REQUEUE: return job_requeue(d, j, false, err);
    case WIRE__JOB_UPDATE_REQUEST__VERB__REQUEUE_HOLD: return job_requeue(d, j, true, err);
    case WIRE__JOB_UPDATE_REQUEST__VERB__SUSPEND: return j->het_count ? het_suspend(d, j, false, err) : job_suspend(d, j, err);
    case WIRE__JOB_UPDATE_REQUEST__VERB__RESUME: return j->het_count ? het_suspend(d, j, true, err) : job_resume(d, j, err);
    default: return spur_fail(err, SPUR_EUNSUPPORTED, "top is not supported by this version");
    }
}

void op_update(struct doing *d, const Wire__OpUpdate *o)
{
    struct job **records = NULL, **parts = NULL, *j = state_job(d->s, o->job_id);
    struct spur_error err = { 0 }, first = { 0 };
    bool of_leader = o->verb == WIRE__JOB_UPDATE_REQUEST__VERB__REQUEUE || o->verb == WIRE__JOB_UPDATE_REQUEST__VERB__REQUEUE_HOLD ||
                     o->verb == WIRE__JOB_UPDATE_REQUEST__VERB__SUSPEND || o->verb == WIRE__JOB_UPDATE_REQUEST__VERB__RESUME;     /* all components follow */
    size_t count, done = 0;

    d->result->job_id = o->job_id;
    if (j && j->het_count)
        parts = het_records(d, j, o->het_alone || of_leader, &count);
    else
        count = command_records(d, o->job_id, o->tasks, false, 0, true, &records);
    if (!count && !d->result->code)
        refuse(d, SPUR_ENOTFOUND, ESLURM_INVALID_JOB_ID, o->tasks && *o->tasks ? "job %u has no such array task" : "job %u is not known", o->job_id);
    for (size_t i = 0; i < count; i++) {
        err.code = 0;
        if (update_one(d, parts ? parts[i] : records[i], o, &err) == 0)
            done++;
        else if (!first.code)
            first = err;
    }
    if (j && j->het_offset && of_leader && first.code) {
        refuse(d, first.code, ESLURM_NOT_HET_JOB_LEADER, "%s", first.text);
        return;
    }
    if (parts)
        records = parts;
    if (count && first.code && (!done || count == 1 || first.code != SPUR_ESTALE))     /* tasks that have ended are no failure beside others that were changed */
        refuse(d, first.code, first.code == SPUR_ESTALE ? ESLURM_ALREADY_DONE : first.code == SPUR_EUNSUPPORTED ? ESLURM_NOT_SUPPORTED :
               o->verb == WIRE__JOB_UPDATE_REQUEST__VERB__SUSPEND && records[0]->state == JOB_PENDING ? ESLURM_JOB_PENDING : first.code == SPUR_ELATER ? ESLURM_NODES_BUSY :
               o->verb != WIRE__JOB_UPDATE_REQUEST__VERB__REQUEUE ? 0 : !records[0]->is_batch ? ESLURM_BATCH_ONLY : records[0]->state == JOB_PENDING ? ESLURM_JOB_PENDING : 0, "%s", first.text);
    if (!parts)
        free(records);
}
