/* SPDX-License-Identifier: Apache-2.0 */
/* ask.c - see ask.h */
#include <stdio.h>

#include "cmds/common/ask.h"

int ask_once(const char *command, uint16_t type, const ProtobufCMessage *q, uint16_t reply_type, const ProtobufCMessageDescriptor *d, struct arena *a, void **reply)
{
    struct spur_error err = { 0 };
    struct client *c = NULL;
    int number = 0, rc = client_open(NULL, &c, &err);

    if (rc == 0)
        rc = client_call(c, type, q, reply_type, d, a, reply, &number, &err);
    if (rc < 0)
        fprintf(stderr, "%s: %s\n", command, err.text);
    client_close(c);
    return rc;
}
