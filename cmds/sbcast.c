/* SPDX-License-Identifier: Apache-2.0 */
/* sbcast.c - copies a file to all nodes of a job: the nodes dial in, one writer each that is the user (framework/agent/bcast.c), and get it block by block.
 *
 * Directly, not by a tree: one pass over the file a fan-out of nodes. The next block is read when all nodes of the pass have taken the one before from this
 * host, so memory is two blocks a node. The hash goes with the last block; a node takes the file into its place only when it is right.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/str.h"
#include "client/link.h"
#include "cmds/commands.h"
#include "cmds/common/dialled.h"
#include "cmds/common/list.h"
#include "cmds/common/options.h"

#define BLOCK       (256u << 10)
#define BLOCK_MAX   (512u << 10)
#define ANSWER_MS   60000           /* for a node to dial, or to take a block */
#define EXCLUDED    "/lib,/usr/lib,/lib64,/usr/lib64"

enum state { STRANGER, READY, SENDING, DONE, FAILED, TWICE };     /* TWICE: two components of the job share the node */

struct target { struct link link; enum state state; char *node; uint64_t seq; };

struct sbcast {
    bool force, preserve, send_libs;
    const char *job, *exclude;
    uint64_t block;
    uint32_t fanout, timeout_s;
    unsigned verbose;
    struct client *client;
    struct arena arena;
    struct step_io *io;
    struct target **targets; size_t count;
    uint32_t expected, number;
    bool failed;
};

#define SB ((struct sbcast *)request)
#define TAKE(name) static int take_##name(void *request, const char *value, enum option_source from, struct spur_error *err)
#define UNUSED (void)value, (void)from, (void)err
TAKE(force) { UNUSED; SB->force = true; return 0; }
TAKE(preserve) { UNUSED; SB->preserve = true; return 0; }
TAKE(jobid) { UNUSED; SB->job = value; return 0; }
TAKE(exclude) { UNUSED; SB->exclude = value; return 0; }
TAKE(verbose) { UNUSED; SB->verbose++; return 0; }
TAKE(send_libs)
{
    (void)from;
    if (value && !word_eq(value, "yes") && !word_eq(value, "no"))
        return spur_fail(err, SPUR_EINVAL, "--send-libs takes yes or no, not \"%.40s\"", value);
    SB->send_libs = !word_eq(value, "no");
    return 0;
}
TAKE(compress)
{
    (void)from; (void)request;
    return value && word_eq(value, "none") ? 0 : spur_fail(err, SPUR_EUNSUPPORTED, "not supported yet: --compress%s%.40s", value ? "=" : "", value ? value : "");
}
TAKE(fanout)
{
    (void)from;
    return number_u32(value, &SB->fanout) && SB->fanout ? 0 : spur_fail(err, SPUR_EINVAL, "--fanout takes a number of nodes, not \"%.40s\"", value);
}
TAKE(timeout)
{
    (void)from;
    return number_u32(value, &SB->timeout_s) ? 0 : spur_fail(err, SPUR_EINVAL, "--timeout takes seconds, not \"%.40s\"", value);
}
TAKE(size)      /* of a block: 1024, 64k, 1m */
{
    char *end;
    unsigned long long n = strtoull(value, &end, 10);

    (void)from;
    n <<= *end == 'k' || *end == 'K' ? 10 : *end == 'm' || *end == 'M' ? 20 : 0;
    if (!n || (*end && end[1]))
        return spur_fail(err, SPUR_EINVAL, "--size takes a size such as 64k or 1m, not \"%.40s\"", value);
    SB->block = n > BLOCK_MAX ? BLOCK_MAX : n;
    return 0;
}

static const struct option_row rows[] = {
    { "compress", 'C', OPTION_MAY, "none", "SBCAST_COMPRESS", take_compress, "blocks are not compressed" },
    { "exclude", 0, OPTION_VALUE, "FOLDERS", "SBCAST_EXCLUDE", take_exclude, "libraries under these are not sent (" EXCLUDED ")" },
    { "fanout", 'F', OPTION_VALUE, "N", "SBCAST_FANOUT", take_fanout, "so many nodes at a time (all)" },
    { "force", 'f', OPTION_NONE, NULL, "SBCAST_FORCE", take_force, "replace a file that is there" },
    { "jobid", 'j', OPTION_VALUE, "JOB[.STEP]", NULL, take_jobid, "the job (SLURM_JOB_ID), or a step of it: its nodes alone" },
    { "preserve", 'p', OPTION_NONE, NULL, "SBCAST_PRESERVE", take_preserve, "keep the times of the file" },
    { "send-libs", 0, OPTION_MAY, "yes|no", "SBCAST_SEND_LIBS", take_send_libs, "also its shared libraries, into FILE_libs" },
    { "size", 's', OPTION_VALUE, "SIZE", "SBCAST_SIZE", take_size, "of a block (256k; 512k at most)" },
    { "timeout", 't', OPTION_VALUE, "SECONDS", "SBCAST_TIMEOUT", take_timeout, "for a node to answer (60)" },
    { "treewidth", 0, OPTION_VALUE, "N", NULL, take_fanout, NULL },
    { "verbose", 'v', OPTION_NONE, NULL, NULL, take_verbose, "say what is done" },
};
static const struct option_table table = {
    .command = "sbcast", .usage = "Usage: sbcast [OPTIONS] FILE TARGET\nCopies a file of this host to all nodes of the job.\n",
    .rows = rows, .count = sizeof rows / sizeof *rows, .refused = "no-allocation nodelist usage", .refused_letters = "Zw", .unknown_exit = 1,
};

/* ---- the nodes ---- */

static void target_failed(struct sbcast *s, struct target *t, const char *why)
{
    if (t->state == FAILED)
        return;
    if (t->state != STRANGER || t->node) {
        fprintf(stderr, "sbcast: error: %s: %s\n", t->node ? t->node : "a node", why);
        s->failed = true;
    }
    link_close(&t->link);
    t->state = FAILED;
}

static void take_state(struct sbcast *s, struct target *t, const Wire__BcastState *m)
{
    if (!t->node) {
        t->node = mem_copy(m->node);
        t->state = READY;
        for (size_t i = 0; i < s->count; i++)
            if (s->targets[i] != t && s->targets[i]->node && s->targets[i]->state != FAILED && !strcmp(s->targets[i]->node, t->node))
                t->state = TWICE;
        if (t->state == TWICE) {
            link_close(&t->link);
            s->expected--;
        }
    } else if (m->error) {
        target_failed(s, t, m->error);
    } else if (m->done && m->number == s->number) {
        t->state = DONE;
    }
}

static void target_read(struct sbcast *s, struct target *t)
{
    struct spur_error err = { 0 };
    const uint8_t *body;
    struct frame f;
    int rc = link_read(&t->link, 64u << 10, &err), got = 0;

    while (t->link.fd >= 0 && (got = link_next(&t->link, &f, &body, &err)) > 0)
        if (f.type == WIRE__MESSAGE_TYPE__BCAST_STATE) {
            Wire__BcastState *m = wire__bcast_state__unpack(NULL, f.length, body);

            if (m)
                take_state(s, t, m);
            wire__bcast_state__free_unpacked(m, NULL);
        }
    if (t->state == TWICE)
        return;
    if (t->link.fd >= 0 && (rc < 0 || got < 0 || link_flush(&t->link, &err) < 0))
        target_failed(s, t, err.text);
}

/* One wait for whatever comes. False: nothing has for as long as one waits for a node. */
static bool turn(struct sbcast *s)
{
    struct pollfd *fds = mem_array(s->count + 1, sizeof *fds);
    size_t n = s->count;
    struct link l;
    bool any;

    fds[0] = (struct pollfd){ .fd = step_io_fd(s->io), .events = POLLIN };
    for (size_t i = 0; i < n; i++)
        fds[i + 1] = (struct pollfd){ .fd = s->targets[i]->link.fd, .events = (short)(POLLIN | (link_backlog(&s->targets[i]->link) ? POLLOUT : 0)) };
    any = poll(fds, n + 1, s->timeout_s ? (int)(s->timeout_s > 86400 ? 86400 : s->timeout_s) * 1000 : ANSWER_MS) > 0;
    for (size_t i = 0; i < n; i++)
        if (fds[i + 1].fd >= 0 && fds[i + 1].revents)
            target_read(s, s->targets[i]);
    while (any && fds[0].revents && s->count < s->expected + 64 && step_io_accept(s->io, &l)) {
        s->targets = mem_grow(s->targets, s->count + 1, sizeof *s->targets);
        s->targets[s->count] = mem_alloc(sizeof **s->targets);
        s->targets[s->count++]->link = l;
    }
    free(fds);
    return any;
}

static size_t in_state(const struct sbcast *s, enum state state)
{
    size_t n = 0;

    for (size_t i = 0; i < s->count; i++)
        n += s->targets[i]->state == state;
    return n;
}

static bool all_here(struct sbcast *s)
{
    while (in_state(s, READY) + in_state(s, DONE) < s->expected)
        if (!turn(s))
            return false;
    return true;
}

/* ---- one file ---- */

static bool is_waiting_to_write(const struct sbcast *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->targets[i]->state == SENDING && link_backlog(&s->targets[i]->link))
            return true;
    return false;
}

static void send_pass(struct sbcast *s, uint16_t type, const ProtobufCMessage *body)
{
    for (size_t i = 0; i < s->count; i++) {
        struct target *t = s->targets[i];
        struct spur_error err = { 0 };

        if (t->state == SENDING && (link_send(&t->link, type, ++t->seq, body, &err) < 0 || link_flush(&t->link, &err) < 0))
            target_failed(s, t, err.text);
    }
    while (is_waiting_to_write(s))
        if (!turn(s))
            for (size_t i = 0; i < s->count; i++)
                if (s->targets[i]->state == SENDING && link_backlog(&s->targets[i]->link))
                    target_failed(s, s->targets[i], "takes nothing more");
}

static int send_blocks(struct sbcast *s, int fd, const char *path, uint64_t size, struct spur_error *err)
{
    uint8_t *buf = mem_alloc(s->block), hash[32];
    crypto_generichash_state state;
    uint64_t sent = 0;
    int rc = 0;

    crypto_generichash_init(&state, NULL, 0, sizeof hash);
    for (bool last = false; rc == 0 && !last && in_state(s, SENDING); ) {
        Wire__BcastPart p = WIRE__BCAST_PART__INIT;
        ssize_t n = pread(fd, buf, s->block, (off_t)sent);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 || (n == 0 && sent < size)) {
            rc = spur_fail(err, SPUR_EIO, "cannot read %s: %s", path, n < 0 ? strerror(errno) : "it has become shorter");
            break;
        }
        if ((uint64_t)n > size - sent)
            n = (ssize_t)(size - sent);
        crypto_generichash_update(&state, buf, (size_t)n);
        sent += (uint64_t)n;
        p.data.data = buf;
        p.data.len = (size_t)n;
        if ((last = sent >= size)) {
            crypto_generichash_final(&state, hash, sizeof hash);
            p.has_last = p.last = p.has_hash = true;
            p.hash.data = hash;
            p.hash.len = sizeof hash;
        }
        send_pass(s, WIRE__MESSAGE_TYPE__BCAST_PART, &p.base);
    }
    while (rc == 0 && in_state(s, SENDING))
        if (!turn(s))
            for (size_t i = 0; i < s->count; i++)
                if (s->targets[i]->state == SENDING)
                    target_failed(s, s->targets[i], "has not said that it has the file");
    free(buf);
    return rc;
}

static int send_file(struct sbcast *s, const char *path, const char *to, bool make_folder, struct spur_error *err)
{
    Wire__BcastFile f = WIRE__BCAST_FILE__INIT;
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;
    char here[4096] = "/";
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        rc = spur_fail(err, SPUR_ENOTFOUND, "Can't open `%s`: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        rc = spur_fail(err, SPUR_EINVAL, "`%s` is not a file that can be copied", path);
    if (rc < 0)
        goto out;
    if (!getcwd(here, sizeof here))
        strcpy(here, "/");
    f.path = (char *)(uintptr_t)to;
    f.work_dir = here;
    f.mode = st.st_mode & 0777;
    f.size = (uint64_t)st.st_size;
    f.has_force = f.has_make_folder = f.has_number = true;
    f.force = s->force || make_folder;
    f.make_folder = make_folder;
    f.number = ++s->number;
    f.has_mtime_ns = f.has_atime_ns = s->preserve;
    f.mtime_ns = st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec;
    f.atime_ns = st.st_atim.tv_sec * INT64_C(1000000000) + st.st_atim.tv_nsec;
    for (size_t i = 0; i < s->count; i++)
        if (s->targets[i]->state == DONE)
            s->targets[i]->state = READY;
    while (rc == 0 && in_state(s, READY)) {         /* a pass */
        size_t n = 0;

        for (size_t i = 0; i < s->count && (!s->fanout || n < s->fanout); i++)
            if (s->targets[i]->state == READY) {
                s->targets[i]->state = SENDING;
                n++;
            }
        send_pass(s, WIRE__MESSAGE_TYPE__BCAST_FILE, &f.base);
        rc = send_blocks(s, fd, path, f.size, err);
    }
    if (s->verbose && rc == 0)
        fprintf(stderr, "sbcast: %s: %llu bytes to %zu nodes\n", to, (unsigned long long)f.size, in_state(s, DONE));
out:
    if (fd >= 0)
        close(fd);
    return rc;
}

/* ---- libraries ---- */

static bool is_excluded(const char *path, const char *folders)
{
    for (const char *p = folders; *p; p += strcspn(p, ","), p += *p == ',') {
        size_t n = strcspn(p, ",");

        if (n && strncmp(path, p, n) == 0 && path[n] == '/')
            return true;
    }
    return false;
}

/* What ldd says of it, in the arena, a line a library. */
static char *ldd(struct sbcast *s, const char *path)
{
    char buf[8192];
    struct str out;
    ssize_t n;
    char *text;
    int fd[2];
    pid_t pid;

    if (pipe(fd) < 0 || (pid = fork()) < 0)
        return NULL;
    if (pid == 0) {
        dup2(fd[1], 1);
        dup2(open("/dev/null", O_RDWR), 2);
        execlp("ldd", "ldd", path, (char *)NULL);
        _exit(127);
    }
    close(fd[1]);
    str_init(&out);
    while ((n = read(fd[0], buf, sizeof buf)) > 0 || (n < 0 && errno == EINTR))
        str_add_n(&out, buf, n > 0 ? (size_t)n : 0);
    close(fd[0]);
    waitpid(pid, NULL, 0);
    text = arena_copy(&s->arena, out.text);
    str_fini(&out);
    return text;
}

static int send_libraries(struct sbcast *s, const char *path, const char *to, struct spur_error *err)
{
    char *full = realpath(path, NULL), *text = full ? ldd(s, full) : NULL, *cursor = text, *line;
    int rc = 0;

    while (rc == 0 && cursor && (line = word_next(&cursor, "\n"))) {
        char *from = strstr(line, "=> /"), *blank;

        if (!from)
            continue;
        from += 3;
        if ((blank = strchr(from, ' ')))
            *blank = '\0';
        if (is_excluded(from, s->exclude ? s->exclude : EXCLUDED))
            continue;
        rc = send_file(s, from, arena_printf(&s->arena, "%s_libs/%s", to, strrchr(from, '/') + 1), true, err);
    }
    free(full);
    return rc;
}

/* ---- all of it ---- */

static int run(struct sbcast *s, const char *path, const char *to)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    struct spur_error err = { 0 };
    struct step_name name;
    Wire__DialReply *reply;
    int rc;

    if (!s->job)
        s->job = getenv("SLURM_JOB_ID") ? getenv("SLURM_JOB_ID") : getenv("SLURM_JOBID");
    if (*to && to[strlen(to) - 1] == '/')
        to = arena_printf(&s->arena, "%s%s", to, base);
    if (!s->job)
        rc = spur_fail(&err, SPUR_EINVAL, "Command only valid from within SLURM job");
    else if (access(path, R_OK) < 0)
        rc = spur_fail(&err, SPUR_ENOTFOUND, "Can't open `%s`: %s", path, strerror(errno));
    else if ((rc = client_open(NULL, &s->client, &err)) == 0 && (rc = step_name_parse(s->client, &s->arena, s->job, &name, &err)) == 0) {
        uint32_t parts = name.has_step || strchr(s->job, '+') ? 1 : job_components(s->client, &s->arena, name.job_id);

        rc = (s->io = dialled_listen(s->client, &err)) ? 0 : err.code;
        for (uint32_t k = 0; rc == 0 && k < parts; k++, name.job_id++) {
            rc = dialled_ask(s->client, s->io, WIRE__DIAL_REQUEST__PURPOSE__SBCAST, &name, &s->arena, &reply, &err);
            if (rc == 0 && reply->absent)
                rc = spur_fail(&err, SPUR_ECLOSED, "%s cannot be reached now: nothing has been copied", reply->absent);
            if (k && rc == SPUR_ESTALE)     /* a component that has ended already */
                rc = 0;
            else if (rc == 0)
                s->expected += (uint32_t)reply->n_tasks;
        }
    }
    if (rc == 0) {
        if (!all_here(s))
            rc = spur_fail(&err, SPUR_ETIMEOUT, "%zu of %u nodes have answered: nothing has been copied", in_state(s, READY), s->expected);
    }
    if (rc == 0)
        rc = send_file(s, path, to, false, &err);
    if (rc == 0 && s->send_libs && !s->failed)
        rc = send_libraries(s, path, to, &err);
    if (rc < 0)
        fprintf(stderr, "sbcast: error: %s\n", err.text);
    return rc < 0 || s->failed ? 1 : 0;
}

int cmd_sbcast(int argc, char **argv)
{
    struct sbcast s = { .block = BLOCK };
    int first, rc;

    arena_init(&s.arena, 0);
    if ((rc = options_environment(&table, &s)) == 0 && (rc = options_read(&table, argc, argv, &s, &first)) == 0) {
        if (argc - first != 2) {
            fprintf(stderr, "sbcast: error: Need two file names, have %d names\n", argc - first);
            rc = 1;
        } else {
            rc = run(&s, argv[first], argv[first + 1]);
        }
    }
    for (size_t i = 0; i < s.count; i++) {
        link_close(&s.targets[i]->link);
        free(s.targets[i]->node);
        free(s.targets[i]);
    }
    free(s.targets);
    step_io_close(s.io);
    client_close(s.client);
    arena_fini(&s.arena);
    return rc == OPTIONS_DONE ? 0 : rc;
}
