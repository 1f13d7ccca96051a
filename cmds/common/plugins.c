/* SPDX-License-Identifier: Apache-2.0 */
/* plugins.c - SPANK plugins in srun, sbatch and salloc; see plugins.h.
 *
 * Options are noted while the line is read and handed to their callbacks afterwards, weakest source first: directives, environment, command line. So a callback
 * runs once for each time the user gave the option, although sbatch reads its line twice, and --help of a broken line calls none.
 * Values then stand in our environment under the names of spank_option_variable(), which takes them to the node and into the job's own
 * srun, and in the record (spank_env) for prolog and epilog, which have no environment of the job.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "cmds/common/plugins.h"
#include "config/plugstack.h"
#include "spank/stack.h"

extern char **environ;

struct own_row { struct plugins *of; size_t option; char *help; };
struct given { size_t option; char *value; enum option_source from; };

struct plugins {
    const char *command;
    struct spank_stack *stack;
    struct spank_facts facts;
    struct own_row *rows; size_t row_count;
    struct given *given; size_t given_count;
    char **control; size_t control_count;       /* NAME=value for prolog and epilog, without SPANK_ */
};

/* ---- the environment of prolog and epilog ---- */

static size_t control_find(const struct plugins *p, const char *name)
{
    size_t n = strlen(name), i;

    for (i = 0; i < p->control_count; i++)
        if (!strncmp(p->control[i], name, n) && p->control[i][n] == '=')
            break;
    return i;
}

static const char *control_get(void *of, const char *name)
{
    const struct plugins *p = of;
    size_t i = control_find(p, name);

    return i < p->control_count ? p->control[i] + strlen(name) + 1 : NULL;
}

static void control_set(void *of, const char *name, const char *value)
{
    struct plugins *p = of;
    size_t i = control_find(p, name);
    struct str text;

    if (i < p->control_count) {
        free(p->control[i]);
        p->control[i] = p->control[--p->control_count];
    }
    if (!value)
        return;
    str_init(&text);
    str_addf(&text, "%s=%s", name, value);
    p->control = mem_grow(p->control, p->control_count + 1, sizeof *p->control);
    p->control[p->control_count++] = str_take(&text);
}

/* ---- life ---- */

static char **our_environment(void *of)
{
    (void)of;
    return environ;
}

static const char *our_variable(void *of, const char *name)
{
    (void)of;
    return getenv(name);
}

static int failed(const struct plugins *p, const struct spur_error *err)
{
    fprintf(stderr, "%s: error: %s\n", p->command, err->text);
    return 1;
}

int plugins_open(unsigned command, struct plugins **out)
{
    char path[1024], dirs[1024];
    struct spur_error err = { 0 };
    struct plugins *p;
    int rc = 0;

    *out = NULL;
    if (!plugstack_hint(path, dirs))
        return 0;
    p = mem_alloc(sizeof *p);
    p->command = command == REQUEST_SRUN ? "srun" : command == REQUEST_SALLOC ? "salloc" : "sbatch";
    p->facts = (struct spank_facts){ .known = SPANK_KNOWS(S_JOB_UID) | SPANK_KNOWS(S_JOB_GID) | SPANK_KNOWS(S_JOB_ENV), .uid = getuid(), .gid = getgid(),
                                     .env_list = our_environment, .control_of = p, .control_get = control_get, .control_set = control_set };
    spank_log_as(p->command, 0);
    if (spank_stack_open(path, dirs, command == REQUEST_SRUN ? S_CTX_LOCAL : S_CTX_ALLOCATOR, &p->facts, &p->stack, &err) < 0 ||
        spank_stack_call(p->stack, SPANK_ON_init, &err) < 0)
        rc = failed(p, &err);
    if (rc || !p->stack) {
        spank_stack_close(p->stack);
        free(p->control);
        free(p);
        return rc;
    }
    *out = p;
    return 0;
}

static void forget(struct plugins *p)
{
    for (size_t i = 0; i < p->given_count; i++)
        free(p->given[i].value);
    p->given_count = 0;
}

void plugins_forget(struct plugins *p)
{
    if (p)
        forget(p);
}

void plugins_close(struct plugins *p)
{
    struct spur_error err = { 0 };

    if (!p)
        return;
    if (spank_stack_call(p->stack, SPANK_ON_exit, &err) < 0)
        failed(p, &err);
    spank_stack_close(p->stack);
    forget(p);
    for (size_t i = 0; i < p->row_count; i++)
        free(p->rows[i].help);
    for (size_t i = 0; i < p->control_count; i++)
        free(p->control[i]);
    free(p->control);
    free(p->rows);
    free(p->given);
    free(p);
}

/* ---- options ---- */

static int note(void *own, const char *value, enum option_source from, struct spur_error *err)
{
    const struct own_row *row = own;
    struct plugins *p = row->of;

    (void)err;
    p->given = mem_grow(p->given, p->given_count + 1, sizeof *p->given);
    p->given[p->given_count++] = (struct given){ row->option, mem_copy(value), from };
    return 0;
}

size_t plugins_rows(const struct plugins *p) { return p ? spank_stack_options(p->stack) : 0; }

static bool is_taken(const struct option_table *table, const char *name)
{
    for (size_t i = 0; i < table->count; i++)
        if (table->rows[i].name && !strcmp(table->rows[i].name, name))
            return true;
    return false;
}

void plugins_table(struct plugins *p, struct option_row *rows, struct option_table *table)
{
    static const enum option_argument arguments[] = { OPTION_NONE, OPTION_VALUE, OPTION_MAY };
    size_t count = plugins_rows(p);

    if (!count)
        return;
    p->rows = mem_array(count, sizeof *p->rows);
    for (size_t i = 0; i < count; i++) {
        struct spank_stack_option o;
        struct own_row *own = &p->rows[p->row_count];
        struct str help;

        spank_stack_option(p->stack, i, &o);
        if (is_taken(table, o.name)) {
            fprintf(stderr, "%s: error: SPANK plugin %s: option --%s is %s's own already\n", p->command, o.plugin, o.name, p->command);
            continue;
        }
        str_init(&help);
        str_add(&help, o.usage ? o.usage : o.plugin);
        *own = (struct own_row){ p, i, str_take(&help) };
        rows[table->count++] = (struct option_row){ .name = o.name, .argument = arguments[o.has_arg], .value = o.arginfo, .take = note, .help = own->help, .own = own };
        p->row_count++;
    }
}

/* Options that stand in our environment belong to the job that we run in, and go along unless given anew. */
static int apply(struct plugins *p, enum option_source from, struct spur_error *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < p->given_count; i++)
        if (p->given[i].from == from)
            rc = spank_stack_option_take(p->stack, p->given[i].option, p->given[i].value, err);
    return rc;
}

static void carry(struct plugins *p, struct request *r)
{
    for (size_t i = 0; i < spank_stack_options(p->stack); i++) {
        struct spank_stack_option o;
        const char *value;
        char name[256];

        if (!spank_stack_option_value(p->stack, i, &value))
            continue;
        spank_stack_option(p->stack, i, &o);
        spank_option_variable(o.plugin, o.name, name, sizeof name);
        setenv(name, value ? value : "", 1);
        control_set(p, name, value ? value : "");
    }
    control_set(p, "_SLURM_SPANK_STACK", "1");      /* the record of a job says that plugins were there: its epilog may have some too */
    r->spec.n_spank_env = p->control_count;
    r->spec.spank_env = arena_alloc(&r->arena, (p->control_count + 1) * sizeof *r->spec.spank_env);
    for (size_t i = 0; i < p->control_count; i++)
        r->spec.spank_env[i] = arena_copy(&r->arena, p->control[i]);
}

int plugins_ready(struct plugins *p, struct request *r)
{
    struct spur_error err = { 0 };

    if (!p)
        return 0;
    spank_log_as(p->command, (int)r->verbose);
    p->facts.known |= SPANK_KNOWS(S_JOB_ARGV);
    p->facts.argc = r->argc;
    p->facts.argv = r->argv;
    if (apply(p, FROM_SCRIPT, &err) < 0 || spank_stack_options_carried(p->stack, our_variable, NULL, &err) < 0 || apply(p, FROM_COMMAND_LINE, &err) < 0 ||
        spank_stack_call(p->stack, SPANK_ON_init_post_opt, &err) < 0)
        return failed(p, &err);
    carry(p, r);
    return 0;
}

int plugins_allocated(struct plugins *p, uint32_t job_id, uint32_t step_id, uint32_t nodes, uint32_t tasks)
{
    struct spur_error err = { 0 };

    if (!p)
        return 0;
    p->facts.known |= SPANK_KNOWS(S_JOB_ID) | SPANK_KNOWS(S_JOB_STEPID) | SPANK_KNOWS(S_JOB_NNODES) | SPANK_KNOWS(S_JOB_TOTAL_TASK_COUNT);
    p->facts.job_id = job_id;
    p->facts.step_id = step_id;
    p->facts.nodes = nodes;
    p->facts.total_tasks = tasks;
    return spank_stack_call(p->stack, SPANK_ON_local_user_init, &err) < 0 ? failed(p, &err) : 0;
}
