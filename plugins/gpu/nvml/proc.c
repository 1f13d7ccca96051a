/* SPDX-License-Identifier: Apache-2.0 */
/* proc.c - what the NVIDIA driver shows in /proc, for hosts that have the driver and not its library: devices, but no links.
 *
 * ROOT/proc/driver/nvidia/gpus/0000:07:00.0/information has lines "Model:", "GPU UUID:", "Device Minor:". The folders' names are the PCI addresses,
 * and in their order the library would number the devices.
 */
#include <dirent.h>
#include <stdlib.h>
#include <spur/gpu.h>

#include "inside.h"

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* "Key:   value" of a line; false: another key. */
static bool value_of(const char *line, const char *key, char *out, size_t size)
{
    size_t n = strlen(key);

    if (strncmp(line, key, n) != 0 || line[n] != ':')
        return false;
    line += n + 1;
    line += strspn(line, " \t");
    snprintf(out, size, "%.*s", (int)strcspn(line, "\r\n"), line);
    return true;
}

int proc_scan(const char *root, struct spur_gpu *rows, uint32_t room, struct spur_error *err)
{
    char folder[300], names[SPUR_GPU_MAX][20], path[400], line[256], text[128];
    struct dirent *d;
    uint32_t count = 0;
    DIR *dir;

    snprintf(folder, sizeof folder, "%.250s/proc/driver/nvidia/gpus", root);
    dir = opendir(folder);
    while (dir && (d = readdir(dir)) && count < SPUR_GPU_MAX)
        if (strlen(d->d_name) >= 12 && strlen(d->d_name) < sizeof names[0] && strchr(d->d_name, ':'))
            snprintf(names[count++], sizeof names[0], "%.19s", d->d_name);
    if (dir)
        closedir(dir);
    qsort(names, count, sizeof names[0], by_text);
    for (uint32_t i = 0; i < count && i < room; i++) {
        struct spur_gpu *row = &rows[i];
        FILE *f;
        bool has_minor = false;

        *row = (struct spur_gpu){ .index = i, .name = "gpu", .count = 1, .numa = -1, .pcie_switch = -1, .card = i, .flags = SPUR_GPU_ENV_CUDA | SPUR_GPU_ENV_OPENCL };
        snprintf(row->pci, sizeof row->pci, "%.19s", names[i]);
        snprintf(path, sizeof path, "%s/%.19s/information", folder, names[i]);
        f = fopen(path, "re");
        while (f && fgets(line, sizeof line, f)) {
            if (value_of(line, "Model", text, sizeof text))
                nvml_type(text, row->type, sizeof row->type);
            else if (value_of(line, "GPU UUID", text, sizeof text))
                snprintf(row->uuid, sizeof row->uuid, "%.63s", text);
            else if (value_of(line, "Device Minor", text, sizeof text))
                has_minor = snprintf(row->file, sizeof row->file, "/dev/nvidia%u", (unsigned)strtoul(text, NULL, 10)) > 0;
        }
        if (f)
            fclose(f);
        if (!has_minor)
            return spur_fail(err, SPUR_EIO, "%s: does not say the device's minor number", path);
        row->links[i] = -1;
    }
    return (int)(count < room ? count : room);
}
