/* SPDX-License-Identifier: Apache-2.0 */
/* taskio.h - the supervisor's end of a step's input and output: pipes of the tasks on one side, the channel to srun on the other. */
#ifndef AGENT_TASKIO_H
#define AGENT_TASKIO_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <spur/error.h>

#include "agent/watchers.h"
#include "wire/spur.pb-c.h"

/* NONE: the step has no srun to talk to. LOST: srun has gone or could not be reached: output is read and dropped. */
enum taskio_state { TASKIO_NONE, TASKIO_CONNECTING, TASKIO_OPEN, TASKIO_LOST };

struct taskio;
/* Starts to connect where the order's credential says; `signalled` is called for each IO_SIGNAL. */
struct taskio *taskio_create(const Wire__StepOrder *order, void (*signalled)(void *arg, int signal), void *arg);
void taskio_destroy(struct taskio *io);
enum taskio_state taskio_state(const struct taskio *io);
const char *taskio_fault(const struct taskio *io);          /* why LOST */
/* What srun says for the mpi plugin's server of this node goes to `came`; taskio_mpi says what that server has to say. */
void taskio_on_mpi(struct taskio *io, void (*came)(void *arg, const Wire__IoMpi *m), void *arg);
void taskio_mpi(struct taskio *io, const Wire__IoMpi *m);
/* Gives a task's pipes to taskio: write end of its input, read ends of output and error; -1 where there is none. With a pseudo terminal: two
 * descriptors of its master, and no error. */
void taskio_attach(struct taskio *io, uint32_t local, int in_fd, int out_fd, int err_fd);
/* sattach or sstat wants to be dialled; the agent has checked its credential. */
void taskio_dial(struct taskio *io, const Wire__Credential *grant);
void taskio_hello(struct taskio *io, const uint32_t *pids, uint32_t count, const char *error, int error_status);     /* after the fork; `error`: no tasks here, and why */
void taskio_say(struct taskio *io, const char *line);       /* a line of the supervisor's own, into the first task's errors at srun */
void taskio_exited(struct taskio *io, uint32_t local, int status);
/* All pipes at their end and all said: the last word has been queued and written. */
bool taskio_done(struct taskio *io);

#define TASKIO_POLL_ROOM(tasks) (1 + 3 * (size_t)(tasks) + WATCHERS_MAX)
size_t taskio_poll(struct taskio *io, struct pollfd *fds);                  /* fills, returns how many */
void   taskio_handle(struct taskio *io, const struct pollfd *fds, size_t n, int64_t now_ms);       /* the same fds after poll() */
int64_t taskio_deadline(const struct taskio *io);                           /* ms of the clock that handle gets; INT64_MAX: none */

#endif
