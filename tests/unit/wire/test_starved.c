/* SPDX-License-Identifier: Apache-2.0 */
/* test_starved.c - memory ends at any allocation while what a peer sent is decoded (SA-31).
 *
 * Two ways. The allocator of a message says no at the n-th call, as an arena does at its cap: the message is refused, and nothing of it is lost or freed twice
 * (the sanitizers look). And malloc itself says no, wrapped by the linker: the process ends by mem_*'s own line and abort, never by a wild
 * pointer, in a handshake, in frames and in a message. The first 2,000 allocations each, or all there are.
 */
#define _GNU_SOURCE
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rpc/channel.h"
#include "wire/unpack.h"

#define TRIES 2000

/* ---- malloc that fails at the n-th call from now ---- */
static long left = -1;          /* -1: never */

void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t n);
void *__real_realloc(void *old, size_t n);
void *__real_reallocarray(void *old, size_t count, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t n);
void *__wrap_realloc(void *old, size_t n);
void *__wrap_reallocarray(void *old, size_t count, size_t n);

static bool is_over(void)
{
    if (left != 0)
        left -= left > 0;
    if (left == 0)
        errno = ENOMEM;
    return left == 0;
}

void *__wrap_malloc(size_t n) { return is_over() ? NULL : __real_malloc(n); }
void *__wrap_calloc(size_t count, size_t n) { return is_over() ? NULL : __real_calloc(count, n); }
void *__wrap_realloc(void *old, size_t n) { return is_over() ? NULL : __real_realloc(old, n); }
void *__wrap_reallocarray(void *old, size_t count, size_t n) { return is_over() ? NULL : __real_reallocarray(old, count, n); }

/* ---- a message with many parts of every kind ---- */
static uint8_t *packed;
static size_t packed_n;

static void pack(void)
{
    static Wire__Entry entry = WIRE__ENTRY__INIT;
    static Wire__Op ops[60];
    static Wire__OpSubmit submits[30];
    static Wire__JobSpec specs[30];
    static Wire__OpRegister regs[30];
    static Wire__NodeInventory nodes[30];
    static Wire__GresAlloc gres[30][4];
    static Wire__GresAlloc *gres_rows[30][4];
    static Wire__Op *rows[60];
    static char *words[20];
    static uint32_t groups[16] = { 1, 2, 3 };

    for (size_t i = 0; i < 20; i++)
        words[i] = (char *)(uintptr_t)"a word of an argument";
    for (size_t i = 0; i < 30; i++) {
        wire__op__init(&ops[i]);
        wire__op_submit__init(&submits[i]);
        wire__job_spec__init(&specs[i]);
        specs[i].name = specs[i].comment = specs[i].work_dir = words[0];
        specs[i].argv = words;
        specs[i].n_argv = 20;
        submits[i].spec = &specs[i];
        submits[i].groups = groups;
        submits[i].n_groups = 16;
        ops[i].submit = &submits[i];
        wire__op__init(&ops[30 + i]);
        wire__op_register__init(&regs[i]);
        wire__node_inventory__init(&nodes[i]);
        nodes[i].name = nodes[i].os = nodes[i].arch = words[1];
        for (size_t k = 0; k < 4; k++) {
            wire__gres_alloc__init(&gres[i][k]);
            gres[i][k].name = gres[i][k].type = words[2];
            gres_rows[i][k] = &gres[i][k];
        }
        nodes[i].gres = gres_rows[i];
        nodes[i].n_gres = 4;
        regs[i].inventory = &nodes[i];
        ops[30 + i].register_node = &regs[i];
    }
    for (size_t i = 0; i < 60; i++)
        rows[i] = &ops[i];
    entry.ops = rows;
    entry.n_ops = 60;
    packed_n = wire__entry__get_packed_size(&entry);
    packed = malloc(packed_n);
    ck_assert_uint_eq(wire__entry__pack(&entry, packed), packed_n);
}

/* ---- the allocator of a message ---- */
struct meter { long left; size_t given, taken; };

static void *meter_alloc(void *arg, size_t n)
{
    struct meter *m = arg;

    if (m->left-- <= 0)
        return NULL;
    m->given++;
    return malloc(n ? n : 1);
}

static void meter_free(void *arg, void *p)
{
    struct meter *m = arg;

    m->taken += p != NULL;
    free(p);
}

START_TEST(a_message_that_gets_no_memory_is_refused)
{
    struct meter m = { .left = 1 << 20 };
    ProtobufCAllocator a = { meter_alloc, meter_free, &m };
    ProtobufCMessage *got;
    size_t all;

    pack();
    ck_assert_ptr_nonnull(got = protobuf_c_message_unpack(&wire__entry__descriptor, &a, packed_n, packed));
    all = m.given;
    protobuf_c_message_free_unpacked(got, &a);
    ck_assert_uint_eq(m.given, m.taken);
    ck_assert_uint_gt(all, 1000);
    for (long n = 0; n <= TRIES && n <= (long)all; n++) {
        m = (struct meter){ .left = n };
        got = protobuf_c_message_unpack(&wire__entry__descriptor, &a, packed_n, packed);
        ck_assert_msg((got != NULL) == (n == (long)all), "at %ld of %zu", n, all);
        if (got)
            protobuf_c_message_free_unpacked(got, &a);
        ck_assert_uint_eq(m.given, m.taken);
    }
    free(packed);
}
END_TEST

/* The cap of an arena, byte by byte for a small message and in steps for a large one. */
START_TEST(a_cap_is_a_refusal)
{
    static const uint8_t small[] = { 0x0a, 1, 'x', 0x82, 0x04, 1, 'y', 0x82, 0x04, 0 };
    struct arena a;
    bool fits = false;

    pack();
    for (size_t cap = 1; cap < 4096; cap++) {
        bool got;

        arena_init(&a, cap);
        got = wire_unpack(&wire__job_spec__descriptor, small, sizeof small, &a) != NULL;
        ck_assert(a.used <= cap && (!fits || got));
        fits = got;
        arena_fini(&a);
    }
    ck_assert(fits);
    fits = false;
    for (size_t cap = 1; cap < 1u << 20; cap += 509) {
        bool got;

        arena_init(&a, cap);
        got = wire_unpack(&wire__entry__descriptor, packed, packed_n, &a) != NULL;
        ck_assert(a.used <= cap && (!fits || got));
        fits = got;
        arena_fini(&a);
    }
    ck_assert(fits);
    free(packed);
}
END_TEST

/* ---- malloc itself ---- */
static void carry(struct channel *from, struct channel *to)
{
    struct spur_error err;
    struct str *out = channel_output(from);

    if (out->len)
        channel_input(to, out->text, out->len, &err);
    str_clear(out);
}

static void receive(void)
{
    static const uint8_t key[32] = "both know it";
    struct channel *c = channel_client("c"), *s = channel_server("c", NULL), *a = channel_keyed(false, "c", key), *b = channel_keyed(true, "c", key);
    struct spur_error err;
    const uint8_t *body;
    struct arena arena;
    struct frame f;

    carry(c, s);
    carry(s, c);
    for (int i = 0; i < 2; i++) {
        carry(a, b);
        carry(b, a);
    }
    if (channel_want(a) == CHANNEL_READY && channel_send_bytes(a, WIRE__MESSAGE_TYPE__REGISTER, 1, packed, packed_n, &err) == 0)
        carry(a, b);
    while (channel_next(b, &f, &body, &err) > 0) {
        arena_init(&arena, 0);
        wire_unpack_bounded(&wire__entry__descriptor, body, f.length, &arena);
        arena_fini(&arena);
    }
    channel_destroy(c);
    channel_destroy(s);
    channel_destroy(a);
    channel_destroy(b);
}

START_TEST(no_memory_ends_in_words)
{
    const struct rlimit no_core = { 0, 0 };
    int ended = 0;

    pack();
    setrlimit(RLIMIT_CORE, &no_core);
    for (long n = 1; n <= TRIES; n++) {
        char line[200] = "";
        int fds[2], status;
        ssize_t got;
        pid_t pid;

        ck_assert_int_eq(pipe(fds), 0);
        if ((pid = fork()) == 0) {
            dup2(fds[1], STDERR_FILENO);
            left = n;
            receive();
            _exit(left == 0 ? 3 : 0);           /* 3: it was over, and somebody took NULL for an answer */
        }
        close(fds[1]);
        got = read(fds[0], line, sizeof line - 1);
        close(fds[0]);
        line[got > 0 ? got : 0] = '\0';
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            break;
        ended++;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 3)
            continue;
        ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && strstr(line, "spur: out of memory"), "allocation %ld: status %x, said: %s", n, status, line);
    }
    ck_assert_int_gt(ended, 5);
    free(packed);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("starved");
    TCase *c = tcase_create("memory");
    SRunner *r;
    int failed;

    if (sodium_init() < 0)
        return 1;
    tcase_set_timeout(c, 600);
    tcase_add_test(c, a_message_that_gets_no_memory_is_refused);
    tcase_add_test(c, a_cap_is_a_refusal);
    tcase_add_test(c, no_memory_ends_in_words);
    suite_add_tcase(s, c);
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
