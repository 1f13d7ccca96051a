/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch.c - requests: who asks (the channel), may he (the table and admit), then to the log or to a reader.
 *
 * The table of handlers is made from the rows of admit/table.def, so a message without a row has no handler and one with a
 * row that nobody handles does not link. Every request is answered once: by its handler, or when its entry is committed. An answer
 * goes to a connection's number, so that one that has gone meanwhile costs nothing.
 */
#include <stdlib.h>
#include <pwd.h>
#include <sodium.h>

#include "controller/ctl.h"
#include "wire/unpack.h"

/* One request under way. Its arena holds everything that was decoded and admitted. */
struct request {
    uint64_t conn, seq;
    uint16_t type;
    struct spur_identity who;
    enum rank rank;
    struct arena arena;
    void *message;
    Wire__DoneReply *done;
    struct admitted cancels;        /* a cancel: which operation is which id's */
    char **warnings; size_t warning_count;
};

struct peer *ctl_peer(struct ctl *c, uint64_t number) { return table_get(&c->conns, number); }

void ctl_send(struct ctl *c, uint64_t conn, uint16_t type, uint64_t seq, const ProtobufCMessage *body)
{
    struct peer *p = ctl_peer(c, conn);

    if (p)
        rpc_send(p->conn, type, seq, body);
}

void ctl_refuse(struct ctl *c, uint64_t conn, uint64_t seq, const struct spur_error *err, int slurm_errno)
{
    struct peer *p = ctl_peer(c, conn);

    if (p)
        rpc_refuse(p->conn, seq, err, slurm_errno);
}

static void request_free(struct request *r)
{
    arena_fini(&r->arena);
    free(r);
}

static void request_refuse(struct ctl *c, struct request *r, const struct spur_error *err, int slurm_errno)
{
    ctl_refuse(c, r->conn, r->seq, err, slurm_errno);
    request_free(r);
}

static void request_done(struct ctl *c, struct request *r)
{
    Wire__DoneReply none = WIRE__DONE_REPLY__INIT, *reply = r->done ? r->done : &none;

    reply->has_index = 1;
    reply->index = c->state->index;
    ctl_send(c, r->conn, WIRE__MESSAGE_TYPE__DONE, r->seq, &reply->base);
    request_free(r);
}

/* Its entry was dropped: the asker is told who to ask now, with the same token. */
static void request_dropped(struct ctl *c, struct request *r, const struct spur_error *why)
{
    group_refuse_dropped(c, r->conn, r->seq, why);
    request_free(r);
}

/* ---- answers of committed requests -------------------------------------------------------------------------------- */

static void submitted(struct ctl *c, void *arg, const struct op_result *results, size_t n, const struct spur_error *err)
{
    struct request *r = arg;
    const Wire__SubmitRequest *m = r->message;
    Wire__SubmitReply reply = WIRE__SUBMIT_REPLY__INIT;
    struct spur_error refusal = { 0 };

    if (!results || n == 0) {
        request_dropped(c, r, err);
        return;
    }
    if (results[0].code < 0) {
        spur_fail(&refusal, results[0].code, "%s", results[0].text ? results[0].text : spur_code_text(results[0].code));
        request_refuse(c, r, &refusal, results[0].slurm_errno);
        return;
    }
    c->submits++;
    blobs_named(c, m->spec->script_hash.len == 32 ? m->spec->script_hash.data : NULL, results[0].job_id);
    blobs_named(c, m->spec->env_hash.len == 32 ? m->spec->env_hash.data : NULL, results[0].job_id);
    reply.job_id = results[0].job_id;
    reply.has_index = 1;
    reply.index = c->state->index;
    reply.warnings = r->warnings;
    reply.n_warnings = r->warning_count;
    reply.cluster = (char *)(uintptr_t)config_text(c->state->config, CONF_ClusterName);
    ctl_send(c, r->conn, WIRE__MESSAGE_TYPE__SUBMITTED, r->seq, &reply.base);
    request_free(r);
}

static void step_created(struct ctl *c, void *arg, const struct op_result *results, size_t n, const struct spur_error *err)
{
    struct request *r = arg;
    Wire__StepReply reply = WIRE__STEP_REPLY__INIT;
    Wire__StepRequest *m = r->message;
    struct spur_error refusal = { 0 };
    const struct job *j;
    const struct step *s;
    struct str nodes, tasks;

    if (!results || n == 0) {
        request_dropped(c, r, err);
        return;
    }
    if (results[0].code < 0) {
        spur_fail(&refusal, results[0].code, "%s", results[0].text ? results[0].text : spur_code_text(results[0].code));
        request_refuse(c, r, &refusal, results[0].slurm_errno);
        return;
    }
    j = state_job(c->state, m->job_id);
    for (s = j ? j->steps : NULL; s && s->step_id != results[0].step_id; s = s->next)
        ;
    if (!s) {
        spur_fail(&refusal, SPUR_ESTALE, "job %u has ended", m->job_id);
        request_refuse(c, r, &refusal, 2021);
        return;
    }
    str_init(&nodes);
    str_init(&tasks);
    het_step_reply(c, j, s, &reply, &nodes, &tasks, &r->arena);
    reply.step_id = s->step_id;
    reply.nodes = nodes.text;
    reply.tasks_per_node = tasks.text;
    reply.has_ntasks = reply.has_attempt = reply.has_job_id = reply.has_index = 1;
    reply.index = c->state->index;
    reply.has_kill_on_bad_exit = reply.kill_on_bad_exit = config_number(c->state->config, CONF_KillOnBadExit) == 1;
    reply.wait_s = (uint32_t)config_number(c->state->config, CONF_WaitTime);
    reply.has_wait_s = reply.wait_s > 0;
    reply.attempt = j->attempt;
    reply.job_id = j->job_id;
    ctl_send(c, r->conn, WIRE__MESSAGE_TYPE__STEP_CREATED, r->seq, &reply.base);
    str_fini(&nodes);
    str_fini(&tasks);
    request_free(r);
}

/* scancel: each id has its row, and what became of one changes nothing for the others. */
static void cancelled(struct ctl *c, void *arg, const struct op_result *results, size_t n, const struct spur_error *err)
{
    struct request *r = arg;

    if (!results) {
        request_dropped(c, r, err);
        return;
    }
    admit_cancelled(&r->cancels, results, n, r->done, &r->arena);
    request_done(c, r);
}

/* Updates and the like: the first refusal is the answer. */
static void done(struct ctl *c, void *arg, const struct op_result *results, size_t n, const struct spur_error *err)
{
    struct request *r = arg;
    struct spur_error refusal = { 0 };

    if (!results) {
        request_dropped(c, r, err);
        return;
    }
    for (size_t i = 0; i < n; i++)
        if (results[i].code < 0) {
            spur_fail(&refusal, results[i].code, "%s", results[i].text ? results[i].text : spur_code_text(results[i].code));
            request_refuse(c, r, &refusal, results[i].slurm_errno);
            return;
        }
    request_done(c, r);
}

/* The request's arena goes to the proposal; the request itself needs what it points to only until the answer, which comes before the
 * proposal's arena is freed. */
static void request_propose(struct ctl *c, struct request *r, struct admitted *adm, const struct proposal_blobs *blobs, proposed_fn then)
{
    if (adm->op_count == 0) {
        request_done(c, r);
        return;
    }
    propose(c, adm->ops, adm->op_count, blobs, &r->arena, then, r);
}

/* ---- handlers: one a row of the table ----------------------------------------------------------------------------- */

static void handle_ping(struct ctl *c, struct request *r)
{
    Wire__Pong pong = WIRE__PONG__INIT;

    int64_t age = group_age_ms(c);
    char addr[160];

    pong.host = c->name;
    pong.role = (char *)(uintptr_t)group_role_word(c->role);
    pong.leader = c->leader;
    pong.leader_addr = group_leader_addr(c, addr) ? addr : NULL;
    pong.has_fence = pong.has_age_ms = pong.has_voters = pong.has_reachable = 1;
    pong.fence = c->fence;
    pong.age_ms = age > UINT32_MAX ? UINT32_MAX : (uint32_t)age;
    group_voters(c, &pong.voters, &pong.reachable);
    pong.version = (char *)(uintptr_t)PACKAGE_VERSION;
    pong.has_index = 1;
    pong.index = c->state->index;
    pong.cluster = (char *)(uintptr_t)config_text(c->file_config, CONF_ClusterName);
    pong.has_boot_wall_ms = 1;
    pong.boot_wall_ms = c->boot_wall_ms;
    ctl_send(c, r->conn, WIRE__MESSAGE_TYPE__PONG, r->seq, &pong.base);
    request_free(r);
}

/* Could any of its partitions ever hold it, empty and whole? The select plugin's word, as a fact for admit. */
static const char *request_never(struct ctl *c, struct request *r, const Wire__JobSpec *spec, bool is_part)
{
    struct spur_error err = { 0 };
    struct str names;
    char *cursor, *name;
    bool is_asked = false, fits = false;

    str_init(&names);
    if (spec->partition && *spec->partition)
        str_add(&names, spec->partition);
    else if (config_default_partition(c->state->config) >= 0)
        str_add(&names, c->state->config->partitions[config_default_partition(c->state->config)].name);
    cursor = names.text;
    while (!fits && (name = word_next(&cursor, ","))) {
        const struct config_partition *part = config_partition_find(c->state->config, name);
        struct spur_placement *room;
        struct spur_ask ask;
        int rc;

        if (!part)
            continue;
        if (ask_build_spec(c->state, spec, part, &r->arena, &ask, &err) < 0) {
            is_asked = true;
            continue;
        }
        if ((ask.max_nodes > 1 || is_part) && !ask.exclusive && mesh_wants_alone(c)) {
            spur_fail(&err, SPUR_EDENIED, "a job that may get several nodes must have them alone in this cluster (mesh_isolation): use --exclusive, or -N 1; on shared nodes a job has no mesh address of its own");
            is_asked = true;
            continue;
        }
        if (SPUR_HAS(c->plugins.select, could)) {
            rc = c->plugins.select->could(c->plugins.select_self, state_view(c->state), &ask, &err);
        } else {
            room = placement_room(c->state, &r->arena, ask.max_nodes);
            rc = c->plugins.select->place(c->plugins.select_self, state_view(c->state), &ask, room, &err);
        }
        is_asked = true;
        fits = !spur_select_is_never(rc);
    }
    str_fini(&names);
    return is_asked && !fits ? arena_copy(&r->arena, err.text) : NULL;
}

static void submit_named(struct ctl *c, void *arg, const struct named *n)
{
    struct request *r = arg;
    Wire__SubmitRequest *m = r->message;
    struct facts facts = { .user = n->user, .group = n->group, .groups = n->groups, .group_count = n->group_count, .group_names = (const char *const *)n->group_names,
                           .wall_ms = clock_wall_ms(), .is_local = r->who.is_local };
    struct admitted adm = { 0 };
    struct proposal_blobs blobs = { 0 };
    struct spur_error err = { 0 };
    const char **het_never;

    for (size_t i = 0; i < m->n_blobs; i++) {
        uint8_t hash[32];

        crypto_generichash(hash, sizeof hash, m->blobs[i]->data.data, m->blobs[i]->data.len, NULL, 0);
        if (m->blobs[i]->hash.len != 32 || memcmp(hash, m->blobs[i]->hash.data, 32) != 0) {
            spur_fail(&err, SPUR_EINVAL, "script or environment does not match its hash");
            request_refuse(c, r, &err, 0);
            return;
        }
    }
    facts.never = request_never(c, r, m->spec, m->n_het > 0);
    het_never = arena_alloc(&r->arena, (m->n_het + 1) * sizeof *het_never);
    for (size_t i = 0; i < m->n_het; i++)
        het_never[i] = request_never(c, r, m->het[i], true);
    facts.het_never = het_never;
    if (admit_submit(c->state, m, &r->who, &facts, &r->arena, &adm, &err) < 0) {
        request_refuse(c, r, &err, adm.slurm_errno);
        return;
    }
    if (adm.op_count == 0) {            /* a token we know: the first answer again */
        struct op_result first = { 0 };

        if (m->token.len == 16 && state_token(c->state, m->token.data, m->token_wall_ms, &first) == 1) {
            submitted(c, r, &first, 1, NULL);
            return;
        }
    }
    r->warnings = adm.warnings;
    r->warning_count = adm.warning_count;
    blobs.blobs = arena_alloc(&r->arena, (m->n_blobs + 1) * sizeof *blobs.blobs);
    for (size_t i = 0; i < m->n_blobs; i++)
        if (!blobs_is_kept(c, m->blobs[i]->hash.data))
            blobs.blobs[blobs.count++] = m->blobs[i];
    request_propose(c, r, &adm, &blobs, submitted);
}

static void handle_submit(struct ctl *c, struct request *r) { names_get(c, r->who.uid, r->who.gid, submit_named, r); }

static void test_named(struct ctl *c, void *arg, const struct named *n)
{
    struct request *r = arg;
    Wire__SubmitRequest *m = r->message;
    struct facts facts = { .user = n->user, .group = n->group, .groups = n->groups, .group_count = n->group_count, .group_names = (const char *const *)n->group_names, .wall_ms = clock_wall_ms() };
    struct admitted adm = { 0 };
    struct spur_error err = { 0 };
    Wire__WouldRunReply reply = WIRE__WOULD_RUN_REPLY__INIT;
    const struct config_partition *part;
    struct spur_placement *room;
    struct spur_ask ask;
    struct hostlist *names;
    struct str nodes;
    const Wire__JobSpec *spec;
    int64_t start;

    if (m->n_het) {
        spur_fail(&err, SPUR_EUNSUPPORTED, "--test-only is not supported yet for heterogeneous jobs");
        request_refuse(c, r, &err, 2036);
        return;
    }
    facts.never = request_never(c, r, m->spec, m->n_het > 0);
    if (admit_submit(c->state, m, &r->who, &facts, &r->arena, &adm, &err) < 0) {
        request_refuse(c, r, &err, adm.slurm_errno);
        return;
    }
    spec = adm.op_count ? adm.ops[0]->submit->spec : m->spec;
    part = spec->partition ? config_partition_find(c->state->config, spec->partition) : NULL;
    if (!part && config_default_partition(c->state->config) >= 0)
        part = &c->state->config->partitions[config_default_partition(c->state->config)];
    if (!part || ask_build_spec(c->state, spec, part, &r->arena, &ask, &err) < 0) {
        request_refuse(c, r, &err, 2014);
        return;
    }
    room = placement_room(c->state, &r->arena, ask.max_nodes);
    start = plan_when(c->plan, c->state, &c->plugins, &ask, part, spec->has_time_limit_min ? spec->time_limit_min : part->max_time_min,
                      clock_wall_ms() / 1000, room, &err);
    if (!start) {
        request_refuse(c, r, &err, 2014);
        return;
    }
    names = hostlist_create();
    str_init(&nodes);
    reply.has_cpus = reply.has_start_wall_s = 1;
    for (uint32_t i = 0; i < room->pick_count; i++) {
        const struct spur_node_pick *pick = spur_placement_pick(room, i);

        hostlist_add(names, c->state->nodes[pick->node].conf->name);
        reply.cpus += pick->cpus;
    }
    hostlist_print(names, &nodes);
    reply.start_wall_s = start;
    reply.nodes = nodes.text;
    reply.partition = part->name;
    reply.has_job_id = 1;
    reply.job_id = c->state->next_job_id;
    ctl_send(c, r->conn, WIRE__MESSAGE_TYPE__WOULD_RUN, r->seq, &reply.base);
    hostlist_destroy(names);
    str_fini(&nodes);
    request_free(r);
}

static void handle_test_only(struct ctl *c, struct request *r) { names_get(c, r->who.uid, r->who.gid, test_named, r); }

typedef int (*admit_fn)(struct state *, const void *, const struct spur_identity *, const struct facts *, struct arena *, struct admitted *, struct spur_error *);

static void request_admit(struct ctl *c, struct request *r, admit_fn admit, const struct named *n)
{
    struct facts facts = { .wall_ms = clock_wall_ms(), .is_local = r->who.is_local };
    struct admitted adm = { 0 };
    struct spur_error err = { 0 };

    if (n) {
        facts.user = n->user;
        facts.group = n->group;
        facts.groups = n->groups;
        facts.group_count = n->group_count;
        facts.group_names = (const char *const *)n->group_names;
    }
    if (admit(c->state, r->message, &r->who, &facts, &r->arena, &adm, &err) < 0)
        request_refuse(c, r, &err, adm.slurm_errno);
    else
        request_propose(c, r, &adm, NULL, done);
}

static void cancel_named(struct ctl *c, void *arg, const struct named *n)
{
    struct request *r = arg;
    struct facts facts = { .user = n->user, .group = n->group, .wall_ms = clock_wall_ms() };
    struct admitted adm = { 0 };
    struct spur_error err = { 0 };

    r->done = arena_alloc(&r->arena, sizeof *r->done);
    wire__done_reply__init(r->done);
    if (admit_cancel(c->state, r->message, &r->who, &facts, &r->arena, &adm, r->done, &err) < 0) {
        request_refuse(c, r, &err, adm.slurm_errno);
    } else {
        r->cancels = adm;
        request_propose(c, r, &adm, NULL, cancelled);
    }
}

static void handle_cancel(struct ctl *c, struct request *r) { names_get(c, r->who.uid, r->who.gid, cancel_named, r); }

static int admit_job_update_any(struct state *s, const void *m, const struct spur_identity *w, const struct facts *f, struct arena *a, struct admitted *o, struct spur_error *e)
{ return admit_job_update(s, m, w, f, a, o, e); }
static int admit_node_update_any(struct state *s, const void *m, const struct spur_identity *w, const struct facts *f, struct arena *a, struct admitted *o, struct spur_error *e)
{ return admit_node_update(s, m, w, f, a, o, e); }
static int admit_node_reboot_any(struct state *s, const void *m, const struct spur_identity *w, const struct facts *f, struct arena *a, struct admitted *o, struct spur_error *e)
{ return admit_node_reboot(s, m, w, f, a, o, e); }
static int admit_partition_update_any(struct state *s, const void *m, const struct spur_identity *w, const struct facts *f, struct arena *a, struct admitted *o, struct spur_error *e)
{ return admit_partition_update(s, m, w, f, a, o, e); }

static int admit_account_change_any(struct state *s, const void *m, const struct spur_identity *w, const struct facts *f, struct arena *a, struct admitted *o, struct spur_error *e)
{ return admit_account_change(s, m, w, f, a, o, e); }

static void job_update_named(struct ctl *c, void *arg, const struct named *n) { request_admit(c, arg, admit_job_update_any, n); }
static void node_update_named(struct ctl *c, void *arg, const struct named *n) { request_admit(c, arg, admit_node_update_any, n); }
static void node_reboot_named(struct ctl *c, void *arg, const struct named *n) { request_admit(c, arg, admit_node_reboot_any, n); }
static void partition_update_named(struct ctl *c, void *arg, const struct named *n) { request_admit(c, arg, admit_partition_update_any, n); }
static void account_change_named(struct ctl *c, void *arg, const struct named *n) { request_admit(c, arg, admit_account_change_any, n); }
static void handle_job_update(struct ctl *c, struct request *r) { names_get(c, r->who.uid, r->who.gid, job_update_named, r); }
static void handle_node_update(struct ctl *c, struct request *r) { names_get(c, r->who.uid, r->who.gid, node_update_named, r); }
static void handle_node_reboot(struct ctl *c, struct request *r) { names_get(c, r->who.uid, r->who.gid, node_reboot_named, r); }
static void handle_partition_update(struct ctl *c, struct request *r) { names_get(c, r->who.uid, r->who.gid, partition_update_named, r); }

static void handle_account_change(struct ctl *c, struct request *r) { names_get(c, r->who.uid, r->who.gid, account_change_named, r); }

static void accounts_named(struct ctl *c, void *arg, const struct named *n)
{
    struct request *r = arg;

    ctl_send(c, r->conn, WIRE__MESSAGE_TYPE__ACCOUNTS_LIST, r->seq, &admit_accounts_seen(c->state, &r->who, n->user, r->rank, &r->arena)->base);
    request_free(r);
}

static void handle_accounts(struct ctl *c, struct request *r) { names_get(c, r->who.uid, r->who.gid, accounts_named, r); }

/* One try. Other steps in the way: the request is kept if `may_wait` and srun wants that, else refused. */
static enum step_try step_try(struct ctl *c, struct request *r, bool may_wait)
{
    Wire__StepRequest *m = r->message;
    struct facts facts = { .wall_ms = clock_wall_ms() };
    struct admitted adm = { 0 };
    struct proposal_blobs blobs = { 0 };
    struct spur_error err = { 0 };
    Wire__Blob *b = NULL;

    if (m->n_het && config_has_word(c->state->config, CONF_SchedulerParameters, "disable_hetjob_steps")) {
        spur_fail(&err, SPUR_EDENIED, "steps over several components of a heterogeneous job are switched off here (SchedulerParameters=disable_hetjob_steps)");
        request_refuse(c, r, &err, 2037);
        return STEP_ANSWERED;
    }
    if (m->has_env) {
        b = arena_alloc(&r->arena, sizeof *b);
        wire__blob__init(b);
        b->data = m->env;
        b->hash.len = 32;
        b->hash.data = arena_alloc(&r->arena, 32);
        crypto_generichash(b->hash.data, 32, m->env.data, m->env.len, NULL, 0);
        blobs.blobs = arena_alloc(&r->arena, sizeof *blobs.blobs);
        blobs.blobs[blobs.count++] = b;
    }
    for (size_t i = 0; i <= m->n_het; i++) {        /* one, or several components of a heterogeneous job */
        Wire__StepRequest part = *m;
        const struct job *j;
        Wire__OpStep *op;
        uint32_t ntasks = 0;

        part.job_id = i ? m->het[i - 1]->job_id : m->job_id;
        part.spec = i ? m->het[i - 1]->spec : m->spec;
        if (admit_step(c->state, &part, &r->who, &facts, &r->arena, &adm, &err) < 0 || !(j = state_job(c->state, part.job_id)) || adm.op_count != i + 1) {
            request_refuse(c, r, &err, adm.slurm_errno);
            return STEP_ANSWERED;
        }
        op = adm.ops[i]->step;
        if (step_place(c->state, j, op->spec, &r->arena, &op->allocs, &op->n_allocs, &ntasks, &err) < 0) {
            if (may_wait && m->wait_ms && err.code == SPUR_ELATER)
                return STEP_WAITS;
            request_refuse(c, r, &err, err.code == SPUR_ELATER ? 2059 : 2014);
            return STEP_ANSWERED;
        }
        op->spec->has_ntasks = 1;
        op->spec->ntasks = ntasks;
        op->has_env_hash = b != NULL;
        if (b)
            op->env_hash = b->hash;
    }
    if (m->n_het)
        het_step_join(&adm, &r->arena);
    request_propose(c, r, &adm, &blobs, step_created);
    return STEP_PROPOSED;
}

static void handle_step_create(struct ctl *c, struct request *r)
{
    const Wire__StepRequest *m = r->message;

    if (step_try(c, r, true) == STEP_WAITS && !stepwaits_add(c, r, r->conn, r->seq, m))
        step_try(c, r, false);
}

enum step_try dispatch_step_again(struct ctl *c, struct request *r, bool is_last) { return step_try(c, r, !is_last); }
void dispatch_step_drop(struct request *r) { request_free(r); }

static void handle_reconfigure(struct ctl *c, struct request *r)
{
    struct spur_error err = { 0 };

    if (ctl_reconfigure(c, done, r, &err) < 0)
        request_refuse(c, r, &err, 0);
}

static void handle_shutdown(struct ctl *c, struct request *r)
{
    log_line(SPUR_LOG_INFO, "shutdown asked for by uid %u", r->who.uid);
    request_done(c, r);
    uv_kill(uv_os_getpid(), SIGTERM);
}

static void handle_members(struct ctl *c, struct request *r)
{
    Wire__MembersReply reply = WIRE__MEMBERS_REPLY__INIT;

    group_members(c, &reply, &r->arena);
    ctl_send(c, r->conn, WIRE__MESSAGE_TYPE__MEMBERS_LIST, r->seq, &reply.base);
    request_free(r);
}

struct minting { struct request *r; char *token; };

/* The configuration with the one-time key is in the log: now the token is good. */
static void minted(struct ctl *c, void *arg, const struct op_result *results, size_t n, const struct spur_error *err)
{
    struct minting *m = arg;
    struct request *r = m->r;

    if (results && n && results[0].code == 0) {
        r->done = arena_alloc(&r->arena, sizeof *r->done);
        wire__done_reply__init(r->done);
        r->done->text = arena_copy(&r->arena, m->token);
        request_done(c, r);
    } else {
        done(c, r, results, n, err);
    }
    sodium_memzero(m->token, strlen(m->token));
    free(m->token);
    free(m);
}

static void joined(struct ctl *c, void *arg, const struct op_result *results, size_t n, const struct spur_error *err)
{
    struct request *r = arg;

    if (results && n && results[0].code == 0) {
        joins_reply(c, r->conn, r->seq, ((const Wire__JoinRequest *)r->message)->role);
        request_free(r);
    } else {
        done(c, r, results, n, err);
    }
}

static void handle_join(struct ctl *c, struct request *r)
{
    struct spur_error err = { 0 };

    if (joins_take(c, &r->who, r->message, joined, r, &err) < 0)
        request_refuse(c, r, &err, 0);
}

static void handle_hosts(struct ctl *c, struct request *r)
{
    Wire__HostsReply reply;
    struct spur_error err = { 0 };

    if (joins_list(c, &reply, &r->arena, &err) < 0) {
        request_refuse(c, r, &err, 0);
        return;
    }
    ctl_send(c, r->conn, WIRE__MESSAGE_TYPE__HOSTS_LIST, r->seq, &reply.base);
    request_free(r);
}

static void handle_host_change(struct ctl *c, struct request *r)
{
    const Wire__HostChangeRequest *m = r->message;
    struct minting *mint = NULL;
    struct spur_error err = { 0 };
    int rc;

    if (m->verb == WIRE__HOST_CHANGE_REQUEST__VERB__TOKEN) {
        mint = mem_alloc(sizeof *mint);
        mint->r = r;
        rc = joins_token(c, m->name, m->addr, m->role, m->lifespan_s, &mint->token, minted, mint, &err);
    } else if (m->verb == WIRE__HOST_CHANGE_REQUEST__VERB__REVOKE) {
        rc = joins_revoke(c, m->name, done, r, &err);
    } else {
        rc = joins_untoken(c, m->name, done, r, &err);
    }
    if (rc < 0) {
        free(mint);
        request_refuse(c, r, &err, 0);
    } else {
        log_line(SPUR_LOG_INFO, "uid %u: %s %.63s", r->who.uid, m->verb == WIRE__HOST_CHANGE_REQUEST__VERB__TOKEN ? "a token for host" :
                 m->verb == WIRE__HOST_CHANGE_REQUEST__VERB__REVOKE ? "revokes host" : "revokes token", m->name);
    }
}

static void handle_host_key(struct ctl *c, struct request *r)
{
    struct spur_error err = { 0 };

    if (joins_key(c, &r->who, r->message, done, r, &err) < 0)
        request_refuse(c, r, &err, 0);
}

/* For himself, and with an administrator's word for others. */
static void handle_user_token(struct ctl *c, struct request *r)
{
    const Wire__UserTokenRequest *m = r->message;
    struct passwd pw, *found = NULL;
    struct spur_error err = { 0 };
    char buf[16384], *token = NULL;
    uint32_t uid = r->who.uid, gid = r->who.gid, number;

    if (m->user && *m->user) {
        if (number_u32(m->user, &number) ? getpwuid_r(number, &pw, buf, sizeof buf, &found) != 0 : getpwnam_r(m->user, &pw, buf, sizeof buf, &found) != 0)
            found = NULL;
        if (found && found->pw_uid != uid) {
            uid = found->pw_uid;
            gid = found->pw_gid;
        }
        if (r->rank < RANK_ADMIN && (!found || uid != r->who.uid))
            spur_fail(&err, SPUR_EDENIED, "Access/permission denied: only an administrator makes tokens for others");
        else if (!found)
            spur_fail(&err, SPUR_ENOTFOUND, "no user %.64s is known here", m->user);
    }
    if (err.code || joins_user_token(c, &r->who, uid, gid, m, &token, &err) < 0) {
        request_refuse(c, r, &err, err.code == SPUR_EDENIED ? 2002 : 0);
        return;
    }
    r->done = arena_alloc(&r->arena, sizeof *r->done);
    wire__done_reply__init(r->done);
    r->done->text = token;
    request_done(c, r);
    sodium_memzero(token, strlen(token));
    free(token);
}

/* A new controller whose key nobody knows gets a token; one that is known is asked straight away. */
static bool member_needs_token(struct ctl *c, const Wire__MemberChangeRequest *m)
{
    return m->verb == WIRE__MEMBER_CHANGE_REQUEST__VERB__ADD && m->name && *m->name && strlen(m->name) <= 63 && SPUR_HAS(c->store_ops, member_add) &&
           loader_can(c->store, SPUR_CAP_REPLICATED) && !group_is_member(c, m->name) && !joins_knows(c, m->name);
}

static void handle_mesh(struct ctl *c, struct request *r)
{
    Wire__MeshReply reply;

    mesh_list(c, &reply, &r->arena);
    reply.status = c->sw->name;
    ctl_send(c, r->conn, WIRE__MESSAGE_TYPE__MESH_ROWS, r->seq, &reply.base);
    request_free(r);
}

static void handle_controller_mesh(struct ctl *c, struct request *r)
{
    struct spur_error err = { 0 };

    if (seat_take(c, &r->who, r->message, done, r, &err) < 0)
        request_refuse(c, r, &err, 0);
}

static void handle_mesh_rotate(struct ctl *c, struct request *r)
{
    const Wire__MeshRotateRequest *m = r->message;
    struct spur_error err = { 0 };
    uint32_t asked, controllers;

    if (mesh_rotate(c, m->nodes, &asked, &controllers, &err) < 0) {
        request_refuse(c, r, &err, 0);
        return;
    }
    log_line(SPUR_LOG_INFO, "uid %u: %u nodes and %u controllers are asked for new mesh keys", r->who.uid, asked, controllers);
    r->done = arena_alloc(&r->arena, sizeof *r->done);
    wire__done_reply__init(r->done);
    r->done->text = arena_alloc(&r->arena, 80);
    if (controllers)
        snprintf(r->done->text, 80, "%u nodes and %u controllers make a new key", asked, controllers);
    else
        snprintf(r->done->text, 80, "%u nodes make a new key", asked);
    request_done(c, r);
}

static void handle_member_change(struct ctl *c, struct request *r)
{
    const Wire__MemberChangeRequest *m = r->message;
    struct spur_error err = { 0 };
    struct str text;

    if (m->verb != WIRE__MEMBER_CHANGE_REQUEST__VERB__PROMOTE && c->role != SPUR_STORE_LEADER) {
        group_refuse(c, r->conn, r->seq);
        request_free(r);
        return;
    }
    if (member_needs_token(c, m)) {
        struct minting *mint = mem_alloc(sizeof *mint);

        mint->r = r;
        if (joins_token(c, m->name, group_addr(c, m), "controller", 0, &mint->token, minted, mint, &err) < 0) {
            free(mint);
            request_refuse(c, r, &err, 0);
        }
        return;
    }
    str_init(&text);
    if (group_change(c, m, &text, &err) < 0) {
        request_refuse(c, r, &err, 0);
    } else {
        log_line(SPUR_LOG_INFO, "uid %u: %s", r->who.uid, text.text);
        r->done = arena_alloc(&r->arena, sizeof *r->done);
        wire__done_reply__init(r->done);
        r->done->text = text.text;
        request_done(c, r);
    }
    str_fini(&text);
}

static void handle_dial(struct ctl *c, struct request *r)
{
    dial_take(c, r->conn, r->seq, &r->who, r->message, &r->arena);
    request_free(r);
}

static void handle_wait(struct ctl *c, struct request *r)
{
    const Wire__WaitRequest *m = r->message;
    const struct job *j = state_job(c->state, m->job_id);
    struct peer *p = ctl_peer(c, r->conn);
    struct spur_error err = { 0 };

    if (!j || !admit_sees_job(c->state, j, &r->who, r->rank)) {
        spur_fail(&err, SPUR_ENOTFOUND, "Invalid job id specified");
        request_refuse(c, r, &err, 2017);
        return;
    }
    if (p)
        waits_add(c, p, r->seq, m);
    request_free(r);
}

static void handle_config_files(struct ctl *c, struct request *r)
{
    Wire__ConfigFiles files;

    ctl_config_texts(c, &files);
    ctl_send(c, r->conn, WIRE__MESSAGE_TYPE__CONFIG_TEXTS, r->seq, &files.base);
    request_free(r);
}

static void handle_script(struct ctl *c, struct request *r)
{
    const Wire__ScriptRequest *m = r->message;
    const struct job *j = state_job(c->state, m->job_id);
    Wire__Blob reply = WIRE__BLOB__INIT;
    struct spur_error err = { 0 };
    const uint8_t *data = NULL;

    if (j && !admit_owns_job(j, &r->who, r->rank)) {
        spur_fail(&err, SPUR_EDENIED, "Access/permission denied");
        request_refuse(c, r, &err, 2002);
        return;
    }
    if (j && j->has_script)
        data = blobs_get(c, j->script_hash, &reply.data.len);
    if (!data) {
        spur_fail(&err, SPUR_ENOTFOUND, j ? "job script not available" : "Invalid job id specified");
        request_refuse(c, r, &err, j ? 0 : 2017);
        return;
    }
    reply.data.data = (uint8_t *)(uintptr_t)data;
    reply.hash.data = (uint8_t *)(uintptr_t)j->script_hash;
    reply.hash.len = 32;
    ctl_send(c, r->conn, WIRE__MESSAGE_TYPE__SCRIPT_TEXT, r->seq, &reply.base);
    request_free(r);
}

static void handle_blob(struct ctl *c, struct request *r)
{
    const Wire__BlobRequest *m = r->message;
    Wire__Blob reply = WIRE__BLOB__INIT;
    struct spur_error err = { 0 };
    const uint8_t *data = m->hash.len == 32 ? blobs_get(c, m->hash.data, &reply.data.len) : NULL;

    if (!data) {
        spur_fail(&err, SPUR_ENOTFOUND, "no such script or environment here");
        request_refuse(c, r, &err, 0);
        return;
    }
    reply.data.data = (uint8_t *)(uintptr_t)data;
    reply.hash = m->hash;
    ctl_send(c, r->conn, WIRE__MESSAGE_TYPE__SCRIPT_TEXT, r->seq, &reply.base);
    request_free(r);
}

static void handle_register(struct ctl *c, struct request *r)
{
    struct peer *p = ctl_peer(c, r->conn);

    if (p)
        nodes_register(c, p, r->seq, r->message, &r->arena);
    request_free(r);
}

static void handle_heartbeat(struct ctl *c, struct request *r)
{
    struct peer *p = ctl_peer(c, r->conn);

    if (p)
        nodes_heartbeat(c, p, r->seq, r->message);
    request_free(r);
}

static void handle_report(struct ctl *c, struct request *r)
{
    struct peer *p = ctl_peer(c, r->conn);

    if (p)
        nodes_report(c, p, r->seq, r->message, &r->arena);
    request_free(r);
}

/* ---- the table ------------------------------------------------------------------------------------------------------ */

/* What the body of each message is, who takes it (NULL is a reader, queries.c, or VOUCH, which rpc answers itself), and which controller of a group: LEADER
 * alone; EACH for itself, in any state; any that has a configuration (HAVING), readers look further. A row of table.def that is missing here does not compile. */
enum whose { LEADER, EACH, HAVING };
#define REQUESTS(X) \
    X(PING, empty, handle_ping, EACH) X(SUBMIT, submit_request, handle_submit, LEADER) X(TEST_ONLY, submit_request, handle_test_only, LEADER) \
    X(CANCEL, cancel_request, handle_cancel, LEADER) X(JOB_UPDATE, job_update_request, handle_job_update, LEADER) \
    X(NODE_UPDATE, node_update_request, handle_node_update, LEADER) X(NODE_REBOOT, node_reboot_request, handle_node_reboot, LEADER) \
    X(PARTITION_UPDATE, partition_update_request, handle_partition_update, LEADER) \
    X(STEP_CREATE, step_request, handle_step_create, LEADER) X(RECONFIGURE, empty, handle_reconfigure, LEADER) X(SHUTDOWN, empty, handle_shutdown, HAVING) \
    X(DIAL, dial_request, handle_dial, LEADER) X(WAIT, wait_request, handle_wait, LEADER) X(CONFIG_FILES, empty, handle_config_files, HAVING) X(SCRIPT, script_request, handle_script, LEADER) \
    X(VOUCH, vouch_request, NULL, EACH) X(BLOB, blob_request, handle_blob, HAVING) X(JOIN, join_request, handle_join, LEADER) X(MEMBERS, empty, handle_members, HAVING) X(ACCOUNTS, empty, handle_accounts, LEADER) X(ACCOUNT_CHANGE, account_change, handle_account_change, LEADER) X(MEMBER_CHANGE, member_change_request, handle_member_change, HAVING) \
    X(REGISTER, register_request, handle_register, LEADER) X(HEARTBEAT, heartbeat, handle_heartbeat, LEADER) X(REPORT, report, handle_report, LEADER) \
    X(JOBS, jobs_request, NULL, HAVING) X(NODES, nodes_request, NULL, HAVING) X(PARTITIONS, empty, NULL, HAVING) X(CONFIG, empty, NULL, HAVING) \
    X(HOSTS, empty, handle_hosts, LEADER) X(HOST_CHANGE, host_change_request, handle_host_change, LEADER) X(HOST_KEY, host_key_request, handle_host_key, LEADER) \
    X(USER_TOKEN, user_token_request, handle_user_token, LEADER) X(MESH, empty, handle_mesh, LEADER) X(CONTROLLER_MESH, op_mesh_host, handle_controller_mesh, LEADER) X(MESH_ROTATE, mesh_rotate_request, handle_mesh_rotate, LEADER) \
    X(STEPS, steps_request, NULL, HAVING) X(STATS, empty, NULL, HAVING)

struct handler { const ProtobufCMessageDescriptor *body; void (*run)(struct ctl *, struct request *); enum whose whose; };
#define REQUEST_ROW(message, body, run, whose) static const struct handler handler_##message = { &wire__##body##__descriptor, run, whose };
REQUESTS(REQUEST_ROW)
#undef REQUEST_ROW

static const struct handler *handler_of(uint16_t type)
{
    switch (type) {
#define ADMIT_ROW(message, roles, rank, object) case WIRE__MESSAGE_TYPE__##message: return &handler_##message;
#include "admit/table.def"
    default: return NULL;
    }
}

void dispatch_message(void *ctl, struct rpc_conn *conn, const struct frame *f, const uint8_t *body)
{
    struct ctl *c = ctl;
    struct peer *p = rpc_user(conn);
    const struct spur_identity *who = rpc_identity(conn);
    const struct handler *h = handler_of(f->type);
    const char *name;
    struct spur_error err = { 0 };
    struct request *r;

    if (fetch_is(c, conn)) {
        fetch_message(c, f, body);
        return;
    }
    if (seat_is(c, conn)) {
        seat_message(c, f, body);
        return;
    }
    roles_look_up(c);
    p->rank = c->state->config ? admit_rank(c->state, who) : RANK_USER;
    if (!h || admit_message(f->type, who, p->rank, &err) < 0 || admit_scope(f->type, who, clock_wall_ms() / 1000, &err) < 0 || admit_private(c->state, f->type, who, p->rank, &err) < 0) {
        if (!h)
            spur_fail(&err, SPUR_EDENIED, "message %u is none that a controller takes", f->type);
        if (who->role == SPUR_ROLE_NODE && c->state->config && (name = admit_not_for_nodes(f->type)))
            suspect_node(c, who, name);
        rpc_refuse(conn, f->seq, &err, 2002);
        return;
    }
    if (f->type == WIRE__MESSAGE_TYPE__VOUCH) {         /* a follower speaks for its host's users too */
        rpc_vouch_answer(conn, f, body);
        return;
    }
    if (h->whose != EACH && (!c->state->config || c->is_config_due || (h->whose == LEADER && !group_leads(c)))) {
        group_park(c, p, f, body);
        return;
    }
    if (h->whose != EACH && admit_vouched(c->state, who, &err) < 0) {
        log_line(SPUR_LOG_WARN, "%s: %s", rpc_peer(conn), err.text);
        rpc_refuse(conn, f->seq, &err, 2002);
        return;
    }
    if (!h->run) {
        query_start(c, p, f->type, f->seq, body, f->length);
        return;
    }
    r = mem_alloc(sizeof *r);
    arena_init(&r->arena, 0);
    r->conn = p->number;
    r->seq = f->seq;
    r->type = f->type;
    r->who = *who;
    r->rank = p->rank;
    r->message = wire_unpack_bounded(h->body, body, f->length, &r->arena);
    if (!r->message) {
        spur_fail(&err, SPUR_ESYNTAX, "message %u cannot be read", f->type);
        request_refuse(c, r, &err, 0);
        return;
    }
    h->run(c, r);
}

void dispatch_opened(void *ctl, struct rpc_conn *conn)
{
    struct ctl *c = ctl;
    struct peer *p;

    if (fetch_is(c, conn)) {
        fetch_opened(c, conn);
        return;
    }
    if (seat_is(c, conn)) {
        seat_opened(c, conn);
        return;
    }
    p = mem_alloc(sizeof *p);
    p->conn = conn;
    p->number = ++c->next_conn;
    rpc_set_user(conn, p);
    table_put(&c->conns, p->number, p);
}

static void peer_free(struct peer *p)
{
    query_drop_all(p);
    free(p->nodes);
    free(p);
}

void dispatch_forget_all(struct ctl *c)
{
    struct peer *p;

    for (size_t i = 0; (p = table_next(&c->conns, &i)); )
        peer_free(p);
}

void dispatch_closed(void *ctl, struct rpc_conn *conn, const struct spur_error *why)
{
    struct ctl *c = ctl;
    struct peer *p = rpc_user(conn);

    if (fetch_is(c, conn)) {
        fetch_closed(c, why);
        return;
    }
    if (seat_is(c, conn)) {
        seat_closed(c, why);
        return;
    }
    if (!p) {
        if (why && why->code)
            log_line(SPUR_LOG_WARN, "%s", why->text);
        return;
    }
    table_del(&c->conns, p->number);
    waits_forget(c, p->number);
    stepwaits_forget(c, p->number);
    nodes_gone(c, p);
    peer_free(p);
}
