/* SPDX-License-Identifier: Apache-2.0 */
/* test_munge.c - auth/munge with a munged of its own, in a folder of its own. Where there is no munged, or no module in this build, it says so and
 * passes. Runs in the folder of the build, as `make check` does. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "config/config.h"
#include "loader/loader.h"
#include "test_rpc.h"

struct side { const char *name, *role; char state[128]; struct spur_host h; struct loaded *l; const struct spur_auth_ops *ops; };

static char folder[64], module[96];
static pid_t munged;
static struct config *cfg;
static char last_log[512];

static const char *side_name(void *ctx) { return ((struct side *)ctx)->name; }
static const char *side_role(void *ctx) { return ((struct side *)ctx)->role; }
static const char *side_state(void *ctx) { return ((struct side *)ctx)->state; }
static void side_log(void *ctx, int level, const char *text)
{
    (void)ctx;
    (void)level;
    snprintf(last_log, sizeof last_log, "%s", text);
}

static void run(const char *format, ...)
{
    char command[600];
    va_list args;

    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    ck_assert_int_eq(system(command), 0);
}

static bool is_there(void)
{
    return access(".libs/auth_munge.so", R_OK) == 0 && (access("/usr/sbin/munged", X_OK) == 0 || access("/sbin/munged", X_OK) == 0);
}

static void setup(void)
{
    char socket[96], key[128], sock[128], pid[128], seed[128], log[128], spur[200], slurm[300];
    struct spur_error err;
    struct stat st;

    if (!is_there()) {
        fprintf(stderr, "auth/munge: no munged, or no module in this build: not tested\n");
        return;
    }
    strcpy(folder, "/tmp/spur-munge-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    chmod(folder, 0755);
    run("cp .libs/auth_munge.so %s/ && chmod 755 %s/auth_munge.so && head -c 128 /dev/urandom > %s/key && chmod 600 %s/key", folder, folder, folder, folder);
    snprintf(module, sizeof module, "%s/auth_munge.so", folder);
    snprintf(socket, sizeof socket, "%s/socket", folder);
    snprintf(key, sizeof key, "--key-file=%s/key", folder);
    snprintf(sock, sizeof sock, "--socket=%s", socket);
    snprintf(pid, sizeof pid, "--pid-file=%s/pid", folder);
    snprintf(seed, sizeof seed, "--seed-file=%s/seed", folder);
    snprintf(log, sizeof log, "--log-file=%s/log", folder);
    if ((munged = fork()) == 0) {
        if (!freopen("/dev/null", "w", stderr))
            _exit(127);
        execl("/usr/sbin/munged", "munged", "--foreground", "--force", key, sock, pid, seed, log, (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 1000 && (stat(socket, &st) < 0 || !S_ISSOCK(st.st_mode)); i++)
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    snprintf(spur, sizeof spur, "plugin \"auth/munge\" { socket = \"%s\" }\n", socket);
    snprintf(slurm, sizeof slurm, "ClusterName=c1\nSlurmctldHost=ctl1\nSlurmUser=%u\nNodeName=n1\nPartitionName=p Nodes=n1\n", (unsigned)getuid());
    ck_assert_msg(config_parse(slurm, NULL, NULL, NULL, spur, &cfg, &err) == 0, "%s", err.text);
}

static void teardown(void)
{
    if (!munged)
        return;
    kill(munged, SIGTERM);
    waitpid(munged, NULL, 0);
    config_free(cfg);
    run("rm -rf %s", folder);
}

static void side_open(struct side *x, const char *name, const char *role)
{
    struct spur_error err = { 0 };

    *x = (struct side){ .name = name, .role = role };
    snprintf(x->state, sizeof x->state, "%s", folder);
    x->h = (struct spur_host){ .size = sizeof x->h, .ctx = x, .log = side_log, .host_name = side_name, .role = side_role, .state_dir = side_state };
    ck_assert_msg(loader_open_file(SPUR_KIND_auth, module, cfg, &x->h, &x->l, &err) == 0, "%s", err.text);
    x->ops = loader_ops(x->l);
}

static int meet(struct side *a, struct side *b, bool by_server, struct spur_identity *id, struct spur_error *err)
{
    struct spur_transcript t = { .size = sizeof t, .by_server = by_server, .cluster = "c1" };
    uint8_t proof[SPUR_PROOF_MAX];
    size_t len;
    int rc;

    memset(t.hash, 4, sizeof t.hash);
    *id = (struct spur_identity){ .size = sizeof *id };
    if ((rc = a->ops->prove(a->l->self, &t, proof, &len, err)) < 0)
        return rc;
    return b->ops->check(b->l->self, &t, proof, len, id, err);
}

START_TEST(users_daemons_and_credentials)
{
    static const char data[] = "job 7";
    struct side ctl, n1, command;
    struct spur_identity id;
    struct spur_error err;
    struct stat st;
    uint8_t s[64];
    char path[128];

    if (!munged)
        return;
    side_open(&ctl, "ctl1", "controller");
    ck_assert_ptr_nonnull(strstr(last_log, "auth/sodium has a key for each host"));
    side_open(&n1, "n1", "agent");
    side_open(&command, "", "command");
    ck_assert(loader_can(ctl.l, SPUR_CAP_MAY_BLOCK) && !loader_can(ctl.l, SPUR_CAP_HOST_IDENTITY));
    ck_assert(!SPUR_HAS(ctl.ops, vouch));
    ck_assert_msg(meet(&command, &ctl, false, &id, &err) == 0, "%s", err.text);
    ck_assert_int_eq(id.role, SPUR_ROLE_USER);
    ck_assert_uint_eq(id.uid, getuid());
    ck_assert_uint_eq(id.gid, getgid());
    ck_assert_str_eq(id.host, "");
    ck_assert_int_eq(meet(&n1, &ctl, false, &id, &err), 0);
    ck_assert_int_eq(id.role, SPUR_ROLE_NODE);
    ck_assert_str_eq(id.host, "n1");
    ck_assert_int_eq(meet(&command, &ctl, true, &id, &err), SPUR_EAUTH);        /* a user is no server */
    /* A node can check a controller's credentials as soon as it has met him. */
    ck_assert_int_eq(ctl.ops->sign(ctl.l->self, "spur-launch-1", data, sizeof data, s, &err), 0);
    ck_assert_int_eq(n1.ops->verify(n1.l->self, "spur-launch-1", "ctl1", data, sizeof data, s, &err), SPUR_EAUTH);
    ck_assert_ptr_nonnull(strstr(err.text, "has shown no key yet"));
    ck_assert_int_eq(meet(&ctl, &n1, true, &id, &err), 0);
    ck_assert_int_eq(id.role, SPUR_ROLE_CONTROLLER);
    ck_assert_int_eq(n1.ops->verify(n1.l->self, "spur-launch-1", "ctl1", data, sizeof data, s, &err), 0);
    ck_assert_int_eq(n1.ops->verify(n1.l->self, "spur-io-1", "ctl1", data, sizeof data, s, &err), SPUR_EAUTH);
    ck_assert_int_eq(n1.ops->verify(n1.l->self, "spur-launch-1", "ctl2", data, sizeof data, s, &err), SPUR_EAUTH);
    ck_assert_int_eq(n1.ops->sign(n1.l->self, "spur-launch-1", data, sizeof data, s, &err), SPUR_EDENIED);
    /* The key is the same after a restart. */
    loader_close(ctl.l);
    snprintf(path, sizeof path, "%s/munge-signing.key", folder);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_eq(st.st_mode & 0777, 0600);
    side_open(&ctl, "ctl1", "controller");
    ck_assert_int_eq(n1.ops->verify(n1.l->self, "spur-launch-1", "ctl1", data, sizeof data, s, &err), 0);
    loader_close(ctl.l);
    loader_close(n1.l);
    loader_close(command.l);
}
END_TEST

Suite *suite_munge(void)
{
    Suite *s = suite_create("auth/munge");
    TCase *t = tcase_create("munge");

    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, users_daemons_and_credentials);
    suite_add_tcase(s, t);
    return s;
}
