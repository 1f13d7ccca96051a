/* SPDX-License-Identifier: Apache-2.0 */
/* handshakes.c - what the encrypted channel costs: CPU a handshake and side with auth/sodium, what a stranger costs before he is known (CPU and memory),
 * and what a core seals and opens. In one process, without sockets, so that only the channel and the plugin are measured. Prints numbers.
 *
 *     tests/bench/handshakes [HANDSHAKES [MIB]]
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <sodium.h>

#include "config/config.h"
#include "loader/loader.h"
#include "rpc/channel.h"

struct side { const char *name, *role; struct spur_host h; struct loaded *l; const struct spur_auth_ops *ops; struct config *cfg; double us; };

static char folder[] = "/tmp/spur-bench-keys-XXXXXX";

static const char *side_name(void *ctx) { return ((struct side *)ctx)->name; }
static const char *side_role(void *ctx) { return ((struct side *)ctx)->role; }

static double cpu_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void must(int rc, const struct spur_error *err)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "handshakes: %s\n", err->text);
    exit(1);
}

/* FOLDER/{a,b}: a controller and a compute host who know each other. */
static void keys(void)
{
    static const char *const names[] = { "a", "b" }, *const roles[] = { "controller", "compute" };
    uint8_t seed[32], public_key[2][32], secret[64];
    char path[96], hex[65];
    FILE *f;

    if (!mkdtemp(folder))
        exit(1);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        mkdir(path, 0700);
        snprintf(path, sizeof path, "%s/%s/host.key", folder, names[i]);
        randombytes_buf(seed, sizeof seed);
        crypto_sign_seed_keypair(public_key[i], secret, seed);
        if (!(f = fopen(path, "w")))
            exit(1);
        fchmod(fileno(f), 0600);
        fprintf(f, "%s %s %s\n", names[i], roles[i], sodium_bin2hex(hex, sizeof hex, seed, 32));
        fclose(f);
    }
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s/hosts", folder, names[i]);
        if (!(f = fopen(path, "w")))
            exit(1);
        fchmod(fileno(f), 0644);
        for (int k = 0; k < 2; k++)
            fprintf(f, "%s %s %s\n", names[k], roles[k], sodium_bin2hex(hex, sizeof hex, public_key[k], 32));
        fclose(f);
    }
}

static void side_open(struct side *s, const char *name, const char *role)
{
    struct spur_error err = { 0 };
    char spur[200];

    *s = (struct side){ .name = name, .role = role };
    s->h = (struct spur_host){ .size = sizeof s->h, .ctx = s, .host_name = side_name, .role = side_role };
    snprintf(spur, sizeof spur, "plugin \"auth/sodium\" { key_dir = \"%s/%s\" }\n", folder, name);
    must(config_parse("ClusterName=c\nSlurmctldHost=a\nNodeName=b\nPartitionName=p Nodes=b\n", NULL, NULL, NULL, spur, &s->cfg, &err), &err);
    must(loader_open(SPUR_KIND_auth, "auth/sodium", s->cfg, &s->h, &s->l, &err), &err);
    s->ops = loader_ops(s->l);
}

/* One side takes what the other has said, and goes on as far as it can. The time is its own. */
static void turn(struct side *s, struct channel *c, struct str *in)
{
    struct spur_error err = { 0 };
    struct spur_identity id = { .size = sizeof id };
    uint8_t proof[SPUR_PROOF_MAX];
    const uint8_t *theirs;
    double from = cpu_us();
    size_t len;

    if (in && in->len) {
        must(channel_input(c, in->text, in->len, &err), &err);
        str_clear(in);
    }
    for (enum channel_want want; (want = channel_want(c)) == CHANNEL_PROVE || want == CHANNEL_CHECK;)
        if (want == CHANNEL_PROVE) {
            must(s->ops->prove(s->l->self, channel_transcript(c, false), proof, &len, &err), &err);
            must(channel_proof(c, proof, len, &err), &err);
        } else {
            theirs = channel_peer_proof(c, &len);
            must(s->ops->check(s->l->self, channel_transcript(c, true), theirs, len, &id, &err), &err);
            must(channel_checked(c, &err), &err);
        }
    s->us += cpu_us() - from;
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 2000, mib = argc > 2 ? atoi(argv[2]) : 512;
    struct channel_pool *pool = channel_pool_create();
    struct channel *client = NULL, *server = NULL;
    struct side ctl, node;
    struct spur_error err = { 0 };
    double stranger_us = 0, from, seal_us = 0, open_us = 0;
    size_t stranger_bytes = 0, body = 64 << 10;
    char command[80];
    struct frame f;
    const uint8_t *got;
    uint8_t *data = calloc(1, body);

    if (!data || count < 1 || mib < 1)
        return 1;
    keys();
    side_open(&ctl, "a", "controller");
    side_open(&node, "b", "agent");
    for (int i = 0; i < count; i++) {
        channel_destroy(client);
        channel_destroy(server);
        channel_pool_fill(pool, 1);                 /* in the quiet between two connections */
        from = cpu_us();
        client = channel_client("c");
        node.us += cpu_us() - from;
        from = cpu_us();
        server = channel_server("c", pool);
        ctl.us += cpu_us() - from;
        from = ctl.us;
        turn(&ctl, server, channel_output(client));     /* the greeting: all that somebody gets who says nothing more */
        stranger_us += ctl.us - from;
        if (channel_memory(server) > stranger_bytes)
            stranger_bytes = channel_memory(server);
        turn(&node, client, channel_output(server));
        turn(&ctl, server, channel_output(client));
        turn(&node, client, channel_output(server));
        if (channel_want(client) != CHANNEL_READY || channel_want(server) != CHANNEL_READY)
            return 1;
    }
    for (int i = 0; i < mib * 16; i++) {
        from = cpu_us();
        must(channel_send_bytes(client, 1, 1, data, body, &err), &err);
        seal_us += cpu_us() - from;
        from = cpu_us();
        must(channel_input(server, channel_output(client)->text, channel_output(client)->len, &err), &err);
        must(channel_next(server, &f, &got, &err), &err);
        open_us += cpu_us() - from;
        str_clear(channel_output(client));
    }
    printf("handshake, controller's side      %8.1f us of CPU\n", ctl.us / count);
    printf("handshake, node's side            %8.1f us of CPU\n", node.us / count);
    printf("a stranger who only greets        %8.1f us of CPU, %zu bytes\n", stranger_us / count, stranger_bytes);
    printf("sealed                            %8.0f MB/s a core\n", mib * 1048576.0 / seal_us);
    printf("opened                            %8.0f MB/s a core\n", mib * 1048576.0 / open_us);
    channel_destroy(client);
    channel_destroy(server);
    channel_pool_destroy(pool);
    loader_close(ctl.l);
    loader_close(node.l);
    config_free(ctl.cfg);
    config_free(node.cfg);
    free(data);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) != 0;
}
