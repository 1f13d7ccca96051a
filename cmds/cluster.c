/* SPDX-License-Identifier: Apache-2.0 */
/* cluster.c - `spur cluster init`: makes the keys of a cluster's hosts, one folder a host, ready to be copied.
 *
 *     DIR/hosts                 every public key, NAME ROLE PUBLIC; what a later run adds to
 *     DIR/NAME/host.key         NAME ROLE SEED, mode 0600
 *     DIR/NAME/hosts            a controller's names everybody, another host's the controllers
 *
 * The files are read by plugins/auth/sodium/keys.c, which has its own small reader: a plugin shares no code with us, only this form.
 * A host that has a key keeps it, so the command can be run again with a longer list. Called by `spur` and by the sandbox.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <sodium.h>

#include "base/hostlist.h"
#include "base/str.h"
#include "cmds/cluster.h"
#include "cmds/commands.h"

struct member { char *name; const char *role; char public_hex[65]; bool is_new; };
struct members { struct member *list; size_t count; };

static struct member *member_find(const struct members *m, const char *name, const char *role)
{
    for (size_t i = 0; i < m->count; i++)
        if (!strcmp(m->list[i].name, name) && !strcmp(m->list[i].role, role))
            return &m->list[i];
    return NULL;
}

static struct member *member_add(struct members *m, const char *name, const char *role)
{
    m->list = mem_grow(m->list, m->count + 1, sizeof *m->list);
    m->list[m->count] = (struct member){ .name = mem_copy(name), .role = role };
    return &m->list[m->count++];
}

static void members_free(struct members *m)
{
    for (size_t i = 0; i < m->count; i++)
        free(m->list[i].name);
    free(m->list);
}

/* Whole or not at all: a daemon may be reading the old one. */
static int put_file(const char *path, const struct str *text, mode_t mode, struct spur_error *err)
{
    char temporary[4200];
    int fd, rc = 0;

    snprintf(temporary, sizeof temporary, "%s.new", path);
    unlink(temporary);
    fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0 || fchmod(fd, mode) < 0 || write(fd, text->text, text->len) != (ssize_t)text->len || fsync(fd) < 0)
        rc = spur_fail(err, SPUR_EIO, "%s: %s", temporary, strerror(errno));
    if (fd >= 0)
        close(fd);
    if (rc == 0 && rename(temporary, path) < 0)
        rc = spur_fail(err, SPUR_EIO, "%s: %s", path, strerror(errno));
    if (rc < 0)
        unlink(temporary);
    return rc;
}

static int make_folder(const char *path, struct spur_error *err)
{
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
        return spur_fail(err, SPUR_EIO, "%s: %s", path, strerror(errno));
    return 0;
}

/* DIR/hosts of an earlier run; none is fine. */
static int read_hosts(const char *dir, struct members *m, struct spur_error *err)
{
    static const char *const roles[] = { "controller", "login", "compute" };
    char path[4096], line[512], name[64], role[16], key[65];
    unsigned number = 0;
    FILE *f;

    snprintf(path, sizeof path, "%s/hosts", dir);
    if (!(f = fopen(path, "re")))
        return errno == ENOENT ? 0 : spur_fail(err, SPUR_EIO, "%s: %s", path, strerror(errno));
    while (fgets(line, sizeof line, f)) {
        const char *known = NULL;

        number++;
        line[strcspn(line, "#\n")] = '\0';
        if (!*word_trim(line))
            continue;
        if (sscanf(line, "%63s %15s %64s", name, role, key) == 3)
            for (size_t i = 0; i < 3; i++)
                if (!strcmp(roles[i], role))
                    known = roles[i];
        if (!known || strlen(key) != 64) {
            fclose(f);
            return spur_fail(err, SPUR_ESYNTAX, "%s:%u: not NAME ROLE KEY", path, number);
        }
        strcpy(member_add(m, name, known)->public_hex, key);
    }
    fclose(f);
    return 0;
}

static int wish(struct members *m, const char *list, const char *role, struct spur_error *err)
{
    struct hostlist *h;
    const char *name;
    int rc;

    if (!list || !*list)
        return 0;
    if ((rc = hostlist_parse(list, &h, err)) < 0)
        return rc;
    for (size_t i = 0; rc == 0 && i < hostlist_count(h); i++) {
        name = hostlist_nth(h, i);
        if (strlen(name) > 63 || strpbrk(name, "/ \t#") || *name == '.')
            rc = spur_fail(err, SPUR_EINVAL, "'%.80s' cannot be the name of a host with a key", name);
        else if (!member_find(m, name, role))
            member_add(m, name, role)->is_new = true;
    }
    hostlist_destroy(h);
    return rc;
}

/* Appends to an existing host.key: one machine may be controller and compute host. */
static int make_key(const char *dir, struct member *m, struct spur_error *err)
{
    uint8_t seed[crypto_sign_SEEDBYTES], public_key[crypto_sign_PUBLICKEYBYTES], secret[crypto_sign_SECRETKEYBYTES];
    char path[4096], hex[65], old[4096];
    struct str text;
    FILE *f;
    size_t n;
    int rc;

    snprintf(path, sizeof path, "%s/%s", dir, m->name);
    if ((rc = make_folder(path, err)) < 0)
        return rc;
    randombytes_buf(seed, sizeof seed);
    crypto_sign_seed_keypair(public_key, secret, seed);
    sodium_bin2hex(m->public_hex, sizeof m->public_hex, public_key, sizeof public_key);
    sodium_bin2hex(hex, sizeof hex, seed, sizeof seed);
    snprintf(path, sizeof path, "%s/%s/host.key", dir, m->name);
    str_init(&text);
    if ((f = fopen(path, "re"))) {
        n = fread(old, 1, sizeof old, f);
        str_add_n(&text, old, n);
        fclose(f);
    } else {
        str_add(&text, "# The secret key of this host. Mode 0600; never on another host, never in a backup that others read.\n");
    }
    str_addf(&text, "%s %s %s\n", m->name, m->role, hex);
    rc = put_file(path, &text, 0600, err);
    sodium_memzero(text.text, text.len);
    sodium_memzero(old, sizeof old);
    str_fini(&text);
    sodium_memzero(seed, sizeof seed);
    sodium_memzero(secret, sizeof secret);
    sodium_memzero(hex, sizeof hex);
    return rc;
}

static bool is_controller(const struct members *m, const char *name)
{
    return member_find(m, name, "controller") != NULL;
}

static int write_hosts(const char *dir, const struct members *m, struct spur_error *err)
{
    struct str all, controllers;
    char path[4096];
    int rc;

    str_init(&all);
    str_init(&controllers);
    str_add(&all, "# Public keys of this cluster's hosts: NAME ROLE KEY. A host in rotation has two lines.\n");
    str_add(&controllers, all.text);
    for (size_t i = 0; i < m->count; i++) {
        str_addf(&all, "%s %s %s\n", m->list[i].name, m->list[i].role, m->list[i].public_hex);
        if (!strcmp(m->list[i].role, "controller"))
            str_addf(&controllers, "%s %s %s\n", m->list[i].name, m->list[i].role, m->list[i].public_hex);
    }
    for (size_t i = 0; i < m->count; i++) {
        struct stat st;

        snprintf(path, sizeof path, "%s/%s", dir, m->list[i].name);
        if (stat(path, &st) < 0)        /* its folder has gone to its host and was removed here */
            continue;
        snprintf(path, sizeof path, "%s/%s/hosts", dir, m->list[i].name);
        if ((rc = put_file(path, is_controller(m, m->list[i].name) ? &all : &controllers, 0644, err)) < 0)
            goto out;
    }
    snprintf(path, sizeof path, "%s/hosts", dir);
    rc = put_file(path, &all, 0644, err);
out:
    str_fini(&all);
    str_fini(&controllers);
    return rc;
}

static int keys_make(const char *dir, const char *controllers, const char *logins, const char *nodes, struct members *m, struct spur_error *err)
{
    int rc;

    if (sodium_init() < 0)
        return spur_fail(err, SPUR_EIO, "no random numbers to be had here");
    if ((rc = make_folder(dir, err)) < 0 || (rc = read_hosts(dir, m, err)) < 0 || (rc = wish(m, controllers, "controller", err)) < 0 ||
        (rc = wish(m, logins, "login", err)) < 0 || (rc = wish(m, nodes, "compute", err)) < 0)
        return rc;
    for (size_t i = 0; i < m->count; i++)
        if (m->list[i].is_new && (rc = make_key(dir, &m->list[i], err)) < 0)
            return rc;
    return write_hosts(dir, m, err);
}

int cluster_keys_make(const char *dir, const char *controllers, const char *nodes, struct spur_error *err)
{
    struct members m = { 0 };
    int rc = keys_make(dir, controllers, NULL, nodes, &m, err);

    members_free(&m);
    return rc;
}

/* ---- the command ---------------------------------------------------------------------------------------------------------- */

static int usage(FILE *out)
{
    fprintf(out, "Usage: spur cluster init --controllers LIST [--nodes LIST] [--logins LIST] [--dir D]\n\n"
                 "Makes a key for each host, in D/NAME/ (default D: ./spur-keys). Hosts that have one keep it, so a longer list adds hosts.\n"
                 "Copy D/NAME/ to %s/spur/keys/ of host NAME, owned by root, host.key with mode 0600; then the folder can go from here.\n"
                 "After hosts were added, copy the new `hosts` file to the controllers; they see it without a restart.\n", SPUR_SYSCONFDIR);
    return out == stdout ? 0 : 1;
}

int cmd_cluster(int argc, char **argv)
{
    static const struct option options[] = {
        { "controllers", required_argument, NULL, 'c' }, { "nodes", required_argument, NULL, 'n' }, { "logins", required_argument, NULL, 'l' },
        { "dir", required_argument, NULL, 'd' }, { "help", no_argument, NULL, 'h' }, { 0 } };
    const char *controllers = NULL, *nodes = NULL, *logins = NULL, *dir = "spur-keys";
    struct members m = { 0 };
    struct spur_error err;
    size_t made = 0;
    int opt, rc;

    if (argc >= 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")))
        return usage(stdout);
    if (argc < 2 || strcmp(argv[1], "init") != 0) {
        if (argc >= 2)
            fprintf(stderr, "spur cluster: no command named %s\n", argv[1]);
        return usage(stderr);
    }
    argc--;
    argv++;
    optind = 1;
    while ((opt = getopt_long(argc, argv, "h", options, NULL)) != -1)
        switch (opt) {
        case 'c': controllers = optarg; break;
        case 'n': nodes = optarg; break;
        case 'l': logins = optarg; break;
        case 'd': dir = optarg; break;
        case 'h': return usage(stdout);
        default: return 1;
        }
    if (optind < argc) {
        fprintf(stderr, "spur cluster init: '%s' is not an option; host lists follow --controllers, --nodes, --logins\n", argv[optind]);
        return 1;
    }
    if (!controllers && !logins && !nodes) {
        fprintf(stderr, "spur cluster init: which hosts? --controllers, and --nodes or --logins, take lists such as adm or n[01-36]\n");
        return 1;
    }
    rc = keys_make(dir, controllers, logins, nodes, &m, &err);
    if (rc == 0) {
        size_t n = 0;

        for (size_t i = 0; i < m.count; i++) {
            n += !strcmp(m.list[i].role, "controller");
            made += m.list[i].is_new;
        }
        if (n == 0)
            fprintf(stderr, "spur cluster init: no controller has a key yet: a cluster needs one (--controllers)\n");
        printf("%zu keys made in %s, %zu hosts in all, %zu of them controllers\n", made, dir, m.count, n);
        if (made)
            printf("Next: copy %s/NAME/ to %s/spur/keys/ of each host NAME (owner root), and %s/NAME/hosts to controllers that run already.\n", dir, SPUR_SYSCONFDIR, dir);
        rc = n ? 0 : 1;
    } else {
        fprintf(stderr, "spur cluster init: %s\n", err.text);
        rc = 1;
    }
    members_free(&m);
    return rc;
}
