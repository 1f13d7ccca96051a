/* SPDX-License-Identifier: Apache-2.0 */
/* join.c - `spur join TOKEN`: makes this host one of the cluster's, with the token that `spur controller add` printed.
 *
 * The token's one-time key proves us to the controllers, the token's public keys prove them to us. A key is made here and never leaves; its public half goes to the
 * cluster, the configuration and the public keys of the others come back. Written: SYSCONFDIR/spur/keys/{host.key,hosts} and slurm.conf with its
 * kin, where spurctld looks for them. Nothing that is there already is replaced, unless it is the same.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/str.h"
#include "client/hostcall.h"
#include "cmds/commands.h"
#include "wire/unpack.h"

#define TOKEN_PREFIX "spur-join-1."
#define CLOCKS_MS 30000             /* clocks further apart are said to be */

static const char usage_text[] =
    "Usage: spur join [--conf DIR] [--keys DIR] [--addr ADDR] [--name NAME] [--role ROLE] TOKEN|-\n"
    "\n"
    "Makes this host a member of the cluster whose administrator made TOKEN (`spur token create`, `spur controller add`); then start its daemon.\n"
    "A token is good once, for one host and one role. With - it is read from the input, where `ps` does not show it.\n"
    "\n"
    "  --conf DIR   where slurm.conf goes [%s]\n"
    "  --keys DIR   where this host's key goes [%s/spur/keys]\n"
    "  --addr ADDR  where the other controllers reach this one, when `spur controller add` did not say it: host or host:port\n"
    "  --name NAME  what the cluster calls this host [its host name]\n"
    "  --role ROLE  refuse a token for anything else: controller, login, compute\n";

struct joining { const char *conf, *keys, *addr, *name, *role; char own[64], work[64]; struct arena arena; Wire__JoinToken *token; uint8_t seed[32], public_key[32]; };

/* A file that is new, or the same as before: nobody's configuration is lost by a token that went to the wrong host. */
static int put_new(const char *dir, const char *name, const char *text, mode_t mode, struct spur_error *err)
{
    char path[600], temporary[640];
    size_t n = strlen(text);
    int fd;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    if ((fd = open(path, O_RDONLY | O_CLOEXEC)) >= 0) {
        char *old = mem_alloc(n + 2);
        ssize_t got = read(fd, old, n + 1);
        bool same = got == (ssize_t)n && memcmp(old, text, n) == 0;

        close(fd);
        sodium_memzero(old, n + 1);
        free(old);
        return same ? 0 : spur_fail(err, SPUR_EEXISTS, "%s is there already: move it away first", path);
    }
    snprintf(temporary, sizeof temporary, "%s.new", path);
    unlink(temporary);
    fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0 || fchmod(fd, mode) < 0 || write(fd, text, n) != (ssize_t)n || fsync(fd) < 0 || rename(temporary, path) < 0) {
        int saved = errno;

        if (fd >= 0)
            close(fd);
        unlink(temporary);
        return spur_fail(err, SPUR_EIO, "%s: %s", path, strerror(saved));
    }
    close(fd);
    return 0;
}

static int folders_make(const char *path, mode_t mode, struct spur_error *err)
{
    char copy[512];

    snprintf(copy, sizeof copy, "%s", path);
    for (char *at = copy + 1; ; at++)
        if (*at == '/' || !*at) {
            bool is_last = !*at;

            *at = '\0';
            if (mkdir(copy, mode) < 0 && errno != EEXIST)
                return spur_fail(err, SPUR_EIO, "%s: %s", copy, strerror(errno));
            if (is_last)
                return 0;
            *at = '/';
        }
}

static int token_read(struct joining *j, const char *text, struct spur_error *err)
{
    size_t n = strlen(text), len;
    uint8_t *packed;

    if (strncmp(text, TOKEN_PREFIX, sizeof TOKEN_PREFIX - 1) != 0)
        return spur_fail(err, SPUR_EINVAL, "that is no token: it begins with %s", TOKEN_PREFIX);
    packed = arena_alloc(&j->arena, n);
    if (sodium_base642bin(packed, n, text + sizeof TOKEN_PREFIX - 1, n - (sizeof TOKEN_PREFIX - 1), NULL, &len, NULL, sodium_base64_VARIANT_URLSAFE_NO_PADDING) != 0 ||
        !(j->token = wire_unpack(&wire__join_token__descriptor, packed, (uint32_t)len, &j->arena)) || j->token->seed.len != 32 || !j->token->n_controllers ||
        j->token->version != 1 || strpbrk(j->token->name, " /\n#") || !*j->token->name || *j->token->name == '.')
        return spur_fail(err, SPUR_EINVAL, "the token is damaged, or of a newer version: copy it whole, or make another with `spur token create`");
    if (!j->addr)
        j->addr = j->token->addr;
    if (strcmp(j->token->role, "controller") && strcmp(j->token->role, "compute") && strcmp(j->token->role, "login"))
        return spur_fail(err, SPUR_EUNSUPPORTED, "the token is for a %.20s host, which this version cannot join", j->token->role);
    if (j->role && strcmp(j->role, j->token->role) != 0)
        return spur_fail(err, SPUR_EDENIED, "the token makes a %.20s host, not a %.20s host: `spur token create --role` says which", j->token->role, j->role);
    if (!j->name && gethostname(j->own, sizeof j->own - 1) == 0) {
        if (strcmp(j->own, j->token->name) != 0)
            j->own[strcspn(j->own, ".")] = '\0';
        j->name = j->own;
    }
    if (strcmp(j->name, j->token->name) != 0)
        return spur_fail(err, SPUR_EDENIED, "the token is for host %.63s, this is %.63s: each host has its own (--name %.63s, if the cluster calls this host so)", j->token->name, j->name,
                         j->token->name);
    return 0;
}

/* A key folder and a slurm.conf for the one call, in a folder of our own. */
static int work_make(struct joining *j, struct spur_error *err)
{
    const char *base = getenv("TMPDIR");
    struct str text;
    char hex[65], path[200];
    int rc;

    snprintf(j->work, sizeof j->work, "%.40s/spur-join.XXXXXX", base && *base == '/' ? base : "/tmp");
    if (!mkdtemp(j->work))
        return spur_fail(err, SPUR_EIO, "%s: %s", j->work, strerror(errno));
    str_init(&text);
    sodium_bin2hex(hex, sizeof hex, j->token->seed.data, 32);
    str_addf(&text, "%s token %s\n", j->token->name, hex);
    rc = put_new(j->work, "host.key", text.text, 0600, err);
    str_clear(&text);
    for (size_t i = 0; i < j->token->n_hosts; i++)
        if (j->token->hosts[i]->key.len == 32) {
            sodium_bin2hex(hex, sizeof hex, j->token->hosts[i]->key.data, 32);
            str_addf(&text, "%s controller %s\n", j->token->hosts[i]->name, hex);
        }
    rc = rc < 0 ? rc : put_new(j->work, "hosts", text.text ? text.text : "", 0644, err);
    str_clear(&text);
    str_addf(&text, "ClusterName=%s\nAuthType=%s\nSlurmctldPort=%u\n", j->token->cluster, j->token->auth ? j->token->auth : "auth/sodium", j->token->port ? j->token->port : 6817);
    for (size_t i = 0; i < j->token->n_controllers; i++)
        str_addf(&text, "SlurmctldHost=%s\n", j->token->controllers[i]);
    rc = rc < 0 ? rc : put_new(j->work, "slurm.conf", text.text, 0600, err);
    str_clear(&text);
    str_addf(&text, "plugin \"auth/sodium\" {\n  key_dir = \"%s\"\n}\n", j->work);
    snprintf(path, sizeof path, "%s", j->work);
    rc = rc < 0 ? rc : put_new(path, "spur.conf", text.text, 0600, err);
    str_fini(&text);
    return rc;
}

static void work_remove(struct joining *j)
{
    static const char *const names[] = { "host.key", "hosts", "slurm.conf", "spur.conf" };
    char path[200];

    if (!*j->work)
        return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", j->work, names[i]);
        unlink(path);
    }
    rmdir(j->work);
}

static const char *own_name(void *ctx) { return ((struct joining *)ctx)->token->name; }
static const char *own_role(void *ctx) { (void)ctx; return "token"; }
static const char *no_folder(void *ctx) { (void)ctx; return ""; }

static int ask(struct joining *j, Wire__JoinReply **out, struct spur_error *err)
{
    struct spur_host host = { .size = sizeof host, .ctx = j, .host_name = own_name, .role = own_role, .state_dir = no_folder };
    Wire__JoinRequest q = WIRE__JOIN_REQUEST__INIT;
    struct config_hint hint;
    char path[200];
    void *reply;
    int rc;

    snprintf(path, sizeof path, "%s/slurm.conf", j->work);
    if ((rc = config_hint_read(path, &hint, err)) < 0)
        return rc;
    q.name = (char *)(uintptr_t)j->name;
    q.role = (char *)(uintptr_t)(j->role ? j->role : j->token->role);
    q.public_key.data = j->public_key;
    q.public_key.len = sizeof j->public_key;
    q.addr = (char *)(uintptr_t)j->addr;
    if ((rc = host_call(&hint, &host, WIRE__MESSAGE_TYPE__JOIN, &q.base, WIRE__MESSAGE_TYPE__JOINED, &wire__join_reply__descriptor, &j->arena, &reply, err)) == 0)
        *out = reply;
    return rc;
}

static int keep_files(struct joining *j, const Wire__JoinReply *r, struct spur_error *err)
{
    const Wire__ConfigFiles *f = r->files;
    struct { const char *name, *text; } rows[] = { { "gres.conf", f->gres }, { "topology.conf", f->topology }, { "cgroup.conf", f->cgroup }, { "spur.conf", f->spur } };
    struct str slurm;
    int rc;

    str_init(&slurm);
    str_add(&slurm, f->slurm ? f->slurm : "");
    if (slurm.len && slurm.text[slurm.len - 1] != '\n')
        str_add(&slurm, "\n");
    if (!strcmp(j->token->role, "controller")) {
        str_addf(&slurm, "SlurmctldHost=%s", j->name);
        if (j->addr)
            str_addf(&slurm, "(%.*s)", (int)strcspn(j->addr, ":"), j->addr);
        str_add(&slurm, "\n");
    }
    rc = put_new(j->conf, "slurm.conf", slurm.text, 0644, err);
    str_fini(&slurm);
    for (size_t i = 0; rc == 0 && i < sizeof rows / sizeof *rows; i++)
        if (rows[i].text && *rows[i].text)
            rc = put_new(j->conf, rows[i].name, rows[i].text, 0644, err);
    return rc;
}

static int join(struct joining *j, const char *token, struct spur_error *err)
{
    uint8_t secret[crypto_sign_SECRETKEYBYTES];
    char hex[65], path[600];
    Wire__JoinReply *reply = NULL;
    struct str key;
    int rc;

    if (sodium_init() < 0)
        return spur_fail(err, SPUR_EIO, "no random numbers to be had here");
    if ((rc = token_read(j, token, err)) < 0)
        return rc;
    snprintf(path, sizeof path, "%s/host.key", j->keys);
    if (access(path, F_OK) == 0)
        return spur_fail(err, SPUR_EEXISTS, "%s is there already: this host has a key. Move it away first, or add the host with `spur cluster init`", path);
    snprintf(path, sizeof path, "%s/slurm.conf", j->conf);
    if (access(path, F_OK) == 0)
        return spur_fail(err, SPUR_EEXISTS, "%s is there already: move it away first", path);
    if ((rc = folders_make(j->keys, 0755, err)) < 0 || (rc = folders_make(j->conf, 0755, err)) < 0 || (rc = work_make(j, err)) < 0)
        return rc;
    randombytes_buf(j->seed, sizeof j->seed);
    crypto_sign_seed_keypair(j->public_key, secret, j->seed);
    sodium_memzero(secret, sizeof secret);
    sodium_bin2hex(hex, sizeof hex, j->seed, sizeof j->seed);
    str_init(&key);
    str_addf(&key, "# The secret key of this host. Mode 0600; never on another host, never in a backup that others read.\n%s %s %s\n", j->name, j->token->role, hex);
    /* On the disk before the cluster believes it: a key that was lost on the way would need another token. */
    rc = put_new(j->keys, "host.key", key.text, 0600, err);
    sodium_memzero(key.text, key.len);
    sodium_memzero(hex, sizeof hex);
    sodium_memzero(j->seed, sizeof j->seed);
    str_fini(&key);
    if (rc < 0)
        return rc;
    if ((rc = ask(j, &reply, err)) < 0) {
        snprintf(path, sizeof path, "%s/host.key", j->keys);
        unlink(path);
        return rc;
    }
    if (!reply->files || !reply->hosts)
        return spur_fail(err, SPUR_ECORRUPT, "the controller sent no configuration");
    if ((rc = put_new(j->keys, "hosts", reply->hosts, 0644, err)) < 0 || (rc = keep_files(j, reply, err)) < 0)
        return rc;
    if (reply->has_wall_ms && llabs(reply->wall_ms - clock_wall_ms()) > CLOCKS_MS)
        fprintf(stderr, "spur join: warning: this host's clock is %lld s %s the controller's: set it, or what is signed there is taken for old here\n",
                llabs(reply->wall_ms - clock_wall_ms()) / 1000, reply->wall_ms < clock_wall_ms() ? "ahead of" : "behind");
    if (strcmp(j->token->role, "controller") != 0) {
        printf("%s is a %s host of cluster %s now. Start its %s%s.\n", j->name, j->token->role, j->token->cluster, !strcmp(j->token->role, "login") ? "spur logind" : "spurd",
               !strcmp(j->token->role, "login") ? "" : ", once slurm.conf has its NodeName line");
        return 0;
    }
    printf("%s is a controller of cluster %s now. Start its spurctld: it learns what there is, then it votes (`spur controller status`).\n"
           "Then add SlurmctldHost=%s to the slurm.conf of the others and run `scontrol reconfigure`, so that commands and nodes know it.\n", j->token->name, j->token->cluster,
           j->token->name);
    return 0;
}

int cmd_join(int argc, char **argv)
{
    static const struct option options[] = { { "conf", required_argument, NULL, 'c' }, { "keys", required_argument, NULL, 'k' }, { "addr", required_argument, NULL, 'a' },
                                             { "name", required_argument, NULL, 'n' }, { "role", required_argument, NULL, 'r' }, { "help", no_argument, NULL, 'h' }, { 0 } };
    struct joining j = { .conf = SPUR_SYSCONFDIR, .keys = SPUR_SYSCONFDIR "/spur/keys" };
    struct spur_error err = { 0 };
    char line[16384] = "";
    int opt, rc;

    optind = 1;
    while ((opt = getopt_long(argc, argv, "h", options, NULL)) != -1)
        switch (opt) {
        case 'c': j.conf = optarg; break;
        case 'k': j.keys = optarg; break;
        case 'a': j.addr = optarg; break;
        case 'n': j.name = optarg; break;
        case 'r': j.role = optarg; break;
        case 'h': printf(usage_text, SPUR_SYSCONFDIR, SPUR_SYSCONFDIR); return 0;
        default: return 1;
        }
    if (optind + 1 != argc) {
        fprintf(stderr, usage_text, SPUR_SYSCONFDIR, SPUR_SYSCONFDIR);
        return 1;
    }
    arena_init(&j.arena, 0);
    if (!strcmp(argv[optind], "-")) {
        if (!fgets(line, sizeof line, stdin))
            line[0] = '\0';
        line[strcspn(line, "\r\n")] = '\0';
        argv[optind] = line;
    } else {
        /* What `ps` shows of us from now on is no secret. */
        snprintf(line, sizeof line, "%s", argv[optind]);
        memset(argv[optind], '*', strlen(argv[optind]));
        argv[optind] = line;
    }
    if ((rc = join(&j, line, &err)) < 0)
        fprintf(stderr, "spur join: %s\n", err.text);
    work_remove(&j);
    sodium_memzero(line, sizeof line);
    if (j.token)
        sodium_memzero(j.token->seed.data, j.token->seed.len);
    arena_fini(&j.arena);
    return rc < 0;
}
