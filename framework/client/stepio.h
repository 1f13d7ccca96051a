/* SPDX-License-Identifier: Apache-2.0 */
/* stepio.h - srun's end of a step's input and output: the supervisors dial it, one encrypted channel each.
 *
 * Order of use by srun:
 *
 *     io = step_io_listen(cluster, 0, 0, err)         before STEP_CREATE: gives port and key for the StepRequest
 *     ... STEP_CREATE with io_host, io_port, io_key; the answer says ntasks and nodes ...
 *     step_io_run(io, &plan, &result, err)            blocks until every task has ended, or a callback ends it
 *     step_io_close(io)
 *
 * A blocking poll() loop, no libuv, no thread. Memory is bounded: a supervisor is read only while the output it brought can be written,
 * so a slow terminal slows the tasks, and standard input is read only while the tasks take it. Not thread safe.
 */
#ifndef CLIENT_STEPIO_H
#define CLIENT_STEPIO_H

#include <stdbool.h>
#include <stdint.h>
#include <spur/error.h>

struct step_io;

/* Listens on a free port of all addresses (or within first..last when first > 0: SrunPortRange) and makes the key of this step.
 * `cluster` goes into the handshake, as everywhere. NULL and a sentence in err when no port can be had. */
struct step_io *step_io_listen(const char *cluster, uint16_t first, uint16_t last, struct spur_error *err);
void step_io_close(struct step_io *io);                     /* accepts NULL; wipes the key */
/* For the StepRequest. host: a comma list of this machine's addresses, the likeliest first (loopback is last, and alone when
 * there is no other). key: 32 bytes. Borrowed from io. */
const char    *step_io_host(const struct step_io *io);
uint16_t       step_io_port(const struct step_io *io);
const uint8_t *step_io_key(const struct step_io *io);

enum step_io_input { STEP_IO_INPUT_ALL, STEP_IO_INPUT_NONE, STEP_IO_INPUT_TASK };

struct step_io_plan {
    uint32_t ntasks, nodes;         /* from the StepReply */
    int      in_fd, out_fd, err_fd; /* normally 0, 1, 2; in_fd -1: no input */
    enum step_io_input input; uint32_t input_task;      /* --input=all|none|N */
    bool     one_out, one_err; uint32_t out_task, err_task;     /* --output=N, --error=N: this task's alone, the others' is dropped */
    bool     label;                 /* -l: "N: " in front of each line, padded to the widest task number */
    bool     unbuffered;            /* -u: write what comes at once; otherwise whole lines (a line over 16 KiB is cut) */
    int      wake_fd;               /* -1, or readable when srun wants `woke` called (self-pipe of its signal handlers) */
    void   (*woke)(void *arg, struct step_io *io);
    /* Each second, and after each change: may ask the controller, may call step_io_signal. Not 0 ends the run with that code. */
    int    (*tick)(void *arg, struct step_io *io);
    void   (*task_ended)(void *arg, struct step_io *io, uint32_t task, int status);     /* wait() status; for -K and -W. May be NULL */
    void   (*node_failed)(void *arg, struct step_io *io, const char *node, const char *text, int status);      /* it could not start its tasks. May be NULL */
    void   (*aborted)(void *arg, struct step_io *io, const char *node, const char *text, int exit_code);   /* MPI on that node wants the step ended. May be NULL */
    void    *arg;
};

struct step_io_result {
    int      status;                /* wait() status of the worst task: a signal beats a code, higher beats lower */
    int      exit_code;             /* what srun exits with: the highest of code, or 128 + signal */
    uint32_t ended, failed;         /* tasks that have ended; of them with a status other than 0 */
    uint32_t lost;                  /* tasks whose supervisor went away without telling their status */
};

int  step_io_run(struct step_io *io, const struct step_io_plan *plan, struct step_io_result *out, struct spur_error *err);
/* From the callbacks: sends a signal to the step's tasks on all nodes that are connected (srun's Ctrl-C, -K, -W). */
void step_io_signal(struct step_io *io, int signal);
/* The size of the terminal has changed (--pty). */
void step_io_window(struct step_io *io, uint32_t rows, uint32_t columns);
/* How far it is: nodes that have connected, tasks that have ended. */
void step_io_progress(const struct step_io *io, uint32_t *connected, uint32_t *ended);
/* The controller says that the step is over: nodes that have said nothing for so long will not. Their tasks are lost. */
void step_io_give_up(struct step_io *io, int64_t silent_ms, const char *why);
/* The tasks that run, for "srun: task 0-3: running" at Ctrl-C: status of task t, -1 while it runs, -2 before its node has connected. */
int  step_io_task(const struct step_io *io, uint32_t task);

/* For who asks the nodes something else than input and output (sstat, sbcast): the listener for poll(), and its next connection, which has still to prove
 * itself. 1; 0: none waits. */
struct link;
int  step_io_fd(const struct step_io *io);
int  step_io_accept(struct step_io *io, struct link *out);

#endif
