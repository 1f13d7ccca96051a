/* SPDX-License-Identifier: Apache-2.0 */
/* wire1.c - PMI-1: one line a request, blanks between NAME=value, answered by one line. As MPICH's simple PMI client speaks it. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inside.h"

static void say(struct pmi *p, struct rank *r, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void say(struct pmi *p, struct rank *r, const char *format, ...)
{
    char line[2 * KVS_VALUE_MAX + 512];
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    if (n < 0 || n >= (int)sizeof line - 1)
        return;
    for (char *c = line; (c = strchr(c, '\n')); )       /* of a value that came by PMI-2, or of a reason: it would begin a second answer */
        *c = ' ';
    line[n] = '\n';
    rank_say(p, r, line, (size_t)n + 1);
}

/* The value of NAME in a line that was cut at its blanks; the last one may hold blanks itself (`tail`), as a value that is put. */
struct words { char *at[24]; size_t count; };

static struct words cut(char *line)
{
    struct words w = { .count = 0 };

    while (*line && w.count < 24) {
        line += strspn(line, " \t\r");
        if (!*line)
            break;
        w.at[w.count++] = line;
        if (!strncmp(line, "value=", 6) || !strncmp(line, "val=", 4) || !strncmp(line, "port=", 5)) {
            line[strcspn(line, "\r")] = '\0';
            break;
        }
        line += strcspn(line, " \t\r");
        if (*line)
            *line++ = '\0';
    }
    return w;
}

static const char *word(const struct words *w, const char *name)
{
    size_t n = strlen(name);

    for (size_t i = 0; i < w->count; i++)
        if (!strncmp(w->at[i], name, n) && w->at[i][n] == '=')
            return w->at[i] + n + 1;
    return NULL;
}

static bool is_ours(const struct pmi *p, const struct words *w)
{
    const char *name = word(w, "kvsname");

    return !name || !strcmp(name, p->job);
}

static void do_put(struct pmi *p, struct rank *r, const struct words *w)
{
    const char *key = word(w, "key"), *value = word(w, "value");
    int rc;

    if (!is_ours(p, w))
        say(p, r, "cmd=put_result rc=-1 msg=kvs_%.200s_unknown", word(w, "kvsname"));
    else if (!key || !value || (rc = rank_put(p, key, value)) == SPUR_EINVAL)
        say(p, r, "cmd=put_result rc=-1 msg=a_key_has_1_to_%d_bytes_and_a_value_at_most_%d", KVS_KEY_MAX, KVS_VALUE_MAX);
    else
        say(p, r, "cmd=put_result rc=%d msg=%s", rc < 0 ? -1 : 0, rc < 0 ? "out_of_memory" : "success");
}

static void do_get(struct pmi *p, struct rank *r, const struct words *w)
{
    const char *key = word(w, "key"), *value = key && is_ours(p, w) ? kvs_get(&p->kvs, key) : NULL;

    if (value)
        say(p, r, "cmd=get_result rc=0 msg=success value=%s", value);
    else
        say(p, r, "cmd=get_result rc=-1 msg=key_%.100s_not_found value=unknown", key ? key : "");
}

static void do_get_by_index(struct pmi *p, struct rank *r, const struct words *w)
{
    const char *text = word(w, "idx");
    size_t at = text ? (size_t)strtoul(text, NULL, 10) : 0;
    const struct kvs_entry *e = is_ours(p, w) ? kvs_at(&p->kvs, &at) : NULL;

    if (e)
        say(p, r, "cmd=getbyidx_results rc=0 nextidx=%zu key=%s val=%s", at + 1, e->key, e->value);
    else
        say(p, r, "cmd=getbyidx_results rc=-2 reason=no_more_keyvals");
}

static void do_name(struct pmi *p, struct rank *r, const struct words *w, char op)
{
    const char *service = word(w, "service"), *port = word(w, "port");

    if (!service || !*service || strlen(service) >= KVS_NAME_MAX || (op == 'P' && (!port || strlen(port) >= KVS_VALUE_MAX)))
        wire1_named(p, r, op, false, "");
    else
        names_ask(p, r, op, "", service, port ? port : "");
}

void wire1_named(struct pmi *p, struct rank *r, char op, bool found, const char *port)
{
    if (op == 'P')
        say(p, r, "cmd=publish_result rc=%d info=%s msg=%s", found ? 0 : -1, found ? "ok" : "failed", found ? "success" : "name_is_published_already");
    else if (op == 'U')
        say(p, r, "cmd=unpublish_result rc=%d info=%s msg=%s", found ? 0 : -1, found ? "ok" : "failed", found ? "success" : "name_is_not_published");
    else if (found)
        say(p, r, "cmd=lookup_result rc=0 info=ok port=%s", port);
    else
        say(p, r, "cmd=lookup_result rc=-1 info=failed msg=name_is_not_published");
}

void wire1_fenced(struct pmi *p, struct rank *r, const char *fault)
{
    if (!fault) {
        say(p, r, "cmd=barrier_out rc=0");
    } else {
        char one[120];

        snprintf(one, sizeof one, "%s", fault);
        for (char *c = one; *c; c++)
            if (*c == ' ')
                *c = '_';
        say(p, r, "cmd=barrier_out rc=-1 msg=%s", one);
    }
}

static int do_init(struct pmi *p, struct rank *r, const struct words *w)
{
    const char *version = word(w, "pmi_version");

    if (!version || (strcmp(version, "1") && strcmp(version, "2"))) {
        say(p, r, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1");
        return 0;
    }
    r->wire = version[0] == '2' ? WIRE_PMI2 : WIRE_PMI1;
    r->joined = true;
    say(p, r, "cmd=response_to_init pmi_version=%s pmi_subversion=%d rc=0", version, r->wire == WIRE_PMI1 ? 1 : 0);
    return 0;
}

static void do_abort(struct pmi *p, struct rank *r, const struct words *w)
{
    const char *code = word(w, "exitcode");
    char text[80];
    int exit_code = code ? atoi(code) : 1;

    snprintf(text, sizeof text, "MPI_Abort with exit code %d", exit_code);
    rank_abort(p, r, exit_code, text);
}

int wire1_take(struct pmi *p, struct rank *r, char *line)
{
    struct words w;
    const char *cmd;

    if (r->in_spawn) {                  /* lines up to "endcmd"; the last command of several says so in totspawns, and one answer is due */
        if (!strcmp(line, "endcmd")) {
            r->in_spawn = false;
            say(p, r, "cmd=spawn_result rc=-1 msg=a_step_has_the_size_it_was_started_with,_ranks_cannot_be_added");
        }
        return 0;
    }
    if (!strcmp(line, "mcmd=spawn")) {
        r->in_spawn = true;
        return 0;
    }
    w = cut(line);
    if (!(cmd = word(&w, "cmd")))
        return SPUR_EINVAL;
    if (!strcmp(cmd, "init"))
        return do_init(p, r, &w);
    if (!r->joined)
        return SPUR_EINVAL;
    if (!strcmp(cmd, "get_maxes"))
        say(p, r, "cmd=maxes kvsname_max=%d keylen_max=%d vallen_max=%d rc=0", KVS_NAME_MAX, KVS_KEY_MAX, KVS_VALUE_MAX);
    else if (!strcmp(cmd, "get_appnum"))
        say(p, r, "cmd=appnum appnum=0 rc=0");
    else if (!strcmp(cmd, "get_my_kvsname"))
        say(p, r, "cmd=my_kvsname kvsname=%s rc=0", p->job);
    else if (!strcmp(cmd, "get_universe_size"))
        say(p, r, "cmd=universe_size size=%u rc=0", p->step->ntasks);
    else if (!strcmp(cmd, "put"))
        do_put(p, r, &w);
    else if (!strcmp(cmd, "get"))
        do_get(p, r, &w);
    else if (!strcmp(cmd, "getbyidx"))
        do_get_by_index(p, r, &w);
    else if (!strcmp(cmd, "barrier_in"))
        rank_fence(p, r);
    else if (!strcmp(cmd, "publish_name"))
        do_name(p, r, &w, 'P');
    else if (!strcmp(cmd, "unpublish_name"))
        do_name(p, r, &w, 'U');
    else if (!strcmp(cmd, "lookup_name"))
        do_name(p, r, &w, 'L');
    else if (!strcmp(cmd, "create_kvs"))
        say(p, r, "cmd=newkvs rc=-1 msg=a_step_has_one_kvs");
    else if (!strcmp(cmd, "destroy_kvs"))
        say(p, r, "cmd=kvs_destroyed rc=-1 msg=a_step_has_one_kvs");
    else if (!strcmp(cmd, "abort"))
        do_abort(p, r, &w);
    else if (!strcmp(cmd, "finalize")) {
        r->finalized = true;
        say(p, r, "cmd=finalize_ack rc=0");
    } else
        return SPUR_EINVAL;
    return 0;
}
