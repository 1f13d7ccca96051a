/* SPDX-License-Identifier: Apache-2.0 */
/* test_hosts.c - the text of hosts: lines dropped and added, two who want the same line, what a configuration leaves as it was, snapshots. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "test_state.h"

#define CONF "ClusterName=t\nSlurmctldHost=c\nNodeName=n1 CPUs=8 RealMemory=16000\nPartitionName=main Nodes=ALL Default=YES\n"

static int edit(struct stage *g, const char *drop, const char *add)
{
    Wire__OpHosts hosts = WIRE__OP_HOSTS__INIT;
    Wire__Op op = WIRE__OP__INIT;
    char *drops[] = { (char *)(uintptr_t)drop }, *adds[] = { (char *)(uintptr_t)add };

    hosts.drop = drops;
    hosts.n_drop = drop != NULL;
    hosts.add = adds;
    hosts.n_add = add != NULL;
    op.hosts = &hosts;
    return stage_op(g, &op);
}

static int configure(struct stage *g, const char *hosts)
{
    Wire__ConfigFiles files = WIRE__CONFIG_FILES__INIT;
    Wire__OpConfig config = WIRE__OP_CONFIG__INIT;
    Wire__Op op = WIRE__OP__INIT;

    files.slurm = (char *)(uintptr_t)CONF;
    files.hosts = (char *)(uintptr_t)hosts;
    config.files = &files;
    op.config = &config;
    return stage_op(g, &op);
}

static const char *text(const struct state *s) { return s->config->hosts_text ? s->config->hosts_text : ""; }

START_TEST(lines_come_and_go)
{
    struct stage g;
    struct state *copy;

    stage_open(&g, "node n1 cpus 8");
    ck_assert_int_eq(edit(&g, NULL, "n1 token aa role=compute"), 0);
    ck_assert_int_eq(edit(&g, NULL, "n2 compute bb"), 0);
    ck_assert_int_eq(edit(&g, NULL, "n2 compute bb"), 0);               /* there already */
    ck_assert_str_eq(text(g.s), "n1 token aa role=compute\nn2 compute bb\n");
    /* Two bring one token: the line is there for one of them. */
    ck_assert_int_eq(edit(&g, "n1 token aa role=compute", "n1 compute cc"), 0);
    ck_assert_int_eq(edit(&g, "n1 token aa role=compute", "n1 compute dd"), SPUR_ESTALE);
    ck_assert_str_eq(text(g.s), "n2 compute bb\nn1 compute cc\n");
    ck_assert_int_eq(edit(&g, "n2 compute b", NULL), SPUR_ESTALE);      /* a line, not a part of one */
    ck_assert_int_eq(edit(&g, "n2 compute bb ", NULL), SPUR_ESTALE);
    ck_assert_int_eq(edit(&g, "", NULL), SPUR_ESTALE);
    ck_assert_int_eq(edit(&g, NULL, "n3 compute ee\nroot controller ff"), SPUR_EINVAL);
    ck_assert_int_eq(edit(&g, NULL, "n3 compute ee # x"), SPUR_EINVAL);
    ck_assert_int_eq(edit(&g, NULL, ""), SPUR_EINVAL);
    ck_assert_str_eq(text(g.s), "n2 compute bb\nn1 compute cc\n");
    copy = stage_copy(&g);
    ck_assert_str_eq(text(copy), text(g.s));
    state_destroy(copy);
    /* A controller's files say nothing of hosts; a text does, and an empty one too. */
    ck_assert_int_eq(configure(&g, NULL), 0);
    ck_assert_str_eq(text(g.s), "n2 compute bb\nn1 compute cc\n");
    ck_assert_int_eq(configure(&g, "n9 login gg\n"), 0);
    ck_assert_str_eq(text(g.s), "n9 login gg\n");
    ck_assert_int_eq(configure(&g, ""), 0);
    ck_assert_str_eq(text(g.s), "");
    ck_assert_int_eq(edit(&g, "n9 login gg", NULL), SPUR_ESTALE);
    stage_close(&g);
}
END_TEST

Suite *hosts_suite(void);
Suite *hosts_suite(void)
{
    Suite *s = suite_create("hosts");
    TCase *t = tcase_create("hosts");

    tcase_add_test(t, lines_come_and_go);
    suite_add_tcase(s, t);
    return s;
}
