/* SPDX-License-Identifier: Apache-2.0 */
/* conform.c - runs the conformance suite of one kind (CONFORM_KIND) against any plugins:
 *
 *   conform_select                       every built-in select plugin
 *   conform_select FILE.so ...           these files
 *   conform_select select/topo ...       these built-ins
 *   conform_select -o 'TEXT' NAME        with this text as its section of spur.conf
 *   conform_select -t SECONDS ...        so long for a case instead of 20, for a slow machine
 *
 * Ends with a line "N passed, N failed" and exit status 1 when a case failed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/contract.h"

static int passed, failed;
static unsigned deadline_ms;

static void row(void *arg, const char *name, enum contract_verdict verdict, const char *text)
{
    static const char *const words[] = { "ok", "FAILED", "skipped", "CRASHED", "HUNG" };

    (void)arg;
    printf("  %-8s %s%s%s\n", words[verdict], name, *text ? ": " : "", text);
    passed += verdict == CONTRACT_OK;
    failed += verdict != CONTRACT_OK && verdict != CONTRACT_SKIPPED;
}

static void conform(enum spur_kind kind, const char *what, const char *options)
{
    struct contract_target target = { .kind = kind, .options = options, .deadline_ms = deadline_ms };
    size_t n = strlen(what);

    if (n > 3 && strcmp(what + n - 3, ".so") == 0)
        target.path = what;
    else
        target.wanted = what;
    printf("%s\n", what);
    contract_run(&target, row, NULL);
}

int main(int argc, char **argv)
{
    enum spur_kind kind = loader_kind(CONFORM_KIND);
    const char *options = NULL;
    int ran = 0;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-o") == 0 && i + 1 < argc) {
            options = argv[++i];
            continue;
        }
        if (strcmp(argv[i], "-t") == 0 && i + 1 < argc) {
            deadline_ms = (unsigned)strtoul(argv[++i], NULL, 10) * 1000;
            continue;
        }
        conform(kind, argv[i], options);
        ran++;
    }
    for (size_t i = 0; !ran && loader_builtins[i]; i++) {
        char name[80];

        if (loader_builtins[i]->kind != kind)
            continue;
        snprintf(name, sizeof name, CONFORM_KIND "/%s", loader_builtins[i]->name);
        conform(kind, name, options);
    }
    printf("%s: %d passed, %d failed\n", CONFORM_KIND, passed, failed);
    return failed || !passed;
}
