/* SPDX-License-Identifier: Apache-2.0 */
/* test_wire.c - messages into an arena under a cap, and what a launch credential covers. */
#include <check.h>
#include <sodium.h>
#include <string.h>

#include "wire/credential.h"
#include "wire/unpack.h"

START_TEST(round_trip)
{
    Wire__JobSpec spec = WIRE__JOB_SPEC__INIT, *back;
    char *argv[] = { (char *)"a", (char *)"", (char *)"b c" };
    struct arena a;
    size_t n;
    void *bytes;

    arena_init(&a, 0);
    spec.name = (char *)"x";
    spec.argv = argv;
    spec.n_argv = 3;
    spec.has_nice = 1;
    spec.nice = -5;
    bytes = wire_pack(&spec.base, &a, &n);
    back = wire_unpack(&wire__job_spec__descriptor, bytes, n, &a);
    ck_assert_ptr_nonnull(back);
    ck_assert_uint_eq(back->n_argv, 3);
    ck_assert_str_eq(back->argv[2], "b c");
    ck_assert_int_eq(back->nice, -5);
    ck_assert(!back->has_ntasks);
    arena_fini(&a);
}
END_TEST

/* Fields of a newer version pass through an older one. */
START_TEST(unknown_fields_pass)
{
    static const uint8_t bytes[] = { 0x0a, 1, 'x', 0xf8, 0x7f, 42 };    /* name, and number 2047 */
    Wire__JobSpec *spec;
    struct arena a;
    size_t n;
    uint8_t *again;

    arena_init(&a, 0);
    spec = wire_unpack(&wire__job_spec__descriptor, bytes, sizeof bytes, &a);
    ck_assert_ptr_nonnull(spec);
    again = wire_pack(&spec->base, &a, &n);
    ck_assert_uint_eq(n, sizeof bytes);
    ck_assert_mem_eq(again, bytes, n);
    arena_fini(&a);
}
END_TEST

START_TEST(capped)
{
    uint8_t bytes[4096];
    struct arena a;

    for (size_t i = 0; i + 3 <= sizeof bytes; i += 3) {     /* empty arguments: three bytes each here, a pointer and a text in memory */
        bytes[i] = 0x82;
        bytes[i + 1] = 0x04;
        bytes[i + 2] = 0;
    }
    arena_init(&a, 4096);
    ck_assert_ptr_null(wire_unpack(&wire__job_spec__descriptor, bytes, sizeof bytes / 3 * 3, &a));
    ck_assert_uint_le(a.used, 4096);
    arena_fini(&a);
    arena_init(&a, 1 << 20);
    ck_assert_ptr_nonnull(wire_unpack(&wire__job_spec__descriptor, bytes, sizeof bytes / 3 * 3, &a));
    for (size_t cut = 1; cut < 3; cut++)
        ck_assert_ptr_null(wire_unpack(&wire__job_spec__descriptor, bytes, cut, &a));
    arena_fini(&a);
}
END_TEST

static void launch_make(Wire__Launch *l, Wire__StepSpec *step, Wire__Credential *c, Wire__NodeAlloc *node, Wire__NodeAlloc **nodes, char **argv, size_t argc, struct arena *a)
{
    struct spur_error err;

    wire__launch__init(l);
    wire__step_spec__init(step);
    wire__credential__init(c);
    wire__node_alloc__init(node);
    step->argv = argv;
    step->n_argv = argc;
    l->step = step;
    l->signer = (char *)"ctl1";
    l->has_env = 1;
    l->env = (ProtobufCBinaryData){ 4, (uint8_t *)"A=b" };
    node->name = (char *)"n1";
    *nodes = node;
    c->cluster = (char *)"blue";
    c->job_id = 7;
    c->step_id = c->uid = c->gid = 1;
    c->attempt = 1;
    c->nodes = nodes;
    c->n_nodes = 1;
    c->fence = 5;
    c->issued_wall_ms = 1000;
    c->expires_wall_ms = 61000;
    ck_assert_int_eq(credential_seal(c, l, a, &err), 0);
}

START_TEST(credentials)
{
    char *argv[] = { (char *)"ab", (char *)"c" }, *other[] = { (char *)"a", (char *)"bc" };
    struct spur_error err = { 0 };
    Wire__Launch l;
    Wire__StepSpec step;
    Wire__Credential c, *out = NULL;
    Wire__NodeAlloc node, *nodes;
    struct arena a;

    arena_init(&a, 0);
    launch_make(&l, &step, &c, &node, &nodes, argv, 2, &a);
    ck_assert_int_eq(credential_open(&l, "blue", "n1", 5, 2000, &a, &out, &err), 0);
    ck_assert_uint_eq(out->job_id, 7);
    ck_assert_str_eq(out->purpose, CREDENTIAL_PURPOSE);
    ck_assert_int_eq(credential_open(&l, "red", "n1", 5, 2000, &a, &out, &err), SPUR_EAUTH);
    ck_assert_int_eq(credential_open(&l, "blue", "n2", 5, 2000, &a, &out, &err), SPUR_EAUTH);
    ck_assert_int_eq(credential_open(&l, "blue", "n1", 6, 2000, &a, &out, &err), SPUR_ESTALE);
    ck_assert_int_eq(credential_open(&l, "blue", "n1", 5, 61001, &a, &out, &err), SPUR_ESTALE);
    step.argv = other;      /* the same letters, cut elsewhere */
    ck_assert_int_eq(credential_open(&l, "blue", "n1", 5, 2000, &a, &out, &err), SPUR_EAUTH);
    step.argv = argv;
    l.env.len = 3;
    ck_assert_int_eq(credential_open(&l, "blue", "n1", 5, 2000, &a, &out, &err), SPUR_EAUTH);
    l.env.len = 4;
    l.has_script = 1;
    l.script = (ProtobufCBinaryData){ 1, (uint8_t *)"x" };
    ck_assert_int_eq(credential_open(&l, "blue", "n1", 5, 2000, &a, &out, &err), SPUR_EAUTH);
    l.has_script = 0;
    ck_assert_int_eq(credential_open(&l, "blue", "n1", 5, 2000, &a, &out, &err), 0);
    for (size_t i = 0; i < l.credential.len; i++) {     /* any changed bit: another digest, another message, or none; never a crash */
        l.credential.data[i] ^= 1;
        credential_open(&l, "blue", "n1", 5, 2000, &a, &out, &err);
        l.credential.data[i] ^= 1;
    }
    l.credential.len--;
    ck_assert_int_eq(credential_open(&l, "blue", "n1", 5, 2000, &a, &out, &err), SPUR_EAUTH);
    arena_fini(&a);
}
END_TEST

/* The digest is part of the wire form: it must never change. */
START_TEST(digest_is_fixed)
{
    Wire__Launch l = WIRE__LAUNCH__INIT;
    Wire__JobSpec spec = WIRE__JOB_SPEC__INIT;
    char *argv[] = { (char *)"one", (char *)"two" }, hex[65];
    uint8_t digest[32];

    spec.argv = argv;
    spec.n_argv = 2;
    l.spec = &spec;
    l.has_env = l.has_script = 1;
    l.env = (ProtobufCBinaryData){ 4, (uint8_t *)"A=b" };
    l.script = (ProtobufCBinaryData){ 10, (uint8_t *)"#!/bin/sh\n" };
    launch_digest(&l, digest);
    sodium_bin2hex(hex, sizeof hex, digest, sizeof digest);
    ck_assert_str_eq(hex, "ba4a8901b2deafc681df44e74110c5053d0ad94052aad5c257e0ea814e8231b2");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("wire");
    TCase *c = tcase_create("wire");
    SRunner *r;
    int failed;

    tcase_add_test(c, round_trip);
    tcase_add_test(c, unknown_fields_pass);
    tcase_add_test(c, capped);
    tcase_add_test(c, credentials);
    tcase_add_test(c, digest_is_fixed);
    suite_add_tcase(s, c);
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
