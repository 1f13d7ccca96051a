/* SPDX-License-Identifier: Apache-2.0 */
/* raft.c - the program: seeds in, "N seeds, 0 violations" out. Usage below. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "cluster.h"
#include "core_fault.h"
#include "faults.h"

static const char usage[] =
    "usage: raft [--from N] [--count M] [--fault NAME] [--verbose] [--quiet]\n"
    "       raft --seed N [--fault NAME] [--verbose]      one seed again, with its trace\n"
    "       raft --faults                                 the faults that can be put in\n"
    "       raft --gate FILE [--count M]                  each fault must be caught: at the seed of FILE's line, or by M (2000) seeds\n";

unsigned sim_faults;

const char *fault_name(unsigned i, const char **text)
{
    static const struct { const char *name, *text; } rows[] = {
#define ROW(fault, what) { #fault, what },
        RAFT_FAULT_LIST(ROW) SIM_FAULT_LIST(ROW)
#undef ROW
    };

    if (i >= sizeof rows / sizeof *rows)
        return NULL;
    *text = rows[i].text;
    return rows[i].name;
}

bool fault_set(const char *name)
{
    const char *text, *row;

    raft_faults = 0;
    sim_faults = 0;
    if (!name)
        return true;
    for (unsigned i = 0; (row = fault_name(i, &text)); i++)
        if (strcasecmp(row, name) == 0) {
            if (i < RAFT_FAULT_COUNT)
                raft_faults = UINT32_C(1) << i;
            else
                sim_faults = 1u << (i - RAFT_FAULT_COUNT);
            return true;
        }
    return false;
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The seed at which FILE says that this fault is caught; 0: it says nothing. */
static uint64_t recorded(const char *path, const char *fault)
{
    char line[200], name[64];
    unsigned long long seed = 0, found = 0;
    FILE *f = fopen(path, "r");

    if (!f) {
        fprintf(stderr, "raft: %s: %s\n", path, strerror(errno));
        exit(2);
    }
    while (!found && fgets(line, sizeof line, f))
        if (sscanf(line, "%63s %llu", name, &seed) == 2 && strcasecmp(name, fault) == 0)
            found = seed;
    fclose(f);
    return found;
}

/* The mutation gate: a simulator that misses a known fault is too weak to be believed about unknown ones. A source that has changed moves
 * the seeds, so a miss at the recorded one is followed by the search; the new seed is printed. */
static int gate(const char *path, uint64_t count)
{
    const char *name, *text;
    char failure[500] = "";
    int missed = 0;

    for (unsigned i = 0; (name = fault_name(i, &text)); i++) {
        uint64_t at = recorded(path, name), seed = 0;

        fault_set(name);
        if (!at || run_seed(at, false, failure, sizeof failure, NULL) == 0) {
            for (seed = 1; seed <= count && run_seed(seed, false, failure, sizeof failure, NULL) == 0; seed++)
                ;
            at = seed;
        }
        if (at > count)
            printf("%-22s NOT CAUGHT by %llu seeds\n", name, (unsigned long long)count);
        else
            printf("%-22s %4llu%s  %s\n", name, (unsigned long long)at, seed ? " (new)" : "", failure);
        missed += at > count;
        fflush(stdout);
    }
    fault_set(NULL);
    printf("%d faults are not caught\n", missed);
    return missed != 0;
}

int main(int argc, char **argv)
{
    static const struct option options[] = { { "from", 1, NULL, 'f' }, { "count", 1, NULL, 'c' }, { "seed", 1, NULL, 's' }, { "fault", 1, NULL, 'm' },
        { "verbose", 0, NULL, 'v' }, { "quiet", 0, NULL, 'q' }, { "faults", 0, NULL, 'l' }, { "gate", 1, NULL, 'g' }, { "help", 0, NULL, 'h' }, { NULL, 0, NULL, 0 } };
    uint64_t from = 1, count = 500, bad = 0, steps = 0, elections = 0, acknowledged = 0, restarts = 0, reads = 0, installs = 0, changes = 0, virtual_us = 0, first_bad = 0, unmuted = 0;
    bool is_verbose = false, is_quiet = false;
    const char *fault = NULL, *text, *name, *table = NULL;
    static struct cluster statistics;
    char failure[500];
    double start;
    int o;

    while ((o = getopt_long(argc, argv, "", options, NULL)) != -1)
        switch (o) {
        case 'f': from = strtoull(optarg, NULL, 10); break;
        case 'c': count = strtoull(optarg, NULL, 10); break;
        case 's': from = strtoull(optarg, NULL, 10); count = 1; break;
        case 'm': fault = optarg; break;
        case 'g': table = optarg; count = 2000; break;
        case 'v': is_verbose = true; break;
        case 'q': is_quiet = true; break;
        case 'l':
            for (unsigned i = 0; (name = fault_name(i, &text)); i++)
                printf("%-22s %s\n", name, text);
            return 0;
        default: fputs(usage, o == 'h' ? stdout : stderr); return o == 'h' ? 0 : 2;
        }
    if (!fault_set(fault)) {
        fprintf(stderr, "raft: no fault is named %s: --faults lists them\n", fault);
        return 2;
    }
    if (is_verbose)
        setvbuf(stdout, NULL, _IOLBF, 0);
    if (table) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
        puts("a run that stops itself leaves its memory: not in this build");
        return 77;
#else
        return gate(table, count);
#endif
    }
    start = seconds();
    for (uint64_t seed = from; seed < from + count; seed++) {
        if (run_seed(seed, is_verbose, failure, sizeof failure, &statistics) < 0) {
            first_bad = first_bad ? first_bad : seed;
            bad++;
            printf("seed %llu: %s\n", (unsigned long long)seed, failure);
            if (fault)
                break;          /* caught: that is all the question */
            printf("  again: tests/sim/raft --seed %llu --verbose\n", (unsigned long long)seed);
            fflush(stdout);
        }
        steps += statistics.steps;
        elections += statistics.elections;
        acknowledged += statistics.acknowledged;
        restarts += statistics.restarts;
        reads += statistics.reads;
        installs += statistics.installs;
        changes += statistics.changes;
        unmuted += statistics.unmuted;
        virtual_us += statistics.lived_us;
    }
    start = seconds() - start;
    if (fault) {
        printf(bad ? "caught %s at seed %llu\n" : "%s is not caught by %llu seeds\n", fault, (unsigned long long)(bad ? first_bad : count));
        return !bad;
    }
    if (!is_quiet || bad)
        printf("%llu seeds from %llu, %llu violations; %.0f virtual s, %llu steps, %llu leaders, %llu starts, %llu acknowledged, %llu reads, %llu installed snapshots, "
               "%llu changes of members, %llu refilled; %.1f seeds/s of CPU time\n", (unsigned long long)count, (unsigned long long)from, (unsigned long long)bad,
               (double)virtual_us / SECOND, (unsigned long long)steps, (unsigned long long)elections, (unsigned long long)restarts, (unsigned long long)acknowledged,
               (unsigned long long)reads, (unsigned long long)installs, (unsigned long long)changes, (unsigned long long)unmuted, (double)count / start);
    return bad != 0;
}
