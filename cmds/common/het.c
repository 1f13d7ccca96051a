/* SPDX-License-Identifier: Apache-2.0 */
/* het.c - cuts command lines and scripts into components, and hands options on from one to the next; see het.h. */
#include <string.h>

#include "base/bitmap.h"
#include "base/str.h"
#include "cmds/common/het.h"
#include "state/state.h"

extern char **environ;

int het_cut(const struct option_table *t, int argc, char **argv, struct request *typed, struct het_words **out, size_t *count, int *first)
{
    struct het_words *words = arena_alloc(&typed->arena, (size_t)(argc + 1) * sizeof *words);
    int at = 0, rc;

    *out = words;
    *count = 0;
    for (;;) {
        if ((rc = options_read(t, argc - at, argv + at, typed, first)))
            return rc;
        words[(*count)++] = (struct het_words){ *first, argv + at };
        if (*first >= argc - at || strcmp(argv[at + *first], ":") || strcmp(argv[at + *first - 1], "--") == 0)
            break;
        at += *first;
    }
    words[*count - 1].argc = argc - at;         /* the last one has the command behind its options */
    return 0;
}

void het_cut_programs(struct request *r, int argc, char **argv, struct het_words **out, size_t *count)
{
    struct het_words *words = arena_alloc(&r->arena, (size_t)(argc + 1) * sizeof *words);
    int from = 0;

    *out = words;
    *count = 0;
    for (int i = 1; i <= argc; i++)
        if (i == argc || (strcmp(argv[i], ":") == 0 && i + 1 < argc)) {
            words[(*count)++] = (struct het_words){ i - from, argv + from };
            from = i;
        }
}

static bool is_cut(const struct directive *d) { return strcmp(d->argv[0], "hetjob") == 0 || strcmp(d->argv[0], "packjob") == 0; }

size_t het_script_count(const struct directives *d)
{
    size_t n = 1;

    for (size_t i = 0; i < d->count; i++)
        n += is_cut(&d->rows[i]);
    return n;
}

void het_script_rows(const struct directives *d, size_t k, const struct directive **rows, size_t *count)
{
    size_t i = 0;

    *rows = NULL;
    *count = 0;
    for (size_t at = 0; at < k; i++) {
        if (i == d->count)
            return;
        at += is_cut(&d->rows[i]);
    }
    *rows = &d->rows[i];
    while (i < d->count && !is_cut(&d->rows[i])) {
        i++;
        (*count)++;
    }
}

/* ---- what is handed on ---- */

static const char *const handed_on[] = {        /* fields of the record */
    "account", "begin_wall_s", "comment", "deadline_wall_s", "dependency", "distribution", "std_err", "std_in", "std_out", "exc_nodes", "hold", "immediate", "name",
    "requeue", "nice", "no_kill", "open_mode", "priority", "qos", "reservation", "time_limit_min", "time_min_min", "wait_all_nodes", "wckey", "work_dir", "reboot",
    "kill_on_invalid_dep", "extra",
};

static bool is_set(const Wire__JobSpec *s, const ProtobufCFieldDescriptor *f)
{
    if (f->type == PROTOBUF_C_TYPE_STRING)
        return *(char *const *)(const void *)((const char *)s + f->offset) != NULL;
    return *(const protobuf_c_boolean *)((const char *)s + f->quantifier_offset);
}

static void field_copy(Wire__JobSpec *to, const Wire__JobSpec *from, const ProtobufCFieldDescriptor *f)
{
    size_t size = f->type == PROTOBUF_C_TYPE_STRING ? sizeof(char *) : f->type == PROTOBUF_C_TYPE_INT64 || f->type == PROTOBUF_C_TYPE_UINT64 ? 8 :
                  f->type == PROTOBUF_C_TYPE_BOOL ? sizeof(protobuf_c_boolean) : 4;

    memcpy((char *)to + f->offset, (const char *)from + f->offset, size);
    if (f->type != PROTOBUF_C_TYPE_STRING)
        *(protobuf_c_boolean *)((char *)to + f->quantifier_offset) = true;
}

#define TAKE(field) do { if (!r->field) r->field = before->field; } while (0)

void request_inherit(struct request *r, const struct request *before)
{
    for (size_t i = 0; i < sizeof handed_on / sizeof *handed_on; i++) {
        const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field_by_name(&wire__job_spec__descriptor, handed_on[i]);

        if (!is_set(&r->spec, f) && is_set(&before->spec, f))
            field_copy(&r->spec, &before->spec, f);
    }
    if (!r->spec.signal && before->spec.signal) {
        r->spec.signal = before->spec.signal;
        r->spec.has_warn_signal = before->spec.has_warn_signal;
        r->spec.warn_signal = before->spec.warn_signal;
        r->spec.has_warn_time_s = before->spec.has_warn_time_s;
        r->spec.warn_time_s = before->spec.warn_time_s;
        r->spec.has_warn_flags = before->spec.has_warn_flags;
        r->spec.warn_flags = before->spec.warn_flags;
    }
    if (r->mem_rank == RANK_NOBODY && r->mem_cpu_rank == RANK_NOBODY && r->mem_gpu_rank == RANK_NOBODY && before->mem_rank > before->mem_cpu_rank &&
        before->mem_rank > before->mem_gpu_rank) {
        r->mem_rank = before->mem_rank;
        r->spec.mem_per_node_mib = before->spec.mem_per_node_mib;
    }
    if (r->immediate_s < 0)
        r->immediate_s = before->immediate_s;
    TAKE(clusters); TAKE(export); TAKE(export_file); TAKE(get_user_env); TAKE(propagate); TAKE(step_out); TAKE(step_err); TAKE(step_in); TAKE(mpi);
    TAKE(prolog); TAKE(epilog); TAKE(task_prolog); TAKE(task_epilog); TAKE(login_env); TAKE(quiet); TAKE(parsable); TAKE(wait); TAKE(test_only);
    TAKE(label); TAKE(unbuffered); TAKE(quit_on_interrupt); TAKE(disable_status); TAKE(pty); TAKE(preserve_env);
    if (!r->has_kill_on_bad_exit) {
        r->has_kill_on_bad_exit = before->has_kill_on_bad_exit;
        r->kill_on_bad_exit = before->kill_on_bad_exit;
    }
    if (!r->has_wait_s) {
        r->has_wait_s = before->has_wait_s;
        r->wait_s = before->wait_s;
    }
}

/* ---- the environment of one component ---- */

static char **environ_before;
static char ***environ_made; static size_t environ_count;      /* all that were made: values that options have borrowed live as long as the process */

/* Length of NAME in "NAME_HET_GROUP_3=...", and the group; 0: no such variable. */
static size_t group_of(const char *var, uint32_t *group)
{
    static const char mark[] = "_HET_GROUP_";
    const char *eq = strchr(var, '='), *at = strstr(var, mark);
    const char *digits = at ? at + sizeof mark - 1 : NULL;
    uint64_t n = 0;

    if (!eq || !at || at > eq || digits == eq)
        return 0;
    for (; digits < eq; digits++) {
        if (*digits < '0' || *digits > '9' || n > HET_MAX)
            return 0;
        n = 10 * n + (uint64_t)(*digits - '0');
    }
    *group = (uint32_t)n;
    return (size_t)(at - var);
}

/* Does some component have a value of its own for this variable? */
static bool is_grouped(const char *var)
{
    size_t n = strcspn(var, "=");
    uint32_t group;

    for (char **v = environ_before; *v; v++)
        if (group_of(*v, &group) == n && strncmp(*v, var, n) == 0)
            return true;
    return false;
}

void het_environ_enter(uint32_t group)
{
    size_t n = 0, kept = 0;
    char **vars;

    for (char **v = environ; *v; v++)
        n++;
    vars = mem_array(2 * n + 1, sizeof *vars);
    environ_before = environ;
    for (size_t i = 0; i < n; i++) {
        const char *var = environ_before[i];
        uint32_t its = 0;
        size_t len = group_of(var, &its);
        struct str text;

        if (len && its == group) {
            str_init(&text);
            str_add_n(&text, var, len);
            str_add(&text, strchr(var, '='));
            vars[kept++] = str_take(&text);
            str_fini(&text);
        } else if (len || !is_grouped(var)) {
            vars[kept++] = mem_copy(var);
        }
    }
    environ = vars;
    environ_made = mem_grow(environ_made, environ_count + 1, sizeof *environ_made);
    environ_made[environ_count++] = vars;
}

void het_environ_leave(void)
{
    environ = environ_before;
    environ_before = NULL;
}

int het_groups_parse(struct request *r, const char *text, uint32_t **groups, size_t *count, struct spur_error *err)
{
    struct bitmap set;
    struct spur_error why;

    bitmap_init(&set, HET_MAX);
    *groups = arena_alloc(&r->arena, HET_MAX * sizeof **groups);
    *count = 0;
    if (bitmap_parse(&set, text, &why) < 0 || bitmap_empty(&set)) {
        bitmap_fini(&set);
        return spur_fail(err, SPUR_EINVAL, "--het-group=%.60s: not a list of components, as in 0 or 0,2-4 (below %u)", text, HET_MAX);
    }
    for (size_t i = bitmap_first(&set); i < set.bits; i = bitmap_next(&set, i))
        (*groups)[(*count)++] = (uint32_t)i;
    bitmap_fini(&set);
    return 0;
}
