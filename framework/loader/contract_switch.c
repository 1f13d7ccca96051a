/* SPDX-License-Identifier: Apache-2.0 */
/* contract_switch.c - promises of a switch plugin. A fabric may need rights or a device that this machine lacks: then a call may fail, with a
 * sentence, and the rest of its contract holds all the same. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <spur/switch.h>

#include "loader/contract.h"

static const char *const nodes[] = { "n1", "n2" };

struct env_seen { unsigned count; bool is_bad; char name[64]; };

static void env_set(void *arg, const char *name, const char *value)
{
    struct env_seen *e = arg;

    e->count++;
    snprintf(e->name, sizeof e->name, "%s", name ? name : "(null)");
    if (!name || !value || !*name || isdigit((unsigned char)*name) || strchr(name, '=') || strchr(value, '\n'))
        e->is_bad = true;
}

static struct spur_switch_job job_make(uint32_t id, const void *blob, size_t len)
{
    return (struct spur_switch_job){ .size = sizeof(struct spur_switch_job), .job_id = id, .attempt = 1, .uid = 1000, .nodes = nodes, .node_count = 2,
                                     .blob = blob, .blob_len = len };
}

static int joins_and_leaves(struct contract *c, struct spur_error *err)
{
    struct env_seen seen = { 0 };
    const struct spur_switch_env env = { .size = sizeof env, .arg = &seen, .set = env_set };
    const struct spur_switch_ops *ops;
    unsigned char blob[1024 + 8];
    size_t len = 1024;
    struct loaded *l;
    int rc;

    if ((rc = contract_open(c, &l, err)) < 0)
        return rc;
    ops = loader_ops(l);
    memset(blob, 0xa5, sizeof blob);
    if (SPUR_HAS(ops, allot)) {
        struct spur_switch_job asked = job_make(7, NULL, 0);

        rc = ops->allot(l->self, &asked, blob, &len, err);
        CONTRACT_EXPECT(rc == 0 || (rc < 0 && err->text[0]), "allot fails (%d) without a sentence", rc);
        CONTRACT_EXPECT(rc < 0 || len <= 1024, "allot gives a blob of %zu bytes, 1024 is the room", len);
        for (size_t i = 1024; i < sizeof blob; i++)
            CONTRACT_EXPECT(blob[i] == 0xa5, "allot writes past the room of the blob");
        if (rc < 0)
            len = 0;
    } else {
        len = 0;
    }
    for (uint32_t round = 0; round < 3; round++) {
        struct spur_switch_job job = job_make(7 + round, len ? blob : NULL, len);

        err->text[0] = '\0';
        rc = ops->job_join(l->self, &job, &env, err);
        CONTRACT_EXPECT(rc == 0 || (rc < 0 && err->text[0]), "job_join fails (%d) without a sentence", rc);
        CONTRACT_EXPECT(!seen.is_bad, "job_join sets a variable that cannot be one: %s", seen.name);
        ops->job_leave(l->self, &job);
        ops->job_leave(l->self, &job);      /* the second is an agent that has restarted */
    }
    if (SPUR_HAS(ops, release)) {
        struct spur_switch_job job = job_make(7, len ? blob : NULL, len);

        ops->release(l->self, &job);
        ops->release(l->self, &job);
    }
    loader_close(l);
    return 0;
}

static int leaves_without_joining(struct contract *c, struct spur_error *err)
{
    struct spur_switch_job job = job_make(4242, NULL, 0);
    struct loaded *l;
    int rc;

    if ((rc = contract_open(c, &l, err)) < 0)
        return rc;
    ((const struct spur_switch_ops *)loader_ops(l))->job_leave(l->self, &job);
    loader_close(l);
    return 0;
}

static int status_fits(struct contract *c, struct spur_error *err)
{
    const struct spur_switch_ops *ops;
    struct loaded *l;
    int rc;

    if ((rc = contract_open(c, &l, err)) < 0)
        return rc;
    ops = loader_ops(l);
    if (!SPUR_HAS(ops, status))
        return CONTRACT_SKIP;
    for (size_t len = 1; len < 300; len = len * 2 + 1) {
        char buf[512];

        memset(buf, 'x', sizeof buf);
        ops->status(l->self, buf, len);
        CONTRACT_EXPECT(memchr(buf, '\0', len), "status leaves a buffer of %zu bytes without an end", len);
        CONTRACT_EXPECT(buf[len] == 'x', "status writes past a buffer of %zu bytes", len);
        CONTRACT_EXPECT(!strchr(buf, '\n'), "status has more than one line");
    }
    loader_close(l);
    return 0;
}

const struct contract_case contract_switch[] = {
    { "a job joins and leaves, twice too", joins_and_leaves },
    { "leaving without joining", leaves_without_joining },
    { "status fits its buffer", status_fits },
    { 0 } };
