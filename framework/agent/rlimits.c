/* SPDX-License-Identifier: Apache-2.0 */
/* rlimits.c - which resource limits of the submitter a job on this node gets: PropagateResourceLimits, or all but PropagateResourceLimitsExcept. */
#include <string.h>
#include <sys/resource.h>

#include "agent/settings.h"
#include "base/str.h"

static const struct { const char *name; int resource; } limits[] = {
    { "AS", RLIMIT_AS }, { "CORE", RLIMIT_CORE }, { "CPU", RLIMIT_CPU }, { "DATA", RLIMIT_DATA }, { "FSIZE", RLIMIT_FSIZE }, { "MEMLOCK", RLIMIT_MEMLOCK },
    { "NOFILE", RLIMIT_NOFILE }, { "NPROC", RLIMIT_NPROC }, { "RSS", RLIMIT_RSS }, { "STACK", RLIMIT_STACK } };

static uint64_t mask_of(const char *words)
{
    uint64_t mask = 0;

    for (const char *p = words; *p; p += strcspn(p, ", "), p += strspn(p, ", ")) {
        const char *word = strncmp(p, "RLIMIT_", 7) ? p : p + 7;
        size_t n = strcspn(word, ", ");

        if (n == 3 && !strncasecmp(word, "ALL", 3))
            return UINT64_MAX;
        for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
            if (n == strlen(limits[i].name) && !strncasecmp(word, limits[i].name, n))
                mask |= UINT64_C(1) << limits[i].resource;
    }
    return mask;
}

uint64_t limits_kept(const char *only, const char *except)
{
    if (except && *except && !word_eq(except, "NONE"))
        return ~mask_of(except);
    return only && *only ? mask_of(only) : UINT64_MAX;
}
