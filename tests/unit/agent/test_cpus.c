/* SPDX-License-Identifier: Apache-2.0 */
/* test_cpus.c - cores as hwloc has recorded them of real machines, and what a step's order comes to with them: masks, variables, words. */
#include <check.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/cores.h"
#include "agent/cpus.h"
#include "agent/settings.h"
#include "base/str.h"
#include "state/cpubind.h"
#include "test_agent.h"

/* Machines of tests/data/topologies, as hwloc-calc counts them. */
static const struct { const char *name; uint32_t sockets, ldoms, cores, pus; } machines[] = {
    { "dgx1v", 2, 2, 40, 80 }, { "dgx_a100", 2, 8, 128, 256 }, { "mi250x_frontier", 1, 4, 64, 128 }, { "mi300a", 4, 4, 96, 192 }, { "mi250_16gcd", 2, 4, 64, 128 }, { "gb200_nvl72_node", 2, 2, 144, 144 },
};

static struct cores *recorded(const char *name)
{
    char path[400], *lines = NULL;
    size_t n = 0;
    struct cores *c;
    FILE *out = open_memstream(&lines, &n);

    snprintf(path, sizeof path, "%s/topologies/%s.xml", TEST_DATA, name);
    if (cores_print(path, out) < 0) {
        fclose(out);
        free(lines);
        return NULL;            /* no hwloc here */
    }
    fclose(out);
    c = cores_read(lines);
    ck_assert_msg(c != NULL, "%s", lines);
    free(lines);
    return c;
}

START_TEST(machines_are_read)
{
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        struct cores *c = recorded(machines[i].name);
        uint32_t sockets = 0, ldoms = 0;
        uint8_t seen[1024] = { 0 };

        if (!c)
            return;
        for (uint32_t k = 0; k < c->count; k++) {
            sockets = c->socket[k] >= sockets ? c->socket[k] + 1u : sockets;
            ldoms = c->ldom[k] >= ldoms ? c->ldom[k] + 1u : ldoms;
            ck_assert(k == 0 || c->socket[k] >= c->socket[k - 1]);         /* socket by socket, as jobs count cores */
        }
        ck_assert_msg(c->count == machines[i].cores && sockets == machines[i].sockets && ldoms == machines[i].ldoms && c->first[c->count] == machines[i].pus,
                      "%s: %u sockets, %u NUMA nodes, %u cores, %u CPUs", machines[i].name, sockets, ldoms, c->count, c->first[c->count]);
        for (uint32_t k = 0; k < c->first[c->count]; k++) {
            ck_assert(c->pu[k] < sizeof seen && !seen[c->pu[k]]);
            seen[c->pu[k]] = 1;
        }
        free(c);
    }
}
END_TEST

START_TEST(cpus_of_cores)
{
    struct cores *c = cores_read("0 0 0 4\n0 0 1 5\n1 1 2 6\n1 1 3 7\n");
    struct bitmap set;
    struct str out;

    ck_assert_ptr_nonnull(c);
    str_init(&out);
    bitmap_init(&set, 64);
    ck_assert(!cores_cpus(c, &set, &out) && !cores_cpus(NULL, &set, &out));
    bitmap_set(&set, 1);
    bitmap_set(&set, 2);
    ck_assert(cores_cpus(c, &set, &out));
    ck_assert_str_eq(out.text, "1-2,5-6");
    bitmap_set(&set, 4);
    ck_assert(!cores_cpus(c, &set, &out));      /* of another machine */
    str_fini(&out);
    bitmap_fini(&set);
    free(c);
}
END_TEST

START_TEST(lines_that_are_none)
{
    static const char *const bad[] = { "", "0 0\n", "0 0 1", "0 0 1\n0 x 2\n", "0 0 1 \n", "70000 0 1\n", "0 0 1\n0 0 2\nrest", "0  0 1\n" };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(cores_read(bad[i]) == NULL, "\"%s\" is taken", bad[i]);
}
END_TEST

/* An order for tasks on a machine of 2 sockets, 2 cores, 2 threads. */
struct order { Wire__StepOrder o; Wire__Launch l; Wire__StepSpec step; Wire__Credential grant; Wire__NodeAlloc alloc, *allocs[1]; Wire__StepNode row, *rows[1]; uint64_t cores[1]; };

static void order_make(struct order *x, uint32_t tasks, const char *cpu_bind, const char *site)
{
    static const struct settings_node line = { .sockets = 2, .cores_per_socket = 2, .threads_per_core = 2, .cpus = 8 };

    wire__step_order__init(&x->o);
    wire__launch__init(&x->l);
    wire__step_spec__init(&x->step);
    wire__credential__init(&x->grant);
    wire__node_alloc__init(&x->alloc);
    wire__step_node__init(&x->row);
    x->cores[0] = 0xf;
    x->alloc.name = x->row.name = x->o.node = (char *)"n1";
    x->alloc.cores = x->cores;
    x->alloc.n_cores = 1;
    x->row.tasks = tasks;
    x->allocs[0] = &x->alloc;
    x->rows[0] = &x->row;
    x->grant.nodes = x->allocs;
    x->grant.n_nodes = 1;
    x->l.step = &x->step;
    x->l.step_nodes = x->rows;
    x->l.n_step_nodes = 1;
    x->step.cpu_bind = (char *)(uintptr_t)cpu_bind;
    x->o.launch = &x->l;
    x->o.grant = &x->grant;
    x->o.cpu_bind = (char *)(uintptr_t)site;
    cores_order(NULL, &line, 1, &x->o);
}

START_TEST(variables)
{
    static const struct { const char *asked, *site; uint32_t tasks; const char *says; } table[] = {
        { NULL, NULL, 4, NULL },                                        /* nobody has said anything */
        { "cores", NULL, 2, "quiet,mask_cpu:0x00000011,0x00000044" },
        { "verbose", NULL, 2, "verbose,none" },
        { NULL, "", 2, "quiet,mask_cpu:0x00000033,0x000000CC" },        /* as many sockets as tasks */
        { NULL, "", 3, "quiet,none" },
        { NULL, "autobind=cores", 3, "quiet,mask_cpu:0x00000011,0x00000044,0x00000022" },
        { NULL, "verbose,threads", 3, "verbose,mask_cpu:0x00000001,0x00000004,0x00000002" },
        { "none", "cores", 2, "quiet,none" },
        { "mask_cpu:3", "cores", 2, "quiet,mask_cpu:0x00000003,0x00000003" },
        { "of a newer version", NULL, 2, "quiet,none" },
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct spur_error err = { 0 };
        struct environment e;
        struct order x;
        struct cpus c;
        const char *says;

        order_make(&x, table[i].tasks, table[i].asked, table[i].site);
        ck_assert_msg(cpus_init(&c, &x.o, &err) == 0, "%s", err.text);
        environment_init(&e);
        cpus_environment(&c, &e);
        says = environment_get(&e, "SLURM_CPU_BIND");
        ck_assert_msg(table[i].says ? says && !strcmp(says, table[i].says) : !says, "row %zu: %s", i, says ? says : "nothing");
        environment_fini(&e);
        cpus_fini(&c);
        cores_order_free(&x.o);
    }
}
END_TEST

START_TEST(what_cannot_be)
{
    struct spur_error err = { 0 };
    struct order x;
    struct cpus c;

    order_make(&x, 2, "map_cpu:9", NULL);
    ck_assert_int_lt(cpus_init(&c, &x.o, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "CPU binding outside of job step allocation, allocated CPUs are: 0x000000FF."));
    cpus_fini(&c);
    cores_order_free(&x.o);
    order_make(&x, 2, "cores", NULL);
    cores_order_free(&x.o);
    x.o.n_cores = 0;                        /* the machine has another shape than its line */
    x.o.cores = NULL;
    ck_assert_int_eq(cpus_init(&c, &x.o, &err), 0);
    ck_assert_ptr_nonnull(c.complaint);
    ck_assert(!c.tasks[0].bound && !c.text);
    cpus_fini(&c);
}
END_TEST

/* A child of this test binds itself to one CPU of those that the test has, and says so. */
START_TEST(a_child_is_bound)
{
    struct cpus_task t = { .node = "n1", .word = "MASK", .global = 3, .local = 1, .bound = true, .verbose = true };
    cpu_set_t own;
    char said[400];
    int fd[2], cpu = 0, status;
    ssize_t n;
    pid_t pid;

    if (sched_getaffinity(0, sizeof own, &own) < 0)
        return;                     /* a machine with more CPUs than this set has room for */
    while (!CPU_ISSET(cpu, &own))
        cpu++;
    bitmap_init(&t.mask, CPUBIND_CPUS);
    bitmap_init(&t.memory, CPUBIND_LDOMS);
    bitmap_set(&t.mask, (size_t)cpu);
    ck_assert_int_eq(pipe(fd), 0);
    pid = fork();
    if (pid == 0) {
        cpu_set_t now;

        dup2(fd[1], 2);
        cpus_apply(&t);
        _exit(sched_getaffinity(0, sizeof now, &now) == 0 && CPU_COUNT(&now) == 1 && CPU_ISSET(cpu, &now) ? 0 : 1);
    }
    close(fd[1]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    n = read(fd[0], said, sizeof said - 1);
    ck_assert_int_gt(n, 0);
    said[n] = '\0';
    ck_assert_msg(strncmp(said, "cpu-bind=MASK - n1, task  3  1 [", 32) == 0 && strstr(said, " set\n"), "%s", said);
    close(fd[0]);
    bitmap_fini(&t.mask);
    bitmap_fini(&t.memory);
}
END_TEST

TCase *case_cpus(void)
{
    TCase *t = tcase_create("cpus");

    tcase_set_timeout(t, 120);
    tcase_add_test(t, machines_are_read);
    tcase_add_test(t, cpus_of_cores);
    tcase_add_test(t, lines_that_are_none);
    tcase_add_test(t, variables);
    tcase_add_test(t, what_cannot_be);
    tcase_add_test(t, a_child_is_bound);
    return t;
}
