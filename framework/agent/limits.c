/* SPDX-License-Identifier: Apache-2.0 */
/* limits.c - the arithmetic of cgroup.conf, and what this machine's numbers are: CPUs of cores, devices of GPUs.
 *
 * Memory, as Slurm's manual has it: soft limit = what was given; hard limit = AllowedRAMSpace percent of it; RAM and swap together =
 * that and AllowedSwapSpace percent; never above MaxRAMPercent (and MaxSwapPercent beside it) of the machine, never below MinRAMSpace. With
 * ConstrainSwapSpace alone the limit of both is set for RAM too.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "agent/limits.h"

#define MIB (UINT64_C(1) << 20)
#define CORES_MAX 8192

static uint64_t percent_of(uint64_t bytes, uint32_t hundredths)
{
    return bytes / 10000 * hundredths + bytes % 10000 * hundredths / 10000;
}

static uint64_t at_least(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint64_t at_most(uint64_t a, uint64_t b) { return a < b ? a : b; }

struct limits_memory limits_memory(const struct config_cgroup *g, uint64_t given_bytes, uint64_t ram_bytes)
{
    uint64_t given = given_bytes ? given_bytes : ram_bytes, least = g->min_ram_mib * MIB;
    uint64_t ram_most = percent_of(ram_bytes, g->max_ram), swap_most = percent_of(ram_bytes, g->max_swap);
    struct limits_memory l = { UINT64_MAX, UINT64_MAX, UINT64_MAX };
    uint64_t hard, both;

    if (!g->ram && !g->swap)
        return l;
    hard = at_least(at_most(percent_of(given, g->ram ? g->allowed_ram : 10000), ram_most), least);
    both = at_least(at_most(percent_of(given, g->ram ? g->allowed_ram : 10000) + percent_of(given, g->allowed_swap), ram_most + swap_most), hard);
    l.hard = g->ram ? hard : both;
    l.soft = at_most(at_least(given, least), l.hard);
    if (g->swap)
        l.with_swap = both;
    return l;
}

/* ---- CPUs ---- */

static bool read_line(const char *path, char *buf, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, buf, size - 1) : -1;

    if (fd >= 0)
        close(fd);
    buf[n > 0 ? n : 0] = '\0';
    buf[strcspn(buf, "\n")] = '\0';
    return n > 0;
}

struct cpu { uint32_t cpu, package, core; };

static int by_place(const void *pa, const void *pb)
{
    const struct cpu *a = pa, *b = pb;

    if (a->package != b->package)
        return a->package < b->package ? -1 : 1;
    if (a->core != b->core)
        return a->core < b->core ? -1 : 1;
    return a->cpu < b->cpu ? -1 : a->cpu > b->cpu;
}

bool limits_cpus(const char *root, const struct bitmap *cores, struct str *out)
{
    struct bitmap cpus;
    char path[512], text[256];
    DIR *dir;
    struct dirent *d;
    struct cpu *all = NULL;
    size_t count = 0, core = 0, last = 0;
    uint32_t most = 0;
    bool any = false;

    snprintf(path, sizeof path, "%s/sys/devices/system/cpu", root);
    if (!(dir = opendir(path)))
        return false;
    while ((d = readdir(dir))) {
        struct cpu c = { 0 };

        if (strncmp(d->d_name, "cpu", 3) || !isdigit((unsigned char)d->d_name[3]))
            continue;
        c.cpu = (uint32_t)strtoul(d->d_name + 3, NULL, 10);
        snprintf(path, sizeof path, "%s/sys/devices/system/cpu/%.20s/topology/physical_package_id", root, d->d_name);
        if (c.cpu >= CORES_MAX || !read_line(path, text, sizeof text))
            continue;                   /* it is offline */
        c.package = (uint32_t)strtol(text, NULL, 10);
        snprintf(path, sizeof path, "%s/sys/devices/system/cpu/%.20s/topology/core_id", root, d->d_name);
        c.core = read_line(path, text, sizeof text) ? (uint32_t)strtol(text, NULL, 10) : c.cpu;
        all = mem_grow(all, count + 1, sizeof *all);
        all[count++] = c;
        most = c.cpu > most ? c.cpu : most;
    }
    closedir(dir);
    if (count)
        qsort(all, count, sizeof *all, by_place);
    bitmap_init(&cpus, (size_t)most + 1);
    for (size_t i = 0; i < count; i++) {
        if (i && (all[i].package != all[i - 1].package || all[i].core != all[i - 1].core))
            core++;
        if (core < cores->bits && bitmap_test(cores, core)) {
            bitmap_set(&cpus, all[i].cpu);
            any = true;
        }
    }
    for (size_t i = 0; i < cores->bits; i++)
        if (bitmap_test(cores, i))
            last = i;
    any = any && last <= core;
    if (any)
        bitmap_print(&cpus, out);
    bitmap_fini(&cpus);
    free(all);
    return any;
}

/* ---- devices ---- */

static bool is_numbered(const char *name, const char *stem)
{
    size_t n = strlen(stem);

    return !strncmp(name, stem, n) && name[n] && strspn(name + n, "0123456789") == strlen(name + n);
}

static bool is_gpu_name(const char *folder, const char *name)
{
    if (!strcmp(folder, "dri"))
        return is_numbered(name, "renderD") || is_numbered(name, "card");
    if (!strcmp(folder, "nvidia-caps"))
        return true;
    return !strcmp(name, "kfd") || is_numbered(name, "nvidia") || !strcmp(name, "nvidiactl") || !strcmp(name, "nvidia-modeset") || !strncmp(name, "nvidia-uvm", 10);
}

/* Which device a file is. A test's tree has no device files, but the numbers in a line: "c 195:0". */
static bool device_number(const char *path, uint64_t *out)
{
    struct stat st;
    char text[64];
    unsigned major_, minor_;

    if (stat(path, &st) < 0)
        return false;
    if (S_ISCHR(st.st_mode)) {
        *out = (uint64_t)major(st.st_rdev) << 32 | minor(st.st_rdev);
        return true;
    }
    if (!S_ISREG(st.st_mode) || !read_line(path, text, sizeof text) || sscanf(text, "c %u:%u", &major_, &minor_) != 2)
        return false;
    *out = (uint64_t)major_ << 32 | minor_;
    return true;
}

static void folder_take(const char *root, const char *folder, struct limits_devices *out)
{
    char path[640];
    struct dirent *d;
    DIR *dir;

    snprintf(path, sizeof path, "%s/dev/%s", root, folder);
    if (!(dir = opendir(path)))
        return;
    while ((d = readdir(dir))) {
        struct limits_device row = { 0 };

        if (d->d_name[0] == '.' || !is_gpu_name(folder, d->d_name) || strlen(d->d_name) > 30)
            continue;
        snprintf(row.path, sizeof row.path, "/dev/%s%s%.30s", folder, *folder ? "/" : "", d->d_name);
        snprintf(path, sizeof path, "%s%s", root, row.path);
        if (!device_number(path, &row.number))
            continue;
        out->list = mem_grow(out->list, out->count + 1, sizeof *out->list);
        out->list[out->count++] = row;
    }
    closedir(dir);
}

void limits_devices(const char *root, struct limits_devices *out)
{
    *out = (struct limits_devices){ 0 };
    folder_take(root, "", out);
    folder_take(root, "dri", out);
    folder_take(root, "nvidia-caps", out);
}

void limits_devices_fini(struct limits_devices *d)
{
    free(d->list);
    *d = (struct limits_devices){ 0 };
}

/* Is /dev/dri/card1 the same GPU as /dev/dri/renderD129? */
static bool same_gpu(const char *root, const char *a, const char *b)
{
    char link[640], to_a[512], to_b[512];
    ssize_t na, nb;

    snprintf(link, sizeof link, "%s/sys/class/drm/%s/device", root, strrchr(a, '/') + 1);
    na = readlink(link, to_a, sizeof to_a - 1);
    snprintf(link, sizeof link, "%s/sys/class/drm/%s/device", root, strrchr(b, '/') + 1);
    nb = readlink(link, to_b, sizeof to_b - 1);
    return na > 0 && na == nb && !memcmp(to_a, to_b, (size_t)na);
}

bool limits_may_open(const char *root, const struct limits_device *d, const char *const *own, size_t own_count)
{
    const char *name = strrchr(d->path, '/') + 1;
    bool for_all_amd = !strcmp(name, "kfd"), for_all_nvidia = !strncmp(d->path, "/dev/nvidia", 11) && !is_numbered(name, "nvidia");

    for (size_t i = 0; i < own_count; i++) {
        if (!strcmp(own[i], d->path) || (for_all_amd && !strncmp(own[i], "/dev/dri/", 9)) || (for_all_nvidia && !strncmp(own[i], "/dev/nvidia", 11)))
            return true;
        if (!strncmp(own[i], "/dev/dri/", 9) && !strncmp(d->path, "/dev/dri/", 9) && same_gpu(root, own[i], d->path))
            return true;
    }
    return false;
}
