/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - `spur plugin` as a program of its own, for tests that need nothing else of spur. */
#include "cmds/commands.h"

int main(int argc, char **argv)
{
    return cmd_plugin(argc, argv);
}
