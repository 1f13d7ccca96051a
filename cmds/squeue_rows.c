/* SPDX-License-Identifier: Apache-2.0 */
/* squeue_rows.c - keeps and sorts the lines of squeue; see squeue.h.
 *
 * Letters with a number behind them sort by it, the others by their text; states sort by their names, as Slurm's do. Equals: the ones started last
 * first, then those that wait, the newest first; that is the order in which Slurm shows a queue of equals.
 */
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "cmds/squeue.h"
#include "state/apply.h"

struct row_line { size_t at, size; int64_t start_s; uint64_t id; uint32_t index; };

static const struct column_field *field_of(bool of_steps, char letter)
{
    const struct column_field *fields = of_steps ? step_fields : job_fields;
    size_t count = of_steps ? step_field_count : job_field_count;

    for (size_t i = 0; i < count; i++)
        if (fields[i].letter == letter)
            return &fields[i];
    return NULL;
}

int rows_init(struct rows *r, const char *order, bool of_steps, struct spur_error *err)
{
    memset(r, 0, sizeof *r);
    r->of_steps = of_steps;
    str_init(&r->text);
    arena_init(&r->arena, 0);
    table_init(&r->words);
    for (const char *p = order; *p && r->key_count < ROWS_KEYS; p++) {
        bool down = *p == '-';

        if (*p == ',' || *p == ' ')
            continue;
        p += *p == '-' || *p == '+';
        if (!*p || !(r->fields[r->key_count] = field_of(of_steps, *p)))
            return spur_fail(err, SPUR_EINVAL, "Invalid sort specification: %c", *p ? *p : p[-1]);
        r->letters[r->key_count] = *p;
        r->down[r->key_count++] = down;
    }
    return 0;
}

uint64_t rows_needs(const struct rows *r)
{
    uint64_t needs = 0;

    for (size_t i = 0; i < r->key_count; i++)
        needs |= r->fields[i]->needs;
    return needs;
}

/* One copy of each text: a queue has few partitions, names and states. */
static const char *word_keep(struct rows *r, const char *text)
{
    char *kept = table_get_text(&r->words, text);

    if (!kept) {
        kept = arena_copy(&r->arena, text);
        table_put_text(&r->words, kept, kept);
    }
    return kept;
}

static uint64_t id_of(uint32_t job_id, uint32_t array_id, uint32_t task) { return (uint64_t)(array_id ? array_id : job_id) << 32 | task; }

/* false: it has no number, or none that people would sort by. */
static bool job_number(const Wire__JobInfo *j, char letter, bool down, int64_t *out)
{
    uint32_t task = j->array_job_id && !(j->array_tasks && *j->array_tasks) ? j->array_task_id : 0;

    switch (letter) {
    case 'i': *out = (int64_t)id_of(j->job_id, j->array_job_id, task); break;
    case 'A': *out = j->job_id; break;
    case 'F': *out = j->array_job_id ? j->array_job_id : j->job_id; break;
    case 'p': case 'Q': *out = (int64_t)j->priority; break;
    case 'D': *out = j->num_nodes; break;
    case 'C': *out = j->num_cpus; break;
    case 'M': *out = j->run_s; break;
    case 'l': *out = j->time_limit_min; break;
    case 'L': *out = job_time_left_s(j); break;
    case 'S': *out = j->start_wall_s ? j->start_wall_s : down ? INT64_MIN : INT64_MAX; break;      /* those without are last, either way */
    case 'V': *out = j->submit_wall_s; break;
    case 'e': *out = j->start_wall_s && !j->end_wall_s ? INT64_MAX : j->end_wall_s; break;
    case 'U': *out = j->uid; break;
    case 'G': *out = j->gid; break;
    case 'y': *out = j->spec ? j->spec->nice : 0; break;
    case 'd': *out = j->spec ? (int64_t)j->spec->tmp_mib : 0; break;
    case 'm': *out = j->spec ? (int64_t)(j->spec->has_mem_per_cpu_mib ? j->spec->mem_per_cpu_mib : j->spec->mem_per_node_mib) : 0; break;
    case 'c': *out = j->spec ? j->spec->min_cpus_node : 0; break;
    default: return false;
    }
    return true;
}

static bool step_number(const Wire__StepInfo *s, char letter, int64_t *out)
{
    switch (letter) {
    case 'i': *out = (int64_t)id_of(s->job_id, 0, 0) + s->step_id; break;
    case 'A': *out = s->ntasks; break;
    case 'M': *out = s->run_s; break;
    case 'S': *out = s->start_wall_s; break;
    case 'l': *out = s->has_time_limit_min ? s->time_limit_min : MINUTES_UNLIMITED; break;
    case 'U': *out = s->uid; break;
    default: return false;
    }
    return true;
}

static void line_add(struct rows *r, int64_t start_s, uint64_t id, const void *row)
{
    struct row_key *keys;
    struct str text;

    if ((r->count & (r->count - 1)) == 0) {
        size_t room = r->count ? r->count * 2 : 64;

        if (!r->count || r->count >= 64) {
            r->lines = mem_grow(r->lines, room, sizeof *r->lines);
            r->keys = mem_grow(r->keys, room * (r->key_count + 1), sizeof *r->keys);
        }
    }
    str_init(&text);
    keys = r->keys + r->count * r->key_count;
    for (size_t i = 0; i < r->key_count; i++) {
        keys[i].text = NULL;
        if (r->of_steps ? step_number(((const struct step_row *)row)->step, r->letters[i], &keys[i].number)
                        : job_number(((const struct job_row *)row)->job, r->letters[i], r->down[i], &keys[i].number))
            continue;
        str_clear(&text);
        r->fields[i]->print(row, &text);
        keys[i].text = word_keep(r, text.text);
    }
    str_fini(&text);
    r->lines[r->count] = (struct row_line){ r->taken, r->text.len - r->taken, start_s, id, (uint32_t)r->count };
    r->count++;
    r->taken = r->text.len;
}

void rows_add_job(struct rows *r, const struct job_row *row)
{
    const Wire__JobInfo *j = row->job;

    line_add(r, j->start_wall_s, id_of(j->job_id, j->array_job_id, j->array_tasks && *j->array_tasks ? 0 : j->array_task_id), row);
}

void rows_add_step(struct rows *r, const struct step_row *row)
{
    line_add(r, row->step->start_wall_s, id_of(row->step->job_id, 0, 0) + row->step->step_id, row);
}

static const struct rows *sorting;      /* qsort has no argument of its own in C17 */

static int line_compare(const void *x, const void *y)
{
    const struct row_line *a = x, *b = y;
    const struct row_key *ka = sorting->keys + a->index * sorting->key_count, *kb = sorting->keys + b->index * sorting->key_count;

    for (size_t i = 0; i < sorting->key_count; i++) {
        int result = ka[i].text && kb[i].text ? (ka[i].text == kb[i].text ? 0 : strcmp(ka[i].text, kb[i].text))
                                              : ka[i].number < kb[i].number ? -1 : ka[i].number > kb[i].number;

        if (result)
            return sorting->down[i] ? -result : result;
        if (sorting->letters[i] == 'S' && !a->start_s && !b->start_s && a->id != b->id)
            return a->id < b->id ? -1 : 1;
    }
    if (a->start_s != b->start_s)
        return a->start_s > b->start_s ? -1 : 1;
    return a->id == b->id ? 0 : (a->id < b->id) == (a->start_s != 0) ? -1 : 1;
}

void rows_show(struct rows *r, FILE *out)
{
    sorting = r;
    if (r->count > 1)
        qsort(r->lines, r->count, sizeof *r->lines, line_compare);
    for (size_t i = 0; i < r->count; i++)
        fwrite(r->text.text + r->lines[i].at, 1, r->lines[i].size, out);
    str_clear(&r->text);
    r->count = r->taken = 0;
}

void rows_fini(struct rows *r)
{
    free(r->lines);
    free(r->keys);
    str_fini(&r->text);
    table_fini(&r->words);
    arena_fini(&r->arena);
}
