/* SPDX-License-Identifier: Apache-2.0 */
/* hostlist.c - names of nodes: read from ranges, kept expanded, printed as ranges.
 *
 * Names are kept expanded because everything that asks wants names: the n-th, the index of one, a sorted list. Their
 * bytes lie in an arena, so a list of 100,000 costs two dozen allocations. Order is the user's and doubles stay.
 *
 * Printing joins neighbours only, as Slurm does: names with the same text before their last number form one bracket,
 * and numbers that count up and would print alike with the width of the first form one range: n9,n10 is n[9-10],
 * n09,n10 is n[09-10], but n9,n09 is n[9,09]. Where a name is cut into text and number is the user's choice too:
 * x00[1-2] prints as it came, while x001,x002 is x[001-002]. So each name keeps its cut and the width it was written with
 * (1 for the 10 in 9-10), by which lists are sorted; hostlist_uniq cuts anew, for there only the names count.
 *
 * hostlist_find makes an index of names at its first call on a list that is not tiny; a change drops it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/hostlist.h"
#include "base/table.h"

#define NAME_MAX_LEN 255u               /* as long as a name in DNS may be; bounds what a short text can grow to */
#define TEXT_MAX (64u * 1024 * 1024)    /* bytes that all names of a list may take */
#define BRACKETS_MAX 8u                 /* in one name */
#define SCAN_MAX 16u                    /* up to here a walk beats an index */

struct host_name {
    const char *text;
    uint64_t number;        /* the last one of the name, with text + prefix its digits */
    uint32_t prefix;        /* bytes before it; the whole name when it ends in no number */
    uint32_t width;         /* digits to pad that number to, 0 without one */
};

struct hostlist {
    struct host_name *names;
    size_t count, room;
    struct arena text;          /* bytes of names; those of removed ones go with the list */
    struct table index;         /* name -> its place in `names`, first of doubles; empty until hostlist_find wants it */
};

/* --- life --- */

struct hostlist *hostlist_create(void)
{
    struct hostlist *h = mem_alloc(sizeof *h);

    arena_init(&h->text, 0);
    table_init(&h->index);
    return h;
}

void hostlist_destroy(struct hostlist *h)
{
    if (!h)
        return;
    table_fini(&h->index);
    arena_fini(&h->text);
    free(h->names);
    free(h);
}

static void hostlist_changed(struct hostlist *h)
{
    table_fini(&h->index);
}

static bool same_prefix(const struct host_name *a, const struct host_name *b)
{
    return a->width && b->width && a->prefix == b->prefix && !memcmp(a->text, b->text, a->prefix);
}

/* True when b counts on from a in a range whose numbers are padded to `width`. */
static bool counts_on(const struct host_name *a, const struct host_name *b, uint32_t width)
{
    const char *digits = b->text + b->prefix;

    return same_prefix(a, b) && b->number && b->number - 1 == a->number && (*digits == '0' ? strlen(digits) == width : strlen(digits) >= width);
}

/* Cuts a name before the digits at its end. */
static struct host_name name_cut(const char *text)
{
    size_t len = strlen(text), prefix = len;
    struct host_name cut = { .text = text, .prefix = (uint32_t)len };
    const char *digits;

    while (prefix && is_digit(text[prefix - 1]))
        prefix--;
    digits = text + prefix;
    if (number_at(&digits, &cut.number)) {      /* no digits, or more than can be counted with: a plain name */
        cut.prefix = (uint32_t)prefix;
        cut.width = (uint32_t)(len - prefix);
    }
    return cut;
}

static struct host_name *name_add(struct hostlist *h, const char *name, size_t len)
{
    char *copy = arena_alloc(&h->text, len + 1);

    memcpy(copy, name, len);
    if (h->count == h->room) {
        h->room = h->room ? h->room * 2 : 8;
        h->names = mem_grow(h->names, h->room, sizeof *h->names);
    }
    h->names[h->count].text = copy;
    return &h->names[h->count++];
}

/* A name that was not in brackets; it takes the width of the one before it when it counts on from there. */
static void name_add_plain(struct hostlist *h, const char *name, size_t len)
{
    struct host_name *n = name_add(h, name, len);

    *n = name_cut(n->text);
    if (h->count > 1 && counts_on(n - 1, n, n[-1].width))
        n->width = n[-1].width;
}

void hostlist_add(struct hostlist *h, const char *name)
{
    hostlist_changed(h);
    name_add_plain(h, name, strlen(name));
}

/* --- reading --- */

/* One bracket of a name: its ranges, the plain text behind it, and where its odometer stands. */
struct bracket {
    const char *ranges, *at;    /* at: the range being counted */
    const char *after;
    size_t   after_len;
    size_t   place;             /* of its number in the name */
    uint64_t now, last;
    uint32_t width;
};

/* Reads the range at b->at: "7", "07" or "7-12". Leaves b->at on the ',' or ']' behind it. */
static int range_read(struct bracket *b, const char *element, int len, struct spur_error *err)
{
    const char *start = b->at, *p = start;
    bool good = number_at(&p, &b->now);

    if (good) {
        b->width = (uint32_t)(p - start);
        b->last = b->now;
        if (*p == '-')
            good = (p++, number_at(&p, &b->last));
    }
    if (!good)
        return spur_fail(err, SPUR_ESYNTAX, "host list: number missing or too large in \"%.*s\" at \"%.24s\"", len, element, p);
    if (*p != ',' && *p != ']')
        return spur_fail(err, SPUR_ESYNTAX, "host list: unexpected \"%c\" in the brackets of \"%.*s\"", *p, len, element);
    if (b->last < b->now)
        return spur_fail(err, SPUR_EINVAL, "host list: range \"%.*s\" in \"%.*s\" runs backwards", (int)(p - start), start, len, element);
    b->at = p;
    return 0;
}

/* Adds to *names what all names of this bracket number; checks every range of it. Leaves b at its first range. */
static int bracket_check(struct bracket *b, const char *element, int len, uint64_t *names, struct spur_error *err)
{
    uint64_t sum = 0;
    int rc;

    for (b->at = b->ranges;; b->at++) {
        if ((rc = range_read(b, element, len, err)) < 0)
            return rc;
        /* a range may hold 2^64 numbers: compare before adding */
        if (b->last - b->now >= HOSTLIST_MAX || (sum += b->last - b->now + 1) * *names > HOSTLIST_MAX)
            return spur_fail(err, SPUR_ELIMIT, "host list: \"%.*s\" names too many hosts, the limit is %d", len, element, HOSTLIST_MAX);
        if (*b->at == ']')
            break;
    }
    *names *= sum;
    b->at = b->ranges;
    return range_read(b, element, len, err);
}

/* Moves on to the next number of a bracket; false when it has come round to its first. */
static bool bracket_step(struct bracket *b)
{
    bool more = true;

    if (b->now < b->last) {
        b->now++;
        return true;
    }
    if (*b->at == ']') {
        b->at = b->ranges;
        more = false;
    } else {
        b->at++;
    }
    range_read(b, b->at, 0, NULL);      /* checked before */
    return more;
}

/* Writes the name anew from its first changed bracket on; returns its length, or 0 when it gets too long. */
static size_t name_write(char name[NAME_MAX_LEN], struct bracket *b, const struct bracket *end)
{
    size_t used = b->place;

    for (; b < end; b++) {
        char digits[20], *d = digits + sizeof digits;
        uint64_t n = b->now;
        size_t len, zeros;

        do *--d = (char)('0' + n % 10); while (n /= 10);
        len = (size_t)(digits + sizeof digits - d);
        zeros = b->width > len ? b->width - len : 0;
        if (used + zeros + len + b->after_len > NAME_MAX_LEN)
            return 0;
        b->place = used;
        memset(name + used, '0', zeros);
        memcpy(name + used + zeros, d, len);
        used += zeros + len;
        memcpy(name + used, b->after, b->after_len);
        used += b->after_len;
    }
    return used;
}

/* Expands one element, e.g. "r[1-2]c[01-04]-ib": the last bracket counts fastest. */
static int element_add(struct hostlist *h, const char *element, size_t element_len, struct spur_error *err)
{
    struct bracket brackets[BRACKETS_MAX], *last;
    int len = element_len > 80 ? 80 : (int)element_len, rc;      /* what is shown of it */
    char name[NAME_MAX_LEN];
    const char *end = element + element_len, *p = element;
    uint64_t names = 1;
    size_t n = 0, plain = 0, changed;

    for (;;) {
        size_t text = 0;

        while (p + text < end && p[text] != '[' && p[text] != ']')
            text++;
        if (n) {
            brackets[n - 1].after = p;
            brackets[n - 1].after_len = text;
        } else {
            plain = text;
        }
        p += text;
        if (p == end)
            break;
        if (*p == ']')
            return spur_fail(err, SPUR_ESYNTAX, "host list: \"]\" without \"[\" in \"%.*s\"", len, element);
        if (n == BRACKETS_MAX)
            return spur_fail(err, SPUR_ELIMIT, "host list: more than %u brackets in \"%.*s\"", BRACKETS_MAX, len, element);
        brackets[n].ranges = p + 1;
        if (!(p = memchr(p, ']', (size_t)(end - p))))
            return spur_fail(err, SPUR_ESYNTAX, "host list: \"[\" is not closed in \"%.*s\"", len, element);
        if ((rc = bracket_check(&brackets[n++], element, len, &names, err)) < 0)
            return rc;
        p++;
    }
    if (h->count + names > HOSTLIST_MAX)
        return spur_fail(err, SPUR_ELIMIT, "host list: too many hosts at \"%.*s\", the limit is %d", len, element, HOSTLIST_MAX);
    if (plain > NAME_MAX_LEN)
        goto too_long;
    if (!n) {
        name_add_plain(h, element, plain);
        return 0;
    }
    memcpy(name, element, plain);
    brackets[0].place = plain;
    last = &brackets[n - 1];
    for (changed = 0;;) {
        size_t used = name_write(name, &brackets[changed], &brackets[n]);

        if (!used)
            goto too_long;
        if (h->text.used > TEXT_MAX)
            return spur_fail(err, SPUR_ELIMIT, "host list: the names take more than %u bytes at \"%.*s\"", TEXT_MAX, len, element);
        if (last->after_len) {
            name_add_plain(h, name, used);
        } else {
            struct host_name *added = name_add(h, name, used);

            added->number = last->now;
            added->prefix = (uint32_t)last->place;
            added->width = last->width;
        }
        changed = n;
        do {
            if (!changed)
                return 0;
        } while (!bracket_step(&brackets[--changed]));
    }
too_long:
    return spur_fail(err, SPUR_ELIMIT, "host list: a name of \"%.*s\" is longer than %u characters", len, element, NAME_MAX_LEN);
}

static bool is_separator(char c)
{
    return c == ',' || c == ' ' || (c >= '\t' && c <= '\r');
}

int hostlist_add_list(struct hostlist *h, const char *text, struct spur_error *err)
{
    size_t before = h->count;
    int rc;

    hostlist_changed(h);
    for (const char *p = text ? text : "", *start; *p;) {
        int depth = 0;

        if (is_separator(*p)) {
            p++;
            continue;
        }
        for (start = p; *p && (depth || !is_separator(*p)); p++)
            depth = *p == '[' ? 1 : *p == ']' ? 0 : depth;
        if ((rc = element_add(h, start, (size_t)(p - start), err)) < 0) {
            h->count = before;
            return rc;
        }
    }
    return 0;
}

int hostlist_parse(const char *text, struct hostlist **out, struct spur_error *err)
{
    struct hostlist *h = hostlist_create();
    int rc = hostlist_add_list(h, text, err);

    if (rc < 0) {
        hostlist_destroy(h);
        return rc;
    }
    *out = h;
    return 0;
}

/* --- looking up --- */

size_t hostlist_count(const struct hostlist *h)
{
    return h->count;
}

const char *hostlist_nth(const struct hostlist *h, size_t i)
{
    return i < h->count ? h->names[i].text : NULL;
}

ptrdiff_t hostlist_find(const struct hostlist *h, const char *name)
{
    struct hostlist *mine = (struct hostlist *)h;   /* the index is a cache: making it changes nothing that shows */
    const struct host_name *place;

    if (h->count <= SCAN_MAX) {
        for (size_t i = 0; i < h->count; i++)
            if (!strcmp(h->names[i].text, name))
                return (ptrdiff_t)i;
        return -1;
    }
    if (!table_count(&h->index))
        for (size_t i = h->count; i-- > 0;)
            table_put_text(&mine->index, mine->names[i].text, &mine->names[i]);
    place = table_get_text(&h->index, name);
    return place ? place - h->names : -1;
}

bool hostlist_remove(struct hostlist *h, size_t i)
{
    if (i >= h->count)
        return false;
    hostlist_changed(h);
    h->count--;
    memmove(h->names + i, h->names + i + 1, (h->count - i) * sizeof *h->names);
    return true;
}

/* --- order and ranges --- */

/* Text with numbers in it, numbers by value: r2c before r10c. */
static int text_compare(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t i = 0, j = 0;

    while (i < a_len && j < b_len) {
        size_t a_from, b_from;
        int order;

        if (!is_digit(a[i]) || !is_digit(b[j])) {
            if (a[i] != b[j])
                return (unsigned char)a[i] < (unsigned char)b[j] ? -1 : 1;
            i++, j++;
            continue;
        }
        while (i < a_len && a[i] == '0')
            i++;
        while (j < b_len && b[j] == '0')
            j++;
        for (a_from = i; i < a_len && is_digit(a[i]);)
            i++;
        for (b_from = j; j < b_len && is_digit(b[j]);)
            j++;
        if (i - a_from != j - b_from)
            return i - a_from < j - b_from ? -1 : 1;
        if ((order = memcmp(a + a_from, b + b_from, i - a_from)))
            return order;
    }
    return (i < a_len) - (j < b_len);
}

static int name_compare(const void *left, const void *right)
{
    const struct host_name *a = left, *b = right;
    int order = text_compare(a->text, a->prefix, b->text, b->prefix);

    if (order)
        return order;
    if (a->width != b->width)
        return a->width < b->width ? -1 : 1;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return strcmp(a->text, b->text);    /* prefixes that differ in leading zeros only */
}

void hostlist_sort(struct hostlist *h)
{
    hostlist_changed(h);
    if (h->count)
        qsort(h->names, h->count, sizeof *h->names, name_compare);
}

void hostlist_uniq(struct hostlist *h)
{
    size_t kept = 0;

    for (size_t i = 0; i < h->count; i++)
        h->names[i] = name_cut(h->names[i].text);
    hostlist_sort(h);
    for (size_t i = 0; i < h->count; i++)
        if (!kept || strcmp(h->names[kept - 1].text, h->names[i].text))
            h->names[kept++] = h->names[i];
    h->count = kept;
}

void hostlist_print(const struct hostlist *h, struct str *out)
{
    for (size_t i = 0; i < h->count;) {
        const struct host_name *n = &h->names[i], *first = n, *from, *end = h->names + h->count;
        bool is_list = n + 1 < end && same_prefix(n, n + 1);

        str_add(out, i ? "," : "");
        str_add_n(out, n->text, n->prefix);
        str_add(out, is_list ? "[" : "");
        for (;;) {      /* one range a turn */
            for (from = n; n + 1 < end && counts_on(n, n + 1, from->width); n++)
                ;
            str_add(out, from->text + from->prefix);
            if (n != from)
                str_addf(out, "-%s", n->text + n->prefix);
            if (++n == end || !same_prefix(first, n))
                break;
            str_add_char(out, ',');
        }
        str_add(out, is_list ? "]" : "");
        i = (size_t)(n - h->names);
    }
}
