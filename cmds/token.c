/* SPDX-License-Identifier: Apache-2.0 */
/* token.c - `spur token` and `scontrol token`: one-time tokens with which a host joins, and tokens with which a program is its user.
 *
 * Both are secrets. They are printed to standard output and nothing else is, so that they can go where they belong without passing a terminal. What
 * a user's token is called can be read from it (`spur token id`), and with that it is ended before its time.
 */
#include <getopt.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/str.h"
#include "client/client.h"
#include "cmds/commands.h"
#include "cmds/common/ask.h"
#include "cmds/scontrol.h"

#define USER_PREFIX "spur-user-1."
#define ID_AT 29                    /* in the certificate, see auth/sodium's token.c */

static const char usage_text[] =
    "Usage: spur token create --host NAME [--role controller|login|compute] [--lifespan TIME] [--addr ADDR]\n"
    "       spur token list\n"
    "       spur token revoke ID|TOKEN|-\n"
    "       spur token id [TOKEN|-]\n"
    "\n"
    "  create   prints a one-time token for `spur join` on host NAME, good for that name and role alone; TIME is 90, 30m, 12h or 7d [a day]\n"
    "  list     tokens of hosts that are out\n"
    "  revoke   ends a user's token (`scontrol token` makes them) before its time\n"
    "  id       the number of a user's token, by default of the one in SLURM_JWT; - reads it from the input\n"
    "\n"
    "A host's token is ended with `spur host revoke NAME`. Exit status: 0 done, 1 not.\n";

/* Seconds of "90", "30m", "12h", "7d"; false: none of these. */
static bool life_parse(const char *text, uint32_t *out)
{
    static const struct { char unit; uint32_t s; } units[] = { { '\0', 1 }, { 's', 1 }, { 'm', 60 }, { 'h', 3600 }, { 'd', 86400 } };
    char *end;
    unsigned long long n = strtoull(text, &end, 10);

    if (end == text || *text == '-' || n == 0 || n > UINT32_MAX || (*end && end[1]))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (*end == units[i].unit && n * units[i].s <= UINT32_MAX) {
            *out = (uint32_t)(n * units[i].s);
            return true;
        }
    return false;
}

static int create(int argc, char **argv)
{
    static const struct option options[] = { { "host", required_argument, NULL, 'h' }, { "role", required_argument, NULL, 'r' }, { "lifespan", required_argument, NULL, 'l' },
                                             { "addr", required_argument, NULL, 'a' }, { 0 } };
    Wire__HostChangeRequest q = WIRE__HOST_CHANGE_REQUEST__INIT;
    struct arena a;
    void *reply;
    int opt, rc;

    q.verb = WIRE__HOST_CHANGE_REQUEST__VERB__TOKEN;
    q.role = (char *)(uintptr_t)"compute";
    optind = 1;
    while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1)
        switch (opt) {
        case 'h': q.name = optarg; break;
        case 'r': q.role = optarg; break;
        case 'a': q.addr = optarg; break;
        case 'l':
            if (!life_parse(optarg, &q.lifespan_s)) {
                fprintf(stderr, "spur token create: --lifespan=%s is no time: 90, 30m, 12h, 7d\n", optarg);
                return 1;
            }
            q.has_lifespan_s = 1;
            break;
        default: return 1;
        }
    if (!q.name || optind < argc) {
        fprintf(stderr, q.name ? "spur token create: '%s' is not an option\n" : "spur token create: for which host? --host NAME%.0s\n", optind < argc ? argv[optind] : "");
        return 1;
    }
    arena_init(&a, 0);
    rc = ask_once("spur token", WIRE__MESSAGE_TYPE__HOST_CHANGE, &q.base, WIRE__MESSAGE_TYPE__DONE, &wire__done_reply__descriptor, &a, &reply);
    if (rc == 0) {
        puts(((Wire__DoneReply *)reply)->text);
        fprintf(stderr, "On %s: `spur join -` and this token, once, as a %s host. Who has it can be that host: treat it as a key.\n", q.name, q.role);
    }
    arena_fini(&a);
    return rc != 0;
}

static int list(void)
{
    Wire__Empty q = WIRE__EMPTY__INIT;
    const Wire__HostsReply *m;
    struct arena a;
    void *reply;
    int rc;

    arena_init(&a, 0);
    rc = ask_once("spur token", WIRE__MESSAGE_TYPE__HOSTS, &q.base, WIRE__MESSAGE_TYPE__HOSTS_LIST, &wire__hosts_reply__descriptor, &a, &reply);
    if (rc == 0) {
        m = reply;
        printf("%-24s %-12s %-9s %s\n", "HOST", "ROLE", "STATE", "UNTIL");
        for (size_t i = 0; i < m->n_rows; i++) {
            const Wire__HostRow *r = m->rows[i];
            char when[32] = "-";
            time_t t = (time_t)r->until_wall_s;
            struct tm tm;

            if (strcmp(r->state, "token") && strcmp(r->state, "used") && strcmp(r->state, "expired") && strcmp(r->state, "untoken"))
                continue;
            if (r->has_until_wall_s && localtime_r(&t, &tm))
                strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &tm);
            printf("%-24s %-12s %-9s %s\n", r->name, r->role, !strcmp(r->state, "token") ? "out" : !strcmp(r->state, "untoken") ? "revoked" : r->state, when);
        }
    }
    arena_fini(&a);
    return rc != 0;
}

/* The number inside a token, or the number itself. */
static bool token_id(const char *text, char id[36])
{
    uint8_t bin[512];
    size_t n = 0;

    if (strlen(text) == 32 && strspn(text, "0123456789abcdef") == 32) {
        strcpy(id, text);
        return true;
    }
    if (strncmp(text, USER_PREFIX, sizeof USER_PREFIX - 1) != 0 ||
        sodium_base642bin(bin, sizeof bin, text + sizeof USER_PREFIX - 1, strlen(text) - (sizeof USER_PREFIX - 1), NULL, &n, NULL, sodium_base64_VARIANT_URLSAFE_NO_PADDING) != 0 ||
        n < ID_AT + 16)
        return false;
    sodium_bin2hex(id, 36, bin + ID_AT, 16);
    sodium_memzero(bin, sizeof bin);
    return true;
}

static int by_id(const char *text, bool end_it)
{
    Wire__HostChangeRequest q = WIRE__HOST_CHANGE_REQUEST__INIT;
    char line[2048], id[36];
    struct arena a;
    void *reply;
    int rc;

    if (!text && !(text = getenv("SLURM_JWT"))) {
        fprintf(stderr, "spur token: which one? SLURM_JWT is not set\n");
        return 1;
    }
    if (!strcmp(text, "-")) {
        if (!fgets(line, sizeof line, stdin))
            line[0] = '\0';
        line[strcspn(line, "\r\n")] = '\0';
        text = line;
    }
    if (word_starts(text, "SLURM_JWT="))
        text += 10;
    if (!token_id(text, id)) {
        fprintf(stderr, "spur token: that is neither a user's token nor the number of one\n");
        return 1;
    }
    if (!end_it) {
        puts(id);
        return 0;
    }
    q.verb = WIRE__HOST_CHANGE_REQUEST__VERB__REVOKE_TOKEN;
    q.name = id;
    arena_init(&a, 0);
    rc = ask_once("spur token", WIRE__MESSAGE_TYPE__HOST_CHANGE, &q.base, WIRE__MESSAGE_TYPE__DONE, &wire__done_reply__descriptor, &a, &reply);
    arena_fini(&a);
    return rc != 0;
}

int cmd_token(int argc, char **argv)
{
    if (argc >= 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        fputs(usage_text, stdout);
        return 0;
    }
    if (argc >= 2 && !strcmp(argv[1], "create"))
        return create(argc - 1, argv + 1);
    if (argc == 2 && !strcmp(argv[1], "list"))
        return list();
    if (argc == 3 && !strcmp(argv[1], "revoke"))
        return by_id(argv[2], true);
    if ((argc == 2 || argc == 3) && !strcmp(argv[1], "id"))
        return by_id(argc == 3 ? argv[2] : NULL, false);
    fputs(usage_text, stderr);
    return 1;
}

/* ---- scontrol token ------------------------------------------------------------------------------------------------------- */

int scontrol_token(struct scontrol *s, int argc, char **argv)
{
    Wire__UserTokenRequest q = WIRE__USER_TOKEN_REQUEST__INIT;
    struct spur_error err = { 0 };
    char *value;
    void *reply;

    for (int i = 0; i < argc; i++) {
        if (!(value = strchr(argv[i], '='))) {
            fprintf(stderr, "scontrol: error: invalid option: %s\n", argv[i]);
            return 1;
        }
        value++;
        if (word_starts(argv[i], "lifespan=")) {
            if (!strcmp(value, "infinite") || !life_parse(value, &q.lifespan_s)) {
                fprintf(stderr, "scontrol: error: lifespan=%s: seconds, or 30m, 12h, 7d; a year at most, for a token that never ends cannot be forgotten\n", value);
                return 1;
            }
            q.has_lifespan_s = 1;
        } else if (word_starts(argv[i], "username=")) {
            q.user = value;
        } else if (word_starts(argv[i], "scope=")) {
            q.scope = value;
        } else {
            fprintf(stderr, "scontrol: error: invalid option: %s\n", argv[i]);
            return 1;
        }
    }
    if (scontrol_ask(s, WIRE__MESSAGE_TYPE__USER_TOKEN, &q.base, WIRE__MESSAGE_TYPE__DONE, &wire__done_reply__descriptor, &reply, NULL, &err) < 0)
        return scontrol_failed(s, "scontrol token", &err);
    printf("SLURM_JWT=%s\n", ((Wire__DoneReply *)reply)->text);
    return 0;
}
