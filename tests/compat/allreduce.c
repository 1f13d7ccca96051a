/* SPDX-License-Identifier: Apache-2.0 */
/* allreduce.c - a parallel program for t-mpich: every rank adds its number to those of the others.
 *
 * Declared by hand, since a machine may have MPICH's library without its headers; the handles are those of the MPICH ABI (4.0).
 */
#include <stdio.h>
#include <stdlib.h>

extern int MPI_Init(int *argc, char ***argv);
extern int MPI_Comm_rank(int comm, int *rank);
extern int MPI_Comm_size(int comm, int *size);
extern int MPI_Allreduce(const void *from, void *to, int count, int type, int op, int comm);
extern int MPI_Finalize(void);
enum { COMM_WORLD = 0x44000000, TYPE_INT = 0x4c000405, OP_SUM = 0x58000003 };

int main(int argc, char **argv)
{
    int rank = -1, size = 0, sum = 0;

    if (MPI_Init(&argc, &argv) || MPI_Comm_rank(COMM_WORLD, &rank) || MPI_Comm_size(COMM_WORLD, &size) || MPI_Allreduce(&rank, &sum, 1, TYPE_INT, OP_SUM, COMM_WORLD))
        return 1;
    printf("rank %d of %d: sum %d\n", rank, size, sum);
    fflush(stdout);
    return MPI_Finalize() ? 1 : 0;
}
