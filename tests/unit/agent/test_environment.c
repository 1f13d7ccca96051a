/* SPDX-License-Identifier: Apache-2.0 */
/* test_environment.c - the environment of tasks as tables: what is in the order, what must (or must not) be in the list. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <spur/gpu.h>

#include "agent/binding.h"
#include "agent/environment.h"
#include "state/job.h"
#include "test_agent.h"

struct order { Wire__StepOrder o; Wire__Launch l; Wire__Credential c; Wire__JobSpec spec; Wire__JobInfo job; Wire__NodeAlloc alloc, *allocs[1];
               Wire__GresAlloc gres, *gres_row[1]; Wire__StepSpec step; Wire__StepNode rows[3], *row[3]; Wire__OrderGpu gpus[8], *gpu[8]; };

static void order_init(struct order *x)
{
    memset(x, 0, sizeof *x);
    wire__step_order__init(&x->o);
    wire__launch__init(&x->l);
    wire__credential__init(&x->c);
    wire__job_spec__init(&x->spec);
    wire__job_info__init(&x->job);
    wire__node_alloc__init(&x->alloc);
    wire__gres_alloc__init(&x->gres);
    x->o.launch = &x->l;
    x->o.grant = &x->c;
    x->o.node = "n2";
    x->o.host = "n2";
    x->o.cluster = "c";
    x->l.spec = &x->spec;
    x->l.job = &x->job;
    x->c.job_id = 42;
    x->c.step_id = STEP_BATCH;
    x->c.uid = 1000;
    x->c.gid = 1000;
    x->c.user = "alice";
    x->alloc.name = "n2";
    x->alloc.has_cpus = 1;
    x->alloc.cpus = 8;
    x->allocs[0] = &x->alloc;
    x->c.nodes = x->allocs;
    x->c.n_nodes = 1;
    x->job.nodes = "n[2-3]";
    x->job.has_num_nodes = 1;
    x->job.num_nodes = 2;
    x->job.cpus_per_node = "8(x2)";
    x->job.tasks_per_node = "2(x2)";
    x->job.partition = "p";
    x->job.qos = "normal";
    x->spec.name = "name";
    x->spec.work_dir = "/work";
    x->spec.account = "acct";
    x->spec.alloc_node = "login";
}

static void order_gpu(struct order *x, uint64_t mask, uint64_t count, uint32_t flags)
{
    x->gres.name = "gpu";
    x->gres.has_count = x->gres.has_mask = 1;
    x->gres.count = count;
    x->gres.mask = mask;
    x->gres_row[0] = &x->gres;
    x->alloc.gres = x->gres_row;
    x->alloc.n_gres = 1;
    for (uint32_t i = 0; i < 8; i++) {
        wire__order_gpu__init(&x->gpus[i]);
        x->gpus[i].index = i;
        x->gpus[i].has_flags = 1;
        x->gpus[i].flags = flags;
        x->gpu[i] = &x->gpus[i];
    }
    x->o.gpus = x->gpu;
    x->o.n_gpus = 8;
}

static void made(struct environment *e, const struct order *x, const char *carried, size_t n)
{
    environment_init(e);
    environment_carry(e, carried, n);
    environment_job(e, &x->o);
}

/* rows: NAME=value must be there, or -NAME must not. */
static void must(const struct environment *e, const char *const *rows)
{
    for (; *rows; rows++) {
        char name[64];
        const char *eq = strchr(*rows, '='), *is;

        if (**rows == '-') {
            ck_assert_msg(environment_get(e, *rows + 1) == NULL, "%s is set to %s", *rows + 1, environment_get(e, *rows + 1));
            continue;
        }
        snprintf(name, sizeof name, "%.*s", (int)(eq - *rows), *rows);
        is = environment_get(e, name);
        ck_assert_msg(is && !strcmp(is, eq + 1), "%s is %s, not %s", name, is ? is : "(unset)", eq + 1);
    }
}

START_TEST(a_batch_script_sees_its_job)
{
    static const char carried[] = "PATH=/bin\0FOO=a=b\0=bad\0also bad\0SLURM_SUBMIT_DIR=/from\0SLURM_MPI_TYPE=pmix";
    static const char *const rows[] = { "SLURM_JOB_ID=42", "SLURM_JOBID=42", "SLURM_JOB_NODELIST=n[2-3]", "SLURM_NODELIST=n[2-3]", "SLURM_NNODES=2", "SLURM_JOB_NUM_NODES=2",
        "SLURM_JOB_CPUS_PER_NODE=8(x2)", "SLURM_TASKS_PER_NODE=2(x2)", "SLURM_CPUS_ON_NODE=8", "SLURM_JOB_NAME=name", "SLURM_JOB_PARTITION=p", "SLURM_JOB_QOS=normal",
        "SLURM_JOB_ACCOUNT=acct", "SLURM_CLUSTER_NAME=c", "SLURMD_NODENAME=n2", "SLURM_SUBMIT_DIR=/from", "SLURM_SUBMIT_HOST=login", "SLURM_JOB_UID=1000",
        "SLURM_JOB_GID=1000", "SLURM_JOB_USER=alice", "SLURM_PROCID=0", "SLURM_LOCALID=0", "SLURM_NODEID=0", "SLURM_GTIDS=0", "SLURM_TOPOLOGY_ADDR=n2",
        "ENVIRONMENT=BATCH", "FOO=a=b", "SLURM_MPI_TYPE=pmix", "-SLURM_NTASKS", "-SLURM_NPROCS", "-SLURM_CPUS_PER_TASK", "-SLURM_RESTART_COUNT",
        "-SLURM_ARRAY_JOB_ID", "-SLURM_GPUS_ON_NODE", "-SLURM_JOB_GPUS", "-CUDA_VISIBLE_DEVICES", "-SLURM_STEP_ID", NULL };
    struct environment_task t = { .gtids = "0" };
    struct environment e;
    struct order x;

    order_init(&x);
    made(&e, &x, carried, sizeof carried);
    environment_task(&e, &t);
    environment_task_pid(&e, 4321);
    must(&e, rows);
    ck_assert_str_eq(environment_get(&e, "SLURM_TASK_PID"), "4321");
    environment_fini(&e);
}
END_TEST

START_TEST(what_was_asked_comes_back)
{
    static const char *const rows[] = { "SLURM_NTASKS=4", "SLURM_NPROCS=4", "SLURM_CPUS_PER_TASK=2", "SLURM_NTASKS_PER_NODE=2", "SLURM_MEM_PER_NODE=512", "SLURM_GPUS=a100:4",
        "SLURM_GPUS_PER_NODE=2", "SLURM_RESTART_COUNT=3", "SLURM_GPU_BIND=verbose,single:1", "SLURM_TRES_BIND=gres/gpu:verbose,single:1", "SLURM_EXPORT_ENV=NONE", "SLURM_JOB_RESERVATION=r", NULL };
    struct environment e;
    struct order x;

    order_init(&x);
    x.spec.tres_bind = "gres/gpu:verbose,single:1";
    x.spec.has_ntasks = x.spec.has_cpus_per_task = x.spec.has_ntasks_per_node = x.spec.has_mem_per_node_mib = 1;
    x.spec.ntasks = 4;
    x.spec.cpus_per_task = 2;
    x.spec.ntasks_per_node = 2;
    x.spec.mem_per_node_mib = 512;
    x.spec.tres_per_job = "gres:gpu:a100:4";
    x.spec.tres_per_node = "gres:gpu:2";
    x.spec.export_env = "NONE";
    x.spec.reservation = "r";
    x.l.has_restarts = 1;
    x.l.restarts = 3;
    made(&e, &x, "", 0);
    must(&e, rows);
    environment_fini(&e);
}
END_TEST

START_TEST(nothing_of_the_outer_step_is_inherited)
{
    static const char carried[] = "SLURM_CPU_BIND=quiet,mask_cpu:0x1\0SLURM_CPU_BIND_LIST=0x1\0SLURM_STEP_ID=3\0SLURM_STEPID=3\0SLURM_PROCID=7\0SLURM_NTASKS=1\0SLURM_CPUS_PER_TASK=9\0"
        "SLURM_ARRAY_TASK_ID=5\0SLURM_JOB_GPUS=0\0CUDA_VISIBLE_DEVICES=0\0ROCR_VISIBLE_DEVICES=0\0SLURM_JOB_ID=1\0SLURM_GPUS_ON_NODE=1\0SLURM_STEP_NODELIST=n9";
    static const char *const rows[] = { "SLURM_JOB_ID=42", "-SLURM_CPU_BIND", "-SLURM_CPU_BIND_LIST", "-SLURM_STEP_ID", "-SLURM_STEPID", "-SLURM_PROCID", "-SLURM_NTASKS",
        "-SLURM_CPUS_PER_TASK", "-SLURM_ARRAY_TASK_ID", "-SLURM_JOB_GPUS", "-CUDA_VISIBLE_DEVICES", "-ROCR_VISIBLE_DEVICES", "-SLURM_GPUS_ON_NODE", "-SLURM_STEP_NODELIST", NULL };
    struct environment e;
    struct order x;

    order_init(&x);
    made(&e, &x, carried, sizeof carried);
    must(&e, rows);
    environment_fini(&e);
}
END_TEST

START_TEST(gpu_variables_name_the_devices_of_the_job)
{
    static const struct { uint64_t mask; uint32_t flags; const char *const rows[8]; const char *file; bool sliced; } table[] = {
        { 0xa, SPUR_GPU_ENV_CUDA | SPUR_GPU_ENV_ROCM, { "CUDA_VISIBLE_DEVICES=1,3", "-ROCR_VISIBLE_DEVICES", NULL }, "/dev/nvidia1" },
        { 0xa, 0, { "-CUDA_VISIBLE_DEVICES", "-ROCR_VISIBLE_DEVICES", "SLURM_JOB_GPUS=1,3", NULL }, "/dev/nvidia1" },      /* Flags=no_gpu_env */
        { 0xa, SPUR_GPU_ENV_CUDA | SPUR_GPU_ENV_ROCM | SPUR_GPU_ENV_OPENCL, { "ROCR_VISIBLE_DEVICES=1,3", "HIP_VISIBLE_DEVICES=0,1", "-CUDA_VISIBLE_DEVICES", NULL }, "/dev/dri/renderD129" },
        { 0xa, SPUR_GPU_ENV_CUDA, { "CUDA_VISIBLE_DEVICES=1,3", "-ROCR_VISIBLE_DEVICES", NULL }, "/dev/dri/renderD129" },
        { 0xa, SPUR_GPU_ENV_INTEL, { "ZE_AFFINITY_MASK=1,3", "-CUDA_VISIBLE_DEVICES", "-ROCR_VISIBLE_DEVICES", "-GPU_DEVICE_ORDINAL", NULL }, "/dev/dri/card1" },
        { 0xa, SPUR_GPU_ENV_CUDA, { "CUDA_VISIBLE_DEVICES=MIG-1,MIG-3", "SLURM_JOB_GPUS=1,3", NULL }, "/dev/nvidia0", true },      /* slices have no number */
        { 0x0, SPUR_GPU_ENV_CUDA, { "-CUDA_VISIBLE_DEVICES", "-ROCR_VISIBLE_DEVICES", "-GPU_DEVICE_ORDINAL", "-SLURM_JOB_GPUS", NULL } },
        { 0xa, SPUR_GPU_ENV_CUDA, { "CUDA_VISIBLE_DEVICES=1,3", "SLURM_JOB_GPUS=1,3", "SLURM_GPUS_ON_NODE=2", "-ROCR_VISIBLE_DEVICES", "-HIP_VISIBLE_DEVICES", NULL } },
        { 0xc0, SPUR_GPU_ENV_ROCM | SPUR_GPU_ENV_OPENCL, { "ROCR_VISIBLE_DEVICES=6,7", "HIP_VISIBLE_DEVICES=0,1", "GPU_DEVICE_ORDINAL=0,1", "-CUDA_VISIBLE_DEVICES", NULL } },
        { 0x3, UINT32_MAX, { "CUDA_VISIBLE_DEVICES=0,1", "ROCR_VISIBLE_DEVICES=0,1", "GPU_DEVICE_ORDINAL=0,1", "-HIP_VISIBLE_DEVICES", NULL } },  /* unknown devices */
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct environment e;
        struct order x;

        order_init(&x);
        order_gpu(&x, table[i].mask, (uint64_t)__builtin_popcountll(table[i].mask), table[i].flags);
        if (table[i].flags == UINT32_MAX)
            x.o.n_gpus = 0;
        for (int k = 0; k < 8; k++) {
            static char uuids[8][8];

            snprintf(uuids[k], sizeof uuids[k], "MIG-%d", k);
            x.gpus[k].file = (char *)(uintptr_t)table[i].file;
            x.gpus[k].uuid = table[i].sliced ? uuids[k] : NULL;
        }
        made(&e, &x, "CUDA_VISIBLE_DEVICES=7", 22);
        must(&e, table[i].rows);
        environment_fini(&e);
    }
}
END_TEST

/* What the tasks of a step get, by what the step says; devices 0 1 near to cores 0-3, 2 3 to 4-7. Expected: CUDA_VISIBLE_DEVICES of each task. */
START_TEST(tasks_are_bound_to_gpus)
{
    static const struct { const char *gpu_bind, *per_task; uint32_t ntasks_per_gpu, tasks; uint64_t mask; const char *expected; } table[] = {
        { NULL, NULL, 0, 2, 0xf, "0,1,2,3 0,1,2,3" },
        { NULL, "gres:gpu:1", 0, 4, 0xf, "0 1 2 3" },
        { NULL, "gres:gpu:2", 0, 2, 0xf, "0,1 2,3" },
        { "none", "gres:gpu:1", 0, 2, 0x3, "0,1 0,1" },
        { NULL, NULL, 2, 4, 0x5, "0 0 2 2" },
        { "closest", NULL, 0, 2, 0xf, "0,1 2,3" },
        { "single:1", NULL, 0, 2, 0xc, "2 3" },
        { "map_gpu:3,0", NULL, 0, 2, 0xf, "3 0" },
        { "mask_gpu:3,c", NULL, 0, 2, 0xf, "0,1 2,3" },
        { "map_gpu:0", NULL, 0, 2, 0x0, "- -" },
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        uint64_t cores[1] = { 0xff };
        char got[200] = "";
        struct binding b;
        struct order x;

        order_init(&x);
        order_gpu(&x, table[i].mask, (uint64_t)__builtin_popcountll(table[i].mask), SPUR_GPU_ENV_CUDA);
        for (int k = 0; k < 4; k++)
            x.gpus[k].cores = (char *)(uintptr_t)(k < 2 ? "0-3" : "4-7");
        wire__step_spec__init(&x.step);
        wire__step_node__init(&x.rows[0]);
        x.l.step = &x.step;
        x.c.step_id = 0;
        x.step.gpu_bind = (char *)(uintptr_t)table[i].gpu_bind;
        x.step.tres_per_task = (char *)(uintptr_t)table[i].per_task;
        x.spec.has_ntasks_per_gpu = table[i].ntasks_per_gpu != 0;
        x.spec.ntasks_per_gpu = table[i].ntasks_per_gpu;
        x.alloc.cores = cores;
        x.alloc.n_cores = 1;
        x.rows[0].name = "n2";
        x.rows[0].tasks = table[i].tasks;
        x.row[0] = &x.rows[0];
        x.l.step_nodes = x.row;
        x.l.n_step_nodes = 1;
        binding_init(&b, &x.o, NULL);
        ck_assert_uint_eq(b.tasks, table[i].tasks);
        for (uint32_t t = 0; t < b.tasks; t++) {
            struct environment e;

            made(&e, &x, "", 0);
            environment_gpus(&e, &x.o, b.masks[t]);
            snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", t ? " " : "", environment_get(&e, "CUDA_VISIBLE_DEVICES") ? environment_get(&e, "CUDA_VISIBLE_DEVICES") : "-");
            environment_fini(&e);
        }
        ck_assert_msg(!strcmp(got, table[i].expected), "%s %s: %s, not %s", table[i].gpu_bind ? table[i].gpu_bind : "-", table[i].per_task ? table[i].per_task : "-", got, table[i].expected);
        binding_fini(&b);
    }
}
END_TEST

START_TEST(array_tasks_know_their_array)
{
    static const struct { const char *array, *count, *min, *max, *step; } table[] = {
        { "0-99:2%5", "50", "0", "98", "2" }, { "3-4", "2", "3", "4", "1" }, { "7", "1", "7", "7", "1" }, { "1,3,9", "3", "1", "9", "1" } };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct environment e;
        struct order x;

        order_init(&x);
        x.job.has_array_task_id = x.job.has_array_job_id = 1;
        x.job.array_job_id = 40;
        x.job.array_task_id = 3;
        x.spec.array = (char *)(uintptr_t)table[i].array;
        made(&e, &x, "", 0);
        ck_assert_str_eq(environment_get(&e, "SLURM_ARRAY_JOB_ID"), "40");
        ck_assert_str_eq(environment_get(&e, "SLURM_ARRAY_TASK_ID"), "3");
        ck_assert_str_eq(environment_get(&e, "SLURM_ARRAY_TASK_COUNT"), table[i].count);
        ck_assert_str_eq(environment_get(&e, "SLURM_ARRAY_TASK_MIN"), table[i].min);
        ck_assert_str_eq(environment_get(&e, "SLURM_ARRAY_TASK_MAX"), table[i].max);
        ck_assert_str_eq(environment_get(&e, "SLURM_ARRAY_TASK_STEP"), table[i].step);
        environment_fini(&e);
    }
}
END_TEST

START_TEST(a_step_counts_its_own_tasks)
{
    static const char *const names[] = { "n1", "n2", "n3" };
    static const uint32_t tasks[] = { 2, 2, 1 };
    static const char *const rows[] = { "SLURM_STEP_ID=0", "SLURM_STEPID=0", "SLURM_STEP_NODELIST=n[1-3]", "SLURM_STEP_NUM_NODES=3", "SLURM_STEP_NUM_TASKS=5",
        "SLURM_STEP_TASKS_PER_NODE=2(x2),1", "SLURM_TASKS_PER_NODE=2(x2),1", "SLURM_NTASKS=5", "SLURM_NPROCS=5", "SLURM_NODEID=1", "SLURM_JOB_NUM_NODES=2", "SLURM_JOB_NAME=mine",
        "SLURM_STEP_GPUS=4", "-ENVIRONMENT", NULL };
    struct environment e;
    struct order x;

    order_init(&x);
    order_gpu(&x, 0x10, 1, SPUR_GPU_ENV_CUDA);
    wire__step_spec__init(&x.step);
    x.l.step = &x.step;
    x.c.step_id = 0;
    for (int i = 0; i < 3; i++) {
        wire__step_node__init(&x.rows[i]);
        x.rows[i].name = (char *)(uintptr_t)names[i];
        x.rows[i].tasks = tasks[i];
        x.row[i] = &x.rows[i];
    }
    x.l.step_nodes = x.row;
    x.l.n_step_nodes = 3;
    made(&e, &x, "SLURM_JOB_NAME=mine", 19);
    must(&e, rows);
    ck_assert_uint_eq(order_first_task(&x.o), 2);
    ck_assert_uint_eq(order_local_tasks(&x.o), 2);
    environment_fini(&e);
}
END_TEST

START_TEST(a_bare_environment_gets_a_login)
{
    struct environment e;

    environment_init(&e);
    environment_login(&e, 0, "root");
    ck_assert_str_eq(environment_get(&e, "USER"), "root");
    ck_assert_str_eq(environment_get(&e, "LOGNAME"), "root");
    ck_assert_ptr_nonnull(environment_get(&e, "HOME"));
    ck_assert_ptr_nonnull(environment_get(&e, "SHELL"));
    ck_assert_ptr_nonnull(environment_get(&e, "PATH"));
    environment_fini(&e);
}
END_TEST

TCase *case_environment(void)
{
    TCase *t = tcase_create("environment");

    tcase_add_test(t, a_batch_script_sees_its_job);
    tcase_add_test(t, what_was_asked_comes_back);
    tcase_add_test(t, nothing_of_the_outer_step_is_inherited);
    tcase_add_test(t, gpu_variables_name_the_devices_of_the_job);
    tcase_add_test(t, tasks_are_bound_to_gpus);
    tcase_add_test(t, array_tasks_know_their_array);
    tcase_add_test(t, a_step_counts_its_own_tasks);
    tcase_add_test(t, a_bare_environment_gets_a_login);
    return t;
}
