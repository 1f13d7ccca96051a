/* SPDX-License-Identifier: Apache-2.0 */
/* hostcall.c - asks as a host, see hostcall.h. The plain way: no retry but the next controller, no hedge; whoever calls has time. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "client/dialog.h"
#include "client/hostcall.h"
#include "client/prove.h"
#include "wire/unpack.h"

#define DIAL_MS 3000
#define ANSWER_MS 15000
#define HOPS_MAX 24

int host_call(const struct config_hint *hint, const struct spur_host *host, uint16_t type, const ProtobufCMessage *request, uint16_t reply_type,
              const ProtobufCMessageDescriptor *reply_desc, struct arena *a, void **reply, struct spur_error *err)
{
    struct prover *p = NULL;
    struct dialog_auth auth;
    char next[160] = "";
    struct frame f;
    const uint8_t *body;
    bool is_over = false;
    int rc;

    if ((rc = prover_open(hint, host, &p, err)) < 0)
        return rc;
    auth = prover_auth(p);
    rc = spur_fail(err, SPUR_ENOTFOUND, "%s names no controller (SlurmctldHost)", hint->path);
    for (size_t i = 0, hops = 0; rc < 0 && !is_over && (i < hint->controller_count || *next) && hops < HOPS_MAX; hops++) {
        struct dialog d = DIALOG_INIT;
        Wire__Refusal *no;
        uint32_t port = hint->port;
        char to[160], *colon;

        if (*next)
            snprintf(to, sizeof to, "%s", next);
        else
            snprintf(to, sizeof to, "%.150s", *hint->controllers[i].addr ? hint->controllers[i].addr : hint->controllers[i].host);
        i += !*next;
        *next = '\0';
        if ((colon = strchr(to, ':')) && !strchr(colon + 1, ':') && number_u32(colon + 1, &port) && port && port < 65536)
            *colon = '\0';
        if ((rc = dialog_tcp(&d, to, (uint16_t)port, hint->cluster, &auth, DIAL_MS, err)) < 0)
            continue;
        dialog_timeout(&d, ANSWER_MS);
        if ((rc = dialog_send(&d, type, request, err)) == 0 && (rc = dialog_next(&d, &f, &body, err)) > 0) {
            if (f.type == reply_type && (*reply = wire_unpack(reply_desc, body, f.length, a))) {
                rc = 0;
            } else if (f.type == WIRE__MESSAGE_TYPE__REFUSED && (no = wire_unpack(&wire__refusal__descriptor, body, f.length, a))) {
                rc = spur_fail(err, no->code < 0 ? no->code : SPUR_EDENIED, "%s: %s", to, no->text);
                if (no->code == SPUR_ENOTLEADER && no->leader_addr)
                    snprintf(next, sizeof next, "%.150s", no->leader_addr);
                else if (no->code == SPUR_ENOTLEADER && i == hint->controller_count)
                    i = 0;                  /* nobody leads yet: once more around */
                else if (no->code != SPUR_ENOTLEADER)
                    is_over = true;
            } else {
                rc = spur_fail(err, SPUR_ECORRUPT, "%s: an answer that cannot be read", to);
            }
        }
        dialog_close(&d);
    }
    prover_close(p);
    return rc;
}
