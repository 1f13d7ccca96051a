/* SPDX-License-Identifier: Apache-2.0 */
/* log.c - what plugins say: slurm_error and its kin of spank.h, one line a call, to wherever the process that loaded them says.
 *
 * slurm_spank_log is for the user and comes as it is; slurm_error gets "error: " in front; what is below shows in commands from as many -v as in Slurm.
 */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "spank/inside.h"

static struct {
    void (*line)(void *arg, enum spank_level level, const char *text);
    void *arg;
    const char *program;
    int verbose;
} out = { .program = "spur" };

void spank_log_to(void (*line)(void *arg, enum spank_level level, const char *text), void *arg)
{
    out.line = line;
    out.arg = arg;
}

void spank_log_as(const char *program, int verbose)
{
    out.program = program;
    out.verbose = verbose;
}

static void to_standard_error(enum spank_level level, const char *text)
{
    if (level == SPANK_LOG_USER)
        fprintf(stderr, "%s\n", text);
    else if (level <= SPANK_LOG_INFO || out.verbose >= (int)level - (int)SPANK_LOG_INFO)
        fprintf(stderr, "%s: %s%s\n", out.program, level == SPANK_LOG_ERROR ? "error: " : "", text);
}

void spank_log_args(enum spank_level level, const char *format, va_list args)
{
    struct str text;

    str_init(&text);
    str_vaddf(&text, format, args);
    while (text.len && text.text[text.len - 1] == '\n')
        text.text[--text.len] = '\0';
    if (out.line)
        out.line(out.arg, level, text.text);
    else
        to_standard_error(level, text.text);
    str_fini(&text);
}

void spank_log_line(enum spank_level level, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    spank_log_args(level, format, args);
    va_end(args);
}

#define LOG_FUNCTION(name, level)                       \
    void name(const char *format, ...)                  \
    {                                                   \
        va_list args;                                   \
                                                        \
        va_start(args, format);                         \
        spank_log_args(level, format, args);            \
        va_end(args);                                   \
    }
LOG_FUNCTION(slurm_info, SPANK_LOG_INFO)
LOG_FUNCTION(slurm_verbose, SPANK_LOG_VERBOSE)
LOG_FUNCTION(slurm_debug, SPANK_LOG_DEBUG)
LOG_FUNCTION(slurm_debug2, SPANK_LOG_DEBUG)
LOG_FUNCTION(slurm_debug3, SPANK_LOG_DEBUG)
LOG_FUNCTION(slurm_spank_log, SPANK_LOG_USER)

int slurm_error(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    spank_log_args(SPANK_LOG_ERROR, format, args);
    va_end(args);
    return SLURM_ERROR;
}
