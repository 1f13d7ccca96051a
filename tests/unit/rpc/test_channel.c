/* SPDX-License-Identifier: Apache-2.0 */
/* test_channel.c - the channel against itself, with somebody in between who flips, cuts, repeats and swaps. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sodium.h>

#include "rpc/channel.h"
#include "test_rpc.h"

static const uint8_t key_one[32] = "one", key_two[32] = "two";

/* Moves all output of one side to the other. */
static int carry(struct channel *from, struct channel *to, struct spur_error *err)
{
    struct str *out = channel_output(from);
    int rc = out->len ? channel_input(to, out->text, out->len, err) : 0;

    str_clear(out);
    return rc;
}

static int auth_step(struct channel *c, struct fake_auth *self, struct spur_error *err)
{
    struct spur_identity id = { .size = sizeof id };
    uint8_t proof[SPUR_PROOF_MAX];
    const uint8_t *theirs;
    size_t len;
    int rc;

    switch (channel_want(c)) {
    case CHANNEL_PROVE:
        fake_auth_ops.prove(self, channel_transcript(c, false), proof, &len, err);
        return channel_proof(c, proof, len, err);
    case CHANNEL_CHECK:
        theirs = channel_peer_proof(c, &len);
        if ((rc = fake_auth_ops.check(self, channel_transcript(c, true), theirs, len, &id, err)) < 0)
            return rc;
        return channel_checked(c, err);
    default:
        return 0;
    }
}

/* Brings both up, or returns the first failure. */
static int meet(struct channel *a, struct channel *b, struct spur_error *err)
{
    struct fake_auth self = { .uid = 7, .role = SPUR_ROLE_NODE };
    int rc;

    for (int i = 0; i < 20; i++) {
        if ((rc = carry(a, b, err)) < 0 || (rc = auth_step(b, &self, err)) < 0 || (rc = carry(b, a, err)) < 0 || (rc = auth_step(a, &self, err)) < 0)
            return rc;
        if (channel_want(a) == CHANNEL_READY && channel_want(b) == CHANNEL_READY)
            return 0;
    }
    return spur_fail(err, SPUR_ETIMEOUT, "they never met");
}

static void send_text(struct channel *c, const char *text, uint64_t seq)
{
    struct spur_error err;
    Wire__Refusal m = WIRE__REFUSAL__INIT;

    m.text = (char *)text;
    ck_assert_int_eq(channel_send(c, WIRE__MESSAGE_TYPE__REFUSED, seq, &m.base, &err), 0);
}

static void expect_text(struct channel *c, const char *text, uint64_t seq)
{
    struct spur_error err;
    struct frame f;
    const uint8_t *body;
    Wire__Refusal *m;

    ck_assert_int_eq(channel_next(c, &f, &body, &err), 1);
    ck_assert_uint_eq(f.seq, seq);
    ck_assert_uint_eq(f.type, WIRE__MESSAGE_TYPE__REFUSED);
    m = wire__refusal__unpack(NULL, f.length, body);
    ck_assert_ptr_nonnull(m);
    ck_assert_str_eq(m->text, text);
    wire__refusal__free_unpacked(m, NULL);
}

static void expect_nothing(struct channel *c)
{
    struct spur_error err;
    struct frame f;
    const uint8_t *body;

    ck_assert_int_eq(channel_next(c, &f, &body, &err), 0);
}

START_TEST(frame_round_trip)
{
    struct frame f = { .length = 0x01020304, .type = 0x0506, .version = WIRE_VERSION, .seq = UINT64_C(0x1112131415161718) }, g;
    struct spur_error err;
    uint8_t raw[FRAME_HEADER];

    frame_pack(&f, raw);
    ck_assert_int_eq(raw[0], 4);
    ck_assert_int_eq(raw[8], 0x18);
    ck_assert_int_eq(frame_unpack(&g, raw, UINT32_MAX, &err), 0);
    ck_assert_mem_eq(&f, &g, sizeof f);
    ck_assert_int_eq(frame_unpack(&g, raw, 100, &err), SPUR_ELIMIT);
    f.version = WIRE_VERSION + 1;
    frame_pack(&f, raw);
    ck_assert_int_eq(frame_unpack(&g, raw, UINT32_MAX, &err), SPUR_ECORRUPT);
    f.version = 0;
    frame_pack(&f, raw);
    ck_assert_int_eq(frame_unpack(&g, raw, UINT32_MAX, &err), SPUR_ECORRUPT);
}
END_TEST

START_TEST(local_frames_byte_by_byte)
{
    struct channel *a = channel_local(), *b = channel_local();
    struct spur_error err;
    struct str *out;

    send_text(a, "hello", 1);
    send_text(a, "world", 2);
    out = channel_output(a);
    for (size_t i = 0; i < out->len; i++) {
        if (i + 1 < out->len / 2)
            expect_nothing(b);
        ck_assert_int_eq(channel_input(b, out->text + i, 1, &err), 0);
    }
    expect_text(b, "hello", 1);
    expect_text(b, "world", 2);
    expect_nothing(b);
    channel_destroy(a);
    channel_destroy(b);
}
END_TEST

START_TEST(sealed_both_ways)
{
    struct channel_pool *pool = channel_pool_create();
    struct channel *a = channel_client("c1"), *b;
    struct spur_error err;

    ck_assert(!channel_pool_fill(pool, 3));
    b = channel_server("c1", pool);
    ck_assert_int_eq(meet(a, b, &err), 0);
    for (int i = 0; i < 5; i++) {
        send_text(a, "question", (uint64_t)i);
        ck_assert_ptr_null(memmem(channel_output(a)->text, channel_output(a)->len, "question", 8));
        ck_assert_int_eq(carry(a, b, &err), 0);
        expect_text(b, "question", (uint64_t)i);
        send_text(b, "answer", (uint64_t)i);
        ck_assert_int_eq(carry(b, a, &err), 0);
        expect_text(a, "answer", (uint64_t)i);
    }
    expect_nothing(a);
    expect_nothing(b);
    channel_destroy(a);
    channel_destroy(b);
    channel_pool_destroy(pool);
}
END_TEST

START_TEST(long_messages_and_rekeying)
{
    struct channel *a = channel_client("c1"), *b = channel_server("c1", NULL);
    struct spur_error err;
    size_t size = 3000000;
    char *text = malloc(size + 1);

    ck_assert_int_eq(meet(a, b, &err), 0);
    channel_rekey_after(a, 100000);
    memset(text, 'x', size);
    text[size] = '\0';
    for (int i = 0; i < 3; i++) {
        send_text(a, text, 1);
        ck_assert_int_eq(carry(a, b, &err), 0);
        expect_text(b, text, 1);
        expect_nothing(b);
    }
    send_text(a, "small", 2);
    ck_assert_int_eq(carry(a, b, &err), 0);
    expect_text(b, "small", 2);
    expect_nothing(b);
    ck_assert_uint_lt(channel_memory(b), 64 << 10);         /* the big buffers have gone back */
    free(text);
    channel_destroy(a);
    channel_destroy(b);
}
END_TEST

START_TEST(message_over_the_limit_leaves_the_channel_as_it_was)
{
    struct channel *a = channel_local();
    Wire__Blob m = WIRE__BLOB__INIT;
    struct spur_error err;

    m.data.len = FRAME_MAX + 1;
    m.data.data = calloc(1, m.data.len);
    ck_assert_int_eq(channel_send(a, 1, 1, &m.base, &err), SPUR_ELIMIT);
    ck_assert_uint_eq(channel_output(a)->len, 0);
    send_text(a, "still here", 1);
    free(m.data.data);
    channel_destroy(a);
}
END_TEST

START_TEST(other_cluster)
{
    struct channel *a = channel_client("c1"), *b = channel_server("c2", NULL);
    struct spur_error err;

    ck_assert_int_eq(carry(a, b, &err), SPUR_EAUTH);
    ck_assert_ptr_nonnull(strstr(err.text, "another cluster"));
    ck_assert_int_eq(channel_want(b), CHANNEL_BROKEN);
    ck_assert_int_eq(carry(b, a, &err), SPUR_EAUTH);        /* the client can say it too */
    ck_assert_ptr_nonnull(strstr(err.text, "another cluster than c1"));
    channel_destroy(a);
    channel_destroy(b);
    a = channel_client(NULL);                               /* who has no configuration yet takes what answers */
    b = channel_server("c2", NULL);
    ck_assert_int_eq(meet(a, b, &err), 0);
    channel_destroy(a);
    channel_destroy(b);
}
END_TEST

START_TEST(keyed)
{
    struct channel *a = channel_keyed(false, "c1", key_one), *b = channel_keyed(true, "c1", key_one);
    struct spur_error err;
    int rc;

    ck_assert_int_eq(meet(a, b, &err), 0);
    send_text(b, "ok", 1);
    ck_assert_int_eq(carry(b, a, &err), 0);
    expect_text(a, "ok", 1);
    channel_destroy(a);
    channel_destroy(b);

    a = channel_keyed(false, "c1", key_one);
    b = channel_keyed(true, "c1", key_two);
    rc = meet(a, b, &err);
    ck_assert_int_eq(rc, SPUR_EAUTH);
    ck_assert_int_eq(channel_want(b), CHANNEL_BROKEN);
    channel_destroy(a);
    channel_destroy(b);

    a = channel_client("c1");                               /* and one that expects a plugin is not let in by a key */
    b = channel_keyed(true, "c1", key_one);
    ck_assert_int_eq(meet(a, b, &err), SPUR_EAUTH);
    channel_destroy(a);
    channel_destroy(b);
}
END_TEST

START_TEST(proof_of_one_side_is_none_of_the_other)
{
    struct channel *a = channel_client("c1"), *b = channel_server("c1", NULL);
    struct fake_auth self = { .uid = 7 };
    struct spur_identity id = { .size = sizeof id };
    struct spur_error err;
    uint8_t proof[SPUR_PROOF_MAX];
    size_t len;

    ck_assert_int_eq(carry(a, b, &err), 0);
    ck_assert_int_eq(carry(b, a, &err), 0);
    ck_assert_int_eq(channel_want(a), CHANNEL_PROVE);
    fake_auth_ops.prove(&self, channel_transcript(a, true), proof, &len, &err);
    ck_assert_int_eq(fake_auth_ops.check(&self, channel_transcript(b, true), proof, len, &id, &err), SPUR_EAUTH);
    fake_auth_ops.prove(&self, channel_transcript(a, false), proof, &len, &err);
    ck_assert_int_eq(fake_auth_ops.check(&self, channel_transcript(b, true), proof, len, &id, &err), 0);
    channel_destroy(a);
    channel_destroy(b);
}
END_TEST

START_TEST(nothing_is_sent_before_it_is_open)
{
    struct channel *a = channel_client("c1");
    struct spur_error err;
    uint8_t proof[1] = { 0 };

    ck_assert_int_lt(channel_send(a, 1, 1, NULL, &err), 0);
    ck_assert_int_lt(channel_proof(a, proof, 1, &err), 0);
    ck_assert_int_lt(channel_checked(a, &err), 0);
    channel_destroy(a);
}
END_TEST

/* One conversation of three messages in each direction with `mangle` in between; true when all came through unchanged. */
struct mangler { int kind; size_t at, seen; };       /* kind 0: flip bit 0 of byte `at` of all that flows; 1: cut there; 2: insert a byte */

static int mangled_carry(struct channel *from, struct channel *to, struct mangler *m, struct spur_error *err)
{
    struct str *out = channel_output(from), copy;
    int rc = 0;

    if (!out->len)
        return 0;
    str_init(&copy);
    str_add_n(&copy, out->text, out->len);
    if (m->at >= m->seen && m->at < m->seen + out->len) {
        size_t i = m->at - m->seen;

        if (m->kind == 0)
            copy.text[i] ^= 1 << (m->at % 8);
        else if (m->kind == 1)
            copy.len = i;
        else {
            str_add_char(&copy, 0);
            memmove(copy.text + i + 1, copy.text + i, copy.len - 1 - i);
            copy.text[i] ^= 1;
        }
    }
    m->seen += out->len;
    if (copy.len)
        rc = channel_input(to, copy.text, copy.len, err);
    str_fini(&copy);
    str_clear(out);
    return rc;
}

static size_t conversation(struct mangler *m, int *came_through)
{
    struct channel *a = channel_client("c1"), *b = channel_server("c1", NULL);
    struct fake_auth self = { .uid = 7, .role = SPUR_ROLE_NODE };
    struct spur_error err;
    struct frame f;
    const uint8_t *body;
    int rc = 0, sent = 0;

    *came_through = 0;
    for (int i = 0; i < 8 && rc >= 0; i++) {
        if ((rc = mangled_carry(a, b, m, &err)) < 0 || (rc = auth_step(b, &self, &err)) < 0 || (rc = mangled_carry(b, a, m, &err)) < 0 ||
            (rc = auth_step(a, &self, &err)) < 0)
            break;
        while ((rc = channel_next(b, &f, &body, &err)) > 0)
            *came_through += f.seq == 77 && f.length == 11;
        if (channel_want(a) == CHANNEL_READY && sent++ < 3)
            send_text(a, "message", 77);
    }
    ck_assert_uint_lt(channel_memory(a), 64 << 10);
    ck_assert_uint_lt(channel_memory(b), 64 << 10);
    channel_destroy(a);
    channel_destroy(b);
    return m->seen;
}

START_TEST(every_byte_counts)
{
    struct mangler m = { .kind = 0, .at = SIZE_MAX };
    int n;
    size_t total = conversation(&m, &n), before;

    ck_assert_int_eq(n, 3);
    for (int kind = 0; kind < 3; kind++)
        for (size_t at = 0; at < total; at++) {
            m = (struct mangler){ .kind = kind, .at = at };
            conversation(&m, &n);
            ck_assert_msg(n < 3, "kind %d at byte %zu was not noticed", kind, at);
            before = 80 + 80 + 24 + 4 + 40 + 17 + 24 + 4 + 40 + 17;
            if (at < before)
                ck_assert_msg(n == 0, "kind %d at byte %zu of the handshake let a message through", kind, at);
        }
}
END_TEST

/* Records of an open stream, one by one. */
static void take(struct channel *c, struct str *out)
{
    struct str *from = channel_output(c);

    str_init(out);
    str_add_n(out, from->text, from->len);
    str_clear(from);
}

START_TEST(repeated_reordered_and_lost_records)
{
    for (int kind = 0; kind < 4; kind++) {
        struct channel *a = channel_client("c1"), *b = channel_server("c1", NULL);
        struct spur_error err;
        struct str one, two;
        int rc = 0;

        ck_assert_int_eq(meet(a, b, &err), 0);
        send_text(a, "one", 1);
        take(a, &one);
        send_text(a, "two", 2);
        take(a, &two);
        if (kind == 0) {                /* repeated */
            ck_assert_int_eq(channel_input(b, one.text, one.len, &err), 0);
            expect_text(b, "one", 1);
            rc = channel_input(b, one.text, one.len, &err);
        } else if (kind == 1) {         /* swapped */
            rc = channel_input(b, two.text, two.len, &err);
        } else if (kind == 2) {         /* sent back to where it came from */
            rc = channel_input(a, one.text, one.len, &err);
        } else {                        /* of another connection */
            struct channel *x = channel_client("c1"), *y = channel_server("c1", NULL);

            ck_assert_int_eq(meet(x, y, &err), 0);
            rc = channel_input(y, one.text, one.len, &err);
            channel_destroy(x);
            channel_destroy(y);
        }
        ck_assert_int_eq(rc, SPUR_EAUTH);
        str_fini(&one);
        str_fini(&two);
        channel_destroy(a);
        channel_destroy(b);
    }
}
END_TEST

START_TEST(replayed_handshake)
{
    struct channel *a = channel_client("c1"), *b = channel_server("c1", NULL), *c;
    struct fake_auth self = { .uid = 7 };
    struct spur_error err;
    struct str hello, proof;

    take(a, &hello);
    ck_assert_int_eq(channel_input(b, hello.text, hello.len, &err), 0);
    ck_assert_int_eq(carry(b, a, &err), 0);
    ck_assert_int_eq(auth_step(a, &self, &err), 0);
    take(a, &proof);
    c = channel_server("c1", NULL);     /* both captured flights to a new connection */
    ck_assert_int_eq(channel_input(c, hello.text, hello.len, &err), 0);
    ck_assert_int_eq(channel_input(c, proof.text, proof.len, &err), SPUR_EAUTH);
    str_fini(&hello);
    str_fini(&proof);
    channel_destroy(a);
    channel_destroy(b);
    channel_destroy(c);
}
END_TEST

START_TEST(weak_keys)
{
    /* Points of low order: the shared secret would be known to all. */
    static const uint8_t low[][32] = { { 0 }, { 1 },
        { 0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4, 0x6a, 0xda, 0x09, 0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49, 0xb8, 0x00 } };

    for (size_t i = 0; i < sizeof low / sizeof *low; i++) {
        struct channel *a = channel_client("c1"), *b = channel_server("c1", NULL);
        struct spur_error err;
        struct str hello;

        take(a, &hello);
        memcpy(hello.text + 48, low[i], 32);
        ck_assert_int_eq(channel_input(b, hello.text, hello.len, &err), SPUR_EAUTH);
        str_fini(&hello);
        channel_destroy(a);
        channel_destroy(b);
    }
}
END_TEST

START_TEST(garbage_and_lengths)
{
    static const struct { const char *what; const char *bytes; size_t n; int code; } rows[] = {
        { "http", "GET / HTTP/1.1\r\n\r\n", 18, SPUR_ECORRUPT },
        { "one byte", "x", 1, SPUR_ECORRUPT },
        { "tls", "\x16\x03\x01\x02\x00\x01\x00", 7, SPUR_ECORRUPT },
        { "zeros", "\0\0\0\0\0\0\0\0\0\0", 10, SPUR_ECORRUPT },
    };
    struct spur_error err;
    struct channel *a, *b;
    struct str hello;
    uint8_t big[20000];

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        b = channel_server("c1", NULL);
        ck_assert_msg(channel_input(b, rows[i].bytes, rows[i].n, &err) == rows[i].code, "%s", rows[i].what);
        ck_assert_uint_eq(channel_output(b)->len, 0);
        channel_destroy(b);
    }
    randombytes_buf(big, sizeof big);
    b = channel_server("c1", NULL);
    ck_assert_int_eq(channel_input(b, big, sizeof big, &err), SPUR_ELIMIT);
    channel_destroy(b);
    /* After a good hello: a huge record is refused by its length alone, and a dribble of 16 KiB holds no more than that. */
    a = channel_client("c1");
    b = channel_server("c1", NULL);
    take(a, &hello);
    ck_assert_int_eq(channel_input(b, hello.text, hello.len, &err), 0);
    memset(big, 0, 24);
    memset(big + 24, 0xff, 4);
    ck_assert_int_eq(channel_input(b, big, 28, &err), SPUR_ELIMIT);
    ck_assert_uint_lt(channel_memory(b), 64 << 10);
    channel_destroy(b);
    b = channel_server("c1", NULL);
    ck_assert_int_eq(channel_input(b, hello.text, hello.len, &err), 0);
    big[24] = 0; big[25] = 0x10; big[26] = big[27] = 0;     /* 4096: allowed, but never opens */
    for (size_t i = 0; i < sizeof big; i++) {
        ck_assert_uint_lt(channel_memory(b), 64 << 10);
        if (channel_input(b, big + i, 1, &err) < 0)
            break;
    }
    ck_assert_int_eq(channel_want(b), CHANNEL_BROKEN);
    str_fini(&hello);
    channel_destroy(a);
    channel_destroy(b);
}
END_TEST

START_TEST(known_peer_with_a_huge_length)
{
    struct channel *b = channel_local();
    struct frame f = { .length = FRAME_MAX + 1, .type = 1, .version = WIRE_VERSION };
    struct spur_error err;
    uint8_t raw[FRAME_HEADER];
    const uint8_t *body;

    frame_pack(&f, raw);
    ck_assert_int_eq(channel_input(b, raw, sizeof raw, &err), 0);
    ck_assert_int_eq(channel_next(b, &f, &body, &err), SPUR_ELIMIT);
    ck_assert_int_eq(channel_want(b), CHANNEL_BROKEN);
    channel_destroy(b);
    b = channel_local();
    f.length = FRAME_MAX;                                   /* allowed: costs nothing until it has come */
    frame_pack(&f, raw);
    ck_assert_int_eq(channel_input(b, raw, sizeof raw, &err), 0);
    ck_assert_int_eq(channel_next(b, &f, &body, &err), 0);
    ck_assert_uint_lt(channel_memory(b), 4096);
    channel_destroy(b);
}
END_TEST

Suite *suite_channel(void)
{
    Suite *s = suite_create("channel");
    TCase *t = tcase_create("channel");

    tcase_set_timeout(t, 120);
    tcase_add_test(t, frame_round_trip);
    tcase_add_test(t, local_frames_byte_by_byte);
    tcase_add_test(t, sealed_both_ways);
    tcase_add_test(t, long_messages_and_rekeying);
    tcase_add_test(t, message_over_the_limit_leaves_the_channel_as_it_was);
    tcase_add_test(t, other_cluster);
    tcase_add_test(t, keyed);
    tcase_add_test(t, proof_of_one_side_is_none_of_the_other);
    tcase_add_test(t, nothing_is_sent_before_it_is_open);
    tcase_add_test(t, every_byte_counts);
    tcase_add_test(t, repeated_reordered_and_lost_records);
    tcase_add_test(t, replayed_handshake);
    tcase_add_test(t, weak_keys);
    tcase_add_test(t, garbage_and_lengths);
    tcase_add_test(t, known_peer_with_a_huge_length);
    suite_add_tcase(s, t);
    return s;
}
