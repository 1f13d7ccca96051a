/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_admit.c - any bytes as requests of anybody: table, decoder, admit, and apply of what was admitted, on a small state.
 *
 * The input is a row of pieces: who (a byte), which message (a byte), the length (u16, little-endian), the message's body. What is refused has words and no
 * operations; what is admitted can be applied; and whoever has no rank has changed nothing of a job that is another's.
 */
#include <stdlib.h>
#include <string.h>

#include "admit/admit.h"
#include "base/str.h"
#include "fuzz.h"
#include "state/apply.h"
#include "wire/unpack.h"

#define ALICE 1000u
#define THEIRS 2u           /* job 2 is of user 1001, and runs on n1 */

static const struct spur_identity people[] = {
    { .size = sizeof people[0], .role = SPUR_ROLE_USER, .uid = ALICE, .gid = ALICE, .host = "login" }, { .size = sizeof people[0], .role = SPUR_ROLE_NODE, .uid = UINT32_MAX, .gid = UINT32_MAX, .host = "n2" },
    { .size = sizeof people[0], .role = SPUR_ROLE_USER, .uid = 0, .host = "ctl" }, { .size = sizeof people[0], .role = SPUR_ROLE_NODE, .uid = UINT32_MAX, .gid = UINT32_MAX, .host = "n1" },
    { .size = sizeof people[0], .role = SPUR_ROLE_LOGIN, .uid = UINT32_MAX, .gid = UINT32_MAX, .host = "login" }, { .size = sizeof people[0], .role = SPUR_ROLE_NONE, .uid = UINT32_MAX, .gid = UINT32_MAX },
    { .size = sizeof people[0], .role = SPUR_ROLE_TOKEN, .uid = UINT32_MAX, .gid = UINT32_MAX, .host = "n9" }, { .size = sizeof people[0], .role = SPUR_ROLE_CONTROLLER, .uid = UINT32_MAX, .gid = UINT32_MAX, .host = "ctl" },
};

static const struct { unsigned type; const ProtobufCMessageDescriptor *d; } messages[] = {
    { WIRE__MESSAGE_TYPE__SUBMIT, &wire__submit_request__descriptor }, { WIRE__MESSAGE_TYPE__CANCEL, &wire__cancel_request__descriptor },
    { WIRE__MESSAGE_TYPE__JOB_UPDATE, &wire__job_update_request__descriptor }, { WIRE__MESSAGE_TYPE__NODE_UPDATE, &wire__node_update_request__descriptor },
    { WIRE__MESSAGE_TYPE__PARTITION_UPDATE, &wire__partition_update_request__descriptor }, { WIRE__MESSAGE_TYPE__STEP_CREATE, &wire__step_request__descriptor },
    { WIRE__MESSAGE_TYPE__DIAL, &wire__dial_request__descriptor }, { WIRE__MESSAGE_TYPE__REGISTER, &wire__register_request__descriptor },
    { WIRE__MESSAGE_TYPE__REPORT, &wire__report__descriptor }, { WIRE__MESSAGE_TYPE__NODE_REBOOT, &wire__node_reboot_request__descriptor },
    { WIRE__MESSAGE_TYPE__JOBS, &wire__jobs_request__descriptor },
};

static int ask(struct state *s, unsigned type, const void *m, const struct spur_identity *who, struct arena *a, struct admitted *out, struct spur_error *err)
{
    static const uint32_t groups[] = { 100 };
    const struct facts f = { .user = who->uid == ALICE ? "alice" : who->uid ? NULL : "root", .group = "people", .groups = groups, .group_count = 1, .wall_ms = s->wall_ms };
    const struct job *j;
    const struct step *st;
    Wire__DoneReply *done;
    Wire__RegisterReply *reg;

    switch (type) {
    case WIRE__MESSAGE_TYPE__SUBMIT: return admit_submit(s, m, who, &f, a, out, err);
    case WIRE__MESSAGE_TYPE__CANCEL:
        done = arena_alloc(a, sizeof *done);
        wire__done_reply__init(done);
        return admit_cancel(s, m, who, &f, a, out, done, err);
    case WIRE__MESSAGE_TYPE__JOB_UPDATE: return admit_job_update(s, m, who, &f, a, out, err);
    case WIRE__MESSAGE_TYPE__NODE_UPDATE: return admit_node_update(s, m, who, &f, a, out, err);
    case WIRE__MESSAGE_TYPE__PARTITION_UPDATE: return admit_partition_update(s, m, who, &f, a, out, err);
    case WIRE__MESSAGE_TYPE__STEP_CREATE: return admit_step(s, m, who, &f, a, out, err);
    case WIRE__MESSAGE_TYPE__DIAL: return admit_dial(s, m, who, out, &j, &st, err);
    case WIRE__MESSAGE_TYPE__REGISTER:
        reg = arena_alloc(a, sizeof *reg);
        wire__register_reply__init(reg);
        return admit_register(s, m, who, a, out, reg, err);
    case WIRE__MESSAGE_TYPE__REPORT: return admit_report(s, m, who, a, out, err);
    case WIRE__MESSAGE_TYPE__NODE_REBOOT: return admit_node_reboot(s, m, who, &f, a, out, err);
    default:
        for (size_t at = 0; (j = table_next(&s->jobs, &at)); )
            admit_matches(s, j, m);
        return 0;
    }
}

static void take(struct state *s, struct admitted *adm)
{
    Wire__Entry e = WIRE__ENTRY__INIT;
    struct spur_error err;
    struct applied done;
    struct arena a;
    uint8_t *bytes;
    size_t n;

    e.cluster_ms = s->cluster_ms + 1;
    e.wall_ms = s->wall_ms + 1;
    e.ops = adm->ops;
    e.n_ops = adm->op_count;
    arena_init(&a, 0);
    if ((bytes = wire_pack(&e.base, &a, &n)))
        FUZZ_HOLDS(apply_bytes(s, s->index + 1, bytes, n, &a, &done, &err) == 0);
    arena_fini(&a);
}

int fuzz_one(const uint8_t *data, size_t n)
{
    struct state *s = state_from_text("node n1 cpus 4 gpus 2; node n2 cpus 4; job 1 pending uid 1000; job 2 running n1 cores 0 gpus 0 uid 1001; job 3 pending array 0-3 uid 1000;"
                                      "job 4 pending dependency afterok:1 uid 1001; job 5 running n2 cores 0 uid 1000");

    for (size_t at = 0; at + 4 <= n; ) {
        const struct spur_identity *who = &people[data[at] % 8];
        size_t row = data[at + 1] % (sizeof messages / sizeof *messages), len = (size_t)data[at + 2] | (size_t)data[at + 3] << 8;
        const struct job *theirs = state_job(s, THEIRS);
        uint32_t limit = theirs ? theirs->time_limit_min : 0, attempt = theirs ? theirs->attempt : 0;
        int state = theirs ? (int)theirs->state : -1, nice = theirs ? theirs->nice : 0;
        struct admitted adm = { 0 };
        struct spur_error err = { 0 };
        struct arena a;
        void *m;
        int rc;

        at += 4;
        len = len < n - at ? len : n - at;
        arena_init(&a, 0);
        if (admit_message(messages[row].type, who, admit_rank(s, who), &err) == 0 && (m = wire_unpack_bounded(messages[row].d, data + at, len, &a))) {
            err.text[0] = '\0';
            rc = ask(s, messages[row].type, m, who, &a, &adm, &err);
            if (rc < 0)
                FUZZ_HOLDS(err.text[0] && adm.op_count == 0);
            else if (adm.op_count)
                take(s, &adm);
        }
        arena_fini(&a);
        if (theirs && who->uid == ALICE) {
            theirs = state_job(s, THEIRS);
            FUZZ_HOLDS(theirs && theirs->uid == 1001 && theirs->time_limit_min == limit && (int)theirs->state == state && theirs->nice == nice && theirs->attempt == attempt);
        }
        at += len;
    }
    state_destroy(s);
    return 0;
}
