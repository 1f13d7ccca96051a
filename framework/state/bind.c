/* SPDX-License-Identifier: Apache-2.0 */
/* bind.c - binds tasks to devices as Slurm's manual of --tres-bind says.
 *
 * The cores of a task that is not bound to any are taken to be its share of the step's, in order: the same numbers that block
 * distribution gives. A device without near cores is near to everything. Where the manual leaves a task without a device, or with one that is not the
 * step's, the next best of the step is taken and a note says so: a program that finds no device would only fail later and say less.
 */
#include "state/bind.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"

#define LARGEST 64

void bind_fini(struct bind *b)
{
    free(b->masks);
    memset(b, 0, sizeof *b);
}

/* "0,1*2" or "3,0xc*4": values with repetitions. */
static int parse_list(const char *list, bool is_map, struct bind *b, struct spur_error *err)
{
    char *copy = mem_copy(list), *at = copy, *word;
    int rc = 0;

    b->masks = mem_array(BIND_LIST_MAX, sizeof *b->masks);
    while (rc == 0 && (word = word_next(&at, ","))) {
        char *star = strchr(word, '*'), *end = NULL;
        uint32_t times = 1;
        uint64_t value;

        if (star)
            *star++ = '\0';
        if (star && (!number_u32(star, &times) || !times))
            rc = spur_fail(err, SPUR_EINVAL, "\"*%.20s\" is no number of repetitions", star);
        else if (is_map && (!number_u64(word, &value) || value >= LARGEST))
            rc = spur_fail(err, SPUR_EINVAL, "\"%.20s\" is no number of a device (0 to %d)", word, LARGEST - 1);
        else if (!is_map && (value = strtoull(word, &end, 16), end == word || *end || *word == '-' || *word == '+' || !value || strlen(word) > 18))
            rc = spur_fail(err, SPUR_EINVAL, "\"%.20s\" is no mask of devices (hexadecimal, not 0)", word);
        else if (times > BIND_LIST_MAX - b->mask_count)
            rc = spur_fail(err, SPUR_ELIMIT, "the list has more than %d elements", BIND_LIST_MAX);
        for (; rc == 0 && times; times--)
            b->masks[b->mask_count++] = is_map ? UINT64_C(1) << value : value;
    }
    free(copy);
    if (rc == 0 && !b->mask_count)
        rc = spur_fail(err, SPUR_EINVAL, "the list is empty");
    return rc;
}

int bind_parse(const char *text, struct bind *out, struct spur_error *err)
{
    static const struct { const char *word; enum bind_kind kind; } kinds[] = { { "single", BIND_SINGLE }, { "per_task", BIND_PER_TASK }, { "map_gpu", BIND_MAP }, { "map", BIND_MAP },
                                                                               { "mask_gpu", BIND_MASK }, { "mask", BIND_MASK } };
    const char *at = text;
    int rc;

    memset(out, 0, sizeof *out);
    for (int i = 0; i < 2; i++) {
        static const char *const prefix[] = { "verbose,", "v," };

        if (word_starts(at, prefix[i])) {
            out->verbose = true;
            at += strlen(prefix[i]);
        }
    }
    if (word_eq(at, "none"))
        return 0;
    if (word_eq(at, "closest")) {
        out->kind = BIND_CLOSEST;
        return 0;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t n = strlen(kinds[i].word);

        if (!word_starts(at, kinds[i].word) || at[n] != ':')
            continue;
        out->kind = kinds[i].kind;
        if (out->kind == BIND_MAP || out->kind == BIND_MASK)
            rc = parse_list(at + n + 1, out->kind == BIND_MAP, out, err);
        else
            rc = number_u32(at + n + 1, &out->count) && out->count ? 0 : spur_fail(err, SPUR_EINVAL, "\"%.20s\" is no number above 0", at + n + 1);
        if (rc < 0) {
            bind_fini(out);
            return spur_context(err, "binding of GPUs \"%.60s\"", text);
        }
        return 0;
    }
    bind_fini(out);
    return spur_fail(err, SPUR_EINVAL, "binding of GPUs \"%.60s\" is none of closest, single:N, per_task:N, map:LIST, mask:LIST, none; verbose, may stand in front", text);
}

int bind_parse_tres(const char *text, struct bind *out, struct spur_error *err)
{
    static const char *const names[] = { "gres/gpu:", "gpu:" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (word_starts(text, names[i])) {
            if (strchr(text, '+'))
                return spur_fail(err, SPUR_EUNSUPPORTED, "binding \"%.60s\": only gres/gpu can be bound to tasks", text);
            return bind_parse(text + strlen(names[i]), out, err);
        }
    if (word_starts(text, "gres/"))
        return spur_fail(err, SPUR_EUNSUPPORTED, "binding \"%.60s\": only gres/gpu can be bound to tasks", text);
    return spur_fail(err, SPUR_EINVAL, "binding \"%.60s\" does not begin with gres/gpu:", text);
}

/* ---- on a node ------------------------------------------------------------------------------------------------------------- */
/* Is the device near to a core of task t? */
static bool is_near(const struct bind_node *n, const struct bind_device *d, uint32_t task)
{
    size_t cores = n->cores ? bitmap_count(n->cores) : 0, first, last, nth = 0;

    if (n->task_cores && d->cores && cores)
        return bitmap_overlap(&n->task_cores[task], d->cores);
    if (!d->cores || !cores)
        return true;
    first = cores * task / n->tasks;
    last = cores * (task + 1) / n->tasks;
    if (last == first)
        last = first + 1;           /* more tasks than cores: some share one */
    for (size_t c = bitmap_first(n->cores); c < n->cores->bits; c = bitmap_next(n->cores, c), nth++)
        if (nth >= first && nth < last && bitmap_test(d->cores, c))
            return true;
    return false;
}

static uint64_t bit_of(const struct bind_device *d) { return UINT64_C(1) << d->index; }

static uint64_t near_mask(const struct bind_node *n, uint32_t task)
{
    uint64_t mask = 0;

    for (uint32_t i = 0; i < n->device_count; i++)
        if (is_near(n, &n->devices[i], task))
            mask |= bit_of(&n->devices[i]);
    return mask;
}

/* Bandwidth to those that the task has already. */
static uint64_t joined(const struct bind_node *n, const struct bind_device *d, uint64_t mask)
{
    uint64_t mbps = 0;

    for (uint32_t i = 0; i < n->device_count && d->mbps; i++)
        if (mask & bit_of(&n->devices[i]))
            mbps += d->mbps[n->devices[i].index];
    return mbps;
}

/* `count` devices for the task out of those whose use is lowest, near ones first, then such as are joined to what it has; each device has room for `room` tasks in a round. */
static uint64_t take(const struct bind_node *n, uint32_t task, uint32_t count, uint32_t room, uint32_t *used, uint8_t *note)
{
    uint64_t mask = 0, close = near_mask(n, task);

    for (uint32_t got = 0; got < count && got < n->device_count; got++) {
        uint32_t best = UINT32_MAX, best_round = UINT32_MAX;
        uint64_t best_mbps = 0;
        bool best_near = false;

        for (uint32_t i = 0; i < n->device_count; i++) {
            uint32_t round = used[i] / room;
            bool nearer = close & bit_of(&n->devices[i]);
            uint64_t mbps = joined(n, &n->devices[i], mask);

            if (mask & bit_of(&n->devices[i]))
                continue;
            if (round < best_round || (round == best_round && (nearer > best_near || (nearer == best_near && mbps > best_mbps)))) {
                best = i;
                best_round = round;
                best_near = nearer;
                best_mbps = mbps;
            }
        }
        *note |= (uint8_t)((best_round ? BIND_NOTE_SHARED : 0) | (best_near ? 0 : BIND_NOTE_FAR));
        mask |= bit_of(&n->devices[best]);
        used[best]++;
    }
    return mask;
}

void bind_tasks(const struct bind *b, const struct bind_node *n, uint64_t *out, uint8_t *notes)
{
    uint32_t used[LARGEST] = { 0 };
    uint64_t all = 0;

    for (uint32_t i = 0; i < n->device_count; i++)
        all |= bit_of(&n->devices[i]);
    for (uint32_t t = 0; t < n->tasks; t++) {
        notes[t] = 0;
        switch (n->device_count ? b->kind : BIND_NONE) {
        case BIND_NONE:
            out[t] = all;
            break;
        case BIND_CLOSEST:
            out[t] = near_mask(n, t);
            if (!out[t]) {
                out[t] = all;
                notes[t] = BIND_NOTE_FAR;
            }
            break;
        case BIND_SINGLE:
            out[t] = take(n, t, 1, b->count, used, &notes[t]);
            break;
        case BIND_PER_TASK:
            out[t] = take(n, t, b->count, 1, used, &notes[t]);
            break;
        case BIND_MAP:
        case BIND_MASK:
            out[t] = b->masks[t % b->mask_count] & all;
            if (!out[t]) {
                out[t] = all & -all;
                notes[t] = BIND_NOTE_OUTSIDE;
            }
            break;
        }
    }
}
