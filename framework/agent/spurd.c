/* SPDX-License-Identifier: Apache-2.0 */
/* spurd.c - the agent's process: options, the pool, plugins, the spool, the loop, a clean end.
 *
 * Order at start: options and configuration; the background; the pool, before any key is read; plugins; the spool with its reports and the steps
 * that are still running; then inventory, and with it the connection to the leader. TERM and INT end the agent and leave every step
 * running: the next agent adopts them. HUP reads the configuration and opens the log again. Nothing that is missing outside (network,
 * names, controllers) ends the process; what is wrong inside (configuration, spool, plugins) ends it with one sentence.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/configless.h"
#include "agent/contain.h"
#include "agent/gpus.h"
#include "agent/health.h"
#include "agent/hooks.h"
#include "agent/inside.h"
#include "agent/probe.h"
#include "agent/spank_node.h"
#include "agent/task.h"
#include "rpc/daemon.h"
#include "rpc/folder.h"

static const char usage[] =
    "Usage: %s [-D] [-c] [-i] [-v] [-C] [-V] [-f FILE | --conf-server HOST[:PORT],...] [-L FILE] [-N NAME] [--emulate LIST]\n"
    "  -D              stay in the foreground, log to stderr unless -L is given; --systemd is the same\n"
    "  -c              forget unsent reports and the launches seen before; running steps are kept\n"
    "  -C              print this machine as a NodeName= line and end\n"
    "  -f FILE         slurm.conf to read\n"
    "  -i -s           taken for old unit files: errors of an earlier state never stop an agent\n"
    "  -L FILE         log file instead of SlurmdLogFile\n"
    "  -N NAME         which NodeName of slurm.conf this is, instead of the one of this host\n"
    "  -v              more words in the log; may be repeated\n"
    "  -V              print the version\n"
    "  --conf-server H take the configuration from these controllers instead of a file\n"
    "  --emulate LIST  be all these nodes at once; job scripts are not run, see the manual\n";

struct options { const char *conf, *log, *name, *emulate, *server; bool foreground, clean, print; int verbose; };

/* ---- host services for plugins ---- */

static int64_t host_now(void *ctx) { (void)ctx; return clock_boot_ms(); }
static int64_t host_wall(void *ctx) { (void)ctx; return clock_wall_ms(); }
static const char *host_name(void *ctx)
{
    const struct agent *a = ctx;

    /* one key serves all emulated nodes: that of the host "emulator" */
    return a->is_emulated ? "emulator" : hostlist_nth(a->set->names, 0);
}
static const char *host_role(void *ctx) { (void)ctx; return "agent"; }
static const char *host_state_dir(void *ctx) { return ((struct agent *)ctx)->set->spool_dir; }

static int open_plugins(struct agent *a, const struct config *cfg, struct spur_error *err)
{
    a->host = (struct spur_host){ .size = sizeof a->host, .ctx = a, .log = log_text, .now_ms = host_now, .wall_ms = host_wall,
                                  .host_name = host_name, .role = host_role, .state_dir = host_state_dir };
    if (loader_open(SPUR_KIND_auth, a->set->auth, cfg, &a->host, &a->auth, err) < 0 || loader_open(SPUR_KIND_switch, a->set->sw, cfg, &a->host, &a->sw, err) < 0)
        return err->code;
    return 0;
}

/* ---- connections ---- */

static void rpc_message(void *arg, struct rpc_conn *c, const struct frame *f, const uint8_t *body)
{
    struct agent *a = arg;
    const struct spur_identity *id = rpc_identity(c);
    struct spur_error err = { 0 };

    if (rpc_user(c)) {
        node_message(a, c, f, body);
        return;
    }
    if (f->type == WIRE__MESSAGE_TYPE__MESH) {
        node_mesh_answer(a, c, f->seq);
        return;
    }
    /* a command on this host: the agent proves for users whose job is here, and for root and its own user */
    if (f->type != WIRE__MESSAGE_TYPE__VOUCH) {
        spur_fail(&err, SPUR_EUNSUPPORTED, "an agent answers no message of type %u: ask a controller", f->type);
        rpc_refuse(c, f->seq, &err, 0);
    } else if (id->uid != 0 && id->uid != geteuid() && !steps_user_is_here(a, id->uid)) {
        spur_fail(&err, SPUR_EDENIED, "a compute node vouches only for users with a job on it");
        rpc_refuse(c, f->seq, &err, 0);
    } else {
        rpc_vouch_answer(c, f, body);
    }
}

static void rpc_opened(void *arg, struct rpc_conn *c) { node_connected(arg, c); }
static void rpc_closed(void *arg, struct rpc_conn *c, const struct spur_error *why) { node_closed(arg, c, why); }

static const struct rpc_events rpc_callbacks = { .message = rpc_message, .opened = rpc_opened, .closed = rpc_closed };

/* ---- configuration anew ---- */

/* What may change while the agent runs: everything but its names, the cluster, the spool and the kinds of plugins. is_own: read from our own files. */
static void take_config(struct agent *a, const struct config *cfg, bool is_own)
{
    struct settings *fresh;
    struct spur_error err = { 0 };
    struct str names;

    str_init(&names);
    hostlist_print(a->set->names, &names);
    if (settings_make(cfg, NULL, names.text, &fresh, &err) < 0) {
        log_line(SPUR_LOG_ERROR, "new configuration refused: %s", err.text);
    } else {
        bool more = !word_eq(fresh->auth, a->set->auth) || !word_eq(fresh->sw, a->set->sw) || !word_eq(fresh->cluster, a->set->cluster);

        if (more)
            log_line(SPUR_LOG_WARN, "ClusterName, AuthType or SwitchType has changed: restart spurd to take it");
        free(fresh->conf_path);
        free(fresh->spool_dir);
        free(fresh->cluster);
        fresh->conf_path = mem_copy(a->set->conf_path);
        fresh->spool_dir = mem_copy(a->set->spool_dir);
        fresh->cluster = mem_copy(a->set->cluster);
        snprintf(fresh->run_dir, sizeof fresh->run_dir, "%s", a->set->run_dir);
        if (!is_own) {      /* options of this node's plugins stand in this node's spur.conf */
            free(fresh->spur_text);
            fresh->spur_text = mem_copy(a->set->spur_text);
            fresh->has_gpu_options = a->set->has_gpu_options;
        }
        fresh->emulate_hardware = a->set->emulate_hardware;
        free(fresh->emulate_topology);
        fresh->emulate_topology = mem_copy(a->set->emulate_topology);
        for (size_t i = 0; i < a->count; i++) {
            a->nodes[i].name = hostlist_nth(fresh->names, i);
            if (a->nodes[i].controller >= fresh->controller_count)
                a->nodes[i].controller = 0;
        }
        settings_free(a->set);
        a->set = fresh;
        log_level(fresh->log_level + a->verbose);
        contain_settle(a);
        inventory_take(a, inventory_tell);
        health_start(a);
    }
    str_fini(&names);
}

/* Hosts that joined the cluster: a controller among them may lead, and be believed. */
void agent_enrol(struct agent *a, const char *lines)
{
    const struct spur_auth_ops *ops = loader_ops(a->auth);
    struct spur_error err = { 0 };
    struct str plain;

    if (!SPUR_HAS(ops, enrol) || (a->enrolled && !strcmp(a->enrolled, lines ? lines : "")))
        return;                     /* told to another of our nodes */
    free(a->enrolled);
    a->enrolled = NULL;
    str_init(&plain);
    for (const char *at = lines ? lines : ""; *at; at += strcspn(at, "\n") + (at[strcspn(at, "\n")] == '\n')) {
        char word[3][96], line[512];

        snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
        if (sscanf(line, "%95s %95s %95s", word[0], word[1], word[2]) == 3 && (!strcmp(word[1], "controller") || !strcmp(word[1], "revoked") || !strcmp(word[1], "retired")))
            str_addf(&plain, "%s %s %s\n", word[0], word[1], word[2]);
    }
    if (ops->enrol(a->auth->self, plain.text ? plain.text : "", &err) < 0)
        log_line(SPUR_LOG_WARN, "controllers that joined are not believed here: %s", err.text);
    else
        a->enrolled = mem_copy(lines ? lines : "");
    str_fini(&plain);
    if (a->rpc)
        rpc_recheck(a->rpc);
}

void agent_config(struct agent *a, const Wire__ConfigFiles *files)
{
    struct spur_error err = { 0 };
    struct config *cfg;

    if (files->version && files->version == a->config_version)
        return;                     /* told to another of our nodes */
    if (!files->slurm || config_parse(files->slurm, files->gres, files->topology, files->cgroup, files->spur, &cfg, &err) < 0) {
        log_line(SPUR_LOG_ERROR, "the leader's configuration cannot be read: %s", err.text);
        return;
    }
    a->config_version = files->version;
    agent_enrol(a, files->hosts);
    log_line(SPUR_LOG_INFO, "configuration version %llu of the leader taken", (unsigned long long)files->version);
    take_config(a, cfg, false);
    config_free(cfg);
}

static void reconfigure(struct agent *a)
{
    struct spur_error err = { 0 };
    struct config *cfg = NULL;

    log_reopen();
    if (config_load(a->set->conf_path, false, &cfg, &err) < 0) {
        log_line(SPUR_LOG_ERROR, "reconfigure refused: %s", err.text);
        return;
    }
    log_line(SPUR_LOG_INFO, "configuration read again from %s", a->set->conf_path);
    take_config(a, cfg, true);
    config_free(cfg);
}

/* ---- start and stop ---- */

static void agent_stop(struct agent *a)
{
    if (a->is_stopping)
        return;
    a->is_stopping = true;
    log_line(SPUR_LOG_INFO, "stopping; running steps stay");
    node_mesh_stop(a);
    for (size_t i = 0; i < a->count; i++) {
        steps_detach(&a->nodes[i]);
        node_stop(&a->nodes[i]);
        uv_close((uv_handle_t *)&a->nodes[i].timer, NULL);
    }
    gpus_stop(a);
    health_stop(a);
    spank_node_stop(a);
    hooks_stop(a);
    uv_close((uv_handle_t *)&a->gpu_timer, NULL);
    for (size_t i = 0; i < sizeof a->signals / sizeof *a->signals; i++)
        uv_close((uv_handle_t *)&a->signals[i], NULL);
    rpc_destroy(a->rpc);
    a->rpc = NULL;
    spool_close(a->spool);
    a->spool = NULL;
}

static void on_signal(uv_signal_t *s, int number)
{
    struct agent *a = s->data;

    if (number == SIGHUP)
        reconfigure(a);
    else if (number == SIGUSR2)
        log_reopen();
    else
        agent_stop(a);
}

static void watch_signals(struct agent *a)
{
    static const int numbers[] = { SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR2 };

    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        uv_signal_init(a->loop, &a->signals[i]);
        a->signals[i].data = a;
        uv_signal_start(&a->signals[i], on_signal, numbers[i]);
    }
}

static int open_spool(struct agent *a, bool clean, struct spur_error *err)
{
    int rc;

    if (a->is_emulated) {
        a->spool_fd = -1;
    } else {
        if ((rc = folder_make(a->set->spool_dir, 0755, err)) < 0)
            return spur_context(err, "SlurmdSpoolDir");
        a->spool_fd = open(a->set->spool_dir, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
        if (a->spool_fd < 0)
            return spur_fail(err, SPUR_EIO, "SlurmdSpoolDir: cannot open %s: %s", a->set->spool_dir, strerror(errno));
        if (clean) {
            unlinkat(a->spool_fd, "reports", 0);
            unlinkat(a->spool_fd, "seen", 0);
            unlinkat(a->spool_fd, "fence", 0);
        }
    }
    if ((rc = seen_open(&a->seen, a->spool_fd, clock_wall_ms(), err)) < 0 ||
        (rc = spool_open(a->loop, a->spool_fd, (uint64_t)clock_wall_ms() * 1000, &a->spool, err)) < 0)
        return spur_context(err, "%s", a->set->spool_dir);
    if (spool_dropped(a->spool))
        log_line(SPUR_LOG_WARN, "reports in %s end with %zu bytes that were not written whole: dropped", a->set->spool_dir, spool_dropped(a->spool));
    if (spool_count(a->spool))
        log_line(SPUR_LOG_INFO, "%zu reports of before wait to be sent", spool_count(a->spool));
    return 0;
}

static void dial_all(struct agent *a)
{
    for (size_t i = 0; i < a->count; i++)
        node_start(&a->nodes[i], a->count > 1 ? randombytes_uniform((uint32_t)a->count / 2 + 1) : 0);
}

static int listen_local(struct agent *a, struct spur_error *err)
{
    char path[400];

    if (a->is_emulated)
        return 0;
    if (folder_make(a->set->run_dir, 0755, err) < 0) {
        log_line(SPUR_LOG_WARN, "run_dir: %s; commands on this host cannot be vouched for", err->text);
        return 0;
    }
    snprintf(path, sizeof path, "%s/node.sock", a->set->run_dir);
    if (rpc_listen_local(a->rpc, path, 0666, err) < 0)
        return spur_context(err, "is another spurd running here");
    return 0;
}

static int agent_start(struct agent *a, const struct config *cfg, bool clean, struct spur_error *err)
{
    int rc;

    a->count = hostlist_count(a->set->names);
    if ((rc = open_plugins(a, cfg, err)) < 0 || (rc = open_spool(a, clean, err)) < 0)
        return rc;
    table_init(&a->hooks);
    watch_signals(a);
    a->rpc = rpc_create(a->loop, a->set->cluster, loader_ops(a->auth), a->auth->self, loader_can(a->auth, SPUR_CAP_MAY_BLOCK), &rpc_callbacks, a);
    a->nodes = mem_array(a->count, sizeof *a->nodes);
    for (size_t i = 0; i < a->count; i++) {
        struct identity *n = &a->nodes[i];

        n->agent = a;
        n->name = hostlist_nth(a->set->names, i);
        n->controller = randombytes_uniform((uint32_t)a->set->controller_count);
        uv_timer_init(a->loop, &n->timer);
        n->timer.data = n;
        table_init(&n->steps);
    }
    if ((rc = listen_local(a, err)) < 0)
        return rc;
    contain_settle(a);
    steps_adopt(a);
    uv_timer_init(a->loop, &a->gpu_timer);
    a->gpu_timer.data = a;
    node_mesh_start(a);
    inventory_take(a, dial_all);
    health_start(a);
    spank_node_start(a);
    return 0;
}

static void agent_free(struct agent *a)
{
    for (size_t i = 0; i < a->count; i++) {
        struct agent_step *s;

        for (size_t k = 0; (s = table_next(&a->nodes[i].steps, &k)); )
            free(s);
        while (a->nodes[i].endings) {
            struct ending *e = a->nodes[i].endings;

            a->nodes[i].endings = e->next;
            free(e);
        }
        table_fini(&a->nodes[i].steps);
    }
    node_mesh_free(a);
    contain_free(a);
    inventory_free(a);
    free(a->cores);
    free(a->enrolled);
    a->cores = NULL;
    seen_close(&a->seen);
    pool_stop(&a->pool);
    loader_close(a->sw);
    loader_close(a->auth);
    settings_free(a->set);
    if (a->spool_fd >= 0)
        close(a->spool_fd);
    free(a->nodes);
    free(a);
}

static int options_read(int argc, char **argv, struct options *o)
{
    static const struct option longs[] = { { "emulate", required_argument, NULL, 1 }, { "conf-server", required_argument, NULL, 2 },
                                           { "help", no_argument, NULL, 'h' }, { "version", no_argument, NULL, 'V' },
                                           { "systemd", no_argument, NULL, 'D' }, { 0 } };
    int ch;

    optind = 1;
    while ((ch = getopt_long(argc, argv, "DcChisvVf:L:N:", longs, NULL)) != -1)
        switch (ch) {
        case 'D': o->foreground = true; break;
        case 'c': o->clean = true; break;
        case 'C': o->print = true; break;
        case 'i': case 's': break;      /* of old unit files: nothing stops this agent, and it writes no core */
        case 'v': o->verbose++; break;
        case 'f': o->conf = optarg; break;
        case 'L': o->log = optarg; break;
        case 'N': o->name = optarg; break;
        case 'V': puts("slurm " CONFIG_SLURM_VERSION); return 1;
        case 'h': printf(usage, argv[0]); return 1;
        case 1:   o->emulate = optarg; break;
        case 2:   o->server = optarg; break;
        default:  fprintf(stderr, usage, argv[0]); return -1;
        }
    if (optind < argc) {
        fprintf(stderr, "%s: %s is no option; -h lists them\n", argv[0], argv[optind]);
        return -1;
    }
    if (o->server && (o->conf || o->emulate)) {
        fprintf(stderr, "%s: --conf-server excludes -f and --emulate\n", argv[0]);
        return -1;
    }
    if (o->emulate && o->name) {
        fprintf(stderr, "%s: -N and --emulate exclude each other\n", argv[0]);
        return -1;
    }
    return 0;
}

/* The loop, from a configuration that has been read to the end of the process. Frees cfg. */
static int agent_main(const char *program, const struct options *o, struct config *take_cfg, struct agent *a)
{
    struct spur_error err = { 0 };
    const char *log = o->log ? o->log : o->foreground ? NULL : a->set->log_file;
    uv_loop_t loop;
    char *pid;

    if (!o->foreground && !o->server && daemon_begin(&err) < 0) {
        fprintf(stderr, "%s: fatal: %s\n", program, err.text);
        return 1;
    }
    if (log_open(log, a->set->log_level + a->verbose, &err) < 0)
        return daemon_fatal(program, o->foreground && o->log, &err);
    if (!a->is_emulated && a->pool.fd < 0 && pool_start(&a->pool, &err) < 0)
        return daemon_fatal(program, o->foreground && o->log, &err);
    daemon_seal();
    uv_loop_init(&loop);
    a->loop = &loop;
    a->start_wall_ms = clock_wall_ms();
    log_line(SPUR_LOG_INFO, "spurd %s of cluster %s starts as node %s%s", PACKAGE_VERSION, a->set->cluster, hostlist_nth(a->set->names, 0),
             a->is_emulated ? " and others, emulated" : "");
    if (a->set->controller_count == 0) {
        spur_fail(&err, SPUR_EINVAL, "%s names no SlurmctldHost", a->set->conf_path);
        return daemon_fatal(program, o->foreground && o->log, &err);
    }
    if (agent_start(a, take_cfg, o->clean, &err) < 0)
        return daemon_fatal(program, o->foreground && o->log, &err);
    config_free(take_cfg);
    malloc_trim(0);                 /* the whole configuration was here a moment ago */
    pid = o->foreground ? NULL : mem_copy(a->set->pid_file);
    if (pid && pid_file_write(pid, &err) < 0)
        log_line(SPUR_LOG_WARN, "%s", err.text);
    daemon_ready();
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    if (pid)
        unlink(pid);
    free(pid);
    log_line(SPUR_LOG_INFO, "spurd has stopped");
    agent_free(a);
    log_close();
    return 0;
}

/* A node without files waits for its controllers in the background, and its pool starts before the key is read that it asks with. */
static int configless(const struct options *o, struct agent *a, struct config **cfg, struct spur_error *err)
{
    if (!o->foreground)     /* the log's place is not known before it is answered */
        fprintf(stderr, "spurd: asks %s for the configuration, and goes on asking until it is there\n", o->server);
    if (!o->foreground && daemon_begin(err) < 0)
        return err->code;
    if (log_open(o->log, SPUR_LOG_INFO + o->verbose, err) < 0 || pool_start(&a->pool, err) < 0)
        return err->code;
    daemon_seal();
    return configless_load(o->server, o->name, cfg, err);
}

int spurd_main(int argc, char **argv)
{
    struct options o = { 0 };
    struct spur_error err = { 0 };
    struct config *cfg = NULL;
    struct agent *a;
    int rc;

    if (argc == 2 && !strcmp(argv[1], "--probe"))       /* internal: a child of spurd's own */
        return probe_main();
    rc = options_read(argc, argv, &o);
    if (rc)
        return rc < 0 ? 1 : 0;
    if (o.print)
        return inventory_print(o.name);
    task_close_from(3);             /* descriptors of whoever started us are not ours, and not our steps' */
    a = mem_alloc(sizeof *a);
    a->spool_fd = a->pool.fd = a->seen.fd = -1;
    a->pool.pid = -1;
    a->is_emulated = o.emulate != NULL;
    a->foreground = o.foreground;
    a->verbose = o.verbose;
    if (sodium_init() < 0)
        rc = spur_fail(&err, SPUR_EIO, "libsodium does not start");
    else if (o.server)
        rc = configless(&o, a, &cfg, &err);
    else
        rc = config_load(o.conf, false, &cfg, &err);
    if (rc < 0 || settings_make(cfg, o.name, o.emulate, &a->set, &err) < 0) {
        char text[400];

        snprintf(text, sizeof text, "%s: fatal: %s", argv[0], err.text);
        if (!o.server || o.foreground)
            fprintf(stderr, "%s\n", text);
        daemon_failed(text);
        config_free(cfg);
        pool_stop(&a->pool);
        free(a);
        return 1;
    }
    return agent_main(argv[0], &o, cfg, a);
}
