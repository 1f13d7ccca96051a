/* SPDX-License-Identifier: Apache-2.0 */
/* hosts.c - the text of hosts that joined, and of tokens that are out: changed line by line.
 *
 * What the lines mean is the controller's (controller/joins.c) and the auth plugin's. Here counts only that two changes which were decided beside each
 * other never both take the same line: who drops a line that is gone, changes nothing. So a token that two bring at once is good for one of them.
 */
#include <stdlib.h>
#include <string.h>

#include "state/private.h"

#define HOSTS_MAX (16u << 20)

static const char *line_end(const char *line) { return line + strcspn(line, "\n") + (line[strcspn(line, "\n")] == '\n'); }

static const char *line_find(const char *text, const char *line)
{
    size_t n = strlen(line);

    for (; *text; text = line_end(text))
        if (strcspn(text, "\n") == n && memcmp(text, line, n) == 0)
            return text;
    return NULL;
}

static bool is_line(const char *text) { return *text && !strpbrk(text, "\n\r#") && strlen(text) < 500; }

void op_hosts(struct doing *d, const Wire__OpHosts *o)
{
    struct state *s = d->s;
    const char *old = s->config && s->config->hosts_text ? s->config->hosts_text : "";
    struct str text;

    if (!s->config) {
        refuse(d, SPUR_EINVAL, 0, "there is no configuration yet");
        return;
    }
    for (size_t i = 0; i < o->n_drop; i++)
        if (!line_find(old, o->drop[i])) {
            refuse(d, SPUR_ESTALE, 0, "what the cluster knows of this host has changed meanwhile: a token that was used, or another change; look at `spur host list`");
            return;
        }
    for (size_t i = 0; i < o->n_add; i++)
        if (!is_line(o->add[i])) {
            refuse(d, SPUR_EINVAL, 0, "that is no line about a host");
            return;
        }
    str_init(&text);
    for (const char *line = old; *line; line = line_end(line)) {
        size_t n = strcspn(line, "\n");
        bool is_dropped = false;

        for (size_t i = 0; i < o->n_drop && !is_dropped; i++)
            is_dropped = strlen(o->drop[i]) == n && memcmp(o->drop[i], line, n) == 0;
        if (!is_dropped && n)
            str_addf(&text, "%.*s\n", (int)n, line);
    }
    for (size_t i = 0; i < o->n_add; i++)
        if (!line_find(text.text ? text.text : "", o->add[i]))
            str_addf(&text, "%s\n", o->add[i]);
    if (text.len > HOSTS_MAX) {
        refuse(d, SPUR_ELIMIT, 0, "the text of hosts would have %zu bytes, the limit is %u: revoke what is old", text.len, HOSTS_MAX);
        str_fini(&text);
        return;
    }
    free(s->config->hosts_text);
    s->config->hosts_text = text.len ? mem_copy(text.text) : NULL;
    str_fini(&text);
    tell(d, EV_HOSTS_CHANGED, NULL);
}
