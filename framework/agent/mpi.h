/* SPDX-License-Identifier: Apache-2.0 */
/* mpi.h - the supervisor's side of the mpi plugin: the process that serves a step's tasks on one node, and what goes to it and comes from it. */
#ifndef AGENT_MPI_H
#define AGENT_MPI_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <spur/error.h>

#include "agent/environment.h"

enum mpi_state { MPI_NONE, MPI_STARTING, MPI_READY, MPI_FAILED, MPI_OVER };

struct mpi;
/* Starts the server that the step asks for (srun --mpi, else MpiDefault); none for a batch script or mpi/none. `to_srun` gets what the server says to others.
 * Never NULL: what went wrong is the state MPI_FAILED and mpi_fault. */
struct mpi *mpi_create(const Wire__StepOrder *order, int folder_fd, void (*to_srun)(void *arg, const Wire__IoMpi *m), void *arg);
void mpi_destroy(struct mpi *m);                            /* the server ends, at the latest by the end of its socket */
enum mpi_state mpi_state(const struct mpi *m);
const char *mpi_fault(const struct mpi *m);
/* A task about to be forked: its variables, and its end of the socket (-1: none), which stays the mpi's until mpi_started. */
int  mpi_task(const struct mpi *m, uint32_t local, struct environment *env);
void mpi_end(struct mpi *m);                                /* no task runs any more: so ends the server */
void mpi_started(struct mpi *m);                            /* all tasks have been forked */
void mpi_task_ended(struct mpi *m, uint32_t local, int status);
/* Has the server dealt with the ends it was told? What a rank that went means to the others has to be said before the step is over. */
bool mpi_is_settled(const struct mpi *m, int64_t now);
int64_t mpi_deadline(const struct mpi *m);
void mpi_from_srun(struct mpi *m, const Wire__IoMpi *message);
void mpi_lost(struct mpi *m, const char *why);              /* srun has gone */

void mpi_poll(const struct mpi *m, struct pollfd *fd);      /* fills one */
void mpi_handle(struct mpi *m, const struct pollfd *fd);

/* ---- of the server's own process: mpi_server.c ---- */
struct mpi_server {
    const Wire__StepOrder *order;
    const char *plugin, *dir;
    int  control;               /* frames of IoMpi, as on a local socket */
    int *fds; uint32_t count;   /* of the tasks, -1 each where there is none */
};
/* In the child of the fork, with the supervisor's ids still. Ends with the control socket. */
_Noreturn void mpi_serve(struct mpi_server *s);

#endif
