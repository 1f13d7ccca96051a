/* SPDX-License-Identifier: Apache-2.0 */
/* step_plugins.c - a step whose node has SPANK plugins: their process (spank.c) makes the tasks, and this side takes them.
 *
 * The step starts in the plugins' time; a process of theirs that ends too early ends the step with its last sentence. Without plugins all of this is one call.
 */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/container.h"
#include "agent/step_inside.h"

#define SAID_MAX 65536              /* bytes of lines that plugins say before anybody reads them */

static void plugins_close(void *arg)
{
    struct supervisor *s = arg;
    struct pollfd *fds = mem_array(TASKIO_POLL_ROOM(s->count), sizeof *fds);
    size_t n = taskio_poll(s->io, fds);

    for (size_t i = 0; i < n; i++)
        if (fds[i].fd >= 0)
            close(fds[i].fd);
    free(fds);
    if (s->agent.fd >= 0)
        close(s->agent.fd);
    close(s->signal_fd);
    close(s->listen_fd);
}

static struct environment *plugins_begin(void *arg, char ***argv)
{
    struct supervisor *s = arg;

    s->start = mem_alloc(sizeof *s->start);
    supervisor_start_init(s, s->start);
    *argv = s->start->argv;
    return &s->start->env;
}

static int plugins_make(void *arg, uint32_t local, const struct task_hooks *hooks, struct task_parts *out, struct spur_error *err)
{
    struct supervisor *s = arg;
    int rc = supervisor_make_task(s, s->start, local, hooks, out, err);

    if (local + 1 == s->count)
        mpi_started(s->mpi);            /* this process's copies */
    return rc;
}

/* With plugins the step starts in their time; without, at once. */
void supervisor_start_with_plugins(struct supervisor *s)
{
    struct spank_life life = { s, plugins_close, plugins_begin, plugins_make };
    struct spur_error err = { 0 };
    struct start st = { 0 };

    s->plugins = spank_host_start(s->order, &life, &err);
    if (!s->plugins && err.code == 0) {
        supervisor_start(s);
        return;
    }
    s->phase = PHASE_PLUGINS;
    if (s->plugins) {
        container_spare(spank_host_pid(s->plugins));
        supervisor_start_init(s, &st);
        supervisor_check(s, &st, &err);
        supervisor_start_fini(&st);
    }
    if (err.code) {
        s->phase = PHASE_RUN;
        supervisor_started(s, err.code, &err);
    }
}

/* Lines of plugins: to srun, or into the batch job's error file, as soon as there is one. */
void supervisor_plugins_say(struct supervisor *s)
{
    int fd = s->count ? s->tasks[0].err_fd : -1;

    if (!s->said.len || s->phase == PHASE_PLUGINS)
        return;
    if (fd >= 0) {
        if (!task_say(fd, s->said.text, s->said.len))
            s->tasks[0].err_fd = -1;
    } else if (taskio_state(s->io) == TASKIO_OPEN) {
        taskio_say(s->io, s->said.text);
    } else {
        return;
    }
    str_clear(&s->said);
}

void supervisor_plugins_failed(struct supervisor *s, const char *text)
{
    if (s->phase != PHASE_PLUGINS)
        return;
    s->phase = PHASE_RUN;
    supervisor_start_failed(s, text, s->kill_now ? SIGKILL : 1 << 8);
    container_kill();
    supervisor_started(s, 0, NULL);             /* srun listens to what the plugins have said, then hears of tasks that have failed */
    str_addf(&s->said, "slurmstepd: error: %s\n", text);
    supervisor_plugins_say(s);
    for (uint32_t i = 0; i < s->count; i++)
        if (s->tasks[i].pid <= 0)
            taskio_exited(s->io, i, s->fail_status);
}

static void parts_close(const struct task_parts *parts)
{
    const int fds[] = { parts->word_fd, parts->in_fd, parts->out_fd, parts->err_fd };

    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

void supervisor_plugins_news(struct supervisor *s)
{
    struct spank_news news;

    for (enum spank_event e; (e = spank_host_next(s->plugins, &news)) != SPANK_NOTHING; )
        switch (e) {
        case SPANK_EMPTY:
            supervisor_start(s);
            break;
        case SPANK_BEGUN:               /* the launch has arrived; how long plugins take is theirs */
            if (!s->started_said) {
                s->started_said = true;
                supervisor_report(s, WIRE__REPORT__KIND__STARTED, 0, NULL);
            }
            break;
        case SPANK_TASK:
            if (s->phase == PHASE_PLUGINS && news.local < s->count && s->tasks[news.local].pid <= 0)
                supervisor_take_task(s, news.local, &news.parts);
            else
                parts_close(&news.parts);       /* called off: they find the gate shut */
            break;
        case SPANK_ALL:
            if (s->phase != PHASE_PLUGINS)
                break;
            s->phase = PHASE_RUN;
            supervisor_started(s, 0, NULL);
            spank_host_go(s->plugins);
            break;
        case SPANK_SAID:
            if (s->said.len < SAID_MAX)
                str_add(&s->said, news.text);
            break;
        case SPANK_FAILED:
            supervisor_plugins_failed(s, news.text);
            break;
        case SPANK_NOTHING:
            break;
        }
    supervisor_plugins_say(s);
}

void supervisor_plugins_reaped(struct supervisor *s, int status)
{
    char text[300];
    const char *why = spank_host_reaped(s->plugins, status, text, sizeof text);

    supervisor_plugins_news(s);                    /* its last words */
    if (why && s->phase != PHASE_PLUGINS && s->said.len < SAID_MAX)
        str_addf(&s->said, "slurmstepd: error: %s\n", why);
    supervisor_plugins_failed(s, why ? why : "SPANK plugins: the process that holds them has ended too early");
    supervisor_plugins_say(s);
}
