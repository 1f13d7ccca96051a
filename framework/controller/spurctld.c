/* SPDX-License-Identifier: Apache-2.0 */
/* spurctld.c - the controller process: options, plugins, the store's replay, the loop, a clean end.
 *
 * Order at start: configuration, plugins, the state's folder, replay of the log into the state, then the listeners; a client is
 * answered only when this controller leads and the state has a configuration. The loop's turn ends with one entry of all that came in it
 * (uv_prepare), so that the disk's flush is shared. Signals: TERM, INT stop; HUP reads the files again and proposes what differs; USR2 reopens the log.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sodium.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "controller/controller.h"
#include "controller/ctl.h"
#include "rpc/daemon.h"
#include "rpc/folder.h"

#define PLAN_PLACEMENTS 64          /* placements a slice: keeps a slice below 10 ms at 10,000 nodes */
#define STOP_DEADLINE_MS 5000
#define HAND_OVER_MS 1500           /* to another leader, before a stop goes on without */

static const char usage[] =
    "Usage: %s [-D] [-c] [-i] [-v] [-f FILE] [-L FILE] [-n NICE] [-N NAME] [-V]\n"
    "  -D        stay in the foreground, log to stderr unless -L is given; --systemd is the same\n"
    "  -c        forget the state of earlier runs (the old log is kept aside)\n"
    "  -i -r -R -s  taken for old unit files: an earlier state is always recovered whole, or the daemon says why not and ends\n"
    "  -f FILE   slurm.conf to read\n"
    "  -L FILE   log file instead of SlurmctldLogFile\n"
    "  -n NICE   nice value of the daemon\n"
    "  -N NAME   this controller's name in SlurmctldHost, instead of the host's\n"
    "  -v        more words in the log; may be repeated\n"
    "  -V        print the version\n";

struct options { const char *conf, *log, *name; bool foreground, clean; int verbose, nice; };

/* ---- host services for plugins ---------------------------------------------------------------------------------------- */

struct posted { void (*fn)(void *); void *arg; struct posted *next; };
static struct { uv_mutex_t lock; uv_async_t async; struct posted *first, **last; } post_queue;    /* one a process, as libuv's loop is */

static void posts_run(uv_async_t *async)
{
    struct posted *p;

    (void)async;
    uv_mutex_lock(&post_queue.lock);
    p = post_queue.first;
    post_queue.first = NULL;
    post_queue.last = &post_queue.first;
    uv_mutex_unlock(&post_queue.lock);
    while (p) {
        struct posted *next = p->next;

        p->fn(p->arg);
        free(p);
        p = next;
    }
}

static void host_post(void *ctx, void (*fn)(void *), void *arg)
{
    struct posted *p = mem_alloc(sizeof *p);

    (void)ctx;
    p->fn = fn;
    p->arg = arg;
    uv_mutex_lock(&post_queue.lock);
    *post_queue.last = p;
    post_queue.last = &p->next;
    uv_mutex_unlock(&post_queue.lock);
    uv_async_send(&post_queue.async);
}

static int64_t host_now(void *ctx) { (void)ctx; return clock_boot_ms(); }
static int64_t host_wall(void *ctx) { (void)ctx; return clock_wall_ms(); }
static const char *host_name(void *ctx) { return ((struct ctl *)ctx)->name; }
static const char *host_role(void *ctx) { (void)ctx; return "controller"; }
static const char *host_state_dir(void *ctx) { return ((struct ctl *)ctx)->state_dir; }

static bool host_score(void *ctx, const struct spur_score_ops **ops, void **self)
{
    const struct ctl *c = ctx;

    if (!c->score)
        return false;
    *ops = loader_ops(c->score);
    *self = c->score->self;
    return true;
}

static int host_controller(void *ctx, uint32_t i, struct spur_controller *out)
{
    const struct config *cfg = ((struct ctl *)ctx)->file_config;

    if (i >= cfg->controller_count)
        return SPUR_ENOTFOUND;
    snprintf(out->name, sizeof out->name, "%s", cfg->controllers[i].host);
    snprintf(out->addr, sizeof out->addr, "%s", cfg->controllers[i].addr ? cfg->controllers[i].addr : cfg->controllers[i].host);
    return 0;
}

static void host_init(struct ctl *c)
{
    c->peers = peers_create(config_text(c->file_config, CONF_ClusterName));
    c->host = (struct spur_host){ .size = sizeof c->host, .ctx = c, .log = log_text, .post = host_post, .now_ms = host_now,
                                  .wall_ms = host_wall, .host_name = host_name, .role = host_role, .state_dir = host_state_dir,
                                  .controller = host_controller, .channels = peers_channels(c->peers), .score = host_score };
    uv_mutex_init(&post_queue.lock);
    post_queue.last = &post_queue.first;
    uv_async_init(c->loop, &post_queue.async, posts_run);
    uv_unref((uv_handle_t *)&post_queue.async);      /* alone it must not keep a stopping controller alive */
}

/* ---- configuration ------------------------------------------------------------------------------------------------------ */

int ctl_config_propose(struct ctl *c, const struct config *cfg, proposed_fn then, void *arg)
{
    struct arena a;
    Wire__ConfigFiles *files;
    Wire__Op *op, **ops;

    arena_init(&a, 0);
    files = arena_alloc(&a, sizeof *files);
    wire__config_files__init(files);
    files->slurm = arena_copy(&a, cfg->slurm_text);
    files->gres = arena_copy(&a, cfg->gres_text);
    files->topology = arena_copy(&a, cfg->topology_text);
    files->cgroup = arena_copy(&a, cfg->cgroup_text);
    files->spur = arena_copy(&a, cfg->spur_text);
    op = arena_alloc(&a, sizeof *op);
    ops = arena_alloc(&a, sizeof *ops);
    wire__op__init(op);
    op->config = arena_alloc(&a, sizeof *op->config);
    wire__op_config__init(op->config);
    op->config->files = files;
    *ops = op;
    propose(c, ops, 1, NULL, &a, then, arg);
    return 0;
}

int ctl_reconfigure(struct ctl *c, proposed_fn then, void *arg, struct spur_error *err)
{
    struct config *fresh;

    if (config_load(c->file_config->path, false, &fresh, err) < 0) {
        log_line(SPUR_LOG_ERROR, "reconfigure refused: %s", err->text);
        return err->code;
    }
    ctl_config_propose(c, fresh, then, arg);
    config_free(c->file_config);
    c->file_config = fresh;
    log_line(SPUR_LOG_INFO, "configuration read again from %s", fresh->path);
    return 0;
}

static bool text_same(const char *a, const char *b) { return (!a || !*a) ? (!b || !*b) : (b && strcmp(a, b) == 0); }

static bool config_same(const struct config *a, const struct config *b)
{
    return text_same(a->slurm_text, b->slurm_text) && text_same(a->gres_text, b->gres_text) && text_same(a->topology_text, b->topology_text) &&
           text_same(a->cgroup_text, b->cgroup_text) && text_same(a->spur_text, b->spur_text);
}

/* ---- the plan's turn ------------------------------------------------------------------------------------------------------ */

static void idle_nothing(uv_idle_t *idle) { (void)idle; }

void ctl_plan_soon(struct ctl *c)
{
    if (!uv_is_active((uv_handle_t *)&c->again))
        uv_idle_start(&c->again, idle_nothing);     /* the loop does not sleep before the prepare handle has run */
}

struct planned { uint32_t job_id, task_id; const Wire__Op *op; };     /* one operation of a pass; the last has no job */

static void plan_answered(struct ctl *c, void *arg, const struct op_result *results, size_t n, const struct spur_error *err)
{
    const struct planned *p = arg;

    (void)err;
    for (size_t i = 0; p[i].job_id; i++)
        if (!results || (i < n && results[i].code < 0)) {
            fabric_refused(c, p[i].op);
            if (c->is_live)     /* decided as leader, answered when another leads: he decides anew */
                plan_refused(c->plan, c->state, p[i].job_id, p[i].task_id);
        }
}

static void plan_wake(uv_timer_t *timer) { ctl_plan_soon(timer->data); }

void ctl_plan(struct ctl *c)
{
    struct decisions d = { 0 };
    struct arena a;
    int64_t now = clock_wall_ms(), next;

    if (c->role != SPUR_STORE_LEADER || !c->state->config || c->is_stopping || (!plan_is_dirty(c->plan) && plan_next_wall_ms(c->plan) > now))
        goto sleep;
    arena_init(&a, 0);
    c->passes++;
    plan_pass(c->plan, c->state, &c->plugins, now, ctl_cluster_ms(c), (struct plan_budget){ PLAN_PLACEMENTS }, &a, &d);
    fabric_allot(c, &d, &a);
    if (d.op_count) {
        struct planned *planned = arena_alloc(&a, (d.op_count + 1) * sizeof *planned);

        for (size_t i = 0; i < d.op_count; i++)
            planned[i] = (struct planned){ d.ops[i]->start ? d.ops[i]->start->job_id : d.ops[i]->het_start ? d.ops[i]->het_start->parts[0]->job_id :
                                           d.ops[i]->cancel ? d.ops[i]->cancel->job_id : UINT32_MAX,
                                           d.ops[i]->start && d.ops[i]->start->has_array_task_id ? d.ops[i]->start->array_task_id : UINT32_MAX, d.ops[i] };
        propose(c, d.ops, d.op_count, NULL, &a, plan_answered, planned);
    } else {
        arena_fini(&a);
    }
    if (d.more)
        return;
sleep:
    uv_idle_stop(&c->again);
    next = c->state->config ? plan_next_wall_ms(c->plan) : INT64_MAX;
    if (next != INT64_MAX && !c->is_stopping)
        uv_timer_start(&c->plan_timer, plan_wake, next > now ? (uint64_t)(next - now) + 1 : 1, 0);
    else
        uv_timer_stop(&c->plan_timer);
}

static void before_sleep(uv_prepare_t *prepare)
{
    struct ctl *c = prepare->data;

    if (uv_is_active((uv_handle_t *)&c->again))
        ctl_plan(c);
    proposer_flush(c);
    blobs_sweep(c);
}

/* ---- the store's words ------------------------------------------------------------------------------------------------- */

static void ctl_stop(struct ctl *c);

static void config_taken(struct ctl *c, void *arg, const struct op_result *results, size_t n, const struct spur_error *err)
{
    (void)arg;
    c->is_config_due = false;
    if (!results || !n || results[0].code < 0)
        log_line(SPUR_LOG_ERROR, "configuration was not taken: %s", results && n && results[0].text ? results[0].text : err ? err->text : "dropped");
}

/* In a group the log's configuration counts; who has another file says so in one line, each time that either changes. */
static void config_compare(struct ctl *c)
{
    const struct config *log = c->state->config, *own = c->file_config;
    const struct { const char *name, *log, *own; } rows[] = {
        { "slurm.conf", log ? log->slurm_text : NULL, own->slurm_text }, { "gres.conf", log ? log->gres_text : NULL, own->gres_text },
        { "topology", log ? log->topology_text : NULL, own->topology_text }, { "cgroup.conf", log ? log->cgroup_text : NULL, own->cgroup_text } };
    struct str names;

    if (!log)
        return;
    str_init(&names);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!text_same(rows[i].log, rows[i].own))
            str_addf(&names, "%s%s", names.len ? ", " : "", rows[i].name);
    if (names.len)
        log_line(SPUR_LOG_WARN, "%s: what stands here differs from the log's configuration (%s), which counts; `scontrol reconfigure` takes the leader's files", own->path, names.text);
    else if (!text_same(log->spur_text, own->spur_text))
        log_line(SPUR_LOG_INFO, "%s: spur.conf differs from the log's, which counts but for run_dir and the options of AuthType and StoreType", own->path);
    str_fini(&names);
}

void ctl_config_followed(struct ctl *c)
{
    log_level(log_level_of((unsigned)config_number(c->state->config, CONF_SlurmctldDebug)) + c->verbose);
    log_line(SPUR_LOG_INFO, "configuration version %llu taken from the log", (unsigned long long)c->state->config_version);
    ctl_plugins_take(c);
    config_compare(c);
    joins_changed(c);
}

static void ctl_lead(struct ctl *c)
{
    struct spur_store_status st = { .size = sizeof st };

    c->is_live = true;
    c->store_ops->status(c->store->self, &st);
    if (!c->state->config) {
        ctl_config_propose(c, c->file_config, config_taken, NULL);
    } else if (st.member_count > 1) {
        ctl_plugins_take(c);
        config_compare(c);
    } else if (!config_same(c->state->config, c->file_config)) {        /* alone, a restart reads the file again, as sites expect */
        log_line(SPUR_LOG_INFO, "%s differs from the log's configuration: taken, as this is the only controller", c->file_config->path);
        c->is_config_due = true;
        ctl_config_propose(c, c->file_config, config_taken, NULL);
    }
    if (c->state->config) {
        const struct job *j;

        plan_events(c->plan, c->state, NULL, 0);
        joins_changed(c);
        nodes_watch(c);
        fabric_lead(c);
        for (size_t i = 0; (j = table_next(&c->state->jobs, &i)); )
            watch_limit(c, j);
        effects_reemit(c);
        alarm_set(c, 1000, ALARM_PURGE, 0);
        ctl_plan_soon(c);
    }
}

/* Another leads, or nobody: nothing of what a leader does goes on here, and whoever waits for it is told where to go. What is
 * under way in the log comes back through `committed` or `dropped`. */
static void ctl_follow(struct ctl *c)
{
    c->is_live = false;
    c->is_config_due = false;
    uv_idle_stop(&c->again);
    uv_timer_stop(&c->plan_timer);
    alarms_clear(c);
    watch_forget_all(c);
    fabric_follow(c);
    nodes_leave(c);
    waits_move(c);
    stepwaits_move(c);
    plan_destroy(c->plan);
    c->plan = plan_create();
}

static void store_role(void *arg, enum spur_store_role role, uint64_t fence, const char *leader, const struct spur_error *err)
{
    struct ctl *c = arg;

    if (role == SPUR_STORE_FAILED) {
        log_line(SPUR_LOG_ERROR, "the store cannot go on: %s", err ? err->text : "no reason given");
        _exit(70);      /* nothing may be answered from a state that is not durable */
    }
    if (c->role != role || c->fence != fence || strcmp(c->leader, leader ? leader : "") != 0)
        log_line(SPUR_LOG_INFO, "%s is %s%s%s%s, fence %llu", c->name, role == SPUR_STORE_LEADER ? "the " : role == SPUR_STORE_STARTING ? "" : "a ", group_role_word(role),
                 leader && *leader && role != SPUR_STORE_LEADER ? " of " : "", leader && role != SPUR_STORE_LEADER ? leader : "", (unsigned long long)fence);
    if (c->is_live && (role != SPUR_STORE_LEADER || fence != c->fence)) {
        c->role = SPUR_STORE_FOLLOWER;
        snprintf(c->leader, sizeof c->leader, "%s", leader && role != SPUR_STORE_LEADER ? leader : "");
        ctl_follow(c);
    }
    c->role = role;
    c->fence = fence;
    snprintf(c->leader, sizeof c->leader, "%s", leader ? leader : role == SPUR_STORE_LEADER ? c->name : "");
    if (role == SPUR_STORE_LEADER && !c->is_live)
        ctl_lead(c);
    else if (!c->is_told_follower && role != SPUR_STORE_LEADER && role != SPUR_STORE_STARTING) {
        c->is_told_follower = true;
        config_compare(c);
        joins_changed(c);
    }
    group_role(c);
    joins_look(c);
}

/* The store calls this in a forked child, or here when it cannot fork: it reads, and changes nothing that the living controller uses. */
static int store_snapshot_write(void *arg, const struct spur_store_sink *sink, struct spur_error *err)
{
    struct ctl *c = arg;

    if (blobs_sync(c, err) < 0)
        return err->code;
    return state_save(c->state, sink->write, sink->arg, err);
}

static int store_snapshot_read(void *arg, uint64_t index, const struct spur_store_source *source, struct spur_error *err)
{
    struct ctl *c = arg;
    struct state *fresh;

    if (state_load(&fresh, source->read, source->arg, err) < 0)
        return spur_context(err, "snapshot of entry %llu", (unsigned long long)index);
    state_destroy(c->state);
    c->state = fresh;
    c->clock_boot = 0;
    if (c->is_started)
        ctl_config_followed(c);
    if (c->is_started)
        fetch_blobs(c);
    seat_changed(c);
    return 0;
}

/* ---- start and stop ----------------------------------------------------------------------------------------------------- */

static void stop_close(uv_handle_t *h, void *arg)
{
    (void)arg;
    if (!uv_is_closing(h))
        uv_close(h, NULL);
}

static void ctl_finish(struct ctl *c)
{
    alarms_destroy(c);
    query_waiting_drop(c);
    group_destroy(c);
    rpc_destroy(c->rpc);
    fetch_destroy(c);
    seat_close(c);
    c->rpc = NULL;
    uv_close((uv_handle_t *)&c->flush, NULL);
    uv_close((uv_handle_t *)&c->again, NULL);
    uv_close((uv_handle_t *)&c->plan_timer, NULL);
    uv_close((uv_handle_t *)&c->second, NULL);
    uv_close((uv_handle_t *)&c->reads, NULL);
    uv_close((uv_handle_t *)&c->joins, NULL);
    uv_close((uv_handle_t *)&c->sig_int, NULL);
    uv_close((uv_handle_t *)&c->sig_term, NULL);
    uv_close((uv_handle_t *)&c->sig_hup, NULL);
    uv_close((uv_handle_t *)&c->sig_usr, NULL);
}

static void stop_tick(uv_timer_t *timer)
{
    struct ctl *c = timer->data;

    if (c->is_handing_over && c->role == SPUR_STORE_LEADER && clock_boot_ms() < c->hand_over_by_ms)
        return;
    c->is_handing_over = false;
    c->is_stopping = true;
    if (proposer_is_idle(c) || clock_boot_ms() > c->stop_by_ms)
        ctl_finish(c);
}

/* A leader of several hands over first, and goes on answering until another leads: nobody waits for an election. What was asked for
 * before is still committed and answered; then everything closes. */
static void ctl_stop(struct ctl *c)
{
    struct spur_error err = { 0 };
    uint32_t voters = 1, reachable = 1;

    if (c->stop_by_ms)
        return;
    log_line(SPUR_LOG_INFO, "stopping");
    c->stop_by_ms = clock_boot_ms() + STOP_DEADLINE_MS;
    c->hand_over_by_ms = clock_boot_ms() + HAND_OVER_MS;
    if (c->role == SPUR_STORE_LEADER && SPUR_HAS(c->store_ops, resign))
        group_voters(c, &voters, &reachable);
    if (voters > 1 && reachable > 1) {
        c->is_handing_over = c->store_ops->resign(c->store->self, &err) == 0;
        if (!c->is_handing_over)
            log_line(SPUR_LOG_WARN, "no hand-over: %s", err.text);
    }
    c->is_stopping = !c->is_handing_over;
    uv_timer_start(&c->second, stop_tick, 0, 5);
}

static void on_signal(uv_signal_t *s, int number)
{
    struct ctl *c = s->data;
    struct spur_error err = { 0 };

    if (number == SIGHUP)
        ctl_reconfigure(c, config_taken, NULL, &err);
    else if (number == SIGUSR2)
        log_reopen();
    else
        ctl_stop(c);
}

static void ctl_signals(struct ctl *c)
{
    struct { uv_signal_t *handle; int number; } rows[] = { { &c->sig_int, SIGINT }, { &c->sig_term, SIGTERM }, { &c->sig_hup, SIGHUP }, { &c->sig_usr, SIGUSR2 } };

    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);           /* a full disk is an answer of write(), not a death */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uv_signal_init(c->loop, rows[i].handle);
        rows[i].handle->data = c;
        uv_signal_start(rows[i].handle, on_signal, rows[i].number);
    }
}

/* Which SlurmctldHost line is this machine: -N, else the line that has the host's name, else the only line. */
static int ctl_name(struct ctl *c, const char *wanted, struct spur_error *err)
{
    char host[256] = "", *dot;
    const struct config *cfg = c->file_config;

    gethostname(host, sizeof host - 1);
    if ((dot = strchr(host, '.')))
        *dot = '\0';
    for (size_t i = 0; i < cfg->controller_count; i++)
        if (word_eq(cfg->controllers[i].host, wanted ? wanted : host)) {
            snprintf(c->name, sizeof c->name, "%s", cfg->controllers[i].host);
            return (int)i;
        }
    if (wanted)
        return spur_fail(err, SPUR_ENOTFOUND, "%s: no SlurmctldHost=%s line; -N names one of them", cfg->path, wanted);
    if (cfg->controller_count == 1 && (word_eq(cfg->controllers[0].host, "localhost") || word_starts(cfg->controllers[0].host, host))) {
        snprintf(c->name, sizeof c->name, "%s", cfg->controllers[0].host);
        return 0;
    }
    return spur_fail(err, SPUR_ENOTFOUND, "%s: this host is %s, and no SlurmctldHost line names it; -N NAME says which one it is", cfg->path, host);
}

/* A store that knows no other members would make a cluster of its own on each controller: only the first one may run. */
static int ctl_alone(struct ctl *c, int line, struct spur_error *err)
{
    const struct config *cfg = c->file_config;

    if (cfg->controller_count < 2 || loader_can(c->store, SPUR_CAP_REPLICATED))
        return 0;
    if (line)
        return spur_fail(err, SPUR_EUNSUPPORTED, "%s: %s is a further SlurmctldHost, and store/%s keeps the state of one controller: only %s runs", cfg->path, c->name,
                         c->store->desc->name, cfg->controllers[0].host);
    log_line(SPUR_LOG_WARN, "store/%s keeps the state of one controller: the other %zu SlurmctldHost lines are without use", c->store->desc->name, cfg->controller_count - 1);
    return 0;
}

static int ctl_plugins(struct ctl *c, int line, struct spur_error *err)
{
    const struct config *cfg = c->file_config;

    if (loader_open(SPUR_KIND_store, config_text(cfg, CONF_StoreType), cfg, &c->host, &c->store, err) < 0 || ctl_alone(c, line, err) < 0 ||
        loader_open(SPUR_KIND_auth, config_text(cfg, CONF_AuthType), cfg, &c->host, &c->auth, err) < 0 ||
        loader_open(SPUR_KIND_switch, config_text(cfg, CONF_SwitchType), cfg, &c->host, &c->sw, err) < 0 ||
        loader_open(SPUR_KIND_score, config_text(cfg, CONF_ScoreType), cfg, &c->host, &c->score, err) < 0 ||
        loader_open(SPUR_KIND_select, config_text(cfg, CONF_SelectType), cfg, &c->host, &c->select, err) < 0 ||
        loader_open(SPUR_KIND_priority, config_text(cfg, CONF_PriorityType), cfg, &c->host, &c->priority, err) < 0)
        return err->code;
    if (loader_can(c->store, SPUR_CAP_REPLICATED)) {
        if (loader_open(SPUR_KIND_auth, config_text(cfg, CONF_AuthType), cfg, &c->host, &c->peers_auth, err) < 0)
            return err->code;
        peers_use(c->peers, loader_ops(c->peers_auth), c->peers_auth->self, loader_can(c->peers_auth, SPUR_CAP_MAY_BLOCK));
    }
    c->auth_ops = loader_ops(c->auth);
    if (!SPUR_HAS(c->auth_ops, sign))
        return spur_fail(err, SPUR_EUNSUPPORTED, "AuthType: %s cannot sign launch credentials, so no job could start; take auth/sodium or auth/munge", c->auth->name);
    c->store_ops = loader_ops(c->store);
    c->plugins = (struct plan_plugins){ loader_ops(c->select), c->select->self, loader_ops(c->priority), c->priority->self };
    return 0;
}

/* One plugin meets a changed configuration: new options, or another plugin where that is possible while the controller runs. */
static void ctl_plugin_take(struct ctl *c, enum spur_kind kind, const struct config *cfg, const char *wanted, const char *key, bool may_change, struct loaded **slot)
{
    struct loader_meaning meaning;
    struct spur_error err = { 0 };
    struct loaded *fresh;
    int rc = loader_resolve(kind, wanted, cfg, &meaning, &err);

    if (rc == 0 && word_eq(meaning.name, (*slot)->name))
        rc = loader_reload(*slot, cfg, &err);
    else if (rc == 0)
        rc = SPUR_ERESTART;
    if (rc == SPUR_ERESTART && !may_change) {
        log_line(SPUR_LOG_WARN, "%s: restart spurctld to take the new %s or its options; until then %s works as before", key, key, (*slot)->name);
        return;
    }
    if (rc == SPUR_ERESTART && (rc = loader_open(kind, wanted, cfg, &c->host, &fresh, &err)) == 0) {
        loader_close(*slot);
        *slot = fresh;
    }
    if (rc < 0)
        log_line(SPUR_LOG_ERROR, "%s: %s; %s works on as before", key, err.text, (*slot)->name);
}

/* Folders of keys and of the log are each host's own: the options of these two come from the files here, all else from the log. */
void ctl_plugins_take(struct ctl *c)
{
    const struct config *cfg = c->state->config;

    ctl_plugin_take(c, SPUR_KIND_score, cfg, config_text(cfg, CONF_ScoreType), "ScoreType", true, &c->score);
    ctl_plugin_take(c, SPUR_KIND_select, cfg, config_text(cfg, CONF_SelectType), "SelectType", true, &c->select);
    ctl_plugin_take(c, SPUR_KIND_priority, cfg, config_text(cfg, CONF_PriorityType), "PriorityType", true, &c->priority);
    ctl_plugin_take(c, SPUR_KIND_auth, c->file_config, config_text(cfg, CONF_AuthType), "AuthType", false, &c->auth);
    ctl_plugin_take(c, SPUR_KIND_store, c->file_config, config_text(cfg, CONF_StoreType), "StoreType", false, &c->store);
    ctl_plugin_take(c, SPUR_KIND_switch, cfg, config_text(cfg, CONF_SwitchType), "SwitchType", false, &c->sw);
    c->plugins = (struct plan_plugins){ loader_ops(c->select), c->select->self, loader_ops(c->priority), c->priority->self };
}

static const struct rpc_events rpc_callbacks = { dispatch_message, dispatch_opened, dispatch_closed, query_drained };

static int ctl_listen(struct ctl *c, int line, struct spur_error *err)
{
    const struct config *cfg = c->file_config;
    const char *addr = cfg->controllers[line].addr;
    char path[600];
    uint16_t bound = 0, first = (uint16_t)config_number(cfg, CONF_SlurmctldPort);

    if (folder_make(c->run_dir, 0755, err) < 0)
        return err->code;
    snprintf(path, sizeof path, cfg->controller_count > 1 ? "%s/ctl-%s.sock" : "%s/ctl.sock", c->run_dir, c->name);
    if (rpc_listen_local(c->rpc, path, 0666, err) < 0)
        return err->code;
    if (rpc_listen_tcp(c->rpc, addr && word_starts(addr, "127.") ? addr : NULL, first, &bound, err) < 0)
        return spur_context(err, "SlurmctldPort");
    log_line(SPUR_LOG_INFO, "listening on %s and port %u", path, bound);
    return 0;
}

static int ctl_start(struct ctl *c, const struct options *o, struct spur_error *err)
{
    struct config_hint hint;
    int line = ctl_name(c, o->name, err);

    if (line < 0)
        return line;
    snprintf(c->state_dir, sizeof c->state_dir, "%s/%s", config_text(c->file_config, CONF_StateSaveLocation), c->name);
    if (folder_make(c->state_dir, 0700, err) < 0)
        return err->code;
    if (o->clean) {
        char aside[1100];

        snprintf(aside, sizeof aside, "%s.before-%lld", c->state_dir, (long long)clock_wall_ms());
        if (rename(c->state_dir, aside) < 0 || mkdir(c->state_dir, 0700) < 0)
            return spur_fail(err, SPUR_EIO, "%s: -c cannot move the old state aside: %s", c->state_dir, strerror(errno));
        log_line(SPUR_LOG_WARN, "-c: starting empty; the old state is in %s", aside);
    }
    if (config_hint_read(c->file_config->path, &hint, err) < 0)
        return err->code;
    snprintf(c->run_dir, sizeof c->run_dir, "%s", hint.run_dir);
    host_init(c);
    if (ctl_plugins(c, line, err) < 0)
        return err->code;
    c->state = state_create();
    c->plan = plan_create();
    table_init(&c->conns);
    table_init(&c->watches);
    table_init(&c->fabric);
    alarms_create(c);
    group_create(c);
    fetch_create(c);
    proposer_create(c);
    waits_create(c);
    mesh_create(c);
    seat_create(c);
    hooks_create(c);
    names_create(c);
    uv_prepare_init(c->loop, &c->flush);
    uv_idle_init(c->loop, &c->again);
    uv_timer_init(c->loop, &c->plan_timer);
    uv_timer_init(c->loop, &c->second);
    uv_timer_init(c->loop, &c->reads);
    uv_timer_init(c->loop, &c->joins);
    c->joins.data = c;
    c->flush.data = c->again.data = c->plan_timer.data = c->second.data = c->reads.data = c;
    uv_prepare_start(&c->flush, before_sleep);
    ctl_signals(c);
    c->rpc = rpc_create(c->loop, config_text(c->file_config, CONF_ClusterName), c->auth_ops, c->auth->self, loader_can(c->auth, SPUR_CAP_MAY_BLOCK), &rpc_callbacks, c);
    c->events = (struct spur_store_events){ .size = sizeof c->events, .arg = c, .committed = proposer_committed, .dropped = proposer_dropped, .role = store_role,
                                            .snapshot_write = store_snapshot_write, .snapshot_read = store_snapshot_read, .feature = STATE_LEVEL };
    if (blobs_create(c, err) < 0 || c->store_ops->start(c->store->self, &c->events, err) < 0)
        return err->code;
    c->is_started = true;
    blobs_sweep_start(c);
    if (loader_can(c->store, SPUR_CAP_REPLICATED))
        fetch_blobs(c);
    return ctl_listen(c, line, err);
}

static void ctl_free(struct ctl *c)
{
    proposer_destroy(c);
    waits_destroy(c);
    stepwaits_destroy(c);
    seat_destroy(c);
    mesh_destroy(c);
    hooks_destroy(c);
    fabric_follow(c);
    table_fini(&c->fabric);
    held_forget(c);
    names_destroy(c);
    blobs_destroy(c);
    plan_destroy(c->plan);
    state_destroy(c->state);
    dispatch_forget_all(c);
    table_fini(&c->conns);
    watch_destroy(c);
    free(c->agent_of);
    free(c->is_armed);
    loader_close(c->store);
    loader_close(c->peers_auth);
    peers_destroy(c->peers);
    loader_close(c->auth);
    loader_close(c->sw);
    loader_close(c->select);
    loader_close(c->score);
    loader_close(c->priority);
    config_free(c->file_config);
}

static int options_read(int argc, char **argv, struct options *o)
{
    static const struct option longs[] = { { "help", no_argument, NULL, 'h' }, { "version", no_argument, NULL, 'V' }, { "systemd", no_argument, NULL, 'D' }, { 0 } };
    int64_t nice;
    int ch;

    optind = 1;
    while ((ch = getopt_long(argc, argv, "DciRrshvVf:L:n:N:", longs, NULL)) != -1)
        switch (ch) {
        case 'D': o->foreground = true; break;
        case 'c': o->clean = true; break;
        case 'i': case 'r': case 'R': case 's': break;      /* the log is always recovered whole or refused: nothing is left to choose */
        case 'v': o->verbose++; break;
        case 'f': o->conf = optarg; break;
        case 'L': o->log = optarg; break;
        case 'n':
            if (!number_i64(optarg, &nice) || nice < -20 || nice > 19) {
                fprintf(stderr, "%s: -n %s: a nice value from -20 to 19 is needed\n", argv[0], optarg);
                return -1;
            }
            o->nice = (int)nice;
            break;
        case 'N': o->name = optarg; break;
        case 'V': puts("slurm " CONFIG_SLURM_VERSION); return 1;
        case 'h': printf(usage, argv[0]); return 1;
        default: fprintf(stderr, usage, argv[0]); return -1;
        }
    if (optind < argc) {
        fprintf(stderr, "%s: %s is no option; -h lists them\n", argv[0], argv[optind]);
        return -1;
    }
    return 0;
}

int spurctld_main(int argc, char **argv)
{
    struct options o = { 0 };
    struct spur_error err = { 0 };
    struct ctl *c;
    const char *log;
    char pid[PATH_MAX];
    uv_loop_t loop;
    int rc = options_read(argc, argv, &o);

    if (rc)
        return rc < 0 ? 1 : 0;
    c = mem_alloc(sizeof *c);
    if (sodium_init() < 0 || config_load(o.conf, false, &c->file_config, &err) < 0) {
        fprintf(stderr, "%s: fatal: %s\n", argv[0], err.code ? err.text : "libsodium does not start");
        return 1;
    }
    log = o.log ? o.log : o.foreground ? NULL : config_text(c->file_config, CONF_SlurmctldLogFile);
    snprintf(pid, sizeof pid, "%s", config_text(c->file_config, CONF_SlurmctldPidFile) ? config_text(c->file_config, CONF_SlurmctldPidFile) : "");
    if (!o.foreground && daemon_begin(&err) < 0) {
        fprintf(stderr, "%s: fatal: %s\n", argv[0], err.text);
        return 1;
    }
    c->verbose = o.verbose;
    if (log_open(log, log_level_of((unsigned)config_number(c->file_config, CONF_SlurmctldDebug)) + c->verbose, &err) < 0)
        return daemon_fatal(argv[0], o.foreground && o.log, &err);
    if (o.nice && setpriority(PRIO_PROCESS, 0, o.nice) < 0)
        log_line(SPUR_LOG_WARN, "nice %d: %s", o.nice, strerror(errno));
    daemon_seal();
    uv_loop_init(&loop);
    c->loop = &loop;
    c->boot_wall_ms = clock_wall_ms();
    log_line(SPUR_LOG_INFO, "spurctld %s of cluster %s starts", PACKAGE_VERSION, config_text(c->file_config, CONF_ClusterName));
    if (ctl_start(c, &o, &err) < 0)
        return daemon_fatal(argv[0], o.foreground && o.log, &err);
    if (!o.foreground && pid_file_write(pid, &err) < 0)
        log_line(SPUR_LOG_WARN, "%s", err.text);
    daemon_ready();
    uv_run(&loop, UV_RUN_DEFAULT);
    c->store_ops->stop(c->store->self);
    hooks_close(c);
    uv_walk(&loop, stop_close, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    if (!o.foreground && *pid)
        unlink(pid);
    ctl_free(c);
    uv_loop_close(&loop);
    log_line(SPUR_LOG_INFO, "spurctld has stopped");
    free(c);
    return 0;
}
