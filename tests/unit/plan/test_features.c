/* SPDX-License-Identifier: Apache-2.0 */
/* test_features.c - constraint expressions: a table of texts and the nodes they leave. */
#include <check.h>
#include <string.h>

#include "plan/features.h"
#include "rig.h"

static const char conf[] = "NodeName=n1 Feature=a\nNodeName=n2 Feature=a,b\nNodeName=n3 Feature=b,c\nNodeName=n4 Feature=c,gpu-x\nNodeName=n5\nPartitionName=p Nodes=ALL Default=YES\n";

static const struct { const char *text, *nodes; int code; uint32_t choices; } rows[] = {
    { NULL, "0-4", 0, 1 }, { "", "0-4", 0, 1 }, { "a", "0-1", 0, 1 }, { "a&b", "1", 0, 1 }, { "a,b", "1", 0, 1 }, { "a|c", "0-3", 0, 1 }, { "a|b&c", "2", 0, 1 },
    { "a|(b&c)", "0-2", 0, 1 }, { "(a|c)&b", "1-2", 0, 1 }, { "!a", "2-4", 0, 1 }, { "!a&!b", "3-4", 0, 1 }, { "!(a|b)", "3-4", 0, 1 }, { "gpu-x", "3", 0, 1 },
    { " a & b ", "1", 0, 1 }, { "[a|c]", "0-3", 0, 2 }, { "b&[a|c]", "1-2", 0, 2 }, { "[a|c]&b", "1-2", 0, 2 }, { "[(a&b)|c]", "1-3", 0, 2 },
    { "a*2", NULL, SPUR_EUNSUPPORTED, 0 }, { "[a*2&c*1]", NULL, SPUR_EUNSUPPORTED, 0 }, { "(a)*2", NULL, SPUR_EUNSUPPORTED, 0 },
    { "nope", NULL, SPUR_ENOTFOUND, 0 }, { "a&", NULL, SPUR_ESYNTAX, 0 }, { "&a", NULL, SPUR_ESYNTAX, 0 }, { "a b", NULL, SPUR_ESYNTAX, 0 }, { "(a", NULL, SPUR_ESYNTAX, 0 },
    { "a)", NULL, SPUR_ESYNTAX, 0 }, { "[a|b", NULL, SPUR_ESYNTAX, 0 }, { "[a&b]", NULL, SPUR_ESYNTAX, 0 }, { "[a|b]&[b|c]", NULL, SPUR_ESYNTAX, 0 }, { "a|[b|c]", NULL, SPUR_ESYNTAX, 0 },
    { "((((((((((((((((((a))))))))))))))))))", NULL, SPUR_ESYNTAX, 0 }, { "()", NULL, SPUR_ESYNTAX, 0 }, { "!", NULL, SPUR_ESYNTAX, 0 },
};

START_TEST(table)
{
    struct features f;
    struct bitmap nodes;
    struct spur_error err = { 0 };
    struct str text;
    struct rig r;

    rig_init(&r, conf);
    bitmap_init(&nodes, r.s->node_count);
    str_init(&text);
    ck_assert_msg(features_match(r.s, rows[_i].text, &nodes, &err) == rows[_i].code, "%s: %s", rows[_i].text, err.text);
    if (!rows[_i].code) {
        bitmap_print(&nodes, &text);
        ck_assert_str_eq(text.text, rows[_i].nodes);
        ck_assert_int_eq(features_init(&f, r.s, rows[_i].text, &err), 0);
        ck_assert_uint_eq(f.count, rows[_i].choices);
        features_fini(&f);
    }
    str_fini(&text);
    bitmap_fini(&nodes);
    rig_fini(&r);
}
END_TEST

Suite *features_suite(void);
Suite *features_suite(void)
{
    Suite *s = suite_create("plan/features");
    TCase *t = tcase_create("features");

    tcase_add_loop_test(t, table, 0, sizeof rows / sizeof rows[0]);
    suite_add_tcase(s, t);
    return s;
}
