/* SPDX-License-Identifier: Apache-2.0 */
/* slurm_errno.h - what Slurm says for one of its error numbers: for scontrol errnumstr and for the compatibility library's slurm_strerror. */
#ifndef CLIENT_SLURM_ERRNO_H
#define CLIENT_SLURM_ERRNO_H

/* Static text for a number from 1000 on; NULL when it is none of Slurm's. */
const char *slurm_errno_text(int number);

#endif
