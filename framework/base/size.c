/* SPDX-License-Identifier: Apache-2.0 */
/* size.c - amounts with a suffix: memory in MiB, counts of generic resources. Suffixes always mean powers of 1024. */
#include "base/duration.h"

#define MEBIBYTES_MAX (UINT64_C(1) << 40)

static const char suffixes[] = "KMGTP";

/* Digits, then at most one suffix letter. *power: 0 without, 1 for K ... 5 for P. Returns what follows, NULL when no number. */
static const char *amount_read(const char *text, uint64_t *number, unsigned *power)
{
    *power = 0;
    if (!number_at(&text, number))
        return NULL;
    for (unsigned i = 0; suffixes[i]; i++)
        if (*text == suffixes[i] || *text == suffixes[i] + ('a' - 'A')) {
            *power = i + 1;
            return text + 1;
        }
    return text;
}

int mebibytes_parse(const char *text, uint64_t *mib, struct spur_error *err)
{
    uint64_t n, factor;
    unsigned power;
    const char *rest = amount_read(text, &n, &power);

    if (!rest || !(!*rest || (power && (word_eq(rest, "b") || word_eq(rest, "ib")))))
        return spur_fail(err, SPUR_ESYNTAX, "memory size \"%.40s\" is not understood: give a number with K, M, G, T or P, e.g. 512M or 16G",
                         text);
    factor = power > 2 ? UINT64_C(1) << (10 * (power - 2)) : 1;
    if (power == 1)
        n = n / 1024 + (n % 1024 != 0);
    if (n > MEBIBYTES_MAX / factor)
        return spur_fail(err, SPUR_ELIMIT, "memory size \"%.40s\" is too large, the limit is 1024P", text);
    *mib = n * factor;
    return 0;
}

/* The number with the largest suffix that shows it whole. */
static void amount_print(uint64_t number, unsigned power, struct str *out)
{
    while (number && number % 1024 == 0 && suffixes[power]) {
        number /= 1024;
        power++;
    }
    str_addf(out, "%llu", (unsigned long long)number);
    if (number && power)
        str_add_char(out, suffixes[power - 1]);
}

void mebibytes_print(uint64_t mib, struct str *out)
{
    amount_print(mib, 2, out);
}

int count_parse(const char *text, uint64_t *count, struct spur_error *err)
{
    uint64_t n;
    unsigned power;
    const char *rest = amount_read(text, &n, &power);

    if (!rest || *rest)
        return spur_fail(err, SPUR_ESYNTAX, "count \"%.40s\" is not understood: give a number, with K, M, G, T or P for powers of 1024",
                         text);
    if (n > UINT64_MAX >> (10 * power))
        return spur_fail(err, SPUR_ELIMIT, "count \"%.40s\" is too large, the limit is %llu", text, (unsigned long long)UINT64_MAX);
    *count = n << (10 * power);
    return 0;
}

void count_print(uint64_t count, struct str *out)
{
    amount_print(count, 0, out);
}
