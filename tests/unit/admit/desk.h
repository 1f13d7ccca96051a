/* SPDX-License-Identifier: Apache-2.0 */
/* desk.h - asks admit as one user or another, on the cluster of rig.h. */
#ifndef TESTS_ADMIT_DESK_H
#define TESTS_ADMIT_DESK_H

#include "admit/admit.h"
#include "rig.h"

#define ALICE 1000u
#define BOB   1001u
#define SLURM 64030u        /* SlurmUser of the test's configuration */

struct desk {
    struct rig r;
    struct spur_identity who;
    struct facts facts;
    struct admitted out;
    struct spur_error err;
};

void desk_init(struct desk *d, const char *conf);
void desk_fini(struct desk *d);
void desk_as(struct desk *d, uint32_t uid);                         /* a user on host login */
void desk_node(struct desk *d, const char *host);                   /* the agent of a host */
/* Submits as the present user; the id, or minus Slurm's number of the refusal. Words of rig.h, and account= qos= lic= resv= comment= gpus= nobatch sign priv. */
int  desk_submit(struct desk *d, const char *wish);
int  desk_errno(struct desk *d, int rc);                            /* 0, or minus Slurm's number */
int  desk_apply(struct desk *d);                                    /* what was admitted; code of the first that fails */

#endif
