/* SPDX-License-Identifier: Apache-2.0 */
/* test_auth.c - auth/sodium as hosts meet it: keys made by `spur cluster init`, proofs between roles, users vouched for, credentials,
 * loose modes, changed files. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmds/cluster.h"
#include "config/config.h"
#include "loader/loader.h"
#include "test_rpc.h"

struct host { const char *name, *role; struct spur_host h; struct loaded *l; const struct spur_auth_ops *ops; struct config *cfg; };

static char folder[64];
static char last_log[1024];

static const char *host_name(void *ctx) { return ((struct host *)ctx)->name; }
static const char *host_role(void *ctx) { return ((struct host *)ctx)->role; }
static void host_log(void *ctx, int level, const char *text)
{
    (void)ctx;
    (void)level;
    snprintf(last_log, sizeof last_log, "%s", text);
}

static int host_open_with(struct host *x, const char *name, const char *role, const char *dir_of, const char *more, struct spur_error *err)
{
    char spur[512];
    int rc;

    *x = (struct host){ .name = name, .role = role };
    x->h = (struct spur_host){ .size = sizeof x->h, .ctx = x, .log = host_log, .host_name = host_name, .role = host_role };
    snprintf(spur, sizeof spur, "plugin \"auth/sodium\" { key_dir = \"%s/%s\" %s }\n", folder, dir_of, more);
    ck_assert_int_eq(config_parse("ClusterName=c1\nSlurmctldHost=ctl1\nNodeName=n1\nPartitionName=p Nodes=n1\n", NULL, NULL, NULL, spur, &x->cfg, err), 0);
    rc = loader_open(SPUR_KIND_auth, "auth/sodium", x->cfg, &x->h, &x->l, err);
    if (rc == 0)
        x->ops = loader_ops(x->l);
    return rc;
}

static void host_open(struct host *x, const char *name, const char *role)
{
    struct spur_error err = { 0 };

    ck_assert_msg(host_open_with(x, name, role, name, "", &err) == 0, "%s", err.text);
}

static void host_close(struct host *x)
{
    loader_close(x->l);
    config_free(x->cfg);
}

static void setup(void)
{
    struct spur_error err;

    strcpy(folder, "/tmp/spur-keys-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_msg(cluster_keys_make(folder, "ctl1,ctl2", "n[1-3]", &err) == 0, "%s", err.text);
}

static void teardown(void)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static struct spur_transcript transcript(int fill, bool by_server)
{
    struct spur_transcript t = { .size = sizeof t, .by_server = by_server, .cluster = "c1" };

    memset(t.hash, fill, sizeof t.hash);
    return t;
}

/* a proves, b checks. */
static int meet(struct host *a, struct host *b, bool by_server, struct spur_identity *id, struct spur_error *err)
{
    struct spur_transcript t = transcript(3, by_server);
    uint8_t proof[SPUR_PROOF_MAX];
    size_t len;
    int rc;

    *id = (struct spur_identity){ .size = sizeof *id };
    if ((rc = a->ops->prove(a->l->self, &t, proof, &len, err)) < 0)
        return rc;
    return b->ops->check(b->l->self, &t, proof, len, id, err);
}

START_TEST(hosts_know_each_other)
{
    struct host ctl, ctl2, n1, n2, command;
    struct spur_identity id;
    struct spur_error err;

    host_open(&ctl, "ctl1", "controller");
    host_open(&ctl2, "ctl2", "controller");
    host_open(&n1, "n1", "agent");
    host_open(&n2, "n2", "agent");
    ck_assert_int_eq(host_open_with(&command, "", "command", "n1", "", &err), 0);
    ck_assert_int_eq(meet(&n1, &ctl, false, &id, &err), 0);
    ck_assert_int_eq(id.role, SPUR_ROLE_NODE);
    ck_assert_int_eq(id.host_role, SPUR_ROLE_NODE);
    ck_assert_str_eq(id.host, "n1");
    ck_assert_uint_eq(id.uid, UINT32_MAX);
    ck_assert_int_eq(meet(&ctl, &n1, true, &id, &err), 0);
    ck_assert_int_eq(id.role, SPUR_ROLE_CONTROLLER);
    ck_assert_str_eq(id.host, "ctl1");
    ck_assert_int_eq(meet(&ctl2, &ctl, false, &id, &err), 0);
    ck_assert_int_eq(meet(&ctl, &command, true, &id, &err), 0);
    ck_assert_int_eq(meet(&n1, &n2, false, &id, &err), SPUR_EAUTH);       /* nodes know controllers only */
    ck_assert_ptr_nonnull(strstr(err.text, "host n1 is not in"));
    ck_assert_int_eq(meet(&command, &ctl, false, &id, &err), SPUR_EAUTH);
    ck_assert_ptr_nonnull(strstr(err.text, "vouches"));
    host_close(&ctl);
    host_close(&ctl2);
    host_close(&n1);
    host_close(&n2);
    host_close(&command);
}
END_TEST

START_TEST(users_are_vouched_for)
{
    struct spur_transcript t = transcript(9, false), other = transcript(8, false), server = transcript(9, true);
    struct host ctl, n1;
    struct spur_identity id = { .size = sizeof id };
    struct spur_error err;
    uint8_t proof[SPUR_PROOF_MAX], bad[SPUR_PROOF_MAX];
    size_t len;

    host_open(&ctl, "ctl1", "controller");
    host_open(&n1, "n1", "agent");
    ck_assert_int_eq(n1.ops->vouch(n1.l->self, &t, 1000, 100, proof, &len, &err), 0);
    ck_assert_int_eq(ctl.ops->check(ctl.l->self, &t, proof, len, &id, &err), 0);
    ck_assert_int_eq(id.role, SPUR_ROLE_USER);
    ck_assert_uint_eq(id.uid, 1000);
    ck_assert_uint_eq(id.gid, 100);
    ck_assert_str_eq(id.host, "n1");
    ck_assert_int_eq(id.host_role, SPUR_ROLE_NODE);
    ck_assert_int_eq(ctl.ops->check(ctl.l->self, &other, proof, len, &id, &err), SPUR_EAUTH);
    ck_assert_int_eq(ctl.ops->check(ctl.l->self, &server, proof, len, &id, &err), SPUR_EAUTH);
    for (size_t i = 0; i < len; i++)            /* any bit: role, uid, gid, name, key, signature */
        for (int bit = 0; bit < 8; bit++) {
            memcpy(bad, proof, len);
            bad[i] ^= 1 << bit;
            ck_assert_int_eq(ctl.ops->check(ctl.l->self, &t, bad, len, &id, &err), SPUR_EAUTH);
        }
    ck_assert_int_lt(n1.ops->vouch(n1.l->self, &server, 1000, 100, proof, &len, &err), 0);
    /* Root of a compute host is nobody elsewhere; root of a controller is root. */
    ck_assert_int_eq(n1.ops->vouch(n1.l->self, &t, 0, 0, proof, &len, &err), 0);
    ck_assert_int_eq(ctl.ops->check(ctl.l->self, &t, proof, len, &id, &err), SPUR_EAUTH);
    ck_assert_ptr_nonnull(strstr(err.text, "root of compute host n1 is nobody here"));
    ck_assert_int_eq(ctl.ops->vouch(ctl.l->self, &t, 0, 0, proof, &len, &err), 0);
    ck_assert_int_eq(ctl.ops->check(ctl.l->self, &t, proof, len, &id, &err), 0);
    host_close(&ctl);
    ck_assert_int_eq(host_open_with(&ctl, "ctl1", "controller", "ctl1", "root_from = \"controller,compute\"", &err), 0);
    ck_assert_int_eq(n1.ops->vouch(n1.l->self, &t, 0, 0, proof, &len, &err), 0);
    ck_assert_int_eq(ctl.ops->check(ctl.l->self, &t, proof, len, &id, &err), 0);
    host_close(&ctl);
    ck_assert_int_eq(host_open_with(&ctl, "ctl1", "controller", "ctl1", "root_from = \"anywhere\"", &err), SPUR_EINVAL);
    config_free(ctl.cfg);
    host_close(&n1);
}
END_TEST

START_TEST(credentials)
{
    static const char data[] = "job 7 on n1";
    struct host ctl, ctl2, n1;
    struct spur_error err;
    uint8_t s[64];

    host_open(&ctl, "ctl1", "controller");
    host_open(&ctl2, "ctl2", "controller");
    host_open(&n1, "n1", "agent");
    ck_assert_int_eq(ctl.ops->sign(ctl.l->self, "spur-launch-1", data, sizeof data, s, &err), 0);
    ck_assert_int_eq(n1.ops->verify(n1.l->self, "spur-launch-1", "ctl1", data, sizeof data, s, &err), 0);
    ck_assert_int_eq(ctl2.ops->verify(ctl2.l->self, "spur-launch-1", "ctl1", data, sizeof data, s, &err), 0);
    ck_assert_int_eq(n1.ops->verify(n1.l->self, "spur-launch-1", "ctl2", data, sizeof data, s, &err), SPUR_EAUTH);
    ck_assert_int_eq(n1.ops->verify(n1.l->self, "spur-io-1", "ctl1", data, sizeof data, s, &err), SPUR_EAUTH);
    ck_assert_int_eq(n1.ops->verify(n1.l->self, "spur-launch-1", "n1", data, sizeof data, s, &err), SPUR_EAUTH);
    ck_assert_ptr_nonnull(strstr(err.text, "no controller"));
    ck_assert_int_eq(n1.ops->verify(n1.l->self, "spur-launch-1", "ctl1", data, sizeof data - 1, s, &err), SPUR_EAUTH);
    s[63] ^= 1;
    ck_assert_int_eq(n1.ops->verify(n1.l->self, "spur-launch-1", "ctl1", data, sizeof data, s, &err), SPUR_EAUTH);
    ck_assert_int_eq(n1.ops->sign(n1.l->self, "spur-launch-1", data, sizeof data, s, &err), SPUR_EDENIED);
    host_close(&ctl);
    host_close(&ctl2);
    host_close(&n1);
}
END_TEST

static void in_folder(const char *what, char *path, size_t size)
{
    snprintf(path, size, "%s/%s", folder, what);
}

START_TEST(modes_and_missing_keys)
{
    struct host x;
    struct spur_error err;
    struct stat st;
    char path[200];

    in_folder("n1/host.key", path, sizeof path);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_eq(st.st_mode & 0777, 0600);
    chmod(path, 0640);
    ck_assert_int_lt(host_open_with(&x, "n1", "agent", "n1", "", &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "chmod 0600"));
    config_free(x.cfg);
    chmod(path, 0600);
    in_folder("n1/hosts", path, sizeof path);
    chmod(path, 0666);
    ck_assert_int_lt(host_open_with(&x, "n1", "agent", "n1", "", &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "others can write it"));
    config_free(x.cfg);
    chmod(path, 0644);
    ck_assert_int_lt(host_open_with(&x, "n2", "agent", "n1", "", &err), 0);           /* another host's folder */
    ck_assert_ptr_nonnull(strstr(err.text, "no key for host n2"));
    config_free(x.cfg);
    ck_assert_int_lt(host_open_with(&x, "n9", "agent", "n9", "", &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "spur cluster init"));
    config_free(x.cfg);
}
END_TEST

static void rewrite(const char *what, const char *text, mode_t mode)
{
    char path[200];
    FILE *f;

    in_folder(what, path, sizeof path);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
    chmod(path, mode);
}

static char *slurp(const char *what)
{
    static char buf[8192];
    char path[200];
    FILE *f;
    size_t n;

    in_folder(what, path, sizeof path);
    f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    n = fread(buf, 1, sizeof buf - 1, f);
    buf[n] = '\0';
    fclose(f);
    return buf;
}

START_TEST(broken_files)
{
    static const struct { const char *text, *words; } rows[] = {
        { "", "names no host" }, { "# nothing\n", "names no host" }, { "n1 compute\n", "not NAME ROLE KEY" }, { "n1 king 00\n", "role 'king'" },
        { "n1 compute 0011\n", "64 hex digits" },
        { "n1 compute 0000000000000000000000000000000000000000000000000000000000000000\n", "64 hex digits" },
        { "n1 compute zz00000000000000000000000000000000000000000000000000000000000000\n", "64 hex digits" },
        { "n1 compute 1100000000000000000000000000000000000000000000000000000000000000 more\n", "not NAME ROLE KEY" } };
    struct host x;
    struct spur_error err;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rewrite("n1/hosts", rows[i].text, 0644);
        ck_assert_int_lt(host_open_with(&x, "n1", "agent", "n1", "", &err), 0);
        ck_assert_msg(strstr(err.text, rows[i].words), "'%s' gives: %s", rows[i].text, err.text);
        config_free(x.cfg);
    }
}
END_TEST

START_TEST(rotation_and_new_hosts_need_no_restart)
{
    struct host ctl, n1, n4;
    struct spur_identity id;
    struct spur_error err;
    char *text, *line, keep[16384];

    host_open(&ctl, "ctl1", "controller");
    host_open(&n1, "n1", "agent");
    ck_assert_int_eq(meet(&n1, &ctl, false, &id, &err), 0);
    /* A host more: the same command with a longer list. */
    ck_assert_int_eq(cluster_keys_make(folder, NULL, "n[1-4]", &err), 0);
    host_open(&n4, "n4", "agent");
    ck_assert_int_eq(meet(&n4, &ctl, false, &id, &err), 0);
    ck_assert_str_eq(id.host, "n4");
    ck_assert_int_eq(meet(&n1, &ctl, false, &id, &err), 0);               /* and the old key has stayed */
    /* Revoked: its line goes. */
    snprintf(keep, sizeof keep, "%s", slurp("ctl1/hosts"));
    text = strdup(keep);
    line = strstr(text, "n4 compute");
    *line = '#';
    rewrite("ctl1/hosts", text, 0644);
    ck_assert_int_eq(meet(&n4, &ctl, false, &id, &err), SPUR_EAUTH);
    /* Half written: the last good reading stays in force, and it is said. */
    last_log[0] = '\0';
    rewrite("ctl1/hosts", "n1 comp", 0644);
    ck_assert_int_eq(meet(&n1, &ctl, false, &id, &err), 0);
    ck_assert_ptr_nonnull(strstr(last_log, "kept as it was"));
    ck_assert_int_eq(meet(&n4, &ctl, false, &id, &err), SPUR_EAUTH);
    /* Two keys of one host at once. */
    rewrite("n1/host.key", "n1 compute 1111111111111111111111111111111111111111111111111111111111111111\n", 0600);
    rewrite("ctl1/hosts", keep, 0644);
    ck_assert_int_eq(meet(&n1, &ctl, false, &id, &err), SPUR_EAUTH);
    ck_assert_ptr_nonnull(strstr(err.text, "a key that is not in"));
    snprintf(keep + strlen(keep), sizeof keep - strlen(keep), "n1 compute d04ab232742bb4ab3a1368bd4615e4e6d0224ab71a016baf8520a332c9778737\n");
    rewrite("ctl1/hosts", keep, 0644);
    ck_assert_int_eq(meet(&n1, &ctl, false, &id, &err), 0);
    free(text);
    host_close(&ctl);
    host_close(&n1);
    host_close(&n4);
}
END_TEST

START_TEST(one_machine_two_roles)
{
    struct host as_ctl, as_node, ctl2;
    struct spur_identity id;
    struct spur_error err;

    ck_assert_int_eq(cluster_keys_make(folder, NULL, "ctl1", &err), 0);
    host_open(&as_ctl, "ctl1", "controller");
    host_open(&as_node, "ctl1", "agent");
    host_open(&ctl2, "ctl2", "controller");
    ck_assert_int_eq(meet(&as_ctl, &ctl2, false, &id, &err), 0);
    ck_assert_int_eq(id.role, SPUR_ROLE_CONTROLLER);
    ck_assert_int_eq(meet(&as_node, &ctl2, false, &id, &err), 0);
    ck_assert_int_eq(id.role, SPUR_ROLE_NODE);
    host_close(&as_ctl);
    host_close(&as_node);
    host_close(&ctl2);
}
END_TEST

Suite *suite_auth(void)
{
    Suite *s = suite_create("auth/sodium");
    TCase *t = tcase_create("sodium");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, hosts_know_each_other);
    tcase_add_test(t, users_are_vouched_for);
    tcase_add_test(t, credentials);
    tcase_add_test(t, modes_and_missing_keys);
    tcase_add_test(t, broken_files);
    tcase_add_test(t, rotation_and_new_hosts_need_no_restart);
    tcase_add_test(t, one_machine_two_roles);
    suite_add_tcase(s, t);
    return s;
}
