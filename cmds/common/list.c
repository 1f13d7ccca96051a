/* SPDX-License-Identifier: Apache-2.0 */
/* list.c - lists of words from the command line; see list.h. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/hostlist.h"
#include "base/str.h"
#include "cmds/common/list.h"

void list_put(struct list *l, const char *word)
{
    if ((l->count & (l->count - 1)) == 0)
        l->words = mem_grow(l->words, l->count ? l->count * 2 : 4, sizeof *l->words);
    l->words[l->count++] = mem_copy(word);
}

void list_add(struct list *l, const char *text)
{
    char *copy = mem_copy(text), *cursor = copy, *word;
    int depth;

    while (*cursor) {
        word = cursor;
        for (depth = 0; *cursor && (*cursor != ',' || depth > 0); cursor++)
            depth += *cursor == '[' ? 1 : *cursor == ']' ? -1 : 0;
        if (*cursor)
            *cursor++ = '\0';
        word = word_trim(word);
        if (*word)
            list_put(l, word);
    }
    free(copy);
}

int list_add_from(struct list *l, const char *text, struct spur_error *err)
{
    bool is_input = strcmp(text, "-") == 0;
    FILE *f = is_input ? stdin : strchr(text, '/') ? fopen(text, "re") : NULL;
    char *line = NULL;
    size_t room = 0;

    if (!f && strchr(text, '/'))
        return spur_fail(err, SPUR_EINVAL, "%.120s: %s", text, strerror(errno));
    if (!f) {
        list_add(l, text);
        return 0;
    }
    while (getline(&line, &room, f) >= 0) {
        for (char *p = line; *p; p++)
            if (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n')
                *p = ',';
        list_add(l, line);
    }
    free(line);
    if (!is_input)
        fclose(f);
    return 0;
}

int list_add_hosts(struct list *l, const char *text, struct spur_error *err)
{
    struct hostlist *h;

    if (hostlist_parse(text, &h, err) < 0)
        return err ? err->code : SPUR_EINVAL;
    for (size_t i = 0; i < hostlist_count(h); i++)
        list_put(l, hostlist_nth(h, i));
    hostlist_destroy(h);
    return 0;
}

void list_fini(struct list *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->words[i]);
    free(l->words);
    memset(l, 0, sizeof *l);
}

int cluster_is_own(const char *names, const char *own, struct spur_error *err)
{
    size_t n = strlen(own);

    for (const char *p = names ? names : own; *p; p += strcspn(p, ","), p += strspn(p, ",")) {
        size_t len = strcspn(p, ",");

        if ((len == n && !strncasecmp(p, own, n)) || (len == 3 && !strncasecmp(p, "all", 3)))
            return 0;
    }
    return names && *names ? spur_fail(err, SPUR_EINVAL, "'%.64s' can't be reached now, or it is an invalid entry for --cluster. This cluster is %.64s", names, own) : 0;
}

void date_line(void)
{
    char text[64];
    time_t now = time(NULL);
    struct tm tm;

    strftime(text, sizeof text, "%a %b %d %H:%M:%S %Y", localtime_r(&now, &tm));
    puts(text);
}
