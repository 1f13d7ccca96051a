/* SPDX-License-Identifier: Apache-2.0 */
/* taskset.c - which tasks of job arrays were asked for; see taskset.h. Called by squeue and scontrol. */
#include <stdlib.h>
#include <string.h>

#include "cmds/common/taskset.h"
#include "state/apply.h"

#define TASK_MOST 100000000     /* above any array; a number beyond it is no task */

void taskset_init(struct taskset *t) { table_init(&t->by_job); }

int taskset_add(struct taskset *t, const char *id_text, struct spur_error *err)
{
    struct bitmap tasks, *old;
    bool has_tasks = false;
    uint32_t id;

    bitmap_init(&tasks, 0);
    if (job_id_parse(id_text, &id, &tasks, &has_tasks, NULL) < 0) {
        bitmap_fini(&tasks);
        return spur_fail(err, SPUR_EINVAL, "Invalid job id: %.100s", id_text);
    }
    if (!(old = table_get(&t->by_job, id))) {
        old = mem_alloc(sizeof *old);
        bitmap_init(old, 0);
        if (has_tasks)
            bitmap_copy(old, &tasks);
        table_put(&t->by_job, id, old);
    } else if (!has_tasks || !old->bits) {
        bitmap_resize(old, 0);          /* no bits: all of it */
    } else {
        if (old->bits < tasks.bits)
            bitmap_resize(old, tasks.bits);
        else
            bitmap_resize(&tasks, old->bits);
        bitmap_or(old, &tasks);
    }
    bitmap_fini(&tasks);
    return 0;
}

void taskset_fini(struct taskset *t)
{
    struct bitmap *b;

    for (size_t i = 0; (b = table_next(&t->by_job, &i)); ) {
        bitmap_fini(b);
        free(b);
    }
    table_fini(&t->by_job);
}

static const struct bitmap *asked(const struct taskset *t, const Wire__JobInfo *j)
{
    const struct bitmap *b = table_get(&t->by_job, j->array_job_id ? j->array_job_id : j->job_id);

    return b && b->bits ? b : NULL;
}

bool taskset_narrows(const struct taskset *t, const Wire__JobInfo *j) { return j->array_tasks && *j->array_tasks && asked(t, j); }

void taskset_tasks(const struct taskset *t, const Wire__JobInfo *j, struct bitmap *out)
{
    const struct bitmap *some = asked(t, j);
    char *copy = mem_copy(j->array_tasks), *p = copy;
    size_t most = 0;

    copy[strcspn(copy, "%")] = '\0';
    while (*p) {                        /* the set is as large as its largest number */
        size_t n = (size_t)strtoul(p, &p, 10);

        most = n > most ? n : most;
        p += *p != '\0';
    }
    bitmap_init(out, most < TASK_MOST ? most + 1 : 1);
    if (bitmap_parse(out, copy, NULL) < 0)
        bitmap_zero(out);
    for (size_t i = bitmap_first(out); some && i < out->bits; i = bitmap_next(out, i))
        if (!bitmap_test(some, i))
            bitmap_clear(out, i);
    free(copy);
}
