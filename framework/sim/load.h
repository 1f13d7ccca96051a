/* SPDX-License-Identifier: Apache-2.0 */
/* load.h - what shall be run in a replay: jobs out of a trace, or made from a seed. */
#ifndef SIM_LOAD_H
#define SIM_LOAD_H

#include <stdint.h>
#include <spur/error.h>

struct load_job { int64_t submit_ms, duration_ms; uint32_t gpus, seq; };      /* seq: its place in the file */
struct load { struct load_job *jobs; uint32_t count; };         /* by time of submit, then by place in the file */

/* Lines SUBMIT_S DURATION_S GPUS, `#` begins a comment. Refused with file, line and word. */
int  load_read(const char *path, struct load *out, struct spur_error *err);

struct load_synthetic {
    uint64_t seed;
    uint32_t jobs;
    uint64_t gpus;                  /* of the cluster: what load is a share of */
    double   share;                 /* of all GPUs that the jobs would keep busy without a gap */
    double   median_s, sigma;       /* durations are lognormal */
    const char *mix;                /* "1:55,2:16": GPUs and their weight */
};
#define LOAD_MIX "1:55,2:16,4:13,8:10,16:3,32:2,64:1"
/* The same seed gives the same jobs. */
int  load_make(const struct load_synthetic *s, struct load *out, struct spur_error *err);
void load_fini(struct load *l);

#endif
