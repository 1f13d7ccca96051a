/* SPDX-License-Identifier: Apache-2.0 */
/* health.h - HealthCheckProgram of slurm.conf, run on the node now and then. */
#ifndef AGENT_HEALTH_H
#define AGENT_HEALTH_H

struct agent;
void health_start(struct agent *a);     /* also after a changed configuration */
void health_stop(struct agent *a);

#endif
