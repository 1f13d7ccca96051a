/* SPDX-License-Identifier: Apache-2.0 */
/* sacctmgr.c - accounts, users and their associations: shown, added, changed, deleted. They stand in the controllers' log: there is no database beside it.
 *
 * A command is Slurm's: VERB ENTITY [where] name=value ... [set name=value ...]. What associations do not have here (shares, limits, QOS) is refused by its name.
 */
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "cmds/commands.h"
#include "cmds/common/options.h"
#include "cmds/sacctmgr.h"

#define M ((struct sacctmgr *)request)
#define TAKE(name) static int take_##name(void *request, const char *text, enum option_source from, struct spur_error *err)
#define UNUSED (void)text, (void)from, (void)err
TAKE(immediate) { UNUSED; M->immediate = true; return 0; }
TAKE(noheader) { UNUSED; M->no_header = true; return 0; }
TAKE(parsable) { UNUSED; M->parsable = true; return 0; }
TAKE(parsable2) { UNUSED; M->parsable2 = true; return 0; }
TAKE(oneliner) { UNUSED; M->one_line = true; return 0; }
TAKE(quiet) { UNUSED; M->quiet = true; return 0; }
TAKE(readonly) { UNUSED; M->read_only = true; return 0; }
TAKE(associations) { UNUSED; M->with_assoc = true; return 0; }
TAKE(json) { UNUSED; M->json = true; return 0; }
TAKE(verbose) { UNUSED; (void)request; return 0; }

static const struct option_row rows[] = {
    { "associations", 's', OPTION_NONE, NULL, NULL, take_associations, "with show account and show user: a line an association" },
    { "immediate", 'i', OPTION_NONE, NULL, NULL, take_immediate, "changes are done without asking" },
    { "json", 0, OPTION_NONE, NULL, "SLURM_JSON", take_json, "as JSON" },
    { "noheader", 'n', OPTION_NONE, NULL, NULL, take_noheader, "no heading" },
    { "oneliner", 'o', OPTION_NONE, NULL, NULL, take_oneliner, "each record on one line, as they always are" },
    { "parsable", 'p', OPTION_NONE, NULL, NULL, take_parsable, "columns end with |" },
    { "parsable2", 'P', OPTION_NONE, NULL, NULL, take_parsable2, "columns with | between them" },
    { "quiet", 'Q', OPTION_NONE, NULL, NULL, take_quiet, "changes say nothing but errors" },
    { "readonly", 'r', OPTION_NONE, NULL, NULL, take_readonly, "changes are refused" },
    { "verbose", 'v', OPTION_NONE, NULL, NULL, take_verbose, NULL },
};
static const struct option_table table = {
    .command = "sacctmgr",
    .usage = "Usage: sacctmgr [OPTIONS] VERB ENTITY [WHERE...] [set WHAT...]\n"
             "  show|list account|user|association|cluster [NAMES] [user=] [account=] [partition=] [withassoc] [withcoord] [tree] [format=COLUMN[%WIDTH],...]\n"
             "  add account NAMES [parent=] [description=] [organization=]\n"
             "  add user NAMES account=LIST [partition=LIST] [defaultaccount=] [adminlevel=None|Operator|Admin]\n"
             "  add coordinator account=LIST names=LIST\n"
             "  modify account where name=LIST set parent=|description=|organization=\n"
             "  modify user where name=LIST set defaultaccount=|adminlevel=\n"
             "  delete account|user where name=LIST [account=LIST] [partition=LIST]; delete coordinator account=LIST names=LIST\n",
    .rows = rows, .count = sizeof rows / sizeof *rows, .refused = "yaml usage", .refused_letters = "", .unknown_exit = 1,
};

/* ---- words ------------------------------------------------------------------------------------------------------------------ */

static bool begins(const char *full, const char *word, size_t least)
{
    size_t n = strlen(word);

    return n >= least && strncasecmp(full, word, n) == 0;
}

/* "acct", "accounts", "User": may be shortened, singular or plural. */
static int entity_of(const char *word)
{
    static const struct { const char *name; size_t least; enum entity is; } names[] = {
        { "accounts", 3, ENTITY_ACCOUNT }, { "acct", 4, ENTITY_ACCOUNT }, { "users", 1, ENTITY_USER }, { "associations", 2, ENTITY_ASSOC }, { "coordinators", 2, ENTITY_COORDINATOR },
        { "clusters", 2, ENTITY_CLUSTER },
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (begins(names[i].name, word, names[i].least))
            return (int)names[i].is;
    return -1;
}

static char *unquote(struct arena *a, const char *text)
{
    char *copy = arena_copy(a, text);
    size_t n = strlen(copy);

    if (n >= 2 && (*copy == '"' || *copy == '\'') && copy[n - 1] == *copy) {
        copy[n - 1] = '\0';
        copy++;
    }
    return copy;
}

static int level_of(const char *word)
{
    return begins("none", word, 1) ? 0 : begins("operator", word, 1) ? 1 : begins("administrator", word, 1) ? 2 : -1;
}

/* A word without "=": a flag, or names of what the command is about. */
static int take_word(struct words *w, char *word)
{
    if (begins("where", word, 5))
        w->is_set = false;
    else if (begins("set", word, 3))
        w->is_set = true;
    else if (begins("withassoc", word, 5))
        w->with_assoc = true;
    else if (begins("withcoordinators", word, 5))
        w->with_coord = true;
    else if (begins("tree", word, 4))
        w->tree = true;
    else
        list_add(&w->names, word);
    return 0;
}

static int take_value(struct sacctmgr *m, struct words *w, enum entity what, const char *key, char *text)
{
    struct spur_error err = { 0 };

    if (begins("format", key, 1))
        w->format = text;
    else if (begins("clusters", key, 2)) {
        if (*text && cluster_is_own(text, m->cluster, &err) < 0) {
            fprintf(stderr, "sacctmgr: error: %s\n", err.text);
            return -1;
        }
    } else if (begins("names", key, 1))
        list_add(&w->names, text);
    else if (begins("users", key, 1))
        list_add(what == ENTITY_USER || what == ENTITY_COORDINATOR ? &w->names : &w->users, text);
    else if (begins("accounts", key, 3) || begins("accts", key, 3))
        list_add(what == ENTITY_ACCOUNT ? &w->names : &w->accounts, text);
    else if (begins("partitions", key, 4))
        list_add(&w->partitions, text);
    else if (begins("parents", key, 4)) {
        w->parent = text;
        list_add(&w->parents, text);
    } else if (begins("description", key, 3))
        w->description = text;
    else if (begins("organization", key, 1))
        w->organization = text;
    else if (begins("defaultaccount", key, 8))
        w->default_account = text;
    else if (begins("adminlevel", key, 2)) {
        if ((w->admin_level = level_of(text)) < 0) {
            fprintf(stderr, "sacctmgr: error: Bad AdminLevel value: %s (known: None, Operator, Administrator)\n", text);
            return -1;
        }
    } else {
        fprintf(stderr, "sacctmgr: error:  Unknown option: %s\n Associations have accounts, users and partitions here; shares, limits, QOS and wckeys are not kept.\n", key);
        return -1;
    }
    return 0;
}

static int words_read(struct sacctmgr *m, struct words *w, enum entity what, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        char *equals = strchr(argv[i], '=');
        char *key = arena_copy(&m->arena, argv[i]);

        if (!equals) {
            take_word(w, unquote(&m->arena, argv[i]));
            continue;
        }
        key[equals - argv[i]] = '\0';
        if (equals > argv[i] && (equals[-1] == '+' || equals[-1] == '-')) {
            fprintf(stderr, "sacctmgr: error: %s: += and -= are for lists that are not kept here\n", argv[i]);
            return -1;
        }
        if (take_value(m, w, what, key, unquote(&m->arena, equals + 1)) < 0)
            return -1;
    }
    return 0;
}

static void words_fini(struct words *w)
{
    list_fini(&w->names);
    list_fini(&w->accounts);
    list_fini(&w->users);
    list_fini(&w->partitions);
    list_fini(&w->parents);
}

/* ---- changes ---------------------------------------------------------------------------------------------------------------- */

static void say_list(const char *title, const struct list *l)
{
    printf(" %s\n", title);
    for (size_t i = 0; i < l->count; i++)
        printf("  %s\n", l->words[i]);
}

static bool is_agreed(const struct sacctmgr *m)
{
    struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
    char answer[16] = "";

    if (m->immediate)
        return true;
    printf("Would you like to commit changes? (You have 30 seconds to decide)\n(N/y): ");
    fflush(stdout);
    if (poll(&in, 1, 30000) > 0 && fgets(answer, sizeof answer, stdin) && (*answer == 'y' || *answer == 'Y'))
        return true;
    printf(" Changes Discarded\n");
    return false;
}

static int change(struct sacctmgr *m, Wire__AccountChange *q)
{
    struct spur_error err = { 0 };
    int number = 0;
    void *reply;

    if (!is_agreed(m))
        return 1;
    if (client_call(m->client, WIRE__MESSAGE_TYPE__ACCOUNT_CHANGE, &q->base, WIRE__MESSAGE_TYPE__DONE, &wire__done_reply__descriptor, &m->arena, &reply, &number, &err) == 0)
        return 0;
    if (strstr(err.text, "Nothing "))
        printf(" %s\n", strstr(err.text, "Nothing "));
    else
        fprintf(stderr, "sacctmgr: error: %s\n", err.text);
    return 1;
}

static void say(const struct sacctmgr *m, const struct words *w, enum entity what, Wire__AccountChange__Verb verb)
{
    static const char *const titles[3][3] = { { "Adding Account(s)", "Adding User(s)", "Adding Coordinator User(s)" }, { "Modified accounts...", "Modified users...", "" },
                                              { "Deleting accounts...", "Deleting users...", "Deleting Coordinators with" } };
    unsigned kind = what == ENTITY_ACCOUNT ? 0 : what == ENTITY_USER ? 1 : 2;

    if (m->quiet)
        return;
    say_list(titles[verb][kind], &w->names);
    if (kind == 2)
        say_list("To Account(s)", &w->accounts);
    if (verb == WIRE__ACCOUNT_CHANGE__VERB__ADD && kind < 2) {
        printf(" Associations\n");
        for (size_t i = 0; i < w->names.count; i++) {
            if (kind == 0)
                printf("  A = %-10s C = %s\n", w->names.words[i], m->cluster);
            for (size_t k = 0; kind == 1 && k < w->accounts.count; k++)
                printf("  U = %-9s A = %-10s C = %s\n", w->names.words[i], w->accounts.words[k], m->cluster);
        }
    }
    for (size_t i = 0; verb == WIRE__ACCOUNT_CHANGE__VERB__ADD && kind == 1 && i < w->names.count; i++)
        if (!getpwnam(w->names.words[i]))
            fprintf(stderr, "sacctmgr: There is no uid for user '%s' on this host\n", w->names.words[i]);
}

static bool text_is_printable(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 127)
            return false;
    return true;
}

static int change_words(struct sacctmgr *m, struct words *w, enum entity what, Wire__AccountChange__Verb verb)
{
    Wire__AccountChange q = WIRE__ACCOUNT_CHANGE__INIT;

    if (m->read_only) {
        fprintf(stderr, "sacctmgr: error: Can't run this command in readonly mode.\n");
        return 1;
    }
    if (what != ENTITY_ACCOUNT && what != ENTITY_USER && what != ENTITY_COORDINATOR) {
        fprintf(stderr, "sacctmgr: error: %s are not added or changed by themselves here\n", what == ENTITY_CLUSTER ? "clusters (there is this one)" : "associations (add and delete users)");
        return 1;
    }
    if (!w->names.count) {
        fprintf(stderr, "sacctmgr: error:  Need name of %s: names=LIST\n", what == ENTITY_ACCOUNT ? "account to add, change or delete" : "user to add, change or delete");
        return 1;
    }
    if (verb == WIRE__ACCOUNT_CHANGE__VERB__MODIFY && (what == ENTITY_ACCOUNT ? !w->parent && !w->description && !w->organization : !w->default_account && w->admin_level < 0)) {
        fprintf(stderr, "sacctmgr: error:  You didn't give me anything to set: %s\n", what == ENTITY_ACCOUNT ? "parent=, description= or organization=" : "defaultaccount= or adminlevel=");
        return 1;
    }
    for (size_t i = 0; i < w->names.count; i++)
        if (strlen(w->names.words[i]) > 64 || strpbrk(w->names.words[i], "\"'|= ") || !text_is_printable(w->names.words[i])) {
            fprintf(stderr, "sacctmgr: error: name %zu is none: 1 to 64 characters, without blanks, quotes, | and =\n", i + 1);
            return 1;
        }
    q.verb = verb;
    q.kind = what == ENTITY_ACCOUNT ? WIRE__ACCOUNT_CHANGE__KIND__ACCOUNT : what == ENTITY_USER ? WIRE__ACCOUNT_CHANGE__KIND__USER : WIRE__ACCOUNT_CHANGE__KIND__COORDINATOR;
    q.names = w->names.words;
    q.n_names = w->names.count;
    q.accounts = w->accounts.words;
    q.n_accounts = w->accounts.count;
    q.partitions = w->partitions.words;
    q.n_partitions = w->partitions.count;
    q.parent = (char *)(uintptr_t)w->parent;
    q.description = (char *)(uintptr_t)w->description;
    q.organization = (char *)(uintptr_t)w->organization;
    q.default_account = (char *)(uintptr_t)w->default_account;
    q.has_admin_level = w->admin_level >= 0;
    q.admin_level = w->admin_level >= 0 ? (Wire__AdminLevel)w->admin_level : WIRE__ADMIN_LEVEL__ADMIN_NONE;
    say(m, w, what, verb);
    return change(m, &q);
}

/* ---- the command ------------------------------------------------------------------------------------------------------------ */

static int connect_to(struct sacctmgr *m)
{
    Wire__Empty q = WIRE__EMPTY__INIT;
    struct spur_error err = { 0 };
    const Wire__Pong *pong;
    int number = 0;
    void *reply;

    if (client_open(NULL, &m->client, &err) < 0 ||
        client_call(m->client, WIRE__MESSAGE_TYPE__PING, &q.base, WIRE__MESSAGE_TYPE__PONG, &wire__pong__descriptor, &m->arena, &reply, &number, &err) < 0) {
        fprintf(stderr, "sacctmgr: error: %s\n", err.text);
        return -1;
    }
    pong = reply;
    m->cluster = pong->cluster ? pong->cluster : "";
    m->host = pong->host;
    return 0;
}

static int run(struct sacctmgr *m, int argc, char **argv)
{
    struct words w = { .admin_level = -1 };
    const char *verb = argc ? argv[0] : "";
    int what, rc = 1;

    if (begins("version", verb, 1)) {
        puts(SLURM_GENERATION);
        return 0;
    }
    if (argc < 2 || begins("help", verb, 1)) {
        options_help(&table);
        return argc < 2 && !begins("help", verb, 1);
    }
    if ((what = entity_of(argv[1])) < 0) {
        fprintf(stderr, "sacctmgr: error: No valid entity in %s command: \"%s\" (account, user, association, coordinator and cluster are kept here)\n", verb, argv[1]);
        return 1;
    }
    if (connect_to(m) < 0 || words_read(m, &w, (enum entity)what, argc - 2, argv + 2) < 0)
        rc = 1;
    else if (begins("show", verb, 1) || begins("list", verb, 1))
        rc = what == ENTITY_COORDINATOR ? (fprintf(stderr, "sacctmgr: error: coordinators are shown with their accounts: show account withcoord\n"), 1) : sacctmgr_show(m, (enum entity)what, &w);
    else if (begins("add", verb, 1) || begins("create", verb, 1))
        rc = change_words(m, &w, (enum entity)what, WIRE__ACCOUNT_CHANGE__VERB__ADD);
    else if (begins("modify", verb, 1))
        rc = change_words(m, &w, (enum entity)what, WIRE__ACCOUNT_CHANGE__VERB__MODIFY);
    else if (begins("delete", verb, 1) || begins("remove", verb, 1))
        rc = change_words(m, &w, (enum entity)what, WIRE__ACCOUNT_CHANGE__VERB__REMOVE);
    else
        fprintf(stderr, "sacctmgr: error: invalid keyword: %s (show, list, add, modify, delete, version and help are known here)\n", verb);
    words_fini(&w);
    return rc;
}

int cmd_sacctmgr(int argc, char **argv)
{
    struct sacctmgr m = { .cluster = "" };
    int first = 0, rc = options_environment(&table, &m);

    if (rc == 0)
        rc = options_read(&table, argc, argv, &m, &first);
    if (rc != 0)
        return rc == OPTIONS_DONE ? 0 : rc;
    arena_init(&m.arena, 0);
    rc = run(&m, argc - first, argv + first);
    client_close(m.client);
    arena_fini(&m.arena);
    return rc;
}
