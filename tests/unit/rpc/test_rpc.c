/* SPDX-License-Identifier: Apache-2.0 */
/* test_rpc.c - runs the suites of framework/rpc; owns the auth plugin they share. */
#include <stdlib.h>
#include <sodium.h>

#include "rpc/log.h"
#include "test_rpc.h"

static void fake_mac(const struct spur_transcript *t, const uint8_t *claim, uint8_t out[32])
{
    static const uint8_t key[32] = "everybody in the test knows it";
    crypto_generichash_state h;
    uint8_t side = t->by_server;

    crypto_generichash_init(&h, key, sizeof key, 32);
    crypto_generichash_update(&h, &side, 1);
    crypto_generichash_update(&h, t->hash, 64);
    crypto_generichash_update(&h, claim, 8);
    crypto_generichash_final(&h, out, 32);
}

static int fake_vouch(void *self, const struct spur_transcript *t, uint32_t uid, uint32_t gid, uint8_t *buf, size_t *len, struct spur_error *err)
{
    struct fake_auth *a = self;
    int32_t role = SPUR_ROLE_USER;

    (void)gid;
    (void)err;
    memcpy(buf, &uid, 4);
    memcpy(buf + 4, &role, 4);
    fake_mac(t, buf, buf + 8);
    buf[8] ^= a->wrong;
    *len = 40;
    return 0;
}

static int fake_prove(void *self, const struct spur_transcript *t, uint8_t *buf, size_t *len, struct spur_error *err)
{
    struct fake_auth *a = self;

    fake_vouch(self, t, a->uid, 0, buf, len, err);
    memcpy(buf + 4, &a->role, 4);
    fake_mac(t, buf, buf + 8);
    buf[8] ^= a->wrong;
    return 0;
}

static int fake_check(void *self, const struct spur_transcript *t, const uint8_t *proof, size_t len, struct spur_identity *out, struct spur_error *err)
{
    uint8_t mac[32];
    int32_t role;

    (void)self;
    if (len != 40)
        return spur_fail(err, SPUR_EAUTH, "proof of %zu bytes", len);
    fake_mac(t, proof, mac);
    if (memcmp(mac, proof + 8, 32) != 0)
        return spur_fail(err, SPUR_EAUTH, "proof is wrong");
    memcpy(&out->uid, proof, 4);
    memcpy(&role, proof + 4, 4);
    out->role = role;
    strcpy(out->host, "fakehost");
    return 0;
}

const struct spur_auth_ops fake_auth_ops = { .size = sizeof fake_auth_ops, .prove = fake_prove, .vouch = fake_vouch, .check = fake_check };

int main(void)
{
    SRunner *sr = srunner_create(suite_channel());
    int failed;

    log_open("/dev/null", SPUR_LOG_DEBUG, NULL);
    srunner_add_suite(sr, suite_server());
    srunner_add_suite(sr, suite_auth());
    srunner_add_suite(sr, suite_client());
    srunner_add_suite(sr, suite_log());
    srunner_add_suite(sr, suite_munge());
    srunner_add_suite(sr, suite_tokens());
    srunner_run_all(sr, CK_ENV);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
