/* SPDX-License-Identifier: Apache-2.0 */
/* impostor.c - root of one compute host, with that host's own key, says what only another may: impostor HOST VERB NAME [NUMBER].
 *
 *     register NAME [also=NAME] [gpus=N] [mesh=HEX] [end=TEXT]    the host is node NAME
 *     report NAME JOB, started NAME JOB     node NAME reports that job JOB has ended, that it runs
 *     load NAME                             the load of node NAME
 *     watch NAME                            registers as NAME and prints the type of each message that comes, until the connection ends or ten seconds are over
 *     raft PORT                             into the group of controllers
 *     submit, step JOB, dial JOB, script JOB, cancel JOB, update JOB, drain NAME, hosts, token NAME, user-token, member NAME, blob, join NAME, mesh-rotate, launch JOB,
 *     reconfigure, shutdown                 what is a user's, an administrator's, a controller's
 *
 * SLURM_CONF names the configuration with the key folder. Prints the controller's refusal, or "taken". What an agent would never send by itself.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sodium.h>

#include "client/dialog.h"
#include "client/hostcall.h"
#include "client/prove.h"
#include "wire/unpack.h"

static const char *own_name(void *ctx) { return ctx; }
static const char *own_role(void *ctx) { (void)ctx; return "agent"; }
static const char *no_folder(void *ctx) { (void)ctx; return ""; }

/* Messages of one kind each, filled by main. */
static Wire__RegisterRequest reg = WIRE__REGISTER_REQUEST__INIT;
static Wire__NodeInventory inventory = WIRE__NODE_INVENTORY__INIT, second = WIRE__NODE_INVENTORY__INIT, *rows[2] = { &inventory, &second };
static Wire__GresAlloc gpus = WIRE__GRES_ALLOC__INIT, *gres[1] = { &gpus };
static Wire__Report report = WIRE__REPORT__INIT;
static Wire__NodeLoad load = WIRE__NODE_LOAD__INIT, *loads[1] = { &load };
static Wire__Heartbeat beat = WIRE__HEARTBEAT__INIT;
static Wire__JobSpec job_spec = WIRE__JOB_SPEC__INIT;
static Wire__SubmitRequest submit = WIRE__SUBMIT_REQUEST__INIT;
static Wire__StepSpec step_spec = WIRE__STEP_SPEC__INIT;
static Wire__StepRequest step = WIRE__STEP_REQUEST__INIT;
static Wire__DialRequest dial = WIRE__DIAL_REQUEST__INIT;
static Wire__ScriptRequest script = WIRE__SCRIPT_REQUEST__INIT;
static Wire__CancelRequest cancel = WIRE__CANCEL_REQUEST__INIT;
static Wire__JobUpdateRequest update = WIRE__JOB_UPDATE_REQUEST__INIT;
static Wire__KeyValue comment = WIRE__KEY_VALUE__INIT, *set[1] = { &comment };
static Wire__NodeUpdateRequest node_update = WIRE__NODE_UPDATE_REQUEST__INIT;
static Wire__HostChangeRequest host_change = WIRE__HOST_CHANGE_REQUEST__INIT;
static Wire__UserTokenRequest user_token = WIRE__USER_TOKEN_REQUEST__INIT;
static Wire__MemberChangeRequest member = WIRE__MEMBER_CHANGE_REQUEST__INIT;
static Wire__BlobRequest blob = WIRE__BLOB_REQUEST__INIT;
static Wire__JoinRequest join = WIRE__JOIN_REQUEST__INIT;
static Wire__MeshRotateRequest rotate = WIRE__MESH_ROTATE_REQUEST__INIT;
static Wire__Launch launch = WIRE__LAUNCH__INIT;
static Wire__Empty empty = WIRE__EMPTY__INIT;

#define D(name) &wire__##name##__descriptor
static const struct verb { const char *name; const ProtobufCMessage *q; uint16_t type, reply; const ProtobufCMessageDescriptor *d; } verbs[] = {
    { "register", &reg.base, WIRE__MESSAGE_TYPE__REGISTER, WIRE__MESSAGE_TYPE__REGISTERED, D(register_reply) },
    { "report", &report.base, WIRE__MESSAGE_TYPE__REPORT, WIRE__MESSAGE_TYPE__REPORT_OK, D(report_ack) },
    { "started", &report.base, WIRE__MESSAGE_TYPE__REPORT, WIRE__MESSAGE_TYPE__REPORT_OK, D(report_ack) },
    { "load", &beat.base, WIRE__MESSAGE_TYPE__HEARTBEAT, WIRE__MESSAGE_TYPE__HEARTBEAT_OK, D(empty) },
    { "submit", &submit.base, WIRE__MESSAGE_TYPE__SUBMIT, WIRE__MESSAGE_TYPE__SUBMITTED, D(submit_reply) },
    { "step", &step.base, WIRE__MESSAGE_TYPE__STEP_CREATE, WIRE__MESSAGE_TYPE__STEP_CREATED, D(step_reply) },
    { "dial", &dial.base, WIRE__MESSAGE_TYPE__DIAL, WIRE__MESSAGE_TYPE__DIALLED, D(dial_reply) },
    { "script", &script.base, WIRE__MESSAGE_TYPE__SCRIPT, WIRE__MESSAGE_TYPE__SCRIPT_TEXT, D(blob) },
    { "cancel", &cancel.base, WIRE__MESSAGE_TYPE__CANCEL, WIRE__MESSAGE_TYPE__DONE, D(done_reply) },
    { "update", &update.base, WIRE__MESSAGE_TYPE__JOB_UPDATE, WIRE__MESSAGE_TYPE__DONE, D(done_reply) },
    { "drain", &node_update.base, WIRE__MESSAGE_TYPE__NODE_UPDATE, WIRE__MESSAGE_TYPE__DONE, D(done_reply) },
    { "hosts", &empty.base, WIRE__MESSAGE_TYPE__HOSTS, WIRE__MESSAGE_TYPE__HOSTS_LIST, D(hosts_reply) },
    { "token", &host_change.base, WIRE__MESSAGE_TYPE__HOST_CHANGE, WIRE__MESSAGE_TYPE__DONE, D(done_reply) },
    { "user-token", &user_token.base, WIRE__MESSAGE_TYPE__USER_TOKEN, WIRE__MESSAGE_TYPE__DONE, D(done_reply) },
    { "member", &member.base, WIRE__MESSAGE_TYPE__MEMBER_CHANGE, WIRE__MESSAGE_TYPE__DONE, D(done_reply) },
    { "blob", &blob.base, WIRE__MESSAGE_TYPE__BLOB, WIRE__MESSAGE_TYPE__SCRIPT_TEXT, D(blob) },
    { "join", &join.base, WIRE__MESSAGE_TYPE__JOIN, WIRE__MESSAGE_TYPE__JOINED, D(join_reply) },
    { "mesh-rotate", &rotate.base, WIRE__MESSAGE_TYPE__MESH_ROTATE, WIRE__MESSAGE_TYPE__DONE, D(done_reply) },
    { "launch", &launch.base, WIRE__MESSAGE_TYPE__LAUNCH, WIRE__MESSAGE_TYPE__DONE, D(done_reply) },
    { "reconfigure", &empty.base, WIRE__MESSAGE_TYPE__RECONFIGURE, WIRE__MESSAGE_TYPE__DONE, D(done_reply) },
    { "shutdown", &empty.base, WIRE__MESSAGE_TYPE__SHUTDOWN, WIRE__MESSAGE_TYPE__DONE, D(done_reply) },
};

static void fill(int argc, char **argv)
{
    static uint8_t token[16] = { 9 }, key[32] = { 7 };
    char *name = argc > 3 ? argv[3] : argv[1];
    const char *text = argc > 4 ? argv[4] : argc > 3 ? argv[3] : "0";
    uint32_t job = (uint32_t)strtoul(text, NULL, 10);

    inventory.name = load.name = report.node = node_update.nodes = host_change.name = member.name = join.name = name;
    inventory.has_cpus = 1;
    inventory.cpus = 1000;
    reg.nodes = rows;
    reg.n_nodes = 1;
    for (int i = 4; i < argc; i++) {
        char *value = strchr(argv[i], '=');

        value = value ? value + 1 : argv[i];
        if (!strncmp(argv[i], "also=", 5)) {
            second.name = value;
            reg.n_nodes = 2;
        } else if (!strncmp(argv[i], "gpus=", 5)) {
            gpus.name = (char *)(uintptr_t)"gpu";
            gpus.has_count = 1;
            gpus.count = strtoull(value, NULL, 10);
            inventory.gres = gres;
            inventory.n_gres = 1;
        } else if (!strncmp(argv[i], "mesh=", 5)) {
            static uint8_t mesh[32];

            inventory.has_mesh_key = sodium_hex2bin(mesh, sizeof mesh, value, strlen(value), NULL, &inventory.mesh_key.len, NULL) == 0;
            inventory.mesh_key.data = mesh;
        } else if (!strncmp(argv[i], "end=", 4)) {
            inventory.mesh_endpoint = value;
        }
    }
    report.kind = strcmp(argv[2], "started") ? WIRE__REPORT__KIND__GONE : WIRE__REPORT__KIND__STARTED;
    report.job_id = script.job_id = step.job_id = dial.job_id = job;
    report.attempt = 1;
    report.seq = 1;
    load.has_load_hundredths = 1;
    load.load_hundredths = 4711;
    beat.loads = loads;
    beat.n_loads = 1;
    submit.spec = &job_spec;
    submit.token = step.token = (ProtobufCBinaryData){ sizeof token, token };
    step.spec = &step_spec;
    dial.io_host = (char *)(uintptr_t)"127.0.0.1";
    dial.io_port = 9;
    dial.io_key = join.public_key = blob.hash = (ProtobufCBinaryData){ sizeof key, key };
    join.role = (char *)(uintptr_t)"controller";
    cancel.ids = &argv[argc > 3 ? 3 : 1];
    cancel.n_ids = 1;
    update.ids = name;
    comment.key = (char *)(uintptr_t)(strcmp(argv[2], "drain") ? "Comment" : "State");
    comment.value = (char *)(uintptr_t)"DRAIN";
    update.set = node_update.set = set;
    update.n_set = node_update.n_set = 1;
    member.addr = (char *)(uintptr_t)"127.0.0.1:1";
}

/* A connection of its own, first controller. */
static int connect_to(const struct config_hint *hint, const struct spur_host *host, uint16_t port, const char *purpose, struct prover **p, struct dialog *d, struct spur_error *err)
{
    char cluster[300], *colon, to[160];
    struct dialog_auth auth;
    int rc;

    if ((rc = prover_open(hint, host, p, err)) < 0)
        return rc;
    auth = prover_auth(*p);
    snprintf(cluster, sizeof cluster, "%s%s", hint->cluster, purpose);
    snprintf(to, sizeof to, "%.150s", *hint->controllers[0].addr ? hint->controllers[0].addr : hint->controllers[0].host);
    if ((colon = strchr(to, ':')))
        *colon = '\0';
    return dialog_tcp(d, to, port ? port : (uint16_t)hint->port, cluster, &auth, 5000, err);
}

static int raft(const struct config_hint *hint, const struct spur_host *host, uint16_t port)
{
    struct dialog d = DIALOG_INIT;
    struct prover *p = NULL;
    struct spur_error err = { 0 };
    const uint8_t *body;
    struct frame f;
    int rc = connect_to(hint, host, port, " (store/raft)", &p, &d, &err);

    if (rc == 0) {
        dialog_timeout(&d, 10000);
        rc = dialog_send(&d, 1, &empty.base, &err);
        if (rc == 0)
            rc = dialog_any(&d, &f, &body, true, &err);
    }
    printf("%s\n", rc < 0 ? err.text : "taken");
    dialog_close(&d);
    prover_close(p);
    return 0;
}

static int watch(const struct config_hint *hint, const struct spur_host *host)
{
    struct dialog d = DIALOG_INIT;
    struct prover *p = NULL;
    struct spur_error err = { 0 };
    const uint8_t *body;
    struct frame f;
    int rc = connect_to(hint, host, 0, "", &p, &d, &err);

    if (rc == 0)
        rc = dialog_send(&d, WIRE__MESSAGE_TYPE__REGISTER, &reg.base, &err);
    dialog_timeout(&d, 10000);
    while (rc >= 0 && (rc = dialog_any(&d, &f, &body, true, &err)) > 0) {
        const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value(&wire__message_type__descriptor, f.type);

        printf("%s\n", v ? v->name : "?");
        fflush(stdout);
    }
    printf("%s\n", err.text);
    dialog_close(&d);
    prover_close(p);
    return 0;
}

int main(int argc, char **argv)
{
    struct spur_host host = { .size = sizeof host, .ctx = argc > 1 ? argv[1] : NULL, .host_name = own_name, .role = own_role, .state_dir = no_folder };
    struct config_hint hint;
    struct spur_error err = { 0 };
    struct arena a;
    void *reply;

    if (argc < 3 || sodium_init() < 0)
        return 2;
    arena_init(&a, 0);
    if (config_hint_read(NULL, &hint, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 2;
    }
    fill(argc, argv);
    if (!strcmp(argv[2], "raft"))
        return raft(&hint, &host, (uint16_t)(argc > 3 ? atoi(argv[3]) : 0));
    if (!strcmp(argv[2], "watch"))
        return watch(&hint, &host);
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (!strcmp(argv[2], verbs[i].name)) {
            const struct verb *v = &verbs[i];

            puts(host_call(&hint, &host, v->type, v->q, v->reply, v->d, &a, &reply, &err) < 0 ? err.text : "taken");
            arena_fini(&a);
            return 0;
        }
    fprintf(stderr, "no verb %s\n", argv[2]);
    return 2;
}
