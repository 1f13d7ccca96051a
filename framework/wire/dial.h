/* SPDX-License-Identifier: Apache-2.0 */
/* dial.h - the credential with which a command has the nodes of a job dial it: sattach, sstat, sbcast, each with a purpose of its own.
 *
 * It is a Credential like that of a launch, over the same rules (framework/wire/credential.h), with another purpose in it and in front of the signed
 * bytes, without devices, and with the digest of an empty launch: it starts nothing.
 */
#ifndef WIRE_DIAL_H
#define WIRE_DIAL_H

#include <stdbool.h>
#include "wire/credential.h"

const char *dial_purpose(Wire__DialRequest__Purpose p);     /* the word for it */
bool dial_is_purpose(const char *word);
/* Fills purpose and digest, packs: d->credential points into the arena, the caller signs it. */
int  dial_seal(Wire__Credential *c, Wire__DialRequest__Purpose p, Wire__Dial *d, struct arena *a, struct spur_error *err);
/* Reads it, before anything is believed: for the purpose that the signature has to be checked with. */
int  dial_open(const Wire__Dial *d, struct arena *a, Wire__Credential **out, struct spur_error *err);
/* What an agent checks after the signature. */
int  dial_check(const Wire__Credential *c, const char *cluster, const char *node, uint64_t fence_seen, int64_t now_wall_ms, struct spur_error *err);

#endif
