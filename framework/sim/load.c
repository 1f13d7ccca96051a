/* SPDX-License-Identifier: Apache-2.0 */
/* load.c - reads a trace, or draws one: sizes from a mix, lognormal durations, exponential gaps that keep a given share of the GPUs busy. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "sim/load.h"

#define SECONDS_MAX 1e11

static int by_submit(const void *a, const void *b)
{
    const struct load_job *x = a, *y = b;

    return x->submit_ms != y->submit_ms ? (x->submit_ms < y->submit_ms ? -1 : 1) : x->seq < y->seq ? -1 : x->seq > y->seq;
}

static bool seconds(const char *word, int64_t *ms)
{
    char *end;
    double v;

    if (!word || !(is_digit(*word) || *word == '.'))
        return false;
    v = strtod(word, &end);
    if (*end || !(v >= 0 && v <= SECONDS_MAX))
        return false;
    *ms = (int64_t)(v * 1000 + 0.5);
    return true;
}

int load_read(const char *path, struct load *out, struct spur_error *err)
{
    FILE *f = strcmp(path, "-") ? fopen(path, "r") : stdin;
    char *line = NULL;
    size_t room = 0, jobs_room = 0, number = 0;
    int rc = 0;

    memset(out, 0, sizeof *out);
    if (!f)
        return spur_fail(err, SPUR_ENOTFOUND, "%.160s: %s", path, strerror(errno));
    while (rc == 0 && getline(&line, &room, f) >= 0) {
        char *at = line, *words[4] = { 0 };
        struct load_job j = { 0 };
        int n = 0;

        number++;
        line[strcspn(line, "#\r\n")] = '\0';
        while (n < 4 && (words[n] = word_next(&at, " \t")))
            n++;
        if (!n)
            continue;
        if (n != 3)
            rc = spur_fail(err, SPUR_EINVAL, "%.120s:%zu: a line is SUBMIT_S DURATION_S GPUS", path, number);
        else if (!seconds(words[0], &j.submit_ms) || !seconds(words[1], &j.duration_ms))
            rc = spur_fail(err, SPUR_EINVAL, "%.120s:%zu: \"%.20s\" is no number of seconds", path, number, seconds(words[0], &j.submit_ms) ? words[1] : words[0]);
        else if (!number_u32(words[2], &j.gpus) || !j.gpus)
            rc = spur_fail(err, SPUR_EINVAL, "%.120s:%zu: \"%.20s\" is no number of GPUs (1 or more)", path, number, words[2]);
        if (rc < 0)
            break;
        if (out->count == jobs_room) {
            jobs_room = jobs_room ? jobs_room * 2 : 1024;
            out->jobs = mem_grow(out->jobs, jobs_room, sizeof *out->jobs);
        }
        j.seq = out->count;
        out->jobs[out->count++] = j;
    }
    if (rc == 0 && !out->count)
        rc = spur_fail(err, SPUR_EINVAL, "%.160s: no jobs in it", path);
    free(line);
    if (f != stdin)
        fclose(f);
    if (rc < 0)
        load_fini(out);
    else
        qsort(out->jobs, out->count, sizeof *out->jobs, by_submit);
    return rc;
}

/* splitmix64: a few lines that give the same numbers everywhere. */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static double uniform(uint64_t *state) { return ((double)(draw(state) >> 11) + 0.5) / 9007199254740992.0; }     /* never 0 nor 1 */

#define MIX_MAX 64

int load_make(const struct load_synthetic *s, struct load *out, struct spur_error *err)
{
    char *text = mem_copy(s->mix), *at = text, *word;
    uint64_t state = s->seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    uint32_t sizes[MIX_MAX], n = 0;
    double weights[MIX_MAX], total = 0, mean = 0, gap_s, now_s = 0;

    memset(out, 0, sizeof *out);
    while ((word = word_next(&at, ", "))) {
        char *colon = strchr(word, ':'), *end = NULL;

        if (colon)
            *colon++ = '\0';
        if (n == MIX_MAX || !colon || !number_u32(word, &sizes[n]) || !sizes[n] || !((weights[n] = strtod(colon, &end)) > 0) || *end) {
            spur_fail(err, SPUR_EINVAL, "mix \"%.80s\" is not a list GPUS:WEIGHT,... of at most %d sizes", s->mix, MIX_MAX);
            free(text);
            return err->code;
        }
        total += weights[n++];
    }
    free(text);
    if (!n || !s->jobs || !(s->share > 0) || !(s->median_s > 0) || !(s->sigma >= 0) || s->sigma > 5)
        return spur_fail(err, SPUR_EINVAL, "a synthetic load needs sizes, jobs, and a load above 0");
    for (uint32_t i = 0; i < n; i++)
        mean += sizes[i] * weights[i] / total;
    gap_s = mean * s->median_s * exp(s->sigma * s->sigma / 2) / (s->share * (double)s->gpus);
    out->jobs = mem_array(s->jobs, sizeof *out->jobs);
    for (; out->count < s->jobs; out->count++) {
        struct load_job *j = &out->jobs[out->count];
        double pick = uniform(&state) * total, z = sqrt(-2 * log(uniform(&state))) * cos(2 * M_PI * uniform(&state)), d;
        uint32_t i = 0;

        while (i + 1 < n && pick >= weights[i])
            pick -= weights[i++];
        d = s->median_s * exp(s->sigma * z);
        j->seq = out->count;
        j->gpus = sizes[i];
        j->duration_ms = d < 1 ? 1000 : d > SECONDS_MAX ? (int64_t)(SECONDS_MAX * 1000) : (int64_t)(d * 1000);
        j->submit_ms = (int64_t)(now_s * 1000);
        now_s += -log(uniform(&state)) * gap_s;
    }
    return 0;
}

void load_fini(struct load *l)
{
    free(l->jobs);
    memset(l, 0, sizeof *l);
}
