/* SPDX-License-Identifier: Apache-2.0 */
/* stepwaits.c - requests for a step that other steps of the job are in the way of: kept for a moment, tried again when one of those ends.
 *
 * A loop of sruns in a job of one core asks for its next step while the end of the last one is still on its way into the log. Refused, srun would
 * sleep for some milliseconds and ask again, and that sleep was most of what such a step took. An srun that says how long it would wait
 * (StepRequest.wait_ms) is kept here instead, in the order of arrival, and gets the refusal that it knows when that time is over.
 *
 * An event lets one of them through: the state shows that step only when its entry is applied, and the next one is looked at then. So what
 * waits never makes entries that apply refuses. An event looks at a few, and each is looked at so often at most: hundreds of sruns in one job
 * cost the loop little, and a request's arena, which grows with each look, stays small. What goes on for longer is asked anew by srun.
 */
#include <stdlib.h>

#include "controller/ctl.h"

#define WAIT_MOST_MS  1000
#define LOOKS_A_EVENT 32
#define LOOKS_A_WAIT  64
#define WAITS_MAX     1024      /* of all users; more are refused at once, as are those whose environments would take too much */
#define WAITS_BYTES_MAX (64u << 20)

struct step_wait { struct request *request; uint64_t conn, seq; uint32_t job_id, looks; size_t bytes; int64_t until_ms; struct step_wait *next; };

bool stepwaits_add(struct ctl *c, struct request *take_request, uint64_t conn, uint64_t seq, const Wire__StepRequest *m)
{
    uint32_t wait_ms = m->wait_ms < WAIT_MOST_MS ? m->wait_ms : WAIT_MOST_MS;
    size_t count = 0, bytes = m->env.len;
    struct step_wait *w, **at;

    for (at = &c->step_waits; *at; at = &(*at)->next) {
        count++;
        bytes += (*at)->bytes;
    }
    if (count >= WAITS_MAX || bytes > WAITS_BYTES_MAX)
        return false;
    w = *at = mem_alloc(sizeof *w);
    *w = (struct step_wait){ .request = take_request, .conn = conn, .seq = seq, .job_id = m->job_id, .bytes = m->env.len, .until_ms = clock_boot_ms() + wait_ms };
    alarm_set(c, wait_ms + 1, ALARM_STEP_WAIT, m->job_id);
    return true;
}

/* Looks at one: what it comes to; it is out of the list unless the answer is that it waits on. A refusal may close its connection, so it is out before. */
static enum step_try look(struct ctl *c, struct step_wait **at, bool is_last)
{
    struct step_wait *w = *at;
    enum step_try came;

    *at = w->next;
    came = dispatch_step_again(c, w->request, is_last || ++w->looks >= LOOKS_A_WAIT);
    if (came == STEP_WAITS)
        *at = w;
    else
        free(w);
    return came;
}

void stepwaits_event(struct ctl *c, uint32_t job_id)
{
    unsigned looks = 0;

    for (struct step_wait **at = &c->step_waits; *at && looks < LOOKS_A_EVENT; ) {
        struct step_wait *w = *at;

        if (w->job_id == job_id) {
            looks++;
            if (look(c, at, false) == STEP_PROPOSED)
                return;
        }
        if (*at == w)
            at = &w->next;
    }
}

void stepwaits_rang(struct ctl *c)
{
    int64_t now = clock_boot_ms();

    for (struct step_wait **at = &c->step_waits; *at; ) {
        struct step_wait *w = *at;

        if (now >= w->until_ms)
            look(c, at, true);
        if (*at == w)
            at = &w->next;
    }
}

static void drop(struct step_wait **at)
{
    struct step_wait *w = *at;

    *at = w->next;
    dispatch_step_drop(w->request);
    free(w);
}

void stepwaits_forget(struct ctl *c, uint64_t conn)
{
    for (struct step_wait **at = &c->step_waits; *at; ) {
        if ((*at)->conn == conn)
            drop(at);
        else
            at = &(*at)->next;
    }
}

void stepwaits_move(struct ctl *c)
{
    while (c->step_waits) {
        group_refuse(c, c->step_waits->conn, c->step_waits->seq);
        drop(&c->step_waits);
    }
}

void stepwaits_destroy(struct ctl *c)
{
    while (c->step_waits)
        drop(&c->step_waits);
}
