/* SPDX-License-Identifier: Apache-2.0 */
/* gpu.c - `spur gpu`: one word says what about the GPUs is wanted. */
#include <stdio.h>
#include <string.h>

#include "cmds/commands.h"
#include "cmds/gpu.h"

static const struct { const char *name; int (*run)(int, char **); const char *about; } verbs[] = {
    { "show", gpu_show, "the GPUs of this host or of a file, and their links, as lines for gres.conf" },
    { "map", gpu_map, "the GPUs of the cluster as a drawing: islands, and who holds what" },
};

int cmd_gpu(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";

    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (!strcmp(word, "--autocomplete"))
            puts(verbs[i].name);
        else if (!strcmp(word, verbs[i].name))
            return verbs[i].run(argc - 1, argv + 1);
    }
    if (!strcmp(word, "--autocomplete"))
        return 0;
    if (!strcmp(word, "--help") || !strcmp(word, "-h")) {
        printf("Usage: spur gpu COMMAND [OPTIONS]\n\n");
        for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
            printf("  %-6s %s\n", verbs[i].name, verbs[i].about);
        printf("\nspur gpu COMMAND --help shows the options of one.\n");
        return 0;
    }
    fprintf(stderr, *word ? "spur gpu: no command named %s; spur gpu --help lists them\n" : "spur gpu: a command is needed; spur gpu --help lists them%s\n", word);
    return 1;
}
