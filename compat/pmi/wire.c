/* SPDX-License-Identifier: Apache-2.0 */
/* wire.c - bytes to and from the launcher, and what a program without one keeps in its place. Part of libpmi and of libpmi2, which depend on libc alone. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "inside.h"

#define INPUT_MAX (1 << 20)

int pmi_number(const char *variable, int otherwise)
{
    const char *text = getenv(variable);
    char *end;
    long n;

    if (!text || !*text)
        return otherwise;
    n = strtol(text, &end, 10);
    return *end || n < 0 || n > INT_MAX ? otherwise : (int)n;
}

int pmi_descriptor(void)
{
    const char *text = getenv("PMI_FD");
    int fd;

    if (!text || !*text)
        return -1;
    fd = pmi_number("PMI_FD", -2);
    return fd < 0 || fcntl(fd, F_GETFD) < 0 ? -2 : fd;
}

static void wait_for(int fd, short events)
{
    struct pollfd p = { .fd = fd, .events = events };

    poll(&p, 1, -1);
}

int pmi_write(int fd, const char *text, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, text, len, MSG_NOSIGNAL);

        if (n < 0 && errno == ENOTSOCK)         /* some launchers give a pipe */
            n = write(fd, text, len);
        if (n < 0 && errno == EAGAIN)
            wait_for(fd, POLLOUT);
        else if (n < 0 && errno != EINTR)
            return -1;
        if (n > 0) {
            text += n;
            len -= (size_t)n;
        }
    }
    return 0;
}

ssize_t pmi_read(int fd, struct pmi_input *in, size_t n, bool line)
{
    if (!line && n > INPUT_MAX)
        return -1;
    for (;;) {
        const char *nl = line && in->len ? memchr(in->text, '\n', in->len) : NULL;
        ssize_t got;

        if (line ? nl != NULL : in->len >= n)
            return line ? nl + 1 - in->text : (ssize_t)n;
        if (in->len + 4096 > in->room) {
            char *grown = in->room < 2 * INPUT_MAX ? realloc(in->text, in->room + 8192) : NULL;

            if (!grown)
                return -1;
            in->text = grown;
            in->room += 8192;
        }
        got = read(fd, in->text + in->len, in->room - in->len);
        if (got < 0 && errno == EAGAIN)
            wait_for(fd, POLLIN);
        else if (got == 0 || (got < 0 && errno != EINTR))
            return -1;
        if (got > 0)
            in->len += (size_t)got;
    }
}

void pmi_taken(struct pmi_input *in, size_t n)
{
    in->len -= n;
    memmove(in->text, in->text + n, in->len);
}

bool pmi_copy(char *out, int room, const char *text)
{
    size_t n = strlen(text);

    if (!out || room <= 0)
        return false;
    if (n >= (size_t)room) {
        memcpy(out, text, (size_t)room - 1);
        out[room - 1] = '\0';
        return false;
    }
    memcpy(out, text, n + 1);
    return true;
}

/* ---- tables ---- */

static struct pmi_entry **place(struct pmi_entry **at, const char *key)
{
    while (*at && strcmp((*at)->key, key))
        at = &(*at)->next;
    return at;
}

const char *pmi_table_get(const struct pmi_entry *list, const char *key)
{
    while (list && strcmp(list->key, key))
        list = list->next;
    return list ? list->value : NULL;
}

bool pmi_table_put(struct pmi_entry **list, const char *key, const char *value)
{
    struct pmi_entry **at = place(list, key), *e = *at;
    char *copy = strdup(value);

    if (!copy)
        return false;
    if (!e) {
        if (!(e = calloc(1, sizeof *e)) || !(e->key = strdup(key))) {
            free(e);
            free(copy);
            return false;
        }
        *at = e;
    }
    free(e->value);
    e->value = copy;
    return true;
}

bool pmi_table_drop(struct pmi_entry **list, const char *key)
{
    struct pmi_entry **at = place(list, key), *e = *at;

    if (!e)
        return false;
    *at = e->next;
    free(e->key);
    free(e->value);
    free(e);
    return true;
}

void pmi_table_free(struct pmi_entry **list)
{
    while (*list)
        pmi_table_drop(list, (*list)->key);
}

/* ---- where ranks run ---- */

/* Reads "(a,b,c)" at *text. */
static bool block(const char **text, long out[3])
{
    const char *at = *text;

    for (int i = 0; i < 3; i++) {
        char *end;

        if (*at++ != (i ? ',' : '('))
            return false;
        out[i] = strtol(at, &end, 10);
        if (end == at || out[i] < 0 || out[i] > INT_MAX)
            return false;
        at = end;
    }
    if (*at++ != ')')
        return false;
    *text = at;
    return out[1] > 0 && out[2] > 0;
}

/* Walks the ranks once: with `ranks` NULL until it meets `rank` (and returns its node), else it collects those of `node`. */
static long walk(const char *mapping, int size, int rank, long node, int *ranks, int room)
{
    long found = 0, at = 0, b[3];

    while (at < size) {                         /* the blocks begin again at the last one's end */
        const char *text = mapping + strlen("(vector");

        while (at < size && *text == ',') {
            text++;
            if (!block(&text, b))
                return -1;
            for (long n = 0; n < b[1] && at < size; n++)
                for (long i = 0; i < b[2] && at < size; i++, at++) {
                    if (node < 0 && at == rank)
                        return b[0] + n;
                    if (node >= 0 && b[0] + n == node) {
                        if (ranks && found < room)
                            ranks[found] = (int)at;
                        found++;
                    }
                }
        }
        if (at < size && (*text != ')' || at == 0))
            return -1;
    }
    return node < 0 ? -1 : found;
}

int pmi_mapping_ranks(const char *mapping, int size, int rank, int *ranks, int room)
{
    long node;

    if (strncmp(mapping, "(vector", strlen("(vector")) || (node = walk(mapping, size, rank, -1, NULL, 0)) < 0)
        return -1;
    return (int)walk(mapping, size, rank, node, ranks, room);
}
