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
#include "base/str.h"
#include "client/dialog.h"
#include "client/prove.h"
#include "cmds/commands.h"
#include "wire/unpack.h"

#define TOKEN_PREFIX "spur-join-1."
#define DIAL_MS 3000
#define ANSWER_MS 15000

static const char usage_text[] =
    "Usage: spur join [--conf DIR] [--keys DIR] [--addr ADDR] TOKEN\n"
    "\n"
    "Makes this host a member of the cluster whose controller printed TOKEN (`spur controller add NAME`), then start its spurctld.\n"
    "\n"
    "  --conf DIR   where slurm.conf goes [%s]\n"
    "  --keys DIR   where this host's key goes [%s/spur/keys]\n"
    "  --addr ADDR  where the other controllers reach this one, when `spur controller add` did not say it: host or host:port\n";

struct joining { const char *conf, *keys, *addr; char work[64]; struct arena arena; Wire__JoinToken *token; uint8_t seed[32], public_key[32]; };

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
        return spur_fail(err, SPUR_EINVAL, "the token is damaged, or of a newer version: copy it whole, or make another with `spur controller add`");
    if (!j->addr)
        j->addr = j->token->addr;
    if (strcmp(j->token->role, "controller") != 0)
        return spur_fail(err, SPUR_EUNSUPPORTED, "the token is for a %.20s host, which this version cannot join", j->token->role);
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
    str_addf(&text, "%s login %s\n", j->token->name, hex);
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
static const char *own_role(void *ctx) { (void)ctx; return "logind"; }
static const char *no_folder(void *ctx) { (void)ctx; return ""; }

static int ask(struct joining *j, Wire__JoinReply **out, struct spur_error *err)
{
    struct spur_host host = { .size = sizeof host, .ctx = j, .host_name = own_name, .role = own_role, .state_dir = no_folder };
    Wire__JoinRequest q = WIRE__JOIN_REQUEST__INIT;
    struct config_hint hint;
    struct prover *p = NULL;
    struct dialog_auth auth;
    char path[200], next[160] = "";
    struct frame f;
    const uint8_t *body;
    int rc;

    snprintf(path, sizeof path, "%s/slurm.conf", j->work);
    if ((rc = config_hint_read(path, &hint, err)) < 0 || (rc = prover_open(&hint, &host, &p, err)) < 0)
        return rc;
    auth = prover_auth(p);
    q.name = j->token->name;
    q.role = j->token->role;
    q.public_key.data = j->public_key;
    q.public_key.len = sizeof j->public_key;
    q.addr = (char *)(uintptr_t)j->addr;
    rc = SPUR_ECLOSED;
    for (size_t i = 0, hops = 0; rc < 0 && (i < j->token->n_controllers || *next) && hops < 8; hops++) {
        struct dialog d = DIALOG_INIT;
        Wire__Refusal *no;
        char to[160];

        snprintf(to, sizeof to, "%s", *next ? next : j->token->controllers[i++]);
        *next = '\0';
        if ((rc = dialog_tcp(&d, to, hint.port, hint.cluster, &auth, DIAL_MS, err)) < 0)
            continue;
        dialog_timeout(&d, ANSWER_MS);
        if ((rc = dialog_send(&d, WIRE__MESSAGE_TYPE__JOIN, &q.base, err)) == 0 && (rc = dialog_next(&d, &f, &body, err)) > 0) {
            if (f.type == WIRE__MESSAGE_TYPE__JOINED && (*out = wire_unpack(&wire__join_reply__descriptor, body, f.length, &j->arena))) {
                rc = 0;
            } else if (f.type == WIRE__MESSAGE_TYPE__REFUSED && (no = wire_unpack(&wire__refusal__descriptor, body, f.length, &j->arena))) {
                rc = spur_fail(err, no->code < 0 ? no->code : SPUR_EDENIED, "%s: %s", to, no->text);
                if (no->code == SPUR_ENOTLEADER && no->leader_addr)
                    snprintf(next, sizeof next, "%.*s", (int)strcspn(no->leader_addr, ":"), no->leader_addr);
                else if (no->code != SPUR_ENOTLEADER)
                    i = j->token->n_controllers;
            } else {
                rc = spur_fail(err, SPUR_ECORRUPT, "%s: an answer that cannot be read", to);
            }
        }
        dialog_close(&d);
    }
    prover_close(p);
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
    str_addf(&slurm, "SlurmctldHost=%s", j->token->name);
    if (j->addr)
        str_addf(&slurm, "(%.*s)", (int)strcspn(j->addr, ":"), j->addr);
    str_add(&slurm, "\n");
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
    str_addf(&key, "# The secret key of this host. Mode 0600; never on another host, never in a backup that others read.\n%s controller %s\n", j->token->name, hex);
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
    printf("%s is a controller of cluster %s now. Start its spurctld: it learns what there is, then it votes (`spur controller status`).\n"
           "Then add SlurmctldHost=%s to the slurm.conf of the others and run `scontrol reconfigure`, so that commands and nodes know it.\n", j->token->name, j->token->cluster,
           j->token->name);
    return 0;
}

int cmd_join(int argc, char **argv)
{
    static const struct option options[] = { { "conf", required_argument, NULL, 'c' }, { "keys", required_argument, NULL, 'k' }, { "addr", required_argument, NULL, 'a' },
                                             { "help", no_argument, NULL, 'h' }, { 0 } };
    struct joining j = { .conf = SPUR_SYSCONFDIR, .keys = SPUR_SYSCONFDIR "/spur/keys" };
    struct spur_error err = { 0 };
    int opt, rc;

    optind = 1;
    while ((opt = getopt_long(argc, argv, "h", options, NULL)) != -1)
        switch (opt) {
        case 'c': j.conf = optarg; break;
        case 'k': j.keys = optarg; break;
        case 'a': j.addr = optarg; break;
        case 'h': printf(usage_text, SPUR_SYSCONFDIR, SPUR_SYSCONFDIR); return 0;
        default: return 1;
        }
    if (optind + 1 != argc) {
        fprintf(stderr, usage_text, SPUR_SYSCONFDIR, SPUR_SYSCONFDIR);
        return 1;
    }
    arena_init(&j.arena, 0);
    if ((rc = join(&j, argv[optind], &err)) < 0)
        fprintf(stderr, "spur join: %s\n", err.text);
    work_remove(&j);
    if (j.token)
        sodium_memzero(j.token->seed.data, j.token->seed.len);
    arena_fini(&j.arena);
    return rc < 0;
}
