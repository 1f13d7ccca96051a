/* SPDX-License-Identifier: Apache-2.0 */
/* environment.c - the environment that travels; see environment.h.
 *
 * --export: ALL (the default), NONE and NIL (SLURM_* and SPANK_* only), or a list of names and of NAME=value, to which ALL may belong. A value
 * keeps every "=" of it; quotes around a value keep its commas. What is named wins over what is inherited: measured, though the manual
 * says otherwise.
 * --get-user-env asks a login shell of the user here, where he is who he is, rather than as root on the node; what is set already wins.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "cmds/common/environment.h"

#define FILE_MAX_BYTES (16u << 20)
#define LOGIN_MARK "\nspur-login-environment\n"

struct vars { const char **list; size_t count, room; };      /* NAME=value, borrowed */

static void vars_add(struct vars *l, const char *var)
{
    if (l->count == l->room) {
        l->room = l->room ? l->room * 2 : 256;
        l->list = mem_grow(l->list, l->room, sizeof *l->list);
    }
    l->list[l->count++] = var;
}

static size_t name_len(const char *var) { return strcspn(var, "="); }

static size_t vars_find(const struct vars *l, const char *var)
{
    size_t n = name_len(var), i;

    for (i = 0; i < l->count; i++)
        if (strncmp(l->list[i], var, n) == 0 && l->list[i][n] == '=')
            break;
    return i;
}

static void vars_set(struct vars *l, const char *var)
{
    size_t i = vars_find(l, var);

    if (i < l->count)
        l->list[i] = var;
    else
        vars_add(l, var);
}

/* ---- what is true only where sbatch was called ---- */

static const char *const of_step[] = {
    "SLURM_STEP_", "SLURM_STEPID=", "SLURM_CPU_BIND", "SLURM_MEM_BIND", "SLURM_PROCID=", "SLURM_LOCALID=", "SLURM_NODEID=", "SLURM_GTIDS=", "SLURM_TASK_PID=",
    "SLURM_LAUNCH_NODE_IPADDR=", "SLURM_SRUN_COMM_", "SLURM_CPUS_ON_NODE=", "SLURM_TOPOLOGY_ADDR", "SLURM_DISTRIBUTION=", "SLURM_UMASK=", "SLURMD_NODENAME=",
    "SLURM_JOB_CPUS_PER_NODE=", "SLURM_TASKS_PER_NODE=", "SLURM_TRES_PER_TASK=", "SLURM_GPUS", "SLURM_MEM_PER_", "SLURM_NTASKS", "SLURM_NPROCS=",
    "SLURM_CPUS_PER_", "SLURM_THREADS_PER_CORE=", "SLURM_EXPORT_ENV=", "SRUN_CPUS_PER_TASK=", "SLURM_OVERCOMMIT=", "PMI_RANK=", "PMI_SIZE=", "PMI_FD=",
    "PMI_JOBID=", "PMIX_RANK=", "PMIX_NAMESPACE=", "PMIX_SERVER_",
};

static bool is_of_step(const char *var)
{
    if (var[0] != 'S' && var[0] != 'P')
        return false;
    for (size_t i = 0; i < sizeof of_step / sizeof *of_step; i++)
        if (strncmp(var, of_step[i], strlen(of_step[i])) == 0)
            return true;
    return false;
}

/* The last: options of SPANK plugins, which the user has given and no --export takes back. */
static bool is_ours(const char *var) { return strncmp(var, "SLURM_", 6) == 0 || strncmp(var, "SPANK_", 6) == 0 || strncmp(var, "_SLURM_SPANK_OPTION_", 20) == 0; }

/* A user's token is good everywhere in the cluster; in a job it would lie in the state and on nodes, and root there would be the user. In a job it is not
 * needed: the node speaks for him. Who names it in --export has said so. */
static bool is_secret(const char *var) { return strncmp(var, "SLURM_JWT=", 10) == 0; }

static void inherit(struct vars *l, const struct request *r, char *const *from, bool all)
{
    for (size_t i = 0; from[i]; i++)
        if (strchr(from[i], '=') && !is_secret(from[i]) && (all || is_ours(from[i])) && !(r->as == REQUEST_SBATCH && is_of_step(from[i])))
            vars_add(l, from[i]);
}

/* ---- the list ---- */

/* Next element of --export, up to a comma outside quotes; a value that stands in quotes loses them. In the arena. */
static char *next_item(struct request *r, const char **at)
{
    const char *start = *at, *p = start, *eq;
    char quote = '\0', *item;
    size_t n;

    if (!*p)
        return NULL;
    for (; *p && (quote || *p != ','); p++)
        if (quote ? *p == quote : *p == '\'' || *p == '"')
            quote = quote ? '\0' : *p;
    if (quote)                              /* one that never closes is a character as others */
        p = start + strcspn(start, ",");
    *at = *p ? p + 1 : p;
    n = (size_t)(p - start);
    item = arena_alloc(&r->arena, n + 1);
    memcpy(item, start, n);
    eq = strchr(item, '=');
    if (eq && n >= (size_t)(eq - item) + 3 && (eq[1] == '\'' || eq[1] == '"') && item[n - 1] == eq[1]) {
        size_t value = (size_t)(eq - item) + 1;

        memmove(item + value, item + value + 1, n - value - 2);
        item[n - 2] = '\0';
    }
    return item;
}

static void vars_named(struct vars *l, struct request *r, const char *words, char *const *from)
{
    char *item;

    while ((item = next_item(r, &words))) {
        size_t n = strlen(item);

        if (!n || word_eq(item, "ALL") || item[0] == '=')
            continue;
        if (strchr(item, '=')) {
            vars_set(l, item);
            continue;
        }
        for (size_t i = 0; from[i]; i++)
            if (strncmp(from[i], item, n) == 0 && from[i][n] == '=')
                vars_set(l, from[i]);
    }
}

static bool names_all(struct request *r, const char *words)
{
    char *item;

    while ((item = next_item(r, &words)))
        if (word_eq(item, "ALL"))
            return true;
    return false;
}

/* ---- --export-file ---- */

static int vars_file(struct vars *l, struct request *r, const char *name, struct spur_error *err)
{
    uint32_t number;
    bool is_fd = number_u32(name, &number);
    int fd = is_fd ? (int)number : open(name, O_RDONLY | O_CLOEXEC);
    size_t n = 0, room = 65536;
    char *text = NULL, *data;
    ssize_t got = 0;

    if (is_fd && number < 3)
        return spur_fail(err, SPUR_EINVAL, "--export-file=%s: descriptors 0 to 2 are not for this", name);
    if (fd < 0)
        return spur_fail(err, SPUR_EINVAL, "Could not open user environment file %s: %s", name, strerror(errno));
    data = mem_alloc(room + 1);
    while (n < FILE_MAX_BYTES && ((got = read(fd, data + n, room - n)) > 0 || (got < 0 && errno == EINTR))) {
        n += got > 0 ? (size_t)got : 0;
        if (n == room)
            data = mem_grow(data, (room *= 2) + 1, 1);
    }
    if (!is_fd)
        close(fd);
    if (got < 0 || n >= FILE_MAX_BYTES) {
        free(data);
        return spur_fail(err, SPUR_EINVAL, "Could not read user environment file %s: %s", name, got < 0 ? strerror(errno) : "it is over 16 MiB");
    }
    text = arena_copy_bytes(&r->arena, data, n + 1);
    text[n] = '\0';
    free(data);
    for (char *at = text; at < text + n; at += strlen(at) + 1)
        if (*at && *at != '=' && strchr(at, '='))
            vars_set(l, at);
    return 0;
}

/* ---- --get-user-env ---- */

static _Noreturn void login_exec(const struct passwd *p, bool is_login, int out)
{
    const char *shell = p->pw_shell && *p->pw_shell ? p->pw_shell : "/bin/sh", *base = strrchr(shell, '/');
    char zero[280], home[4200], user[280], logname[280], of_shell[4200];
    char *env[] = { home, user, logname, of_shell, (char *)(uintptr_t)"PATH=/usr/local/bin:/usr/bin:/bin", (char *)(uintptr_t)"TERM=dumb", NULL };
    int null = open("/dev/null", O_RDWR);

    snprintf(home, sizeof home, "HOME=%s", p->pw_dir);
    snprintf(user, sizeof user, "USER=%s", p->pw_name);
    snprintf(logname, sizeof logname, "LOGNAME=%s", p->pw_name);
    snprintf(of_shell, sizeof of_shell, "SHELL=%s", shell);
    snprintf(zero, sizeof zero, "%s%.200s", is_login ? "-" : "", base ? base + 1 : shell);    /* the dash makes every shell a login shell */
    dup2(null, 0);
    dup2(out, 1);
    dup2(null, 2);
    setsid();
    execle(shell, zero, "-c", "echo; echo spur-login-environment; env -0", (char *)NULL, env);
    _exit(127);
}

static int vars_login(struct vars *l, struct request *r, const char *how, struct spur_error *err)
{
    const struct passwd *p = getpwuid(getuid());
    uint64_t seconds = 8;
    const char *at = how;
    struct str text;
    int64_t until;
    int fd[2], status = 0;
    pid_t child;
    char *begin;
    bool late = false;

    if (is_digit(*at))
        number_at(&at, &seconds);
    if (!p)
        return spur_fail(err, SPUR_EINVAL, "--get-user-env: user %u has no entry in the user database", (unsigned)getuid());
    if (pipe2(fd, O_CLOEXEC) < 0 || (child = fork()) < 0)
        return spur_fail(err, SPUR_EIO, "--get-user-env: %s", strerror(errno));
    if (child == 0)
        login_exec(p, *at != 'S' && *at != 's', fd[1]);
    close(fd[1]);
    str_init(&text);
    until = clock_mono_ms() + (int64_t)(seconds ? seconds : 8) * 1000;
    for (;;) {
        struct pollfd f = { .fd = fd[0], .events = POLLIN };
        int64_t left = until - clock_mono_ms();
        char buf[8192];
        ssize_t got;

        if (left <= 0 || text.len > FILE_MAX_BYTES) {
            late = true;
            break;
        }
        if (poll(&f, 1, left > 1000 ? 1000 : (int)left) <= 0)
            continue;
        if ((got = read(fd[0], buf, sizeof buf)) <= 0)
            break;
        str_add_n(&text, buf, (size_t)got);
    }
    close(fd[0]);
    if (late)
        kill(-child, SIGKILL), kill(child, SIGKILL);
    waitpid(child, &status, 0);
    begin = text.len ? memmem(text.text, text.len, LOGIN_MARK, sizeof LOGIN_MARK - 1) : NULL;
    if (late || !begin) {
        str_fini(&text);
        return spur_fail(err, SPUR_EIO, "--get-user-env: the login shell of %s gave no environment%s", p->pw_name, late ? " in time" : "");
    }
    begin += sizeof LOGIN_MARK - 1;
    for (char *end = text.text + text.len; begin < end; begin += strlen(begin) + 1)
        if (strchr(begin, '=') && strncmp(begin, "_=", 2) && strncmp(begin, "SHLVL=", 6) && strncmp(begin, "TERM=", 5) && vars_find(l, begin) == l->count)
            vars_add(l, arena_copy(&r->arena, begin));
    str_fini(&text);
    return 0;
}

/* A login shell knows nothing of a prefix that spur was installed to; the script's srun is to be found all the same. */
static void path_with_ours(struct vars *l, struct request *r)
{
    size_t i = vars_find(l, "PATH=");
    const char *path = i < l->count ? l->list[i] + strlen("PATH=") : NULL;
    bool is_there = false;

    if (!path)
        return;                     /* the node gives a bare environment one */
    for (const char *at = path; !is_there && *at; at += strspn(at, ":")) {
        size_t n = strcspn(at, ":");

        is_there = n == strlen(SPUR_BINDIR) && strncmp(at, SPUR_BINDIR, n) == 0;
        at += n;
    }
    if (!is_there)
        l->list[i] = arena_printf(&r->arena, "PATH=%s:%s", path, SPUR_BINDIR);
}

/* ---- all of it ---- */

int environment_export(struct request *r, char *const *from, char *const *also, char **data, size_t *n, struct spur_error *err)
{
    const char *words = r->export;
    struct spur_error ignored = { 0 };
    struct vars l = { 0 };
    size_t total = 0;
    char *out;
    int rc = 0;

    if (!words || !*words || word_eq(words, "ALL")) {
        inherit(&l, r, from, words || !r->export_file);
    } else if (word_eq(words, "NONE") || word_eq(words, "NIL")) {
        inherit(&l, r, from, false);
    } else {
        inherit(&l, r, from, names_all(r, words));
        vars_named(&l, r, words, from);
    }
    if (r->export_file && (rc = vars_file(&l, r, r->export_file, err)) < 0)
        goto out;
    if (r->get_user_env && (rc = vars_login(&l, r, r->get_user_env, err)) < 0)
        goto out;
    if (r->login_env && !r->get_user_env)
        vars_login(&l, r, "", &ignored);
    if (r->login_env || r->get_user_env)
        path_with_ours(&l, r);
    for (size_t i = 0; also && also[i]; i++)
        vars_set(&l, also[i]);
    for (size_t i = 0; i < l.count; i++)
        total += strlen(l.list[i]) + 1;
    *data = out = mem_alloc(total + 1);
    *n = total;
    for (size_t i = 0; i < l.count; i++) {
        size_t len = strlen(l.list[i]) + 1;

        memcpy(out, l.list[i], len);
        out += len;
    }
out:
    free(l.list);
    return rc;
}
