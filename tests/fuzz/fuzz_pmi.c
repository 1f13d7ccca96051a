/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_pmi.c - any bytes as what the tasks of a step say to mpi/pmi2 on PMI_FD, and as what its servers on other nodes say.
 *
 * The first byte: '0' or '1' for this node's place in a step of two nodes with three ranks each, anything else for a step of one node. The rest is pieces, each
 * ended by a byte 0xff. A piece begins with a letter: 'a', 'b', 'c': that rank says the rest; 'A', 'B', 'C': that rank's socket ends; 'g': the other
 * node's part of the fence; 'r': what its server sends; 'l': it is lost, and why. Whatever they say, each answer is one line of PMI-1 or one whole
 * message of PMI-2, a sentence is one line, and a fence is asked for once.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "inside.h"

#define RANKS 3

extern const struct spur_plugin spur_plugin;

static struct {
    const struct spur_mpi_ops *ops;
    struct pmi *pmi;
    struct spur_mpi_step step;
    int server[RANKS], task[RANKS];     /* the ends of each rank's socket; -1: closed */
    bool asked;                         /* a gather waits */
    char key[SPUR_MPI_KEY_MAX + 1], *part;
    size_t part_len;
} g;

static void *copy_of(const void *data, size_t len)
{
    void *copy = malloc(len ? len : 1); /* its own memory, so that a read past the end is seen */

    FUZZ_HOLDS(copy);
    if (len)
        memcpy(copy, data, len);
    return copy;
}

/* ---- the host ---- */

static int gather(void *ctx, const char *key, const uint32_t *nodes, uint32_t count, const void *data, size_t len, struct spur_error *err)
{
    (void)ctx; (void)nodes; (void)err;
    FUZZ_HOLDS(!g.asked && count == 0 && strlen(key) <= SPUR_MPI_KEY_MAX);
    g.asked = true;
    snprintf(g.key, sizeof g.key, "%s", key);
    g.part = copy_of(data, len);
    g.part_len = len;
    return 0;
}

static int send_to(void *ctx, uint32_t node, const void *data, size_t len, struct spur_error *err)
{
    (void)ctx; (void)err;
    FUZZ_HOLDS(node < g.step.node_count && node != g.step.node_rank && len >= 8 && ((const char *)data)[len - 1] == '\0');
    free(copy_of(data, len));
    return 0;
}

static void step_abort(void *ctx, int exit_code, const char *text)
{
    (void)ctx; (void)exit_code;
    FUZZ_HOLDS(*text && !strpbrk(text, "\r\n"));
}

static void set(void *arg, const char *name, const char *value) { (void)arg; FUZZ_HOLDS(*name && *value); }

/* ---- what a rank hears ---- */

/* "name=value;" again and again, a semicolon of a value written twice. */
static bool is_pairs(const char *text, const char *end)
{
    while (text < end) {
        const char *eq = memchr(text, '=', (size_t)(end - text));

        if (!eq || eq == text || memchr(text, ';', (size_t)(eq - text)))
            return false;
        for (text = eq + 1; text < end && (text[0] != ';' || (text + 1 < end && text[1] == ';')); text++)
            text += text[0] == ';';
        if (text >= end)
            return false;
        text++;
    }
    return true;
}

static void hear(uint32_t rank)
{
    const struct rank *r = &g.pmi->ranks[rank];
    static char text[1 << 20];
    const char *at = text, *end;
    size_t len = 0;
    ssize_t n;

    if (g.task[rank] < 0)
        return;
    while (len < sizeof text && (n = recv(g.task[rank], text + len, sizeof text - len, MSG_DONTWAIT)) > 0)
        len += (size_t)n;
    if (r->broken)
        return;                         /* its socket was full: the last answer is not whole */
    for (end = text + len; at < end; ) {
        if (*at == 'c') {
            const char *line = memchr(at, '\n', (size_t)(end - at));

            FUZZ_HOLDS(line && line - at > 4 && !memcmp(at, "cmd=", 4));
            at = line + 1;
        } else {
            char digits[7] = { 0 }, *stop;
            long size;

            FUZZ_HOLDS(end - at > 6);
            memcpy(digits, at, 6);
            size = strtol(digits, &stop, 10);
            FUZZ_HOLDS(!*stop && size > 4 && size <= end - at - 6 && !memcmp(at + 6, "cmd=", 4) && is_pairs(at + 6, at + 6 + size));
            at += 6 + size;
        }
    }
}

/* ---- what is said ---- */

static void ends(uint32_t rank)
{
    close(g.server[rank]);
    close(g.task[rank]);
    g.server[rank] = g.task[rank] = -1;
}

/* As the host: asks for input while there is some, and closes when told so. */
static void listen_to(uint32_t rank)
{
    char c;

    while (g.server[rank] >= 0) {
        if (recv(g.server[rank], &c, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN)
            return;
        if (g.ops->input(g.pmi, rank) < 0)
            ends(rank);
    }
}

static void say(uint32_t rank, const uint8_t *data, size_t size)
{
    while (size && g.task[rank] >= 0) {
        ssize_t n = send(g.task[rank], data, size, MSG_NOSIGNAL | MSG_DONTWAIT);

        FUZZ_HOLDS(n > 0 || errno == EAGAIN);
        if (n > 0) {
            data += n;
            size -= (size_t)n;
        }
        listen_to(rank);
    }
}

/* NULL: the step has one node. */
static void gathered(const uint8_t *data, size_t size)
{
    void *other = copy_of(data, size), *mine = g.part;
    struct spur_mpi_part parts[2] = { { .node = g.step.node_rank, .data = mine, .len = g.part_len }, { .node = 1 - g.step.node_rank, .data = other, .len = size } };

    if (g.asked) {
        g.asked = false;
        g.part = NULL;
        g.ops->gathered(g.pmi, g.key, parts, g.step.node_count, sizeof parts[0]);
        free(mine);
    }
    free(other);
}

static void piece(const uint8_t *data, size_t size)
{
    uint8_t who = size ? data[0] : 0;
    bool is_shared = g.step.node_count == 2;

    if (who >= 'a' && who < 'a' + RANKS) {
        say((uint32_t)(who - 'a'), data + 1, size - 1);
    } else if (who >= 'A' && who < 'A' + RANKS && g.task[who - 'A'] >= 0) {
        shutdown(g.task[who - 'A'], SHUT_WR);
        listen_to((uint32_t)(who - 'A'));
    } else if (who == 'g' && is_shared) {
        gathered(data + 1, size - 1);
    } else if (who == 'r' && is_shared) {
        void *copy = copy_of(data + 1, size - 1);

        g.ops->received(g.pmi, 1 - g.step.node_rank, copy, size - 1);
        free(copy);
    } else if (who == 'l' && is_shared) {
        char *why = fuzz_text(data + 1, size - 1);

        g.ops->lost(g.pmi, why);
        free(why);
    }
    if (!is_shared)
        gathered(NULL, 0);
    for (uint32_t i = 0; i < RANKS; i++)
        hear(i);
}

int fuzz_one(const uint8_t *data, size_t size)
{
    static const char *const nodes[] = { "n0", "n1" };
    static const uint32_t tasks[] = { 0, 1, 2, 3, 4, 5 }, first[] = { 0, RANKS, 2 * RANKS };
    struct spur_mpi_env env = { .size = sizeof env, .set = set };
    struct spur_error err = { 0 };
    bool is_shared;
    void *self;

    if (size < 2)
        return 0;
    is_shared = data[0] == '0' || data[0] == '1';
    memset(&g, 0, sizeof g);
    g.ops = spur_plugin.ops;
    g.step = (struct spur_mpi_step){ .size = sizeof g.step, .job_id = 7, .ntasks = is_shared ? 2 * RANKS : RANKS, .node_count = is_shared ? 2 : 1, .node_rank = data[0] == '1',
                                     .nodes = nodes, .tasks = tasks, .first = first, .cluster = "c", .dir = "", .gather = gather, .send = send_to, .abort = step_abort };
    FUZZ_HOLDS(spur_plugin.open(NULL, NULL, &self, &err) == 0);
    g.pmi = self;
    FUZZ_HOLDS(g.ops->start(self, &g.step, &err) == 0);
    for (uint32_t i = 0; i < RANKS; i++) {
        int pair[2];

        FUZZ_HOLDS(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
        g.server[i] = pair[0];
        g.task[i] = pair[1];
        FUZZ_HOLDS(g.ops->task(self, i, pair[0], &env, &err) == 0);
    }
    for (data++, size--; size; ) {
        const uint8_t *end = memchr(data, 0xff, size);
        size_t n = end ? (size_t)(end - data) : size;

        piece(data, n);
        data += n + (end != NULL);
        size -= n + (end != NULL);
    }
    for (uint32_t i = 0; i < RANKS; i++)
        if (g.server[i] >= 0)
            ends(i);
    spur_plugin.close(self);
    free(g.part);
    return 0;
}
