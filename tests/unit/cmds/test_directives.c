/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"
#include "base/str.h"
#include "cmds/common/directives.h"
#include "test_cmds.h"

/* Words of all directives: a blank between words, a bar between lines. Most rows were measured on Slurm's sbatch. */
static const struct { const char *script, *words; } heads[] = {
    { "#!/bin/sh\n#SBATCH -N2\n", "-N2" },
    { "#!/bin/sh\n#SBATCH -N1 -n3 -c 2\n#SBATCH -t00:20:00\ntrue\n#SBATCH -N9\n", "-N1 -n3 -c 2|-t00:20:00" },
    { "#!/bin/sh\n#SBATCH --nodes=2   # EDIT me\n", "--nodes=2" },
    { "#!/bin/sh\n##SBATCH -N4\n# SBATCH -N3\n#SBATCH--nodes=2\n", "--nodes=2" },
    { "#!/bin/sh\n#sbatch -N4\n#SBATCH\t-J\ttabbed\n", "-J tabbed" },
    { "#!/bin/sh\n\n\t\n \n  # indented comment\n#SBATCH -J after\n", "-J after" },
    { "#!/bin/sh\n  #SBATCH -J indented\n#SBATCH -N2\n", "-N2" },
    { "#!/bin/sh\n  true\n#SBATCH -N2\n", "" },
    { "#!/bin/sh\n#SBATCH -J a#b\n", "-J a" },
    { "#!/bin/sh\n#SBATCH -J a\\#b\n", "-J a#b" },
    { "#!/bin/sh\n#SBATCH -J \"a#b\"\n", "-J a#b" },
    { "#!/bin/sh\n#SBATCH -J \"two words\" --comment='deadline run 1'\n", "-J two_words --comment=deadline_run_1" },
    { "#!/bin/sh\n#SBATCH -J a\"b c\"d\n", "-J ab_cd" },
    { "#!/bin/sh\n#SBATCH -J a\\\"b\n", "-J a\"b" },
    { "#!/bin/sh\n#SBATCH -J \"a\\\"b\"\n", "-J a\"b" },
    { "#!/bin/sh\n#SBATCH -J 'a\\b'\n", "-J ab" },
    { "#!/bin/sh\n#SBATCH -J \"a\\\\b\"\n", "-J a\\b" },
    { "#!/bin/sh\n#SBATCH -J \"it's\" -A 'a \"b\"'\n", "-J it's -A a_\"b\"" },
    { "#!/bin/sh\n#SBATCH -J x\\\n#SBATCH -N2\n", "-J x|-N2" },
    { "#!/bin/sh\n#SBATCH -J last", "-J last" },
    { "#!/bin/sh\n#SBATCH\n#SBATCH   # nothing\n#SBATCH -J q\n", "-J q" },
    { "#!/bin/sh\n#SBATCHfoo\n", "foo" },
    { "#!/bin/sh\n#SBATCH -C a100&ib -x g[07-08]\n", "-C a100&ib -x g[07-08]" },
    { "#!/usr/bin/env python3\n#SBATCH -n1\nimport os\n", "-n1" },
    { "#!/bin/sh\n#SBATCH --wrap=\"\" x\n", "--wrap= x" },
};

START_TEST(the_head_is_cut_into_words)
{
    struct directives d;
    struct spur_error err = { 0 };
    struct arena a;
    struct str out;

    arena_init(&a, 0);
    str_init(&out);
    ck_assert_int_eq(directives_read(heads[_i].script, strlen(heads[_i].script), &a, &d, &err), 0);
    for (size_t i = 0; i < d.count; i++)
        for (int k = 0; k < d.rows[i].argc; k++) {
            str_add(&out, out.len == 0 ? "" : k ? " " : "|");
            for (const char *p = d.rows[i].argv[k]; *p; p++)
                str_add_char(&out, *p == ' ' ? '_' : *p);
        }
    ck_assert_msg(!strcmp(out.text, heads[_i].words), "%s: \"%s\", expected \"%s\"", heads[_i].script, out.text, heads[_i].words);
    str_fini(&out);
    arena_fini(&a);
}
END_TEST

START_TEST(lines_are_numbered_and_others_noticed)
{
    static const char script[] = "#!/bin/sh\n\n#SBATCH -N2\n#PBS -l x\n# c\n#SBATCH hetjob\n#SLURM -n2\n#SBATCH -n4\n";
    struct directives d;
    struct spur_error err;
    struct arena a;

    arena_init(&a, 0);
    ck_assert_int_eq(directives_read(script, sizeof script - 1, &a, &d, &err), 0);
    ck_assert_uint_eq(d.count, 3);
    ck_assert_uint_eq(d.rows[0].line, 3);
    ck_assert_uint_eq(d.rows[2].line, 8);
    ck_assert_uint_eq(d.foreign_line, 4);
    ck_assert_str_eq(d.foreign, "#PBS");
    ck_assert_uint_eq(d.hetjob_line, 6);
    ck_assert_uint_eq(d.misspelt_line, 7);
    arena_fini(&a);
}
END_TEST

START_TEST(an_open_quote_is_refused)
{
    static const char script[] = "#!/bin/sh\n#SBATCH -N1\n#SBATCH -J \"abc\ntrue\n";
    struct directives d;
    struct spur_error err = { 0 };
    struct arena a;

    arena_init(&a, 0);
    ck_assert_int_lt(directives_read(script, sizeof script - 1, &a, &d, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "line 3"));
    arena_fini(&a);
}
END_TEST

START_TEST(long_lines_stay_whole)
{
    size_t n = 2u << 20;
    struct directives d;
    struct spur_error err;
    struct arena a;
    struct str script;

    str_init(&script);
    str_add(&script, "#!/bin/sh\n#SBATCH -d afterany");
    for (size_t i = 0; script.len < n; i++)
        str_addf(&script, ":%zu", i);
    str_add(&script, "\n#SBATCH -N2\n");
    arena_init(&a, 0);
    ck_assert_int_eq(directives_read(script.text, script.len, &a, &d, &err), 0);
    ck_assert_uint_eq(d.count, 2);
    ck_assert_uint_ge(strlen(d.rows[0].argv[1]), n - 40);
    ck_assert_str_eq(d.rows[1].argv[0], "-N2");
    arena_fini(&a);
    str_fini(&script);
}
END_TEST

static const struct { const char *script; size_t n; const char *why; } scripts[] = {
    { "#!/bin/sh\ntrue\n", 0, NULL },
    { "#!/bin/sh", 0, NULL },
    { "#!/bin/sh\ntrue\rfalse\n", 0, NULL },
    { "", 0, "Batch script is empty!" },
    { " \n\t\n", 0, "only whitespace" },
    { "echo hi\n", 0, "does not look like a batch script" },
    { "\n#!/bin/sh\n", 0, "does not look like a batch script" },
    { "  #!/bin/sh\n", 0, "does not look like a batch script" },
    { "#!/bin/sh\r\necho hi\r\n", 0, "DOS line breaks" },
    { "#!/bin/sh\n\0x", 12, "NULL character" },
};

START_TEST(what_is_no_script_is_refused)
{
    struct spur_error err = { 0 };
    int rc = script_check(scripts[_i].script, scripts[_i].n ? scripts[_i].n : strlen(scripts[_i].script), &err);

    if (!scripts[_i].why) {
        ck_assert_int_eq(rc, 0);
        return;
    }
    ck_assert_int_lt(rc, 0);
    ck_assert_msg(strstr(err.text, scripts[_i].why), "%s", err.text);
}
END_TEST

TCase *directives_cases(void)
{
    TCase *t = tcase_create("directives");

    tcase_add_loop_test(t, the_head_is_cut_into_words, 0, sizeof heads / sizeof *heads);
    tcase_add_test(t, lines_are_numbered_and_others_noticed);
    tcase_add_test(t, an_open_quote_is_refused);
    tcase_add_test(t, long_lines_stay_whole);
    tcase_add_loop_test(t, what_is_no_script_is_refused, 0, sizeof scripts / sizeof *scripts);
    return t;
}
