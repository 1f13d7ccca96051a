/* SPDX-License-Identifier: Apache-2.0 */
/* value.c - the global keywords of slurm.conf (keys.def) and how the text of one becomes a canonical text and a number.
 *
 * Canonical means: as `scontrol show config` prints it, unit and all. Limits of the types are those of Slurm, so that a file
 * which Slurm refuses is refused here too, and with a sentence that names the limit. Pure.
 */
#include "config/value.h"

#include <stdlib.h>
#include <string.h>

#include "base/duration.h"

static const struct config_row rows[CONF_COUNT] = {
#define CONFIG_KEY(name, type, fallback, effect, note) [CONF_##name] = { #name, fallback, note, type, effect },
#include "config/keys.def"
#undef CONFIG_KEY
};

const struct config_row *config_row(enum config_key key)
{
    return &rows[key];
}

int config_key_find(const char *name)
{
    int low = 0, high = CONF_COUNT - 1;

    while (low <= high) {       /* keys.def is sorted without case; the unit test holds it so */
        int mid = (low + high) / 2;
        const char *a = name, *b = rows[mid].name;
        int ca, cb;

        do {
            ca = (unsigned char)*a++, cb = (unsigned char)*b++;
            ca = ca >= 'A' && ca <= 'Z' ? ca + 32 : ca;
            cb = cb >= 'A' && cb <= 'Z' ? cb + 32 : cb;
        } while (ca && ca == cb);
        if (ca == cb)
            return mid;
        if (ca < cb)
            high = mid - 1;
        else
            low = mid + 1;
    }
    return -1;
}

int value_bool(const char *text)
{
    if (word_eq(text, "yes") || word_eq(text, "up") || word_eq(text, "true") || word_eq(text, "1"))
        return 1;
    if (word_eq(text, "no") || word_eq(text, "down") || word_eq(text, "false") || word_eq(text, "0"))
        return 0;
    return -1;
}

static bool is_unlimited(const char *text)
{
    return word_eq(text, "UNLIMITED") || word_eq(text, "INFINITE");
}

/* A count up to `max`; decimal, 0x or 0 octal as Slurm's own reader takes them; UNLIMITED gives max. */
static int count_read(const char *raw, uint64_t max, int64_t *out, struct spur_error *err)
{
    char *end;
    unsigned long long n;

    if (is_unlimited(raw)) {
        *out = max > INT64_MAX ? -1 : (int64_t)max;
        return 0;
    }
    if (*raw == '-')
        return spur_fail(err, SPUR_EINVAL, "\"%.60s\" is less than zero", raw);
    n = strtoull(raw, &end, 0);
    if (*raw < '0' || *raw > '9' || *end)
        return spur_fail(err, SPUR_EINVAL, "\"%.60s\" is not a number", raw);
    if (n > max)
        return spur_fail(err, SPUR_EINVAL, "%.60s is more than %llu", raw, (unsigned long long)max);
    *out = (int64_t)n;
    return 0;
}

/* "6817", "6820-6830". */
static int ports_read(const char *raw, bool range, struct config_value *out, struct spur_error *err)
{
    char *copy = mem_copy(raw), *dash = range ? strchr(copy, '-') : NULL;
    uint32_t first = 0, last = 0;
    bool good;

    if (dash)
        *dash++ = 0;
    good = number_u32(copy, &first) && first <= 65535 && (!dash || (number_u32(dash, &last) && last <= 65535 && last >= first));
    free(copy);
    if (!good)
        return spur_fail(err, SPUR_EINVAL, "\"%.60s\" is not a port%s", raw, range ? " or a range of ports (0 to 65535)" : " (0 to 65535)");
    out->number = first;
    out->text = mem_copy(raw);
    return 0;
}

static const char *const levels[] = { "quiet", "fatal", "error", "info", "verbose", "debug", "debug2", "debug3", "debug4", "debug5", NULL };

static int level_read(const char *raw, struct config_value *out, struct spur_error *err)
{
    int64_t n = -1;

    for (int i = 0; levels[i]; i++)
        if (word_eq(levels[i], raw))
            n = i;
    if (n < 0 && (count_read(raw, 9, &n, err) < 0))
        return spur_fail(err, SPUR_EINVAL, "\"%.60s\" is not a level: quiet, fatal, error, info, verbose, debug, debug2 to debug5, or 0 to 9", raw);
    out->number = n;
    out->text = mem_copy(levels[n]);
    return 0;
}

/* Spans of time are written like time limits, in minutes unless there are colons or days; kept in seconds. Slurm holds most of them in
 * whole minutes, rounded up. */
static int span_read(const char *raw, bool whole_minutes, struct config_value *out, struct spur_error *err)
{
    struct str s;
    uint32_t seconds;
    int rc;

    str_init(&s);
    if (word_eq(raw, "NONE") || word_eq(raw, "-1")) {
        out->number = -1;
        str_add(&s, "NONE");
    } else {
        if ((rc = seconds_parse(raw, &seconds, err)) < 0) {
            str_fini(&s);
            return rc;
        }
        out->number = seconds == MINUTES_UNLIMITED ? -1 : whole_minutes ? ((int64_t)seconds + 59) / 60 * 60 : (int64_t)seconds;
        if (seconds == MINUTES_UNLIMITED)
            str_add(&s, "UNLIMITED");
        else
            seconds_print_long(out->number, &s);
    }
    out->text = str_take(&s);
    return 0;
}

static int memory_read(const char *raw, struct config_value *out, struct spur_error *err)
{
    struct str s;
    int rc;

    if (is_unlimited(raw)) {
        out->number = 0;
    } else {
        uint64_t mib;

        if ((rc = mebibytes_parse(raw, &mib, err)) < 0)
            return rc;
        if (mib > INT64_MAX / 2)
            return spur_fail(err, SPUR_EINVAL, "%.60s is more than %lld MiB", raw, (long long)(INT64_MAX / 2));
        out->number = (int64_t)mib;
    }
    str_init(&s);
    if (out->number)
        str_addf(&s, "%lld", (long long)out->number);
    else
        str_add(&s, "UNLIMITED");
    out->text = str_take(&s);
    return 0;
}

int value_read(enum config_type type, const char *raw, struct config_value *out, struct str *warn, struct spur_error *err)
{
    static const struct { enum config_type type; uint64_t max; const char *unit; } counts[] = {
        { CONFIG_U16, 65535, "" }, { CONFIG_U32, UINT32_MAX, "" }, { CONFIG_U64, INT64_MAX, "" }, { CONFIG_ARRAY, UINT32_MAX, "" },
        { CONFIG_SEC16, 65535, " sec" }, { CONFIG_SEC32, UINT32_MAX, " sec" }, { CONFIG_MIN16, 65535, " min" }, { CONFIG_USEC, UINT32_MAX, " usec" },
        { CONFIG_RATE, 65535, " nodes/min" }, { CONFIG_PERCENT, 65535, " percent" } };
    struct str s;
    int rc, is;

    out->text = NULL;
    out->number = 0;
    switch (type) {
    case CONFIG_STRING: case CONFIG_SECRET: case CONFIG_MANY:
        out->text = mem_copy(raw);
        return 0;
    case CONFIG_LOWER:
        out->text = mem_copy(raw);
        for (char *p = out->text; *p; p++)
            *p = *p >= 'A' && *p <= 'Z' ? (char)(*p + 32) : *p;
        return 0;
    case CONFIG_BOOL:
        if ((is = value_bool(raw)) < 0)
            return spur_fail(err, SPUR_EINVAL, "\"%.60s\" is neither yes nor no", raw);
        out->number = is;
        out->text = mem_copy(is ? "Yes" : "No");
        return 0;
    case CONFIG_PORT: case CONFIG_PORTS:
        return ports_read(raw, type == CONFIG_PORTS, out, err);
    case CONFIG_SPAN: case CONFIG_SPAN_SEC:
        return span_read(raw, type == CONFIG_SPAN, out, err);
    case CONFIG_MEMORY:
        return memory_read(raw, out, err);
    case CONFIG_LEVEL:
        return level_read(raw, out, err);
    case CONFIG_USER:
        if (!*raw || strpbrk(raw, " \t,:()/"))
            return spur_fail(err, SPUR_EINVAL, "\"%.60s\" is not the name of a user", raw);
        out->text = mem_copy(raw);
        return 0;
    case CONFIG_SEC32:
        if (is_unlimited(raw) || word_eq(raw, "-1")) {
            out->number = -1;
            out->text = mem_copy("INFINITE");
            return 0;
        }
        break;
    case CONFIG_MIN16:
        if (is_unlimited(raw)) {
            out->number = 65535;
            out->text = mem_copy("UNLIMITED");
            return 0;
        }
        break;
    default:
        break;
    }
    str_init(&s);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i].type == type) {
            if ((rc = count_read(raw, counts[i].max, &out->number, err)) < 0)
                goto out;
            if (type == CONFIG_ARRAY && out->number > 4000001) {
                out->number = 4000001;
                if (warn)
                    str_add(warn, "more than 4000001");
            }
            str_addf(&s, "%lld%s", (long long)out->number, counts[i].unit);
            out->text = str_take(&s);
            goto out;
        }
    if ((rc = words_read(type, raw, &s, warn, err)) == 0) {
        out->text = s.len ? mem_copy(s.text) : NULL;
        out->number = s.len ? 1 : 0;
    }
out:
    str_fini(&s);
    return rc;
}

bool value_is_idle(enum config_key key, const struct config_value *v)
{
    const char *text = v->text, *slash, *fallback = rows[key].fallback;

    if (!text || !*text || (fallback && word_eq(text, fallback)))
        return true;
    if (rows[key].type == CONFIG_STRING && (slash = strrchr(text, '/')))
        text = slash + 1;
    return word_eq(text, "none") || word_eq(text, "(null)") || word_eq(text, "no") || word_eq(text, "off") || (!v->number && word_eq(text, "0")) ||
        (rows[key].type != CONFIG_STRING && rows[key].type != CONFIG_MANY && rows[key].type != CONFIG_SECRET && rows[key].type != CONFIG_LOWER &&
         rows[key].type != CONFIG_USER && v->number == 0 && (!fallback || strncmp(fallback, "0", 1) == 0));
}
