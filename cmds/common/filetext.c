/* SPDX-License-Identifier: Apache-2.0 */
/* filetext.c - see filetext.h */
#include <stdio.h>

#include "base/str.h"
#include "cmds/common/filetext.h"

char *file_text(const char *path)
{
    FILE *f = fopen(path, "re");
    struct str s;
    char buf[4096];
    size_t n;

    if (!f)
        return NULL;
    str_init(&s);
    while ((n = fread(buf, 1, sizeof buf, f)) > 0)
        str_add_n(&s, buf, n);
    fclose(f);
    return str_take(&s);
}
