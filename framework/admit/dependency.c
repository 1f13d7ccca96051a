/* SPDX-License-Identifier: Apache-2.0 */
/* dependency.c - is this dependency one that can come true? Words and numbers are the state's to read; here ids are looked at.
 *
 * An id that was never issued is refused: a job that waits for it would start at once, or never, depending on the word. An id that was issued and is
 * forgotten is fine, as in Slurm. An update may close a circle; a new job cannot.
 */
#include <string.h>

#include "admit/private.h"
#include "base/str.h"

#define DEPENDENCY_MAX (128u << 10)
#define WALK_MAX 10000              /* jobs looked at for a circle */

/* Does `from` wait for `target`, over any number of jobs? */
static bool leads_to(const struct state *s, uint32_t from, uint32_t target, unsigned *budget)
{
    const struct job *j = state_job(s, from);

    if (from == target)
        return true;
    if (!j || *budget == 0)
        return false;
    --*budget;
    for (uint32_t i = 0; j->state == JOB_PENDING && i < j->dep_count; i++)
        if (j->deps[i].type != DEP_SINGLETON && j->deps[i].status == DEP_WAITS && leads_to(s, j->deps[i].job_id, target, budget))
            return true;
    return false;
}

/* "afterok:5," and "afterok:$job:" with an empty variable: the missing job would be waited for by nobody. */
static bool has_empty_term(const char *text)
{
    size_t n = strlen(text);

    for (size_t i = 0; i < n; i++)
        if (strchr(",?:", text[i]) && (i == 0 || i + 1 == n || strchr(",?:", text[i + 1])))
            return true;
    return false;
}

int check_dependency(struct state *s, const char *text, uint32_t job_id, struct admitted *out, struct spur_error *err)
{
    struct dep_term *terms = NULL;
    struct spur_error why = { 0 };
    uint32_t count = 0;
    unsigned budget = WALK_MAX;
    bool any = false;
    int rc = 0;

    if (!text || !*text)
        return 0;
    if (strlen(text) > DEPENDENCY_MAX)
        return deny(out, err, REFUSE_TOO_LONG, "dependency of %zu characters, the limit is %u", strlen(text), DEPENDENCY_MAX);
    if (has_empty_term(text))
        return deny(out, err, REFUSE_DEPENDENCY, "dependency %.100s: a job id or a term is missing beside a separator", text);
    if (dependency_parse(text, &terms, &count, &any, &why) < 0)
        return deny(out, err, REFUSE_DEPENDENCY, "%s", why.text);
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        const struct dep_term *t = &terms[i];
        const struct job *j;

        if (t->type == DEP_SINGLETON)
            continue;
        j = state_job(s, t->job_id);
        if (t->job_id == 0 || t->job_id == job_id || (!j && t->job_id >= s->next_job_id))
            rc = deny(out, err, REFUSE_DEPENDENCY, t->job_id == job_id && job_id ? "job %u would wait for itself" : "job id %u has never been issued", t->job_id);
        else if (t->task_id != DEP_TASK_ALL && j && !(j->array && (t->task_id <= j->array->max)) && !state_array_task(s, t->job_id, t->task_id))
            rc = deny(out, err, REFUSE_DEPENDENCY, "job %u has no task %u", t->job_id, t->task_id);
        else if (job_id && leads_to(s, t->job_id, job_id, &budget))
            rc = deny(out, err, REFUSE_DEPENDENCY_LOOP, "job %u waits for job %u already", t->job_id, job_id);
    }
    dep_terms_free(terms, count);
    return rc;
}
