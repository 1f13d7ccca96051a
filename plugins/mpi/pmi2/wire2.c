/* SPDX-License-Identifier: Apache-2.0 */
/* wire2.c - PMI-2: "%6d" bytes of "cmd=NAME;key=value;", a ';' in a value is written twice. Requests of several threads carry thrid, and the answer too. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inside.h"

#define ANSWER_MAX (4 * KVS_VALUE_MAX + 512)

struct pairs { struct { const char *name, *value; } at[32]; size_t count; };

/* Cuts the text in place. */
static struct pairs cut(char *text)
{
    struct pairs w = { .count = 0 };

    while (*text && w.count < 32) {
        char *eq = strchr(text, '='), *to, *from;

        if (!eq)
            break;
        *eq = '\0';
        w.at[w.count].name = text;
        w.at[w.count++].value = to = from = eq + 1;
        while (*from && (from[0] != ';' || from[1] == ';')) {
            if (*from == ';')
                from++;
            *to++ = *from++;
        }
        text = *from ? from + 1 : from;
        *to = '\0';
    }
    return w;
}

static const char *pair(const struct pairs *w, const char *name)
{
    for (size_t i = 0; i < w->count; i++)
        if (!strcmp(w->at[i].name, name))
            return w->at[i].value;
    return NULL;
}

/* Adds name=value; with the value's semicolons doubled: a thread's name and a reason hold some, too. */
static size_t add(char *text, size_t at, const char *name, const char *value, size_t longest)
{
    at += (size_t)snprintf(text + at, ANSWER_MAX - at, "%s=", name);
    for (; *value && longest-- && at < ANSWER_MAX - 2; value++) {
        if (*value == ';')
            text[at++] = ';';
        text[at++] = *value;
    }
    text[at++] = ';';
    return at;
}

/* `format` makes further "name=value;" without semicolons in their values. */
static void answer(struct pmi *p, struct rank *r, const char *cmd, const char *thread, int rc, const char *value, const char *format, ...) __attribute__((format(printf, 7, 8)));
static void answer(struct pmi *p, struct rank *r, const char *cmd, const char *thread, int rc, const char *value, const char *format, ...)
{
    char text[ANSWER_MAX + 8], number[8];
    size_t at = 6;
    va_list args;

    at += (size_t)snprintf(text + at, ANSWER_MAX - at, "cmd=%s-response;", cmd);
    if (thread && *thread)
        at = add(text, at, "thrid", thread, 31);
    at += (size_t)snprintf(text + at, ANSWER_MAX - at, "rc=%d;", rc);
    va_start(args, format);
    at += (size_t)vsnprintf(text + at, ANSWER_MAX - at, format, args);
    va_end(args);
    if (value)
        at = add(text, at, rc ? "errmsg" : "value", value, SIZE_MAX);
    snprintf(number, sizeof number, "%6u", (unsigned)(at - 6) % 1000000u);
    memcpy(text, number, 6);
    rank_say(p, r, text, at);
}

static void refuse(struct pmi *p, struct rank *r, const char *cmd, const char *thread, int rc, const char *why)
{
    answer(p, r, cmd, thread, rc, why, "%s", "");
}

static void do_put(struct pmi *p, struct rank *r, const struct pairs *w, const char *thread)
{
    const char *key = pair(w, "key"), *value = pair(w, "value");
    int rc = key && value ? rank_put(p, key, value) : SPUR_EINVAL;

    if (rc < 0)
        refuse(p, r, "kvs-put", thread, 1, rc == SPUR_EINVAL ? "a key has 1 to 64 bytes, and a value at most 1024" : "out of memory");
    else
        answer(p, r, "kvs-put", thread, 0, NULL, "%s", "");
}

static void do_get(struct pmi *p, struct rank *r, const struct pairs *w, const char *thread)
{
    const char *key = pair(w, "key"), *job = pair(w, "jobid"), *value = NULL;

    if (key && (!job || !*job || !strcmp(job, p->job)))
        value = kvs_get(&p->kvs, key);
    answer(p, r, "kvs-get", thread, 0, value, "found=%s;", value ? "TRUE" : "FALSE");
}

/* ---- attributes of the node and of the job ---- */

static void say_attribute(struct pmi *p, struct rank *r, const char *thread, const char *value)
{
    answer(p, r, "info-getnodeattr", thread, 0, value, "found=%s;", value ? "TRUE" : "FALSE");
}

void wire2_attribute(struct pmi *p, const char *key)
{
    const char *value = kvs_get(&p->node, key);

    for (struct waiting **at = &p->waiting, *q; (q = *at); ) {
        if (strcmp(q->key, key)) {
            at = &q->next;
            continue;
        }
        *at = q->next;
        if (p->ranks[q->local].fd >= 0)
            say_attribute(p, &p->ranks[q->local], q->thread, value);
        free(q);
    }
}

static void do_put_attribute(struct pmi *p, struct rank *r, const struct pairs *w, const char *thread)
{
    const char *key = pair(w, "key"), *value = pair(w, "value");

    if (!key || !value || !*key || strlen(key) > KVS_KEY_MAX || strlen(value) > KVS_VALUE_MAX || kvs_put(&p->node, key, value) < 0) {
        refuse(p, r, "info-putnodeattr", thread, 1, "a key has 1 to 64 bytes, and a value at most 1024");
        return;
    }
    answer(p, r, "info-putnodeattr", thread, 0, NULL, "%s", "");
    wire2_attribute(p, key);
}

static void do_get_attribute(struct pmi *p, struct rank *r, const struct pairs *w, const char *thread)
{
    const char *key = pair(w, "key"), *wait = pair(w, "wait"), *value = key ? kvs_get(&p->node, key) : NULL;
    struct waiting *q;

    if (!value && key && wait && (!strcmp(wait, "TRUE") || !strcmp(wait, "1")) && (q = calloc(1, sizeof *q))) {
        struct waiting **end = &p->waiting;

        q->local = rank_local(p, r);
        snprintf(q->thread, sizeof q->thread, "%s", thread ? thread : "");
        snprintf(q->key, sizeof q->key, "%s", key);
        while (*end)
            end = &(*end)->next;
        *end = q;
        return;
    }
    say_attribute(p, r, thread, value);
}

static void do_job_attribute(struct pmi *p, struct rank *r, const struct pairs *w, const char *thread)
{
    const char *key = pair(w, "key"), *value = NULL;
    char number[16];

    if (key && !strcmp(key, "PMI_process_mapping")) {
        value = p->mapping[0] ? p->mapping : NULL;
    } else if (key && !strcmp(key, "universeSize")) {
        snprintf(number, sizeof number, "%u", p->step->ntasks);
        value = number;
    } else if (key && !strcmp(key, "hasNameServ")) {
        value = "TRUE";
    }
    answer(p, r, "info-getjobattr", thread, 0, value, "found=%s;", value ? "TRUE" : "FALSE");
}

/* ---- the rest ---- */

static const char *name_command(char op) { return op == 'P' ? "name-publish" : op == 'U' ? "name-unpublish" : "name-lookup"; }

void wire2_named(struct pmi *p, struct rank *r, char op, const char *thread, bool found, const char *port)
{
    if (!found)
        refuse(p, r, name_command(op), thread, 1, op == 'P' ? "the name is published already" : "the name is not published");
    else
        answer(p, r, name_command(op), thread, 0, op == 'L' ? port : NULL, "%s", "");
}

static void do_name(struct pmi *p, struct rank *r, const struct pairs *w, const char *thread, char op)
{
    const char *service = pair(w, "name"), *port = pair(w, "port");

    if (!service || !*service || strlen(service) >= KVS_NAME_MAX || (op == 'P' && (!port || strlen(port) >= KVS_VALUE_MAX)))
        refuse(p, r, name_command(op), thread, 1, "a name has 1 to 255 bytes, and a port at most 1023");
    else
        names_ask(p, r, op, thread ? thread : "", service, port ? port : "");
}

void wire2_fenced(struct pmi *p, struct rank *r, const char *fault)
{
    if (fault)
        refuse(p, r, "kvs-fence", r->fence_thread, 1, fault);
    else
        answer(p, r, "kvs-fence", r->fence_thread, 0, NULL, "%s", "");
}

int wire2_take(struct pmi *p, struct rank *r, char *body)
{
    struct pairs w = cut(body);
    const char *cmd = pair(&w, "cmd"), *thread = pair(&w, "thrid");

    if (!cmd)
        return SPUR_EINVAL;
    if (!strcmp(cmd, "fullinit"))
        answer(p, r, "fullinit", thread, 0, NULL, "pmi-version=2;pmi-subversion=0;rank=%u;size=%u;appnum=0;debugged=FALSE;pmiverbose=FALSE;", r->global, p->step->ntasks);
    else if (!strcmp(cmd, "job-getid"))
        answer(p, r, "job-getid", thread, 0, NULL, "jobid=%s;", p->job);
    else if (!strcmp(cmd, "kvs-put"))
        do_put(p, r, &w, thread);
    else if (!strcmp(cmd, "kvs-get"))
        do_get(p, r, &w, thread);
    else if (!strcmp(cmd, "kvs-fence")) {
        snprintf(r->fence_thread, sizeof r->fence_thread, "%s", thread ? thread : "");
        rank_fence(p, r);
    } else if (!strcmp(cmd, "info-putnodeattr"))
        do_put_attribute(p, r, &w, thread);
    else if (!strcmp(cmd, "info-getnodeattr"))
        do_get_attribute(p, r, &w, thread);
    else if (!strcmp(cmd, "info-getjobattr"))
        do_job_attribute(p, r, &w, thread);
    else if (!strcmp(cmd, "name-publish"))
        do_name(p, r, &w, thread, 'P');
    else if (!strcmp(cmd, "name-unpublish"))
        do_name(p, r, &w, thread, 'U');
    else if (!strcmp(cmd, "name-lookup"))
        do_name(p, r, &w, thread, 'L');
    else if (!strcmp(cmd, "spawn"))
        refuse(p, r, "spawn", thread, 1, "a step has the size it was started with: ranks cannot be added");
    else if (!strcmp(cmd, "job-connect") || !strcmp(cmd, "job-disconnect"))
        refuse(p, r, cmd, thread, 1, "jobs cannot be joined");
    else if (!strcmp(cmd, "abort")) {
        const char *text = pair(&w, "msg");

        rank_abort(p, r, 0, text && *text ? text : "MPI_Abort");
    } else if (!strcmp(cmd, "finalize")) {
        r->finalized = true;
        answer(p, r, "finalize", thread, 0, NULL, "%s", "");
    } else
        return SPUR_EINVAL;
    return 0;
}
