/* SPDX-License-Identifier: Apache-2.0 */
/* test_server.c - one loop with a server and its peers: real sockets on loopback and in a scratch folder, good and bad clients. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "rpc/channel.h"
#include "rpc/local.h"
#include "rpc/server.h"
#include "test_rpc.h"

/* What a side has seen. */
struct side {
    struct rpc *r;
    struct fake_auth auth;
    struct rpc_conn *last;
    int opened, closed, messages, drained;
    uint64_t seq;
    struct spur_identity identity;
    struct spur_error why;
    char text[64];
    bool echo;
    size_t flood;                   /* answer each message with this many bytes */
};

static uv_loop_t loop;
static char folder[64], path[96];

static void on_message(void *arg, struct rpc_conn *c, const struct frame *f, const uint8_t *body)
{
    struct side *s = arg;

    s->messages++;
    s->seq = f->seq;
    if (f->type == WIRE__MESSAGE_TYPE__VOUCH) {
        rpc_vouch_answer(c, f, body);
    } else if (s->echo) {
        Wire__Blob m = WIRE__BLOB__INIT;

        if (s->flood) {
            m.data.len = s->flood;
            m.data.data = calloc(1, s->flood);
        }
        rpc_send(c, WIRE__MESSAGE_TYPE__PONG, f->seq, s->flood ? &m.base : NULL);
        free(m.data.data);
    } else if (f->type == WIRE__MESSAGE_TYPE__REFUSED) {
        Wire__Refusal *m = wire__refusal__unpack(NULL, f->length, body);

        ck_assert_ptr_nonnull(m);
        snprintf(s->text, sizeof s->text, "%s", m->text);
        wire__refusal__free_unpacked(m, NULL);
    }
}

static void on_opened(void *arg, struct rpc_conn *c)
{
    struct side *s = arg;

    s->opened++;
    s->last = c;
    s->identity = *rpc_identity(c);
}

static void on_closed(void *arg, struct rpc_conn *c, const struct spur_error *why)
{
    struct side *s = arg;

    s->closed++;
    s->why = *why;
    if (s->last == c)
        s->last = NULL;
}

static void on_drained(void *arg, struct rpc_conn *c)
{
    struct side *s = arg;

    (void)c;
    s->drained++;
}

static const struct rpc_events events = { on_message, on_opened, on_closed, on_drained };

static void side_start(struct side *s, uint32_t uid, int role, bool may_block)
{
    memset(s, 0, sizeof *s);
    s->auth.uid = uid;
    s->auth.role = role;
    s->r = rpc_create(&loop, "c1", &fake_auth_ops, &s->auth, may_block, &events, s);
}

static void on_tick(uv_timer_t *t)
{
    (void)t;
}

/* One turn of the loop, at most 10 ms. */
static void turn(void)
{
    uv_timer_t tick;

    uv_timer_init(&loop, &tick);
    uv_timer_start(&tick, on_tick, 10, 0);
    uv_run(&loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&tick, NULL);
    uv_run(&loop, UV_RUN_NOWAIT);
}

/* Turns the loop until *what reaches n, at most 15 seconds. */
static void until(const int *what, int n)
{
    uint64_t end = uv_hrtime() + UINT64_C(15) * 1000000000;

    while (*what < n && uv_hrtime() < end)
        turn();
    ck_assert_int_ge(*what, n);
}

static void setup(void)
{
    strcpy(folder, "/tmp/spur-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/ctl.sock", folder);
    uv_loop_init(&loop);
}

static void teardown(void)
{
    char command[128];

    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);      /* nothing is left open */
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(tcp_both_know_each_other)
{
    struct side s, c;
    struct spur_error err;
    struct rpc_counters n;
    uint16_t port;

    side_start(&s, UINT32_MAX, SPUR_ROLE_CONTROLLER, _i & 1);
    side_start(&c, 1234, SPUR_ROLE_USER, _i & 2);
    s.echo = true;
    ck_assert_int_eq(rpc_listen_tcp(s.r, "127.0.0.1", 0, &port, &err), 0);
    ck_assert_int_eq(rpc_dial(c.r, _i & 4 ? "localhost" : "127.0.0.1", port, &s, &err), 0);
    ck_assert_int_eq(c.opened, 0);
    until(&c.opened, 1);
    until(&s.opened, 1);
    ck_assert_int_eq(c.identity.role, SPUR_ROLE_CONTROLLER);
    ck_assert_int_eq(s.identity.role, SPUR_ROLE_USER);
    ck_assert_uint_eq(s.identity.uid, 1234);
    ck_assert(!s.identity.is_local);
    ck_assert_ptr_eq(rpc_user(c.last), &s);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(rpc_send(c.last, WIRE__MESSAGE_TYPE__PING, (uint64_t)i, NULL), 0);
    until(&c.messages, 100);
    ck_assert_uint_eq(c.seq, 99);
    rpc_counters(s.r, &n);
    ck_assert_uint_eq(n.open, 1);
    ck_assert_uint_eq(n.accepted, 1);
    rpc_close(c.last, "enough");
    until(&s.closed, 1);
    until(&c.closed, 1);
    ck_assert_str_eq(c.why.text, "enough");
    rpc_destroy(s.r);
    rpc_destroy(c.r);
}
END_TEST

START_TEST(wrong_proofs)
{
    struct side s, c;
    struct spur_error err;
    struct rpc_counters n;
    uint16_t port;

    side_start(&s, UINT32_MAX, SPUR_ROLE_CONTROLLER, _i);
    side_start(&c, 1234, SPUR_ROLE_USER, _i);
    ck_assert_int_eq(rpc_listen_tcp(s.r, "127.0.0.1", 0, &port, &err), 0);
    c.auth.wrong = true;
    ck_assert_int_eq(rpc_dial(c.r, "127.0.0.1", port, NULL, &err), 0);
    until(&c.closed, 1);
    ck_assert_int_eq(s.opened + c.opened, 0);
    ck_assert_ptr_nonnull(strstr(c.why.text, "its log says why"));
    rpc_counters(s.r, &n);
    ck_assert_uint_eq(n.refused, 1);
    c.auth.wrong = false;
    s.auth.wrong = true;            /* a server that is none: the client says so, and has sent it nothing */
    ck_assert_int_eq(rpc_dial(c.r, "127.0.0.1", port, NULL, &err), 0);
    until(&c.closed, 2);
    ck_assert_int_eq(c.opened, 0);
    ck_assert_str_eq(c.why.text, "proof is wrong");
    rpc_destroy(s.r);
    rpc_destroy(c.r);
}
END_TEST

START_TEST(dial_to_nowhere)
{
    struct side c;
    struct spur_error err;

    side_start(&c, 1, SPUR_ROLE_USER, false);
    ck_assert_int_eq(rpc_dial(c.r, "127.0.0.1", 1, NULL, &err), 0);
    ck_assert_int_eq(c.closed, 0);
    until(&c.closed, 1);
    ck_assert_int_eq(rpc_dial(c.r, "no-such-host.invalid", 1, NULL, &err), 0);
    until(&c.closed, 2);
    ck_assert_ptr_nonnull(strstr(c.why.text, "no-such-host.invalid"));
    ck_assert_int_lt(rpc_dial_local(c.r, path, NULL, &err), 0);
    ck_assert_int_lt(rpc_dial(c.r, "", 1, NULL, &err), 0);
    rpc_destroy(c.r);
}
END_TEST

START_TEST(local_socket)
{
    struct side s, c;
    struct spur_error err;
    struct stat st;
    int fd;

    side_start(&s, 0, SPUR_ROLE_CONTROLLER, false);
    side_start(&c, 0, SPUR_ROLE_USER, false);
    s.echo = true;
    rpc_set_host(s.r, "head1");
    if (_i) {                       /* deeper than sun_path reaches */
        char deep[256];

        snprintf(deep, sizeof deep, "%s/a-folder-with-a-very-long-name-that-goes-on-and-on-for-more-than-a-hundred-and-seven-bytes-in-all", folder);
        ck_assert_int_eq(mkdir(deep, 0700), 0);
        ck_assert_uint_lt((size_t)snprintf(path, sizeof path, "%s/ctl.sock", folder), sizeof path);
        strcat(deep, "/ctl.sock");
        ck_assert_int_eq(rpc_listen_local(s.r, deep, 0666, &err), 0);
        ck_assert_int_eq(rpc_dial_local(c.r, deep, NULL, &err), 0);
    } else {
        fd = local_listen(path, 0600, 1, &err);         /* left by a dead daemon */
        ck_assert_int_ge(fd, 0);
        close(fd);
        ck_assert_int_eq(rpc_listen_local(s.r, path, 0666, &err), 0);
        ck_assert_int_eq(stat(path, &st), 0);
        ck_assert_int_eq(st.st_mode & 0777, 0666);
        ck_assert_int_eq(rpc_listen_local(c.r, path, 0666, &err), SPUR_EEXISTS);
        ck_assert_ptr_nonnull(strstr(err.text, "another daemon"));
        ck_assert_int_eq(rpc_dial_local(c.r, path, NULL, &err), 0);
    }
    ck_assert_int_eq(c.opened, 0);
    until(&c.opened, 1);
    until(&s.opened, 1);
    ck_assert_int_eq(s.identity.role, SPUR_ROLE_USER);
    ck_assert_uint_eq(s.identity.uid, getuid());
    ck_assert(s.identity.is_local);
    ck_assert_str_eq(s.identity.host, "head1");
    ck_assert_int_eq(rpc_send(c.last, WIRE__MESSAGE_TYPE__PING, 5, NULL), 0);
    until(&c.messages, 1);
    ck_assert_int_eq(rpc_refuse_leader(s.last, 9, "head2"), 0);
    rpc_close(s.last, "bye");       /* what is queued is written first */
    until(&c.messages, 2);
    ck_assert_str_eq(c.text, "another controller leads");
    until(&c.closed, 1);
    rpc_destroy(s.r);
    rpc_destroy(c.r);
    if (!_i)
        ck_assert_int_lt(stat(path, &st), 0);
}
END_TEST

static int raw_connect(uint16_t port)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

START_TEST(garbage_is_refused_and_others_are_served)
{
    struct side s, c;
    struct spur_error err;
    struct rpc_counters n;
    uint16_t port;
    unsigned char junk[4096];
    int fds[50];

    side_start(&s, UINT32_MAX, SPUR_ROLE_CONTROLLER, false);
    side_start(&c, 5, SPUR_ROLE_NODE, false);
    s.echo = true;
    ck_assert_int_eq(rpc_listen_tcp(s.r, "127.0.0.1", 0, &port, &err), 0);
    srand(1);
    for (size_t i = 0; i < 50; i++) {
        fds[i] = raw_connect(port);
        for (size_t k = 0; k < sizeof junk; k++)
            junk[k] = (unsigned char)rand();
        if (i % 3 == 0)
            memcpy(junk, "SPURcl\r\n", 8);          /* right magic, rest random */
        if (i % 5)
            ck_assert_int_gt(send(fds[i], junk, i % 3 == 0 ? 80 : 1 + i * 7, MSG_NOSIGNAL), 0);
    }
    ck_assert_int_eq(rpc_dial(c.r, "127.0.0.1", port, NULL, &err), 0);
    until(&c.opened, 1);
    rpc_send(c.last, WIRE__MESSAGE_TYPE__PING, 1, NULL);
    until(&c.messages, 1);
    rpc_counters(s.r, &n);
    ck_assert_uint_ge(n.refused, 35);
    ck_assert_int_eq(s.opened, 1);
    for (size_t i = 0; i < 50; i++)
        close(fds[i]);
    rpc_destroy(s.r);
    rpc_destroy(c.r);
}
END_TEST

START_TEST(slow_peers_meet_a_deadline)
{
    struct side s;
    struct spur_error err;
    struct rpc_counters n;
    uint16_t port;
    uint64_t start;
    int fd;
    char byte;

    side_start(&s, UINT32_MAX, SPUR_ROLE_CONTROLLER, false);
    ck_assert_int_eq(rpc_listen_tcp(s.r, "127.0.0.1", 0, &port, &err), 0);
    fd = raw_connect(port);
    ck_assert_int_eq(send(fd, "SPUR", 4, MSG_NOSIGNAL), 4);
    start = uv_hrtime();
    for (;;) {
        turn();
        rpc_counters(s.r, &n);
        if (n.refused || uv_hrtime() - start > UINT64_C(12000000000))
            break;
    }
    ck_assert_uint_eq(n.refused, 1);
    ck_assert_uint_ge(uv_hrtime() - start, (RPC_HANDSHAKE_MS - 500) * UINT64_C(1000000));
    ck_assert_int_eq(recv(fd, &byte, 1, 0), 0);
    close(fd);
    rpc_destroy(s.r);
}
END_TEST

START_TEST(strangers_are_bounded)
{
    struct side s, c;
    struct spur_error err;
    struct rpc_counters n;
    uint16_t port;
    int *fds, many = RPC_UNKNOWN_ADDRESS_MAX + 200;

    side_start(&s, UINT32_MAX, SPUR_ROLE_CONTROLLER, false);
    side_start(&c, 5, SPUR_ROLE_NODE, false);
    ck_assert_int_eq(rpc_listen_tcp(s.r, "127.0.0.1", 0, &port, &err), 0);
    fds = calloc((size_t)many, sizeof *fds);
    for (int i = 0; i < many; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fds[i] < 0)             /* too few descriptors for this test here */
            many = i;
        else {
            close(fds[i]);
            fds[i] = raw_connect(port);
        }
        if (i % 100 == 0)
            uv_run(&loop, UV_RUN_NOWAIT);
    }
    for (int i = 0; i < 20; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    rpc_counters(s.r, &n);
    ck_assert_uint_le(n.open, RPC_UNKNOWN_ADDRESS_MAX);
    ck_assert_int_eq(rpc_dial(c.r, "127.0.0.1", port, NULL, &err), 0);
    until(&c.opened, 1);            /* and a real one gets in */
    for (int i = 0; i < many; i++)
        close(fds[i]);
    free(fds);
    rpc_destroy(s.r);
    rpc_destroy(c.r);
}
END_TEST

START_TEST(a_peer_that_does_not_read)
{
    struct side s, c;
    struct spur_error err;
    struct channel *ch = channel_local();
    int fd, sent = 0;

    side_start(&s, 0, SPUR_ROLE_CONTROLLER, false);
    side_start(&c, 0, SPUR_ROLE_USER, false);
    s.echo = true;
    s.flood = 400000;
    ck_assert_int_eq(rpc_listen_local(s.r, path, 0600, &err), 0);
    fd = local_connect(path);
    ck_assert_int_ge(fd, 0);
    for (int i = 0; i < 500; i++)
        ck_assert_int_eq(channel_send(ch, WIRE__MESSAGE_TYPE__PING, (uint64_t)i, NULL, &err), 0);
    ck_assert_int_gt(send(fd, channel_output(ch)->text, channel_output(ch)->len, MSG_NOSIGNAL), 0);
    until(&s.messages, 3);
    for (int i = 0; i < 50; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    ck_assert_int_lt(s.messages, 10);               /* it stops asking before it owes too much */
    ck_assert_uint_lt(rpc_backlog(s.last), 4 * RPC_HIGH_WATER);
    /* As soon as it reads, all goes on. */
    for (uint64_t end = uv_hrtime() + UINT64_C(20000000000); s.messages < 500 && uv_hrtime() < end;) {
        static char sink[1 << 18];
        struct pollfd p = { .fd = fd, .events = POLLIN };

        uv_run(&loop, UV_RUN_NOWAIT);
        while (poll(&p, 1, 0) > 0 && recv(fd, sink, sizeof sink, 0) > 0)
            sent++;
    }
    ck_assert_int_eq(s.messages, 500);
    ck_assert_int_gt(s.drained, 0);
    close(fd);
    until(&s.closed, 1);
    channel_destroy(ch);
    rpc_destroy(s.r);
    rpc_destroy(c.r);
}
END_TEST

START_TEST(backlog_over_the_bound_closes)
{
    struct side s;
    struct spur_error err;
    Wire__Blob m = WIRE__BLOB__INIT;
    int fd, rc = 0;

    side_start(&s, 0, SPUR_ROLE_CONTROLLER, false);
    ck_assert_int_eq(rpc_listen_local(s.r, path, 0600, &err), 0);
    fd = local_connect(path);
    until(&s.opened, 1);
    m.data.len = 8 << 20;
    m.data.data = calloc(1, m.data.len);
    for (int i = 0; i < 20 && rc == 0; i++)
        rc = rpc_send(s.last, WIRE__MESSAGE_TYPE__PONG, 1, &m.base);
    ck_assert_int_eq(rc, SPUR_ELIMIT);
    until(&s.closed, 1);
    ck_assert_ptr_nonnull(strstr(s.why.text, "does not read"));
    free(m.data.data);
    close(fd);
    rpc_destroy(s.r);
}
END_TEST

START_TEST(vouching)
{
    struct side s, c;
    struct spur_error err;
    struct spur_identity id = { .size = sizeof id };
    struct channel *ch = channel_local();
    struct spur_transcript t = { .size = sizeof t, .cluster = "c1", .by_server = false };
    Wire__VouchRequest q = WIRE__VOUCH_REQUEST__INIT;
    Wire__VouchReply *a;
    struct frame f;
    const uint8_t *body;
    char buf[8192];
    ssize_t n;
    int fd;

    side_start(&s, 0, SPUR_ROLE_NODE, _i);
    side_start(&c, 0, SPUR_ROLE_USER, false);
    ck_assert_int_eq(rpc_listen_local(s.r, path, 0666, &err), 0);
    fd = local_connect(path);
    memset(t.hash, 9, sizeof t.hash);
    q.transcript.data = t.hash;
    for (int i = 0; i < 2; i++) {               /* then one that is too short */
        q.transcript.len = i ? 63 : 64;
        ck_assert_int_eq(channel_send(ch, WIRE__MESSAGE_TYPE__VOUCH, 3, &q.base, &err), 0);
        ck_assert_int_gt(send(fd, channel_output(ch)->text, channel_output(ch)->len, MSG_NOSIGNAL), 0);
        str_clear(channel_output(ch));
        until(&s.messages, i + 1);
        for (int rc = 0; rc == 0;) {
            struct pollfd p = { .fd = fd, .events = POLLIN };

            uv_run(&loop, UV_RUN_NOWAIT);
            if (poll(&p, 1, 5) == 0)
                continue;
            n = recv(fd, buf, sizeof buf, 0);
            ck_assert_int_gt(n, 0);
            ck_assert_int_eq(channel_input(ch, buf, (size_t)n, &err), 0);
            rc = channel_next(ch, &f, &body, &err);
            ck_assert_int_ge(rc, 0);
        }
        ck_assert_int_eq(f.type, i ? WIRE__MESSAGE_TYPE__REFUSED : WIRE__MESSAGE_TYPE__VOUCHED);
        if (i)
            break;
        a = wire__vouch_reply__unpack(NULL, f.length, body);
        ck_assert_int_eq(fake_auth_ops.check(&c.auth, &t, a->proof.data, a->proof.len, &id, &err), 0);
        ck_assert_uint_eq(id.uid, getuid());
        ck_assert_int_eq(id.role, SPUR_ROLE_USER);
        wire__vouch_reply__free_unpacked(a, NULL);
    }
    channel_destroy(ch);
    close(fd);
    rpc_destroy(s.r);
    rpc_destroy(c.r);
}
END_TEST

START_TEST(destroyed_in_the_middle)
{
    static struct side s, c;        /* calls of the plugin may still be running when this returns */
    struct spur_error err;
    uint16_t port;

    side_start(&s, UINT32_MAX, SPUR_ROLE_CONTROLLER, true);
    side_start(&c, 5, SPUR_ROLE_NODE, true);
    ck_assert_int_eq(rpc_listen_tcp(s.r, NULL, 0, &port, &err), 0);
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(rpc_dial(c.r, i & 1 ? "localhost" : "127.0.0.1", port, NULL, &err), 0);
    for (int i = 0; i < _i; i++)
        uv_run(&loop, UV_RUN_ONCE);
    rpc_destroy(s.r);
    rpc_destroy(c.r);
}
END_TEST

Suite *suite_server(void)
{
    Suite *s = suite_create("server");
    TCase *t = tcase_create("server");

    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, tcp_both_know_each_other, 0, 8);
    tcase_add_loop_test(t, wrong_proofs, 0, 2);
    tcase_add_test(t, dial_to_nowhere);
    tcase_add_loop_test(t, local_socket, 0, 2);
    tcase_add_test(t, garbage_is_refused_and_others_are_served);
    tcase_add_test(t, slow_peers_meet_a_deadline);
    tcase_add_test(t, strangers_are_bounded);
    tcase_add_test(t, a_peer_that_does_not_read);
    tcase_add_test(t, backlog_over_the_bound_closes);
    tcase_add_loop_test(t, vouching, 0, 2);
    tcase_add_loop_test(t, destroyed_in_the_middle, 0, 12);
    suite_add_tcase(s, t);
    return s;
}
