/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_hostlist.c - any text as a host list: what is accepted prints to a text that reads back to the same names. */
#include <stdlib.h>
#include <string.h>

#include "base/hostlist.h"
#include "fuzz.h"

#define NAMES_MAX 5000u     /* more would show nothing new and take the fuzzer's time */

int fuzz_one(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    struct hostlist *h, *again;
    struct spur_error err;
    struct str out;

    if (hostlist_parse(text, &h, &err) < 0) {
        FUZZ_HOLDS(err.code < 0 && err.text[0]);
        free(text);
        return 0;
    }
    if (hostlist_count(h) > NAMES_MAX) {
        hostlist_destroy(h);
        free(text);
        return 0;
    }
    str_init(&out);
    hostlist_print(h, &out);
    FUZZ_HOLDS(hostlist_parse(out.text, &again, NULL) == 0);
    FUZZ_HOLDS(hostlist_count(h) == hostlist_count(again));
    for (size_t i = 0; i < hostlist_count(h); i++) {
        const char *name = hostlist_nth(h, i);
        ptrdiff_t found = hostlist_find(h, name);

        FUZZ_HOLDS(!strcmp(name, hostlist_nth(again, i)));
        FUZZ_HOLDS(found >= 0 && (size_t)found <= i && !strcmp(name, hostlist_nth(h, (size_t)found)));
    }
    hostlist_uniq(again);
    for (size_t i = 0; i < hostlist_count(again); i++)
        FUZZ_HOLDS(hostlist_find(again, hostlist_nth(again, i)) == (ptrdiff_t)i);
    str_fini(&out);
    hostlist_destroy(again);
    hostlist_destroy(h);
    free(text);
    return 0;
}
