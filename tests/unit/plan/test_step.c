/* SPDX-License-Identifier: Apache-2.0 */
/* test_step.c - how an allocation is divided among steps: a table of requests and what each node gets. */
#include <check.h>
#include <string.h>

#include "base/str.h"
#include "rig.h"

static const char conf[] = "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\nGresTypes=gpu\n"
    "NodeName=n[1-3] CPUs=4 RealMemory=1000 Gres=gpu:4\nPartitionName=p Nodes=ALL Default=YES\n";

static void step_spec(struct rig *r, Wire__StepSpec *s, const char *wish)
{
    char *at = arena_copy(&r->arena, wish), *word;

    wire__step_spec__init(s);
    while ((word = word_next(&at, " "))) {
        char *value = strchr(word, '=');
        uint32_t n = 0;

        if (value) {
            *value++ = '\0';
            number_u32(value, &n);
        }
#define SET(key, field) if (strcmp(word, key) == 0) { s->has_##field = true; s->field = n; }
        SET("n", ntasks)
        SET("c", cpus_per_task)
        SET("tpn", ntasks_per_node)
        SET("mem", mem_per_node_mib)
        SET("mpc", mem_per_cpu_mib)
        SET("r", relative)
#undef SET
        if (strcmp(word, "N") == 0) {
            s->has_min_nodes = s->has_max_nodes = true;
            s->min_nodes = s->max_nodes = n;
        }
        if (strcmp(word, "exact") == 0)
            s->has_exact = s->exact = true;
        if (strcmp(word, "overlap") == 0)
            s->has_overlap = s->overlap = true;
        if (strcmp(word, "O") == 0)
            s->has_overcommit = s->overcommit = true;
        if (strcmp(word, "cyclic") == 0)
            s->distribution = arena_copy(&r->arena, "cyclic");
        if (strcmp(word, "w") == 0)
            s->req_nodes = value;
        if (strcmp(word, "x") == 0)
            s->exc_nodes = value;
        if (strcmp(word, "gres") == 0)
            s->tres_per_node = value;
        if (strcmp(word, "gpt") == 0)
            s->tres_per_task = value;
        if (strcmp(word, "G") == 0)
            s->tres_per_step = value;
    }
}

/* "n1:2/4c/500m n2:1/4c/500m": node, tasks, CPUs, memory, and devices when there are any. */
static void describe(Wire__NodeAlloc **allocs, size_t n, struct str *out)
{
    for (size_t i = 0; i < n; i++) {
        str_addf(out, "%s%s:%u/%uc/%um", i ? " " : "", allocs[i]->name, allocs[i]->tasks, allocs[i]->cpus, (unsigned)allocs[i]->mem_mib);
        for (size_t k = 0; k < allocs[i]->n_gres; k++)
            str_addf(out, "/%s=%x", allocs[i]->gres[k]->name, (unsigned)allocs[i]->gres[k]->mask);
    }
}

/* The job: 3 nodes, 4 CPUs, 900 MiB, 2 devices each. `running`: steps that are there already, cut at ';'. */
static const struct { const char *running, *wish, *expected; int code; } rows[] = {
    { "", "n=3", "n1:3/4c/900m/gpu=3", 0 },
    { "", "N=3 n=3", "n1:1/4c/900m/gpu=3 n2:1/4c/900m/gpu=3 n3:1/4c/900m/gpu=3", 0 },
    { "", "N=3 n=4", "n1:2/4c/900m/gpu=3 n2:1/4c/900m/gpu=3 n3:1/4c/900m/gpu=3", 0 },
    { "", "N=2 n=4", "n1:3/4c/900m/gpu=3 n2:1/4c/900m/gpu=3", 0 },
    { "", "N=2 n=4 cyclic", "n1:2/4c/900m/gpu=3 n2:2/4c/900m/gpu=3", 0 },
    { "", "N=2", "n1:1/4c/900m/gpu=3 n2:1/4c/900m/gpu=3", 0 },
    { "", "", "n1:1/4c/900m/gpu=3 n2:1/4c/900m/gpu=3 n3:1/4c/900m/gpu=3", 0 },
    { "", "N=2 tpn=2", "n1:2/4c/900m/gpu=3 n2:2/4c/900m/gpu=3", 0 },
    { "", "n=4 tpn=2", "n1:2/4c/900m/gpu=3 n2:2/4c/900m/gpu=3", 0 },
    { "", "n=12", "n1:4/4c/900m/gpu=3 n2:4/4c/900m/gpu=3 n3:4/4c/900m/gpu=3", 0 },
    { "", "n=13", NULL, SPUR_ENEVER },
    { "", "N=3 n=13 O", "n1:5/4c/900m/gpu=3 n2:5/4c/900m/gpu=3 n3:3/4c/900m/gpu=3", 0 },
    { "", "N=4", NULL, SPUR_ENEVER },
    { "", "n=1 exact", "n1:1/1c/225m/gpu=3", 0 },
    { "", "n=2 c=2", "n1:2/4c/900m/gpu=3", 0 },
    { "", "n=1 c=2", "n1:1/2c/450m/gpu=3", 0 },
    { "", "n=1 exact mem=100", "n1:1/1c/100m/gpu=3", 0 },
    { "", "n=2 exact mpc=50", "n1:2/2c/100m/gpu=3", 0 },
    { "", "n=1 w=n2", "n2:1/4c/900m/gpu=3", 0 },
    { "", "n=1 x=n1", "n2:1/4c/900m/gpu=3", 0 },
    { "", "N=1 n=1 r=2", "n3:1/4c/900m/gpu=3", 0 },
    { "", "n=1 w=n9", NULL, SPUR_ENEVER },
    { "", "n=2 exact gres=gpu:1", "n1:2/2c/450m/gpu=1", 0 },
    { "", "n=2 exact gpt=gpu:1", "n1:2/2c/450m/gpu=3", 0 },
    { "", "n=3 exact gpt=gpu:1", "n1:2/2c/450m/gpu=3 n2:1/1c/225m/gpu=1", 0 },
    { "", "n=1 exact gres=none", "n1:1/1c/225m", 0 },
    { "", "n=1 exact gres=gpu:3", NULL, SPUR_ENEVER },
    { "", "N=2 n=2 exact G=gpu:3", "n1:1/1c/225m/gpu=3 n2:1/1c/225m/gpu=1", 0 },
    { "n=1 exact", "n=1 exact", "n1:1/1c/225m/gpu=3", 0 },
    { "n=1 exact;n=1 exact;n=1 exact", "n=1 exact", "n1:1/1c/225m/gpu=3", 0 },
    { "n=4 exact", "n=1 exact", "n2:1/1c/225m/gpu=3", 0 },
    { "n=1", "n=1", "n2:1/4c/900m/gpu=3", 0 },
    { "N=3", "n=1", NULL, SPUR_ELATER },
    { "N=3", "n=1 overlap", "n1:1/4c/900m/gpu=3", 0 },
    { "N=3 overlap", "n=1", "n1:1/4c/900m/gpu=3", 0 },
    { "N=3 n=3 exact mem=850", "n=1 exact mem=100", NULL, SPUR_ELATER },
    { "n=1 exact gres=gpu:1", "n=1 exact gres=gpu:1", "n1:1/1c/225m/gpu=2", 0 },
    { "n=1 exact gres=gpu:2", "n=1 exact gres=gpu:1", "n2:1/1c/225m/gpu=1", 0 },
    { "N=1 n=1 exact gres=gpu:2 w=n1", "n=1 exact gres=gpu:1 w=n1", NULL, SPUR_ELATER },
};

static uint32_t start_job(struct rig *r)
{
    uint32_t id = rig_submit(r, "nodes=3 tpn=4 mem=900 gres=gpu:2");

    rig_pass(r);
    ck_assert_str_eq(rig_state(r, id), "RUNNING");
    return id;
}

START_TEST(table)
{
    char *at, *wish;
    struct spur_error err = { 0 };
    Wire__NodeAlloc **allocs = NULL;
    Wire__StepSpec spec;
    struct str text;
    struct rig r;
    size_t n = 0;
    uint32_t id, tasks = 0;
    int rc;

    rig_init(&r, conf);
    id = start_job(&r);
    at = arena_copy(&r.arena, rows[_i].running);
    while ((wish = word_next(&at, ";"))) {
        Wire__Op *op = rig_op(&r);

        op->step = arena_alloc(&r.arena, sizeof *op->step);
        wire__op_step__init(op->step);
        op->step->job_id = id;
        op->step->has_attempt = true;
        op->step->attempt = state_job(r.s, id)->attempt;
        op->step->spec = arena_alloc(&r.arena, sizeof *op->step->spec);
        step_spec(&r, op->step->spec, wish);
        ck_assert_msg(step_place(r.s, state_job(r.s, id), op->step->spec, &r.arena, &op->step->allocs, &op->step->n_allocs, &tasks, &err) == 0, "%s: %s", wish, err.text);
        op->step->has_ntasks = true;
        op->step->ntasks = tasks;
        ck_assert_int_eq(rig_apply(&r, op, NULL), 0);
    }
    step_spec(&r, &spec, rows[_i].wish);
    rc = step_place(r.s, state_job(r.s, id), &spec, &r.arena, &allocs, &n, &tasks, &err);
    ck_assert_msg(rc == rows[_i].code, "%s | %s: %d %s", rows[_i].running, rows[_i].wish, rc, err.text);
    str_init(&text);
    if (rc == 0) {
        describe(allocs, n, &text);
        ck_assert_msg(strcmp(text.text, rows[_i].expected) == 0, "%s | %s: %s, not %s", rows[_i].running, rows[_i].wish, text.text, rows[_i].expected);
    } else {
        ck_assert(err.text[0] != '\0');
    }
    str_fini(&text);
    rig_fini(&r);
}
END_TEST

Suite *step_suite(void);
Suite *step_suite(void)
{
    Suite *s = suite_create("plan/step");
    TCase *t = tcase_create("step");

    tcase_add_loop_test(t, table, 0, sizeof rows / sizeof rows[0]);
    suite_add_tcase(s, t);
    return s;
}
