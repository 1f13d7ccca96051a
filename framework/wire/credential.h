/* SPDX-License-Identifier: Apache-2.0 */
/* credential.h - what a launch credential covers, byte for byte. Signing and verifying is the auth plugin's (spur/auth.h).
 *
 * The signed bytes are the packed Credential exactly as Launch.credential carries them; nothing is packed again to check a
 * signature. Credential.digest ties argv, environment and script of the Launch to it:
 *   BLAKE2b-256 of  "spur-launch-digest-1\0"  count(argv)  { length bytes }...  length env  length script
 * with every count and length as 8 bytes, little end first. argv is the step's, or for a batch step the script's arguments.
 */
#ifndef WIRE_CREDENTIAL_H
#define WIRE_CREDENTIAL_H

#include <stdint.h>
#include <spur/error.h>

#include "base/arena.h"
#include "wire/spur.pb-c.h"

/* What a signature is good for. The purpose is hashed in front of the signed bytes by the auth plugin (sign, verify), so a signature of one kind is never
 * one of another; it also stands in the message itself where that has a field for it. New kinds take a new word, never an old one with a new meaning. */
#define CREDENTIAL_PURPOSE         "spur-launch-1"      /* starts a step on a node */
#define CREDENTIAL_PURPOSE_STEP    "spur-step-1"        /* lets its holder steer one step: signals, its own further steps */
#define CREDENTIAL_PURPOSE_IO      "spur-io-1"          /* reads and writes the streams of one step */
#define CREDENTIAL_PURPOSE_SBCAST  "spur-sbcast-1"      /* writes a file on the nodes of one job */
#define CREDENTIAL_PURPOSE_SATTACH "spur-sattach-1"     /* joins the streams of a step that runs already */
#define CREDENTIAL_PURPOSE_SSTAT   "spur-sstat-1"       /* reads the figures of a step */
#define CREDENTIAL_PURPOSE_USER    "spur-user-1"        /* a user's own token for programs (scontrol token) */
#define CREDENTIAL_MAX (1u << 20)       /* packed bytes; more is refused */

void launch_digest(const Wire__Launch *l, uint8_t out[32]);
/* Fills purpose and digest for this launch and packs: l->credential points into the arena. The caller signs l->credential afterwards. */
int  credential_seal(Wire__Credential *c, Wire__Launch *l, struct arena *a, struct spur_error *err);
/* What an agent checks after the signature: purpose, cluster, expiry, fencing number, that `node` is in it, digest. EAUTH or ESTALE with
 * the sentence, else 0 and the decoded credential in the arena. */
int  credential_open(const Wire__Launch *l, const char *cluster, const char *node, uint64_t fence_seen, int64_t now_wall_ms,
                     struct arena *a, Wire__Credential **out, struct spur_error *err);

#endif
