/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c - a launch as it comes from the leader: its credential is checked whole, then a supervisor gets its order.
 *
 * Checked, in this order: the leader's signature over the exact bytes, purpose, cluster, expiry, fencing number, that this node is in it, the digest of
 * argv, environment and script (wire/credential.c), then here: that the job's attempt was not started or ended before, that this process can become
 * the user. A refusal is a LAUNCH_FAILED report with the sentence. A launch that is sent again while its step is known is answered by
 * saying again what is true. Nothing of the launch is believed that the credential does not cover: ids, devices and I/O key come from it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/contain.h"
#include "agent/cores.h"
#include "agent/drop.h"
#include "agent/hooks.h"
#include "agent/inside.h"
#include "agent/jobnodes.h"
#include "agent/supervisor.h"
#include "config/plugstack.h"
#include "rpc/folder.h"
#include "state/job.h"
#include "wire/credential.h"

#define GRANT_ARENA_CAP (16u << 20)

struct checking {                   /* while an auth plugin that may block verifies */
    uv_work_t work;
    struct identity *node;
    Wire__Launch *launch;
    int rc;
    struct spur_error err;
};

static void refuse(struct identity *n, uint32_t job_id, uint32_t step_id, uint32_t attempt, const char *text)
{
    char step[16];

    log_line(SPUR_LOG_ERROR, "%s: launch of job %u.%s refused: %s", n->name, job_id, step_text(step_id, step), text);
    node_report_text(n, WIRE__REPORT__KIND__LAUNCH_FAILED, job_id, step_id, attempt, 1 << 8, text);
}

/* An agent before this one took the launch and was gone before its supervisor had a state file: then nothing has run (supervisor.c), or it has ended, and
 * that report is on its way before this one. */
static void refuse_lost(struct identity *n, uint32_t job_id, uint32_t step_id, uint32_t attempt)
{
    Wire__Report r = WIRE__REPORT__INIT;
    char step[16];

    log_line(SPUR_LOG_WARN, "%s: job %u.%s was not started before the agent was restarted", n->name, job_id, step_text(step_id, step));
    r.node = (char *)(uintptr_t)n->name;
    r.kind = WIRE__REPORT__KIND__LAUNCH_FAILED;
    r.job_id = job_id;
    r.has_step_id = r.has_status = r.has_wall_ms = r.has_not_started = r.not_started = 1;
    r.step_id = step_id;
    r.attempt = attempt;
    r.status = 1 << 8;
    r.text = (char *)"the agent was restarted before it had started the step";
    r.wall_ms = clock_wall_ms();
    node_report(n, &r, NULL, NULL);
}

/* It is this node that cannot: the job goes back to the queue. */
static void refuse_for_node(struct identity *n, uint32_t job_id, uint32_t step_id, uint32_t attempt, const char *text)
{
    Wire__Report r = WIRE__REPORT__INIT;
    char step[16];

    log_line(SPUR_LOG_ERROR, "%s: job %u.%s cannot start here: %s", n->name, job_id, step_text(step_id, step), text);
    r.node = (char *)(uintptr_t)n->name;
    r.kind = WIRE__REPORT__KIND__LAUNCH_FAILED;
    r.job_id = job_id;
    r.has_step_id = r.has_status = r.has_wall_ms = r.has_node_fault = r.node_fault = 1;
    r.step_id = step_id;
    r.attempt = attempt;
    r.status = 1 << 8;
    r.text = (char *)(uintptr_t)text;
    r.wall_ms = clock_wall_ms();
    node_report(n, &r, NULL, NULL);
}

/* ---- order ---- */

/* What the switch plugin gives a step. */
struct joining { Wire__StepOrder *order; struct str hosts; };

static void order_env_set(void *arg, const char *name, const char *value)
{
    Wire__StepOrder *o = ((struct joining *)arg)->order;
    Wire__KeyValue *kv = mem_alloc(sizeof *kv);

    wire__key_value__init(kv);
    kv->key = mem_copy(name);
    kv->value = mem_copy(value);
    o->env = mem_grow(o->env, o->n_env + 1, sizeof *o->env);
    o->env[o->n_env++] = kv;
}

static void joining_host(void *arg, const char *addr, const char *name) { str_addf(&((struct joining *)arg)->hosts, "%s\t%s\n", addr, name); }

static int join_mesh(struct identity *n, struct agent_step *s, const Wire__Credential *c, struct joining *x, struct spur_error *err)
{
    const struct spur_switch_ops *ops = n->agent->sw ? loader_ops(n->agent->sw) : NULL;
    const char **nodes;
    struct spur_switch_node *rows;
    struct spur_switch_env env = { .size = sizeof env, .arg = x, .set = order_env_set, .host = joining_host };
    struct spur_switch_job job = { .size = sizeof job, .job_id = c->job_id, .step_id = c->step_id, .attempt = c->attempt, .uid = c->uid };
    int rc;

    if (!ops)
        return 0;
    nodes = mem_array(c->n_nodes + 1, sizeof *nodes);
    rows = mem_array(c->n_nodes + 1, sizeof *rows);
    for (size_t i = 0; i < c->n_nodes; i++) {
        nodes[i] = c->nodes[i]->name;
        if (!node_mesh_row(n->agent, nodes[i], &rows[i]))
            rows[i] = (struct spur_switch_node){ .name = nodes[i] };
    }
    job.nodes = nodes;
    job.node_count = (uint32_t)c->n_nodes;
    job.rows = n->agent->mesh ? rows : NULL;
    job.row_size = sizeof *rows;
    job.blob = c->has_fabric ? c->fabric.data : NULL;
    job.blob_len = c->has_fabric ? c->fabric.len : 0;
    job.flags = c->alone ? SPUR_SWITCH_JOB_ALONE : 0;
    rc = ops->job_join(n->agent->sw->self, &job, &env, err);
    free(nodes);
    free(rows);
    s->joined = rc == 0;
    return rc;
}

/* The names of the job's nodes and their addresses in the mesh, as /etc/hosts has them: SPUR_MESH_HOSTS. */
static int hosts_write(struct agent *a, struct agent_step *s, struct joining *x, const char *folder, uid_t owner, struct spur_error *err)
{
    char path[1300];
    int dir, fd = -1, rc = 0;

    if (!x->hosts.len)
        return 0;
    dir = openat(a->spool_fd, s->folder, O_DIRECTORY | O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (dir >= 0)
        fd = openat(dir, "hosts", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
    if (fd < 0 || (geteuid() == 0 && fchown(fd, owner, (gid_t)-1) < 0) || write(fd, x->hosts.text, x->hosts.len) != (ssize_t)x->hosts.len)
        rc = spur_fail(err, errno == ENOSPC ? SPUR_ENOSPACE : SPUR_EIO, "cannot write %s/hosts: %s", folder, strerror(errno));
    if (fd >= 0)
        close(fd);
    if (dir >= 0)
        close(dir);
    snprintf(path, sizeof path, "%s/hosts", folder);
    order_env_set(x, "SPUR_MESH_HOSTS", path);
    return rc;
}

void launch_order_gpus(const struct agent *a, Wire__StepOrder *o)
{
    o->gpus = mem_array(a->gpu_count + 1, sizeof *o->gpus);
    for (uint32_t i = 0; i < a->gpu_count; i++) {
        const struct spur_gpu *g = &a->gpus[i];
        Wire__OrderGpu *row;

        if (strcmp(g->name, "gpu") || g->flags & SPUR_GPU_COUNT_ONLY)
            continue;
        row = mem_alloc(sizeof *row);
        wire__order_gpu__init(row);
        row->index = g->index;
        row->has_flags = 1;
        row->flags = g->flags;
        row->file = (char *)(uintptr_t)g->file;
        row->cores = (char *)(uintptr_t)g->cores;
        row->uuid = (char *)(uintptr_t)g->uuid;
        row->mbps = (uint32_t *)(uintptr_t)g->mbps;
        row->n_mbps = SPUR_GPU_MAX;
        o->gpus[o->n_gpus++] = row;
    }
}

void launch_order_free(Wire__StepOrder *o)
{
    for (size_t i = 0; i < o->n_gpus; i++)
        free(o->gpus[i]);
    for (size_t i = 0; i < o->n_env; i++) {
        free(o->env[i]->key);
        free(o->env[i]->value);
        free(o->env[i]);
    }
    free(o->gpus);
    free(o->env);
    contain_order_free(o->contain);
    cores_order_free(o);
}

static int start_supervisor(struct identity *n, struct agent_step *s, const Wire__Launch *l, Wire__Credential *c, uint32_t index, struct spur_error *err)
{
    struct agent *a = n->agent;
    Wire__StepOrder o = WIRE__STEP_ORDER__INIT;
    Wire__Launch launch = *l;
    struct joining x = { .order = &o };
    char folder[1200], plugstack[1200];
    int rc, link = -1;

    str_init(&x.hosts);
    if ((rc = join_mesh(n, s, c, &x, err)) < 0)
        goto out;
    folder_remove(a->spool_fd, s->folder, NULL);
    if (mkdirat(a->spool_fd, s->folder, 0711) < 0) {
        rc = spur_fail(err, errno == ENOSPC ? SPUR_ENOSPACE : SPUR_EIO, "cannot make the folder %s/%s: %s", a->set->spool_dir, s->folder, strerror(errno));
        goto out;
    }
    snprintf(folder, sizeof folder, "%s/%s", a->set->spool_dir, s->folder);
    if (l->job && l->job->nodes)
        job_nodes_write(a->spool_fd, s->folder, l->job->nodes, c->uid);
    {
        char path[1300];

        snprintf(path, sizeof path, "%s/%s", folder, JOB_NODES_FILE);
        order_env_set(&x, "SPUR_JOB_NODES_FILE", path);
    }
    if ((rc = hosts_write(a, s, &x, folder, c->uid, err)) < 0)
        goto out;
    launch.credential.len = 0;          /* checked; the supervisor believes the agent */
    launch.signature.len = 0;
    o.version = STEP_PROTOCOL;
    o.launch = &launch;
    o.grant = c;
    o.node = (char *)(uintptr_t)n->name;
    o.folder = folder;
    o.cluster = a->set->cluster;
    o.conf_path = a->set->conf_path;
    if (o.conf_path) {
        plugstack_path(o.conf_path, a->set->plugstack, plugstack, sizeof plugstack);
        o.plugstack = plugstack;
        o.plugin_dir = a->set->plugin_dir;
    }
    o.has_kill_wait_s = o.has_append = o.has_node_index = 1;
    o.kill_wait_s = a->set->kill_wait_s;
    o.append = a->set->append;
    o.node_index = index;
    o.host = a->set->host;
    o.task_prolog = a->set->task_prolog;
    o.task_epilog = a->set->task_epilog;
    o.has_limits_kept = 1;
    o.limits_kept = a->set->limits_kept;
    launch_order_gpus(a, &o);
    o.contain = contain_order(a, c, l, index);
    cores_order(a->cores, &a->set->nodes[n - a->nodes], a->set->emulate_hardware, &o);
    o.cpu_bind = a->set->cpu_bind;
    o.mpi = a->set->mpi;
    rc = pool_order(&a->pool, &o, &link, err);
    if (rc == 0)
        step_linked(s, link);
out:
    str_fini(&x.hosts);
    launch_order_free(&o);
    return rc;
}

/* ---- the checks ---- */

static void answer_again(struct identity *n, const struct agent_step *s)
{
    if (s->phase == STEP_RUNNING)
        node_report_text(n, WIRE__REPORT__KIND__STARTED, s->job_id, s->step_id, s->attempt, 0, NULL);
    /* before: STARTED will come by itself; after: ENDED is in the spool */
}

static void refuse_unverified(struct identity *n, const Wire__Launch *l, const struct spur_error *err)
{
    /* the words of the credential are used only to say which launch is refused */
    Wire__Credential *c = l->credential.len <= CREDENTIAL_MAX ? wire__credential__unpack(NULL, l->credential.len, l->credential.data) : NULL;

    refuse(n, c ? c->job_id : 0, c ? c->step_id : 0, c ? c->attempt : 0, err->text);
    wire__credential__free_unpacked(c, NULL);
}

static uint32_t index_of(const struct identity *n, const Wire__Credential *c)
{
    uint32_t index = 0;

    while (index < c->n_nodes && strcmp(c->nodes[index]->name, n->name))
        index++;
    return index;
}

void launch_begin(struct agent_step *s, const Wire__Launch *l, Wire__Credential *c)
{
    struct identity *n = s->node;
    struct spur_error err = { 0 };
    int rc;

    seen_add(&n->agent->seen, c->job_id, c->step_id, c->attempt, node_hash(n), c->expires_wall_ms);
    if (n->agent->is_emulated) {
        emulate_launch(s, l);
    } else if ((rc = start_supervisor(n, s, l, c, index_of(n, c), &err)) < 0) {
        if (rc == SPUR_ENOSPACE)
            refuse_for_node(n, c->job_id, c->step_id, c->attempt, err.text);
        else
            refuse(n, c->job_id, c->step_id, c->attempt, err.text);
        step_end(s);
    }
}

static void verified(struct identity *n, const Wire__Launch *l)
{
    struct agent *a = n->agent;
    struct spur_error err = { 0 };
    Wire__Credential *c = NULL;
    struct agent_step *s;
    struct arena arena;
    struct drop drop;
    gid_t *groups = NULL;
    int rc;

    arena_init(&arena, GRANT_ARENA_CAP);
    rc = credential_open(l, a->set->cluster, n->name, a->seen.fence, clock_wall_ms(), &arena, &c, &err);
    if (rc == 0)
        rc = seen_fence(&a->seen, c->fence, &err);
    if (rc < 0) {
        refuse_unverified(n, l, &err);
        goto out;
    }
    if (c->step_id == STEP_EXTERN && !seen_has(&a->seen, c->job_id, SEEN_JOB_OVER, c->attempt, node_hash(n))) {
        hooks_alloc(n, l, c);
        goto out;
    }
    s = step_find(n, c->job_id, c->step_id);
    if (s && s->attempt == c->attempt) {
        answer_again(n, s);
        goto out;
    }
    if (!s && seen_before(&a->seen, c->job_id, c->step_id, c->attempt, node_hash(n)) && !seen_has(&a->seen, c->job_id, SEEN_JOB_OVER, c->attempt, node_hash(n))) {
        refuse_lost(n, c->job_id, c->step_id, c->attempt);
        goto out;
    }
    if (seen_has(&a->seen, c->job_id, c->step_id, c->attempt, node_hash(n)) || seen_has(&a->seen, c->job_id, SEEN_JOB_OVER, c->attempt, node_hash(n))) {
        rc = spur_fail(&err, SPUR_ESTALE, "attempt %u of this step was here before", c->attempt);
    } else if (s) {
        rc = spur_fail(&err, SPUR_EBUSY, "attempt %u of this step is not over on this node", s->attempt);
    } else if (!a->is_emulated) {
        groups = mem_array(c->n_groups + 1, sizeof *groups);
        for (size_t i = 0; i < c->n_groups; i++)
            groups[i] = c->groups[i];
        drop = (struct drop){ .uid = c->uid, .gid = c->gid, .groups = groups, .group_count = c->n_groups };
        rc = drop_possible(&drop, &err);
    }
    if (rc < 0) {
        refuse(n, c->job_id, c->step_id, c->attempt, err.text);
        goto out;
    }
    node_check_spool(a);                /* registers with the reason first, so the job does not come back here */
    if (*a->spool_fault) {
        refuse_for_node(n, c->job_id, c->step_id, c->attempt, a->spool_fault);
        goto out;
    }
    s = step_create(n, c);
    if (!hooks_hold(s, l, c))
        launch_begin(s, l, c);
out:
    free(groups);
    arena_fini(&arena);
}

static int verify(struct agent *a, const Wire__Launch *l, struct spur_error *err)
{
    const struct spur_auth_ops *ops = loader_ops(a->auth);

    if (l->signature.len != 64)
        return spur_fail(err, SPUR_EAUTH, "the launch credential has a signature of %zu bytes, not 64", l->signature.len);
    if (!SPUR_HAS(ops, verify))
        return spur_fail(err, SPUR_EAUTH, "%s cannot verify launch credentials", a->auth->name);
    return ops->verify(a->auth->self, CREDENTIAL_PURPOSE, l->signer, l->credential.data, l->credential.len, l->signature.data, err);
}

static void check_work(uv_work_t *w)
{
    struct checking *k = w->data;

    k->rc = verify(k->node->agent, k->launch, &k->err);
}

static void check_done(uv_work_t *w, int status)
{
    struct checking *k = w->data;

    (void)status;
    if (!k->node->agent->is_stopping) {
        if (k->rc < 0)
            refuse_unverified(k->node, k->launch, &k->err);
        else
            verified(k->node, k->launch);
    }
    wire__launch__free_unpacked(k->launch, NULL);
    free(k);
}

void launch_take(struct identity *n, const Wire__Launch *l, const uint8_t *bytes, size_t len)
{
    struct spur_error err = { 0 };

    if (loader_can(n->agent->auth, SPUR_CAP_MAY_BLOCK)) {
        struct checking *k = mem_alloc(sizeof *k);

        k->work.data = k;
        k->node = n;
        k->launch = wire__launch__unpack(NULL, len, bytes);
        if (k->launch && uv_queue_work(n->agent->loop, &k->work, check_work, check_done) == 0)
            return;
        wire__launch__free_unpacked(k->launch, NULL);
        free(k);
        return;
    }
    if (verify(n->agent, l, &err) < 0)
        refuse_unverified(n, l, &err);
    else
        verified(n, l);
}
