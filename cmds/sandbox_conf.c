/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_conf.c - the files of a sandbox cluster: slurm.conf from numbers, from a topology file, or from a site's own; keys.
 *
 * Called by sandbox.c once, before any daemon runs. A site's file keeps all that it says about nodes, partitions and scheduling; what ties it
 * to the site's hosts, users, paths and hooks is left out and said anew at the end.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmds/cluster.h"
#include "cmds/common/filetext.h"
#include "cmds/sandbox.h"
#include "config/config.h"
#include "config/reader.h"
#include "hardware/rig.h"

/* ---- files ---------------------------------------------------------------------------------------------------------------- */

static int folder(const char *path, struct spur_error *err)
{
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return spur_fail(err, SPUR_EIO, "%s: cannot make this folder: %s", path, strerror(errno));
    return 0;
}

static int folder_in(const struct sandbox *s, const char *name, struct spur_error *err)
{
    char path[1024];

    snprintf(path, sizeof path, "%s/%s", s->dir, name);
    return folder(path, err);
}

int sandbox_file_put(const char *path, const char *text, struct spur_error *err)
{
    FILE *f = fopen(path, "we");

    if (!f || fputs(text, f) < 0 || fclose(f) != 0)
        return spur_fail(err, SPUR_EIO, "%s: cannot write: %s", path, strerror(errno));
    return 0;
}

/* The folder of the sockets: DIR/run, or a short one when the name of a socket would not fit (108 bytes). */
int sandbox_run_dir(struct sandbox *s, bool make, struct spur_error *err)
{
    char note[1024], *kept;

    snprintf(note, sizeof note, "%s/run_dir", s->dir);
    if ((kept = file_text(note))) {
        snprintf(s->run, sizeof s->run, "%s", word_trim(kept));
        free(kept);
        return 0;
    }
    if (strlen(s->dir) < 60) {
        snprintf(s->run, sizeof s->run, "%.60s/run", s->dir);
    } else if (make) {
        snprintf(s->run, sizeof s->run, "/tmp/spur-XXXXXX");
        if (!mkdtemp(s->run))
            return spur_fail(err, SPUR_EIO, "/tmp: cannot make a folder for the sockets: %s", strerror(errno));
    }
    return make ? sandbox_file_put(note, s->run, err) : 0;
}

/* ---- addresses and ports ---------------------------------------------------------------------------------------------------- */

struct place { char addr[64], netns[160]; };        /* of a controller; netns "": where we are */

/* Where controller i is to be: of --at, else 127.0.0.(i + 1). */
static int place_of(const struct sandbox *s, uint32_t i, struct place *p, struct spur_error *err)
{
    const char *from = s->at;
    char word[128], *at;
    struct in_addr seen;
    size_t n;

    snprintf(p->addr, sizeof p->addr, "127.0.0.%u", i + 1);
    p->netns[0] = '\0';
    if (!from)
        return 0;
    for (uint32_t k = 0; k < i && from; k++)
        from = strchr(from, ',') ? strchr(from, ',') + 1 : NULL;
    n = from ? strcspn(from, ",") : 0;
    if (!n || n >= sizeof word)
        return spur_fail(err, SPUR_EINVAL, "--at %s: names no address for controller %u of %u", s->at, i + 1, s->controllers);
    memcpy(word, from, n);
    word[n] = '\0';
    if ((at = strchr(word, '@'))) {
        *at = '\0';
        snprintf(p->netns, sizeof p->netns, "%s%.100s", at[1] == '/' ? "" : "/run/netns/", at + 1);
    }
    if (inet_pton(AF_INET, word, &seen) != 1)
        return spur_fail(err, SPUR_EINVAL, "--at %s: \"%s\" is no IPv4 address", s->at, word);
    snprintf(p->addr, sizeof p->addr, "%.60s", word);
    return 0;
}

/* What a controller listens on, from SlurmctldPort: commands and agents, and store/raft's members. */
static const uint16_t port_offsets[] = { 0, 4 };

static bool port_is_free(const struct sandbox *s, uint16_t port)
{
    bool is_free = true;

    for (uint32_t i = 0; i < s->controllers && is_free; i++)
        for (size_t k = 0; k < sizeof port_offsets / sizeof *port_offsets && is_free; k++) {
            struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)(port + port_offsets[k])) };
            int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
            struct place p;

            if (place_of(s, i, &p, NULL) == 0 && !*p.netns && inet_pton(AF_INET, p.addr, &a.sin_addr) == 1) {
                setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
                is_free = bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 1) == 0;
            }
            close(fd);
        }
    return is_free;
}

/* Below those that the kernel gives to outgoing connections: one of them could take the port of a controller that is down for a moment, and a
 * connection to that port even connects to itself. */
static uint16_t port_free(const struct sandbox *s)
{
    char *range = file_text("/proc/sys/net/ipv4/ip_local_port_range");
    uint32_t low = range ? (uint32_t)strtoul(range, NULL, 10) : 32768, from = 10000, draw;

    free(range);
    if (low < from + 1000) {
        from = 1100;
        low = low < from + 1000 ? 32768 : low;
    }
    for (unsigned tries = 0; tries < 1000; tries++) {
        if (getrandom(&draw, sizeof draw, 0) != (ssize_t)sizeof draw)
            draw = (uint32_t)getpid() * 7919 + tries;
        draw = from + draw % (low - from - 8);
        if (port_is_free(s, (uint16_t)draw))
            return (uint16_t)draw;
    }
    return 0;
}

/* ---- GPUs of a topology file ------------------------------------------------------------------------------------------------ */

struct hardware { char type[64]; uint32_t gpus, sockets, cores, threads; struct str gres; };

/* --gpus NAME or FILE. The nodes' daemons read the same file: its place is kept, absolute. */
static int hardware_read(struct sandbox *s, struct hardware *h, struct spur_error *err)
{
    struct rig m;

    if (access(s->gpus, R_OK) < 0 || !realpath(s->gpus, s->topology)) {
        snprintf(s->topology, sizeof s->topology, "%s/topologies/%s.json", SPUR_DATADIR, s->gpus);
        if (access(s->topology, R_OK) < 0)
            return spur_fail(err, SPUR_ENOTFOUND, "--gpus %s: no such file, and no %s", s->gpus, s->topology);
    }
    if (rig_read(s->topology, &m, err) < 0)
        return spur_context(err, "--gpus");
    h->gpus = m.gpu_count;
    h->sockets = m.sockets;
    h->cores = m.cores_per_socket;
    h->threads = m.threads_per_core;
    str_init(&h->gres);
    if (!h->gpus || !h->sockets || !h->cores || !h->threads) {
        rig_fini(&m);
        return spur_fail(err, SPUR_EINVAL, "--gpus %s: the file must tell sockets, cores and threads, and have a GPU", s->topology);
    }
    snprintf(h->type, sizeof h->type, "%s", m.gpus[0].type);
    for (uint32_t i = 0; i < m.gpu_count; i++)
        m.gpus[i].flags = 0;        /* no Flags=: every variable is set, as for a site that says nothing */
    rig_print_gres(&m, NULL, &h->gres);
    rig_fini(&m);
    return 0;
}

/* ---- configuration ---------------------------------------------------------------------------------------------------------- */

static const char *user_name(void)
{
    const struct passwd *pw = getpwuid(geteuid());

    return pw ? pw->pw_name : "root";
}

static int conf_common(const struct sandbox *s, struct str *out, struct spur_error *err)
{
    uint16_t port = port_free(s);
    struct place p;

    if (!port)
        return spur_fail(err, SPUR_EBUSY, "no free port for %u controllers", s->controllers);
    for (uint32_t i = 0; i < s->controllers; i++) {
        if (place_of(s, i, &p, err) < 0)
            return err->code;
        str_addf(out, "SlurmctldHost=ctl%u(%s)\n", i + 1, p.addr);
    }
    if (s->controllers > 1)
        str_add(out, "StoreType=store/raft\n");
    str_addf(out, "SlurmctldPort=%u\nSlurmUser=%s\nSlurmdUser=%s\nAuthType=auth/sodium\n", port, user_name(), user_name());
    str_addf(out, "StateSaveLocation=%s/state\nSlurmdSpoolDir=%s/spool/%%n\n", s->dir, s->dir);
    str_addf(out, "SlurmctldLogFile=%s/log/ctl1.log\nSlurmdLogFile=%s/log/%%n.log\nSlurmctldPidFile=%s/run/ctl1.pid\nSlurmdPidFile=%s/run/%%n.pid\n",
             s->dir, s->dir, s->dir, s->dir);
    return 0;
}

static int conf_own(struct sandbox *s, struct str *conf, struct str *gres, struct spur_error *err)
{
    struct hardware h = { .sockets = 1, .cores = 8, .threads = 1 };

    str_add(conf, "# Made by `spur sandbox start`.\nClusterName=sandbox\n");
    if (conf_common(s, conf, err) < 0 || (s->gpus && hardware_read(s, &h, err) < 0))
        return err->code;
    if (s->cpus) {
        h.sockets = h.sockets > 1 && s->cpus % 2 == 0 ? 2 : 1;
        h.cores = s->cpus / h.sockets;
        h.threads = 1;
    }
    str_add(conf, "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\nSchedulerType=sched/backfill\nPriorityType=priority/multifactor\n"
                  "PriorityWeightAge=1000\nReturnToService=2\nSlurmdTimeout=60\nKillWait=5\nMinJobAge=300\n");
    str_addf(conf, "DefMemPerCPU=%u\n", (s->gpus ? 1500000 : 16000) / (h.sockets * h.cores * h.threads));
    if (s->gpus)
        str_add(conf, "GresTypes=gpu\n");
    str_add(conf, s->extra.text);
    str_addf(conf, "NodeName=node[1-%u] Sockets=%u CoresPerSocket=%u ThreadsPerCore=%u RealMemory=%u", s->nodes, h.sockets, h.cores, h.threads,
             s->gpus ? 1500000 : 16000);
    if (s->gpus)
        str_addf(conf, " Gres=gpu:%s:%u", h.type, h.gpus);
    str_add(conf, " State=UNKNOWN\nPartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n");
    if (s->gpus) {
        str_addf(gres, "# Emulated: the files need not exist.\n%s", h.gres.text);
        str_fini(&h.gres);
    }
    return 0;
}

/* A site's file with what ties it to the site replaced: hosts, users, paths, authentication, hooks. */
static int conf_site(struct sandbox *s, struct str *conf, struct str *gres, struct spur_error *err)
{
    static const char *const ours[] = { "SlurmctldHost", "ControlMachine", "ControlAddr", "BackupController", "BackupAddr", "SlurmctldPort", "SlurmctldAddr",
        "SlurmdPort", "SlurmUser", "SlurmdUser", "AuthType", "AuthInfo", "AuthAltTypes", "AuthAltParameters", "CryptoType", "CredType", "StateSaveLocation", "SlurmdSpoolDir",
        "SlurmctldLogFile", "SlurmdLogFile", "SlurmctldPidFile", "SlurmdPidFile", "SlurmSchedLogFile", "StoreType", "Prolog", "Epilog",
        "PrologSlurmctld", "EpilogSlurmctld", "TaskProlog", "TaskEpilog", "SrunProlog", "SrunEpilog", "HealthCheckProgram", "MailProg", NULL };
    struct config *cfg;
    char *text, *line, *cursor, path[1024];
    int rc = 0;

    if (config_load(s->conf, false, &cfg, err) < 0)
        return err->code;
    s->nodes = (uint32_t)cfg->node_count;
    cursor = text = mem_copy(cfg->slurm_text);
    while ((line = cursor)) {
        size_t n;
        bool skip = false;

        cursor = strchr(line, '\n');
        if (cursor)
            *cursor++ = '\0';
        line += strspn(line, " \t");
        n = strcspn(line, " \t=+-*/");
        for (size_t i = 0; ours[i] && !skip; i++)
            skip = strlen(ours[i]) == n && strncasecmp(line, ours[i], n) == 0;
        if (!skip)
            str_addf(conf, "%s\n", line);
    }
    free(text);
    if (conf_common(s, conf, err) < 0) {
        config_free(cfg);
        return err->code;
    }
    str_add(conf, s->extra.text);
    if (cfg->gres_text)
        str_add(gres, cfg->gres_text);
    if (cfg->topology_text) {
        snprintf(path, sizeof path, "%s/%s", s->dir, topology_is_yaml(cfg->topology_text) ? "topology.yaml" : "topology.conf");
        rc = sandbox_file_put(path, cfg->topology_text, err);
    }
    config_free(cfg);
    return rc;
}

static int conf_for(const struct sandbox *s, const char *name, bool is_controller, struct spur_error *err)
{
    static const char *const shared[] = { "slurm.conf", "gres.conf", "topology.conf", "topology.yaml", "cgroup.conf", NULL };
    char path[1100], target[1100];
    struct str spur;
    int rc;

    snprintf(path, sizeof path, "%s/etc/%s", s->dir, name);
    if (folder(path, err) < 0)
        return err->code;
    for (size_t i = 0; shared[i]; i++) {
        snprintf(target, sizeof target, "../../%s", shared[i]);
        snprintf(path, sizeof path, "%s/etc/%s/%s", s->dir, name, shared[i]);
        if (symlink(target, path) < 0 && errno != EEXIST)
            return spur_fail(err, SPUR_EIO, "%s: %s", path, strerror(errno));
    }
    str_init(&spur);
    str_addf(&spur, "run_dir = \"%s%s%s\"\nemulate_hardware = true\nplugin \"auth/sodium\" {\n  key_dir = \"%s/keys/%s\"\n  root_from = \"controller,compute\"\n}\n", s->run,
             is_controller ? "" : "/", is_controller ? "" : name, s->dir, name);
    if (s->topology[0])
        str_addf(&spur, "emulate_topology = \"%s\"\n", s->topology);
    for (const char *at = s->spur.text; *at; at++)
        if (at[0] == '%' && at[1] == 'n')
            str_add(&spur, name), at++;
        else
            str_add_char(&spur, *at);
    snprintf(path, sizeof path, "%s/etc/%s/spur.conf", s->dir, name);
    rc = sandbox_file_put(path, spur.text, err);
    str_fini(&spur);
    return rc;
}

static int conf_controllers(const struct sandbox *s, const struct config *cfg, struct spur_error *err)
{
    char path[1100];
    struct place p;

    for (uint32_t i = 0; i < cfg->controller_count; i++) {
        if (conf_for(s, cfg->controllers[i].host, true, err) < 0 || place_of(s, i, &p, err) < 0)
            return err->code;
        snprintf(path, sizeof path, "%s/etc/%s/netns", s->dir, cfg->controllers[i].host);
        if (*p.netns && sandbox_file_put(path, p.netns, err) < 0)
            return err->code;
    }
    return 0;
}

static void node_list(const struct config *cfg, struct str *out)
{
    struct hostlist *h = hostlist_create();

    for (size_t i = 0; i < cfg->node_count; i++)
        hostlist_add(h, cfg->nodes[i].name);
    hostlist_print(h, out);
    hostlist_destroy(h);
}

static int conf_keys(const struct sandbox *s, const struct config *cfg, struct spur_error *err)
{
    bool is_emulated = sandbox_is_emulated(s);      /* the emulator speaks for many nodes: only a controller's key may */
    char path[1024], controllers[64];
    struct str nodes;
    int rc;

    str_init(&nodes);
    node_list(cfg, &nodes);
    snprintf(path, sizeof path, "%s/keys", s->dir);
    snprintf(controllers, sizeof controllers, "ctl[1-%u]%s", s->controllers, is_emulated ? ",emulator" : "");
    rc = cluster_keys_make(path, controllers, is_emulated ? NULL : nodes.text, err);
    str_fini(&nodes);
    return rc;
}

/* The SlurmctldHost lines, and the files of controllers that are new. All else stays as it is. */
int sandbox_conf_controllers(struct sandbox *s, uint32_t count, struct config **cfg, struct spur_error *err)
{
    char path[1024], *text, *line, *cursor;
    uint32_t seen = 0;
    struct place p;
    struct str out;
    int rc = 0;

    snprintf(path, sizeof path, "%s/slurm.conf", s->dir);
    if (!(text = file_text(path)))
        return spur_fail(err, SPUR_EIO, "%s: %s", path, strerror(errno));
    s->controllers = count;
    str_init(&out);
    for (cursor = text; (line = cursor) && rc == 0; ) {
        bool is_host = word_starts(line, "SlurmctldHost=");

        if ((cursor = strchr(line, '\n')))
            *cursor++ = '\0';
        if (!is_host || seen++ < count)
            str_addf(&out, "%s%s", line, cursor ? "\n" : "");
        for (; is_host && seen < count && cursor && !word_starts(cursor, "SlurmctldHost=") && rc == 0; seen++)
            if ((rc = place_of(s, seen, &p, err)) == 0)
                str_addf(&out, "SlurmctldHost=ctl%u(%s)\n", seen + 1, p.addr);
    }
    if (rc == 0 && (rc = sandbox_file_put(path, out.text, err)) == 0 && (rc = config_load(path, false, cfg, err)) == 0 &&
        ((rc = conf_controllers(s, *cfg, err)) < 0 || (rc = conf_keys(s, *cfg, err)) < 0))
        config_free(*cfg);
    free(text);
    str_fini(&out);
    return rc;
}

/* Writes all files; *cfg is what they mean. */
int sandbox_conf_write(struct sandbox *s, struct config **cfg, struct spur_error *err)
{
    static const char *const folders[] = { "etc", "keys", "state", "spool", "log", "run", NULL };
    char path[1024];
    struct str conf, gres, spur;
    int rc = 0;

    if (folder(s->dir, err) < 0)
        return err->code;
    for (size_t i = 0; folders[i]; i++)
        if (folder_in(s, folders[i], err) < 0)
            return err->code;
    if (sandbox_run_dir(s, true, err) < 0)
        return err->code;
    str_init(&conf);
    str_init(&gres);
    str_init(&spur);
    rc = s->conf ? conf_site(s, &conf, &gres, err) : conf_own(s, &conf, &gres, err);
    if (rc < 0)
        goto out;
    /* The folder's list of hosts lets commands wait for a controller that is away instead of failing for want of keys. */
    str_addf(&spur, "run_dir = \"%s\"\nplugin \"auth/sodium\" {\n  key_dir = \"%s/keys\"\n}\n", s->run, s->dir);
    snprintf(path, sizeof path, "%s/slurm.conf", s->dir);
    if ((rc = sandbox_file_put(path, conf.text, err)) < 0)
        goto out;
    snprintf(path, sizeof path, "%s/spur.conf", s->dir);
    if ((rc = sandbox_file_put(path, spur.text, err)) < 0)
        goto out;
    snprintf(path, sizeof path, "%s/gres.conf", s->dir);
    if (gres.len && (rc = sandbox_file_put(path, gres.text, err)) < 0)
        goto out;
    snprintf(path, sizeof path, "%s/slurm.conf", s->dir);
    if ((rc = config_load(path, false, cfg, err)) < 0)
        goto out;
    if ((rc = conf_controllers(s, *cfg, err)) < 0)
        goto out;
    if ((*cfg)->node_count > SANDBOX_NODES_REAL && !s->has_agents)
        rc = conf_for(s, "emulator", false, err);
    else
        for (size_t i = 0; i < (*cfg)->node_count && rc == 0; i++)
            rc = conf_for(s, (*cfg)->nodes[i].name, false, err);
    if (rc < 0)
        goto out;
    rc = conf_keys(s, *cfg, err);
out:
    str_fini(&conf);
    str_fini(&gres);
    str_fini(&spur);
    return rc;
}
