/* SPDX-License-Identifier: Apache-2.0 */
/* spur/plugin.h - what every plugin is: one exported constant descriptor.
 *
 * A plugin sees the headers in this folder and its own libraries, nothing else: the host's services come by argument, so a
 * plugin has no undefined symbol of the host and runs in a test against a fake host. Rules that keep the ABI stable:
 * members are appended only (the minor of the kind goes up); removal or change of meaning raises the major of that kind;
 * the host calls a member only where `size` covers it. All state hangs on `self`: no globals, no constructors, no exit, no
 * signal handlers. Unless a member says otherwise it is called on the loop's thread and must not block.
 */
#ifndef SPUR_PLUGIN_H
#define SPUR_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <spur/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SPUR_PLUGIN_MAGIC UINT32_C(0x53505230)      /* "SPR0": changes if struct spur_plugin itself must */

/* The kinds: NAME, number, ABI major, ABI minor. One list makes the constants and the loader's table. */
#define SPUR_KINDS(X) \
    X(store,    1, 0, 2) \
    X(select,   2, 0, 3) \
    X(switch,   3, 0, 4) \
    X(auth,     4, 0, 3) \
    X(priority, 5, 0, 1) \
    X(gpu,      6, 0, 2) \
    X(score,    7, 0, 1) \
    X(contain,  8, 0, 1) \
    X(mpi,     10, 0, 1)

enum spur_kind {
#define SPUR_KIND_ROW(name, number, major, minor) SPUR_KIND_##name = number,
    SPUR_KINDS(SPUR_KIND_ROW)
#undef SPUR_KIND_ROW
    SPUR_KIND_none = 0
};
enum {
#define SPUR_KIND_ROW(name, number, major, minor) SPUR_ABI_MAJOR_##name = major, SPUR_ABI_MINOR_##name = minor,
    SPUR_KINDS(SPUR_KIND_ROW)
#undef SPUR_KIND_ROW
    SPUR_ABI_end = 0
};

/* What a plugin can do, so that nobody compares names. */
#define SPUR_CAP_MAY_BLOCK    (UINT64_C(1) << 0)    /* its calls may wait for a file or a daemon: the host runs them off the loop */
#define SPUR_CAP_REPLICATED   (UINT64_C(1) << 1)    /* store: more than one member */
#define SPUR_CAP_LINKS        (UINT64_C(1) << 2)    /* select: chooses GPUs by their links */
#define SPUR_CAP_HOST_IDENTITY (UINT64_C(1) << 3)   /* auth: proves hosts apart, not only users */
#define SPUR_CAP_SERVES       (UINT64_C(1) << 5)    /* mpi: has a server beside the tasks of each node */

/* Options are data: rows of name, type, default, help; ends with a null name. They stand in spur.conf as
 * plugin "select/topo" { weight = 3 }. The host checks type and name, with file and line. */
enum spur_option_type { SPUR_INT = 1, SPUR_BOOL, SPUR_STRING, SPUR_FLOAT, SPUR_DURATION_MS, SPUR_SIZE_MIB };
struct spur_option {
    const char *name;
    int         type;           /* enum spur_option_type */
    const char *fallback;       /* text of the default; NULL: unset (0, "") */
    const char *help;           /* one line */
};

/* The values of a plugin's options, read through the host's conf_* calls. Opaque; valid during open and reload only. */
struct spur_conf;

enum spur_log_level { SPUR_LOG_ERROR = 0, SPUR_LOG_WARN, SPUR_LOG_INFO, SPUR_LOG_DEBUG };

/* One line of SlurmctldHost. */
struct spur_controller { char name[64], addr[128]; };
struct spur_channels;           /* spur/channel.h */
struct spur_score_ops;          /* spur/score.h */

/* Services of the host. Size first: use SPUR_HAS before a member that is newer than your header's minimum. */
struct spur_host {
    uint32_t size;
    void    *ctx;               /* the host's; passed back in each call */
    /* One line in the daemon's log. Any thread. */
    void (*log)(void *ctx, int level, const char *text);
    /* Options by name, of the plugin's own rows. A duration is in milliseconds, a size in MiB; text is never NULL ("" when unset) and borrowed until
     * open or reload returns. */
    long        (*conf_int)(const struct spur_conf *conf, const char *name);
    double      (*conf_float)(const struct spur_conf *conf, const char *name);
    const char *(*conf_text)(const struct spur_conf *conf, const char *name);
    /* A key of slurm.conf by name, in any case, in its canonical text ("7-00:00:00", "1000"), or NULL. During open and reload only, borrowed until they return. */
    const char *(*config)(void *ctx, const char *key);
    /* Runs fn(arg) on the loop's thread, soon, in the order posted. Any thread. NULL in hosts without a loop. */
    void (*post)(void *ctx, void (*fn)(void *arg), void *arg);
    /* Milliseconds of a clock that never goes back (CLOCK_BOOTTIME), and of the wall clock. Any thread. */
    int64_t (*now_ms)(void *ctx);
    int64_t (*wall_ms)(void *ctx);
    /* Name of this host or member, the role of the process ("controller", "agent", "supervisor", "command"), the folder for the plugin's own files. */
    const char *(*host_name)(void *ctx);
    const char *(*role)(void *ctx);
    const char *(*state_dir)(void *ctx);
    /* The score plugin in use (ScoreType): its table and its instance, for select plugins. False: this host has none. On the loop's thread; ask at each
     * decision, it may be exchanged between two. */
    bool (*score)(void *ctx, const struct spur_score_ops **ops, void **self);
    /* Line i of SlurmctldHost, in the order of the file; ENOTFOUND: there are no more. During open, reload and start. NULL in hosts without them. */
    int (*controller)(void *ctx, uint32_t i, struct spur_controller *out);
    /* Encrypted channels to other processes of the cluster; NULL in hosts without an auth plugin. Valid until close. */
    const struct spur_channels *channels;
};

struct spur_plugin {
    uint32_t    magic;          /* SPUR_PLUGIN_MAGIC */
    uint32_t    size;           /* sizeof this struct as the plugin was compiled */
    uint32_t    kind;           /* SPUR_KIND_select ... */
    uint16_t    abi_major;      /* of that kind's header: must equal the host's */
    uint16_t    abi_minor;      /* not newer than the host's */
    uint32_t    option_size;    /* sizeof(struct spur_option) as the plugin was compiled: rows may grow */
    uint64_t    caps;           /* SPUR_CAP_* */
    const char *name;           /* "topo"; with the kind this is select/topo and select_topo.so */
    const char *version, *about;
    const char *stands_for;     /* the names in old slurm.conf files that mean this one: "cons_tres cons_res" */
    const struct spur_option *options;
    const void *ops;            /* struct spur_select_ops, ...; its first member is uint32_t size */

    /* Makes an instance. Two instances in one process are normal. 0, or a code with a sentence in err and *self untouched. May block.
     * `host` stays valid until close; `conf` until open returns. */
    int  (*open)(const struct spur_host *host, const struct spur_conf *conf, void **self, struct spur_error *err);
    /* New values of options and of keys of slurm.conf. Optional. On failure the old values stay in force. SPUR_ERESTART: close and open me again. */
    int  (*reload)(void *self, const struct spur_conf *conf, struct spur_error *err);
    void (*close)(void *self);  /* accepts NULL */
};

/* Is the other side new enough to have this member? Ask before reading or writing one of a size-first struct. */
#define SPUR_COVERS(table, field) \
    ((table)->size >= offsetof(__typeof__(*(table)), field) + sizeof (table)->field)
/* May I call this? The other side has the member, and gave one. */
#define SPUR_HAS(table, field) (SPUR_COVERS(table, field) && (table)->field)

/* Defines the descriptor: SPUR_PLUGIN(select, linear, .about = "...", .ops = &linear_ops, .open = linear_open, .close = free);
 * In-tree plugins compile twice: as a module, and built in (SPUR_BUILTIN gives the descriptor a unique name). */
#ifdef SPUR_BUILTIN
#define SPUR_PLUGIN_SYMBOL(k, n) spur_plugin_##k##_##n
#else
#define SPUR_PLUGIN_SYMBOL(k, n) spur_plugin
#endif
#ifndef SPUR_PLUGIN_VERSION
#define SPUR_PLUGIN_VERSION "0.1"
#endif
#define SPUR_PLUGIN(k, n, ...) \
    extern const struct spur_plugin SPUR_PLUGIN_SYMBOL(k, n); \
    __attribute__((visibility("default"))) const struct spur_plugin SPUR_PLUGIN_SYMBOL(k, n) = { \
        .magic = SPUR_PLUGIN_MAGIC, .size = sizeof(struct spur_plugin), .kind = SPUR_KIND_##k, \
        .abi_major = SPUR_ABI_MAJOR_##k, .abi_minor = SPUR_ABI_MINOR_##k, .option_size = sizeof(struct spur_option), \
        .name = #n, .version = SPUR_PLUGIN_VERSION, __VA_ARGS__ }

#ifdef __cplusplus
}
#endif
#endif
