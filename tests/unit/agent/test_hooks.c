/* SPDX-License-Identifier: Apache-2.0 */
/* test_hooks.c - what a task prolog prints, limits that are let through, the environment of a prolog or epilog. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/settings.h"
#include "agent/taskhooks.h"
#include "state/apply.h"
#include "test_agent.h"

START_TEST(lines_of_a_task_prolog)
{
    static const struct { const char *line, *name, *value; } cases[] = {
        { "export A=1", "A", "1" }, { "export A=b=c d", "A", "b=c d" }, { "  export\tA=x", "A", "x" }, { "export A=", "A", "" }, { "unset A", "A", NULL },
        { "export =1", "A", "old" }, { "export A", "A", "old" }, { "exports A=1", "A", "old" }, { "A=1", "A", "old" }, { "", "A", "old" }, { "unset", "A", "old" },
        { "unset B", "A", "old" } };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct environment e;
        const char *got;

        environment_init(&e);
        environment_set(&e, "A", "old");
        task_prolog_line(&e, cases[i].line, -1);
        got = environment_get(&e, cases[i].name);
        ck_assert_msg(cases[i].value ? got && !strcmp(got, cases[i].value) : !got, "%s: %s", cases[i].line, got ? got : "(none)");
        environment_fini(&e);
    }
}
END_TEST

START_TEST(print_goes_to_the_task)
{
    struct environment e;
    char text[64] = "";
    int fd[2];

    ck_assert_int_eq(pipe(fd), 0);
    environment_init(&e);
    task_prolog_line(&e, "print two words", fd[1]);
    task_prolog_line(&e, "printing", fd[1]);
    close(fd[1]);
    ck_assert_int_gt(read(fd[0], text, sizeof text - 1), 0);
    ck_assert_str_eq(text, "two words\n");
    close(fd[0]);
    environment_fini(&e);
}
END_TEST

#define BIT(name) (UINT64_C(1) << RLIMIT_##name)

START_TEST(limits_that_are_let_through)
{
    static const struct { const char *only, *except; uint64_t kept; } cases[] = {
        { NULL, NULL, UINT64_MAX }, { "ALL", NULL, UINT64_MAX }, { "NONE", NULL, 0 }, { "NOFILE,CORE", NULL, BIT(NOFILE) | BIT(CORE) },
        { "RLIMIT_NOFILE", NULL, BIT(NOFILE) }, { "ALL", "NOFILE", ~BIT(NOFILE) }, { "NONE", "cpu, stack", ~(BIT(CPU) | BIT(STACK)) }, { "CORE", "ALL", 0 },
        { "CORE", "NONE", BIT(CORE) } };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_msg(limits_kept(cases[i].only, cases[i].except) == cases[i].kept, "row %zu", i);
}
END_TEST

static void into(void *arg, const char *name, const char *value) { environment_set(arg, name, value); }

START_TEST(environment_of_a_hook)
{
    static const struct { const char *name, *prolog, *epilog; } cases[] = {
        { "SLURM_JOB_ID", "7", "7" }, { "SLURM_JOBID", "7", "7" }, { "SLURM_JOB_UID", "1000", "1000" }, { "SLURM_JOB_USER", "ada", "ada" },
        { "SLURM_JOB_ACCOUNT", "lab", "lab" }, { "SLURM_JOB_NODELIST", "n[1-2]", "n[1-2]" }, { "SLURM_ARRAY_JOB_ID", "5", "5" }, { "SLURM_ARRAY_TASK_ID", "3", "3" },
        { "SLURM_JOB_EXIT_CODE", NULL, "1033" }, { "SLURM_JOB_EXIT_CODE2", NULL, "4:9" }, { "SLURM_JOB_DERIVED_EC", NULL, "512" },
        { "SLURM_SCRIPT_CONTEXT", "prolog_slurmd", "epilog_slurmd" }, { "SPANK_KEY", "a=b", "a=b" }, { "SLURM_JOB_COMMENT", NULL, NULL }, { "HOME", NULL, NULL } };
    char kept[] = "KEY=a=b", odd[] = "=x", *spank[] = { kept, odd };
    Wire__JobInfo job = WIRE__JOB_INFO__INIT;
    Wire__JobSpec spec = WIRE__JOB_SPEC__INIT;

    spec.account = (char *)(uintptr_t)"lab";
    spec.spank_env = spank;
    spec.n_spank_env = 2;
    job.job_id = 7;
    job.has_array_task_id = 1;
    job.array_job_id = 5;
    job.array_task_id = 3;
    job.uid = 1000;
    job.user = (char *)(uintptr_t)"ada";
    job.nodes = (char *)(uintptr_t)"n[1-2]";
    job.exit_status = 4 << 8 | 9;
    job.derived_status = 2 << 8;
    job.spec = &spec;
    for (int epilog = 0; epilog < 2; epilog++) {
        struct environment e;

        environment_init(&e);
        hook_environment(&job, epilog ? "epilog_slurmd" : "prolog_slurmd", epilog, into, &e);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            const char *want = epilog ? cases[i].epilog : cases[i].prolog, *got = environment_get(&e, cases[i].name);

            ck_assert_msg(want ? got && !strcmp(got, want) : !got, "%s: %s", cases[i].name, got ? got : "(none)");
        }
        environment_fini(&e);
    }
}
END_TEST

TCase *case_hooks(void)
{
    TCase *t = tcase_create("hooks");

    tcase_add_test(t, lines_of_a_task_prolog);
    tcase_add_test(t, print_goes_to_the_task);
    tcase_add_test(t, limits_that_are_let_through);
    tcase_add_test(t, environment_of_a_hook);
    return t;
}
