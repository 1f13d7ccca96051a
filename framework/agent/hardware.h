/* SPDX-License-Identifier: Apache-2.0 */
/* hardware.h - sockets, cores, threads, memory of this machine. */
#ifndef AGENT_HARDWARE_H
#define AGENT_HARDWARE_H

#include <stdint.h>
#include <spur/error.h>

struct cores;
/* cores: one by one (cores.h), free(); NULL: not known. */
struct hardware { uint32_t boards, sockets, cores_per_socket, threads_per_core, cpus; uint64_t mem_mib, tmp_mib; struct cores *cores; };

/* Asks a helper process, so that hwloc's memory is not the agent's: may take as long as `deadline_ms`. Falls back to /proc. Any thread. */
void hardware_ask(struct hardware *out, int deadline_ms);
int  hardware_main(void);               /* the helper: `spurstepd --hardware` */

#endif
