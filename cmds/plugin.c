/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - `spur plugin`: what plugins are there, what one of them takes, and would this spur load a given file and does it keep
 * the contract of its kind.
 *
 * `check` never loads the file into this process: each step runs in a child with a deadline (framework/loader/contract.c). `list` and
 * `info` load files of the plugin folders, as the daemons do.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cmds/commands.h"
#include "config/config.h"
#include "loader/contract.h"
#include "loader/loader.h"
#include "loader/options.h"

static const char usage_text[] =
    "Usage: spur plugin list [-f slurm.conf]            every plugin that is there, and those that are refused\n"
    "       spur plugin info [-f slurm.conf] KIND/NAME  what it is, what it stands for, its options\n"
    "       spur plugin check [-o TEXT] FILE.so ...     would this spur load it, and does it keep the contract of its kind?\n"
    "\n"
    "  -f, --conf=FILE     take PluginDir from this slurm.conf\n"
    "  -o, --options=TEXT  rows of its section in spur.conf, for a plugin that does not open without: -o 'weight = 3'\n"
    "\n"
    "check ends with exit status 0 when every file is accepted, 1 otherwise.\n";

static const struct { uint64_t cap; const char *text; } caps[] = {
    { SPUR_CAP_MAY_BLOCK, "its calls may wait: the host runs them off the loop" },
    { SPUR_CAP_REPLICATED, "more than one member" },
    { SPUR_CAP_LINKS, "chooses GPUs by their links" },
    { SPUR_CAP_HOST_IDENTITY, "proves hosts apart, not only users" },
};

static void abi_of_host(uint32_t kind, unsigned *major, unsigned *minor)
{
    *major = *minor = 0;
    switch (kind) {
#define KIND_ABI(name, number, major_, minor_) case number: *major = major_; *minor = minor_; break;
        SPUR_KINDS(KIND_ABI)
#undef KIND_ABI
    }
}

static void list_row(void *arg, const struct loader_row *row)
{
    unsigned *shadowed = arg;
    char abi[16] = "-";

    if (row->is_shadowed) {
        ++*shadowed;
        return;
    }
    if (row->desc)
        snprintf(abi, sizeof abi, "%u.%u", row->desc->abi_major, row->desc->abi_minor);
    printf("%-22s %-5s %-9s %s\n", row->name, abi, row->refusal ? "refused" : row->path ? "file" : "built in",
           row->refusal ? row->refusal : row->desc->about ? row->desc->about : "");
    if (row->path && !row->refusal)
        printf("%-22s %-5s %-9s %s\n", "", "", "", row->path);
}

static int list(const struct config *cfg)
{
    unsigned shadowed = 0;

    printf("%-22s %-5s %-9s %s\n", "NAME", "ABI", "WHERE", "ABOUT");
    loader_list(cfg, list_row, &shadowed);
    if (shadowed)
        printf("\n%u of them %s built in too; the file is the one that is used, and without it the built-in one.\n", shadowed, shadowed == 1 ? "is" : "are");
    return 0;
}

struct wanted { const char *name, *path; bool is_shown; };

static void info_row(void *arg, const struct loader_row *row)
{
    struct wanted *w = arg;
    const struct spur_option *option;
    unsigned major, minor;

    if (strcmp(row->name, w->name) != 0 || (w->path[0] ? !row->path || strcmp(row->path, w->path) != 0 : row->path != NULL))
        return;
    w->is_shown = true;
    if (row->refusal) {
        printf("%s\n", row->refusal);
        return;
    }
    abi_of_host(row->desc->kind, &major, &minor);
    printf("Name        %s\nAbout       %s\nVersion     %s\n", row->name, row->desc->about ? row->desc->about : "", row->desc->version ? row->desc->version : "");
    printf("ABI         %u.%u of %s; this spur offers %u.%u\n", row->desc->abi_major, row->desc->abi_minor, loader_kind_name((enum spur_kind)row->desc->kind), major, minor);
    printf("Where       %s\n", row->path ? row->path : "built in");
    if (row->desc->stands_for && *row->desc->stands_for)
        printf("Stands for  %s\n", row->desc->stands_for);
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++)
        if (row->desc->caps & caps[i].cap)
            printf("Can         %s\n", caps[i].text);
    if (!options_row(row->desc, 0)) {
        printf("Options     none but sha256\n");
        return;
    }
    printf("\nplugin \"%s\" {          in spur.conf\n", row->name);
    for (size_t i = 0; (option = options_row(row->desc, i)); i++) {
        const char *type = options_type_name(option->type);

        printf("    %-20s %s\n    %-20s %s%s%s\n", option->name, option->help ? option->help : "", "", type ? type : "?",
               option->fallback ? "; default " : "", option->fallback ? option->fallback : "");
    }
    printf("    %-20s %s\n}\n", "sha256", "hash that the plugin's file must have");
}

static int info(const struct config *cfg, const char *name)
{
    const char *slash = strchr(name, '/');
    struct loader_meaning meaning;
    struct wanted wanted;
    struct spur_error err;
    char kind[32];

    snprintf(kind, sizeof kind, "%.*s", slash ? (int)(slash - name) : 0, name);
    if (loader_kind(kind) == SPUR_KIND_none) {
        fprintf(stderr, "spur plugin: %s: the name of a plugin is KIND/NAME, as in select/topo; kinds are store select score switch auth priority gpu contain\n", name);
        return 1;
    }
    if (loader_resolve(loader_kind(kind), name, cfg, &meaning, &err) < 0) {
        fprintf(stderr, "spur plugin: %s\n", err.text);
        return 1;
    }
    if (meaning.is_alias)
        printf("%s means %s here.\n\n", name, meaning.name);
    wanted = (struct wanted){ .name = meaning.name, .path = meaning.path };
    loader_list(cfg, info_row, &wanted);
    return wanted.is_shown ? 0 : 1;
}

struct tally { int passed, failed, skipped; };

static void check_row(void *arg, const char *name, enum contract_verdict verdict, const char *text)
{
    static const char *const words[] = { "ok", "FAILED", "skipped", "CRASHED", "HUNG" };
    struct tally *t = arg;

    printf("  %-8s %s%s%s\n", words[verdict], name, *text ? ": " : "", text);
    fflush(stdout);
    t->passed += verdict == CONTRACT_OK;
    t->skipped += verdict == CONTRACT_SKIPPED;
    t->failed += verdict != CONTRACT_OK && verdict != CONTRACT_SKIPPED;
}

static int check(const char *path, const char *options)
{
    struct contract_target target = { .path = path, .options = options };
    struct contract_about about;
    struct tally tally = { 0 };
    struct spur_error err;
    unsigned major, minor;

    if (contract_describe(path, &about, &err) < 0) {
        printf("%s\n", err.text);
        return 1;
    }
    abi_of_host(about.kind, &major, &minor);
    printf("%s: %s %s, %s\n  built for %s ABI %u.%u, this spur offers %u.%u\n", path, about.name, about.version, about.about, loader_kind_name(about.kind),
           about.abi_major, about.abi_minor, major, minor);
    target.kind = about.kind;
    contract_run(&target, check_row, &tally);
    printf("%s: %s: %d passed, %d failed, %d skipped\n", path, tally.failed ? "refused" : "accepted", tally.passed, tally.failed, tally.skipped);
    return tally.failed ? 1 : 0;
}

int cmd_plugin(int argc, char **argv)
{
    static const struct option longs[] = {
        { "conf", required_argument, NULL, 'f' }, { "options", required_argument, NULL, 'o' }, { "help", no_argument, NULL, 'h' }, { 0 } };
    const char *conf = NULL, *options = NULL, *verb;
    struct config *cfg = NULL;
    struct spur_error err;
    int letter, rc = 0;

    opterr = 0;
    optind = 1;
    while ((letter = getopt_long(argc, argv, "f:o:h", longs, NULL)) != -1) {
        switch (letter) {
        case 'f': conf = optarg; break;
        case 'o': options = optarg; break;
        case 'h': fputs(usage_text, stdout); return 0;
        default:
            fprintf(stderr, "spur plugin: unknown option %s\n%s", argv[optind - 1], usage_text);
            return 1;
        }
    }
    verb = optind < argc ? argv[optind++] : "";
    if (strcmp(verb, "check") == 0 && optind < argc) {
        for (; optind < argc; optind++)
            rc |= check(argv[optind], options);
        return rc;
    }
    if (!(strcmp(verb, "list") == 0 && optind == argc) && !(strcmp(verb, "info") == 0 && optind + 1 == argc)) {
        fputs(usage_text, stderr);
        return 1;
    }
    /* Without -f a site's slurm.conf is used when it can be read: a machine without one still has its built-ins. */
    if (config_load(conf, false, &cfg, &err) < 0) {
        if (conf) {
            fprintf(stderr, "spur plugin: %s\n", err.text);
            return 1;
        }
        cfg = NULL;
    }
    rc = strcmp(verb, "list") == 0 ? list(cfg) : info(cfg, argv[optind]);
    config_free(cfg);
    return rc;
}
