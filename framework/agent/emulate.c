/* SPDX-License-Identifier: Apache-2.0 */
/* emulate.c - scripted jobs of `spurd --emulate LIST`: nothing is executed, time passes and a status is reported.
 *
 * How long and with what end is taken from the job: a line of the script, or the job's comment, that says
 *
 *     # EMULATE: seconds=N exit=C          also: signal=S, launch=fail
 *
 * N may have a fraction; without such a line a batch step runs 1 s and ends with 0, a step ends at once with 0. Everything else is as on a
 * real node: credential checked, STARTED, ENDED and GONE reported through the spool (in memory here), signals end the job. What is
 * kept for a node and a step is small: a connection, a timer, a row.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/inside.h"
#include "state/job.h"

struct emulated {
    uv_timer_t timer;           /* first: freed in its close callback */
    struct agent_step *step;    /* NULL once the step has been forgotten */
    int status;
    bool is_frozen; uint64_t left_ms;       /* of its time, while it stands still */
};

struct script { double seconds; int status; bool fails; };

static void script_words(const char *at, struct script *s)
{
    const char *end = at + strcspn(at, "\r\n");
    double number;
    int value;

    while (at < end) {
        at += strspn(at, " \t");
        if (sscanf(at, "seconds=%lf", &number) == 1 && number >= 0)
            s->seconds = number;
        else if (sscanf(at, "exit=%d", &value) == 1)
            s->status = (value & 0xff) << 8;
        else if (sscanf(at, "signal=%d", &value) == 1)
            s->status = value & 0x7f;
        else if (!strncmp(at, "launch=fail", 11))
            s->fails = true;
        at += strcspn(at, " \t\r\n");
        if (at >= end || *at == '\0')
            break;
    }
}

static struct script script_of(const Wire__Launch *l)
{
    static const char word[] = "EMULATE:";
    struct script s = { .seconds = l->step ? 0 : 1 };
    const Wire__JobSpec *spec = l->spec ? l->spec : l->job ? l->job->spec : NULL;
    const char *at = spec && spec->comment ? strstr(spec->comment, word) : NULL;
    char *copy;

    if (at)
        script_words(at + sizeof word - 1, &s);
    if (l->script.len && !l->step) {
        copy = mem_copy_n((const char *)l->script.data, l->script.len);
        if ((at = strstr(copy, word)))
            script_words(at + sizeof word - 1, &s);
        free(copy);
    }
    return s;
}

static void freed(uv_handle_t *h) { free(h); }

void emulate_free(struct agent_step *s)
{
    s->emulated->step = NULL;
    uv_close((uv_handle_t *)&s->emulated->timer, freed);
    s->emulated = NULL;
}

static void over(struct agent_step *s, int status)
{
    node_report_text(s->node, WIRE__REPORT__KIND__ENDED, s->job_id, s->step_id, s->attempt, status, NULL);
    s->phase = STEP_GONE;
    step_end(s);
}

static void fired(uv_timer_t *t)
{
    struct emulated *e = (struct emulated *)t;

    if (e->step)
        over(e->step, e->status);
}

void emulate_launch(struct agent_step *s, const Wire__Launch *l)
{
    struct script script = script_of(l);

    s->emulated = mem_alloc(sizeof *s->emulated);
    uv_timer_init(s->node->agent->loop, &s->emulated->timer);
    s->emulated->step = s;
    s->emulated->status = script.status;
    if (script.fails) {
        node_report_text(s->node, WIRE__REPORT__KIND__LAUNCH_FAILED, s->job_id, s->step_id, s->attempt, 1 << 8, "the script asks for a failed launch");
        step_end(s);
        return;
    }
    s->phase = STEP_RUNNING;
    node_report_text(s->node, WIRE__REPORT__KIND__STARTED, s->job_id, s->step_id, s->attempt, 0, NULL);
    uv_timer_start(&s->emulated->timer, fired, (uint64_t)(script.seconds * 1000), 0);
}

static void freeze(struct emulated *e, bool frozen)
{
    if (e->is_frozen == frozen)
        return;
    e->is_frozen = frozen;
    if (frozen) {
        e->left_ms = uv_timer_get_due_in(&e->timer);
        uv_timer_stop(&e->timer);
    } else {
        uv_timer_start(&e->timer, fired, e->left_ms, 0);
    }
}

void emulate_kill(struct agent_step *s, const Wire__Kill *k)
{
    if (k->has_freeze) {
        freeze(s->emulated, k->freeze);
        return;
    }
    if (k->until_empty || k->signal == SIGKILL || k->signal == SIGTERM) {
        s->emulated->status = (int)k->signal;           /* ends on the next turn: the caller walks the steps */
        uv_timer_start(&s->emulated->timer, fired, 0, 0);
    }
}
