/* SPDX-License-Identifier: Apache-2.0 */
/* request_tasks.c - options that say how tasks are dealt to nodes and bound there: -m, --hint, --cpu-bind, --mem-bind, --multi-prog, SLURM_HOSTFILE.
 *
 * The words themselves are known to state/layout.c and state/cpubind.c; here they are checked, so that a wrong one is refused before anything is asked of a
 * controller. SLURM_CPU_BIND and SLURM_MEM_BIND are twins of options and also what a supervisor tells a task about its own binding: an srun called in
 * a task must not take the masks of that one task for a wish. Who set it is seen by the variables beside it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/hostlist.h"
#include "base/str.h"
#include "cmds/common/request.h"
#include "state/cpubind.h"
#include "state/layout.h"

int request_take_distribution(void *request, const char *value, enum option_source from, struct spur_error *err)
{
    struct request *r = request;
    const char *plane = getenv("SLURM_DIST_PLANESIZE");
    struct layout_how how;

    (void)from;
    if (word_eq(value, "plane") && plane && *plane)
        value = arena_printf(&r->arena, "plane=%s", plane);
    if (layout_parse(value, &how, err) < 0) {
        err->code = SPUR_ESYNTAX;
        return err->code;
    }
    if (how.nodes == DEAL_PLANE && !how.plane)
        return spur_fail(err, SPUR_EINVAL, "--distribution=plane needs the tasks of a plane: plane=N, or SLURM_DIST_PLANESIZE");
    r->spec.distribution = strcmp(value, "*") ? arena_copy(&r->arena, value) : NULL;
    return 0;
}

int request_take_hint(void *request, const char *value, enum option_source from, struct spur_error *err)
{
    static const char *const words[] = { "compute_bound", "memory_bound", "multithread", "nomultithread" };
    struct request *r = request;

    (void)from;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (word_eq(value, words[i])) {
            r->spec.hint = (char *)(uintptr_t)words[i];
            return 0;
        }
    return spur_fail(err, SPUR_EINVAL, "unrecognized --hint argument \"%.80s\"; known are compute_bound, memory_bound, multithread and nomultithread", value);
}

/* Is the variable what our own supervisor has told this task? */
static bool is_told(const char *kind, const char *value)
{
    char name[40], whole[64];
    const char *verbose, *type, *list;
    size_t n, t;

    snprintf(name, sizeof name, "SLURM_%s_BIND_VERBOSE", kind);
    verbose = getenv(name);
    snprintf(name, sizeof name, "SLURM_%s_BIND_TYPE", kind);
    type = getenv(name);
    snprintf(name, sizeof name, "SLURM_%s_BIND_LIST", kind);
    list = getenv(name);
    if (!verbose || !type || !list)
        return false;
    n = (size_t)snprintf(whole, sizeof whole, "%s,", verbose);
    t = strlen(type);
    return n < sizeof whole && !strncmp(value, whole, n) && !strncmp(value + n, type, t) && !strcmp(value + n + t, list);
}

int request_take_cpu_bind(void *request, const char *value, enum option_source from, struct spur_error *err)
{
    struct request *r = request;
    struct cpubind b;

    if (from == FROM_ENVIRONMENT && is_told("CPU", value))
        return 0;
    if (cpubind_parse(value, &b, err) < 0)
        return spur_context(err, "Invalid --cpu-bind argument");
    cpubind_fini(&b);
    r->cpu_bind = value;
    return 0;
}

int request_take_mem_bind(void *request, const char *value, enum option_source from, struct spur_error *err)
{
    struct request *r = request;
    struct membind b;

    if (from == FROM_ENVIRONMENT && is_told("MEM", value))
        return 0;
    if (membind_parse(value, &b, err) < 0)
        return spur_context(err, "Invalid --mem-bind argument");
    membind_fini(&b);
    if (!(r->as & REQUEST_SRUN) && b.kind != MEMBIND_NONE)
        return spur_fail(err, SPUR_EUNSUPPORTED, "not supported yet: --mem-bind=%.80s of a whole job; srun --mem-bind binds the tasks of a step", value);
    r->mem_bind = value;
    return 0;
}

int request_take_multi_prog(void *request, const char *value, enum option_source from, struct spur_error *err)
{
    (void)value;
    (void)from;
    (void)err;
    ((struct request *)request)->multi_prog = true;
    return 0;
}

int request_task_nodes(struct request *r, struct spur_error *err)
{
    const char *file = r->as & REQUEST_SRUN ? getenv("SLURM_HOSTFILE") : NULL;
    uint32_t most = 0, run = 0;
    struct hostlist *h = NULL;
    struct layout_how how;
    struct str list;
    int rc;

    if ((rc = layout_parse(r->spec.distribution, &how, err)) < 0)
        return rc;
    if (file && *file) {            /* as the manual has it: the variable overrides any other method */
        if (!(r->spec.req_nodes = request_node_file(r, file, err)))
            return err->code;
        if (how.nodes != DEAL_ARBITRARY)
            r->spec.distribution = (char *)(uintptr_t)"arbitrary";
    } else if (how.nodes != DEAL_ARBITRARY) {
        return 0;
    }
    if (!file && r->nodes_written && !r->nodefile)
        r->spec.req_nodes = strchr(r->nodes_written, '/') ? request_node_file(r, r->nodes_written, err) : arena_copy(&r->arena, r->nodes_written);
    if (!r->spec.req_nodes || !*r->spec.req_nodes) {
        r->spec.distribution = NULL;            /* no list: block */
        return 0;
    }
    if ((rc = hostlist_parse(r->spec.req_nodes, &h, err)) < 0)
        return spur_context(err, "Invalid --nodelist specification");
    if (!r->spec.has_ntasks) {
        r->spec.has_ntasks = true;
        r->spec.ntasks = (uint32_t)hostlist_count(h);
    }
    if (r->spec.ntasks > hostlist_count(h)) {
        rc = spur_fail(err, SPUR_EINVAL, "--distribution=arbitrary: %u tasks, but the list names nodes for %zu only", r->spec.ntasks, hostlist_count(h));
        hostlist_destroy(h);
        return rc;
    }
    while (hostlist_count(h) > r->spec.ntasks)
        hostlist_remove(h, hostlist_count(h) - 1);
    str_init(&list);
    for (size_t i = 0; i < hostlist_count(h); i++)
        str_addf(&list, "%s%s", i ? "," : "", hostlist_nth(h, i));
    r->step.task_nodes = arena_copy(&r->arena, list.text);
    hostlist_sort(h);
    for (size_t i = 0; i < hostlist_count(h); i++) {
        run = i && !strcmp(hostlist_nth(h, i), hostlist_nth(h, i - 1)) ? run + 1 : 1;
        most = run > most ? run : most;
    }
    hostlist_uniq(h);
    str_clear(&list);
    hostlist_print(h, &list);
    r->spec.req_nodes = arena_copy(&r->arena, list.text);
    r->spec.has_min_nodes = r->spec.has_max_nodes = true;
    r->spec.min_nodes = r->spec.max_nodes = (uint32_t)hostlist_count(h);
    if (!r->has_job_id && !r->spec.has_ntasks_per_node) {       /* room for the node that has most of them */
        r->spec.has_ntasks_per_node = true;
        r->spec.ntasks_per_node = most;
    }
    hostlist_destroy(h);
    str_fini(&list);
    return 0;
}
