/* SPDX-License-Identifier: Apache-2.0 */
/* srun.h - what the two halves of srun share: srun.c gets an allocation and a step, srun_step.c stays with the step until its tasks have ended. */
#ifndef CMDS_SRUN_H
#define CMDS_SRUN_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"
#include "client/stepio.h"
#include "cmds/common/allocation.h"
#include "cmds/common/request.h"

struct srun {
    struct request  r;              /* of a step over several components: of the first of them */
    struct request *more; size_t more_count;    /* of the others */
    uint32_t het_job_id;            /* the job they are components of; 0: one step of one job */
    const uint32_t *part_nodes; size_t part_count;      /* nodes of the step in each; in the request's arena */
    struct client  *client;
    struct step_io *io;
    struct plugins *plugins;
    uint32_t job_id, step_id, ntasks, nodes;
    bool     owns_job;              /* the allocation is ours: it ends with the step */
    char    *node_list, *tasks_per_node;    /* of the step, in the request's arena */
    int      out_fd, err_fd, in_fd;
    enum step_io_input input; uint32_t input_task;
    bool     one_out, one_err; uint32_t out_task, err_task;     /* of one task alone: --output=N */
    bool     remote_out, remote_err;        /* supervisors write these files */
    int      wait_status;           /* of the worst task */
    struct guard guard;             /* of the allocation, while it is ours */
};

/* Signals come through one pipe; a wait for the controller is interrupted by them. */
void signals_start(void);
void signals_add(int number);       /* this one too (SIGWINCH) */
int  signals_fd(void);
int  signals_take(void);            /* next one that has come, 0: none */

/* srun_hooks.c: SrunProlog or SrunEpilog, --prolog, --epilog. 0, or -1 when it failed, which has been said. */
int  srun_hook(struct srun *s, bool is_epilog);
/* Runs the step's input and output to its end. The exit code of srun. */
int  step_run(struct srun *s);
/* Ends a job, or one step of it (step true), through the controller. What went wrong is said on stderr. */
int  job_cancel(struct srun *s, bool step);

#endif
