/* SPDX-License-Identifier: Apache-2.0 */
/* spank_node.c - SPANK plugins on a node outside of steps: with prolog and epilog, and for the life of the daemon.
 *
 * Both run in processes of their own, this program executed anew as `spurstepd --spank` with a word of what to do in its environment: no plugin is ever in spurd,
 * and what it crashes is a line in the log. job_prolog and job_epilog come first among the site's programs (hooks.c), so a required one that fails
 * drains the node as a Prolog does. The process for the daemon calls slurm_spank_slurmd_init and slurm_spank_init, waits for the end of its standard
 * input, which spurd holds, and calls slurm_spank_slurmd_exit. It reads plugstack.conf once: a new one counts from the next start of spurd.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/inside.h"
#include "agent/spank_node.h"
#include "base/str.h"
#include "config/plugstack.h"
#include "rpc/programs.h"
#include "spank/stack.h"

#define END_WAIT_MS 10000

/* ---- in spurd: what a run needs ---- */

static bool stack_path(const struct settings *set, char *out, size_t size)
{
    if (!set->conf_path)
        return false;
    plugstack_path(set->conf_path, set->plugstack, out, size);
    return access(out, F_OK) == 0;
}

char *spank_node_programs(const struct settings *set, const char *patterns)
{
    char path[1200];
    struct str out;

    if (!stack_path(set, path, sizeof path))
        return mem_copy(patterns);
    str_init(&out);
    str_addf(&out, "%s%s%s", PROGRAMS_SELF, patterns ? "\n" : "", patterns ? patterns : "");
    return str_take(&out);
}

void spank_node_environment(const struct settings *set, const char *what, struct environment *env)
{
    char path[1200];

    if (!stack_path(set, path, sizeof path))
        return;
    environment_set(env, "SPUR_SPANK", what);
    environment_set(env, "SPUR_PLUGSTACK", path);
    environment_set(env, "SPUR_PLUGIN_DIR", set->plugin_dir ? set->plugin_dir : "");
}

/* ---- in spurd: the process that stays ---- */

struct spank_node {
    struct agent *agent;            /* NULL: it is to end */
    uv_process_t process;
    uv_pipe_t in, out;
    uv_timer_t deadline;
    char   buffer[1024], line[1024];
    size_t length;
    int    open;                    /* handles that are not closed yet */
    bool   has_exited;
};

static void closed(uv_handle_t *h)
{
    struct spank_node *k = h->data;

    if (--k->open == 0)
        free(k);
}

static void close_all(struct spank_node *k)
{
    uv_handle_t *all[] = { (uv_handle_t *)&k->process, (uv_handle_t *)&k->in, (uv_handle_t *)&k->out, (uv_handle_t *)&k->deadline };

    if (k->agent)
        k->agent->spank = NULL;
    k->agent = NULL;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!uv_is_closing(all[i]))
            uv_close(all[i], closed);
}

static void exited(uv_process_t *process, int64_t status, int number)
{
    struct spank_node *k = process->data;

    k->has_exited = true;
    if (number)
        log_line(SPUR_LOG_ERROR, "SPANK plugins: the process for slurmd context was ended by signal %d (%s)", number, strsignal(number));
    else if (status)
        log_line(SPUR_LOG_ERROR, "SPANK plugins: the process for slurmd context ended with %d", (int)status);
    close_all(k);
}

static void buffer_give(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
    struct spank_node *k = h->data;

    (void)suggested;
    *buf = uv_buf_init(k->buffer, sizeof k->buffer);
}

static void heard(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    struct spank_node *k = s->data;
    char shown[1024];

    if (n < 0)
        uv_read_stop(s);
    for (ssize_t i = 0; i < n; i++) {
        if (buf->base[i] != '\n' && k->length + 1 < sizeof k->line) {
            k->line[k->length++] = buf->base[i];
            continue;
        }
        k->line[k->length] = '\0';
        word_printable(k->line, shown, sizeof shown);
        log_line(SPUR_LOG_INFO, "SPANK plugins: %s", shown);
        k->length = 0;
    }
}

void spank_node_start(struct agent *a)
{
    char *argv[] = { (char *)"spurstepd", (char *)"--spank", NULL }, path[1200];
    struct environment env;
    struct spank_node *k;
    uv_stdio_container_t files[3];
    uv_process_options_t options;
    int rc;

    if (a->is_emulated || !stack_path(a->set, path, sizeof path))
        return;
    k = mem_alloc(sizeof *k);
    k->agent = a;
    k->process.data = k->in.data = k->out.data = k->deadline.data = k;
    uv_pipe_init(a->loop, &k->in, 0);
    uv_pipe_init(a->loop, &k->out, 0);
    uv_timer_init(a->loop, &k->deadline);
    k->open = 4;
    environment_init(&env);
    environment_set(&env, "PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    environment_set(&env, "SLURM_CONF", a->set->conf_path);
    environment_set(&env, "SLURMD_NODENAME", hostlist_nth(a->set->names, 0));
    spank_node_environment(a->set, "slurmd", &env);
    files[0] = (uv_stdio_container_t){ .flags = UV_CREATE_PIPE | UV_READABLE_PIPE, .data.stream = (uv_stream_t *)&k->in };
    files[1] = (uv_stdio_container_t){ .flags = UV_IGNORE };
    files[2] = (uv_stdio_container_t){ .flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&k->out };
    options = (uv_process_options_t){ .exit_cb = exited, .file = PROGRAMS_SELF, .args = argv, .env = env.vars, .stdio = files, .stdio_count = 3, .cwd = "/",
                                      .flags = UV_PROCESS_DETACHED };
    rc = uv_spawn(a->loop, &k->process, &options);
    environment_fini(&env);
    if (rc < 0) {
        log_line(SPUR_LOG_ERROR, "SPANK plugins: no process for slurmd context: %s", uv_strerror(rc));
        close_all(k);
        return;
    }
    a->spank = k;
    uv_read_start((uv_stream_t *)&k->out, buffer_give, heard);
}

static void too_long(uv_timer_t *t)
{
    struct spank_node *k = t->data;

    log_line(SPUR_LOG_ERROR, "SPANK plugins: slurm_spank_slurmd_exit did not end within %d s: killed", END_WAIT_MS / 1000);
    uv_process_kill(&k->process, SIGKILL);
}

void spank_node_stop(struct agent *a)
{
    struct spank_node *k = a->spank;

    if (!k)
        return;
    a->spank = NULL;
    k->agent = NULL;
    uv_close((uv_handle_t *)&k->in, closed);
    uv_timer_start(&k->deadline, too_long, END_WAIT_MS, 0);
}

/* ---- the process ---- */

static const char *variable(void *of, const char *name)
{
    char full[320];

    (void)of;
    snprintf(full, sizeof full, "SPANK_%.300s", name);
    return getenv(full);
}

static bool number_of(const char *name, uint32_t *out)
{
    const char *text = getenv(name);

    return text && number_u32(text, out);
}

static void facts_fill(struct spank_facts *f)
{
    uint32_t n;

    f->control_get = variable;
    if (number_of("SLURM_JOB_UID", &n)) {
        f->uid = n;
        f->known |= SPANK_KNOWS(S_JOB_UID);
    }
    if (number_of("SLURM_JOB_GID", &n)) {
        f->gid = n;
        f->known |= SPANK_KNOWS(S_JOB_GID);
    }
    if (!number_of("SLURM_JOB_ID", &f->job_id))
        return;
    f->known |= SPANK_KNOWS(S_JOB_ID) | SPANK_KNOWS(S_JOB_ARRAY_ID) | SPANK_KNOWS(S_JOB_ARRAY_TASK_ID) | SPANK_KNOWS(S_SLURM_RESTART_COUNT);
    f->array_task = 0xfffffffeu;
    number_of("SLURM_ARRAY_JOB_ID", &f->array_id);
    number_of("SLURM_ARRAY_TASK_ID", &f->array_task);
    number_of("SLURM_RESTART_COUNT", &f->restarts);
}

static int run(const char *what, const char *plugstack, const char *dirs)
{
    bool is_slurmd = !strcmp(what, "slurmd"), is_epilog = !strcmp(what, "job_epilog");
    struct spank_facts facts = { 0 };
    struct spank_stack *stack = NULL;
    struct spur_error err = { 0 };
    char byte;
    int rc;

    facts_fill(&facts);
    spank_log_as("spank", 1);
    rc = spank_stack_open(plugstack, dirs, is_slurmd ? S_CTX_SLURMD : S_CTX_JOB_SCRIPT, &facts, &stack, &err);
    if (rc == 0 && is_slurmd && stack) {
        if ((rc = spank_stack_call(stack, SPANK_ON_slurmd_init, &err)) == 0)
            rc = spank_stack_call(stack, SPANK_ON_init, &err);
        if (rc < 0)
            fprintf(stderr, "%s\n", err.text);
        while (read(0, &byte, 1) > 0 || errno == EINTR)
            errno = 0;
        rc = spank_stack_call(stack, SPANK_ON_slurmd_exit, &err);
    } else if (rc == 0 && stack) {
        rc = spank_stack_call(stack, is_epilog ? SPANK_ON_job_epilog : SPANK_ON_job_prolog, &err);
    }
    if (rc < 0)
        fprintf(stderr, "%s\n", err.text);
    return rc < 0;
}

int spank_node_main(void)
{
    const char *what = getenv("SPUR_SPANK"), *plugstack = getenv("SPUR_PLUGSTACK"), *dirs = getenv("SPUR_PLUGIN_DIR");
    struct spank_mark *mark;
    int status = 0;
    pid_t child;

    if (!what || !plugstack) {
        fprintf(stderr, "spurstepd: --spank is for spurd alone\n");
        return 1;
    }
    prctl(PR_SET_NAME, "spurstepd-spank");
    mark = mmap(NULL, sizeof *mark, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (mark == MAP_FAILED || (child = fork()) < 0) {
        fprintf(stderr, "spurstepd: cannot fork for the SPANK plugins: %s\n", strerror(errno));
        return 1;
    }
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        spank_mark_in(mark);
        exit(run(what, plugstack, dirs ? dirs : ""));
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (!WIFSIGNALED(status))
        return WEXITSTATUS(status);
    mark->text[sizeof mark->text - 1] = '\0';
    fprintf(stderr, "ended by signal %d (%s) in %s\n", WTERMSIG(status), strsignal(WTERMSIG(status)), mark->text);
    return 1;
}
