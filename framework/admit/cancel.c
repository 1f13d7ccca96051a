/* SPDX-License-Identifier: Apache-2.0 */
/* cancel.c - scancel: which jobs, tasks and steps are meant, which of them are his, and one operation for each.
 *
 * With ids each id gets a row in the reply: 0, or why nothing was done for it; an id that has ended or is another's does not keep
 * the rest from being cancelled. With filters alone the jobs that do not match, or are not his, are simply not meant. With both, filters
 * narrow what the ids name. A job that he may not even see (PrivateData) is answered as one that does not exist.
 * A signal other than KILL changes no state: apply turns it into an event for the nodes.
 */
#include <stdlib.h>
#include <string.h>

#include "admit/private.h"
#include "base/str.h"

#define IDS_MAX 100000u

struct canceller {
    struct state *s;
    const Wire__CancelRequest *r;
    const struct asker *asker;
    Wire__JobsRequest filter;
    bool     has_filter, signal_only;
    bool     het_alone;             /* "12+0": one component is named, not the job */
    struct arena *arena;
    struct admitted *out;
    Wire__DoneReply *reply;
};

static void row_add(Wire__DoneReply *reply, struct arena *a, uint32_t job_id, int code, const char *text, const char *tasks)
{
    Wire__JobResult *row = arena_alloc(a, sizeof *row);

    wire__job_result__init(row);
    row->has_job_id = row->has_code = true;
    row->job_id = job_id;
    row->code = code;
    row->text = arena_copy(a, text);
    row->tasks = arena_copy(a, tasks);
    if ((reply->n_results & (reply->n_results - 1)) == 0) {     /* doubles at powers of two, as op_add */
        Wire__JobResult **rows = arena_alloc(a, (reply->n_results ? reply->n_results * 2 : 1) * sizeof *rows);

        if (reply->n_results)
            memcpy(rows, reply->results, reply->n_results * sizeof *rows);
        reply->results = rows;
    }
    reply->results[reply->n_results++] = row;
}

static void answer(struct canceller *c, uint32_t job_id, int code, const char *text, const char *tasks)
{
    row_add(c->reply, c->arena, job_id, code, text, tasks);
}

/* The row of an id is answered when its operations have been added: they are of the row that comes next. */
static void note_row(struct canceller *c)
{
    size_t n = c->out->op_count;

    if ((n & (n - 1)) == 0) {
        uint32_t *rows = arena_alloc(c->arena, (n ? n * 2 : 1) * sizeof *rows);

        if (n)
            memcpy(rows, c->out->row_of_op, n * sizeof *rows);
        c->out->row_of_op = rows;
    }
    c->out->row_of_op[n] = (uint32_t)c->reply->n_results;
}

void admit_cancelled(const struct admitted *out, const struct op_result *results, size_t n, Wire__DoneReply *reply, struct arena *a)
{
    size_t rows = reply->n_results, i = 0;

    if (n > out->op_count)
        n = out->op_count;
    while (i < n) {
        uint32_t row = out->row_of_op[i];
        const struct op_result *failed = NULL;
        bool any = false;
        size_t first = i;

        if (row >= rows) {                  /* of a filter */
            if (results[i].code < 0 && results[i].code != SPUR_ESTALE)
                row_add(reply, a, out->ops[i]->cancel->job_id, results[i].code, results[i].text, NULL);
            i++;
            continue;
        }
        for (; i < n && out->row_of_op[i] == row; i++)
            if (results[i].code < 0)
                failed = failed ? failed : &results[i];
            else
                any = true;
        if (failed && !any) {
            reply->results[row]->code = failed->code;
            reply->results[row]->text = arena_copy(a, failed->text ? failed->text : spur_code_text(failed->code));
            reply->results[row]->job_id = out->ops[first]->cancel->job_id;
        }
    }
}

static bool may(const struct canceller *c, const struct job *j)
{
    return c->asker->rank >= RANK_OPERATOR || admit_owns_job(j, c->asker->who, c->asker->rank) || admit_coordinates(c->s, j, c->asker->who);
}

static void add(struct canceller *c, uint32_t job_id, const char *tasks, bool has_step, uint32_t step_id)
{
    const Wire__CancelRequest *r = c->r;
    Wire__Op *op = op_new(c->arena, c->asker, r->token, r->has_token, r->token_wall_ms);
    Wire__OpCancel *o = arena_alloc(c->arena, sizeof *o);

    wire__op_cancel__init(o);
    op->cancel = o;
    o->job_id = job_id;
    o->tasks = arena_copy(c->arena, tasks);
    o->has_step_id = has_step;
    o->step_id = step_id;
    o->has_signal_only = o->signal_only = c->signal_only || has_step;      /* a step is ended by its signal; the job goes on */
    o->has_signal = r->has_signal || o->signal_only;
    o->signal = r->has_signal ? r->signal : has_step ? 15 : 9;
    o->has_end_step = o->end_step = has_step && !r->has_signal;
    o->has_batch_only = o->batch_only = r->batch_only || (has_step && step_id == STEP_BATCH);
    o->has_full = o->full = r->full;
    o->has_finish = o->finish = r->finish;
    o->has_status = r->has_status;
    o->status = r->status;
    o->has_het_alone = o->het_alone = c->het_alone;
    note_row(c);
    op_add(c->out, c->arena, op);
}

/* One record that is meant as it stands: a job, a started task, or the tasks of an array that wait. */
static void add_record(struct canceller *c, const struct job *j)
{
    struct str tasks;

    if (!j->array_job_id) {
        add(c, j->job_id, NULL, false, 0);
        return;
    }
    str_init(&tasks);
    if (job_is_task_set(j))
        bitmap_print(&j->array->pending, &tasks);
    else
        str_addf(&tasks, "%u", j->array_task_id);
    add(c, j->array_job_id, tasks.text, false, 0);
    str_fini(&tasks);
}

static bool can_be_signalled(const struct canceller *c, const struct job *j)
{
    return !c->signal_only || (j->state != JOB_PENDING && !job_state_is_end(j->state));
}

static bool step_parse(const char *text, uint32_t *step)
{
    if (word_eq(text, "batch"))
        *step = STEP_BATCH;
    else if (word_eq(text, "extern"))
        *step = STEP_EXTERN;
    else if (word_eq(text, "interactive"))
        *step = STEP_INTERACTIVE;
    else
        return number_u32(text, step);
    return true;
}

/* Tasks of an array that an id names, with filters: each record is judged by itself. */
static unsigned add_narrowed(struct canceller *c, uint32_t array_id, const struct bitmap *tasks, bool has_tasks)
{
    const struct job *j;
    unsigned n = 0;

    for (size_t i = 0; (j = table_next(&c->s->jobs, &i)); ) {
        if (j->array_job_id != array_id || job_state_is_end(j->state) || !can_be_signalled(c, j) || (c->has_filter && !admit_matches(c->s, j, &c->filter)))
            continue;
        if (!has_tasks || (!job_is_task_set(j) && bitmap_test(tasks, j->array_task_id))) {
            add_record(c, j);
            n++;
        } else if (job_is_task_set(j)) {
            struct bitmap both;
            struct str text;

            bitmap_init(&both, 0);
            bitmap_copy(&both, tasks);
            bitmap_resize(&both, j->array->pending.bits);
            bitmap_and(&both, &j->array->pending);
            if (!bitmap_empty(&both)) {
                str_init(&text);
                bitmap_print(&both, &text);
                add(c, array_id, text.text, false, 0);
                str_fini(&text);
                n++;
            }
            bitmap_fini(&both);
        }
    }
    return n;
}

/* A step of a heterogeneous job: in each component that it runs over. */
static bool add_het_step(struct canceller *c, const struct job *leader, uint32_t step_id)
{
    bool any = false;

    for (uint32_t k = 0; k < leader->het_count; k++) {
        const struct job *part = het_part(c->s, leader, k);
        const struct step *st = part ? part->steps : NULL;

        while (st && st->step_id != step_id)
            st = st->next;
        if (!st || st->state != JOB_RUNNING)
            continue;
        c->het_alone = any = true;
        add(c, part->job_id, NULL, true, step_id);
    }
    return any;
}

static void cancel_id(struct canceller *c, const char *id)
{
    struct bitmap tasks = { 0 };
    struct spur_error err = { 0 };
    char *text = mem_copy(id), *dot = strchr(text, '.');
    uint32_t job_id = 0, step_id = 0;
    bool has_tasks = false, is_array;
    const struct job *j;

    bitmap_init(&tasks, 0);
    if (dot)
        *dot++ = '\0';
    if (job_id_parse(text, &job_id, &tasks, &has_tasks, &err) < 0 || (dot && !step_parse(dot, &step_id))) {
        answer(c, job_id, SPUR_EINVAL, err.text[0] ? err.text : "Invalid job id specified", NULL);
        goto out;
    }
    c->het_alone = strchr(text, '+') != NULL;
    j = c->het_alone ? het_named(c->s, text) : state_job(c->s, job_id);
    if (j && j->het_offset && !c->het_alone && config_has_word(c->s->config, CONF_SchedulerParameters, "whole_hetjob"))
        j = het_leader(c->s, j);
    if (j && j->het_job_id)
        job_id = j->job_id;
    if (has_tasks && bitmap_count(&tasks) == 1 && state_array_task(c->s, job_id, (uint32_t)bitmap_first(&tasks)))
        j = state_array_task(c->s, job_id, (uint32_t)bitmap_first(&tasks));
    if (!j || !admit_sees_job(c->s, j, c->asker->who, c->asker->rank)) {
        answer(c, job_id, SPUR_ENOTFOUND, "Invalid job id specified", id);
        goto out;
    }
    if (!may(c, j)) {
        answer(c, job_id, SPUR_EDENIED, "Access/permission denied", id);
        goto out;
    }
    is_array = j->array && j->array_job_id == j->job_id;
    if (is_array && (c->has_filter || has_tasks || c->signal_only) && !dot) {
        if (!add_narrowed(c, job_id, &tasks, has_tasks)) {
            answer(c, job_id, SPUR_ESTALE, "Job/step already completing or completed", id);
            goto out;
        }
    } else if (job_state_is_end(j->state) && !(is_array && j->array->running) && !(j->flags & JOB_FLAG_COMPLETING)) {
        answer(c, job_id, SPUR_ESTALE, "Job/step already completing or completed", id);
        goto out;
    } else if (c->has_filter && !admit_matches(c->s, j, &c->filter)) {
        goto out;
    } else if (dot) {
        const struct step *st = j->steps;

        if (j->het_count && !j->het_offset && !c->het_alone && step_id < STEP_INTERACTIVE && add_het_step(c, j, step_id)) {
            answer(c, job_id, 0, NULL, id);
            goto out;
        }
        if (step_id == STEP_BATCH && j->is_batch) {     /* it has no row of its own: the batch shell is what is meant */
            add(c, j->job_id, NULL, true, step_id);
            answer(c, job_id, 0, NULL, id);
            goto out;
        }
        while (st && st->step_id != step_id)
            st = st->next;
        if (!st || st->state != JOB_RUNNING) {
            answer(c, job_id, SPUR_ESTALE, st ? "Job/step already completing or completed" : "Invalid job id specified", id);
            goto out;
        }
        add(c, j->job_id, NULL, true, step_id);
    } else if (!can_be_signalled(c, j)) {
        answer(c, job_id, SPUR_ESTALE, "Job is pending execution", id);
        goto out;
    } else if (has_tasks) {
        add_record(c, j);
    } else if (c->r->finish && (j->is_batch || !admit_owns_job(j, c->asker->who, RANK_NONE))) {
        answer(c, job_id, SPUR_EDENIED, "Access/permission denied: only the owner of an allocation without a batch script can end it with a status", id);
        goto out;
    } else {
        add(c, job_id, NULL, false, 0);
    }
    answer(c, job_id, 0, NULL, id);
out:
    c->het_alone = false;
    bitmap_fini(&tasks);
    free(text);
}

int admit_cancel(struct state *s, const Wire__CancelRequest *r, const struct spur_identity *who, const struct facts *f, struct arena *a, struct admitted *out,
                 Wire__DoneReply *reply, struct spur_error *err)
{
    struct asker asker = { .who = who, .facts = f, .rank = admit_rank(s, who), .uid = who->uid };
    struct canceller c = { .s = s, .r = r, .asker = &asker, .filter = WIRE__JOBS_REQUEST__INIT, .arena = a, .out = out, .reply = reply };
    const struct job *j;
    int rc;

    if (who->role != SPUR_ROLE_USER || who->uid == UINT32_MAX)
        return deny(out, err, REFUSE_DENIED, "jobs are cancelled by users only");
    if ((rc = check_token(s, r->has_token, r->token, r->token_wall_ms, out, err)) != 0)
        return rc < 0 ? rc : 0;
    if (r->has_signal && (r->signal == 0 || r->signal > 64))
        return deny(out, err, REFUSE_BAD_REQUEST, "signal %u is none", r->signal);
    if (r->n_ids > IDS_MAX)
        return deny(out, err, REFUSE_BAD_REQUEST, "%zu ids in one request, the limit is %u", r->n_ids, IDS_MAX);
    /* KILL ends the job, as scancel without a signal does; to the batch shell or steps alone it is a signal like others. */
    c.signal_only = r->batch_only || (r->has_signal && r->signal != 9);
    c.filter.users = r->users;           c.filter.n_users = r->n_users;
    c.filter.names = r->names;           c.filter.n_names = r->n_names;
    c.filter.partitions = r->partitions; c.filter.n_partitions = r->n_partitions;
    c.filter.states = r->states;         c.filter.n_states = r->n_states;
    c.filter.accounts = r->accounts;     c.filter.n_accounts = r->n_accounts;
    c.filter.nodes = r->nodes;           c.filter.n_nodes = r->n_nodes;
    c.filter.qos = r->qos;               c.filter.n_qos = r->n_qos;
    c.filter.reservations = r->reservations; c.filter.n_reservations = r->n_reservations;
    c.has_filter = r->n_users || r->n_names || r->n_partitions || r->n_states || r->n_accounts || r->n_nodes || r->n_qos || r->n_reservations || r->n_wckeys;
    for (size_t i = 0; i < r->n_ids; i++)
        cancel_id(&c, r->ids[i]);
    if (r->n_ids)
        return 0;
    if (!c.has_filter)
        return deny(out, err, REFUSE_BAD_REQUEST, "no job identification: name ids, or --user, --name, --partition, --state, --account, --nodelist");
    for (size_t i = 0; (j = table_next(&s->jobs, &i)); ) {
        if (job_state_is_end(j->state) || !may(&c, j) || !can_be_signalled(&c, j) || !admit_matches(s, j, &c.filter))
            continue;
        if (j->het_offset && (j->state == JOB_PENDING || admit_matches(s, het_leader(s, j), &c.filter)))
            continue;       /* ends with its first component */
        if (r->n_wckeys) {
            Wire__JobSpec *spec = job_spec(j, a);
            bool match = false;

            for (size_t k = 0; k < r->n_wckeys && !match; k++)
                match = list_names(r->wckeys[k], spec->wckey ? spec->wckey : "");
            if (!match)
                continue;
        }
        add_record(&c, j);
    }
    return 0;
}
