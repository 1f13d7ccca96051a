/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/str.h"
#include "cmds/common/options.h"
#include "test_cmds.h"

/* Each taken option writes itself into `request`, a struct str. */
static int note(void *request, const char *name, const char *value, enum option_source from)
{
    str_addf(request, "%s%s%s%s;", from == FROM_ENVIRONMENT ? "env:" : from == FROM_SCRIPT ? "script:" : "", name, value ? "=" : "", value ? value : "");
    return 0;
}
#define TAKE(name) static int take_##name(void *request, const char *value, enum option_source from, struct spur_error *err) \
    { (void)err; return note(request, #name, value, from); }
TAKE(nodes) TAKE(time) TAKE(hold) TAKE(label) TAKE(jobs) TAKE(nice) TAKE(requeue)
static int take_bad(void *request, const char *value, enum option_source from, struct spur_error *err)
{
    (void)request;
    (void)from;
    return spur_fail(err, *value == 'n' ? SPUR_EINVAL : SPUR_ESYNTAX, "Invalid --bad specification: %s", value);
}

static const struct option_row rows[] = {
    { "nodes", 'N', OPTION_VALUE, "N", "T_NODES", take_nodes, "nodes" },
    { "time", 't', OPTION_VALUE, "T", "T_TIME T_LIMIT", take_time, "time" },
    { "hold", 'H', OPTION_NONE, NULL, "T_HOLD", take_hold, "hold" },
    { "label", 'l', OPTION_NONE, NULL, NULL, take_label, "label" },
    { "jobs", 'j', OPTION_MAY_WORD, "LIST", NULL, take_jobs, "jobs" },
    { "nice", 0, OPTION_MAY, "N", "T_NICE", take_nice, "nice" },
    { "requeue", 0, OPTION_NONE, NULL, NULL, take_requeue, NULL },
    { "bad", 0, OPTION_VALUE, "X", NULL, take_bad, NULL },
};
static const struct option_table stops = { "cmd", "Usage: cmd\n", rows, sizeof rows / sizeof *rows, "time-min container x11", "S", 255, true, "T_CONTAINER=container" };
static const struct option_table moves = { "cmd", "Usage: cmd\n", rows, sizeof rows / sizeof *rows, "time-min", "S", 1, false, NULL };

/* Words apart by one blank; the rest that is no option comes behind " |". */
static const struct { bool moves; const char *line, *took; int rc; const char *says; } lines[] = {
    { false, "-N2 -t 3 script arg", "nodes=2;time=3;|script arg", 0, NULL },
    { false, "-N 2 --time=3 -H", "nodes=2;time=3;hold;|", 0, NULL },
    { false, "--time 3 --nodes 1-2", "time=3;nodes=1-2;|", 0, NULL },
    { false, "-Hlt5", "hold;label;time=5;|", 0, NULL },
    { false, "-N=2", "nodes==2;|", 0, NULL },
    { false, "script -N2", "|script -N2", 0, NULL },
    { false, "-- -N2", "|-N2", 0, NULL },
    { false, "--hol --la", "hold;label;|", 0, NULL },
    { false, "- -N2", "|- -N2", 0, NULL },
    { true, "a -N2 b -H", "nodes=2;hold;|a b", 0, NULL },
    { true, "-j 12 -N1", "jobs=12;nodes=1;|", 0, NULL },
    { true, "--jobs 12,13", "jobs=12,13;|", 0, NULL },
    { true, "-j -N1", "jobs;nodes=1;|", 0, NULL },
    { true, "-j12 --jobs=3", "jobs=12;jobs=3;|", 0, NULL },
    { false, "--nice -N1", "nice;nodes=1;|", 0, NULL },
    { false, "--nice=5", "nice=5;|", 0, NULL },
    { false, "--foo", "", 255, "cmd: unrecognized option '--foo'" },
    { false, "--node2", "", 255, "did you mean --nodes?" },
    { true, "--foo", "", 1, "cmd: unrecognized option '--foo'" },
    { false, "-y", "", 255, "cmd: invalid option -- 'y'" },
    { false, "-S 2", "", 1, "cmd: error: not supported yet: -S" },
    { false, "--x11", "", 1, "cmd: error: not supported yet: --x11" },
    { false, "--contain=x", "", 1, "cmd: error: not supported yet: --container" },
    { false, "--ti=3", "", 255, "ambiguous" },
    { false, "--n=3", "", 255, "ambiguous" },
    { false, "-N", "", 255, "requires an argument -- 'N'" },
    { false, "--nodes", "", 255, "option '--nodes' requires an argument" },
    { false, "--hold=1", "", 255, "doesn't allow an argument" },
    { false, "--bad=number", "", 1, "cmd: error: Invalid --bad specification: number" },
    { false, "--bad=text", "", 255, "cmd: error: Invalid --bad specification: text" },
};

START_TEST(command_lines)
{
    char *copy = mem_copy(lines[_i].line), *cursor = copy, *argv[16] = { (char *)(uintptr_t)"cmd" };
    int argc = 1, first = 0, rc;
    const char *said;
    struct str out;

    while ((argv[argc] = word_next(&cursor, " ")))
        argc++;
    str_init(&out);
    said = CAUGHT(rc, options_read(lines[_i].moves ? &moves : &stops, argc, argv, &out, &first));
    ck_assert_msg(rc == lines[_i].rc, "%s: %d, expected %d; %s", lines[_i].line, rc, lines[_i].rc, said);
    if (rc == 0) {
        str_add_char(&out, '|');
        for (int i = first; i < argc; i++)
            str_addf(&out, "%s%s", i > first ? " " : "", argv[i]);
        ck_assert_msg(!strcmp(out.text, lines[_i].took), "%s: %s, expected %s", lines[_i].line, out.text, lines[_i].took);
    } else {
        ck_assert_msg(strstr(said, lines[_i].says), "%s: \"%s\", expected \"%s\"", lines[_i].line, said, lines[_i].says);
    }
    str_fini(&out);
    free(copy);
}
END_TEST

START_TEST(environment_twins)
{
    struct str out;

    setenv("T_NODES", "2", 1);
    setenv("T_TIME", "", 1);
    setenv("T_LIMIT", "7", 1);
    setenv("T_NICE", "", 1);
    str_init(&out);
    for (size_t i = 0; i < 6; i++) {
        static const char *const flags[] = { "", "yes", "1", "0", "no", "x" };

        setenv("T_HOLD", flags[i], 1);
        str_clear(&out);
        ck_assert_int_eq(options_environment(&stops, &out), 0);
        ck_assert_str_eq(out.text, i < 3 ? "env:nodes=2;env:time=7;env:hold;env:nice;" : "env:nodes=2;env:time=7;env:nice;");
    }
    str_fini(&out);
}
END_TEST

START_TEST(twins_of_refused_options)
{
    struct str out;
    const char *said;
    int rc;

    str_init(&out);
    setenv("T_CONTAINER", "0", 1);
    ck_assert_int_eq(options_environment(&stops, &out), 0);
    setenv("T_CONTAINER", "box", 1);
    said = CAUGHT(rc, options_environment(&stops, &out));
    ck_assert_int_eq(rc, 1);
    ck_assert_str_eq(said, "cmd: error: T_CONTAINER: not supported yet: --container\n");
    str_fini(&out);
}
END_TEST

START_TEST(a_directive_names_its_line)
{
    char *words[] = { (char *)(uintptr_t)"-N2", (char *)(uintptr_t)"word", NULL }, *wrong[] = { (char *)(uintptr_t)"--bad=text", NULL };
    struct str out;
    const char *said;
    int rc;

    str_init(&out);
    said = CAUGHT(rc, options_words(&stops, 2, words, "job.sh:3", &out));
    ck_assert_int_eq(rc, 255);
    ck_assert_str_eq(said, "cmd: error: job.sh:3: Invalid directive found in batch script: word\n");
    ck_assert_str_eq(out.text, "script:nodes=2;");
    said = CAUGHT(rc, options_words(&stops, 1, wrong, "job.sh:4", &out));
    ck_assert_int_eq(rc, 255);
    ck_assert_str_eq(said, "cmd: error: job.sh:4: Invalid --bad specification: text\n");
    str_fini(&out);
}
END_TEST

TCase *options_cases(void)
{
    TCase *t = tcase_create("options");

    tcase_add_loop_test(t, command_lines, 0, sizeof lines / sizeof *lines);
    tcase_add_test(t, environment_twins);
    tcase_add_test(t, twins_of_refused_options);
    tcase_add_test(t, a_directive_names_its_line);
    return t;
}
