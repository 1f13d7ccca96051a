/* SPDX-License-Identifier: Apache-2.0 */
/* route.c - the row of controllers that can be asked: local sockets in run_dir, then the TCP addresses of slurm.conf, then who was named to us.
 *
 * One controller: run_dir/ctl.sock is tried before anything is looked up, for that is the usual way and every system call of squeue counts. A
 * group has sockets ctl-NAME.sock, on a controller's host its own one, in a sandbox all of them. TCP time-outs are short in the first
 * round of a group and double with each: a controller whose host is off must not keep anybody from the others.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "client/route.h"

#define CALL_MS 10000
#define CONNECT_MS 2500             /* one controller */
#define CONNECT_FIRST_MS 300        /* the same in the first round of a group */
#define SOCKS_MAX 16

int route_open(struct route *r, const char *conf_path, struct spur_error *err)
{
    memset(r, 0, sizeof *r);
    return config_hint_read(conf_path, &r->hint, err);
}

void route_close(struct route *r)
{
    prover_close(r->prover);
    for (unsigned i = 0; i < r->count; i++) {
        free(r->targets[i].path);
        free(r->targets[i].addr);
    }
    r->count = 0;
    r->prover = NULL;
}

static struct target *add(struct route *r, const char *name, char *take_path, const char *addr, uint16_t port)
{
    struct target *t;

    if (r->count == ROUTE_TARGETS_MAX) {
        free(take_path);
        return NULL;
    }
    t = &r->targets[r->count++];
    memset(t, 0, sizeof *t);
    snprintf(t->name, sizeof t->name, "%.63s", name);
    t->path = take_path;
    t->addr = addr ? mem_copy(addr) : NULL;
    t->port = port;
    return t;
}

/* With a token of its own a command is somebody by it, not by the kernel's word. */
static void add_sock(struct route *r, const char *file)
{
    if (prover_token())
        return;

    struct str path;
    size_t n = strlen(file);
    char name[64] = "";

    if (n > 9 && file[3] == '-')
        snprintf(name, sizeof name, "%.*s", (int)(n - 9 < 63 ? n - 9 : 63), file + 4);
    str_init(&path);
    str_addf(&path, "%s/%s", r->hint.run_dir, file);
    add(r, name, str_take(&path), NULL, 0);
}

/* A group's have their controllers' names: three look-ups are cheaper than a folder's listing. */
static void add_named_socks(struct route *r)
{
    for (size_t i = 0; !prover_token() && i < r->hint.controller_count; i++) {
        struct str path;

        str_init(&path);
        str_addf(&path, "%s/ctl-%s.sock", r->hint.run_dir, r->hint.controllers[i].host);
        if (access(path.text, F_OK) == 0)
            add(r, r->hint.controllers[i].host, str_take(&path), NULL, 0);
        str_fini(&path);
    }
}

static void add_socks(struct route *r)
{
    DIR *d = opendir(r->hint.run_dir);
    struct dirent *e;
    unsigned socks = 0;

    while (d && (e = readdir(d)) && socks < SOCKS_MAX) {
        size_t n = strlen(e->d_name);

        if (strncmp(e->d_name, "ctl", 3) != 0 || n < 8 || strcmp(e->d_name + n - 5, ".sock") != 0 || (n == 8 && r->count))
            continue;
        add_sock(r, e->d_name);
        socks++;
    }
    if (d)
        closedir(d);
}

/* All but ctl.sock, which stands first already where there is one controller. */
static void complete(struct route *r)
{
    if (r->has_all)
        return;
    r->has_all = true;
    if (route_is_group(r))
        add_named_socks(r);
    else
        add_socks(r);
    for (size_t i = 0; i < r->hint.controller_count; i++)
        add(r, r->hint.controllers[i].host, NULL, *r->hint.controllers[i].addr ? r->hint.controllers[i].addr : r->hint.controllers[i].host, r->hint.port);
}

static void begin(struct route *r)
{
    if (r->count || r->has_all)
        return;
    if (route_is_group(r))
        complete(r);
    else
        add_sock(r, "ctl.sock");
}

void route_prefer(struct route *r, bool for_leader)
{
    begin(r);
    if (!route_is_group(r))
        return;
    if (!r->has_remembered) {
        r->has_remembered = true;
        remember_read(&r->hint, &r->remembered);
    }
    if (for_leader || !r->count || !r->targets[0].path) {
        if (*r->remembered.leader && strcmp(r->remembered.leader, "-") != 0)
            route_to(r, r->remembered.leader, NULL);
    } else {
        unsigned socks = 0;

        while (socks < r->count && r->targets[socks].path)
            socks++;
        r->at = socks > 1 ? (unsigned)getpid() % socks : 0;     /* where there are several, the readers share them */
    }
}

static unsigned time_for(const struct route *r)
{
    unsigned ms = route_is_group(r) ? CONNECT_FIRST_MS : CONNECT_MS;

    for (unsigned i = 0; i < r->round && ms < CONNECT_MS; i++)
        ms *= 2;
    return ms < CONNECT_MS ? ms : CONNECT_MS;
}

static int dial(struct route *r, const struct target *t, struct dialog *d, unsigned timeout_ms, struct spur_error *err)
{
    struct dialog_auth auth;
    int rc;

    if (t->path)
        return dialog_local(d, t->path, route_is_group(r) ? ROUTE_HEDGE_MS : CALL_MS, err);
    if (!r->prover && (rc = prover_open(&r->hint, NULL, &r->prover, err)) < 0) {
        if (access(r->hint.run_dir, F_OK) < 0)      /* where there is the folder of the sockets, a daemon is meant to be: it is down */
            r->refused = *err;
        return rc;
    }
    auth = prover_auth(r->prover);
    rc = dialog_tcp(d, t->addr, t->port, r->hint.cluster, &auth, timeout_ms, err);
    if (rc == SPUR_EAUTH || rc == SPUR_EUNSUPPORTED)
        r->refused = *err;
    if (rc == 0)
        dialog_timeout(d, CALL_MS);
    return rc;
}

int route_dial(struct route *r, struct dialog *d, struct spur_error *err)
{
    struct spur_error own;

    begin(r);
    if (r->at >= r->count)
        complete(r);
    if (r->at >= r->count)
        return spur_fail(err, SPUR_ENOTFOUND, "%s names no controller (SlurmctldHost)", r->hint.path);
    return dial(r, &r->targets[r->at], d, time_for(r), err ? err : &own);
}

int route_dial_to(struct route *r, size_t i, struct dialog *d, unsigned timeout_ms, struct spur_error *err)
{
    struct target plain = { .path = NULL };
    const char *name = r->hint.controllers[i].host;
    int rc = SPUR_ENOTFOUND;

    complete(r);
    if (!route_is_group(r) && r->count && r->targets[0].path)      /* ctl.sock is his */
        rc = dial(r, &r->targets[0], d, timeout_ms, err);
    for (unsigned k = 0; k < r->count && rc < 0; k++)
        if (r->targets[k].path && word_eq(r->targets[k].name, name))
            rc = dial(r, &r->targets[k], d, timeout_ms, err);
    if (rc == 0)
        return 0;
    snprintf(plain.name, sizeof plain.name, "%.63s", name);
    plain.addr = *r->hint.controllers[i].addr ? r->hint.controllers[i].addr : r->hint.controllers[i].host;
    plain.port = r->hint.port;
    return dial(r, &plain, d, timeout_ms, err);
}

bool route_next(struct route *r)
{
    if (++r->at < r->count)
        return false;
    if (!r->has_all) {
        complete(r);
        if (r->at < r->count)
            return false;
    }
    r->at = 0;
    r->round++;
    return true;
}

bool route_to(struct route *r, const char *name, const char *addr)
{
    char host[160];
    char *colon;
    uint32_t port = r->hint.port;

    complete(r);
    for (unsigned i = 0; i < r->count; i++)
        if (word_eq(r->targets[i].name, name)) {
            r->at = i;
            return true;
        }
    if (!addr || !*addr || strlen(addr) >= sizeof host)
        return false;
    snprintf(host, sizeof host, "%s", addr);
    if ((colon = strrchr(host, ':')) && (host[0] == '[' || strchr(host, ':') == colon)) {
        if (!number_u32(colon + 1, &port) || port == 0 || port > 65535)
            return false;
        *colon = '\0';
    }
    if (host[0] == '[') {
        host[strcspn(host, "]")] = '\0';
        memmove(host, host + 1, strlen(host));
    }
    if (!add(r, name, NULL, host, (uint16_t)port))
        return false;
    r->at = r->count - 1;
    return true;
}

const char *route_name(const struct route *r)
{
    return r->at < r->count ? r->targets[r->at].name : "";
}
