/* SPDX-License-Identifier: Apache-2.0 */
/* wireguard.c - switch/wireguard: the nodes of the cluster, or of each job, in one encrypted mesh.
 *
 * A node makes its key here and gives away the public half only; the host carries it to the controllers and brings the whole set back (`peers`), from
 * which the interface is set: what has not changed is not touched, so a new node or a rotated key breaks no connection. The interface stays
 * when the daemon goes, for jobs use it. A job is told the addresses of its nodes. Membership proves that a node can be reached, never who it is.
 * Controller side: `address`, a number into the prefix, the same on each of them.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <sodium.h>
#include <spur/switch.h>

#include "device.h"

#define NAME "switch/wireguard"
#define ALIVE_S 180             /* WireGuard makes a new handshake every two minutes while there is traffic */

struct member { char name[64]; char addr[64]; };        /* sorted by name */

struct wireguard {
    const struct spur_host *host;
    struct device_config config;
    char     program[256], endpoint[80], where[80];     /* endpoint: as configured; where: as told to the host */
    struct ip prefix;
    uint16_t keepalive_s;
    bool     sets_ifname, is_required, goes_down, is_by_job, is_alone, has_controllers, is_control;
    uint32_t full_mesh;                 /* the largest cluster in which all are each other's peers */
    char     suffix[64];                /* of names in a job's file of hosts */
    struct device *device;
    uint8_t *secret, public_key[DEVICE_KEY];    /* secret: sodium_malloc, NULL until node_up */
    struct device_peer *peers; size_t peer_count;       /* as the interface was told */
    char   (*peer_names)[64];           /* beside `peers` */
    struct device_peer *look; size_t look_count;        /* the peers' counters when row 0 was asked for last */
    pthread_mutex_t lock;               /* guards members: jobs join on the loop, peers are set on another thread */
    struct member *members; size_t member_count;
};

/* ---- options ---- */

/* "nodes", "jobs", "control", and control with one of the others: "jobs, control". */
static int read_mesh(struct wireguard *w, const char *text, struct spur_error *err)
{
    bool nodes = false;

    w->is_by_job = w->is_control = false;
    for (const char *at = text; *at; at += strspn(at, ", ")) {
        size_t n = strcspn(at, ", ");

        if (n == 5 && !strncmp(at, "nodes", n))
            nodes = true;
        else if (n == 4 && !strncmp(at, "jobs", n))
            w->is_by_job = true;
        else if (n == 7 && !strncmp(at, "control", n))
            w->is_control = true;
        else
            break;
        at += n;
        if (!*at && !(nodes && w->is_by_job))
            return 0;
    }
    return spur_fail(err, SPUR_EINVAL, NAME ": mesh = \"%s\": nodes (all are each other's peers) or jobs (only the nodes of one job), and control where the daemons' own "
                     "traffic goes through it, too: \"jobs, control\"", text);
}

static int read_options(struct wireguard *w, const struct spur_conf *conf, struct spur_error *err)
{
    const struct spur_host *h = w->host;
    const char *mesh = h->conf_text(conf, "mesh"), *alone = h->conf_text(conf, "mesh_isolation"), *suffix = h->conf_text(conf, "host_suffix");
    const char *kind = h->conf_text(conf, "device"), *name = h->conf_text(conf, "interface"), *prefix = h->conf_text(conf, "prefix");
    long port = h->conf_int(conf, "port"), mtu = h->conf_int(conf, "mtu"), keepalive = h->conf_int(conf, "keepalive"), full = h->conf_int(conf, "full_mesh");
    struct endpoint e;
    int rc;

    if (ip_parse(prefix, &w->prefix) < 0 || (w->prefix.family == AF_INET ? w->prefix.prefix > 30 : w->prefix.prefix > 120))
        return spur_fail(err, SPUR_EINVAL, NAME ": prefix = %s: a network such as 10.201.0.0/16 or fd5c:1::/64 is needed", prefix);
    if (!*name || strlen(name) >= IFNAMSIZ || strpbrk(name, "/ \n"))
        return spur_fail(err, SPUR_EINVAL, NAME ": interface = \"%s\": a name of 1 to %d characters without slash or blank is needed", name, IFNAMSIZ - 1);
    if (port < 1 || port > 65535)
        return spur_fail(err, SPUR_EINVAL, NAME ": port = %ld: 1 to 65535 is needed", port);
    if (mtu < 1280 || mtu > 65535)
        return spur_fail(err, SPUR_EINVAL, NAME ": mtu = %ld: 1280 to 65535 is needed", mtu);
    if (keepalive < 0 || keepalive > 65535)
        return spur_fail(err, SPUR_EINVAL, NAME ": keepalive = %ld: 0 (none) to 65535 seconds", keepalive);
    w->config.kind = !strcmp(kind, "kernel") ? DEVICE_KERNEL : !strcmp(kind, "userspace") ? DEVICE_USERSPACE : DEVICE_AUTO;
    if (w->config.kind == DEVICE_AUTO && strcmp(kind, "auto") != 0)
        return spur_fail(err, SPUR_EINVAL, NAME ": device = %s: auto, kernel or userspace", kind);
    if ((rc = read_mesh(w, mesh, err)) < 0)
        return rc;
    if (strcmp(alone, "none") != 0 && strcmp(alone, "required") != 0)
        return spur_fail(err, SPUR_EINVAL, NAME ": mesh_isolation = %s: none or required", alone);
    w->has_controllers = w->is_control || h->conf_int(conf, "controllers") != 0;
    w->is_alone = !strcmp(alone, "required");
    if (w->is_alone && !w->is_by_job)
        return spur_fail(err, SPUR_EINVAL, NAME ": mesh_isolation = required needs mesh = jobs: with mesh = nodes each node reaches all others");
    if (full < 0 || full > 100000)
        return spur_fail(err, SPUR_EINVAL, NAME ": full_mesh = %ld: 0 to 100000 nodes", full);
    if (strlen(suffix) >= sizeof w->suffix || suffix[strspn(suffix, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-")])
        return spur_fail(err, SPUR_EINVAL, NAME ": host_suffix = \"%s\": letters, digits, dots and dashes, fewer than %zu", suffix, sizeof w->suffix);
    w->full_mesh = (uint32_t)full;
    snprintf(w->suffix, sizeof w->suffix, "%s", suffix);
    snprintf(w->endpoint, sizeof w->endpoint, "%s", h->conf_text(conf, "endpoint"));
    if (*w->endpoint && endpoint_parse(w->endpoint, &e) < 0)
        return spur_fail(err, SPUR_EINVAL, NAME ": endpoint = %s: an address and a port are needed, 192.0.2.7:51871 or [2001:db8::7]:51871", w->endpoint);
    snprintf(w->config.name, sizeof w->config.name, "%s", name);
    snprintf(w->program, sizeof w->program, "%s", h->conf_text(conf, "program"));
    w->config.program = w->program;
    w->config.port = (uint16_t)port;
    w->config.mtu = (uint32_t)mtu;
    w->keepalive_s = (uint16_t)keepalive;
    w->sets_ifname = h->conf_int(conf, "set_ifname") != 0;
    w->is_required = h->conf_int(conf, "required") != 0;
    w->goes_down = h->conf_int(conf, "down_at_end") != 0;
    return 0;
}

static int wireguard_open(const struct spur_host *host, const struct spur_conf *conf, void **self, struct spur_error *err)
{
    struct wireguard *w = calloc(1, sizeof *w);
    int rc;

    if (!w)
        return spur_fail(err, SPUR_ENOMEM, NAME ": out of memory");
    w->host = host;
    pthread_mutex_init(&w->lock, NULL);
    if (sodium_init() < 0)
        rc = spur_fail(err, SPUR_EIO, NAME ": libsodium does not start");
    else
        rc = read_options(w, conf, err);
    if (rc < 0) {
        free(w);
        return rc;
    }
    *self = w;
    return 0;
}

static void wireguard_close(void *self)
{
    struct wireguard *w = self;
    int cause = errno;

    if (!w)
        return;
    device_close(w->device, w->goes_down);
    sodium_free(w->secret);
    free(w->peers);
    free(w->peer_names);
    free(w->look);
    free(w->members);
    pthread_mutex_destroy(&w->lock);
    free(w);
    errno = cause;
}

/* What the interface was made with needs a new one. */
static int wireguard_reload(void *self, const struct spur_conf *conf, struct spur_error *err)
{
    struct wireguard *w = self, now = { .host = w->host };
    int rc = read_options(&now, conf, err);

    if (rc < 0)
        return rc;
    if (strcmp(now.config.name, w->config.name) != 0 || now.config.kind != w->config.kind || now.config.port != w->config.port ||
        strcmp(now.program, w->program) != 0 || now.config.mtu != w->config.mtu || !ip_equal(&now.prefix, &w->prefix) || now.is_by_job != w->is_by_job ||
        now.full_mesh != w->full_mesh || now.is_control != w->is_control || now.has_controllers != w->has_controllers)
        return spur_fail(err, SPUR_ERESTART, NAME ": another interface, device, port, mtu, prefix, mesh, controllers or full_mesh");
    memcpy(w->endpoint, now.endpoint, sizeof w->endpoint);
    w->keepalive_s = now.keepalive_s;
    w->sets_ifname = now.sets_ifname;
    w->is_required = now.is_required;
    w->goes_down = now.goes_down;
    w->is_alone = now.is_alone;
    memcpy(w->suffix, now.suffix, sizeof w->suffix);
    return 0;
}

/* ---- the node's key: 32 bytes in a file that only its owner can read ---- */

static int key_folder(struct wireguard *w, struct spur_error *err)
{
    const char *dir = w->host->state_dir ? w->host->state_dir(w->host->ctx) : NULL;
    int fd = dir && *dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

    if (fd < 0)
        return spur_fail(err, SPUR_EIO, NAME ": %s: the folder for the key can't be opened: %s", dir && *dir ? dir : "(none)", strerror(errno));
    return fd;
}

static int key_write(struct wireguard *w, int folder, struct spur_error *err)
{
    int fd = openat(folder, "mesh.key.new", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600), rc = 0;

    if (fd < 0 || fchmod(fd, 0600) < 0 || write(fd, w->secret, DEVICE_KEY) != (ssize_t)DEVICE_KEY || fsync(fd) < 0 ||
        renameat(folder, "mesh.key.new", folder, "mesh.key") < 0 || fsync(folder) < 0)
        rc = spur_fail(err, SPUR_EIO, NAME ": mesh.key can't be written: %s", strerror(errno));
    if (fd >= 0)
        close(fd);
    return rc;
}

static int key_make(struct wireguard *w, int folder, struct spur_error *err)
{
    randombytes_buf(w->secret, DEVICE_KEY);
    w->secret[0] &= 248;                /* as X25519 wants it (RFC 7748, section 5) */
    w->secret[31] = (uint8_t)((w->secret[31] & 127) | 64);
    return key_write(w, folder, err);
}

static int key_get(struct wireguard *w, struct spur_error *err)
{
    int folder = key_folder(w, err), fd, rc = 0;
    struct stat st;

    if (folder < 0)
        return folder;
    if (!w->secret && !(w->secret = sodium_malloc(DEVICE_KEY))) {
        close(folder);
        return spur_fail(err, SPUR_ENOMEM, NAME ": no locked memory for the key: %s", strerror(errno));
    }
    fd = openat(folder, "mesh.key", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        rc = key_make(w, folder, err);
    else if (fd < 0 || fstat(fd, &st) < 0)
        rc = spur_fail(err, SPUR_EIO, NAME ": mesh.key: %s", strerror(errno));
    else if (!S_ISREG(st.st_mode) || (st.st_mode & 077) || st.st_uid != geteuid())
        rc = spur_fail(err, SPUR_EDENIED, NAME ": mesh.key: mode %04o, owner %u: it must be a file of mode 0600 of this daemon's user; remove it if others may have read it",
                       (unsigned)st.st_mode & 07777, (unsigned)st.st_uid);
    else if (read(fd, w->secret, DEVICE_KEY) != (ssize_t)DEVICE_KEY || st.st_size != DEVICE_KEY)
        rc = spur_fail(err, SPUR_ECORRUPT, NAME ": mesh.key has %lld bytes, not %u; remove it and a new one is made", (long long)st.st_size, DEVICE_KEY);
    if (fd >= 0)
        close(fd);
    close(folder);
    if (rc == 0 && crypto_scalarmult_curve25519_base(w->public_key, w->secret) != 0)
        rc = spur_fail(err, SPUR_ECORRUPT, NAME ": mesh.key is no key; remove it and a new one is made");
    return rc;
}

/* ---- the node ---- */

static void tell_me(struct wireguard *w, struct spur_switch_node *me)
{
    memcpy(me->public_key, w->public_key, DEVICE_KEY);
    if (*w->endpoint)
        snprintf(w->where, sizeof w->where, "%s", w->endpoint);
    else
        snprintf(w->where, sizeof w->where, ":%u", w->config.port);     /* at the node's address in the cluster */
    me->endpoint = w->where;
}

static int wireguard_node_up(void *self, struct spur_switch_node *me, struct spur_error *err)
{
    struct wireguard *w = self;
    struct device_peer *still = NULL;
    size_t count;
    int rc;

    if ((rc = key_get(w, err)) < 0)
        return rc;
    /* Its program was killed, or somebody removed it: what it knew is gone with it. */
    if (w->device && device_look(w->device, &still, &count, NULL) < 0) {
        device_close(w->device, false);
        w->device = NULL;
        free(w->peers);
        free(w->peer_names);
        w->peers = NULL;
        w->peer_names = NULL;
        w->peer_count = 0;
    }
    free(still);
    if (!w->device && (rc = device_open(&w->device, &w->config, err)) < 0)
        return spur_context(err, NAME ": interface %s", w->config.name);
    if ((rc = device_key(w->device, w->secret, err)) < 0)
        return spur_context(err, NAME);
    /* What an earlier run left there is what the first set is compared with: nothing is cut off by our restart. */
    if (!w->peers && (rc = device_look(w->device, &w->peers, &w->peer_count, err)) < 0)
        return spur_context(err, NAME);
    tell_me(w, me);
    return 0;
}

static int wireguard_rotate(void *self, struct spur_switch_node *me, struct spur_error *err)
{
    struct wireguard *w = self;
    int folder, rc;

    if (!w->device)
        return spur_fail(err, SPUR_ENOTFOUND, NAME ": the interface is not up yet");
    if ((folder = key_folder(w, err)) < 0)
        return folder;
    rc = key_make(w, folder, err);
    close(folder);
    if (rc < 0)
        return rc;
    crypto_scalarmult_curve25519_base(w->public_key, w->secret);
    if ((rc = device_key(w->device, w->secret, err)) < 0)
        return spur_context(err, NAME);
    tell_me(w, me);
    return 0;
}

static int member_by_name(const void *a, const void *b) { return strcmp(((const struct member *)a)->name, ((const struct member *)b)->name); }

static bool key_is_set(const uint8_t *key)
{
    uint8_t any = 0;

    for (size_t i = 0; i < DEVICE_KEY; i++)
        any |= key[i];
    return any != 0;
}

static void warn_of(const struct wireguard *w, const char *node, const char *what)
{
    char line[200];

    snprintf(line, sizeof line, NAME ": node %.60s: %s", node, what);
    if (SPUR_HAS(w->host, log))
        w->host->log(w->host->ctx, SPUR_LOG_WARN, line);
}

/* One row of the set as the interface wants it. 1: a peer; 0: not one (this node, or without key or address); negative: refused. */
static int peer_of(struct wireguard *w, const struct spur_switch_node *n, struct device_peer *out, struct ip *own, struct spur_error *err)
{
    struct ip inside;

    memset(out, 0, sizeof *out);
    if (!key_is_set(n->public_key) || !n->mesh_addr)
        return 0;
    if (ip_parse(n->mesh_addr, &out->addr) < 0 || out->addr.family != w->prefix.family || out->addr.prefix != (out->addr.family == AF_INET ? 32 : 128))
        return spur_fail(err, SPUR_EINVAL, NAME ": node %s: mesh address %s is no address of the prefix's family", n->name, n->mesh_addr);
    inside = out->addr;
    inside.prefix = w->prefix.prefix;
    {
        struct ip net, other;

        if (!ip_nth(&w->prefix, 1, &net) || !ip_nth(&inside, 1, &other) || !ip_equal(&net, &other))
            return spur_fail(err, SPUR_EINVAL, NAME ": node %s: mesh address %s is outside the prefix", n->name, n->mesh_addr);
    }
    if (memcmp(n->public_key, w->public_key, DEVICE_KEY) == 0) {
        if (own->family)
            warn_of(w, n->name, "it shows the key of this node: it gets nothing here");
        else
            *own = inside;
        return 0;
    }
    memcpy(out->key, n->public_key, DEVICE_KEY);
    out->has_endpoint = n->endpoint && *n->endpoint;
    if (out->has_endpoint && endpoint_parse(n->endpoint, &out->endpoint) < 0) {
        /* What one node says of itself must not cost the others their mesh. It still is a peer: when it speaks, WireGuard learns where it is. */
        warn_of(w, n->name, "its endpoint is no address and port, so it has to speak first");
        out->has_endpoint = false;
    }
    out->keepalive_s = w->keepalive_s;
    return 1;
}

static int peers_refuse_twins(const struct device_peer *peers, char (*names)[64], size_t count, struct spur_error *err)
{
    /* An address that two nodes claim would move the traffic of one to the other: nobody gets it. Sorted look, n log n. */
    const struct device_peer **rows = malloc((count ? count : 1) * sizeof *rows);

    if (!rows)
        return spur_fail(err, SPUR_ENOMEM, NAME ": out of memory");
    for (size_t i = 0; i < count; i++)
        rows[i] = &peers[i];
    for (size_t gap = count / 2; gap > 0; gap /= 2)
        for (size_t i = gap; i < count; i++)
            for (size_t k = i; k >= gap && memcmp(&rows[k - gap]->addr.at, &rows[k]->addr.at, 16) > 0; k -= gap) {
                const struct device_peer *swap = rows[k];

                rows[k] = rows[k - gap];
                rows[k - gap] = swap;
            }
    for (size_t i = 1; i < count; i++)
        if (memcmp(&rows[i - 1]->addr.at, &rows[i]->addr.at, 16) == 0) {
            int rc = spur_fail(err, SPUR_EEXISTS, NAME ": nodes %s and %s have the same mesh address", names[rows[i - 1] - peers], names[rows[i] - peers]);

            free(rows);
            return rc;
        }
    free(rows);
    return 0;
}

struct key_row { const struct device_peer *peer; };

static int by_key_and_place(const void *a, const void *b)
{
    const struct device_peer *x = ((const struct key_row *)a)->peer, *y = ((const struct key_row *)b)->peer;
    int order = memcmp(x->key, y->key, DEVICE_KEY);

    return order ? order : (x > y) - (x < y);
}

/* A key that two nodes show is one peer for WireGuard, and its traffic would go where the second says. The first has it: a controller refuses a node that
 * brings another's key, so this is the guard of a guard. */
static int peers_drop_stolen(struct wireguard *w, struct device_peer *peers, char (*names)[64], size_t *count, struct spur_error *err)
{
    struct key_row *rows = malloc((*count ? *count : 1) * sizeof *rows);
    size_t kept = 0;

    if (!rows)
        return spur_fail(err, SPUR_ENOMEM, NAME ": out of memory");
    for (size_t i = 0; i < *count; i++)
        rows[i].peer = &peers[i];
    qsort(rows, *count, sizeof *rows, by_key_and_place);
    for (size_t i = 1; i < *count; i++)
        if (memcmp(rows[i - 1].peer->key, rows[i].peer->key, DEVICE_KEY) == 0) {
            warn_of(w, names[rows[i].peer - peers], "it shows the key of another node: it is nobody's peer here");
            peers[rows[i].peer - peers].handshake_wall_s = -1;          /* the mark: a set that is to be has no handshakes */
        }
    for (size_t i = 0; i < *count; i++)
        if (peers[i].handshake_wall_s != -1) {
            if (kept != i) {
                peers[kept] = peers[i];
                memcpy(names[kept], names[i], sizeof *names);
            }
            kept++;
        }
    free(rows);
    *count = kept;
    return 0;
}

static int wireguard_peers(void *self, const struct spur_switch_node *rows, uint32_t n, uint32_t row_size, struct spur_error *err)
{
    struct wireguard *w = self;
    struct device_peer *peers = malloc((n + 1) * sizeof *peers);
    struct member *members = malloc((n + 1) * sizeof *members);
    char (*names)[64] = malloc((n + 1) * sizeof *names);
    size_t count = 0, member_count = 0;
    struct ip own = { 0 };
    int rc = peers && members && names ? 0 : spur_fail(err, SPUR_ENOMEM, NAME ": out of memory");

    if (rc == 0 && !w->device)
        rc = spur_fail(err, SPUR_ENOTFOUND, NAME ": the interface is not up yet");
    for (uint32_t i = 0; rc >= 0 && i < n; i++) {
        const struct spur_switch_node *row = (const struct spur_switch_node *)(const void *)((const char *)rows + (size_t)i * row_size);

        rc = peer_of(w, row, &peers[count], &own, err);
        if (rc > 0)
            snprintf(names[count++], sizeof *names, "%s", row->name);
        if (rc >= 0 && row->mesh_addr) {
            snprintf(members[member_count].name, sizeof members->name, "%s", row->name);
            snprintf(members[member_count++].addr, sizeof members->addr, "%s", row->mesh_addr);
        }
    }
    if (rc >= 0)
        rc = peers_drop_stolen(w, peers, names, &count, err);
    if (rc >= 0)
        rc = peers_refuse_twins(peers, names, count, err);
    if (rc >= 0 && own.family && (rc = device_addr(w->device, &own, err)) < 0)
        spur_context(err, NAME);
    if (rc >= 0 && (rc = device_peers(w->device, w->peers, w->peer_count, peers, count, err)) < 0)
        spur_context(err, NAME);
    if (rc < 0) {
        free(peers);
        free(names);
        free(members);
        return rc;
    }
    qsort(members, member_count, sizeof *members, member_by_name);
    free(w->peers);
    free(w->peer_names);
    w->peers = peers;
    w->peer_names = names;
    w->peer_count = count;
    pthread_mutex_lock(&w->lock);
    free(w->members);
    w->members = members;
    w->member_count = member_count;
    pthread_mutex_unlock(&w->lock);
    return 0;
}

/* ---- jobs ---- */

/* The host's rows are the newest; an older host gives none, then what `peers` brought counts. Copied: the set may change meanwhile. */
static void job_addr(struct wireguard *w, const struct spur_switch_job *job, uint32_t i, char out[64])
{
    struct member key, *m;

    out[0] = '\0';
    if (SPUR_COVERS(job, row_size) && job->rows) {
        const struct spur_switch_node *row = (const struct spur_switch_node *)(const void *)((const char *)job->rows + (size_t)i * job->row_size);

        snprintf(out, 64, "%s", row->mesh_addr ? row->mesh_addr : "");
        return;
    }
    snprintf(key.name, sizeof key.name, "%s", job->nodes[i]);
    pthread_mutex_lock(&w->lock);
    m = w->member_count ? bsearch(&key, w->members, w->member_count, sizeof key, member_by_name) : NULL;
    if (m)
        snprintf(out, 64, "%s", m->addr);
    pthread_mutex_unlock(&w->lock);
}

static int job_check(const struct wireguard *w, const struct spur_switch_job *job, struct spur_error *err)
{
    if (w->is_alone && job->node_count > 1 && !(SPUR_COVERS(job, flags) && job->flags & SPUR_SWITCH_JOB_ALONE))
        return spur_fail(err, SPUR_EDENIED, NAME ": mesh_isolation = required: a job of several nodes must have them alone (--exclusive): no job has a mesh address of its own in a network namespace, so on shared nodes all of them would "
                         "share the peers");
    return 0;
}

static int wireguard_job_join(void *self, const struct spur_switch_job *job, const struct spur_switch_env *env, struct spur_error *err)
{
    struct wireguard *w = self;
    size_t room = (size_t)job->node_count * 64 + 1, at = 0;
    char *list, addr[64], name[330];
    int rc;

    if ((rc = job_check(w, job, err)) < 0)
        return rc;
    if (!(list = malloc(room)))
        return spur_fail(err, SPUR_ENOMEM, NAME ": out of memory");
    list[0] = '\0';
    for (uint32_t i = 0; i < job->node_count; i++) {
        job_addr(w, job, i, addr);
        if (!*addr && w->is_required) {
            free(list);
            return spur_fail(err, SPUR_ELATER, NAME ": node %s is not in the mesh, and this cluster's jobs need it", job->nodes[i]);
        }
        at += (size_t)snprintf(list + at, room - at, "%s%s", i ? "," : "", addr);
        snprintf(name, sizeof name, "%.255s%s", job->nodes[i], w->suffix);
        if (*addr && SPUR_COVERS(env, host) && env->host)
            env->host(env->arg, addr, name);
    }
    env->set(env->arg, "SPUR_MESH_ADDRS", list);
    env->set(env->arg, "SPUR_MESH_DEVICE", w->config.name);
    if (w->sets_ifname && w->device) {
        env->set(env->arg, "GLOO_SOCKET_IFNAME", w->config.name);
        env->set(env->arg, "NCCL_SOCKET_IFNAME", w->config.name);
    }
    free(list);
    return 0;
}

static void wireguard_job_leave(void *self, const struct spur_switch_job *job)
{
    (void)self;         /* a job holds nothing of the mesh */
    (void)job;
}

/* ---- for people ---- */

static int peer_by_key(const void *a, const void *b) { return memcmp(((const struct device_peer *)a)->key, ((const struct device_peer *)b)->key, DEVICE_KEY); }

static int wireguard_peer(void *self, uint32_t i, struct spur_switch_peer *out, struct spur_error *err)
{
    struct wireguard *w = self;
    const struct device_peer *seen;

    if (!w->device || i >= w->peer_count)
        return spur_fail(err, SPUR_ENOTFOUND, NAME ": there are %zu peers", w->peer_count);
    if (i == 0) {
        free(w->look);
        if (device_look(w->device, &w->look, &w->look_count, err) < 0)
            return spur_context(err, NAME);
        if (w->look_count)
            qsort(w->look, w->look_count, sizeof *w->look, peer_by_key);
    }
    memset((char *)out + sizeof out->size, 0, sizeof *out - sizeof out->size);
    snprintf(out->name, sizeof out->name, "%s", w->peer_names ? w->peer_names[i] : "");
    ip_print(&w->peers[i].addr, out->mesh_addr);
    out->heard_s = -1;
    seen = w->look_count ? bsearch(&w->peers[i], w->look, w->look_count, sizeof *w->look, peer_by_key) : NULL;
    if (seen) {
        if (seen->has_endpoint)
            endpoint_print(&seen->endpoint, out->endpoint);
        if (seen->handshake_wall_s)
            out->heard_s = (int64_t)time(NULL) - seen->handshake_wall_s;
        out->rx_bytes = seen->rx_bytes;
        out->tx_bytes = seen->tx_bytes;
    }
    return 0;
}

static int wireguard_status(void *self, char *buf, size_t len)
{
    struct wireguard *w = self;
    struct device_peer *now = NULL;
    struct spur_error err = { 0 };
    size_t count = 0, alive = 0;
    int rc;

    if (!w->device) {
        snprintf(buf, len, "%s: not up", w->config.name);
        return 0;
    }
    if ((rc = device_look(w->device, &now, &count, &err)) < 0) {
        snprintf(buf, len, "%s: %s", w->config.name, err.text);
        return rc;
    }
    for (size_t i = 0; i < count; i++)
        alive += now[i].handshake_wall_s && (int64_t)time(NULL) - now[i].handshake_wall_s <= ALIVE_S;
    free(now);
    snprintf(buf, len, "%s (%s): %zu peers, %zu heard from in the last %d s", w->config.name, device_is_userspace(w->device) ? w->program : "kernel", count, alive, ALIVE_S);
    return 0;
}

static int wireguard_address(void *self, uint64_t n, char addr[64], struct spur_error *err)
{
    struct wireguard *w = self;
    struct ip ip;
    char text[64];

    if (!ip_nth(&w->prefix, n, &ip)) {
        ip_print(&w->prefix, text);
        return spur_fail(err, SPUR_ELIMIT, NAME ": prefix %s has no address number %llu; a larger one is needed", text, (unsigned long long)n);
    }
    ip_print(&ip, addr);
    return 0;
}

static uint32_t wireguard_traits(void *self, uint32_t node_count)
{
    const struct wireguard *w = self;

    return (w->is_by_job || node_count > w->full_mesh ? SPUR_SWITCH_BY_JOB : 0) | (w->is_required ? SPUR_SWITCH_NEEDED : 0) | (w->is_alone ? SPUR_SWITCH_ALONE : 0) |
           (w->has_controllers ? SPUR_SWITCH_CONTROLLERS : 0) | (w->is_control ? SPUR_SWITCH_CONTROL : 0);
}

static const struct spur_option wireguard_options[] = {
    { "mesh", SPUR_STRING, "nodes", "who are each other's peers: nodes (all), or jobs (the nodes of a job); control beside one of them: daemons speak through it, too" },
    { "controllers", SPUR_BOOL, "no", "controllers are in the mesh, too, every node's peers; implied by mesh = control" },
    { "mesh_isolation", SPUR_STRING, "none", "required: with mesh = jobs, a job of several nodes must have them alone" },
    { "full_mesh", SPUR_INT, "512", "largest cluster in which all nodes are each other's peers; above it, those that share a job" },
    { "host_suffix", SPUR_STRING, "", "of the nodes' names in a job's file of hosts (SPUR_MESH_HOSTS)" },
    { "prefix", SPUR_STRING, "10.201.0.0/16", "network that the nodes' mesh addresses are taken from" },
    { "interface", SPUR_STRING, "spur0", "name of the interface on each node" },
    { "device", SPUR_STRING, "auto", "kernel, userspace, or auto: the kernel's where it has one" },
    { "program", SPUR_STRING, "wireguard-go", "userspace device" },
    { "port", SPUR_INT, "51871", "UDP port" },
    { "mtu", SPUR_INT, "1420", "of the interface" },
    { "keepalive", SPUR_INT, "25", "seconds between packets that keep a path open; 0: none" },
    { "endpoint", SPUR_STRING, "", "address:port of this node for the others; unset: its address in the cluster and `port`" },
    { "set_ifname", SPUR_BOOL, "no", "set GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME in jobs" },
    { "required", SPUR_BOOL, "no", "a node that is not in the mesh drains, and no job starts on it" },
    { "down_at_end", SPUR_BOOL, "no", "remove the interface when the daemon ends; running jobs lose it" },
    { 0 } };

static const struct spur_switch_ops wireguard_ops = {
    .size = sizeof wireguard_ops, .node_up = wireguard_node_up, .peers = wireguard_peers, .job_join = wireguard_job_join,
    .job_leave = wireguard_job_leave, .status = wireguard_status, .address = wireguard_address, .rotate = wireguard_rotate, .peer = wireguard_peer,
    .traits = wireguard_traits };

SPUR_PLUGIN(switch, wireguard, .about = "an encrypted mesh of all nodes", .caps = SPUR_CAP_MAY_BLOCK, .options = wireguard_options,
            .ops = &wireguard_ops, .open = wireguard_open, .reload = wireguard_reload, .close = wireguard_close);
