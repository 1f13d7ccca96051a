/* SPDX-License-Identifier: Apache-2.0 */
/* spur.c - the one binary: picks what to be by the name it was called with, or by its first word (`spur squeue`).
 *
 * The names stand in commands.def; each is a hard link to this file, so that what `ps` shows is what was called. Owns nothing else.
 */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cmds/commands.h"

static const struct { const char *name; int (*run)(int, char **); const char *folder, *about; } commands[] = {
#define COMMAND(name, function, folder, about) { #name, function, #folder, about },
#include "cmds/commands.def"
#undef COMMAND
};

static int usage(FILE *out)
{
    fprintf(out, "Usage: spur COMMAND [ARGUMENTS]     (or call a command by its own name: sbatch, squeue, ...)\n\n");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].about);
    fprintf(out, "\n  spur --version    this version of spur\n"
                 "  COMMAND --help    the options of a command\n");
    return out == stdout ? 0 : 1;
}

int main(int argc, char **argv)
{
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    const char *name = argc > 0 ? (slash ? slash + 1 : argv[0]) : "spur";
    bool is_spur = strcmp(name, "spur") == 0;

    if (is_spur && argc < 2)
        return usage(stderr);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
            if (strcmp(name, commands[i].name) == 0)
                return commands[i].run(argc, argv);
        if (!is_spur || round)
            break;
        name = argv[1];
        argc--;
        argv++;
    }
    if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
        printf("spur %s\n", PACKAGE_VERSION);
        return 0;
    }
    if (word_starts(name, "--autocomplete")) {      /* for the completion of a shell */
        for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
            puts(commands[i].name);
        return 0;
    }
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help"))
        return usage(stdout);
    fprintf(stderr, "spur: no command named %s; `spur --help` lists them\n", name);
    return 1;
}
