/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_all.c - a parallel program for t-openmpi and t-mpich: a ring, a barrier, groups, a sum, and the ways a rank can go. Built with the mpicc of either library.
 *
 *     mpi_all              each rank prints a line
 *     mpi_all exit CODE    rank 1 ends with CODE, finalized
 *     mpi_all abort CODE   rank 1 calls MPI_Abort, the others wait until the step ends them
 *     mpi_all kill         rank 1 is killed, the others wait
 *     mpi_all gone         rank 1 leaves without MPI_Finalize, the others wait
 *     mpi_all never        rank 1 never calls MPI_Init
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int ring(int rank, int size)
{
    int token = 0;

    if (rank == 0) {
        MPI_Send(&token, 1, MPI_INT, 1 % size, 7, MPI_COMM_WORLD);
        MPI_Recv(&token, 1, MPI_INT, size - 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(&token, 1, MPI_INT, rank - 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        token += rank;
        MPI_Send(&token, 1, MPI_INT, (rank + 1) % size, 7, MPI_COMM_WORLD);
    }
    MPI_Bcast(&token, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return token;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "", *first = getenv("SLURM_PROCID");
    int rank, size, sum = 0, group_sum = 0, token, code = argc > 2 ? atoi(argv[2]) : 0;
    MPI_Comm group;

    if (!strcmp(how, "never") && first && !strcmp(first, "1"))
        return 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    token = size > 1 ? ring(rank, size) : 0;
    if (rank == 1 && !strcmp(how, "abort"))
        MPI_Abort(MPI_COMM_WORLD, code);
    if (rank == 1 && !strcmp(how, "kill"))
        kill(getpid(), SIGKILL);
    if (rank == 1 && !strcmp(how, "gone"))
        _exit(code);
    while (!strcmp(how, "abort") || !strcmp(how, "kill") || !strcmp(how, "gone"))
        pause();                        /* not in MPI, where the library may see the end of a connection and end the step itself */
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &group);
    MPI_Allreduce(&rank, &group_sum, 1, MPI_INT, MPI_SUM, group);
    MPI_Comm_free(&group);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d: ring %d sum %d group %d\n", rank, size, token, sum, group_sum);
    fflush(stdout);
    MPI_Finalize();
    return rank == 1 && !strcmp(how, "exit") ? code : 0;
}
