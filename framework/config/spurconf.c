/* SPDX-License-Identifier: Apache-2.0 */
/* spurconf.c - spur.conf: what Slurm has no word for. libconfuse's grammar, in two steps.
 *
 * The rows of a section `plugin "kind/name" { ... }` are known to the plugin alone. So the sections are first cut out, each kept as
 * raw text with its line (config_spur_section hands it to the loader, which parses it with the plugin's own rows), and
 * the rest is read by libconfuse with the settings of spur.def. What libconfuse would take from outside the text is refused
 * ("${NAME}", from the environment): the same text must mean the same on every replica. Pure otherwise.
 */
#include "config/reader.h"

#include <confuse.h>
#include <stdlib.h>
#include <string.h>

#include "config/value.h"

enum { TEXT_CODE, TEXT_QUOTE, TEXT_DOUBLE, TEXT_LINE, TEXT_BLOCK };     /* where in the text a byte stands */

struct scan { const char *p; unsigned line; int in; };

/* Moves one byte on (two where two belong together) and keeps line and place. */
static void scan_step(struct scan *s)
{
    const char *p = s->p;
    size_t n = 1;

    switch (s->in) {
    case TEXT_CODE:
        if (*p == '"')
            s->in = TEXT_DOUBLE;
        else if (*p == '\'')
            s->in = TEXT_QUOTE;
        else if (*p == '#' || (*p == '/' && p[1] == '/'))
            s->in = TEXT_LINE;
        else if (*p == '/' && p[1] == '*')
            s->in = TEXT_BLOCK, n = 2;
        break;
    case TEXT_QUOTE: case TEXT_DOUBLE:
        if (*p == '\\' && p[1])
            n = 2;
        else if (*p == (s->in == TEXT_QUOTE ? '\'' : '"'))
            s->in = TEXT_CODE;
        break;
    case TEXT_LINE:
        if (*p == '\n')
            s->in = TEXT_CODE;
        break;
    default:
        if (*p == '*' && p[1] == '/')
            s->in = TEXT_CODE, n = 2;
    }
    while (n-- && *s->p)
        s->line += *s->p++ == '\n';
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void skip_space(struct scan *s)
{
    while (*s->p && (s->in != TEXT_CODE || is_space(*s->p) || *s->p == '#' || (*s->p == '/' && (s->p[1] == '/' || s->p[1] == '*'))))
        scan_step(s);
}

static struct config_section *section_add(struct config *c)
{
    c->sections = mem_grow(c->sections, c->section_count + 1, sizeof *c->sections);
    memset(&c->sections[c->section_count], 0, sizeof *c->sections);
    return &c->sections[c->section_count++];
}

/* At the word "plugin": takes the section whole. 1 taken, 0 it is something else, negative. */
static int section_take(struct config *c, struct scan *s, struct spur_error *err)
{
    struct scan at = *s;
    const char *name, *body;
    size_t name_len;
    struct config_section *section;
    unsigned line = s->line;
    int depth = 1;

    at.p += 6;
    skip_space(&at);
    if (*at.p == '"' || *at.p == '\'') {
        char quote = *at.p;

        name = at.p + 1;
        name_len = strcspn(name, quote == '"' ? "\"\n" : "'\n");
        if (name[name_len] != quote)
            return spur_fail(err, SPUR_ESYNTAX, "plugin: the name's quote is not closed");
        at.p = name + name_len + 1;
    } else {
        name = at.p;
        name_len = strcspn(name, " \t\r\n{=\"'");
        at.p = name + name_len;
    }
    skip_space(&at);
    if (*at.p != '{')
        return *at.p == '=' ? 0 : spur_fail(err, SPUR_ESYNTAX, "plugin \"%.*s\": expected {", (int)(name_len < 60 ? name_len : 60), name);
    at.p++;
    body = at.p;
    line = at.line;
    while (*at.p && depth) {
        if (at.in == TEXT_CODE)
            depth += *at.p == '{' ? 1 : *at.p == '}' ? -1 : 0;
        scan_step(&at);
    }
    if (depth)
        return spur_fail(err, SPUR_ESYNTAX, "plugin \"%.*s\": the section is not closed", (int)(name_len < 60 ? name_len : 60), name);
    section = section_add(c);
    section->name = mem_copy_n(name, name_len);
    section->text = mem_copy_n(body, (size_t)(at.p - 1 - body));
    section->line = line;
    *s = at;
    return 1;
}

/* Cuts the plugin sections out of `text`, leaving their newlines, so that the lines of the rest stay true. */
static int sections_cut(struct config *c, const char *text, struct str *rest, unsigned *line, struct spur_error *err)
{
    struct scan s = { .p = text, .line = 1 };
    bool word_before = false;
    int depth = 0, rc;

    while (*s.p) {
        const char *from = s.p;

        if (s.in == TEXT_CODE && !depth && !word_before && strncmp(s.p, "plugin", 6) == 0 && (is_space(s.p[6]) || s.p[6] == '"' || s.p[6] == '\'')) {
            *line = s.line;
            if ((rc = section_take(c, &s, err)) < 0)
                return rc;
            if (rc) {
                for (; from < s.p; from++)
                    if (*from == '\n')
                        str_add_char(rest, '\n');
                continue;
            }
        }
        if ((s.in == TEXT_CODE || s.in == TEXT_DOUBLE) && *s.p == '$' && s.p[1] == '{') {
            *line = s.line;
            return spur_fail(err, SPUR_EINVAL, "\"${\": the environment is not read here");
        }
        if (s.in == TEXT_CODE)
            depth += *s.p == '{' ? 1 : *s.p == '}' && depth ? -1 : 0;
        word_before = s.in == TEXT_CODE && !is_space(*s.p) && *s.p != ';' && *s.p != '}';
        scan_step(&s);
        str_add_n(rest, from, (size_t)(s.p - from));
    }
    return 0;
}

/* --- the settings --- */

static const struct { const char *name; enum config_type type; const char *fallback, *help; } settings[] = {
#define CONFIG_SETTING(name, type, fallback, help) { #name, type, fallback, help },
#include "config/spur.def"
#undef CONFIG_SETTING
};

/* libconfuse reports through a callback without an argument of ours: the text goes through the parser's own pointer. */
static __thread struct spur_error *confuse_error;
static __thread unsigned confuse_line;

static void confuse_said(cfg_t *cfg, const char *format, va_list args)
{
    if (confuse_error && !confuse_error->code) {
        confuse_error->code = SPUR_ESYNTAX;
        vsnprintf(confuse_error->text, sizeof confuse_error->text, format, args);
        confuse_line = cfg ? (unsigned)cfg->line : 0;
    }
}

static const char *setting_nearest(const char *text)
{
    const char *names[CONF_SETTINGS + 1];

    for (size_t i = 0; i < CONF_SETTINGS; i++)
        names[i] = settings[i].name;
    names[CONF_SETTINGS] = NULL;
    return word_nearest(text, names);
}

/* libconfuse says "no such option 'x'": the nearest one is ours to add. */
static void setting_suggest(struct spur_error *err)
{
    char word[64];
    const char *near;

    if (sscanf(err->text, "no such option '%63[^']'", word) != 1)
        return;
    near = setting_nearest(word);
    spur_fail(err, SPUR_EINVAL, "unknown setting \"%.60s\"%s%s%s", word, near ? " (nearest known: " : "", near ? near : "", near ? ")" : "");
}

int spurconf_read(struct reader *r, const char *text, const char *file, struct spur_error *err)
{
    struct config *c = r->config;
    cfg_opt_t opts[CONF_SETTINGS + 1];
    cfg_opt_t end[] = { CFG_END() };
    struct spur_error said = { 0 };
    struct str rest, warn;
    cfg_t *cfg = NULL;
    unsigned line = 0;
    int rc;

    str_init(&rest);
    str_init(&warn);
    if ((rc = sections_cut(c, text ? text : "", &rest, &line, err)) < 0) {
        rc = reader_error(r, file, line, "plugin", "", err);
        goto out;
    }
    for (size_t i = 0; i < c->section_count; i++)
        reader_note(r, file, c->sections[i].line, "plugin", c->sections[i].name, CONFIG_ACTS, "");
    for (size_t i = 0; i < CONF_SETTINGS; i++)
        opts[i] = (cfg_opt_t)CFG_STR(settings[i].name, NULL, CFGF_NONE);
    opts[CONF_SETTINGS] = end[0];
    confuse_error = &said;
    confuse_line = 0;
    cfg = cfg_init(opts, CFGF_NONE);
    cfg_set_error_function(cfg, confuse_said);
    rc = cfg_parse_buf(cfg, rest.text);
    confuse_error = NULL;
    if (rc != CFG_SUCCESS) {
        if (!said.code)
            spur_fail(&said, SPUR_ESYNTAX, "cannot be read");
        setting_suggest(&said);
        rc = spur_fail(err, said.code, "%s", said.text);
        rc = reader_error(r, file, confuse_line, "spur.conf", "", err);
        goto out;
    }
    rc = 0;
    for (size_t i = 0; i < CONF_SETTINGS && rc == 0; i++) {
        const char *value = cfg_getstr(cfg, settings[i].name);
        struct config_value *v = &c->settings[i];

        if (!value)
            continue;
        free(v->text);
        if ((rc = value_read(settings[i].type, value, v, &warn, err)) < 0) {
            spur_context(err, "%s", settings[i].name);
            rc = reader_error(r, file, 0, settings[i].name, value, err);
            continue;
        }
        v->is_set = true;
        reader_note(r, file, 0, settings[i].name, value, CONFIG_ACTS, "");
    }
out:
    if (cfg)
        cfg_free(cfg);
    str_fini(&rest);
    str_fini(&warn);
    return rc;
}

void settings_default(struct config *c)
{
    for (size_t i = 0; i < CONF_SETTINGS; i++)
        if (settings[i].fallback)
            value_read(settings[i].type, settings[i].fallback, &c->settings[i], NULL, NULL);
}

const char *config_spur_section(const struct config *c, const char *plugin, unsigned *line)
{
    for (size_t i = c->section_count; i-- > 0; )
        if (word_eq(c->sections[i].name, plugin)) {
            if (line)
                *line = c->sections[i].line;
            return c->sections[i].text;
        }
    return NULL;
}
