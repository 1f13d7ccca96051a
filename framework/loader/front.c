/* SPDX-License-Identifier: Apache-2.0 */
/* front.c - the table of host services that a plugin sees: the loader's own in front of its caller's.
 *
 * A caller (daemon, simulator, conformance suite) offers what it has; the gaps are filled here, so that a plugin finds every
 * service of plugin.h but `post`, which only a process with a loop can give, `controller` and `channels`. Log lines get the plugin's name.
 */
#include <stdarg.h>
#include <time.h>

#include "base/clock.h"
#include "base/str.h"
#include "config/config.h"
#include "loader/front.h"
#include "loader/loader.h"
#include "loader/options.h"

static void (*say)(void *ctx, int level, const char *text);
static void *say_ctx;
static const struct spur_host *say_host;    /* of the call that is running */

void loader_log_to(void (*log)(void *ctx, int level, const char *text), void *ctx)
{
    say = log;
    say_ctx = ctx;
}

void loader_say_through(const struct spur_host *host)
{
    say_host = host;
}

static void log_line(int level, const char *text)
{
    if (say)
        say(say_ctx, level, text);
    else if (say_host && SPUR_HAS(say_host, log))
        say_host->log(say_host->ctx, level, text);
    else if (level <= SPUR_LOG_WARN)
        fprintf(stderr, "%s\n", text);
}

void loader_say(int level, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    log_line(level, text);
}

const char *config_key_text(const struct config *cfg, const char *key, int *is_set)
{
    static const char *const names[] = {
#define CONFIG_KEY(name, type, fallback, effect, note) #name,
#include "config/keys.def"
#undef CONFIG_KEY
    };

    for (size_t i = 0; cfg && i < sizeof names / sizeof *names; i++) {
        if (word_eq(names[i], key)) {
            if (is_set)
                *is_set = cfg->values[i].is_set;
            return cfg->values[i].text;
        }
    }
    if (is_set)
        *is_set = 0;
    return NULL;
}

static void front_log(void *ctx, int level, const char *text)
{
    struct front *f = ctx;
    char line[1024];

    snprintf(line, sizeof line, "%s: %s", f->name, text);
    if (f->behind && SPUR_HAS(f->behind, log))
        f->behind->log(f->behind->ctx, level, line);
    else
        log_line(level, line);
}

static const char *front_config(void *ctx, const char *key)
{
    struct front *f = ctx;
    const char *text = f->cfg ? config_key_text(f->cfg, key, NULL) : NULL;

    if (text)
        return text;
    return f->behind && SPUR_HAS(f->behind, config) ? f->behind->config(f->behind->ctx, key) : NULL;
}

static void front_post(void *ctx, void (*fn)(void *arg), void *arg)
{
    struct front *f = ctx;

    f->behind->post(f->behind->ctx, fn, arg);
}

static int64_t front_now_ms(void *ctx)
{
    struct front *f = ctx;

    return f->behind && SPUR_HAS(f->behind, now_ms) ? f->behind->now_ms(f->behind->ctx) : clock_boot_ms();
}

static int64_t front_wall_ms(void *ctx)
{
    struct front *f = ctx;

    return f->behind && SPUR_HAS(f->behind, wall_ms) ? f->behind->wall_ms(f->behind->ctx) : clock_wall_ms();
}

static int front_controller(void *ctx, uint32_t i, struct spur_controller *out)
{
    struct front *f = ctx;

    return f->behind->controller(f->behind->ctx, i, out);
}

/* The three texts: what the caller says, "" otherwise. */
#define FRONT_TEXT(member) \
    static const char *front_##member(void *ctx) \
    { \
        struct front *f = ctx; \
        const char *text = f->behind && SPUR_HAS(f->behind, member) ? f->behind->member(f->behind->ctx) : NULL; \
        return text ? text : ""; \
    }
FRONT_TEXT(host_name)
FRONT_TEXT(role)
FRONT_TEXT(state_dir)
#undef FRONT_TEXT

static bool front_score(void *ctx, const struct spur_score_ops **ops, void **self)
{
    struct front *f = ctx;

    return f->behind && SPUR_HAS(f->behind, score) && f->behind->score(f->behind->ctx, ops, self);
}

void front_init(struct front *f, const char *name, const struct spur_host *behind)
{
    *f = (struct front){
        .host = { .size = sizeof f->host, .ctx = f, .log = front_log, .conf_int = options_int, .conf_float = options_float, .conf_text = options_text,
                  .config = front_config, .now_ms = front_now_ms, .wall_ms = front_wall_ms,
                  .host_name = front_host_name, .role = front_role, .state_dir = front_state_dir, .score = front_score },
        .behind = behind };
    if (behind && SPUR_HAS(behind, post))
        f->host.post = front_post;
    if (behind && SPUR_HAS(behind, controller))
        f->host.controller = front_controller;
    if (behind && SPUR_HAS(behind, channels))
        f->host.channels = behind->channels;
    snprintf(f->name, sizeof f->name, "%s", name);
}
