/* SPDX-License-Identifier: Apache-2.0 */
/* tres.c - texts of trackable resources: "gres:gpu:a100:4,gres:lustre:1", "gpu:2", "gres/gpu:a100=2" -> rows. Counts take K, M, G, T. */
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "state/private.h"

void tres_free(struct tres_row *rows, size_t count)
{
    for (size_t i = 0; rows && i < count; i++) {
        free(rows[i].name);
        free(rows[i].type);
    }
    free(rows);
}

/* "gpu", "gpu:4", "gpu:a100", "gpu:a100:4", "gpu=4", "gpu:a100=4" and all of them behind "gres:" or "gres/". */
static int row_parse(char *item, struct tres_row *row, struct spur_error *err)
{
    char *type, *count, *equal;

    if (word_starts(item, "gres:") || word_starts(item, "gres/"))
        item += 5;
    if (strchr(item, '('))
        *strchr(item, '(') = '\0';      /* "gpu:4(S:0-1)" */
    row->count = 1;
    equal = strchr(item, '=');
    if (equal) {
        *equal = '\0';
        if (count_parse(equal + 1, &row->count, err) < 0)
            return err ? err->code : SPUR_ESYNTAX;
    }
    type = strchr(item, ':');
    if (type)
        *type++ = '\0';
    if (!*item || (type && !*type))
        return spur_fail(err, SPUR_ESYNTAX, "generic resource without a name or a count");
    count = type ? strchr(type, ':') : NULL;
    if (count)
        *count++ = '\0';
    if (type && !count && !equal && type[0] >= '0' && type[0] <= '9') {
        count = type;
        type = NULL;
    }
    if (count && (equal || count_parse(count, &row->count, err) < 0))
        return spur_fail(err, SPUR_ESYNTAX, "\"%.60s\" is no count of %.60s", count, item);
    row->name = mem_copy(item);
    row->type = mem_copy(type);
    return 0;
}

int tres_parse(const char *text, struct tres_row **rows, size_t *count, struct spur_error *err)
{
    char *copy = mem_copy(text ? text : ""), *cursor = copy, *item;
    struct tres_row *list = NULL;
    size_t n = 0, room = 0;
    int rc = 0;

    while (rc == 0 && (item = word_next(&cursor, ","))) {
        item = word_trim(item);
        if (n == room)
            list = mem_grow(list, room = room ? 2 * room : 4, sizeof *list);
        list[n] = (struct tres_row){ 0 };
        rc = row_parse(item, &list[n], err);
        n += rc == 0;
    }
    free(copy);
    if (rc < 0) {
        tres_free(list, n);
        return rc;
    }
    *rows = list;
    *count = n;
    return 0;
}
