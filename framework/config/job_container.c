/* SPDX-License-Identifier: Apache-2.0 */
/* job_container.c - reads job_container.conf. Keys that would run a program of the site inside a job's namespace at other moments than this version
 * does are refused, not passed over: who sets them counts on them. */
#include "config/job_container.h"

#include <stdlib.h>
#include <string.h>

#include "base/hostlist.h"
#include "base/str.h"
#include "config/lex.h"
#include "config/value.h"

static bool names_node(const char *list, const char *node)
{
    struct hostlist *h = NULL;
    bool found = word_eq(list, "ALL") || (hostlist_parse(list, &h, NULL) == 0 && hostlist_find(h, node) >= 0);

    hostlist_destroy(h);
    return found;
}

static void text_take(char **to, const char *value)
{
    free(*to);
    *to = mem_copy(value);
}

static int pair_take(struct config_job_container *c, const struct lex_pair *p, struct spur_error *err)
{
    int yes = 0;

    if (word_eq(p->key, "BasePath") || word_eq(p->key, "InitScript")) {
        bool is_base = word_eq(p->key, "BasePath");

        if (is_base && word_eq(p->value, "none")) {         /* the way to say: not on these nodes */
            free(c->base_path);
            c->base_path = NULL;
            return 0;
        }
        if (*p->value != '/')
            return spur_fail(err, SPUR_EINVAL, "%s=%.80s is not an absolute path", p->key, p->value);
        text_take(is_base ? &c->base_path : &c->init_script, p->value);
    } else if (word_eq(p->key, "Dirs")) {
        for (const char *at = p->value; *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ','))
            if (*at != '/')
                return spur_fail(err, SPUR_EINVAL, "Dirs=%.80s: not a list of absolute paths", p->value);
        text_take(&c->dirs, p->value);
    } else if (word_eq(p->key, "AutoBasePath") || word_eq(p->key, "Shared")) {
        if ((yes = value_bool(p->value)) < 0)
            return spur_fail(err, SPUR_EINVAL, "%s=%.80s is neither true nor false", p->key, p->value);
        *(word_eq(p->key, "Shared") ? &c->shared : &c->auto_base) = yes;
    } else if (word_eq(p->key, "EntireStepInNS")) {
        if (value_bool(p->value) != 0)
            return spur_fail(err, SPUR_EUNSUPPORTED, "EntireStepInNS=%.20s: the supervisor of a step stays outside; leave it out", p->value);
    } else if (word_starts(p->key, "CloneNS")) {
        return spur_fail(err, SPUR_EUNSUPPORTED, "%.40s is not run by this version: InitScript is, in the namespace of each step", p->key);
    } else {
        return spur_fail(err, SPUR_EINVAL, "unknown keyword \"%.60s\"", p->key);
    }
    return 0;
}

int job_container_parse(const char *text, const char *node, struct config_job_container *out, struct spur_error *err)
{
    struct lex lex;
    int rc;

    *out = (struct config_job_container){ .dirs = mem_copy("/tmp,/dev/shm") };
    lex_init(&lex, text, "job_container.conf", 1);
    while ((rc = lex_line(&lex, err)) > 0) {
        char *cursor = lex.buf.text;
        struct lex_pair p;
        bool mine = true;

        while (mine && (rc = lex_pair(&cursor, &p)) > 0) {
            if (word_eq(p.key, "NodeName"))
                mine = names_node(p.value, node);
            else if ((rc = pair_take(out, &p, err)) < 0)
                break;
        }
        if (rc < 0) {
            if (rc == SPUR_ESYNTAX && !err->code)
                spur_fail(err, rc, "cannot read \"%.60s\": expected KEY=VALUE", cursor);
            rc = spur_context(err, "job_container.conf line %u", lex.line);
            break;
        }
    }
    lex_fini(&lex);
    if (rc < 0)
        job_container_fini(out);
    return rc;
}

void job_container_fini(struct config_job_container *c)
{
    free(c->base_path);
    free(c->init_script);
    free(c->dirs);
    *c = (struct config_job_container){ 0 };
}
