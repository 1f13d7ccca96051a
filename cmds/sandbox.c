/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox.c - `spur sandbox`: a whole cluster on this machine, as any user, in one folder, on loopback.
 *
 * The trial, the tutorial and the test bed. Everything of it lies in DIR: slurm.conf and spur.conf (what commands read), etc/NAME/ (the
 * same files with each daemon's own spur.conf), keys/NAME/, state/, spool/NAME/, log/NAME.log, run/ (sockets), pids. Daemons carry
 * SPUR_SANDBOX_OF=DIR and SPUR_SANDBOX_NAME=NAME in their environment, so that stop and kill find every process that came from them,
 * jobs included, whatever those did to their sessions and parents: a supervisor is the reaper of all that its job forks.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/client.h"
#include "cmds/commands.h"
#include "cmds/sandbox.h"
#include "config/config.h"
#include "state/state.h"

static const char usage[] =
    "Usage: spur sandbox start [--dir D] [--controllers N] [--nodes N] [--cpus N] [--gpus TOPOLOGY] [--conf FILE] [--set KEY=VALUE]\n"
    "       spur sandbox stop|status|env [--dir D]\n"
    "       spur sandbox kill|restart ctl1|nodeN|NODENAME|leader|all [--with-jobs] [--dir D]\n\n"
    "  --dir D           folder of the cluster [SPUR_SANDBOX; default ./spur-sandbox]\n"
    "  --controllers N   controllers [1]\n"
    "  --nodes N         nodes [4]; above 16 one process plays them all and job scripts are not run (see spurd --emulate)\n"
    "  --cpus N          CPUs of a node [those of the topology, else 8]\n"
    "  --gpus TOPOLOGY   emulate GPUs: a name (mi300x, hgx_h100, dgx_a100, ...) or a topology file\n"
    "  --conf FILE       a site's slurm.conf: its nodes are played on this machine\n"
    "  --set KEY=VALUE   one more line for slurm.conf; may be repeated\n"
    "  --with-jobs       kill the node's jobs too: the machine is gone, not only its agent\n\n"
    "start returns when every node is idle. `eval \"$(spur sandbox env)\"` points this shell's commands at it.\n";

#define START_DEADLINE_MS 60000
#define STOP_DEADLINE_MS  20000

static int say(const struct spur_error *err)
{
    fprintf(stderr, "spur sandbox: %s\n", err->text);
    return 1;
}

static void nap(void) { nanosleep(&(struct timespec){ 0, 20000000 }, NULL); }       /* between two looks at a condition */

/* ---- processes ------------------------------------------------------------------------------------------------------------- */

struct process { pid_t pid, parent; bool is_marked, is_stepd, is_doomed; };
struct processes { struct process *rows; size_t count; };

static bool environ_has(const char *env, size_t n, const char *name, const char *value)
{
    char want[900];
    size_t len = (size_t)snprintf(want, sizeof want, "%s=%s", name, value);

    for (const char *p = env; p < env + n; p += strlen(p) + 1)
        if (strncmp(p, want, len) == 0 && p[len] == '\0')
            return true;
    return false;
}

static size_t proc_read(pid_t pid, const char *what, char *buf, size_t room)
{
    char path[64];
    ssize_t n;
    int fd;

    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, what);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, buf, room - 1);
    if (fd >= 0)
        close(fd);
    buf[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

/* All processes of the cluster (name NULL) or of one daemon: the marked ones and everything below a marked supervisor. */
static void processes_find(const struct sandbox *s, const char *name, struct processes *out)
{
    static char env[1 << 17];
    DIR *dir = opendir("/proc");
    struct dirent *d;
    bool grown;

    out->rows = NULL;
    out->count = 0;
    while (dir && (d = readdir(dir))) {
        pid_t pid = (pid_t)atoi(d->d_name);
        char stat[512], *close_paren;
        struct process p = { .pid = pid };
        size_t n;

        if (pid <= 1 || pid == getpid() || !proc_read(pid, "stat", stat, sizeof stat) || !(close_paren = strrchr(stat, ')')))
            continue;
        if (close_paren[2] == 'Z')
            continue;
        p.parent = (pid_t)atoi(close_paren + 4);
        n = proc_read(pid, "environ", env, sizeof env);
        p.is_marked = n && environ_has(env, n, "SPUR_SANDBOX_OF", s->dir) && (!name || environ_has(env, n, "SPUR_SANDBOX_NAME", name));
        n = proc_read(pid, "cmdline", env, sizeof env);
        p.is_stepd = n && strstr(env, "spurstepd");
        p.is_doomed = p.is_marked;
        out->rows = mem_grow(out->rows, out->count + 1, sizeof *out->rows);
        out->rows[out->count++] = p;
    }
    if (dir)
        closedir(dir);
    do {
        grown = false;
        for (size_t i = 0; i < out->count; i++)
            for (size_t k = 0; k < out->count && !out->rows[i].is_doomed; k++)
                if (out->rows[k].pid == out->rows[i].parent && out->rows[k].is_doomed)
                    grown = out->rows[i].is_doomed = true;
    } while (grown);
}

static bool process_is_meant(const struct process *p, bool agents_only) { return p->is_doomed && (!agents_only || (p->is_marked && !p->is_stepd)); }

static size_t processes_count(const struct sandbox *s, const char *name, bool agents_only)
{
    struct processes all;
    size_t n = 0;

    processes_find(s, name, &all);
    for (size_t i = 0; i < all.count; i++)
        n += process_is_meant(&all.rows[i], agents_only);
    free(all.rows);
    return n;
}

/* Signals them and returns when they are gone. A killed process loses its environment, by which we know it, before it lets go of its locks: its pidfd tells the end. */
static void processes_end(const struct sandbox *s, const char *name, int signal, bool agents_only, int64_t deadline)
{
    bool found;

    do {
        struct processes all;

        found = false;
        processes_find(s, name, &all);
        for (size_t i = 0; i < all.count; i++)
            if (process_is_meant(&all.rows[i], agents_only))
                kill(all.rows[i].pid, signal);
        for (size_t i = 0; i < all.count; i++) {
            struct pollfd end = { .fd = -1, .events = POLLIN };
            int64_t left = deadline - clock_mono_ms();

            if (!process_is_meant(&all.rows[i], agents_only) || (end.fd = (int)syscall(SYS_pidfd_open, all.rows[i].pid, 0)) < 0)
                continue;
            found = true;
            poll(&end, 1, left > 0 ? (int)left : 0);
            close(end.fd);
        }
        free(all.rows);
    } while (found && clock_mono_ms() < deadline);
}

/* Our own build: the daemons are this very binary under other names. */
static int daemon_start(const struct sandbox *s, const char *name, const char *argv0, const char *emulate, struct spur_error *err)
{
    char conf[1024], log[1024], exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    int started[2];
    pid_t pid;

    if (n < 0 || pipe2(started, O_CLOEXEC) < 0)
        return spur_fail(err, SPUR_EIO, "/proc/self/exe: %s", strerror(errno));
    exe[n] = '\0';
    snprintf(conf, sizeof conf, "%s/etc/%s/slurm.conf", s->dir, name);
    snprintf(log, sizeof log, "%s/log/%s.log", s->dir, name);
    pid = fork();
    if (pid != 0)
        close(started[1]);
    if (pid < 0) {
        close(started[0]);
        return spur_fail(err, SPUR_EIO, "cannot start %s: %s", name, strerror(errno));
    }
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        int out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);

        setsid();
        dup2(null, 0);
        dup2(out, 1);
        dup2(out, 2);
        if (null > 2)
            close(null);
        if (out > 2)
            close(out);
        setenv("SPUR_SANDBOX_OF", s->dir, 1);
        setenv("SPUR_SANDBOX_NAME", name, 1);
        unsetenv("SLURM_CONF");
        if (!emulate)
            execl(exe, argv0, "-D", "-f", conf, "-N", name, (char *)NULL);
        else
            execl(exe, argv0, "-D", "-f", conf, "--emulate", emulate, (char *)NULL);
        _exit(127);
    }
    n = read(started[0], log, 1);       /* ends at exec: from then on the mark is in its environment */
    close(started[0]);
    return 0;
}

/* Names of the daemons of this cluster, with the node list for the emulator. */
struct daemons { struct hostlist *names; bool is_emulated; struct str nodes; };

static void daemons_of(const struct config *cfg, struct daemons *d)
{
    struct hostlist *h = hostlist_create();

    d->names = hostlist_create();
    d->is_emulated = cfg->node_count > SANDBOX_NODES_REAL;
    hostlist_add(d->names, "ctl1");
    for (size_t i = 0; i < cfg->node_count; i++) {
        hostlist_add(h, cfg->nodes[i].name);
        if (!d->is_emulated)
            hostlist_add(d->names, cfg->nodes[i].name);
    }
    if (d->is_emulated)
        hostlist_add(d->names, "emulator");
    str_init(&d->nodes);
    hostlist_print(h, &d->nodes);
    hostlist_destroy(h);
}

static void daemons_free(struct daemons *d)
{
    hostlist_destroy(d->names);
    str_fini(&d->nodes);
}

static int daemons_start_one(const struct sandbox *s, const struct daemons *d, const char *name, struct spur_error *err)
{
    if (word_starts(name, "ctl"))
        return daemon_start(s, name, "spurctld", NULL, err);
    return daemon_start(s, name, "spurd", d->is_emulated ? d->nodes.text : NULL, err);
}

static bool daemon_lives(const struct sandbox *s, const char *name) { return processes_count(s, name, true) > 0; }

/* ---- the cluster through its own protocol ------------------------------------------------------------------------------------ */

struct tally { uint32_t nodes, idle, down; struct str text; };

static int tally_part(void *arg, void *part)
{
    struct tally *t = arg;
    const Wire__NodesReply *r = part;

    for (size_t i = 0; i < r->n_nodes; i++) {
        const Wire__NodeInfo *n = r->nodes[i];
        struct str state;

        t->nodes++;
        t->idle += n->state == NODE_IDLE && !(n->state_flags & (NODE_FLAG_NO_RESPOND | NODE_FLAG_DRAIN));
        str_init(&state);
        node_state_print(n->state, n->state_flags, true, false, &state);
        if (t->nodes <= SANDBOX_NODES_REAL)
            str_addf(&t->text, "  node %-16s %s\n", n->name, state.text);
        str_fini(&state);
    }
    return !r->last;
}

static bool nodes_tally(const struct sandbox *s, struct tally *t)
{
    char conf[1024];
    Wire__NodesRequest request = WIRE__NODES_REQUEST__INIT;
    struct spur_error err = { 0 };
    struct client *c;
    int number, rc;

    t->nodes = t->idle = 0;
    str_clear(&t->text);
    snprintf(conf, sizeof conf, "%s/slurm.conf", s->dir);
    if (client_open(conf, &c, &err) < 0)
        return false;
    rc = client_stream(c, WIRE__MESSAGE_TYPE__NODES, &request.base, WIRE__MESSAGE_TYPE__NODES_PART, &wire__nodes_reply__descriptor, tally_part, t, &number, &err);
    client_close(c);
    return rc == 0;
}

static int sandbox_load(struct sandbox *s, struct config **cfg, struct spur_error *err)
{
    char conf[1024];

    snprintf(conf, sizeof conf, "%s/slurm.conf", s->dir);
    if (access(conf, R_OK) < 0)
        return spur_fail(err, SPUR_ENOTFOUND, "%s: no cluster there; `spur sandbox start --dir %s` makes one", s->dir, s->dir);
    if (config_load(conf, false, cfg, err) < 0)
        return err->code;
    return sandbox_run_dir(s, false, err);
}

/* The last lines of a daemon's log, when it has died. */
static void daemon_last_words(const struct sandbox *s, const char *name)
{
    char path[1024], *text, *from;

    snprintf(path, sizeof path, "%s/log/%s.log", s->dir, name);
    text = sandbox_file_get(path);
    if (!text || !*text) {
        fprintf(stderr, "  %s has died and left no word in %s\n", name, path);
        free(text);
        return;
    }
    from = text + strlen(text) - 1;
    for (int lines = 0; from > text && lines < 3; from--)
        lines += from[-1] == '\n';
    fprintf(stderr, "  %s has died; the end of %s:\n%s", name, path, from);
    free(text);
}

/* ---- verbs ------------------------------------------------------------------------------------------------------------------ */

static int sandbox_start(struct sandbox *s)
{
    struct spur_error err = { 0 };
    struct config *cfg = NULL;
    struct daemons d;
    struct tally t = { 0 };
    char conf[1024];
    int64_t deadline = clock_mono_ms() + START_DEADLINE_MS;
    bool is_new;
    int rc = 1;

    if (s->controllers != 1) {
        spur_fail(&err, SPUR_EUNSUPPORTED, "--controllers %u: store/local keeps one controller; this version has no store for more", s->controllers);
        return say(&err);
    }
    snprintf(conf, sizeof conf, "%s/slurm.conf", s->dir);
    if (processes_count(s, NULL, false)) {
        spur_fail(&err, SPUR_EEXISTS, "%s: a cluster runs there already; stop it or take another --dir", s->dir);
        return say(&err);
    }
    is_new = access(conf, R_OK) < 0;
    if ((is_new ? sandbox_conf_write(s, &cfg, &err) : sandbox_load(s, &cfg, &err)) < 0)
        return say(&err);
    daemons_of(cfg, &d);
    str_init(&t.text);
    if (mkdir(s->run, 0700) < 0 && errno != EEXIST) {
        spur_fail(&err, SPUR_EIO, "%s: %s", s->run, strerror(errno));
        goto out;
    }
    for (size_t i = 0; i < hostlist_count(d.names); i++)
        if (daemons_start_one(s, &d, hostlist_nth(d.names, i), &err) < 0)
            goto out;
    for (;;) {
        if (nodes_tally(s, &t) && t.nodes == cfg->node_count && t.idle == t.nodes)
            break;
        for (size_t i = 0; i < hostlist_count(d.names); i++)
            if (!daemon_lives(s, hostlist_nth(d.names, i))) {
                daemon_last_words(s, hostlist_nth(d.names, i));
                spur_fail(&err, SPUR_ECLOSED, "%s did not stay up", hostlist_nth(d.names, i));
                goto out;
            }
        if (clock_mono_ms() > deadline) {
            spur_fail(&err, SPUR_ETIMEOUT, "after %d s %u of %zu nodes are idle; see %s/log\n%s", START_DEADLINE_MS / 1000, t.idle, cfg->node_count, s->dir, t.text.text);
            goto out;
        }
        nap();
    }
    printf("cluster %s %s in %s: %u nodes idle\n", config_text(cfg, CONF_ClusterName), is_new ? "runs" : "runs again", s->dir, t.idle);
    rc = 0;
out:
    if (rc) {
        say(&err);
        processes_end(s, NULL, SIGKILL, false, clock_mono_ms() + STOP_DEADLINE_MS);
    }
    str_fini(&t.text);
    daemons_free(&d);
    config_free(cfg);
    return rc;
}

static int sandbox_stop(struct sandbox *s)
{
    struct spur_error err = { 0 };
    int64_t deadline = clock_mono_ms() + STOP_DEADLINE_MS;
    char rest[1024];

    if (!processes_count(s, NULL, false)) {
        printf("sandbox %s: nothing runs\n", s->dir);
        return 0;
    }
    sandbox_run_dir(s, false, &err);
    processes_end(s, NULL, SIGTERM, true, deadline);
    processes_end(s, NULL, SIGKILL, false, deadline + STOP_DEADLINE_MS);
    if (word_starts(s->run, "/tmp/spur-")) {        /* our own short folder: its sockets go, the folder stays for the next start */
        snprintf(rest, sizeof rest, "%s/ctl.sock", s->run);
        unlink(rest);
    }
    if (processes_count(s, NULL, false)) {
        spur_fail(&err, SPUR_ETIMEOUT, "%s: %zu processes do not end", s->dir, processes_count(s, NULL, false));
        return say(&err);
    }
    printf("sandbox %s: stopped\n", s->dir);
    return 0;
}

static int sandbox_status(struct sandbox *s)
{
    struct spur_error err = { 0 };
    struct config *cfg;
    struct daemons d;
    struct tally t = { 0 };
    int dead = 0;

    if (sandbox_load(s, &cfg, &err) < 0)
        return say(&err);
    daemons_of(cfg, &d);
    str_init(&t.text);
    printf("sandbox in %s\n", s->dir);
    for (size_t i = 0; i < hostlist_count(d.names); i++) {
        bool lives = daemon_lives(s, hostlist_nth(d.names, i));

        printf("  daemon %-14s %s\n", hostlist_nth(d.names, i), lives ? "runs" : "is dead");
        dead += !lives;
    }
    if (nodes_tally(s, &t))
        printf("%s  %u nodes, %u idle\n", t.text.text, t.nodes, t.idle);
    else
        printf("  no controller answers\n");
    str_fini(&t.text);
    daemons_free(&d);
    config_free(cfg);
    return dead ? 1 : 0;
}

static int sandbox_env(struct sandbox *s)
{
    char exe[PATH_MAX], *slash;
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);

    exe[n > 0 ? n : 0] = '\0';
    if ((slash = strrchr(exe, '/')))
        *slash = '\0';
    printf("export SPUR_SANDBOX='%s'\nexport SLURM_CONF='%s/slurm.conf'\nexport PATH='%s':\"$PATH\"\n", s->dir, s->dir, exe);
    return 0;
}

/* kill or restart one daemon, the leader, or all. */
static int sandbox_signal(struct sandbox *s, const char *target, bool with_jobs, bool restart)
{
    struct spur_error err = { 0 };
    struct config *cfg;
    struct daemons d;
    int64_t deadline = clock_mono_ms() + STOP_DEADLINE_MS;
    int rc = 0;

    if (sandbox_load(s, &cfg, &err) < 0)
        return say(&err);
    daemons_of(cfg, &d);
    if (word_eq(target, "leader"))
        target = "ctl1";
    if (!word_eq(target, "all") && hostlist_find(d.names, target) < 0) {
        spur_fail(&err, SPUR_ENOTFOUND, "no daemon named %s; `spur sandbox status` lists them", target);
        rc = say(&err);
    }
    for (size_t i = 0; rc == 0 && i < hostlist_count(d.names); i++) {
        const char *name = hostlist_nth(d.names, i);

        if (!word_eq(target, "all") && strcmp(target, name) != 0)
            continue;
        processes_end(s, name, SIGKILL, !with_jobs, deadline);
        printf("%s %s\n", name, restart ? "restarted" : "killed");
        if (restart && daemons_start_one(s, &d, name, &err) < 0)
            rc = say(&err);
    }
    if (restart && rc == 0) {       /* back when the controller answers */
        struct tally t = { 0 };

        str_init(&t.text);
        while (!nodes_tally(s, &t) && clock_mono_ms() < deadline)
            nap();
        str_fini(&t.text);
    }
    daemons_free(&d);
    config_free(cfg);
    return rc;
}

static bool number_option(const char *name, const char *text, uint32_t max, uint32_t *out)
{
    if (number_u32(text, out) && *out >= 1 && *out <= max)
        return true;
    fprintf(stderr, "spur sandbox: %s %s: a number from 1 to %u is needed\n", name, text, max);
    return false;
}

int cmd_sandbox(int argc, char **argv)
{
    struct sandbox s = { .controllers = 1, .nodes = 4 };
    const char *verb = argc > 1 ? argv[1] : "", *dir = getenv("SPUR_SANDBOX"), *target = NULL;
    bool with_jobs = false;
    char cwd[600], real[PATH_MAX];
    int rc;

    str_init(&s.extra);
    for (int i = 2; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        bool fine = true;

        if (!strcmp(argv[i], "--with-jobs")) { with_jobs = true; continue; }
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) { fputs(usage, stdout); return 0; }
        if (argv[i][0] != '-' && !target) { target = argv[i]; continue; }
        if (!value) fine = false;
        else if (!strcmp(argv[i], "--dir")) dir = value;
        else if (!strcmp(argv[i], "--controllers")) { if (!number_option("--controllers", value, 9, &s.controllers)) return 1; }
        else if (!strcmp(argv[i], "--nodes")) { if (!number_option("--nodes", value, 100000, &s.nodes)) return 1; }
        else if (!strcmp(argv[i], "--cpus")) { if (!number_option("--cpus", value, 4096, &s.cpus)) return 1; }
        else if (!strcmp(argv[i], "--gpus")) s.gpus = value;
        else if (!strcmp(argv[i], "--conf")) s.conf = value;
        else if (!strcmp(argv[i], "--set")) str_addf(&s.extra, "%s\n", value);
        else fine = false;
        if (!fine) {
            fprintf(stderr, "spur sandbox: %s: no such option, or its value is missing\n%s", argv[i], usage);
            return 1;
        }
        i++;
    }
    dir = dir ? dir : "spur-sandbox";
    if (dir[0] == '/')
        snprintf(s.dir, sizeof s.dir, "%s", dir);
    else
        snprintf(s.dir, sizeof s.dir, "%s/%s", getcwd(cwd, sizeof cwd) ? cwd : ".", dir);
    for (size_t n = strlen(s.dir); n > 1 && s.dir[n - 1] == '/'; )
        s.dir[--n] = '\0';
    if (!strcmp(verb, "start"))
        mkdir(s.dir, 0700);                         /* what is wrong with it is said by the first file */
    if (realpath(s.dir, real) && strlen(real) < sizeof s.dir)
        snprintf(s.dir, sizeof s.dir, "%.*s", (int)sizeof s.dir - 1, real);    /* daemons are known by this name: one a folder */
    if (!strcmp(verb, "start"))
        rc = sandbox_start(&s);
    else if (!strcmp(verb, "stop"))
        rc = sandbox_stop(&s);
    else if (!strcmp(verb, "status"))
        rc = sandbox_status(&s);
    else if (!strcmp(verb, "env"))
        rc = sandbox_env(&s);
    else if ((!strcmp(verb, "kill") || !strcmp(verb, "restart")) && target)
        rc = sandbox_signal(&s, target, with_jobs, !strcmp(verb, "restart"));
    else
        fputs(usage, (rc = strcmp(verb, "--help") && strcmp(verb, "-h")) ? stderr : stdout);
    str_fini(&s.extra);
    return rc ? 1 : 0;
}
