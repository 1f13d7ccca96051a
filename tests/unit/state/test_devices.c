/* SPDX-License-Identifier: Apache-2.0 */
/* test_devices.c - the device tables: once for equal nodes, in snapshot, digest and view; and what a node may not send. */
#include "test_state.h"

/* A table of `n` devices: pairs 0-1, 2-3, ... joined with `links` links. */
struct sent { Wire__DeviceTable m; uint32_t mbps[64 * 64], links[64 * 64], card[64]; int32_t numa[64], socket[64], pcie_switch[64]; char *near[64]; Wire__DeviceNic nic, *nics; };

static struct sent *sent_make(uint32_t n, uint32_t links)
{
    struct sent *t = calloc(1, sizeof *t);

    wire__device_table__init(&t->m);
    t->m.has_count = 1;
    t->m.count = n;
    t->m.mbps = t->mbps;
    t->m.links = t->links;
    t->m.n_mbps = t->m.n_links = n * n;
    for (uint32_t i = 0; i + 1 < n; i += 2) {
        t->links[i * n + i + 1] = t->links[(i + 1) * n + i] = links;
        t->mbps[i * n + i + 1] = t->mbps[(i + 1) * n + i] = links * 50000;
    }
    for (uint32_t i = 0; i < n; i++) {
        t->numa[i] = (int32_t)(i % 2);
        t->pcie_switch[i] = -1;
        t->near[i] = (char *)(i % 2 ? "64-65" : "0-3");
        t->card[i] = i;
    }
    t->m.numa = t->numa;
    t->m.socket = t->socket;
    t->m.pcie_switch = t->pcie_switch;
    t->m.card = t->card;
    t->m.near_cores = t->near;
    t->m.n_numa = t->m.n_socket = t->m.n_pcie_switch = t->m.n_card = t->m.n_near_cores = n;
    wire__device_nic__init(&t->nic);
    t->nic.name = (char *)"hsn0";
    t->nic.has_mbps = 1;
    t->nic.mbps = 200000;
    t->nics = &t->nic;
    t->m.nics = &t->nics;
    t->m.n_nics = 1;
    return t;
}

static int sent_by(struct stage *g, const char *node, Wire__DeviceTable *table, const char *fabric)
{
    Wire__NodeInventory inventory = WIRE__NODE_INVENTORY__INIT;
    Wire__OpRegister o = WIRE__OP_REGISTER__INIT;
    Wire__Op op = WIRE__OP__INIT;

    inventory.name = (char *)node;
    inventory.boot_id = (char *)"b";
    inventory.devices = table;
    inventory.fabric = (char *)fabric;
    o.inventory = &inventory;
    op.register_node = &o;
    return stage_op(g, &op);
}

static const struct spur_node_view *seen(struct stage *g, const char *node)
{
    return spur_view_node(state_view(g->s), state_node(g->s, node)->index);
}

START_TEST(equal_tables_are_one)
{
    struct stage g;
    struct sent *four = sent_make(4, 4), *other = sent_make(4, 2);
    const struct spur_device_table *t;
    uint32_t first;

    stage_open(&g, "node n1 cpus 8; node n2 cpus 8; node n3 cpus 8");
    ck_assert_ptr_null(seen(&g, "n1")->devices);
    ck_assert_uint_eq(seen(&g, "n1")->class_id, seen(&g, "n2")->class_id);
    ck_assert_int_eq(sent_by(&g, "n1", &four->m, "clique-7"), 0);
    ck_assert_uint_ne(seen(&g, "n1")->class_id, seen(&g, "n2")->class_id);
    ck_assert_int_eq(sent_by(&g, "n2", &four->m, "clique-7"), 0);
    ck_assert_int_eq(sent_by(&g, "n3", &other->m, NULL), 0);
    t = seen(&g, "n1")->devices;
    ck_assert_ptr_eq(t, seen(&g, "n2")->devices);
    ck_assert_ptr_ne(t, seen(&g, "n3")->devices);
    ck_assert_uint_ne(t->id, seen(&g, "n3")->devices->id);
    ck_assert_uint_eq(devices_count(g.s), 2);
    ck_assert_uint_eq(seen(&g, "n1")->class_id, seen(&g, "n2")->class_id);
    ck_assert_uint_ne(seen(&g, "n1")->class_id, seen(&g, "n3")->class_id);
    ck_assert_str_eq(seen(&g, "n1")->fabric, "clique-7");
    ck_assert_str_eq(seen(&g, "n3")->fabric, "");
    ck_assert_uint_eq(t->count, 4);
    ck_assert_uint_eq(t->mbps[1], 200000);
    ck_assert_uint_eq(t->mbps[4], 200000);
    ck_assert_uint_eq(t->mbps[2], 0);
    ck_assert_uint_eq(t->links[2 * 4 + 3], 4);
    ck_assert_int_eq(t->numa[1], 1);
    ck_assert_int_eq(t->pcie_switch[0], -1);
    ck_assert_uint_eq(t->core_words, 2);
    ck_assert_uint_eq(t->near_cores[0], 15);
    ck_assert_uint_eq(t->near_cores[3], 3);
    ck_assert_str_eq(t->nics[0].name, "hsn0");
    ck_assert_uint_eq(t->nics[0].mbps, 200000);
    ck_assert_int_eq(t->nics[0].numa, -1);
    first = t->id;
    ck_assert_int_eq(sent_by(&g, "n1", &other->m, NULL), 0);       /* the last of the others goes, its id never comes back */
    ck_assert_uint_eq(seen(&g, "n1")->class_id, seen(&g, "n3")->class_id);
    ck_assert_int_eq(sent_by(&g, "n2", NULL, NULL), 0);
    ck_assert_ptr_null(seen(&g, "n2")->devices);
    ck_assert_uint_eq(devices_count(g.s), 1);
    ck_assert_int_eq(sent_by(&g, "n2", &four->m, NULL), 0);
    ck_assert_uint_gt(seen(&g, "n2")->devices->id, first);
    free(four);
    free(other);
    stage_close(&g);
}
END_TEST

START_TEST(absent_is_the_default)
{
    struct stage g;
    struct sent *full = sent_make(2, 1), *bare = sent_make(2, 1);

    stage_open(&g, "node n1 cpus 8; node n2 cpus 8");
    for (int i = 0; i < 2; i++) {
        full->numa[i] = full->socket[i] = -1;
        full->near[i] = (char *)"";
    }
    bare->m.n_numa = bare->m.n_socket = bare->m.n_pcie_switch = bare->m.n_card = bare->m.n_near_cores = 0;
    sent_by(&g, "n1", &full->m, NULL);
    sent_by(&g, "n2", &bare->m, NULL);
    ck_assert_ptr_eq(seen(&g, "n1")->devices, seen(&g, "n2")->devices);
    free(full);
    free(bare);
    stage_close(&g);
}
END_TEST

START_TEST(kept_in_snapshot)
{
    struct stage g;
    struct sent *four = sent_make(4, 4), *sixty = sent_make(64, 1);
    struct state *copy;
    uint8_t before[32], after[32];

    stage_open(&g, "node n1 cpus 8; node n2 cpus 8; node n3 cpus 8");
    state_digest(g.s, before);
    sent_by(&g, "n3", &four->m, "d1");
    sent_by(&g, "n1", &sixty->m, NULL);
    state_digest(g.s, after);
    ck_assert(memcmp(before, after, 32) != 0);
    copy = stage_copy(&g);                      /* checks that the digests are equal */
    ck_assert_uint_eq(devices_count(copy), 2);
    ck_assert_uint_eq(devices_table(copy->nodes[0].devices)->count, 64);
    ck_assert_uint_eq(devices_table(copy->nodes[2].devices)->mbps[1], 200000);
    ck_assert_str_eq(copy->nodes[2].fabric, "d1");
    ck_assert_ptr_null(copy->nodes[1].devices);
    state_destroy(copy);
    free(four);
    free(sixty);
    stage_close(&g);
}
END_TEST

START_TEST(refuses)
{
    struct stage g;
    struct node *n;
    struct sent *t = sent_make(4, 4);

    stage_open(&g, "node n1 cpus 8");
    n = state_node(g.s, "n1");
    t->mbps[3] = 7;
    ck_assert_int_eq(sent_by(&g, "n1", &t->m, NULL), 0);
    ck_assert_str_eq(n->reason, "device table: bandwidth 7 from device 0 to 3, 0 back");
    ck_assert(n->flags & NODE_FLAG_DRAIN && n->reason_is_ours);
    ck_assert_ptr_null(n->devices);
    t->mbps[3] = 0;
    sent_by(&g, "n1", &t->m, NULL);
    ck_assert_ptr_null(n->reason);
    ck_assert_ptr_nonnull(n->devices);
    t->links[1] = t->links[4] = 256;
    sent_by(&g, "n1", &t->m, NULL);
    ck_assert_str_eq(n->reason, "device table: 256 links from device 0 to 1, 256 back");
    t->links[1] = t->links[4] = 1;
    t->m.n_mbps = 15;
    sent_by(&g, "n1", &t->m, NULL);
    ck_assert_str_eq(n->reason, "device table: 15 bandwidths and 16 links for 4 devices");
    t->m.n_mbps = 16;
    t->near[2] = (char *)"4-2";
    sent_by(&g, "n1", &t->m, NULL);
    ck_assert_int_eq(strncmp(n->reason, "device table: ", 14), 0);
    t->near[2] = (char *)"70000";
    sent_by(&g, "n1", &t->m, NULL);
    ck_assert_int_eq(strncmp(n->reason, "device table: ", 14), 0);
    t->near[2] = (char *)"";
    t->numa[1] = -2;
    sent_by(&g, "n1", &t->m, NULL);
    ck_assert_str_eq(n->reason, "device table: numa of device 1 is -2");
    t->numa[1] = 0;
    t->m.count = 65;
    sent_by(&g, "n1", &t->m, NULL);
    ck_assert_str_eq(n->reason, "device table: 65 devices, the limit is 64");
    t->m.count = 4;
    t->m.n_card = 3;
    sent_by(&g, "n1", &t->m, NULL);
    ck_assert_str_eq(n->reason, "device table: 3 cards, 4 core lists, 1 network devices for 4 devices");
    free(t);
    stage_close(&g);
}
END_TEST

/* A GPU that cannot be used any more ends the jobs that hold it, each as its own flags say; the others run on, and the node takes nobody new. */
START_TEST(broken_devices)
{
    Wire__NodeInventory inventory = WIRE__NODE_INVENTORY__INIT;
    Wire__OpRegister o = WIRE__OP_REGISTER__INIT;
    Wire__Op op = WIRE__OP__INIT;
    Wire__GresAlloc gres = WIRE__GRES_ALLOC__INIT, *gres_list = &gres;
    struct stage g;
    struct node *n;

    stage_open(&g, "node n1 cpus 8 gpus 4; job 1 running n1 cores 0 gpus 0-1; job 2 running n1 cores 1 gpus 2; job 3 running n1 cores 2 gpus 3");
    n = state_node(g.s, "n1");
    state_job(g.s, 1)->requeue = true;
    state_job(g.s, 2)->requeue = false;
    inventory.name = (char *)"n1";
    inventory.boot_id = (char *)"b";
    gres.name = (char *)"gpu";
    gres.has_count = gres.has_mask = 1;
    gres.count = 4;
    gres.mask = 15;
    inventory.gres = &gres_list;
    inventory.n_gres = 1;
    o.inventory = &inventory;
    op.register_node = &o;
    for (uint32_t id = 1; id <= 3; id++)
        state_job(g.s, id)->allocs[0].started = false;     /* no batch script is looked for */
    ck_assert_int_eq(stage_op(&g, &op), 0);
    ck_assert_ptr_null(n->reason);
    inventory.fault = (char *)"gpu 1: Xid 79";
    inventory.has_fault_mask = 1;
    inventory.fault_mask = 6;
    ck_assert_int_eq(stage_op(&g, &op), 0);
    ck_assert_str_eq(n->reason, "gpu 1: Xid 79");
    ck_assert_str_eq(n->reason_user, "slurm");
    ck_assert(!node_is_usable(n));
    ck_assert_int_eq(job_phase(state_job(g.s, 1)), PHASE_REQUEUEING);
    ck_assert_int_eq(state_job(g.s, 2)->state, JOB_NODE_FAIL);
    ck_assert_int_eq(job_phase(state_job(g.s, 2)), PHASE_COMPLETING);      /* until its agent has said that nothing is alive */
    ck_assert_int_eq(state_job(g.s, 3)->state, JOB_RUNNING);
    ck_assert_uint_eq(stage_events(&g, EV_JOB_KILL), 2);
    ck_assert_uint_eq(n->jobs, 3);
    ck_assert_int_eq(stage_op(&g, &op), 0);             /* said again, nothing more happens */
    ck_assert_uint_eq(stage_events(&g, EV_JOB_KILL), 0);
    stage_check(&g);
    stage_close(&g);
}
END_TEST

START_TEST(small_a_node)
{
    /* What a node pays on top of its type's table: two pointers. */
    ck_assert_uint_lt(sizeof(((struct node *)0)->devices) + sizeof(((struct node *)0)->fabric), 64);
}
END_TEST

Suite *devices_suite(void)
{
    Suite *s = suite_create("devices");
    TCase *t = tcase_create("devices");

    tcase_add_test(t, equal_tables_are_one);
    tcase_add_test(t, absent_is_the_default);
    tcase_add_test(t, kept_in_snapshot);
    tcase_add_test(t, refuses);
    tcase_add_test(t, broken_devices);
    tcase_add_test(t, small_a_node);
    suite_add_tcase(s, t);
    return s;
}
