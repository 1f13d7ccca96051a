/* SPDX-License-Identifier: Apache-2.0 */
/* joins.c - keys of hosts and tokens, as the log has them: who joins, who is revoked, who takes another key.
 *
 * A text of lines stands in the log beside the configuration, so every controller and snapshot has it, and agents have what they need of it:
 *
 *     NAME ROLE KEY                               believed, beside those of the site's own `hosts` file
 *     NAME controller KEY add=ADDR                the same; the leader adds it to the group as soon as its daemon answers
 *     NAME token KEY role=R join=ADDR until=S     a token is out: KEY is the one-time key in it, good for JOIN as R alone, until Unix second S
 *     NAME token KEY role=R used=S until=S        it was used
 *     NAME revoked KEY role=R at=S                believed no more, whichever file has it, and its connections end
 *     NAME retired KEY role=R at=S                replaced by another key of the host: good for nothing new
 *     ID untoken S                                a user's token that ended before its time, Unix second S
 *
 * A token is "spur-join-1." and a packed JoinToken in base64: the one-time seed, where the controllers are and their public keys, so that neither side
 * believes anybody it should not. Who brings it proves the one-time key like any host, names the key it has made for itself, and gets the
 * configuration and the keys of those it has to believe. Changes are edits of lines (state/hosts.c): two that use one token cannot both succeed.
 */
#include <sodium.h>
#include <stdlib.h>

#include "controller/ctl.h"

#define ADD_AGAIN_MS 1000
#define TOKEN_LIFE_S 86400
#define TOKEN_LIFE_MAX_S (30u * 86400)
#define USER_LIFE_S  1800
#define USER_LIFE_MAX_S (366u * 86400)
#define TOKEN_KEPT_S (7 * 86400)        /* an old token is still told that it is old, and what to do */

static const char *joined_text(const struct ctl *c) { return c->state->config && c->state->config->hosts_text ? c->state->config->hosts_text : ""; }
static int64_t now_s(void) { return clock_wall_ms() / 1000; }

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

/* One line taken apart. */
struct host_line { char text[512], name[96], role[32], key[96], of[32]; int64_t until; };

static bool line_read(const char *at, struct host_line *l)
{
    char until[24];

    snprintf(l->text, sizeof l->text, "%.*s", (int)strcspn(at, "\n"), at);
    l->of[0] = '\0';
    l->until = line_word(l->text, " until=", until, sizeof until) ? strtoll(until, NULL, 10) : 0;
    line_word(l->text, " role=", l->of, sizeof l->of);
    if (sscanf(l->text, "%95s %31s %95s", l->name, l->role, l->key) != 3)
        return false;
    if (!strcmp(l->role, "untoken"))
        l->until = strtoll(l->key, NULL, 10);
    return true;
}

/* Has this line nothing to say any more? */
static bool line_is_over(const struct host_line *l)
{
    return (!strcmp(l->role, "token") && l->until + TOKEN_KEPT_S < now_s()) || (!strcmp(l->role, "untoken") && l->until < now_s());
}

/* ---- what others believe -------------------------------------------------------------------------------------------------- */

/* What the auth plugin takes: three words a line. */
static void believe(const char *text, const struct spur_auth_ops *ops, void *self)
{
    struct spur_error err = { 0 };
    struct host_line l;
    struct str lines;

    if (!SPUR_HAS(ops, enrol))
        return;
    str_init(&lines);
    for (; *text; text = line_end(text))
        if (line_read(text, &l))
            str_addf(&lines, "%s %s %s\n", l.name, l.role, l.key);
    if (ops->enrol(self, lines.text ? lines.text : "", &err) < 0)
        log_line(SPUR_LOG_ERROR, "hosts that joined are not believed here: %s", err.text);
    str_fini(&lines);
}

/* Agents believe controllers alone. */
static void lines_for_agents(const struct ctl *c, struct str *out)
{
    struct host_line l;

    for (const char *at = joined_text(c); *at; at = line_end(at))
        if (line_read(at, &l) && (!strcmp(l.role, "controller") || ((!strcmp(l.role, "revoked") || !strcmp(l.role, "retired")) && !strcmp(l.of, "controller"))))
            str_addf(out, "%s %s %s\n", l.name, l.role, l.key);
}

char *joins_for_agents(const struct ctl *c, struct arena *a)
{
    struct str text;
    char *copy;

    str_init(&text);
    lines_for_agents(c, &text);
    copy = arena_copy(a, text.text ? text.text : "");
    str_fini(&text);
    return copy;
}

static void tell_agents(struct ctl *c)
{
    Wire__HostsText m = WIRE__HOSTS_TEXT__INIT;
    struct str text;
    uint8_t hash[32];

    str_init(&text);
    lines_for_agents(c, &text);
    crypto_generichash(hash, sizeof hash, (const uint8_t *)(text.text ? text.text : ""), text.len, NULL, 0);
    if (memcmp(hash, c->hosts_told, sizeof hash) != 0) {
        memcpy(c->hosts_told, hash, sizeof hash);
        m.hosts = text.text;
        for (uint32_t i = 0; i < c->state->node_count; i++) {
            struct peer *p = nodes_agent(c, i);

            if (p && p->node_count && p->nodes[0] == i)
                rpc_send(p->conn, WIRE__MESSAGE_TYPE__AGENT_HOSTS, 0, &m.base);
        }
    }
    str_fini(&text);
}

void joins_changed(struct ctl *c)
{
    unsigned gone;

    if (!c->state->config)
        return;
    believe(joined_text(c), c->auth_ops, c->auth->self);
    gone = c->rpc ? rpc_recheck(c->rpc) : 0;
    if (gone)
        log_line(SPUR_LOG_INFO, "%u connections of hosts or tokens that were revoked are closed", gone);
    if (c->is_live)
        tell_agents(c);
    joins_look(c);
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
    known = !text;
    for (const char *at = text; at && *at && !known; at = line_end(at)) {
        struct host_line l;

        known = line_read(at, &l) && word_eq(l.name, name) && !strcmp(l.role, "controller");
    }
    free(text);
    return known;
}

/* ---- edits ----------------------------------------------------------------------------------------------------------------- */

/* What one request changes; the arena goes with the proposal. */
struct edit { struct arena arena; Wire__Op *op; };

static void edit_init(struct edit *e)
{
    arena_init(&e->arena, 0);
    e->op = arena_alloc(&e->arena, sizeof *e->op);
    wire__op__init(e->op);
    e->op->hosts = arena_alloc(&e->arena, sizeof *e->op->hosts);
    wire__op_hosts__init(e->op->hosts);
}

static void edit_grow(struct edit *e, char ***rows, size_t *n, char *line)
{
    char **more = arena_alloc(&e->arena, (*n + 1) * sizeof *more);

    if (*n)
        memcpy(more, *rows, *n * sizeof *more);
    more[(*n)++] = line;
    *rows = more;
}

static void edit_drop(struct edit *e, const char *line) { edit_grow(e, &e->op->hosts->drop, &e->op->hosts->n_drop, arena_copy(&e->arena, line)); }

static void edit_add(struct edit *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void edit_add(struct edit *e, const char *format, ...)
{
    char line[512];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    edit_grow(e, &e->op->hosts->add, &e->op->hosts->n_add, arena_copy(&e->arena, line));
}

/* Goes to the log, with the lines that are over, and perhaps with a second operation. */
static void edit_propose(struct ctl *c, struct edit *e, Wire__Op *also, proposed_fn done, void *arg)
{
    Wire__Op **ops = arena_alloc(&e->arena, 2 * sizeof *ops);
    struct host_line l;

    for (const char *at = joined_text(c); *at; at = line_end(at)) {
        bool is_named = false;

        if (!line_read(at, &l) || !line_is_over(&l))
            continue;
        for (size_t i = 0; i < e->op->hosts->n_drop; i++)
            is_named |= !strcmp(e->op->hosts->drop[i], l.text);
        if (!is_named)
            edit_drop(e, l.text);
    }
    ops[0] = e->op;
    ops[1] = also;
    propose(c, ops, also ? 2 : 1, NULL, &e->arena, done, arg);
}

/* Every key of this name, and role if there is one, that is believed now, but `but`: from now on it is barred. How many. */
static unsigned edit_bar(struct ctl *c, struct edit *e, const char *known, const char *name, const char *role, const char *but, const char *word)
{
    struct host_line l;
    unsigned count = 0;

    for (const char *at = joined_text(c); *at; at = line_end(at))
        if (line_read(at, &l) && word_eq(l.name, name) && strcmp(l.role, "revoked") && strcmp(l.role, "retired") && strcmp(l.role, "untoken") &&
            (!role || !strcmp(l.role, role)) && (!but || strcmp(l.key, but)))
            edit_drop(e, l.text);
    for (const char *at = known; *at; at = line_end(at))
        if (line_read(at, &l) && word_eq(l.name, name) && (!role || !strcmp(l.role, role)) && (!but || strcmp(l.key, but))) {
            edit_add(e, "%s %s %s role=%s at=%lld", l.name, word, l.key, l.role, (long long)now_s());
            count++;
        }
    return count;
}

static bool is_host_name(const char *name) { return name && *name && strlen(name) <= 63 && *name != '.' && !strpbrk(name, " \t\r\n#/="); }

static bool is_key_role(const char *role) { return role && (!strcmp(role, "controller") || !strcmp(role, "login") || !strcmp(role, "compute")); }

/* ---- a token for a host ------------------------------------------------------------------------------------------------------ */

static void token_print(struct ctl *c, const char *name, const char *role, const char *addr, const uint8_t seed[32], int64_t until_s, const char *known, struct str *out)
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
    t.role = arena_copy(&a, role);
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
        char host[96], is[32], key[80];
        size_t len;

        if (sscanf(known, "%95s %31s %79s", host, is, key) != 3 || strcmp(is, "controller") != 0)
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

int joins_token(struct ctl *c, const char *name, const char *addr, const char *role, uint32_t life_s, char **token, proposed_fn done, void *arg, struct spur_error *err)
{
    uint8_t seed[32], public_key[crypto_sign_PUBLICKEYBYTES], secret[crypto_sign_SECRETKEYBYTES];
    int64_t until_s = now_s() + (life_s ? life_s : TOKEN_LIFE_S);
    char *known, hex[65];
    struct host_line l;
    struct edit e;
    struct str out;

    if (!SPUR_HAS(c->auth_ops, roster))
        return spur_fail(err, SPUR_EUNSUPPORTED, "AuthType=%s has no keys of hosts: whoever has its key is a host already", c->auth->name);
    if (!is_host_name(name) || (addr && (strlen(addr) > 150 || strpbrk(addr, " \t\r\n#"))))
        return spur_fail(err, SPUR_EINVAL, "'%.80s' cannot be the name of a host", name ? name : "");
    if (!is_key_role(role))
        return spur_fail(err, SPUR_EINVAL, "role '%.40s': controller, login or compute", role ? role : "");
    if (life_s > TOKEN_LIFE_MAX_S)
        return spur_fail(err, SPUR_EINVAL, "a token for a host lives %u s at most, not %u", TOKEN_LIFE_MAX_S, life_s);
    if (!(known = roster(c, err)))
        return err->code;
    randombytes_buf(seed, sizeof seed);
    crypto_sign_seed_keypair(public_key, secret, seed);
    sodium_bin2hex(hex, sizeof hex, public_key, sizeof public_key);
    edit_init(&e);
    for (const char *at = joined_text(c); *at; at = line_end(at))      /* an earlier one that nobody used is good no more */
        if (line_read(at, &l) && word_eq(l.name, name) && !strcmp(l.role, "token"))
            edit_drop(&e, l.text);
    edit_add(&e, "%s token %s role=%s join=%s until=%lld", name, hex, role, addr && *addr ? addr : name, (long long)until_s);
    str_init(&out);
    token_print(c, name, role, addr && *addr ? addr : name, seed, until_s, known, &out);
    *token = str_take(&out);
    edit_propose(c, &e, NULL, done, arg);
    sodium_memzero(seed, sizeof seed);
    sodium_memzero(secret, sizeof secret);
    free(known);
    return 0;
}

/* ---- who brings one ----------------------------------------------------------------------------------------------------- */

int joins_take(struct ctl *c, const struct spur_identity *who, const Wire__JoinRequest *r, proposed_fn done, void *arg, struct spur_error *err)
{
    char addr[160] = "", hex[65], used[24], *known;
    struct host_line l;
    const char *line = NULL;
    struct edit e;

    sodium_bin2hex(hex, sizeof hex, who->key, sizeof who->key);
    for (const char *at = joined_text(c); *at && !line; at = line_end(at))
        if (line_read(at, &l) && !strcmp(l.role, "token") && word_eq(l.name, who->host) && !strcmp(l.key, hex))
            line = at;
    if (!line)
        return spur_fail(err, SPUR_EDENIED, "no such token of host %.63s is out (a later one replaces it): `spur token create --host %.63s` makes one", who->host, who->host);
    if (line_word(l.text, " used=", used, sizeof used))
        return spur_fail(err, SPUR_EDENIED, "the token of %.63s was used %lld s ago: each is good once; `spur token create` makes another", l.name,
                         (long long)(now_s() - strtoll(used, NULL, 10)));
    if (l.until < now_s())
        return spur_fail(err, SPUR_EDENIED, "the token of %.63s expired %lld s ago: `spur token create` makes another", l.name, (long long)(now_s() - l.until));
    if (strcmp(r->name, l.name) != 0)
        return spur_fail(err, SPUR_EDENIED, "the token is for host %.63s, not for %.63s: each host has its own", l.name, r->name);
    if (strcmp(r->role, l.of) != 0)
        return spur_fail(err, SPUR_EDENIED, "the token makes %.63s a %s host, not a %.20s host: `spur token create --role` says which", l.name, l.of, r->role);
    if (r->public_key.len != 32 || sodium_is_zero(r->public_key.data, 32) || memcmp(r->public_key.data, who->key, 32) == 0)
        return spur_fail(err, SPUR_EINVAL, "host %.63s has made no key of its own", l.name);
    line_word(l.text, " join=", addr, sizeof addr);
    if (r->addr && *r->addr && strlen(r->addr) < sizeof addr && !strpbrk(r->addr, " \t\r\n#"))
        snprintf(addr, sizeof addr, "%s", r->addr);
    if (!(known = roster(c, err)))
        return err->code;
    sodium_bin2hex(hex, sizeof hex, r->public_key.data, 32);
    edit_init(&e);
    edit_bar(c, &e, known, l.name, l.of, hex, "retired");       /* it was here before and comes back with a new key */
    edit_drop(&e, l.text);
    edit_add(&e, "%s token %s role=%s used=%lld until=%lld", l.name, l.key, l.of, (long long)now_s(), (long long)l.until);
    if (!strcmp(l.of, "controller"))
        edit_add(&e, "%s controller %s add=%s", l.name, hex, addr);
    else
        edit_add(&e, "%s %s %s", l.name, l.of, hex);
    edit_propose(c, &e, NULL, done, arg);
    log_line(SPUR_LOG_INFO, "%s joins as a %s host", l.name, l.of);
    free(known);
    return 0;
}

void joins_reply(struct ctl *c, uint64_t conn, uint64_t seq, const char *role)
{
    Wire__JoinReply reply = WIRE__JOIN_REPLY__INIT;
    Wire__ConfigFiles files;
    struct spur_error err = { 0 };
    char *known = roster(c, &err);
    struct host_line l;
    struct str lines;

    if (!known) {
        ctl_refuse(c, conn, seq, &err, 0);
        return;
    }
    str_init(&lines);
    for (const char *at = known; *at; at = line_end(at))        /* controllers know everybody, others the controllers */
        if (line_read(at, &l) && (!strcmp(role, "controller") || !strcmp(l.role, "controller")))
            str_addf(&lines, "%s %s %s\n", l.name, l.role, l.key);
    ctl_config_texts(c, &files);
    files.hosts = NULL;
    reply.files = &files;
    reply.hosts = lines.text ? lines.text : (char *)(uintptr_t)"";
    reply.has_wall_ms = 1;
    reply.wall_ms = clock_wall_ms();
    ctl_send(c, conn, WIRE__MESSAGE_TYPE__JOINED, seq, &reply.base);
    str_fini(&lines);
    free(known);
}

/* ---- the end of keys ------------------------------------------------------------------------------------------------------- */

void joins_forget(struct ctl *c, const char *name)
{
    char *known;
    struct spur_error err;
    struct edit e;

    seat_forget(c, name);
    if (!SPUR_HAS(c->auth_ops, roster) || !(known = roster(c, &err)))
        return;
    edit_init(&e);
    edit_bar(c, &e, known, name, "controller", NULL, "retired");
    /* Only what joined with a token: a controller of the site's own file may come back as it was. */
    e.op->hosts->n_add = 0;
    if (e.op->hosts->n_drop)
        edit_propose(c, &e, NULL, NULL, NULL);
    else
        arena_fini(&e.arena);
    free(known);
}

const struct node *joins_node(struct ctl *c, const char *host)
{
    const struct node *named = state_node(c->state, host);

    for (uint32_t i = 0; i < c->state->node_count && !named; i++)
        if (c->state->nodes[i].conf->hostname && word_eq(c->state->nodes[i].conf->hostname, host))
            named = &c->state->nodes[i];
    return named;
}

/* `revoked`: its key goes out of the mesh, too. */
Wire__Op *joins_node_set(struct arena *a, const struct node *n, const char *state, const char *reason, bool revoked)
{
    const char *const set[][2] = { { "State", state }, { "Reason", reason }, { "MeshKey", "" } };
    size_t count = revoked ? 3 : 2;
    Wire__Op *op = arena_alloc(a, sizeof *op);
    Wire__KeyValue *rows = arena_alloc(a, count * sizeof *rows);

    wire__op__init(op);
    op->node_update = arena_alloc(a, sizeof *op->node_update);
    wire__op_node_update__init(op->node_update);
    op->node_update->node = arena_copy(a, n->conf->name);
    op->node_update->set = arena_alloc(a, count * sizeof *op->node_update->set);
    for (size_t k = 0; k < count; k++) {
        wire__key_value__init(&rows[k]);
        rows[k].key = arena_copy(a, set[k][0]);
        rows[k].value = arena_copy(a, set[k][1]);
        op->node_update->set[op->node_update->n_set++] = &rows[k];
    }
    return op;
}

int joins_revoke(struct ctl *c, const char *name, proposed_fn done, void *arg, struct spur_error *err)
{
    const struct node *node;
    char *known;
    struct edit e;

    if (!SPUR_HAS(c->auth_ops, roster))
        return spur_fail(err, SPUR_EUNSUPPORTED, "AuthType=%s has no keys of hosts: change the key they share", c->auth->name);
    if (group_is_member(c, name))
        return spur_fail(err, SPUR_EDENIED, "%.63s votes among the controllers: `spur controller remove %.63s` first", name, name);
    if (!(known = roster(c, err)))
        return err->code;
    edit_init(&e);
    if (edit_bar(c, &e, known, name, NULL, NULL, "revoked") == 0 && e.op->hosts->n_drop == 0) {
        arena_fini(&e.arena);
        free(known);
        return spur_fail(err, SPUR_ENOTFOUND, "no host %.63s has a key or a token here: `spur host list` names them", name);
    }
    node = joins_node(c, name);
    seat_forget(c, name);
    edit_propose(c, &e, node ? joins_node_set(&e.arena, node, "DOWN", "host revoked", true) : NULL, done, arg);
    free(known);
    return 0;
}

int joins_key(struct ctl *c, const struct spur_identity *who, const Wire__HostKeyRequest *r, proposed_fn done, void *arg, struct spur_error *err)
{
    const char *role = who->role == SPUR_ROLE_NODE ? "compute" : who->role == SPUR_ROLE_LOGIN ? "login" : "controller";
    char *known, hex[65];
    struct edit e;

    if (!SPUR_HAS(c->auth_ops, roster) || !*who->host || sodium_is_zero(who->key, sizeof who->key))
        return spur_fail(err, SPUR_EUNSUPPORTED, "AuthType=%s has no keys of hosts", c->auth->name);
    if (r->public_key.len != 32 || sodium_is_zero(r->public_key.data, 32))
        return spur_fail(err, SPUR_EINVAL, "a key has 32 bytes");
    if (r->alone && memcmp(r->public_key.data, who->key, 32) != 0)
        return spur_fail(err, SPUR_EDENIED, "only with its new key can a host end the old ones");
    if (!(known = roster(c, err)))
        return err->code;
    sodium_bin2hex(hex, sizeof hex, r->public_key.data, 32);
    edit_init(&e);
    if (r->alone)
        edit_bar(c, &e, known, who->host, role, hex, "retired");
    else
        edit_add(&e, "%s %s %s", who->host, role, hex);
    log_line(SPUR_LOG_INFO, "%s host %s %s", role, who->host, r->alone ? "uses its new key; the old ones are good no more" : "has a further key");
    edit_propose(c, &e, NULL, done, arg);
    free(known);
    return 0;
}

/* ---- tokens of users -------------------------------------------------------------------------------------------------------- */

int joins_user_token(struct ctl *c, const struct spur_identity *who, uint32_t uid, uint32_t gid, const Wire__UserTokenRequest *r, char **token, struct spur_error *err)
{
    struct spur_user_token t = { .size = sizeof t, .uid = uid, .gid = gid, .from_wall_s = now_s(), .cluster = config_text(c->state->config, CONF_ClusterName) };
    uint32_t life_s = r->has_lifespan_s && r->lifespan_s ? r->lifespan_s : USER_LIFE_S;
    char text[1024];
    int rc;

    if (!SPUR_HAS(c->auth_ops, token_make))
        return spur_fail(err, SPUR_EUNSUPPORTED, "AuthType=%s makes no tokens of users: auth/sodium does", c->auth->name);
    if (life_s > USER_LIFE_MAX_S)
        return spur_fail(err, SPUR_EINVAL, "a token lives %u s at most, not %u", USER_LIFE_MAX_S, life_s);
    t.until_wall_s = t.from_wall_s + life_s;
    t.scope = !r->scope || !*r->scope || word_eq(r->scope, "all") ? SPUR_SCOPE_ALL : word_eq(r->scope, "read") ? SPUR_SCOPE_READ : SPUR_SCOPE_NONE;
    if (t.scope == SPUR_SCOPE_NONE)
        return spur_fail(err, SPUR_EINVAL, "scope '%.40s': all or read", r->scope);
    if ((rc = c->auth_ops->token_make(c->auth->self, &t, text, sizeof text, err)) < 0)
        return rc;
    log_line(SPUR_LOG_INFO, "token %s: user %u may use it for %u s, made for user %u", t.id, uid, life_s, who->uid);
    *token = mem_copy(text);
    sodium_memzero(text, sizeof text);
    return 0;
}

int joins_untoken(struct ctl *c, const char *id, proposed_fn done, void *arg, struct spur_error *err)
{
    struct edit e;

    if (strlen(id) != 32 || strspn(id, "0123456789abcdef") != 32)
        return spur_fail(err, SPUR_EINVAL, "'%.40s' is no token's number: 32 hex digits, as `spur token id` shows them", id);
    edit_init(&e);
    edit_add(&e, "%s untoken %lld", id, (long long)(now_s() + USER_LIFE_MAX_S));
    edit_propose(c, &e, NULL, done, arg);
    return 0;
}

/* ---- shown ----------------------------------------------------------------------------------------------------------------- */

static bool is_connected(struct ctl *c, const char *name, const char *key)
{
    struct peer *p;

    for (size_t i = 0; (p = table_next(&c->conns, &i)); ) {
        const struct spur_identity *id = rpc_identity(p->conn);
        char hex[65];

        sodium_bin2hex(hex, sizeof hex, id->key, sizeof id->key);
        if (id->role != SPUR_ROLE_USER && word_eq(id->host, name) && !strcmp(hex, key))
            return true;
    }
    return false;
}

static void list_add(Wire__HostsReply *out, struct arena *a, size_t *room, const struct host_line *l, const char *state, const char *role, bool from_file, bool connected)
{
    Wire__HostRow *row = arena_alloc(a, sizeof *row);
    size_t len;

    wire__host_row__init(row);
    row->name = arena_copy(a, l->name);
    row->role = arena_copy(a, role);
    row->state = arena_copy(a, state);
    row->has_until_wall_s = l->until != 0;
    row->until_wall_s = l->until;
    row->has_from_file = row->has_connected = 1;
    row->from_file = from_file;
    row->connected = connected;
    row->key.data = arena_alloc(a, 32);
    if (sodium_hex2bin(row->key.data, 32, l->key, strlen(l->key), NULL, &len, NULL) == 0 && len == 32) {
        row->has_key = 1;
        row->key.len = 32;
    }
    if (out->n_rows == *room) {
        Wire__HostRow **more = arena_alloc(a, (*room ? *room * 2 : 64) * sizeof *more);

        if (out->n_rows)
            memcpy(more, out->rows, out->n_rows * sizeof *more);
        out->rows = more;
        *room = *room ? *room * 2 : 64;
    }
    out->rows[out->n_rows++] = row;
}

int joins_list(struct ctl *c, Wire__HostsReply *out, struct arena *a, struct spur_error *err)
{
    struct host_line l;
    size_t room = 0;
    char *known;

    wire__hosts_reply__init(out);
    if (!SPUR_HAS(c->auth_ops, roster))
        return spur_fail(err, SPUR_EUNSUPPORTED, "AuthType=%s has no keys of hosts", c->auth->name);
    if (!(known = roster(c, err)))
        return err->code;
    for (const char *at = known; *at; at = line_end(at))
        if (line_read(at, &l)) {
            char start[240];
            size_t n = (size_t)snprintf(start, sizeof start, "%s %s %s", l.name, l.role, l.key);
            bool joined = false;

            for (const char *j = joined_text(c); *j && !joined; j = line_end(j))
                joined = strncmp(j, start, n) == 0;
            list_add(out, a, &room, &l, "valid", l.role, !joined, is_connected(c, l.name, l.key));
        }
    for (const char *at = joined_text(c); *at; at = line_end(at))
        if (line_read(at, &l) && !is_key_role(l.role))
            list_add(out, a, &room, &l, !strcmp(l.role, "token") ? (strstr(l.text, " used=") ? "used" : l.until < now_s() ? "expired" : "token") : l.role,
                     *l.of ? l.of : "user", false, false);
    free(known);
    return 0;
}

/* ---- into the group ----------------------------------------------------------------------------------------------------- */

static void joins_rang(uv_timer_t *timer) { joins_look(timer->data); }

/* On the leader: who has joined and is no member yet. */
void joins_look(struct ctl *c)
{
    const char *line = joined_text(c);
    char addr[160];
    struct spur_error err = { 0 };
    struct host_line l;
    struct edit e;

    for (; *line; line = line_end(line))
        if (line_read(line, &l) && !strcmp(l.role, "controller") && line_word(l.text, " add=", addr, sizeof addr))
            break;
    if (!*line || !group_leads(c) || !SPUR_HAS(c->store_ops, member_add)) {
        uv_timer_stop(&c->joins);
        return;
    }
    if (group_is_member(c, l.name)) {
        edit_init(&e);
        edit_drop(&e, l.text);
        edit_add(&e, "%s %s %s", l.name, l.role, l.key);
        edit_propose(c, &e, NULL, NULL, NULL);
    } else if (c->store_ops->member_add(c->store->self, l.name, addr, true, &err) < 0 && err.code != SPUR_EBUSY) {
        log_line(SPUR_LOG_DEBUG, "%s is not in the group yet: %s", l.name, err.text);
    }
    uv_timer_start(&c->joins, joins_rang, ADD_AGAIN_MS, 0);
}
