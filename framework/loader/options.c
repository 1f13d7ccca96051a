/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - a plugin's option rows and the text of its section in spur.conf become the values it reads.
 *
 * The rows are turned into libconfuse options here, so that libconfuse's structs are no part of the plugin ABI, and copied into our
 * own values afterwards. Durations and sizes are words to libconfuse ("300ms", "2G") and numbers to the plugin. libconfuse's
 * scanner is one per process and its error call-back has no argument: hence `current`, and no second thread in here.
 */
#include <confuse.h>
#include <errno.h>
#include <stdlib.h>

#include "base/duration.h"
#include "base/str.h"
#include "loader/options.h"

#define OPTIONS_MAX 256     /* rows a plugin; a table without its end mark must not run on */

struct value {
    char  *name;
    int    type;
    long   number;
    double real;
    char  *text;            /* of any type: as given, "" when unset */
};

struct spur_conf {
    struct value *values;
    size_t count;
    char  *sha256;
};

static struct reading {
    const char *plugin, *file;
    unsigned line;
    const struct spur_plugin *desc;
    struct spur_error *err;
    int code;
} *current;

const struct spur_option *options_row(const struct spur_plugin *desc, size_t i)
{
    const struct spur_option *row = desc->options;

    if (!row || i >= OPTIONS_MAX)
        return NULL;
    row = (const struct spur_option *)(const void *)((const char *)row + i * desc->option_size);
    return row->name ? row : NULL;
}

const char *options_type_name(int type)
{
    switch (type) {
    case SPUR_INT: return "integer";
    case SPUR_BOOL: return "true or false";
    case SPUR_STRING: return "text";
    case SPUR_FLOAT: return "number";
    case SPUR_DURATION_MS: return "duration (300ms 2s 1m 1h)";
    case SPUR_SIZE_MIB: return "size (512M 2G; a plain number is MiB)";
    default: return NULL;
    }
}

static bool duration_ms(const char *text, long *out)
{
    static const struct { const char *unit; double ms; } units[] = {
        { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "min", 60000 }, { "h", 3600000 }, { "d", 86400000 } };
    char *end;
    double number;

    if (*text < '0' || *text > '9')
        return false;
    number = strtod(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(end, units[i].unit) == 0 && number * units[i].ms < 1e15) {
            *out = (long)(number * units[i].ms + 0.5);
            return true;
        }
    }
    *out = 0;
    return number == 0 && *end == '\0';     /* 0 is 0 in every unit */
}

static bool size_mib(const char *text, long *out)
{
    uint64_t mib;

    if (mebibytes_parse(text, &mib, NULL) < 0 || mib > INT64_MAX)
        return false;
    *out = (long)mib;
    return true;
}

static bool is_boolean(const char *text, long *out)
{
    static const char *const words[] = { "false", "true", "no", "yes", "off", "on" };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (word_eq(text, words[i])) {
            *out = (long)(i & 1);
            return true;
        }
    }
    return false;
}

/* One word as the type says. The same reader for what the site wrote and for a row's default. */
static bool value_read(int type, const char *text, struct value *v)
{
    char *end = NULL;

    errno = 0;
    switch (type) {
    case SPUR_INT:
        v->number = strtol(text, &end, 0);
        v->real = (double)v->number;
        return *text && !*end && errno == 0;
    case SPUR_FLOAT:
        v->real = strtod(text, &end);
        v->number = v->real > -1e18 && v->real < 1e18 ? (long)v->real : 0;
        return *text && !*end && errno == 0;
    case SPUR_BOOL:
        return is_boolean(text, &v->number);
    case SPUR_DURATION_MS:
        return duration_ms(text, &v->number);
    case SPUR_SIZE_MIB:
        return size_mib(text, &v->number);
    default:
        return true;
    }
}

/* libconfuse tells what it refuses; the first sentence counts. */
static void confuse_says(cfg_t *cfg, const char *format, va_list args)
{
    static const char unknown[] = "no such option '";
    char text[160], word[160] = "";
    const char *names[OPTIONS_MAX + 2], *near = NULL;
    size_t n = 0;

    if (!current || current->code < 0)
        return;
    vsnprintf(text, sizeof text, format, args);
    if (strncmp(text, unknown, sizeof unknown - 1) == 0) {
        snprintf(word, sizeof word, "%.*s", (int)strcspn(text + sizeof unknown - 1, "'"), text + sizeof unknown - 1);
        for (const struct spur_option *row; (row = options_row(current->desc, n)); n++)
            names[n] = row->name;
        names[n++] = "sha256";
        names[n] = NULL;
        near = word_nearest(word, names);
    }
    current->code = spur_fail(current->err, near || *word ? SPUR_ENOTFOUND : SPUR_ESYNTAX, "%s:%u: plugin \"%s\": %s%s%s%s", current->file,
                              current->line + (cfg && cfg->line > 0 ? (unsigned)cfg->line - 1 : 0), current->plugin,
                              *word ? "no option " : text, word, near ? "; the nearest is " : *word ? "; `spur plugin info` lists them" : "", near ? near : "");
}

/* Every option is a word to libconfuse; this call-back reads it as its row's type while the line is still known. */
static int confuse_reads(cfg_t *cfg, cfg_opt_t *opt, const char *text, void *result)
{
    struct value v = { 0 };
    const struct spur_option *row = NULL;

    for (size_t i = 0; (row = options_row(current->desc, i)) && strcmp(row->name, opt->name) != 0; i++)
        ;
    if (row && !value_read(row->type, text, &v)) {
        cfg_error(cfg, "%s = %.60s: not %s %s", opt->name, text, row->type == SPUR_INT ? "an" : row->type == SPUR_BOOL ? "one of" : "a",
                  options_type_name(row->type));
        return -1;
    }
    *(const char **)result = text;
    return 0;
}

static int value_set(struct spur_conf *c, const struct spur_option *row, const char *text, const char *name, struct spur_error *err)
{
    struct value *v = &c->values[c->count++];

    v->name = mem_copy(row->name);
    v->type = row->type;
    v->text = mem_copy(text ? text : "");
    if (text && !value_read(row->type, text, v))
        return spur_fail(err, SPUR_EINVAL, "%s: refused: its own default of option %s, \"%.60s\", is not a %s", name, row->name, text, options_type_name(row->type));
    return 0;
}

/* The rows themselves, as a stranger wrote them. */
static int rows_check(const struct spur_plugin *desc, const char *name, size_t *count, struct spur_error *err)
{
    const struct spur_option *row;
    size_t i;

    for (i = 0; (row = options_row(desc, i)); i++) {
        if (!options_type_name(row->type))
            return spur_fail(err, SPUR_EABI, "%s: refused: option %.48s has type %d, this spur knows 1 to %d", name, row->name, row->type, (int)SPUR_SIZE_MIB);
        if (!*row->name || strspn(row->name, "abcdefghijklmnopqrstuvwxyz0123456789_-") != strlen(row->name) || strcmp(row->name, "sha256") == 0)
            return spur_fail(err, SPUR_EINVAL, "%s: refused: an option is named \"%.48s\"; names are of a-z, 0-9, _ and -, and sha256 is the loader's", name, row->name);
        for (size_t j = 0; j < i; j++)
            if (strcmp(options_row(desc, j)->name, row->name) == 0)
                return spur_fail(err, SPUR_EINVAL, "%s: refused: option %s stands twice in its rows", name, row->name);
    }
    if (i == OPTIONS_MAX)
        return spur_fail(err, SPUR_ELIMIT, "%s: refused: its option rows do not end (no row with a null name among the first %d)", name, OPTIONS_MAX);
    *count = i;
    return 0;
}

int options_parse(const struct spur_plugin *desc, const char *name, const char *text, const char *file, unsigned line,
                  struct spur_conf **out, struct spur_error *err)
{
    struct reading reading = { .plugin = name, .file = file ? file : "spur.conf", .line = line, .desc = desc, .err = err };
    struct spur_conf *c = NULL;
    cfg_opt_t *opts = NULL;
    cfg_t *cfg = NULL;
    size_t count = 0;
    int rc;

    if ((rc = rows_check(desc, name, &count, err)) < 0)
        return rc;
    opts = mem_array(count + 2, sizeof *opts);
    for (size_t i = 0; i < count; i++)
        opts[i] = (cfg_opt_t)CFG_STR_CB(options_row(desc, i)->name, NULL, CFGF_NONE, confuse_reads);
    opts[count] = (cfg_opt_t)CFG_STR("sha256", NULL, CFGF_NONE);
    opts[count + 1] = (cfg_opt_t)CFG_END();

    current = &reading;
    cfg = cfg_init(opts, CFGF_NONE);
    cfg_set_error_function(cfg, confuse_says);
    if (text && cfg_parse_buf(cfg, text) != CFG_SUCCESS && reading.code == 0)
        reading.code = spur_fail(err, SPUR_ESYNTAX, "%s:%u: plugin \"%s\": cannot be read", reading.file, line, name);
    current = NULL;
    if ((rc = reading.code) < 0)
        goto out;

    c = mem_alloc(sizeof *c);
    c->values = mem_array(count ? count : 1, sizeof *c->values);
    c->sha256 = mem_copy(cfg_getstr(cfg, "sha256"));
    for (size_t i = 0; i < count; i++) {
        const struct spur_option *row = options_row(desc, i);
        const char *given = cfg_getstr(cfg, row->name);

        if ((rc = value_set(c, row, given ? given : row->fallback, name, err)) < 0)
            goto out;
    }
    *out = c;
    c = NULL;
out:
    options_free(c);
    if (cfg)
        cfg_free(cfg);
    free(opts);
    return rc;
}

static void confuse_is_silent(cfg_t *cfg, const char *format, va_list args)
{
    (void)cfg;
    (void)format;
    (void)args;
}

void options_peek_sha256(const char *text, char *out, size_t room)
{
    cfg_opt_t opts[] = { CFG_STR("sha256", NULL, CFGF_NONE), CFG_STR("__unknown", NULL, CFGF_NONE), CFG_END() };
    cfg_t *cfg;
    const char *hex;

    *out = '\0';
    if (!text || !strstr(text, "sha256"))
        return;
    cfg = cfg_init(opts, CFGF_IGNORE_UNKNOWN);
    cfg_set_error_function(cfg, confuse_is_silent);
    if (cfg_parse_buf(cfg, text) == CFG_SUCCESS && (hex = cfg_getstr(cfg, "sha256")))
        snprintf(out, room, "%s", hex);
    cfg_free(cfg);
}

void options_free(struct spur_conf *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->count; i++) {
        free(c->values[i].name);
        free(c->values[i].text);
    }
    free(c->values);
    free(c->sha256);
    free(c);
}

bool options_equal(const struct spur_conf *a, const struct spur_conf *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (strcmp(a->values[i].name, b->values[i].name) != 0 || strcmp(a->values[i].text, b->values[i].text) != 0)
            return false;
    return true;
}

const char *options_sha256(const struct spur_conf *c)
{
    return c->sha256;
}

static const struct value *value_find(const struct spur_conf *c, const char *name)
{
    for (size_t i = 0; c && i < c->count; i++)
        if (strcmp(c->values[i].name, name) == 0)
            return &c->values[i];
    return NULL;
}

long options_int(const struct spur_conf *c, const char *name)
{
    const struct value *v = value_find(c, name);

    return v ? v->number : 0;
}

double options_float(const struct spur_conf *c, const char *name)
{
    const struct value *v = value_find(c, name);

    return !v ? 0 : v->type == SPUR_INT || v->type == SPUR_FLOAT ? v->real : (double)v->number;
}

const char *options_text(const struct spur_conf *c, const char *name)
{
    const struct value *v = value_find(c, name);

    return v ? v->text : "";
}
