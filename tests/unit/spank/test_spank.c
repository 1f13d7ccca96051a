/* SPDX-License-Identifier: Apache-2.0 */
/* test_spank.c - what spank.h's functions answer, with a stack made by hand: a plugin is a struct with hooks. Real ones are loaded in t-spank. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "spank/inside.h"

static const struct plugstack_row required = { .required = true, .file = (char *)"x.so" }, optional = { .file = (char *)"x.so" };
static struct spank_plugin plugin;
static struct spank_stack stack;
static struct spank_facts facts;
static uint32_t globals[] = { 3, 7 };
static pid_t pids[] = { 100, 200 };
static char variable[64];
static struct str said;

static const char *get(void *of, const char *name) { return !strcmp(name, "A") && *(char *)of ? of : NULL; }
static void set(void *of, const char *name, const char *value) { strcpy(of, !strcmp(name, "A") && value ? value : ""); }

static void line(void *arg, enum spank_level level, const char *text)
{
    (void)arg;
    str_addf(&said, "%d %s\n", (int)level, text);
}

static spank_t make(spank_context_t context, enum spank_hook hook)
{
    stack = (struct spank_stack){ .facts = &facts, .context = context, .plugins = &plugin, .count = 1 };
    plugin = (struct spank_plugin){ .row = &required, .name = "x" };
    plugin.handle = (struct spank_handle){ HANDLE_MAGIC, &stack, &plugin, hook };
    facts = (struct spank_facts){ .known = ~UINT64_C(0), .job_id = 5, .local_tasks = 2, .globals = globals, .pids = pids, .pid_count = 2, .task = 1, .task_pid = 200,
                                  .task_status = 256, .cpus = 9, .env_of = variable, .env_get = get, .env_set = set };
    *variable = '\0';
    spank_stack_here = &stack;
    str_init(&said);
    spank_log_to(line, NULL);
    return &plugin.handle;
}

START_TEST(questions)
{
    spank_t s = make(S_CTX_REMOTE, SPANK_ON_init);

    ck_assert_int_eq(spank_symbol_supported("slurm_spank_task_init"), 1);
    ck_assert_int_eq(spank_symbol_supported("slurm_spank_dance"), 0);
    ck_assert_int_eq(spank_symbol_supported(NULL), -1);
    ck_assert_int_eq(spank_remote(s), 1);
    ck_assert_int_eq(spank_remote(NULL), -1);
    ck_assert_int_eq(spank_context(), S_CTX_REMOTE);
    ck_assert_str_eq(spank_strerror(ESPANK_BAD_ARG), "Bad argument");
}
END_TEST

START_TEST(items)
{
    spank_t s = make(S_CTX_REMOTE, SPANK_ON_user_init);
    uint32_t n = 0;
    uint16_t cpus = 0;
    int local = 0, status = 0;
    char *version = NULL;

    ck_assert_int_eq(spank_get_item(NULL, S_JOB_ID, &n), ESPANK_BAD_ARG);
    ck_assert_int_eq(spank_get_item(s, S_JOB_ID, &n), ESPANK_SUCCESS);
    ck_assert_uint_eq(n, 5);
    ck_assert_int_eq(spank_get_item(s, S_JOB_NCPUS, &cpus), ESPANK_SUCCESS);
    ck_assert_uint_eq(cpus, 9);
    ck_assert_int_eq(spank_get_item(s, S_SLURM_VERSION, &version), ESPANK_SUCCESS);
    ck_assert_str_eq(version, CONFIG_SLURM_VERSION);
    ck_assert_int_eq(spank_get_item(s, S_SLURM_VERSION_MICRO, &version), ESPANK_SUCCESS);
    ck_assert_str_eq(version, "0");
    ck_assert_int_eq(spank_get_item(s, S_TASK_ID, &local), ESPANK_NOT_TASK);
    ck_assert_int_eq(spank_get_item(s, S_JOB_LOCAL_TO_GLOBAL_ID, (uint32_t)1, &n), ESPANK_SUCCESS);
    ck_assert_uint_eq(n, 7);
    ck_assert_int_eq(spank_get_item(s, S_JOB_LOCAL_TO_GLOBAL_ID, (uint32_t)2, &n), ESPANK_NOEXIST);
    ck_assert_int_eq(spank_get_item(s, S_JOB_GLOBAL_TO_LOCAL_ID, (uint32_t)7, &n), ESPANK_SUCCESS);
    ck_assert_uint_eq(n, 1);
    ck_assert_int_eq(spank_get_item(s, S_JOB_GLOBAL_TO_LOCAL_ID, (uint32_t)1, &n), ESPANK_NOEXIST);
    ck_assert_int_eq(spank_get_item(s, S_JOB_PID_TO_GLOBAL_ID, (pid_t)100, &n), ESPANK_SUCCESS);
    ck_assert_uint_eq(n, 3);
    ck_assert_int_eq(spank_get_item(s, S_JOB_PID_TO_LOCAL_ID, (pid_t)101, &n), ESPANK_NOEXIST);
    facts.pid_count = 0;
    ck_assert_int_eq(spank_get_item(s, S_JOB_PID_TO_LOCAL_ID, (pid_t)100, &n), ESPANK_NOT_EXECD);
    ck_assert_int_eq(spank_get_item(s, (spank_item_t)99, &n), ESPANK_BAD_ARG);
    s = make(S_CTX_REMOTE, SPANK_ON_task_exit);
    ck_assert_int_eq(spank_get_item(s, S_TASK_GLOBAL_ID, &n), ESPANK_SUCCESS);
    ck_assert_uint_eq(n, 7);
    ck_assert_int_eq(spank_get_item(s, S_TASK_EXIT_STATUS, &status), ESPANK_SUCCESS);
    ck_assert_int_eq(status, 256);
    s = make(S_CTX_REMOTE, SPANK_ON_task_init);
    ck_assert_int_eq(spank_get_item(s, S_TASK_EXIT_STATUS, &status), ESPANK_NOT_AVAIL);
    s = make(S_CTX_LOCAL, SPANK_ON_init);
    facts.known = 0;
    ck_assert_int_eq(spank_get_item(s, S_JOB_NODEID, &n), ESPANK_NOT_REMOTE);
    s = make(S_CTX_JOB_SCRIPT, SPANK_ON_job_prolog);
    facts.known = 0;
    ck_assert_int_eq(spank_get_item(s, S_JOB_NODEID, &n), ESPANK_NOT_AVAIL);
}
END_TEST

START_TEST(environments)
{
    spank_t s = make(S_CTX_REMOTE, SPANK_ON_user_init);
    char buf[8];

    ck_assert_int_eq(spank_getenv(s, "A", buf, sizeof buf), ESPANK_ENV_NOEXIST);
    ck_assert_int_eq(spank_setenv(s, "A", "value", 0), ESPANK_SUCCESS);
    ck_assert_int_eq(spank_setenv(s, "A", "other", 0), ESPANK_ENV_EXISTS);
    ck_assert_int_eq(spank_getenv(s, "A", buf, sizeof buf), ESPANK_SUCCESS);
    ck_assert_str_eq(buf, "value");
    ck_assert_int_eq(spank_getenv(s, "A", buf, 5), ESPANK_NOSPACE);
    ck_assert_str_eq(buf, "valu");
    ck_assert_int_eq(spank_getenv(s, "A", buf, 6), ESPANK_SUCCESS);
    ck_assert_int_eq(spank_getenv(s, "A", NULL, 6), ESPANK_BAD_ARG);
    ck_assert_int_eq(spank_setenv(s, "A=B", "value", 0), ESPANK_BAD_ARG);
    ck_assert_int_eq(spank_setenv(s, "", "value", 0), ESPANK_BAD_ARG);
    ck_assert_int_eq(spank_setenv(s, "A", NULL, 1), ESPANK_BAD_ARG);
    ck_assert_int_eq(spank_unsetenv(s, "A"), ESPANK_SUCCESS);
    ck_assert_int_eq(spank_getenv(s, "A", buf, sizeof buf), ESPANK_ENV_NOEXIST);
    ck_assert_int_eq(spank_job_control_setenv(s, "A", "x", 1), ESPANK_NOT_LOCAL);
    ck_assert_int_eq(spank_prepend_task_argv(s, 0, NULL), ESPANK_NOT_TASK);
    s = make(S_CTX_LOCAL, SPANK_ON_init);
    ck_assert_int_eq(spank_setenv(s, "A", "x", 1), ESPANK_NOT_REMOTE);
    facts.control_of = variable;
    facts.control_get = get;
    facts.control_set = set;
    ck_assert_int_eq(spank_job_control_setenv(s, "A", "x", 0), ESPANK_SUCCESS);
    ck_assert_int_eq(spank_job_control_setenv(s, "A", "y", 0), ESPANK_ENV_EXISTS);
    ck_assert_int_eq(spank_job_control_getenv(s, "A", buf, sizeof buf), ESPANK_SUCCESS);
    ck_assert_int_eq(spank_job_control_unsetenv(s, "A"), ESPANK_SUCCESS);
    ck_assert_int_eq(spank_prepend_task_argv(s, 0, NULL), ESPANK_NOT_REMOTE);
}
END_TEST

static int calls, last_remote;
static int callback(int val, const char *value, int remote)
{
    calls += val;
    last_remote = remote;
    return value && !strcmp(value, "bad") ? -1 : 0;
}

START_TEST(options)
{
    spank_t s = make(S_CTX_REMOTE, SPANK_ON_init);
    struct spank_option o = { (char *)"the-option", NULL, NULL, 1, 1, callback }, bad = { (char *)"a=b", NULL, NULL, 0, 0, NULL };
    struct spur_error err = { 0 };
    char name[200], *value = NULL;

    ck_assert_int_eq(spank_option_register(s, &o), ESPANK_SUCCESS);
    ck_assert_int_eq(spank_option_register(s, &o), ESPANK_SUCCESS);     /* once */
    ck_assert_int_eq(spank_option_register(s, &bad), ESPANK_BAD_ARG);
    ck_assert_ptr_nonnull(strstr(said.text, "option \"a=b\" is not taken"));
    ck_assert_uint_eq(spank_stack_options(&stack), 1);
    plugin.handle.hook = SPANK_ON_user_init;
    ck_assert_int_eq(spank_option_register(s, &o), ESPANK_BAD_ARG);
    ck_assert_int_eq(spank_option_getopt(s, &o, &value), ESPANK_ERROR);
    spank_option_variable("x", "the-option", name, sizeof name);
    ck_assert_str_eq(name, "_SLURM_SPANK_OPTION_x_the_option");
    ck_assert_int_eq(spank_stack_option_take(&stack, 0, "word", &err), 0);
    ck_assert_int_eq(calls, 1);
    ck_assert_int_eq(last_remote, 1);
    ck_assert_int_eq(spank_option_getopt(s, &o, &value), ESPANK_SUCCESS);
    ck_assert_str_eq(value, "word");
    ck_assert_int_lt(spank_stack_option_take(&stack, 0, "bad", &err), 0);
    ck_assert_str_eq(err.text, "Invalid --the-option argument: bad (SPANK plugin x)");
    plugin.row = &optional;
    ck_assert_int_eq(spank_stack_option_take(&stack, 0, "bad", &err), 0);       /* on a node an optional plugin ends nothing */
    given_free(&stack);
}
END_TEST

static int failing(spank_t s, int ac, char *argv[])
{
    (void)s;
    (void)ac;
    (void)argv;
    return -7;
}

START_TEST(hooks)
{
    struct spur_error err = { 0 };

    make(S_CTX_REMOTE, SPANK_HOOKS);
    plugin.hooks[SPANK_ON_init] = failing;
    ck_assert(spank_stack_has(&stack, SPANK_ON_init));
    ck_assert_int_eq(spank_stack_call(&stack, SPANK_ON_exit, &err), 0);
    ck_assert_int_lt(spank_stack_call(&stack, SPANK_ON_init, &err), 0);
    ck_assert_str_eq(err.text, "required SPANK plugin x: slurm_spank_init() failed with rc=-7");
    plugin.row = &optional;
    ck_assert_int_eq(spank_stack_call(&stack, SPANK_ON_init, &err), 0);
    ck_assert_int_eq(spank_stack_call(NULL, SPANK_ON_init, &err), 0);
    slurm_error("%s\n", "two");
    slurm_spank_log("three");
    ck_assert_ptr_nonnull(strstr(said.text, "1 two\n0 three\n"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("spank");
    TCase *t = tcase_create("calls");
    SRunner *r;
    int failed;

    tcase_add_test(t, questions);
    tcase_add_test(t, items);
    tcase_add_test(t, environments);
    tcase_add_test(t, options);
    tcase_add_test(t, hooks);
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
