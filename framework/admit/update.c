/* SPDX-License-Identifier: Apache-2.0 */
/* update.c - scontrol update, hold, release, requeue, suspend: may he, and would the job with the new values have been taken at submit?
 *
 * The new values are put into a copy of the job's request, and the checker of submit judges the copy: so a value gets the same verdict
 * both ways. apply then reads the same texts and changes the job. Beyond that an update has rules of its own: what a user may not undo
 * (an administrator's hold) or widen once it runs (the time limit). Keys that are not known here are apply's to take or refuse.
 */
#include <stdlib.h>
#include <string.h>

#include "admit/private.h"
#include "base/duration.h"
#include "base/str.h"

#define IDS_MAX 100000u

struct updater {
    struct state *s;
    const Wire__JobUpdateRequest *r;
    const struct asker *asker;
    struct arena *arena;
    struct admitted *out;
    struct spur_error *err;
    bool het_alone;             /* "12+0": one component is named, not the job */
    Wire__KeyValue **set;       /* as the log shall have it: points in time are Unix seconds */
};

static bool is_moment(const char *key) { return word_eq(key, "Deadline") || word_eq(key, "StartTime") || word_eq(key, "EligibleTime"); }

/* "TimeLimit+=30" means TimeLimit=+30, for whoever looks at it from here on: apply reads it so, and what apply reads is what has to be judged. */
static Wire__KeyValue *signed_key(struct updater *u, Wire__KeyValue *kv)
{
    size_t n = strlen(kv->key);
    char sign = n > 1 ? kv->key[n - 1] : '\0';

    if (sign != '+' && sign != '-')
        return kv;
    kv = arena_copy_bytes(u->arena, kv, sizeof *kv);
    kv->key = arena_printf(u->arena, "%.*s", (int)(n - 1), kv->key);
    kv->value = arena_printf(u->arena, "%c%s", sign, kv->value ? kv->value : "");
    return kv;
}

/* apply knows no time zone and no clock: what a date means is settled here. */
static int settle_moments(struct updater *u)
{
    int64_t now_s = u->asker->facts->wall_ms / 1000, at;
    struct spur_error why = { 0 };

    u->set = arena_alloc(u->arena, (u->r->n_set + 1) * sizeof *u->set);
    for (size_t i = 0; i < u->r->n_set; i++) {
        Wire__KeyValue *kv = signed_key(u, u->r->set[i]);

        u->set[i] = kv;
        if (!is_moment(kv->key))
            continue;
        if (moment_parse(kv->value ? kv->value : "", now_s, &at, &why) < 0)
            return deny(u->out, u->err, REFUSE_TIME_VALUE, "%.40s=%.60s: %s", kv->key, kv->value ? kv->value : "", why.text);
        u->set[i] = arena_copy_bytes(u->arena, kv, sizeof *kv);
        u->set[i]->value = arena_printf(u->arena, "%lld", (long long)at);
    }
    return 0;
}

/* ---- values ---------------------------------------------------------------------------------------------------------------- */
static const struct { const char *key, *field; } text_keys[] = {
    { "Account", "account" }, { "AdminComment", "admin_comment" }, { "BurstBuffer", "burst_buffer" }, { "Comment", "comment" }, { "Dependency", "dependency" },
    { "ExcNodeList", "exc_nodes" }, { "Extra", "extra" }, { "Features", "features" }, { "Feature", "features" }, { "Gres", "tres_per_node" }, { "TresPerNode", "tres_per_node" },
    { "TresPerJob", "tres_per_job" }, { "TresPerTask", "tres_per_task" }, { "TresPerSocket", "tres_per_socket" },
    { "JobName", "name" }, { "Name", "name" }, { "Licenses", "licenses" }, { "MailType", "mail_type" }, { "MailUser", "mail_user" }, { "NodeList", "req_nodes" },
    { "ReqNodeList", "req_nodes" }, { "Partition", "partition" }, { "Prefer", "prefer" }, { "QOS", "qos" }, { "ReservationName", "reservation" },
    { "Reservation", "reservation" }, { "StdErr", "std_err" }, { "StdIn", "std_in" }, { "StdOut", "std_out" }, { "WCKey", "wckey" }, { "WorkDir", "work_dir" },
    { "TresBind", "tres_bind" }, { "TresFreq", "tres_freq" },
};

static bool set_text(Wire__JobSpec *spec, const char *key, const char *value, struct arena *a)
{
    for (size_t i = 0; i < sizeof text_keys / sizeof text_keys[0]; i++) {
        const ProtobufCFieldDescriptor *f;

        if (!word_eq(text_keys[i].key, key))
            continue;
        f = protobuf_c_message_descriptor_get_field_by_name(&wire__job_spec__descriptor, text_keys[i].field);
        *(char **)(void *)((char *)spec + f->offset) = arena_copy(a, value);
        return true;
    }
    return false;
}

static bool set_u32(const char *value, protobuf_c_boolean *has, uint32_t *out)
{
    uint32_t n;

    if (!number_u32(value, &n))
        return false;
    *has = true;
    *out = n;
    return true;
}

static int set_time_limit(struct updater *u, const struct job *j, Wire__JobSpec *spec, const char *value)
{
    char sign = *value == '+' || *value == '-' ? *value : '\0';
    struct spur_error why = { 0 };
    uint32_t minutes, now = j->time_limit_min;

    if (strcmp(value, "-1") == 0)
        sign = '\0';
    if (minutes_parse(value + (sign != '\0'), &minutes, &why) < 0)
        return deny(u->out, u->err, REFUSE_TIME_LIMIT, "TimeLimit=%.60s: %s", value, why.text);
    if (sign && (now == MINUTES_UNLIMITED || now == MINUTES_NOT_SET || minutes == MINUTES_UNLIMITED))
        return deny(u->out, u->err, REFUSE_TIME_LIMIT, "TimeLimit%.60s: the job has no limit to count from", value);
    if (sign == '+')
        minutes = now > MINUTES_NOT_SET - 1 - minutes ? MINUTES_NOT_SET - 1 : now + minutes;
    else if (sign == '-')
        minutes = now > minutes ? now - minutes : 0;
    if (j->state != JOB_PENDING && u->asker->rank < RANK_OPERATOR && minutes > now)
        return deny(u->out, u->err, REFUSE_DENIED, "only operators may raise the time limit of a job that has started");
    spec->has_time_limit_min = true;
    spec->time_limit_min = minutes;
    return 0;
}

static bool set_nodes(Wire__JobSpec *spec, const char *value)
{
    char *text = mem_copy(value), *dash = strchr(text, '-');
    uint32_t least, most;
    bool ok;

    if (dash)
        *dash++ = '\0';
    ok = number_u32(text, &least) && (!dash || number_u32(dash, &most));
    if (ok) {
        spec->has_min_nodes = spec->has_max_nodes = true;
        spec->min_nodes = least;
        spec->max_nodes = dash ? most : least;
    }
    free(text);
    return ok;
}

static int set_value(struct updater *u, const struct job *j, Wire__JobSpec *spec, const char *key, const char *value)
{
    struct spur_error why = { 0 };
    uint64_t mib;
    int64_t at;
    bool ok = true;

    if (set_text(spec, key, value, u->arena))
        return 0;
    if (word_eq(key, "TimeLimit")) {
        return set_time_limit(u, j, spec, value);
    } else if (word_eq(key, "Priority")) {
        ok = set_u32(value, &spec->has_priority, &spec->priority);
        if (ok && j->held_by_admin && spec->priority && u->asker->rank < RANK_OPERATOR)
            return deny(u->out, u->err, REFUSE_DENIED, "job %u is held by an administrator", j->job_id);
    } else if (word_eq(key, "Nice")) {
        int64_t n = 100;

        ok = !*value || number_i64(value, &n);
        if (n > INT32_MAX || n < INT32_MIN + 1)
            return deny(u->out, u->err, REFUSE_NICE, "%.40s", value);
        spec->has_nice = true;
        spec->nice = (int32_t)n;
    } else if (word_eq(key, "NumNodes") || word_eq(key, "ReqNodes")) {
        if (!set_nodes(spec, value))
            return deny(u->out, u->err, REFUSE_NODE_COUNT, "%s=%.60s", key, value);
    } else if (word_eq(key, "CoreSpec")) {
        ok = set_u32(value, &spec->has_core_spec, &spec->core_spec);
    } else if (word_eq(key, "ReqCores")) {
        ok = set_u32(value, &spec->has_cores_per_socket, &spec->cores_per_socket);
    } else if (word_eq(key, "ReqSockets")) {
        ok = set_u32(value, &spec->has_sockets_per_node, &spec->sockets_per_node);
    } else if (word_eq(key, "ReqThreads")) {
        ok = set_u32(value, &spec->has_threads_per_core, &spec->threads_per_core);
    } else if (word_eq(key, "NumTasks") || word_eq(key, "ReqProcs")) {
        ok = set_u32(value, &spec->has_ntasks, &spec->ntasks);
    } else if (word_eq(key, "CPUsPerTask")) {
        ok = set_u32(value, &spec->has_cpus_per_task, &spec->cpus_per_task);
    } else if (word_eq(key, "MinCPUsNode")) {
        ok = set_u32(value, &spec->has_min_cpus_node, &spec->min_cpus_node);
    } else if (word_eq(key, "TasksPerNode")) {
        ok = set_u32(value, &spec->has_ntasks_per_node, &spec->ntasks_per_node);
    } else if (word_eq(key, "MinMemoryNode") || word_eq(key, "MinMemoryCPU")) {
        if (mebibytes_parse(value, &mib, &why) < 0)
            return deny(u->out, u->err, REFUSE_MEMORY, "%s=%.60s: %s", key, value, why.text);
        spec->has_mem_per_node_mib = word_eq(key, "MinMemoryNode");
        spec->mem_per_node_mib = spec->has_mem_per_node_mib ? mib : 0;
        spec->has_mem_per_cpu_mib = !spec->has_mem_per_node_mib;
        spec->mem_per_cpu_mib = spec->has_mem_per_cpu_mib ? mib : 0;
    } else if (is_moment(key)) {
        ok = number_i64(value, &at);
        if (word_eq(key, "Deadline")) {
            spec->has_deadline_wall_s = true;
            spec->deadline_wall_s = at;
        } else {
            spec->has_begin_wall_s = true;
            spec->begin_wall_s = at;
        }
    } else if (word_eq(key, "TimeMin")) {
        if (minutes_parse(value, &spec->time_min_min, &why) < 0)
            return deny(u->out, u->err, REFUSE_TIME_MIN, "%.60s: %s", value, why.text);
        spec->has_time_min_min = true;
    }
    if (!ok)
        return deny(u->out, u->err, REFUSE_BAD_REQUEST, "%.60s=%.60s is not a number", key, value);
    return 0;
}

/* ---- one job --------------------------------------------------------------------------------------------------------------- */
static bool same_words(const char *a, const char *b) { return strcmp(a ? a : "", b ? b : "") == 0; }

static int check_set(struct updater *u, const struct job *j)
{
    const Wire__JobUpdateRequest *r = u->r;
    const Wire__JobSpec *was = job_spec(j, u->arena);
    Wire__JobSpec *spec = arena_copy_bytes(u->arena, was, sizeof *spec);
    int rc;

    if (job_state_is_end(j->state)) {
        /* Notes may still be written on an ended job. */
        for (size_t i = 0; i < r->n_set; i++)
            if (!word_eq(r->set[i]->key, "Comment") && !word_eq(r->set[i]->key, "AdminComment") && !word_eq(r->set[i]->key, "Extra"))
                return deny(u->out, u->err, REFUSE_JOB_DONE, NULL);
    }
    /* The record may have moved on from what was asked at submit: judge against what holds now. */
    spec->partition = arena_copy(u->arena, j->partition);
    ((Wire__JobSpec *)(uintptr_t)was)->partition = spec->partition;
    for (size_t i = 0; i < r->n_set; i++)
        if ((rc = set_value(u, j, spec, u->set[i]->key, u->set[i]->value ? u->set[i]->value : "")) < 0)
            return rc;
    if ((!same_words(spec->account, was->account) || !same_words(spec->partition, was->partition)) && (rc = check_account(u->s, j->user, spec, u->arena, u->out, u->err)) < 0)
        return rc;
    if ((rc = check_spec(u->s, spec, was, u->asker, u->arena, u->out, u->err)) < 0)
        return rc;
    for (size_t i = 0; i < r->n_set; i++)
        if (word_eq(u->set[i]->key, "Dependency") && (rc = check_dependency(u->s, u->set[i]->value, j->job_id, u->out, u->err)) < 0)
            return rc;
    return 0;
}

static int check_verb(struct updater *u, const struct job *j)
{
    bool operator = u->asker->rank >= RANK_OPERATOR;

    switch (u->r->verb) {
    case WIRE__JOB_UPDATE_REQUEST__VERB__SET:
        return check_set(u, j);
    case WIRE__JOB_UPDATE_REQUEST__VERB__RELEASE:
        if (j->held_by_admin && !operator)
            return deny(u->out, u->err, REFUSE_DENIED, "job %u is held by an administrator", j->job_id);
        break;
    case WIRE__JOB_UPDATE_REQUEST__VERB__SUSPEND:
    case WIRE__JOB_UPDATE_REQUEST__VERB__RESUME:
        if (!operator)
            return deny(u->out, u->err, REFUSE_DENIED, "only operators suspend and resume jobs");
        break;
    case WIRE__JOB_UPDATE_REQUEST__VERB__TOP:
        return deny(u->out, u->err, REFUSE_DISABLED, "scontrol top is not supported yet");
    default:
        break;
    }
    if (job_state_is_end(j->state) && u->r->verb != WIRE__JOB_UPDATE_REQUEST__VERB__REQUEUE && u->r->verb != WIRE__JOB_UPDATE_REQUEST__VERB__REQUEUE_HOLD)
        return deny(u->out, u->err, REFUSE_JOB_DONE, NULL);
    return 0;
}

static int update_job(struct updater *u, const struct job *j, uint32_t job_id, const char *tasks)
{
    Wire__OpUpdate *o;
    Wire__Op *op;
    int rc;

    if (u->asker->rank < RANK_OPERATOR && !admit_owns_job(j, u->asker->who, u->asker->rank) && !admit_coordinates(u->s, j, u->asker->who))
        return deny(u->out, u->err, REFUSE_DENIED, "job %u is another user's", job_id);
    if ((rc = check_verb(u, j)) < 0)
        return rc;
    for (uint32_t k = 1; k < j->het_count && !j->het_offset && !u->het_alone; k++) {
        const struct job *part = het_part(u->s, j, k);

        if (part && u->r->verb == WIRE__JOB_UPDATE_REQUEST__VERB__SET && (rc = check_verb(u, part)) < 0)
            return spur_context(u->err, "component %u", k);
    }
    op = op_new(u->arena, u->asker, u->r->token, u->r->has_token, u->r->token_wall_ms);
    op->update = o = arena_alloc(u->arena, sizeof *o);
    wire__op_update__init(o);
    o->job_id = job_id;
    o->tasks = arena_copy(u->arena, tasks);
    o->verb = u->r->verb;
    o->set = u->set;
    o->n_set = u->r->n_set;
    o->has_by_admin = true;
    o->by_admin = u->asker->rank >= RANK_OPERATOR;
    o->has_het_alone = o->het_alone = u->het_alone;
    op_add(u->out, u->arena, op);
    return 0;
}

static int update_id(struct updater *u, const char *id)
{
    struct bitmap tasks = { 0 };
    struct spur_error why = { 0 };
    struct str text;
    uint32_t job_id = 0;
    bool has_tasks = false;
    const struct job *j;
    int rc;

    bitmap_init(&tasks, 0);
    str_init(&text);
    if (job_id_parse(id, &job_id, &tasks, &has_tasks, &why) < 0) {
        rc = deny(u->out, u->err, REFUSE_JOB_UNKNOWN, "%.60s", id);
        goto out;
    }
    u->het_alone = strchr(id, '+') != NULL;
    j = u->het_alone ? het_named(u->s, id) : state_job(u->s, job_id);
    if (j && j->het_offset && !u->het_alone && config_has_word(u->s->config, CONF_SchedulerParameters, "whole_hetjob") &&
        (u->r->verb == WIRE__JOB_UPDATE_REQUEST__VERB__HOLD || u->r->verb == WIRE__JOB_UPDATE_REQUEST__VERB__UHOLD || u->r->verb == WIRE__JOB_UPDATE_REQUEST__VERB__RELEASE))
        j = het_leader(u->s, j);
    if (j && j->het_job_id)
        job_id = j->job_id;
    if (has_tasks && bitmap_count(&tasks) == 1 && state_array_task(u->s, job_id, (uint32_t)bitmap_first(&tasks)))
        j = state_array_task(u->s, job_id, (uint32_t)bitmap_first(&tasks));
    if (!j || !admit_sees_job(u->s, j, u->asker->who, u->asker->rank)) {
        rc = deny(u->out, u->err, REFUSE_JOB_UNKNOWN, "%.60s", id);
        goto out;
    }
    if (has_tasks)
        bitmap_print(&tasks, &text);
    rc = update_job(u, j, job_id, has_tasks ? text.text : NULL);
out:
    str_fini(&text);
    bitmap_fini(&tasks);
    return rc;
}

/* Commas between ids; those in brackets belong to an id: "12_[1,3],14". */
static char *next_id(char **cursor)
{
    char *start = *cursor, *p;
    bool inside = false;

    while (start && *start == ',')
        start++;
    if (!start || !*start)
        return NULL;
    for (p = start; *p && (inside || *p != ','); p++)
        inside = *p == '[' || (inside && *p != ']');
    *cursor = *p ? p + 1 : NULL;
    *p = '\0';
    return start;
}

int admit_job_update(struct state *s, const Wire__JobUpdateRequest *r, const struct spur_identity *who, const struct facts *f, struct arena *a, struct admitted *out, struct spur_error *err)
{
    struct asker asker = { .who = who, .facts = f, .rank = admit_rank(s, who), .uid = who->uid };
    struct updater u = { .s = s, .r = r, .asker = &asker, .arena = a, .out = out, .err = err };
    char *cursor = arena_copy(a, r->ids ? r->ids : ""), *id;
    const struct job *j;
    size_t n = 0;
    int rc;

    if (who->role != SPUR_ROLE_USER || who->uid == UINT32_MAX)
        return deny(out, err, REFUSE_DENIED, "jobs are changed by users only");
    if ((rc = check_token(s, r->has_token, r->token, r->token_wall_ms, out, err)) != 0)
        return rc < 0 ? rc : 0;
    if (r->n_set > 256)
        return deny(out, err, REFUSE_TOO_LONG, "%zu values in one update, the limit is 256", r->n_set);
    for (size_t i = 0; i < r->n_set; i++)
        if (strlen(r->set[i]->key) > 64 || (r->set[i]->value && strlen(r->set[i]->value) > (128u << 10)))
            return deny(out, err, REFUSE_TOO_LONG, "%.64s has a value of %zu characters", r->set[i]->key, r->set[i]->value ? strlen(r->set[i]->value) : 0);
    if ((rc = settle_moments(&u)) < 0)
        return rc;
    while ((id = next_id(&cursor))) {
        if (++n > IDS_MAX)
            return deny(out, err, REFUSE_TOO_LONG, "more than %u ids in one request", IDS_MAX);
        if ((rc = update_id(&u, id)) < 0)
            return rc;
    }
    if (n || !r->job_name || !*r->job_name)
        return n ? 0 : deny(out, err, REFUSE_JOB_UNKNOWN, "no job is named");
    for (size_t i = 0; (j = table_next(&s->jobs, &i)); ) {
        if (job_state_is_end(j->state) || !j->name || strcmp(j->name, r->job_name) || (j->uid != who->uid && asker.rank < RANK_OPERATOR))
            continue;
        if (j->array_job_id && j->array_job_id != j->job_id && state_job(s, j->array_job_id))
            continue;       /* comes with its array */
        if (j->het_offset && het_leader(s, j)->name && !strcmp(het_leader(s, j)->name, r->job_name))
            continue;
        if ((rc = update_job(&u, j, j->job_id, NULL)) < 0)
            return rc;
        n++;
    }
    return n ? 0 : deny(out, err, REFUSE_JOB_UNKNOWN, "no job of that name (%.64s)", r->job_name);
}
