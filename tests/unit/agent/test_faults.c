/* SPDX-License-Identifier: Apache-2.0 */
/* test_faults.c - each call of a launch fails once: the step ends with a reason and nothing of the user has run, or it goes on with the right ids and
 * no capability; nothing is left either way. As root the user is a stranger, and the job has a folder of its own. */
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/fault.h"
#include "base/str.h"
#include "controller.h"
#include "test_agent.h"

#define STRANGER   54321
#define GROUP      54322
#define DROP_CALLS 10
#define FIRST_JOB  500u

enum becomes { ENDS, GOES_ON };
static const struct { const char *name; enum becomes what; } points[] = {
#define X(name, what) { #name, what },
    FAULT_POINTS(X)
#undef X
};

static bool in_child(bool (*question)(const char *), const char *arg)
{
    int status = 1;
    pid_t pid = fork();

    if (pid == 0)
        _exit(question(arg) ? 0 : 1);
    waitpid(pid, &status, 0);
    return status == 0;
}

static bool stranger_reaches(const char *path)
{
    return setgroups(0, NULL) == 0 && setresgid(STRANGER, STRANGER, STRANGER) == 0 && setresuid(STRANGER, STRANGER, STRANGER) == 0 && access(path, X_OK) == 0;
}

static bool can_mount(const char *path)
{
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 && mount(path, path, NULL, MS_BIND, NULL) == 0;
}

static void put(const char *dir, const char *name, const char *mode, int rights, const char *text)
{
    char path[400];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, mode);
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
    ck_assert_int_eq(chmod(path, (mode_t)rights), 0);
}

static unsigned open_files(pid_t pid)
{
    struct dirent *d;
    char path[64];
    unsigned n = 0;
    DIR *dir;

    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    dir = opendir(path);
    ck_assert_ptr_nonnull(dir);
    while ((d = readdir(dir)))
        n += d->d_name[0] != '.';
    closedir(dir);
    return n;
}

struct place { struct ctl c; bool strange, own_folder; char ran[264], hits[272]; unsigned asked; };

static bool is_over(struct ctl *c, const void *arg)
{
    const uint32_t *job = arg;

    return ctl_has(c, *job, WIRE__REPORT__KIND__ENDED) || ctl_has(c, *job, WIRE__REPORT__KIND__LAUNCH_FAILED);
}

static void arrange(struct place *p)
{
    char text[900], path[320];

    ctl_start(&p->c, "n1");
    p->strange = geteuid() == 0 && in_child(stranger_reaches, p->c.dir);
    p->own_folder = geteuid() == 0 && in_child(can_mount, p->c.dir);
    snprintf(p->ran, sizeof p->ran, "%s/ran", p->c.dir);
    ck_assert_int_eq(mkdir(p->ran, 0777), 0);
    ck_assert_int_eq(chmod(p->ran, 0777), 0);
    put(p->c.dir, "prolog", "w", 0755, "#!/bin/sh\nexit 0\n");
    snprintf(text, sizeof text, "TaskProlog=%s/prolog\n%s", p->c.dir, p->own_folder ? "JobContainerType=job_container/tmpfs\n" : "");
    put(p->c.dir, "slurm.conf", "a", 0644, text);
    snprintf(path, sizeof path, "%s/own", p->c.dir);
    ck_assert_int_eq(mkdir(path, 0755), 0);
    snprintf(text, sizeof text, "AutoBasePath=true\nBasePath=%s/base\nDirs=%s/own\n", p->c.dir, p->c.dir);
    put(p->c.dir, "job_container.conf", "w", 0644, text);
    put(p->c.dir, "fault", "w", 0644, "-1");
    put(p->c.dir, "fault.hit", "w", 0666, "");
    snprintf(p->hits, sizeof p->hits, "%s/fault.hit", p->c.dir);
    snprintf(path, sizeof path, "%s/fault", p->c.dir);
    setenv("TEST_FAULT", path, 1);
    ctl_agent(&p->c, "-N", "n1", NULL);
    unsetenv("TEST_FAULT");
    ctl_wait_registered(&p->c, 1);
}

static char *text_of(const struct place *p, const char *format, uint32_t job)
{
    char name[64], path[400];

    snprintf(name, sizeof name, format, job);
    snprintf(path, sizeof path, "%s/%s", p->ran, name);
    return file_text(path);
}

/* One job with this point failing; what it wrote of its ids, or "" when it never ran. */
static char *job_with(struct place *p, int point, uint32_t job, bool *failed, char reason[256])
{
    Wire__Rlimit limit = WIRE__RLIMIT__INIT, *limits[1] = { &limit };
    char number[16], script[900], err[300];
    const Wire__Report *r;
    struct launch x;

    snprintf(number, sizeof number, "%d", point);
    put(p->c.dir, "fault", "w", 0644, number);
    put(p->c.dir, "fault.hit", "w", 0666, "");
    snprintf(script, sizeof script, "#!/bin/sh\ngrep -E '^(Uid|Gid|Groups|CapEff|CapPrm):' /proc/self/status >%s/%u.ids\n%s", p->ran, job,
             p->own_folder ? "touch \"${0%/spool-*}/own/mine\"\n" : "");      /* its working folder may be another */
    launch_init(&p->c, &x, job, script);
    if (p->strange) {
        x.c.uid = STRANGER;
        x.c.gid = GROUP;
        x.groups[0] = GROUP;
        x.c.n_groups = 1;
    }
    snprintf(x.out, sizeof x.out, "%s/%%j.out", p->ran);
    snprintf(err, sizeof err, "%s/%%j.err", p->ran);
    x.spec.std_err = err;
    limit.resource = RLIMIT_CORE;
    limits[0] = &limit;
    x.spec.rlimits = limits;
    x.spec.n_rlimits = 1;
    launch_send(&p->c, &x);
    ck_assert_msg(ctl_until(&p->c, is_over, &job), "point %d: no end", point);
    r = ctl_has(&p->c, job, WIRE__REPORT__KIND__LAUNCH_FAILED);
    *failed = r || ctl_has(&p->c, job, WIRE__REPORT__KIND__ENDED)->status != 0;
    r = r ? r : ctl_has(&p->c, job, WIRE__REPORT__KIND__ENDED);
    snprintf(reason, 256, "%s", r->text ? r->text : "");
    ctl_kill(&p->c, job, SIGKILL, 0, true);
    ctl_report(&p->c, job, WIRE__REPORT__KIND__GONE);
    ctl_forget_reports(&p->c);
    return text_of(p, "%u.ids", job);
}

static bool no_step_is_left(struct ctl *c, const void *arg)
{
    char path[400];
    struct dirent *d;
    DIR *dir;
    bool any = false;

    (void)arg;
    snprintf(path, sizeof path, "%s/spool-n1", c->dir);
    dir = opendir(path);
    while (dir && (d = readdir(dir)))
        any |= !strncmp(d->d_name, "job", 3);
    if (dir)
        closedir(dir);
    return !any;
}

static bool files_are(struct ctl *c, const void *arg) { return open_files(c->agent) <= *(const unsigned *)arg; }

static bool is_met(const struct place *p, int point)
{
    if (!strncmp(points[point].name, "TMP_", 4))
        return p->own_folder;
    return point != FAULT_AFFINITY && (point != FAULT_SCRIPT_OWNER || geteuid() == 0);     /* emulated cores are not bound to */
}

START_TEST(each_call_of_a_launch_fails_once)
{
    struct place p = { 0 };
    char *plain, reason[256];
    uint32_t job = FIRST_JOB;
    unsigned before;
    bool failed;

    arrange(&p);
    plain = job_with(&p, -1, job++, &failed, reason);
    ck_assert_msg(!failed && *plain, "a launch without a fault: %s", reason);
    if (p.strange)
        ck_assert_msg(strstr(plain, "Uid:\t54321\t54321\t54321\t54321\nGid:\t54322\t54322\t54322\t54322\nGroups:\t54322 \nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n") != NULL,
                      "%s", plain);
    ck_assert(ctl_until(&p.c, no_step_is_left, NULL));
    before = open_files(p.c.agent);
    for (int point = 0; point < FAULT_COUNT; point++, job++) {
        char *ids = job_with(&p, point, job, &failed, reason), *hits = file_text(p.hits);

        if (is_met(&p, point))
            ck_assert_msg(*hits, "%s was not met", points[point].name);
        if (points[point].what == GOES_ON || !is_met(&p, point)) {
            ck_assert_msg(!failed, "%s: %s", points[point].name, reason);
            ck_assert_str_eq(ids, plain);
        } else {
            ck_assert_msg(failed && *reason, "%s: no failure, reason '%s'", points[point].name, reason);
            ck_assert_msg(!*ids, "%s: the job ran: %s", points[point].name, ids);
        }
        free(ids);
        free(hits);
    }
    for (int call = 0; p.strange && call < DROP_CALLS; call++, job++) {
        char *ids = job_with(&p, FAULT_COUNT + call, job, &failed, reason);

        ck_assert_msg(failed && *reason && !*ids, "call %d of the drop: '%s', ids %s", call + 1, reason, ids);
        free(ids);
    }
    /* and after all that it serves as before */
    {
        char *ids = job_with(&p, -1, job, &failed, reason);

        ck_assert_msg(!failed, "%s", reason);
        ck_assert_str_eq(ids, plain);
        free(ids);
    }
    ck_assert(ctl_until(&p.c, no_step_is_left, NULL));
    ck_assert_msg(ctl_until(&p.c, files_are, &before), "the agent has %u open files, %u before", open_files(p.c.agent), before);
    ck_assert_int_eq(count_processes(p.ran), 0);
    free(plain);
    ctl_stop(&p.c);
}
END_TEST

TCase *case_faults(void)
{
    TCase *t = tcase_create("faults");

    tcase_set_timeout(t, 600);
    tcase_add_test(t, each_call_of_a_launch_fails_once);
    return t;
}
