/* SPDX-License-Identifier: Apache-2.0 */
/* logind.c - `spur logind`, the daemon of a login host: vouches for its users, and does nothing else.
 *
 * A command that leaves the host needs somebody there who says whose it is: this process does, by the kernel's word about its local socket, with the
 * host's own key. It starts no job and takes none, listens on no port, and answers one question. Every KEYS_MS it asks the controllers for the keys of
 * controllers that joined or were revoked, so that commands here believe the right ones. The key is in locked memory and no core is written.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#include "config.h"
#include "agent/agent.h"
#include "base/clock.h"
#include "base/str.h"
#include "client/hostcall.h"
#include "config/config.h"
#include "loader/loader.h"
#include "rpc/daemon.h"
#include "rpc/folder.h"
#include "rpc/log.h"
#include "rpc/server.h"

#define KEYS_MS 20000

static const char usage[] =
    "Usage: spur logind [-D] [-v] [-f FILE] [-L FILE] [-N NAME]\n"
    "  -D        stay in the foreground, log to stderr unless -L is given\n"
    "  -f FILE   slurm.conf to read\n"
    "  -L FILE   log file, instead of the system's /var/log/spur-logind.log\n"
    "  -N NAME   the name of this host's key, instead of the host's own\n"
    "  -v        more words in the log\n";

struct logind {
    uv_loop_t loop;
    struct config_hint hint;
    struct loaded *auth;
    struct rpc *rpc;
    struct spur_host host;
    char name[64];
    uv_timer_t timer;
    uv_signal_t signals[4];
    uv_work_t work;
    bool is_asking, is_stopping;
    /* of the question under way, off the loop */
    struct arena arena;
    void *files;
    struct spur_error err;
    int rc;
};

static int64_t host_now(void *ctx) { (void)ctx; return clock_boot_ms(); }
static int64_t host_wall(void *ctx) { (void)ctx; return clock_wall_ms(); }
static const char *host_name(void *ctx) { return ((struct logind *)ctx)->name; }
static const char *host_role(void *ctx) { (void)ctx; return "logind"; }
static const char *host_folder(void *ctx) { (void)ctx; return ""; }

static void on_message(void *arg, struct rpc_conn *c, const struct frame *f, const uint8_t *body)
{
    struct spur_error err;

    (void)arg;
    if (f->type == WIRE__MESSAGE_TYPE__VOUCH) {
        rpc_vouch_answer(c, f, body);
        return;
    }
    spur_fail(&err, SPUR_EUNSUPPORTED, "a login host answers no message of type %u: ask a controller", f->type);
    rpc_refuse(c, f->seq, &err, 0);
}

static const struct rpc_events callbacks = { .message = on_message };

/* ---- keys of controllers ---- */

static void ask(uv_work_t *work)
{
    struct logind *l = work->data;
    Wire__Empty q = WIRE__EMPTY__INIT;

    l->rc = host_call(&l->hint, &l->host, WIRE__MESSAGE_TYPE__CONFIG_FILES, &q.base, WIRE__MESSAGE_TYPE__CONFIG_TEXTS, &wire__config_files__descriptor, &l->arena, &l->files, &l->err);
}

static void asked(uv_work_t *work, int status)
{
    struct logind *l = work->data;
    const struct spur_auth_ops *ops = loader_ops(l->auth);
    const Wire__ConfigFiles *files = l->files;
    struct spur_error err = { 0 };
    struct str lines;

    l->is_asking = false;
    if (status == 0 && l->rc == 0 && SPUR_HAS(ops, enrol)) {
        str_init(&lines);
        for (const char *at = files->hosts ? files->hosts : ""; *at; at += strcspn(at, "\n") + (at[strcspn(at, "\n")] == '\n')) {
            char word[3][96], line[512];

            snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
            if (sscanf(line, "%95s %95s %95s", word[0], word[1], word[2]) == 3 && (!strcmp(word[1], "controller") || strstr(line, "role=controller")) && strcmp(word[1], "token"))
                str_addf(&lines, "%s %s %s\n", word[0], word[1], word[2]);
        }
        if (ops->enrol(l->auth->self, lines.text ? lines.text : "", &err) < 0)
            log_line(SPUR_LOG_WARN, "controllers that joined are not believed here: %s", err.text);
        str_fini(&lines);
    } else if (status == 0 && l->rc < 0) {
        log_line(l->rc == SPUR_EAUTH ? SPUR_LOG_ERROR : SPUR_LOG_INFO, "keys of the controllers: %s", l->err.text);
    }
    arena_fini(&l->arena);
}

static void look(uv_timer_t *timer)
{
    struct logind *l = timer->data;

    if (l->is_asking || l->is_stopping)
        return;
    arena_init(&l->arena, 0);
    l->files = NULL;
    l->err.code = 0;
    l->work.data = l;
    l->is_asking = uv_queue_work(&l->loop, &l->work, ask, asked) == 0;
    if (!l->is_asking)
        arena_fini(&l->arena);
}

/* ---- start and stop ---- */

static void on_signal(uv_signal_t *s, int number)
{
    struct logind *l = s->data;

    if (number == SIGHUP) {
        log_reopen();
        return;
    }
    if (l->is_stopping)
        return;
    l->is_stopping = true;
    rpc_destroy(l->rpc);
    uv_close((uv_handle_t *)&l->timer, NULL);
    for (size_t i = 0; i < sizeof l->signals / sizeof *l->signals; i++)
        uv_close((uv_handle_t *)&l->signals[i], NULL);
}

static int start(struct logind *l, const struct config *cfg, struct spur_error *err)
{
    static const int numbers[] = { SIGTERM, SIGINT, SIGQUIT, SIGHUP };
    char path[400];
    int rc;

    l->host = (struct spur_host){ .size = sizeof l->host, .ctx = l, .log = log_text, .now_ms = host_now, .wall_ms = host_wall, .host_name = host_name,
                                  .role = host_role, .state_dir = host_folder };
    if ((rc = loader_open(SPUR_KIND_auth, l->hint.auth, cfg, &l->host, &l->auth, err)) < 0)
        return rc;
    if (!SPUR_HAS((const struct spur_auth_ops *)loader_ops(l->auth), vouch))
        return spur_fail(err, SPUR_EUNSUPPORTED, "AuthType=%s: users prove themselves, so a login host needs no daemon", l->hint.auth);
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        uv_signal_init(&l->loop, &l->signals[i]);
        l->signals[i].data = l;
        uv_signal_start(&l->signals[i], on_signal, numbers[i]);
    }
    l->rpc = rpc_create(&l->loop, l->hint.cluster, loader_ops(l->auth), l->auth->self, loader_can(l->auth, SPUR_CAP_MAY_BLOCK), &callbacks, l);
    rpc_set_host(l->rpc, l->name);
    if ((rc = folder_make(l->hint.run_dir, 0755, err)) < 0)
        return spur_context(err, "run_dir");
    snprintf(path, sizeof path, "%s/login.sock", l->hint.run_dir);
    if ((rc = rpc_listen_local(l->rpc, path, 0666, err)) < 0)
        return spur_context(err, "is another logind running here");
    uv_timer_init(&l->loop, &l->timer);
    l->timer.data = l;
    uv_timer_start(&l->timer, look, 0, KEYS_MS);
    return 0;
}

int logind_main(int argc, char **argv)
{
    static const struct option longs[] = { { "help", no_argument, NULL, 'h' }, { "systemd", no_argument, NULL, 'D' }, { 0 } };
    static struct logind l;
    const char *conf = NULL, *log = NULL, *name = NULL;
    struct rlimit no_core = { 0, 0 };
    struct spur_error err = { 0 };
    struct config *cfg = NULL;
    bool foreground = false;
    int opt, verbose = 0;

    optind = 1;
    while ((opt = getopt_long(argc, argv, "Dvhf:L:N:", longs, NULL)) != -1)
        switch (opt) {
        case 'D': foreground = true; break;
        case 'v': verbose++; break;
        case 'f': conf = optarg; break;
        case 'L': log = optarg; break;
        case 'N': name = optarg; break;
        case 'h': fputs(usage, stdout); return 0;
        default:  fputs(usage, stderr); return 1;
        }
    if (optind < argc) {
        fprintf(stderr, "spur logind: %s is no option; -h lists them\n", argv[optind]);
        return 1;
    }
    setrlimit(RLIMIT_CORE, &no_core);
    prctl(PR_SET_DUMPABLE, 0);
    if (name) {
        snprintf(l.name, sizeof l.name, "%s", name);
    } else if (gethostname(l.name, sizeof l.name - 1) == 0) {
        l.name[strcspn(l.name, ".")] = '\0';
    }
    if (config_hint_read(conf, &l.hint, &err) < 0 || config_load(*l.hint.path ? l.hint.path : conf, true, &cfg, &err) < 0) {
        fprintf(stderr, "spur logind: fatal: %s\n", err.text);
        return 1;
    }
    if (!foreground && daemon_begin(&err) < 0) {
        fprintf(stderr, "spur logind: fatal: %s\n", err.text);
        return 1;
    }
    if (log_open(log ? log : foreground ? NULL : "/var/log/spur-logind.log", SPUR_LOG_INFO + verbose, &err) < 0)
        return daemon_fatal("spur logind", foreground && log, &err);
    uv_loop_init(&l.loop);
    if (start(&l, cfg, &err) < 0)
        return daemon_fatal("spur logind", foreground && log, &err);
    config_free(cfg);
    log_line(SPUR_LOG_INFO, "spur logind %s of cluster %s vouches for the users of %s", PACKAGE_VERSION, l.hint.cluster, l.name);
    daemon_ready();
    uv_run(&l.loop, UV_RUN_DEFAULT);
    uv_loop_close(&l.loop);
    loader_close(l.auth);
    log_line(SPUR_LOG_INFO, "spur logind has stopped");
    log_close();
    return 0;
}
