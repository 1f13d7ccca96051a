/* SPDX-License-Identifier: Apache-2.0 */
/* files.c - the configuration from the controllers, for a host that has none (configless: --conf-server, SLURM_CONF_SERVER).
 *
 * Such a host knows addresses and its key, not even the cluster's name: it takes the cluster that answers, and the key says whether that is its own.
 */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "client/client.h"
#include "client/dialog.h"
#include "client/prove.h"
#include "wire/unpack.h"

#define DEFAULT_PORT 6817
#define FILES_MS 5000

static int ask_one(const char *host, uint16_t port, const struct dialog_auth *auth, struct arena *a, Wire__ConfigFiles **out, struct spur_error *err)
{
    Wire__Empty q = WIRE__EMPTY__INIT;
    struct dialog l = DIALOG_INIT;
    struct frame f;
    const uint8_t *body;
    Wire__Refusal *no;
    int rc;

    if ((rc = dialog_tcp(&l, host, port, NULL, auth, FILES_MS, err)) == 0 && (rc = dialog_send(&l, WIRE__MESSAGE_TYPE__CONFIG_FILES, &q.base, err)) == 0 &&
        (rc = dialog_next(&l, &f, &body, err)) > 0) {
        if (f.type == WIRE__MESSAGE_TYPE__CONFIG_TEXTS && (*out = wire_unpack(&wire__config_files__descriptor, body, f.length, a)))
            rc = 0;
        else if (f.type == WIRE__MESSAGE_TYPE__REFUSED && (no = wire_unpack(&wire__refusal__descriptor, body, f.length, a)))
            rc = spur_fail(err, no->code < 0 ? no->code : SPUR_EDENIED, "%s: %s", l.peer, no->text);
        else
            rc = spur_fail(err, SPUR_ECORRUPT, "%s: an answer that cannot be read", l.peer);
    }
    dialog_close(&l);
    return rc;
}

int client_config_files(const char *servers, const char *auth_type, const struct spur_host *host, struct arena *a, Wire__ConfigFiles **out, struct spur_error *err)
{
    struct config_hint hint = { .run_dir = "/run/spur" };
    struct prover *p;
    struct dialog_auth auth;
    char *copy, *cursor, *word, *colon;
    uint32_t port;
    int rc;

    snprintf(hint.auth, sizeof hint.auth, "%s", auth_type ? auth_type : "auth/sodium");
    if ((rc = prover_open(&hint, host, &p, err)) < 0)
        return rc;
    auth = prover_auth(p);
    copy = cursor = mem_copy(servers);
    rc = spur_fail(err, SPUR_EINVAL, "no controller named to ask for the configuration");
    while (rc < 0 && (word = word_next(&cursor, ","))) {
        port = DEFAULT_PORT;
        word = word_trim(word);
        /* host, host:port, [v6]:port; a bare IPv6 address has more than one colon and no port. */
        if (*word == '[' && (colon = strchr(word, ']'))) {
            *colon++ = '\0';
            word++;
        } else {
            colon = strchr(word, ':');
            if (colon && strchr(colon + 1, ':'))
                colon = NULL;
        }
        if (colon && *colon == ':') {
            *colon = '\0';
            if (!number_u32(colon + 1, &port) || port == 0 || port > 65535) {
                rc = spur_fail(err, SPUR_EINVAL, "%s: '%s' is no port", word, colon + 1);
                break;
            }
        }
        rc = ask_one(word, (uint16_t)port, &auth, a, out, err);
    }
    free(copy);
    prover_close(p);
    return rc;
}
