/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_words.c - any text as the words of a user's request: dependency, array, TRES, ids of jobs, constraint, names of output files, columns of squeue.
 *
 * The first byte chooses. What is refused says why; what is taken is within its limits.
 */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cmds/common/columns.h"
#include "fuzz.h"
#include "plan/features.h"
#include "state/apply.h"

#define ARRAY_MAX 1000u
#define TEXT_MOST  (1u << 20)

static void number(const void *row, struct str *out) { str_addf(out, "%d", *(const int *)row); }
static void name(const void *row, struct str *out) { (void)row; str_add(out, "n\xc3\xa4me\xff"); }
static const struct column_field fields[] = { { "JobID", 'i', "JOBID", 1, number }, { "Name", 'j', "NAME", 2, name }, { "NodeList", 0, "NODELIST", 4, name } };

static void columns(const char *text, bool by_name)
{
    struct columns c;
    struct spur_error err = { 0 };
    struct str scratch, out;
    int row = 4711;

    if ((by_name ? columns_parse_names : columns_parse)(text, fields, 3, &c, &err) < 0) {
        FUZZ_HOLDS(err.text[0]);
        return;
    }
    str_init(&scratch);
    str_init(&out);
    FUZZ_HOLDS(columns_needs(&c) < 8);
    for (size_t i = 0; i < c.count; i++)        /* a width is a number that a person wrote */
        if (c.list[i].width > TEXT_MOST / 64)
            goto out;
    columns_fit(&c, &row, &scratch);
    columns_heading(&c, &out);
    columns_row(&c, &row, &scratch, &out);
    FUZZ_HOLDS(out.len <= TEXT_MOST * 8 && strlen(out.text) == out.len);
out:
    columns_fini(&c);
    str_fini(&scratch);
    str_fini(&out);
}

static void path(const char *text)
{
    const struct path_ids ids = { .job_id = 7, .array_job_id = 5, .array_task_id = 3, .step_id = 1, .node_rank = 2, .task = 4, .user = "u", .job_name = "../x\ny", .node = "n1",
                                  .short_host = "h", .has_step = true, .has_task = true, .has_node = true };
    struct str out;

    str_init(&out);
    path_expand(text, "/work", &ids, &out);
    FUZZ_HOLDS(!out.len || strlen(out.text) == out.len);
    str_fini(&out);
}

static void features(const char *text)
{
    static struct state *s;
    struct features f;
    struct spur_error err = { 0 };

    if (!s)
        s = state_from_text("node n1 cpus 4; node n2 cpus 4; node n3 cpus 4; node n4 cpus 4");
    if (features_init(&f, s, text, &err) == 0)
        features_fini(&f);
    else
        FUZZ_HOLDS(err.text[0]);
}

int fuzz_one(const uint8_t *data, size_t size)
{
    struct spur_error err = { 0 };
    struct dep_term *terms;
    struct tres_row *rows;
    struct bitmap bits;
    uint32_t count, id;
    size_t n;
    bool any, has_tasks;
    char *text;

    if (!size)
        return 0;
    text = fuzz_text(data + 1, size - 1);
    switch (data[0] % 8) {
    case 0:
        if (dependency_parse(text, &terms, &count, &any, &err) == 0)
            dep_terms_free(terms, count);
        else
            FUZZ_HOLDS(err.text[0]);
        break;
    case 1:
        bitmap_init(&bits, 0);
        if (array_parse(text, ARRAY_MAX, &bits, &count, &err) == 0)
            FUZZ_HOLDS(bitmap_last(&bits) < ARRAY_MAX && !bitmap_empty(&bits));
        else
            FUZZ_HOLDS(err.text[0]);
        bitmap_fini(&bits);
        break;
    case 2:
        if (tres_parse(text, &rows, &n, &err) == 0)
            tres_free(rows, n);
        else
            FUZZ_HOLDS(err.text[0]);
        break;
    case 3:
        bitmap_init(&bits, 0);
        if (job_id_parse(text, &id, &bits, &has_tasks, &err) < 0)
            FUZZ_HOLDS(err.text[0]);
        bitmap_fini(&bits);
        break;
    case 4: features(text); break;
    case 5: path(text); break;
    case 6: columns(text, false); break;
    default: columns(text, true); break;
    }
    free(text);
    return 0;
}
