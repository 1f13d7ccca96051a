/* SPDX-License-Identifier: Apache-2.0 */
/* scontrol.c - shows and changes jobs, nodes, partitions and the configuration; host lists; ping.
 *
 * A table of verbs; each gets the words behind it. Without a verb it reads commands from standard input, as Slurm's does. `show` is in
 * scontrol_show.c, what changes something in scontrol_change.c. Exit 1 when anything failed, after doing the rest.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "client/slurm_errno.h"
#include "cmds/commands.h"
#include "cmds/common/list.h"
#include "cmds/common/options.h"
#include "cmds/scontrol.h"
#include "config/config.h"

#define TAKE(name) static int take_##name(void *request, const char *value, enum option_source from, struct spur_error *err)
#define UNUSED (void)value, (void)from, (void)err
#define SC ((struct scontrol *)request)
TAKE(one_line) { UNUSED; SC->one_line = true; return 0; }
TAKE(details) { UNUSED; SC->details = true; return 0; }
TAKE(quiet) { UNUSED; SC->quiet = true; return 0; }
TAKE(json) { UNUSED; SC->json = true; return 0; }
TAKE(fresh) { UNUSED; SC->fresh = true; return 0; }
TAKE(future) { UNUSED; SC->future = true; return 0; }
TAKE(clusters) { UNUSED; SC->clusters = value; return 0; }
TAKE(all) { UNUSED; SC->all = true; return 0; }
TAKE(hide) { UNUSED; SC->all = false; return 0; }
TAKE(verbose) { UNUSED; SC->verbose = true; return 0; }
TAKE(nothing) { UNUSED; (void)request; return 0; }
static const struct option_row rows[] = {
    { "all", 'a', OPTION_NONE, NULL, "SCONTROL_ALL", take_all, "hidden partitions and their jobs too" },
    { "clusters", 'M', OPTION_VALUE, "NAMES", "SLURM_CLUSTERS", take_clusters, "this cluster, by its name" },
    { "cluster", 0, OPTION_VALUE, "NAMES", NULL, take_clusters, NULL },
    { "details", 'd', OPTION_NONE, NULL, NULL, take_details, "more of jobs and nodes: cores, devices" },
    { "fresh", 0, OPTION_NONE, NULL, NULL, take_fresh, "all that anybody was told before, from the leader" },
    { "future", 'F', OPTION_NONE, NULL, "SCONTROL_FUTURE", take_future, "nodes in state FUTURE too" },
    { "hide", 0, OPTION_NONE, NULL, NULL, take_hide, "no hidden partitions, unless you are root" },
    { "json", 0, OPTION_MAY, "PARSER", NULL, take_json, "show jobs, nodes, partitions as JSON" },
    { "local", 0, OPTION_NONE, NULL, "SCONTROL_LOCAL", take_nothing, NULL },
    { "oneliner", 'o', OPTION_NONE, NULL, NULL, take_one_line, "one line a record" },
    { "quiet", 'Q', OPTION_NONE, NULL, NULL, take_quiet, "errors only" },
    { "verbose", 'v', OPTION_NONE, NULL, NULL, take_verbose, "say who was asked" },
};
static const struct option_table table = {
    "scontrol",
    "Usage: scontrol [OPTIONS] [COMMAND]\n\n"
    "  show job|node|partition [NAME]     records; job NAME may be 12, 12_3\n"
    "  show config | steps [JOB] | daemons | aliases [HOST] | hostnames [LIST] | hostlist LIST|FILE | hostlistsorted LIST|FILE\n"
    "  update jobid=N|nodename=LIST|partitionname=P KEY=VALUE ...\n"
    "  create|delete partitionname=P ...\n"
    "  hold|uhold|release|requeue|requeuehold|suspend|resume|top JOB[,JOB...]\n"
    "  reboot [ASAP] [nextstate=RESUME|DOWN] [reason=TEXT] NODES|ALL | cancel_reboot NODES\n"
    "  token [lifespan=SECONDS] [username=USER] [scope=all|read]\n"
    "  ping | takeover [N] | reconfigure | shutdown | completing | wait_job JOB | write batch_script JOB [FILE|-] | errnumstr N | version\n\n"
    "Without a command it reads commands from its input.\n",
    rows, sizeof rows / sizeof *rows, "federation sibling uid yaml", "u", 1, true };

/* ---- asking --------------------------------------------------------------------------------------------------------------------- */

int scontrol_ready(struct scontrol *s, struct spur_error *err)
{
    if (s->client)
        return 0;
    if (client_open(NULL, &s->client, err) < 0)
        return err->code;
    if (s->fresh)
        client_fresh(s->client);
    if (s->verbose)
        fprintf(stderr, "scontrol: cluster %s, which %s names\n", client_hint(s->client)->cluster, client_hint(s->client)->path);
    return cluster_is_own(s->clusters, client_hint(s->client)->cluster, err);
}

int scontrol_ask(struct scontrol *s, uint16_t type, const ProtobufCMessage *request, uint16_t reply_type, const ProtobufCMessageDescriptor *d, void **reply,
                 int *number, struct spur_error *err)
{
    int unused;

    return scontrol_ready(s, err) < 0 ? err->code : client_call(s->client, type, request, reply_type, d, &s->arena, reply, number ? number : &unused, err);
}

int scontrol_failed(const struct scontrol *s, const char *what, const struct spur_error *err)
{
    if (!s->quiet || err->code != SPUR_ENOTFOUND)
        fprintf(stderr, "%s%s%s\n", what, *what ? " error: " : "", err->text);
    return 1;
}

const char *scontrol_words(int number, const struct spur_error *err)
{
    /* Invalid job id, invalid partition name, invalid node name, already done, pending: the subject is named by the caller. */
    bool is_plain = number == 2017 || number == 2018 || number == 2021 || number == 2024;

    return is_plain && slurm_errno_text(number) ? slurm_errno_text(number) : err->text;
}

/* The verb that starts with this word, at least `least` characters of it. */
const struct verb *verb_find(const struct verb *verbs, size_t count, const char *word)
{
    size_t n = strlen(word);

    for (size_t i = 0; i < count; i++)
        if (n >= verbs[i].least && n <= strlen(verbs[i].name) && strncasecmp(verbs[i].name, word, n) == 0)
            return &verbs[i];
    return NULL;
}

/* ---- verbs ----------------------------------------------------------------------------------------------------------------------- */

static int plain(struct scontrol *s, uint16_t type, const char *what)
{
    Wire__Empty r = WIRE__EMPTY__INIT;
    struct spur_error err = { 0 };
    void *reply;

    return scontrol_ask(s, type, &r.base, WIRE__MESSAGE_TYPE__DONE, &wire__done_reply__descriptor, &reply, NULL, &err) < 0 ? scontrol_failed(s, what, &err) : 0;
}
static int run_reconfigure(struct scontrol *s, int argc, char **argv) { (void)argc, (void)argv; return plain(s, WIRE__MESSAGE_TYPE__RECONFIGURE, "slurm_reconfigure"); }
/* All controllers of the group; one that is down already is well. */
static int run_shutdown(struct scontrol *s, int argc, char **argv)
{
    Wire__Empty r = WIRE__EMPTY__INIT;
    struct spur_error err = { 0 };
    size_t told = 0;
    void *reply;

    (void)argc, (void)argv;
    if (scontrol_ready(s, &err) < 0)
        return scontrol_failed(s, "slurm_shutdown", &err);
    if (client_hint(s->client)->controller_count < 2)
        return plain(s, WIRE__MESSAGE_TYPE__SHUTDOWN, "slurm_shutdown");
    for (size_t i = 0; i < client_hint(s->client)->controller_count; i++) {
        struct spur_error one = { 0 };

        if (client_call_one(s->client, i, WIRE__MESSAGE_TYPE__SHUTDOWN, &r.base, WIRE__MESSAGE_TYPE__DONE, &wire__done_reply__descriptor, &s->arena, &reply, &one) == 0)
            told++;
        else
            err = one;
    }
    return told ? 0 : scontrol_failed(s, "slurm_shutdown", &err);
}

/* One line a SlurmctldHost, in Slurm's words; in a group, who leads. */
int scontrol_ping(struct scontrol *s, int argc, char **argv)
{
    Wire__Empty r = WIRE__EMPTY__INIT;
    struct spur_error err = { 0 };
    const struct config_hint *hint;
    const char *leader = NULL;
    uint64_t fence = 0;
    bool has_up = false;

    (void)argc, (void)argv;
    if (scontrol_ready(s, &err) < 0)
        return scontrol_failed(s, "", &err);
    hint = client_hint(s->client);
    for (size_t i = 0; i < hint->controller_count; i++) {
        char mode[32] = "primary";
        void *reply;
        bool is_up = client_call_one(s->client, i, WIRE__MESSAGE_TYPE__PING, &r.base, WIRE__MESSAGE_TYPE__PONG, &wire__pong__descriptor, &s->arena, &reply, &err) == 0;
        const Wire__Pong *p = is_up ? reply : NULL;

        if (i)
            snprintf(mode, sizeof mode, hint->controller_count == 2 ? "backup" : "backup%zu", i);
        printf("Slurmctld(%s) at %s is %s\n", mode, hint->controllers[i].host, is_up ? "UP" : "DOWN");
        has_up |= is_up;
        if (p && p->leader && *p->leader && (!leader || p->fence > fence)) {
            leader = p->leader;
            fence = p->fence;
        }
    }
    if (hint->controller_count > 1)
        printf(leader ? "Leader is %s\n" : "Nobody leads\n", leader);
    return has_up && leader ? 0 : 1;
}

/* Another controller leads. Slurm's takes the number of a SlurmctldHost line, 1 when there is none. */
static int run_takeover(struct scontrol *s, int argc, char **argv)
{
    Wire__MemberChangeRequest r = WIRE__MEMBER_CHANGE_REQUEST__INIT;
    struct spur_error err = { 0 };
    const struct config_hint *hint;
    uint32_t line = 1;
    void *reply;

    if (scontrol_ready(s, &err) < 0)
        return scontrol_failed(s, "slurm_takeover", &err);
    hint = client_hint(s->client);
    if (argc > 0 && (!number_u32(argv[0], &line) || line == 0 || line >= hint->controller_count))
        return fprintf(stderr, "scontrol: error: takeover %s: a number from 1 to %zu is needed, the place of a SlurmctldHost line behind the first\n", argv[0],
                       hint->controller_count ? hint->controller_count - 1 : 0), 1;
    r.verb = WIRE__MEMBER_CHANGE_REQUEST__VERB__TRANSFER;
    r.name = argc > 0 ? (char *)(uintptr_t)hint->controllers[line].host : NULL;
    if (scontrol_ask(s, WIRE__MESSAGE_TYPE__MEMBER_CHANGE, &r.base, WIRE__MESSAGE_TYPE__DONE, &wire__done_reply__descriptor, &reply, NULL, &err) < 0)
        return scontrol_failed(s, "slurm_takeover", &err);
    return 0;
}

static int run_wait_job(struct scontrol *s, int argc, char **argv)
{
    Wire__WaitRequest r = WIRE__WAIT_REQUEST__INIT;
    struct spur_error err = { 0 };
    Wire__JobsReply *reply;
    int number;

    if (argc < 1 || !number_u32(argv[0], &r.job_id)) {
        fprintf(stderr, "too few arguments for keyword:wait_job\n");
        return 1;
    }
    r.until = WIRE__WAIT_REQUEST__UNTIL__STARTED;
    if (scontrol_ready(s, &err) < 0 || client_wait(s->client, &r, &s->arena, &reply, &number, &err) < 0)
        return fprintf(stderr, "scontrol: Problem running job %u: %s\n", r.job_id, err.text), 1;
    if (!s->quiet)
        printf("Job %u is ready\n", r.job_id);
    return 0;
}

static int run_write(struct scontrol *s, int argc, char **argv)
{
    Wire__ScriptRequest r = WIRE__SCRIPT_REQUEST__INIT;
    struct spur_error err = { 0 };
    const Wire__Blob *blob;
    char name[64];
    void *reply;
    FILE *f = stdout;

    if (argc < 2 || !word_starts("batch_script", argv[0]) || !number_u32(argv[1], &r.job_id)) {
        if (argc && word_eq(argv[0], "config"))
            fprintf(stderr, "scontrol: error: not supported yet: write config\n");
        else
            fprintf(stderr, "invalid write argument:%s (write batch_script JOB [FILE|-] is known)\n", argc ? argv[0] : "");
        return 1;
    }
    if (scontrol_ask(s, WIRE__MESSAGE_TYPE__SCRIPT, &r.base, WIRE__MESSAGE_TYPE__SCRIPT_TEXT, &wire__blob__descriptor, &reply, NULL, &err) < 0)
        return fprintf(stderr, "job script retrieval failed: %s\n", err.text), 1;
    blob = reply;
    snprintf(name, sizeof name, "slurm-%u.sh", r.job_id);
    if (argc < 3 || strcmp(argv[2], "-") != 0) {
        int fd = open(argc > 2 ? argv[2] : name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);

        if (fd < 0 || !(f = fdopen(fd, "w"))) {
            fprintf(stderr, "failed to open file `%s`: %s\n", argc > 2 ? argv[2] : name, strerror(errno));
            return 1;
        }
    }
    fwrite(blob->data.data, 1, blob->data.len, f);
    if (f != stdout) {
        fclose(f);
        printf("batch script for job %u written to %s\n", r.job_id, argc > 2 ? argv[2] : name);
    }
    return 0;
}

static int run_errnumstr(struct scontrol *s, int argc, char **argv)
{
    uint32_t number;
    const char *text;

    (void)s;
    if (argc != 1) {
        fprintf(stderr, "one arguments required for keyword:errnumstr\n");
        return 1;
    }
    if (!number_u32(argv[0], &number) || number > 1000000) {
        fprintf(stderr, "numeric arguments required for keyword:errnumstr\n");
        return 1;
    }
    text = number >= 1000 ? slurm_errno_text((int)number) : number ? strerror((int)number) : "No error";
    if (text)
        puts(text);
    else
        printf("Unknown error %u\n", number);
    return 0;
}

static int run_version(struct scontrol *s, int argc, char **argv) { (void)s, (void)argc, (void)argv; puts(SLURM_GENERATION); return 0; }
static int run_oneliner(struct scontrol *s, int argc, char **argv) { (void)argc, (void)argv; s->one_line = true; return 0; }
static int run_details(struct scontrol *s, int argc, char **argv) { (void)argc, (void)argv; s->details = true; return 0; }
static int run_quiet(struct scontrol *s, int argc, char **argv) { (void)argc, (void)argv; s->quiet = true; return 0; }
static int run_all(struct scontrol *s, int argc, char **argv) { (void)argc, (void)argv; s->all = true; return 0; }
static int run_hide(struct scontrol *s, int argc, char **argv) { (void)argc, (void)argv; s->all = false; return 0; }
static int run_verbose(struct scontrol *s, int argc, char **argv) { (void)argc, (void)argv; s->verbose = true; return 0; }
static int run_quit(struct scontrol *s, int argc, char **argv) { (void)argc, (void)argv; s->is_done = true; return 0; }
static int run_help(struct scontrol *s, int argc, char **argv) { (void)s, (void)argc, (void)argv; options_help(&table); return 0; }
static int run_refused(struct scontrol *s, int argc, char **argv) { (void)s, (void)argc; fprintf(stderr, "scontrol: error: not supported yet: %s\n", argv[-1]); return 1; }

static const struct verb verbs[] = {
    { "show", 2, scontrol_show },
    { "ping", 3, scontrol_ping }, { "reconfigure", 3, run_reconfigure }, { "shutdown", 4, run_shutdown }, { "completing", 4, scontrol_completing }, { "wait_job", 4, run_wait_job }, { "write", 5, run_write },
    { "version", 4, run_version }, { "oneliner", 1, run_oneliner }, { "details", 1, run_details }, { "quiet", 4, run_quiet }, { "all", 3, run_all }, { "hide", 2, run_hide }, { "verbose", 4, run_verbose },
    { "help", 1, run_help }, { "exit", 1, run_quit }, { "quit", 4, run_quit },
    { "abort", 5, run_refused }, { "cluster", 2, run_refused }, { "fsdampeningfactor", 2, run_refused }, { "listpids", 1, run_refused }, { "notify", 1, run_refused },
    { "pidinfo", 3, run_refused }, { "power", 3, run_refused }, { "schedloglevel", 3, run_refused }, { "setdebug", 8, run_refused }, { "setdebugflags", 9, run_refused },
    { "takeover", 8, run_takeover }, { "token", 3, scontrol_token }, { "errnumstr", 3, run_errnumstr }, { "getent", 3, run_refused }, { "gethost", 4, run_refused }, { "listjobs", 5, run_refused }, { "liststeps", 5, run_refused },
    { "bbstat", 2, run_refused }, { "dwstat", 2, run_refused },
};

/* For the completion of a shell: what is not refused. */
static void verbs_print(void)
{
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (verbs[i].run != run_refused)
            puts(verbs[i].name);
    for (size_t i = 0; i < scontrol_change_count; i++)
        puts(scontrol_changes[i].name);
}

static int run_words(struct scontrol *s, int argc, char **argv)
{
    const struct verb *v = verb_find(verbs, sizeof verbs / sizeof *verbs, argv[0]);
    int rc;

    v = v ? v : verb_find(scontrol_changes, scontrol_change_count, argv[0]);
    if (!v) {
        fprintf(stderr, "invalid keyword: %s\n", argv[0]);
        return 1;
    }
    arena_init(&s->arena, 0);
    rc = v->run(s, argc - 1, argv + 1);
    if (s->client && rc == 0 && v->run == scontrol_show)
        client_said_age(s->client, "scontrol");
    arena_fini(&s->arena);
    return rc;
}

/* Commands from standard input, words parted by blanks, quotes keep them together. */
static int interactive(struct scontrol *s)
{
    char *line = NULL, *last = mem_copy("\n");
    size_t room = 0;
    bool is_terminal = isatty(STDIN_FILENO);
    int rc = 0;

    while (!s->is_done) {
        char *words[1024], *to, *p;
        int n = 1;

        if (is_terminal) {
            fputs("scontrol: ", stdout);
            fflush(stdout);
        }
        if (getline(&line, &room, stdin) < 0)
            break;
        if (!strcmp(line, "!!\n")) {
            free(line);
            line = mem_copy(last);
            room = strlen(line) + 1;
        } else {
            free(last);
            last = mem_copy(line);
        }
        words[0] = (char *)"scontrol";      /* room for the verbs that look one word back */
        for (p = line; n < 1023; ) {
            char quote = 0;

            while (isspace((unsigned char)*p))
                p++;
            if (!*p)
                break;
            words[n++] = to = p;
            for (; *p && (quote || !isspace((unsigned char)*p)); p++) {
                if (quote ? *p == quote : *p == '"' || *p == '\'')
                    quote = quote ? 0 : *p;
                else
                    *to++ = *p;
            }
            if (*p)
                p++;
            *to = '\0';
        }
        if (n > 1)
            rc = run_words(s, n - 1, words + 1);
    }
    free(line);
    free(last);
    return rc;
}

int cmd_scontrol(int argc, char **argv)
{
    struct scontrol s = { 0 };
    int first, rc;

    if (argc > 1 && !strcmp(argv[1], "--autocomplete"))
        verbs_print();
    if ((rc = options_environment(&table, &s)) || (rc = options_read(&table, argc, argv, &s, &first)))
        return rc == OPTIONS_DONE ? 0 : rc;
    /* Options may stand behind the verb too: scontrol show job -d 12, scontrol show nodes --json. */
    for (int i = first; i < argc; i++) {
        bool *flag = !strcmp(argv[i], "-o") || !strcmp(argv[i], "--oneliner") ? &s.one_line : !strcmp(argv[i], "-d") || !strcmp(argv[i], "-dd") || !strcmp(argv[i], "--details") ? &s.details :
                     word_starts(argv[i], "--json") ? &s.json : !strcmp(argv[i], "-a") || !strcmp(argv[i], "--all") ? &s.all : !strcmp(argv[i], "-F") || !strcmp(argv[i], "--future") ? &s.future : !strcmp(argv[i], "-Q") || !strcmp(argv[i], "--quiet") ? &s.quiet : !strcmp(argv[i], "--fresh") ? &s.fresh : NULL;

        if (!flag)
            continue;
        *flag = true;
        memmove(argv + i, argv + i + 1, (size_t)(argc - i) * sizeof *argv);
        argc--;
        i--;
    }
    rc = first < argc ? run_words(&s, argc - first, argv + first) : interactive(&s);
    client_close(s.client);
    return rc;
}
