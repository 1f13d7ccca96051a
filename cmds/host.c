/* SPDX-License-Identifier: Apache-2.0 */
/* host.c - `spur host`: the keys of the cluster's hosts, shown, ended, replaced.
 *
 * `rotate` runs on the host whose key it is: makes a key, has the cluster believe it beside the old one, puts it into host.key, proves itself with it, and
 * has the cluster forget the old one. Whatever stops it half way leaves a host that works: both keys are good until the last step. Daemons read
 * host.key again when it changes, so none is restarted, and no connection ends.
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
#include "client/client.h"
#include "client/hostcall.h"
#include "cmds/commands.h"
#include "cmds/common/ask.h"
#include "cmds/common/json.h"

static const char usage_text[] =
    "Usage: spur host list [--json]\n"
    "       spur host revoke NAME\n"
    "       spur host rotate [--role controller|login|compute]\n"
    "\n"
    "  list     every key that is believed, every token that is out, what was revoked or replaced\n"
    "  revoke   NAME is no host of this cluster any more: its keys and tokens are good for nothing, its connections end, its node goes DOWN\n"
    "  rotate   on the host itself: a new key, without a stop. --role, where one machine plays several\n"
    "\n"
    "A host that was revoked may join again with a new key: `spur token create`. Exit status: 0 done, 1 not.\n";

/* ---- list, revoke --------------------------------------------------------------------------------------------------------- */

static const char *key_short(const Wire__HostRow *r, char out[17])
{
    strcpy(out, "-");
    for (size_t i = 0; r->has_key && i < 8 && i < r->key.len; i++)
        snprintf(out + 2 * i, 3, "%02x", r->key.data[i]);
    return out;
}

static int list(bool json)
{
    Wire__Empty q = WIRE__EMPTY__INIT;
    const Wire__HostsReply *m;
    struct json_writer *w = NULL;
    struct arena a;
    char key[17];
    void *reply;
    int rc;

    arena_init(&a, 0);
    rc = ask_once("spur host", WIRE__MESSAGE_TYPE__HOSTS, &q.base, WIRE__MESSAGE_TYPE__HOSTS_LIST, &wire__hosts_reply__descriptor, &a, &reply);
    if (rc == 0) {
        m = reply;
        if (json)
            w = json_begin("host", "hosts");
        else
            printf("%-24s %-12s %-8s %-17s %-10s %s\n", "HOST", "ROLE", "STATE", "KEY", "CONNECTED", "FROM");
        for (size_t i = 0; i < m->n_rows; i++) {
            const Wire__HostRow *r = m->rows[i];

            if (!strcmp(r->state, "untoken"))       /* users' tokens: `spur token list` */
                continue;
            if (w) {
                json_open(w, NULL, '{');
                json_text(w, "name", r->name);
                json_text(w, "role", r->role);
                json_text(w, "state", r->state);
                json_text(w, "key", key_short(r, key));
                json_bool(w, "connected", r->connected);
                json_text(w, "from", r->from_file ? "file" : "token");
                json_close(w);
            } else {
                printf("%-24s %-12s %-8s %-17s %-10s %s\n", r->name, r->role, r->state, key_short(r, key), r->connected ? "yes" : "-",
                       strcmp(r->state, "valid") ? "-" : r->from_file ? "hosts file" : "token");
            }
        }
        if (w)
            json_end(w);
    }
    arena_fini(&a);
    return rc != 0;
}

static int host_revoke(char *name)
{
    Wire__HostChangeRequest q = WIRE__HOST_CHANGE_REQUEST__INIT;
    struct arena a;
    void *reply;
    int rc;

    q.verb = WIRE__HOST_CHANGE_REQUEST__VERB__REVOKE;
    q.name = name;
    arena_init(&a, 0);
    rc = ask_once("spur host", WIRE__MESSAGE_TYPE__HOST_CHANGE, &q.base, WIRE__MESSAGE_TYPE__DONE, &wire__done_reply__descriptor, &a, &reply);
    if (rc == 0)
        printf("%s is revoked\n", name);
    arena_fini(&a);
    return rc != 0;
}

/* ---- rotate --------------------------------------------------------------------------------------------------------------- */

struct turning { char path[600], name[64], role[16]; uint8_t public_key[32]; };

static const char *own_name(void *ctx) { return ((struct turning *)ctx)->name; }
static const char *own_role(void *ctx)
{
    const struct turning *t = ctx;

    return !strcmp(t->role, "controller") ? "controller" : !strcmp(t->role, "login") ? "logind" : "agent";
}
static const char *no_folder(void *ctx) { (void)ctx; return ""; }

/* Where the daemons look for the key: key_dir of auth/sodium. */
static int key_file(const struct config_hint *hint, struct turning *t, struct spur_error *err)
{
    const char *section, *at;
    char dir[400] = SPUR_SYSCONFDIR "/spur/keys";
    struct config *cfg = NULL;

    if (strcmp(hint->auth, "auth/sodium") != 0)
        return spur_fail(err, SPUR_EUNSUPPORTED, "AuthType is %s: there are no keys of hosts", hint->auth);
    if (config_load(hint->path, true, &cfg, err) < 0)
        return err->code;
    section = config_spur_section(cfg, "auth/sodium", NULL);
    if (section && (at = strstr(section, "key_dir")) && (at = strchr(at, '"')))
        snprintf(dir, sizeof dir, "%.*s", (int)strcspn(at + 1, "\"\n"), at + 1);
    config_free(cfg);
    snprintf(t->path, sizeof t->path, "%s/host.key", dir);
    return 0;
}

/* The file with the line of this role made anew; the other lines stay. `text` is wiped by the caller. */
static int file_turn(struct turning *t, const char *role, struct str *text, struct spur_error *err)
{
    char line[512], word[3][96], hex[65];
    uint8_t seed[32], secret[crypto_sign_SECRETKEYBYTES];
    unsigned found = 0;
    struct stat st;
    FILE *f = fopen(t->path, "re");

    if (!f || fstat(fileno(f), &st) < 0) {
        if (f)
            fclose(f);
        return spur_fail(err, SPUR_EIO, "%s: %s%s", t->path, strerror(errno), errno == ENOENT ? ": this host has no key; `spur join TOKEN` gets one" : "");
    }
    if (st.st_mode & 077) {
        fclose(f);
        return spur_fail(err, SPUR_EDENIED, "%s has mode %04o: others can reach a secret key: chmod 0600 it", t->path, (unsigned)st.st_mode & 07777);
    }
    while (fgets(line, sizeof line, f)) {
        if (*line == '#' || sscanf(line, "%95s %95s %95s", word[0], word[1], word[2]) != 3 || (role && strcmp(word[1], role) != 0)) {
            str_add(text, line);
            continue;
        }
        found++;
        snprintf(t->name, sizeof t->name, "%.63s", word[0]);
        snprintf(t->role, sizeof t->role, "%.15s", word[1]);
        randombytes_buf(seed, sizeof seed);
        crypto_sign_seed_keypair(t->public_key, secret, seed);
        sodium_bin2hex(hex, sizeof hex, seed, sizeof seed);
        str_addf(text, "%s %s %s\n", word[0], word[1], hex);
    }
    fclose(f);
    sodium_memzero(line, sizeof line);
    sodium_memzero(word, sizeof word);
    sodium_memzero(seed, sizeof seed);
    sodium_memzero(secret, sizeof secret);
    sodium_memzero(hex, sizeof hex);
    if (found == 1)
        return 0;
    return spur_fail(err, SPUR_EINVAL, found ? "%s has %u keys: --role says which" : "%s has no such key (%u)", t->path, found);
}

static int file_put(const char *path, const struct str *text, struct spur_error *err)
{
    char fresh[640];
    struct stat st;
    int fd, rc = 0;

    snprintf(fresh, sizeof fresh, "%s.new", path);
    unlink(fresh);
    fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || fchmod(fd, 0600) < 0 || (stat(path, &st) == 0 && st.st_uid != geteuid() && fchown(fd, st.st_uid, st.st_gid) < 0) ||
        write(fd, text->text, text->len) != (ssize_t)text->len || fsync(fd) < 0 || rename(fresh, path) < 0)
        rc = spur_fail(err, SPUR_EIO, "%s: %s", fresh, strerror(errno));
    if (fd >= 0)
        close(fd);
    if (rc < 0)
        unlink(fresh);
    return rc;
}

static int rotate(const char *role)
{
    struct turning t = { .path = "" };
    struct spur_host host = { .size = sizeof host, .ctx = &t, .host_name = own_name, .role = own_role, .state_dir = no_folder };
    Wire__HostKeyRequest q = WIRE__HOST_KEY_REQUEST__INIT;
    struct config_hint hint;
    struct spur_error err = { 0 };
    struct str text;
    struct arena a;
    void *reply;
    int rc;

    str_init(&text);
    arena_init(&a, 0);
    if (sodium_init() < 0)
        rc = spur_fail(&err, SPUR_EIO, "no random numbers to be had here");
    else if ((rc = config_hint_read(NULL, &hint, &err)) == 0 && (rc = key_file(&hint, &t, &err)) == 0 && (rc = file_turn(&t, role, &text, &err)) == 0) {
        q.public_key.data = t.public_key;
        q.public_key.len = sizeof t.public_key;
        rc = host_call(&hint, &host, WIRE__MESSAGE_TYPE__HOST_KEY, &q.base, WIRE__MESSAGE_TYPE__DONE, &wire__done_reply__descriptor, &a, &reply, &err);
    }
    if (rc == 0 && (rc = file_put(t.path, &text, &err)) == 0) {
        q.has_alone = q.alone = 1;
        rc = host_call(&hint, &host, WIRE__MESSAGE_TYPE__HOST_KEY, &q.base, WIRE__MESSAGE_TYPE__DONE, &wire__done_reply__descriptor, &a, &reply, &err);
        if (rc < 0)
            spur_context(&err, "the new key is in use, but the old one is good still (run this again)");
    }
    if (text.text)
        sodium_memzero(text.text, text.len);
    str_fini(&text);
    arena_fini(&a);
    if (rc < 0)
        fprintf(stderr, "spur host rotate: %s\n", err.text);
    else
        printf("%s host %s has a new key; the old one is good for nothing\n", t.role, t.name);
    return rc < 0;
}

int cmd_host(int argc, char **argv)
{
    static const struct option options[] = { { "json", no_argument, NULL, 'j' }, { "role", required_argument, NULL, 'r' }, { "help", no_argument, NULL, 'h' }, { 0 } };
    const char *role = NULL, *verb;
    bool json = false;
    int opt;

    optind = 1;
    while ((opt = getopt_long(argc, argv, "h", options, NULL)) != -1)
        switch (opt) {
        case 'j': json = true; break;
        case 'r': role = optarg; break;
        case 'h': fputs(usage_text, stdout); return 0;
        default: return 1;
        }
    verb = optind < argc ? argv[optind] : "";
    if (!strcmp(verb, "list") && optind + 1 == argc)
        return list(json);
    if (!strcmp(verb, "revoke") && optind + 2 == argc)
        return host_revoke(argv[optind + 1]);
    if (!strcmp(verb, "rotate") && optind + 1 == argc)
        return rotate(role);
    fputs(usage_text, stderr);
    return 1;
}
