/* SPDX-License-Identifier: Apache-2.0 */
/* health.c - runs HealthCheckProgram each HealthCheckInterval, and says what it finds.
 *
 * As in Slurm the program may drain the node itself with scontrol. Beyond that its status counts: other than 0 drains the node with the first line of its
 * output as the reason, and 0 lifts that again; jobs run on, for nobody can tell whom it hurts. It is killed, with all it has started, at
 * HealthCheckTimeout. HealthCheckNodeState is judged by what this node knows of itself: whether it has a job. ALLOC and MIXED are one thing
 * here, IDLE is no job at all; CYCLE spreads the first run over the interval; START_ONLY runs once.
 */
#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "agent/health.h"
#include "agent/inside.h"

#define OUTPUT_MAX 4096
#define OUTPUT_WAIT_MS 500

struct health {
    struct agent *agent;            /* NULL: stopped, closing */
    uv_timer_t timer, deadline;
    uv_process_t process; uv_pipe_t out;
    bool     is_running, has_exited, has_output_end, timed_out;
    int      status, signal;
    unsigned open_handles;
    char     output[OUTPUT_MAX]; size_t length;
    char     buffer[OUTPUT_MAX];
};

static void run(uv_timer_t *t);

static void handle_closed(uv_handle_t *h)
{
    struct health *k = h->data;

    if (--k->open_handles == 0 && !k->agent)
        free(k);
}

static bool has_state(const struct agent *a, const char *word)
{
    return a->set->health_states && strstr(a->set->health_states, word);
}

/* Is this a moment for it? */
static bool is_asked(const struct agent *a)
{
    bool busy = false;

    for (size_t i = 0; i < a->count; i++)
        busy |= table_count(&a->nodes[i].steps) > 0;
    if (!a->set->health_states || has_state(a, "ANY") || has_state(a, "START_ONLY"))
        return true;
    if (!has_state(a, "IDLE") && !has_state(a, "ALLOC") && !has_state(a, "MIXED"))
        return true;        /* CYCLE alone */
    return busy ? has_state(a, "ALLOC") || has_state(a, "MIXED") : has_state(a, "IDLE");
}

static void arm(struct health *k, uint64_t ms)
{
    if (k->agent)
        uv_timer_start(&k->timer, run, ms, 0);
}

/* Status and output are there. */
static void over(struct health *k)
{
    struct agent *a = k->agent;
    char text[200], words[160];

    if (!k->has_exited || !k->has_output_end || !k->is_running)
        return;
    k->is_running = false;
    uv_timer_stop(&k->deadline);
    if (a) {
        k->output[k->length] = '\0';
        k->output[strcspn(k->output, "\r\n")] = '\0';
        word_printable(k->output, words, sizeof words);
        if (k->timed_out)
            snprintf(text, sizeof text, "HealthCheckProgram did not end within %u s", a->set->health_timeout_s);
        else if (k->signal)
            snprintf(text, sizeof text, "HealthCheckProgram was ended by signal %d", k->signal);
        else if (k->status)
            snprintf(text, sizeof text, "HealthCheckProgram: %s", words[0] ? words : "failed without a word");
        inventory_program(a, k->timed_out || k->signal || k->status ? text : NULL);
        if (!has_state(a, "START_ONLY"))
            arm(k, 1000 * (uint64_t)a->set->health_interval_s);
    }
    uv_close((uv_handle_t *)&k->out, handle_closed);
    uv_close((uv_handle_t *)&k->process, handle_closed);
}

static void output_over(uv_timer_t *t)
{
    struct health *k = t->data;

    uv_read_stop((uv_stream_t *)&k->out);
    k->has_output_end = true;
    over(k);
}

static void exited(uv_process_t *process, int64_t status, int signal)
{
    struct health *k = process->data;

    k->has_exited = true;
    k->status = (int)status;
    k->signal = signal;
    if (!k->agent)
        k->has_output_end = true;
    else if (!k->has_output_end)    /* its words may still be in the pipe; what it has left behind may hold that for ever */
        uv_timer_start(&k->deadline, output_over, OUTPUT_WAIT_MS, 0);
    over(k);
}

static void buffer_give(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
    struct health *k = h->data;

    (void)suggested;
    *buf = uv_buf_init(k->buffer, sizeof k->buffer);
}

static void heard(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    struct health *k = s->data;

    if (n < 0) {
        uv_read_stop(s);
        k->has_output_end = true;
        over(k);
    } else {
        size_t room = sizeof k->output - 1 - k->length, take = (size_t)n < room ? (size_t)n : room;

        memcpy(k->output + k->length, buf->base, take);
        k->length += take;
    }
}

static void too_long(uv_timer_t *t)
{
    struct health *k = t->data;

    k->timed_out = true;
    kill(-k->process.pid, SIGKILL);     /* its own session: all it has started */
}

static void run(uv_timer_t *t)
{
    struct health *k = t->data;
    struct agent *a = k->agent;
    struct str name, conf;
    char *argv[] = { a->set->health_program, NULL };
    char *env[4] = { (char *)"PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL };
    uv_stdio_container_t files[3] = { { .flags = UV_IGNORE }, { .flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&k->out }, { .flags = UV_IGNORE } };
    uv_process_options_t options = { .exit_cb = exited, .file = a->set->health_program, .args = argv, .env = env, .stdio = files, .stdio_count = 3,
                                     .flags = UV_PROCESS_DETACHED };
    int rc;

    if (!is_asked(a)) {
        arm(k, 1000 * (uint64_t)a->set->health_interval_s);
        return;
    }
    str_init(&name);
    str_init(&conf);
    str_addf(&name, "SLURMD_NODENAME=%s", hostlist_nth(a->set->names, 0));
    str_addf(&conf, "SLURM_CONF=%s", a->set->conf_path ? a->set->conf_path : "");
    env[1] = name.text;
    env[2] = conf.text;
    k->length = 0;
    k->has_exited = k->has_output_end = k->timed_out = false;
    uv_pipe_init(a->loop, &k->out, 0);
    k->out.data = k->process.data = k;
    k->open_handles += 2;
    rc = uv_spawn(a->loop, &k->process, &options);
    k->is_running = true;
    str_fini(&name);
    str_fini(&conf);
    if (rc < 0) {
        k->length = (size_t)snprintf(k->output, sizeof k->output, "%.200s: %s", a->set->health_program, uv_strerror(rc));
        k->has_exited = k->has_output_end = true;
        k->status = 1;
        k->signal = 0;
        over(k);
        return;
    }
    uv_read_start((uv_stream_t *)&k->out, buffer_give, heard);
    uv_timer_start(&k->deadline, too_long, 1000 * (uint64_t)a->set->health_timeout_s, 0);
}

void health_start(struct agent *a)
{
    struct health *k;

    health_stop(a);
    if (a->is_emulated || !a->set->health_program || !a->set->health_interval_s) {
        if (a->program_fault[0])
            inventory_program(a, NULL);     /* nobody says it any more */
        return;
    }
    k = mem_alloc(sizeof *k);
    k->agent = a;
    a->health = k;
    uv_timer_init(a->loop, &k->timer);
    uv_timer_init(a->loop, &k->deadline);
    k->timer.data = k->deadline.data = k;
    k->open_handles = 2;
    arm(k, has_state(a, "CYCLE") ? randombytes_uniform(1000 * a->set->health_interval_s) : 0);
}

void health_stop(struct agent *a)
{
    struct health *k = a->health;

    if (!k)
        return;
    a->health = NULL;
    k->agent = NULL;
    if (k->is_running)
        kill(-k->process.pid, SIGKILL);
    uv_close((uv_handle_t *)&k->timer, handle_closed);
    uv_close((uv_handle_t *)&k->deadline, handle_closed);
}
