/* SPDX-License-Identifier: Apache-2.0 */
/* hostlist.c - host lists of Slurm's interface over those of framework/base.
 *
 * A list is walked by taking its head off (slurm_hostlist_shift), as MPICH does with each node; the head is a mark here, so that walking
 * 100,000 names does not move them 100,000 times. The other calls first drop what is behind the mark.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hostlist.h"
#include "base/str.h"
#include "compat.h"

struct hosts { struct hostlist *names; size_t gone; };      /* what a hostlist_t points to */

static struct hosts *settled(hostlist_t list)
{
    struct hosts *h = (struct hosts *)list;

    for (; h && h->gone; h->gone--)
        hostlist_remove(h->names, h->gone - 1);
    return h;
}

hostlist_t slurm_hostlist_create(const char *text)
{
    struct hostlist *names;
    struct hosts *h;

    if (hostlist_parse(text, &names, NULL) < 0) {
        errno = EINVAL;
        return NULL;
    }
    h = mem_alloc(sizeof *h);
    h->names = names;
    return (hostlist_t)h;
}

void slurm_hostlist_destroy(hostlist_t list)
{
    struct hosts *h = (struct hosts *)list;

    if (!h)
        return;
    hostlist_destroy(h->names);
    free(h);
}

int slurm_hostlist_count(hostlist_t list)
{
    struct hosts *h = (struct hosts *)list;

    return h ? (int)(hostlist_count(h->names) - h->gone) : -1;
}

int slurm_hostlist_find(hostlist_t list, const char *name)
{
    struct hosts *h = settled(list);

    return h && name ? (int)hostlist_find(h->names, name) : -1;
}

int slurm_hostlist_push(hostlist_t list, const char *text)
{
    struct hosts *h = settled(list);
    size_t before;

    if (!h || !text)
        return 0;
    before = hostlist_count(h->names);
    if (hostlist_add_list(h->names, text, NULL) < 0) {
        errno = EINVAL;
        return 0;
    }
    return (int)(hostlist_count(h->names) - before);
}

int slurm_hostlist_push_host(hostlist_t list, const char *name)
{
    struct hosts *h = settled(list);

    if (!h || !name || !*name)
        return 0;
    hostlist_add(h->names, name);
    return 1;
}

char *slurm_hostlist_shift(hostlist_t list)
{
    struct hosts *h = (struct hosts *)list;

    return h && h->gone < hostlist_count(h->names) ? mem_copy(hostlist_nth(h->names, h->gone++)) : NULL;
}

void slurm_hostlist_uniq(hostlist_t list)
{
    struct hosts *h = settled(list);

    if (h)
        hostlist_uniq(h->names);
}

char *slurm_hostlist_ranged_string_malloc(hostlist_t list)
{
    struct hosts *h = settled(list);
    struct str s;

    if (!h)
        return NULL;
    str_init(&s);
    hostlist_print(h->names, &s);
    return str_take(&s);
}

char *slurm_hostlist_ranged_string_xmalloc(hostlist_t list)
{
    return slurm_hostlist_ranged_string_malloc(list);
}

ssize_t slurm_hostlist_ranged_string(hostlist_t list, size_t size, char *buf)
{
    char *text = slurm_hostlist_ranged_string_malloc(list);
    size_t n = text ? strlen(text) : 0;

    if (!text || !size)
        n = SIZE_MAX;
    else if (n < size)
        memcpy(buf, text, n + 1);
    else {
        memcpy(buf, text, size - 1);
        buf[size - 1] = '\0';
        n = SIZE_MAX;
    }
    free(text);
    return (ssize_t)n;
}
