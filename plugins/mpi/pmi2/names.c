/* SPDX-License-Identifier: Apache-2.0 */
/* names.c - MPI_Publish_name and its like within one step: the server of node 0 has the table, the others ask it.
 *
 * A question is op, the asker's local number (4 bytes, low first) and three texts with their NULs: thread, service, port. The answer is the same with the op in
 * lower case and '1' or '0' in place of the service.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inside.h"

#define MESSAGE_MAX (5 + 32 + KVS_NAME_MAX + KVS_VALUE_MAX + 8)

static bool do_op(struct pmi *p, char op, const char *service, const char *port, const char **found)
{
    *found = kvs_get(&p->names, service);
    if (op == 'P')
        return !*found && kvs_put(&p->names, service, port) == 0;
    if (!*found)
        return false;
    if (op == 'U') {
        kvs_drop(&p->names, service);
        *found = NULL;
    }
    return true;
}

static void answer(struct pmi *p, struct rank *r, char op, const char *thread, bool fine, const char *port)
{
    if (r->wire == WIRE_PMI2)
        wire2_named(p, r, op, thread, fine, port);
    else
        wire1_named(p, r, op, fine, port);
}

static size_t pack(char out[MESSAGE_MAX], char op, uint32_t local, const char *thread, const char *service, const char *port)
{
    int n;

    out[0] = op;
    for (int i = 0; i < 4; i++)
        out[1 + i] = (char)(local >> 8 * i);
    n = snprintf(out + 5, MESSAGE_MAX - 5, "%.31s%c%.255s%c%.1023s", thread, 0, service, 0, port);
    return n < 0 ? 0 : 5 + (size_t)n + 1;
}

void names_ask(struct pmi *p, struct rank *r, char op, const char *thread, const char *service, const char *port)
{
    struct spur_error err = { 0 };
    char out[MESSAGE_MAX];
    const char *found = NULL;

    if (p->step->node_rank == 0) {
        bool fine = do_op(p, op, service, port, &found);

        answer(p, r, op, thread, fine, found && op == 'L' ? found : "");
    } else if (p->lost[0] || p->step->send(p->step->ctx, 0, out, pack(out, op, rank_local(p, r), thread, service, port), &err) < 0) {
        answer(p, r, op, thread, false, "");
    }
}

void names_received(struct pmi *p, uint32_t from, const void *data, size_t len)
{
    struct spur_error err = { 0 };
    const char *text = data, *parts[3], *found = NULL;
    size_t at = 5;
    uint32_t local = 0;
    char op, out[MESSAGE_MAX];

    if (len < 8 || text[len - 1])
        return;
    op = text[0];
    for (int i = 0; i < 4; i++)
        local |= (uint32_t)(unsigned char)text[1 + i] << 8 * i;
    for (int i = 0; i < 3; i++) {
        if (at >= len)
            return;
        parts[i] = text + at;
        at += strlen(parts[i]) + 1;
    }
    if (op == 'P' || op == 'U' || op == 'L') {
        bool fine = do_op(p, op, parts[1], parts[2], &found);

        p->step->send(p->step->ctx, from, out, pack(out, (char)(op + 'a' - 'A'), local, parts[0], fine ? "1" : "0", found && op == 'L' ? found : ""), &err);
    } else if ((op == 'p' || op == 'u' || op == 'l') && local < p->count) {
        answer(p, &p->ranks[local], (char)(op - 'a' + 'A'), parts[0], parts[1][0] == '1', parts[2]);
    }
}
