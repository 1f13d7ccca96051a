/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_token.c - any bytes as a proof, any text as a user's token, and a good proof of a token with any bytes of it changed.
 *
 * auth/sodium with two controllers whose keys are made from fixed seeds, in a folder that is there before the first input and gone with the process. Nothing but
 * the untouched proof is believed. First byte: 0 a proof, 1 a token, else pairs of a place and what is turned there in a good proof.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <sodium.h>

#include "fuzz.h"
#include "inside.h"

extern const struct spur_plugin spur_plugin;

#define NOW 1800000000

static struct { char dir[64]; struct spur_host host; void *self; const struct spur_auth_ops *ops; struct spur_transcript t; uint8_t proof[SPUR_PROOF_MAX]; size_t len; } g;

static int64_t wall_ms(void *ctx) { (void)ctx; return (int64_t)NOW * 1000; }
static const char *name(void *ctx) { (void)ctx; return "c1"; }
static const char *role(void *ctx) { (void)ctx; return "controller"; }
static const char *conf_text(const struct spur_conf *conf, const char *option) { (void)conf; return !strcmp(option, "key_dir") ? g.dir : ""; }

static void put(const char *file, const char *text, mode_t mode)
{
    char path[128];
    int fd;

    snprintf(path, sizeof path, "%s/%s", g.dir, file);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    FUZZ_HOLDS(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static void gone(void)
{
    char path[128];
    static const char *const files[] = { "host.key", "hosts" };

    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", g.dir, files[i]);
        unlink(path);
    }
    rmdir(g.dir);
}

static void begin(void)
{
    struct spur_user_token token = { .size = sizeof token, .uid = 1000, .gid = 1000, .scope = SPUR_SCOPE_ALL, .from_wall_s = NOW, .until_wall_s = NOW + 100, .cluster = "c" };
    uint8_t seed[32] = { 1 }, public_key[32], secret[64];
    struct spur_error err = { 0 };
    char hex[65], text[200], line[1024];
    const char *tmp = getenv("TMPDIR");

    FUZZ_HOLDS(sodium_init() >= 0);
    snprintf(g.dir, sizeof g.dir, "%.30s/spur-fuzz-XXXXXX", tmp && strlen(tmp) < 30 ? tmp : "/tmp");
    FUZZ_HOLDS(mkdtemp(g.dir) != NULL);
    atexit(gone);
    crypto_sign_seed_keypair(public_key, secret, seed);
    sodium_bin2hex(hex, sizeof hex, seed, 32);
    snprintf(text, sizeof text, "c1 controller %s\n", hex);
    put("host.key", text, 0600);
    sodium_bin2hex(hex, sizeof hex, public_key, 32);
    snprintf(text, sizeof text, "c1 controller %s\n", hex);
    put("hosts", text, 0644);
    g.host = (struct spur_host){ .size = sizeof g.host, .wall_ms = wall_ms, .host_name = name, .role = role, .conf_text = conf_text };
    g.ops = spur_plugin.ops;
    FUZZ_HOLDS(spur_plugin.open(&g.host, NULL, &g.self, &err) == 0);
    g.t = (struct spur_transcript){ .size = sizeof g.t, .cluster = "c" };
    FUZZ_HOLDS(g.ops->token_make(g.self, &token, line, sizeof line, &err) == 0);
    FUZZ_HOLDS(g.ops->token_prove(g.self, line, &g.t, g.proof, &g.len, &err) == 0);
}

int fuzz_one(const uint8_t *data, size_t size)
{
    struct spur_identity id = { .size = sizeof id };
    struct spur_error err = { 0 };
    uint8_t proof[SPUR_PROOF_MAX], *copy;
    size_t len;
    char *text;
    int rc;

    if (!g.self)
        begin();
    if (size < 1)
        return 0;
    if (data[0] == 0) {
        copy = malloc(size);        /* its own memory, so that a read past the end is seen */
        FUZZ_HOLDS(copy);
        memcpy(copy, data + 1, size - 1);
        rc = g.ops->check(g.self, &g.t, copy, size - 1, &id, &err);
        free(copy);
        FUZZ_HOLDS(rc == SPUR_EAUTH || rc == SPUR_ESTALE);
    } else if (data[0] == 1) {
        text = fuzz_text(data + 1, size - 1);
        rc = g.ops->token_prove(g.self, text, &g.t, proof, &len, &err);
        FUZZ_HOLDS(rc == SPUR_EAUTH || (rc == 0 && len <= SPUR_PROOF_MAX));
        free(text);
    } else {
        memcpy(proof, g.proof, g.len);
        for (size_t i = 1; i + 2 < size; i += 3)
            proof[(data[i] | data[i + 1] << 8) % g.len] ^= data[i + 2];
        rc = g.ops->check(g.self, &g.t, proof, g.len, &id, &err);
        if (memcmp(proof, g.proof, g.len) == 0)
            FUZZ_HOLDS(rc == 0 && id.uid == 1000);
        else
            FUZZ_HOLDS(rc < 0);
    }
    FUZZ_HOLDS(rc == 0 || err.text[0]);
    return 0;
}
