/* SPDX-License-Identifier: Apache-2.0 */
/* configless.c - fetches the configuration from the controllers at start. Runs before the loop exists, so it may wait.
 *
 * The kind of authentication is not known before the configuration is: auth/sodium is tried, and auth/munge where that has no key. Later changes come
 * over the agent's connection (AGENT_CONFIG), and the cached files follow them at the next start.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/configless.h"
#include "agent/settings.h"
#include "client/client.h"
#include "rpc/folder.h"
#include "rpc/log.h"

#define WAIT_FIRST_MS 200
#define WAIT_LAST_MS  10000
#define SAY_EACH      16            /* failures between two lines in the log */

static const char *own_name(void *ctx) { return ctx; }
static const char *own_role(void *ctx) { (void)ctx; return "agent"; }
static const char *no_folder(void *ctx) { (void)ctx; return ""; }

static Wire__ConfigFiles *ask(const char *servers, const char *name, struct arena *a)
{
    static const char *const kinds[] = { "auth/sodium", "auth/munge" };
    struct spur_host host = { .size = sizeof host, .ctx = (void *)(uintptr_t)name, .log = log_text, .host_name = own_name, .role = own_role, .state_dir = no_folder };
    struct timespec wait = { .tv_sec = 0, .tv_nsec = WAIT_FIRST_MS * 1000000L };

    for (unsigned failures = 0; ; failures++) {
        Wire__ConfigFiles *files = NULL;
        struct spur_error err = { 0 }, first = { 0 };

        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            if (client_config_files(servers, kinds[i], &host, a, &files, &err) == 0 && files)
                return files;
            if (!first.code)
                first = err;
            arena_reset(a);
        }
        if (failures % SAY_EACH == 0)
            log_line(SPUR_LOG_WARN, "no configuration from %s yet: %s", servers, first.text);
        nanosleep(&wait, NULL);
        if (wait.tv_sec * 1000 + wait.tv_nsec / 1000000 < WAIT_LAST_MS / 2)
            wait = (struct timespec){ .tv_sec = (wait.tv_sec * 2000 + wait.tv_nsec / 500000) / 1000, .tv_nsec = (wait.tv_nsec * 2) % 1000000000L };
    }
}

static int keep(int fd, const char *name, const char *text, struct spur_error *err)
{
    if (!text || !*text) {
        unlinkat(fd, name, 0);
        return 0;
    }
    return folder_write(fd, name, text, strlen(text), 0644, false, err);
}

static int cache(const Wire__ConfigFiles *f, const char *folder, struct spur_error *err)
{
    int rc = folder_make(folder, 0755, err), fd;

    if (rc < 0)
        return rc;
    fd = open(folder, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return spur_fail(err, SPUR_EIO, "cannot open %s: %s", folder, strerror(errno));
    if ((rc = keep(fd, "slurm.conf", f->slurm, err)) == 0 && (rc = keep(fd, "gres.conf", f->gres, err)) == 0 && (rc = keep(fd, "topology.conf", f->topology, err)) == 0 &&
        (rc = keep(fd, "cgroup.conf", f->cgroup, err)) == 0)
        rc = keep(fd, "spur.conf", f->spur, err);
    close(fd);
    return rc;
}

int configless_load(const char *servers, const char *name, struct config **out, struct spur_error *err)
{
    char host[256] = "localhost", path[1200];
    struct settings *set = NULL;
    struct config *cfg = NULL;
    Wire__ConfigFiles *files;
    struct arena a;
    int rc;

    gethostname(host, sizeof host - 1);
    host[strcspn(host, ".")] = '\0';
    arena_init(&a, 0);
    files = ask(servers, name ? name : host, &a);
    rc = config_parse(files->slurm, files->gres, files->topology, files->cgroup, files->spur, &cfg, err);
    if (rc == 0)
        rc = settings_make(cfg, name, NULL, &set, err);
    config_free(cfg);
    if (rc == 0) {
        snprintf(path, sizeof path, "%s/conf-cache", set->spool_dir);
        rc = cache(files, path, err);
    }
    if (rc == 0) {
        snprintf(path, sizeof path, "%s/conf-cache/slurm.conf", set->spool_dir);
        rc = config_load(path, false, out, err);
    }
    settings_free(set);
    arena_fini(&a);
    return rc < 0 ? spur_context(err, "configuration of %s", servers) : 0;
}
