/* SPDX-License-Identifier: Apache-2.0 */
/* spank_node.h - SPANK plugins on a node outside of steps, each time in a process of their own. */
#ifndef AGENT_SPANK_NODE_H
#define AGENT_SPANK_NODE_H

#include "agent/environment.h"
#include "agent/settings.h"

struct agent;

/* The site's programs (NULL: none) with the plugins' job_prolog or job_epilog before them, when the node has a stack. NULL: nothing to run. The caller frees it. */
char *spank_node_programs(const struct settings *set, const char *patterns);
/* What that run has to know; what: "job_prolog" or "job_epilog". */
void  spank_node_environment(const struct settings *set, const char *what, struct environment *env);
/* slurmd context, from the start of the agent to its end. */
void  spank_node_start(struct agent *a);
void  spank_node_stop(struct agent *a);
/* `spurstepd --spank` */
int   spank_node_main(void);

#endif
