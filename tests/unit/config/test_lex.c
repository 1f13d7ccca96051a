/* SPDX-License-Identifier: Apache-2.0 */
/* test_lex.c - logical lines and pairs. The cases were run through Slurm's own controller before they were written down. */
#include "test_config.h"

#include <stdlib.h>
#include <string.h>

#include "config/lex.h"

/* Lines are joined by "|" with their number in front. */
static char *lines_of(const char *text)
{
    struct lex l;
    struct str out;
    int rc;

    lex_init(&l, text, "f", 1);
    str_init(&out);
    while ((rc = lex_line(&l, NULL)) > 0)
        str_addf(&out, "%s%s%s%u:%s", out.len ? "|" : "", strcmp(l.file, "f") ? l.file : "", strcmp(l.file, "f") ? "@" : "", l.line, l.buf.text);
    ck_assert_int_eq(rc, 0);
    lex_fini(&l);
    return str_take(&out);
}

static const struct { const char *text, *lines; } lines[] = {
    { "", "" },
    { "\n\n# a\n", "" },
    { "A=1\nB=2", "1:A=1|2:B=2" },
    { "A=1\r\nB=2\r\n", "1:A=1|2:B=2" },
    { " \tA = 1  # x\n", "1:A = 1" },
    { "A=1#x", "1:A=1" },
    { "A=1\\#x # y", "1:A=1\\#x" },
    { "A=1,\\\n2,\\\n3\nB=1\n", "1:A=1,2,3|4:B=1" },
    { "A=1,\\\r\n2\r\n", "1:A=1,2" },
    { "A=1 \\  \n B=2\n", "1:A=1  B=2" },
    { "# a \\\nB=2", "2:B=2" },
    { "A=1 # b \\\nB=2", "1:A=1|2:B=2" },
    { "A=\"x # y\"", "1:A=\"x" },
    { "A=1\\", "1:A=1" },
    { "A=1\\\\\nB=2", "1:A=1\\\\|2:B=2" },
    { "#@ 7 sub/x.conf\nA=1\n#@ 3 f\nB=2\n", "sub/x.conf@7:A=1|3:B=2" },
    { "#@ x\nA=1", "2:A=1" },
};

START_TEST(logical_lines)
{
    char *got = lines_of(lines[_i].text);

    ck_assert_str_eq(got, lines[_i].lines);
    free(got);
}
END_TEST

/* Pairs as KEY<op>[VALUE], and "!REST" where the line cannot be read. */
static char *pairs_of(const char *text)
{
    char *copy = mem_copy(text), *cursor = copy;
    struct lex_pair p;
    struct str out;
    int rc;

    str_init(&out);
    while ((rc = lex_pair(&cursor, &p)) > 0)
        str_addf(&out, "%s%c[%s]", p.key, p.op, p.value);
    if (rc < 0)
        str_addf(&out, "!%s", cursor);
    free(copy);
    return str_take(&out);
}

static const struct { const char *text, *pairs; } pairs[] = {
    { "A=1", "A=[1]" },
    { "A = 1", "A=[1]" },
    { "A =1 B= 2", "A=[1]B=[2]" },
    { "A=\"x y\" B=2", "A=[x y]B=[2]" },
    { "A=\"\"", "A=[]" },
    { "A=", "!A=" },
    { "A=1 B", "A=[1]!B" },
    { "A=\"b", "A=[\"b]" },
    { "A=/a\"b c\"d", "A=[/a\"b]!c\"d" },
    { "A='b c'", "A=['b]!c'" },
    { "A+=1", "A+[1]" },
    { "A-=1 B*=2 C/=3", "A-[1]B*[2]C/[3]" },
    { "A=/a\\x\\\\y", "A=[/ax\\y]" },
    { "A=mail\\#1", "A=[mail#1]" },
    { "A=\"Mem=1,CPU=2\" B=x=y", "A=[Mem=1,CPU=2]B=[x=y]" },
    { "A=\"b\"c", "A=[\"b\"c]" },
    { "=1", "!=1" },
    { "A==1", "A=[=1]" },
};

START_TEST(key_value_pairs)
{
    char *got = pairs_of(pairs[_i].text);

    ck_assert_str_eq(got, pairs[_i].pairs);
    free(got);
}
END_TEST

START_TEST(includes)
{
    static const struct { const char *text, *name; } cases[] = {
        { "include a.conf", "a.conf" }, { "INCLUDE\tb/%c.conf", "b/%c.conf" }, { "Include   c", "c" }, { "Include = c", NULL }, { "Included=c", NULL } };
    struct lex l;
    char *name;

    lex_init(&l, cases[_i].text, "f", 1);
    ck_assert_int_eq(lex_line(&l, NULL), 1);
    name = lex_include(&l);
    if (cases[_i].name)
        ck_assert_str_eq(name, cases[_i].name);
    else
        ck_assert_ptr_null(name);
    lex_fini(&l);
}
END_TEST

void add_lex(Suite *s)
{
    TCase *t = tcase_create("lex");

    tcase_add_loop_test(t, logical_lines, 0, sizeof lines / sizeof *lines);
    tcase_add_loop_test(t, key_value_pairs, 0, sizeof pairs / sizeof *pairs);
    tcase_add_loop_test(t, includes, 0, 5);
    suite_add_tcase(s, t);
}
