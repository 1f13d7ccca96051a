/* SPDX-License-Identifier: Apache-2.0 */
/* error.c - Slurm's error numbers in words. The number lives in errno, which each thread has for itself. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "compat.h"

struct error { int number; const char *name, *text; };
static const struct error errors[] = {
#define ERROR(name, number, text) { number, #name, text },
#include "errors.def"
#undef ERROR
};
#define ERROR(name, number, text) _Static_assert((int)name == (number), #name);
#include "errors.def"
#undef ERROR

/* For texts that are made: the last one of this thread. */
static _Thread_local char made[96];

/* "ESLURM_INVALID_WCKEY": "Invalid wckey" */
static char *words_of(const char *name)
{
    const char *at = strncmp(name, "ESLURM_", 7) ? name : name + 7;
    size_t n = 0;

    for (; *at && n + 1 < sizeof made; at++)
        made[n++] = *at == '_' ? ' ' : (char)tolower((unsigned char)*at);
    made[n] = '\0';
    made[0] = (char)toupper((unsigned char)made[0]);
    return made;
}

char *slurm_strerror(int number)
{
    size_t low = 0, high = sizeof errors / sizeof *errors;

    if (number == 0)
        return (char *)(uintptr_t)"No error";
    if (number == SLURM_ERROR)
        return (char *)(uintptr_t)"Unspecified error";
    while (low < high) {        /* the rows stand in the order of their numbers */
        size_t middle = (low + high) / 2;

        if (errors[middle].number == number)
            return errors[middle].text ? (char *)(uintptr_t)errors[middle].text : words_of(errors[middle].name);
        if (errors[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return strerror_r(number, made, sizeof made);
}

void slurm_seterrno(int number)
{
    errno = number;
}

int slurm_get_errno(void)
{
    return errno;
}

void slurm_perror(const char *text)
{
    fprintf(stderr, "%s: %s\n", text ? text : "slurm", slurm_strerror(errno));
}
