/* SPDX-License-Identifier: Apache-2.0 */
/* contract_gpu.c - promises of a gpu plugin: what it finds is well formed, and nothing is written past the room or element size it was given.
 * A plugin for hardware that this machine lacks finds nothing or says so; both are fine. */
#include <stdlib.h>
#include <string.h>
#include <spur/gpu.h>

#include "loader/contract.h"

static const struct spur_gres_line four = { .name = "gpu", .type = "a100", .file = "/dev/nvidia[0-3]", .cores = "0-7", .source = "gres.conf", .line = 1 };

/* A matrix row of device `g`: about devices that are there, and no link without a capacity. Only where the plugin knows these members. */
static int matrix_check(const struct spur_gpu *g, uint64_t devices, struct spur_error *err)
{
    CONTRACT_EXPECT(memchr(g->pci, '\0', sizeof g->pci) && memchr(g->uuid, '\0', sizeof g->uuid) && memchr(g->cores, '\0', sizeof g->cores) &&
                    memchr(g->fabric, '\0', sizeof g->fabric), "device %u has a text without an end", g->index);
    CONTRACT_EXPECT(g->numa >= -1 && g->pcie_switch >= -1, "device %u is on NUMA node %d, switch %d", g->index, (int)g->numa, (int)g->pcie_switch);
    for (uint32_t k = 0; k < SPUR_GPU_MAX; k++) {
        CONTRACT_EXPECT(k == g->index || g->links[k] >= 0, "device %u has %d links to device %u", g->index, (int)g->links[k], k);
        CONTRACT_EXPECT(k != g->index || (g->links[k] <= 0 && !g->mbps[k]), "device %u has links to itself", g->index);
        CONTRACT_EXPECT(g->path[k] <= SPUR_PATH_SYSTEM, "the path of device %u to %u is %u", g->index, k, g->path[k]);
        if (k == g->index || devices >> k & 1)
            continue;
        CONTRACT_EXPECT(!g->links[k] && !g->mbps[k] && !(g->hops >> k & 1), "device %u is joined to device %u, which is not there", g->index, k);
    }
    for (uint32_t k = 0; k < SPUR_GPU_MAX; k++)
        CONTRACT_EXPECT(!(g->hops >> k & 1) || !g->mbps[k], "device %u reaches device %u over others, and over links of its own", g->index, k);
    return 0;
}

static const struct spur_gpu *row_at(const struct spur_gpu_found *found, uint32_t i)
{
    return (const struct spur_gpu *)(const void *)((const char *)found->gpus + (size_t)i * found->gpu_size);
}

static int row_check(const struct spur_gpu_found *found, struct spur_error *err)
{
    uint64_t seen = 0;

    for (uint32_t i = 0; i < found->count; i++) {
        const struct spur_gpu *g = row_at(found, i);

        CONTRACT_EXPECT(g->name[0] && memchr(g->name, '\0', sizeof g->name) && memchr(g->type, '\0', sizeof g->type) && memchr(g->file, '\0', sizeof g->file),
                        "device %u has no name, or a text without an end", i);
        CONTRACT_EXPECT(g->count >= 1, "device %u counts 0", i);
        if (strcmp(g->name, "gpu") != 0 || (g->flags & SPUR_GPU_COUNT_ONLY))
            continue;
        CONTRACT_EXPECT(g->index < SPUR_GPU_MAX, "device %u has the number %u, at most %d can be", i, g->index, SPUR_GPU_MAX - 1);
        CONTRACT_EXPECT(!(seen >> g->index & 1), "two devices have the number %u", g->index);
        seen |= UINT64_C(1) << g->index;
    }
    for (uint32_t i = 0; i < found->count; i++)
        if (strcmp(row_at(found, i)->name, "gpu") == 0 && !(row_at(found, i)->flags & SPUR_GPU_COUNT_ONLY) && matrix_check(row_at(found, i), seen, err) < 0)
            return err->code;
    return 0;
}

/* The same hardware scanned twice is the same rows: numbers must not move under jobs that hold them. */
static int scans_alike(struct contract *c, struct spur_error *err)
{
    static struct spur_gpu first[72], second[72];
    struct spur_gpu_found one = { .size = sizeof one, .gpu_size = sizeof *first, .gpus = first, .room = 72 }, two = { .size = sizeof two, .gpu_size = sizeof *second, .gpus = second, .room = 72 };
    const struct spur_gpu_ops *ops;
    struct loaded *l;
    int rc;

    if ((rc = contract_open(c, &l, err)) < 0)
        return rc;
    ops = loader_ops(l);
    rc = ops->scan(l->self, &four, 1, sizeof four, c->dir, true, &one, err);
    if (rc < 0)
        return loader_close(l), CONTRACT_SKIP;      /* hardware that is not here */
    CONTRACT_EXPECT(ops->scan(l->self, &four, 1, sizeof four, c->dir, true, &two, err) == 0, "the second scan fails: %s", err->text);
    CONTRACT_EXPECT(one.count == two.count, "the second scan finds %u rows, the first %u", two.count, one.count);
    for (uint32_t i = 0; i < one.count; i++)
        CONTRACT_EXPECT(first[i].index == second[i].index && !strcmp(first[i].name, second[i].name) && !strcmp(first[i].file, second[i].file) &&
                        !memcmp(first[i].links, second[i].links, sizeof first[i].links) && !memcmp(first[i].mbps, second[i].mbps, sizeof first[i].mbps),
                        "row %u of the second scan differs", i);
    loader_close(l);
    return 0;
}

static int scans(struct contract *c, struct spur_error *err)
{
    /* Elements may be longer than this plugin knows them. */
    struct grown { struct spur_gpu gpu; unsigned char more[32]; } gpus[72];
    struct grown_line { struct spur_gres_line line; char more[24]; } lines[2] = { { four, "" }, { { .name = "licence", .count = "10", .source = "gres.conf", .line = 2 }, "" } };
    const struct spur_gpu_ops *ops;
    struct loaded *l;
    int rc;

    if ((rc = contract_open(c, &l, err)) < 0)
        return rc;
    ops = loader_ops(l);
    for (uint32_t room = 0; room < 72; room += room < 8 ? 1 : 64) {
        for (uint32_t count = 0; count <= 2; count++) {
            struct spur_gpu_found found = { .size = sizeof found, .gpu_size = sizeof *gpus, .gpus = &gpus[0].gpu, .room = room };

            memset(gpus, 0xa5, sizeof gpus);
            err->text[0] = '\0';
            rc = ops->scan(l->self, &lines[0].line, count, sizeof *lines, c->dir, true, &found, err);
            CONTRACT_EXPECT(rc <= 0, "scan returns %d: 0 or a negative code is wanted", rc);
            CONTRACT_EXPECT(rc == 0 || err->text[0], "scan fails (%d) without a sentence", rc);
            CONTRACT_EXPECT(rc < 0 || found.count <= room, "scan says 0 with %u devices in a room for %u", found.count, room);
            CONTRACT_EXPECT(rc != SPUR_ELIMIT || found.count > room, "scan says that %u places are too few and needs %u", room, found.count);
            for (size_t i = (size_t)room * sizeof *gpus; i < sizeof gpus; i++)
                CONTRACT_EXPECT(((unsigned char *)gpus)[i] == 0xa5, "scan writes past a room for %u devices", room);
            if (rc == 0 && row_check(&found, err) < 0)
                return err->code;
        }
    }
    loader_close(l);
    return 0;
}

static int health_fits(struct contract *c, struct spur_error *err)
{
    static struct spur_gpu gpus[72];
    struct spur_gpu_found found = { .size = sizeof found, .gpu_size = sizeof *gpus, .gpus = gpus, .room = 72 };
    const struct spur_gpu_ops *ops;
    struct loaded *l;
    int rc;

    if ((rc = contract_open(c, &l, err)) < 0)
        return rc;
    ops = loader_ops(l);
    if (!SPUR_HAS(ops, health))
        return CONTRACT_SKIP;
    ops->scan(l->self, &four, 1, sizeof four, c->dir, true, &found, err);       /* with devices, where there are any */
    for (uint32_t index = 0; index < SPUR_GPU_MAX + 2; index++) {
        char buf[64];

        memset(buf, 'x', sizeof buf);
        rc = ops->health(l->self, index, buf, 40);
        CONTRACT_EXPECT(rc == 0 || rc == 1, "health returns %d: 0 or 1 is wanted", rc);
        CONTRACT_EXPECT(memchr(buf, '\0', 40) && buf[40] == 'x', "health does not keep to its buffer");
        CONTRACT_EXPECT((rc == 0) == (buf[0] == '\0'), "health returns %d with the text \"%s\"", rc, buf);
    }
    loader_close(l);
    return 0;
}

const struct contract_case contract_gpu[] = {
    { "scan keeps to its room and its elements", scans },
    { "scans the same twice", scans_alike },
    { "health fits its buffer", health_fits },
    { 0 } };
