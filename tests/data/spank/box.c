/* SPDX-License-Identifier: Apache-2.0 */
/* box.c - a container plugin in the shape of those that sites use: options for an image and for mounts, a mount namespace made as root for each step, entered by
 * each task, the image's root as the task's root. An "image" is a folder here. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>
#include <slurm/spank.h>

SPANK_PLUGIN(box, 1)

static struct { char *image, *mounts, *dir; } box;

static int image_given(int val, const char *value, int remote)
{
    (void)val;
    (void)remote;
    if (!value || *value == '\0') {
        slurm_error("box: --container-image: argument required");
        return -1;
    }
    free(box.image);
    box.image = strdup(value);
    return 0;
}

static int mounts_given(int val, const char *value, int remote)
{
    (void)val;
    (void)remote;
    if (!value || !strchr(value, ':')) {
        slurm_error("box: --container-mounts: invalid format: %s", value ? value : "");
        return -1;
    }
    free(box.mounts);
    box.mounts = strdup(value);
    return 0;
}

static struct spank_option options[] = {
    { (char *)"container-image", (char *)"PATH", (char *)"[box] the image to use for the container: a folder", 1, 0, image_given },
    { (char *)"container-mounts", (char *)"SRC:DST[,...]", (char *)"[box] bind mounts inside the container", 1, 0, mounts_given },
    SPANK_OPTIONS_TABLE_END
};

int slurm_spank_init(spank_t sp, int ac, char *argv[])
{
    (void)ac;
    (void)argv;
    if (spank_context() != S_CTX_LOCAL && spank_context() != S_CTX_REMOTE && spank_context() != S_CTX_ALLOCATOR)
        return 0;
    for (int i = 0; options[i].name; i++)
        if (spank_option_register(sp, &options[i]) != ESPANK_SUCCESS) {
            slurm_error("box: cannot register --%s", options[i].name);
            return -1;
        }
    return 0;
}

int slurm_spank_init_post_opt(spank_t sp, int ac, char *argv[])
{
    (void)sp;
    (void)ac;
    (void)argv;
    if (box.mounts && !box.image) {
        slurm_error("box: ignoring --container-mounts because --container-image is not set");
        box.mounts = NULL;
    }
    return 0;
}

int slurm_spank_user_init(spank_t sp, int ac, char *argv[])
{
    struct stat st;

    (void)sp;
    (void)ac;
    (void)argv;
    if (!box.image)
        return 0;
    slurm_spank_log("box: importing image: %s", box.image);
    if (stat(box.image, &st) < 0 || !S_ISDIR(st.st_mode)) {
        slurm_error("box: failed to import image %s: %s", box.image, strerror(errno));
        return -1;
    }
    return 0;
}

static int bind_all(const char *root, char *list)
{
    for (char *save = NULL, *one = strtok_r(list, ",", &save); one; one = strtok_r(NULL, ",", &save)) {
        char *colon = strchr(one, ':'), target[4096];

        if (!colon)
            return -1;
        *colon = '\0';
        snprintf(target, sizeof target, "%s/%s", root, colon + 1);
        mkdir(target, 0755);
        if (mount(one, target, NULL, MS_BIND | MS_REC, NULL) < 0) {
            slurm_error("box: cannot mount %s at %s: %s", one, colon + 1, strerror(errno));
            return -1;
        }
    }
    return 0;
}

/* A batch script lies in the node's spool: the container sees that one file of it. */
static int bind_script(spank_t sp)
{
    uint32_t step = 0;
    char **argv = NULL, target[4096];
    int argc = 0;

    if (spank_get_item(sp, S_JOB_STEPID, &step) != ESPANK_SUCCESS || step != 0xfffffffbu)
        return 0;
    if (spank_get_item(sp, S_JOB_ARGV, &argc, &argv) != ESPANK_SUCCESS || argc < 1)
        return -1;
    for (const char *slash = argv[0]; (slash = strchr(slash + 1, '/')); ) {
        snprintf(target, sizeof target, "%s%.*s", box.image, (int)(slash - argv[0]), argv[0]);
        mkdir(target, 0755);
    }
    snprintf(target, sizeof target, "%s%s", box.image, argv[0]);
    close(open(target, O_CREAT | O_WRONLY, 0755));
    return mount(argv[0], target, NULL, MS_BIND, NULL);
}

int slurm_spank_task_init_privileged(spank_t sp, int ac, char *argv[])
{
    static const char *const shared[] = { "/proc", "/dev", "/usr", "/lib", "/lib64", "/bin" };
    char target[4096];

    (void)ac;
    (void)argv;
    if (!box.image)
        return 0;
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
        slurm_error("box: cannot make a mount namespace: %s", strerror(errno));
        return -1;
    }
    if (mount("box", box.image, "tmpfs", 0, "mode=755") < 0)
        return -1;
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        snprintf(target, sizeof target, "%s%s", box.image, shared[i]);
        mkdir(target, 0755);
        if (mount(shared[i], target, NULL, MS_BIND | MS_REC, NULL) < 0 && errno != ENOENT)
            return -1;
    }
    if (box.mounts && bind_all(box.image, box.mounts) < 0)
        return -1;
    snprintf(target, sizeof target, "%s/etc", box.image);
    mkdir(target, 0755);
    snprintf(target, sizeof target, "%s/etc/box-release", box.image);
    close(open(target, O_CREAT | O_WRONLY, 0644));
    snprintf(target, sizeof target, "%s/tmp", box.image);
    mkdir(target, 01777);
    if (bind_script(sp) < 0)
        return -1;
    return chroot(box.image) < 0 || chdir("/") < 0 ? -1 : 0;
}

int slurm_spank_task_init(spank_t sp, int ac, char *argv[])
{
    (void)ac;
    (void)argv;
    return box.image && spank_setenv(sp, "BOX", "inside", 1) != ESPANK_SUCCESS ? -1 : 0;
}

int slurm_spank_task_exit(spank_t sp, int ac, char *argv[])
{
    int status = 0;

    (void)ac;
    (void)argv;
    return spank_get_item(sp, S_TASK_EXIT_STATUS, &status) == ESPANK_SUCCESS ? 0 : -1;
}
