/* SPDX-License-Identifier: Apache-2.0 */
/* array.c - job arrays: one record and a bit set until tasks start, and the bookkeeping of tasks in the array's own record.
 *
 * A task that starts, or that is changed or cancelled by itself, is split off: it gets a record with a fresh id, and so does a set of tasks
 * that are cancelled or changed together. The last ones take the record they stand in, so the array's own id ends as a task too.
 * The own record outlives its tasks' records: it remembers which have ended and how, so that dependents of any task get their answer.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "state/private.h"

int array_parse(const char *text, uint32_t max_size, struct bitmap *out, uint32_t *limit, struct spur_error *err)
{
    const char *percent = strchr(text, '%');
    char *list = percent ? mem_copy_n(text, (size_t)(percent - text)) : mem_copy(text);
    int rc = 0;

    *limit = 0;
    bitmap_init(out, max_size);
    if (percent && !number_u32(percent + 1, limit))
        rc = spur_fail(err, SPUR_ESYNTAX, "array %.100s: after %% stands how many tasks may run at a time", text);
    else if (bitmap_parse(out, list, err) < 0)
        rc = spur_context(err, "array %.100s (task numbers must be below MaxArraySize=%u)", text, max_size);
    free(list);
    if (rc < 0) {
        bitmap_fini(out);
        return rc;
    }
    bitmap_resize(out, bitmap_last(out) + 1);
    return 0;
}

void array_free(struct array *a)
{
    if (!a)
        return;
    bitmap_fini(&a->pending);
    bitmap_fini(&a->started);
    bitmap_fini(&a->ended);
    bitmap_fini(&a->failed);
    free(a->task_job);
    free(a);
}

struct job *state_array_record(const struct state *s, uint32_t array_job_id, uint32_t task_id)
{
    struct job *root = state_job(s, array_job_id);
    const struct array *a = root && root->array_job_id == root->job_id ? root->array : NULL;

    if (!a)
        return NULL;
    if (a->task_job && task_id < a->task_job_count && a->task_job[task_id])
        return state_job(s, a->task_job[task_id]);
    return bitmap_test(&a->pending, task_id) ? root : NULL;
}

struct job *state_array_task(const struct state *s, uint32_t array_job_id, uint32_t task_id)
{
    struct job *j = state_array_record(s, array_job_id, task_id);

    return j && job_is_task_set(j) && j->state == JOB_PENDING ? NULL : j;
}

struct job *array_split(struct state *s, struct job *j, const struct bitmap *tasks)
{
    struct job *root = job_root(s, j), *c;
    size_t count = bitmap_count(tasks), first = bitmap_first(tasks);
    struct array *a = root->array;
    uint32_t id;

    if (bitmap_equal(tasks, &j->array->pending)) {
        if (count == 1) {
            j->array_task_id = (uint32_t)first;
            dependency_narrow(j);
        }
        return j;
    }
    id = job_next_id(s);
    if (!id)
        return NULL;
    c = job_clone(s, j, id);
    for (uint32_t i = 0; i < c->dep_count; i++)
        if (c->deps[i].type == DEP_SINGLETON)
            c->deps[i].status = DEP_WAITS;      /* its turn comes after the record it was part of */
    if (count == 1) {
        c->array_task_id = (uint32_t)first;
    } else {
        c->array = mem_alloc(sizeof *c->array);
        bitmap_init(&c->array->pending, 0);
        bitmap_copy(&c->array->pending, tasks);
    }
    if (!a->task_job) {
        a->task_job_count = (uint32_t)a->pending.bits;
        a->task_job = mem_array(a->task_job_count, sizeof *a->task_job);
    }
    for (size_t t = first; t < tasks->bits; t = bitmap_next(tasks, t)) {
        if (t < a->task_job_count)
            a->task_job[t] = id;
        bitmap_clear(&j->array->pending, t);
    }
    a->records++;
    s->priv->task_total -= count;
    if (count == 1)
        dependency_narrow(c);
    job_enter(s, c);
    dependency_index(s, c);
    return c;
}

static void tasks_mark(struct bitmap *b, const struct job *j, const struct array *a, bool value)
{
    if (!b->bits)
        bitmap_resize(b, a->pending.bits);
    if (!job_is_task_set(j)) {
        if (j->array_task_id < b->bits)
            value ? bitmap_set(b, j->array_task_id) : bitmap_clear(b, j->array_task_id);
        return;
    }
    value ? bitmap_or(b, &j->array->pending) : bitmap_and_not(b, &j->array->pending);
}

static struct array *array_of(struct state *s, const struct job *j)
{
    struct job *root = j->array_job_id ? job_root(s, j) : NULL;

    return root ? root->array : NULL;
}

void array_task_started(struct state *s, struct job *j)
{
    struct array *a = array_of(s, j);

    if (!a)
        return;
    a->running++;
    tasks_mark(&a->started, j, a, true);
}

void array_task_ended(struct state *s, struct job *j, bool ok)
{
    struct array *a = array_of(s, j);

    if (!a)
        return;
    if (j->alloc_count) {
        assert(a->running);
        a->running--;
    }
    tasks_mark(&a->ended, j, a, true);
    if (!ok)
        tasks_mark(&a->failed, j, a, true);
}

void array_task_requeued(struct state *s, struct job *j, bool was_end)
{
    struct array *a = array_of(s, j);

    if (!a)
        return;
    if (!was_end) {
        assert(a->running);
        a->running--;
        return;
    }
    tasks_mark(&a->ended, j, a, false);
    tasks_mark(&a->failed, j, a, false);
}

bool array_complete(const struct job *root)
{
    return bitmap_count(&root->array->ended) >= root->array->task_count;
}

uint32_t array_next_task(const struct state *s, const struct job *j)
{
    const struct job *root = j->array_job_id ? job_root(s, j) : NULL;
    bool by_task = false;

    if (!job_is_task_set(j) || j->state != JOB_PENDING)
        return UINT32_MAX;
    if (root && root->array && root->array->limit && root->array->running >= root->array->limit)
        return UINT32_MAX;
    for (uint32_t i = 0; i < j->dep_count; i++)
        by_task |= j->deps[i].type == DEP_AFTERCORR;
    for (size_t t = bitmap_first(&j->array->pending); t < j->array->pending.bits; t = bitmap_next(&j->array->pending, t))
        if (!by_task || dependency_task_holds(j, (uint32_t)t, s->wall_ms / 1000))
            return (uint32_t)t;
    return UINT32_MAX;
}

/* The largest number in a list of tasks, so that its bitmap is no larger than it must be. */
static size_t largest_number(const char *list)
{
    uint64_t most = 0, n = 0;

    for (const char *p = list; *p; p++) {
        n = *p >= '0' && *p <= '9' && n < 1u << 30 ? n * 10 + (uint64_t)(*p - '0') : 0;
        most = n > most ? n : most;
    }
    return most;
}

int job_id_parse(const char *text, uint32_t *job_id, struct bitmap *tasks, bool *has_tasks, struct spur_error *err)
{
    enum { TASK_LIMIT = 4000001 };      /* the largest MaxArraySize */
    const char *under = strchr(text, '_');
    char *head = under ? mem_copy_n(text, (size_t)(under - text)) : mem_copy(text), *list, *plus = under ? NULL : strchr(head, '+');
    uint32_t offset = 0;
    size_t len;
    int rc = 0;

    *has_tasks = false;
    if (plus)
        *plus++ = '\0';
    if (!number_u32(head, job_id) || !*job_id || (plus && (!number_u32(plus, &offset) || offset >= HET_MAX || (*job_id += offset) < offset))) {
        free(head);
        return spur_fail(err, SPUR_ESYNTAX, "invalid job id %.100s", text);
    }
    free(head);
    if (!under || !strcmp(under, "_*") || !strcmp(under, "_[*]"))
        return 0;
    len = strlen(under + 1);
    list = under[1] == '[' && len > 2 && under[len] == ']' ? mem_copy_n(under + 2, len - 2) : mem_copy(under + 1);
    if (strchr(list, '%'))
        *strchr(list, '%') = '\0';
    bitmap_init(tasks, largest_number(list) < TASK_LIMIT ? largest_number(list) + 1 : TASK_LIMIT);
    if (bitmap_parse(tasks, list, err) < 0) {
        bitmap_fini(tasks);
        rc = spur_fail(err, SPUR_ESYNTAX, "invalid job id %.100s", text);
    } else {
        bitmap_resize(tasks, bitmap_last(tasks) + 1);
        *has_tasks = true;
    }
    free(list);
    return rc;
}
