/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch.c - a real agent and its supervisors against a controller that only knows the wire. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "controller.h"
#include "test_agent.h"

static char *output_of(struct ctl *c, uint32_t job_id)
{
    char path[300];

    snprintf(path, sizeof path, "%s/job-%u.out", c->dir, job_id);
    return file_text(path);
}

struct many { const char *marker; int at_least; };
static bool are_many(struct ctl *c, const void *arg)
{
    const struct many *m = arg;

    (void)c;
    return count_processes(m->marker) >= m->at_least;
}

/* Waits with the controller answering: an agent that hears nothing goes elsewhere. */
static void wait_for_processes(struct ctl *c, const char *marker, int at_least)
{
    struct many m = { marker, at_least };

    ck_assert(ctl_until(c, are_many, &m));
}

static bool has_output(struct ctl *c, const void *arg)
{
    char *text = output_of(c, *(const uint32_t *)arg);
    bool any = *text;

    free(text);
    return any;
}

static bool has_file(struct ctl *c, const void *path) { (void)c; return access(path, F_OK) == 0; }

static void begin(struct ctl *c)
{
    ctl_start(c, "n1");
    ctl_agent(c, "-N", "n1", NULL);
    ctl_wait_registered(c, 1);
}

START_TEST(registers_what_slurm_conf_says)
{
    struct ctl c;
    const Wire__NodeInventory *inv;

    begin(&c);
    inv = c.last->nodes[0];
    ck_assert_str_eq(inv->name, "n1");
    ck_assert_uint_eq(inv->cpus, 4);
    ck_assert_uint_eq(inv->mem_mib, 1000);
    ck_assert_uint_eq(inv->n_gres, 1);
    ck_assert_str_eq(inv->gres[0]->name, "gpu");
    ck_assert_str_eq(inv->gres[0]->type, "mi300x");
    ck_assert_uint_eq(inv->gres[0]->mask, 15);
    ck_assert_ptr_nonnull(inv->boot_id);
    ctl_stop(&c);
}
END_TEST

/* The key is made while the registration without it is on its way: it must not be lost, whichever comes first. */
START_TEST(a_key_made_during_the_registration_is_told)
{
    struct ctl c;
    char gate[300];

    ctl_start(&c, "n1");
    snprintf(gate, sizeof gate, "%s/gate", c.dir);
    setenv("FAKE_MESH_GATE", gate, 1);
    c.is_mute = true;
    ctl_agent(&c, "-N", "n1", NULL);
    unsetenv("FAKE_MESH_GATE");
    ctl_wait_registered(&c, 1);
    ck_assert(!c.last->nodes[0]->has_mesh_key);
    ck_assert_int_ge(close(open(gate, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
    ctl_wait_registered(&c, 2);
    ck_assert(c.last->nodes[0]->has_mesh_key);
    ck_assert_str_eq(c.last->nodes[0]->mesh_endpoint, ":1");
    ck_assert_uint_eq(c.opened, 1);     /* it did not take another connection */
    ctl_stop(&c);
}
END_TEST

START_TEST(a_node_without_files_asks_for_them)
{
    struct ctl c;
    struct launch x;
    char server[64], cached[300], *text;

    ctl_start(&c, "n1");
    snprintf(server, sizeof server, "localhost:1,127.0.0.1:%u", ctl_port(&c));      /* the first does not answer */
    ctl_agent(&c, "--conf-server", server, "-N", "n1", NULL);
    ctl_wait_registered(&c, 1);
    snprintf(cached, sizeof cached, "%s/spool-n1/conf-cache/slurm.conf", c.dir);
    ck_assert_int_eq(access(cached, R_OK), 0);
    launch_init(&c, &x, 6, "#!/bin/sh\necho $SLURM_CONF\n");
    launch_send(&c, &x);
    ctl_report(&c, 6, WIRE__REPORT__KIND__ENDED);
    text = output_of(&c, 6);
    text[strcspn(text, "\n")] = '\0';
    ck_assert_str_eq(text, cached);
    free(text);
    ctl_stop(&c);
}
END_TEST

START_TEST(a_script_runs_and_its_end_is_told)
{
    struct ctl c;
    struct launch x;
    const Wire__Report *r;
    char *text;

    begin(&c);
    launch_init(&c, &x, 7, "#!/bin/sh\necho \"job $SLURM_JOB_ID n=$# [$1] [$2] [$3] $SLURMD_NODENAME $FAKE_MESH\"\necho bad >&2\nexit 3\n");
    x.spec.argv = (char *[]){ "a b", "", "$HOME;id" };
    x.spec.n_argv = 3;
    launch_send(&c, &x);
    ctl_report(&c, 7, WIRE__REPORT__KIND__STARTED);
    r = ctl_report(&c, 7, WIRE__REPORT__KIND__ENDED);
    ck_assert_int_eq(r->status, 3 << 8);
    ck_assert_str_eq(r->node, "n1");
    ck_assert_uint_gt(r->max_rss_kib, 0);
    text = output_of(&c, 7);
    ck_assert_str_eq(text, "job 7 n=3 [a b] [] [$HOME;id] n1 joined\nbad\n");
    free(text);
    ck_assert_ptr_null(ctl_has(&c, 7, WIRE__REPORT__KIND__GONE));
    ctl_kill(&c, 7, SIGTERM, 1, true);
    ctl_report(&c, 7, WIRE__REPORT__KIND__GONE);
    ctl_stop(&c);
}
END_TEST

static void spoil_signature(struct launch *x) { x->l.signature.data[5] ^= 1; }
static void spoil_script(struct launch *x) { x->script[12] ^= 1; }
static void spoil_env(struct launch *x) { x->l.env.len--; }
static void spoil_credential(struct launch *x) { x->l.credential.data[3] ^= 1; }

START_TEST(a_bad_credential_is_refused)
{
    static const struct { const char *name, *words; void (*spoil)(struct launch *); int what; } rows[] = {
        { "signature", "signature", spoil_signature, 0 },
        { "credential", "signature", spoil_credential, 0 },
        { "script", "not those that were signed", spoil_script, 0 },
        { "environment", "not those that were signed", spoil_env, 0 },
        { "expired", "expired", NULL, 1 },
        { "cluster", "cluster", NULL, 2 },
        { "node", "not in it", NULL, 3 },
        { "fence", "fenc", NULL, 4 },
        { "user", "this agent runs as user", NULL, 5 },
    };
    struct ctl c;

    ctl_start(&c, "n1");
    c.fence = 5;
    ctl_agent(&c, "-N", "n1", NULL);
    ctl_wait_registered(&c, 1);
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct launch x;
        const Wire__Report *r;

        if (rows[i].what == 5 && geteuid() == 0)
            continue;
        launch_init(&c, &x, 100 + i, "#!/bin/sh\ntouch ran\n");
        x.c.fence = rows[i].what == 4 ? 4 : 5;
        x.spoil = rows[i].spoil;
        if (rows[i].what == 1)
            x.c.expires_wall_ms -= 3600000;
        if (rows[i].what == 2)
            x.c.cluster = "other";
        if (rows[i].what == 3)
            x.alloc.name = "n2";
        if (rows[i].what == 5)
            x.c.uid++;
        launch_send(&c, &x);
        r = ctl_report(&c, rows[i].spoil == spoil_credential ? 100 + i : 100 + i, WIRE__REPORT__KIND__LAUNCH_FAILED);
        ck_assert_msg(strstr(r->text, rows[i].words) != NULL, "%s: %s", rows[i].name, r->text);
    }
    {
        char path[300];

        snprintf(path, sizeof path, "%s/ran", c.dir);
        ck_assert_int_lt(access(path, F_OK), 0);
    }
    ctl_stop(&c);
}
END_TEST

START_TEST(an_attempt_runs_once)
{
    struct ctl c;
    struct launch x;
    const Wire__Report *r;
    char *text;

    begin(&c);
    launch_init(&c, &x, 8, "#!/bin/sh\necho ran\n");
    launch_send(&c, &x);
    ctl_report(&c, 8, WIRE__REPORT__KIND__ENDED);
    ctl_kill(&c, 8, SIGTERM, 1, true);
    ctl_report(&c, 8, WIRE__REPORT__KIND__GONE);
    launch_send(&c, &x);
    r = ctl_report(&c, 8, WIRE__REPORT__KIND__LAUNCH_FAILED);
    ck_assert_ptr_nonnull(strstr(r->text, "here before"));
    ctl_agent_end(&c, SIGKILL);             /* also a new agent knows */
    ctl_agent(&c, "-N", "n1", NULL);
    ctl_wait_registered(&c, 2);
    ctl_forget_reports(&c);
    launch_send(&c, &x);
    ctl_report(&c, 8, WIRE__REPORT__KIND__LAUNCH_FAILED);
    text = output_of(&c, 8);
    ck_assert_str_eq(text, "ran\n");
    free(text);
    ctl_stop(&c);
}
END_TEST

static bool no_process(struct ctl *c, const void *marker) { (void)c; return count_processes(marker) == 0; }

START_TEST(nothing_survives_a_kill)
{
    struct ctl c;
    struct launch x;
    char marker[64], script[1024], *text;
    const Wire__Report *r;

    begin(&c);
    snprintf(marker, sizeof marker, "left-%d", (int)getpid());
    /* ignores TERM, and leaves by setsid, double fork and both */
    snprintf(script, sizeof script, "#!/bin/sh\ntrap '' TERM\n"
             "(trap '' TERM; exec sh -c 'for i in $(seq 200); do sleep 0.2; done' %s) &\n"
             "setsid sh -c 'trap \"\" TERM; (for i in $(seq 200); do sleep 0.2; done) & wait' %s &\n"
             "setsid sh -c '(setsid sh -c \"trap \\\"\\\" TERM; for i in $(seq 200); do sleep 0.2; done\" %s &) ; exit' \n"
             "echo up\nfor i in $(seq 200); do sleep 0.2; done\n", marker, marker, marker);
    launch_init(&c, &x, 9, script);
    launch_send(&c, &x);
    ctl_report(&c, 9, WIRE__REPORT__KIND__STARTED);
    wait_for_processes(&c, marker, 3);
    ctl_kill(&c, 9, SIGTERM, 1, true);
    r = ctl_report(&c, 9, WIRE__REPORT__KIND__ENDED);
    ck_assert_int_eq(r->status & 0x7f, SIGKILL);
    ctl_report(&c, 9, WIRE__REPORT__KIND__GONE);
    ck_assert(ctl_until(&c, no_process, marker));
    ck_assert_int_eq(count_processes(marker), 0);
    text = output_of(&c, 9);
    ck_assert_msg(strstr(text, "slurmstepd: error: *** JOB 9 ON n1 CANCELLED AT 2") && strstr(text, " ***\n"), "%s", text);
    free(text);
    ctl_stop(&c);
}
END_TEST

START_TEST(what_a_script_leaves_behind_ends_with_it)
{
    struct ctl c;
    struct launch x;
    char marker[64], script[256];

    begin(&c);
    snprintf(marker, sizeof marker, "rest-%d", (int)getpid());
    snprintf(script, sizeof script, "#!/bin/sh\nsetsid sh -c 'for i in $(seq 200); do sleep 0.2; done' %s &\nsleep 0.1\nexit 0\n", marker);
    launch_init(&c, &x, 10, script);
    launch_send(&c, &x);
    ck_assert_int_eq(ctl_report(&c, 10, WIRE__REPORT__KIND__ENDED)->status, 0);
    ctl_kill(&c, 10, SIGTERM, 1, true);
    ctl_report(&c, 10, WIRE__REPORT__KIND__GONE);
    ck_assert_int_eq(count_processes(marker), 0);
    ctl_stop(&c);
}
END_TEST

START_TEST(a_job_that_forks_without_end_ends)
{
    struct ctl c;
    struct launch x;
    char marker[64], script[512];

    begin(&c);
    /* Without end as far as this test goes; bounded, so that a test which is broken off leaves no storm behind. */
    snprintf(marker, sizeof marker, "storm-%d", (int)getpid());
    snprintf(script, sizeof script, "#!/bin/bash\nulimit -u 4000\nstorm() { trap '' TERM; for ((n = 0; n < 500; n++)); do setsid sleep 10 & sleep 0.02; done; }\n"
             "for i in 1 2 3 4; do (exec -a %s bash -c \"$(declare -f storm); storm\" %s) & done\nstorm\n", marker, marker);
    launch_init(&c, &x, 38, script);
    launch_send(&c, &x);
    ctl_report(&c, 38, WIRE__REPORT__KIND__STARTED);
    wait_for_processes(&c, marker, 4);
    ctl_kill(&c, 38, SIGTERM, 1, true);
    ctl_report(&c, 38, WIRE__REPORT__KIND__GONE);
    ck_assert_int_eq(count_processes(marker), 0);
    ctl_stop(&c);
}
END_TEST

START_TEST(a_job_without_steps_is_gone_at_once)
{
    struct ctl c;

    begin(&c);
    ctl_kill(&c, 77, SIGTERM, 30, true);
    ctl_report(&c, 77, WIRE__REPORT__KIND__GONE);
    ctl_stop(&c);
}
END_TEST

START_TEST(signals_reach_whom_they_are_for)
{
    struct ctl c;
    struct launch x;
    Wire__Kill k = WIRE__KILL__INIT;
    char *text;

    begin(&c);
    launch_init(&c, &x, 11, "#!/bin/sh\ntrap 'echo usr1; exit 0' USR1\necho up\nfor i in $(seq 600); do sleep 0.05; done\n");
    launch_send(&c, &x);
    ctl_report(&c, 11, WIRE__REPORT__KIND__STARTED);
    ck_assert(ctl_until(&c, has_output, &(uint32_t){ 11 }));
    ctl_kill(&c, 11, SIGUSR1, 0, false);        /* for steps only: the script does not get it */
    k.job_id = 11;
    k.signal = SIGUSR1;
    k.has_batch_only = k.batch_only = 1;
    ctl_kill_with(&c, &k);
    ck_assert_int_eq(ctl_report(&c, 11, WIRE__REPORT__KIND__ENDED)->status, 0);
    text = output_of(&c, 11);
    ck_assert_str_eq(text, "up\nusr1\n");
    free(text);
    ctl_stop(&c);
}
END_TEST

START_TEST(a_restarted_agent_adopts)
{
    struct ctl c;
    struct launch x;
    char go[300];
    FILE *f;

    begin(&c);
    launch_init(&c, &x, 12, "#!/bin/sh\necho up\nfor i in $(seq 600); do [ -e go ] && break; sleep 0.05; done\nexit 4\n");
    launch_send(&c, &x);
    ctl_report(&c, 12, WIRE__REPORT__KIND__STARTED);
    ctl_agent_end(&c, SIGKILL);
    ctl_agent(&c, "-N", "n1", NULL);
    ctl_wait_registered(&c, 2);
    ck_assert_uint_eq(c.last->nodes[0]->n_steps, 1);
    ck_assert_uint_eq(c.last->nodes[0]->steps[0]->job_id, 12);
    snprintf(go, sizeof go, "%s/go", c.dir);
    f = fopen(go, "w");
    fclose(f);
    ck_assert_int_eq(ctl_report(&c, 12, WIRE__REPORT__KIND__ENDED)->status, 4 << 8);
    ctl_stop(&c);
}
END_TEST

START_TEST(an_end_while_no_agent_runs_is_told_later)
{
    struct ctl c;
    struct launch x;
    char path[300];

    begin(&c);
    launch_init(&c, &x, 13, "#!/bin/sh\nsleep 0.3\ntouch over\nexit 6\n");
    launch_send(&c, &x);
    ctl_report(&c, 13, WIRE__REPORT__KIND__STARTED);
    ctl_agent_end(&c, SIGTERM);
    snprintf(path, sizeof path, "%s/over", c.dir);
    ck_assert(ctl_until(&c, has_file, path));
    ctl_agent(&c, "-N", "n1", NULL);
    ck_assert_int_eq(ctl_report(&c, 13, WIRE__REPORT__KIND__ENDED)->status, 6 << 8);
    ctl_kill(&c, 13, SIGTERM, 1, true);
    ctl_report(&c, 13, WIRE__REPORT__KIND__GONE);
    ctl_stop(&c);
}
END_TEST

START_TEST(unacknowledged_reports_come_again)
{
    struct ctl c;
    struct launch x;

    begin(&c);
    c.ack = false;
    launch_init(&c, &x, 14, "#!/bin/sh\nexit 5\n");
    launch_send(&c, &x);
    ctl_report(&c, 14, WIRE__REPORT__KIND__ENDED);
    ctl_agent_end(&c, SIGTERM);
    ctl_forget_reports(&c);
    c.ack = true;
    ctl_agent(&c, "-N", "n1", NULL);
    ctl_wait_registered(&c, 2);
    ck_assert_uint_eq(c.last->nodes[0]->n_steps, 1);        /* ended, but the leader has not said that it knows */
    ck_assert_int_eq(ctl_report(&c, 14, WIRE__REPORT__KIND__ENDED)->status, 5 << 8);
    ctl_stop(&c);
}
END_TEST

START_TEST(files_that_cannot_be_opened_are_named)
{
    static const struct { const char *out, *in, *words; } rows[] = {
        { "/proc/nope/%j", NULL, "/proc/nope/" },
        { "/", NULL, "Is a directory" },
        { NULL, "/no/such/input", "/no/such/input" },
    };
    struct ctl c;

    begin(&c);
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct launch x;
        const Wire__Report *r;

        launch_init(&c, &x, 20 + i, "#!/bin/sh\ntrue\n");
        if (rows[i].out)
            x.spec.std_out = (char *)(uintptr_t)rows[i].out;
        x.spec.std_in = (char *)(uintptr_t)rows[i].in;
        launch_send(&c, &x);
        r = ctl_report(&c, 20 + i, WIRE__REPORT__KIND__ENDED);
        ck_assert_int_eq(r->status, 1 << 8);
        ck_assert_ptr_nonnull(r->text);
        ck_assert_msg(strstr(r->text, rows[i].words) != NULL, "%s", r->text);
    }
    ctl_stop(&c);
}
END_TEST

START_TEST(folders_of_the_output_are_made)
{
    struct ctl c;
    struct launch x;
    char pattern[300], path[300], *text;

    begin(&c);
    launch_init(&c, &x, 31, "#!/bin/sh\necho hi\n");
    snprintf(pattern, sizeof pattern, "%s/newdir/sub/%%x-%%j.out", c.dir);
    x.spec.std_out = pattern;
    x.spec.name = "name";
    launch_send(&c, &x);
    ck_assert_int_eq(ctl_report(&c, 31, WIRE__REPORT__KIND__ENDED)->status, 0);
    snprintf(path, sizeof path, "%s/newdir/sub/name-31.out", c.dir);
    text = file_text(path);
    ck_assert_str_eq(text, "hi\n");
    free(text);
    ctl_stop(&c);
}
END_TEST

START_TEST(programs_that_cannot_run_say_why)
{
    struct ctl c;
    struct launch x;
    const Wire__Report *r;
    char *text;

    begin(&c);
    launch_init(&c, &x, 32, "#!/no/such/interpreter\ntrue\n");
    launch_send(&c, &x);
    r = ctl_report(&c, 32, WIRE__REPORT__KIND__ENDED);
    ck_assert_int_eq(r->status, 127 << 8);
    ck_assert_ptr_nonnull(strstr(r->text, "/no/such/interpreter"));
    text = output_of(&c, 32);
    ck_assert_ptr_nonnull(strstr(text, "/no/such/interpreter"));
    free(text);
    ctl_stop(&c);
}
END_TEST

START_TEST(work_dir_that_is_missing_gives_tmp)
{
    struct ctl c;
    struct launch x;
    char *text;

    begin(&c);
    launch_init(&c, &x, 33, "#!/bin/sh\npwd\n");
    snprintf(x.work, sizeof x.work, "/no/such/folder");
    launch_send(&c, &x);
    ck_assert_int_eq(ctl_report(&c, 33, WIRE__REPORT__KIND__ENDED)->status, 0);
    text = output_of(&c, 33);
    ck_assert_ptr_nonnull(strstr(text, "going to /tmp instead"));
    ck_assert_ptr_nonnull(strstr(text, "\n/tmp\n"));
    free(text);
    ctl_stop(&c);
}
END_TEST

START_TEST(only_three_descriptors_and_the_own_umask)
{
    struct ctl c;
    struct launch x;
    char *text;

    begin(&c);
    launch_init(&c, &x, 34, "#!/bin/sh\numask\ngrep -E '^(SigBlk|SigIgn)' /proc/self/status\nexec ls -x /proc/self/fd\n");
    x.spec.has_umask = 1;
    x.spec.umask = 027;
    launch_send(&c, &x);
    ck_assert_int_eq(ctl_report(&c, 34, WIRE__REPORT__KIND__ENDED)->status, 0);
    text = output_of(&c, 34);
    ck_assert_msg(!strncmp(text, "0027\n", 5) && strstr(text, "\n0  1  2  3\n"), "%s", text);      /* 3: the folder that ls reads */
    ck_assert_ptr_nonnull(strstr(text, "SigBlk:\t0000000000000000"));
    ck_assert_msg(strstr(text, "SigIgn:\t0000000000000000") != NULL, "%s", text);
    free(text);
    ctl_stop(&c);
}
END_TEST

START_TEST(a_killed_supervisor_takes_its_tasks_with_it)
{
    struct ctl c;
    struct launch x;
    char marker[64], script[256], *text;
    const Wire__Report *r;

    begin(&c);
    snprintf(marker, sizeof marker, "orphan-%d", (int)getpid());
    snprintf(script, sizeof script, "#!/bin/sh\necho $PPID\nexec sh -c 'for i in $(seq 200); do sleep 0.2; done' %s\n", marker);
    launch_init(&c, &x, 35, script);
    launch_send(&c, &x);
    ctl_report(&c, 35, WIRE__REPORT__KIND__STARTED);
    ck_assert(ctl_until(&c, has_output, &(uint32_t){ 35 }));
    text = output_of(&c, 35);
    ck_assert_int_gt(atoi(text), 1);
    kill(atoi(text), SIGKILL);
    free(text);
    r = ctl_report(&c, 35, WIRE__REPORT__KIND__ENDED);
    ck_assert_int_eq(r->status, SIGKILL);
    ck_assert_ptr_nonnull(strstr(r->text, "supervisor"));
    ck_assert(ctl_until(&c, no_process, marker));
    ctl_kill(&c, 35, SIGTERM, 1, true);
    ctl_report(&c, 35, WIRE__REPORT__KIND__GONE);
    ctl_stop(&c);
}
END_TEST

START_TEST(root_starts_jobs_as_their_user)
{
    struct ctl c;
    struct launch x;
    char *text, path[280], pattern[300];
    struct stat st;

    if (geteuid() != 0)
        return;
    begin(&c);
    launch_init(&c, &x, 36, "#!/bin/sh\nid -u; id -g; id -G\ngrep -E '^(Uid|Gid|Cap(Inh|Prm|Eff))' /proc/self/status | tr -s '\\t\\n' '  '\n"
                            "cat /proc/1/environ >/dev/null 2>&1 || echo no\nls \"$(dirname \"$0\")\" 2>/dev/null\nexit 0\n");
    x.c.uid = 54321;
    x.c.gid = 54322;
    x.groups[0] = 54323;
    x.groups[1] = 54322;
    x.c.n_groups = 2;
    snprintf(path, sizeof path, "%s/home", c.dir);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    ck_assert_int_eq(chown(path, 54321, 54322), 0);
    snprintf(x.work, sizeof x.work, "%s", path);
    snprintf(pattern, sizeof pattern, "%s/sub/out", path);
    x.spec.std_out = pattern;
    launch_send(&c, &x);
    ck_assert_int_eq(ctl_report(&c, 36, WIRE__REPORT__KIND__ENDED)->status, 0);
    text = file_text(pattern);
    ck_assert_msg(!strncmp(text, "54321\n54322\n54322 54323\n", 24) || !strncmp(text, "54321\n54322\n54323 54322\n", 24), "%s", text);
    ck_assert_msg(strstr(text, "Uid: 54321 54321 54321 54321 Gid: 54322 54322 54322 54322 CapInh: 0000000000000000 CapPrm: 0000000000000000 CapEff: 0000000000000000") != NULL, "%s", text);
    ck_assert_ptr_nonnull(strstr(text, "no\n"));
    ck_assert_ptr_null(strstr(text, "socket"));         /* the step's folder cannot be listed by the user */
    free(text);
    ck_assert_int_eq(stat(pattern, &st), 0);
    ck_assert_uint_eq(st.st_uid, 54321);
    ck_assert_uint_eq(st.st_gid, 54322);
    /* a folder the user may not write in: refused with its name, nothing made by root */
    launch_init(&c, &x, 37, "#!/bin/sh\ntrue\n");
    x.c.uid = 54321;
    x.c.gid = 54322;
    x.c.n_groups = 0;
    snprintf(pattern, sizeof pattern, "%s/rootonly/out", c.dir);
    x.spec.std_out = pattern;
    launch_send(&c, &x);
    ck_assert_ptr_nonnull(strstr(ctl_report(&c, 37, WIRE__REPORT__KIND__ENDED)->text, "rootonly/out"));
    ck_assert_int_lt(access(pattern, F_OK), 0);
    ctl_stop(&c);
}
END_TEST

START_TEST(emulated_nodes_play_their_scripts)
{
    struct ctl c;
    struct launch x;

    ctl_start(&c, "n[1-8]");
    ctl_agent(&c, "--emulate", "n[1-8]", NULL);
    ctl_wait_registered(&c, 8);
    for (uint32_t i = 0; i < 4; i++) {
        launch_init(&c, &x, 40 + i, "#!/bin/sh\n# EMULATE: seconds=0.1 exit=9\n");
        x.alloc.name = c.last->nodes[0]->name;
        launch_send(&c, &x);
    }
    for (uint32_t i = 0; i < 4; i++)
        ck_assert_int_eq(ctl_report(&c, 40 + i, WIRE__REPORT__KIND__ENDED)->status, 9 << 8);
    launch_init(&c, &x, 50, "#!/bin/sh\n# EMULATE: seconds=1000\n");
    x.alloc.name = c.last->nodes[0]->name;
    launch_send(&c, &x);
    ctl_report(&c, 50, WIRE__REPORT__KIND__STARTED);
    ctl_kill(&c, 50, SIGTERM, 30, true);
    ck_assert_int_eq(ctl_report(&c, 50, WIRE__REPORT__KIND__ENDED)->status, SIGTERM);
    ctl_report(&c, 50, WIRE__REPORT__KIND__GONE);
    ctl_stop(&c);
}
END_TEST

TCase *case_launch(void)
{
    TCase *t = tcase_create("launch");

    tcase_set_timeout(t, 60);
    tcase_add_test(t, registers_what_slurm_conf_says);
    tcase_add_test(t, a_key_made_during_the_registration_is_told);
    tcase_add_test(t, a_node_without_files_asks_for_them);
    tcase_add_test(t, a_script_runs_and_its_end_is_told);
    tcase_add_test(t, a_bad_credential_is_refused);
    tcase_add_test(t, an_attempt_runs_once);
    tcase_add_test(t, nothing_survives_a_kill);
    tcase_add_test(t, what_a_script_leaves_behind_ends_with_it);
    tcase_add_test(t, a_job_that_forks_without_end_ends);
    tcase_add_test(t, a_job_without_steps_is_gone_at_once);
    tcase_add_test(t, signals_reach_whom_they_are_for);
    tcase_add_test(t, a_restarted_agent_adopts);
    tcase_add_test(t, an_end_while_no_agent_runs_is_told_later);
    tcase_add_test(t, unacknowledged_reports_come_again);
    tcase_add_test(t, files_that_cannot_be_opened_are_named);
    tcase_add_test(t, folders_of_the_output_are_made);
    tcase_add_test(t, programs_that_cannot_run_say_why);
    tcase_add_test(t, work_dir_that_is_missing_gives_tmp);
    tcase_add_test(t, only_three_descriptors_and_the_own_umask);
    tcase_add_test(t, a_killed_supervisor_takes_its_tasks_with_it);
    tcase_add_test(t, root_starts_jobs_as_their_user);
    tcase_add_test(t, emulated_nodes_play_their_scripts);
    return t;
}
