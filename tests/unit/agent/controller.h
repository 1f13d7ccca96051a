/* SPDX-License-Identifier: Apache-2.0 */
/* controller.h - the other side of the agent's tests: a controller that only knows the wire, and a real agent process beside it. */
#ifndef TESTS_AGENT_CONTROLLER_H
#define TESTS_AGENT_CONTROLLER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/spur.pb-c.h"

struct ctl {
    char  dir[256];
    void *inside;
    pid_t agent;
    Wire__Report *reports[512]; unsigned report_count;
    unsigned opened, registrations, beats;
    Wire__RegisterRequest *last;        /* registration */
    uint64_t fence;
    bool  ack;                          /* acknowledges reports */
    bool  is_mute;                      /* leaves registrations without an answer */
};

/* A folder, a listener, slurm.conf; `nodes` is the value of NodeName. */
void ctl_start(struct ctl *c, const char *nodes);
void ctl_stop(struct ctl *c);                       /* ends the agent and what is left */
void ctl_agent(struct ctl *c, const char *how, ...) __attribute__((sentinel));   /* starts spurd with these options, e.g. "-N", "n1", NULL */
uint16_t ctl_port(const struct ctl *c);
void ctl_agent_end(struct ctl *c, int signal);      /* and waits for its end */
bool ctl_until(struct ctl *c, bool (*done)(struct ctl *c, const void *arg), const void *arg);   /* runs the loop; false after 20 s */
void ctl_wait_registered(struct ctl *c, unsigned times);
const Wire__Report *ctl_report(struct ctl *c, uint32_t job_id, Wire__Report__Kind kind);            /* waits for it */
const Wire__Report *ctl_has(struct ctl *c, uint32_t job_id, Wire__Report__Kind kind);               /* NULL: not yet */
void ctl_forget_reports(struct ctl *c);

/* A launch of the caller's own uid that can be changed before it is sealed and sent. */
struct launch {
    Wire__Launch l; Wire__Credential c; Wire__JobSpec spec; Wire__JobInfo job; Wire__NodeAlloc alloc, *allocs[4]; Wire__NodeAlloc more[3];
    Wire__StepSpec step; Wire__StepNode rows[4], *row[4];
    char  out[300], work[300], script[4096];
    uint32_t groups[64];
    void (*spoil)(struct launch *x);    /* after the seal */
};
void launch_init(struct ctl *c, struct launch *x, uint32_t job_id, const char *script);
void launch_as_step(struct launch *x, uint32_t step_id, char **argv, uint32_t ntasks);
void launch_send(struct ctl *c, struct launch *x);       /* to the node of x->alloc */
void ctl_kill(struct ctl *c, uint32_t job_id, int signal, unsigned kill_wait_s, bool until_empty);
void ctl_kill_with(struct ctl *c, Wire__Kill *k);
char *file_text(const char *path);                  /* malloced, "" when there is none */
int   count_processes(const char *marker);          /* with these words in their command line */

#endif
