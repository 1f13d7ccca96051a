/* SPDX-License-Identifier: Apache-2.0 */
/* cpus.c - binds tasks to CPUs and memory; the rules are in state/cpubind.c.
 *
 * The order carries the node's cores with their threads as the operating system numbers them (cores.c), and what the configuration says about binding:
 * nothing without task/affinity, and then only who asks with --cpu-bind is bound. A batch script is bound to all that its job has here.
 * A child binds itself just before its exec: affinity and memory policy pass on to everything it starts. A binding that fails there is said on the
 * task's standard error and the task runs: the container holds it to the job's CPUs anyway. On emulated nodes all is computed and told, nothing is bound.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/cpus.h"
#include "agent/fault.h"
#include "base/str.h"
#include "state/cpubind.h"

#define POLICY_PREFERRED 1      /* of set_mempolicy(2): linux/mempolicy.h has no place in libc */
#define POLICY_BIND      2

/* ---- what is wanted ---- */

/* "verbose,autobind=cores", "cores", "" of the configuration. */
static void configured(const char *text, struct cpubind *b)
{
    if (word_starts(text, "verbose,")) {
        b->verbose = true;
        text += 8;
    }
    if (word_starts(text, "autobind=")) {
        struct cpubind fallback;

        if (cpubind_parse(text + 9, &fallback, NULL) == 0) {
            b->fallback = fallback.kind;
            cpubind_fini(&fallback);
        }
    } else if (*text) {
        struct cpubind of_site;

        if (cpubind_parse(text, &of_site, NULL) == 0) {
            b->kind = of_site.kind;
            cpubind_fini(&of_site);
        }
    }
}

/* False: nobody has said anything about binding. */
static bool wanted(const Wire__StepOrder *order, struct cpubind *b)
{
    const char *asked = order->launch->step ? order->launch->step->cpu_bind : NULL;
    bool verbose;

    memset(b, 0, sizeof *b);
    if (asked && *asked && cpubind_parse(asked, b, NULL) < 0)
        memset(b, 0, sizeof *b);            /* admit has let it pass, so it is of a newer version: the default */
    if (b->kind != CPUBIND_AUTO)
        return true;
    verbose = b->verbose;
    if (order->cpu_bind)
        configured(order->cpu_bind, b);
    else
        b->kind = CPUBIND_NONE;
    b->verbose |= verbose;
    return order->cpu_bind || (asked && *asked);
}

static uint32_t threads_used(const Wire__StepOrder *order)
{
    const Wire__StepSpec *step = order->launch->step;
    const Wire__JobSpec *spec = order->launch->spec;
    const char *hint = step && step->hint ? step->hint : spec ? spec->hint : NULL;

    if (step && step->threads_per_core)
        return step->threads_per_core;
    if (hint && !word_eq(hint, "multithread"))
        return 1;
    return spec ? spec->threads_per_core : 0;
}

static bool is_memory_bound(const Wire__StepOrder *order)
{
    const Wire__StepSpec *step = order->launch->step;
    const Wire__JobSpec *spec = order->launch->spec;

    return word_eq(step && step->hint ? step->hint : spec ? spec->hint : NULL, "memory_bound");
}

/* ---- texts ---- */

static const char *word_of(enum cpubind_kind kind)
{
    return kind == CPUBIND_NONE ? "NULL" : kind == CPUBIND_RANK ? "RANK" : kind == CPUBIND_MAP ? "MAP" : kind == CPUBIND_RANK_LDOM ? "LDRANK" : kind == CPUBIND_MAP_LDOM ? "LDMAP" :
           kind == CPUBIND_MASK_LDOM ? "LDMASK" : "MASK";
}

static char *joined(const char *a, const char *comma, const char *b, const char *c)
{
    struct str out;

    str_init(&out);
    str_addf(&out, "%s%s%s%s", a, comma, b, c);
    return str_take(&out);
}

static char *masks_text(const struct cpus *c, bool memory)
{
    struct str out;

    str_init(&out);
    for (uint32_t t = 0; t < c->count; t++) {
        str_add(&out, t ? "," : "");
        cpubind_mask_print(memory ? &c->tasks[t].memory : &c->tasks[t].mask, &out);
    }
    return str_take(&out);
}

static void tell_cpus(struct cpus *c, bool bound)
{
    const char *manner = c->verbose ? "verbose" : "quiet";

    c->type = mem_copy(bound ? "mask_cpu:" : "none");
    c->list = bound ? masks_text(c, false) : mem_copy("");
    c->text = joined(manner, ",", c->type, c->list);
}

static void tell_memory(struct cpus *c, enum membind_kind kind)
{
    static const char *const words[] = { [MEMBIND_NONE] = "none", [MEMBIND_RANK] = "rank", [MEMBIND_LOCAL] = "local", [MEMBIND_MAP] = "mask_mem:", [MEMBIND_MASK] = "mask_mem:" };

    c->mem_type = mem_copy(words[kind]);
    c->mem_list = kind == MEMBIND_MAP || kind == MEMBIND_MASK ? masks_text(c, true) : mem_copy("");
    c->mem_text = joined(c->mem_verbose ? "verbose" : "quiet", ",", c->mem_type, c->mem_list);
}

/* ---- the whole node ---- */

static void node_fill(struct cpu_node *node, struct cpu_core *cores, const Wire__StepOrder *order, struct bitmap *held)
{
    const Wire__NodeAlloc *alloc = order_alloc(order);

    for (size_t i = 0; i < order->n_cores; i++)
        cores[i] = (struct cpu_core){ .socket = order->cores[i]->socket, .ldom = order->cores[i]->ldom, .pu_count = (uint32_t)order->cores[i]->n_pus, .pus = order->cores[i]->pus };
    *node = (struct cpu_node){ .cores = cores, .core_count = (uint32_t)order->n_cores, .threads_per_core = threads_used(order), .cores_per_socket = is_memory_bound(order) ? 1 : 0,
                               .tasks = order_local_tasks(order), .cpus_per_task = 1 };
    if (order->launch->step && order->launch->step->cpus_per_task)
        node->cpus_per_task = order->launch->step->cpus_per_task;
    if (alloc && alloc->n_cores) {
        bitmap_init(held, alloc->n_cores * 64);
        memcpy(held->words, alloc->cores, alloc->n_cores * sizeof *held->words);
        if (!bitmap_empty(held))
            node->held = held;
    }
}

static int bind_cpus(struct cpus *c, const Wire__StepOrder *order, const struct cpu_node *node, struct spur_error *err)
{
    const char *distribution = order->launch->step ? order->launch->step->distribution : NULL;
    struct bitmap *masks = mem_array(c->count + 1u, sizeof *masks);
    enum cpubind_kind kind = CPUBIND_NONE;
    struct layout_how how;
    struct cpubind b;
    bool said = wanted(order, &b);
    int rc;

    c->verbose = b.verbose;
    if (layout_parse(distribution, &how, NULL) < 0)
        memset(&how, 0, sizeof how);
    for (uint32_t t = 0; t < c->count; t++)
        bitmap_init(&masks[t], CPUBIND_CPUS);
    if (c->is_batch && said && b.kind != CPUBIND_NONE && order->n_cores) {
        cpubind_held(node, &masks[0]);
        rc = 1;
        kind = CPUBIND_MASK;
    } else {
        rc = cpubind_tasks(&b, &how, node, masks, &kind, err);
    }
    if (rc == 0 && b.kind != CPUBIND_NONE && b.kind != CPUBIND_AUTO && !order->n_cores)
        c->complaint = mem_copy("slurmstepd: error: --cpu-bind: the sockets, cores and threads of this node's line in slurm.conf are not those of the machine; tasks are not bound\n");
    for (uint32_t t = 0; t < c->count; t++) {
        c->tasks[t].mask = masks[t];
        c->tasks[t].bound = rc > 0;
        c->tasks[t].word = word_of(kind);
        c->tasks[t].verbose = b.verbose;
    }
    free(masks);
    if (rc >= 0 && said && order->n_cores)
        tell_cpus(c, rc > 0);
    cpubind_fini(&b);
    return rc < 0 ? rc : 0;
}

static void bind_memory(struct cpus *c, const Wire__StepOrder *order, const struct cpu_node *node)
{
    const char *asked = order->launch->step ? order->launch->step->mem_bind : NULL;
    struct membind b;

    if (!asked || !*asked || membind_parse(asked, &b, NULL) < 0 || !order->n_cores)
        return;
    c->mem_verbose = b.verbose;
    c->prefer = b.prefer;
    for (uint32_t t = 0; t < c->count; t++) {
        membind_task(&b, node, t, &c->tasks[t].mask, &c->tasks[t].memory);
        c->tasks[t].memory_verbose = b.verbose;
        c->tasks[t].prefer = b.prefer;
    }
    tell_memory(c, b.kind);
    membind_fini(&b);
}

int cpus_init(struct cpus *c, const Wire__StepOrder *order, struct spur_error *err)
{
    struct cpu_core *cores = mem_array(order->n_cores + 1, sizeof *cores);
    struct bitmap held = { 0 };
    struct cpu_node node;
    int rc;

    memset(c, 0, sizeof *c);
    node_fill(&node, cores, order, &held);
    c->count = node.tasks;
    c->is_batch = order_is_batch(order);
    c->tasks = mem_array(c->count + 1u, sizeof *c->tasks);
    for (uint32_t t = 0; t < c->count; t++) {
        c->tasks[t] = (struct cpus_task){ .node = order->node, .global = order_task(order, t), .local = t, .pretend = order->cores_emulated };
        bitmap_init(&c->tasks[t].memory, CPUBIND_LDOMS);
    }
    rc = bind_cpus(c, order, &node, err);
    if (rc == 0)
        bind_memory(c, order, &node);
    bitmap_fini(&held);
    free(cores);
    return rc;
}

void cpus_fini(struct cpus *c)
{
    for (uint32_t t = 0; t < c->count; t++) {
        bitmap_fini(&c->tasks[t].mask);
        bitmap_fini(&c->tasks[t].memory);
    }
    free(c->tasks);
    free(c->text);
    free(c->type);
    free(c->list);
    free(c->mem_text);
    free(c->mem_type);
    free(c->mem_list);
    free(c->complaint);
    memset(c, 0, sizeof *c);
}

void cpus_environment(const struct cpus *c, struct environment *e)
{
    const char *command = c->is_batch ? "SBATCH" : "SLURM";
    char name[40];

    if (c->text) {
        const char *values[] = { "", c->text, "_VERBOSE", c->verbose ? "verbose" : "quiet", "_TYPE", c->type, "_LIST", c->list };

        for (size_t i = 0; i < sizeof values / sizeof *values; i += 2) {
            snprintf(name, sizeof name, "%s_CPU_BIND%s", command, values[i]);
            environment_set(e, name, values[i + 1]);
        }
    }
    if (c->mem_text) {
        const char *values[] = { "", c->mem_text, "_VERBOSE", c->mem_verbose ? "verbose" : "quiet", "_TYPE", c->mem_type, "_LIST", c->mem_list, "_PREFER", c->prefer ? "prefer" : "" };

        for (size_t i = 0; i < sizeof values / sizeof *values; i += 2) {
            snprintf(name, sizeof name, "%s_MEM_BIND%s", command, values[i]);
            environment_set(e, name, values[i + 1]);
        }
    }
}

/* ---- in the child ---- */

static void say(const char *what, const struct cpus_task *t, const char *word, const struct bitmap *mask, const char *result)
{
    struct str text;

    str_init(&text);
    cpubind_mask_print(mask, &text);
    dprintf(2, "%s=%-4s - %s, task %2u %2u [%d]: mask %s%s\n", what, word, t->node, t->global, t->local, (int)getpid(), text.text, result);
    str_fini(&text);
}

void cpus_apply(const struct cpus_task *t)
{
    if (t->bound && !t->pretend && !bitmap_empty(&t->mask)) {
        size_t size = CPU_ALLOC_SIZE(CPUBIND_CPUS);
        cpu_set_t *set = mem_alloc(size);

        for (size_t cpu = bitmap_first(&t->mask); cpu < t->mask.bits; cpu = bitmap_next(&t->mask, cpu))
            CPU_SET_S(cpu, size, set);
        if (fault(FAULT_AFFINITY) || sched_setaffinity(0, size, set) < 0)
            say("slurmstepd: error: cpu-bind", t, t->word, &t->mask, errno == EINVAL ? " has no CPU that this task may use" : " cannot be set");
        free(set);
    }
    if (!bitmap_empty(&t->memory) && !t->pretend &&
        syscall(SYS_set_mempolicy, t->prefer ? POLICY_PREFERRED : POLICY_BIND, t->memory.words, (unsigned long)t->memory.bits) < 0)
        say("slurmstepd: error: mem-bind", t, "MASK", &t->memory, " cannot be set");
    if (t->verbose)
        say("cpu-bind", t, t->word, &t->mask, t->bound ? " set" : "");
    if (t->memory_verbose)
        say("mem-bind", t, "MASK", &t->memory, bitmap_empty(&t->memory) ? "" : " set");
}
