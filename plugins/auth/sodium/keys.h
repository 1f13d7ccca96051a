/* SPDX-License-Identifier: Apache-2.0 */
/* keys.h - the key folder of a host: its own secret key, and the public keys of those it believes.
 *
 *     host.key   NAME ROLE SEED      64 hex digits; mode 0600. One line, or several where one machine plays several hosts
 *     hosts      NAME ROLE PUBLIC    one line a key; a host in rotation has two. ROLE: controller, login, compute
 *
 *     hosts.joined  the same, of hosts that joined with a token: written by the daemons, as the cluster's state says; may be absent
 *
 * Further roles stand for what is not a host: `token` is who brings a one-time token and is about to join; `revoked` and `retired` keys are believed no
 * more, whichever file still has them (a revoked one ends its connections too); `ID untoken SECOND` is a user's token that was ended early.
 *
 * '#' begins a comment. `spur cluster init` writes both.
 */
#ifndef SODIUM_KEYS_H
#define SODIUM_KEYS_H

#include <stdbool.h>
#include <sys/stat.h>
#include <spur/auth.h>

enum key_role { KEY_REVOKED = 101, KEY_RETIRED, KEY_UNTOKEN };      /* beside enum spur_role */

struct key_host { char *name; uint8_t role, public_key[32]; };     /* role: enum spur_role or enum key_role */
struct key_own  { char name[64]; uint8_t role, public_key[32]; uint8_t *secret; };      /* secret: 64 bytes, locked and guarded */
struct key_file { char path[512]; struct stat seen; bool is_read; };

struct key_ring {
    struct key_file own_file, hosts_file, joined_file;
    struct key_own  *own; size_t own_count;
    struct key_host *hosts; size_t host_count;      /* sorted by name */
};

void key_ring_init(struct key_ring *r, const char *dir);
void key_ring_fini(struct key_ring *r);
/* Each reads its file when it has changed since. 0 also when a change cannot be used but an older reading can: then err has the reason, code 0 otherwise. */
int  key_own_refresh(struct key_ring *r, struct spur_error *err);
int  key_hosts_refresh(struct key_ring *r, struct spur_error *err);
/* The key of this name that fits the role best; name "" takes the first. NULL: none. */
const struct key_own *key_own_find(const struct key_ring *r, const char *name, int role);
/* First host of the name, and the number of its lines. */
const struct key_host *key_host_find(const struct key_ring *r, const char *name, size_t *n);
/* KEY_REVOKED or KEY_RETIRED when this key of the host is believed no more; 0. */
int key_barred(const struct key_ring *r, const char *name, const uint8_t public_key[32]);
const char *key_role_text(int role);
/* Replaces hosts.joined, whole or not at all. */
int  key_joined_write(struct key_ring *r, const char *lines, struct spur_error *err);

#endif
