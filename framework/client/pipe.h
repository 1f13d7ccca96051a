/* SPDX-License-Identifier: Apache-2.0 */
/* pipe.h - many requests under way at once over one connection: thousands of submits a second from one program.
 *
 *     client_pipe_open(NULL, 64, answered, arg, &p, err)
 *     for each job: fill a SubmitRequest with a token of its own; client_pipe_send(p, SUBMIT, &request.base, SUBMITTED, descriptor, cookie, err)
 *     client_pipe_drain(p, err); client_pipe_close(p)
 *
 * Only for requests that carry a token: what has no answer yet is asked again over a new connection, from the new leader, when the old one fails. Each
 * request is answered exactly once, in any order, from within send or drain. Blocking; not thread safe.
 */
#ifndef CLIENT_PIPE_H
#define CLIENT_PIPE_H

#include <stddef.h>
#include <stdint.h>
#include <spur/error.h>

#include "wire/spur.pb-c.h"

struct client_pipe;
/* reply: of the descriptor given to send, borrowed until the call returns; NULL: refused, or given up, as err says. */
typedef void (*client_pipe_fn)(void *arg, void *cookie, const void *reply, int slurm_errno, const struct spur_error *err);
#define CLIENT_PIPE_WINDOW_MAX 4096
int  client_pipe_open(const char *conf_path, unsigned window, client_pipe_fn answered, void *arg, struct client_pipe **out, struct spur_error *err);
/* Takes a copy. Waits for an answer while `window` are under way. An error (no controller for MessageTimeout) is the end of the pipe: what is under way stays
 * unanswered until close. */
int  client_pipe_send(struct client_pipe *p, uint16_t type, const ProtobufCMessage *request, uint16_t reply_type, const ProtobufCMessageDescriptor *reply_desc,
                      void *cookie, struct spur_error *err);
int  client_pipe_drain(struct client_pipe *p, struct spur_error *err);         /* until everything is answered */
size_t client_pipe_flying(const struct client_pipe *p);
void client_pipe_close(struct client_pipe *p);          /* what is not answered is given up: answered(NULL, ECLOSED) for each */

#endif
