/* SPDX-License-Identifier: Apache-2.0 */
/* submit.c - what sbatch and srun do alike around a submit; see submit.h. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duration.h"
#include "cmds/common/submit.h"

bool path_is_program(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

int would_run_show(struct client *c, struct request *r, const Wire__SubmitRequest *submit, const char *command, struct spur_error *err)
{
    const Wire__WouldRunReply *w;
    struct str start;
    void *reply;
    int number = 0, rc;

    rc = client_call(c, WIRE__MESSAGE_TYPE__TEST_ONLY, &submit->base, WIRE__MESSAGE_TYPE__WOULD_RUN, &wire__would_run_reply__descriptor, &r->arena, &reply, &number, err);
    if (rc < 0)
        return rc;
    w = reply;
    str_init(&start);
    moment_print(w->start_wall_s, getenv("SLURM_TIME_FORMAT"), clock_wall_ms() / 1000, &start);
    fprintf(stderr, "%s: Job %u to start at %s using %u processors on nodes %s in partition %s\n", command, w->job_id, start.text, w->cpus, w->nodes ? w->nodes : "",
            w->partition ? w->partition : "");
    str_fini(&start);
    return 0;
}
