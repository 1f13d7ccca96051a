/* SPDX-License-Identifier: Apache-2.0 */
/* test_layout.c - tasks on nodes, on CPUs and in memory, and the lines of --multi-prog: tables from the manual, and an oracle that counts another way. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "state/cpubind.h"
#include "state/layout.h"
#include "state/programs.h"
#include "test_state.h"

START_TEST(distributions)
{
    static const char *const good[] = { "block", "cyclic", "plane=4", "arbitrary", "*", "block:block", "cyclic:fcyclic:block", "*:*:cyclic", "block,Pack", "block:cyclic,NoPack", "", "plane=2:block" };
    static const char *const bad[] = { "fcyclic", "plane=0", "plane=x", "planes", "block:", "block:plane=2", "block:block:block:block", "block,pock", ":block", "cyclic,", "round" };

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct spur_error err = { 0 };
        struct layout_how how;

        ck_assert_msg(layout_parse(good[i], &how, &err) == 0, "%s: %s", good[i], err.text);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct spur_error err = { 0 };
        struct layout_how how;

        ck_assert_msg(layout_parse(bad[i], &how, &err) < 0 && strstr(err.text, bad[i]), "%s is taken", bad[i]);
    }
}
END_TEST

static uint32_t numbers(const char *list, uint32_t *out)
{
    uint32_t n = 0;
    uint64_t v;

    for (const char *p = list; number_at(&p, &v); p += *p == ' ')
        out[n++] = (uint32_t)v;
    return n;
}

/* room of each node -> tasks of each node and their numbers, "0 1|2 3". */
START_TEST(nodes)
{
    static const struct { const char *how, *room; uint32_t ntasks; const char *expected; } table[] = {
        { "block", "2 2 2", 4, "0 1|2|3" },                             /* each node is used */
        { "block", "4 4", 8, "0 1 2 3|4 5 6 7" },
        { "block", "4 4", 5, "0 1 2 3|4" },
        { "block,NoPack", "4 4", 4, "0 1|2 3" },
        { "block,NoPack", "1 4", 4, "0|1 2 3" },
        { "cyclic", "2 2 2", 4, "0 3|1|2" },
        { "cyclic", "1 4", 4, "0|1 2 3" },
        { "cyclic", "4 4 4", 10, "0 3 6 9|1 4 7|2 5 8" },
        { "plane=2", "4 4", 8, "0 1 4 5|2 3 6 7" },
        { "plane=4", "8 8 8", 21, "0 1 2 3 12 13 14 15|4 5 6 7 16 17 18 19|8 9 10 11 20" },     /* the manual's picture */
        { "plane=3", "2 4", 6, "0 1|2 3 4 5" },
        { "block", "1 1", 3, NULL },
        { "cyclic", "1 1", 3, NULL },
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        uint32_t room[8], tasks[8], ids[64], n = numbers(table[i].room, room), at = 0;
        struct layout_how how;
        struct str got;
        bool fits;

        ck_assert_int_eq(layout_parse(table[i].how, &how, NULL), 0);
        fits = layout_counts(&how, table[i].ntasks, room, n, tasks);
        ck_assert_msg(fits == (table[i].expected != NULL), "%s on %s", table[i].how, table[i].room);
        if (!fits)
            continue;
        layout_ids(&how, tasks, n, NULL, ids);
        str_init(&got);
        for (uint32_t k = 0; k < n; k++)
            for (uint32_t t = 0; t < tasks[k]; t++)
                str_addf(&got, "%s%u", t ? " " : k ? "|" : "", ids[at++]);
        ck_assert_str_eq(got.text, table[i].expected);
        str_fini(&got);
    }
}
END_TEST

START_TEST(named)
{
    const char *const names[] = { "n1", "n2", "n3" };
    uint32_t of[5], tasks[3] = { 2, 2, 1 }, ids[5];
    struct layout_how how;

    ck_assert_int_eq(layout_parse("arbitrary", &how, NULL), 0);
    ck_assert(layout_named("n2,n1,n1,n3,n2", names, 3, 5, of));
    layout_ids(&how, tasks, 3, of, ids);
    for (uint32_t i = 0; i < 5; i++)
        ck_assert_uint_eq(ids[i], ((uint32_t[]){ 1, 2, 0, 4, 3 })[i]);
    ck_assert(!layout_named("n2,n1", names, 3, 5, of));
    ck_assert(!layout_named("n2,n1,n9", names, 3, 3, of));
}
END_TEST

/* ---- binding ---- */

START_TEST(bind_words)
{
    static const struct { const char *text; enum cpubind_kind kind; bool verbose; uint32_t sets; } good[] = {
        { "", CPUBIND_AUTO, false, 0 }, { "none", CPUBIND_NONE, false, 0 }, { "q", CPUBIND_AUTO, false, 0 }, { "verbose", CPUBIND_AUTO, true, 0 }, { "v,cores", CPUBIND_CORES, true, 0 },
        { "quiet,rank", CPUBIND_RANK, false, 0 }, { "map_cpu:0,1*2,0x3", CPUBIND_MAP, false, 4 }, { "verbose,mask_cpu:0xff,3*3", CPUBIND_MASK, true, 4 }, { "rank_ldom", CPUBIND_RANK_LDOM, false, 0 },
        { "map_ldom:1", CPUBIND_MAP_LDOM, false, 1 }, { "mask_ldom:0x3", CPUBIND_MASK_LDOM, false, 1 }, { "sockets", CPUBIND_SOCKETS, false, 0 }, { "threads", CPUBIND_THREADS, false, 0 },
        { "ldoms", CPUBIND_LDOMS_OF, false, 0 }, { "quiet,mask_cpu:0x00000003,0x0000000C", CPUBIND_MASK, false, 2 } };
    static const char *const bad[] = { "fast", "map_cpu:", "map_cpu:a", "map_cpu:8192", "map_cpu:1*0", "mask_cpu:0", "mask_cpu:xyz", "mask_cpu:-1", "map_cpu", "cores,rank", "map_cpu:0*5000" };
    static const char *const good_mem[] = { "", "none", "local", "rank", "prefer,local", "verbose,map_mem:0,1", "quiet,p,mask_mem:3" };
    static const char *const bad_mem[] = { "near", "map_mem:", "mask_mem:0", "sort", "prefer,sort" };

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct spur_error err = { 0 };
        struct cpubind b;

        ck_assert_msg(cpubind_parse(good[i].text, &b, &err) == 0, "%s: %s", good[i].text, err.text);
        ck_assert_msg(b.kind == good[i].kind && b.verbose == good[i].verbose && b.list.count == good[i].sets, "%s", good[i].text);
        cpubind_fini(&b);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct spur_error err = { 0 };
        struct cpubind b;

        ck_assert_msg(cpubind_parse(bad[i], &b, &err) < 0 && err.text[0], "%s is taken", bad[i]);
    }
    for (size_t i = 0; i < sizeof good_mem / sizeof *good_mem; i++) {
        struct spur_error err = { 0 };
        struct membind b;

        ck_assert_msg(membind_parse(good_mem[i], &b, &err) == 0, "%s: %s", good_mem[i], err.text);
        membind_fini(&b);
    }
    for (size_t i = 0; i < sizeof bad_mem / sizeof *bad_mem; i++) {
        struct spur_error err = { 0 };
        struct membind b;

        ck_assert_msg(membind_parse(bad_mem[i], &b, &err) < 0 && err.text[0], "%s is taken", bad_mem[i]);
    }
}
END_TEST

/* S sockets of C cores of T threads, numbered as Linux does: first threads of all cores first. A socket is a locality domain. */
static uint32_t shape(uint32_t sockets, uint32_t per_socket, uint32_t threads, struct cpu_core *cores, uint32_t *pus)
{
    uint32_t n = sockets * per_socket;

    for (uint32_t c = 0; c < n; c++) {
        for (uint32_t t = 0; t < threads; t++)
            pus[c * threads + t] = c + t * n;
        cores[c] = (struct cpu_core){ c / per_socket, c / per_socket, threads, pus + c * threads };
    }
    return n;
}

static char *masks_text(const struct bitmap *masks, uint32_t tasks)
{
    struct str out;

    str_init(&out);
    for (uint32_t t = 0; t < tasks; t++) {
        str_addf(&out, "%s", t ? " " : "");
        bitmap_print(&masks[t], &out);
    }
    return str_take(&out);
}

/* Node of 2 sockets, 2 cores each, 2 threads each: CPUs 0 4 | 1 5 || 2 6 | 3 7. held: cores. expected: CPUs of each task, "!" refused, "-" not bound. */
START_TEST(cpus)
{
    static const struct { const char *bind, *how, *held; uint32_t tasks, each, threads, per_socket; const char *expected; } table[] = {
        { "none", "", "0-3", 2, 1, 0, 0, "-" },
        { "", "", "0-3", 3, 1, 0, 0, "-" },                                             /* nothing fits the count */
        { "", "", "0-3", 8, 1, 0, 0, "0 2 1 3 4 6 5 7" },                               /* as many as threads */
        { "", "", "0-3", 4, 1, 0, 0, "0,4 2,6 1,5 3,7" },                               /* as cores */
        { "", "", "0-3", 2, 1, 0, 0, "0-1,4-5 2-3,6-7" },                               /* as sockets */
        { "", "", "0-1", 1, 1, 0, 0, "0-1,4-5" },
        { "", "", "0-3", 2, 2, 0, 0, "0,4 2,6" },                                       /* both CPUs of a task from one core */
        { "", "block:fcyclic", "0-3", 2, 2, 0, 0, "0,2,4,6 1,3,5,7" },
        { "", "block:block", "0-3", 4, 1, 0, 0, "0,4 0,4 1,5 1,5" },                    /* block goes on with the second thread of a core */
        { "", "block:block:cyclic", "0-3", 4, 1, 0, 0, "0,4 1,5 0,4 1,5" },
        { "", "", "0-3", 4, 1, 1, 0, "0 2 1 3" },                                       /* --threads-per-core=1 */
        { "", "", "0-3", 2, 1, 1, 1, "0 2" },                                           /* --hint=memory_bound */
        { "cores", "", "0-3", 3, 1, 0, 0, "0,4 2,6 1,5" },
        { "cores", "block:block", "0-3", 2, 2, 0, 0, "0,4 1,5" },
        { "cores", "block:cyclic", "0-3", 2, 2, 0, 0, "0,4 2,6" },
        { "threads", "block:block", "0-3", 4, 1, 0, 0, "0 4 1 5" },
        { "threads", "block:cyclic:block", "0-3", 4, 1, 0, 0, "0 2 4 6" },
        { "threads", "block:fcyclic", "0-3", 2, 2, 0, 0, "0,2 1,3" },
        { "threads", "block:cyclic", "0-3", 2, 3, 0, 0, "0-1,4 2-3,6" },
        { "threads", "", "0-3", 10, 1, 0, 0, "0 2 1 3 4 6 5 7 0 2" },                   /* from the start again */
        { "threads", "", "0-3", 1, 20, 0, 0, "0-7" },
        { "sockets", "", "0-3", 2, 1, 0, 0, "0-1,4-5 2-3,6-7" },
        { "sockets", "", "1-3", 2, 1, 0, 0, "1,5 2-3,6-7" },                            /* only what the step holds */
        { "ldoms", "", "0-3", 2, 1, 0, 0, "0-1,4-5 2-3,6-7" },
        { "rank", "", "0-3", 3, 1, 0, 0, "0 1 2" },
        { "rank", "", "2-3", 2, 1, 0, 0, "2 3" },
        { "map_cpu:3,1*2", "", "0-3", 4, 1, 0, 0, "3 1 1 3" },
        { "map_cpu:0", "", "1-3", 1, 1, 0, 0, "!" },
        { "mask_cpu:0x3,30", "", "0-3", 2, 1, 0, 0, "0-1 4-5" },
        { "mask_cpu:ff", "", "0-2", 1, 1, 0, 0, "!" },
        { "rank_ldom", "", "0-3", 3, 1, 0, 0, "0-1,4-5 2-3,6-7 0-1,4-5" },
        { "rank_ldom", "", "2", 1, 1, 0, 0, "2,6" },                                    /* the first domain is not the step's */
        { "map_ldom:1", "", "0-3", 1, 1, 0, 0, "2-3,6-7" },
        { "map_ldom:1", "", "0-1", 1, 1, 0, 0, "!" },
        { "mask_ldom:3", "", "0-3", 1, 1, 0, 0, "0-7" },
    };
    struct cpu_core cores[4];
    uint32_t pus[8], n = shape(2, 2, 2, cores, pus);

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct cpu_node node = { .cores = cores, .core_count = n, .threads_per_core = table[i].threads, .cores_per_socket = table[i].per_socket, .tasks = table[i].tasks, .cpus_per_task = table[i].each };
        struct bitmap held, masks[16];
        struct spur_error err = { 0 };
        enum cpubind_kind kind;
        struct layout_how how;
        struct cpubind b;
        char *got;
        int rc;

        bitmap_init(&held, n);
        ck_assert_int_eq(bitmap_parse(&held, table[i].held, NULL), 0);
        node.held = &held;
        ck_assert_int_eq(cpubind_parse(table[i].bind, &b, NULL), 0);
        ck_assert_int_eq(layout_parse(table[i].how, &how, NULL), 0);
        for (uint32_t t = 0; t < node.tasks; t++)
            bitmap_init(&masks[t], CPUBIND_CPUS);
        rc = cpubind_tasks(&b, &how, &node, masks, &kind, &err);
        got = rc < 0 ? mem_copy("!") : rc == 0 ? mem_copy("-") : masks_text(masks, node.tasks);
        ck_assert_msg(!strcmp(got, table[i].expected), "row %zu, %s %s on %s: %s, not %s (%s)", i, table[i].bind, table[i].how, table[i].held, got, table[i].expected, err.text);
        free(got);
        for (uint32_t t = 0; t < node.tasks; t++)
            bitmap_fini(&masks[t]);
        bitmap_fini(&held);
        cpubind_fini(&b);
    }
}
END_TEST

/* On a whole node of S x C x T with one CPU a task, place k of each order is known by counting digits. */
static uint32_t counted(enum deal sockets, enum deal cores, uint32_t k, uint32_t s, uint32_t c, uint32_t t)
{
    uint32_t socket, in_socket, core, thread;

    socket = sockets == DEAL_BLOCK ? k / (c * t) : k % s;
    in_socket = sockets == DEAL_BLOCK ? k % (c * t) : k / s;
    core = cores == DEAL_BLOCK ? in_socket / t : in_socket % c;
    thread = cores == DEAL_BLOCK ? in_socket % t : in_socket / c;
    return socket * c + core + thread * s * c;
}

START_TEST(cpus_counted)
{
    static const char *const words[] = { "block", "cyclic", "fcyclic" };
    static const enum deal deals[] = { DEAL_BLOCK, DEAL_CYCLIC, DEAL_FCYCLIC };
    struct cpu_core cores[64];
    uint32_t pus[256];

    for (uint32_t s = 1; s <= 4; s++)
        for (uint32_t c = 1; c <= 5; c++)
            for (uint32_t t = 1; t <= 3; t++)
                for (int a = 0; a < 9; a++) {
                    uint32_t n = shape(s, c, t, cores, pus), all = n * t;
                    struct cpu_node node = { .cores = cores, .core_count = n, .tasks = all, .cpus_per_task = 1 };
                    struct bitmap *masks = mem_array(all, sizeof *masks);
                    struct cpubind b = { .kind = CPUBIND_THREADS };
                    enum cpubind_kind kind;
                    struct layout_how how;
                    char text[40];

                    snprintf(text, sizeof text, "block:%s:%s", words[a / 3], words[a % 3]);
                    ck_assert_int_eq(layout_parse(text, &how, NULL), 0);
                    for (uint32_t i = 0; i < all; i++)
                        bitmap_init(&masks[i], CPUBIND_CPUS);
                    ck_assert_int_eq(cpubind_tasks(&b, &how, &node, masks, &kind, NULL), 1);
                    for (uint32_t i = 0; i < all; i++) {
                        ck_assert_uint_eq(bitmap_count(&masks[i]), 1);
                        ck_assert_msg(bitmap_first(&masks[i]) == counted(deals[a / 3], deals[a % 3], i, s, c, t), "%ux%ux%u %s: task %u on CPU %zu, not %u", s, c, t, text, i,
                                      bitmap_first(&masks[i]), counted(deals[a / 3], deals[a % 3], i, s, c, t));
                        bitmap_fini(&masks[i]);
                    }
                    free(masks);
                }
}
END_TEST

/* Whatever is drawn: nothing outside of what is held, every task has as many CPUs as it asks for, none twice while there are enough. */
START_TEST(cpus_drawn)
{
    static const char *const words[] = { "*", "block", "cyclic", "fcyclic" };
    struct cpu_core cores[64];
    uint32_t pus[256];

    srand(7);
    for (int round = 0; round < 3000; round++) {
        uint32_t s = 1 + (uint32_t)rand() % 4, c = 1 + (uint32_t)rand() % 6, t = 1 + (uint32_t)rand() % 2, n = shape(s, c, t, cores, pus);
        struct cpu_node node = { .cores = cores, .core_count = n, .tasks = 1 + (uint32_t)rand() % 12, .cpus_per_task = 1 + (uint32_t)rand() % 4 };
        struct bitmap held, seen, all, *masks = mem_array(node.tasks, sizeof *masks);
        enum cpubind_kind kinds[] = { CPUBIND_THREADS, CPUBIND_CORES, CPUBIND_SOCKETS, CPUBIND_LDOMS_OF, CPUBIND_RANK, CPUBIND_RANK_LDOM }, kind;
        struct cpubind b = { .kind = kinds[rand() % 6] };
        struct layout_how how;
        char text[40];
        size_t used = 0;

        snprintf(text, sizeof text, "block:%s:%s", words[rand() % 4], words[rand() % 4]);
        ck_assert_int_eq(layout_parse(text, &how, NULL), 0);
        bitmap_init(&held, n);
        bitmap_init(&seen, CPUBIND_CPUS);
        bitmap_init(&all, CPUBIND_CPUS);
        bitmap_set(&held, (size_t)rand() % n);
        for (uint32_t i = 0; i < n; i++)
            if (rand() % 3)
                bitmap_set(&held, i);
        node.held = &held;
        for (uint32_t i = 0; i < node.tasks; i++)
            bitmap_init(&masks[i], CPUBIND_CPUS);
        cpubind_held(&node, &all);
        ck_assert_int_eq(cpubind_tasks(&b, &how, &node, masks, &kind, NULL), 1);
        for (uint32_t i = 0; i < node.tasks; i++) {
            size_t want = b.kind == CPUBIND_RANK ? 1 : node.cpus_per_task;

            ck_assert(bitmap_subset(&masks[i], &all));
            ck_assert(!bitmap_empty(&masks[i]));
            want = want < bitmap_count(&all) ? want : bitmap_count(&all);
            if (b.kind != CPUBIND_RANK_LDOM)
                ck_assert_uint_ge(bitmap_count(&masks[i]), want > 1 && used + want > bitmap_count(&all) ? 1 : want);
            used += want;
            if (b.kind == CPUBIND_THREADS && used <= bitmap_count(&all))
                ck_assert_msg(!bitmap_overlap(&seen, &masks[i]), "round %d: %s: task %u shares", round, text, i);
            bitmap_or(&seen, &masks[i]);
            bitmap_fini(&masks[i]);
        }
        bitmap_fini(&held);
        bitmap_fini(&seen);
        bitmap_fini(&all);
        free(masks);
    }
}
END_TEST

START_TEST(memory)
{
    static const struct { const char *bind, *cpus; uint32_t task; const char *expected; } table[] = {
        { "none", "0", 0, "" }, { "local", "0", 0, "0" }, { "local", "1,3", 0, "0-1" }, { "rank", "0", 3, "1" }, { "map_mem:1,0", "0", 2, "1" }, { "mask_mem:3", "0", 0, "0-1" } };
    struct cpu_core cores[4];
    uint32_t pus[8], n = shape(2, 2, 2, cores, pus);

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct cpu_node node = { .cores = cores, .core_count = n, .tasks = 4 };
        struct bitmap cpu_set, out;
        struct membind b;
        struct str got;

        bitmap_init(&cpu_set, CPUBIND_CPUS);
        bitmap_init(&out, CPUBIND_LDOMS);
        ck_assert_int_eq(bitmap_parse(&cpu_set, table[i].cpus, NULL), 0);
        ck_assert_int_eq(membind_parse(table[i].bind, &b, NULL), 0);
        str_init(&got);
        if (membind_task(&b, &node, table[i].task, &cpu_set, &out))
            bitmap_print(&out, &got);
        ck_assert_str_eq(got.text, table[i].expected);
        str_fini(&got);
        bitmap_fini(&cpu_set);
        bitmap_fini(&out);
        membind_fini(&b);
    }
}
END_TEST

/* ---- --multi-prog ---- */

static const char *const file =
    "# silly\n"
    "4-6       hostname\n"
    "1,7       echo  task:%t\n"
    "\n"
    "0,2-3     echo  offset:%o 'not %t' \"a %t\" \\\n"
    "          joined b\\ c %%\n"
    "*         sh -c 'exit 3'";

START_TEST(programs)
{
    static const struct { uint32_t task; const char *expected; } table[] = {
        { 5, "hostname" }, { 1, "echo|task:1" }, { 7, "echo|task:7" }, { 0, "echo|offset:0|not %t|a 0|joined|b c|%%" }, { 3, "echo|offset:2|not %t|a 3|joined|b c|%%" }, { 8, "sh|-c|exit 3" } };
    static const struct { const char *text; uint32_t ntasks; const char *says; } bad[] = {
        { "0 a\n", 2, "No executable program specified for this task" }, { "0-3 a\n2 b\n", 4, "line 2: task 2 has a program in line 1" }, { "0\n", 1, "line 1: no program" }, { "x a\n", 1, "line 1: \"x a\"" },
        { "3-1 a\n", 1, "no list of tasks" }, { "0 'a\n", 1, "not closed" }, { "0, a\n", 1, "no list of tasks" }, { "", 1, "No executable" }, { "#0 a\n", 1, "No executable" } };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct spur_error err = { 0 };
        struct arena a;
        struct str got;
        char **argv;
        size_t n;

        arena_init(&a, 0);
        ck_assert_msg(programs_task(file, table[i].task, &a, &argv, &n, &err) == 0, "%s", err.text);
        str_init(&got);
        for (size_t k = 0; k < n; k++)
            str_addf(&got, "%s%s", k ? "|" : "", argv[k]);
        ck_assert_str_eq(got.text, table[i].expected);
        ck_assert_ptr_null(argv[n]);
        str_fini(&got);
        arena_fini(&a);
    }
    ck_assert_int_eq(programs_check(file, 20, NULL), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct spur_error err = { 0 };

        ck_assert_msg(programs_check(bad[i].text, bad[i].ntasks, &err) < 0 && strstr(err.text, bad[i].says), "%s: %s", bad[i].text, err.text);
    }
}
END_TEST

Suite *layout_suite(void)
{
    Suite *s = suite_create("layout");
    TCase *t = tcase_create("layout");

    tcase_set_timeout(t, 120);
    tcase_add_test(t, distributions);
    tcase_add_test(t, nodes);
    tcase_add_test(t, named);
    tcase_add_test(t, bind_words);
    tcase_add_test(t, cpus);
    tcase_add_test(t, cpus_counted);
    tcase_add_test(t, cpus_drawn);
    tcase_add_test(t, memory);
    tcase_add_test(t, programs);
    suite_add_tcase(s, t);
    return s;
}
