/* SPDX-License-Identifier: Apache-2.0 */
/* features.c - reads "a&b", "a|b", "(a|b)&c", "!a" and "[r1|r2]" into sets of nodes.
 *
 * "&", "," and "|" have equal rank and are taken from left to right, as Slurm does: "a|b&c" is "(a|b)&c". Parentheses group, "!" turns what follows
 * around. Brackets stand for the whole expression or for one "&" term of it: each alternative inside is a set of its own, and the
 * caller tries one after the other, so that no job is spread over two of them. "a*2" and "[a*2&b*4]" ask for
 * counts of nodes by feature; no select plugin can be asked for that yet, so they are read and refused in words.
 * A name that no node has is an error here: the job could never start, and most often it is a slip of the pen.
 */
#include "plan/features.h"

#include <ctype.h>
#include <string.h>

#include "plan/plan.h"

#define FEATURES_DEPTH 16
#define FEATURES_NAME_MAX 128

struct reader {
    const struct state *state;
    const char *text, *at;      /* whole expression, for messages, and the place reached */
    struct spur_error *err;
    unsigned depth;
    bool     bracket_seen;
    struct bitmap choices[FEATURES_CHOICES_MAX]; uint32_t choice_count;     /* of the bracket */
};

static bool is_name(char c)
{
    return isalnum((unsigned char)c) || (c && strchr("_-.:=/+@%~", c)) || (unsigned char)c >= 0x80;
}

static void skip_blanks(struct reader *r)
{
    while (*r->at == ' ' || *r->at == '\t')
        r->at++;
}

static int refuse(struct reader *r, const char *why)
{
    return spur_fail(r->err, SPUR_ESYNTAX, "constraint \"%.80s\": %s at \"%.40s\"", r->text, why, *r->at ? r->at : "its end");
}

static bool list_has(const char *list, const char *name, size_t n)
{
    while (list && *list) {
        size_t len = strcspn(list, ",");

        if (len == n && memcmp(list, name, n) == 0)
            return true;
        list += len + (list[len] == ',');
    }
    return false;
}

static int read_name(struct reader *r, struct bitmap *out)
{
    const char *name = r->at;
    size_t n = 0;
    bool found = false;

    while (is_name(name[n]))
        n++;
    if (n == 0)
        return refuse(r, "a feature name is missing");
    if (n > FEATURES_NAME_MAX)
        return refuse(r, "a feature name is longer than 128 characters");
    r->at += n;
    for (uint32_t i = 0; i < r->state->node_count; i++) {
        const struct node *node = &r->state->nodes[i];

        if (list_has(node->features ? node->features : node->conf->features, name, n)) {
            bitmap_set(out, i);
            found = true;
        }
    }
    if (!found)
        return spur_fail(r->err, SPUR_ENOTFOUND, "constraint \"%.80s\": no node has the feature %.*s", r->text, (int)n, name);
    return 0;
}

static int read_expression(struct reader *r, struct bitmap *out, char closing);

static int read_term(struct reader *r, struct bitmap *out)
{
    bool negate = false;
    int rc;

    skip_blanks(r);
    while (*r->at == '!') {
        negate = !negate;
        r->at++;
        skip_blanks(r);
    }
    if (*r->at == '(') {
        if (++r->depth > FEATURES_DEPTH)
            return refuse(r, "parentheses are nested too deeply (16 levels at most)");
        r->at++;
        rc = read_expression(r, out, ')');
        r->depth--;
    } else {
        rc = read_name(r, out);
    }
    if (rc < 0)
        return rc;
    skip_blanks(r);
    if (*r->at == '*')
        return spur_fail(r->err, SPUR_EUNSUPPORTED, "constraint \"%.80s\": counts of nodes by feature (name*count) are not supported yet; "
                         "submit one job for each kind of node or use a|b", r->text);
    if (negate) {
        struct bitmap all;

        bitmap_init(&all, out->bits);
        bitmap_fill(&all);
        bitmap_and_not(&all, out);
        bitmap_copy(out, &all);
        bitmap_fini(&all);
    }
    return 0;
}

/* "[a|b|(c&d)]": the alternatives go into r->choices; `out` gets their union. */
static int read_bracket(struct reader *r, struct bitmap *out)
{
    int rc;

    if (r->bracket_seen)
        return refuse(r, "there may be one pair of brackets only");
    if (r->depth)
        return refuse(r, "brackets may not stand inside parentheses");
    r->bracket_seen = true;
    r->at++;
    for (;;) {
        struct bitmap *b;

        if (r->choice_count == FEATURES_CHOICES_MAX)
            return refuse(r, "more than 32 alternatives in brackets");
        b = &r->choices[r->choice_count++];
        bitmap_init(b, out->bits);
        if ((rc = read_term(r, b)) < 0)
            return rc;
        bitmap_or(out, b);
        skip_blanks(r);
        if (*r->at == ']') {
            r->at++;
            return 0;
        }
        if (*r->at == '&')
            return refuse(r, "\"&\" in brackets needs a count behind each name, and counts are not supported yet,");
        if (*r->at != '|')
            return refuse(r, "expected \"|\" or \"]\"");
        r->at++;
    }
}

static int read_expression(struct reader *r, struct bitmap *out, char closing)
{
    struct bitmap term;
    char op = '|';
    int rc = 0;

    bitmap_init(&term, out->bits);
    for (;;) {
        bool is_bracket;

        bitmap_zero(&term);
        skip_blanks(r);
        is_bracket = *r->at == '[';
        if (is_bracket && op == '|' && !bitmap_empty(out)) {
            rc = refuse(r, "brackets may be joined by \"&\" only");
            break;
        }
        if ((rc = is_bracket ? read_bracket(r, &term) : read_term(r, &term)) < 0)
            break;
        if (op == '|')
            bitmap_or(out, &term);
        else
            bitmap_and(out, &term);
        skip_blanks(r);
        if (*r->at == closing) {
            r->at += closing != '\0';
            break;
        }
        op = *r->at == ',' ? '&' : *r->at;
        if (op != '&' && op != '|') {
            rc = refuse(r, "expected \"&\" or \"|\"");
            break;
        }
        if (is_bracket && op == '|') {
            rc = refuse(r, "brackets may be joined by \"&\" only");
            break;
        }
        r->at++;
    }
    bitmap_fini(&term);
    return rc;
}

int features_init(struct features *f, const struct state *s, const char *expression, struct spur_error *err)
{
    struct reader r = { .state = s, .text = expression ? expression : "", .err = err };
    int rc = 0;

    memset(f, 0, sizeof *f);
    bitmap_init(&f->choice[0], s->node_count);
    f->count = 1;
    r.at = r.text;
    skip_blanks(&r);
    if (!*r.at) {
        bitmap_fill(&f->choice[0]);
        return 0;
    }
    if ((rc = read_expression(&r, &f->choice[0], '\0')) < 0)
        goto out;
    /* One set an alternative: what the whole expression allows, cut down to that alternative. */
    for (uint32_t i = r.choice_count; i-- > 0; ) {
        if (i > 0) {
            bitmap_init(&f->choice[i], s->node_count);
            bitmap_copy(&f->choice[i], &f->choice[0]);
        }
        bitmap_and(&f->choice[i], &r.choices[i]);
    }
    if (r.choice_count)
        f->count = r.choice_count;
out:
    for (uint32_t i = 0; i < r.choice_count; i++)
        bitmap_fini(&r.choices[i]);
    if (rc < 0)
        features_fini(f);
    return rc;
}

void features_fini(struct features *f)
{
    for (uint32_t i = 0; i < f->count; i++)
        bitmap_fini(&f->choice[i]);
    f->count = 0;
}

int features_match(const struct state *s, const char *expression, struct bitmap *nodes, struct spur_error *err)
{
    struct features f;
    int rc = features_init(&f, s, expression, err);

    if (rc < 0)
        return rc;
    bitmap_copy(nodes, &f.choice[0]);
    for (uint32_t i = 1; i < f.count; i++)
        bitmap_or(nodes, &f.choice[i]);
    features_fini(&f);
    return 0;
}
