/* SPDX-License-Identifier: Apache-2.0 */
/* memory_scan.c - looks for secrets in the memory of processes: memory_scan PID... reads secrets from standard input, one a line: "NAME HEX"; looks for the
 * bytes and for their hexadecimal text in every mapping that can be read, and prints "NAME in PID" for each that is there. What cannot be opened: exit 2.
 * The secrets themselves are kept turned (each byte xored), so that the program does not find its own.
 */
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TURN 0x5a
static struct secret { char name[64]; unsigned char raw[256], text[512]; size_t n; } secrets[256];
static size_t count;

static int is_there(const unsigned char *at, size_t n, const unsigned char *turned, size_t len)
{
    for (size_t i = 0; i + len <= n; i++) {
        const unsigned char *p = memchr(at + i, turned[0] ^ TURN, n - len - i + 1);
        size_t k = 1;

        if (!p)
            return 0;
        i = (size_t)(p - at);
        while (k < len && at[i + k] == (turned[k] ^ TURN))
            k++;
        if (k == len)
            return 1;
    }
    return 0;
}

static int scan(const char *pid)
{
    char path[64], line[512];
    unsigned long from, to;
    FILE *maps;
    int mem;

    snprintf(path, sizeof path, "/proc/%s/maps", pid);
    maps = fopen(path, "r");
    snprintf(path, sizeof path, "/proc/%s/mem", pid);
    mem = open(path, O_RDONLY);
    if (!maps || mem < 0)
        return -1;
    while (fgets(line, sizeof line, maps)) {
        char mode[8];
        unsigned char *copy;
        ssize_t got;

        /* Keys lie where their owner only reads, or not even that; large stretches of that kind are files, or only reserved. */
        if (sscanf(line, "%lx-%lx %7s", &from, &to, mode) != 3 || (mode[1] != 'w' && (mode[2] == 'x' || to - from > 1ul << 20)) || to - from > 512ul << 20 ||
            !(copy = malloc(to - from)))
            continue;
        got = 0;
        for (unsigned long at = from; at < to; at += 4096)          /* page by page: one that cannot be read does not hide the next */
            if (pread(mem, copy + (at - from), 4096, (off_t)at) != 4096)
                memset(copy + (at - from), 0, 4096);
        got = (ssize_t)(to - from);
        for (size_t i = 0; got > 0 && i < count; i++)
            if (is_there(copy, (size_t)got, secrets[i].raw, secrets[i].n) || is_there(copy, (size_t)got, secrets[i].text, 2 * secrets[i].n))
                printf("%s in %s\n", secrets[i].name, pid);
        free(copy);
    }
    fclose(maps);
    close(mem);
    return 0;
}

int main(int argc, char **argv)
{
    char name[64], hex[513];
    int rc = 0;

    while (count < 256 && scanf("%63s %512s", name, hex) == 2) {
        struct secret *s = &secrets[count++];

        snprintf(s->name, sizeof s->name, "%s", name);
        for (s->n = 0; hex[2 * s->n] && hex[2 * s->n + 1] && s->n < 256; s->n++) {
            unsigned byte;

            sscanf(hex + 2 * s->n, "%2x", &byte);
            s->raw[s->n] = (unsigned char)(byte ^ TURN);
            s->text[2 * s->n] = (unsigned char)(tolower(hex[2 * s->n]) ^ TURN);
            s->text[2 * s->n + 1] = (unsigned char)(tolower(hex[2 * s->n + 1]) ^ TURN);
        }
    }
    memset(hex, 0, sizeof hex);
    for (int i = 1; i < argc; i++)
        if (scan(argv[i]) < 0)
            rc = 2;
    return rc;
}
