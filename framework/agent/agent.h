/* SPDX-License-Identifier: Apache-2.0 */
/* agent.h - the node side: spurd (one a node) and spurstepd (one a step).
 *
 * spurd takes inventory, dials the leader, registers, launches what comes with a valid credential, keeps reports in a spool on disk until a
 * controller has acknowledged them, and adopts running supervisors after a restart. Before it reads any key it starts one keyless
 * `spurstepd --pool`, which forks a supervisor per step, so that no step inherits the node's secrets or loop.
 */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include <spur/error.h>

int logind_main(int argc, char **argv);      /* spur logind: vouches for the users of a login host */
int spurd_main(int argc, char **argv);          /* also slurmd: -D -c -f FILE -N NAME -L FILE -v -V -C --emulate LIST --conf-server HOST */
int spurstepd_main(int argc, char **argv);      /* --pool, --hardware: internal */

#endif
