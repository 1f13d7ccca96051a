/* SPDX-License-Identifier: Apache-2.0 */
/* replay.c - the main program of every fuzz entry when no fuzzer is linked: runs it over files.
 *
 * With arguments: those files or folders. Without: tests/fuzz/corpus/NAME for a program named fuzz_NAME, under $srcdir as
 * automake's test driver sets it; a folder that is missing or empty is a failure, for then nothing was tested. main() is weak:
 * where libFuzzer is linked its own takes over and calls the hook below.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

char *fuzz_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    if (!text)
        abort();
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

void fuzz_broken(const char *condition, const char *file, int line)
{
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_one(data, size);
}

static int replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = NULL;
    size_t size = 0, room = 0, n;

    if (!f) {
        perror(path);
        return -1;
    }
    do {
        if (size == room && !(data = realloc(data, room = room ? room * 2 : 4096)))
            abort();
        n = fread(data + size, 1, room - size, f);
        size += n;
    } while (n);
    fclose(f);
    fprintf(stderr, "%s\n", path);      /* the last line before a crash names the file */
    fuzz_one(data, size);
    free(data);
    return 1;
}

/* Number of files replayed, negative when one cannot be read. */
static int replay(const char *path)
{
    DIR *dir = opendir(path);
    int count = 0, rc = 0;
    struct dirent *entry;

    if (!dir)
        return replay_file(path);
    while (rc >= 0 && (entry = readdir(dir))) {
        char file[4096];

        if (entry->d_name[0] == '.')
            continue;
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        rc = replay_file(file);
        count += rc;
    }
    closedir(dir);
    return rc < 0 ? rc : count;
}

__attribute__((weak)) int main(int argc, char **argv)
{
    const char *srcdir = getenv("srcdir"), *name = strstr(argv[0], "fuzz_");
    char corpus[4096];
    int count = 0;

    if (argc > 1) {
        for (int i = 1; i < argc; i++)
            count += replay(argv[i]) > 0;
        return count != argc - 1;
    }
    for (const char *next = name; next; next = strstr(next + 1, "fuzz_"))
        name = next;    /* a folder above may be named so too */
    snprintf(corpus, sizeof corpus, "%s/tests/fuzz/corpus/%s", srcdir ? srcdir : ".", name ? name + strlen("fuzz_") : "");
    count = replay(corpus);
    if (count < 1)
        fprintf(stderr, "%s: no input there\n", corpus);
    return count < 1;
}
