/* SPDX-License-Identifier: Apache-2.0 */
/* test_tokens.c - auth/sodium: keys that were good once, one-time keys, and users' own tokens: made, shown, changed, sent elsewhere, old, ended early. */
#define _GNU_SOURCE
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmds/cluster.h"
#include "config/config.h"
#include "loader/loader.h"
#include "rpc/channel.h"
#include "test_rpc.h"

#define NOW 1800000000

struct host { const char *name, *role; struct spur_host h; struct loaded *l; const struct spur_auth_ops *ops; struct config *cfg; };

static char folder[64];
static int64_t now_s;

static const char *host_name(void *ctx) { return ((struct host *)ctx)->name; }
static const char *host_role(void *ctx) { return ((struct host *)ctx)->role; }
static int64_t host_wall(void *ctx) { (void)ctx; return now_s * 1000; }

static void host_open(struct host *x, const char *name, const char *role, const char *dir_of)
{
    struct spur_error err = { 0 };
    char spur[512];

    *x = (struct host){ .name = name, .role = role };
    x->h = (struct spur_host){ .size = sizeof x->h, .ctx = x, .wall_ms = host_wall, .host_name = host_name, .role = host_role };
    snprintf(spur, sizeof spur, "plugin \"auth/sodium\" { key_dir = \"%s/%s\" }\n", folder, dir_of);
    ck_assert_int_eq(config_parse("ClusterName=c1\nSlurmctldHost=ctl1\nNodeName=n1\nPartitionName=p Nodes=n1\n", NULL, NULL, NULL, spur, &x->cfg, &err), 0);
    ck_assert_msg(loader_open(SPUR_KIND_auth, "auth/sodium", x->cfg, &x->h, &x->l, &err) == 0, "%s", err.text);
    x->ops = loader_ops(x->l);
}

static void host_close(struct host *x)
{
    loader_close(x->l);
    config_free(x->cfg);
}

static struct host ctl, ctl2, node, program;

static void setup(void)
{
    struct spur_error err;

    now_s = NOW;
    strcpy(folder, "/tmp/spur-keys-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_msg(cluster_keys_make(folder, "ctl1,ctl2", "n1", &err) == 0, "%s", err.text);
    host_open(&ctl, "ctl1", "controller", "ctl1");
    host_open(&ctl2, "ctl2", "controller", "ctl2");
    host_open(&node, "n1", "agent", "n1");
    host_open(&program, "", "command", "n1");
}

static void teardown(void)
{
    char command[128];

    host_close(&ctl);
    host_close(&ctl2);
    host_close(&node);
    host_close(&program);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static struct spur_transcript transcript(int fill, bool by_server, const char *cluster)
{
    struct spur_transcript t = { .size = sizeof t, .by_server = by_server, .cluster = cluster };

    memset(t.hash, fill, sizeof t.hash);
    return t;
}

static void token(struct host *by, uint32_t uid, int scope, char text[1024], char id[36])
{
    struct spur_user_token t = { .size = sizeof t, .uid = uid, .gid = uid + 1, .scope = scope, .from_wall_s = NOW, .until_wall_s = NOW + 100, .cluster = "c1" };
    struct spur_error err = { 0 };

    ck_assert_msg(by->ops->token_make(by->l->self, &t, text, 1024, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(strlen(t.id), 32);
    if (id)
        strcpy(id, t.id);
}

static int show(const struct host *to, const uint8_t *proof, size_t len, const struct spur_transcript *t, struct spur_identity *id, struct spur_error *err)
{
    *id = (struct spur_identity){ .size = sizeof *id };
    *err = (struct spur_error){ 0 };
    return to->ops->check(to->l->self, t, proof, len, id, err);
}

START_TEST(a_token_is_its_user)
{
    struct spur_transcript t = transcript(5, false, "c1"), other = transcript(6, false, "c1"), server = transcript(5, true, "c1"), elsewhere = transcript(5, false, "c2");
    uint8_t proof[SPUR_PROOF_MAX], bad[SPUR_PROOF_MAX];
    struct spur_error err = { 0 };
    struct spur_identity id;
    char text[1024], name[36];
    size_t len;

    token(&ctl, 1000, SPUR_SCOPE_READ, text, name);
    ck_assert_int_eq(program.ops->token_prove(program.l->self, text, &t, proof, &len, &err), 0);
    ck_assert_int_eq(show(&ctl2, proof, len, &t, &id, &err), 0);           /* every controller believes it, whichever made it */
    ck_assert_int_eq(id.role, SPUR_ROLE_USER);
    ck_assert_uint_eq(id.uid, 1000);
    ck_assert_uint_eq(id.gid, 1001);
    ck_assert_int_eq(id.scope, SPUR_SCOPE_READ);
    ck_assert_str_eq(id.token, name);
    ck_assert_str_eq(id.host, "");
    ck_assert_int_eq(id.until_wall_s, NOW + 100);
    ck_assert_int_eq(show(&ctl2, proof, len, &other, &id, &err), SPUR_EAUTH);
    ck_assert_int_eq(show(&ctl2, proof, len, &server, &id, &err), SPUR_EAUTH);
    ck_assert_int_eq(show(&ctl2, proof, len, &elsewhere, &id, &err), SPUR_EAUTH);
    ck_assert_ptr_nonnull(strstr(err.text, "another cluster than c2"));
    /* What a controller sees of it makes no second proof: the seed is not in there. */
    ck_assert_ptr_null(memmem(proof, len, text + strlen("spur-user-1."), 40));
    for (size_t i = 0; i < len; i++)
        for (int bit = 0; bit < 8; bit++) {
            memcpy(bad, proof, len);
            bad[i] ^= (uint8_t)(1 << bit);
            ck_assert_int_lt(show(&ctl2, bad, len, &t, &id, &err), 0);
        }
    for (size_t n = 0; n < len; n++)
        ck_assert_int_eq(show(&ctl2, proof, n, &t, &id, &err), SPUR_EAUTH);
    memcpy(bad, proof, len);
    for (size_t n = 1; n <= 64; n++) {
        bad[len + n - 1] = (uint8_t)n;
        ck_assert_int_eq(show(&ctl2, bad, len + n, &t, &id, &err), SPUR_EAUTH);
    }
}
END_TEST

START_TEST(a_token_ends)
{
    struct spur_transcript t = transcript(5, false, "c1");
    uint8_t proof[SPUR_PROOF_MAX];
    struct spur_error err = { 0 };
    struct spur_identity id, was;
    char text[1024], name[36], line[80];
    size_t len;

    token(&ctl, 1000, SPUR_SCOPE_ALL, text, name);
    ck_assert_int_eq(program.ops->token_prove(program.l->self, text, &t, proof, &len, &err), 0);
    now_s = NOW + 100;
    ck_assert_int_eq(show(&ctl, proof, len, &t, &was, &err), 0);
    ck_assert_int_eq(ctl.ops->stands(ctl.l->self, &was, &err), 0);
    now_s = NOW + 107;
    ck_assert_int_eq(show(&ctl, proof, len, &t, &id, &err), SPUR_ESTALE);
    ck_assert_ptr_nonnull(strstr(err.text, "expired 7 s ago"));
    ck_assert_int_eq(ctl.ops->stands(ctl.l->self, &was, &err), SPUR_EAUTH);
    now_s = NOW - 299;          /* two controllers' clocks are never quite the same */
    ck_assert_int_eq(show(&ctl, proof, len, &t, &id, &err), 0);
    now_s = NOW - 1000;
    ck_assert_int_eq(show(&ctl, proof, len, &t, &id, &err), SPUR_ESTALE);
    ck_assert_ptr_nonnull(strstr(err.text, "1000 s in the future"));
    now_s = NOW;
    snprintf(line, sizeof line, "%s untoken %d\n", name, NOW + 100);
    ck_assert_int_eq(ctl.ops->enrol(ctl.l->self, line, &err), 0);
    ck_assert_int_eq(show(&ctl, proof, len, &t, &id, &err), SPUR_ESTALE);
    ck_assert_ptr_nonnull(strstr(err.text, "was revoked"));
    ck_assert_int_eq(ctl.ops->stands(ctl.l->self, &was, &err), SPUR_EAUTH);
    ck_assert_int_eq(ctl.ops->enrol(ctl.l->self, "", &err), 0);
    ck_assert_int_eq(show(&ctl, proof, len, &t, &id, &err), 0);
}
END_TEST

START_TEST(tokens_that_are_none)
{
    struct spur_user_token root = { .size = sizeof root, .uid = 0, .gid = 0, .scope = SPUR_SCOPE_ALL, .from_wall_s = NOW, .until_wall_s = NOW + 1, .cluster = "c1" };
    struct spur_transcript t = transcript(5, false, "c1");
    uint8_t proof[SPUR_PROOF_MAX];
    struct spur_error err = { 0 };
    char text[1024];
    size_t len;

    ck_assert_int_eq(ctl.ops->token_make(ctl.l->self, &root, text, sizeof text, &err), SPUR_EDENIED);
    root.uid = 5;
    root.scope = 7;
    ck_assert_int_eq(ctl.ops->token_make(ctl.l->self, &root, text, sizeof text, &err), SPUR_EINVAL);
    root.scope = SPUR_SCOPE_ALL;
    ck_assert_int_eq(ctl.ops->token_make(ctl.l->self, &root, text, 100, &err), SPUR_ELIMIT);
    ck_assert_int_lt(node.ops->token_make(node.l->self, &root, text, sizeof text, &err), 0);        /* only controllers sign */
    ck_assert_int_lt(program.ops->token_make(program.l->self, &root, text, sizeof text, &err), 0);
    ck_assert_int_eq(program.ops->token_prove(program.l->self, "eyJhbGciOiJIUzI1NiJ9.x.y", &t, proof, &len, &err), SPUR_EAUTH);
    ck_assert_ptr_nonnull(strstr(err.text, "scontrol token"));
    ck_assert_int_eq(program.ops->token_prove(program.l->self, "spur-user-1.", &t, proof, &len, &err), SPUR_EAUTH);
    token(&ctl, 1000, SPUR_SCOPE_ALL, text, NULL);
    for (size_t n = strlen(text); n-- > 0;) {
        text[n] = '\0';
        ck_assert_int_eq(program.ops->token_prove(program.l->self, text, &t, proof, &len, &err), SPUR_EAUTH);
    }
}
END_TEST

/* The line of a host in `hosts`, with another role. */
static void line_as(const struct host *x, const char *name, const char *role, char *out, size_t n)
{
    char roster[4096], *at;

    ck_assert_int_gt(x->ops->roster(x->l->self, roster, sizeof roster, NULL), 0);
    at = strstr(roster, name);
    ck_assert_ptr_nonnull(at);
    at += strlen(name) + 1;
    at += strcspn(at, " ") + 1;
    snprintf(out, n, "%s %s %.64s\n", name, role, at);
}

START_TEST(old_keys)
{
    struct spur_transcript t = transcript(5, false, "c1"), by_server = transcript(5, true, "c1");
    uint8_t proof[SPUR_PROOF_MAX], sign[64], bad[SPUR_PROOF_MAX];
    struct spur_identity was, id;
    struct spur_error err = { 0 };
    char line[256], roster[4096], text[1024];
    size_t len;

    ck_assert_int_eq(node.ops->prove(node.l->self, &t, proof, &len, &err), 0);
    ck_assert_int_eq(show(&ctl, proof, len, &t, &was, &err), 0);
    ck_assert(!sodium_is_zero(was.key, 32));
    /* Replaced: nothing new, but what is there goes on. */
    line_as(&ctl, "n1", "retired", line, sizeof line);
    ck_assert_int_eq(ctl.ops->enrol(ctl.l->self, line, &err), 0);
    ck_assert_int_eq(show(&ctl, proof, len, &t, &id, &err), SPUR_ESTALE);
    ck_assert_ptr_nonnull(strstr(err.text, "host rotate"));
    ck_assert_int_eq(ctl.ops->stands(ctl.l->self, &was, &err), 0);
    /* Who only shows a key that was good, without holding it, is not told. */
    memcpy(bad, proof, len);
    bad[len - 1] ^= 1;
    ck_assert_int_eq(show(&ctl, bad, len, &t, &id, &err), SPUR_EAUTH);
    /* Revoked: that ends too, and the roster does not name it. */
    memcpy(strstr(line, "retired"), "revoked", 7);
    ck_assert_int_eq(ctl.ops->enrol(ctl.l->self, line, &err), 0);
    ck_assert_int_eq(show(&ctl, proof, len, &t, &id, &err), SPUR_ESTALE);
    ck_assert_ptr_nonnull(strstr(err.text, "host n1 was revoked"));
    ck_assert_int_eq(ctl.ops->stands(ctl.l->self, &was, &err), SPUR_EAUTH);
    ck_assert_int_gt(ctl.ops->roster(ctl.l->self, roster, sizeof roster, &err), 0);
    ck_assert_ptr_null(strstr(roster, "n1 "));
    /* A controller that was revoked signs nothing, vouches for nobody, and its tokens end. */
    token(&ctl2, 1000, SPUR_SCOPE_ALL, text, NULL);
    ck_assert_int_eq(ctl2.ops->sign(ctl2.l->self, "spur-launch-1", "x", 1, sign, &err), 0);
    ck_assert_int_eq(node.ops->verify(node.l->self, "spur-launch-1", "ctl2", "x", 1, sign, &err), 0);
    ck_assert_int_eq(node.ops->verify(node.l->self, "spur-sbcast-1", "ctl2", "x", 1, sign, &err), SPUR_EAUTH);
    line_as(&ctl, "ctl2", "revoked", line, sizeof line);
    ck_assert_int_eq(node.ops->enrol(node.l->self, line, &err), 0);
    ck_assert_int_eq(ctl.ops->enrol(ctl.l->self, line, &err), 0);
    ck_assert_int_eq(node.ops->verify(node.l->self, "spur-launch-1", "ctl2", "x", 1, sign, &err), SPUR_EAUTH);
    ck_assert_int_eq(ctl2.ops->prove(ctl2.l->self, &by_server, proof, &len, &err), 0);
    ck_assert_int_eq(show(&node, proof, len, &by_server, &id, &err), SPUR_ESTALE);
    ck_assert_int_eq(program.ops->token_prove(program.l->self, text, &t, proof, &len, &err), 0);
    ck_assert_int_eq(show(&ctl, proof, len, &t, &id, &err), SPUR_EAUTH);
}
END_TEST

START_TEST(who_brings_a_token_is_nobody_else)
{
    struct spur_transcript t = transcript(5, false, "c1");
    uint8_t seed[32] = { 1, 2, 3 }, public_key[32], secret[64], proof[SPUR_PROOF_MAX];
    char hex[65], line[128], path[400];
    struct host joining;
    struct spur_identity id;
    struct spur_error err = { 0 };
    size_t len;
    FILE *f;

    crypto_sign_seed_keypair(public_key, secret, seed);
    snprintf(path, sizeof path, "mkdir -p %s/j && cp %s/n1/hosts %s/j/", folder, folder, folder);
    ck_assert_int_eq(system(path), 0);
    snprintf(path, sizeof path, "%s/j/host.key", folder);
    ck_assert_ptr_nonnull(f = fopen(path, "w"));
    sodium_bin2hex(hex, sizeof hex, seed, 32);
    fprintf(f, "n7 token %s\n", hex);
    fclose(f);
    ck_assert_int_eq(chmod(path, 0600), 0);
    host_open(&joining, "n7", "token", "j");
    ck_assert_int_eq(joining.ops->prove(joining.l->self, &t, proof, &len, &err), 0);
    ck_assert_int_eq(show(&ctl, proof, len, &t, &id, &err), SPUR_EAUTH);            /* no such token is out */
    sodium_bin2hex(hex, sizeof hex, public_key, 32);
    snprintf(line, sizeof line, "n7 token %s\n", hex);
    ck_assert_int_eq(ctl.ops->enrol(ctl.l->self, line, &err), 0);
    ck_assert_int_eq(show(&ctl, proof, len, &t, &id, &err), 0);
    ck_assert_int_eq(id.role, SPUR_ROLE_TOKEN);
    ck_assert_mem_eq(id.key, public_key, 32);
    /* It vouches for nobody, and it is in no list of hosts. */
    ck_assert_int_eq(joining.ops->vouch(joining.l->self, &t, 1000, 1000, proof, &len, &err), 0);
    ck_assert_int_eq(show(&ctl, proof, len, &t, &id, &err), SPUR_EAUTH);
    {
        char roster[4096];

        ck_assert_int_gt(ctl.ops->roster(ctl.l->self, roster, sizeof roster, &err), 0);
        ck_assert_ptr_null(strstr(roster, "n7"));
    }
    host_close(&joining);
}
END_TEST

/* Moves what one side has to say to the other. */
static int carry(struct channel *from, struct channel *to, struct spur_error *err)
{
    struct str *out = channel_output(from);
    int rc = channel_input(to, out->text, out->len, err);

    str_clear(out);
    return rc;
}

START_TEST(the_refused_hears_why)
{
    struct channel *client = channel_client("c1"), *server = channel_server("c1", NULL);
    struct spur_error err = { 0 };
    uint8_t proof[4] = { 1, 2, 3, 4 };

    ck_assert_int_eq(carry(client, server, &err), 0);
    ck_assert_int_eq(carry(server, client, &err), 0);
    ck_assert_int_eq(channel_want(client), CHANNEL_PROVE);
    channel_refuse(server, "too early");                /* nobody has shown anything yet */
    ck_assert_uint_eq(channel_output(server)->len, 0);
    ck_assert_int_eq(channel_proof(client, proof, sizeof proof, &err), 0);
    ck_assert_int_eq(carry(client, server, &err), 0);
    ck_assert_int_eq(channel_want(server), CHANNEL_CHECK);
    channel_refuse(server, "host n1 was revoked\033[2J");
    ck_assert_int_eq(channel_want(server), CHANNEL_BROKEN);
    ck_assert_ptr_null(memmem(channel_output(server)->text, channel_output(server)->len, "revoked", 7));     /* sealed */
    ck_assert_int_eq(carry(server, client, &err), SPUR_EAUTH);
    ck_assert_str_eq(err.text, "refused: host n1 was revoked?[2J");
    ck_assert_int_eq(channel_want(client), CHANNEL_BROKEN);
    channel_destroy(client);
    channel_destroy(server);
}
END_TEST

Suite *suite_tokens(void)
{
    Suite *s = suite_create("auth/sodium: tokens and old keys");
    TCase *t = tcase_create("tokens");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_token_is_its_user);
    tcase_add_test(t, a_token_ends);
    tcase_add_test(t, tokens_that_are_none);
    tcase_add_test(t, old_keys);
    tcase_add_test(t, who_brings_a_token_is_nobody_else);
    tcase_add_test(t, the_refused_hears_why);
    tcase_set_timeout(t, 120);
    suite_add_tcase(s, t);
    return s;
}
