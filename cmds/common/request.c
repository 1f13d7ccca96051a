/* SPDX-License-Identifier: Apache-2.0 */
/* request.c - what follows from several options together, and from the place where a command is called; see request.h.
 *
 * Called by sbatch and srun after all sources have been read. Derivations are those of Slurm's commands: they show in the record (NumTasks of
 * -N2 --ntasks-per-node=8 is 16) and in the job's environment (SLURM_NTASKS is there when a count was asked for, in whatever form).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hostlist.h"
#include "base/str.h"
#include "cmds/common/list.h"
#include "cmds/common/request.h"

#define NODE_FILE_MAX (1u << 20)

static const struct { const char *name; uint32_t resource; } limits[] = {
    { "CPU", RLIMIT_CPU }, { "FSIZE", RLIMIT_FSIZE }, { "DATA", RLIMIT_DATA }, { "STACK", RLIMIT_STACK }, { "CORE", RLIMIT_CORE },
    { "RSS", RLIMIT_RSS }, { "NPROC", RLIMIT_NPROC }, { "NOFILE", RLIMIT_NOFILE }, { "MEMLOCK", RLIMIT_MEMLOCK }, { "AS", RLIMIT_AS },
};
#define LIMIT_COUNT (sizeof limits / sizeof *limits)

static const char *command_of(const struct request *r)
{
    return r->as == REQUEST_SRUN ? "srun" : r->as == REQUEST_SALLOC ? "salloc" : "sbatch";
}

void request_init(struct request *r, unsigned command)
{
    memset(r, 0, sizeof *r);
    r->as = command;
    r->immediate_s = -1;
    arena_init(&r->arena, 0);
    wire__job_spec__init(&r->spec);
    wire__step_spec__init(&r->step);
}

void request_fini(struct request *r)
{
    arena_fini(&r->arena);
}

/* ---- files ------------------------------------------------------------------------------------------------------------------------ */

char *request_path(struct request *r, const char *path)
{
    char here[4096];

    if (*path == '/')
        return arena_copy(&r->arena, path);
    if (!getcwd(here, sizeof here))
        strcpy(here, "/");
    return arena_printf(&r->arena, "%s%s%s", here, here[1] ? "/" : "", path);
}

char *request_node_file(struct request *r, const char *path, struct spur_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), kept = 0;
    char *text, *out;
    size_t n = 0;
    ssize_t got;
    bool comment = false;

    if (fd < 0) {
        spur_fail(err, SPUR_ESYNTAX, "Invalid node file: error opening file %s, %s", path, strerror(errno));
        return NULL;
    }
    text = arena_alloc(&r->arena, NODE_FILE_MAX + 1);
    while (n < NODE_FILE_MAX && (got = read(fd, text + n, NODE_FILE_MAX - n)) > 0)
        n += (size_t)got;
    close(fd);
    if (n == NODE_FILE_MAX) {
        spur_fail(err, SPUR_ESYNTAX, "Invalid node file: %s is over %u bytes", path, NODE_FILE_MAX);
        return NULL;
    }
    out = text;                                 /* in place: names move to the front, one comma between them */
    for (size_t i = 0; i < n; i++) {
        char c = text[i];

        comment = c == '#' ? true : c == '\n' ? false : comment;
        if (comment)
            continue;
        if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ',' || c == '\0') {
            if (kept && out[-1] != ',')
                *out++ = ',', kept++;
            continue;
        }
        *out++ = c;
        kept++;
    }
    if (kept && out[-1] == ',')
        out--;
    *out = '\0';
    if (out == text) {
        spur_fail(err, SPUR_ESYNTAX, "Invalid node file: %s names no node", path);
        return NULL;
    }
    return text;
}

/* ---- limits ----------------------------------------------------------------------------------------------------------------------- */

static bool names_limit(const char *words, const char *name)
{
    size_t n = strlen(name);

    for (const char *p = words; *p; p += strcspn(p, ", "), p += strspn(p, ", ")) {
        const char *word = strncmp(p, "RLIMIT_", 7) ? p : p + 7;
        size_t len = strcspn(word, ", ");

        if ((len == 3 && !strncasecmp(word, "ALL", 3)) || (len == n && !strncasecmp(word, name, n)))
            return true;
    }
    return false;
}

int request_propagate_check(const char *words, struct spur_error *err)
{
    for (const char *p = words; *p; p += strcspn(p, ", "), p += strspn(p, ", ")) {
        const char *word = strncmp(p, "RLIMIT_", 7) ? p : p + 7;
        size_t n = strcspn(word, ", ");
        bool known = (n == 3 && !strncasecmp(word, "ALL", 3)) || (n == 4 && !strncasecmp(word, "NONE", 4));

        for (size_t i = 0; i < LIMIT_COUNT && !known; i++)
            known = n == strlen(limits[i].name) && !strncasecmp(word, limits[i].name, n);
        if (!known)
            return spur_fail(err, SPUR_EINVAL, "Bad rlimit name: %.*s; --propagate=%.80s is not valid.", (int)(n < 40 ? n : 40), word, words);
    }
    return 0;
}

static void limits_add(struct request *r)
{
    const char *words = r->propagate ? r->propagate : "ALL";
    Wire__Rlimit *rows = arena_alloc(&r->arena, LIMIT_COUNT * sizeof *rows);

    r->spec.rlimits = arena_alloc(&r->arena, LIMIT_COUNT * sizeof *r->spec.rlimits);
    for (size_t i = 0; i < LIMIT_COUNT; i++) {
        struct rlimit now;

        if (!names_limit(words, limits[i].name) || getrlimit((__rlimit_resource_t)limits[i].resource, &now) < 0)
            continue;
        wire__rlimit__init(&rows[i]);
        rows[i].resource = limits[i].resource;
        rows[i].soft = now.rlim_cur == RLIM_INFINITY ? UINT64_MAX : (uint64_t)now.rlim_cur;
        r->spec.rlimits[r->spec.n_rlimits++] = &rows[i];
    }
}

/* ---- rules ------------------------------------------------------------------------------------------------------------------------ */

static int memory_choose(struct request *r, struct spur_error *err)
{
    enum request_rank top = r->mem_rank;

    top = r->mem_cpu_rank > top ? r->mem_cpu_rank : top;
    top = r->mem_gpu_rank > top ? r->mem_gpu_rank : top;
    if (top == RANK_NOBODY)
        return 0;
    r->spec.has_mem_per_node_mib = r->mem_rank == top;
    r->spec.has_mem_per_cpu_mib = r->mem_cpu_rank == top;
    r->spec.has_mem_per_gpu_mib = r->mem_gpu_rank == top;
    if ((r->mem_rank == top) + (r->mem_cpu_rank == top) + (r->mem_gpu_rank == top) > 1)
        return spur_fail(err, SPUR_EINVAL, "--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.");
    return 0;
}

static int nodes_choose(struct request *r, struct spur_error *err)
{
    Wire__JobSpec *s = &r->spec;
    struct hostlist *h = NULL;
    uint32_t named = 0;

    if (r->nodefile && !(s->req_nodes = request_node_file(r, r->nodefile, err)))
        return err->code;
    if (request_task_nodes(r, err) < 0)
        return err->code;
    if (s->req_nodes && *s->req_nodes) {
        int rc = hostlist_parse(s->req_nodes, &h, err);

        if (rc < 0)
            return spur_context(err, "Invalid --nodelist specification");
        hostlist_uniq(h);
        named = (uint32_t)hostlist_count(h);
        hostlist_destroy(h);
    }
    if (named && s->has_max_nodes && named > s->max_nodes)
        return spur_fail(err, SPUR_EINVAL, "Required nodelist includes more nodes than permitted by max-node count (%u > %u)", named, s->max_nodes);
    if (named && (!s->has_min_nodes || s->min_nodes < named)) {
        s->has_min_nodes = true;
        s->min_nodes = named;
    }
    if (s->has_ntasks && s->has_min_nodes && s->ntasks < s->min_nodes && named <= s->ntasks) {
        if (!r->quiet)
            fprintf(stderr, "%s: Warning: can't run %u processes on %u nodes, setting nnodes to %u\n", command_of(r), s->ntasks, s->min_nodes, s->ntasks);
        if (s->has_max_nodes && s->max_nodes == s->min_nodes)
            s->max_nodes = s->ntasks;
        s->min_nodes = s->ntasks;
    }
    if (!s->has_ntasks && s->has_ntasks_per_node) {
        uint64_t n = (uint64_t)s->ntasks_per_node * (s->has_min_nodes ? s->min_nodes : 1);

        if (n > INT32_MAX)
            return spur_fail(err, SPUR_EINVAL, "Invalid numeric value \"%u\" for --ntasks-per-node.", s->ntasks_per_node);
        s->has_ntasks = true;
        s->ntasks = (uint32_t)n;
    }
    return 0;
}

/* All but multithread are short words for one thread a core; who counts threads or tasks of a core as well has said it more exactly. */
static void hint_resolve(Wire__JobSpec *s)
{
    if (!s->hint || word_eq(s->hint, "multithread"))
        return;
    if (s->has_threads_per_core || s->has_ntasks_per_core) {
        s->hint = NULL;
        return;
    }
    s->has_threads_per_core = true;
    s->threads_per_core = 1;
}

int request_finish(struct request *r, struct spur_error *err)
{
    Wire__JobSpec *s = &r->spec;
    int rc;

    if ((rc = memory_choose(r, err)) < 0 || (rc = nodes_choose(r, err)) < 0)
        return rc;
    hint_resolve(s);
    if (r->gres && r->gpus_per_node)
        s->tres_per_node = arena_printf(&r->arena, "%s,%s", r->gres, r->gpus_per_node);
    else
        s->tres_per_node = (char *)(uintptr_t)(r->gres ? r->gres : r->gpus_per_node);
    if (s->name && strlen(s->name) == 0)
        s->name = NULL;
    return 0;
}

void request_show(const struct request *r)
{
    const ProtobufCMessageDescriptor *d = &wire__job_spec__descriptor;
    const char *command = command_of(r);

    fprintf(stderr, "%s: defined options\n%s: -------------------- --------------------\n", command, command);
    for (unsigned i = 0; i < d->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &d->fields[i];
        const char *at = (const char *)&r->spec + f->offset, *text;
        bool is_text = f->type == PROTOBUF_C_TYPE_STRING;

        if (f->label == PROTOBUF_C_LABEL_REPEATED || f->type == PROTOBUF_C_TYPE_BYTES)
            continue;
        text = is_text ? *(char *const *)(const void *)at : NULL;
        if (is_text ? !text : !*(const protobuf_c_boolean *)((const char *)&r->spec + f->quantifier_offset))
            continue;
        fprintf(stderr, "%s: %-20s: ", command, f->name);
        switch (f->type) {
        case PROTOBUF_C_TYPE_STRING: fprintf(stderr, "%s\n", text); break;
        case PROTOBUF_C_TYPE_BOOL:   fprintf(stderr, "%s\n", *(const protobuf_c_boolean *)at ? "set" : "unset"); break;
        case PROTOBUF_C_TYPE_UINT32: fprintf(stderr, "%u\n", *(const uint32_t *)(const void *)at); break;
        case PROTOBUF_C_TYPE_INT32:  fprintf(stderr, "%d\n", *(const int32_t *)(const void *)at); break;
        default:                     fprintf(stderr, "%lld\n", *(const long long *)(const void *)at);
        }
    }
    fprintf(stderr, "%s: -------------------- --------------------\n%s: end of defined options\n", command, command);
}

int request_cluster(const struct request *r, const char *own, struct spur_error *err)
{
    return cluster_is_own(r->clusters, own, err);
}

/* ---- the place -------------------------------------------------------------------------------------------------------------------- */

static bool is_plain(const char *word)
{
    return *word && strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_[]^") == strlen(word);
}

/* The words as typed, with quotes where a shell would need them; cut at a size that a record may have. */
static char *submit_line(struct request *r, int argc, char **argv)
{
    struct str line;
    char *out;

    str_init(&line);
    for (int i = 0; i < argc && line.len < 65536; i++) {
        const char *word = i ? argv[i] : command_of(r);

        str_add(&line, i ? " " : "");
        if (is_plain(word)) {
            str_add(&line, word);
            continue;
        }
        str_add_char(&line, '\'');
        for (; *word; word++)
            if (*word == '\'')
                str_add(&line, "'\\''");
            else
                str_add_char(&line, *word);
        str_add_char(&line, '\'');
    }
    if (line.len > 65536)
        line.text[65536] = '\0';
    out = arena_copy(&r->arena, line.text);
    str_fini(&line);
    return out;
}

int request_place(struct request *r, int argc, char **argv, struct spur_error *err)
{
    Wire__JobSpec *s = &r->spec;
    const char *mask_text = getenv("SLURM_UMASK");
    char host[256] = "";
    mode_t mask = umask(0);
    char *end;

    umask(mask);
    if (mask_text && *mask_text) {
        unsigned long n = strtoul(mask_text, &end, 8);

        if (*end || n > 0777)
            return spur_fail(err, SPUR_EINVAL, "SLURM_UMASK=%.20s is no octal number up to 0777", mask_text);
        mask = (mode_t)n;
    }
    gethostname(host, sizeof host - 1);
    s->alloc_node = arena_copy(&r->arena, host);
    s->has_alloc_sid = true;
    s->alloc_sid = (uint32_t)getsid(0);
    s->has_umask = true;
    s->umask = (uint32_t)mask;
    limits_add(r);
    s->work_dir = s->work_dir && *s->work_dir ? request_path(r, s->work_dir) : request_path(r, "");
    if (s->work_dir[1] && s->work_dir[strlen(s->work_dir) - 1] == '/')
        s->work_dir[strlen(s->work_dir) - 1] = '\0';
    s->submit_line = submit_line(r, argc, argv);
    return 0;
}
