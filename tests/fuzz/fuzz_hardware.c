/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_hardware.c - any bytes as a topology file: our JSON (first byte even) and a KFD tree in one file (odd). What is taken can be printed and made a table. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/str.h"
#include "fuzz.h"
#include "hardware/rig.h"

int fuzz_one(const uint8_t *data, size_t size)
{
    struct spur_error err = { 0 };
    struct rig m = { 0 };
    char path[64];
    int fd, rc;

    if (!size)
        return 0;
    fd = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_HOLDS(fd >= 0 && write(fd, data + 1, size - 1) == (ssize_t)(size - 1) && lseek(fd, 0, SEEK_SET) == 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    rc = data[0] % 2 ? rig_from_kfdtree(path, &m, &err) : rig_from_json(path, &m, &err);
    FUZZ_HOLDS(rc == 0 || err.text[0]);
    if (rc == 0) {
        struct spur_device_table *t = rig_table(&m);
        struct str out;

        str_init(&out);
        rig_print(&m, &out);
        rig_print_gres(&m, "n1", &out);
        str_fini(&out);
        free(t);
    }
    rig_fini(&m);
    close(fd);
    return 0;
}
