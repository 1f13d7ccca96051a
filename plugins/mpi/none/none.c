/* SPDX-License-Identifier: Apache-2.0 */
/* none.c - mpi/none: tasks get Slurm's variables and nothing else. For programs that find each other by these (torch.distributed with MASTER_ADDR), and for
 * launchers that bring their own daemons (mpirun, mpiexec.hydra). No server beside the tasks, so the host calls nothing of this. */
#include <stdlib.h>

#include <spur/mpi.h>

static int none_start(void *self, const struct spur_mpi_step *step, struct spur_error *err)
{
    (void)self;
    (void)step;
    (void)err;
    return 0;
}

static int none_task(void *self, uint32_t local, int fd, const struct spur_mpi_env *env, struct spur_error *err)
{
    (void)self;
    (void)local;
    (void)fd;
    (void)env;
    (void)err;
    return 0;
}

static int none_open(const struct spur_host *host, const struct spur_conf *conf, void **self, struct spur_error *err)
{
    (void)host;
    (void)conf;
    if (!(*self = calloc(1, 1)))
        return spur_fail(err, SPUR_ENOMEM, "out of memory");
    return 0;
}

static const struct spur_option none_options[] = { { NULL, 0, NULL, NULL } };
static const struct spur_mpi_ops none_ops = { .size = sizeof none_ops, .start = none_start, .task = none_task };

SPUR_PLUGIN(mpi, none, .about = "Slurm's variables only: for torchrun, mpirun, mpiexec.hydra", .options = none_options, .ops = &none_ops,
            .open = none_open, .close = free);
