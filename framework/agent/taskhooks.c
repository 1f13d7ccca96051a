/* SPDX-License-Identifier: Apache-2.0 */
/* taskhooks.c - what runs as the user right before and right after a task.
 *
 * A TaskProlog is a child of the task's own process, with the task's environment, folder, limits and standard error; its standard output is read to the end of it. An
 * epilog is started by the supervisor like a task of its own, through the same drop of privileges, and has EPILOG_MS: it is meant to be short,
 * and a step does not end before it. What a prolog changed in the environment is the task's alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/taskhooks.h"
#include "base/str.h"

#define OUTPUT_MAX (1u << 20)
#define EPILOG_MS  5000

struct task_epilog { pid_t pid; uint32_t local; int word_fd; int64_t until_ms; struct task_epilog *next; };

/* ---- prolog ---- */

static const char *word_behind(const char *line, const char *word)
{
    size_t n = strlen(word);

    line += strspn(line, " \t");
    if (strncmp(line, word, n) || (line[n] != ' ' && line[n] != '\t'))
        return NULL;
    return line + n + strspn(line + n, " \t");
}

void task_prolog_line(struct environment *env, const char *line, int print_fd)
{
    const char *at;

    if ((at = word_behind(line, "export"))) {
        const char *eq = strchr(at, '=');
        char *name;

        if (!eq || eq == at)
            return;
        name = mem_copy_n(at, (size_t)(eq - at));
        name[strcspn(name, " \t")] = '\0';
        environment_set(env, name, eq + 1);
        free(name);
    } else if ((at = word_behind(line, "unset"))) {
        char *name = mem_copy(at);

        name[strcspn(name, " \t\r")] = '\0';
        environment_unset(env, name);
        free(name);
    } else if ((at = word_behind(line, "print"))) {
        dprintf(print_fd, "%s\n", at);
    }
}

static _Noreturn void prolog_child(const char *program, struct environment *env, int out)
{
    char *argv[] = { (char *)(uintptr_t)program, NULL };
    int null = open("/dev/null", O_RDONLY);

    if (null >= 0)
        dup2(null, 0);
    if (dup2(out, 1) < 0)
        _exit(126);
    task_close_from(3);
    environment_set(env, "SLURM_SCRIPT_CONTEXT", "prolog_task");
    execve(program, argv, env->vars);
    dprintf(2, "slurmstepd: error: task prolog %s: %s\n", program, strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

int task_prolog(const char *program, struct environment *env, int print_fd, struct spur_error *err)
{
    int pair[2], status = 0;
    struct str text;
    char buf[4096];
    ssize_t got;
    pid_t pid;

    if (pipe2(pair, O_CLOEXEC) < 0)
        return spur_fail(err, SPUR_EIO, "task prolog %.100s: %s", program, strerror(errno));
    pid = fork();
    if (pid == 0)
        prolog_child(program, env, pair[1]);
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        return spur_fail(err, SPUR_EIO, "task prolog %.100s: cannot fork: %s", program, strerror(errno));
    }
    str_init(&text);
    while ((got = read(pair[0], buf, sizeof buf)) > 0 || (got < 0 && errno == EINTR))
        if (got > 0 && text.len < OUTPUT_MAX)
            str_add_n(&text, buf, (size_t)got);
    close(pair[0]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (status) {
        str_fini(&text);
        return WIFSIGNALED(status) ? spur_fail(err, SPUR_EIO, "task prolog %.100s: ended by signal %d", program, WTERMSIG(status))
                                   : spur_fail(err, SPUR_EIO, "task prolog %.100s: exit code %d", program, WEXITSTATUS(status));
    }
    for (char *at = text.text, *end = at + text.len; at && at < end; ) {
        size_t n = strcspn(at, "\n");

        at[n] = '\0';
        task_prolog_line(env, at, print_fd);
        at += n + 1;
    }
    str_fini(&text);
    return 0;
}

/* ---- epilog ---- */

bool task_epilog_start(struct task_epilogs *e, const struct task_plan *like, const char *of_srun, const char *of_site, uint32_t local, int64_t now_ms)
{
    static const char script[] = "for p; do [ -z \"$p\" ] || \"$p\"; done";
    char *argv[] = { (char *)(uintptr_t)"sh", (char *)(uintptr_t)"-c", (char *)(uintptr_t)script, (char *)(uintptr_t)"sh", (char *)(uintptr_t)(of_srun ? of_srun : ""),
                     (char *)(uintptr_t)(of_site ? of_site : ""), NULL };
    struct task_plan plan = *like;
    struct spur_error err = { 0 };
    struct task_epilog *t;

    if (!(of_srun && *of_srun) && !(of_site && *of_site))
        return false;
    plan.argv = argv;
    plan.program = "/bin/sh";
    plan.in_path = plan.out_path = plan.err_path = plan.line = NULL;
    plan.prologs[0] = plan.prologs[1] = NULL;
    plan.in_fd = plan.out_fd = -1;
    environment_set(plan.env, "SLURM_SCRIPT_CONTEXT", "epilog_task");
    t = mem_alloc(sizeof *t);
    if (task_fork(&plan, &t->pid, &t->word_fd, &err) < 0) {
        free(t);
        return false;
    }
    t->local = local;
    t->until_ms = now_ms + EPILOG_MS;
    t->next = e->first;
    e->first = t;
    return true;
}

int task_epilog_reaped(struct task_epilogs *e, pid_t pid)
{
    for (struct task_epilog **at = &e->first; *at; at = &(*at)->next)
        if ((*at)->pid == pid) {
            struct task_epilog *t = *at;
            int local = (int)t->local;

            *at = t->next;
            close(t->word_fd);
            free(t);
            return local;
        }
    return -1;
}

int64_t task_epilogs_sweep(struct task_epilogs *e, int64_t now_ms)
{
    int64_t next = INT64_MAX;

    for (struct task_epilog *t = e->first; t; t = t->next) {
        if (now_ms >= t->until_ms) {
            kill(-t->pid, SIGKILL);         /* a session of its own */
            t->until_ms = now_ms + 1000;
        }
        if (t->until_ms < next)
            next = t->until_ms;
    }
    return next;
}
