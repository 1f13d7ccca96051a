/* SPDX-License-Identifier: Apache-2.0 */
/* client.h - what commands and libspur_compat call: finds a controller, asks, follows the leader, retries what may be retried.
 *
 * Blocking, small, no libuv, no plugin unless the channel leaves this host. Order: a controller's local socket in run_dir, else TCP to the
 * controllers of slurm.conf in turn (identity vouched for by this host's daemon, or by MUNGE); in a group the last leader first when something
 * is to be changed. A mutating request carries a token made by client_token() once, so that a retry is never a second job. Not
 * thread safe: one client a thread.
 *
 * Reads: any controller answers whose state is at most two seconds old and holds the last change of this user (remember.h). When nobody leads, an older
 * one does, and client_said_age says so.
 */
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

#include <spur/plugin.h>

#include "base/arena.h"
#include "config/config.h"
#include "wire/frame.h"

struct client;
int  client_open(const char *conf_path, struct client **out, struct spur_error *err);      /* conf_path NULL: as config_hint_read; connects lazily */
void client_close(struct client *c);
const struct config_hint *client_hint(const struct client *c);
/* One request, one answer of type `reply_type`, unpacked into the arena. A Refusal becomes err (code, text); *slurm_errno is set when the controller named one.
 * Connection failures are retried on all controllers for MessageTimeout (default 10 s); the sentence then is Slurm's
 * "Unable to contact slurm controller (connect failure)". */
int  client_call(struct client *c, uint16_t type, const ProtobufCMessage *request, uint16_t reply_type, const ProtobufCMessageDescriptor *reply_desc,
                 struct arena *a, void **reply, int *slurm_errno, struct spur_error *err);
/* Streams: fn is called for each part until it returns 0 or the part says last (fn returns 1 to go on). */
int  client_stream(struct client *c, uint16_t type, const ProtobufCMessage *request, uint16_t part_type, const ProtobufCMessageDescriptor *part_desc,
                   int (*fn)(void *arg, void *part), void *arg, int *slurm_errno, struct spur_error *err);
/* The same for who needs all rows at once: the parts are unpacked into `keep` and stay there. */
int  client_stream_keep(struct client *c, uint16_t type, const ProtobufCMessage *request, uint16_t part_type, const ProtobufCMessageDescriptor *part_desc,
                        struct arena *keep, int (*fn)(void *arg, void *part), void *arg, int *slurm_errno, struct spur_error *err);
/* No deadline: for WAIT. The wait survives a lost connection by asking again; it gives up when the cluster is away for ten minutes. A signal whose handler
 * has no SA_RESTART ends it with SPUR_ELATER: the caller may look at what came and wait again. */
int  client_wait(struct client *c, const Wire__WaitRequest *request, struct arena *a, Wire__JobsReply **reply, int *slurm_errno, struct spur_error *err);
void client_token(uint8_t token[16], int64_t *wall_ms);
/* Reads from now on show everything that was acknowledged to anybody before they were asked (--fresh). */
void client_fresh(struct client *c);
/* How old the last read may be, and who gave it. 0: as new as asked for. */
uint32_t client_age_ms(const struct client *c, const char **from);
/* Prints one line to stderr when the last read was older than two seconds; true then. */
bool client_said_age(const struct client *c, const char *program);
/* Asks the controller of line i of SlurmctldHost, and nobody else: for what each says of itself. No retry. ETIMEOUT, ECLOSED: he is not there. */
int  client_call_one(struct client *c, size_t i, uint16_t type, const ProtobufCMessage *request, uint16_t reply_type, const ProtobufCMessageDescriptor *reply_desc,
                     struct arena *a, void **reply, struct spur_error *err);
/* The configuration from the controllers, for a host without one. servers: "host[:port],..."; auth_type NULL: auth/sodium; host NULL: a user's command, else the
 * daemon that asks (host_name, role). Blocks, some seconds a server at most. */
int  client_config_files(const char *servers, const char *auth_type, const struct spur_host *host, struct arena *a, Wire__ConfigFiles **out, struct spur_error *err);
/* The same for one that a controller has named. */
int  client_call_named(struct client *c, const char *name, const char *addr, uint16_t type, const ProtobufCMessage *request, uint16_t reply_type,
                       const ProtobufCMessageDescriptor *reply_desc, struct arena *a, void **reply, struct spur_error *err);
/* The last call failed without an answer after it had been sent: it may have been carried out, or may be yet. */
bool client_unsure(const struct client *c);
int  client_fd(const struct client *c);                     /* -1 when not connected */

#endif
