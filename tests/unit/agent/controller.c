/* SPDX-License-Identifier: Apache-2.0 */
/* controller.c - see controller.h. The agent is this very program executed as `spurd`, so its pool is this program as `spurstepd`. */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "controller.h"
#include "fake_plugins.h"
#include "rpc/folder.h"
#include "rpc/log.h"
#include "rpc/server.h"
#include "state/job.h"
#include "wire/credential.h"

#define DEADLINE_MS 20000

struct inside { uv_loop_t loop; uv_timer_t tick; struct rpc *rpc; struct rpc_conn *conns[64]; unsigned conn_count; uint16_t port; };

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void on_message(void *arg, struct rpc_conn *conn, const struct frame *f, const uint8_t *body)
{
    struct ctl *c = arg;

    if (f->type == WIRE__MESSAGE_TYPE__REGISTER) {
        Wire__RegisterReply r = WIRE__REGISTER_REPLY__INIT;

        if (c->last)
            wire__register_request__free_unpacked(c->last, NULL);
        c->last = wire__register_request__unpack(NULL, f->length, body);
        c->registrations++;
        if (!rpc_user(conn))
            rpc_set_user(conn, mem_copy(c->last->nodes[0]->name));
        r.has_heartbeat_ms = r.has_fence = 1;
        r.heartbeat_ms = 200;
        r.fence = c->fence;
        if (!c->is_mute)
            rpc_send(conn, WIRE__MESSAGE_TYPE__REGISTERED, f->seq, &r.base);
    } else if (f->type == WIRE__MESSAGE_TYPE__CONFIG_FILES) {
        Wire__ConfigFiles files = WIRE__CONFIG_FILES__INIT;
        char path[400];

        snprintf(path, sizeof path, "%s/slurm.conf", c->dir);
        files.slurm = file_text(path);
        snprintf(path, sizeof path, "%s/spur.conf", c->dir);
        files.spur = file_text(path);
        rpc_send(conn, WIRE__MESSAGE_TYPE__CONFIG_TEXTS, f->seq, &files.base);
        free(files.slurm);
        free(files.spur);
    } else if (f->type == WIRE__MESSAGE_TYPE__HEARTBEAT) {
        Wire__Empty e = WIRE__EMPTY__INIT;

        c->beats++;
        rpc_send(conn, WIRE__MESSAGE_TYPE__HEARTBEAT_OK, f->seq, &e.base);
    } else if (f->type == WIRE__MESSAGE_TYPE__REPORT) {
        Wire__Report *r = wire__report__unpack(NULL, f->length, body);
        Wire__ReportAck a = WIRE__REPORT_ACK__INIT;

        ck_assert_ptr_nonnull(r);
        ck_assert_uint_lt(c->report_count, 512);
        c->reports[c->report_count++] = r;
        a.seq = r->seq;
        a.node = r->node;
        if (c->ack)
            rpc_send(conn, WIRE__MESSAGE_TYPE__REPORT_OK, f->seq, &a.base);
    }
}

static void on_opened(void *arg, struct rpc_conn *conn)
{
    struct inside *in = ((struct ctl *)arg)->inside;

    ck_assert_uint_lt(in->conn_count, 64);
    ((struct ctl *)arg)->opened++;
    in->conns[in->conn_count++] = conn;
}

static void on_closed(void *arg, struct rpc_conn *conn, const struct spur_error *why)
{
    struct inside *in = ((struct ctl *)arg)->inside;

    (void)why;
    free(rpc_user(conn));
    for (unsigned i = 0; i < in->conn_count; i++)
        if (in->conns[i] == conn) {
            memmove(in->conns + i, in->conns + i + 1, (in->conn_count - i - 1) * sizeof *in->conns);
            in->conn_count--;
            break;
        }
}

static const struct rpc_events events = { .message = on_message, .opened = on_opened, .closed = on_closed };

uint16_t ctl_port(const struct ctl *c) { return ((const struct inside *)c->inside)->port; }

static void ticked(uv_timer_t *t) { (void)t; }

void ctl_start(struct ctl *c, const char *nodes)
{
    struct inside *in = mem_alloc(sizeof *in);
    struct spur_error err = { 0 };
    char path[400];
    FILE *f;

    memset(c, 0, sizeof *c);
    c->ack = true;
    c->fence = 1;
    c->inside = in;
    ck_assert_int_ge(sodium_init(), 0);
    snprintf(c->dir, sizeof c->dir, "%s/spur-agent-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(c->dir));
    chmod(c->dir, 0755);
    signal(SIGPIPE, SIG_IGN);
    uv_loop_init(&in->loop);
    uv_timer_init(&in->loop, &in->tick);
    in->rpc = rpc_create(&in->loop, "test", fake_auth, NULL, false, &events, c);
    ck_assert_int_eq(rpc_listen_tcp(in->rpc, "127.0.0.1", 0, &in->port, &err), 0);
    snprintf(path, sizeof path, "%s/slurm.conf", c->dir);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fprintf(f, "ClusterName=test\nSlurmctldHost=ctl(127.0.0.1)\nSlurmctldPort=%u\nAuthType=auth/fake\nSwitchType=switch/fake\nSlurmdSpoolDir=%s/spool-%%n\n"
               "SlurmdPidFile=%s/%%n.pid\nSlurmdLogFile=%s/%%n.log\nStateSaveLocation=%s/state\nGresTypes=gpu\nKillWait=1\n"
               "NodeName=%s CPUs=4 RealMemory=1000 Gres=gpu:mi300x:4 State=UNKNOWN\nPartitionName=p Nodes=ALL Default=YES State=UP\n",
            in->port, c->dir, c->dir, c->dir, c->dir, nodes);
    fclose(f);
    snprintf(path, sizeof path, "%s/spur.conf", c->dir);
    f = fopen(path, "w");
    fprintf(f, "run_dir = \"%s/run\"\nemulate_hardware = true\n", c->dir);
    fclose(f);
}

void ctl_agent(struct ctl *c, const char *how, ...)
{
    char conf[300], log[300], *argv[16] = { "spurd", "-D", "-L", log, "-v", (char *)(uintptr_t)how };
    int n = 6;
    va_list args;

    snprintf(conf, sizeof conf, "%s/slurm.conf", c->dir);
    snprintf(log, sizeof log, "%s/agent.log", c->dir);
    va_start(args, how);
    while ((argv[n] = va_arg(args, char *)))
        n++;
    va_end(args);
    if (strcmp(how, "--conf-server")) {
        argv[n++] = "-f";
        argv[n++] = conf;
        argv[n] = NULL;
    }
    c->agent = fork();
    if (c->agent == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGTERM);       /* a failed test leaves no agent */
        dup2(open("/dev/null", O_RDWR), 0);
        dup2(0, 1);
        execv("/proc/self/exe", argv);
        _exit(127);
    }
    ck_assert_int_gt(c->agent, 0);
}

void ctl_agent_end(struct ctl *c, int signal)
{
    int64_t until = now_ms() + DEADLINE_MS;

    kill(c->agent, signal);
    while (waitpid(c->agent, NULL, WNOHANG) == 0) {
        uv_timer_start(&((struct inside *)c->inside)->tick, ticked, 5, 0);
        uv_run(&((struct inside *)c->inside)->loop, UV_RUN_ONCE);
        ck_assert_int_lt(now_ms(), until);
    }
    c->agent = 0;
}

bool ctl_until(struct ctl *c, bool (*done)(struct ctl *c, const void *arg), const void *arg)
{
    struct inside *in = c->inside;
    int64_t until = now_ms() + DEADLINE_MS;

    while (!done(c, arg)) {
        if (now_ms() > until)
            return false;
        uv_timer_start(&in->tick, ticked, 10, 0);
        uv_run(&in->loop, UV_RUN_ONCE);
    }
    return true;
}

static void show_log(struct ctl *c)
{
    char path[300], *text;

    snprintf(path, sizeof path, "%s/agent.log", c->dir);
    text = file_text(path);
    fprintf(stderr, "---- agent's log\n%s----\n", text);
    free(text);
}

static bool is_registered(struct ctl *c, const void *arg) { return c->registrations >= *(const unsigned *)arg; }

void ctl_wait_registered(struct ctl *c, unsigned times)
{
    if (!ctl_until(c, is_registered, &times)) {
        show_log(c);
        ck_abort_msg("no registration");
    }
}

const Wire__Report *ctl_has(struct ctl *c, uint32_t job_id, Wire__Report__Kind kind)
{
    for (unsigned i = 0; i < c->report_count; i++)
        if (c->reports[i]->job_id == job_id && c->reports[i]->kind == kind)
            return c->reports[i];
    return NULL;
}

void ctl_forget_reports(struct ctl *c)
{
    while (c->report_count)
        wire__report__free_unpacked(c->reports[--c->report_count], NULL);
}

struct wanted { uint32_t job_id; Wire__Report__Kind kind; };

static bool is_reported(struct ctl *c, const void *arg)
{
    const struct wanted *w = arg;

    return ctl_has(c, w->job_id, w->kind) != NULL;
}

const Wire__Report *ctl_report(struct ctl *c, uint32_t job_id, Wire__Report__Kind kind)
{
    struct wanted w = { job_id, kind };

    if (!ctl_until(c, is_reported, &w)) {
        show_log(c);
        ck_abort_msg("job %u: no report of kind %d", job_id, kind);
    }
    return ctl_has(c, job_id, kind);
}

/* ---- launches ---- */

void launch_init(struct ctl *c, struct launch *x, uint32_t job_id, const char *script)
{
    int n;

    memset(x, 0, sizeof *x);
    wire__launch__init(&x->l);
    wire__credential__init(&x->c);
    wire__job_spec__init(&x->spec);
    wire__job_info__init(&x->job);
    wire__node_alloc__init(&x->alloc);
    snprintf(x->script, sizeof x->script, "%s", script);
    snprintf(x->work, sizeof x->work, "%s", c->dir);
    snprintf(x->out, sizeof x->out, "%s/job-%%j.out", c->dir);
    x->alloc.name = "n1";
    x->alloc.has_cpus = 1;
    x->alloc.cpus = 2;
    x->allocs[0] = &x->alloc;
    x->c.cluster = "test";
    x->c.job_id = job_id;
    x->c.step_id = STEP_BATCH;
    x->c.attempt = 1;
    x->c.uid = getuid();
    x->c.gid = getgid();
    x->c.user = "tester";
    n = getgroups(64, x->groups);
    x->c.groups = x->groups;
    x->c.n_groups = n > 0 ? (size_t)n : 0;
    x->c.nodes = x->allocs;
    x->c.n_nodes = 1;
    x->c.fence = 1;
    x->c.issued_wall_ms = (int64_t)time(NULL) * 1000;
    x->c.expires_wall_ms = x->c.issued_wall_ms + 60000;
    x->spec.name = "the job";
    x->spec.work_dir = x->work;
    x->spec.std_out = x->out;
    x->spec.has_is_batch = x->spec.is_batch = 1;
    x->job.job_id = job_id;
    x->job.nodes = "n1";
    x->job.has_num_nodes = 1;
    x->job.num_nodes = 1;
    x->job.cpus_per_node = "2";
    x->job.tasks_per_node = "1";
    x->job.partition = "p";
    x->l.spec = &x->spec;
    x->l.job = &x->job;
    x->l.has_script = 1;
    x->l.script.data = (uint8_t *)x->script;
    x->l.script.len = strlen(x->script);
    x->l.has_env = 1;
    x->l.env.data = (uint8_t *)(uintptr_t)"PATH=/usr/bin:/bin\0HOME=/nowhere\0USER=tester\0SHELL=/bin/sh";
    x->l.env.len = 58;
}

void launch_as_step(struct launch *x, uint32_t step_id, char **argv, uint32_t ntasks)
{
    wire__step_spec__init(&x->step);
    wire__step_node__init(&x->rows[0]);
    x->c.step_id = step_id;
    x->step.argv = argv;
    while (argv[x->step.n_argv])
        x->step.n_argv++;
    x->step.work_dir = x->work;
    x->step.has_ntasks = 1;
    x->step.ntasks = ntasks;
    x->rows[0].name = "n1";
    x->rows[0].tasks = ntasks;
    x->row[0] = &x->rows[0];
    x->l.step_nodes = x->row;
    x->l.n_step_nodes = 1;
    x->l.step = &x->step;
    x->l.has_script = 0;
    x->l.script.len = 0;
}

void launch_send(struct ctl *c, struct launch *x)
{
    unsigned conn = 0;
    struct inside *in = c->inside;
    struct spur_error err = { 0 };
    uint8_t signature[64];
    struct arena a;

    arena_init(&a, 0);
    ck_assert_int_eq(credential_seal(&x->c, &x->l, &a, &err), 0);
    fake_sign(NULL, CREDENTIAL_PURPOSE, x->l.credential.data, x->l.credential.len, signature, &err);
    x->l.signature.data = signature;
    x->l.signature.len = sizeof signature;
    x->l.signer = "ctl";
    if (x->spoil)
        x->spoil(x);
    for (unsigned i = 0; i < in->conn_count; i++)
        if (rpc_user(in->conns[i]) && !strcmp(rpc_user(in->conns[i]), x->alloc.name))
            conn = i;
    ck_assert_uint_lt(conn, in->conn_count);
    ck_assert_int_eq(rpc_send(in->conns[conn], WIRE__MESSAGE_TYPE__LAUNCH, 0, &x->l.base), 0);
    arena_fini(&a);
}

void ctl_kill_with(struct ctl *c, Wire__Kill *k)
{
    struct inside *in = c->inside;

    k->has_fence = 1;
    k->fence = c->fence;
    for (unsigned i = 0; i < in->conn_count; i++)
        ck_assert_int_eq(rpc_send(in->conns[i], WIRE__MESSAGE_TYPE__KILL, 0, &k->base), 0);
}

void ctl_kill(struct ctl *c, uint32_t job_id, int signal, unsigned kill_wait_s, bool until_empty)
{
    Wire__Kill k = WIRE__KILL__INIT;

    k.job_id = job_id;
    k.has_attempt = k.has_kill_wait_s = k.has_until_empty = 1;
    k.attempt = 1;
    k.signal = (uint32_t)signal;
    k.kill_wait_s = kill_wait_s;
    k.until_empty = until_empty;
    ctl_kill_with(c, &k);
}

/* ---- the end ---- */

static void closed(uv_handle_t *h, void *arg)
{
    (void)arg;
    if (!uv_is_closing(h))
        uv_close(h, NULL);
}

void ctl_stop(struct ctl *c)
{
    struct inside *in = c->inside;
    struct spur_error err = { 0 };
    char *slash;
    int parent;

    if (c->agent)
        ctl_agent_end(c, SIGTERM);
    rpc_destroy(in->rpc);
    uv_walk(&in->loop, closed, NULL);
    uv_run(&in->loop, UV_RUN_DEFAULT);
    uv_loop_close(&in->loop);
    ctl_forget_reports(c);
    if (c->last)
        wire__register_request__free_unpacked(c->last, NULL);
    free(in);
    slash = strrchr(c->dir, '/');
    *slash = '\0';
    parent = open(c->dir, O_DIRECTORY | O_RDONLY);
    folder_remove(parent, slash + 1, &err);
    close(parent);
}

char *file_text(const char *path)
{
    int fd = open(path, O_RDONLY);
    struct str s;
    char buf[4096];
    ssize_t n;

    str_init(&s);
    while (fd >= 0 && (n = read(fd, buf, sizeof buf)) > 0)
        str_add_n(&s, buf, (size_t)n);
    if (fd >= 0)
        close(fd);
    return str_take(&s);
}

int count_processes(const char *marker)
{
    DIR *dir = opendir("/proc");
    struct dirent *d;
    int n = 0;

    while ((d = readdir(dir))) {
        char path[300], *text;

        if (d->d_name[0] < '0' || d->d_name[0] > '9' || atoi(d->d_name) == (int)getpid())
            continue;
        snprintf(path, sizeof path, "/proc/%s/cmdline", d->d_name);
        text = file_text(path);
        for (char *p = text; *p; p += strlen(p) + 1)
            if (strstr(p, marker)) {
                n++;
                break;
            }
        free(text);
    }
    closedir(dir);
    return n;
}
