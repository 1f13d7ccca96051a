/* SPDX-License-Identifier: Apache-2.0 */
/* pmix.c - mpi/pmix: the server side of PMIx for the ranks of one node, by libpmix. Open MPI and everything else that links PMIx, started by srun alone.
 *
 * libpmix talks to the ranks (a TCP socket on the loopback device that is in their environment) and to us; between nodes goes what fence.c and fetch.c carry. A rank that joined and
 * ends without PMIx_Finalize ends the step, and so does one that never joins while others have: they would wait for it in their first fence. Who joined and who ended is
 * known on the node, so the first of each kind is told to node 0, which puts the two together.
 * Spawning ranks, joining jobs, publishing names and groups are answered by libpmix with PMIX_ERR_NOT_SUPPORTED.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "inside.h"

#define MESSAGE_JOINED 'J'
#define MESSAGE_ENDED  'E'      /* and the rank */

struct pmix *pmix_served;

int pmix_failed(struct spur_error *err, const char *what, pmix_status_t status)
{
    return spur_fail(err, SPUR_EIO, "libpmix %s: %s: %s", PMIx_Get_version(), what, PMIx_Error_string(status));
}

bool pmix_post(void (*fn)(void *arg), void *arg)
{
    if (!arg)
        return false;
    pmix_served->host->post(pmix_served->host->ctx, fn, arg);
    return true;
}

uint32_t pmix_node_of(const pmix_proc_t *proc)
{
    const struct pmix *p = pmix_served;

    return PMIX_CHECK_NSPACE(proc->nspace, p->nspace) && proc->rank < p->step->ntasks ? p->node_of[proc->rank] : UINT32_MAX;
}

static void rank_abort(struct pmix *p, uint32_t rank, int exit_code, const char *text)
{
    char line[400];

    if (p->aborted)
        return;
    p->aborted = true;                  /* what ends after this ends because of it */
    snprintf(line, sizeof line, "rank %u: %.350s", rank, text);
    line[strcspn(line, "\r\n")] = '\0';
    p->step->abort(p->step->ctx, exit_code, line);
}

static struct rank *rank_here(struct pmix *p, uint32_t global)
{
    for (uint32_t i = 0; i < p->count; i++)
        if (p->ranks[i].global == global)
            return &p->ranks[i];
    return NULL;
}

/* ---- who joined, who ended without ---- */

static void know(struct pmix *p, unsigned char what, uint32_t rank)
{
    if (what == MESSAGE_JOINED)
        p->some_joined = true;
    else if (p->ended_alone < 0)
        p->ended_alone = rank;
    if (p->some_joined && p->ended_alone >= 0)
        rank_abort(p, (uint32_t)p->ended_alone, 0, "has ended without joining MPI, which others have; they would wait for it");
}

static void tell(struct pmix *p, unsigned char what, uint32_t rank)
{
    struct spur_error err = { 0 };
    unsigned char out[5] = { what };

    put32(out + 1, rank);
    if (p->step->node_rank == 0)
        know(p, what, rank);
    else if (!p->lost[0])
        p->step->send(p->step->ctx, 0, out, sizeof out, &err);
}

/* ---- called by libpmix, on its thread ---- */

struct change { uint32_t rank; bool finalized; };

static void changed(void *arg)
{
    struct change *c = arg;
    struct pmix *p = pmix_served;
    struct rank *r = rank_here(p, c->rank);

    if (r && c->finalized)
        r->finalized = true;
    if (r && !c->finalized) {
        r->joined = true;
        r->finalized = false;           /* a program may finalize and join again */
        if (!p->told_joined)
            tell(p, MESSAGE_JOINED, r->global);
        p->told_joined = true;
    }
    free(c);
}

static pmix_status_t change(const pmix_proc_t *proc, bool finalized)
{
    struct change *c = malloc(sizeof *c);

    if (c)
        *c = (struct change){ .rank = proc->rank, .finalized = finalized };
    return pmix_post(changed, c) ? PMIX_OPERATION_SUCCEEDED : PMIX_ERR_NOMEM;
}

static pmix_status_t connected_called(const pmix_proc_t *proc, void *object, pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t done, void *arg)
{
    (void)object;
    (void)info;
    (void)ninfo;
    (void)done;
    (void)arg;
    return change(proc, false);
}

static pmix_status_t finalized_called(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done, void *arg)
{
    (void)object;
    (void)done;
    (void)arg;
    return change(proc, true);
}

struct abortion { uint32_t rank; int status; char text[200]; pmix_op_cbfunc_t done; void *arg; };

static void aborted(void *arg)
{
    struct abortion *a = arg;
    char text[300];

    snprintf(text, sizeof text, "MPI_Abort with exit code %d%s%s", a->status, a->text[0] ? ": " : "", a->text);
    rank_abort(pmix_served, a->rank, a->status, text);
    if (a->done)
        a->done(PMIX_SUCCESS, a->arg);
    free(a);
}

/* Whatever set of ranks is meant, the step is what ends. */
static pmix_status_t abort_called(const pmix_proc_t *proc, void *object, int status, const char msg[], pmix_proc_t procs[], size_t nprocs, pmix_op_cbfunc_t done, void *arg)
{
    struct abortion *a = calloc(1, sizeof *a);

    (void)object;
    (void)procs;
    (void)nprocs;
    if (!a)
        return PMIX_ERR_NOMEM;
    *a = (struct abortion){ .rank = proc->rank, .status = status, .done = done, .arg = arg };
    snprintf(a->text, sizeof a->text, "%s", msg && strcmp(msg, "N/A") ? msg : "");        /* N/A: what Open MPI says when it has nothing to say */
    return pmix_post(aborted, a) ? PMIX_SUCCESS : PMIX_ERR_NOMEM;
}

static pmix_server_module_t server = {
    .client_finalized = finalized_called, .abort = abort_called, .fence_nb = fence_called, .direct_modex = fetch_called, .client_connected2 = connected_called };

/* ---- the plugin's operations ---- */

static int server_open(struct pmix *p, struct spur_error *err)
{
    const struct spur_mpi_step *s = p->step;
    char name[PMIX_MAX_NSLEN + 1];
    pmix_info_t info[5];
    pmix_rank_t rank = s->node_rank;
    pmix_status_t rc;

    snprintf(name, sizeof name, "%.200s.server", p->nspace);
    for (size_t i = 0; i < sizeof info / sizeof *info; i++)
        PMIX_INFO_CONSTRUCT(&info[i]);
    PMIx_Info_load(&info[0], PMIX_SERVER_NSPACE, name, PMIX_STRING);
    PMIx_Info_load(&info[1], PMIX_SERVER_RANK, &rank, PMIX_PROC_RANK);
    PMIx_Info_load(&info[2], PMIX_SERVER_TMPDIR, s->dir, PMIX_STRING);
    PMIx_Info_load(&info[3], PMIX_SYSTEM_TMPDIR, s->dir, PMIX_STRING);
    PMIx_Info_load(&info[4], PMIX_HOSTNAME, s->nodes[s->node_rank], PMIX_STRING);
    rc = PMIx_server_init(&server, info, sizeof info / sizeof *info);
    for (size_t i = 0; i < sizeof info / sizeof *info; i++)
        PMIX_INFO_DESTRUCT(&info[i]);
    if (rc != PMIX_SUCCESS)
        return pmix_failed(err, "cannot start its server", rc);
    p->is_open = true;
    return 0;
}

static int pmix_start(void *self, const struct spur_mpi_step *step, struct spur_error *err)
{
    struct pmix *p = self;
    int rc;

    if (pmix_served)
        return spur_fail(err, SPUR_EINVAL, "libpmix serves one step a process");
    p->step = step;
    p->count = step->first[step->node_rank + 1] - step->first[step->node_rank];
    p->ranks = calloc(p->count + 1, sizeof *p->ranks);
    p->node_of = calloc(step->ntasks + 1, sizeof *p->node_of);
    if (!p->ranks || !p->node_of)
        return spur_fail(err, SPUR_ENOMEM, "out of memory for %u ranks", step->ntasks);
    snprintf(p->nspace, sizeof p->nspace, "slurm.pmix.%u.%u", step->job_id, step->step_id);     /* the name that Slurm gives it: tools look for it */
    for (uint32_t i = 0; i < p->count; i++)
        p->ranks[i].global = step->tasks[step->first[step->node_rank] + i];
    for (uint32_t n = 0; n < step->node_count; n++)
        for (uint32_t k = step->first[n]; k < step->first[n + 1]; k++)
            if (step->tasks[k] < step->ntasks)
                p->node_of[step->tasks[k]] = n;
    pmix_served = p;
    rc = server_open(p, err);
    return rc < 0 ? rc : describe_step(p, err);
}

static int pmix_task(void *self, uint32_t local, int fd, const struct spur_mpi_env *env, struct spur_error *err)
{
    struct pmix *p = self;
    char **vars = NULL, *eq;
    pmix_proc_t proc;
    pmix_status_t rc;

    (void)fd;
    PMIX_LOAD_PROCID(&proc, p->nspace, p->ranks[local].global);
    if ((rc = PMIx_server_setup_fork(&proc, &vars)) != PMIX_SUCCESS)
        return pmix_failed(err, "cannot make a rank's environment", rc);
    for (size_t i = 0; vars && vars[i]; i++) {
        if ((eq = strchr(vars[i], '='))) {
            *eq = '\0';
            env->set(env->arg, vars[i], eq + 1);
        }
        free(vars[i]);
    }
    free(vars);
    return 0;
}

static void pmix_ended(void *self, uint32_t local, int status)
{
    struct pmix *p = self;
    struct rank *r = &p->ranks[local];
    char text[160];

    if (local >= p->count || r->ended)
        return;
    r->ended = true;
    fetch_ended(p, r->global);
    if (r->joined && !r->finalized) {
        snprintf(text, sizeof text, "has ended without finalizing MPI%s%s; the other ranks would wait for it", WIFSIGNALED(status) ? ", killed by signal " : "",
                 WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "");
        rank_abort(p, r->global, 0, text);
    } else if (!r->joined && !p->told_ended) {
        p->told_ended = true;
        tell(p, MESSAGE_ENDED, r->global);
    }
}

static void pmix_gathered(void *self, const char *key, const struct spur_mpi_part *parts, uint32_t count, uint32_t part_size)
{
    fence_gathered(self, key, parts, count, part_size);
}

static void pmix_received(void *self, uint32_t from, const void *data, size_t len)
{
    const unsigned char *text = data;

    if (len == 5 && (text[0] == MESSAGE_JOINED || text[0] == MESSAGE_ENDED))
        know(self, text[0], get32(text + 1));
    else
        fetch_received(self, from, data, len);
}

static void pmix_lost(void *self, const char *why)
{
    struct pmix *p = self;

    if (!p->lost[0])
        snprintf(p->lost, sizeof p->lost, "a node of the step is gone: %.150s", why && *why ? why : "no reason given");
    fence_lost(p);
    fetch_lost(p);
}

static int pmix_open(const struct spur_host *host, const struct spur_conf *conf, void **self, struct spur_error *err)
{
    struct pmix *p = calloc(1, sizeof *p);

    (void)conf;
    if (!p)
        return spur_fail(err, SPUR_ENOMEM, "out of memory");
    p->host = host;
    p->ended_alone = -1;
    *self = p;
    return 0;
}

static void pmix_close(void *self)
{
    struct pmix *p = self;

    if (!p)
        return;
    if (p->is_open)
        PMIx_server_finalize();
    if (pmix_served == p)
        pmix_served = NULL;
    fence_close(p);
    fetch_close(p);
    free(p->ranks);
    free(p->node_of);
    free(p);
}

static const struct spur_option pmix_options[] = { { NULL, 0, NULL, NULL } };
static const struct spur_mpi_ops pmix_ops = { .size = sizeof pmix_ops, .start = pmix_start, .task = pmix_task, .ended = pmix_ended, .gathered = pmix_gathered,
                                              .received = pmix_received, .lost = pmix_lost };

SPUR_PLUGIN(mpi, pmix, .about = "PMIx by libpmix: Open MPI and what else links it", .stands_for = "pmix_v2 pmix_v3 pmix_v4 pmix_v5", .caps = SPUR_CAP_SERVES,
            .options = pmix_options, .ops = &pmix_ops, .open = pmix_open, .close = pmix_close);
