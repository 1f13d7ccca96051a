// SPDX-License-Identifier: Apache-2.0
/* submits.c - submits jobs through one connection with many under way, and says how fast they were acknowledged.
 *
 *     submits [-n JOBS] [-w WINDOW] [-s SCRIPT_BYTES] [-e ENV_BYTES] [-d] [-l FILE]
 *
 * Prints one line of name=value words: n, failed, rate (acknowledged a second), p50_ms, p99_ms, max_ms, gap_ms (the longest time without an
 * acknowledgement: the fail-over when a leader is killed meanwhile). -d: each job has a script of its own, else all have one. -l: one line a job, its
 * number of the run and its id, or - when it was refused. Jobs are held, so nothing but the submits is measured. Uses framework/client/pipe.h; SLURM_CONF says where.
 */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/client.h"
#include "client/pipe.h"

struct run { double *sent, *took, last, gap; unsigned n, done, failed; FILE *list; };

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1000 + (double)t.tv_nsec / 1e6;
}

static void answered(void *arg, void *cookie, const void *reply, int number, const struct spur_error *err)
{
    struct run *r = arg;
    size_t i = (size_t)cookie;
    double now = now_ms();

    (void)number;
    if (!reply) {
        if (!r->failed++)
            fprintf(stderr, "submits: job %zu: %s\n", i, err->text);
        if (r->list)
            fprintf(r->list, "%zu -\n", i);
        return;
    }
    if (r->list)
        fprintf(r->list, "%zu %u\n", i, ((const Wire__SubmitReply *)reply)->job_id);
    r->took[r->done++] = now - r->sent[i];
    if (r->last > 0 && now - r->last > r->gap)
        r->gap = now - r->last;
    r->last = now;
}

static int by_value(const void *a, const void *b) { return *(const double *)a < *(const double *)b ? -1 : *(const double *)a > *(const double *)b; }

static void fill(char *to, size_t n, const char *begin)
{
    size_t len = strlen(begin);

    for (size_t i = 0; i < n; i++)
        to[i] = i < len ? begin[i] : i % 64 == 63 ? '\n' : '#';
}

int main(int argc, char **argv)
{
    struct run r = { .n = 1000 };
    unsigned window = 64;
    size_t script = 1024, env = 2048;
    struct client_pipe *p;
    struct spur_error err = { 0 };
    bool each = false;
    double begin, total;
    char *text, *words;
    int opt, rc = 0;

    while ((opt = getopt(argc, argv, "n:w:s:e:dl:")) != -1)
        switch (opt) {
        case 'n': r.n = (unsigned)atoi(optarg); break;
        case 'w': window = (unsigned)atoi(optarg); break;
        case 's': script = (size_t)atoi(optarg); break;
        case 'e': env = (size_t)atoi(optarg); break;
        case 'd': each = true; break;
        case 'l': r.list = fopen(optarg, "we"); break;
        default: return 2;
        }
    if (r.n == 0 || sodium_init() < 0 || client_pipe_open(NULL, window, answered, &r, &p, &err) < 0) {
        fprintf(stderr, "submits: %s\n", err.text);
        return 1;
    }
    r.sent = calloc(r.n, sizeof *r.sent);
    r.took = calloc(r.n, sizeof *r.took);
    text = malloc(script + 64);
    words = malloc(env + 64);
    fill(text, script, "#!/bin/sh\n");
    fill(words, env, "A=");
    if (env)
        words[env - 1] = '\0';
    begin = now_ms();
    for (unsigned i = 0; i < r.n && rc == 0; i++) {
        Wire__SubmitRequest q = WIRE__SUBMIT_REQUEST__INIT;
        Wire__JobSpec spec = WIRE__JOB_SPEC__INIT;
        Wire__Blob blobs[2] = { WIRE__BLOB__INIT, WIRE__BLOB__INIT }, *rows[2] = { &blobs[0], &blobs[1] };
        uint8_t token[16], hash[2][32];
        char name[32];

        snprintf(name, sizeof name, "s%u", i);
        if (each)
            snprintf(text + 10, script > 40 ? 30 : 1, "# %u", i);
        blobs[0].data.data = (uint8_t *)text;
        blobs[0].data.len = script;
        blobs[1].data.data = (uint8_t *)words;
        blobs[1].data.len = env;
        for (int k = 0; k < 2; k++) {
            crypto_generichash(hash[k], 32, blobs[k].data.data, blobs[k].data.len, NULL, 0);
            blobs[k].hash.data = hash[k];
            blobs[k].hash.len = 32;
        }
        spec.name = name;
        spec.has_hold = spec.hold = 1;
        spec.has_is_batch = spec.is_batch = 1;
        spec.has_script_hash = spec.has_env_hash = 1;
        spec.script_hash = blobs[0].hash;
        spec.env_hash = blobs[1].hash;
        spec.work_dir = (char *)"/tmp";
        spec.has_time_limit_min = 1;
        spec.time_limit_min = 10;
        client_token(token, &q.token_wall_ms);
        q.token.data = token;
        q.token.len = 16;
        q.spec = &spec;
        q.blobs = rows;
        q.n_blobs = 2;
        r.sent[i] = now_ms();
        rc = client_pipe_send(p, WIRE__MESSAGE_TYPE__SUBMIT, &q.base, WIRE__MESSAGE_TYPE__SUBMITTED, &wire__submit_reply__descriptor, (void *)(size_t)i, &err);
    }
    if (rc == 0)
        rc = client_pipe_drain(p, &err);
    total = now_ms() - begin;
    client_pipe_close(p);
    if (rc < 0)
        fprintf(stderr, "submits: %s\n", err.text);
    qsort(r.took, r.done, sizeof *r.took, by_value);
    printf("n=%u failed=%u rate=%.0f p50_ms=%.2f p99_ms=%.2f max_ms=%.2f gap_ms=%.1f\n", r.done, r.failed, r.done / total * 1000, r.done ? r.took[r.done / 2] : 0,
           r.done ? r.took[r.done - 1 - r.done / 100] : 0, r.done ? r.took[r.done - 1] : 0, r.gap);
    if (r.list)
        fclose(r.list);
    free(r.sent);
    free(r.took);
    free(text);
    free(words);
    return rc < 0 || r.failed;
}
