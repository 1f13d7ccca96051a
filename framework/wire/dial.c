/* SPDX-License-Identifier: Apache-2.0 */
/* dial.c - the credential of sattach, sstat and sbcast; see dial.h. */
#include <sodium.h>
#include <string.h>

#include "wire/dial.h"
#include "wire/unpack.h"

static const char *const purposes[] = { [WIRE__DIAL_REQUEST__PURPOSE__SATTACH] = CREDENTIAL_PURPOSE_SATTACH, [WIRE__DIAL_REQUEST__PURPOSE__SSTAT] = CREDENTIAL_PURPOSE_SSTAT,
                                        [WIRE__DIAL_REQUEST__PURPOSE__SBCAST] = CREDENTIAL_PURPOSE_SBCAST };

const char *dial_purpose(Wire__DialRequest__Purpose p) { return (size_t)p < sizeof purposes / sizeof *purposes ? purposes[p] : NULL; }

bool dial_is_purpose(const char *word)
{
    for (size_t i = 0; i < sizeof purposes / sizeof *purposes; i++)
        if (!strcmp(word, purposes[i]))
            return true;
    return false;
}

int dial_seal(Wire__Credential *c, Wire__DialRequest__Purpose p, Wire__Dial *d, struct arena *a, struct spur_error *err)
{
    Wire__Launch none = WIRE__LAUNCH__INIT;
    size_t n;

    if (!dial_purpose(p))
        return spur_fail(err, SPUR_EINVAL, "no purpose %d of a credential is known", (int)p);
    c->purpose = arena_copy(a, dial_purpose(p));
    c->digest = (ProtobufCBinaryData){ 32, arena_alloc(a, 32) };
    launch_digest(&none, c->digest.data);
    d->has_credential = true;
    d->credential.data = wire_pack(&c->base, a, &n);
    d->credential.len = n;
    if (!d->credential.data || n > CREDENTIAL_MAX)
        return spur_fail(err, SPUR_ELIMIT, "credential of job %u: over %u bytes", c->job_id, CREDENTIAL_MAX);
    return 0;
}

int dial_open(const Wire__Dial *d, struct arena *a, Wire__Credential **out, struct spur_error *err)
{
    if (!d->has_credential || d->credential.len > CREDENTIAL_MAX)
        return spur_fail(err, SPUR_ELIMIT, "credential: %zu bytes, the limit is %u", d->credential.len, CREDENTIAL_MAX);
    *out = wire_unpack(&wire__credential__descriptor, d->credential.data, d->credential.len, a);
    if (!*out)
        return spur_fail(err, SPUR_EAUTH, "credential: not readable");
    if (!dial_is_purpose((*out)->purpose))
        return spur_fail(err, SPUR_EAUTH, "credential of job %u: made for another purpose (%.40s)", (*out)->job_id, (*out)->purpose);
    return 0;
}

int dial_check(const Wire__Credential *c, const char *cluster, const char *node, uint64_t fence_seen, int64_t now_wall_ms, struct spur_error *err)
{
    size_t i;

    if (strcmp(c->cluster, cluster))
        return spur_fail(err, SPUR_EAUTH, "credential of job %u: made for cluster %.64s, this is %.64s", c->job_id, c->cluster, cluster);
    if (c->fence < fence_seen)
        return spur_fail(err, SPUR_ESTALE, "credential of job %u: signed under fencing number %llu, a newer leader has shown %llu", c->job_id,
                         (unsigned long long)c->fence, (unsigned long long)fence_seen);
    if (now_wall_ms > c->expires_wall_ms)
        return spur_fail(err, SPUR_ESTALE, "credential of job %u: expired %lld s ago; if that surprises, compare the clocks of node and controller", c->job_id,
                         (long long)(now_wall_ms - c->expires_wall_ms) / 1000);
    for (i = 0; i < c->n_nodes && strcmp(c->nodes[i]->name, node); i++)
        ;
    if (i == c->n_nodes)
        return spur_fail(err, SPUR_EAUTH, "credential of job %u: node %.64s is not in it", c->job_id, node);
    if (!c->has_io_key || c->io_key.len != 32 || !c->io_host || !c->io_port || c->io_port > 65535)
        return spur_fail(err, SPUR_EAUTH, "credential of job %u: it names nobody to dial", c->job_id);
    return 0;
}
