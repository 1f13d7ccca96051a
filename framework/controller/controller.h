/* SPDX-License-Identifier: Apache-2.0 */
/* controller.h - spurctld: the loop that joins rpc, admit, store, state and plan, and turns events into effects. */
#ifndef CONTROLLER_CONTROLLER_H
#define CONTROLLER_CONTROLLER_H

int spurctld_main(int argc, char **argv);       /* also slurmctld: -D -c -i -f FILE -L FILE -v -V -n N */

#endif
