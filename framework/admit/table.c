/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - the authorisation table at work: identity and rank against table.def, before anything of the message is looked at.
 *
 * Default deny. message_is_listed() makes the compiler check that each message type of the wire has a row: it is a switch without a default,
 * and a missing case is an error here whatever the warning flags of the build are.
 */
#include <stdlib.h>
#include <string.h>

#include "admit/private.h"
#include "base/str.h"

#define ADMIT_ANYONE     0x1u
#define ADMIT_USER       0x2u
#define ADMIT_NODE       0x4u
#define ADMIT_CONTROLLER 0x8u
#define ADMIT_LOGIN      0x10u
#define ADMIT_TOKEN      0x20u

enum object { OBJECT_NONE, OBJECT_OWN, OBJECT_ANY, OBJECT_NODE };

struct row { unsigned message; const char *name; unsigned roles; enum rank rank; enum object object; };

static const struct row rows[] = {
#define ADMIT_ROW(message, roles, rank, object) { WIRE__MESSAGE_TYPE__##message, #message, roles, rank, object },
#include "admit/table.def"
};

#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wswitch"
static bool message_is_listed(Wire__MessageType type)
{
    switch (type) {
#define ADMIT_ROW(message, roles, rank, object) case WIRE__MESSAGE_TYPE__##message: return true;
#define ADMIT_REPLY(message) case WIRE__MESSAGE_TYPE__##message: return false;
#include "admit/table.def"
    case _WIRE__MESSAGE_TYPE_IS_INT_SIZE: return false;
    }
    return false;
}
#pragma GCC diagnostic pop

static const struct row *row_of(unsigned message)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].message == message)
            return &rows[i];
    return NULL;
}

static unsigned role_bit(const struct spur_identity *who)
{
    switch (who->role) {
    case SPUR_ROLE_USER:       return who->uid == UINT32_MAX ? 0 : ADMIT_USER;
    case SPUR_ROLE_NODE:       return ADMIT_NODE;
    case SPUR_ROLE_CONTROLLER: return ADMIT_CONTROLLER;
    case SPUR_ROLE_LOGIN:      return ADMIT_LOGIN;       /* it vouches for its users; by itself it asks for keys and addresses */
    case SPUR_ROLE_TOKEN:      return ADMIT_TOKEN;
    default:                   return 0;
    }
}

int admit_message(unsigned message_type, const struct spur_identity *who, enum rank rank, struct spur_error *err)
{
    const struct row *row = message_is_listed((Wire__MessageType)message_type) ? row_of(message_type) : NULL;
    unsigned bit = role_bit(who);

    if (!row)
        return spur_fail(err, SPUR_EDENIED, "Access/permission denied: message %u is none that is sent to a controller", message_type);
    if (row->roles & ADMIT_ANYONE)
        return 0;
    if (!bit)
        return spur_fail(err, SPUR_EDENIED, "Access/permission denied: %s needs a proven identity", row->name);
    if (!(row->roles & bit))
        return spur_fail(err, SPUR_EDENIED, "Access/permission denied: %s is not for %s", row->name,
                         bit == ADMIT_USER ? "users" : bit == ADMIT_NODE ? "compute nodes" : bit == ADMIT_LOGIN ? "login hosts" : bit == ADMIT_TOKEN ? "who brings a token" : "controllers");
    if (bit == ADMIT_USER && rank < row->rank)
        return spur_fail(err, SPUR_EDENIED, "Access/permission denied: %s needs %s", row->name,
                         row->rank == RANK_ADMIN ? "an administrator (root or SlurmUser)" : row->rank == RANK_OPERATOR ? "an operator" : "a user");
    return 0;
}

const char *admit_not_for_nodes(unsigned message_type)
{
    switch (message_type) {
#define ADMIT_ROW(message, roles, rank, object) case WIRE__MESSAGE_TYPE__##message: return (roles) & (ADMIT_ANYONE | ADMIT_NODE) ? NULL : "sent " #message;
#define ADMIT_REPLY(message) case WIRE__MESSAGE_TYPE__##message: return "sent " #message;
#include "admit/table.def"
    default: return NULL;
    }
}

/* What a token of scope `read` may ask; whatever is not named here it may not. */
static bool is_read(unsigned message)
{
    switch (message) {
    case WIRE__MESSAGE_TYPE__PING: case WIRE__MESSAGE_TYPE__JOBS: case WIRE__MESSAGE_TYPE__NODES: case WIRE__MESSAGE_TYPE__PARTITIONS: case WIRE__MESSAGE_TYPE__STEPS:
    case WIRE__MESSAGE_TYPE__CONFIG: case WIRE__MESSAGE_TYPE__CONFIG_FILES: case WIRE__MESSAGE_TYPE__STATS: case WIRE__MESSAGE_TYPE__WAIT: case WIRE__MESSAGE_TYPE__MEMBERS:
    case WIRE__MESSAGE_TYPE__ACCOUNTS: case WIRE__MESSAGE_TYPE__SCRIPT: case WIRE__MESSAGE_TYPE__TEST_ONLY:
        return true;
    default:
        return false;
    }
}

int admit_scope(unsigned message_type, const struct spur_identity *who, int64_t now_wall_s, struct spur_error *err)
{
    if (!*who->token)
        return 0;
    if (who->until_wall_s < now_wall_s)
        return spur_fail(err, SPUR_EDENIED, "Access/permission denied: the token has expired: `scontrol token` makes another");
    if (message_type == WIRE__MESSAGE_TYPE__USER_TOKEN || message_type == WIRE__MESSAGE_TYPE__HOST_CHANGE)
        return spur_fail(err, SPUR_EDENIED, "Access/permission denied: a token makes no tokens");
    if (who->scope != SPUR_SCOPE_ALL && !is_read(message_type))
        return spur_fail(err, SPUR_EDENIED, "Access/permission denied: the token is for reading only");
    return 0;
}

/* ---- nodes ----------------------------------------------------------------------------------------------------------------- */
static bool same_host(const char *host, const char *name)
{
    size_t n = strcspn(host, "."), m;

    if (!name || !*name)
        return false;
    m = strcspn(name, ".");
    /* "n1" and "n1.cluster" are one host; two different full names are two. */
    return word_eq(host, name) || (n == m && (!host[n] || !name[m]) && strncasecmp(host, name, n) == 0);
}

bool speaks_for(const struct state *s, const struct spur_identity *who, const char *node)
{
    const struct node *n = state_node(s, node);

    if (!n)
        return false;
    if (who->role == SPUR_ROLE_CONTROLLER)
        return true;            /* an emulator of many nodes runs with a controller's key */
    if (who->role != SPUR_ROLE_NODE)
        return false;
    if (!who->host[0])
        return true;            /* auth/munge cannot tell hosts apart, and says so at start */
    return same_host(who->host, n->conf->name) || same_host(who->host, n->conf->hostname);
}

int admit_vouched(const struct state *s, const struct spur_identity *who, struct spur_error *err)
{
    const struct job *j;

    /* Root of a compute host got here only if the site's root_from lets it. */
    if (who->role != SPUR_ROLE_USER || who->is_local || who->host_role != SPUR_ROLE_NODE || who->uid == 0)
        return 0;
    for (size_t i = 0; (j = table_next(&s->jobs, &i));) {
        if (j->uid != who->uid)
            continue;
        for (uint32_t k = 0; k < j->alloc_count; k++) {
            const struct node_alloc *a = &j->allocs[k];

            if (a->node >= s->node_count || a->gone)
                continue;
            if (same_host(who->host, s->nodes[a->node].conf->name) || same_host(who->host, s->nodes[a->node].conf->hostname))
                return 0;
        }
    }
    return spur_fail(err, SPUR_EDENIED, "Access/permission denied: compute host %.63s speaks for user %u, who has no job on it", who->host, who->uid);
}

/* ---- refusals and operations ---------------------------------------------------------------------------------------------- */
static const struct { int number, code; const char *sentence; } refusals[] = {
#define REFUSAL(name, number, code, sentence) { number, code, sentence },
#include "admit/refusals.def"
#undef REFUSAL
};

int deny(struct admitted *out, struct spur_error *err, enum refusal why, const char *format, ...)
{
    char detail[200];
    va_list args;

    out->slurm_errno = refusals[why].number;
    out->op_count = 0;
    if (!format)
        return spur_fail(err, refusals[why].code, "%s", refusals[why].sentence);
    va_start(args, format);
    vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    return spur_fail(err, refusals[why].code, "%s: %s", refusals[why].sentence, detail);
}

Wire__Op *op_new(struct arena *a, const struct asker *asker, ProtobufCBinaryData token, bool has_token, int64_t token_wall_ms)
{
    Wire__Op *op = arena_alloc(a, sizeof *op);

    wire__op__init(op);
    op->has_token = has_token && token.len == 16;
    op->token = op->has_token ? token : (ProtobufCBinaryData){ 0 };
    op->has_token_wall_ms = op->has_token;
    op->token_wall_ms = token_wall_ms;
    op->has_actor_uid = asker != NULL;
    op->actor_uid = asker ? asker->uid : 0;
    return op;
}

void op_add(struct admitted *out, struct arena *a, Wire__Op *op)
{
    /* Doubles at powers of two; the old rows stay in the arena until the message ends. */
    if ((out->op_count & (out->op_count - 1)) == 0) {
        Wire__Op **ops = arena_alloc(a, (out->op_count ? out->op_count * 2 : 1) * sizeof *ops);

        if (out->op_count)
            memcpy(ops, out->ops, out->op_count * sizeof *ops);
        out->ops = ops;
    }
    out->ops[out->op_count++] = op;
}

void warn(struct admitted *out, struct arena *a, const char *format, ...)
{
    char **more = arena_alloc(a, (out->warning_count + 1) * sizeof *more), text[240];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (out->warning_count)
        memcpy(more, out->warnings, out->warning_count * sizeof *more);
    more[out->warning_count++] = arena_copy(a, text);
    out->warnings = more;
}

int check_token(const struct state *s, bool has_token, ProtobufCBinaryData token, int64_t token_wall_ms, struct admitted *out, struct spur_error *err)
{
    struct op_result known = { 0 };
    int rc;

    if (!has_token)
        return 0;
    if (token.len != 16)
        return deny(out, err, REFUSE_BAD_REQUEST, "a token has 16 bytes, not %zu", token.len);
    rc = state_token(s, token.data, token_wall_ms, &known);
    if (rc == SPUR_ESTALE)
        return deny(out, err, REFUSE_UPDATE_NOW, "this request is so old that its first answer may have been forgotten; it was not carried out again");
    return rc;
}

bool list_names(const char *list, const char *word)
{
    size_t len = strlen(word);

    while (list && *list) {
        size_t n = strcspn(list, ",");

        if (n == len && strncasecmp(list, word, n) == 0)
            return true;
        list += n + (list[n] == ',');
    }
    return false;
}
