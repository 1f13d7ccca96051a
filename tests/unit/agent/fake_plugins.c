/* SPDX-License-Identifier: Apache-2.0 */
/* fake_plugins.c - the table of built-in plugins of the agent's tests: an auth plugin whose proof is a role and whose signature a hash. */
#include <poll.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <spur/auth.h>
#include <spur/gpu.h>
#include <spur/switch.h>

#include "fake_plugins.h"

static const uint8_t signing_key[32] = "the controller of the tests     ";

static int fake_open(const struct spur_host *host, const struct spur_conf *conf, void **self, struct spur_error *err)
{
    static int instance;

    (void)host;
    (void)conf;
    (void)err;
    *self = &instance;
    return 0;
}

static void fake_close(void *self) { (void)self; }

int fake_prove(void *self, const struct spur_transcript *t, uint8_t *buf, size_t *len, struct spur_error *err)
{
    (void)err;
    buf[0] = self ? SPUR_ROLE_NODE : SPUR_ROLE_CONTROLLER;
    memcpy(buf + 1, t->hash, 64);
    *len = 65;
    return 0;
}

int fake_check(void *self, const struct spur_transcript *t, const uint8_t *proof, size_t len, struct spur_identity *out, struct spur_error *err)
{
    (void)self;
    if (len != 65 || memcmp(proof + 1, t->hash, 64))
        return spur_fail(err, SPUR_EAUTH, "fake: not the proof of this handshake");
    memset(out, 0, sizeof *out);
    out->size = sizeof *out;
    out->role = proof[0];
    out->uid = out->gid = 0xffffffffu;
    return 0;
}

int fake_sign(void *self, const char *purpose, const void *data, size_t n, uint8_t signature[64], struct spur_error *err)
{
    crypto_generichash_state h;

    (void)self;
    (void)err;
    crypto_generichash_init(&h, signing_key, sizeof signing_key, 64);
    crypto_generichash_update(&h, (const uint8_t *)purpose, strlen(purpose) + 1);
    crypto_generichash_update(&h, data, n);
    crypto_generichash_final(&h, signature, 64);
    return 0;
}

static int fake_verify(void *self, const char *purpose, const char *signer, const void *data, size_t n, const uint8_t signature[64], struct spur_error *err)
{
    uint8_t right[64];

    fake_sign(self, purpose, data, n, right, err);
    if (strcmp(signer, "ctl") || memcmp(right, signature, 64))
        return spur_fail(err, SPUR_EAUTH, "fake: not the controller's signature");
    return 0;
}

static const struct spur_auth_ops auth_ops = { .size = sizeof auth_ops, .prove = fake_prove, .check = fake_check, .sign = fake_sign, .verify = fake_verify };
static const struct spur_plugin auth = { .magic = SPUR_PLUGIN_MAGIC, .size = sizeof auth, .kind = SPUR_KIND_auth, .abi_major = SPUR_ABI_MAJOR_auth,
                                         .abi_minor = SPUR_ABI_MINOR_auth, .option_size = sizeof(struct spur_option), .name = "fake", .version = "1", .stands_for = "sodium",
                                         .about = "of the tests", .ops = &auth_ops, .open = fake_open, .close = fake_close };

static int fake_join(void *self, const struct spur_switch_job *job, const struct spur_switch_env *env, struct spur_error *err)
{
    (void)self;
    (void)job;
    (void)err;
    env->set(env->arg, "FAKE_MESH", "joined");
    return 0;
}

static void fake_leave(void *self, const struct spur_switch_job *job) { (void)self; (void)job; }

/* The mesh of a test that names a file in FAKE_MESH_GATE: the interface is made when the file is there. Others have none. */
static int fake_up(void *self, struct spur_switch_node *me, struct spur_error *err)
{
    const char *gate = getenv("FAKE_MESH_GATE");

    (void)self;
    if (!gate)
        return spur_fail(err, SPUR_EUNSUPPORTED, "fake: no mesh is wanted");
    for (int i = 0; access(gate, F_OK) < 0; i++)
        if (i == 6000)
            return spur_fail(err, SPUR_ETIMEOUT, "fake: %s does not come", gate);
        else
            poll(NULL, 0, 10);
    memset(me->public_key, 7, sizeof me->public_key);
    me->endpoint = ":1";
    return 0;
}

static int fake_peers(void *self, const struct spur_switch_node *peers, uint32_t n, uint32_t peer_size, struct spur_error *err)
{
    (void)self, (void)peers, (void)n, (void)peer_size, (void)err;
    return 0;
}

static const struct spur_switch_ops switch_ops = { .size = sizeof switch_ops, .node_up = fake_up, .peers = fake_peers, .job_join = fake_join, .job_leave = fake_leave };
static const struct spur_plugin sw = { .magic = SPUR_PLUGIN_MAGIC, .size = sizeof sw, .kind = SPUR_KIND_switch, .abi_major = SPUR_ABI_MAJOR_switch,
                                       .abi_minor = SPUR_ABI_MINOR_switch, .option_size = sizeof(struct spur_option), .name = "fake", .version = "1",
                                       .about = "of the tests", .ops = &switch_ops, .open = fake_open, .close = fake_close };

static int fake_scan(void *self, const struct spur_gres_line *lines, uint32_t line_count, uint32_t line_size, const char *root, bool emulate,
                     struct spur_gpu_found *found, struct spur_error *err)
{
    (void)self, (void)lines, (void)line_count, (void)line_size, (void)root, (void)emulate, (void)err;
    found->count = 0;
    return 0;
}

static const struct spur_gpu_ops gpu_ops = { .size = sizeof gpu_ops, .scan = fake_scan };
static const struct spur_plugin gpu = { .magic = SPUR_PLUGIN_MAGIC, .size = sizeof gpu, .kind = SPUR_KIND_gpu, .abi_major = SPUR_ABI_MAJOR_gpu,
                                        .abi_minor = SPUR_ABI_MINOR_gpu, .option_size = sizeof(struct spur_option), .name = "generic", .version = "1",
                                        .about = "of the tests", .ops = &gpu_ops, .open = fake_open, .close = fake_close };

extern const struct spur_plugin spur_plugin_contain_process;        /* the real one: steps run */
extern const struct spur_plugin *const loader_builtins[];
const struct spur_plugin *const loader_builtins[] = { &auth, &sw, &gpu, &spur_plugin_contain_process, NULL };
const struct spur_auth_ops *const fake_auth = &auth_ops;
