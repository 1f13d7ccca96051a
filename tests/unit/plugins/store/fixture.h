/* SPDX-License-Identifier: Apache-2.0 */
/* fixture.h - a host with a loop, a state machine that is the list of its entries, and a folder, for tests of store/local. */
#ifndef TEST_STORE_FIXTURE_H
#define TEST_STORE_FIXTURE_H

#include <check.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "local.h"
#include "wal.h"

struct posted { void (*fn)(void *arg); void *arg; };

/* The loop: posted calls wait here until world_turn runs them. */
struct world {
    struct spur_host host;
    pthread_mutex_t lock;
    pthread_cond_t  wake;
    struct posted posted[1024];
    size_t   posted_count;
    char     folder[64];
    char     log[16384];                /* all lines */
    struct spur_store_events events;
    /* The state: a hash over all entries, and their number. */
    uint64_t hash, count, index;
    uint64_t live, dropped;             /* with a cookie; dropped calls */
    uint64_t last_cookie;
    int      dropped_code;
    char     dropped_text[240];
    enum spur_store_role role;
    uint64_t fence;
    size_t   padding;                   /* bytes that a snapshot has beyond the state itself */
    int      snapshot_reads, snapshot_writes;
    void    *store;
};

void world_init(struct world *w);
void world_fini(struct world *w);       /* closes the store, removes the folder */
int  world_open(struct world *w, uint64_t segment, uint64_t snapshot, const struct wal_io *io, struct spur_error *err);  /* a store, started */
void world_close(struct world *w);      /* stops and closes it */
void world_forget(struct world *w);     /* the state is as before any entry */
void world_turn(struct world *w);       /* runs what is posted now */
/* Turns until live + dropped reaches `n`; fails the test after 20 s. */
void world_wait(struct world *w, uint64_t n);
void world_wait_role(struct world *w, enum spur_store_role role);
int  world_propose(struct world *w, const void *data, size_t n, uint64_t cookie, struct spur_error *err);
bool world_logged(struct world *w, const char *text);

uint64_t hash_entry(uint64_t hash, const void *data, size_t n);
void folder_make(char path[64]);
void folder_remove(const char *path);
void folder_copy(const char *from, const char *to);
/* A reproducible entry: number i of seed. Returns its size, at most `most`. */
size_t entry_make(uint8_t *out, size_t most, uint64_t seed, uint64_t i);
uint64_t random_next(uint64_t *state);

#endif
