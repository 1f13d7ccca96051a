/* SPDX-License-Identifier: Apache-2.0 */
/* hooks.c - PrologSlurmctld and EpilogSlurmctld: run on the leader, as the controller's own user (SlurmUser), beside its loop.
 *
 * What a job waits for stands in the state (state/hooks.c); here is only what runs. An end goes to the log as an OpHook, and is kept here until it is in, so
 * a full disk or an election delays it and loses nothing. A new leader finds what still waits in the state and runs it again: a PrologSlurmctld or
 * EpilogSlurmctld may run twice for one attempt when the leader was lost meanwhile, and has to bear that.
 */
#include <stdlib.h>
#include <string.h>

#include "controller/ctl.h"
#include "rpc/programs.h"

#define AT_ONCE  64             /* programs that run at the same time; the others wait their turn */
#define AGAIN_MS 2000

struct hook_run {
    struct ctl *c;
    uint32_t job_id, attempt;
    Wire__OpHook__Kind kind;
    uint64_t number;
    bool is_over, is_proposed;
    struct programs_end end;
};

struct hooks { struct programs *programs; struct table runs[2]; };      /* by kind: job and attempt -> struct hook_run */

static uint64_t key_of(uint32_t job_id, uint32_t attempt) { return (uint64_t)job_id << 32 | attempt; }

void hooks_create(struct ctl *c)
{
    c->hooks = mem_alloc(sizeof *c->hooks);
    table_init(&c->hooks->runs[0]);
    table_init(&c->hooks->runs[1]);
}

void hooks_close(struct ctl *c)
{
    if (c->hooks)
        programs_destroy(c->hooks->programs);
    if (c->hooks)
        c->hooks->programs = NULL;
}

void hooks_destroy(struct ctl *c)
{
    struct hook_run *r;

    if (!c->hooks)
        return;
    for (int kind = 0; kind < 2; kind++) {
        for (size_t i = 0; (r = table_next(&c->hooks->runs[kind], &i)); )
            free(r);
        table_fini(&c->hooks->runs[kind]);
    }
    free(c->hooks);
    c->hooks = NULL;
}

/* ---- its end goes to the log ---- */

struct told { uint32_t job_id, attempt; Wire__OpHook__Kind kind; };

static void told(struct ctl *c, void *arg, const struct op_result *results, size_t n, const struct spur_error *err)
{
    const struct told *t = arg;
    struct hook_run *r = c->hooks ? table_get(&c->hooks->runs[t->kind], key_of(t->job_id, t->attempt)) : NULL;

    (void)n; (void)err;
    if (!r)
        return;
    r->is_proposed = false;
    if (results)
        free(table_del(&c->hooks->runs[t->kind], key_of(t->job_id, t->attempt)));
    else if (!c->is_stopping)
        alarm_set(c, AGAIN_MS, ALARM_HOOK, key_of(t->job_id, t->attempt));
}

static void hook_tell(struct ctl *c, struct hook_run *r)
{
    struct arena a;
    Wire__Op **ops, *op;
    struct told *t;

    if (r->is_proposed || c->is_stopping || c->role != SPUR_STORE_LEADER)
        return;                     /* a later leader, this one or another, meets the job as it still is */
    arena_init(&a, 0);
    ops = arena_alloc(&a, sizeof *ops);
    *ops = op = arena_alloc(&a, sizeof *op);
    t = arena_alloc(&a, sizeof *t);
    *t = (struct told){ r->job_id, r->attempt, r->kind };
    wire__op__init(op);
    op->hook = arena_alloc(&a, sizeof *op->hook);
    wire__op_hook__init(op->hook);
    op->hook->job_id = r->job_id;
    op->hook->attempt = r->attempt;
    op->hook->kind = r->kind;
    op->hook->has_failed = op->hook->failed = r->end.failed && r->kind == WIRE__OP_HOOK__KIND__PROLOG;
    if (op->hook->failed)
        op->hook->text = arena_copy(&a, r->end.text);
    r->is_proposed = true;
    propose(c, ops, 1, NULL, &a, told, t);
}

static void hook_ended(void *arg, const struct programs_end *end)
{
    struct hook_run *r = arg;

    r->is_over = true;
    r->end = *end;
    if (end->failed)
        log_line(SPUR_LOG_ERROR, "job %u: %s", r->job_id, end->text);
    hook_tell(r->c, r);
}

void hooks_alarm(struct ctl *c, uint32_t job_id, uint32_t attempt)
{
    for (int kind = 0; kind < 2; kind++) {
        struct hook_run *r = table_get(&c->hooks->runs[kind], key_of(job_id, attempt));

        if (r && r->is_over)
            hook_tell(c, r);
    }
}

/* ---- running ---- */

struct vars { struct arena *arena; char *list[96]; size_t count; };

static void var_set(void *arg, const char *name, const char *value)
{
    struct vars *v = arg;

    if (v->count + 1 < sizeof v->list / sizeof *v->list)
        v->list[v->count++] = arena_printf(v->arena, "%s=%s", name, value);
}

static void hook_run(struct ctl *c, const struct job *j, Wire__OpHook__Kind kind)
{
    bool is_epilog = kind == WIRE__OP_HOOK__KIND__EPILOG;
    const char *patterns = config_text(c->state->config, is_epilog ? CONF_EpilogSlurmctld : CONF_PrologSlurmctld);
    struct hook_run *r = table_get(&c->hooks->runs[kind], key_of(j->job_id, j->attempt));
    struct programs_order order = { .what = is_epilog ? "EpilogSlurmctld" : "PrologSlurmctld", .patterns = patterns ? patterns : "", .done = hook_ended,
                                    .timeout_s = config_hook_timeout_s(c->state->config, is_epilog ? CONF_EpilogTimeout : CONF_PrologTimeout) };
    struct vars vars = { 0 };
    struct arena a;

    if (r) {
        if (r->is_over)
            hook_tell(c, r);
        return;
    }
    r = mem_alloc(sizeof *r);
    *r = (struct hook_run){ .c = c, .job_id = j->job_id, .attempt = j->attempt, .kind = kind };
    table_put(&c->hooks->runs[kind], key_of(j->job_id, j->attempt), r);
    if (!c->hooks->programs)
        c->hooks->programs = programs_create(c->loop, AT_ONCE);
    arena_init(&a, 0);
    vars.arena = &a;
    var_set(&vars, "PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    var_set(&vars, "SLURM_CLUSTER_NAME", config_text(c->state->config, CONF_ClusterName));
    if (c->file_config->path)
        var_set(&vars, "SLURM_CONF", c->file_config->path);
    hook_environment(job_info(c->state, j, ~UINT64_C(0), clock_wall_ms() / 1000, &a), is_epilog ? "epilog_slurmctld" : "prolog_slurmctld", is_epilog, var_set, &vars);
    order.env = vars.list;
    order.arg = r;
    r->number = programs_run(c->hooks->programs, &order);
    arena_fini(&a);
}

bool hooks_alloc_runs(const struct ctl *c)
{
    const char *prolog = config_text(c->state->config, CONF_Prolog);

    return prolog && *prolog && config_has_word(c->state->config, CONF_PrologFlags, "Alloc");
}

bool hooks_started(struct ctl *c, const struct job *j)
{
    bool alloc = hooks_alloc_runs(c);

    if (j->awaits & AWAITS_PROLOG_CTLD) {
        hook_run(c, j, WIRE__OP_HOOK__KIND__PROLOG);
        return true;
    }
    for (uint32_t i = 0; alloc && i < j->alloc_count; i++)
        if (!j->allocs[i].ready && !j->allocs[i].gone)
            effect_prolog(c, j, i);
    return j->awaits != 0;
}

void hooks_killed(struct ctl *c, const struct job *j)
{
    struct hook_run *r = table_get(&c->hooks->runs[WIRE__OP_HOOK__KIND__PROLOG], key_of(j->job_id, j->attempt));

    if (r && !r->is_over)
        programs_stop(c->hooks->programs, r->number);
    if (j->awaits & AWAITS_EPILOG_CTLD)
        hook_run(c, j, WIRE__OP_HOOK__KIND__EPILOG);
}
