/* SPDX-License-Identifier: Apache-2.0 */
/* contract_mpi.c - promises of an mpi plugin: it starts on any shape of step, gives each task a whole environment, and neither a rank that talks nonsense nor one
 * that goes harms the server. A plugin whose library is not here may refuse to open or to start, with a sentence. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <spur/mpi.h>

#include "loader/contract.h"

static const char *const names[] = { "n1", "n2", "n3" };

/* A step of `nodes` nodes with two tasks each, seen from node `rank`. */
struct bed {
    struct spur_mpi_step step;
    uint32_t first[4], tasks[6], gathers, sends, aborts;
    int  ends[2][2];            /* of task 0 and 1: ours, the plugin's */
    bool is_bad; char name[64];
    unsigned set;
};

static int bed_gather(void *ctx, const char *key, const uint32_t *nodes, uint32_t count, const void *data, size_t len, struct spur_error *err)
{
    struct bed *b = ctx;

    (void)err;
    b->is_bad |= !key || !*key || strlen(key) > SPUR_MPI_KEY_MAX || (count && !nodes) || (len && !data);
    b->gathers++;
    return 0;
}

static int bed_send(void *ctx, uint32_t node, const void *data, size_t len, struct spur_error *err)
{
    struct bed *b = ctx;

    (void)err;
    b->is_bad |= node >= b->step.node_count || (len && !data);
    b->sends++;
    return 0;
}

static void bed_abort(void *ctx, int exit_code, const char *text)
{
    struct bed *b = ctx;

    (void)exit_code;
    b->is_bad |= !text || !*text;
    b->aborts++;
}

static void env_set(void *arg, const char *name, const char *value)
{
    struct bed *b = arg;

    b->set++;
    snprintf(b->name, sizeof b->name, "%s", name ? name : "(null)");
    b->is_bad |= !name || !value || !*name || isdigit((unsigned char)*name) || strchr(name, '=');
}

static void bed_make(struct contract *c, struct bed *b, uint32_t nodes, uint32_t rank)
{
    *b = (struct bed){ .step = { .size = sizeof b->step, .job_id = 7, .step_id = 0, .uid = getuid(), .gid = getgid(), .ntasks = 2 * nodes, .node_count = nodes,
                                 .node_rank = rank, .nodes = names, .cluster = "c", .dir = c->dir, .gather = bed_gather, .send = bed_send, .abort = bed_abort } };
    b->step.ctx = b;
    b->step.first = b->first;
    b->step.tasks = b->tasks;
    for (uint32_t i = 0; i <= nodes; i++)
        b->first[i] = 2 * i;
    for (uint32_t i = 0; i < 2 * nodes; i++)        /* dealt out in turn */
        b->tasks[i] = i / 2 + i % 2 * nodes;
}

/* 0, CONTRACT_SKIP when it says that it cannot start here, or a broken promise. */
static int bed_start(const struct spur_mpi_ops *ops, void *self, struct bed *b, struct spur_error *err)
{
    const struct spur_mpi_env env = { .size = sizeof env, .arg = b, .set = env_set };
    int rc;

    err->text[0] = '\0';
    if ((rc = ops->start(self, &b->step, err)) < 0) {
        CONTRACT_EXPECT(err->text[0], "start fails (%d) without a sentence", rc);
        return CONTRACT_SKIP;
    }
    for (uint32_t i = 0; i < 2; i++) {
        if (SPUR_HAS(ops, input))
            CONTRACT_EXPECT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, b->ends[i]) == 0, "no socket for a task");
        err->text[0] = '\0';
        rc = ops->task(self, i, SPUR_HAS(ops, input) ? b->ends[i][1] : -1, &env, err);
        CONTRACT_EXPECT(rc == 0 || (rc < 0 && err->text[0]), "task fails (%d) without a sentence", rc);
        CONTRACT_EXPECT(!b->is_bad, "task sets a variable that cannot be one: %s", b->name);
        if (rc < 0)
            return CONTRACT_SKIP;
    }
    return 0;
}

static int starts(struct contract *c, struct spur_error *err)
{
    int rc = 0;

    for (uint32_t nodes = 1; rc == 0 && nodes <= 3; nodes++) {
        struct loaded *l;
        struct bed b;

        if ((rc = contract_open(c, &l, err)) < 0)
            return rc;
        bed_make(c, &b, nodes, nodes - 1);
        rc = bed_start(loader_ops(l), l->self, &b, err);
        loader_close(l);
    }
    return rc;
}

static int survives_ranks(struct contract *c, struct spur_error *err)
{
    static const char *const nonsense[] = { "\n", "cmd=nothing\n", "cmd=put key= value=\n", "cmd=init pmi_version=9 pmi_subversion=9\n", "cmd=init pmi_version=2 pmi_subversion=0\n999999",
                                            "cmd=init pmi_version=2 pmi_subversion=0\n    -1", "\0\0\0\0" };
    const struct spur_mpi_ops *ops;

    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        struct loaded *l;
        struct bed b;
        bool is_open = true;
        char answer[4096];
        int rc;

        if ((rc = contract_open(c, &l, err)) < 0)
            return rc;
        ops = loader_ops(l);
        if (!SPUR_HAS(ops, input)) {
            loader_close(l);
            return CONTRACT_SKIP;
        }
        bed_make(c, &b, 2, 0);
        if ((rc = bed_start(ops, l->self, &b, err)))
            return rc;
        if (write(b.ends[0][0], nonsense[i], strlen(nonsense[i]) ? strlen(nonsense[i]) : 4) < 0)
            return spur_fail(err, SPUR_EIO, "the plugin has closed a socket that is the host's");
        is_open = ops->input(l->self, 0) >= 0;
        while (read(b.ends[0][0], answer, sizeof answer) > 0)
            ;
        close(b.ends[0][0]);                    /* the rank is gone: the plugin has to see it, and to give the socket back */
        for (int k = 0; is_open && k < 8; k++)
            is_open = ops->input(l->self, 0) >= 0;
        CONTRACT_EXPECT(!is_open, "input of a task that is gone says that there will be more");
        CONTRACT_EXPECT(!b.is_bad, "the host was asked for something that cannot be");
        close(b.ends[0][1]);
        close(b.ends[1][0]);
        close(b.ends[1][1]);
        loader_close(l);
    }
    return 0;
}

static int survives_peers(struct contract *c, struct spur_error *err)
{
    const struct spur_mpi_ops *ops;
    struct loaded *l;
    struct bed b;
    const struct spur_mpi_part parts[2] = { { 0, "\xff\xff\xff\xff", 4 }, { 1, NULL, 0 } };
    int rc;

    if ((rc = contract_open(c, &l, err)) < 0)
        return rc;
    ops = loader_ops(l);
    bed_make(c, &b, 2, 1);
    if ((rc = bed_start(ops, l->self, &b, err)))
        return rc;
    if (SPUR_HAS(ops, gathered)) {
        ops->gathered(l->self, "nobody asked for this", parts, 2, sizeof parts[0]);
        ops->gathered(l->self, "fence/0", parts, 2, sizeof parts[0]);
    }
    for (size_t n = 0; SPUR_HAS(ops, received) && n <= 16; n++)
        ops->received(l->self, 0, "PPPPPPPPPPPPPPP", n);
    if (SPUR_HAS(ops, lost)) {
        ops->lost(l->self, "a cut cable");
        ops->lost(l->self, "a cut cable");
    }
    if (SPUR_HAS(ops, ended))
        ops->ended(l->self, 0, 0);
    CONTRACT_EXPECT(!b.is_bad, "the host was asked for something that cannot be");
    loader_close(l);
    return 0;
}

const struct contract_case contract_mpi[] = {
    { "starts on any shape of step", starts },
    { "a rank that talks nonsense, or goes", survives_ranks },
    { "answers nobody asked for", survives_peers },
    { 0 } };
