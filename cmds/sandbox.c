/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox.c - `spur sandbox`: a whole cluster on this machine, as any user, in one folder, on loopback.
 *
 * The trial, the tutorial and the test bed. Everything of it lies in DIR: slurm.conf and spur.conf (what commands read), etc/NAME/ (the
 * same files with each daemon's own spur.conf), keys/NAME/, state/NAME/, spool/NAME/, log/NAME.log, run/ (sockets). Daemons carry
 * SPUR_SANDBOX_OF=DIR and SPUR_SANDBOX_NAME=NAME in their environment, so that stop and kill find every process that came from them,
 * jobs included, whatever those did to their sessions and parents: a supervisor is the reaper of all that its job forks.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmds/commands.h"
#include "cmds/sandbox.h"
#include "config/config.h"

static const char usage[] =
    "Usage: spur sandbox start [--dir D] [--controllers N] [--at LIST] [--nodes N] [--agents] [--cpus N] [--gpus TOPOLOGY] [--conf FILE] [--set KEY=VALUE] [--spur TEXT]\n"
    "       spur sandbox stop|status|env|leader [--dir D]\n"
    "       spur sandbox controllers N [--dir D]\n"
    "       spur sandbox kill|restart ctlN|nodeN|NODENAME|leader|all [--with-jobs] [--dir D]\n\n"
    "  --dir D           folder of the cluster [SPUR_SANDBOX; default ./spur-sandbox]\n"
    "  --controllers N   controllers: 1, 3 or 5 that agree on every entry; of 2 or 4 the last one reads along without a vote [1]\n"
    "  --at LIST         addresses of the controllers, ADDRESS or ADDRESS@NAMESPACE (`ip netns add`) [127.0.0.1,127.0.0.2,...]\n"
    "  --nodes N         nodes [4]; above 16 one process plays them all and job scripts are not run (see spurd --emulate)\n"
    "  --agents          an agent for each node also above 16 of them, so that jobs run: three processes and about 6 MiB a node\n"
    "  --cpus N          CPUs of a node [those of the topology, else 8]\n"
    "  --gpus TOPOLOGY   emulate GPUs: a name (mi300x, hgx_h100, dgx_a100, ...) or a topology file\n"
    "  --conf FILE       a site's slurm.conf: its nodes are played on this machine\n"
    "  --set KEY=VALUE   one more line for slurm.conf; may be repeated\n"
    "  --spur TEXT       one more line for the spur.conf of each daemon, %n is its name; may be repeated\n"
    "  --with-jobs       kill the node's jobs too: the machine is gone, not only its agent\n\n"
    "start returns when a controller leads and every node is idle. `leader` prints the name of the one that leads.\n"
    "`controllers N` adds or removes controllers while all runs. `eval \"$(spur sandbox env)\"` points this shell's commands at it.\n";

#define START_DEADLINE_MS 60000
#define STOP_DEADLINE_MS  20000

static int say(const struct spur_error *err)
{
    fprintf(stderr, "spur sandbox: %s\n", err->text);
    return 1;
}

static void nap(void) { nanosleep(&(struct timespec){ 0, 20000000 }, NULL); }       /* between two looks at a condition */

/* Of the controllers, those that were killed included: what is left would be a riddle for who looks into the folder. The folder stays for the next start. */
static void sockets_remove(const struct sandbox *s)
{
    DIR *dir = opendir(s->run);
    struct dirent *e;

    while (dir && (e = readdir(dir)))
        if (word_starts(e->d_name, "ctl") && strlen(e->d_name) > 5 && !strcmp(e->d_name + strlen(e->d_name) - 5, ".sock"))
            unlinkat(dirfd(dir), e->d_name, 0);
    if (dir)
        closedir(dir);
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

/* ---- verbs ------------------------------------------------------------------------------------------------------------------ */

/* The first daemon that is not there any more; NULL: all are. */
static const char *daemon_dead(const struct sandbox *s, const struct daemons *d)
{
    for (size_t i = 0; i < hostlist_count(d->names); i++)
        if (!daemon_lives(s, hostlist_nth(d->names, i)))
            return hostlist_nth(d->names, i);
    return NULL;
}

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

    snprintf(conf, sizeof conf, "%s/slurm.conf", s->dir);
    if (processes_count(s, NULL, false)) {
        spur_fail(&err, SPUR_EEXISTS, "%s: a cluster runs there already; stop it or take another --dir", s->dir);
        return say(&err);
    }
    is_new = access(conf, R_OK) < 0;
    if ((is_new ? sandbox_conf_write(s, &cfg, &err) : sandbox_load(s, &cfg, &err)) < 0)
        return say(&err);
    daemons_of(s, cfg, &d);
    str_init(&t.text);
    if (mkdir(s->run, 0700) < 0 && errno != EEXIST) {
        spur_fail(&err, SPUR_EIO, "%s: %s", s->run, strerror(errno));
        goto out;
    }
    for (size_t i = 0; i < hostlist_count(d.names); i++)
        if (daemons_start_one(s, &d, hostlist_nth(d.names, i), &err) < 0)
            goto out;
    for (unsigned looks = 1;; looks++) {
        const char *dead = NULL;

        if (controller_leading(s, &d) && nodes_tally(s, &t) && t.nodes == cfg->node_count && t.idle == t.nodes)
            break;
        if (looks % 8 == 0 && (dead = daemon_dead(s, &d))) {       /* a look at all processes costs more than one at the cluster */
            daemon_last_words(s, dead);
            spur_fail(&err, SPUR_ECLOSED, "%s did not stay up", dead);
            goto out;
        }
        if (clock_mono_ms() > deadline) {
            spur_fail(&err, SPUR_ETIMEOUT, "after %d s %u of %zu nodes are idle; see %s/log\n%s", START_DEADLINE_MS / 1000, t.idle, cfg->node_count, s->dir, t.text.text);
            goto out;
        }
        nap();
    }
    printf("cluster %s %s in %s: %u nodes idle", config_text(cfg, CONF_ClusterName), is_new ? "runs" : "runs again", s->dir, t.idle);
    if (d.controllers > 1)
        printf(", %u controllers, %s leads", d.controllers, controller_leading(s, &d));
    printf("\n");
    rc = 0;
out:
    if (rc) {
        say(&err);
        processes_end(s, NULL, SIGKILL, false, clock_mono_ms() + STOP_DEADLINE_MS);
        sockets_remove(s);
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

    if (!processes_count(s, NULL, false)) {
        printf("sandbox %s: nothing runs\n", s->dir);
        return 0;
    }
    sandbox_run_dir(s, false, &err);
    processes_end(s, NULL, SIGTERM, true, deadline);
    processes_end(s, NULL, SIGKILL, false, deadline + STOP_DEADLINE_MS);
    sockets_remove(s);
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
    daemons_of(s, cfg, &d);
    str_init(&t.text);
    printf("sandbox in %s\n", s->dir);
    for (size_t i = 0; i < hostlist_count(d.names); i++) {
        const char *name = hostlist_nth(d.names, i);
        bool lives = daemon_lives(s, name);
        char role[32];
        uint64_t index;

        printf("  daemon %-14s %s", name, lives ? "runs" : "is dead");
        if (i < d.controllers && lives) {
            if (controller_role(s, &d, name, role, &index))
                printf(", %s, at entry %llu", role, (unsigned long long)index);
            else
                printf(", does not answer");
        }
        printf("\n");
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

static int sandbox_leader(struct sandbox *s)
{
    struct spur_error err = { 0 };
    struct config *cfg;
    struct daemons d;
    const char *name;

    if (sandbox_load(s, &cfg, &err) < 0)
        return say(&err);
    daemons_of(s, cfg, &d);
    name = controller_leading(s, &d);
    if (name)
        printf("%s\n", name);
    else
        fprintf(stderr, "spur sandbox: no controller leads now\n");
    daemons_free(&d);
    config_free(cfg);
    return !name;
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

/* What was started again is back when it answers, and, where a majority runs, when the cluster has a leader again. */
static void controllers_wait(const struct sandbox *s, const struct daemons *d, const char *name, int64_t deadline)
{
    struct tally t = { 0 };
    uint32_t alive = 0;
    char role[32];

    for (uint32_t i = 0; i < d->controllers; i++)
        alive += daemon_lives(s, hostlist_nth(d->names, i));
    str_init(&t.text);
    while (clock_mono_ms() < deadline) {
        bool has_own = !name || hostlist_find(d->names, name) >= (ptrdiff_t)d->controllers || controller_role(s, d, name, role, NULL);

        if (has_own && (2 * alive <= d->controllers || (controller_leading(s, d) && nodes_tally(s, &t))))
            break;
        nap();
    }
    str_fini(&t.text);
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
    daemons_of(s, cfg, &d);
    if (word_eq(target, "leader")) {
        if (d.controllers == 1)
            target = hostlist_nth(d.names, 0);
        while (word_eq(target, "leader") && clock_mono_ms() < deadline) {      /* an election may be on */
            const char *name = controller_leading(s, &d);

            if (name)
                target = name;
            else
                nap();
        }
    }
    if (word_eq(target, "leader")) {
        spur_fail(&err, SPUR_ETIMEOUT, "no controller leads");
        rc = say(&err);
    } else if (!word_eq(target, "all") && hostlist_find(d.names, target) < 0) {
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
    if (restart && rc == 0)
        controllers_wait(s, &d, word_eq(target, "all") ? NULL : target, deadline);
    daemons_free(&d);
    config_free(cfg);
    return rc;
}

static int sandbox_controllers(struct sandbox *s, const char *target)
{
    struct spur_error err = { 0 };
    struct config *cfg;
    uint32_t count;
    int rc;

    if (!number_u32(target, &count) || count < 1 || count > SANDBOX_CONTROLLERS_MAX) {
        fprintf(stderr, "spur sandbox: controllers %s: a number from 1 to %u is needed\n", target, SANDBOX_CONTROLLERS_MAX);
        return 1;
    }
    if (sandbox_load(s, &cfg, &err) < 0)
        return say(&err);
    rc = sandbox_group(s, cfg, count, clock_mono_ms() + START_DEADLINE_MS, &err) < 0 ? say(&err) : 0;
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
    str_init(&s.spur);
    for (int i = 2; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        bool fine = true;

        if (!strcmp(argv[i], "--with-jobs")) { with_jobs = true; continue; }
        if (!strcmp(argv[i], "--agents")) { s.has_agents = true; continue; }
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) { fputs(usage, stdout); return 0; }
        if (argv[i][0] != '-' && !target) { target = argv[i]; continue; }
        if (!value) fine = false;
        else if (!strcmp(argv[i], "--dir")) dir = value;
        else if (!strcmp(argv[i], "--controllers")) { if (!number_option("--controllers", value, SANDBOX_CONTROLLERS_MAX, &s.controllers)) return 1; }
        else if (!strcmp(argv[i], "--nodes")) { if (!number_option("--nodes", value, 100000, &s.nodes)) return 1; }
        else if (!strcmp(argv[i], "--cpus")) { if (!number_option("--cpus", value, 4096, &s.cpus)) return 1; }
        else if (!strcmp(argv[i], "--gpus")) s.gpus = value;
        else if (!strcmp(argv[i], "--conf")) s.conf = value;
        else if (!strcmp(argv[i], "--at")) s.at = value;
        else if (!strcmp(argv[i], "--set")) str_addf(&s.extra, "%s\n", value);
        else if (!strcmp(argv[i], "--spur")) str_addf(&s.spur, "%s\n", value);
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
    else if (!strcmp(verb, "leader"))
        rc = sandbox_leader(&s);
    else if (!strcmp(verb, "env"))
        rc = sandbox_env(&s);
    else if (!strcmp(verb, "controllers") && target)
        rc = sandbox_controllers(&s, target);
    else if ((!strcmp(verb, "kill") || !strcmp(verb, "restart")) && target)
        rc = sandbox_signal(&s, target, with_jobs, !strcmp(verb, "restart"));
    else
        fputs(usage, (rc = strcmp(verb, "--help") && strcmp(verb, "-h")) ? stderr : stdout);
    str_fini(&s.extra);
    str_fini(&s.spur);
    return rc ? 1 : 0;
}
