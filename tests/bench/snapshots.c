/* SPDX-License-Identifier: Apache-2.0 */
/* snapshots.c - what a snapshot costs: the pause of the loop, commits while it is written, and the start from it.
 *
 *     snapshots [-n JOBS] [-d FOLDER] [-r ROUNDS] [-k]      -k: keeps the files
 *     snapshots -l NUMBER -d FOLDER                         loads that one and does nothing else
 *
 * Makes a state of JOBS jobs (1,000,000) by apply as a controller would, half of them ended, then takes ROUNDS (3) snapshots of it through a forked child
 * into FOLDER (a new one under /tmp). Beside each runs what a leader does: a thread that writes 4 KiB and waits for the disk, again and
 * again (commit_*), and the loop itself that changes jobs all over the state (touch_*: the first write into a page that the child still
 * shares copies it). pause_cpu_ms is what of the pause was this process's own work: on a busy machine the rest is waiting for a core. Prints one line of name=value words for each step; the last is the state loaded from the file.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "snapfile.h"
#include "snapfork.h"
#include "state/apply.h"
#include "state/private.h"

#define IDS 16

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static double cpu_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* MiB of this process in huge pages. */
static unsigned huge_mib(void)
{
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    char line[200];
    unsigned kib = 0;

    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "AnonHugePages: %u", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib / 1024;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

struct times { double *ms; size_t count, room; };

static void time_add(struct times *t, double ms)
{
    if (t->count == t->room)
        t->ms = mem_grow(t->ms, t->room = t->room ? 2 * t->room : 1024, sizeof *t->ms);
    t->ms[t->count++] = ms;
}

static void times_print(struct times *t, const char *name)
{
    if (t->count == 0)
        return;
    qsort(t->ms, t->count, sizeof *t->ms, by_size);
    printf(" %s_p50_ms=%.2f %s_p99_ms=%.2f %s_max_ms=%.2f %s_n=%zu", name, t->ms[t->count / 2], name, t->ms[t->count * 99 / 100], name, t->ms[t->count - 1],
           name, t->count);
    t->count = 0;
}

/* ---- a state ---- */

static void entry_apply(struct state *s, Wire__Op **ops, size_t n, struct arena *arena)
{
    Wire__Entry entry = WIRE__ENTRY__INIT;
    struct applied out;

    entry.ops = ops;
    entry.n_ops = n;
    entry.cluster_ms = s->cluster_ms + 1;
    entry.wall_ms = 1764500000000 + (int64_t)s->index;
    entry.fence = 1;
    if (apply(s, s->index + 1, &entry, arena, &out) < 0 || out.results[0].code < 0) {
        fprintf(stderr, "snapshots: the state refuses: %s\n", out.results[0].text ? out.results[0].text : "?");
        exit(1);
    }
}

static struct state *state_make(unsigned jobs)
{
    static char slurm[] = "ClusterName=bench\nSlurmctldHost=a\nNodeName=n[1-1000] CPUs=64 RealMemory=512000\nPartitionName=gpu Nodes=ALL Default=YES\nMaxJobCount=10000000\n";
    struct state *s = state_create();
    struct arena arena;
    Wire__ConfigFiles files = WIRE__CONFIG_FILES__INIT;
    Wire__OpConfig config = WIRE__OP_CONFIG__INIT;
    Wire__Op op = WIRE__OP__INIT, *ops = &op;
    uint32_t groups[] = { 100, 200, 300 };

    arena_init(&arena, 0);
    files.slurm = slurm;
    config.files = &files;
    op.config = &config;
    entry_apply(s, &ops, 1, &arena);
    op.config = NULL;
    for (unsigned i = 0; i < jobs; i++) {
        Wire__JobSpec spec = WIRE__JOB_SPEC__INIT;
        Wire__OpSubmit submit = WIRE__OP_SUBMIT__INIT;
        Wire__OpCancel cancel = WIRE__OP_CANCEL__INIT;
        char name[40], out[200], dir[100], line[200], user[20];
        uint8_t hash[32], env[32], token[16];

        arena_reset(&arena);
        snprintf(name, sizeof name, "train-%u", i);
        snprintf(user, sizeof user, "user%u", i % 500);
        snprintf(dir, sizeof dir, "/home/%s/experiments/run-%u", user, i / 10);
        snprintf(out, sizeof out, "%s/slurm-%%j.out", dir);
        snprintf(line, sizeof line, "sbatch --gres=gpu:8 --nodes=2 --time=12:00:00 --job-name=%s train.sh --lr 0.0003 --seed %u", name, i);
        randombytes_buf(hash, 32);
        memset(env, 0, sizeof env);
        memcpy(env, &(unsigned){ i / 20 }, sizeof(unsigned));
        randombytes_buf(token, 16);
        spec.name = name;
        spec.work_dir = dir;
        spec.std_out = out;
        spec.submit_line = line;
        spec.command = out;
        spec.tres_per_node = (char *)"gres:gpu:8";
        spec.account = (char *)"physics";
        spec.has_min_nodes = spec.has_time_limit_min = spec.has_is_batch = spec.is_batch = 1;
        spec.min_nodes = 2;
        spec.time_limit_min = 720;
        spec.has_script_hash = spec.has_env_hash = 1;
        spec.script_hash = (ProtobufCBinaryData){ 32, hash };
        spec.env_hash = (ProtobufCBinaryData){ 32, env };
        submit.spec = &spec;
        submit.uid = submit.gid = 1000 + i % 500;
        submit.user = submit.group = user;
        submit.groups = groups;
        submit.n_groups = 3;
        op.submit = &submit;
        op.has_token = 1;
        op.token = (ProtobufCBinaryData){ 16, token };
        op.has_token_wall_ms = 1;
        op.token_wall_ms = 1764500000000 + i;
        entry_apply(s, &ops, 1, &arena);
        op.submit = NULL;
        op.has_token = op.has_token_wall_ms = 0;
        if (i % 2) {
            cancel.job_id = s->next_job_id - 1;
            op.cancel = &cancel;
            entry_apply(s, &ops, 1, &arena);
            op.cancel = NULL;
        }
    }
    arena_fini(&arena);
    return s;
}

/* ---- beside the snapshot ---- */

struct committer { int fd; atomic_bool is_over; struct times times; };

static void *commit_main(void *arg)
{
    struct committer *c = arg;
    static char block[4096];

    for (uint64_t at = 0; !atomic_load(&c->is_over); at = (at + sizeof block) % (32u << 20)) {
        double start = now_ms();

        if (pwrite(c->fd, block, sizeof block, (off_t)at) != (ssize_t)sizeof block || fdatasync(c->fd) < 0)
            break;
        time_add(&c->times, now_ms() - start);
        usleep(1000);
    }
    return NULL;
}

static void committer_start(struct committer *c, pthread_t *thread)
{
    atomic_store(&c->is_over, false);
    pthread_create(thread, NULL, commit_main, c);
}

/* A turn of the loop: an entry that changes a few jobs somewhere. */
static void turn(struct state *s, struct times *times, unsigned jobs)
{
    double start = now_ms();

    for (int i = 0; i < 8; i++) {
        struct job *j = state_job(s, 1 + randombytes_uniform(jobs));

        if (j)
            j->priority++;
    }
    time_add(times, now_ms() - start);
}

static int fill(void *arg, const struct spur_store_sink *sink, struct spur_error *err)
{
    return state_save(arg, sink->write, sink->arg, err);
}

static int snapshot(struct state *s, int folder, const char *path, const uint8_t *id, uint64_t index, struct committer *c, unsigned jobs)
{
    struct snapfile_writer w;
    struct snapfork f;
    struct spur_error err = { 0 };
    struct times turns = { 0 };
    pthread_t thread;
    double start, pause, cpu, turned = 0;
    unsigned huge;
    int rc;

    committer_start(c, &thread);
    for (double until = now_ms() + 2000; now_ms() < until; usleep(1000))
        turn(s, &turns, jobs);
    atomic_store(&c->is_over, true);
    pthread_join(thread, NULL);
    printf("snapshot=%llu alone", (unsigned long long)index);
    times_print(&c->times, "commit");
    times_print(&turns, "touch");
    printf("\n");
    if ((rc = snapfile_begin(&w, folder, path, &wal_io_system, id, index, &err)) < 0)
        goto bad;
    committer_start(c, &thread);
    huge = huge_mib();
    cpu = cpu_s();
    start = now_ms();
    rc = snapfork_begin(&f, &w, fill, s, -1, 600, &err);
    pause = now_ms() - start;
    cpu = cpu_s() - cpu;
    if (rc < 0)
        goto bad;
    while ((rc = snapfork_poll(&f, 0, &err)) == 0) {
        turn(s, &turns, jobs);
        usleep(1000);
        turned++;
    }
    atomic_store(&c->is_over, true);
    pthread_join(thread, NULL);
    if (rc < 0 || (rc = snapfile_publish(&w, &err)) < 0)
        goto bad;
    printf("snapshot=%llu bytes_mib=%.0f huge_mib=%u pause_ms=%.2f pause_cpu_ms=%.2f written_s=%.2f", (unsigned long long)index, (double)w.bytes / 1048576, huge, pause, cpu * 1e3, (now_ms() - start) / 1e3);
    times_print(&c->times, "commit");
    times_print(&turns, "touch");
    start = now_ms();
    for (turned = 0; snapfork_tend(); turned++)
        time_add(&turns, now_ms() - start), start = now_ms();
    times_print(&turns, "collapse");
    printf("\n");
    fflush(stdout);
    return 0;
bad:
    fprintf(stderr, "snapshots: %s\n", err.text);
    return 1;
}

static int load(int folder, const char *path, const uint8_t *id, uint64_t index, unsigned jobs)
{
    struct snapfile_reader r;
    struct spur_error err = { 0 };
    struct state *s;
    double start = now_ms(), opened, cpu = cpu_s();

    if (snapfile_open(&r, folder, path, id, index, &err) < 0)
        goto bad;
    opened = now_ms();
    if (state_load(&s, snapfile_read, &r, &err) < 0)
        goto bad;
    printf("restored jobs=%zu of=%u checked_s=%.2f loaded_s=%.2f total_s=%.2f cpu_s=%.2f\n", table_count(&s->jobs), jobs, (opened - start) / 1e3, (now_ms() - opened) / 1e3,
           (now_ms() - start) / 1e3, cpu_s() - cpu);
    snapfile_close(&r);
    return 0;
bad:
    fprintf(stderr, "snapshots: %s\n", err.text);
    return 1;
}

int main(int argc, char **argv)
{
    unsigned jobs = 1000000, rounds = 3, only = 0;
    bool is_kept = false;
    char made[] = "/tmp/spur-snapshots-XXXXXX";
    const char *path = NULL;
    uint8_t id[IDS] = { 1 };
    struct committer c = { .fd = -1 };
    struct state *s;
    double start = now_ms();
    struct rusage usage;
    int folder, opt, rc = 0;

    while ((opt = getopt(argc, argv, "n:d:r:l:k")) >= 0) {
        if (opt == 'n')
            jobs = (unsigned)atoi(optarg);
        else if (opt == 'd')
            path = optarg;
        else if (opt == 'r')
            rounds = (unsigned)atoi(optarg);
        else if (opt == 'l')
            only = (unsigned)atoi(optarg);
        else if (opt == 'k')
            is_kept = true;
        else
            return 2;
    }
    if (!path)
        path = mkdtemp(made);
    if (sodium_init() < 0 || !path || (folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) {
        fprintf(stderr, "snapshots: no folder: %s\n", strerror(errno));
        return 1;
    }
    snapfork_prepare();
    if (only)
        return load(folder, path, id, only, 0);
    c.fd = openat(folder, "log", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (c.fd < 0 || posix_fallocate(c.fd, 0, 32 << 20) != 0)
        return 1;
    s = state_make(jobs);
    getrusage(RUSAGE_SELF, &usage);
    printf("made jobs=%u seconds=%.1f rss_mib=%ld heap_mib=%.0f\n", jobs, (now_ms() - start) / 1e3, usage.ru_maxrss / 1024, (double)mallinfo2().arena / 1048576);
    while (snapfork_tend()) { }
    for (unsigned i = 1; rc == 0 && i <= rounds; i++)
        rc = snapshot(s, folder, path, id, i, &c, jobs);
    state_destroy(s);
    if (rc == 0)
        rc = load(folder, path, id, rounds, jobs);
    for (unsigned i = 1; i <= rounds && !is_kept; i++) {
        char name[40];

        snprintf(name, sizeof name, "snapshot-%016x", i);
        unlinkat(folder, name, 0);
    }
    unlinkat(folder, "log", 0);
    close(c.fd);
    close(folder);
    if (path == made)
        rmdir(path);
    return rc;
}
