/* SPDX-License-Identifier: Apache-2.0 */
/* libpmi.c - a client of libpmi and libpmi2 for t-libpmi: every function, by all ranks of a step or by a program that is alone.
 *
 *     libpmi one|two [alone]            PMI-1 or PMI-2; prints "not ok ..." lines, and a summary by rank 0
 *     libpmi fence COUNT BYTES          COUNT times: each rank puts BYTES bytes, all fence, each gets another one's value; rank 0 prints the milliseconds
 *     libpmi abort                      rank 1 of PMI-1 ends all with exit code 7
 *     libpmi debian                     what PMI-2 says of a rank, for a comparison with another library
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <slurm/pmi.h>
#include <slurm/pmi2.h>

static int rank, size, failures;

static void check(int is_good, const char *name)
{
    if (!is_good)
        printf("not ok rank %d: %s\n", rank, name);
    failures += !is_good;
}

static const char *env(const char *name) { return getenv(name) ? getenv(name) : ""; }

/* ---- PMI-1 ---- */

static void one(int is_alone)
{
    char name[300], other[300], key[100], value[1100], big[1100];
    int n = -1, spawned = -1, max = 0, *ranks, seen = 0;

    check(PMI_Get_rank(&rank) == PMI_ERR_INIT && PMI_Barrier() == PMI_ERR_INIT, "before PMI_Init");
    check(PMI_Initialized(&n) == PMI_SUCCESS && n == PMI_FALSE, "PMI_Initialized before");
    check(PMI_Init(&spawned) == PMI_SUCCESS && spawned == 0, "PMI_Init");
    check(PMI_Initialized(&n) == PMI_SUCCESS && n == PMI_TRUE, "PMI_Initialized");
    check(PMI_Get_size(&size) == PMI_SUCCESS && PMI_Get_rank(&rank) == PMI_SUCCESS, "size and rank");
    check(is_alone ? size == 1 && rank == 0 : size == atoi(env("SLURM_NTASKS")) && rank == atoi(env("SLURM_PROCID")), "as the step says");
    check(PMI_Get_universe_size(&n) == PMI_SUCCESS && n == size, "universe size");
    check(PMI_Get_appnum(&n) == PMI_SUCCESS && n == 0, "appnum");
    check(PMI_KVS_Get_my_name(name, sizeof name) == PMI_SUCCESS && *name && PMI_Get_id(other, sizeof other) == PMI_SUCCESS && !strcmp(name, other) &&
          PMI_Get_kvs_domain_id(other, sizeof other) == PMI_SUCCESS && PMI_KVS_Get_my_name(other, 2) == PMI_ERR_INVALID_LENGTH, "names");
    check(PMI_KVS_Get_name_length_max(&max) == PMI_SUCCESS && max > (int)strlen(name) && PMI_Get_id_length_max(&n) == PMI_SUCCESS && n == max, "length of a name");
    check(PMI_KVS_Get_key_length_max(&max) == PMI_SUCCESS && max == 65 && PMI_KVS_Get_value_length_max(&max) == PMI_SUCCESS && max == 1025, "lengths");

    snprintf(key, sizeof key, "card-%d", rank);
    snprintf(value, sizeof value, "rank %d = here; and=there", rank);
    check(PMI_KVS_Put(name, key, value) == PMI_SUCCESS && PMI_KVS_Commit(name) == PMI_SUCCESS && PMI_Barrier() == PMI_SUCCESS, "put, commit, barrier");
    for (int r = 0; r < size; r++) {
        snprintf(key, sizeof key, "card-%d", r);
        snprintf(big, sizeof big, "rank %d = here; and=there", r);
        check(PMI_KVS_Get(name, key, value, sizeof value) == PMI_SUCCESS && !strcmp(value, big), "get of another rank's");
    }
    memset(big, 'x', 1024);
    big[1024] = '\0';
    snprintf(key, sizeof key, "big-%d", rank);
    check(PMI_KVS_Put(name, key, big) == PMI_SUCCESS && PMI_Barrier() == PMI_SUCCESS, "put of the longest value");
    snprintf(key, sizeof key, "big-%d", (rank + 1) % size);
    check(PMI_KVS_Get(name, key, value, sizeof value) == PMI_SUCCESS && !strcmp(value, big), "get of the longest value");
    check(PMI_KVS_Get(name, key, value, 10) == PMI_ERR_INVALID_VAL_LENGTH && strlen(value) == 9, "a value that does not fit");
    big[1024] = 'x';
    big[1025] = '\0';
    check(PMI_KVS_Put(name, "k", big) == PMI_ERR_INVALID_VAL_LENGTH, "a value that is too long");
    check(PMI_KVS_Put(name, "two words", "v") == PMI_ERR_INVALID_KEY && PMI_KVS_Put(name, "k", "two\nlines") == PMI_ERR_INVALID_VAL, "what no line can hold");
    check(PMI_KVS_Put("nosuch", "k", "v") == PMI_ERR_INVALID_KVS && PMI_KVS_Get(name, "nosuch", value, sizeof value) == PMI_FAIL, "what is not there");
    check(PMI_KVS_Create(other, sizeof other) == PMI_FAIL, "a second space");
    check(PMI_KVS_Iter_first(name, key, sizeof key, value, sizeof value) == PMI_SUCCESS, "iterate");
    for (; *key && seen < 10000; seen++)
        if (PMI_KVS_Iter_next(name, key, sizeof key, value, sizeof value) != PMI_SUCCESS)
            break;
    check(seen >= 2 * size && !*key, "all pairs");

    check(PMI_Get_clique_size(&n) == PMI_SUCCESS && n >= 1 && n <= size, "clique size");
    ranks = calloc((size_t)n + 1, sizeof *ranks);
    check(PMI_Get_clique_ranks(ranks, n) == PMI_SUCCESS, "clique ranks");
    if (!is_alone) {
        char text[300] = "";

        for (int i = 0; i < n; i++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d", i ? "," : "", ranks[i]);
        check(!strcmp(text, env("SLURM_GTIDS")), "the clique is the node's tasks");
    }
    check(n == 1 || PMI_Get_clique_ranks(ranks, n - 1) == PMI_ERR_INVALID_LENGTH, "a clique that does not fit");
    free(ranks);

    if (rank == size - 1)
        check(PMI_Publish_name("ocean", "tcp://here:1") == PMI_SUCCESS && PMI_Publish_name("ocean", "x") == PMI_FAIL, "publish");
    PMI_Barrier();
    check(PMI_Lookup_name("ocean", value) == PMI_SUCCESS && !strcmp(value, "tcp://here:1") && PMI_Lookup_name("sea", value) == PMI_FAIL, "look up");
    PMI_Barrier();
    if (rank == 0)
        check(PMI_Unpublish_name("ocean") == PMI_SUCCESS && PMI_Unpublish_name("ocean") == PMI_FAIL, "unpublish");
    PMI_Barrier();
    check(PMI_Lookup_name("ocean", value) == PMI_FAIL, "look up of what is gone");
    check(PMI_Barrier() == PMI_SUCCESS && PMI_Finalize() == PMI_SUCCESS, "PMI_Finalize");
    check(PMI_Barrier() == PMI_ERR_INIT && PMI_Init(&spawned) == PMI_FAIL, "after PMI_Finalize");
}

/* ---- PMI-2 ---- */

static void *wait_for_attribute(void *arg)
{
    char value[64] = "";
    int found = 0;

    check(PMI2_Info_GetNodeAttr("late", value, sizeof value, &found, 1) == PMI2_SUCCESS && found && !strcmp(value, "it;came"), "a node attribute that comes later");
    return arg;
}

static void two(int is_alone)
{
    char job[300], key[100], value[1100], want[1100], mapping[1100] = "", left[64], right[64];
    int spawned, appnum, n = 0, found, numbers[8], local = 1;
    pthread_t waiter;

    check(!PMI2_Initialized() && PMI2_KVS_Fence() == PMI2_ERR_INIT, "before PMI2_Init");
    check(PMI2_Init(&spawned, &size, &rank, &appnum) == PMI2_SUCCESS && !spawned && PMI2_Initialized(), "PMI2_Init");
    check(is_alone ? size == 1 && rank == 0 : size == atoi(env("SLURM_NTASKS")) && rank == atoi(env("SLURM_PROCID")), "as the step says");
    check(PMI2_Job_GetRank(&n) == PMI2_SUCCESS && n == rank, "rank");
    check(PMI2_Job_GetId(job, sizeof job) == PMI2_SUCCESS && *job && PMI2_Job_GetId(value, 2) == PMI2_ERR_INVALID_LENGTH, "job id");
    check(PMI2_Info_GetSize(&local) == PMI2_SUCCESS && local == size, "processes of the job");

    for (int round = 0; round < 3; round++) {
        snprintf(key, sizeof key, "card/%d/%d", round, rank);
        snprintf(value, sizeof value, "round %d; of=%d;;", round, rank);
        check(PMI2_KVS_Put(key, value) == PMI2_SUCCESS && PMI2_KVS_Fence() == PMI2_SUCCESS, "put and fence");
        for (int r = 0; r < size; r++) {
            snprintf(key, sizeof key, "card/%d/%d", round, r);
            snprintf(want, sizeof want, "round %d; of=%d;;", round, r);
            check(PMI2_KVS_Get(r % 2 ? job : NULL, r % 3 ? r : PMI2_ID_NULL, key, value, sizeof value, &n) == PMI2_SUCCESS && !strcmp(value, want) && n == (int)strlen(want), "get");
        }
    }
    check(PMI2_KVS_Get(NULL, 0, "card/0/0", value, 6, &n) == PMI2_SUCCESS && n < -5 && !strcmp(value, "round"), "a value that does not fit");
    check(PMI2_KVS_Get(NULL, 0, "nosuch", value, sizeof value, &n) == PMI2_ERR_OTHER && PMI2_KVS_Get("4711.9", 0, "card/0/0", value, sizeof value, &n) == PMI2_ERR_OTHER, "what is not there");
    memset(want, ';', 1024);
    want[1024] = '\0';
    snprintf(key, sizeof key, "long-%d", rank);
    check(PMI2_KVS_Put(key, want) == PMI2_SUCCESS && PMI2_KVS_Fence() == PMI2_SUCCESS, "the longest value, of what is written twice");
    snprintf(key, sizeof key, "long-%d", (rank + 1) % size);
    check(PMI2_KVS_Get(NULL, PMI2_ID_NULL, key, value, sizeof value, &n) == PMI2_SUCCESS && n == 1024 && !strcmp(value, want), "and back");
    want[1024] = 'x';
    want[1025] = '\0';
    check(PMI2_KVS_Put("k", want) == PMI2_ERR_INVALID_VAL_LENGTH && PMI2_KVS_Put("a;b", "v") == PMI2_ERR_INVALID_KEY && PMI2_KVS_Put("", "v") == PMI2_ERR_INVALID_KEY, "what is over a limit");

    check(PMI2_Info_GetJobAttr("PMI_process_mapping", mapping, sizeof mapping, &found) == PMI2_SUCCESS && found && !strncmp(mapping, "(vector,", 8), "PMI_process_mapping");
    check(PMI2_Info_GetJobAttr("universeSize", value, sizeof value, &found) == PMI2_SUCCESS && found && atoi(value) == size, "universeSize");
    check(PMI2_Info_GetJobAttrIntArray("universeSize", numbers, 8, &n, &found) == PMI2_SUCCESS && found && n == 1 && numbers[0] == size, "as numbers");
    check(PMI2_Info_GetJobAttr("nosuch", value, sizeof value, &found) == PMI2_SUCCESS && !found, "an attribute that is not there");

    check(pthread_create(&waiter, NULL, wait_for_attribute, NULL) == 0, "a thread");
    check(PMI2_Info_GetNodeAttr("nosuch", value, sizeof value, &found, 0) == PMI2_SUCCESS && !found, "no such node attribute");
    check(PMI2_Info_PutNodeAttr("list", "3,-1,7") == PMI2_SUCCESS, "put of a node attribute");
    check(PMI2_Info_GetNodeAttrIntArray("list", numbers, 8, &n, &found) == PMI2_SUCCESS && found && n == 3 && numbers[0] == 3 && numbers[1] == -1 && numbers[2] == 7, "its numbers");
    check(PMI2_Info_GetNodeAttrIntArray("list", numbers, 2, &n, &found) == PMI2_ERR_INVALID_VAL_LENGTH, "more numbers than fit");
    check(PMI2_KVS_Fence() == PMI2_SUCCESS, "a fence while a thread waits");
    check(PMI2_Info_PutNodeAttr("late", "it;came") == PMI2_SUCCESS && pthread_join(waiter, NULL) == 0, "what the thread waits for");

    if (rank == size - 1)
        check(PMI2_Nameserv_publish("lake", NULL, "tcp://there:2;x=y") == PMI2_SUCCESS && PMI2_Nameserv_publish("lake", NULL, "x") == PMI2_ERR_OTHER, "publish");
    PMI2_KVS_Fence();
    check(PMI2_Nameserv_lookup("lake", NULL, value, sizeof value) == PMI2_SUCCESS && !strcmp(value, "tcp://there:2;x=y") && PMI2_Nameserv_lookup("pond", NULL, value, sizeof value) == PMI2_ERR_OTHER, "look up");
    PMI2_KVS_Fence();
    if (rank == 0)
        check(PMI2_Nameserv_unpublish("lake", NULL) == PMI2_SUCCESS && PMI2_Nameserv_unpublish("lake", NULL) == PMI2_ERR_OTHER, "unpublish");
    PMI2_KVS_Fence();
    check(PMI2_Nameserv_lookup("lake", NULL, value, sizeof value) == PMI2_ERR_OTHER, "look up of what is gone");

    for (int i = 0; i < 2; i++) {
        int place = -1, places = 0;

        snprintf(value, sizeof value, "%d of %d", i, rank);
        check(PMIX_Ring(value, &place, &places, left, right, sizeof left) == PMI2_SUCCESS && place == rank && places == size, "PMIX_Ring");
        snprintf(value, sizeof value, "%d of %d", i, (rank + size - 1) % size);
        snprintf(want, sizeof want, "%d of %d", i, (rank + 1) % size);
        check(!strcmp(left, value) && !strcmp(right, want), "its neighbours");
    }
    check(PMI2_Job_Spawn(1, (const char *[]){ "a" }, NULL, NULL, (const int[]){ 1 }, NULL, NULL, 0, NULL, job, sizeof job, &n) == PMI2_FAIL && n == PMI2_FAIL, "spawn is refused");
    check(PMI2_Job_Connect("1.0", &(PMI2_Connect_comm_t){ 0 }) == PMI2_FAIL && PMI2_Job_Disconnect("1.0") == PMI2_FAIL, "and so is joining jobs");
    check(PMI2_KVS_Fence() == PMI2_SUCCESS && PMI2_Finalize() == PMI2_SUCCESS && !PMI2_Initialized(), "PMI2_Finalize");
}

/* ---- figures ---- */

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int fence(int count, int bytes)
{
    char name[300], key[64], value[1100], got[1100];
    int spawned;

    if (PMI_Init(&spawned) || PMI_Get_rank(&rank) || PMI_Get_size(&size) || PMI_KVS_Get_my_name(name, sizeof name) || bytes > 1024 || PMI_Barrier())
        return 1;
    for (int i = 0; i < count; i++) {
        double from = now_ms(), fenced;

        memset(value, 'a' + (rank + i) % 26, (size_t)bytes);
        value[bytes] = '\0';
        snprintf(key, sizeof key, "%d/%d", i, rank);
        if (PMI_KVS_Put(name, key, value) || PMI_KVS_Commit(name) || PMI_Barrier())
            return 1;
        fenced = now_ms();
        snprintf(key, sizeof key, "%d/%d", i, (rank + size / 2) % size);
        memset(value, 'a' + ((rank + size / 2) % size + i) % 26, (size_t)bytes);
        if (PMI_KVS_Get(name, key, got, sizeof got) || strcmp(got, value))
            return 1;
        if (PMI_Barrier())              /* so that the next one begins for all at once */
            return 1;
        if (rank == 0)
            printf("fence %d: %.1f ms\n", i, fenced - from);
    }
    return PMI_Finalize() != PMI_SUCCESS;
}

static int compare(void)
{
    char text[1100] = "";
    int spawned = -9, appnum = -9, local = -9, n = -9, rc;

    rc = PMI2_Init(&spawned, &size, &rank, &appnum);
    printf("init %d: %d %d %d %d\n", rc, spawned, size, rank, appnum);
    printf("size %d: ", PMI2_Info_GetSize(&local));
    printf("%d\n", local);
    PMI2_KVS_Put("a", "12345");
    PMI2_KVS_Fence();
    rc = PMI2_KVS_Get(NULL, -1, "a", text, 3, &n);
    printf("short %d: %s %d\n", rc, text, n);
    rc = PMI2_KVS_Get(NULL, -1, "nosuch", text, 30, &n);
    printf("none %d: %d\n", rc, n);
    rc = PMI2_Nameserv_lookup("nosuch", NULL, text, 30);
    printf("name %d\n", rc);
    rc = PMI2_Info_GetNodeAttr("nosuch", text, 30, &n, 0);
    printf("attribute %d: %d\n", rc, n);
    printf("end %d %d\n", PMI2_Finalize(), PMI2_Initialized());
    return 0;
}

static int abort_all(void)
{
    int spawned;

    if (PMI_Init(&spawned) || PMI_Get_rank(&rank) || PMI_Barrier())     /* all have started */
        return 1;
    if (rank == 1)
        PMI_Abort(7, "the end");
    PMI_Barrier();                      /* never whole */
    return 2;
}

int main(int argc, char **argv)
{
    int is_alone = argc > 2 && !strcmp(argv[2], "alone");

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 3 && !strcmp(argv[1], "fence"))
        return fence(atoi(argv[2]), atoi(argv[3]));
    if (argc > 1 && !strcmp(argv[1], "debian"))
        return compare();
    if (argc > 1 && !strcmp(argv[1], "abort"))
        return abort_all();
    if (argc > 1 && !strcmp(argv[1], "one"))
        one(is_alone);
    else
        two(is_alone);
    if (rank == 0)
        printf("rank 0 of %d: %d failures\n", size, failures);
    return failures != 0;
}
