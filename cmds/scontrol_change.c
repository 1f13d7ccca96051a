/* SPDX-License-Identifier: Apache-2.0 */
/* scontrol_change.c - what scontrol changes: hold, release, requeue and the like; update, create and delete of jobs, nodes and partitions.
 *
 * KEY=VALUE words go to the controller as they are written: it knows which can be changed, and says so in a sentence.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cmds/scontrol.h"

static int job_verb(struct scontrol *s, int argc, char **argv, Wire__JobUpdateRequest__Verb verb, const char *what)
{
    int rc = 0;

    if (argc < 1) {
        fprintf(stderr, "too few arguments for keyword:%s\n", what);
        return 1;
    }
    for (int i = 0; i < argc; i++) {
        Wire__JobUpdateRequest r = WIRE__JOB_UPDATE_REQUEST__INIT;
        struct spur_error err = { 0 };
        uint8_t token[16];
        int number = 0;
        void *reply;
        char *equals = strchr(argv[i], '=');
        bool by_name = word_starts(argv[i], "jobname=") || word_starts(argv[i], "name=") || (!equals && !is_digit(argv[i][0]));
        char *ids = by_name ? (char *)"" : equals ? equals + 1 : argv[i];

        client_token(token, &r.token_wall_ms);
        r.has_token = r.has_token_wall_ms = 1;
        r.token.data = token;
        r.token.len = sizeof token;
        r.ids = ids;
        r.job_name = by_name ? equals ? equals + 1 : argv[i] : NULL;
        r.verb = verb;
        if (scontrol_ask(s, WIRE__MESSAGE_TYPE__JOB_UPDATE, &r.base, WIRE__MESSAGE_TYPE__DONE, &wire__done_reply__descriptor, &reply, &number, &err) < 0) {
            if (!s->quiet || err.code != SPUR_ENOTFOUND)
                fprintf(stderr, "%s for job %s\n", scontrol_words(number, &err), *ids ? ids : r.job_name);
            rc = 1;
        }
    }
    return rc;
}

#define JOB_VERB(name, verb) static int run_##name(struct scontrol *s, int argc, char **argv) { return job_verb(s, argc, argv, WIRE__JOB_UPDATE_REQUEST__VERB__##verb, #name); }
JOB_VERB(hold, HOLD) JOB_VERB(uhold, UHOLD) JOB_VERB(release, RELEASE) JOB_VERB(requeue, REQUEUE) JOB_VERB(requeuehold, REQUEUE_HOLD) JOB_VERB(top, TOP)
JOB_VERB(suspend, SUSPEND) JOB_VERB(resume, RESUME)

/* KEY=VALUE words; KEY+=VALUE keeps its sign in front of the value, as Slurm passes it. */
static int pairs_read(struct scontrol *s, int argc, char **argv, const char *entity, char **subject, Wire__KeyValue ***out, size_t *count)
{
    size_t n = 0;

    *out = arena_alloc(&s->arena, ((size_t)argc + 1) * sizeof **out);
    *subject = NULL;
    for (int i = 0; i < argc; i++) {
        char *equals = strchr(argv[i], '=');
        Wire__KeyValue *kv;

        if (!equals) {
            fprintf(stderr, "Invalid input: %s\nRequest aborted\n", argv[i]);
            return 1;
        }
        kv = arena_alloc(&s->arena, sizeof *kv);
        wire__key_value__init(kv);
        if (equals > argv[i] && (equals[-1] == '+' || equals[-1] == '-')) {
            kv->key = arena_printf(&s->arena, "%.*s", (int)(equals - argv[i] - 1), argv[i]);
            kv->value = arena_printf(&s->arena, "%c%s", equals[-1], equals + 1);
        } else {
            kv->key = arena_printf(&s->arena, "%.*s", (int)(equals - argv[i]), argv[i]);
            kv->value = arena_copy(&s->arena, equals + 1);
        }
        if (!*subject && word_eq(kv->key, entity))
            *subject = kv->value;
        else
            (*out)[n++] = kv;
    }
    *count = n;
    return 0;
}

static bool pair_is(int argc, char **argv, const char *key)
{
    size_t n = strlen(key);

    for (int i = 0; i < argc; i++)
        if (strncasecmp(argv[i], key, n) == 0 && argv[i][n] == '=')
            return true;
    return false;
}

static int nothing_to_do(size_t count)
{
    if (count)
        return 0;
    fprintf(stderr, "No changes specified\n");
    return 1;
}

static int update_jobs(struct scontrol *s, int argc, char **argv)
{
    Wire__JobUpdateRequest r = WIRE__JOB_UPDATE_REQUEST__INIT;
    struct spur_error err = { 0 };
    bool by_name = !pair_is(argc, argv, "jobid") && !pair_is(argc, argv, "job");
    uint8_t token[16];
    int number = 0;
    char *subject;
    void *reply;

    if (pairs_read(s, argc, argv, pair_is(argc, argv, "jobid") ? "jobid" : by_name ? "jobname" : "job", &subject, &r.set, &r.n_set) || nothing_to_do(r.n_set))
        return 1;
    client_token(token, &r.token_wall_ms);
    r.has_token = r.has_token_wall_ms = 1;
    r.token.data = token;
    r.token.len = sizeof token;
    r.ids = by_name ? (char *)"" : subject;
    r.job_name = by_name ? subject : NULL;
    r.verb = WIRE__JOB_UPDATE_REQUEST__VERB__SET;
    if (scontrol_ask(s, WIRE__MESSAGE_TYPE__JOB_UPDATE, &r.base, WIRE__MESSAGE_TYPE__DONE, &wire__done_reply__descriptor, &reply, &number, &err) < 0) {
        if (!s->quiet || err.code != SPUR_ENOTFOUND)
            fprintf(stderr, "%s for job %s\n", scontrol_words(number, &err), subject);
        return 1;
    }
    return 0;
}

/* A node is not taken away without a word why. */
static bool needs_reason(int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        if (word_starts(argv[i], "state=") && (word_starts(argv[i] + 6, "down") || word_eq(argv[i] + 6, "drain") || word_starts(argv[i] + 6, "fail")))
            return !pair_is(argc, argv, "reason");
    return false;
}

static int update_nodes(struct scontrol *s, int argc, char **argv)
{
    Wire__NodeUpdateRequest r = WIRE__NODE_UPDATE_REQUEST__INIT;
    struct spur_error err = { 0 };
    uint8_t token[16];
    int number = 0;
    void *reply;

    if (pairs_read(s, argc, argv, pair_is(argc, argv, "nodename") ? "nodename" : "node", &r.nodes, &r.set, &r.n_set) || nothing_to_do(r.n_set))
        return 1;
    if (needs_reason(argc, argv)) {
        fprintf(stderr, "You must specify a reason when DOWNING or DRAINING a node. Request denied\n");
        return 1;
    }
    client_token(token, &r.token_wall_ms);
    r.has_token = r.has_token_wall_ms = 1;
    r.token.data = token;
    r.token.len = sizeof token;
    if (scontrol_ask(s, WIRE__MESSAGE_TYPE__NODE_UPDATE, &r.base, WIRE__MESSAGE_TYPE__DONE, &wire__done_reply__descriptor, &reply, &number, &err) < 0)
        return scontrol_failed(s, "slurm_update", &err);
    return 0;
}

static int ask_reboot(struct scontrol *s, Wire__NodeRebootRequest *r)
{
    struct spur_error err = { 0 };
    uint8_t token[16];
    void *reply;

    client_token(token, &r->token_wall_ms);
    r->has_token = r->has_token_wall_ms = 1;
    r->token.data = token;
    r->token.len = sizeof token;
    if (scontrol_ask(s, WIRE__MESSAGE_TYPE__NODE_REBOOT, &r->base, WIRE__MESSAGE_TYPE__DONE, &wire__done_reply__descriptor, &reply, NULL, &err) < 0)
        return scontrol_failed(s, r->cancel ? "scontrol_cancel_reboot" : "scontrol_reboot_nodes", &err);
    return 0;
}

/* reboot [ASAP] [nextstate=] [reason=] NODES: the words in front in any order, as Slurm takes them. */
static int run_reboot(struct scontrol *s, int argc, char **argv)
{
    Wire__NodeRebootRequest r = WIRE__NODE_REBOOT_REQUEST__INIT;

    for (; argc; argc--, argv++)
        if (word_eq(argv[0], "ASAP"))
            r.has_asap = r.asap = 1;
        else if (word_starts(argv[0], "nextstate="))
            r.next_state = argv[0] + strlen("nextstate=");
        else if (word_starts(argv[0], "reason="))
            r.reason = argv[0] + strlen("reason=");
        else
            break;
    if (argc != 1) {
        fprintf(stderr, argc ? "too many arguments for keyword:reboot\n" : "too few arguments for keyword:reboot\n");
        return 1;
    }
    if (r.next_state && !word_eq(r.next_state, "RESUME") && !word_eq(r.next_state, "DOWN")) {
        fprintf(stderr, "Invalid state: %s\n Valid states: RESUME, DOWN\n", r.next_state);
        return 1;
    }
    r.nodes = argv[0];
    return ask_reboot(s, &r);
}

static int run_cancel_reboot(struct scontrol *s, int argc, char **argv)
{
    Wire__NodeRebootRequest r = WIRE__NODE_REBOOT_REQUEST__INIT;

    if (argc != 1) {
        fprintf(stderr, argc ? "too many arguments for keyword:cancel_reboot\n" : "too few arguments for keyword:cancel_reboot\n");
        return 1;
    }
    r.nodes = argv[0];
    r.has_cancel = r.cancel = 1;
    return ask_reboot(s, &r);
}

static int change_partition(struct scontrol *s, int argc, char **argv, bool create, bool erase)
{
    Wire__PartitionUpdateRequest r = WIRE__PARTITION_UPDATE_REQUEST__INIT;
    struct spur_error err = { 0 };
    uint8_t token[16];
    void *reply;

    if (pairs_read(s, argc, argv, pair_is(argc, argv, "partitionname") ? "partitionname" : "partition", &r.name, &r.set, &r.n_set))
        return 1;
    if (!r.name) {
        fprintf(stderr, "scontrol: error: partitionname=NAME is missing\n");
        return 1;
    }
    if (!create && !erase && nothing_to_do(r.n_set))
        return 1;
    client_token(token, &r.token_wall_ms);
    r.has_token = r.has_token_wall_ms = 1;
    r.token.data = token;
    r.token.len = sizeof token;
    r.has_create = r.create = create;
    r.has_delete_ = r.delete_ = erase;
    if (scontrol_ask(s, WIRE__MESSAGE_TYPE__PARTITION_UPDATE, &r.base, WIRE__MESSAGE_TYPE__DONE, &wire__done_reply__descriptor, &reply, NULL, &err) < 0)
        return scontrol_failed(s, create ? "slurm_create_partition" : erase ? "slurm_delete_partition" : "slurm_update", &err);
    return 0;
}

static int run_update(struct scontrol *s, int argc, char **argv)
{
    if (argc && word_eq(argv[0], "job"))
        argc--, argv++;
    if (pair_is(argc, argv, "jobid") || pair_is(argc, argv, "job") || pair_is(argc, argv, "jobname"))
        return update_jobs(s, argc, argv);
    if (pair_is(argc, argv, "nodename") || pair_is(argc, argv, "node"))
        return update_nodes(s, argc, argv);
    if (pair_is(argc, argv, "partitionname") || pair_is(argc, argv, "partition"))
        return change_partition(s, argc, argv, false, false);
    if (pair_is(argc, argv, "reservationname") || pair_is(argc, argv, "reservation") || pair_is(argc, argv, "stepid") || pair_is(argc, argv, "slurmctlddebug")) {
        fprintf(stderr, "scontrol: error: not supported yet: update of reservations, steps and debug levels\n");
        return 1;
    }
    fprintf(stderr, "No valid entity in update command\nInput line must include \"NodeName\", \"PartitionName\", \"Reservation\", \"JobId\", or \"SlurmctldDebug\"\n");
    return 1;
}

static int run_create_delete(struct scontrol *s, int argc, char **argv, bool create)
{
    if (argc && word_eq(argv[0], "partition"))
        argc--, argv++;
    if (pair_is(argc, argv, "partitionname") || pair_is(argc, argv, "partition"))
        return change_partition(s, argc, argv, create, !create);
    fprintf(stderr, "scontrol: error: not supported yet: %s of anything but partitions\n", create ? "create" : "delete");
    return 1;
}
static int run_create(struct scontrol *s, int argc, char **argv) { return run_create_delete(s, argc, argv, true); }
static int run_delete(struct scontrol *s, int argc, char **argv) { return run_create_delete(s, argc, argv, false); }

const struct verb scontrol_changes[] = {
    { "update", 1, run_update }, { "create", 2, run_create }, { "delete", 3, run_delete }, { "hold", 3, run_hold }, { "holdu", 5, run_uhold }, { "uhold", 2, run_uhold },
    { "release", 3, run_release }, { "requeuehold", 8, run_requeuehold }, { "requeue", 3, run_requeue }, { "top", 3, run_top }, { "suspend", 2, run_suspend }, { "resume", 3, run_resume },
    { "reboot", 3, run_reboot }, { "cancel_reboot", 3, run_cancel_reboot },
};
const size_t scontrol_change_count = sizeof scontrol_changes / sizeof *scontrol_changes;
