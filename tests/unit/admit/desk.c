/* SPDX-License-Identifier: Apache-2.0 */
/* desk.c - see desk.h */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "desk.h"

void desk_init(struct desk *d, const char *conf)
{
    struct config_value *user;
    char text[8192];

    memset(d, 0, sizeof *d);
    snprintf(text, sizeof text, "SlurmUser=%u\n%s", SLURM, conf);
    rig_init(&d->r, text);
    user = &d->r.s->config->values[CONF_SlurmUser];
    ck_assert_str_eq(user->text, "64030");
    desk_as(d, ALICE);
}

void desk_fini(struct desk *d) { rig_fini(&d->r); }

void desk_as(struct desk *d, uint32_t uid)
{
    static const uint32_t groups[] = { 100, 200 };
    static const char *const names[] = { "users", "lab" };

    d->who = (struct spur_identity){ .size = sizeof d->who, .role = SPUR_ROLE_USER, .uid = uid, .gid = uid, .host = "login" };
    d->facts = (struct facts){ .user = uid == ALICE ? "alice" : uid == BOB ? "bob" : uid ? "slurm" : "root", .group = "people", .groups = groups, .group_count = 2,
                               .group_names = uid == ALICE ? names : NULL, .wall_ms = d->r.wall_ms };
}

void desk_node(struct desk *d, const char *host)
{
    d->who = (struct spur_identity){ .size = sizeof d->who, .role = SPUR_ROLE_NODE, .uid = UINT32_MAX, .gid = UINT32_MAX };
    snprintf(d->who.host, sizeof d->who.host, "%s", host);
}

int desk_errno(struct desk *d, int rc)
{
    if (rc == 0)
        return 0;
    ck_assert_msg(d->err.text[0] != '\0', "a refusal without words");
    ck_assert_int_ne(d->out.slurm_errno, 0);
    return -d->out.slurm_errno;
}

int desk_apply(struct desk *d)
{
    for (size_t i = 0; i < d->out.op_count; i++) {
        int rc = rig_apply(&d->r, d->out.ops[i], NULL);

        if (rc)
            return rc;
    }
    return 0;
}

int desk_submit(struct desk *d, const char *wish)
{
    static uint32_t number;
    Wire__SubmitRequest r = WIRE__SUBMIT_REQUEST__INIT;
    Wire__JobSpec *spec = arena_alloc(&d->r.arena, sizeof *spec);
    Wire__Blob script = WIRE__BLOB__INIT, *blobs[1] = { &script };
    char *at = arena_copy(&d->r.arena, wish), *word;
    uint8_t *token = arena_alloc(&d->r.arena, 16), *hash = arena_alloc(&d->r.arena, 32);
    uint32_t id = 0;
    int rc;

    rig_spec(&d->r, spec, wish);
    spec->work_dir = arena_copy(&d->r.arena, "/home");
    spec->has_script_hash = true;
    spec->script_hash = (ProtobufCBinaryData){ 32, hash };
    script.hash = spec->script_hash;
    script.data = (ProtobufCBinaryData){ 10, (uint8_t *)arena_copy(&d->r.arena, "#!/bin/sh\n") };
    while ((word = word_next(&at, " "))) {
        char *value = strchr(word, '=');

        if (value)
            *value++ = '\0';
        if (strcmp(word, "account") == 0) spec->account = value;
        if (strcmp(word, "qos") == 0) spec->qos = value;
        if (strcmp(word, "lic") == 0) spec->licenses = value;
        if (strcmp(word, "resv") == 0) spec->reservation = value;
        if (strcmp(word, "comment") == 0) spec->comment = value;
        if (strcmp(word, "gpus") == 0) spec->tres_per_job = value;
        if (strcmp(word, "pertask") == 0) spec->tres_per_task = value;
        if (strcmp(word, "persocket") == 0) spec->tres_per_socket = value;
        if (strcmp(word, "memgpu") == 0) spec->has_mem_per_gpu_mib = number_u64(value, &spec->mem_per_gpu_mib);
        if (strcmp(word, "cpugpu") == 0) spec->has_cpus_per_gpu = number_u32(value, &spec->cpus_per_gpu);
        if (strcmp(word, "taskgpu") == 0) spec->has_ntasks_per_gpu = number_u32(value, &spec->ntasks_per_gpu);
        if (strcmp(word, "sockets") == 0) spec->has_sockets_per_node = number_u32(value, &spec->sockets_per_node);
        if (strcmp(word, "nopart") == 0) spec->partition = NULL;
        if (strcmp(word, "noscript") == 0) spec->has_script_hash = false;
        if (strcmp(word, "cwd") == 0) spec->work_dir = value;
        if (strcmp(word, "exclusive") == 0) spec->exclusive = value;
        if (strcmp(word, "timemin") == 0) spec->has_time_min_min = true, spec->time_min_min = 1;
        if (strcmp(word, "mail") == 0) spec->mail_type = value;
        if (strcmp(word, "tresfreq") == 0) spec->tres_freq = value;
        if (strcmp(word, "corespec") == 0) spec->has_core_spec = true, spec->core_spec = 1;
        if (strcmp(word, "bothmem") == 0) spec->has_mem_per_node_mib = spec->has_mem_per_cpu_mib = true, spec->mem_per_cpu_mib = 10;
        if (strcmp(word, "minus") == 0) spec->has_nice = true, spec->nice = -5;
        if (strcmp(word, "past") == 0) spec->has_deadline_wall_s = true, spec->deadline_wall_s = d->r.wall_ms / 1000 - 1;
        if (strcmp(word, "long") == 0) {
            spec->comment = arena_alloc(&d->r.arena, 10000);
            memset(spec->comment, 'x', 9999);
        }
        if (strcmp(word, "bigscript") == 0)
            script.data = (ProtobufCBinaryData){ 5u << 20, arena_alloc(&d->r.arena, 5u << 20) };
    }
    hash[0] = 1;
    number++;
    memcpy(token, &number, sizeof number);
    r.spec = spec;
    r.token = (ProtobufCBinaryData){ 16, token };
    r.token_wall_ms = d->r.wall_ms;
    r.blobs = blobs;
    r.n_blobs = 1;
    d->out = (struct admitted){ 0 };
    d->err = (struct spur_error){ 0 };
    d->facts.wall_ms = d->r.wall_ms;
    rc = admit_submit(d->r.s, &r, &d->who, &d->facts, &d->r.arena, &d->out, &d->err);
    if (rc < 0)
        return desk_errno(d, rc);
    ck_assert_uint_eq(d->out.op_count, 1);
    ck_assert_uint_eq(d->out.ops[0]->submit->uid, d->who.uid);
    ck_assert_int_eq(rig_apply(&d->r, d->out.ops[0], &id), 0);
    return (int)id;
}
