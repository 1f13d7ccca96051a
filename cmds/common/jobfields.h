/* SPDX-License-Identifier: Apache-2.0 */
/* jobfields.h - the fields of a job and of a step that squeue can show: names, letters, headings, how each is printed. */
#ifndef CMDS_COMMON_JOBFIELDS_H
#define CMDS_COMMON_JOBFIELDS_H

#include "cmds/common/columns.h"
#include "wire/spur.pb-c.h"

struct job_row {                    /* what a field prints from */
    const Wire__JobInfo *job;
    int64_t now_s;                  /* the controller's clock */
    const char *cluster;
    const char *time_format;        /* SLURM_TIME_FORMAT */
    bool     no_convert;            /* sizes in mebibytes, as they were asked for */
    const char *tasks;              /* the pending tasks this line stands for, "3" or "0,6"; NULL: all that wait */
};
extern const struct column_field job_fields[];
extern const size_t job_field_count;

struct step_row { const Wire__StepInfo *step; int64_t now_s; const char *time_format; };
extern const struct column_field step_fields[];
extern const size_t step_field_count;

void job_id_print(const Wire__JobInfo *j, const char *only, struct str *out);  /* "12", "12_3", "12_[1-9%2]"; only: as in job_row.tasks */
void job_tasks_print(const char *tasks, struct str *out);                      /* "1-9%2", cut when it is long */
void job_reason_print(const Wire__JobInfo *j, struct str *out);                                /* nodes, or "(Priority)" */
int64_t job_time_left_s(const Wire__JobInfo *j);                                               /* INT64_MAX: unlimited */

#endif
