/* SPDX-License-Identifier: Apache-2.0 */
/* impostor.c - root of one compute host, with that host's own key, says what only another may: impostor HOST VERB NAME [NUMBER].
 *
 *     register NAME     the host is node NAME
 *     report NAME JOB   node NAME reports that job JOB has ended
 *     submit, script JOB, hosts    what is a user's
 *
 * SLURM_CONF names the configuration with the key folder. Prints the controller's refusal, or "taken". What an agent would never send by itself.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/hostcall.h"

static const char *own_name(void *ctx) { return ctx; }
static const char *own_role(void *ctx) { (void)ctx; return "agent"; }
static const char *no_folder(void *ctx) { (void)ctx; return ""; }

int main(int argc, char **argv)
{
    struct spur_host host = { .size = sizeof host, .ctx = argc > 1 ? argv[1] : NULL, .host_name = own_name, .role = own_role, .state_dir = no_folder };
    Wire__RegisterRequest reg = WIRE__REGISTER_REQUEST__INIT;
    Wire__NodeInventory inventory = WIRE__NODE_INVENTORY__INIT, *row = &inventory;
    Wire__Report report = WIRE__REPORT__INIT;
    Wire__SubmitRequest submit = WIRE__SUBMIT_REQUEST__INIT;
    Wire__JobSpec spec = WIRE__JOB_SPEC__INIT;
    Wire__ScriptRequest script = WIRE__SCRIPT_REQUEST__INIT;
    Wire__Empty empty = WIRE__EMPTY__INIT;
    struct config_hint hint;
    struct spur_error err = { 0 };
    const ProtobufCMessage *q;
    struct arena a;
    uint16_t type, reply_type;
    uint8_t token[16] = { 9 };
    const ProtobufCMessageDescriptor *d = &wire__empty__descriptor;
    void *reply;

    if (argc < 3)
        return 2;
    arena_init(&a, 0);
    if (config_hint_read(NULL, &hint, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 2;
    }
    if (!strcmp(argv[2], "register")) {
        inventory.name = argv[3];
        inventory.has_cpus = 1;
        inventory.cpus = 1000;
        reg.nodes = &row;
        reg.n_nodes = 1;
        q = &reg.base;
        type = WIRE__MESSAGE_TYPE__REGISTER;
        reply_type = WIRE__MESSAGE_TYPE__REGISTERED;
        d = &wire__register_reply__descriptor;
    } else if (!strcmp(argv[2], "report") && argc > 4) {
        report.node = argv[3];
        report.kind = WIRE__REPORT__KIND__GONE;
        report.job_id = (uint32_t)atoi(argv[4]);
        report.attempt = 1;
        report.seq = 1;
        q = &report.base;
        type = WIRE__MESSAGE_TYPE__REPORT;
        reply_type = WIRE__MESSAGE_TYPE__REPORT_OK;
        d = &wire__report_ack__descriptor;
    } else if (!strcmp(argv[2], "submit")) {
        submit.spec = &spec;
        submit.token.data = token;
        submit.token.len = sizeof token;
        q = &submit.base;
        type = WIRE__MESSAGE_TYPE__SUBMIT;
        reply_type = WIRE__MESSAGE_TYPE__SUBMITTED;
        d = &wire__submit_reply__descriptor;
    } else if (!strcmp(argv[2], "script") && argc > 3) {
        script.job_id = (uint32_t)atoi(argv[3]);
        q = &script.base;
        type = WIRE__MESSAGE_TYPE__SCRIPT;
        reply_type = WIRE__MESSAGE_TYPE__SCRIPT_TEXT;
        d = &wire__blob__descriptor;
    } else {            /* hosts: the list of keys; an administrator's */
        q = &empty.base;
        type = WIRE__MESSAGE_TYPE__HOSTS;
        reply_type = WIRE__MESSAGE_TYPE__HOSTS_LIST;
        d = &wire__hosts_reply__descriptor;
    }
    puts(host_call(&hint, &host, type, q, reply_type, d, &a, &reply, &err) < 0 ? err.text : "taken");
    arena_fini(&a);
    return 0;
}
