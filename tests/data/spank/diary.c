/* SPDX-License-Identifier: Apache-2.0 */
/* diary.c - a SPANK plugin that writes every call into a file, and breaks where it is told to. Arguments in plugstack.conf:
 * to=FILE    one line a call: hook, context, and what the items say there
 * fail=HOOK  that hook returns -1;  crash=HOOK  that hook ends the process by a signal;  sleep=HOOK  that hook takes ten minutes */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <slurm/spank.h>

SPANK_PLUGIN(diary, 7)

static const char *option_value = "none";

static int option_given(int val, const char *value, int remote)
{
    option_value = value ? strdup(value) : "";
    if (value && !strcmp(value, "bad") && !remote) {
        slurm_error("diary: --diary=%s is no good", value);
        return -1;
    }
    return val == 5 ? 0 : -2;
}

static struct spank_option options[] = {
    { (char *)"diary", (char *)"WORD", (char *)"a word for the diary", 1, 5, option_given },
    { (char *)"diary-flag", NULL, (char *)"a flag for the diary", 0, 6, NULL },
    SPANK_OPTIONS_TABLE_END
};

static const char *argument(int ac, char *argv[], const char *name)
{
    for (int i = 0; i < ac; i++)
        if (!strncmp(argv[i], name, strlen(name)) && argv[i][strlen(name)] == '=')
            return argv[i] + strlen(name) + 1;
    return "";
}

static int called(spank_t sp, const char *hook, int ac, char *argv[])
{
    static const char *const contexts[] = { "error", "local", "remote", "allocator", "slurmd", "job_script" };
    uint32_t id = 0, step = 0, tasks = 0, global = 0;
    const char *to = argument(ac, argv, "to");
    char line[1024], value[64] = "", *given = NULL;
    uid_t uid = (uid_t)-1;
    int n = 0, status = 0, local = -1;
    FILE *f;

    n += snprintf(line + n, sizeof line - n, "%s %s option=%s", hook, contexts[spank_context()], option_value);
    if (spank_get_item(sp, S_JOB_UID, &uid) == ESPANK_SUCCESS)
        n += snprintf(line + n, sizeof line - n, " uid=%d", uid == getuid());
    if (spank_get_item(sp, S_JOB_ID, &id) == ESPANK_SUCCESS)
        n += snprintf(line + n, sizeof line - n, " job=%u", id);
    if (spank_get_item(sp, S_JOB_STEPID, &step) == ESPANK_SUCCESS)
        n += snprintf(line + n, sizeof line - n, " step=%d", (int)step);
    if (spank_get_item(sp, S_JOB_TOTAL_TASK_COUNT, &tasks) == ESPANK_SUCCESS)
        n += snprintf(line + n, sizeof line - n, " tasks=%u", tasks);
    if (spank_get_item(sp, S_TASK_ID, &local) == ESPANK_SUCCESS && spank_get_item(sp, S_TASK_GLOBAL_ID, &global) == ESPANK_SUCCESS)
        n += snprintf(line + n, sizeof line - n, " task=%d/%u", local, global);
    if (spank_get_item(sp, S_TASK_EXIT_STATUS, &status) == ESPANK_SUCCESS)
        n += snprintf(line + n, sizeof line - n, " status=%d", status);
    if (spank_getenv(sp, "DIARY", value, sizeof value) == ESPANK_SUCCESS)
        n += snprintf(line + n, sizeof line - n, " env=%s", value);
    if (spank_option_getopt(sp, &options[0], &given) == ESPANK_SUCCESS)
        n += snprintf(line + n, sizeof line - n, " getopt=%s", given);
    if (getenv("SPANK_DIARY_CONTROL"))
        n += snprintf(line + n, sizeof line - n, " control=%s", getenv("SPANK_DIARY_CONTROL"));
    if (*to && (f = fopen(to, "a"))) {
        fprintf(f, "%s\n", line);
        fclose(f);
    }
    if (!strcmp(argument(ac, argv, "crash"), hook))
        abort();
    for (int left = !strcmp(argument(ac, argv, "sleep"), hook) ? 600 : 0; left > 0; left--)
        sleep(1);
    if (!strcmp(argument(ac, argv, "fail"), hook))
        return -1;
    return 0;
}

int slurm_spank_init(spank_t sp, int ac, char *argv[])
{
    for (int i = 0; options[i].name; i++)
        if (spank_option_register(sp, &options[i]) != ESPANK_SUCCESS)
            return -3;
    return called(sp, "init", ac, argv);
}
int slurm_spank_init_post_opt(spank_t sp, int ac, char *argv[])
{
    if (!spank_remote(sp))
        spank_job_control_setenv(sp, "DIARY_CONTROL", "seen", 1);
    return called(sp, "init_post_opt", ac, argv);
}
int slurm_spank_user_init(spank_t sp, int ac, char *argv[])
{
    spank_setenv(sp, "DIARY", option_value, 1);
    slurm_spank_log("diary: hello");
    return called(sp, "user_init", ac, argv);
}
int slurm_spank_task_init_privileged(spank_t sp, int ac, char *argv[])
{
    static const char *words[] = { "env", "DIARY_WRAP=yes" };
    int own = spank_setenv(sp, "DIARY_TASK", "own", 0);

    if (!strcmp(argument(ac, argv, "wrap"), "yes"))
        spank_prepend_task_argv(sp, 2, words);
    return own == ESPANK_SUCCESS || own == ESPANK_ENV_EXISTS ? called(sp, "task_init_privileged", ac, argv) : -4;
}
#define PLAIN(hook) int slurm_spank_##hook(spank_t sp, int ac, char *argv[]) { return called(sp, #hook, ac, argv); }
PLAIN(local_user_init)
PLAIN(task_init)
PLAIN(task_post_fork)
PLAIN(task_exit)
PLAIN(exit)
PLAIN(job_prolog)
PLAIN(job_epilog)
PLAIN(slurmd_init)
PLAIN(slurmd_exit)
