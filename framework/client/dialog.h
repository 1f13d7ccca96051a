/* SPDX-License-Identifier: Apache-2.0 */
/* dialog.h - one blocking connection of a command: to a local socket, or sealed over TCP. Used by client.c and files.c only. */
#ifndef CLIENT_DIALOG_H
#define CLIENT_DIALOG_H

#include <stdbool.h>
#include <spur/auth.h>

#include "wire/frame.h"

struct channel;
struct dialog {
    int      fd;                    /* -1: not connected */
    bool     is_local;
    bool     has_timeout;           /* timeout_ms was set on the socket */
    unsigned timeout_ms;            /* of each read; 0: none */
    struct channel *channel;
    uint64_t seq;                   /* of the last request */
    char    *buf;                   /* for reading */
    char     peer[300];
};

/* Makes the proof for a handshake: client/prove.c gives the usual one. */
struct dialog_auth {
    int (*prove)(void *arg, const struct spur_transcript *t, uint8_t *buf, size_t *len, struct spur_error *err);
    int (*check)(void *arg, const struct spur_transcript *t, const uint8_t *proof, size_t len, struct spur_identity *out, struct spur_error *err);
    void *arg;
};

#define DIALOG_INIT { .fd = -1 }
int  dialog_local(struct dialog *l, const char *path, unsigned timeout_ms, struct spur_error *err);
/* cluster NULL: whatever answers. Only a controller is taken. SPUR_EAUTH: there is somebody, but not one of us or we are not one of his. */
int  dialog_tcp(struct dialog *l, const char *host, uint16_t port, const char *cluster, const struct dialog_auth *auth, unsigned timeout_ms, struct spur_error *err);
void dialog_timeout(struct dialog *l, unsigned timeout_ms);     /* of each read; 0: none, and then a signal ends a read */
void dialog_close(struct dialog *l);
int  dialog_send(struct dialog *l, uint16_t type, const ProtobufCMessage *body, struct spur_error *err);     /* takes the next seq */
/* For several under way: gathers packed requests (l->seq is then this one's), written when more than `limit` bytes have, or by dialog_flush. */
int  dialog_post(struct dialog *l, uint16_t type, const void *body, size_t n, size_t limit, struct spur_error *err);
int  dialog_flush(struct dialog *l, struct spur_error *err);
/* The next message, whatever it answers: 1. Without `wait` only what has been read already: else 0. */
int  dialog_any(struct dialog *l, struct frame *f, const uint8_t **body, bool wait, struct spur_error *err);
/* The next message that answers the last request: 1, or SPUR_ECLOSED, SPUR_ETIMEOUT, SPUR_ELATER (a signal, without timeout only) ... */
int  dialog_next(struct dialog *l, struct frame *f, const uint8_t **body, struct spur_error *err);

#endif
