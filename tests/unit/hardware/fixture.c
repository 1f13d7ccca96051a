/* SPDX-License-Identifier: Apache-2.0 */
/* fixture.c - the text form of a node type: "gpu 0 bdf B numa N pcisw P", "nic ...", n rows "links ...", n rows "bw ..." in GB/s. */
#include <math.h>
#include <stdio.h>

#include "test_hardware.h"

const char *const fixture_names[] = { "rtx8000_bridge", "dgx1v", "dgx2_v100x16", "dgx_a100", "hgx_h100", "hgx_h200", "gb200_nvl72_node", "l40s_pcie",
                                      "mi210_2hive", "mi250x_frontier", "mi250_16gcd", "mi300x", "mi300a", NULL };

bool fixture_is_amd(const char *name)
{
    return strncmp(name, "mi", 2) == 0;
}

static void row_read(char *at, uint32_t *row, uint32_t count, double factor)
{
    for (uint32_t k = 0; k < count; k++) {
        char *end;
        double v = strtod(at, &end);

        ck_assert_ptr_ne(at, end);
        row[k] = (uint32_t)lround(v * factor);
        at = end;
    }
}

void fixture_read(const char *name, struct fixture *f)
{
    char path[512], line[1024];
    uint32_t links = 0, bw = 0;
    FILE *in;

    memset(f, 0, sizeof *f);
    snprintf(f->name, sizeof f->name, "%s", name);
    snprintf(path, sizeof path, TEST_DATA "/topologies/%s.txt", name);
    ck_assert_msg((in = fopen(path, "r")) != NULL, "%s", path);
    while (fgets(line, sizeof line, in)) {
        unsigned i;

        if (sscanf(line, "gpus %u", &f->count) == 1)
            ck_assert_uint_le(f->count, 16);
        else if (sscanf(line, "gpu %u", &i) == 1 && i < 16)
            sscanf(line, "gpu %*u bdf %19s numa %d pcisw %d", f->gpus[i].bdf, &f->gpus[i].numa, &f->gpus[i].pcisw);
        else if (sscanf(line, "nic %31s", f->nic[f->nics].name) == 1)
            sscanf(line, "nic %*s bdf %*s numa %d pcisw %d gbps %u", &f->nic[f->nics].numa, &f->nic[f->nics].pcisw, &f->nic[f->nics].gbps), f->nics++;
        else if (strncmp(line, "links ", 6) == 0)
            row_read(line + 6, f->links[links++], f->count, 1);
        else if (strncmp(line, "bw ", 3) == 0)
            row_read(line + 3, f->mbps[bw++], f->count, 1000);
    }
    fclose(in);
    ck_assert_uint_eq(links, f->count);
    ck_assert_uint_eq(bw, f->count);
}
