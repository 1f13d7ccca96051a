/* SPDX-License-Identifier: Apache-2.0 */
/* test_container.c - which processes belong to a step: many of them, none too many. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/container.h"
#include "test_agent.h"

#define CHILDREN 1100           /* their numbers do not fit 4 KiB */

START_TEST(a_thousand_children_are_a_thousand)
{
    pid_t pids[CHILDREN];
    Wire__Credential grant = WIRE__CREDENTIAL__INIT;
    Wire__StepOrder order = WIRE__STEP_ORDER__INIT;
    struct spur_error err = { 0 };
    size_t n;

    order.grant = &grant;
    ck_assert_msg(container_own(&order, &err) == 0, "%s", err.text);

    for (size_t i = 0; i < CHILDREN; i++) {
        pids[i] = fork();
        ck_assert_int_ge(pids[i], 0);
        if (pids[i] == 0)
            for (;;)
                pause();
    }
    n = container_signal(0);    /* asks only: a number that is nobody's child must not be met by a test either */
    for (size_t i = 0; i < CHILDREN; i++)
        kill(pids[i], SIGKILL);
    for (size_t i = 0; i < CHILDREN; i++)
        waitpid(pids[i], NULL, 0);
    ck_assert_uint_eq(n, CHILDREN);
    ck_assert_uint_eq(container_signal(0), 0);
}
END_TEST

TCase *case_container(void)
{
    TCase *t = tcase_create("container");

    tcase_add_test(t, a_thousand_children_are_a_thousand);
    return t;
}
