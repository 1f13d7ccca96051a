/* SPDX-License-Identifier: Apache-2.0 */
/* test_table.c - the authorisation table, cell by cell: every message type of the wire against every kind of asker.
 *
 * The letters are written down here once more by hand, so that a slip in table.def shows: n nobody, u user (and operator), o operator, a administrator, c compute node,
 * l login host, t bearer of a token who joins, k controller.
 */
#include <check.h>
#include <string.h>

#include "desk.h"

static const struct { unsigned type; const char *may; } expected[] = {
    { WIRE__MESSAGE_TYPE__PING, "nualckt" }, { WIRE__MESSAGE_TYPE__SUBMIT, "ua" }, { WIRE__MESSAGE_TYPE__TEST_ONLY, "ua" }, { WIRE__MESSAGE_TYPE__JOBS, "uack" },
    { WIRE__MESSAGE_TYPE__NODES, "uack" }, { WIRE__MESSAGE_TYPE__PARTITIONS, "uack" }, { WIRE__MESSAGE_TYPE__STEPS, "uack" }, { WIRE__MESSAGE_TYPE__CONFIG, "uack" },
    { WIRE__MESSAGE_TYPE__CONFIG_FILES, "uackl" }, { WIRE__MESSAGE_TYPE__STATS, "uak" }, { WIRE__MESSAGE_TYPE__CANCEL, "ua" }, { WIRE__MESSAGE_TYPE__JOB_UPDATE, "ua" },
    { WIRE__MESSAGE_TYPE__STEP_CREATE, "ua" }, { WIRE__MESSAGE_TYPE__DIAL, "ua" }, { WIRE__MESSAGE_TYPE__WAIT, "ua" }, { WIRE__MESSAGE_TYPE__SCRIPT, "ua" }, { WIRE__MESSAGE_TYPE__NODE_UPDATE, "oa" },
    { WIRE__MESSAGE_TYPE__PARTITION_UPDATE, "a" }, { WIRE__MESSAGE_TYPE__RECONFIGURE, "a" }, { WIRE__MESSAGE_TYPE__SHUTDOWN, "a" }, { WIRE__MESSAGE_TYPE__VOUCH, "ua" },
    { WIRE__MESSAGE_TYPE__MEMBERS, "uack" }, { WIRE__MESSAGE_TYPE__MESH, "uack" }, { WIRE__MESSAGE_TYPE__MESH_ROTATE, "a" }, { WIRE__MESSAGE_TYPE__CONTROLLER_MESH, "k" }, { WIRE__MESSAGE_TYPE__MEMBER_CHANGE, "a" }, { WIRE__MESSAGE_TYPE__BLOB, "k" }, { WIRE__MESSAGE_TYPE__JOIN, "t" },
    { WIRE__MESSAGE_TYPE__HOSTS, "oa" }, { WIRE__MESSAGE_TYPE__HOST_CHANGE, "a" }, { WIRE__MESSAGE_TYPE__HOST_KEY, "clk" }, { WIRE__MESSAGE_TYPE__USER_TOKEN, "ua" },
    { WIRE__MESSAGE_TYPE__ACCOUNTS, "uak" }, { WIRE__MESSAGE_TYPE__ACCOUNT_CHANGE, "ua" },
    { WIRE__MESSAGE_TYPE__NODE_REBOOT, "a" }, { WIRE__MESSAGE_TYPE__REGISTER, "ck" }, { WIRE__MESSAGE_TYPE__HEARTBEAT, "ck" }, { WIRE__MESSAGE_TYPE__REPORT, "ck" },
};

START_TEST(matrix)
{
    static const struct { char letter; int role; uint32_t uid; } askers[] = {
        { 'n', SPUR_ROLE_NONE, UINT32_MAX }, { 'n', SPUR_ROLE_USER, UINT32_MAX }, { 'u', SPUR_ROLE_USER, ALICE }, { 'o', SPUR_ROLE_USER, BOB }, { 'a', SPUR_ROLE_USER, 0 }, { 'a', SPUR_ROLE_USER, SLURM },
        { 'c', SPUR_ROLE_NODE, UINT32_MAX }, { 'c', SPUR_ROLE_NODE, 0 }, { 'l', SPUR_ROLE_LOGIN, UINT32_MAX }, { 't', SPUR_ROLE_TOKEN, UINT32_MAX }, { 'k', SPUR_ROLE_CONTROLLER, UINT32_MAX },
    };
    const ProtobufCEnumDescriptor *types = &wire__message_type__descriptor;
    struct desk d;

    desk_init(&d, "NodeName=n1\nPartitionName=p Nodes=ALL Default=YES\n");
    d.r.s->config->settings[SETTING_operators].text = strdup("1001");
    for (unsigned i = 0; i < types->n_values; i++)
        for (size_t k = 0; k < sizeof askers / sizeof askers[0]; k++) {
            const char *may = "";
            int rc;

            for (size_t e = 0; e < sizeof expected / sizeof expected[0]; e++)
                if (expected[e].type == (unsigned)types->values[i].value)
                    may = expected[e].may;
            d.who = (struct spur_identity){ .size = sizeof d.who, .role = askers[k].role, .uid = askers[k].uid, .host = "n1" };
            d.err.text[0] = '\0';
            rc = admit_message((unsigned)types->values[i].value, &d.who, admit_rank(d.r.s, &d.who), &d.err);
            ck_assert_msg((rc == 0) == (strchr(may, askers[k].letter) || (askers[k].letter == 'o' && strchr(may, 'u'))), "%s by %c (%d): %d", types->values[i].name, askers[k].letter, askers[k].role, rc);
            ck_assert(rc == 0 || (rc == SPUR_EDENIED && strncmp(d.err.text, "Access/permission denied", 24) == 0));
        }
    ck_assert_int_eq(admit_message(9999, &d.who, RANK_ADMIN, &d.err), SPUR_EDENIED);
    ck_assert_int_eq(admit_message(0, &d.who, RANK_ADMIN, &d.err), SPUR_EDENIED);
    desk_fini(&d);
}
END_TEST

START_TEST(a_number_in_the_role_of_a_node_is_no_rank)
{
    struct desk d;

    desk_init(&d, "NodeName=n1\nPartitionName=p Nodes=ALL Default=YES\n");
    d.who = (struct spur_identity){ .role = SPUR_ROLE_NODE, .uid = 0 };
    ck_assert_int_eq(admit_rank(d.r.s, &d.who), RANK_NONE);
    d.who.role = SPUR_ROLE_CONTROLLER;
    ck_assert_int_eq(admit_rank(d.r.s, &d.who), RANK_NONE);
    desk_as(&d, 0);
    ck_assert_int_eq(admit_rank(d.r.s, &d.who), RANK_ADMIN);
    desk_as(&d, ALICE);
    ck_assert_int_eq(admit_rank(d.r.s, &d.who), RANK_USER);
    desk_fini(&d);
}
END_TEST

Suite *table_suite(void);
Suite *table_suite(void)
{
    Suite *s = suite_create("admit/table");
    TCase *t = tcase_create("table");

    tcase_add_test(t, matrix);
    tcase_add_test(t, a_number_in_the_role_of_a_node_is_no_rank);
    suite_add_tcase(s, t);
    return s;
}
