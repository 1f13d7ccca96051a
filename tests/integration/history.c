/* SPDX-License-Identifier: Apache-2.0 */
/* history.c - clients that note each call and its answer, and the check of what they noted against the queue at the end.
 *
 *   history run FILE [-c CLIENTS] [-a N] [-q N] [-s SECONDS] [-n SUBMITS] [-p MS]
 *       submits held jobs by sbatch until FILE.stop is there (or so long, or so many a client), -p MS of rest between two. Each N-th is an array
 *       of 20 tasks, after each N-th one its client looks for it with squeue. Every job has a name of its own.
 *   history signal FILE PID SIGNAL     sends it, with a note of the moment
 *   history mark FILE WORD             a note of the moment, of something else that was done
 *   history gaps FILE                  from each such note to the first answer that came from somebody else, and the longest pause between answers after
 *                                      it: each, then p50, p99, max
 *   history check FILE QUEUE           QUEUE is `squeue -h -r -t all -o '%F %A %K %j'`
 *
 * What must hold: an acknowledged job is there, once, under its id and name; one that was refused or never answered is there at most once; an
 * array has all of its tasks or is not there; no id is two jobs; a job that its client looks for is seen; and ids, which are given in the order of
 * the log, go with time: when one submit had its answer before another was made, its id is the lower one. That last rule is linearizability of
 * all submits together. Times are of CLOCK_MONOTONIC, in microseconds; a line is one write, so clients and signals share the file.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARRAY_TASKS 20
#define NAME_MAX_   64
#define SHOWN_MAX   20          /* violations that are printed */
#define DYING_US    30000       /* an answer so soon after a kill may still be that of the dead one */

extern char **environ;

static int64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void die(const char *what)
{
    fprintf(stderr, "history: %s: %s\n", what, strerror(errno));
    exit(2);
}

static void note(int fd, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(int fd, const char *format, ...)
{
    char line[512];
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (write(fd, line, (size_t)n) != n)
        die("write");
}

static int history_open(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    if (fd < 0)
        die(path);
    return fd;
}

/* ---- clients ----------------------------------------------------------------------------------------------------------------- */

struct plan { const char *file; long clients, array_each, look_each, seconds, submits, rest_ms; };

/* Runs a command, its first line of output in `out`; its exit status. */
static int run(char *const argv[], const char *errors, char *out, size_t room)
{
    posix_spawn_file_actions_t acts;
    int ends[2], status;
    size_t n = 0;
    ssize_t got;
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) < 0)
        die("pipe");
    posix_spawn_file_actions_init(&acts);
    posix_spawn_file_actions_addopen(&acts, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&acts, ends[1], 1);
    posix_spawn_file_actions_addopen(&acts, 2, errors, O_WRONLY | O_CREAT | O_APPEND, 0600);
    errno = posix_spawnp(&pid, argv[0], &acts, NULL, argv, environ);
    if (errno)
        die(argv[0]);
    posix_spawn_file_actions_destroy(&acts);
    close(ends[1]);
    while (n + 1 < room && (got = read(ends[0], out + n, room - 1 - n)) != 0)
        if (got > 0)
            n += (size_t)got;
        else if (errno != EINTR)
            break;
    out[n] = '\0';
    out[strcspn(out, "\n")] = '\0';
    close(ends[0]);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            die("waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void client(const struct plan *p, long c)
{
    char stop[600], errors[600], name[NAME_MAX_], array[32], id[64], seen[64];
    int fd = history_open(p->file);
    int64_t end = now_us() + p->seconds * 1000000;

    snprintf(stop, sizeof stop, "%s.stop", p->file);
    snprintf(errors, sizeof errors, "%s.errors", p->file);
    for (long k = 1; access(stop, F_OK) < 0 && (!p->seconds || now_us() < end) && (!p->submits || k <= p->submits); k++) {
        bool is_array = p->array_each && k % p->array_each == 0;
        char *submit[] = { "sbatch", "--parsable", "-H", "-o", "/dev/null", "-J", name, "--wrap", "true", is_array ? array : NULL, NULL };
        char *look[] = { "squeue", "-h", "-t", "all", "-o", "%F", "-j", id, NULL };
        int rc;

        snprintf(name, sizeof name, "c%ld-%ld-%d", c, k, (int)getpid());
        snprintf(array, sizeof array, "--array=0-%d", ARRAY_TASKS - 1);
        note(fd, "I %s %lld %ld %d\n", name, (long long)now_us(), c, is_array ? ARRAY_TASKS : 1);
        rc = run(submit, errors, id, sizeof id);
        if (rc == 0 && (!*id || strspn(id, "0123456789") != strlen(id)))
            rc = 250;
        note(fd, "R %s %lld %d %s\n", name, (long long)now_us(), rc, rc ? "0" : id);
        if (rc == 0 && p->look_each && k % p->look_each == 0) {
            rc = run(look, errors, seen, sizeof seen);
            note(fd, "L %s %lld %d %s\n", name, (long long)now_us(), rc, rc || !*seen ? "0" : seen);
        }
        if (p->rest_ms)
            nanosleep(&(struct timespec){ p->rest_ms / 1000, p->rest_ms % 1000 * 1000000 }, NULL);
    }
    close(fd);
    exit(0);
}

static int clients_run(struct plan *p)
{
    int failed = 0, status;

    for (long c = 1; c <= p->clients; c++) {
        pid_t pid = fork();

        if (pid < 0)
            die("fork");
        if (pid == 0)
            client(p, c);
    }
    while (wait(&status) > 0 || errno == EINTR)
        failed |= status;
    return failed != 0;
}

/* ---- what was noted ------------------------------------------------------------------------------------------------------------ */

struct submit { char name[NAME_MAX_]; int64_t from, to; long client, tasks, id; int rc; bool has_answer; unsigned there; };
struct event  { char what[NAME_MAX_]; int64_t at; };
struct look   { char name[NAME_MAX_]; long seen; int rc; };
static struct submit *submits; static size_t submit_count;
static struct event  *events;  static size_t event_count;
static struct look   *looks;   static size_t look_count;

static void *grow(void *rows, size_t n, size_t size)
{
    if (n & (n - 1))
        return rows;
    rows = realloc(rows, (n ? 2 * n : 1) * size);
    if (!rows)
        die("memory");
    return rows;
}

static int by_name(const void *a, const void *b) { return strcmp(((const struct submit *)a)->name, ((const struct submit *)b)->name); }

static struct submit *submit_named(const char *name)
{
    struct submit key;

    snprintf(key.name, sizeof key.name, "%s", name);
    return submit_count ? bsearch(&key, submits, submit_count, sizeof key, by_name) : NULL;
}

static void history_read(const char *path)
{
    char line[600], name[NAME_MAX_];
    long long at;
    long a, b;

    for (int pass = 0; pass < 2; pass++) {      /* answers refer to calls: those first */
        FILE *f = fopen(path, "r");

        if (!f)
            die(path);
        while (fgets(line, sizeof line, f)) {
            if (!pass && sscanf(line, "I %63s %lld %ld %ld", name, &at, &a, &b) == 4) {
                submits = grow(submits, submit_count, sizeof *submits);
                submits[submit_count] = (struct submit){ .from = at, .client = a, .tasks = b };
                strcpy(submits[submit_count++].name, name);
            } else if (!pass && sscanf(line, "K %63s %lld", name, &at) == 2) {
                events = grow(events, event_count, sizeof *events);
                events[event_count].at = at;
                strcpy(events[event_count++].what, name);
            } else if (pass && sscanf(line, "R %63s %lld %ld %ld", name, &at, &a, &b) == 4) {
                struct submit *s = submit_named(name);

                if (s)
                    *s = (struct submit){ .from = s->from, .client = s->client, .tasks = s->tasks, .to = at, .rc = (int)a, .id = b, .has_answer = true };
                if (s)
                    strcpy(s->name, name);
            } else if (pass && sscanf(line, "L %63s %lld %ld %ld", name, &at, &a, &b) == 4) {
                looks = grow(looks, look_count, sizeof *looks);
                looks[look_count] = (struct look){ .rc = (int)a, .seen = b };
                strcpy(looks[look_count++].name, name);
            }
        }
        fclose(f);
        if (!pass && submit_count)
            qsort(submits, submit_count, sizeof *submits, by_name);
    }
}

static bool is_acked(const struct submit *s) { return s->has_answer && s->rc == 0; }

/* ---- the check ------------------------------------------------------------------------------------------------------------------- */

static unsigned wrongs;
static void wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void wrong(const char *format, ...)
{
    va_list args;

    if (wrongs++ >= SHOWN_MAX)
        return;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

struct row { long job, id; long task; char name[NAME_MAX_]; };
static int by_job(const void *a, const void *b)
{
    const struct row *x = a, *y = b;

    return x->job != y->job ? (x->job < y->job ? -1 : 1) : x->task != y->task ? (x->task < y->task ? -1 : 1) : 0;
}

static struct submit **sorted(int (*order)(const void *, const void *), size_t *count)
{
    struct submit **list = calloc(submit_count + 1, sizeof *list);
    size_t n = 0;

    for (size_t i = 0; i < submit_count; i++)
        if (is_acked(&submits[i]))
            list[n++] = &submits[i];
    qsort(list, n, sizeof *list, order);
    *count = n;
    return list;
}
#define BY(field) const struct submit *x = *(struct submit *const *)a, *y = *(struct submit *const *)b; return x->field < y->field ? -1 : x->field > y->field
static int by_id(const void *a, const void *b)   { BY(id); }
static int by_from(const void *a, const void *b) { BY(from); }
static int by_to(const void *a, const void *b)   { BY(to); }

/* Every job of the queue against the calls: its name is one of them, all its tasks are there, once. */
static void check_queue(const char *path)
{
    struct row *rows = NULL;
    size_t count = 0, k;
    char line[600], task[32];
    FILE *f = fopen(path, "r");

    if (!f)
        die(path);
    while (fgets(line, sizeof line, f)) {
        struct row r = { .task = -1 };

        if (sscanf(line, "%ld %ld %31s %63s", &r.job, &r.id, task, r.name) != 4) {
            wrong("a line of the queue that nobody can read: %s", line);
            continue;
        }
        if (*task >= '0' && *task <= '9')
            r.task = atol(task);
        rows = grow(rows, count, sizeof *rows);
        rows[count++] = r;
    }
    fclose(f);
    if (count)
        qsort(rows, count, sizeof *rows, by_job);
    for (size_t i = 0; i < count; i = k) {
        struct submit *s = submit_named(rows[i].name);
        long tasks = 0;

        for (k = i; k < count && rows[k].job == rows[i].job; k++, tasks++) {
            if (strcmp(rows[k].name, rows[i].name) != 0)
                wrong("id %ld is two jobs: %s and %s", rows[i].job, rows[i].name, rows[k].name);
            else if (k > i && rows[k].task == rows[k - 1].task)
                wrong("job %ld %s has task %ld twice", rows[i].job, rows[i].name, rows[k].task);
        }
        if (!s)
            continue;           /* somebody else's */
        if (tasks != s->tasks)
            wrong("job %ld %s has %ld of %ld tasks", rows[i].job, s->name, tasks, s->tasks);
        if (++s->there > 1)
            wrong("%s is there %u times, now as %ld", s->name, s->there, rows[i].job);
        if (is_acked(s) && s->id != rows[i].job)
            wrong("%s was told %ld and is %ld", s->name, s->id, rows[i].job);
    }
    free(rows);
}

static int history_check(const char *queue)
{
    size_t n, m, refused = 0, silent = 0, kept = 0;
    struct submit **ids, **from, **to;
    long highest = 0;
    const char *whose = "";

    check_queue(queue);
    for (size_t i = 0; i < submit_count; i++) {
        const struct submit *s = &submits[i];

        refused += s->has_answer && s->rc != 0;
        silent += !s->has_answer;
        kept += !is_acked(s) && s->there;
        if (is_acked(s) && !s->there)
            wrong("lost: %ld %s, acknowledged to client %ld", s->id, s->name, s->client);
    }
    for (size_t i = 0; i < look_count; i++) {
        const struct submit *s = submit_named(looks[i].name);

        if (s && looks[i].seen != s->id)       /* a squeue that fails says "Invalid job id specified" */
            wrong("client %ld does not see its own %ld %s (exit status %d)", s->client, s->id, s->name, looks[i].rc);
    }
    ids = sorted(by_id, &n);
    for (size_t i = 1; i < n; i++)
        if (ids[i]->id == ids[i - 1]->id)
            wrong("id %ld was told to %s and to %s", ids[i]->id, ids[i - 1]->name, ids[i]->name);
    from = sorted(by_from, &n);
    to = sorted(by_to, &m);
    for (size_t i = 0, k = 0; i < n; i++) {
        for (; k < m && to[k]->to < from[i]->from; k++)
            if (to[k]->id > highest) {
                highest = to[k]->id;
                whose = to[k]->name;
            }
        if (from[i]->id < highest)
            wrong("order: %ld %s was submitted after the answer to %ld %s", from[i]->id, from[i]->name, highest, whose);
    }
    printf("%zu submits, %zu acknowledged, %zu refused, %zu without an answer (%zu of both are there), %zu looks, %u wrong\n", submit_count, n, refused, silent, kept, look_count,
           wrongs);
    free(ids);
    free(from);
    free(to);
    return wrongs != 0;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

/* The longest time without an answer to anybody that ends after `at`, in the three seconds after it. */
static int64_t pause_at(struct submit *const *to, size_t n, int64_t at)
{
    int64_t longest = 0;
    size_t i = 0, high = n;

    while (i < high) {              /* the first answer after it */
        size_t middle = (i + high) / 2;

        if (to[middle]->to > at)
            high = middle;
        else
            i = middle + 1;
    }
    for (i = i ? i : 1; i < n && to[i - 1]->to < at + 3000000; i++)
        if (to[i]->to - to[i - 1]->to > longest)
            longest = to[i]->to - to[i - 1]->to;
    return longest;
}

static void percentiles(const char *what, int64_t *values, size_t n)
{
    qsort(values, n, sizeof *values, by_value);
    printf("%s n=%zu p50_ms=%.1f p99_ms=%.1f max_ms=%.1f\n", what, n, (double)values[(n - 1) / 2] / 1000, (double)values[(n - 1) * 99 / 100] / 1000, (double)values[n - 1] / 1000);
}

static int history_gaps(void)
{
    int64_t *gaps = calloc(event_count + 1, sizeof *gaps), *pauses = calloc(event_count + 1, sizeof *pauses);
    struct submit **to;
    size_t n = 0, acked;

    to = sorted(by_to, &acked);
    for (size_t e = 0; e < event_count; e++) {
        int64_t best = 0;

        for (size_t i = 0; i < submit_count; i++) {
            const struct submit *s = &submits[i];

            if (is_acked(s) && s->to > events[e].at && (s->from > events[e].at || s->to - events[e].at >= DYING_US) && (!best || s->to < best))
                best = s->to;
        }
        if (!best) {
            printf("%s: no answer after it\n", events[e].what);
            continue;
        }
        gaps[n] = best - events[e].at;
        pauses[n] = pause_at(to, acked, events[e].at);
        printf("%s %.1f ms, longest pause %.1f ms\n", events[e].what, (double)gaps[n] / 1000, (double)pauses[n] / 1000);
        n++;
    }
    if (n) {
        percentiles("next answer:", gaps, n);
        percentiles("longest pause:", pauses, n);
    }
    free(gaps);
    free(pauses);
    free(to);
    return !n;
}

int main(int argc, char **argv)
{
    const char *verb = argc > 2 ? argv[1] : "";
    struct plan p = { .file = argc > 2 ? argv[2] : "", .clients = 8 };
    int fd, sign;

    if (!strcmp(verb, "run")) {
        for (int i = 3; i + 1 < argc; i += 2) {
            long n = atol(argv[i + 1]);

            switch (argv[i][0] == '-' ? argv[i][1] : 0) {
            case 'c': p.clients = n; break;
            case 'a': p.array_each = n; break;
            case 'q': p.look_each = n; break;
            case 's': p.seconds = n; break;
            case 'n': p.submits = n; break;
            case 'p': p.rest_ms = n; break;
            default: fprintf(stderr, "history: no option %s\n", argv[i]); return 2;
            }
        }
        return clients_run(&p);
    }
    if (!strcmp(verb, "signal") && argc == 5) {
        int64_t at;

        fd = history_open(argv[2]);
        sign = !strcmp(argv[4], "KILL") ? SIGKILL : !strcmp(argv[4], "STOP") ? SIGSTOP : !strcmp(argv[4], "TERM") ? SIGTERM : !strcmp(argv[4], "CONT") ? SIGCONT : atoi(argv[4]);
        at = now_us();
        if (kill((pid_t)atol(argv[3]), sign) < 0)
            die(argv[3]);
        if (sign != SIGCONT)
            note(fd, "K %s-%s %lld\n", argv[4], argv[3], (long long)at);
        return 0;
    }
    if (!strcmp(verb, "mark") && argc == 4) {
        note(history_open(argv[2]), "K %s %lld\n", argv[3], (long long)now_us());
        return 0;
    }
    if (!strcmp(verb, "gaps") || (!strcmp(verb, "check") && argc == 4)) {
        history_read(argv[2]);
        return verb[0] == 'g' ? history_gaps() : history_check(argv[3]);
    }
    fprintf(stderr, "usage: history run|signal|mark|gaps|check FILE ...; the file's head says more\n");
    return 2;
}
