/* SPDX-License-Identifier: Apache-2.0 */
/* libslurm.c - a client as sites write them: submits, loads, kills, reads nodes and partitions, through Slurm's C interface. Run by t-libslurm in a
 * sandbox of two nodes with four CPUs each, once compiled with our slurm.h and once, where there is one, with Slurm's. Prints "ok NAME" lines. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

extern void slurm_xfree(void **p);      /* in the library, in no header of Slurm's */

static int failures;

static void check(int is_good, const char *name)
{
    printf("%s %s\n", is_good ? "ok" : "not ok", name);
    if (!is_good)
        fprintf(stderr, "    errno %d: %s\n", slurm_get_errno(), slurm_strerror(slurm_get_errno()));
    failures += !is_good;
}

static void check_text(const char *got, const char *expected, const char *name)
{
    int same = got && expected ? !strcmp(got, expected) : got == expected;

    check(same, name);
    if (!same)
        fprintf(stderr, "    got:      %s\n    expected: %s\n", got ? got : "NULL", expected ? expected : "NULL");
}

static void host_lists(void)
{
    hostlist_t h = slurm_hostlist_create("n[1-3],login");
    char buf[64], small[4];
    char *text;

    check(h && slurm_hostlist_count(h) == 4, "hostlist: count");
    check(slurm_hostlist_find(h, "login") == 3 && slurm_hostlist_find(h, "n4") == -1, "hostlist: find");
    check(slurm_hostlist_push(h, "n[2,7]") == 2 && slurm_hostlist_push_host(h, "n4") == 1 && slurm_hostlist_count(h) == 7, "hostlist: push");
    check(slurm_hostlist_ranged_string(h, sizeof small, small) == -1, "hostlist: a text that does not fit");
    text = slurm_hostlist_shift(h);
    check_text(text, "n1", "hostlist: shift");
    free(text);
    check(slurm_hostlist_find(h, "n2") == 0 && slurm_hostlist_count(h) == 6, "hostlist: find after shift");
    slurm_hostlist_uniq(h);
    check(slurm_hostlist_ranged_string(h, sizeof buf, buf) == (ssize_t)strlen("login,n[2-4,7]"), "hostlist: length of the text");
    check_text(buf, "login,n[2-4,7]", "hostlist: uniq");
    text = slurm_hostlist_ranged_string_malloc(h);
    check_text(text, "login,n[2-4,7]", "hostlist: text in memory of its own");
    free(text);
    for (int i = 0; i < 5; i++)
        free(slurm_hostlist_shift(h));
    check(slurm_hostlist_shift(h) == NULL && slurm_hostlist_count(h) == 0, "hostlist: end");
    slurm_hostlist_destroy(h);
    slurm_hostlist_destroy(NULL);
    h = slurm_hostlist_create(NULL);
    check(h && slurm_hostlist_count(h) == 0, "hostlist: empty");
    slurm_hostlist_destroy(h);
    check(slurm_hostlist_create("n[3-1]") == NULL, "hostlist: a text that is none");
}

static void errors(void)
{
    check_text(slurm_strerror(ESLURM_INVALID_JOB_ID), "Invalid job id specified", "strerror: a number of Slurm's");
    check_text(slurm_strerror(ENOENT), strerror(ENOENT), "strerror: a number of the C library");
    check_text(slurm_strerror(SLURM_SUCCESS), "No error", "strerror: none");
    slurm_seterrno(ESLURM_ACCESS_DENIED);
    check(slurm_get_errno() == ESLURM_ACCESS_DENIED && errno == ESLURM_ACCESS_DENIED, "errno is the number");
    check(slurm_api_version() == SLURM_VERSION_NUM(38, 0, 0), "api version");
}

static int job_state(uint32_t id)
{
    job_info_msg_t *m;
    int state;

    if (slurm_load_job(&m, id, SHOW_ALL))
        return -1;
    state = (int)m->job_array[0].job_state;
    slurm_free_job_info_msg(m);
    return state;
}

/* Polls until the base state is `state` and no flag is left. */
static int comes_to(uint32_t id, int state)
{
    struct timespec pause = { 0, 50000000 };

    for (int i = 0; i < 400; i++) {
        if (job_state(id) == state)
            return 1;
        nanosleep(&pause, NULL);
    }
    return 0;
}

static char name_var[] = "GREETING=hello there", path_var[] = "PATH=/usr/bin:/bin";
static char *environment[] = { name_var, path_var, NULL };

static void describe(job_desc_msg_t *d, const char *script)
{
    static char dir[4096];

    slurm_init_job_desc_msg(d);
    d->user_id = getuid();
    d->group_id = getgid();
    d->name = (char *)"from-c";
    d->script = (char *)script;
    d->environment = environment;
    d->env_size = 2;
    d->work_dir = getcwd(dir, sizeof dir);
    d->time_limit = 5;
}

static uint32_t submit(job_desc_msg_t *d)
{
    submit_response_msg_t *r;
    uint32_t id;

    if (slurm_submit_batch_job(d, &r))
        return 0;
    id = r->job_id;
    slurm_free_submit_response_response_msg(r);
    return id;
}

static void batch_job(void)
{
    char *argv[] = { (char *)"job.sh", (char *)"two words", (char *)"b" };
    job_info_msg_t *m = NULL;
    job_info_t *j;
    job_desc_msg_t d;
    char buf[4096], line[256] = "";
    uint32_t id;
    FILE *f;

    describe(&d, "#!/bin/sh\necho \"$GREETING|$1|$2|$SLURM_NTASKS|$SLURM_JOB_NAME\"\nexit 7\n");
    d.argv = argv;
    d.argc = 3;
    d.num_tasks = 2;
    d.cpus_per_task = 2;
    d.pn_min_memory = 100;
    d.comment = (char *)"a comment";
    d.nice = NICE_OFFSET + 5;
    d.std_out = (char *)"out-%j";
    id = submit(&d);
    check(id != 0, "submit");
    check(comes_to(id, JOB_FAILED), "the job ends");
    check(slurm_load_job(&m, id, SHOW_ALL | SHOW_DETAIL) == 0 && m->record_count == 1, "load of one job");
    if (!m)
        return;
    j = &m->job_array[0];
    check(j->job_id == id && j->user_id == getuid() && j->batch_flag == 1 && j->array_job_id == 0 && j->array_task_id == NO_VAL, "record: who and what");
    check(j->num_tasks == 2 && j->cpus_per_task == 2 && j->num_cpus == 4 && j->num_nodes == 1 && j->pn_min_memory == 100, "record: sizes");
    check(j->time_limit == 5 && j->nice == NICE_OFFSET + 5 && j->exit_code == 7 << 8 && j->state_reason == FAIL_EXIT_CODE, "record: limit, nice, exit code, reason");
    check(j->submit_time > 0 && j->start_time >= j->submit_time && j->end_time >= j->start_time, "record: times");
    check(j->node_inx && j->node_inx[0] >= 0 && j->node_inx[1] == j->node_inx[0] && j->node_inx[2] == -1, "record: place in the node table");
    check_text(j->name, "from-c", "record: name");
    check_text(j->comment, "a comment", "record: comment");
    check_text(j->command, "job.sh two words b", "record: command");
    check_text(j->std_err, NULL, "record: no text where there is none");
    slurm_get_job_stdout(buf, sizeof buf, j);
    slurm_free_job_info_msg(m);
    f = fopen(buf, "r");
    check(f != NULL && fgets(line, sizeof line, f) != NULL, "output is where slurm_get_job_stdout says");
    if (f)
        fclose(f);
    check_text(line, "hello there|two words|b|2|from-c\n", "environment and arguments arrive");
    check(slurm_kill_job(id, SIGKILL, 0) == -1 && slurm_get_errno() == ESLURM_ALREADY_DONE, "an ended job is not killed");
}

static void killed_jobs(void)
{
    job_desc_msg_t d;
    job_info_msg_t *m;
    uint32_t id;
    time_t end;
    int found = 0;

    describe(&d, "#!/bin/sh\nsleep 100\n");
    id = submit(&d);
    check(comes_to(id, JOB_RUNNING), "a long job runs");
    check(slurm_get_end_time(id, &end) == 0 && slurm_get_rem_time(id) > 200 && slurm_get_rem_time(id) <= 300, "remaining time");
    check(slurm_load_job_user(&m, getuid(), 0) == 0, "load by user");
    for (uint32_t i = 0; i < m->record_count; i++)
        found |= m->job_array[i].job_id == id;
    slurm_free_job_info_msg(m);
    check(found, "it is among the user's jobs");
    check(slurm_load_job_user(&m, 4000000, 0) == 0 && m->record_count == 0, "nobody's jobs");
    slurm_free_job_info_msg(m);
    check(slurm_kill_job(id, SIGKILL, 0) == 0, "kill");
    check(comes_to(id, JOB_CANCELLED), "it is cancelled");

    describe(&d, "#!/bin/sh\ntrap 'exit 3' USR1\necho up\nwhile :; do sleep 0.1; done\n");
    d.std_out = (char *)"trap-%j";
    id = submit(&d);
    check(comes_to(id, JOB_RUNNING), "a job with a trap runs");
    for (int i = 0; i < 200; i++) {         /* until the trap is set */
        char path[64];
        struct timespec pause = { 0, 50000000 };

        snprintf(path, sizeof path, "trap-%u", id);
        FILE *f = fopen(path, "r");
        int c = f ? fgetc(f) : EOF;

        if (f)
            fclose(f);
        if (c == 'u')
            break;
        nanosleep(&pause, NULL);
    }
    check(slurm_kill_job_step(id, SLURM_BATCH_SCRIPT, SIGUSR1) == 0, "signal to the batch step");
    check(comes_to(id, JOB_FAILED), "its trap ran");

    describe(&d, "#!/bin/sh\ntrue\n");
    d.priority = 0;
    d.array_inx = (char *)"1-9:2%2";
    id = submit(&d);
    check(slurm_load_job(&m, id, 0) == 0 && m->record_count == 1, "a held array is one record");
    check(m->job_array[0].array_job_id == id && m->job_array[0].array_task_id == NO_VAL && m->job_array[0].array_max_tasks == 2, "record of an array");
    check_text(m->job_array[0].array_task_str, "1,3,5,7,9%2", "its tasks");
    check(m->job_array[0].state_reason == WAIT_HELD_USER, "its reason");
    slurm_free_job_info_msg(m);
    check(slurm_signal_job(id, SIGUSR1) == -1 && slurm_get_errno() == ESLURM_JOB_PENDING, "a waiting job takes no signal");
    check(slurm_kill_job(id, SIGKILL, 0) == 0, "kill of an array");
    check(comes_to(id, JOB_CANCELLED), "the array is cancelled");
}

static void refusals(void)
{
    submit_response_msg_t *r = NULL;
    job_info_msg_t *m = NULL;
    node_info_msg_t *n = NULL;
    job_desc_msg_t d;

#define REFUSED(what, number, name) check((what) == -1 && slurm_get_errno() == (number), name)
    describe(&d, NULL);
    REFUSED(slurm_submit_batch_job(&d, &r), ESLURM_JOB_SCRIPT_MISSING, "refused: no script");
    describe(&d, "#!/bin/sh\n");
    d.env_size = 0;
    REFUSED(slurm_submit_batch_job(&d, &r), ESLURM_ENVIRONMENT_MISSING, "refused: no environment");
    describe(&d, "#!/bin/sh\n");
    d.user_id = getuid() + 1;
    REFUSED(slurm_submit_batch_job(&d, &r), ESLURM_USER_ID_MISSING, "refused: another user");
    describe(&d, "#!/bin/sh\n");
    d.partition = (char *)"nowhere";
    REFUSED(slurm_submit_batch_job(&d, &r), ESLURM_INVALID_PARTITION_NAME, "refused: unknown partition");
    describe(&d, "#!/bin/sh\n");
    d.mem_bind = (char *)"local";
    REFUSED(slurm_submit_batch_job(&d, &r), ESLURM_NOT_SUPPORTED, "refused: what is not supported");
    describe(&d, "#!/bin/sh\n");
    d.num_tasks = 1000;
    d.min_nodes = d.max_nodes = 1;
    check(slurm_submit_batch_job(&d, &r) == -1, "refused: what never fits");
    REFUSED(slurm_load_job(&m, 4000000, 0), ESLURM_INVALID_JOB_ID, "refused: unknown job");
    check(m == NULL, "no answer then");
    REFUSED(slurm_kill_job(4000000, SIGKILL, 0), ESLURM_INVALID_JOB_ID, "refused: kill of an unknown job");
    REFUSED(slurm_load_node_single(&n, (char *)"nowhere", 0), ESLURM_INVALID_NODE_NAME, "refused: unknown node");
}

static void nodes_and_partitions(void)
{
    node_info_msg_t *n = NULL;
    partition_info_msg_t *p = NULL;
    uint16_t cpus = 99;

    check(slurm_load_node(0, &n, SHOW_ALL) == 0 && n->record_count == 2, "load of nodes");
    check_text(n->node_array[1].name, "node2", "node: name");
    check(n->node_array[0].cpus == 4 && (n->node_array[0].node_state & NODE_STATE_BASE) == NODE_STATE_IDLE && n->node_array[0].real_memory > 0, "node: sizes and state");
    check(slurm_get_select_nodeinfo(n->node_array[0].select_nodeinfo, SELECT_NODEDATA_SUBCNT, NODE_STATE_ALLOCATED, &cpus) == 0 && cpus == 0, "node: CPUs in use");
    check(slurm_load_partitions(0, &p, SHOW_ALL) == 0 && p->record_count == 1, "load of partitions");
    check(p->partition_array[0].state_up == PARTITION_UP && p->partition_array[0].flags & PART_FLAG_DEFAULT && p->partition_array[0].total_nodes == 2 &&
          p->partition_array[0].max_time == INFINITE && p->partition_array[0].default_time == NO_VAL, "partition: state, default, limits");
    check(p->partition_array[0].node_inx[0] == 0 && p->partition_array[0].node_inx[1] == 1 && p->partition_array[0].node_inx[2] == -1, "partition: places of its nodes");
    slurm_populate_node_partitions(n, p);
    check_text(n->node_array[0].partitions, p->partition_array[0].name, "node: partitions");
    slurm_free_node_info_msg(n);
    check(slurm_load_node_single(&n, (char *)"node2", 0) == 0 && n->record_count == 1 && !strcmp(n->node_array[0].name, "node2"), "load of one node");
    slurm_free_node_info_msg(n);
    slurm_free_partition_info_msg(p);
}

int main(void)
{
    void *p = malloc(10);

    setvbuf(stdout, NULL, _IOLBF, 0);
    slurm_xfree(&p);
    check(p == NULL, "xfree");
    host_lists();
    errors();
    slurm_init(NULL);
    check(slurm_ping(0) == 0 && slurm_ping(7) == -1, "ping");
    nodes_and_partitions();
    batch_job();
    killed_jobs();
    refusals();
    slurm_fini();
    return failures != 0;
}
