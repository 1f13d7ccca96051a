/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_steps.c - any text as a distribution, a binding of CPUs or memory, and the file of --multi-prog; what is taken must give each task something. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "state/cpubind.h"
#include "state/layout.h"
#include "state/programs.h"

static void bind_all(const struct cpubind *b, const struct layout_how *how)
{
    static const uint32_t pus[] = { 0, 4, 1, 5, 2, 6, 3, 7 };
    static const struct cpu_core cores[] = { { 0, 0, 2, pus }, { 0, 0, 2, pus + 2 }, { 1, 1, 2, pus + 4 }, { 1, 1, 2, pus + 6 } };
    struct cpu_node node = { .cores = cores, .core_count = 4, .tasks = 5, .cpus_per_task = 2 };
    struct bitmap masks[5], held;
    enum cpubind_kind kind;
    int rc;

    bitmap_init(&held, CPUBIND_CPUS);
    cpubind_held(&node, &held);
    for (int t = 0; t < 5; t++)
        bitmap_init(&masks[t], CPUBIND_CPUS);
    rc = cpubind_tasks(b, how, &node, masks, &kind, NULL);
    for (int t = 0; t < 5; t++) {
        FUZZ_HOLDS(rc < 0 || (!bitmap_empty(&masks[t]) && bitmap_subset(&masks[t], &held)));
        bitmap_fini(&masks[t]);
    }
    bitmap_fini(&held);
}

int fuzz_one(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    static const uint32_t room[] = { 3, 0, 5, 1 };
    uint32_t tasks[4], ids[9], n = 0;
    struct layout_how how;
    struct cpubind b;
    struct membind m;
    struct arena a;
    char **argv;
    size_t argc;

    if (layout_parse(text, &how, NULL) < 0)
        memset(&how, 0, sizeof how);
    else if (layout_counts(&how, 8, room, 4, tasks)) {
        uint32_t seen = 0;

        layout_ids(&how, tasks, 4, NULL, ids);
        for (int i = 0; i < 4; i++) {
            FUZZ_HOLDS(tasks[i] <= room[i]);
            n += tasks[i];
        }
        for (uint32_t i = 0; i < n; i++)
            seen |= 1u << ids[i];
        FUZZ_HOLDS(n == 8 && seen == 0xff);
    }
    if (cpubind_parse(text, &b, NULL) == 0) {
        bind_all(&b, &how);
        cpubind_fini(&b);
    }
    if (membind_parse(text, &m, NULL) == 0)
        membind_fini(&m);
    arena_init(&a, 0);
    if (programs_check(text, 8, NULL) == 0)
        for (uint32_t t = 0; t < 8; t++)
            FUZZ_HOLDS(programs_task(text, t, &a, &argv, &argc, NULL) == 0 && argc > 0 && argv[argc] == NULL);
    arena_fini(&a);
    free(text);
    return 0;
}
