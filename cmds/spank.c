/* SPDX-License-Identifier: Apache-2.0 */
/* spank.c - `spur spank`: the stack of SPANK plugins as plugstack.conf of this host has it, and whether a file would load.
 *
 * Each plugin is loaded in a child of its own with a deadline: it is foreign code, and a list of what is broken must not break on it. A list calls no hook but
 * slurm_spank_init, as srun does, for that is where options are registered; `check` calls it too.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "cmds/commands.h"
#include "config/config.h"
#include "config/plugstack.h"
#include "config/source.h"
#include "spank/stack.h"

#define DEADLINE_S 60

static const char usage_text[] =
    "Usage: spur spank list [-f slurm.conf]              the stack of plugstack.conf: each plugin, its hooks and options\n"
    "       spur spank check [-f slurm.conf] FILE.so ... would srun and a node load it?\n"
    "\n"
    "  -f, --conf=FILE   take PlugStackConfig and PluginDir from this slurm.conf\n"
    "\n"
    "Ends with exit status 1 when a required plugin, or a file to check, does not load or fails in slurm_spank_init.\n";

static void print_plugin(struct spank_stack *s)
{
    struct spank_stack_plugin p;
    size_t n = 0;

    spank_stack_plugin(s, 0, &p);
    printf("    %s, version %u, %s\n    hooks:", p.name, p.version, p.path);
    for (int i = 0; i < SPANK_HOOKS; i++)
        if (spank_stack_plugin_has(s, 0, (enum spank_hook)i)) {
            printf(" %s", spank_hook_name((enum spank_hook)i) + sizeof "slurm_spank_" - 1);
            n++;
        }
    printf("%s\n", n ? "" : " none");
    for (size_t i = 0; i < spank_stack_options(s); i++) {
        struct spank_stack_option o;

        spank_stack_option(s, i, &o);
        printf("    --%s%s%s%s  %s\n", o.name, o.has_arg == 2 ? "[=" : o.has_arg ? "=" : "", o.has_arg ? o.arginfo ? o.arginfo : "VALUE" : "", o.has_arg == 2 ? "]" : "",
               o.usage ? o.usage : "");
    }
}

static _Noreturn void look(const struct plugstack_row *row, const char *dirs, struct spank_mark *mark)
{
    struct plugstack_row strict = *row;
    struct spank_facts facts = { .known = SPANK_KNOWS(S_JOB_UID) | SPANK_KNOWS(S_JOB_GID), .uid = getuid(), .gid = getgid() };
    struct spank_stack *s = NULL;
    struct spur_error err = { 0 };

    alarm(DEADLINE_S);
    strict.required = true;
    spank_mark_in(mark);
    spank_log_as("spur spank", 0);
    if (spank_stack_open_row(&strict, dirs, S_CTX_LOCAL, &facts, &s, &err) < 0 || spank_stack_call(s, SPANK_ON_init, &err) < 0) {
        printf("    refused: %s\n", err.text);
        exit(1);
    }
    print_plugin(s);
    exit(0);
}

/* True: it loads. */
static bool row_show(const struct plugstack_row *row, const char *dirs, struct spank_mark *mark)
{
    int status = 0;
    pid_t child;

    fflush(stdout);
    mark->text[0] = '\0';
    if ((child = fork()) == 0)
        look(row, dirs, mark);
    if (child < 0) {
        printf("    cannot fork: %s\n", strerror(errno));
        return false;
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    mark->text[sizeof mark->text - 1] = '\0';
    if (WIFSIGNALED(status))
        printf("    refused: %s in %s\n", WTERMSIG(status) == SIGALRM ? "did not end within a minute" : strsignal(WTERMSIG(status)), mark->text);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int list(const char *conf, const char *configured, const char *dirs, struct spank_mark *mark)
{
    struct plugstack stack;
    struct spur_error err = { 0 };
    char path[1024];
    int code = 0;

    plugstack_path(conf, configured, path, sizeof path);
    if (plugstack_read(path, &stack, &err) < 0) {
        fprintf(stderr, "spur spank: error: %s\n", err.text);
        return 1;
    }
    if (!stack.count)
        printf("%s: no plugins\n", path);
    for (size_t i = 0; i < stack.count; i++) {
        const struct plugstack_row *row = &stack.rows[i];

        printf("%s %s", row->required ? "required" : "optional", row->file);
        for (int k = 0; k < row->argc; k++)
            printf(" %s", row->argv[k]);
        printf("  (%s:%u)\n", row->from, row->line);
        if (!row_show(row, dirs, mark) && row->required)
            code = 1;
    }
    plugstack_fini(&stack);
    return code;
}

int cmd_spank(int argc, char **argv)
{
    static const struct option longs[] = { { "conf", required_argument, NULL, 'f' }, { "help", no_argument, NULL, 'h' }, { 0 } };
    const char *what = argc > 1 ? argv[1] : "", *file = NULL;
    char conf[1024], configured[512], dirs[1024], full[4096], *none[] = { NULL };
    struct spank_mark *mark;
    int ch, code = 0;

    if (!strcmp(what, "--help") || !strcmp(what, "-h")) {
        fputs(usage_text, stdout);
        return 0;
    }
    optind = 2;
    while (argc > 1 && (ch = getopt_long(argc, argv, "f:h", longs, NULL)) != -1) {
        if (ch == 'h') {
            fputs(usage_text, stdout);
            return 0;
        }
        if (ch != 'f')
            return 1;
        file = optarg;
    }
    if ((strcmp(what, "list") || optind < argc) && (strcmp(what, "check") || optind >= argc)) {
        fputs(usage_text, stderr);
        return 1;
    }
    source_path(file, conf, sizeof conf);
    config_hint_plugins(conf, configured, sizeof configured, dirs, sizeof dirs);
    mark = mmap(NULL, sizeof *mark, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (mark == MAP_FAILED) {
        fprintf(stderr, "spur spank: error: %s\n", strerror(errno));
        return 1;
    }
    if (!strcmp(what, "list"))
        return list(conf, configured, dirs, mark);
    for (; optind < argc; optind++) {
        struct plugstack_row row = { .required = true, .file = argv[optind], .argv = none, .from = (char *)"", .line = 0 };

        if (strchr(argv[optind], '/') && realpath(argv[optind], full))
            row.file = full;
        printf("%s\n", argv[optind]);
        code |= !row_show(&row, dirs, mark);
    }
    return code;
}
