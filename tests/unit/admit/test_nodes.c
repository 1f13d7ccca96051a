/* SPDX-License-Identifier: Apache-2.0 */
/* test_nodes.c - a node speaks for itself alone; steps; who may change nodes and partitions. */
#include <check.h>
#include <string.h>

#include "desk.h"

static const char conf[] = "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nNodeName=n[1-2] CPUs=4 NodeHostname=h[1-2]\nNodeName=n3 CPUs=4\nPartitionName=p Nodes=ALL Default=YES\n";

static int reg(struct desk *d, const char *node, Wire__RegisterReply *reply)
{
    Wire__RegisterRequest r = WIRE__REGISTER_REQUEST__INIT;
    Wire__NodeInventory *n = arena_alloc(&d->r.arena, sizeof *n), **rows = arena_alloc(&d->r.arena, 2 * sizeof *rows);

    wire__register_reply__init(reply);
    wire__node_inventory__init(n);
    n->name = arena_copy(&d->r.arena, node);
    rows[0] = n;
    r.nodes = rows;
    r.n_nodes = 1;
    d->out = (struct admitted){ 0 };
    return desk_errno(d, admit_register(d->r.s, &r, &d->who, &d->r.arena, &d->out, reply, &d->err));
}

static const struct { int role; const char *host, *node; int slurm_errno; } rows[] = {
    { SPUR_ROLE_NODE, "n1", "n1", 0 }, { SPUR_ROLE_NODE, "h1", "n1", 0 }, { SPUR_ROLE_NODE, "h1.cluster", "n1", 0 }, { SPUR_ROLE_NODE, "n1", "n2", 2002 }, { SPUR_ROLE_NODE, "h2", "n1", 2002 },
    { SPUR_ROLE_NODE, "n1", "n9", 2002 }, { SPUR_ROLE_NODE, "login", "n1", 2002 }, { SPUR_ROLE_CONTROLLER, "ctl", "n1", 0 }, { SPUR_ROLE_USER, "n1", "n1", 2002 }, { SPUR_ROLE_LOGIN, "n1", "n1", 2002 },
    { SPUR_ROLE_NONE, "n1", "n1", 2002 }, { SPUR_ROLE_NODE, "n11", "n1", 2002 }, { SPUR_ROLE_NODE, "n", "n1", 2002 },
};

START_TEST(registration)
{
    Wire__RegisterReply reply;
    struct desk d;

    desk_init(&d, conf);
    desk_node(&d, rows[_i].host);
    d.who.role = rows[_i].role;
    ck_assert_int_eq(reg(&d, rows[_i].node, &reply), -rows[_i].slurm_errno);
    desk_fini(&d);
}
END_TEST

static int report(struct desk *d, const char *node, uint32_t job, uint32_t attempt)
{
    Wire__Report *r = arena_alloc(&d->r.arena, sizeof *r);

    wire__report__init(r);
    r->node = arena_copy(&d->r.arena, node);
    r->kind = WIRE__REPORT__KIND__ENDED;
    r->job_id = job;
    r->attempt = attempt;
    d->out = (struct admitted){ 0 };
    return desk_errno(d, admit_report(d->r.s, r, &d->who, &d->r.arena, &d->out, &d->err));
}

START_TEST(reports)
{
    struct desk d;
    uint32_t attempt;

    desk_init(&d, conf);
    ck_assert_int_eq(desk_submit(&d, "tasks=1 w=n1"), 1);
    rig_pass(&d.r);
    attempt = state_job(d.r.s, 1)->attempt;
    desk_node(&d, "h1");
    ck_assert_int_eq(report(&d, "n1", 1, attempt), 0);
    ck_assert_ptr_null(d.out.suspect);
    ck_assert_int_eq(report(&d, "n2", 1, attempt), -2002);      /* for another */
    ck_assert_str_eq(d.out.suspect, "reported for node n2");
    desk_node(&d, "h2");
    ck_assert_int_eq(report(&d, "n2", 1, attempt), -2002);      /* on a job it was never given */
    ck_assert_str_eq(d.out.suspect, "reported on job 1, which it was never given");
    state_job(d.r.s, 1)->no_kill = true;                        /* it may have had a part once */
    ck_assert_int_eq(report(&d, "n2", 1, attempt), -2002);
    ck_assert_ptr_null(d.out.suspect);
    state_job(d.r.s, 1)->no_kill = false;
    ck_assert_int_eq(report(&d, "n2", 1, attempt + 1), 0);      /* late or unknown: taken, so that it leaves the spool; apply changes nothing */
    ck_assert_ptr_null(d.out.suspect);
    ck_assert_int_eq(report(&d, "n2", 77, 1), 0);
    desk_as(&d, 0);
    ck_assert_int_eq(report(&d, "n1", 1, attempt), -2002);
    desk_fini(&d);
}
END_TEST

/* What a host says of its own node and cannot be: said of it, and whether its node is drained for it. */
START_TEST(lies_of_a_node)
{
    static const struct { unsigned gpus; uint8_t key; const char *end, *suspect; } lies[] = {
        { 0, 0, NULL, NULL }, { 64, 1, ":51871", NULL }, { 8, 2, "192.0.2.1:1", NULL }, { 8, 2, "[2001:db8::1]:65535", NULL }, { 8, 2, "n1.example:7", NULL },
        { 65, 0, NULL, "claims 65 GPUs, and a node has at most 64" }, { 1000, 0, NULL, "claims 1000 GPUs, and a node has at most 64" },
        { 0, 9, NULL, "brings the mesh key of node n2" }, { 0, 1, "0.0.0.0/0", "says that its mesh ends at 0.0.0.0/0, which is no address and port" },
        { 0, 1, "192.0.2.1", "says that its mesh ends at 192.0.2.1, which is no address and port" }, { 0, 1, "a b:1", "says that its mesh ends at a b:1, which is no address and port" },
        { 0, 1, "a:0", "says that its mesh ends at a:0, which is no address and port" }, { 0, 1, "a:65536", "says that its mesh ends at a:65536, which is no address and port" },
        { 0, 1, "a\nallowed_ip=0.0.0.0/0:1", "says that its mesh ends at a\nallowed_ip=0.0.0.0/0:1, which is no address and port" },
    };
    Wire__RegisterRequest r = WIRE__REGISTER_REQUEST__INIT;
    Wire__NodeInventory n = WIRE__NODE_INVENTORY__INIT, other = WIRE__NODE_INVENTORY__INIT, *both[] = { &n, &other };
    Wire__GresAlloc gpus = WIRE__GRES_ALLOC__INIT, *gres = &gpus;
    Wire__RegisterReply reply;
    uint8_t key[32];
    struct desk d;
    int rc;

    desk_init(&d, conf);
    desk_node(&d, "h1");
    memset(state_node(d.r.s, "n2")->mesh_key, 9, 32);
    state_node(d.r.s, "n2")->mesh_number = 1;
    memset(key, lies[_i].key, sizeof key);
    n.name = (char *)(uintptr_t)"n1";
    other.name = (char *)(uintptr_t)"n2";
    n.has_mesh_key = lies[_i].key != 0;
    n.mesh_key = (ProtobufCBinaryData){ n.has_mesh_key ? 32 : 0, key };
    n.mesh_endpoint = (char *)(uintptr_t)lies[_i].end;
    gpus.name = (char *)(uintptr_t)"gpu";
    gpus.has_count = 1;
    gpus.count = lies[_i].gpus;
    n.gres = &gres;
    n.n_gres = lies[_i].gpus != 0;
    r.nodes = both;
    r.n_nodes = 1;
    wire__register_reply__init(&reply);
    rc = admit_register(d.r.s, &r, &d.who, &d.r.arena, &d.out, &reply, &d.err);
    ck_assert_int_eq(rc < 0, lies[_i].suspect != NULL);
    if (lies[_i].suspect)
        ck_assert_str_eq(d.out.suspect, lies[_i].suspect);
    else
        ck_assert_ptr_null(d.out.suspect);
    r.n_nodes = 2;          /* and another's name behind its own: only its own is admitted */
    d.out = (struct admitted){ 0 };
    wire__register_reply__init(&reply);
    rc = admit_register(d.r.s, &r, &d.who, &d.r.arena, &d.out, &reply, &d.err);
    ck_assert_uint_eq(d.out.op_count, lies[_i].suspect ? 0 : 1);
    ck_assert_str_eq(d.out.suspect, "wanted to register as node n2");
    if (rc == 0)
        ck_assert_str_eq(d.out.ops[0]->register_node->inventory->name, "n1");
    desk_fini(&d);
}
END_TEST
#define LIES 14

START_TEST(a_compute_host_speaks_for_those_with_a_job_on_it)
{
    struct desk d;

    desk_init(&d, conf);
    ck_assert_int_eq(desk_submit(&d, "tasks=1 w=n1"), 1);
    desk_as(&d, ALICE);
    d.who.host_role = SPUR_ROLE_NODE;
    strcpy(d.who.host, "h1");
    ck_assert_int_eq(admit_vouched(d.r.s, &d.who, &d.err), SPUR_EDENIED);       /* not yet */
    rig_pass(&d.r);
    ck_assert_int_eq(admit_vouched(d.r.s, &d.who, &d.err), 0);
    strcpy(d.who.host, "h2");
    ck_assert_int_eq(admit_vouched(d.r.s, &d.who, &d.err), SPUR_EDENIED);       /* nor elsewhere */
    strcpy(d.who.host, "h1");
    d.who.uid = BOB;
    ck_assert_int_eq(admit_vouched(d.r.s, &d.who, &d.err), SPUR_EDENIED);       /* nor for others */
    d.who.uid = SLURM;
    ck_assert_int_eq(admit_vouched(d.r.s, &d.who, &d.err), SPUR_EDENIED);       /* nor for the administrator */
    d.who.host_role = SPUR_ROLE_LOGIN;
    ck_assert_int_eq(admit_vouched(d.r.s, &d.who, &d.err), 0);
    d.who.host_role = SPUR_ROLE_NODE;
    d.who.is_local = true;
    ck_assert_int_eq(admit_vouched(d.r.s, &d.who, &d.err), 0);
    desk_as(&d, ALICE);
    d.who.host_role = SPUR_ROLE_NODE;
    strcpy(d.who.host, "h1");
    rig_end(&d.r, 1, 0);
    ck_assert_int_eq(admit_vouched(d.r.s, &d.who, &d.err), SPUR_EDENIED);       /* no more */
    desk_fini(&d);
}
END_TEST

static int step(struct desk *d, uint32_t job)
{
    Wire__StepRequest r = WIRE__STEP_REQUEST__INIT;
    Wire__StepSpec spec = WIRE__STEP_SPEC__INIT;
    char *argv[] = { (char *)(uintptr_t)"hostname" };

    spec.argv = argv;
    spec.n_argv = 1;
    r.job_id = job;
    r.spec = &spec;
    d->out = (struct admitted){ 0 };
    return desk_errno(d, admit_step(d->r.s, &r, &d->who, &d->facts, &d->r.arena, &d->out, &d->err));
}

START_TEST(steps)
{
    struct desk d;

    desk_init(&d, conf);
    ck_assert_int_eq(desk_submit(&d, "tasks=1"), 1);
    ck_assert_int_eq(step(&d, 1), -2024);
    rig_pass(&d.r);
    ck_assert_int_eq(step(&d, 1), 0);
    ck_assert_int_eq(step(&d, 2), -2017);
    desk_as(&d, BOB);
    ck_assert_int_eq(step(&d, 1), -2002);
    desk_as(&d, ALICE);
    rig_end(&d.r, 1, 0);
    ck_assert_int_eq(step(&d, 1), -2021);
    desk_fini(&d);
}
END_TEST

static int dial(struct desk *d, Wire__DialRequest__Purpose purpose, uint32_t job, bool has_step, uint32_t step_id, size_t key)
{
    Wire__DialRequest r = WIRE__DIAL_REQUEST__INIT;
    const struct job *j;
    const struct step *st;
    uint8_t bytes[32] = { 0 };

    r.purpose = purpose;
    r.job_id = job;
    r.has_step_id = has_step;
    r.step_id = step_id;
    r.io_host = (char *)(uintptr_t)"127.0.0.1";
    r.io_port = 4000;
    r.io_key.data = bytes;
    r.io_key.len = key;
    d->out = (struct admitted){ 0 };
    return desk_errno(d, admit_dial(d->r.s, &r, &d->who, &d->out, &j, &st, &d->err));
}

/* sattach, sstat and sbcast: the owner and administrators. */
START_TEST(dials)
{
    const Wire__DialRequest__Purpose attach = WIRE__DIAL_REQUEST__PURPOSE__SATTACH, stat = WIRE__DIAL_REQUEST__PURPOSE__SSTAT, bcast = WIRE__DIAL_REQUEST__PURPOSE__SBCAST;
    struct desk d;

    desk_init(&d, conf);
    ck_assert_int_eq(desk_submit(&d, "tasks=1"), 1);
    ck_assert_int_eq(dial(&d, bcast, 1, false, 0, 32), -2024);
    rig_pass(&d.r);
    ck_assert_int_eq(dial(&d, bcast, 1, false, 0, 32), 0);
    ck_assert_int_eq(dial(&d, bcast, 1, false, 0, 31), -1000);
    ck_assert_int_eq(dial(&d, attach, 1, false, 0, 32), -1000);
    ck_assert_int_eq(dial(&d, stat, 1, true, STEP_BATCH, 32), 0);
    ck_assert_int_eq(dial(&d, attach, 1, true, 0, 32), -2017);
    ck_assert_int_eq(dial(&d, stat, 2, true, STEP_BATCH, 32), -2017);
    desk_as(&d, BOB);
    ck_assert_int_eq(dial(&d, stat, 1, true, STEP_BATCH, 32), -2002);
    ck_assert_int_eq(dial(&d, attach, 1, true, STEP_BATCH, 32), -2002);
    ck_assert_int_eq(dial(&d, bcast, 1, false, 0, 32), -2002);
    desk_as(&d, SLURM);
    ck_assert_int_eq(dial(&d, stat, 1, true, STEP_BATCH, 32), 0);
    desk_as(&d, ALICE);
    rig_end(&d.r, 1, 0);
    ck_assert_int_eq(dial(&d, bcast, 1, false, 0, 32), -2021);
    desk_fini(&d);
}
END_TEST

static int node_update(struct desk *d, const char *nodes, const char *state, const char *reason)
{
    Wire__NodeUpdateRequest r = WIRE__NODE_UPDATE_REQUEST__INIT;
    Wire__KeyValue kv[2] = { WIRE__KEY_VALUE__INIT, WIRE__KEY_VALUE__INIT }, *set[2] = { &kv[0], &kv[1] };

    kv[0].key = (char *)(uintptr_t)"State";
    kv[0].value = (char *)(uintptr_t)state;
    kv[1].key = (char *)(uintptr_t)"Reason";
    kv[1].value = (char *)(uintptr_t)reason;
    r.nodes = (char *)(uintptr_t)nodes;
    r.set = set;
    r.n_set = reason ? 2 : 1;
    d->out = (struct admitted){ 0 };
    return desk_errno(d, admit_node_update(d->r.s, &r, &d->who, &d->facts, &d->r.arena, &d->out, &d->err));
}

START_TEST(administration)
{
    Wire__PartitionUpdateRequest p = WIRE__PARTITION_UPDATE_REQUEST__INIT;
    struct desk d;

    desk_init(&d, conf);
    ck_assert_int_eq(node_update(&d, "n1", "DRAIN", "fan"), -2002);
    desk_as(&d, SLURM);
    ck_assert_int_eq(node_update(&d, "n1", "DRAIN", NULL), -1000);
    ck_assert_int_eq(node_update(&d, "n[1-3]", "DRAIN", "fan"), 0);
    ck_assert_uint_eq(d.out.op_count, 3);
    ck_assert_int_eq(node_update(&d, "ALL", "RESUME", NULL), 0);
    ck_assert_uint_eq(d.out.op_count, 3);
    ck_assert_int_eq(node_update(&d, "n[1-9]", "DRAIN", "fan"), -2018);
    ck_assert_uint_eq(d.out.op_count, 0);
    ck_assert_int_eq(node_update(&d, "", "RESUME", NULL), -2018);
    p.name = (char *)(uintptr_t)"p";
    d.out = (struct admitted){ 0 };
    ck_assert_int_eq(admit_partition_update(d.r.s, &p, &d.who, &d.facts, &d.r.arena, &d.out, &d.err), 0);
    p.name = (char *)(uintptr_t)"new";
    ck_assert_int_lt(admit_partition_update(d.r.s, &p, &d.who, &d.facts, &d.r.arena, &d.out, &d.err), 0);
    desk_as(&d, ALICE);
    p.name = (char *)(uintptr_t)"p";
    ck_assert_int_lt(admit_partition_update(d.r.s, &p, &d.who, &d.facts, &d.r.arena, &d.out, &d.err), 0);
    desk_fini(&d);
}
END_TEST

Suite *nodes_suite(void);
Suite *nodes_suite(void)
{
    Suite *s = suite_create("admit/nodes");
    TCase *t = tcase_create("nodes");

    tcase_add_loop_test(t, registration, 0, sizeof rows / sizeof rows[0]);
    tcase_add_test(t, reports);
    tcase_add_loop_test(t, lies_of_a_node, 0, LIES);
    tcase_add_test(t, a_compute_host_speaks_for_those_with_a_job_on_it);
    tcase_add_test(t, steps);
    tcase_add_test(t, dials);
    tcase_add_test(t, administration);
    suite_add_tcase(s, t);
    return s;
}
