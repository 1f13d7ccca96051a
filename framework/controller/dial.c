/* SPDX-License-Identifier: Apache-2.0 */
/* dial.c - sattach, sstat and sbcast: signs a credential for the nodes of a job or step and sends it there; the nodes dial the command.
 *
 * Nothing listens on a node and nothing of the streams comes by here: the controller only says who may. Not in the log: an answer that is lost costs the
 * command a second try. A credential lives a minute.
 */
#include "base/hostlist.h"
#include "base/str.h"
#include "controller/ctl.h"
#include "wire/dial.h"

#define DIAL_LIFE_MS 60000

/* The rows that are meant: the step's, the first of the job for its batch script, or all. */
static const struct node_alloc *rows_of(const struct job *j, const struct step *st, const Wire__DialRequest *m, uint32_t *count)
{
    *count = st ? st->alloc_count : m->has_step_id ? 1 : j->alloc_count;
    return st ? st->allocs : j->allocs;
}

static void credential_fill(struct ctl *c, const struct job *j, const struct node_alloc *rows, uint32_t count, const Wire__DialRequest *m, Wire__Credential *cred,
                            struct arena *a)
{
    cred->cluster = (char *)(uintptr_t)config_text(c->state->config, CONF_ClusterName);
    cred->job_id = j->job_id;
    cred->step_id = m->has_step_id ? m->step_id : STEP_BATCH;
    cred->attempt = j->attempt;
    cred->uid = j->uid;
    cred->gid = j->gid;
    cred->n_groups = j->group_count;
    cred->groups = j->groups;
    cred->user = j->user;
    cred->nodes = arena_alloc(a, (count + 1) * sizeof *cred->nodes);
    for (uint32_t i = 0; i < count; i++) {
        Wire__NodeAlloc *w = cred->nodes[cred->n_nodes++] = arena_alloc(a, sizeof *w);

        wire__node_alloc__init(w);
        w->node = rows[i].node;
        w->name = rows[i].node < c->state->node_count ? c->state->nodes[rows[i].node].conf->name : (char *)(uintptr_t)"?";
    }
    cred->fence = c->fence;
    cred->issued_wall_ms = clock_wall_ms();
    cred->expires_wall_ms = cred->issued_wall_ms + DIAL_LIFE_MS;
    cred->has_io_key = cred->has_io_port = 1;
    cred->io_key = m->io_key;
    cred->io_host = m->io_host;
    cred->io_port = m->io_port;
}

void dial_take(struct ctl *c, uint64_t conn, uint64_t seq, const struct spur_identity *who, const Wire__DialRequest *m, struct arena *a)
{
    Wire__DialReply reply = WIRE__DIAL_REPLY__INIT;
    Wire__Credential cred = WIRE__CREDENTIAL__INIT;
    Wire__Dial dial = WIRE__DIAL__INIT;
    struct admitted adm = { 0 };
    struct spur_error err = { 0 };
    const struct node_alloc *rows;
    struct hostlist *here, *away;
    const struct step *st;
    const struct job *j;
    uint8_t signature[64];
    struct str nodes, absent;
    uint32_t count;

    if (admit_dial(c->state, m, who, &adm, &j, &st, &err) < 0) {
        ctl_refuse(c, conn, seq, &err, adm.slurm_errno);
        return;
    }
    rows = rows_of(j, st, m, &count);
    credential_fill(c, j, rows, count, m, &cred, a);
    if (dial_seal(&cred, m->purpose, &dial, a, &err) < 0 ||
        c->auth_ops->sign(c->auth->self, cred.purpose, dial.credential.data, dial.credential.len, signature, &err) < 0) {
        log_line(SPUR_LOG_ERROR, "job %u: cannot sign a credential: %s", j->job_id, err.text);
        ctl_refuse(c, conn, seq, &err, 0);
        return;
    }
    dial.has_signature = 1;
    dial.signature.data = signature;
    dial.signature.len = sizeof signature;
    dial.signer = c->name;
    here = hostlist_create();
    away = hostlist_create();
    reply.tasks = arena_alloc(a, (count + 1) * sizeof *reply.tasks);
    reply.has_ntasks = reply.has_uid = reply.has_pty = 1;
    reply.uid = j->uid;
    reply.pty = st && st->spec && st->spec->pty;
    reply.name = st && st->spec ? st->spec->name : NULL;
    for (uint32_t i = 0; i < count; i++) {
        struct peer *agent = nodes_agent(c, rows[i].node);
        uint32_t tasks = st ? rows[i].tasks : 1;

        reply.tasks[reply.n_tasks++] = tasks;
        reply.ntasks += tasks;
        hostlist_add(here, cred.nodes[i]->name);
        if (agent)
            rpc_send(agent->conn, WIRE__MESSAGE_TYPE__AGENT_DIAL, 0, &dial.base);
        else
            hostlist_add(away, cred.nodes[i]->name);
    }
    str_init(&nodes);
    str_init(&absent);
    hostlist_print(here, &nodes);
    hostlist_print(away, &absent);
    reply.nodes = nodes.text;
    reply.absent = absent.len ? absent.text : NULL;
    ctl_send(c, conn, WIRE__MESSAGE_TYPE__DIALLED, seq, &reply.base);
    hostlist_destroy(here);
    hostlist_destroy(away);
    str_fini(&nodes);
    str_fini(&absent);
}
