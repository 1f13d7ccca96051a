/* SPDX-License-Identifier: Apache-2.0 */
/* config_check.c - `spur config check [FILE]`: what spur makes of each line of a site's files, before a daemon reads them.
 *
 * One line of output a line of the files that says something: acts, mapped to what, without effect here and why, obsolete, or
 * the error; then the plugins that the names stand for; then a summary. Exit 1 when a daemon would refuse to start. All errors are
 * shown, not the first alone. Nothing but the files beside FILE and the plugin folders is looked at.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cmds/commands.h"
#include "config/config.h"
#include "loader/loader.h"

static const char usage_text[] =
    "Usage: spur config check [-q] [FILE]\n"
    "\n"
    "Reads FILE (else $SLURM_CONF, else the slurm.conf that the daemons take), the files it includes, and gres.conf, topology.conf,\n"
    "cgroup.conf and spur.conf beside it, and says for each line what spur does with it.\n"
    "\n"
    "  -q, --quiet    only what does not simply act: lines without effect, obsolete ones, errors\n"
    "  -h, --help     this text\n"
    "\n"
    "Exit status: 0 the daemons would start with it, 1 they would refuse.\n";

enum { SAID_ACTS, SAID_MAPPED, SAID_NO_EFFECT, SAID_OBSOLETE, SAID_ERROR, SAID_COUNT };

struct check {
    const struct config *config;
    bool   quiet;
    size_t said[SAID_COUNT];
};

static int said_of(const struct config_note *n)
{
    if (n->is_error)
        return SAID_ERROR;
    switch (n->effect) {
    case CONFIG_MAPPED: return SAID_MAPPED;
    case CONFIG_NO_EFFECT: return SAID_NO_EFFECT;
    case CONFIG_OBSOLETE: return SAID_OBSOLETE;
    default: return SAID_ACTS;
    }
}

static void note_print(struct check *k, const struct config_note *n)
{
    char value[64], text[320], key[64];
    int said = said_of(n);

    k->said[said]++;
    if (k->quiet && (said == SAID_MAPPED || (said == SAID_ACTS && !*n->text)))
        return;
    word_printable(n->value ? n->value : "", value, sizeof value);
    word_printable(n->key ? n->key : "", key, sizeof key);
    word_printable(n->text, text, sizeof text);
    if (n->line)
        printf("%s:%u: ", n->file ? n->file : "", n->line);
    else
        printf("%s: ", n->file ? n->file : "");
    if (*key)
        printf("%s%s%s%s: ", key, *value ? "=" : "", value, n->value && strlen(n->value) >= sizeof value - 1 ? "..." : "");
    switch (said) {
    case SAID_ERROR: printf("error: %s\n", text); break;
    case SAID_MAPPED: printf(strchr(text, ' ') ? "mapped: %s\n" : "mapped to %s\n", text); break;
    case SAID_NO_EFFECT: printf("no effect here: %s\n", text); break;
    case SAID_OBSOLETE: printf("obsolete: %s\n", text); break;
    default: printf("acts%s%s%s\n", *text ? " (" : "", text, *text ? ")" : "");
    }
}

/* Notes in the order of the files' lines: partitions are judged after all else, but belong to their lines. */
struct placed { const struct config_note *note; size_t file, at; };

static int placed_compare(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;

    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    if (x->note->line != y->note->line)     /* 0: about the whole file, at its end */
        return x->note->line - 1u < y->note->line - 1u ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static void notes_print(struct check *k)
{
    const struct config *c = k->config;
    struct placed *order = mem_array(c->note_count + 1, sizeof *order);
    struct table files;

    table_init(&files);
    for (size_t i = 0; i < c->note_count; i++) {
        const char *file = c->notes[i].file ? c->notes[i].file : "";

        if (!table_get_text(&files, file))
            table_put_text(&files, file, (void *)(uintptr_t)(table_count(&files) + 1));
        order[i] = (struct placed){ &c->notes[i], (size_t)(uintptr_t)table_get_text(&files, file), i };
    }
    qsort(order, c->note_count, sizeof *order, placed_compare);
    for (size_t i = 0; i < c->note_count; i++)
        note_print(k, order[i].note);
    table_fini(&files);
    free(order);
}

/* What the configuration's plugin names mean: a name that no plugin has keeps the daemon from starting. */
static void plugins_print(struct check *k)
{
    static const struct { enum config_key key; enum spur_kind kind; } kinds[] = {
        { CONF_StoreType, SPUR_KIND_store }, { CONF_AuthType, SPUR_KIND_auth }, { CONF_SelectType, SPUR_KIND_select }, { CONF_ScoreType, SPUR_KIND_score },
        { CONF_PriorityType, SPUR_KIND_priority }, { CONF_SwitchType, SPUR_KIND_switch },
        { CONF_MpiDefault, SPUR_KIND_mpi } };
    struct spur_error err = { 0 };

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *name = config_text(k->config, kinds[i].key);
        struct loader_meaning m;

        if (loader_resolve(kinds[i].kind, name, k->config, &m, &err) == SPUR_ENOTFOUND && kinds[i].kind == SPUR_KIND_mpi) {
            k->said[SAID_NO_EFFECT]++;
            printf("MpiDefault=%s: without effect: %s; steps run as with none\n", name, err.text);
        } else if (loader_resolve(kinds[i].kind, name, k->config, &m, &err) < 0) {
            k->said[SAID_ERROR]++;
            printf("%s=%s: error: %s\n", config_key_name(kinds[i].key), name, err.text);
        } else if (!k->quiet) {
            printf("%s: %s%s%s%s\n", config_key_name(kinds[i].key), m.name, m.is_builtin ? ", built in" : ", from ", m.path,
                k->config->values[kinds[i].key].is_set ? "" : " (the default)");
        }
    }
    for (size_t i = 0; i < k->config->section_count; i++)
        if (loader_check_section(k->config, i, &err) < 0) {
            k->said[SAID_ERROR]++;
            printf("%s: error\n", err.text);
        }
}

/* The usual pair of old files does not fail over by itself: neither can know whether the other is dead or cut off. */
static void controllers_print(const struct check *k)
{
    const struct config *c = k->config;

    if (c->controller_count == 2 && strcmp(config_text(c, CONF_StoreType), "store/raft") == 0)
        printf("2 controllers: %s votes and %s reads along, ready to be promoted (spur controller promote --force); a third SlurmctldHost, any login node, gives automatic fail-over\n",
               c->controllers[0].host, c->controllers[1].host);
    else if (c->controller_count > 1 && strcmp(config_text(c, CONF_StoreType), "store/local") == 0)
        printf("StoreType=store/local keeps the state of one controller: only %s runs\n", c->controllers[0].host);
    else if (c->controller_count > 2 && c->controller_count % 2 == 0 && !k->quiet)
        printf("%zu controllers bear the loss of %zu, as %zu would\n", c->controller_count, (c->controller_count - 1) / 2, c->controller_count - 1);
}

static int summary(const struct check *k)
{
    const struct config *c = k->config;

    printf("%zu node%s, %zu partition%s, %zu controller%s; %zu act, %zu mapped, %zu without effect here, %zu obsolete, %zu error%s: ",
        c->node_count, c->node_count == 1 ? "" : "s", c->partition_count, c->partition_count == 1 ? "" : "s", c->controller_count,
        c->controller_count == 1 ? "" : "s", k->said[SAID_ACTS], k->said[SAID_MAPPED], k->said[SAID_NO_EFFECT], k->said[SAID_OBSOLETE],
        k->said[SAID_ERROR], k->said[SAID_ERROR] == 1 ? "" : "s");
    printf("%s\n", k->said[SAID_ERROR] ? "the daemons would refuse it" : "the daemons would start");
    return k->said[SAID_ERROR] ? 1 : 0;
}

static int check(const char *path, bool quiet)
{
    struct check k = { .quiet = quiet };
    struct spur_error err = { 0 };
    struct config *c;
    int rc = config_load(path, true, &c, &err);

    if (!c) {
        fprintf(stderr, "spur config check: %s\n", err.text);
        return 1;
    }
    k.config = c;
    notes_print(&k);
    plugins_print(&k);
    controllers_print(&k);
    if (rc < 0 && !k.said[SAID_ERROR])
        k.said[SAID_ERROR]++;
    rc = summary(&k);
    config_free(c);
    return rc;
}

int cmd_config(int argc, char **argv)
{
    static const struct option options[] = { { "quiet", no_argument, NULL, 'q' }, { "help", no_argument, NULL, 'h' }, { 0 } };
    bool quiet = false;
    int c;

    while ((c = getopt_long(argc, argv, "qh", options, NULL)) != -1) {
        if (c == 'h') {
            fputs(usage_text, stdout);
            return 0;
        }
        if (c != 'q') {
            fprintf(stderr, "Try \"spur config --help\" for more information\n");
            return 1;
        }
        quiet = true;
    }
    if (optind >= argc || strcmp(argv[optind], "check") != 0 || argc - optind > 2) {
        if (optind < argc && strcmp(argv[optind], "check") != 0)
            fprintf(stderr, "spur config: there is no \"%s\", only check\n", argv[optind]);
        fputs(usage_text, stderr);
        return 1;
    }
    return check(optind + 1 < argc ? argv[optind + 1] : NULL, quiet);
}
