/* SPDX-License-Identifier: Apache-2.0 */
/* path.c - names of output files: %A %a %J %j %N %n %s %t %u %x %b %%, with a width as in %5j.
 *
 * A pattern that has a backslash is taken as it is, without the backslashes, as Slurm does. An array that has not started has no task:
 * it is shown with Slurm's 4294967294. With no node named (a job shown to people) the letters that depend on node, task and step stay.
 */
#include <stdlib.h>
#include <string.h>

#include "state/private.h"

#define NO_TASK 4294967294u

static void number_add(struct str *out, uint32_t n, unsigned width)
{
    str_addf(out, "%0*u", (int)width, n);
}

void path_expand(const char *pattern, const char *work_dir, const struct path_ids *ids, struct str *out)
{
    bool literal = pattern && strchr(pattern, '\\');
    uint32_t task = ids->array_job_id && ids->array_task_id != UINT32_MAX ? ids->array_task_id : NO_TASK;

    if (!pattern || !*pattern)
        return;
    if (*pattern != '/' && work_dir && *work_dir) {
        str_add(out, work_dir);
        if (work_dir[strlen(work_dir) - 1] != '/')
            str_add_char(out, '/');
    }
    for (const char *p = pattern; *p; p++) {
        unsigned width = 0;
        const char *at = p + 1;

        if (literal) {
            if (*p != '\\')
                str_add_char(out, *p);
            continue;
        }
        if (*p != '%') {
            str_add_char(out, *p);
            continue;
        }
        while (*at >= '0' && *at <= '9' && width <= 100)
            width = width * 10 + (unsigned)(*at++ - '0');
        width = width > 10 ? 10 : width;
        if (!ids->node && !ids->short_host && *at && strchr("Nnts", *at)) {
            str_add_n(out, p, (size_t)(at + 1 - p));
            p = at;
            continue;
        }
        switch (*at) {
        case '%': str_add_char(out, '%'); break;
        case 'A': number_add(out, ids->array_job_id ? ids->array_job_id : ids->job_id, width); break;
        case 'a': number_add(out, task, width); break;
        case 'b': number_add(out, task == NO_TASK ? 0 : task % 10, width); break;
        case 'J':
            number_add(out, ids->job_id, width);
            if (ids->has_step)
                str_addf(out, ".%u", ids->step_id);
            break;
        case 'j': number_add(out, ids->job_id, width); break;
        case 'N': str_add(out, ids->short_host ? ids->short_host : ids->node ? ids->node : ""); break;
        case 'n': number_add(out, ids->has_node ? ids->node_rank : 0, width); break;
        case 's':
            if (ids->has_step)
                number_add(out, ids->step_id, width);
            else
                str_add(out, "batch");
            break;
        case 't': number_add(out, ids->has_task ? ids->task : 0, width); break;
        case 'u': str_add(out, ids->user ? ids->user : ""); break;
        case 'x': str_add(out, ids->job_name ? ids->job_name : ""); break;
        default:    /* no letter of ours: stays as written */
            str_add_n(out, p, (size_t)(at - p));
            if (!*at)
                return;
            str_add_char(out, *at);
        }
        p = at;
    }
}
