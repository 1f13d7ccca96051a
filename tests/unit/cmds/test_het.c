/* SPDX-License-Identifier: Apache-2.0 */
/* Components on a command line and in a script, what is handed on from one to the next, and the environment of one of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cmds/common/het.h"
#include "test_cmds.h"

#define WORDS(...) (char *[]){ __VA_ARGS__, NULL }

START_TEST(cut_options)
{
    static const struct { const char *line, *want; } rows[] = {
        { "-n1 job.sh a", "-n1 job.sh a|rest job.sh a" }, { "-n1 : -n2 job.sh", "-n1|-n2 job.sh|rest job.sh" }, { "-n1 : -n2 : -n3 job.sh : x", "-n1|-n2|-n3 job.sh : x|rest job.sh : x" },
        { "job.sh : -n2", "job.sh : -n2|rest job.sh : -n2" }, { "-J : : -n2 s", "-J :|-n2 s|rest s" }, { "-n1 :", "-n1||rest" }, { ": -n2 s", "|-n2 s|rest s" }, { "-n1 -- : x", "-n1 -- : x|rest : x" } };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct option_row table_rows[256];
        struct option_table table;
        struct request typed;
        struct het_words *words;
        char line[128], *argv[16] = { (char *)"sbatch" }, *cursor = line, *word;
        size_t count;
        struct str got;
        int argc = 1, first;

        snprintf(line, sizeof line, "%s", rows[i].line);
        while ((word = word_next(&cursor, " ")))
            argv[argc++] = word;
        ck_assert_uint_le(request_row_count(), 256);
        request_table(REQUEST_SBATCH, table_rows, &table);
        request_init(&typed, REQUEST_SBATCH);
        ck_assert_int_eq(het_cut(&table, argc, argv, &typed, &words, &count, &first), 0);
        str_init(&got);
        for (size_t k = 0; k < count; k++) {
            for (int w = 1; w < words[k].argc; w++)
                str_addf(&got, "%s%s", w > 1 ? " " : "", words[k].argv[w]);
            str_add(&got, "|");
        }
        str_add(&got, "rest");
        for (int w = first; w < words[count - 1].argc; w++)
            str_addf(&got, " %s", words[count - 1].argv[w]);
        ck_assert_str_eq(got.text, rows[i].want);
        str_fini(&got);
        request_fini(&typed);
    }
}
END_TEST

START_TEST(cut_programs)
{
    static const struct { const char *line, *want; } rows[] = {
        { "a : b", "a|b|" }, { "-n2 a x : -n1 b : c", "-n2 a x|-n1 b|c|" }, { "echo :", "echo :|" }, { "a", "a|" }, { "-n1 : -n2 : a", "-n1|-n2|a|" } };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct request r;
        struct het_words *words;
        char line[128], *argv[16] = { (char *)"srun" }, *cursor = line, *word;
        size_t count;
        struct str got;
        int argc = 1;

        snprintf(line, sizeof line, "%s", rows[i].line);
        while ((word = word_next(&cursor, " ")))
            argv[argc++] = word;
        request_init(&r, REQUEST_SRUN);
        het_cut_programs(&r, argc, argv, &words, &count);
        str_init(&got);
        for (size_t k = 0; k < count; k++) {
            for (int w = 1; w < words[k].argc; w++)
                str_addf(&got, "%s%s", w > 1 ? " " : "", words[k].argv[w]);
            str_add(&got, "|");
        }
        ck_assert_str_eq(got.text, rows[i].want);
        str_fini(&got);
        request_fini(&r);
    }
}
END_TEST

START_TEST(script_components)
{
    static const char script[] = "#!/bin/sh\n#SBATCH -n1 -t5\n#SBATCH hetjob\n#SBATCH -n2\n#SBATCH -c3\n#SBATCH packjob\n# a comment\n#SBATCH hetjob\n#SBATCH -n4\n";
    static const size_t want[] = { 1, 2, 0, 1 };
    struct directives d;
    struct spur_error err;
    struct arena a;
    const struct directive *rows;
    size_t count;

    arena_init(&a, 0);
    ck_assert_int_eq(directives_read(script, sizeof script - 1, &a, &d, &err), 0);
    ck_assert_uint_eq(het_script_count(&d), 4);
    for (size_t k = 0; k < 4; k++) {
        het_script_rows(&d, k, &rows, &count);
        ck_assert_uint_eq(count, want[k]);
    }
    het_script_rows(&d, 1, &rows, &count);
    ck_assert_str_eq(rows[1].argv[0], "-c3");
    het_script_rows(&d, 3, &rows, &count);
    ck_assert_str_eq(rows[0].argv[0], "-n4");
    het_script_rows(&d, 4, &rows, &count);
    ck_assert_uint_eq(count, 0);
    arena_fini(&a);
}
END_TEST

static void take(struct request *r, unsigned command, int argc, char **argv)
{
    struct option_row rows[256];
    struct option_table table;
    int first;

    request_table(command, rows, &table);
    request_init(r, command);
    ck_assert_int_eq(options_read(&table, argc, argv, r, &first), 0);
}

START_TEST(handed_on)
{
    struct request a, b, c;
    struct spur_error err = { 0 };
    char **first = WORDS((char *)"sbatch", (char *)"-n3", (char *)"-t", (char *)"7", (char *)"--mem=1G", (char *)"-J", (char *)"x", (char *)"-p", (char *)"p", (char *)"-C", (char *)"f",
                         (char *)"--gres=gpu:2", (char *)"-o", (char *)"out", (char *)"--signal=B:USR1@9", (char *)"--hold", (char *)"-L", (char *)"l");
    char **second = WORDS((char *)"sbatch", (char *)"-n2", (char *)"-t", (char *)"9");
    char **third = WORDS((char *)"sbatch", (char *)"--mem-per-cpu=5");

    take(&a, REQUEST_SBATCH, 18, first);
    take(&b, REQUEST_SBATCH, 4, second);
    take(&c, REQUEST_SBATCH, 2, third);
    request_inherit(&b, &a);
    request_inherit(&c, &b);
    ck_assert_int_eq(request_finish(&a, &err), 0);
    ck_assert_int_eq(request_finish(&b, &err), 0);
    ck_assert_int_eq(request_finish(&c, &err), 0);
    ck_assert_uint_eq(b.spec.ntasks, 2);
    ck_assert_uint_eq(b.spec.time_limit_min, 9);
    ck_assert(b.spec.has_mem_per_node_mib && b.spec.mem_per_node_mib == 1024);
    ck_assert(b.spec.hold);
    ck_assert(!b.spec.partition && !b.spec.features && !b.spec.tres_per_node && !b.spec.licenses);
    ck_assert_str_eq(b.spec.name, "x");
    ck_assert_str_eq(b.spec.std_out, "out");
    ck_assert(b.spec.warn_signal == 10 && b.spec.warn_time_s == 9);
    ck_assert(c.spec.time_limit_min == 9 && !c.spec.has_ntasks && c.spec.has_mem_per_cpu_mib && !c.spec.has_mem_per_node_mib);
    ck_assert_str_eq(c.spec.name, "x");
    request_fini(&a);
    request_fini(&b);
    request_fini(&c);
}
END_TEST

START_TEST(environment_of_a_component)
{
    setenv("SLURM_NTASKS", "1", 1);
    setenv("SLURM_NTASKS_HET_GROUP_0", "1", 1);
    setenv("SLURM_NTASKS_HET_GROUP_1", "4", 1);
    setenv("SLURM_MEM_PER_NODE", "9", 1);
    setenv("SLURM_MEM_PER_NODE_HET_GROUP_0", "9", 1);
    setenv("OTHER", "x", 1);
    setenv("X_HET_GROUP_y", "z", 1);
    het_environ_enter(1);
    ck_assert_str_eq(getenv("SLURM_NTASKS"), "4");
    ck_assert_ptr_null(getenv("SLURM_MEM_PER_NODE"));       /* the first one's own */
    ck_assert_str_eq(getenv("OTHER"), "x");
    ck_assert_str_eq(getenv("X_HET_GROUP_y"), "z");
    het_environ_leave();
    ck_assert_str_eq(getenv("SLURM_NTASKS"), "1");
    ck_assert_str_eq(getenv("SLURM_MEM_PER_NODE"), "9");
}
END_TEST

START_TEST(groups)
{
    static const struct { const char *text, *want; } rows[] = { { "0", "0 " }, { "0,2-4", "0 2 3 4 " }, { "3,1", "1 3 " }, { "", NULL }, { "x", NULL }, { "-1", NULL }, { "128", NULL }, { "1-", NULL } };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct spur_error err = { 0 };
        struct request r;
        uint32_t *list;
        size_t count;
        struct str got;
        int rc;

        request_init(&r, REQUEST_SRUN);
        rc = het_groups_parse(&r, rows[i].text, &list, &count, &err);
        ck_assert_msg((rc == 0) == (rows[i].want != NULL), "%s: %s", rows[i].text, err.text);
        str_init(&got);
        for (size_t k = 0; rc == 0 && k < count; k++)
            str_addf(&got, "%u ", list[k]);
        if (rc == 0)
            ck_assert_str_eq(got.text, rows[i].want);
        else
            ck_assert_ptr_nonnull(strstr(err.text, "--het-group"));
        str_fini(&got);
        request_fini(&r);
    }
}
END_TEST

TCase *het_cases(void)
{
    TCase *c = tcase_create("het");

    tcase_add_test(c, cut_options);
    tcase_add_test(c, cut_programs);
    tcase_add_test(c, script_components);
    tcase_add_test(c, handed_on);
    tcase_add_test(c, environment_of_a_component);
    tcase_add_test(c, groups);
    return c;
}
