/* SPDX-License-Identifier: Apache-2.0 */
/* ask.c - one question of a client program to the cluster, and what a refusal is called in errno.
 *
 * The sentence of a refusal is lost here, since Slurm's interface has a number only; the number is the one that the controller
 * gave, else the nearest to our code. The single thing kept between calls is the name of slurm.conf given to slurm_init().
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compat.h"

static pthread_mutex_t conf_lock = PTHREAD_MUTEX_INITIALIZER;
static char conf_name[PATH_MAX];        /* under conf_lock; "": the usual place */

int refuse(int number)
{
    errno = number;
    return SLURM_ERROR;
}

int number_of(int code)
{
    switch (code) {
    case SPUR_ENOMEM:    return ENOMEM;
    case SPUR_EDENIED:   return ESLURM_ACCESS_DENIED;
    case SPUR_EAUTH:     return SLURM_PROTOCOL_AUTHENTICATION_ERROR;
    case SPUR_ECLOSED:   return SLURMCTLD_COMMUNICATIONS_CONNECTION_ERROR;
    case SPUR_ETIMEOUT:  return SLURM_PROTOCOL_SOCKET_IMPL_TIMEOUT;
    case SPUR_ECORRUPT:  return SLURM_UNEXPECTED_MSG_ERROR;
    case SPUR_ENOTLEADER: return ESLURM_IN_STANDBY_MODE;
    case SPUR_EUNSUPPORTED: return ESLURM_NOT_SUPPORTED;
    case SPUR_ENOTFOUND: return ESLURM_INVALID_JOB_ID;
    case SPUR_ESTALE:    return ESLURM_ALREADY_DONE;
    case SPUR_ENEVER:    return ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE;
    case SPUR_ELATER:    return ESLURM_NODES_BUSY;
    case SPUR_EBUSY:     return EAGAIN;
    case SPUR_ENOSPACE:  return ESLURM_WRITING_TO_FILE;
    case SPUR_EINVAL: case SPUR_ESYNTAX: return EINVAL;
    default:             return ESLURM_INTERNAL;
    }
}

static int conf_set(const char *name)
{
    char full[PATH_MAX] = "";

    if (name && !realpath(name, full))
        return SLURM_ERROR;
    pthread_mutex_lock(&conf_lock);
    memcpy(conf_name, full, sizeof full);
    pthread_mutex_unlock(&conf_lock);
    return SLURM_SUCCESS;
}

void slurm_init(const char *conf)
{
    conf_set(conf);
}

void slurm_fini(void)
{
    conf_set(NULL);
}

int slurm_conf_init(const char *file_name)
{
    struct ask k;

    if (conf_set(file_name) < 0 || ask_open(&k) < 0)
        return SLURM_ERROR;
    ask_close(&k);
    return SLURM_SUCCESS;
}

long slurm_api_version(void)
{
    return SLURM_VERSION_NUM(38, 0, 0);
}

int ask_open(struct ask *k)
{
    char path[PATH_MAX];
    struct spur_error err = { 0 };

    pthread_mutex_lock(&conf_lock);
    memcpy(path, conf_name, sizeof path);
    pthread_mutex_unlock(&conf_lock);
    if (client_open(*path ? path : NULL, &k->client, &err) < 0)
        return refuse(err.code == SPUR_ENOTFOUND || err.code == SPUR_EIO ? ENOENT : EINVAL);
    arena_init(&k->arena, 0);
    return 0;
}

void ask_close(struct ask *k)
{
    int saved = errno;

    client_close(k->client);
    arena_fini(&k->arena);
    errno = saved;
}

/* What kept an answer from coming. A controller's own "not found" always has a number: without one it is the way to the controller that is not there. */
static int unanswered(int number, const struct spur_error *err)
{
    return refuse(number ? number : err->code == SPUR_ENOTFOUND ? SLURMCTLD_COMMUNICATIONS_CONNECTION_ERROR : number_of(err->code));
}

int ask_call(struct ask *k, uint16_t type, const ProtobufCMessage *request, uint16_t reply_type, const ProtobufCMessageDescriptor *d, void **reply)
{
    struct spur_error err = { 0 };
    int number = 0;

    if (client_call(k->client, type, request, reply_type, d, &k->arena, reply, &number, &err) < 0)
        return unanswered(number, &err);
    return 0;
}

int ask_stream(struct ask *k, uint16_t type, const ProtobufCMessage *request, uint16_t part_type, const ProtobufCMessageDescriptor *d,
               int (*fn)(void *arg, void *part), void *arg)
{
    struct spur_error err = { 0 };
    int number = 0;

    if (client_stream(k->client, type, request, part_type, d, fn, arg, &number, &err) < 0)
        return unanswered(number, &err);
    return 0;
}

void ask_token(struct ask *k, ProtobufCBinaryData *token, int64_t *wall_ms)
{
    token->data = arena_alloc(&k->arena, 16);
    token->len = 16;
    client_token(token->data, wall_ms);
}

int slurm_ping(int controller)
{
    Wire__Empty r = WIRE__EMPTY__INIT;
    const struct config_hint *hint;
    const Wire__Pong *pong;
    struct ask k;
    void *reply;
    int rc;

    if (ask_open(&k) < 0)
        return SLURM_ERROR;
    hint = client_hint(k.client);
    if (controller < 0 || (size_t)controller >= (hint->controller_count ? hint->controller_count : 1)) {
        rc = refuse(EINVAL);
    } else if ((rc = ask_call(&k, WIRE__MESSAGE_TYPE__PING, &r.base, WIRE__MESSAGE_TYPE__PONG, &wire__pong__descriptor, &reply)) == 0) {
        pong = reply;
        /* Whoever leads is the primary; of the others only the one that answers is known to be there. */
        if (controller && !(pong->host && !strcmp(pong->host, hint->controllers[controller].host)))
            rc = refuse(SLURMCTLD_COMMUNICATIONS_CONNECTION_ERROR);
    }
    ask_close(&k);
    return rc;
}

int slurm_reconfigure(void)
{
    Wire__Empty r = WIRE__EMPTY__INIT;
    struct ask k;
    void *reply;
    int rc;

    if (ask_open(&k) < 0)
        return SLURM_ERROR;
    rc = ask_call(&k, WIRE__MESSAGE_TYPE__RECONFIGURE, &r.base, WIRE__MESSAGE_TYPE__DONE, &wire__done_reply__descriptor, &reply);
    ask_close(&k);
    return rc;
}

void slurm_xfree(void **p)
{
    if (!p)
        return;
    free(*p);
    *p = NULL;
}

void slurm_xfree_ptr(void *p)
{
    free(p);
}
