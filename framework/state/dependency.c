/* SPDX-License-Identifier: Apache-2.0 */
/* dependency.c - what a pending job waits for: terms parsed once, answered when the job they name starts or ends.
 *
 * An answer is written into the term (DEP_HOLDS, DEP_FAILED) at the moment it is known and never asked again, so forgetting old jobs loses
 * nothing. The index `dependents` leads from a job to those who wait for it; it may name jobs that wait no more: asking them again
 * changes nothing. Terms that hold are dropped from the list, as Slurm shows it. "Ended" means ended and gone from all nodes.
 * Singletons go by the chain of jobs of one user and name: running ones first, then pending ones in order of submission; the first may go.
 */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "state/private.h"

static const struct { const char *word; enum dep_type type; } dep_words[] = {
    { "after", DEP_AFTER }, { "afterany", DEP_AFTERANY }, { "afterok", DEP_AFTEROK }, { "afternotok", DEP_AFTERNOTOK },
    { "aftercorr", DEP_AFTERCORR }, { "singleton", DEP_SINGLETON }, { "afterburstbuffer", DEP_AFTERBURSTBUFFER },
};
enum { DEP_WORDS = sizeof dep_words / sizeof *dep_words };

/* "12", "12_3", "12+5" (minutes, `after` only). */
static int term_parse(const char *text, struct dep_term *t, struct spur_error *err)
{
    char *copy = mem_copy(text), *plus = strchr(copy, '+'), *under;
    bool good = true;

    t->task_id = DEP_TASK_ALL;
    if (plus) {
        *plus = '\0';
        good = t->type == DEP_AFTER && number_u32(plus + 1, &t->delay_min) && t->delay_min <= 366 * 24 * 60;
    }
    under = strchr(copy, '_');
    if (under) {
        *under = '\0';
        if (strcmp(under + 1, "*"))
            good = good && number_u32(under + 1, &t->task_id) && t->task_id < 4000001;
    }
    good = good && number_u32(copy, &t->job_id) && t->job_id;
    free(copy);
    return good ? 0 : spur_fail(err, SPUR_ESYNTAX, "dependency: \"%.60s\" is no job id", text);
}

int dependency_parse(const char *text, struct dep_term **terms, uint32_t *count, bool *any, struct spur_error *err)
{
    bool has_any = strchr(text, '?') != NULL;
    char *copy = mem_copy(text), *cursor = copy, *item;
    struct dep_term *list = NULL;
    uint32_t n = 0, room = 0;
    int rc = 0;

    if (has_any && strchr(text, ','))
        rc = spur_fail(err, SPUR_ESYNTAX, "dependency %.100s: join all terms with ',' (all of them) or all with '?' (any of them)", text);
    while (rc == 0 && (item = word_next(&cursor, has_any ? "?" : ","))) {
        char *colon, *id;
        int type = -1;

        item = word_trim(item);
        colon = strchr(item, ':');
        if (colon)
            *colon = '\0';
        for (int i = 0; i < DEP_WORDS; i++)
            if (word_eq(item, dep_words[i].word))
                type = (int)dep_words[i].type;
        if (type < 0) {
            rc = spur_fail(err, SPUR_ESYNTAX, "dependency: \"%.40s\" is none of after, afterany, afterok, afternotok, aftercorr, singleton", item);
            break;
        }
        if ((type == DEP_SINGLETON) != !colon || (colon && !colon[1])) {
            rc = spur_fail(err, SPUR_ESYNTAX, type == DEP_SINGLETON ? "dependency: %s takes no job id" : "dependency: %s needs a job id, as in afterok:12", item);
            break;
        }
        for (char *ids = colon ? colon + 1 : NULL; rc == 0; ) {
            struct dep_term t = { .type = (uint8_t)type, .task_id = DEP_TASK_ALL };

            if (colon) {
                id = word_next(&ids, ":");
                if (!id)
                    break;
                rc = term_parse(id, &t, err);
                if (rc < 0)
                    break;
            }
            if (n == room)
                list = mem_grow(list, room = room ? 2 * room : 2, sizeof *list);
            list[n++] = t;
            if (!colon)
                break;
        }
    }
    free(copy);
    if (rc < 0) {
        free(list);
        return rc;
    }
    *terms = list;
    *count = n;
    *any = has_any;
    return 0;
}

void dependency_print(const struct state *s, const struct job *j, struct str *out)
{
    for (uint32_t i = 0; i < j->dep_count; i++) {
        const struct dep_term *t = &j->deps[i];
        const struct job *parent = t->job_id ? state_job(s, t->job_id) : NULL;

        if (out->len)
            str_add(out, j->deps_any ? "?" : ",");
        for (int w = 0; w < DEP_WORDS; w++)
            if (dep_words[w].type == t->type)
                str_add(out, dep_words[w].word);
        if (t->job_id)
            str_addf(out, ":%u", t->job_id);
        if (t->task_id != DEP_TASK_ALL)
            str_addf(out, "_%u", t->task_id);
        else if (parent && parent->array_job_id == t->job_id)
            str_add(out, "_*");
        if (t->delay_min)
            str_addf(out, "+%u", t->delay_min);
        str_add(out, t->status == DEP_FAILED ? "(failed)" : "(unfulfilled)");
    }
}

/* ---- jobs of one user with one name ---- */

static uint64_t name_key(const struct job *j)
{
    static const uint8_t key[crypto_shorthash_KEYBYTES] = "spur name chains";   /* chains compare names; the key decides nothing people can see */
    char text[300];
    uint8_t hash[crypto_shorthash_BYTES];
    uint64_t n;

    snprintf(text, sizeof text, "%u:%s", j->uid, j->name ? j->name : "");
    crypto_shorthash(hash, (const uint8_t *)text, strlen(text), key);
    memcpy(&n, hash, sizeof n);
    return n;
}

static bool same_name(const struct job *a, const struct job *b)
{
    return a->uid == b->uid && !strcmp(a->name ? a->name : "", b->name ? b->name : "");
}

/* head->name_prev is the last of the chain; the last's name_next is NULL. */
void name_enter(struct state *s, struct job *j)
{
    uint64_t key = name_key(j);
    struct job *head = table_get(&s->priv->names, key), *after;

    if (!head) {
        j->name_prev = j;
        j->name_next = NULL;
        table_put(&s->priv->names, key, j);
        return;
    }
    after = j->state == JOB_PENDING ? head->name_prev : NULL;
    while (after && after->state == JOB_PENDING && after->seq > j->seq)
        after = after == head ? NULL : after->name_prev;
    if (!after) {
        j->name_next = head;
        j->name_prev = head->name_prev;
        head->name_prev = j;
        table_put(&s->priv->names, key, j);
        return;
    }
    j->name_prev = after;
    j->name_next = after->name_next;
    if (after->name_next)
        after->name_next->name_prev = j;
    else
        head->name_prev = j;
    after->name_next = j;
}

void name_leave(struct state *s, struct job *j)
{
    uint64_t key;
    struct job *head;

    if (!j->name_prev)
        return;
    key = name_key(j);
    head = table_get(&s->priv->names, key);
    if (j == head) {
        if (!j->name_next) {
            table_del(&s->priv->names, key);
        } else {
            j->name_next->name_prev = j->name_prev;
            table_put(&s->priv->names, key, j->name_next);
        }
    } else {
        j->name_prev->name_next = j->name_next;
        if (j->name_next)
            j->name_next->name_prev = j->name_prev;
        else
            head->name_prev = j->name_prev;
    }
    j->name_next = j->name_prev = NULL;
}

static bool has_singleton(const struct job *j)
{
    for (uint32_t i = 0; i < j->dep_count; i++)
        if (j->deps[i].type == DEP_SINGLETON)
            return true;
    return false;
}

/* It has started, ended or come back: put it where it belongs and ask the first who waits for its turn. */
void name_moved(struct doing *d, struct job *j)
{
    struct state *s = d->s;

    name_leave(s, j);
    if (job_phase(j) != PHASE_ENDED)
        name_enter(s, j);
    if (!s->priv->has_singletons)
        return;
    for (struct job *k = table_get(&s->priv->names, name_key(j)); k; k = k->name_next)
        if (k->state == JOB_PENDING && same_name(k, j)) {
            if (has_singleton(k))
                list32_add(&d->woken, k->job_id);
            break;
        }
}

static bool singleton_first(const struct state *s, const struct job *j)
{
    for (const struct job *k = table_get(&s->priv->names, name_key(j)); k; k = k->name_next)
        if (k == j || same_name(k, j))
            return k == j;
    return true;
}

/* ---- answers ---- */

struct outcome { bool begun, ended, ok, bad; };

static struct outcome outcome_of(const struct job *parent, uint32_t task)
{
    struct outcome o = { 0 };

    if (parent->array_job_id != parent->job_id) {
        o.ended = job_phase(parent) == PHASE_ENDED;
        o.begun = parent->state != JOB_PENDING || parent->attempt;
        o.ok = o.ended && parent->state == JOB_COMPLETE;
        o.bad = o.ended && !o.ok;
        return o;
    }
    if (task != DEP_TASK_ALL) {
        o.ended = bitmap_test(&parent->array->ended, task);
        o.begun = o.ended || bitmap_test(&parent->array->started, task);
        o.bad = bitmap_test(&parent->array->failed, task);
        o.ok = o.ended && !o.bad;
        return o;
    }
    o.ended = array_complete(parent);
    o.bad = parent->array->failed.bits && !bitmap_empty(&parent->array->failed);
    o.ok = o.ended && !o.bad;
    o.begun = o.ended;
    if (!o.begun && parent->array->started.bits) {
        struct bitmap any;

        bitmap_init(&any, 0);
        bitmap_copy(&any, &parent->array->started);
        if (parent->array->ended.bits)
            bitmap_or(&any, &parent->array->ended);
        o.begun = bitmap_count(&any) >= parent->array->task_count;
        bitmap_fini(&any);
    }
    return o;
}

static bool array_has_task(const struct job *root, uint32_t task)
{
    const struct array *a = root->array;

    return bitmap_test(&a->pending, task) || bitmap_test(&a->started, task) || bitmap_test(&a->ended, task) ||
           (task < a->task_job_count && a->task_job && a->task_job[task]);
}

static void corr_update(struct dep_term *t, const struct job *j, const struct job *parent)
{
    const struct array *p = parent->array;
    struct outcome whole = outcome_of(parent, DEP_TASK_ALL);
    size_t bits = j->array->pending.bits;

    if (t->ok.bits != bits) {
        bitmap_resize(&t->ok, bits);
        bitmap_resize(&t->bad, bits);
    }
    for (size_t i = bitmap_first(&j->array->pending); i < bits; i = bitmap_next(&j->array->pending, i)) {
        bool has = array_has_task(parent, (uint32_t)i);

        if (has ? bitmap_test(&p->ended, i) && !bitmap_test(&p->failed, i) : whole.ok)
            bitmap_set(&t->ok, i);
        else if (has ? bitmap_test(&p->failed, i) : whole.bad)
            bitmap_set(&t->bad, i);
    }
}

/* Looks at the job that the term names. False: nobody knows that job (any more). */
static bool term_ask(struct state *s, const struct job *j, struct dep_term *t)
{
    const struct job *parent;
    struct outcome o;
    uint32_t task = t->task_id;

    if (t->type == DEP_SINGLETON) {
        t->status = singleton_first(s, j) ? DEP_HOLDS : DEP_WAITS;
        return true;
    }
    if (t->status != DEP_WAITS)
        return true;
    parent = state_job(s, t->job_id);
    if (!parent)
        return false;
    if (t->type == DEP_AFTERCORR && task == DEP_TASK_ALL && parent->array_job_id == parent->job_id) {
        if (job_is_task_set(j)) {
            corr_update(t, j, parent);
            return true;
        }
        if (j->array_job_id && array_has_task(parent, j->array_task_id))
            task = j->array_task_id;
    }
    o = outcome_of(parent, task);
    switch ((enum dep_type)t->type) {
    case DEP_AFTER:
        if (o.begun && !t->since_wall_s)
            t->since_wall_s = s->wall_ms / 1000 > 0 ? s->wall_ms / 1000 : 1;
        if (o.begun && !t->delay_min)
            t->status = DEP_HOLDS;
        break;
    case DEP_AFTERANY:
    case DEP_AFTERBURSTBUFFER:
        if (o.ended)
            t->status = DEP_HOLDS;
        break;
    case DEP_AFTEROK:
    case DEP_AFTERCORR:
        if (o.bad || o.ended)
            t->status = o.bad ? DEP_FAILED : DEP_HOLDS;
        break;
    case DEP_AFTERNOTOK:
        if (o.ended)
            t->status = o.bad ? DEP_HOLDS : DEP_FAILED;
        break;
    case DEP_SINGLETON:
        break;
    }
    return true;
}

static bool term_holds(const struct dep_term *t, uint32_t task, int64_t now, int64_t *when)
{
    if (t->status == DEP_HOLDS)
        return true;
    if (t->status == DEP_WAITS && t->type == DEP_AFTER && t->since_wall_s && t->delay_min) {
        int64_t at = t->since_wall_s + 60 * (int64_t)t->delay_min;

        if (now >= at)
            return true;
        if (when && at > *when)
            *when = at;
        return false;
    }
    if (t->type == DEP_AFTERCORR && task != UINT32_MAX && bitmap_test(&t->ok, task))
        return true;
    if (when)
        *when = INT64_MAX;
    return false;
}

static bool term_never(const struct dep_term *t, uint32_t task)
{
    return t->status == DEP_FAILED || (t->type == DEP_AFTERCORR && t->status == DEP_WAITS && task != UINT32_MAX && bitmap_test(&t->bad, task));
}

/* For one task, or for the job when task is UINT32_MAX. */
static bool terms_hold(const struct job *j, uint32_t task, int64_t now, bool *never, int64_t *when)
{
    uint32_t failed = 0, held = 0;
    int64_t latest = 0, earliest = INT64_MAX;

    for (uint32_t i = 0; i < j->dep_count; i++) {
        int64_t at = 0;

        failed += term_never(&j->deps[i], task);
        held += term_holds(&j->deps[i], task, now, &at);
        latest = at > latest ? at : latest;
        earliest = at && at < earliest ? at : earliest;
    }
    if (never)
        *never = j->deps_any ? failed == j->dep_count && failed : failed != 0;
    if (when)
        *when = j->deps_any ? earliest : latest;
    return j->deps_any ? held != 0 || !j->dep_count : held == j->dep_count;
}

bool dependency_task_holds(const struct job *j, uint32_t task, int64_t wall_now_s)
{
    return terms_hold(j, task, wall_now_s, NULL, NULL);
}

static bool has_corr(const struct job *j)
{
    for (uint32_t i = 0; i < j->dep_count; i++)
        if (j->deps[i].type == DEP_AFTERCORR)
            return true;
    return false;
}

bool dependency_holds(const struct job *j, int64_t wall_now_s, bool *never, int64_t *when)
{
    bool all_never = true;

    if (!job_is_task_set(j) || !has_corr(j))
        return terms_hold(j, UINT32_MAX, wall_now_s, never, when);
    *when = INT64_MAX;
    for (size_t t = bitmap_first(&j->array->pending); t < j->array->pending.bits; t = bitmap_next(&j->array->pending, t)) {
        bool task_never;
        int64_t at;

        if (terms_hold(j, (uint32_t)t, wall_now_s, &task_never, &at))
            return *never = false, true;
        all_never &= task_never;
        *when = at < *when ? at : *when;
    }
    *never = all_never;
    return false;
}

/* ---- index ---- */

void dependency_index(struct state *s, struct job *j)
{
    for (uint32_t i = 0; i < j->dep_count; i++) {
        const struct dep_term *t = &j->deps[i];
        struct list32 *l;

        if (t->type == DEP_SINGLETON)
            s->priv->has_singletons = true;
        if (t->type == DEP_SINGLETON || t->status != DEP_WAITS)
            continue;
        l = table_get(&s->priv->dependents, t->job_id);
        if (!l) {
            l = mem_alloc(sizeof *l);
            table_put(&s->priv->dependents, t->job_id, l);
        }
        if (l->count == l->room) {      /* before it grows: forget those who wait no more */
            uint32_t kept = 0;

            for (uint32_t k = 0; k < l->count; k++) {
                const struct job *waits = state_job(s, l->ids[k]);

                if (waits && waits->state == JOB_PENDING && waits->dep_count)
                    l->ids[kept++] = l->ids[k];
            }
            l->count = kept;
        }
        list32_add(l, j->job_id);
    }
}

void dependency_forget(struct state *s, uint32_t job_id)
{
    struct list32 *l = table_del(&s->priv->dependents, job_id);

    if (l)
        list32_fini(l);
    free(l);
}

void dependency_leave(struct job *j)
{
    dep_terms_free(j->deps, j->dep_count);
    j->deps = NULL;
    j->dep_count = 0;
    j->deps_any = false;
}

/* It runs: only its turn among jobs of its name may matter again, should it be requeued. */
void dependency_started(struct job *j)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < j->dep_count; i++) {
        if (j->deps[i].type == DEP_SINGLETON) {
            j->deps[kept++] = j->deps[i];
            continue;
        }
        bitmap_fini(&j->deps[i].ok);
        bitmap_fini(&j->deps[i].bad);
    }
    j->dep_count = kept;
    if (!kept)
        dependency_leave(j);
}

static void wake_dependents(struct doing *d, uint32_t job_id)
{
    const struct list32 *l = table_get(&d->s->priv->dependents, job_id);

    for (uint32_t i = 0; l && i < l->count; i++)
        list32_add(&d->woken, l->ids[i]);
}

void dependency_notify(struct doing *d, struct job *j)
{
    wake_dependents(d, j->job_id);
    if (j->array_job_id && j->array_job_id != j->job_id)
        wake_dependents(d, j->array_job_id);
}

/* Drops what holds: singly when all are needed, the whole list when any is enough. Terms that time or turn may still change stay. */
static void terms_prune(struct job *j)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < j->dep_count; i++) {
        struct dep_term *t = &j->deps[i];
        bool done = t->status == DEP_HOLDS && t->type != DEP_SINGLETON;

        if (done && j->deps_any) {
            dependency_leave(j);
            return;
        }
        if (done) {
            bitmap_fini(&t->ok);
            bitmap_fini(&t->bad);
            continue;
        }
        if (kept != i)
            j->deps[kept] = *t;
        kept++;
    }
    j->dep_count = kept;
    if (!kept)
        dependency_leave(j);
}

/* A set has become one task: what is known of its counterparts is now the whole answer. */
void dependency_narrow(struct job *j)
{
    for (uint32_t i = 0; i < j->dep_count; i++) {
        struct dep_term *t = &j->deps[i];

        if (t->type != DEP_AFTERCORR || t->status != DEP_WAITS)
            continue;
        if (bitmap_test(&t->ok, j->array_task_id))
            t->status = DEP_HOLDS;
        else if (bitmap_test(&t->bad, j->array_task_id))
            t->status = DEP_FAILED;
    }
    terms_prune(j);
}

/* Tasks of a set whose counterparts have failed, when such jobs shall not be kept. */
static void kill_bad_tasks(struct doing *d, struct job *j)
{
    struct job_detail detail = { .reason = REASON_DependencyNeverSatisfied };
    struct bitmap bad;
    struct job *c;

    bitmap_init(&bad, j->array->pending.bits);
    for (size_t t = bitmap_first(&j->array->pending); t < j->array->pending.bits; t = bitmap_next(&j->array->pending, t)) {
        bool never;

        terms_hold(j, (uint32_t)t, 0, &never, NULL);
        if (never)
            bitmap_set(&bad, t);
    }
    if (!bitmap_empty(&bad) && (c = array_split(d->s, j, &bad)))
        job_happens(d, c, JOB_CANCEL_, &detail);
    bitmap_fini(&bad);
}

/* Asks one term anew; true: it has another answer. */
static bool term_changes(struct state *s, const struct job *j, struct dep_term *t)
{
    uint8_t status = t->status;
    int64_t since = t->since_wall_s;
    size_t known = t->ok.bits ? bitmap_count(&t->ok) + bitmap_count(&t->bad) : 0;

    term_ask(s, j, t);
    return t->status != status || t->since_wall_s != since || (t->ok.bits && bitmap_count(&t->ok) + bitmap_count(&t->bad) != known);
}

/* The job's own word counts, then DependencyParameters, then the old place of it. */
bool job_ends_unmet(const struct state *s, const struct job *j)
{
    if (j->kill_invalid_dep || j->keep_invalid_dep)
        return j->kill_invalid_dep;
    return s->config && (config_has_word(s->config, CONF_DependencyParameters, "kill_invalid_depend") ||
                         config_has_word(s->config, CONF_SchedulerParameters, "kill_invalid_depend"));
}

static void job_ask(struct doing *d, struct job *j)
{
    struct state *s = d->s;
    bool changed = false;
    bool kill = job_ends_unmet(s, j), never, held;
    struct job_detail detail = { .reason = REASON_DependencyNeverSatisfied };
    int64_t when;

    if (j->state != JOB_PENDING || !j->dep_count)
        return;
    for (uint32_t i = 0; i < j->dep_count; i++)
        changed |= term_changes(s, j, &j->deps[i]);
    if (!changed)
        return;
    terms_prune(j);
    held = dependency_holds(j, s->wall_ms / 1000, &never, &when);
    if (held && !j->eligible_wall_s)
        j->eligible_wall_s = j->begin_wall_s > s->wall_ms / 1000 ? j->begin_wall_s : s->wall_ms / 1000;
    tell(d, EV_JOB_CHANGED, j);
    if (kill && job_is_task_set(j) && has_corr(j))
        kill_bad_tasks(d, j);
    else if (never && kill)
        job_happens(d, j, JOB_CANCEL_, &detail);
}

void dependency_settle(struct doing *d)
{
    for (uint32_t i = 0; i < d->woken.count; i++) {
        struct job *j = state_job(d->s, d->woken.ids[i]);

        if (j)
            job_ask(d, j);
    }
    d->woken.count = 0;
}

void dependency_enter(struct doing *d, struct job *j)
{
    if (!j->dep_count)
        return;
    dependency_index(d->s, j);
    list32_add(&d->woken, j->job_id);
}

/* Would j wait for itself through these terms? Walks what the named jobs wait for, each once; a job that nobody waits for, as each
 * is when it is submitted, needs no walk: a chain of n submits costs n. */
static bool waits_for(const struct state *s, const struct job *j, const struct dep_term *terms, uint32_t count)
{
    struct table seen;
    struct list32 stack = { 0 };
    bool found = false;

    if (!table_get(&s->priv->dependents, j->job_id) && !(j->array_job_id && table_get(&s->priv->dependents, j->array_job_id))) {
        for (uint32_t i = 0; i < count; i++)
            found |= terms[i].job_id == j->job_id;
        return found;
    }
    table_init(&seen);
    for (uint32_t i = 0; i < count; i++)
        list32_add(&stack, terms[i].job_id);
    while (stack.count && !found) {
        uint32_t id = stack.ids[--stack.count];
        const struct job *k = state_job(s, id);

        if (id == j->job_id || (j->array_job_id && id == j->array_job_id)) {
            found = true;
        } else if (k && !table_get(&seen, id)) {
            table_put(&seen, id, (void *)k);
            for (uint32_t i = 0; i < k->dep_count; i++)
                if (k->deps[i].job_id)
                    list32_add(&stack, k->deps[i].job_id);
        }
    }
    table_fini(&seen);
    list32_fini(&stack);
    return found;
}

/* New dependencies for a pending job, checked against the jobs that are known; the old ones are replaced. */
int dependency_set(struct doing *d, struct job *j, const char *text, struct spur_error *err)
{
    struct state *s = d->s;
    struct dep_term *terms = NULL;
    uint32_t count = 0;
    bool any = false;
    int rc = dependency_parse(text ? text : "", &terms, &count, &any, err);

    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < count; i++) {
        struct dep_term *t = &terms[i];
        const struct job *parent = t->job_id ? state_job(s, t->job_id) : NULL;

        if (t->type == DEP_SINGLETON)
            continue;
        if (!parent) {
            bool issued = t->job_id < s->next_job_id;

            if (issued && (t->type == DEP_AFTER || t->type == DEP_AFTERANY || t->type == DEP_AFTERBURSTBUFFER)) {
                t->status = DEP_HOLDS;      /* it ended so long ago that it is forgotten */
                continue;
            }
            rc = spur_fail(err, SPUR_ENOTFOUND, issued ? "dependency: job %u ended so long ago that its outcome is forgotten here; use afterany:%u or leave it out"
                                                       : "dependency: job %u was never submitted", t->job_id, t->job_id);
            goto refused;
        }
        if (t->task_id != DEP_TASK_ALL && (parent->array_job_id != parent->job_id || !array_has_task(parent, t->task_id))) {
            rc = spur_fail(err, SPUR_ENOTFOUND, "dependency: job %u has no array task %u", t->job_id, t->task_id);
            goto refused;
        }
    }
    if (waits_for(s, j, terms, count)) {
        rc = spur_fail(err, SPUR_EINVAL, "dependency: job %u would wait for itself", j->job_id);
        goto refused;
    }
    dependency_leave(j);
    j->deps = terms;
    j->dep_count = count;
    j->deps_any = any;
    terms_prune(j);
    return 0;

refused:
    dep_terms_free(terms, count);
    return rc;
}
