/* SPDX-License-Identifier: Apache-2.0 */
/* test_client.c - the blocking client against real servers on a thread of their own: local socket, several controllers, TCP with vouching. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "client/client.h"
#include "cmds/cluster.h"
#include "loader/loader.h"
#include "rpc/server.h"
#include "test_rpc.h"

/* One daemon: a controller, or a node that only vouches. Lives on the thread's loop. */
struct daemon {
    const char *name, *role, *dir, *more;       /* dir: folder of its keys; more: options of its auth plugin */
    char sock[128];
    bool with_tcp;
    const char *leader;                 /* answers "not I, he"; "": nobody knows */
    int drop;                           /* closes so many requests unanswered first */
    struct rpc *r;
    struct spur_host h;
    struct loaded *auth;
    struct config *cfg;
    uint16_t port;
    atomic_int requests;
    struct spur_identity last;
};

static char folder[64], conf[128];
static pthread_t thread;
static uv_loop_t loop;
static uv_async_t stop;
static uv_timer_t late;
static struct daemon *daemons[3];

static const char *daemon_name(void *ctx) { return ((struct daemon *)ctx)->name; }
static const char *daemon_role(void *ctx) { return ((struct daemon *)ctx)->role; }

static void answer_jobs(struct rpc_conn *c, uint64_t seq)
{
    for (int part = 0; part < 50; part++) {
        Wire__JobsReply m = WIRE__JOBS_REPLY__INIT;
        Wire__JobInfo j[100], *at[100];

        for (int i = 0; i < 100; i++) {
            wire__job_info__init(&j[i]);
            j[i].job_id = (uint32_t)(part * 100 + i);
            j[i].user = "somebody";
            at[i] = &j[i];
        }
        m.jobs = at;
        m.n_jobs = 100;
        m.has_last = part == 49;
        m.last = part == 49;
        rpc_send(c, WIRE__MESSAGE_TYPE__JOBS_PART, seq, &m.base);
    }
}

static void on_message(void *arg, struct rpc_conn *c, const struct frame *f, const uint8_t *body)
{
    struct daemon *d = arg;
    struct spur_error err;
    Wire__Pong pong = WIRE__PONG__INIT;
    Wire__ConfigFiles files = WIRE__CONFIG_FILES__INIT;
    Wire__JobsReply waited = WIRE__JOBS_REPLY__INIT;

    d->last = *rpc_identity(c);
    if (f->type == WIRE__MESSAGE_TYPE__VOUCH) {
        rpc_vouch_answer(c, f, body);
        return;
    }
    d->requests++;
    if (d->drop > 0) {
        d->drop--;
        rpc_close(c, "test");
    } else if (d->leader) {
        rpc_refuse_leader(c, f->seq, *d->leader ? d->leader : NULL);
    } else if (f->type == WIRE__MESSAGE_TYPE__PING) {
        pong.host = (char *)d->name;
        rpc_send(c, WIRE__MESSAGE_TYPE__PONG, f->seq, &pong.base);
    } else if (f->type == WIRE__MESSAGE_TYPE__JOBS) {
        answer_jobs(c, f->seq);
    } else if (f->type == WIRE__MESSAGE_TYPE__CONFIG_FILES) {
        files.slurm = "ClusterName=c1\n";
        rpc_send(c, WIRE__MESSAGE_TYPE__CONFIG_TEXTS, f->seq, &files.base);
    } else if (f->type == WIRE__MESSAGE_TYPE__WAIT) {
        if (d->requests > 1)                    /* the first wait is answered by nothing */
            rpc_send(c, WIRE__MESSAGE_TYPE__JOBS_PART, f->seq, &waited.base);
        else if (d->with_tcp)
            rpc_close(c, "restart");
    } else {
        spur_fail(&err, SPUR_EINVAL, "Invalid job id specified");
        rpc_refuse(c, f->seq, &err, 2017);
    }
}

static void daemon_start(struct daemon *d)
{
    static const struct rpc_events events = { .message = on_message };
    struct spur_error err = { 0 };
    char spur[300];

    d->h = (struct spur_host){ .size = sizeof d->h, .ctx = d, .host_name = daemon_name, .role = daemon_role };
    snprintf(spur, sizeof spur, "plugin \"auth/sodium\" { key_dir = \"%s/keys/%s\" %s }\n", folder, d->dir, d->more ? d->more : "");
    ck_assert_int_eq(config_parse("ClusterName=c1\nSlurmctldHost=ctl1\nNodeName=n1\nPartitionName=p Nodes=n1\n", NULL, NULL, NULL, spur, &d->cfg, &err), 0);
    ck_assert_msg(loader_open(SPUR_KIND_auth, "auth/sodium", d->cfg, &d->h, &d->auth, &err) == 0, "%s", err.text);
    d->r = rpc_create(&loop, "c1", loader_ops(d->auth), d->auth->self, false, &events, d);
    ck_assert_int_eq(rpc_listen_local(d->r, d->sock, 0666, &err), 0);
    if (d->with_tcp)
        ck_assert_int_eq(rpc_listen_tcp(d->r, "127.0.0.1", d->port, &d->port, &err), 0);
}

static void daemon_stop(struct daemon *d)
{
    rpc_destroy(d->r);
}

static void on_stop(uv_async_t *a)
{
    for (size_t i = 0; i < 3; i++)
        if (daemons[i] && daemons[i]->r)
            daemon_stop(daemons[i]);
    uv_close((uv_handle_t *)&late, NULL);
    uv_close((uv_handle_t *)a, NULL);
}

static void on_late(uv_timer_t *t)
{
    daemon_start(t->data);
}

static void *serve(void *arg)
{
    (void)arg;
    uv_run(&loop, UV_RUN_DEFAULT);
    return NULL;
}

/* Starts the daemons that are given; the one in `later` after some time. */
static void start(struct daemon *a, struct daemon *b, struct daemon *later)
{
    uv_loop_init(&loop);
    uv_async_init(&loop, &stop, on_stop);
    uv_timer_init(&loop, &late);
    daemons[0] = a;
    daemons[1] = b;
    daemons[2] = later;
    for (size_t i = 0; i < 2; i++)
        if (daemons[i])
            daemon_start(daemons[i]);
    late.data = later;
    if (later)
        uv_timer_start(&late, on_late, 700, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, serve, NULL), 0);
}

static void end(void)
{
    uv_async_send(&stop);
    pthread_join(thread, NULL);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    for (size_t i = 0; i < 3; i++)
        if (daemons[i]) {
            loader_close(daemons[i]->auth);
            config_free(daemons[i]->cfg);
        }
}

static void put(const char *name, const char *text)
{
    char path[200];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    ck_assert_ptr_nonnull(f = fopen(path, "w"));
    fputs(text, f);
    fclose(f);
}

static void write_conf(const char *controllers, uint16_t port, const char *key_of)
{
    char text[600];

    snprintf(text, sizeof text, "ClusterName=c1\n%sSlurmctldPort=%u\nAuthType=auth/sodium\nNodeName=n1\nPartitionName=p Nodes=n1\n", controllers, port);
    put("slurm.conf", text);
    snprintf(text, sizeof text, "run_dir = \"%s/run\"\nplugin \"auth/sodium\" {\n  key_dir = \"%s/keys/%s\"\n}\n", folder, folder, key_of);
    put("spur.conf", text);
}

static void setup(void)
{
    struct spur_error err;
    char path[128];

    strcpy(folder, "/tmp/spur-client-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/keys", folder);
    ck_assert_int_eq(cluster_keys_make(path, "ctl1,ctl2", "n1", &err), 0);
    snprintf(path, sizeof path, "%s/run", folder);
    mkdir(path, 0755);
    snprintf(conf, sizeof conf, "%s/slurm.conf", folder);
    write_conf("SlurmctldHost=ctl1\n", 1, "n1");
}

static void teardown(void)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static struct daemon make(const char *name, const char *role, const char *sock)
{
    struct daemon d = { .name = name, .dir = name, .role = role };

    snprintf(d.sock, sizeof d.sock, "%s/run/%s", folder, sock);
    return d;
}

static int ping(struct client *c, char *who, size_t size, struct spur_error *err)
{
    Wire__Empty q = WIRE__EMPTY__INIT;
    Wire__Pong *pong;
    struct arena a;
    void *reply;
    int rc;

    arena_init(&a, 0);
    rc = client_call(c, WIRE__MESSAGE_TYPE__PING, &q.base, WIRE__MESSAGE_TYPE__PONG, &wire__pong__descriptor, &a, &reply, NULL, err);
    if (rc == 0) {
        pong = reply;
        snprintf(who, size, "%s", pong->host);
    }
    arena_fini(&a);
    return rc;
}

static int count_jobs(void *arg, void *part)
{
    Wire__JobsReply *m = part;
    int *n = arg;

    *n += (int)m->n_jobs;
    return *n >= 1000000 ? 0 : 1;
}

static int first_only(void *arg, void *part)
{
    (void)part;
    ++*(int *)arg;
    return 0;
}

START_TEST(local)
{
    struct daemon ctl = make("ctl1", "controller", "ctl.sock");
    struct client *c;
    struct spur_error err;
    Wire__JobsRequest q = WIRE__JOBS_REQUEST__INIT;
    Wire__CancelRequest cancel = WIRE__CANCEL_REQUEST__INIT;
    struct arena a;
    void *reply;
    char who[64];
    int n = 0, number = 0;

    start(&ctl, NULL, NULL);
    ck_assert_int_eq(client_open(conf, &c, &err), 0);
    ck_assert_int_eq(client_fd(c), -1);
    ck_assert_int_eq(ping(c, who, sizeof who, &err), 0);
    ck_assert_str_eq(who, "ctl1");
    ck_assert_uint_eq(ctl.last.uid, getuid());
    ck_assert_int_eq(client_stream(c, WIRE__MESSAGE_TYPE__JOBS, &q.base, WIRE__MESSAGE_TYPE__JOBS_PART, &wire__jobs_reply__descriptor, count_jobs, &n, NULL, &err), 0);
    ck_assert_int_eq(n, 5000);
    n = 0;
    ck_assert_int_eq(client_stream(c, WIRE__MESSAGE_TYPE__JOBS, &q.base, WIRE__MESSAGE_TYPE__JOBS_PART, &wire__jobs_reply__descriptor, first_only, &n, NULL, &err), 0);
    ck_assert_int_eq(n, 1);
    ck_assert_int_eq(ping(c, who, sizeof who, &err), 0);        /* what was left of the stream does not disturb */
    arena_init(&a, 0);
    ck_assert_int_eq(client_call(c, WIRE__MESSAGE_TYPE__CANCEL, &cancel.base, WIRE__MESSAGE_TYPE__DONE, &wire__done_reply__descriptor, &a, &reply, &number, &err), SPUR_EINVAL);
    ck_assert_int_eq(number, 2017);
    ck_assert_str_eq(err.text, "Invalid job id specified");
    arena_fini(&a);
    client_close(c);
    end();
}
END_TEST

START_TEST(a_lost_connection_is_asked_again)
{
    struct daemon ctl = make("ctl1", "controller", "ctl.sock");
    struct client *c;
    struct spur_error err;
    char who[64];

    ctl.drop = 3;
    start(&ctl, NULL, NULL);
    ck_assert_int_eq(client_open(conf, &c, &err), 0);
    ck_assert_int_eq(ping(c, who, sizeof who, &err), 0);
    ck_assert_int_eq(ctl.requests, 4);
    client_close(c);
    end();
}
END_TEST

START_TEST(follows_the_leader)
{
    struct daemon one = make("ctl1", "controller", "ctl-ctl1.sock"), two = make("ctl2", "controller", "ctl-ctl2.sock");
    struct client *c;
    struct spur_error err;
    char who[64];

    one.leader = _i == 1 ? "" : "ctl2";
    two.leader = _i == 2 ? "ctl1" : NULL;
    if (_i == 2)
        one.leader = NULL;
    start(&one, &two, NULL);
    ck_assert_int_eq(client_open(conf, &c, &err), 0);
    ck_assert_int_eq(ping(c, who, sizeof who, &err), 0);
    ck_assert_str_eq(who, _i == 2 ? "ctl1" : "ctl2");
    ck_assert_int_eq(ping(c, who, sizeof who, &err), 0);
    client_close(c);
    end();
}
END_TEST

START_TEST(waits_for_a_controller_that_starts)
{
    struct daemon ctl = make("ctl1", "controller", "ctl.sock");
    struct client *c;
    struct spur_error err;
    char who[64];

    start(NULL, NULL, &ctl);
    ck_assert_int_eq(client_open(conf, &c, &err), 0);
    ck_assert_int_eq(ping(c, who, sizeof who, &err), 0);
    client_close(c);
    end();
}
END_TEST

START_TEST(nobody_there)
{
    struct client *c;
    struct spur_error err;
    char who[64];
    time_t before = time(NULL);

    ck_assert_int_eq(client_open(conf, &c, &err), 0);
    ck_assert_int_eq(ping(c, who, sizeof who, &err), SPUR_ECLOSED);
    ck_assert_str_eq(err.text, "Unable to contact slurm controller (connect failure)");
    ck_assert_int_le(time(NULL) - before, 14);
    client_close(c);
}
END_TEST

START_TEST(over_tcp_the_node_vouches)
{
    struct daemon ctl = make("ctl1", "controller", "elsewhere.sock"), node = make("n1", "agent", "node.sock");
    struct client *c;
    struct spur_error err;
    Wire__ConfigFiles *files;
    Wire__WaitRequest wait = WIRE__WAIT_REQUEST__INIT;
    Wire__JobsReply *waited;
    struct arena a;
    char who[64], where[64];
    int rc;

    snprintf(ctl.sock, sizeof ctl.sock, "%s/far.sock", folder);         /* as on another host */
    ctl.with_tcp = true;
    ctl.more = _i ? "root_from = \"controller,compute\"" : NULL;
    start(&ctl, &node, NULL);
    write_conf("SlurmctldHost=ctl1(127.0.0.1)\n", ctl.port, "n1");
    ck_assert_int_eq(client_open(conf, &c, &err), 0);
    rc = ping(c, who, sizeof who, &err);
    if (getuid() == 0 && !_i) {     /* root of a compute host is nobody elsewhere */
        ck_assert_int_eq(rc, SPUR_EAUTH);
        ck_assert_ptr_nonnull(strstr(err.text, "does not accept our identity"));
    } else {
        ck_assert_msg(rc == 0, "%s", err.text);
        ck_assert_uint_eq(ctl.last.uid, getuid());
        ck_assert_str_eq(ctl.last.host, "n1");
        ck_assert_int_eq(ctl.last.host_role, SPUR_ROLE_NODE);
        ck_assert(!ctl.last.is_local);
        arena_init(&a, 0);
        ctl.requests = 0;
        ck_assert_int_eq(client_wait(c, &wait, &a, &waited, NULL, &err), 0);    /* survives the controller's restart */
        arena_fini(&a);
    }
    client_close(c);
    /* A node without any configuration. */
    arena_init(&a, 0);
    snprintf(where, sizeof where, "127.0.0.1:%u", ctl.port);
    put("spur.conf", "");
    rc = client_config_files(where, NULL, NULL, &a, &files, &err);
    ck_assert_int_lt(rc, 0);        /* no key folder of its own here: said, not guessed */
    arena_fini(&a);
    end();
}
END_TEST

START_TEST(nobody_vouches)
{
    struct daemon ctl = make("ctl1", "controller", "elsewhere.sock");
    struct client *c;
    struct spur_error err;
    char who[64];

    snprintf(ctl.sock, sizeof ctl.sock, "%s/far.sock", folder);
    ctl.with_tcp = true;
    start(&ctl, NULL, NULL);
    write_conf("SlurmctldHost=ctl1(127.0.0.1)\n", ctl.port, "n1");
    ck_assert_int_eq(client_open(conf, &c, &err), 0);
    ck_assert_int_eq(ping(c, who, sizeof who, &err), SPUR_EAUTH);
    ck_assert_ptr_nonnull(strstr(err.text, "can vouch for you"));
    client_close(c);
    end();
}
END_TEST

static void on_alarm(int sig)
{
    (void)sig;
}

START_TEST(a_wait_ends_at_a_signal)
{
    struct daemon ctl = make("ctl1", "controller", "ctl.sock");
    struct sigaction act = { .sa_handler = on_alarm };
    Wire__WaitRequest wait = WIRE__WAIT_REQUEST__INIT;
    Wire__JobsReply *waited;
    struct client *c;
    struct spur_error err;
    struct arena a;
    sigset_t set, old;
    struct itimerspec in = { .it_value.tv_nsec = 300000000, .it_interval.tv_nsec = 300000000 };
    struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
    timer_t timer;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, &old);     /* the server's thread does not take it */
    start(&ctl, NULL, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    sigaction(SIGUSR1, &act, NULL);
    ck_assert_int_eq(timer_create(CLOCK_MONOTONIC, &ev, &timer), 0);
    timer_settime(timer, 0, &in, NULL);
    ck_assert_int_eq(client_open(conf, &c, &err), 0);
    arena_init(&a, 0);
    ck_assert_int_eq(client_wait(c, &wait, &a, &waited, NULL, &err), SPUR_ELATER);
    ck_assert_int_eq(client_wait(c, &wait, &a, &waited, NULL, &err), 0);
    timer_delete(timer);
    arena_fini(&a);
    client_close(c);
    end();
}
END_TEST

START_TEST(tokens_differ)
{
    uint8_t one[16], two[16];
    int64_t t;

    client_token(one, &t);
    client_token(two, &t);
    ck_assert_mem_ne(one, two, 16);
    ck_assert_int_gt(t, INT64_C(1600000000000));
}
END_TEST

Suite *suite_client(void)
{
    Suite *s = suite_create("client");
    TCase *t = tcase_create("client");

    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, local);
    tcase_add_test(t, a_lost_connection_is_asked_again);
    tcase_add_loop_test(t, follows_the_leader, 0, 3);
    tcase_add_test(t, waits_for_a_controller_that_starts);
    tcase_add_test(t, nobody_there);
    tcase_add_loop_test(t, over_tcp_the_node_vouches, 0, 2);
    tcase_add_test(t, nobody_vouches);
    tcase_add_test(t, a_wait_ends_at_a_signal);
    tcase_add_test(t, tokens_differ);
    suite_add_tcase(s, t);
    return s;
}
