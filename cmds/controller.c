/* SPDX-License-Identifier: Apache-2.0 */
/* controller.c - `spur controller`: the group of controllers, looked at and changed.
 *
 * `status` asks each controller of slurm.conf what it says of itself, beside each other and shortly, so that one that is down costs a second at most, and
 * shows what the leader knows of those that do not answer. The changes go to the leader and are over when this command ends: it looks until the group
 * has come to what was asked for, or the store says why not. Only `promote --force` is for one controller alone: there is no leader then.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "client/client.h"
#include "cmds/commands.h"
#include "cmds/common/json.h"

#define CHANGE_MS 30000             /* how long a change is looked at */

static const char usage_text[] =
    "Usage: spur controller status [--json]\n"
    "       spur controller add NAME[=ADDR]\n"
    "       spur controller remove NAME\n"
    "       spur controller transfer [NAME]\n"
    "       spur controller promote [NAME] --force\n"
    "\n"
    "  status      who leads, who votes, how far each is and how fast its disk is; exit status 1 when nobody leads\n"
    "  add         a further controller. Where its key is known and its spurctld runs, it learns what there is, then it votes. Else a token is\n"
    "              printed, for `spur join` on that host. ADDR: host or host:port, where it is not what NAME means\n"
    "  remove      a controller leaves the group; what the others hold is not touched\n"
    "  transfer    another one leads: NAME, else the one that is furthest\n"
    "  promote     when most controllers are lost for good: NAME alone (else the one of this host) is the group from now on. What only the lost ones had\n"
    "              is given up, hence --force\n"
    "\n"
    "Exit status: 0 done, 1 not.\n";

struct row { const char *name, *addr, *role, *version, *leader; bool voter, answers, is_installing, has_level; uint64_t term, index, lag; uint32_t p50, p99, level, age_ms; };
struct group { struct row rows[16]; size_t count; const Wire__MembersReply *lead, *any; struct arena arena; };

static void rest_ms(unsigned ms)
{
    struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };

    nanosleep(&t, NULL);
}

static struct row *row_of(struct group *g, const char *name)
{
    for (size_t i = 0; i < g->count; i++)
        if (word_eq(g->rows[i].name, name))
            return &g->rows[i];
    if (g->count == sizeof g->rows / sizeof *g->rows)
        return NULL;
    memset(&g->rows[g->count], 0, sizeof *g->rows);
    g->rows[g->count].name = name;
    return &g->rows[g->count++];
}

static void row_own(struct group *g, const char *line, const Wire__MembersReply *m)
{
    struct row *r = row_of(g, line);

    if (!r)
        return;
    r->answers = true;
    r->role = m->role;
    r->version = m->version;
    r->leader = m->leader;
    r->term = m->term;
    r->index = m->index;
    r->p50 = m->flush_p50_us;
    r->p99 = m->flush_p99_us;
    r->level = m->level;
    r->has_level = true;
    r->age_ms = m->age_ms;
}

/* What a member's table says of the others. The leader's is the one that counts. */
static void rows_of_table(struct group *g, const Wire__MembersReply *m)
{
    for (size_t i = 0; m && i < m->n_members; i++) {
        const Wire__MemberInfo *info = m->members[i];
        struct row *r = row_of(g, info->name);

        if (!r)
            continue;
        r->voter = info->voter;
        r->addr = info->addr;
        r->is_installing = info->is_installing;
        if (info->has_lag)
            r->lag = info->lag;
        if (!r->answers) {
            r->role = info->reachable ? info->role : "unreachable";
            r->index = info->index;
            r->p50 = info->flush_p50_us;
            r->p99 = info->flush_p99_us;
            r->level = info->level;
            r->has_level = info->level != 0;
        }
    }
}

/* 0: somebody answered. */
static int group_load(struct client *c, struct group *g, struct spur_error *err)
{
    const struct config_hint *hint = client_hint(c);
    Wire__Empty q = WIRE__EMPTY__INIT;
    struct spur_error one = { 0 };
    void *reply;

    memset(g, 0, sizeof *g);
    arena_init(&g->arena, 0);
    spur_fail(err, SPUR_ECLOSED, "Unable to contact slurm controller (connect failure)");
    for (size_t i = 0; i < hint->controller_count; i++) {
        const Wire__MembersReply *m;

        if (client_call_one(c, i, WIRE__MESSAGE_TYPE__MEMBERS, &q.base, WIRE__MESSAGE_TYPE__MEMBERS_LIST, &wire__members_reply__descriptor, &g->arena, &reply, &one) < 0) {
            struct row *r = row_of(g, hint->controllers[i].host);

            if (r && !r->role)
                r->role = one.code == SPUR_EAUTH || one.code == SPUR_EDENIED ? "refuses" : "down";
            if (one.code == SPUR_EAUTH || one.code == SPUR_EDENIED)
                *err = one;
            continue;
        }
        m = reply;
        row_own(g, hint->controllers[i].host, m);
        if (!g->lead && m->role && !strcmp(m->role, "leader"))
            g->lead = m;
        if (!g->any || m->fence > g->any->fence)
            g->any = m;
    }
    if (!g->lead && g->any && g->any->leader && *g->any->leader) {      /* he is in no file here: asked where the others say */
        if (client_call_named(c, g->any->leader, g->any->leader_addr, WIRE__MESSAGE_TYPE__MEMBERS, &q.base, WIRE__MESSAGE_TYPE__MEMBERS_LIST, &wire__members_reply__descriptor,
                              &g->arena, &reply, &one) == 0 &&
            ((Wire__MembersReply *)reply)->role && !strcmp(((Wire__MembersReply *)reply)->role, "leader")) {
            g->lead = reply;
            row_own(g, g->lead->name, g->lead);
        }
    }
    rows_of_table(g, g->lead ? g->lead : g->any);
    return g->any ? 0 : err->code;
}

static void group_fini(struct group *g) { arena_fini(&g->arena); }

/* ---- status --------------------------------------------------------------------------------------------------------------- */

static void ms_print(uint32_t us, char out[16])
{
    if (us)
        snprintf(out, 16, us < 10000 ? "%.2f" : "%.0f", us / 1000.0);
    else
        snprintf(out, 16, "-");
}

static void status_print(const struct group *g)
{
    const Wire__MembersReply *m = g->lead ? g->lead : g->any;
    char p50[16], p99[16], lag[24], index[24];

    printf("%-16s %-11s %-5s %12s %8s %13s %5s %-10s %s\n", "NAME", "ROLE", "VOTES", "INDEX", "LAG", "DISK_MS", "LEVEL", "VERSION", "ADDRESS");
    for (size_t i = 0; i < g->count; i++) {
        const struct row *r = &g->rows[i];
        char disk[40], level[16];

        ms_print(r->p50, p50);
        ms_print(r->p99, p99);
        snprintf(disk, sizeof disk, "%s/%s", p50, p99);
        snprintf(level, sizeof level, r->has_level ? "%u" : "-", r->level);
        snprintf(lag, sizeof lag, r->role && (!strcmp(r->role, "down") || !strcmp(r->role, "refuses")) && !r->addr ? "-" : "%llu", (unsigned long long)r->lag);
        snprintf(index, sizeof index, r->index ? "%llu" : "-", (unsigned long long)r->index);
        printf("%-16s %-11s %-5s %12s %8s %13s %5s %-10s %s\n", r->name, r->is_installing ? "installing" : r->role ? r->role : "?", r->voter ? "yes" : "no", index, lag, disk, level,
               r->version ? r->version : "-", r->addr ? r->addr : "-");
    }
    if (g->lead)
        printf("%s leads in term %llu; %u of %u voters answer", g->lead->name, (unsigned long long)g->lead->term, g->lead->reachable, g->lead->voters);
    else
        printf("nobody leads; %u of %u voters answer, so nothing can be changed", m->reachable, m->voters);
    printf("; %s, log %llu MiB, feature level %u\n", m->store, (unsigned long long)(m->log_bytes >> 20), m->level_all);
    if (m->change && *m->change)
        printf("%s\n", m->change);
    for (size_t i = 0; i < g->count; i++)
        if (g->rows[i].answers && !g->lead && g->rows[i].age_ms != UINT32_MAX)
            printf("%s heard of a leader %u s ago\n", g->rows[i].name, g->rows[i].age_ms / 1000);
    if (m->voters == 2)
        printf("Two voters need both: a third controller, any login node, gives automatic fail-over.\n");
    else if (m->n_members == 2 && m->voters == 1)
        printf("One voter and a learner: a third controller, any login node, gives automatic fail-over.\n");
}

static void status_json(const struct group *g)
{
    struct json_writer *w = json_begin("controller", "controllers");

    for (size_t i = 0; i < g->count; i++) {
        const struct row *r = &g->rows[i];

        json_open(w, NULL, '{');
        json_text(w, "name", r->name);
        json_text(w, "address", r->addr);
        json_text(w, "role", r->role);
        json_text(w, "leader", r->leader);
        json_text(w, "version", r->version);
        json_bool(w, "votes", r->voter);
        json_bool(w, "answers", r->answers);
        json_bool(w, "installing", r->is_installing);
        json_number(w, "term", (int64_t)r->term);
        json_number(w, "index", (int64_t)r->index);
        json_number(w, "lag", (int64_t)r->lag);
        json_number(w, "flush_p50_us", r->p50);
        json_number(w, "flush_p99_us", r->p99);
        json_number(w, "level", r->level);
        json_number(w, "age_ms", r->age_ms == UINT32_MAX ? -1 : (int64_t)r->age_ms);
        json_close(w);
    }
    json_end(w);
}

static int status(struct client *c, bool json)
{
    struct spur_error err = { 0 };
    struct group g;
    int rc;

    if (group_load(c, &g, &err) < 0) {
        fprintf(stderr, "spur controller: %s\n", err.text);
        rc = 1;
    } else {
        if (json)
            status_json(&g);
        else
            status_print(&g);
        rc = g.lead ? 0 : 1;
    }
    group_fini(&g);
    return rc;
}

/* ---- changes -------------------------------------------------------------------------------------------------------------- */

/* Has the group come to what was asked for? 1: yes, with what to say; 0: not yet; -1: it will not. */
static int looked(const struct group *g, const Wire__MemberChangeRequest *r, const char *before, char *say, size_t n)
{
    const struct row *row = NULL;

    if (!g->lead)
        return 0;
    for (size_t i = 0; i < g->count && r->name; i++)
        if (word_eq(g->rows[i].name, r->name))
            row = &g->rows[i];
    switch (r->verb) {
    case WIRE__MEMBER_CHANGE_REQUEST__VERB__ADD:
        for (size_t i = 0; i < g->lead->n_members; i++)
            if (word_eq(g->lead->members[i]->name, r->name)) {
                if (!g->lead->members[i]->voter)
                    return snprintf(say, n, "%s is a member and learns; it votes when it has caught up", r->name), g->lead->members[i]->lag > 1000 ? 1 : 0;
                return snprintf(say, n, "%s is a member and votes", r->name), 1;
            }
        break;
    case WIRE__MEMBER_CHANGE_REQUEST__VERB__REMOVE:
        for (size_t i = 0; i < g->lead->n_members; i++)
            if (word_eq(g->lead->members[i]->name, r->name))
                return 0;
        return snprintf(say, n, "%s is no member any more; stop its spurctld, and take its SlurmctldHost line and its key away", r->name), 1;
    case WIRE__MEMBER_CHANGE_REQUEST__VERB__TRANSFER:
        if (word_eq(g->lead->name, r->name && *r->name ? r->name : before) == (r->name && *r->name))
            return snprintf(say, n, "%s leads now, in term %llu", g->lead->name, (unsigned long long)g->lead->term), 1;
        break;
    case WIRE__MEMBER_CHANGE_REQUEST__VERB__PROMOTE:
        if (row && row->role && !strcmp(row->role, "leader"))
            return snprintf(say, n, "%s leads, alone", r->name), 1;
        return 0;
    default:
        break;
    }
    if (g->lead->change && strstr(g->lead->change, "fail"))
        return snprintf(say, n, "%s", g->lead->change), -1;
    return 0;
}

static int change_follow(struct client *c, const Wire__MemberChangeRequest *r, const char *before)
{
    int64_t until = clock_mono_ms() + CHANGE_MS;
    char say[300] = "";

    for (;;) {
        struct spur_error err = { 0 };
        struct group g;
        int rc = group_load(c, &g, &err) < 0 ? 0 : looked(&g, r, before, say, sizeof say);

        group_fini(&g);
        if (rc > 0 || (*say && clock_mono_ms() >= until))
            return puts(say), 0;
        if (rc < 0)
            return fprintf(stderr, "spur controller: %s\n", say), 1;
        if (clock_mono_ms() >= until)
            break;
        rest_ms(50);
    }
    fprintf(stderr, "spur controller: begun, but not done within %d s; `spur controller status` shows how far it is\n", CHANGE_MS / 1000);
    return 1;
}

/* The controller that promote is for: the named one, or the only one of this host. -1 and a line. */
static int promote_where(const struct client *c, const char *name)
{
    const struct config_hint *hint = client_hint(c);
    char path[600], host[256] = "";
    int found = -1;

    if (hint->controller_count == 1 && (!name || word_eq(hint->controllers[0].host, name)))
        return 0;
    gethostname(host, sizeof host - 1);
    host[strcspn(host, ".")] = '\0';
    for (size_t i = 0; i < hint->controller_count; i++) {
        snprintf(path, sizeof path, "%s/ctl-%s.sock", hint->run_dir, hint->controllers[i].host);
        if (name && word_eq(hint->controllers[i].host, name))
            return (int)i;
        if (!name && word_eq(hint->controllers[i].host, host))
            return (int)i;
        if (!name && access(path, F_OK) == 0)
            found = found == -1 ? (int)i : -2;
    }
    if (found >= 0)
        return found;
    if (name)
        fprintf(stderr, "spur controller promote: %s is no SlurmctldHost of %s\n", name, hint->path);
    else
        fprintf(stderr, "spur controller promote: which controller? its NAME, as in SlurmctldHost, is needed here\n");
    return -1;
}

static int change(struct client *c, Wire__MemberChangeRequest *r)
{
    struct spur_error err = { 0 };
    Wire__Empty ping = WIRE__EMPTY__INIT;
    char before[64] = "";
    struct arena a;
    void *reply;
    int number = 0, where, rc;

    arena_init(&a, 0);
    if (r->verb == WIRE__MEMBER_CHANGE_REQUEST__VERB__PROMOTE) {
        if ((where = promote_where(c, r->name)) < 0)
            return 1;
        r->name = (char *)(uintptr_t)client_hint(c)->controllers[where].host;
        rc = client_call_one(c, (size_t)where, WIRE__MESSAGE_TYPE__MEMBER_CHANGE, &r->base, WIRE__MESSAGE_TYPE__DONE, &wire__done_reply__descriptor, &a, &reply, &err);
    } else {
        if (r->verb == WIRE__MEMBER_CHANGE_REQUEST__VERB__TRANSFER &&
            client_call(c, WIRE__MESSAGE_TYPE__PING, &ping.base, WIRE__MESSAGE_TYPE__PONG, &wire__pong__descriptor, &a, &reply, &number, &err) == 0)
            snprintf(before, sizeof before, "%s", ((Wire__Pong *)reply)->leader ? ((Wire__Pong *)reply)->leader : "");
        rc = client_call(c, WIRE__MESSAGE_TYPE__MEMBER_CHANGE, &r->base, WIRE__MESSAGE_TYPE__DONE, &wire__done_reply__descriptor, &a, &reply, &number, &err);
    }
    if (rc < 0) {
        fprintf(stderr, "spur controller: %s\n", err.text);
    } else if (((Wire__DoneReply *)reply)->text && word_starts(((Wire__DoneReply *)reply)->text, "spur-join-")) {
        printf("%s\n", ((Wire__DoneReply *)reply)->text);
        fprintf(stderr, "This token is good once, within a day. On %s:\n    spur join TOKEN\nand then start its spurctld there.\n", r->name);
    } else {
        rc = change_follow(c, r, before);
    }
    arena_fini(&a);
    return rc != 0;
}

static int usage(FILE *out) { fputs(usage_text, out); return out == stdout ? 0 : 1; }

int cmd_controller(int argc, char **argv)
{
    static const struct { const char *word; int verb; bool needs_name; } verbs[] = {
        { "add", WIRE__MEMBER_CHANGE_REQUEST__VERB__ADD, true }, { "remove", WIRE__MEMBER_CHANGE_REQUEST__VERB__REMOVE, true },
        { "transfer", WIRE__MEMBER_CHANGE_REQUEST__VERB__TRANSFER, false }, { "promote", WIRE__MEMBER_CHANGE_REQUEST__VERB__PROMOTE, false } };
    static const struct option options[] = { { "json", no_argument, NULL, 'j' }, { "force", no_argument, NULL, 'f' }, { "help", no_argument, NULL, 'h' }, { 0 } };
    Wire__MemberChangeRequest r = WIRE__MEMBER_CHANGE_REQUEST__INIT;
    struct spur_error err = { 0 };
    struct client *c = NULL;
    bool json = false, force = false, is_status;
    char *name, *equals;
    size_t v;
    int opt, rc;

    optind = 1;
    while ((opt = getopt_long(argc, argv, "h", options, NULL)) != -1)
        switch (opt) {
        case 'j': json = true; break;
        case 'f': force = true; break;
        case 'h': return usage(stdout);
        default: return 1;
        }
    if (optind >= argc)
        return usage(stderr);
    is_status = !strcmp(argv[optind], "status");
    for (v = 0; v < sizeof verbs / sizeof *verbs && strcmp(verbs[v].word, argv[optind]) != 0; v++)
        ;
    if (!is_status && v == sizeof verbs / sizeof *verbs) {
        fprintf(stderr, "spur controller: there is no \"%s\": status, add, remove, transfer and promote are known\n", argv[optind]);
        return 1;
    }
    name = optind + 1 < argc ? argv[optind + 1] : NULL;
    if (optind + 2 < argc || (is_status && name) || (!is_status && verbs[v].needs_name && !name) || (json && !is_status) || (force && is_status)) {
        fprintf(stderr, "spur controller %s: %s\n", argv[optind], !is_status && verbs[v].needs_name && !name ? "the NAME of a controller is missing" : "too many arguments");
        return 1;
    }
    if (client_open(NULL, &c, &err) < 0) {
        fprintf(stderr, "spur controller: %s\n", err.text);
        return 1;
    }
    if (is_status) {
        rc = status(c, json);
    } else {
        r.verb = (Wire__MemberChangeRequest__Verb)verbs[v].verb;
        r.name = name;
        if (name && r.verb == WIRE__MEMBER_CHANGE_REQUEST__VERB__ADD && (equals = strchr(name, '='))) {
            *equals = '\0';
            r.addr = equals + 1;
        }
        r.has_force = r.force = force;
        rc = change(c, &r);
    }
    client_close(c);
    return rc;
}
