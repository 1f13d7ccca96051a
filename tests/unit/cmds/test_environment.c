/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/str.h"
#include "cmds/common/environment.h"
#include "test_cmds.h"

static const char *const here[] = { "HOME=/h", "FOO=bar", "BAZ=a,b", "SLURM_CONF=/c", "SLURM_CPU_BIND=quiet", "SLURM_STEP_ID=3", "SLURM_PROCID=1", "SPANK_X=1",
                                    "SLURM_MEM_PER_NODE=4", "EMPTY=", "nonsense", "SLURM_JWT=a-token", NULL };

/* Pairs in a row, a bar behind each. */
static char *exported(unsigned command, const char *export, const char *export_file, char *const *also)
{
    struct request r;
    struct spur_error err = { 0 };
    char *data;
    size_t n;

    request_init(&r, command);
    r.export = export;
    r.export_file = export_file;
    ck_assert_msg(environment_export(&r, (char *const *)(uintptr_t)here, also, &data, &n, &err) == 0, "%s", err.text);
    for (size_t i = 0; i < n; i++)
        if (data[i] == '\0')
            data[i] = '|';
    request_fini(&r);
    return data;
}

static const struct { const char *export, *all; } cases[] = {
    { NULL, "HOME=/h|FOO=bar|BAZ=a,b|SLURM_CONF=/c|SPANK_X=1|EMPTY=|" },
    { "ALL", "HOME=/h|FOO=bar|BAZ=a,b|SLURM_CONF=/c|SPANK_X=1|EMPTY=|" },
    { "all", "HOME=/h|FOO=bar|BAZ=a,b|SLURM_CONF=/c|SPANK_X=1|EMPTY=|" },
    { "NONE", "SLURM_CONF=/c|SPANK_X=1|" },
    { "NIL", "SLURM_CONF=/c|SPANK_X=1|" },
    { "ALL,FOO=y", "HOME=/h|FOO=y|BAZ=a,b|SLURM_CONF=/c|SPANK_X=1|EMPTY=|" },
    { "FOO=y,ALL", "HOME=/h|FOO=y|BAZ=a,b|SLURM_CONF=/c|SPANK_X=1|EMPTY=|" },
    { "FOO=a=b", "SLURM_CONF=/c|SPANK_X=1|FOO=a=b|" },
    { "ALPHA=1,BETA,BAZ", "SLURM_CONF=/c|SPANK_X=1|ALPHA=1|BAZ=a,b|" },
    { "A='1,2',B=\"3,4\",C=5", "SLURM_CONF=/c|SPANK_X=1|A=1,2|B=3,4|C=5|" },
    { "A=it's,B=2", "SLURM_CONF=/c|SPANK_X=1|A=it's|B=2|" },
    { "A=,,=x,B=$HOME;id", "SLURM_CONF=/c|SPANK_X=1|A=|B=$HOME;id|" },
    { "HOM", "SLURM_CONF=/c|SPANK_X=1|" },
    { "SLURM_JWT", "SLURM_CONF=/c|SPANK_X=1|SLURM_JWT=a-token|" },          /* a token travels only by its name */
};

START_TEST(export_lets_through)
{
    char *got = exported(REQUEST_SBATCH, cases[_i].export, NULL, NULL);

    ck_assert_msg(!strcmp(got, cases[_i].all), "--export=%s: %s, expected %s", cases[_i].export ? cases[_i].export : "(none)", got, cases[_i].all);
    free(got);
}
END_TEST

START_TEST(srun_keeps_the_step_it_is_in)
{
    char *got = exported(REQUEST_SRUN, NULL, NULL, NULL);

    ck_assert_ptr_nonnull(strstr(got, "SLURM_MEM_PER_NODE=4"));
    free(got);
}
END_TEST

START_TEST(what_is_set_comes_last_and_once)
{
    char *const also[] = { (char *)(uintptr_t)"FOO=z", (char *)(uintptr_t)"SLURM_SUBMIT_DIR=/d", NULL };
    char *got = exported(REQUEST_SBATCH, "FOO=y", NULL, also);

    ck_assert_str_eq(got, "SLURM_CONF=/c|SPANK_X=1|FOO=z|SLURM_SUBMIT_DIR=/d|");
    free(got);
}
END_TEST

START_TEST(a_file_brings_pairs_that_end_in_nuls)
{
    static const char text[] = "A=1\0B=two\nlines\0\0=bad\0none\0C=3";
    char path[] = "/tmp/spur-test-env-XXXXXX", number[16], *got;
    int fd = mkstemp(path);

    ck_assert_int_eq(write(fd, text, sizeof text - 1), sizeof text - 1);
    got = exported(REQUEST_SBATCH, NULL, path, NULL);
    ck_assert_str_eq(got, "SLURM_CONF=/c|SPANK_X=1|A=1|B=two\nlines|C=3|");
    free(got);
    lseek(fd, 0, SEEK_SET);
    snprintf(number, sizeof number, "%d", fd);
    got = exported(REQUEST_SBATCH, "ALL", number, NULL);
    ck_assert_ptr_nonnull(strstr(got, "|FOO=bar|"));
    ck_assert_ptr_nonnull(strstr(got, "|B=two\nlines|C=3|"));
    free(got);
    close(fd);
    unlink(path);
}
END_TEST

START_TEST(a_file_that_is_not_there_is_refused)
{
    struct request r;
    struct spur_error err = { 0 };
    char *data;
    size_t n;

    request_init(&r, REQUEST_SBATCH);
    r.export_file = "/nonexistent/env";
    ck_assert_int_lt(environment_export(&r, (char *const *)(uintptr_t)here, NULL, &data, &n, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "/nonexistent/env"));
    request_fini(&r);
}
END_TEST

START_TEST(a_login_shell_adds_what_is_missing)
{
    struct request r;
    struct spur_error err = { 0 };
    char *data;
    size_t n;

    request_init(&r, REQUEST_SBATCH);
    r.export = "FOO=y";
    r.get_user_env = "20S";
    ck_assert_msg(environment_export(&r, (char *const *)(uintptr_t)here, NULL, &data, &n, &err) == 0, "%s", err.text);
    for (size_t i = 0; i < n; i++)
        data[i] = data[i] ? data[i] : '|';
    ck_assert_ptr_nonnull(strstr(data, "FOO=y|"));
    ck_assert_ptr_nonnull(strstr(data, "|PATH=/"));
    free(data);
    request_fini(&r);
}
END_TEST

TCase *environment_cases(void)
{
    TCase *t = tcase_create("environment");

    tcase_set_timeout(t, 30);
    tcase_add_loop_test(t, export_lets_through, 0, sizeof cases / sizeof *cases);
    tcase_add_test(t, srun_keeps_the_step_it_is_in);
    tcase_add_test(t, what_is_set_comes_last_and_once);
    tcase_add_test(t, a_file_brings_pairs_that_end_in_nuls);
    tcase_add_test(t, a_file_that_is_not_there_is_refused);
    tcase_add_test(t, a_login_shell_adds_what_is_missing);
    return t;
}
