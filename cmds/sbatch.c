/* SPDX-License-Identifier: Apache-2.0 */
/* sbatch.c - submits a job script and says its number.
 *
 * Reads the command line once to find the script, then the three sources of options from the weakest to the strongest: directives of the
 * script, SBATCH_* variables, the command line again. Nothing is evaluated: script, arguments and environment travel as they are, the
 * first and the last as blobs by hash. One connection, one request, one line of output; --wait then sleeps in a second request until the job has ended.
 */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/str.h"
#include "client/client.h"
#include "cmds/commands.h"
#include "cmds/common/directives.h"
#include "cmds/common/environment.h"
#include "cmds/common/het.h"
#include "cmds/common/plugins.h"
#include "cmds/common/submit.h"
#include "state/job.h"

#define BAD_PARTITION 2000              /* Slurm's number */
#define SCRIPT_LIMIT (60u << 20)        /* of one message; the controller's own limit is lower and names itself */

extern char **environ;

struct script {
    char  *text; size_t n;
    char  *path;                /* absolute; NULL: --wrap or standard input */
    const char *shown;          /* as named by the user, for messages */
};

struct submission {
    struct request r;           /* of the job, or of its first component */
    struct request *more; size_t more_count;    /* the other components of a heterogeneous job */
};

/* SLURM_EXIT_ERROR replaces the code of errors of ours. */
static int error_exit(int code)
{
    const char *text = getenv("SLURM_EXIT_ERROR");
    uint32_t n;

    return text && number_u32(text, &n) && n < 256 ? (int)n : code;
}

/* Each line of a sentence with the command's name in front. */
static void complain(const char *word, const char *text)
{
    const char *at = text;

    for (;;) {
        size_t n = strcspn(at, "\n");

        fprintf(stderr, "sbatch: %s: %.*s\n", word, (int)n, at);
        if (!at[n])
            break;
        at += n + 1;
    }
}

/* ---- the script ------------------------------------------------------------------------------------------------------------------- */

static int read_all(int fd, struct script *s, struct spur_error *err)
{
    struct stat st;
    size_t room = 65536;
    ssize_t got;

    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0)
        room = (size_t)st.st_size < SCRIPT_LIMIT ? (size_t)st.st_size + 1 : SCRIPT_LIMIT;
    s->text = mem_alloc(room + 1);
    while ((got = read(fd, s->text + s->n, room - s->n)) > 0 || (got < 0 && errno == EINTR)) {
        s->n += got > 0 ? (size_t)got : 0;
        if (s->n > SCRIPT_LIMIT)
            return spur_fail(err, SPUR_ELIMIT, "Batch script %s is over %u bytes", s->shown, SCRIPT_LIMIT);
        if (s->n == room)
            s->text = mem_grow(s->text, (room *= 2) + 1, 1);
    }
    if (got < 0)
        return spur_fail(err, SPUR_EIO, "Unable to read file %s: %s", s->shown, strerror(errno));
    s->text[s->n] = '\0';
    return 0;
}

/* As Slurm: a name with a slash is itself; else the current folder first, then a file of PATH that can be read; last the current folder again. */
static char *script_find(struct request *r, const char *name)
{
    const char *path = getenv("PATH");
    struct stat st;

    if (strchr(name, '/') || stat(name, &st) == 0)
        return request_path(r, name);
    for (const char *p = path; p && *p; p += strcspn(p, ":"), p += *p == ':') {
        size_t n = strcspn(p, ":");
        char *full = n ? arena_printf(&r->arena, "%.*s/%s", (int)n, p, name) : arena_copy(&r->arena, name);

        if (stat(full, &st) == 0 && S_ISREG(st.st_mode) && access(full, R_OK) == 0)
            return request_path(r, full);
    }
    return request_path(r, name);
}

static int script_read(struct request *r, struct script *s, struct spur_error *err)
{
    int fd, rc;

    if (r->wrap) {
        if (r->argc > 0)
            return spur_fail(err, SPUR_EINVAL, "Script arguments not permitted with --wrap option");
        s->shown = "wrap";
        s->n = strlen(r->wrap) + sizeof "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n" ;
        s->text = mem_alloc(s->n + 1);
        s->n = (size_t)snprintf(s->text, s->n + 1, "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n%s\n", r->wrap);
        return 0;
    }
    if (r->argc == 0) {
        s->shown = "(standard input)";
        return read_all(STDIN_FILENO, s, err);
    }
    s->shown = r->argv[0];
    s->path = script_find(r, r->argv[0]);
    if ((fd = open(s->path, O_RDONLY | O_CLOEXEC)) < 0)
        return spur_fail(err, SPUR_ENOTFOUND, "Unable to open file %s: %s", s->shown, strerror(errno));
    rc = read_all(fd, s, err);
    close(fd);
    return rc;
}

/* ---- options ------------------------------------------------------------------------------------------------------------------------ */

static const char *script_name(const struct script *s)
{
    const char *slash = s->shown ? strrchr(s->shown, '/') : NULL;

    return slash ? slash + 1 : s->shown;
}

/* The #SBATCH lines. Returns the exit code to use, 0 when fine. */
static int directives_find(struct request *r, const struct script *s, struct directives *d)
{
    struct spur_error err = { 0 };
    const char *base = script_name(s);

    if (directives_read(s->text, s->n, &r->arena, d, &err) < 0) {
        fprintf(stderr, "sbatch: fatal: %s: %s\n", base, err.text);
        return 1;
    }
    if (d->misspelt_line) {
        fprintf(stderr, "sbatch: error: %s:%zu: Change from #SLURM to #SBATCH in your script and verify the options are valid in sbatch\n", base, d->misspelt_line);
        return 1;
    }
    if (d->foreign_line && !r->ignore_pbs) {
        fprintf(stderr, "sbatch: error: %s:%zu: not supported yet: %s directives; --ignore-pbs submits the script without them\n", base, d->foreign_line, d->foreign);
        return 1;
    }
    return 0;
}

/* Those of one component. */
static int directives_take(const struct option_table *table, struct request *r, const struct script *s, const struct directives *d, size_t component)
{
    const struct directive *rows;
    size_t count;

    het_script_rows(d, component, &rows, &count);
    for (size_t i = 0; i < count; i++) {
        char where[300];
        int rc;

        snprintf(where, sizeof where, "%.250s:%zu", script_name(s), rows[i].line);
        if ((rc = options_words(table, rows[i].argc, rows[i].argv, where, r)))
            return rc;
    }
    return 0;
}

/* All sources of one component, from the weakest to the strongest, and what the one before hands on. */
static int component_read(struct option_table *table, struct request *r, const struct request *before, const struct request *typed, const struct script *s,
                          const struct directives *d, size_t component, const struct het_words *words)
{
    struct spur_error err = { 0 };
    int first, rc;

    if ((rc = directives_take(table, r, s, d, component)))
        return rc;
    r->wrap = typed->wrap;              /* a script cannot name another one; --parsable and --test-only count there as in Slurm */
    r->verbose = 0;
    if ((rc = options_environment(table, r)))
        return rc;
    if (typed->verbose)
        r->verbose = 0;
    if (words && (rc = options_read(table, words->argc, words->argv, r, &first)))
        return rc == OPTIONS_DONE ? 1 : rc;
    if (before)
        request_inherit(r, before);
    if (request_finish(r, &err) < 0) {
        complain("fatal", err.text);
        return err.code == SPUR_ESYNTAX ? 255 : 1;
    }
    return 0;
}

static int options_all(struct option_table *table, struct plugins *plugins, struct submission *sub, struct request *typed, struct script *s, int argc, char **argv)
{
    struct request *r = &sub->r;
    struct spur_error err = { 0 };
    struct directives d;
    struct het_words *words;
    size_t typed_count, count;
    int first, rc;

    if ((rc = het_cut(table, argc, argv, typed, &words, &typed_count, &first)))
        return rc;
    plugins_forget(plugins);
    typed->argv = words[typed_count - 1].argv + first;
    typed->argc = words[typed_count - 1].argc - first;
    r->argv = typed->argv;
    r->argc = typed->argc;
    r->wrap = typed->wrap;
    r->ignore_pbs = typed->ignore_pbs || getenv("SBATCH_IGNORE_PBS");
    if (script_read(r, s, &err) < 0 || script_check(s->text, s->n, &err) < 0) {
        complain("error", err.text);
        return 1;
    }
    if ((rc = directives_find(r, s, &d)))
        return rc;
    count = het_script_count(&d) > typed_count ? het_script_count(&d) : typed_count;
    sub->more = mem_array(count, sizeof *sub->more);
    for (size_t k = 0; k < count; k++) {
        struct request *part = k ? &sub->more[sub->more_count++] : r;

        if (k)
            request_init(part, REQUEST_SBATCH);
        if ((rc = component_read(table, part, k ? k > 1 ? part - 1 : r : NULL, typed, s, &d, k, k < typed_count ? &words[k] : NULL)))
            return rc;
    }
    return 0;
}

/* ---- the request -------------------------------------------------------------------------------------------------------------------- */

static void name_default(struct request *r, const struct script *s)
{
    const char *slash = s->path ? strrchr(s->path, '/') : NULL;

    if (!r->spec.name)
        r->spec.name = (char *)(uintptr_t)(r->wrap ? "wrap" : s->path ? slash + 1 : "sbatch");
}

static void blob_make(struct request *r, Wire__Blob *b, char *data, size_t n, protobuf_c_boolean *has, ProtobufCBinaryData *hash)
{
    wire__blob__init(b);
    hash->data = arena_alloc(&r->arena, 32);
    hash->len = 32;
    crypto_generichash(hash->data, 32, (const uint8_t *)data, n, NULL, 0);
    *has = true;
    b->hash = *hash;
    b->data.data = (uint8_t *)data;
    b->data.len = n;
}

static int submit_build(struct submission *sub, const struct script *s, Wire__SubmitRequest *out, Wire__Blob blobs[2], Wire__Blob *rows[2], uint8_t token[16], char **env_out,
                        int argc, char **argv, struct spur_error *err)
{
    char here[4096] = "/", dir[4096 + 32], *also[4] = { 0 };
    struct request *r = &sub->r;
    size_t env_n = 0, count = 0;
    int rc;

    if ((rc = request_place(r, argc, argv, err)) < 0)
        return rc;
    name_default(r, s);
    r->spec.has_is_batch = r->spec.is_batch = true;
    r->spec.command = s->path;
    if (r->wrap || s->path) {
        r->spec.n_argv = r->argc > 1 ? (size_t)r->argc - 1 : 0;
        r->spec.argv = r->argc > 1 ? r->argv + 1 : NULL;
    }
    r->spec.export_env = (char *)(uintptr_t)r->export;
    if (!getcwd(here, sizeof here))
        strcpy(here, "/");
    snprintf(dir, sizeof dir, "SLURM_SUBMIT_DIR=%s", here);
    also[count++] = dir;
    if (r->get_user_env)
        also[count++] = (char *)(uintptr_t)"SLURM_GET_USER_ENV=1";
    if (!r->get_user_env && r->export && word_eq(r->export, "NONE"))
        r->login_env = true;        /* as Slurm does for NONE and not for NIL */
    if ((rc = environment_export(r, environ, also, env_out, &env_n, err)) < 0)
        return rc;
    blob_make(r, &blobs[0], s->text, s->n, &r->spec.has_script_hash, &r->spec.script_hash);
    blob_make(r, &blobs[1], *env_out, env_n, &r->spec.has_env_hash, &r->spec.env_hash);
    rows[0] = &blobs[0];
    rows[1] = &blobs[1];
    wire__submit_request__init(out);
    out->spec = &r->spec;
    out->n_blobs = 2;
    out->blobs = rows;
    out->n_het = sub->more_count;
    out->het = arena_alloc(&r->arena, (sub->more_count + 1) * sizeof *out->het);
    for (size_t i = 0; i < sub->more_count; i++) {
        struct request *part = &sub->more[i];

        if ((rc = request_place(part, argc, argv, err)) < 0)
            return rc;
        if (!part->spec.name)
            part->spec.name = r->spec.name;
        part->spec.command = r->spec.command;
        part->spec.n_spank_env = r->spec.n_spank_env;
        part->spec.spank_env = r->spec.spank_env;
        out->het[i] = &part->spec;
    }
    client_token(token, &out->token_wall_ms);
    out->token.data = token;
    out->token.len = 16;
    return 0;
}

/* ---- afterwards --------------------------------------------------------------------------------------------------------------------- */

/* The code of a job as `sbatch --wait` gives it: its exit code; 1 when a signal or anything else ended it. An array: the highest. */
static int job_code(const Wire__JobInfo *j)
{
    int status = j->has_exit_status ? j->exit_status : 0;

    if (WIFSIGNALED(status))
        return 1;
    if (WEXITSTATUS(status))
        return WEXITSTATUS(status);
    return j->state == JOB_COMPLETE ? 0 : 1;
}

static int wait_for_end(struct client *c, struct request *r, uint32_t job_id)
{
    Wire__WaitRequest w = WIRE__WAIT_REQUEST__INIT;
    struct spur_error err = { 0 };
    Wire__JobsReply *reply = NULL;
    int number = 0, code = 0;

    w.job_id = job_id;
    w.until = WIRE__WAIT_REQUEST__UNTIL__ENDED;
    if (client_wait(c, &w, &r->arena, &reply, &number, &err) < 0) {
        fprintf(stderr, "sbatch: error: the end of job %u is not known: %s\n", job_id, err.text);
        return error_exit(1);
    }
    for (size_t i = 0; i < reply->n_jobs; i++) {
        int one = job_code(reply->jobs[i]);

        code = one > code ? one : code;
    }
    return reply->n_jobs ? code : 1;
}

static int submit(struct submission *sub, const struct script *s, int argc, char **argv)
{
    struct request *r = &sub->r;
    Wire__SubmitRequest request;
    Wire__Blob blobs[2], *rows[2];
    struct spur_error err = { 0 };
    const Wire__SubmitReply *got;
    struct client *c = NULL;
    uint8_t token[16];
    char *env = NULL;
    void *reply = NULL;
    int number = 0, rc = 1;

    if (submit_build(sub, s, &request, blobs, rows, token, &env, argc, argv, &err) < 0 || client_open(NULL, &c, &err) < 0 ||
        request_cluster(r, client_hint(c)->cluster, &err) < 0) {
        complain("error", err.text);
        rc = error_exit(1);
        goto out;
    }
    if (r->verbose) {
        request_show(r);
        for (size_t i = 0; i < sub->more_count; i++)
            request_show(&sub->more[i]);
        fprintf(stderr, "sbatch: script %s, %zu bytes; environment of %zu bytes\n", s->path ? s->path : s->shown, s->n, blobs[1].data.len);
    }
    if (r->test_only) {
        if ((rc = would_run_show(c, r, &request, "sbatch", &err)) < 0) {
            fprintf(stderr, "allocation failure: %s\n", err.text);
            rc = error_exit(1);
        }
        goto out;
    }
    if (client_call(c, WIRE__MESSAGE_TYPE__SUBMIT, &request.base, WIRE__MESSAGE_TYPE__SUBMITTED, &wire__submit_reply__descriptor, &r->arena, &reply, &number, &err) < 0) {
        if (number == BAD_PARTITION)
            fprintf(stderr, "sbatch: error: invalid partition specified: %s\n", r->spec.partition ? r->spec.partition : "");
        fprintf(stderr, "sbatch: error: Batch job submission failed: %s\n", err.text);
        rc = error_exit(1);
        goto out;
    }
    got = reply;
    for (size_t i = 0; i < got->n_warnings && !r->quiet; i++)
        fprintf(stderr, "sbatch: %s\n", got->warnings[i]);
    if (r->parsable)
        printf("%u%s%s\n", got->job_id, r->clusters ? ";" : "", r->clusters ? client_hint(c)->cluster : "");
    else if (!r->quiet)
        printf("Submitted batch job %u%s%s\n", got->job_id, r->clusters ? " on cluster " : "", r->clusters ? client_hint(c)->cluster : "");
    rc = fflush(stdout) == 0 || r->wait ? 0 : error_exit(1);
    if (r->wait)
        rc = wait_for_end(c, r, got->job_id);
out:
    client_close(c);
    free(env);
    return rc;
}

int cmd_sbatch(int argc, char **argv)
{
    struct submission sub = { .more_count = 0 };
    struct request typed;
    struct plugins *plugins;
    struct option_row *rows;
    struct option_table table;
    struct script s = { 0 };
    int rc;

    if ((rc = plugins_open(REQUEST_SBATCH, &plugins)))
        return error_exit(rc);
    rows = mem_array(request_row_count() + plugins_rows(plugins), sizeof *rows);
    request_table(REQUEST_SBATCH, rows, &table);
    plugins_table(plugins, rows, &table);
    request_init(&sub.r, REQUEST_SBATCH);
    request_init(&typed, REQUEST_SBATCH);
    rc = options_all(&table, plugins, &sub, &typed, &s, argc, argv);
    if (rc == 0)
        rc = plugins_ready(plugins, &sub.r);
    if (rc == OPTIONS_DONE)
        rc = 0;
    else if (rc)
        rc = error_exit(rc);
    else
        rc = submit(&sub, &s, argc, argv);
    plugins_close(plugins);
    free(s.text);
    free(rows);
    for (size_t i = 0; i < sub.more_count; i++)
        request_fini(&sub.more[i]);
    free(sub.more);
    request_fini(&typed);
    request_fini(&sub.r);
    return rc;
}
