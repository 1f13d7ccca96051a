/* SPDX-License-Identifier: Apache-2.0 */
/* probe.h - what spurd and its probe, `spurd --probe`, say to each other over two pipes.
 *
 * spurd writes one ask: a length of 4 bytes and texts that each end in NUL, in the order of probe_ask_write. The probe answers with frames: a
 * length of 4 bytes, a kind of 1, and the body. Both are the same file of the same build (/proc/self/exe), so a body may be a C struct.
 */
#ifndef AGENT_PROBE_H
#define AGENT_PROBE_H

#include <stdbool.h>
#include <stdint.h>
#include <spur/gpu.h>
#include <spur/score.h>

#include "agent/settings.h"
#include "base/str.h"

enum probe_frame {
    PROBE_DOING = 'D',      /* text: what is asked now, so that the one who hangs can be named */
    PROBE_ANSWER = 'A',     /* struct probe_answer, then the rows, then the network devices */
    PROBE_HEALTH = 'H',     /* struct probe_health: all is well with the watch, and this is what it sees */
};
#define PROBE_FRAME_MAX (16u << 20)

struct probe_health { uint64_t faulty; char text[200]; };       /* faulty: numbers of devices; text: of the first, "" when all are well */
struct probe_answer {
    struct spur_error fault;            /* code 0: none; else the node registers without GPUs */
    uint32_t rows, nics, gpu_size;
    uint32_t sockets, cores_per_socket, threads_per_core, numa_nodes;
    struct probe_health health;         /* at this moment: a node must not register as well and be told off a moment later */
    bool watches;                       /* it stays, and sends PROBE_HEALTH each interval */
};

/* The whole ask for these settings, length in front. */
void probe_ask_write(const struct settings *set, struct str *out);
int  probe_main(void);                  /* the child */

#endif
