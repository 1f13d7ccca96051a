/* SPDX-License-Identifier: Apache-2.0 */
/* slurm_version.h - the generation of the C interface that this library keeps: 22.05, soname libslurm.so.38. */
#ifndef _SLURM_VERSION_H
#define _SLURM_VERSION_H

#define SLURM_VERSION_NUMBER 0x160508
#define SLURM_VERSION_NUM(major, minor, micro) (((major) << 16) + ((minor) << 8) + (micro))
#define SLURM_VERSION_MAJOR(number) (((number) >> 16) & 0xff)
#define SLURM_VERSION_MINOR(number) (((number) >> 8) & 0xff)
#define SLURM_VERSION_MICRO(number) ((number) & 0xff)

#endif
