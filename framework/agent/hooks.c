/* SPDX-License-Identifier: Apache-2.0 */
/* hooks.c - Prolog and Epilog of the site, run by the agent as itself (root), beside its loop.
 *
 * Prolog: before the first step of a job on this node, or with PrologFlags=Alloc when the job is given the node. Launches that come meanwhile are held; a
 * Prolog that fails or is late fails them all, and the report drains the node with Slurm's words. Epilog: once, when the leader has asked for the end of the job
 * and no step of it is left; GONE, which frees the node, is said after it. A cancel waits for a Prolog that runs: half a preparation is worse than one
 * that is undone by the Epilog.
 * That a Prolog has run is remembered on disk (seen.c), so a restarted agent does not run it before the next step. One that was running while the agent was
 * restarted is run again, and so is an Epilog.
 * Where no time is set for them, HOOK_LONGEST_S ends them: a node that hangs for ever helps nobody.
 */
#include <stdlib.h>
#include <string.h>

#include "agent/environment.h"
#include "agent/hooks.h"
#include "agent/spank_node.h"
#include "rpc/programs.h"
#include "state/apply.h"
#include "state/job.h"

#define REMEMBER_MS (30 * 24 * 3600 * INT64_C(1000))

enum hook_phase { PROLOG_RUNS, PROLOG_DONE, PROLOG_FAILED };

struct held { uint32_t step_id; Wire__Launch *launch; struct held *next; };     /* launch NULL: of the extern step, which nothing is started for */
struct hook {                       /* one job's attempt */
    struct identity *node;
    uint32_t job_id, attempt;
    enum hook_phase phase;
    char text[200];
    struct held *held;
};

static struct hook *hook_find(struct agent *a, uint32_t job_id, uint32_t attempt)
{
    return table_get(&a->hooks, step_key(job_id, attempt));
}

static void held_free(struct held *h)
{
    wire__launch__free_unpacked(h->launch, NULL);
    free(h);
}

static void hook_free(struct hook *k)
{
    for (struct held *h = k->held, *next; h; h = next) {
        next = h->next;
        held_free(h);
    }
    free(k);
}

void hooks_forget(struct identity *n, uint32_t job_id, uint32_t attempt)
{
    struct hook *k = hook_find(n->agent, job_id, attempt);

    if (k && k->phase != PROLOG_RUNS) {
        table_del(&n->agent->hooks, step_key(job_id, attempt));
        hook_free(k);
    }
}

static struct programs *programs_of(struct agent *a)
{
    if (!a->programs)
        a->programs = programs_create(a->loop, 1);
    programs_limit(a->programs, a->set->hooks_serial ? 1 : 256);
    return a->programs;
}

void hooks_stop(struct agent *a)
{
    struct hook *k;

    programs_destroy(a->programs);
    a->programs = NULL;
    for (size_t i = 0; (k = table_next(&a->hooks, &i)); )
        hook_free(k);
    table_fini(&a->hooks);
    table_init(&a->hooks);
}

/* ---- the environment ---- */

static void env_set(void *arg, const char *name, const char *value) { environment_set(arg, name, value); }

static void env_devices(struct identity *n, const Wire__JobInfo *job, struct environment *env)
{
    Wire__StepOrder o = WIRE__STEP_ORDER__INIT;
    struct bitmap devices = { 64, NULL };
    uint64_t mask = 0;
    struct str text;

    for (size_t i = 0; i < job->n_allocs; i++)
        if (!strcmp(job->allocs[i]->name, n->name)) {
            environment_setf(env, "SLURM_CPUS_ON_NODE", "%u", job->allocs[i]->cpus);
            for (size_t k = 0; k < job->allocs[i]->n_gres; k++)
                mask |= strcmp(job->allocs[i]->gres[k]->name, "gpu") ? 0 : job->allocs[i]->gres[k]->mask;
        }
    if (!mask)
        return;
    launch_order_gpus(n->agent, &o);
    environment_gpus(env, &o, mask);
    launch_order_free(&o);
    devices.words = &mask;
    str_init(&text);
    bitmap_print(&devices, &text);
    environment_set(env, "SLURM_JOB_GPUS", text.text);
    str_fini(&text);
}

static void env_make(struct identity *n, const Wire__JobInfo *job, bool is_epilog, struct environment *env)
{
    const struct settings *set = n->agent->set;

    environment_init(env);
    environment_set(env, "PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    environment_set(env, "SLURM_CLUSTER_NAME", set->cluster);
    if (set->conf_path)
        environment_set(env, "SLURM_CONF", set->conf_path);
    environment_set(env, "SLURMD_NODENAME", n->name);
    hook_environment(job, is_epilog ? "epilog_slurmd" : "prolog_slurmd", is_epilog, env_set, env);
    env_devices(n, job, env);
    spank_node_environment(set, is_epilog ? "job_epilog" : "job_prolog", env);
}

static bool is_asked(const struct agent *a, const char *patterns)
{
    char *all = spank_node_programs(a->set, patterns);
    bool is = all != NULL;

    free(all);
    return is;
}

/* ---- prolog ---- */

static void refuse(struct hook *k, uint32_t step_id, bool drains)
{
    Wire__Report r = WIRE__REPORT__INIT;

    r.node = (char *)(uintptr_t)k->node->name;
    r.kind = WIRE__REPORT__KIND__LAUNCH_FAILED;
    r.job_id = k->job_id;
    r.has_step_id = r.has_status = r.has_wall_ms = r.has_prolog_failed = r.prolog_failed = 1;
    r.step_id = step_id;
    r.attempt = k->attempt;
    r.status = 1 << 8;
    r.text = k->text;
    r.drain = (char *)(uintptr_t)(drains ? "Prolog error" : NULL);
    r.wall_ms = clock_wall_ms();
    node_report(k->node, &r, NULL, NULL);
}

static void release_step(struct hook *k, struct held *h)
{
    struct agent_step *s = step_find(k->node, k->job_id, h->step_id);
    Wire__Credential *grant;

    if (!s || s->attempt != k->attempt)
        return;
    if (k->phase == PROLOG_FAILED) {
        refuse(k, h->step_id, true);
        step_end(s);
    } else if (s->kill_asked) {
        node_report_text(k->node, WIRE__REPORT__KIND__LAUNCH_FAILED, k->job_id, h->step_id, k->attempt, 9, "ended before it started");
        step_end(s);
    } else if ((grant = wire__credential__unpack(NULL, h->launch->credential.len, h->launch->credential.data))) {
        launch_begin(s, h->launch, grant);
        wire__credential__free_unpacked(grant, NULL);
    }
}

static void prolog_ended(void *arg, const struct programs_end *end)
{
    struct hook *k = arg;
    struct identity *n = k->node;
    struct held *h = k->held;

    k->held = NULL;
    k->phase = end->failed ? PROLOG_FAILED : PROLOG_DONE;
    if (end->failed) {
        snprintf(k->text, sizeof k->text, "%s", end->text);
        log_line(SPUR_LOG_ERROR, "%s: job %u: %s: the node drains", n->name, k->job_id, k->text);
    } else {
        seen_add(&n->agent->seen, k->job_id, SEEN_PROLOG, k->attempt, node_hash(n), clock_wall_ms() + REMEMBER_MS);
    }
    for (struct held *next; h; h = next) {
        next = h->next;
        if (h->launch)
            release_step(k, h);
        else if (k->phase == PROLOG_FAILED)
            refuse(k, h->step_id, true);
        else
            node_report_text(n, WIRE__REPORT__KIND__STARTED, k->job_id, h->step_id, k->attempt, 0, NULL);
        held_free(h);
    }
    steps_endings(n);
}

/* The credential's word on who it is, whatever the description of the job says. */
static void prolog_start(struct hook *k, const Wire__Launch *l, const Wire__Credential *grant)
{
    struct agent *a = k->node->agent;
    Wire__JobInfo none = WIRE__JOB_INFO__INIT, job = l->job ? *l->job : none;
    struct programs_order order = { .what = "Prolog", .timeout_s = a->set->prolog_timeout_s, .done = prolog_ended, .arg = k };
    struct environment env;
    char *all;

    job.job_id = grant->job_id;
    job.uid = grant->uid;
    job.gid = grant->gid;
    if (grant->user)
        job.user = grant->user;
    if (!job.spec)
        job.spec = l->spec;
    env_make(k->node, &job, false, &env);
    order.env = env.vars;
    order.patterns = all = spank_node_programs(a->set, a->set->prolog);
    programs_run(programs_of(a), &order);
    free(all);
    environment_fini(&env);
}

static void hold(struct hook *k, uint32_t step_id, const Wire__Launch *l)
{
    struct held *h = mem_alloc(sizeof *h), **at = &k->held;

    h->step_id = step_id;
    if (l) {
        size_t n = wire__launch__get_packed_size(l);
        uint8_t *bytes = mem_alloc(n + 1);

        wire__launch__pack(l, bytes);
        h->launch = wire__launch__unpack(NULL, n, bytes);
        free(bytes);
    }
    while (*at)
        at = &(*at)->next;
    *at = h;
}

/* The job's record; a Prolog that has not run here is started. */
static struct hook *prolog_of(struct identity *n, const Wire__Launch *l, const Wire__Credential *grant)
{
    struct agent *a = n->agent;
    struct hook *k = hook_find(a, grant->job_id, grant->attempt);

    if (k)
        return k;
    k = mem_alloc(sizeof *k);
    k->node = n;
    k->job_id = grant->job_id;
    k->attempt = grant->attempt;
    table_put(&a->hooks, step_key(k->job_id, k->attempt), k);
    if (seen_has(&a->seen, k->job_id, SEEN_PROLOG, k->attempt, node_hash(n))) {
        k->phase = PROLOG_DONE;
    } else {
        k->phase = PROLOG_RUNS;
        prolog_start(k, l, grant);
    }
    return k;
}

bool hooks_hold(struct agent_step *s, const Wire__Launch *l, const Wire__Credential *grant)
{
    struct identity *n = s->node;
    struct hook *k;

    if (n->agent->is_emulated || (!is_asked(n->agent, n->agent->set->prolog) && !hook_find(n->agent, grant->job_id, grant->attempt)))
        return false;
    k = prolog_of(n, l, grant);
    if (k->phase == PROLOG_DONE)
        return false;
    if (k->phase == PROLOG_FAILED) {
        refuse(k, s->step_id, false);
        step_end(s);
        return true;
    }
    hold(k, s->step_id, l);
    return true;
}

void hooks_alloc(struct identity *n, const Wire__Launch *l, const Wire__Credential *grant)
{
    struct hook *k = n->agent->is_emulated || !is_asked(n->agent, n->agent->set->prolog) ? NULL : prolog_of(n, l, grant);

    if (!k || k->phase == PROLOG_DONE) {
        node_report_text(n, WIRE__REPORT__KIND__STARTED, grant->job_id, STEP_EXTERN, grant->attempt, 0, NULL);
    } else if (k->phase == PROLOG_FAILED) {
        refuse(k, STEP_EXTERN, false);
    } else {
        for (const struct held *h = k->held; h; h = h->next)
            if (!h->launch)
                return;             /* asked for again, by a controller that has not heard yet */
        hold(k, STEP_EXTERN, NULL);
    }
}

/* ---- epilog ---- */

struct epilog { struct identity *node; uint32_t job_id, attempt; };

static void epilog_ended(void *arg, const struct programs_end *end)
{
    struct epilog *p = arg;

    if (end->failed)
        log_line(SPUR_LOG_ERROR, "%s: job %u: %s: the node drains", p->node->name, p->job_id, end->text);
    for (struct ending *e = p->node->endings; e; e = e->next)
        if (e->job_id == p->job_id && e->attempt == p->attempt) {
            e->epilog = EPILOG_DONE;
            e->epilog_failed = end->failed;
        }
    steps_endings(p->node);
    free(p);
}

static void epilog_start(struct identity *n, struct ending *e)
{
    struct agent *a = n->agent;
    Wire__JobInfo none = WIRE__JOB_INFO__INIT;
    struct epilog *p = mem_alloc(sizeof *p);
    struct programs_order order = { .what = "Epilog", .timeout_s = a->set->epilog_timeout_s, .done = epilog_ended, .arg = p };
    struct environment env;
    char *all;

    none.job_id = e->job_id;
    *p = (struct epilog){ n, e->job_id, e->attempt };
    env_make(n, e->job ? e->job : &none, true, &env);
    order.env = env.vars;
    e->epilog = EPILOG_RUNS;
    order.patterns = all = spank_node_programs(a->set, a->set->epilog);
    programs_run(programs_of(a), &order);
    free(all);
    environment_fini(&env);
}

bool hooks_over(struct identity *n, struct ending *e)
{
    const struct hook *k;

    if (n->agent->is_emulated)
        return true;
    for (size_t i = 0; (k = table_next(&n->agent->hooks, &i)); )
        if (k->job_id == e->job_id && k->attempt <= e->attempt && k->phase == PROLOG_RUNS)
            return false;
    if (e->epilog == EPILOG_NONE && is_asked(n->agent, n->agent->set->epilog))
        epilog_start(n, e);
    return e->epilog != EPILOG_RUNS;
}
