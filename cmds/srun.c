/* SPDX-License-Identifier: Apache-2.0 */
/* srun.c - runs tasks: inside a job as a step of it, elsewhere in an allocation made for them; see srun.h.
 *
 * Inside a job (SLURM_JOB_ID or --jobid) the counts of the job come as SLURM_* variables, as environment twins of the options. Memory and
 * devices that were asked for the job are not asked again for the step: it would take all of them, and two steps side by side could not
 * be; the step then gets its share.
 * The order: listen for the supervisors, allocation, step, input and output until the last task has ended, end the allocation.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/hostlist.h"
#include "base/str.h"
#include "cmds/commands.h"
#include "cmds/common/environment.h"
#include "cmds/common/het.h"
#include "cmds/common/plugins.h"
#include "cmds/common/submit.h"
#include "cmds/common/terminal.h"
#include "cmds/srun.h"
#include "config/config.h"
#include "loader/loader.h"
#include "state/apply.h"
#include "state/job.h"
#include "state/programs.h"

#define QUIET_MS 250            /* waits shorter than this are not worth a word */
#define RETRY_MAX_MS 1000
#define HELD_MS 200             /* so long the controller may keep a request for a step that others are in the way of; Ctrl-C waits for it */
#define HELD_MAX_MS 500
#define PROGRAMS_MAX (1u << 20)
#define BUSY_ERRNO 2059         /* resources are held by other steps of the job */

extern char **environ;

static int error_exit(int code)
{
    const char *text = getenv("SLURM_EXIT_ERROR");
    uint32_t n;

    return text && number_u32(text, &n) && n < 256 ? (int)n : code;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static void alarm_in(int64_t ms)
{
    struct itimerval t = { .it_value = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 } };

    setitimer(ITIMER_REAL, &t, NULL);
}

/* A signal that asks us to stop, seen between two waits. */
static bool stop_asked(int *number)
{
    while ((*number = signals_take()))
        if (*number == SIGINT || *number == SIGTERM || *number == SIGHUP || *number == SIGQUIT)
            return true;
    return false;
}

/* ---- options ------------------------------------------------------------------------------------------------------------------------ */

/* The environment of a job describes the job; what it must not do is narrow a step that says otherwise on its command line. */
static void inherited_forget(struct request *r)
{
    if (r->per_node_rank == RANK_OF_ENVIRONMENT && (r->ntasks_rank == RANK_OF_COMMAND_LINE || r->nodes_rank == RANK_OF_COMMAND_LINE))
        r->spec.has_ntasks_per_node = false;
    if (r->ntasks_rank == RANK_OF_ENVIRONMENT && r->per_node_rank == RANK_OF_COMMAND_LINE)
        r->spec.has_ntasks = false;
    if (!r->spec.has_ntasks_per_node)
        r->spec.ntasks_per_node = 0;
    if (r->nodes_rank == RANK_OF_ENVIRONMENT && r->ntasks_rank == RANK_OF_COMMAND_LINE && r->spec.ntasks < r->spec.min_nodes) {
        r->spec.min_nodes = r->spec.max_nodes = r->spec.ntasks;     /* without a word: nobody asked for the nodes here */
    }
    if (r->nodes_rank == RANK_OF_ENVIRONMENT && r->has_relative)
        r->spec.has_min_nodes = r->spec.has_max_nodes = false;
    if (r->has_job_id && r->nodes_rank != RANK_OF_COMMAND_LINE && r->spec.req_nodes && r->ntasks_rank != RANK_OF_ENVIRONMENT && !r->spec.has_ntasks)
        r->spec.has_min_nodes = r->spec.has_max_nodes = false;
}

static void mpi_row(void *arg, const struct loader_row *row)
{
    (void)arg;
    if (row->desc && row->desc->kind == SPUR_KIND_mpi && !row->is_shadowed)
        printf("\t%s\n", row->desc->name);
}

/* Built in or installed; a site's own stand in PluginDir, which only slurm.conf knows: it is read for a name that is nothing else. */
static bool mpi_is_known(const char *name)
{
    struct spur_error err = { 0 };
    struct loader_meaning mpi;
    struct config *cfg = NULL;
    bool known = word_eq(name, "none") || loader_resolve(SPUR_KIND_mpi, name, NULL, &mpi, &err) != SPUR_ENOTFOUND;

    if (!known && (config_load(NULL, true, &cfg, &err) < 0 || loader_resolve(SPUR_KIND_mpi, name, cfg, &mpi, &err) != SPUR_ENOTFOUND))
        known = true;           /* or it cannot be known here: the node's agent says */
    config_free(cfg);
    return known;
}

/* One component's options: of the environment as it is for that component, and its own words. */
static int component_read(struct request *r, const struct request *before, struct option_table *table, const struct het_words *words)
{
    int first, rc;

    if ((rc = options_environment(table, r)))
        return rc;
    if (r->has_job_id) {                        /* the batch job's name is not the step's */
        r->spec.name = NULL;
        r->gres = r->gpus_per_node = NULL;
        r->spec.tres_per_job = r->spec.tres_per_socket = NULL;
        r->mem_rank = r->mem_cpu_rank = r->mem_gpu_rank = RANK_NOBODY;
        r->spec.dependency = NULL;
        r->spec.has_time_limit_min = false;
    }
    if ((rc = options_read(table, words->argc, words->argv, r, &first)))
        return rc;
    r->argv = words->argv + first;
    r->argc = words->argc - first;
    if (before)
        request_inherit(r, before);
    if (word_eq(r->mpi, "list")) {
        printf("MPI plugin types are...\n");
        loader_list(NULL, mpi_row, NULL);
        return OPTIONS_DONE;
    }
    if (r->mpi && !mpi_is_known(r->mpi)) {
        fprintf(stderr, "srun: error: invalid MPI type '%s', --mpi=list for acceptable types\n", r->mpi);
        return 1;
    }
    return 0;
}

/* What needs the program of this component, which may be the next one's. */
static int component_finish(struct request *r)
{
    struct spur_error err = { 0 };

    inherited_forget(r);
    if (request_finish(r, &err) < 0) {
        fprintf(stderr, "srun: fatal: %s\n", err.text);
        return err.code == SPUR_ESYNTAX ? 255 : 1;
    }
    if (!r->spec.name)
        r->spec.name = (char *)(uintptr_t)base_name(r->argv[0]);
    return 0;
}

static int refused(const char *what)
{
    fprintf(stderr, "srun: error: %s\n", what);
    return 1;
}

/* What a step over several components cannot do. */
static int many_check(const struct srun *s)
{
    for (size_t k = 0; k <= s->more_count; k++) {
        const struct request *r = k ? &s->more[k - 1] : &s->r;

        if (r->multi_prog)
            return refused("--multi-prog cannot span more than one component of a heterogeneous job");
        if (r->pty)
            return refused("not supported yet: --pty over more than one component of a heterogeneous job");
        if (r->mpi && !word_eq(r->mpi, "none"))
            return refused("not supported yet: an MPI type for a step over more than one component of a heterogeneous job (--mpi=none)");
        if (r->spec.distribution && word_starts(r->spec.distribution, "arbitrary"))
            return refused("not supported yet: --distribution=arbitrary over more than one component of a heterogeneous job");
    }
    return 0;
}

/* Is the environment one of a heterogeneous job? Then how many components it has. */
static uint32_t het_size(void)
{
    const char *text = getenv("SLURM_HET_SIZE");
    uint32_t n;

    return text && number_u32(text, &n) && n <= HET_MAX ? n : 0;
}

struct part { uint32_t group; const struct het_words *words; };

/* Which component runs what: --het-group, else the n-th words are for the n-th component. Ascending. 0, or an exit code. */
static int parts_find(struct srun *s, struct option_table *table, const struct het_words *words, size_t count, struct part *parts, size_t *part_count)
{
    bool in_job = false;

    *part_count = 0;
    for (size_t i = 0; i < count; i++) {
        struct request look;
        struct spur_error err = { 0 };
        uint32_t *groups = NULL;
        size_t n = 1;
        int first, rc;

        request_init(&look, REQUEST_SRUN);
        rc = options_environment(table, &look);
        rc = rc ? rc : options_read(table, words[i].argc, words[i].argv, &look, &first);
        in_job |= look.has_job_id;
        if (rc == 0 && look.het_group && !look.has_job_id)
            rc = refused("--het-group is for steps of a heterogeneous job, and this is no step of a job");
        if (rc == 0 && look.het_group && het_groups_parse(&s->r, look.het_group, &groups, &n, &err) < 0)
            rc = refused(err.text);
        request_fini(&look);
        if (rc)
            return rc;
        for (size_t k = 0; k < n; k++) {
            struct part one = { groups ? groups[k] : (uint32_t)i, &words[i] };
            size_t at = *part_count;

            if (at == HET_MAX)
                return refused("more components than a heterogeneous job can have");
            for (; at && parts[at - 1].group > one.group; at--)
                parts[at] = parts[at - 1];
            if (at && parts[at - 1].group == one.group)
                return refused("only one step of a component of a heterogeneous job can be launched by one srun");
            parts[at] = one;
            (*part_count)++;
        }
    }
    if (in_job && het_size() && parts[*part_count - 1].group >= het_size()) {
        fprintf(stderr, "srun: error: Attempt to run a job step with het-group value of %u,\nsrun: error:        but the job allocation has maximum value of %u\n",
                parts[*part_count - 1].group, het_size() - 1);
        return 1;
    }
    if (in_job && !het_size() && parts[*part_count - 1].group)
        return refused("not supported yet: a step of several components (\":\", --het-group) of a job that is not heterogeneous, or from outside of it");
    return 0;
}

static int options_all(struct srun *s, struct option_table *table, int argc, char **argv)
{
    struct part *parts = arena_alloc(&s->r.arena, HET_MAX * sizeof *parts);
    bool of_group = het_size() > 0;
    struct het_words *words;
    size_t count, part_count;
    int rc;

    het_cut_programs(&s->r, argc, argv, &words, &count);
    if ((rc = parts_find(s, table, words, count, parts, &part_count)))
        return rc;
    plugins_forget(s->plugins);
    s->more = mem_array(part_count, sizeof *s->more);
    for (size_t k = 0; k < part_count; k++) {
        struct request *r = k ? &s->more[s->more_count++] : &s->r;

        if (k)
            request_init(r, REQUEST_SRUN);
        if (of_group)
            het_environ_enter(parts[k].group);
        rc = component_read(r, k == 0 ? NULL : k == 1 ? &s->r : r - 1, table, parts[k].words);
        if (of_group)
            het_environ_leave();
        if (rc)
            return rc;
    }
    for (size_t k = part_count; k--; ) {        /* one without a program runs the next one's */
        struct request *r = k ? &s->more[k - 1] : &s->r;

        if (!r->argc && k + 1 < part_count) {
            r->argv = s->more[k].argv;
            r->argc = s->more[k].argc;
        }
        if (r->argc == 0) {
            fprintf(stderr, "srun: fatal: No command given to execute.\n");
            return 1;
        }
    }
    for (size_t k = 0; k < part_count; k++)
        if ((rc = component_finish(k ? &s->more[k - 1] : &s->r)))
            return rc;
    if (s->more_count && s->r.has_job_id) {
        const char *leader = getenv("SLURM_JOB_ID");

        if (!leader || !number_u32(leader, &s->het_job_id))
            return refused("SLURM_JOB_ID is not set: which heterogeneous job is not known");
    }
    return s->more_count ? many_check(s) : 0;
}

/* ---- files --------------------------------------------------------------------------------------------------------------------------- */

/* Only a node or a task can say what these mean; without them one file serves all, and srun itself writes or reads it. */
static bool is_of_task(const char *pattern)
{
    if (strchr(pattern, '\\'))
        return false;
    for (const char *p = pattern; (p = strchr(p, '%')); p++) {
        p += 1 + strspn(p + 1, "0123456789");
        if (*p == 't' || *p == 'n' || *p == 'N')
            return true;
        if (!*p)
            break;
    }
    return false;
}

static char *file_name(struct srun *s, const char *pattern)
{
    const char *array = getenv("SLURM_ARRAY_JOB_ID"), *task = getenv("SLURM_ARRAY_TASK_ID"), *user = getenv("USER");
    struct path_ids ids = { .job_id = s->job_id, .array_task_id = UINT32_MAX, .step_id = s->step_id, .has_step = true, .node = "", .short_host = "", .user = user,
                            .job_name = s->r.spec.name };
    struct str out;
    char *path;

    if (array && task && number_u32(array, &ids.array_job_id))
        number_u32(task, &ids.array_task_id);
    str_init(&out);
    path_expand(pattern, s->r.spec.work_dir, &ids, &out);
    path = arena_copy(&s->r.arena, out.text);
    str_fini(&out);
    return path;
}

static bool append_asked(const struct request *r) { return r->spec.open_mode && r->spec.open_mode[0] == 'a'; }

static bool is_number(const char *text)
{
    uint32_t n;

    return text && number_u32(text, &n);
}

static int output_open(struct srun *s, const char *pattern, int fallback, int *fd, struct spur_error *err)
{
    const char *path = word_eq(pattern, "none") ? "/dev/null" : NULL;

    *fd = fallback;
    if (!pattern || word_eq(pattern, "all") || is_number(pattern) || is_of_task(pattern))
        return 0;
    if (!path)
        path = file_name(s, pattern);
    *fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | (append_asked(&s->r) ? 0 : O_TRUNC), 0666);
    return *fd < 0 ? spur_fail(err, SPUR_EIO, "Could not open stdout file: %s: %s", path, strerror(errno)) : 0;
}

/* Who writes which file is settled before the step is made; what srun opens itself is opened once the step has its number. */
static void files_plan(struct srun *s)
{
    struct request *r = &s->r;
    const char *in = r->step_in;

    s->one_out = r->step_out && number_u32(r->step_out, &s->out_task);
    s->one_err = r->step_err && number_u32(r->step_err, &s->err_task);
    s->remote_out = r->step_out && is_of_task(r->step_out);
    s->remote_err = r->step_err ? is_of_task(r->step_err) : s->remote_out;
    s->input = STEP_IO_INPUT_ALL;
    if (r->pty) {
        s->input = STEP_IO_INPUT_TASK;
        s->remote_out = s->remote_err = false;
        in = NULL;
    }
    if (word_eq(in, "none")) {
        s->input = STEP_IO_INPUT_NONE;
        s->in_fd = -1;
    } else if (in && number_u32(in, &s->input_task)) {
        s->input = STEP_IO_INPUT_TASK;
    } else if (in && is_of_task(in)) {
        s->in_fd = -1;
    }
    /* in the background of a terminal a read would stop us */
    if (s->in_fd == 0 && isatty(0) && tcgetpgrp(0) != getpgrp())
        s->in_fd = -1;
}

static int files_open(struct srun *s, struct spur_error *err)
{
    struct request *r = &s->r;
    int rc;

    if ((rc = output_open(s, r->step_out, 1, &s->out_fd, err)) < 0)
        return rc;
    if (r->step_err)
        rc = output_open(s, r->step_err, 2, &s->err_fd, err);
    else
        s->err_fd = s->out_fd != 1 ? s->out_fd : 2;
    if (rc == 0 && r->step_in && s->input == STEP_IO_INPUT_ALL && !word_eq(r->step_in, "all") && !is_of_task(r->step_in)) {
        const char *path = file_name(s, r->step_in);

        if ((s->in_fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
            rc = spur_fail(err, SPUR_EIO, "Could not open stdin file: %s: %s", path, strerror(errno));
    }
    return rc;
}

/* ---- the allocation -------------------------------------------------------------------------------------------------------------------- */

static int allocation_refused(const struct spur_error *err)
{
    fprintf(stderr, "srun: error: Unable to allocate resources: %s\n", err->text);
    return error_exit(1);
}

static void allocation_revoke(struct srun *s)
{
    job_cancel(s, false);
    fprintf(stderr, "srun: Job allocation %u has been revoked\n", s->job_id);
}

/* Until the job has its nodes. 0, or the exit code. */
static int allocation_wait(struct srun *s)
{
    Wire__WaitRequest w = WIRE__WAIT_REQUEST__INIT;
    int64_t began = clock_mono_ms(), give_up = s->r.immediate_s >= 0 ? began + (s->r.immediate_s ? s->r.immediate_s : 1) * INT64_C(1000) : INT64_MAX;
    struct spur_error err = { 0 };
    bool told = false;

    w.job_id = s->job_id;
    w.until = WIRE__WAIT_REQUEST__UNTIL__STARTED;
    for (;;) {
        Wire__JobsReply *reply = NULL;
        int64_t now = clock_mono_ms(), next = told ? give_up : began + QUIET_MS;
        int number = 0, rc, sig;

        next = next < give_up ? next : give_up;
        if (next != INT64_MAX)
            alarm_in(next > now ? next - now : 1);
        rc = client_wait(s->client, &w, &s->r.arena, &reply, &number, &err);
        alarm_in(0);
        if (rc == 0) {
            const Wire__JobInfo *j = reply->n_jobs ? reply->jobs[0] : NULL;

            if (!j || job_state_is_end(j->state)) {
                fprintf(stderr, "srun: error: Unable to allocate resources: Job %u has ended before it could start (%s)\n", s->job_id,
                        j ? job_state_name(j->state, 0, false) : "unknown");
                return error_exit(1);
            }
            if (told && !s->r.quiet)
                fprintf(stderr, "srun: job %u has been allocated resources\n", s->job_id);
            return 0;
        }
        if (rc != SPUR_ELATER)
            return allocation_refused(&err);
        if (stop_asked(&sig)) {
            allocation_revoke(s);
            return error_exit(128 + sig);
        }
        if (clock_mono_ms() >= give_up) {
            const char *text = getenv("SLURM_EXIT_IMMEDIATE");
            uint32_t code;

            job_cancel(s, false);
            fprintf(stderr, "srun: error: Unable to allocate resources: Requested nodes are busy\n");
            return text && number_u32(text, &code) && code < 256 ? (int)code : error_exit(1);
        }
        if (!told && clock_mono_ms() - began >= QUIET_MS) {
            told = true;
            if (!s->r.quiet)
                fprintf(stderr, "srun: job %u queued and waiting for resources\n", s->job_id);
        }
    }
}

static int allocate(struct srun *s)
{
    Wire__SubmitRequest submit = WIRE__SUBMIT_REQUEST__INIT;
    struct spur_error err = { 0 };
    const Wire__SubmitReply *got;
    uint8_t token[16];
    void *reply;
    int number;

    submit.spec = &s->r.spec;
    submit.n_het = s->more_count;
    submit.het = arena_alloc(&s->r.arena, (s->more_count + 1) * sizeof *submit.het);
    for (size_t i = 0; i < s->more_count; i++) {
        s->more[i].spec.export_env = (char *)(uintptr_t)s->r.export;
        submit.het[i] = &s->more[i].spec;
    }
    if (s->r.step.task_nodes)       /* nodes differ in their tasks: each gets room for as many as the fullest one has */
        s->r.spec.ntasks = s->r.spec.ntasks_per_node * s->r.spec.min_nodes;
    s->r.spec.has_is_batch = true;
    s->r.spec.export_env = (char *)(uintptr_t)s->r.export;
    client_token(token, &submit.token_wall_ms);
    submit.token.data = token;
    submit.token.len = sizeof token;
    if (s->r.verbose)
        request_show(&s->r);
    if (s->r.test_only) {
        if (would_run_show(s->client, &s->r, &submit, "srun", &err) == 0)
            return 0;
        fprintf(stderr, "srun: allocation failure: %s\n", err.text);
        return error_exit(1);
    }
    guard_start(&s->guard, &submit, "srun-guard");
    if (client_call(s->client, WIRE__MESSAGE_TYPE__SUBMIT, &submit.base, WIRE__MESSAGE_TYPE__SUBMITTED, &wire__submit_reply__descriptor, &s->r.arena, &reply, &number, &err) < 0) {
        if (!client_unsure(s->client))
            guard_dismiss(&s->guard);
        return allocation_refused(&err);
    }
    got = reply;
    for (size_t i = 0; i < got->n_warnings && !s->r.quiet; i++)
        fprintf(stderr, "srun: %s\n", got->warnings[i]);
    s->job_id = got->job_id;
    s->owns_job = true;
    for (size_t i = 0; i < s->more_count; i++)
        s->more[i].job_id = s->job_id + 1 + (uint32_t)i;        /* components follow each other */
    s->het_job_id = s->more_count ? s->job_id : 0;
    guard_job(&s->guard, s->job_id);
    if (s->r.verbose)
        fprintf(stderr, "srun: job %u has been submitted\n", s->job_id);
    return allocation_wait(s);
}

/* The allocation was made for this step: over with it, with its status. */
static void allocation_end(struct srun *s)
{
    struct spur_error err = { 0 };

    if (allocation_finish(s->client, &s->r.arena, s->job_id, s->wait_status, &err) < 0)
        fprintf(stderr, "srun: error: job %u is not ended yet, which is tried again in the background: %s\n", s->job_id, err.text);
    else
        guard_dismiss(&s->guard);
}

/* ---- the step ------------------------------------------------------------------------------------------------------------------------- */

static void step_spec(struct srun *s, struct request *r)
{
    const Wire__JobSpec *j = &r->spec;
    Wire__StepSpec *t = &r->step;

    t->name = j->name;
    t->has_ntasks = j->has_ntasks;
    t->ntasks = j->ntasks;
    t->has_cpus_per_task = j->has_cpus_per_task;
    t->cpus_per_task = j->cpus_per_task;
    t->has_ntasks_per_node = j->has_ntasks_per_node;
    t->ntasks_per_node = j->ntasks_per_node;
    t->has_threads_per_core = j->has_threads_per_core;
    t->threads_per_core = j->threads_per_core;
    t->has_overcommit = t->overcommit = j->overcommit;
    t->tres_per_task = j->tres_per_task;
    t->distribution = j->distribution;
    t->cpu_bind = (char *)(uintptr_t)r->cpu_bind;
    t->mem_bind = (char *)(uintptr_t)r->mem_bind;
    t->hint = j->hint;
    t->has_ntasks_per_core = j->has_ntasks_per_core;
    t->ntasks_per_core = j->ntasks_per_core;
    t->has_ntasks_per_socket = j->has_ntasks_per_socket;
    t->ntasks_per_socket = j->ntasks_per_socket;
    t->has_multi_prog = t->multi_prog = r->multi_prog;
    t->open_mode = j->open_mode;
    t->work_dir = j->work_dir;
    t->mpi = (char *)(uintptr_t)r->mpi;
    t->has_umask = j->has_umask;
    t->umask = j->umask;
    t->n_rlimits = j->n_rlimits;
    t->rlimits = j->rlimits;
    t->has_min_nodes = j->has_min_nodes;
    t->min_nodes = j->min_nodes;
    t->has_max_nodes = j->has_max_nodes;
    t->max_nodes = j->max_nodes;
    t->has_propagate_set = t->propagate_set = j->propagate_set;
    t->task_prolog = (char *)(uintptr_t)r->task_prolog;
    t->task_epilog = (char *)(uintptr_t)r->task_epilog;
    if (!s->owns_job) {                         /* else the whole allocation is the step's */
        t->req_nodes = j->req_nodes;
        t->exc_nodes = j->exc_nodes;
        t->has_mem_per_node_mib = j->has_mem_per_node_mib;
        t->mem_per_node_mib = j->mem_per_node_mib;
        t->has_mem_per_cpu_mib = j->has_mem_per_cpu_mib;
        t->mem_per_cpu_mib = j->mem_per_cpu_mib;
        t->tres_per_node = r->gres_none ? (char *)(uintptr_t)"none" : j->tres_per_node;
        t->tres_per_step = j->tres_per_job;
        t->has_cpus_per_gpu = j->has_cpus_per_gpu;
        t->cpus_per_gpu = j->cpus_per_gpu;
        t->has_exact = t->exact = r->exact || r->exclusive_rank != RANK_NOBODY;
        t->has_overlap = t->overlap = r->overlap;
        t->has_relative = r->has_relative;
        t->relative = r->relative;
    }
    t->has_no_kill = t->no_kill = r->spec.no_kill;
    if (j->has_time_limit_min && !s->owns_job) {
        t->has_time_limit_min = true;
        t->time_limit_min = j->time_limit_min;
    }
    t->has_label = t->label = r->label;
    t->has_unbuffered = t->unbuffered = r->unbuffered;
    t->has_kill_on_bad_exit = t->kill_on_bad_exit = r->kill_on_bad_exit;
    if (s->remote_out)
        t->std_out = (char *)(uintptr_t)r->step_out;
    if (r->step_err && (s->remote_err || s->remote_out))
        t->std_err = (char *)(uintptr_t)(s->remote_err ? r->step_err : "");
    if (r->step_in && s->input == STEP_IO_INPUT_ALL && is_of_task(r->step_in))
        t->std_in = (char *)(uintptr_t)r->step_in;
    if (s->input != STEP_IO_INPUT_ALL)
        t->input_mode = (char *)(uintptr_t)(s->input == STEP_IO_INPUT_NONE ? "none" : r->pty ? "0" : r->step_in);
    if (s->more_count)
        t->mpi = (char *)(uintptr_t)"none";     /* also where the site's default is another */
    t->n_argv = (size_t)r->argc;
    t->argv = r->argv;
}

/* A terminal for task 0, and the step that salloc runs where LaunchParameters has use_interactive_step. */
static void step_terminal(struct srun *s, char size[2][40], char **also)
{
    Wire__StepSpec *t = &s->r.step;

    t->has_preserve_env = t->preserve_env = s->r.preserve_env;
    if (s->r.interactive) {
        t->name = (char *)(uintptr_t)"interactive";
        t->has_ntasks = t->has_min_nodes = t->has_max_nodes = t->has_overlap = t->overlap = true;
        t->ntasks = t->min_nodes = t->max_nodes = 1;
        t->has_ntasks_per_node = false;
    }
    t->has_pty = t->pty = s->r.pty;
    if (!s->r.pty || !terminal_size(&t->pty_rows, &t->pty_columns))
        return;
    t->has_pty_rows = t->has_pty_columns = true;
    snprintf(size[0], sizeof size[0], "SLURM_PTY_WIN_ROW=%u", t->pty_rows);
    snprintf(size[1], sizeof size[1], "SLURM_PTY_WIN_COL=%u", t->pty_columns);
    also[0] = size[0];
    also[1] = size[1];
}

/* A program of the current folder may be named without "./" when PATH has none of that name. */
static void program_find(struct request *r)
{
    const char *name = r->argv[0], *path = getenv("PATH");
    char full[4096];

    if (strchr(name, '/') || !path_is_program(name))
        return;
    for (const char *p = path; p && *p; p += strcspn(p, ":"), p += *p == ':') {
        snprintf(full, sizeof full, "%.*s/%s", (int)strcspn(p, ":"), p, name);
        if (path_is_program(full))
            return;
    }
    r->argv[0] = request_path(r, name);
}

/* --multi-prog: the file goes along whole, each supervisor takes its tasks' lines from it. */
static int programs_take(struct srun *s, struct spur_error *err)
{
    Wire__StepSpec *t = &s->r.step;
    const char *path = s->r.argv[0];
    char **argv = arena_alloc(&s->r.arena, ((size_t)s->r.argc + 1) * sizeof *argv);
    FILE *f = fopen(path, "re");
    char some[4096];
    struct str text;
    size_t n;

    if (!f)
        return spur_fail(err, SPUR_EIO, "--multi-prog: cannot open %.200s: %s", path, strerror(errno));
    str_init(&text);
    while ((n = fread(some, 1, sizeof some, f)) > 0 && text.len < PROGRAMS_MAX)
        str_add_n(&text, some, n);
    fclose(f);
    memcpy(argv, s->r.argv, (size_t)s->r.argc * sizeof *argv);
    argv[0] = arena_copy(&s->r.arena, text.text);
    n = text.len;
    str_fini(&text);
    t->argv = argv;
    if (n >= PROGRAMS_MAX)
        return spur_fail(err, SPUR_ELIMIT, "--multi-prog: %.200s is larger than %u bytes", path, PROGRAMS_MAX);
    if (programs_check(argv[0], t->has_ntasks ? t->ntasks : 1, err) < 0)
        return spur_context(err, "Configuration file %.200s invalid", path);
    return 0;
}

static int step_create(struct srun *s, char *env, size_t env_n)
{
    Wire__StepRequest q = WIRE__STEP_REQUEST__INIT;
    int64_t began = clock_mono_ms(), pause = 5;
    struct spur_error err = { 0 };
    bool told = false;
    uint8_t token[16];
    const Wire__StepReply *got;
    void *reply = NULL;
    int number = 0, sig;

    q.job_id = s->job_id;
    q.spec = &s->r.step;
    q.has_env = true;
    q.env.data = (uint8_t *)env;
    q.env.len = env_n;
    q.io_host = (char *)(uintptr_t)step_io_host(s->io);
    q.has_io_port = true;
    q.io_port = step_io_port(s->io);
    q.has_io_key = true;
    q.io_key.data = (uint8_t *)(uintptr_t)step_io_key(s->io);
    q.io_key.len = 32;
    q.has_token = q.has_token_wall_ms = true;
    q.token.data = token;
    q.token.len = sizeof token;
    q.n_het = s->more_count;
    q.het = arena_alloc(&s->r.arena, (s->more_count + 1) * sizeof *q.het);
    for (size_t i = 0; i < s->more_count; i++) {
        q.het[i] = arena_alloc(&s->r.arena, sizeof **q.het);
        wire__step_part__init(q.het[i]);
        q.het[i]->job_id = s->more[i].job_id;
        q.het[i]->spec = &s->more[i].step;
    }
    q.has_wait_ms = s->r.immediate_s < 0;
    q.wait_ms = HELD_MS;
    for (;;) {
        int64_t asked = clock_mono_ms();
        struct timespec t;

        client_token(token, &q.token_wall_ms);
        if (client_call(s->client, WIRE__MESSAGE_TYPE__STEP_CREATE, &q.base, WIRE__MESSAGE_TYPE__STEP_CREATED, &wire__step_reply__descriptor, &s->r.arena, &reply, &number,
                        &err) == 0)
            break;
        if (err.code != SPUR_ELATER || number != BUSY_ERRNO || (s->r.immediate_s >= 0 && clock_mono_ms() - began > s->r.immediate_s * INT64_C(1000))) {
            fprintf(stderr, "srun: error: Unable to create step for job %u: %s\n", s->job_id, err.text);
            return error_exit(1);
        }
        if (!told && clock_mono_ms() - began >= QUIET_MS) {
            told = true;
            if (!s->r.quiet)
                fprintf(stderr, "srun: Job %u step creation temporarily disabled, retrying (%s)\n", s->job_id, err.text);
        }
        if (q.has_wait_ms && clock_mono_ms() - asked >= q.wait_ms / 2) {        /* it was kept: nothing is gained by sleeping here too */
            q.wait_ms = HELD_MAX_MS;
        } else {
            t = (struct timespec){ .tv_sec = pause / 1000, .tv_nsec = pause % 1000 * 1000000 };
            nanosleep(&t, NULL);
            pause = pause * 2 > RETRY_MAX_MS ? RETRY_MAX_MS : pause * 2;
        }
        if (stop_asked(&sig)) {
            fprintf(stderr, "srun: Cancelled pending job step with signal %d\n", sig);
            return error_exit(128 + sig);
        }
    }
    got = reply;
    s->step_id = got->step_id;
    s->node_list = got->nodes;
    s->tasks_per_node = got->tasks_per_node;
    s->part_nodes = got->part_nodes;
    s->part_count = got->n_part_nodes;
    s->ntasks = got->has_ntasks ? got->ntasks : 1;
    if (!s->r.has_kill_on_bad_exit)
        s->r.kill_on_bad_exit = got->kill_on_bad_exit;
    if (!s->r.has_wait_s && got->wait_s) {
        s->r.has_wait_s = true;
        s->r.wait_s = got->wait_s;
    }
    if (told && !s->r.quiet)
        fprintf(stderr, "srun: Step created for StepId=%u.%u\n", s->job_id, s->step_id);
    if (s->r.verbose)
        fprintf(stderr, "srun: StepId=%u.%u: %u tasks on %s\n", s->job_id, s->step_id, s->ntasks, s->node_list ? s->node_list : "");
    return 0;
}

static uint32_t node_count(const char *list)
{
    struct hostlist *h = NULL;
    uint32_t n = 1;

    if (list && hostlist_parse(list, &h, NULL) == 0)
        n = (uint32_t)hostlist_count(h);
    hostlist_destroy(h);
    return n;
}

static int step(struct srun *s)
{
    char here[4096], dir[4096 + 32], size[2][40], *also[4] = { NULL }, *env = NULL;
    struct spur_error err = { 0 };
    size_t env_n = 0;
    int rc;

    if (!getcwd(here, sizeof here))
        strcpy(here, "/");
    snprintf(dir, sizeof dir, "SLURM_SUBMIT_DIR=%s", here);
    if (!s->r.multi_prog)
        program_find(&s->r);
    step_spec(s, &s->r);
    for (size_t i = 0; i < s->more_count; i++) {
        program_find(&s->more[i]);
        step_spec(s, &s->more[i]);
    }
    step_terminal(s, size, also);
    if (s->owns_job || !getenv("SLURM_SUBMIT_DIR"))
        also[also[0] ? 2 : 0] = dir;
    if (s->r.multi_prog && programs_take(s, &err) < 0) {
        fprintf(stderr, "srun: error: %s\n", err.text);
        return error_exit(1);
    }
    if (environment_export(&s->r, environ, also, &env, &env_n, &err) < 0) {
        fprintf(stderr, "srun: error: %s\n", err.text);
        return error_exit(1);
    }
    rc = srun_hook(s, false) < 0 ? error_exit(1) : step_create(s, env, env_n);
    free(env);
    if (rc)
        return rc;
    s->nodes = node_count(s->node_list);
    if ((rc = plugins_allocated(s->plugins, s->job_id, s->step_id, s->nodes, s->ntasks))) {
        job_cancel(s, true);
        return error_exit(rc);
    }
    if (files_open(s, &err) < 0) {
        fprintf(stderr, "srun: error: %s\n", err.text);
        job_cancel(s, true);
        return error_exit(1);
    }
    rc = step_run(s);
    srun_hook(s, true);
    return rc;
}

static int listen_for_tasks(struct srun *s, struct spur_error *err)
{
    const struct config_hint *hint = client_hint(s->client);
    uint16_t first, last;

    config_hint_srun_ports(hint, &first, &last);
    s->io = step_io_listen(hint->cluster, first, last, err);
    return s->io ? 0 : err->code;
}

static int run(struct srun *s, int argc, char **argv)
{
    struct spur_error err = { 0 };
    uint32_t ntasks;
    int rc;

    files_plan(s);
    for (size_t i = 0; i < s->more_count; i++)
        if (request_place(&s->more[i], argc, argv, &err) < 0) {
            fprintf(stderr, "srun: error: %s\n", err.text);
            return error_exit(1);
        }
    if (request_place(&s->r, argc, argv, &err) < 0 || client_open(NULL, &s->client, &err) < 0 ||
        request_cluster(&s->r, client_hint(s->client)->cluster, &err) < 0 || listen_for_tasks(s, &err) < 0) {
        fprintf(stderr, "srun: error: %s\n", err.text);
        return error_exit(1);
    }
    signals_start();
    s->job_id = s->r.job_id;
    if (s->r.test_only && s->r.has_job_id) {
        fprintf(stderr, "srun: error: --test-only is for allocations; this would be a step of job %u\n", s->job_id);
        return error_exit(1);
    }
    ntasks = s->r.spec.ntasks;
    rc = s->r.has_job_id ? 0 : allocate(s);
    s->r.spec.ntasks = ntasks;
    if (rc == 0 && !s->r.test_only) {
        rc = step(s);
        if (rc && !s->wait_status)
            s->wait_status = rc << 8;
    }
    if (s->owns_job)
        allocation_end(s);
    return rc;
}

int cmd_srun(int argc, char **argv)
{
    struct srun s = { .guard = { .fd = -1 }, .in_fd = 0, .out_fd = 1, .err_fd = 2 };
    struct option_row *rows;
    struct option_table table;
    int rc;

    if ((rc = plugins_open(REQUEST_SRUN, &s.plugins)))
        return error_exit(rc);
    rows = mem_array(request_row_count() + plugins_rows(s.plugins), sizeof *rows);
    request_table(REQUEST_SRUN, rows, &table);
    plugins_table(s.plugins, rows, &table);
    request_init(&s.r, REQUEST_SRUN);
    rc = options_all(&s, &table, argc, argv);
    if (rc == 0)
        rc = plugins_ready(s.plugins, &s.r);
    if (rc == OPTIONS_DONE)
        rc = 0;
    else if (rc)
        rc = error_exit(rc);
    else
        rc = run(&s, argc, argv);
    plugins_close(s.plugins);
    step_io_close(s.io);
    client_close(s.client);
    free(rows);
    for (size_t i = 0; i < s.more_count; i++)
        request_fini(&s.more[i]);
    free(s.more);
    request_fini(&s.r);
    return rc;
}
