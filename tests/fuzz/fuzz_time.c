/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_time.c - any text as a limit, a moment, a size, a count, an index list, and as a format to print with. */
#include <stdlib.h>
#include <string.h>

#include "base/bitmap.h"
#include "base/duration.h"
#include "fuzz.h"

#define NOW INT64_C(1796049960)

int fuzz_one(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    uint32_t minutes, minutes_back;
    int64_t when, when_back;
    uint64_t n, n_back;
    struct bitmap set, back;
    struct str out;

    setenv("TZ", "UTC0", 1);
    str_init(&out);
    if (minutes_parse(text, &minutes, NULL) == 0) {
        minutes_print(minutes, &out);
        FUZZ_HOLDS(minutes_parse(out.text, &minutes_back, NULL) == 0 && minutes_back == minutes);
    }
    seconds_parse(text, &minutes, NULL);
    if (moment_parse(text, NOW, &when, NULL) == 0 && when) {
        str_clear(&out);
        moment_print(when, NULL, NOW, &out);
        FUZZ_HOLDS(moment_parse(out.text, NOW, &when_back, NULL) == 0 && when_back == when);
    }
    if (mebibytes_parse(text, &n, NULL) == 0) {
        str_clear(&out);
        mebibytes_print(n, &out);
        FUZZ_HOLDS(mebibytes_parse(out.text, &n_back, NULL) == 0 && n_back == n);
    }
    if (count_parse(text, &n, NULL) == 0) {
        str_clear(&out);
        count_print(n, &out);
        FUZZ_HOLDS(count_parse(out.text, &n_back, NULL) == 0 && n_back == n);
    }
    bitmap_init(&set, 1000);
    bitmap_init(&back, 1000);
    if (bitmap_parse(&set, text, NULL) == 0) {
        str_clear(&out);
        bitmap_print_steps(&set, &out);
        FUZZ_HOLDS(bitmap_parse(&back, out.text, NULL) == 0 && bitmap_equal(&set, &back));
    }
    str_clear(&out);
    moment_print(NOW, text, NOW, &out);
    FUZZ_HOLDS(out.len < 256);
    bitmap_fini(&set);
    bitmap_fini(&back);
    str_fini(&out);
    free(text);
    return 0;
}
