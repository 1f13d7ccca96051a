/* SPDX-License-Identifier: Apache-2.0 */
/* test_mesh.c - a node's place in the mesh: its number is given once, its key is the last one it sent, both outlive a snapshot and a new configuration. */
#include "test_state.h"

static int sent(struct stage *g, const char *node, int key, size_t len, const char *endpoint)
{
    Wire__NodeInventory inventory = WIRE__NODE_INVENTORY__INIT;
    Wire__OpRegister o = WIRE__OP_REGISTER__INIT;
    Wire__Op op = WIRE__OP__INIT;
    uint8_t bytes[40];

    memset(bytes, key, sizeof bytes);
    inventory.name = (char *)node;
    inventory.boot_id = (char *)"b";
    inventory.has_mesh_key = key != 0;
    inventory.mesh_key = (ProtobufCBinaryData){ len, bytes };
    inventory.mesh_endpoint = (char *)endpoint;
    o.inventory = &inventory;
    op.register_node = &o;
    return stage_op(g, &op);
}

static unsigned told(const struct stage *g) { return stage_events(g, EV_MESH_CHANGED); }

START_TEST(numbers_are_given_once)
{
    struct stage g;
    struct state *copy;
    uint8_t before[32], after[32];

    stage_open(&g, "node n1 cpus 8; node n2 cpus 8; node n3 cpus 8");
    ck_assert_int_eq(sent(&g, "n2", 7, 32, ":5"), 0);
    ck_assert_uint_eq(told(&g), 1);
    ck_assert_int_eq(sent(&g, "n1", 8, 32, "192.0.2.1:5"), 0);
    ck_assert_int_eq(sent(&g, "n3", 0, 0, NULL), 0);            /* has none */
    ck_assert_uint_eq(told(&g), 0);
    ck_assert_int_eq(sent(&g, "n3", 9, 31, NULL), 0);           /* no key */
    ck_assert_uint_eq(told(&g), 0);
    ck_assert_uint_eq(state_node(g.s, "n2")->mesh_number, 1);
    ck_assert_uint_eq(state_node(g.s, "n1")->mesh_number, 2);
    ck_assert_uint_eq(state_node(g.s, "n3")->mesh_number, 0);
    ck_assert_int_eq(sent(&g, "n2", 7, 32, ":5"), 0);           /* nothing new */
    ck_assert_uint_eq(told(&g), 0);
    state_digest(g.s, before);
    ck_assert_int_eq(sent(&g, "n2", 17, 32, ":5"), 0);          /* another key, the same place */
    ck_assert_uint_eq(told(&g), 1);
    state_digest(g.s, after);
    ck_assert(memcmp(before, after, sizeof before) != 0);
    ck_assert_uint_eq(state_node(g.s, "n2")->mesh_number, 1);
    ck_assert_uint_eq(state_node(g.s, "n2")->mesh_key[31], 17);
    ck_assert_int_eq(sent(&g, "n2", 17, 32, ":6"), 0);
    ck_assert_uint_eq(told(&g), 1);
    ck_assert_int_eq(sent(&g, "n2", 0, 0, NULL), 0);            /* registers before its interface is up: stays what it was */
    ck_assert_uint_eq(state_node(g.s, "n2")->mesh_key[0], 17);
    copy = stage_copy(&g);                      /* checks that the digests are equal */
    ck_assert_uint_eq(state_node(copy, "n2")->mesh_number, 1);
    ck_assert_str_eq(state_node(copy, "n2")->mesh_endpoint, ":6");
    ck_assert_uint_eq(copy->mesh_next, 2);
    state_destroy(copy);
    ck_assert_int_eq(sent(&g, "n3", 9, 32, NULL), 0);
    ck_assert_uint_eq(state_node(g.s, "n3")->mesh_number, 3);
    stage_close(&g);
}
END_TEST

static int seated(struct stage *g, const char *name, int key, size_t len, const char *endpoint, bool renew)
{
    Wire__OpMeshHost o = WIRE__OP_MESH_HOST__INIT;
    Wire__Op op = WIRE__OP__INIT;
    uint8_t bytes[40];

    memset(bytes, key, sizeof bytes);
    o.name = (char *)name;
    o.has_key = key != 0;
    o.key = (ProtobufCBinaryData){ len, bytes };
    o.endpoint = (char *)endpoint;
    o.has_renew = o.renew = renew;
    op.mesh_host = &o;
    return stage_op(g, &op);
}

START_TEST(controllers_have_a_place)
{
    struct stage g;
    struct state *copy;

    stage_open(&g, "node n1 cpus 8; node n2 cpus 8");
    ck_assert_int_eq(sent(&g, "n1", 7, 32, ":5"), 0);
    ck_assert_int_eq(seated(&g, "c1", 8, 32, ":5", false), 0);          /* one row of numbers for all */
    ck_assert_uint_eq(told(&g), 1);
    ck_assert_uint_eq(state_mesh_host(g.s, "c1")->number, 2);
    ck_assert_int_eq(sent(&g, "n2", 9, 32, ":5"), 0);
    ck_assert_uint_eq(state_node(g.s, "n2")->mesh_number, 3);
    ck_assert_int_eq(seated(&g, "c2", 7, 32, ":5", false), SPUR_EDENIED);       /* a node's key, another controller's, and what is no key */
    ck_assert_int_eq(seated(&g, "c2", 8, 32, ":5", false), SPUR_EDENIED);
    ck_assert_int_eq(seated(&g, "c2", 10, 31, ":5", false), SPUR_EINVAL);
    ck_assert_int_eq(seated(&g, "", 10, 32, ":5", false), SPUR_EINVAL);
    ck_assert_ptr_null(state_mesh_host(g.s, "c2"));
    ck_assert_int_eq(seated(&g, "c2", 0, 0, NULL, true), 0);            /* of one that is not there: nothing */
    ck_assert_uint_eq(stage_events(&g, EV_MESH_RENEW), 0);
    ck_assert_int_eq(seated(&g, "c1", 0, 0, NULL, true), 0);
    ck_assert_uint_eq(stage_events(&g, EV_MESH_RENEW), 1);
    ck_assert_uint_eq(state_mesh_host(g.s, "c1")->key[5], 8);
    copy = stage_copy(&g);
    ck_assert_uint_eq(state_mesh_host(copy, "c1")->number, 2);
    ck_assert_uint_eq(state_mesh_host(copy, "c1")->key[31], 8);
    ck_assert_str_eq(state_mesh_host(copy, "c1")->endpoint, ":5");
    state_destroy(copy);
    ck_assert_int_eq(seated(&g, "c1", 0, 0, NULL, false), 0);           /* it leaves, and comes back to its place */
    ck_assert_uint_eq(told(&g), 1);
    ck_assert_uint_eq(state_mesh_host(g.s, "c1")->key[0], 0);
    ck_assert_int_eq(seated(&g, "c1", 11, 32, "192.0.2.1:7", false), 0);
    ck_assert_uint_eq(state_mesh_host(g.s, "c1")->number, 2);
    ck_assert_uint_eq(g.s->mesh_next, 3);
    stage_close(&g);
}
END_TEST

Suite *mesh_suite(void)
{
    Suite *s = suite_create("mesh");
    TCase *t = tcase_create("mesh");

    tcase_add_test(t, numbers_are_given_once);
    tcase_add_test(t, controllers_have_a_place);
    suite_add_tcase(s, t);
    return s;
}
