/* SPDX-License-Identifier: Apache-2.0 */
/* reboot.c - runs RebootProgram when the leader says that the node is empty and shall reboot.
 *
 * The leader says it again whenever this agent registers; the number of the reboot keeps the program from being run twice by one agent. A program that
 * fails is said in the log; the leader hears of it by ResumeTimeout. An emulated node has rebooted at once: it registers with another boot.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/inside.h"

struct rebooting { uv_process_t process; char *program; };     /* process first: freed in its close callback */

static void freed(uv_handle_t *h)
{
    struct rebooting *r = (struct rebooting *)h;

    free(r->program);
    free(r);
}

static void exited(uv_process_t *p, int64_t status, int signal)
{
    const struct rebooting *r = (const struct rebooting *)p;

    if (status || signal)
        log_line(SPUR_LOG_ERROR, "RebootProgram %s ended with status %lld, signal %d", r->program, (long long)status, signal);
    uv_close((uv_handle_t *)p, freed);
}

static void emulated(struct identity *n, const Wire__NodeReboot *m)
{
    char boot[64];

    snprintf(boot, sizeof boot, "emulated-%llu", (unsigned long long)m->number);
    free(n->inventory->boot_id);
    n->inventory->boot_id = mem_copy(boot);
    node_register(n);
}

void node_reboot(struct identity *n, const Wire__NodeReboot *m)
{
    struct agent *a = n->agent;
    struct rebooting *r;
    char *argv[] = { a->set->reboot_program, m->reason, NULL };
    uv_process_options_t options = { .exit_cb = exited, .file = a->set->reboot_program, .args = argv, .flags = UV_PROCESS_DETACHED };
    int rc;

    if (strcmp(m->node, n->name) || m->number <= n->reboot_number)
        return;
    n->reboot_number = m->number;
    if (a->is_emulated) {
        emulated(n, m);
        return;
    }
    if (!a->set->reboot_program) {
        log_line(SPUR_LOG_ERROR, "%s shall reboot, and RebootProgram is not set in slurm.conf", n->name);
        return;
    }
    r = mem_alloc(sizeof *r);
    r->program = mem_copy(a->set->reboot_program);
    log_line(SPUR_LOG_INFO, "%s: reboot: running %s", n->name, r->program);
    if ((rc = uv_spawn(a->loop, &r->process, &options)) < 0) {
        log_line(SPUR_LOG_ERROR, "RebootProgram %s: %s", r->program, uv_strerror(rc));
        uv_close((uv_handle_t *)&r->process, freed);
    }
}
