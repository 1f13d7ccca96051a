/* SPDX-License-Identifier: Apache-2.0 */
/* joins.c - hosts that join a running cluster with a token: `spur controller add` here, `spur join` there.
 *
 * The hosts that have joined are lines of a text that stands in the log beside the configuration, so every controller, agent and snapshot has it:
 *
 *     NAME ROLE KEY                       believed, beside those of the site's own `hosts` file
 *     NAME login KEY join=ADDR until=S    a token is out: KEY is the one-time key in it, good for JOIN alone, until Unix second S
 *     NAME controller KEY add=ADDR        has joined; the leader adds it to the group as soon as its daemon answers
 *
 * A token is "spur-join-1." and a packed JoinToken in base64: the one-time seed, where the controllers are and their public keys, so that neither side
 * believes anybody it should not. Who brings it proves the one-time key like any host, names the key it has made for itself, and gets the
 * configuration and the keys of all. The one-time line goes with that. Other roles, expiry rules and revocation are further words of these lines.
 */
#include <sodium.h>
#include <stdlib.h>

#include "controller/ctl.h"

#define TOKEN_LIFE_S 86400
#define ADD_AGAIN_MS 1000

static const char *joined_text(const struct ctl *c) { return c->state->config && c->state->config->hosts_text ? c->state->config->hosts_text : ""; }

static bool line_word(const char *line, const char *key, char *out, size_t n)
{
    const char *at = strstr(line, key);
    size_t len;

    if (!at)
        return false;
    at += strlen(key);
    len = strcspn(at, " \n");
    snprintf(out, n, "%.*s", (int)(len < n ? len : n - 1), at);
    return true;
}

static const char *line_end(const char *line) { return line + strcspn(line, "\n") + (line[strcspn(line, "\n")] == '\n'); }

static bool line_is(const char *line, const char *name, const char *role)
{
    size_t n = strlen(name), r = strlen(role);

    return strncmp(line, name, n) == 0 && line[n] == ' ' && strncmp(line + n + 1, role, r) == 0 && line[n + 1 + r] == ' ';
}

/* The line of this name and role; NULL: none. */
static const char *line_find(const char *text, const char *name, const char *role)
{
    for (; *text; text = line_end(text))
        if (line_is(text, name, role))
            return text;
    return NULL;
}

/* Lines of the text but those of this name, into `out`. */
static void lines_without(const char *text, const char *name, struct str *out)
{
    size_t n = strlen(name);

    for (; *text; text = line_end(text))
        if (strncmp(text, name, n) != 0 || text[n] != ' ')
            str_add_n(out, text, (size_t)(line_end(text) - text));
}

/* What the auth plugin takes: three words a line. One-time keys only while their token lives. */
void joins_believe(const char *text, const struct spur_auth_ops *ops, void *self, int64_t now_s)
{
    struct spur_error err = { 0 };
    struct str lines;
    char until[24], word[3][96];

    if (!SPUR_HAS(ops, enrol))
        return;
    str_init(&lines);
    for (text = text ? text : ""; *text; text = line_end(text)) {
        char line[512];

        snprintf(line, sizeof line, "%.*s", (int)strcspn(text, "\n"), text);
        if (line_word(line, "until=", until, sizeof until) && strtoll(until, NULL, 10) < now_s)
            continue;
        if (sscanf(line, "%95s %95s %95s", word[0], word[1], word[2]) == 3)
            str_addf(&lines, "%s %s %s\n", word[0], word[1], word[2]);
    }
    if (ops->enrol(self, lines.text ? lines.text : "", &err) < 0)
        log_line(SPUR_LOG_ERROR, "hosts that joined are not believed here: %s", err.text);
    str_fini(&lines);
}

static char *roster(struct ctl *c, struct spur_error *err)
{
    long need = c->auth_ops->roster(c->auth->self, NULL, 0, err);
    char *text;

    if (need < 0)
        return NULL;
    text = mem_alloc((size_t)need + 1);
    if (c->auth_ops->roster(c->auth->self, text, (size_t)need + 1, err) < 0) {
        free(text);
        return NULL;
    }
    return text;
}

bool joins_knows(struct ctl *c, const char *name)
{
    struct spur_error err;
    char *text;
    bool known;

    if (!SPUR_HAS(c->auth_ops, roster))
        return true;            /* no keys of hosts: nothing to enrol */
    text = roster(c, &err);
    known = !text || line_find(text, name, "controller");
    free(text);
    return known;
}

/* Proposes the configuration of the log with another text of hosts. */
static void joins_propose(struct ctl *c, const char *text, proposed_fn done, void *arg)
{
    struct config with = *c->state->config;

    with.hosts_text = (char *)(uintptr_t)text;
    ctl_config_propose(c, &with, done, arg);
}

/* ---- a token ------------------------------------------------------------------------------------------------------------ */

static void token_print(struct ctl *c, const char *name, const char *addr, const uint8_t seed[32], int64_t until_s, const char *known, struct str *out)
{
    const struct config *cfg = c->state->config;
    Wire__JoinToken t = WIRE__JOIN_TOKEN__INIT;
    struct arena a;
    uint8_t *packed;
    char *text;
    size_t n, room;

    arena_init(&a, 0);
    t.version = 1;
    t.cluster = (char *)(uintptr_t)config_text(cfg, CONF_ClusterName);
    t.name = arena_copy(&a, name);
    t.addr = word_eq(addr, name) ? NULL : arena_copy(&a, addr);
    t.role = (char *)(uintptr_t)"controller";
    t.seed.data = (uint8_t *)(uintptr_t)seed;
    t.seed.len = 32;
    t.has_until_wall_s = 1;
    t.until_wall_s = until_s;
    t.auth = (char *)(uintptr_t)c->auth->name;
    t.has_port = 1;
    t.port = (uint32_t)config_number(cfg, CONF_SlurmctldPort);
    t.controllers = arena_alloc(&a, (cfg->controller_count + 1) * sizeof *t.controllers);
    for (size_t k = 0; k < 2; k++)          /* this one, which leads, first */
        for (size_t i = 0; i < cfg->controller_count; i++)
            if (word_eq(cfg->controllers[i].host, c->name) == (k == 0))
                t.controllers[t.n_controllers++] = cfg->controllers[i].addr ? cfg->controllers[i].addr : cfg->controllers[i].host;
    t.hosts = arena_alloc(&a, 64 * sizeof *t.hosts);
    for (; *known && t.n_hosts < 63; known = line_end(known)) {
        char host[96], role[32], key[80];
        size_t len;

        if (sscanf(known, "%95s %31s %79s", host, role, key) != 3 || strcmp(role, "controller") != 0)
            continue;
        t.hosts[t.n_hosts] = arena_alloc(&a, sizeof **t.hosts);
        wire__join_host__init(t.hosts[t.n_hosts]);
        t.hosts[t.n_hosts]->name = arena_copy(&a, host);
        t.hosts[t.n_hosts]->key.data = arena_alloc(&a, 32);
        if (sodium_hex2bin(t.hosts[t.n_hosts]->key.data, 32, key, strlen(key), NULL, &len, NULL) == 0 && len == 32) {
            t.hosts[t.n_hosts]->key.len = 32;
            t.n_hosts++;
        }
    }
    n = wire__join_token__get_packed_size(&t);
    packed = arena_alloc(&a, n + 1);
    wire__join_token__pack(&t, packed);
    room = sodium_base64_ENCODED_LEN(n, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    text = arena_alloc(&a, room);
    sodium_bin2base64(text, room, packed, n, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    str_addf(out, "spur-join-1.%s", text);
    sodium_memzero(packed, n);
    arena_fini(&a);
}

int joins_token(struct ctl *c, const char *name, const char *addr, char **token, proposed_fn done, void *arg, struct spur_error *err)
{
    uint8_t seed[32], public_key[crypto_sign_PUBLICKEYBYTES], secret[crypto_sign_SECRETKEYBYTES];
    int64_t until_s = clock_wall_ms() / 1000 + TOKEN_LIFE_S;
    char *known = roster(c, err), hex[65];
    struct str text, out;

    if (!known)
        return err->code;
    if (strpbrk(name, " \n#/=") || strpbrk(addr, " \n")) {
        free(known);
        return spur_fail(err, SPUR_EINVAL, "'%.80s' cannot be the name of a controller", name);
    }
    randombytes_buf(seed, sizeof seed);
    crypto_sign_seed_keypair(public_key, secret, seed);
    sodium_bin2hex(hex, sizeof hex, public_key, sizeof public_key);
    str_init(&text);
    str_init(&out);
    lines_without(joined_text(c), name, &text);
    str_addf(&text, "%s login %s join=%s until=%lld\n", name, hex, addr, (long long)until_s);
    token_print(c, name, addr, seed, until_s, known, &out);
    *token = str_take(&out);
    joins_propose(c, text.text, done, arg);
    sodium_memzero(seed, sizeof seed);
    sodium_memzero(secret, sizeof secret);
    str_fini(&text);
    free(known);
    return 0;
}

/* ---- who brings one ----------------------------------------------------------------------------------------------------- */

int joins_take(struct ctl *c, const struct spur_identity *who, const Wire__JoinRequest *r, proposed_fn done, void *arg, struct spur_error *err)
{
    const char *line = line_find(joined_text(c), who->host, "login");
    char addr[160] = "", until[24] = "", hex[65], copy[512];
    struct str text;

    if (!line || r->public_key.len != 32 || strcmp(r->name, who->host) != 0 || strcmp(r->role, "controller") != 0)
        return spur_fail(err, SPUR_EDENIED, "no token for a controller %.63s is out: `spur controller add` makes one", r->name);
    snprintf(copy, sizeof copy, "%.*s", (int)strcspn(line, "\n"), line);
    if (!line_word(copy, "join=", addr, sizeof addr) || !line_word(copy, "until=", until, sizeof until))
        return spur_fail(err, SPUR_EDENIED, "%.63s is a login host, which joins nothing", r->name);
    if (strtoll(until, NULL, 10) < clock_wall_ms() / 1000)
        return spur_fail(err, SPUR_EDENIED, "the token of %.63s is too old: `spur controller add` makes another", r->name);
    if (r->addr && *r->addr && !strpbrk(r->addr, " \n"))
        snprintf(addr, sizeof addr, "%.150s", r->addr);
    sodium_bin2hex(hex, sizeof hex, r->public_key.data, 32);
    str_init(&text);
    lines_without(joined_text(c), r->name, &text);
    str_addf(&text, "%s controller %s add=%s\n", r->name, hex, addr);
    joins_propose(c, text.text, done, arg);
    str_fini(&text);
    log_line(SPUR_LOG_INFO, "%s has joined as a controller (%s)", r->name, addr);
    return 0;
}

void joins_reply(struct ctl *c, uint64_t conn, uint64_t seq)
{
    Wire__JoinReply reply = WIRE__JOIN_REPLY__INIT;
    Wire__ConfigFiles files;
    struct spur_error err = { 0 };
    char *known = roster(c, &err);

    if (!known) {
        ctl_refuse(c, conn, seq, &err, 0);
        return;
    }
    ctl_config_texts(c, &files);
    reply.files = &files;
    reply.hosts = known;
    ctl_send(c, conn, WIRE__MESSAGE_TYPE__JOINED, seq, &reply.base);
    free(known);
}

void joins_forget(struct ctl *c, const char *name)
{
    struct str text;

    if (!line_find(joined_text(c), name, "controller") && !line_find(joined_text(c), name, "login"))
        return;
    str_init(&text);
    lines_without(joined_text(c), name, &text);
    joins_propose(c, text.text ? text.text : "", NULL, NULL);
    str_fini(&text);
}

/* ---- into the group ----------------------------------------------------------------------------------------------------- */

static void joins_rang(uv_timer_t *timer) { joins_look(timer->data); }

/* On the leader: who has joined and is no member yet. */
void joins_look(struct ctl *c)
{
    const char *line = joined_text(c);
    char copy[512], name[96], addr[160];
    struct spur_error err = { 0 };
    struct str text;

    for (; *line; line = line_end(line)) {
        snprintf(copy, sizeof copy, "%.*s", (int)strcspn(line, "\n"), line);
        if (line_word(copy, "add=", addr, sizeof addr) && sscanf(copy, "%95s", name) == 1)
            break;
    }
    if (!*line || !group_leads(c) || !SPUR_HAS(c->store_ops, member_add)) {
        uv_timer_stop(&c->joins);
        return;
    }
    if (group_is_member(c, name)) {
        str_init(&text);
        lines_without(joined_text(c), name, &text);
        *strstr(copy, " add=") = '\0';
        str_addf(&text, "%s\n", copy);
        joins_propose(c, text.text, NULL, NULL);
        str_fini(&text);
    } else if (c->store_ops->member_add(c->store->self, name, addr, true, &err) < 0 && err.code != SPUR_EBUSY) {
        log_line(SPUR_LOG_DEBUG, "%s is not in the group yet: %s", name, err.text);
    }
    uv_timer_start(&c->joins, joins_rang, ADD_AGAIN_MS, 0);
}
