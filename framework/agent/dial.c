/* SPDX-License-Identifier: Apache-2.0 */
/* dial.c - a command (sattach, sstat, sbcast) wants to talk to this node: its credential is checked, then the node dials the command.
 *
 * Checked as a launch is: the leader's signature over the exact bytes for the purpose that stands in them, cluster, fencing number, expiry, that this
 * node is in it; for a step also that it is the attempt and the user that run here. The step's supervisor dials for sattach and sstat. For
 * sbcast the pool forks a writer that becomes the user before it does anything else. A refusal is a line in the log: the command waits
 * with a deadline, and a node that refuses cannot tell it anything.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/drop.h"
#include "agent/inside.h"
#include "agent/supervisor.h"
#include "wire/dial.h"

#define DIAL_ARENA_CAP (4u << 20)

struct dialling {                   /* while an auth plugin that may block verifies */
    uv_work_t work;
    struct identity *node;
    Wire__Dial *dial;
    char purpose[32];
    int rc;
    struct spur_error err;
};

static void refuse(struct identity *n, const struct spur_error *err) { log_line(SPUR_LOG_ERROR, "%s: not dialled: %s", n->name, err->text); }

static int writer_start(struct identity *n, Wire__Credential *c, struct spur_error *err)
{
    Wire__StepOrder o = WIRE__STEP_ORDER__INIT;
    Wire__Launch none = WIRE__LAUNCH__INIT;
    gid_t *groups = mem_array(c->n_groups + 1, sizeof *groups);
    struct drop drop = { .uid = c->uid, .gid = c->gid, .groups = groups, .group_count = c->n_groups };
    int link = -1, rc;

    for (size_t i = 0; i < c->n_groups; i++)
        groups[i] = c->groups[i];
    o.version = STEP_PROTOCOL;
    o.launch = &none;
    none.signer = (char *)(uintptr_t)"";
    o.grant = c;
    o.node = (char *)(uintptr_t)n->name;
    o.folder = (char *)(uintptr_t)"";
    o.cluster = n->agent->set->cluster;
    rc = drop_possible(&drop, err);
    if (rc == 0)
        rc = pool_order(&n->agent->pool, &o, &link, err);
    if (rc == 0)
        close(link);
    free(groups);
    return rc;
}

static int dial_step(struct identity *n, Wire__Credential *c, struct spur_error *err)
{
    struct agent_step *s = step_find(n, c->job_id, c->step_id);
    Wire__Dial d = WIRE__DIAL__INIT;
    char step[16];

    if (!s || s->attempt != c->attempt || s->uid != c->uid)
        return spur_fail(err, SPUR_ENOTFOUND, "job %u.%s does not run here", c->job_id, step_text(c->step_id, step));
    d.grant = c;
    step_say(s, WIRE__MESSAGE_TYPE__STEP_DIAL, &d.base);
    return 0;
}

static void verified(struct identity *n, const Wire__Dial *d)
{
    struct agent *a = n->agent;
    struct spur_error err = { 0 };
    Wire__Credential *c = NULL;
    struct arena arena;
    int rc;

    arena_init(&arena, DIAL_ARENA_CAP);
    rc = dial_open(d, &arena, &c, &err);
    if (rc == 0)
        rc = dial_check(c, a->set->cluster, n->name, a->seen.fence, clock_wall_ms(), &err);
    if (rc == 0)
        rc = seen_fence(&a->seen, c->fence, &err);
    if (rc == 0 && a->is_emulated)
        rc = spur_fail(&err, SPUR_EUNSUPPORTED, "an emulated node has no processes");
    if (rc == 0)
        rc = strcmp(c->purpose, CREDENTIAL_PURPOSE_SBCAST) ? dial_step(n, c, &err) : writer_start(n, c, &err);
    if (rc < 0)
        refuse(n, &err);
    arena_fini(&arena);
}

static int verify(struct agent *a, const Wire__Dial *d, const char *purpose, struct spur_error *err)
{
    const struct spur_auth_ops *ops = loader_ops(a->auth);

    if (d->signature.len != 64 || !d->signer)
        return spur_fail(err, SPUR_EAUTH, "a credential with a signature of %zu bytes, not 64", d->signature.len);
    if (!SPUR_HAS(ops, verify))
        return spur_fail(err, SPUR_EAUTH, "%s cannot verify credentials", a->auth->name);
    return ops->verify(a->auth->self, purpose, d->signer, d->credential.data, d->credential.len, d->signature.data, err);
}

static void check_work(uv_work_t *w)
{
    struct dialling *k = w->data;

    k->rc = verify(k->node->agent, k->dial, k->purpose, &k->err);
}

static void check_done(uv_work_t *w, int status)
{
    struct dialling *k = w->data;

    (void)status;
    if (!k->node->agent->is_stopping) {
        if (k->rc < 0)
            refuse(k->node, &k->err);
        else
            verified(k->node, k->dial);
    }
    wire__dial__free_unpacked(k->dial, NULL);
    free(k);
}

void agent_dial(struct identity *n, const uint8_t *bytes, size_t len)
{
    struct dialling *k = mem_alloc(sizeof *k);
    Wire__Credential *c = NULL;
    struct arena arena;

    arena_init(&arena, DIAL_ARENA_CAP);
    k->work.data = k;
    k->node = n;
    k->dial = wire__dial__unpack(NULL, len, bytes);
    if (!k->dial)
        k->rc = spur_fail(&k->err, SPUR_ESYNTAX, "a message that cannot be read (%zu bytes)", len);
    else if ((k->rc = dial_open(k->dial, &arena, &c, &k->err)) == 0)      /* the words are used only to know what the signature must be for */
        snprintf(k->purpose, sizeof k->purpose, "%s", c->purpose);
    arena_fini(&arena);
    if (k->rc == 0 && loader_can(n->agent->auth, SPUR_CAP_MAY_BLOCK) && uv_queue_work(n->agent->loop, &k->work, check_work, check_done) == 0)
        return;
    if (k->rc == 0)
        k->rc = verify(n->agent, k->dial, k->purpose, &k->err);
    check_done(&k->work, 0);
}
