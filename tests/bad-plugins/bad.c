/* SPDX-License-Identifier: Apache-2.0 */
/* bad.c - plugins that a loader must refuse, one for each BAD_... it is compiled with (tests/bad-plugins/cases). Without any it is a good one. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include <spur/switch.h>
#include <spur/priority.h>

#ifdef BAD_UNRESOLVED
extern int nobody_has_this_function(void);
#endif

#ifdef BAD_CONSTRUCTOR_CRASHES
__attribute__((constructor)) static void at_load(void) { raise(SIGSEGV); }
#endif
#ifdef BAD_CONSTRUCTOR_EXITS
__attribute__((constructor)) static void at_load(void) { exit(0); }
#endif

static int bad_open(const struct spur_host *host, const struct spur_conf *conf, void **self, struct spur_error *err)
{
    (void)host;
    (void)conf;
#ifdef BAD_OPEN_FAILS
    return spur_fail(err, SPUR_EIO, "the fabric manager does not answer");
#endif
#ifdef BAD_OPEN_FAILS_SILENTLY
    return SPUR_EIO;
#endif
#ifdef BAD_OPEN_CRASHES
    raise(SIGSEGV);
#endif
#ifdef BAD_OPEN_HANGS
    for (;;)
        pause();
#endif
#ifdef BAD_OPEN_EXITS
    exit(0);
#endif
#ifdef BAD_SIGNAL_HANDLER
    signal(SIGTERM, SIG_IGN);
#endif
#ifdef BAD_ENVIRONMENT
    setenv("BAD_PLUGIN", "was here", 1);
#endif
#ifdef BAD_LEAKS_FILE
    if (dup(0) < 0)
        return spur_fail(err, SPUR_EIO, "no file to leak");
#endif
#ifdef BAD_UNRESOLVED
    nobody_has_this_function();
#endif
    if (!(*self = calloc(1, 64)))
        return spur_fail(err, SPUR_ENOMEM, "out of memory");
    return 0;
}

static void bad_close(void *self)
{
#ifdef BAD_CLOSE_NULL
    *(char *)self = 0;
#endif
    free(self);
}

#ifdef BAD_RANK
static uint64_t bad_rank(void *self, const struct spur_job_view *job, int64_t now, struct spur_priority_factors *out)
{
    (void)self; (void)now;
    if (out)
        memset((char *)out + sizeof out->size, 0, out->size - sizeof out->size);
    return job->nice > 0 ? 0 : 1000;
}
#endif

static int bad_join(void *self, const struct spur_switch_job *job, const struct spur_switch_env *env, struct spur_error *err)
{
    (void)self; (void)job; (void)env; (void)err;
    return 0;
}
static void bad_leave(void *self, const struct spur_switch_job *job) { (void)self; (void)job; }

static const struct spur_option bad_options[] = {
#ifdef BAD_OPTION_TYPE
    { "a", 77, NULL, "of a type that nobody knows" },
#elif defined BAD_OPTION_DEFAULT
    { "a", SPUR_INT, "many", "with a default that is no integer" },
#elif defined BAD_OPTION_TWICE
    { "a", SPUR_INT, "1", "once" }, { "a", SPUR_INT, "1", "twice" },
#elif defined BAD_OPTION_HASH
    { "sha256", SPUR_STRING, NULL, "the loader's own" },
#endif
    { "fine", SPUR_INT, "1", "an option" },
    { 0 } };

#ifdef BAD_RANK
static const struct spur_priority_ops bad_ops = { .size = sizeof bad_ops, .rank = bad_rank };
#else
static const struct spur_switch_ops bad_ops = {
#ifdef BAD_OPS_SHORT
    .size = 12,
#else
    .size = sizeof bad_ops,
#endif
#ifndef BAD_OPS_MISSING
    .job_join = bad_join,
#endif
    .job_leave = bad_leave };
#endif

#ifdef BAD_NO_SYMBOL
extern const struct spur_plugin spur_plugins_by_another_name;
__attribute__((visibility("default"))) const struct spur_plugin spur_plugins_by_another_name = {
#else
extern const struct spur_plugin spur_plugin;
__attribute__((visibility("default"))) const struct spur_plugin spur_plugin = {
#endif
#ifdef BAD_MAGIC
    .magic = 0x53505299,
#else
    .magic = SPUR_PLUGIN_MAGIC,
#endif
#ifdef BAD_SIZE
    .size = 48,
#else
    .size = sizeof(struct spur_plugin),
#endif
#ifdef BAD_KIND
    .kind = 4711,
#elif defined BAD_RANK
    .kind = SPUR_KIND_priority,
#else
    .kind = SPUR_KIND_switch,
#endif
#ifdef BAD_MAJOR
    .abi_major = SPUR_ABI_MAJOR_switch + 2,
#else
    .abi_major = SPUR_ABI_MAJOR_switch,
#endif
#ifdef BAD_MINOR
    .abi_minor = SPUR_ABI_MINOR_switch + 7,
#elif defined BAD_RANK
    .abi_minor = SPUR_ABI_MINOR_priority,
#else
    .abi_minor = SPUR_ABI_MINOR_switch,
#endif
#ifdef BAD_OPTION_SIZE
    .option_size = 8,
#else
    .option_size = sizeof(struct spur_option),
#endif
#ifdef BAD_NAME
    .name = "../bad",
#else
    .name = "bad",
#endif
    .version = "1.0", .about = "a plugin for the tests of the loader", .options = bad_options,
#ifndef BAD_NO_OPS
    .ops = &bad_ops,
#endif
#ifndef BAD_NO_OPEN
    .open = bad_open,
#endif
    .close = bad_close };
