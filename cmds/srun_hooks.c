/* SPDX-License-Identifier: Apache-2.0 */
/* srun_hooks.c - SrunProlog and SrunEpilog, or --prolog and --epilog: run by srun itself, as its user, where it was called.
 *
 * A prolog that fails stops the step before it is asked for; what an epilog says of itself is only told. They get srun's environment and what is known of the job and
 * step, its output and /dev/null as their input, which is the tasks'. "none" in place of a program leaves out the site's.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "cmds/srun.h"

static void number_set(const char *name, uint32_t value)
{
    char text[16];

    snprintf(text, sizeof text, "%u", value);
    setenv(name, text, 1);
}

static _Noreturn void hook_exec(const struct srun *s, const char *program, bool is_epilog)
{
    int null = open("/dev/null", O_RDONLY);

    if (null >= 0)
        dup2(null, 0);
    number_set("SLURM_JOB_ID", s->job_id);
    number_set("SLURM_JOBID", s->job_id);
    if (is_epilog) {
        number_set("SLURM_STEP_ID", s->step_id);
        number_set("SLURM_STEPID", s->step_id);
        number_set("SLURM_NTASKS", s->ntasks);
        number_set("SLURM_NNODES", s->nodes);
        if (s->node_list)
            setenv("SLURM_STEP_NODELIST", s->node_list, 1);
    }
    setenv("SLURM_SCRIPT_CONTEXT", is_epilog ? "epilog_srun" : "prolog_srun", 1);
    execl(program, program, (char *)NULL);
    fprintf(stderr, "srun: error: %s: %s\n", program, strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

int srun_hook(struct srun *s, bool is_epilog)
{
    const char *asked = is_epilog ? s->r.epilog : s->r.prolog;
    char of_site[1024] = "";
    int status = 0;
    pid_t pid;

    if (!asked)
        config_hint_value(client_hint(s->client), is_epilog ? "SrunEpilog" : "SrunProlog", of_site, sizeof of_site);
    if (!asked)
        asked = of_site;
    if (!*asked || word_eq(asked, "none"))
        return 0;
    fflush(NULL);
    if ((pid = fork()) == 0)
        hook_exec(s, asked, is_epilog);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (pid < 0 || status)
        fprintf(stderr, "srun: error: srun %s %s failed: %s %d\n", is_epilog ? "epilog" : "prolog", asked, WIFSIGNALED(status) ? "signal" : "exit code",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return pid < 0 || status ? -1 : 0;
}
