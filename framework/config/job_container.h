/* SPDX-License-Identifier: Apache-2.0 */
/* job_container.h - job_container.conf: which folders of a node a job has for itself. The agent reads it beside its slurm.conf. */
#ifndef CONFIG_JOB_CONTAINER_H
#define CONFIG_JOB_CONTAINER_H

#include <stdbool.h>
#include <spur/error.h>

struct config_job_container {
    char *base_path, *init_script;      /* NULL: not given */
    char *dirs;                         /* "/tmp,/dev/shm" */
    bool  auto_base, shared;
};

/* What the text says for this node: a line with NodeName= holds for its nodes, the last one that fits wins. Fails with line, word and reason. Pure. */
int  job_container_parse(const char *text, const char *node, struct config_job_container *out, struct spur_error *err);
void job_container_fini(struct config_job_container *c);

#endif
