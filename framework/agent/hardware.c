/* SPDX-License-Identifier: Apache-2.0 */
/* hardware.c - counts what the machine has.
 *
 * hwloc is opened at first use (dlopen), in a helper process that lives for a moment: loading a topology costs megabytes that an agent which
 * idles for months should not keep, and a hang in it (broken firmware tables) meets a deadline. Without hwloc, or when the helper fails,
 * /sys tells the same in most cases. A machine whose sockets differ is described by the average, as slurmd -C does.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <hwloc.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/cores.h"
#include "agent/hardware.h"
#include "base/str.h"

#define HELPER_SAYS_MAX (1u << 20)

extern char **environ;

static void memory(struct hardware *h)
{
    struct statvfs fs;
    struct sysinfo info;

    if (sysinfo(&info) == 0)
        h->mem_mib = (uint64_t)info.totalram * info.mem_unit >> 20;
    if (statvfs("/tmp", &fs) == 0)
        h->tmp_mib = (uint64_t)fs.f_blocks * fs.f_frsize >> 20;
}

static void finish(struct hardware *h, uint32_t sockets, uint32_t cores, uint32_t cpus)
{
    h->boards = 1;
    h->cpus = cpus ? cpus : 1;
    h->sockets = sockets ? sockets : 1;
    cores = cores ? cores : h->cpus;
    h->cores_per_socket = cores / h->sockets ? cores / h->sockets : 1;
    h->threads_per_core = h->cpus / cores ? h->cpus / cores : 1;
}

static bool from_hwloc(struct hardware *h)
{
    static const char *const names[] = { "libhwloc.so.15", "libhwloc.so", NULL };
    void *lib = NULL;
    int (*init)(hwloc_topology_t *), (*load)(hwloc_topology_t), (*depth)(hwloc_topology_t, hwloc_obj_type_t);
    unsigned (*count)(hwloc_topology_t, int);
    hwloc_topology_t t;
    int n[3];
    static const hwloc_obj_type_t types[3] = { HWLOC_OBJ_PACKAGE, HWLOC_OBJ_CORE, HWLOC_OBJ_PU };

    setenv("HWLOC_COMPONENTS", "-opencl,-gl,-cuda,-nvml,-rsmi,-levelzero", 0);      /* no vendor's library for counting cores */
    for (int i = 0; names[i] && !lib; i++)
        lib = dlopen(names[i], RTLD_NOW);
    if (!lib)
        return false;
    *(void **)&init = dlsym(lib, "hwloc_topology_init");
    *(void **)&load = dlsym(lib, "hwloc_topology_load");
    *(void **)&depth = dlsym(lib, "hwloc_get_type_depth");
    *(void **)&count = dlsym(lib, "hwloc_get_nbobjs_by_depth");
    if (!init || !load || !depth || !count || init(&t) < 0 || load(t) < 0)
        return false;
    for (int i = 0; i < 3; i++) {
        int d = depth(t, types[i]);

        n[i] = d < 0 ? 0 : (int)count(t, d);
    }
    if (n[2] <= 0)
        return false;
    finish(h, (uint32_t)n[0], (uint32_t)n[1], (uint32_t)n[2]);
    return true;
}

static int number_of(const char *format, int cpu)
{
    char path[128];
    int value = -1;
    FILE *f;

    snprintf(path, sizeof path, format, cpu);
    if (!(f = fopen(path, "re")))
        return -1;
    if (fscanf(f, "%d", &value) != 1)
        value = -1;
    fclose(f);
    return value;
}

/* Distinct (package) and (package, core) pairs of the CPUs that are on line. */
static void from_sys(struct hardware *h)
{
    int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN), all = (int)sysconf(_SC_NPROCESSORS_CONF);
    int *packages = mem_array((size_t)all + 1, sizeof *packages), *cores = mem_array((size_t)all + 1, sizeof *cores);
    uint32_t n_packages = 0, n_cores = 0;
    int seen = 0;

    for (int i = 0; i < all; i++) {
        int p = number_of("/sys/devices/system/cpu/cpu%d/topology/physical_package_id", i);
        int c = number_of("/sys/devices/system/cpu/cpu%d/topology/core_id", i);
        bool new_package = true, new_core = true;

        if (c < 0)
            continue;
        for (int k = 0; k < seen; k++) {
            new_package = new_package && packages[k] != p;
            new_core = new_core && (packages[k] != p || cores[k] != c);
        }
        packages[seen] = p;
        cores[seen++] = c;
        n_packages += new_package;
        n_cores += new_core;
    }
    free(packages);
    free(cores);
    finish(h, n_packages, n_cores, cpus > 0 ? (uint32_t)cpus : 1);
}

int hardware_main(void)
{
    struct hardware h = { 0 };

    if (!from_hwloc(&h))
        from_sys(&h);
    printf("%u %u %u %u\n", h.sockets, h.cores_per_socket, h.threads_per_core, h.cpus);
    cores_print(NULL, stdout);
    return fflush(stdout) ? 1 : 0;
}

/* The helper's lines, or an empty text. */
static char *ask_helper(int deadline_ms)
{
    char *argv[] = { "spurstepd", "--hardware", NULL };
    posix_spawn_file_actions_t files;
    struct pollfd p;
    struct str lines;
    pid_t pid;
    int fd[2];

    str_init(&lines);
    if (pipe2(fd, O_CLOEXEC) < 0)
        return str_take(&lines);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, fd[1], 1);
    if (posix_spawn(&pid, "/proc/self/exe", &files, NULL, argv, environ) == 0) {
        close(fd[1]);
        fd[1] = -1;
        p = (struct pollfd){ .fd = fd[0], .events = POLLIN };
        while (lines.len < HELPER_SAYS_MAX && poll(&p, 1, deadline_ms) > 0) {
            char some[4096];
            ssize_t n = read(fd[0], some, sizeof some);

            if (n <= 0)
                break;
            str_add_n(&lines, some, (size_t)n);
        }
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    posix_spawn_file_actions_destroy(&files);
    close(fd[0]);
    if (fd[1] >= 0)
        close(fd[1]);
    return str_take(&lines);
}

void hardware_ask(struct hardware *out, int deadline_ms)
{
    char *lines = ask_helper(deadline_ms), *rest = strchr(lines, '\n');

    memset(out, 0, sizeof *out);
    out->boards = 1;
    if (sscanf(lines, "%u %u %u %u", &out->sockets, &out->cores_per_socket, &out->threads_per_core, &out->cpus) != 4 || !out->cpus)
        from_sys(out);
    else if (rest && rest[1])
        out->cores = cores_read(rest + 1);
    free(lines);
    memory(out);
}
