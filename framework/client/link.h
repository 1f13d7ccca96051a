/* SPDX-License-Identifier: Apache-2.0 */
/* link.h - a channel on a file descriptor for programs that poll() themselves: srun and the supervisors. */
#ifndef CLIENT_LINK_H
#define CLIENT_LINK_H

#include <stdbool.h>
#include <stdint.h>
#include <spur/error.h>

#include "rpc/channel.h"

struct link {
    int             fd;         /* non-blocking; -1: closed */
    struct channel *channel;
    size_t          written;    /* of channel_output, gone already */
};
void link_open(struct link *l, int fd, struct channel *take_channel);      /* makes fd non-blocking and close-on-exec */
void link_close(struct link *l);
/* Reads what is there, at most `max` bytes. 0; SPUR_ECLOSED at the end of the stream; SPUR_EIO, SPUR_EAUTH... */
int  link_read(struct link *l, size_t max, struct spur_error *err);
int  link_flush(struct link *l, struct spur_error *err);    /* writes what the kernel takes */
size_t link_backlog(const struct link *l);                  /* bytes that wait to be written */
int  link_send(struct link *l, uint16_t type, uint64_t seq, const ProtobufCMessage *body, struct spur_error *err);      /* queues; link_flush writes */
/* Next message: 1, 0 none yet, negative: broken. As channel_next. */
int  link_next(struct link *l, struct frame *f, const uint8_t **body, struct spur_error *err);

#endif
