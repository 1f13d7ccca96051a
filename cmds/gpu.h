/* SPDX-License-Identifier: Apache-2.0 */
/* gpu.h - the verbs of `spur gpu`. */
#ifndef CMDS_GPU_H
#define CMDS_GPU_H

/* argv[0] is the verb; the exit status. */
int gpu_map(int argc, char **argv);     /* gpu_map.c */
int gpu_show(int argc, char **argv);    /* gpu_show.c */

#endif
