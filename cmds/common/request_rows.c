/* SPDX-License-Identifier: Apache-2.0 */
/* request_rows.c - the one table of job and step options; see request.h.
 *
 * A row says who accepts it (B sbatch, R srun, A salloc) and which suffix its environment twin has: SBATCH_x, SLURM_x for srun, SALLOC_x.
 * Sentences are Slurm's, with the offending value behind them. Numbers that are none exit 1, other bad values 255, as Slurm's
 * commands do: the code SPUR_EINVAL says the former.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/duration.h"
#include "base/hostlist.h"
#include "base/str.h"
#include "cmds/common/request.h"
#include "cmds/common/signals.h"
#include "state/bind.h"

#define R ((struct request *)request)
#define MAYBE __attribute__((unused))
#define TAKE(name) static int take_##name(MAYBE void *request, MAYBE const char *value, MAYBE enum option_source from, MAYBE struct spur_error *err)
#define TEXT_OF(value) ((char *)(uintptr_t)(value))

static enum request_rank rank_of(enum option_source from)
{
    return from == FROM_COMMAND_LINE ? RANK_OF_COMMAND_LINE : from == FROM_ENVIRONMENT ? RANK_OF_ENVIRONMENT : RANK_OF_SCRIPT;
}

static int invalid(const char *option, const char *value, struct spur_error *err)
{
    return spur_fail(err, SPUR_ESYNTAX, "Invalid --%s specification: \"%.80s\"", option, value);
}

static int unsupported(const char *option, const char *value, struct spur_error *err)
{
    return spur_fail(err, SPUR_EUNSUPPORTED, "not supported yet: --%s=%.80s", option, value);
}

static int positive(const char *option, const char *value, uint32_t most, uint32_t *out, struct spur_error *err)
{
    uint64_t n;

    if (!number_u64(value, &n) || n == 0 || n > most)
        return spur_fail(err, SPUR_EINVAL, "Invalid numeric value \"%.80s\" for --%s.", value, option);
    *out = (uint32_t)n;
    return 0;
}

#define TAKE_TEXT(name, field)    TAKE(name) { R->field = TEXT_OF(value); return 0; }
#define TAKE_FLAG(name, field)    TAKE(name) { R->field = true; return 0; }
#define TAKE_BIT(name, field)     TAKE(name) { R->spec.has_##field = R->spec.field = true; return 0; }
#define TAKE_NUMBER(name, option, field) \
    TAKE(name) { int rc; if ((rc = positive(option, value, INT32_MAX, &R->spec.field, err)) == 0) R->spec.has_##field = true; return rc; }

TAKE_TEXT(account, spec.account)
TAKE_TEXT(array, spec.array)
TAKE_TEXT(clusters, clusters)
TAKE_TEXT(comment, spec.comment)
TAKE_TEXT(constraint, spec.features)
TAKE_TEXT(dependency, spec.dependency)
TAKE_TEXT(export, export)
TAKE_TEXT(export_file, export_file)
TAKE_TEXT(extra, spec.extra)
TAKE_TEXT(job_name, spec.name)
TAKE_TEXT(licenses, spec.licenses)
TAKE_TEXT(mail_user, spec.mail_user)
TAKE_TEXT(prefer, spec.prefer)
TAKE_TEXT(qos, spec.qos)
TAKE_TEXT(reservation, spec.reservation)
TAKE_TEXT(wckey, spec.wckey)
TAKE_TEXT(wrap, wrap)
TAKE_TEXT(nodefile, nodefile)
TAKE_FLAG(parsable, parsable)
TAKE_FLAG(quiet, quiet)
TAKE_FLAG(test_only, test_only)
TAKE_FLAG(wait_end, wait)
TAKE_FLAG(ignore_pbs, ignore_pbs)
TAKE_BIT(contiguous, contiguous)
TAKE_BIT(hold, hold)
TAKE_BIT(overcommit, overcommit)
TAKE_BIT(spread, spread)
TAKE_NUMBER(cpus_per_gpu, "cpus-per-gpu", cpus_per_gpu)
TAKE_NUMBER(cpus_per_task, "cpus-per-task", cpus_per_task)
TAKE_NUMBER(mincpus, "mincpus", min_cpus_node)
TAKE_NUMBER(ntasks_per_core, "ntasks-per-core", ntasks_per_core)
TAKE_NUMBER(ntasks_per_gpu, "ntasks-per-gpu", ntasks_per_gpu)
TAKE_NUMBER(ntasks_per_socket, "ntasks-per-socket", ntasks_per_socket)
TAKE_NUMBER(sockets_per_node, "sockets-per-node", sockets_per_node)
TAKE_NUMBER(cores_per_socket, "cores-per-socket", cores_per_socket)
TAKE_NUMBER(threads_per_core, "threads-per-core", threads_per_core)
TAKE_NUMBER(segment, "segment", segment)
TAKE_NUMBER(spares, "spares", spares)

TAKE(partition)
{
    if (!*value)                /* an empty variable of a script, most likely: the default partition is not what was meant */
        return spur_fail(err, SPUR_EINVAL, "invalid partition specified: (null)");
    R->spec.partition = TEXT_OF(value);
    return 0;
}

TAKE(verbose) { R->verbose++; return 0; }

TAKE(debug)     /* SBATCH_DEBUG, SLURM_DEBUG: 0, 1 or more */
{
    uint32_t n;

    if (number_u32(value, &n))
        R->verbose = n;
    return 0;
}

/* ---- counts ---------------------------------------------------------------------------------------------------------------------- */

TAKE(ntasks)
{
    int rc = positive("ntasks", value, INT32_MAX, &R->spec.ntasks, err);

    if (rc == 0) {
        R->spec.has_ntasks = true;
        R->ntasks_rank = rank_of(from);
    }
    return rc;
}

TAKE(ntasks_per_node)
{
    int rc = positive("ntasks-per-node", value, INT32_MAX, &R->spec.ntasks_per_node, err);

    if (rc == 0) {
        R->spec.has_ntasks_per_node = true;
        R->per_node_rank = rank_of(from);
    }
    return rc;
}

static bool node_count(const char **at, uint32_t *out)
{
    uint64_t n;

    if (!number_at(at, &n))
        return false;
    if (**at == 'k' || **at == 'K')
        n *= 1024, ++*at;
    else if (**at == 'm' || **at == 'M')
        n *= 1048576, ++*at;
    if (n == 0 || n > INT32_MAX)
        return false;
    *out = (uint32_t)n;
    return true;
}

int nodes_option_parse(const char *text, uint32_t *min, uint32_t *max, bool *has_max, struct spur_error *err)
{
    const char *at = text;

    *has_max = true;
    if (!node_count(&at, min))
        return spur_fail(err, SPUR_ESYNTAX, "\"%.80s\" is not a valid node count", text);
    *max = *min;
    if (*at == '-') {
        at++;
        if (!node_count(&at, max))
            return spur_fail(err, SPUR_ESYNTAX, "\"%.80s\" is not a valid node count", text);
    }
    if (*at)
        return spur_fail(err, SPUR_ESYNTAX, "\"%.80s\" is not a valid node count", text);
    if (*max < *min)
        return spur_fail(err, SPUR_ESYNTAX, "Maximum node count %u is less than minimum node count %u", *max, *min);
    return 0;
}

TAKE(nodes)
{
    bool has_max;
    int rc = nodes_option_parse(value, &R->spec.min_nodes, &R->spec.max_nodes, &has_max, err);

    if (rc == 0) {
        R->spec.has_min_nodes = true;
        R->spec.has_max_nodes = has_max;
        R->nodes_rank = rank_of(from);
    }
    return rc;
}

TAKE(extra_node_info)      /* -B sockets[:cores[:threads]], "*" for any */
{
    static const char *const names[] = { "first", "second", "third" };
    char *copy = arena_copy(&R->arena, value), *at = copy;
    uint32_t n;

    for (int i = 0; i < 3 && at; i++) {
        char *part = at, *colon = strchr(at, ':');

        at = colon ? colon + 1 : NULL;
        if (colon)
            *colon = '\0';
        if (strcmp(part, "*") == 0)
            continue;
        if (!number_u32(part, &n) || n == 0 || (i == 2 && colon))
            return spur_fail(err, SPUR_EINVAL, "Invalid numeric value \"%.80s\" for %s arg of -B.", part, names[i]);
        if (i == 0)
            R->spec.has_sockets_per_node = true, R->spec.sockets_per_node = n;
        else if (i == 1)
            R->spec.has_cores_per_socket = true, R->spec.cores_per_socket = n;
        else
            R->spec.has_threads_per_core = true, R->spec.threads_per_core = n;
    }
    return 0;
}

/* ---- memory ---------------------------------------------------------------------------------------------------------------------- */

static int memory(const char *option, const char *value, uint64_t *out, struct spur_error *err)
{
    return mebibytes_parse(value, out, NULL) < 0 ? invalid(option, value, err) : 0;
}

TAKE(mem)
{
    int rc = memory("mem", value, &R->spec.mem_per_node_mib, err);

    R->mem_rank = rank_of(from);
    return rc;
}
TAKE(mem_per_cpu)
{
    int rc = memory("mem-per-cpu", value, &R->spec.mem_per_cpu_mib, err);

    R->mem_cpu_rank = rank_of(from);
    return rc;
}
TAKE(mem_per_gpu)
{
    int rc = memory("mem-per-gpu", value, &R->spec.mem_per_gpu_mib, err);

    R->mem_gpu_rank = rank_of(from);
    return rc;
}
TAKE(tmp)
{
    R->spec.has_tmp_mib = true;
    return memory("tmp", value, &R->spec.tmp_mib, err);
}

/* ---- generic resources ------------------------------------------------------------------------------------------------------------- */

static bool gres_item_ok(const char *item, bool is_gpu)
{
    const char *last = strrchr(item, ':');
    uint64_t n;

    if (!*item || *item == ':' || strspn(item, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:+") != strlen(item))
        return false;
    if (is_gpu)                             /* [type:]number */
        return count_parse(last ? last + 1 : item, &n, NULL) == 0 && (!last || strchr(item, ':') == last);
    for (const char *p = item, *colon; (colon = strchr(p, ':')); p = colon + 1)
        if (colon[1] == ':' || colon[1] == '\0')
            return false;
    if (!last)
        return true;                        /* a name alone: one of it */
    if (strchr(item, ':') != last && strchr(strchr(item, ':') + 1, ':') != last)
        return false;
    return count_parse(last + 1, &n, NULL) == 0 || !is_digit(last[1]);
}

/* "gpu:a100:4,shard:2" -> "gres:gpu:a100:4,gres:shard:2"; gpus: "a100:2" -> "gres:gpu:a100:2". NULL when it cannot be one. */
static char *gres_list(struct request *r, const char *value, bool is_gpu)
{
    char *copy = arena_copy(&r->arena, value), *cursor = copy, *item, *out;
    struct str text;

    str_init(&text);
    while ((item = word_next(&cursor, ","))) {
        if (strncmp(item, "gres:", 5) == 0 || strncmp(item, "gres/", 5) == 0)
            item += 5;
        if (!gres_item_ok(item, is_gpu)) {
            str_fini(&text);
            return NULL;
        }
        str_addf(&text, "%sgres:%s%s", text.len ? "," : "", is_gpu ? "gpu:" : "", item);
    }
    out = text.len ? arena_copy(&r->arena, text.text) : NULL;
    str_fini(&text);
    return out;
}

static int gres(struct request *r, const char *option, const char *value, bool is_gpu, char **out, struct spur_error *err)
{
    char *list = gres_list(r, value, is_gpu);

    if (!list)
        return spur_fail(err, SPUR_EINVAL, "Invalid generic resource (gres) specification: --%s=%.80s", option, value);
    *out = list;
    return 0;
}

TAKE(gres)
{
    char *list = NULL;
    int rc;

    if (strcasecmp(value, "none") == 0) {
        R->gres = NULL;
        R->gres_none = true;
        return 0;
    }
    if ((rc = gres(R, "gres", value, false, &list, err)) == 0)
        R->gres = list, R->gres_none = false;
    return rc;
}
TAKE(gpus) { return gres(R, "gpus", value, true, &R->spec.tres_per_job, err); }
TAKE(gpus_per_socket) { return gres(R, "gpus-per-socket", value, true, &R->spec.tres_per_socket, err); }
TAKE(gpus_per_task) { return gres(R, "gpus-per-task", value, true, &R->spec.tres_per_task, err); }
TAKE(gpus_per_node)
{
    char *list = NULL;
    int rc = gres(R, "gpus-per-node", value, true, &list, err);

    if (rc == 0)
        R->gpus_per_node = list;
    return rc;
}

TAKE(tres_per_task)     /* cpu=4,gres/gpu:1 or gres/gpu=1 */
{
    char *copy = arena_copy(&R->arena, value), *cursor = copy, *item, *list = NULL;
    struct str text;
    int rc = 0;

    str_init(&text);
    while (rc == 0 && (item = word_next(&cursor, ","))) {
        uint32_t n;

        if (word_starts(item, "cpu=") || word_starts(item, "cpu:")) {
            if (!number_u32(item + 4, &n) || n == 0)
                rc = invalid("tres-per-task", value, err);
            R->spec.has_cpus_per_task = true;
            R->spec.cpus_per_task = n;
        } else if (word_starts(item, "gres/") || word_starts(item, "gres:")) {
            char *eq = strchr(item, '=');

            if (eq)
                *eq = ':';
            str_addf(&text, "%s%s", text.len ? "," : "", item + 5);
        } else {
            rc = invalid("tres-per-task", value, err);
        }
    }
    if (rc == 0 && text.len && (rc = gres(R, "tres-per-task", text.text, false, &list, err)) == 0)
        R->spec.tres_per_task = list;
    str_fini(&text);
    return rc;
}

/* ---- times ------------------------------------------------------------------------------------------------------------------------- */

TAKE(time)
{
    uint32_t minutes;

    if (minutes_parse(value, &minutes, NULL) < 0)
        return invalid("time", value, err);
    R->spec.has_time_limit_min = true;
    R->spec.time_limit_min = minutes ? minutes : MINUTES_UNLIMITED;
    return 0;
}

static int64_t now_s(struct request *r)
{
    if (!r->now_s)
        r->now_s = (int64_t)time(NULL);
    return r->now_s;
}

TAKE(begin)
{
    if (moment_parse(value, now_s(R), &R->spec.begin_wall_s, NULL) < 0)
        return invalid("begin", value, err);
    R->spec.has_begin_wall_s = true;
    return 0;
}
TAKE(deadline)
{
    if (moment_parse(value, now_s(R), &R->spec.deadline_wall_s, NULL) < 0)
        return invalid("deadline", value, err);
    R->spec.has_deadline_wall_s = true;
    return 0;
}

int signal_option_parse(const char *text, uint32_t *signal, uint32_t *time_s, uint32_t *flags, struct spur_error *err)
{
    const char *at = text, *colon = strchr(text, ':');
    char name[32];
    size_t n;
    int number;

    *flags = 0;
    *time_s = 60;
    if (colon) {
        for (; at < colon; at++)
            if ((*at == 'B' || *at == 'b') && !(*flags & 1))
                *flags |= 1;
            else if ((*at == 'R' || *at == 'r') && !(*flags & 2))
                *flags |= 2;
            else
                return invalid("signal", text, err);
        at++;
    }
    n = strcspn(at, "@");
    if (n == 0 || n >= sizeof name)
        return invalid("signal", text, err);
    memcpy(name, at, n);
    name[n] = '\0';
    if ((number = signal_parse(name)) <= 0)
        return invalid("signal", text, err);
    *signal = (uint32_t)number;
    if (at[n] == '@' && (!number_u32(at + n + 1, time_s) || *time_s > 65535))
        return invalid("signal", text, err);
    return 0;
}

TAKE(signal)
{
    int rc = signal_option_parse(value, &R->spec.warn_signal, &R->spec.warn_time_s, &R->spec.warn_flags, err);

    if (rc == 0 && R->spec.warn_flags & 2)
        return spur_fail(err, SPUR_EINVAL, "not supported yet: --signal=%.40s: R: is about reservations, which this version has not", value);
    if (rc == 0) {
        R->spec.signal = TEXT_OF(value);
        R->spec.has_warn_signal = R->spec.has_warn_time_s = R->spec.has_warn_flags = true;
    }
    return rc;
}

/* ---- order in the queue ------------------------------------------------------------------------------------------------------------- */

TAKE(nice)
{
    int64_t n = 100;

    if (value && (!number_i64(value, &n) || n > 2147483645 || n < -2147483645))
        return invalid("nice", value, err);
    R->spec.has_nice = true;
    R->spec.nice = (int32_t)n;
    return 0;
}

TAKE(priority)
{
    uint32_t n;

    if (word_eq(value, "TOP"))
        return unsupported("priority", value, err);
    if (!number_u32(value, &n) || n >= UINT32_MAX - 1)
        return invalid("priority", value, err);
    R->spec.has_priority = true;
    R->spec.priority = n;
    return 0;
}

TAKE(requeue) { R->spec.has_requeue = R->spec.requeue = true; return 0; }
TAKE(no_requeue) { R->spec.has_requeue = true; R->spec.requeue = false; return 0; }

TAKE(kill_on_invalid_dep)
{
    if (!word_eq(value, "yes") && !word_eq(value, "no"))
        return invalid("kill-on-invalid-dep", value, err);
    R->spec.has_kill_on_invalid_dep = true;
    R->spec.kill_on_invalid_dep = word_eq(value, "yes");
    return 0;
}

TAKE(exclusive)
{
    if (value && (word_eq(value, "user") || word_eq(value, "mcs")))
        return unsupported("exclusive", value, err);
    if (value && !word_eq(value, "exclusive") && !word_eq(value, "topo"))
        return invalid("exclusive", value, err);
    R->spec.exclusive = value && word_eq(value, "topo") ? TEXT_OF("topo") : TEXT_OF("exclusive");
    R->exclusive_rank = rank_of(from);
    return 0;
}
TAKE(oversubscribe) { R->spec.exclusive = TEXT_OF("oversubscribe"); return 0; }

TAKE(switches)          /* N[@max-time] */
{
    char *copy = arena_copy(&R->arena, value), *at = strchr(copy, '@');
    int rc;

    if (at) {
        *at++ = '\0';
        if (seconds_parse(at, &R->spec.switch_wait_s, err) < 0 || R->spec.switch_wait_s == MINUTES_UNLIMITED)
            return invalid("switches", value, err);
        R->spec.has_switch_wait_s = true;
    }
    if ((rc = positive("switches", copy, INT32_MAX, &R->spec.switches, err)) == 0)
        R->spec.has_switches = true;
    return rc;
}

TAKE(gres_flags)
{
    char *copy = arena_copy(&R->arena, value), *word;

    while ((word = word_next(&copy, ",")))
        if (!word_eq(word, "enforce-binding") && !word_eq(word, "disable-binding"))
            return word_eq(word, "allow-task-sharing") || word_eq(word, "multiple-tasks-per-sharing") || word_eq(word, "one-task-per-sharing")
                   ? unsupported("gres-flags", word, err) : invalid("gres-flags", value, err);
    R->spec.gres_flags = TEXT_OF(value);
    return 0;
}

TAKE(no_kill)
{
    if (value && !word_eq(value, "off") && !word_eq(value, "no") && !word_eq(value, "set") && !word_eq(value, "yes") && strcmp(value, "1"))
        return invalid("no-kill", value, err);
    R->spec.has_no_kill = R->spec.no_kill = !value || (!word_eq(value, "off") && !word_eq(value, "no"));
    return 0;
}

TAKE(wait_all_nodes)    /* nodes are up before a job starts: both values are met */
{
    if (strcmp(value, "0") && strcmp(value, "1"))
        return invalid("wait-all-nodes", value, err);
    R->spec.has_wait_all_nodes = true;
    R->spec.wait_all_nodes = value[0] == '1';
    return 0;
}

TAKE(mail_type)
{
    if (word_eq(value, "NONE"))
        return 0;
    return unsupported("mail-type", value, err);
}

TAKE(profile)
{
    return word_eq(value, "none") ? 0 : unsupported("profile", value, err);
}

/* ---- places ------------------------------------------------------------------------------------------------------------------------- */

/* A list of nodes, or, with a slash in it, the file that holds one: words apart by commas, blanks or lines, # to the end of the line.
 * The record has each node once, in order and in ranges: equal sets read alike. */
static int node_list(struct request *r, const char *option, const char *value, char **out, struct spur_error *err)
{
    struct hostlist *h = NULL;
    struct spur_error why = { 0 };
    struct str text;
    const char *list = value;

    if (strchr(value, '/') && !(list = request_node_file(r, value, err)))
        return err->code;
    if (hostlist_parse(list, &h, &why) < 0)
        return spur_fail(err, SPUR_ESYNTAX, "Invalid --%s specification: %s", option, why.text);
    hostlist_uniq(h);
    str_init(&text);
    hostlist_print(h, &text);
    *out = text.len ? arena_copy(&r->arena, text.text) : TEXT_OF("");
    str_fini(&text);
    hostlist_destroy(h);
    return 0;
}
TAKE(nodelist)
{
    R->nodes_written = value;
    return node_list(R, "nodelist", value, &R->spec.req_nodes, err);
}
TAKE(exclude) { return node_list(R, "exclude", value, &R->spec.exc_nodes, err); }
TAKE_TEXT(chdir, spec.work_dir)
TAKE_TEXT(output, spec.std_out)
TAKE_TEXT(error, spec.std_err)
TAKE(input) { R->spec.std_in = TEXT_OF(strcmp(value, "none") ? value : "/dev/null"); return 0; }

TAKE(open_mode)
{
    if (word_eq(value, "append") || word_eq(value, "a"))
        R->spec.open_mode = TEXT_OF("append");
    else if (word_eq(value, "truncate") || word_eq(value, "t"))
        R->spec.open_mode = TEXT_OF("truncate");
    else
        return invalid("open-mode", value, err);
    return 0;
}

TAKE(get_user_env)
{
    if (value) {
        const char *at = value;
        uint64_t n;

        if (is_digit(*at) && !number_at(&at, &n))
            return invalid("get-user-env", value, err);
        if (*at && ((*at != 'S' && *at != 's' && *at != 'L' && *at != 'l') || at[1]))
            return invalid("get-user-env", value, err);
    }
    R->get_user_env = value ? value : "";
    return 0;
}

TAKE_TEXT(prolog, prolog)
TAKE_TEXT(epilog, epilog)
TAKE(task_prolog) { R->task_prolog = request_path(R, value); return 0; }
TAKE(het_group) { R->het_group = value; return 0; }
TAKE(task_epilog) { R->task_epilog = request_path(R, value); return 0; }

TAKE(propagate)
{
    R->propagate = value ? value : "ALL";
    R->spec.has_propagate_set = R->spec.propagate_set = true;
    return request_propagate_check(R->propagate, err);
}

/* ---- layout -------------------------------------------------------------------------------------------------------------------------- */

static int bind_taken(struct request *r, const char *tres, const char *gpu)
{
    r->spec.tres_bind = arena_copy(&r->arena, tres);
    r->step.gpu_bind = arena_copy(&r->arena, gpu);
    return 0;
}

TAKE(gpu_bind)
{
    struct bind b;

    if (bind_parse(value, &b, err) < 0)
        return spur_context(err, "--gpu-bind");
    bind_fini(&b);
    return bind_taken(R, arena_printf(&R->arena, "gres/gpu:%s", value), value);
}

TAKE(tres_bind)
{
    struct bind b;

    if (bind_parse_tres(value, &b, err) < 0)
        return spur_context(err, "--tres-bind");
    bind_fini(&b);
    return bind_taken(R, value, strchr(value, ':') + 1);
}

/* ---- srun's own ------------------------------------------------------------------------------------------------------------------------ */

TAKE_FLAG(label, label)
TAKE_FLAG(unbuffered, unbuffered)
TAKE_FLAG(exact, exact)
TAKE_FLAG(whole, whole)
TAKE_FLAG(disable_status, disable_status)
TAKE_FLAG(quit_on_interrupt, quit_on_interrupt)
TAKE_TEXT(step_output, step_out)
TAKE_TEXT(step_error, step_err)
TAKE_TEXT(step_input, step_in)

TAKE(overlap)
{
   
    R->overlap = true;
    return 0;
}

TAKE(jobid)
{
    if (!number_u32(value, &R->job_id) || R->job_id == 0)
        return spur_fail(err, SPUR_EINVAL, "Invalid numeric value \"%.80s\" for --jobid.", value);
    R->has_job_id = true;
    return 0;
}

TAKE(kill_on_bad_exit)
{
    if (value && strcmp(value, "0") && strcmp(value, "1"))
        return spur_fail(err, SPUR_EINVAL, "Invalid numeric value \"%.80s\" for --kill-on-bad-exit.", value);
    R->kill_on_bad_exit = !value || value[0] == '1';
    R->has_kill_on_bad_exit = true;
    return 0;
}

TAKE(wait_tasks)
{
    if (!number_u32(value, &R->wait_s) || R->wait_s > INT32_MAX)
        return spur_fail(err, SPUR_EINVAL, "Invalid numeric value \"%.80s\" for --wait.", value);
    R->has_wait_s = true;
    return 0;
}

TAKE(relative)
{
    if (!number_u32(value, &R->relative))
        return spur_fail(err, SPUR_EINVAL, "Invalid numeric value \"%.80s\" for --relative.", value);
    R->has_relative = true;
    return 0;
}

TAKE(mpi)
{
    (void)err;
    R->mpi = value;         /* srun asks the loader what it means */
    return 0;
}

TAKE(immediate)
{
    uint32_t n = 0;

    if (value && !number_u32(value, &n))
        return spur_fail(err, SPUR_EINVAL, "Invalid numeric value \"%.80s\" for --immediate.", value);
    R->immediate_s = n > INT32_MAX ? INT32_MAX : (int)n;
    return 0;
}

TAKE(threads)           /* -T: threads of srun itself; it has one whatever is asked */
{
    uint32_t n;

    return positive("threads", value, INT32_MAX, &n, err);
}

TAKE_FLAG(no_shell, no_shell)
TAKE_FLAG(pty, pty)
TAKE_FLAG(interactive, interactive)
TAKE_FLAG(preserve_env, preserve_env)
TAKE(bell) { R->bell = BELL_ALWAYS; return 0; }
TAKE(no_bell) { R->bell = BELL_NEVER; return 0; }

TAKE(kill_command)
{
    int signal = value ? signal_parse(value) : SIGTERM;

    if (signal <= 0)
        return invalid("kill-command", value, err);
    R->has_kill_command = true;
    R->kill_command = signal;
    return 0;
}

/* ---- the table ------------------------------------------------------------------------------------------------------------------------- */

#define B REQUEST_SBATCH
#define A REQUEST_SALLOC
#define S REQUEST_SRUN

/* Suffixes of the twin: "X" is SBATCH_X, SALLOC_X and SLURM_X; a word with a prefix is taken as it stands, for `only`. */
struct request_row { unsigned who; const char *twin_b, *twin_s; struct option_row row; };
#define ROW(who, name, letter, argument, word, twin_b, twin_s, take, help) { who, twin_b, twin_s, { name, letter, argument, word, NULL, take, help } }
#define NONE OPTION_NONE
#define VALUE OPTION_VALUE
#define MAY OPTION_MAY

static const struct request_row rows[] = {
    ROW(B|A|S, "account", 'A', VALUE, "NAME", "SBATCH_ACCOUNT", "SLURM_ACCOUNT", take_account, "charge this account"),
    ROW(B, "array", 'a', VALUE, "TASKS", "SBATCH_ARRAY_INX", NULL, take_array, "an array of jobs: 0-15, 0,6,16-32, 0-99:2%5"),
    ROW(B|A|S, "begin", 'b', VALUE, "TIME", NULL, NULL, take_begin, "start no earlier than this: 16:00, now+1hour, 2027-01-20T12:34:00"),
    ROW(B|A|S, "chdir", 'D', VALUE, "DIR", NULL, "SLURM_REMOTE_CWD SLURM_WORKING_DIR", take_chdir, "work directory of the job"),
    ROW(B|A|S, "clusters", 'M', VALUE, "NAMES", "SBATCH_CLUSTERS SLURM_CLUSTERS", "SLURM_CLUSTERS", take_clusters, "cluster to send the job to (this one)"),
    ROW(B|A|S, "cluster", 0, VALUE, "NAMES", NULL, NULL, take_clusters, NULL),
    ROW(B|A|S, "comment", 0, VALUE, "TEXT", NULL, NULL, take_comment, "a comment, shown with the job"),
    ROW(B|A|S, "constraint", 'C', VALUE, "FEATURES", "SBATCH_CONSTRAINT", "SLURM_CONSTRAINT", take_constraint, "features the nodes must have: a100&ib, x|y, [r1|r2]"),
    ROW(B|A|S, "contiguous", 0, NONE, NULL, NULL, NULL, take_contiguous, "nodes next to each other"),
    ROW(B|A|S, "cores-per-socket", 0, VALUE, "N", NULL, NULL, take_cores_per_socket, "nodes with at least N cores a socket"),
    ROW(B|A|S, "cpus-per-gpu", 0, VALUE, "N", "SBATCH_CPUS_PER_GPU", "SLURM_CPUS_PER_GPU", take_cpus_per_gpu, "CPUs for each GPU"),
    ROW(B|A|S, "cpus-per-task", 'c', VALUE, "N", NULL, "SRUN_CPUS_PER_TASK", take_cpus_per_task, "CPUs for each task"),
    ROW(B|A|S, "deadline", 0, VALUE, "TIME", NULL, NULL, take_deadline, "remove the job when it cannot end before this"),
    ROW(B|A|S, "dependency", 'd', VALUE, "LIST", NULL, "SLURM_DEPENDENCY", take_dependency, "start after others: afterok:12:13, singleton, afterany:4?afternotok:5"),
    ROW(B|A|S, "distribution", 'm', VALUE, "HOW", "SBATCH_DISTRIBUTION", "SLURM_DISTRIBUTION", request_take_distribution, "how tasks go to nodes, sockets and cores"),
    ROW(B, "error", 'e', VALUE, "FILE", "SBATCH_ERROR", NULL, take_error, "standard error goes to this file (a pattern: %j %A %a %x %N %u ...)"),
    ROW(S, "error", 'e', VALUE, "FILE", NULL, "SLURM_STDERRMODE", take_step_error, "standard error of the tasks"),
    ROW(B|A|S, "exclude", 'x', VALUE, "NODES", NULL, NULL, take_exclude, "none of these nodes"),
    ROW(B|A|S, "exclusive", 0, MAY, "exclusive", "SBATCH_EXCLUSIVE", "SLURM_EXCLUSIVE", take_exclusive, "whole nodes for this job alone; =topo: no other job under its leaf switches or in its blocks"),
    ROW(B|S, "export", 0, VALUE, "LIST", "SBATCH_EXPORT", "SRUN_EXPORT_ENV SLURM_EXPORT_ENV", take_export, "what of the environment goes along: ALL, NONE, NIL, NAME,NAME=value"),
    ROW(B, "export-file", 0, VALUE, "FILE|FD", NULL, NULL, take_export_file, "environment from a file of NAME=value ending in NULs"),
    ROW(B|A|S, "extra", 0, VALUE, "TEXT", NULL, NULL, take_extra, "a text for site programs, shown with the job"),
    ROW(B|A|S, "extra-node-info", 'B', VALUE, "S[:C[:T]]", NULL, NULL, take_extra_node_info, "nodes with at least so many sockets, cores, threads"),
    ROW(B, "get-user-env", 0, MAY, "SECONDS[L|S]", "SBATCH_GET_USER_ENV", NULL, take_get_user_env, "add the variables of a login shell"),
    ROW(B|A|S, "gpu-bind", 0, VALUE, "HOW", "SBATCH_GPU_BIND", "SLURM_GPU_BIND", take_gpu_bind, "GPUs of a task: closest, single:N, per_task:N, map:LIST, mask:LIST, none"),
    ROW(B|A|S, "gpus", 'G', VALUE, "[TYPE:]N", "SBATCH_GPUS", "SLURM_GPUS", take_gpus, "GPUs in all"),
    ROW(B|A|S, "gpus-per-node", 0, VALUE, "[TYPE:]N", "SBATCH_GPUS_PER_NODE", "SLURM_GPUS_PER_NODE", take_gpus_per_node, "GPUs on each node"),
    ROW(B|A|S, "gres-flags", 0, VALUE, "enforce-binding|disable-binding", "SBATCH_GRES_FLAGS", "SLURM_GRES_FLAGS", take_gres_flags, "cores near to the GPUs only, or any"),
    ROW(B|A|S, "gpus-per-socket", 0, VALUE, "[TYPE:]N", NULL, NULL, take_gpus_per_socket, "GPUs on each socket"),
    ROW(B|A|S, "gpus-per-task", 0, VALUE, "[TYPE:]N", "SBATCH_GPUS_PER_TASK", "SLURM_GPUS_PER_TASK", take_gpus_per_task, "GPUs for each task"),
    ROW(B|A|S, "gres", 0, VALUE, "NAME[:TYPE][:N]", "SBATCH_GRES", "SLURM_STEP_GRES SLURM_GRES", take_gres, "generic resources on each node: gpu:4, gpu:a100:2"),
    ROW(B|A|S, "hint", 0, VALUE, "WORD", "SBATCH_HINT SLURM_HINT", "SLURM_HINT", request_take_hint, "compute_bound, memory_bound, multithread or nomultithread"),
    ROW(B|A|S, "hold", 'H', NONE, NULL, NULL, NULL, take_hold, "submit held; `scontrol release` lets it go"),
    ROW(B, "ignore-pbs", 0, NONE, NULL, "SBATCH_IGNORE_PBS", NULL, take_ignore_pbs, "do not look at #PBS and #BSUB lines"),
    ROW(B, "input", 'i', VALUE, "FILE", "SBATCH_INPUT", NULL, take_input, "standard input comes from this file"),
    ROW(S, "input", 'i', VALUE, "all|none|N|FILE", NULL, "SLURM_STDINMODE", take_step_input, "who gets srun's input: all tasks, none, task N, or a file"),
    ROW(A|S, "immediate", 'I', MAY, "SECONDS", "SALLOC_IMMEDIATE", "SLURM_IMMEDIATE", take_immediate, "give up when it cannot start at once, or in time"),
    ROW(B|A|S, "job-name", 'J', VALUE, "NAME", "SBATCH_JOB_NAME", "SLURM_JOB_NAME", take_job_name, "name of the job"),
    ROW(B|A|S, "kill-on-invalid-dep", 0, VALUE, "yes|no", NULL, NULL, take_kill_on_invalid_dep, "end it when its dependency can never be met"),
    ROW(B|A|S, "licenses", 'L', VALUE, "NAMES", NULL, NULL, take_licenses, NULL),
    ROW(B|A|S, "mail-type", 0, VALUE, "NONE", NULL, NULL, take_mail_type, "mail is not sent by this version"),
    ROW(B|A|S, "mail-user", 0, VALUE, "ADDRESS", NULL, NULL, take_mail_user, "address for mail, kept with the job"),
    ROW(B|A|S, "mem", 0, VALUE, "SIZE", "SBATCH_MEM_PER_NODE", "SLURM_MEM_PER_NODE", take_mem, "memory a node: 4000 (MiB), 16G, 0 for all"),
    ROW(B|A|S, "mem-bind", 0, VALUE, "TYPE", "SBATCH_MEM_BIND", "SLURM_MEM_BIND", request_take_mem_bind, "binding of tasks to memory"),
    ROW(B|A|S, "mem-per-cpu", 0, VALUE, "SIZE", "SBATCH_MEM_PER_CPU", "SLURM_MEM_PER_CPU", take_mem_per_cpu, "memory a CPU"),
    ROW(B|A|S, "mem-per-gpu", 0, VALUE, "SIZE", "SBATCH_MEM_PER_GPU", "SLURM_MEM_PER_GPU", take_mem_per_gpu, "memory a GPU"),
    ROW(B|A|S, "mincpus", 0, VALUE, "N", NULL, NULL, take_mincpus, "at least N CPUs on each node"),
    ROW(B|A|S, "nice", 0, MAY, "N", NULL, NULL, take_nice, "lower the priority by N (100)"),
    ROW(B|A|S, "no-kill", 'k', MAY, "off", "SBATCH_NO_KILL", "SLURM_NO_KILL", take_no_kill, "the job outlives the loss of a node; off: it does not"),
    ROW(B|A|S, "nodefile", 'F', VALUE, "FILE", NULL, NULL, take_nodefile, "these nodes, from a file"),
    ROW(B|A|S, "nodelist", 'w', VALUE, "NODES", NULL, NULL, take_nodelist, "these nodes at least"),
    ROW(B|A|S, "nodes", 'N', VALUE, "MIN[-MAX]", NULL, "SLURM_JOB_NUM_NODES SLURM_NNODES", take_nodes, "number of nodes"),
    ROW(B|A|S, "ntasks", 'n', VALUE, "N", NULL, "SLURM_NTASKS SLURM_NPROCS", take_ntasks, "number of tasks"),
    ROW(B|A|S, "ntasks-per-core", 0, VALUE, "N", NULL, "SLURM_NTASKS_PER_CORE", take_ntasks_per_core, "tasks on each core at most"),
    ROW(B|A|S, "ntasks-per-gpu", 0, VALUE, "N", NULL, "SLURM_NTASKS_PER_GPU", take_ntasks_per_gpu, "tasks for each GPU"),
    ROW(B|A|S, "ntasks-per-tres", 0, VALUE, "N", NULL, NULL, take_ntasks_per_gpu, NULL),
    ROW(B|A|S, "ntasks-per-node", 0, VALUE, "N", NULL, "SLURM_NTASKS_PER_NODE", take_ntasks_per_node, "tasks on each node"),
    ROW(B|A|S, "tasks-per-node", 0, VALUE, "N", NULL, NULL, take_ntasks_per_node, NULL),
    ROW(B|A|S, "ntasks-per-socket", 0, VALUE, "N", NULL, "SLURM_NTASKS_PER_SOCKET", take_ntasks_per_socket, "tasks on each socket at most"),
    ROW(B|S, "open-mode", 0, VALUE, "append|truncate", "SBATCH_OPEN_MODE", "SLURM_OPEN_MODE", take_open_mode, "how output files are opened"),
    ROW(B, "output", 'o', VALUE, "FILE", "SBATCH_OUTPUT", NULL, take_output, "standard output goes to this file (slurm-%j.out)"),
    ROW(S, "output", 'o', VALUE, "FILE", NULL, "SLURM_STDOUTMODE", take_step_output, "standard output of the tasks: a file, none, or task N here"),
    ROW(B|A|S, "overcommit", 'O', NONE, NULL, "SBATCH_OVERCOMMIT", "SLURM_OVERCOMMIT", take_overcommit, "more tasks than CPUs"),
    ROW(B|A|S, "oversubscribe", 's', NONE, NULL, NULL, NULL, take_oversubscribe, "may share CPUs with other jobs"),
    ROW(B|A|S, "share", 0, NONE, NULL, NULL, NULL, take_oversubscribe, NULL),
    ROW(B, "parsable", 0, NONE, NULL, NULL, NULL, take_parsable, "print the job id alone (id;cluster with -M)"),
    ROW(B|A|S, "partition", 'p', VALUE, "NAMES", "SBATCH_PARTITION", "SLURM_PARTITION", take_partition, "partition, or a comma list of them"),
    ROW(B|A|S, "prefer", 0, VALUE, "FEATURES", NULL, NULL, take_prefer, "features the nodes should have if possible"),
    ROW(B|A|S, "priority", 0, VALUE, "N", NULL, NULL, take_priority, "fixed priority (operators)"),
    ROW(B|A|S, "profile", 0, VALUE, "none", "SBATCH_PROFILE", "SLURM_PROFILE", take_profile, NULL),
    ROW(B|S, "propagate", 0, MAY, "LIMITS", NULL, NULL, take_propagate, "resource limits that go along: ALL, NONE, NOFILE,CORE,..."),
    ROW(B|A|S, "qos", 'q', VALUE, "NAME", "SBATCH_QOS", "SLURM_QOS", take_qos, "quality of service"),
    ROW(B|A|S, "quiet", 'Q', NONE, NULL, NULL, NULL, take_quiet, "nothing but errors"),
    ROW(B, "requeue", 0, NONE, NULL, "SBATCH_REQUEUE", NULL, take_requeue, "may start again after a node has failed"),
    ROW(B, "no-requeue", 0, NONE, NULL, "SBATCH_NO_REQUEUE", NULL, take_no_requeue, "never start it again"),
    ROW(B|A|S, "reservation", 0, VALUE, "NAME", "SBATCH_RESERVATION", "SLURM_RESERVATION", take_reservation, NULL),
    ROW(B|A|S, "segment", 0, VALUE, "N", NULL, NULL, take_segment, "nodes in groups of N under one leaf switch or in one block"),
    ROW(B|A|S, "signal", 0, VALUE, "[B:]SIG[@SECONDS]", "SBATCH_SIGNAL", "SLURM_SIGNAL", take_signal, "send this signal so long before the time limit (60)"),
    ROW(B|A|S, "sockets-per-node", 0, VALUE, "N", NULL, NULL, take_sockets_per_node, "nodes with at least N sockets"),
    ROW(B|A|S, "spares", 0, VALUE, "N", NULL, NULL, take_spares, "hold N more nodes; one takes the place of a node that fails"),
    ROW(B|A|S, "spread-job", 0, NONE, NULL, "SBATCH_SPREAD_JOB", "SLURM_SPREAD_JOB", take_spread, "on as many nodes as possible"),
    ROW(B|A|S, "switches", 0, VALUE, "N[@TIME]", "SBATCH_REQ_SWITCH", "SLURM_REQ_SWITCH", take_switches, "under at most N leaf switches, waiting for it no longer than TIME"),
    ROW(B|S, "test-only", 0, NONE, NULL, NULL, NULL, take_test_only, "say when it would start; submit nothing"),
    ROW(B|A|S, "threads-per-core", 0, VALUE, "N", "SBATCH_THREADS_PER_CORE", "SLURM_THREADS_PER_CORE", take_threads_per_core, "use at most N threads of each core"),
    ROW(B|A|S, "time", 't', VALUE, "LIMIT", "SBATCH_TIMELIMIT", "SLURM_TIMELIMIT", take_time, "time limit: M, M:S, H:M:S, D-H, D-H:M, D-H:M:S, UNLIMITED"),
    ROW(B|A|S, "tmp", 0, VALUE, "SIZE", NULL, NULL, take_tmp, "nodes with so much temporary disk (TmpDisk)"),
    ROW(B|A|S, "tres-bind", 0, VALUE, "gres/gpu:HOW", "SBATCH_TRES_BIND", "SLURM_TRES_BIND", take_tres_bind, "the same as --gpu-bind=HOW"),
    ROW(B|A|S, "tres-per-task", 0, VALUE, "LIST", NULL, "SLURM_TRES_PER_TASK", take_tres_per_task, "resources of each task: cpu=4,gres/gpu=1"),
    ROW(B|A|S, "verbose", 'v', NONE, NULL, NULL, NULL, take_verbose, "show the record that is asked for"),
    ROW(B|A|S, NULL, 0, VALUE, NULL, "SBATCH_DEBUG", "SLURM_DEBUG", take_debug, NULL),
    ROW(B, "wait", 'W', NONE, NULL, "SBATCH_WAIT", NULL, take_wait_end, "return when the job has ended, with its exit code"),
    ROW(B|A, "wait-all-nodes", 0, VALUE, "0|1", "SBATCH_WAIT_ALL_NODES", NULL, take_wait_all_nodes, "start when all nodes are ready (always so)"),
    ROW(B|A|S, "wckey", 0, VALUE, "NAME", "SBATCH_WCKEY", "SLURM_WCKEY", take_wckey, "workload characterisation key"),
    ROW(B, "wrap", 0, VALUE, "COMMAND", NULL, NULL, take_wrap, "a one-line script of this command"),

    ROW(A, "bell", 0, NONE, NULL, "SALLOC_BELL", NULL, take_bell, "ring the bell when the allocation is there (after 10 s of waiting it rings anyway)"),
    ROW(A, "no-bell", 0, NONE, NULL, "SALLOC_NO_BELL", NULL, take_no_bell, "never ring"),
    ROW(A, "kill-command", 'K', MAY, "SIGNAL", "SALLOC_KILL_CMD", NULL, take_kill_command, "what the command gets when the allocation is revoked (SIGHUP for a shell, else SIGTERM)"),
    ROW(A, "no-shell", 0, NONE, NULL, NULL, NULL, take_no_shell, "run nothing: the job stays until its time limit or scancel"),

    ROW(S, "cpu-bind", 0, VALUE, "TYPE", NULL, "SLURM_CPU_BIND", request_take_cpu_bind, "binding of tasks to CPUs"),
    ROW(S, "cpu_bind", 0, VALUE, NULL, NULL, NULL, request_take_cpu_bind, NULL),
    ROW(S, "disable-status", 'X', NONE, NULL, NULL, "SLURM_DISABLE_STATUS", take_disable_status, "Ctrl-C goes to the tasks at once"),
    ROW(S, "epilog", 0, VALUE, "PROGRAM", NULL, "SLURM_EPILOG", take_epilog, "run here by srun after the step (none: not the site's either)"),
    ROW(S, "exact", 0, NONE, NULL, NULL, "SLURM_EXACT", take_exact, "a step takes only what it asks for"),
    ROW(S, "interactive", 0, NONE, NULL, NULL, NULL, take_interactive, "one task on the first node, beside the other steps: what salloc runs with use_interactive_step"),
    ROW(S, "jobid", 0, VALUE, "ID", NULL, "SLURM_JOB_ID SLURM_JOBID", take_jobid, "a step of this job"),
    ROW(S, "multi-prog", 0, NONE, NULL, NULL, NULL, request_take_multi_prog, "the program argument is a file that names each task's program"),
    ROW(S, "kill-on-bad-exit", 'K', MAY, "0|1", NULL, "SLURM_KILL_BAD_EXIT", take_kill_on_bad_exit, "end the step when a task fails"),
    ROW(S, "label", 'l', NONE, NULL, NULL, "SLURM_LABELIO", take_label, "number of the task in front of each line"),
    ROW(S, "mpi", 0, VALUE, "name|list", NULL, "SLURM_MPI_TYPE", take_mpi, "how MPI is started"),
    ROW(S, "overlap", 0, NONE, NULL, NULL, "SLURM_OVERLAP", take_overlap, "share CPUs with the other steps of the job"),
    ROW(S, "prolog", 0, VALUE, "PROGRAM", NULL, "SLURM_PROLOG", take_prolog, "run here by srun before the step (none: not the site's either)"),
    ROW(S, "quit-on-interrupt", 0, NONE, NULL, NULL, NULL, take_quit_on_interrupt, "one Ctrl-C ends the step"),
    ROW(S, "preserve-env", 'E', NONE, NULL, NULL, NULL, take_preserve_env, "SLURM_NNODES and SLURM_NTASKS of the job stay in the tasks' environment"),
    ROW(S, "pty", 0, NONE, NULL, NULL, NULL, take_pty, "task 0 gets a terminal, this one; the others have no input and output"),
    ROW(S, "het-group", 0, VALUE, "LIST", NULL, NULL, take_het_group, "components of a heterogeneous job: 0, or 0,2-4; the default is the first"),
    ROW(S, "pack-group", 0, VALUE, NULL, NULL, NULL, take_het_group, NULL),
    ROW(S, "relative", 'r', VALUE, "N", NULL, NULL, take_relative, "from node N of the allocation on"),
    ROW(S, "task-epilog", 0, VALUE, "PROGRAM", NULL, "SLURM_TASK_EPILOG", take_task_epilog, "run after each task, as its user"),
    ROW(S, "task-prolog", 0, VALUE, "PROGRAM", NULL, "SLURM_TASK_PROLOG", take_task_prolog, "run before each task, as its user; it may set variables"),
    ROW(S, "threads", 'T', VALUE, "N", NULL, "SLURM_THREADS", take_threads, NULL),
    ROW(S, "unbuffered", 'u', NONE, NULL, NULL, "SLURM_UNBUFFEREDIO", take_unbuffered, "output as it comes, not line by line"),
    ROW(S, "wait", 'W', VALUE, "SECONDS", NULL, "SLURM_WAIT", take_wait_tasks, "end the step so long after its first task has ended"),
    ROW(S, "whole", 0, NONE, NULL, NULL, "SLURM_WHOLE", take_whole, "all CPUs of the job's nodes for the step (the default)"),
};

#define REFUSED_ALL "acctg-freq bb bbf cluster-constraint consolidate-segments container container-id context core-spec cpu-freq delay-boot gid " \
    "gpu-freq mcs-label mem-update network oom-kill-step power reboot resources resv-ports runtime spread-segments stepmgr thread-spec time-min " \
    "uid use-min-nodes "

#define REFUSED_TWINS(X) X "ACCTG_FREQ=acctg-freq " X "CORE_SPEC=core-spec " X "DELAY_BOOT=delay-boot " X "GPU_FREQ=gpu-freq " \
    X "NETWORK=network " X "POWER=power " X "THREAD_SPEC=thread-spec " X "USE_MIN_NODES=use-min-nodes " X "WAIT4SWITCH=switches "

static const struct { unsigned who; const char *command, *usage, *refused, *letters, *refused_env; } commands[] = {
    { B, "sbatch", "Usage: sbatch [OPTIONS] SCRIPT [ARGUMENTS ...]     (or the script on standard input, or --wrap COMMAND)\n"
      "Submits a job script; lines \"#SBATCH OPTIONS\" at its head are options too.\n", REFUSED_ALL "batch external", "S",
      REFUSED_TWINS("SBATCH_") "SBATCH_BATCH=batch SBATCH_BURST_BUFFER=bb SBATCH_CONTAINER=container" },
    { S, "srun", "Usage: srun [OPTIONS] PROGRAM [ARGUMENTS ...]\nRuns tasks: a step of the job it is called in, else in an allocation of its own.\n",
      REFUSED_ALL "accel-bind async bcast bcast-exclude compress debugger-test external-launcher ignore-signals msg-timeout "
      "no-allocate parsable send-libs slurmd-debug treewidth wait-for-children x11", "SZ",
      REFUSED_TWINS("SLURM_") "SLURM_BCAST=bcast SLURM_BURST_BUFFER=bb SLURM_COMPRESS=compress SLURM_CPU_FREQ_REQ=cpu-freq "
      "SLURM_RESV_PORTS=resv-ports SLURM_SEND_LIBS=send-libs "
      "SRUN_CONTAINER=container" },
    { A, "salloc", "Usage: salloc [OPTIONS] [COMMAND [ARGUMENTS ...]]\nGets an allocation and runs the command, or a shell, with its environment; when that has ended, so does the job.\n",
      REFUSED_ALL "get-user-env x11", "S", REFUSED_TWINS("SALLOC_") },
};

/* SALLOC_x for SBATCH_x, where Slurm's salloc reads one. */
static const char *const twins_a[] = {
    "SALLOC_ACCOUNT", "SALLOC_BELL", "SALLOC_CLUSTERS", "SALLOC_CONSTRAINT", "SALLOC_CPUS_PER_GPU", "SALLOC_DEBUG", "SALLOC_EXCLUSIVE", "SALLOC_GPUS",
    "SALLOC_GPUS_PER_NODE", "SALLOC_GPUS_PER_TASK", "SALLOC_GPU_BIND", "SALLOC_GRES", "SALLOC_GRES_FLAGS", "SALLOC_HINT", "SALLOC_IMMEDIATE", "SALLOC_KILL_CMD",
    "SALLOC_MEM_BIND", "SALLOC_MEM_PER_CPU", "SALLOC_MEM_PER_GPU", "SALLOC_MEM_PER_NODE", "SALLOC_NO_BELL", "SALLOC_NO_KILL", "SALLOC_OVERCOMMIT", "SALLOC_PARTITION",
    "SALLOC_PROFILE", "SALLOC_QOS", "SALLOC_REQ_SWITCH", "SALLOC_RESERVATION", "SALLOC_SIGNAL", "SALLOC_SPREAD_JOB", "SALLOC_THREADS_PER_CORE", "SALLOC_TIMELIMIT",
    "SALLOC_TRES_BIND", "SALLOC_WAIT_ALL_NODES", "SALLOC_WCKEY",
};

static const char *twin_a(const char *twin_b)
{
    size_t n = twin_b ? strcspn(twin_b, " ") : 0;

    if (n < 8)
        return NULL;
    if (strncmp(twin_b, "SALLOC_", 7) == 0)
        return twin_b;
    for (size_t i = 0; i < sizeof twins_a / sizeof *twins_a; i++)
        if (strlen(twins_a[i]) == n && strncmp(twins_a[i] + 7, twin_b + 7, n - 7) == 0)
            return twins_a[i];
    return NULL;
}

size_t request_row_count(void) { return sizeof rows / sizeof *rows; }

void request_table(unsigned command, struct option_row *rows_out, struct option_table *out)
{
    size_t n = 0;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!(rows[i].who & command))
            continue;
        rows_out[n] = rows[i].row;
        rows_out[n++].env = command == S ? rows[i].twin_s : command == B ? rows[i].twin_b : twin_a(rows[i].twin_b);
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (commands[i].who == command)
            *out = (struct option_table){ commands[i].command, commands[i].usage, rows_out, n, commands[i].refused, commands[i].letters, 255, true,
                                          commands[i].refused_env };
}
