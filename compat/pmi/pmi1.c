/* SPDX-License-Identifier: Apache-2.0 */
/* pmi1.c - libpmi.so.0: the interface of slurm/pmi.h over PMI-1's wire, where a request is a line of NAME=value and so is its answer.
 *
 * What a process puts goes to the launcher at once, so a commit has nothing to do. One lock for everything: the wire has no place to say which thread a line is for.
 * Alone, without PMI_FD, the same functions work on a table of this process.
 */
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inside.h"
#include <slurm/pmi.h>

#define NAME_MAX_ALONE  256
#define KEY_MAX_ALONE   64
#define VALUE_MAX_ALONE 1024
#define LINE_MAX_OUT    8192

static struct {
    pthread_mutex_t lock;
    bool is_up, is_finalized;
    int  fd;                            /* -1: alone */
    int  rank, size, spawned;
    int  name_max, key_max, value_max;  /* bytes, without the NUL */
    char kvs[257];
    struct pmi_input in;
    size_t answered;                    /* bytes of `in` that the last answer takes */
    struct pmi_entry *table, *names;    /* alone */
    int  next;                          /* of the iteration */
} me = { .lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1 };

/* ---- the wire ---- */

/* The value of NAME in the last answer, ended by a NUL; a value, val or port has the line's rest. NULL: not there. */
static const char *word(const char *name)
{
    static const char *const tails[] = { "value=", "val=", "port=" };
    char *at = me.in.text;
    size_t n = strlen(name);

    while (*at) {
        bool is_tail = false;

        at += strspn(at, " ");
        for (size_t i = 0; i < 3; i++)
            is_tail = is_tail || !strncmp(at, tails[i], strlen(tails[i]));
        if (!strncmp(at, name, n) && at[n] == '=') {
            if (!is_tail)
                at[strcspn(at, " ")] = '\0';
            return at + n + 1;
        }
        if (is_tail)
            break;
        at += strcspn(at, " ");
    }
    return NULL;
}

/* Names are looked up from the line's end, since word() cuts it behind what it finds: ask for the later word first. */
static int number(const char *name, int otherwise)
{
    const char *text = word(name);
    char *end;
    long n;

    if (!text || !*text)
        return otherwise;
    n = strtol(text, &end, 10);
    return (*end && *end != ' ') || n < INT_MIN || n > INT_MAX ? otherwise : (int)n;
}

static int tell(const char *format, va_list args)
{
    char line[LINE_MAX_OUT];
    int n = vsnprintf(line, sizeof line - 1, format, args);

    if (n < 0 || n >= (int)sizeof line - 1)
        return PMI_ERR_INVALID_LENGTH;
    line[n] = '\n';
    return pmi_write(me.fd, line, (size_t)n + 1) < 0 ? PMI_FAIL : PMI_SUCCESS;
}

/* One request and its answer, which word() then reads. PMI_FAIL: the launcher is gone. Whether it could do it says "rc". */
static int ask(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int ask(const char *format, ...)
{
    va_list args;
    ssize_t n;
    int rc;

    if (me.answered)
        pmi_taken(&me.in, me.answered);
    me.answered = 0;
    va_start(args, format);
    rc = tell(format, args);
    va_end(args);
    if (rc != PMI_SUCCESS)
        return rc;
    if ((n = pmi_read(me.fd, &me.in, 0, true)) < 0)
        return PMI_FAIL;
    me.answered = (size_t)n;
    me.in.text[n - 1] = '\0';
    return PMI_SUCCESS;
}

/* What "rc" of the answer says; words behind it are read before. */
static int outcome(void) { return number("rc", 0) == 0 ? PMI_SUCCESS : PMI_FAIL; }

static int enter(void)
{
    pthread_mutex_lock(&me.lock);
    if (me.is_up)
        return PMI_SUCCESS;
    pthread_mutex_unlock(&me.lock);
    return PMI_ERR_INIT;
}

static int leave(int rc)
{
    pthread_mutex_unlock(&me.lock);
    return rc;
}

static int give_number(int *out, int n)
{
    int rc = out ? enter() : PMI_ERR_INVALID_ARG;

    if (rc != PMI_SUCCESS)
        return rc;
    *out = n;
    return leave(PMI_SUCCESS);
}

/* ---- begin and end ---- */

static int meet(void)
{
    int rc = ask("cmd=init pmi_version=1 pmi_subversion=1");
    const char *text;

    if (rc != PMI_SUCCESS || number("rc", 0) != 0)
        return PMI_ERR_INIT;
    if ((rc = ask("cmd=get_maxes")) != PMI_SUCCESS)
        return PMI_ERR_INIT;
    me.value_max = number("vallen_max", VALUE_MAX_ALONE);
    me.key_max = number("keylen_max", KEY_MAX_ALONE);
    me.name_max = number("kvsname_max", NAME_MAX_ALONE);
    if ((rc = ask("cmd=get_my_kvsname")) != PMI_SUCCESS || !(text = word("kvsname")) || !pmi_copy(me.kvs, sizeof me.kvs, text))
        return PMI_ERR_INIT;
    return PMI_SUCCESS;
}

int PMI_Init(int *spawned)
{
    int rc = PMI_SUCCESS;

    if (!spawned)
        return PMI_ERR_INVALID_ARG;
    pthread_mutex_lock(&me.lock);
    if (me.is_finalized)
        rc = PMI_FAIL;                  /* the launcher takes one beginning from a process */
    if (rc == PMI_SUCCESS && !me.is_up) {
        me.fd = pmi_descriptor();
        me.rank = me.fd >= 0 ? pmi_number("PMI_RANK", 0) : 0;
        me.size = me.fd >= 0 ? pmi_number("PMI_SIZE", 1) : 1;
        me.spawned = me.fd >= 0 ? pmi_number("PMI_SPAWNED", 0) : 0;
        me.name_max = NAME_MAX_ALONE;
        me.key_max = KEY_MAX_ALONE;
        me.value_max = VALUE_MAX_ALONE;
        snprintf(me.kvs, sizeof me.kvs, "singleton_%ld_0", (long)getpid());
        rc = me.fd == -2 ? PMI_ERR_INIT : me.fd >= 0 ? meet() : PMI_SUCCESS;
        me.is_up = rc == PMI_SUCCESS;
    }
    *spawned = me.is_up ? me.spawned : PMI_FALSE;
    return leave(rc);
}

int PMI_Initialized(int *initialized)
{
    if (!initialized)
        return PMI_ERR_INVALID_ARG;
    pthread_mutex_lock(&me.lock);
    *initialized = me.is_up ? PMI_TRUE : PMI_FALSE;
    return leave(PMI_SUCCESS);
}

int PMI_Finalize(void)
{
    int rc = enter();

    if (rc != PMI_SUCCESS)
        return rc;
    if (me.fd >= 0) {
        rc = ask("cmd=finalize");
        close(me.fd);
        me.fd = -1;
    }
    free(me.in.text);
    me.in = (struct pmi_input){ 0 };
    me.answered = 0;
    pmi_table_free(&me.table);
    pmi_table_free(&me.names);
    me.is_up = false;
    me.is_finalized = true;
    return leave(rc);
}

int PMI_Abort(int exit_code, const char error_msg[])
{
    if (error_msg && *error_msg)
        fprintf(stderr, "%s\n", error_msg);
    if (enter() == PMI_SUCCESS) {
        char line[64];
        int n = snprintf(line, sizeof line, "cmd=abort exitcode=%d\n", exit_code);

        if (me.fd >= 0 && n > 0)
            pmi_write(me.fd, line, (size_t)n);
        leave(PMI_SUCCESS);
    }
    exit(exit_code);
}

/* ---- who is there ---- */

int PMI_Get_size(int *size) { return give_number(size, me.size); }
int PMI_Get_rank(int *rank) { return give_number(rank, me.rank); }
int PMI_Get_id_length_max(int *length) { return give_number(length, me.name_max + 1); }
int PMI_KVS_Get_name_length_max(int *length) { return give_number(length, me.name_max + 1); }
int PMI_KVS_Get_key_length_max(int *length) { return give_number(length, me.key_max + 1); }
int PMI_KVS_Get_value_length_max(int *length) { return give_number(length, me.value_max + 1); }

static int asked_number(int *out, const char *request, const char *name, int alone)
{
    int rc = out ? enter() : PMI_ERR_INVALID_ARG;

    if (rc != PMI_SUCCESS)
        return rc;
    *out = alone;
    if (me.fd >= 0 && (rc = ask("cmd=%s", request)) == PMI_SUCCESS) {
        int n = number(name, -1);

        if (n < 0)
            rc = PMI_FAIL;
        else
            *out = n;
    }
    return leave(rc);
}

int PMI_Get_universe_size(int *size) { return asked_number(size, "get_universe_size", "size", 1); }
int PMI_Get_appnum(int *appnum) { return asked_number(appnum, "get_appnum", "appnum", 0); }

static int give_name(char *out, int length)
{
    int rc = out ? enter() : PMI_ERR_INVALID_ARG;

    if (rc != PMI_SUCCESS)
        return rc;
    return leave(length > (int)strlen(me.kvs) && pmi_copy(out, length, me.kvs) ? PMI_SUCCESS : PMI_ERR_INVALID_LENGTH);
}

int PMI_Get_id(char id_str[], int length) { return give_name(id_str, length); }
int PMI_Get_kvs_domain_id(char id_str[], int length) { return give_name(id_str, length); }
int PMI_KVS_Get_my_name(char kvsname[], int length) { return give_name(kvsname, length); }

int PMI_Barrier(void)
{
    int rc = enter();

    if (rc != PMI_SUCCESS)
        return rc;
    if (me.fd >= 0 && (rc = ask("cmd=barrier_in")) == PMI_SUCCESS)
        rc = outcome();
    return leave(rc);
}

/* Ranks of this node; NULL: only their number. */
static int clique(int *ranks, int room)
{
    const char *mapping;
    int n = -1;

    if (me.fd >= 0 && ask("cmd=get kvsname=%s key=PMI_process_mapping", me.kvs) == PMI_SUCCESS && (mapping = word("value")))
        n = pmi_mapping_ranks(mapping, me.size, me.rank, ranks, room);
    if (n > 0)
        return n;
    if (ranks && room > 0)
        ranks[0] = me.rank;             /* the launcher does not say: each for itself */
    return 1;
}

int PMI_Get_clique_size(int *size)
{
    int rc = size ? enter() : PMI_ERR_INVALID_ARG;

    if (rc != PMI_SUCCESS)
        return rc;
    *size = clique(NULL, 0);
    return leave(PMI_SUCCESS);
}

int PMI_Get_clique_ranks(int ranks[], int length)
{
    int rc = ranks ? enter() : PMI_ERR_INVALID_ARG;

    if (rc != PMI_SUCCESS)
        return rc;
    return leave(clique(ranks, length) > length ? PMI_ERR_INVALID_LENGTH : PMI_SUCCESS);
}

/* ---- keys and values ---- */

static int check_kvs(const char *name) { return !name ? PMI_ERR_INVALID_ARG : strcmp(name, me.kvs) ? PMI_ERR_INVALID_KVS : PMI_SUCCESS; }

static int check_key(const char *key)
{
    if (!key || !*key || key[strcspn(key, " =\t\r\n")])
        return PMI_ERR_INVALID_KEY;
    return strlen(key) > (size_t)me.key_max ? PMI_ERR_INVALID_KEY_LENGTH : PMI_SUCCESS;
}

static int check_value(const char *value)
{
    if (!value || value[strcspn(value, "\r\n")])
        return PMI_ERR_INVALID_VAL;     /* a line is a line */
    return strlen(value) > (size_t)me.value_max ? PMI_ERR_INVALID_VAL_LENGTH : PMI_SUCCESS;
}

int PMI_KVS_Create(char kvsname[], int length)
{
    const char *text;
    int rc = kvsname ? enter() : PMI_ERR_INVALID_ARG;

    if (rc != PMI_SUCCESS)
        return rc;
    if (me.fd < 0)
        return leave(PMI_FAIL);
    rc = ask("cmd=create_kvs");
    text = rc == PMI_SUCCESS ? word("kvsname") : NULL;
    return leave(!text ? PMI_FAIL : pmi_copy(kvsname, length, text) ? PMI_SUCCESS : PMI_ERR_INVALID_LENGTH);
}

int PMI_KVS_Destroy(const char kvsname[])
{
    int rc = kvsname ? enter() : PMI_ERR_INVALID_ARG;

    if (rc != PMI_SUCCESS)
        return rc;
    if (me.fd < 0 || kvsname[strcspn(kvsname, " \r\n")])
        return leave(PMI_ERR_INVALID_ARG);
    rc = ask("cmd=destroy_kvs kvsname=%s", kvsname);
    return leave(rc == PMI_SUCCESS ? outcome() : rc);
}

int PMI_KVS_Put(const char kvsname[], const char key[], const char value[])
{
    int rc = enter();

    if (rc != PMI_SUCCESS)
        return rc;
    if ((rc = check_kvs(kvsname)) == PMI_SUCCESS && (rc = check_key(key)) == PMI_SUCCESS && (rc = check_value(value)) == PMI_SUCCESS) {
        if (me.fd < 0)
            rc = pmi_table_put(&me.table, key, value) ? PMI_SUCCESS : PMI_ERR_NOMEM;
        else if ((rc = ask("cmd=put kvsname=%s key=%s value=%s", kvsname, key, value)) == PMI_SUCCESS)
            rc = outcome();
    }
    return leave(rc);
}

int PMI_KVS_Commit(const char kvsname[])
{
    int rc = enter();

    return rc != PMI_SUCCESS ? rc : leave(check_kvs(kvsname));
}

int PMI_KVS_Get(const char kvsname[], const char key[], char value[], int length)
{
    const char *text = NULL;
    int rc = value && length > 0 ? enter() : PMI_ERR_INVALID_ARG;

    if (rc != PMI_SUCCESS)
        return rc;
    if ((rc = check_kvs(kvsname)) == PMI_SUCCESS && (rc = check_key(key)) == PMI_SUCCESS) {
        if (me.fd < 0)
            text = pmi_table_get(me.table, key);
        else if ((rc = ask("cmd=get kvsname=%s key=%s", kvsname, key)) == PMI_SUCCESS && (text = word("value")) && number("rc", 0) != 0)
            text = NULL;
        if (rc == PMI_SUCCESS)
            rc = !text ? PMI_FAIL : pmi_copy(value, length, text) ? PMI_SUCCESS : PMI_ERR_INVALID_VAL_LENGTH;
    }
    return leave(rc);
}

int PMI_KVS_Iter_next(const char kvsname[], char key[], int key_len, char val[], int val_len)
{
    const struct pmi_entry *e = NULL;
    const char *k = NULL, *v = NULL;
    int rc = key && val && key_len > 0 && val_len > 0 ? enter() : PMI_ERR_INVALID_ARG, next;

    if (rc != PMI_SUCCESS)
        return rc;
    key[0] = val[0] = '\0';
    if ((rc = check_kvs(kvsname)) != PMI_SUCCESS)
        return leave(rc);
    if (me.fd < 0) {
        e = me.table;
        for (int i = 0; e && i < me.next; i++)
            e = e->next;
        k = e ? e->key : NULL;
        v = e ? e->value : NULL;
        me.next += e != NULL;
    } else if ((rc = ask("cmd=getbyidx kvsname=%s idx=%d", kvsname, me.next)) != PMI_SUCCESS) {
        return leave(rc);
    } else if ((v = word("val")) && (k = word("key")) && (next = number("nextidx", -1)) > me.next) {
        me.next = next;
    } else {
        k = NULL;
    }
    if (!k)
        return leave(PMI_SUCCESS);
    if (!pmi_copy(key, key_len, k))
        return leave(PMI_ERR_INVALID_KEY_LENGTH);
    return leave(pmi_copy(val, val_len, v) ? PMI_SUCCESS : PMI_ERR_INVALID_VAL_LENGTH);
}

int PMI_KVS_Iter_first(const char kvsname[], char key[], int key_len, char val[], int val_len)
{
    int rc = enter();

    if (rc != PMI_SUCCESS)
        return rc;
    me.next = 0;
    leave(rc);
    return PMI_KVS_Iter_next(kvsname, key, key_len, val, val_len);
}

/* ---- published names ---- */

static int check_name(const char *name) { return !name || !*name || name[strcspn(name, " =\t\r\n")] ? PMI_ERR_INVALID_ARG : PMI_SUCCESS; }

int PMI_Publish_name(const char service_name[], const char port[])
{
    int rc = enter();

    if (rc != PMI_SUCCESS)
        return rc;
    if (check_name(service_name) != PMI_SUCCESS || check_value(port) != PMI_SUCCESS)
        rc = PMI_ERR_INVALID_ARG;
    else if (me.fd < 0)
        rc = pmi_table_get(me.names, service_name) ? PMI_FAIL : pmi_table_put(&me.names, service_name, port) ? PMI_SUCCESS : PMI_ERR_NOMEM;
    else if ((rc = ask("cmd=publish_name service=%s port=%s", service_name, port)) == PMI_SUCCESS)
        rc = outcome();
    return leave(rc);
}

int PMI_Unpublish_name(const char service_name[])
{
    int rc = enter();

    if (rc != PMI_SUCCESS)
        return rc;
    if (check_name(service_name) != PMI_SUCCESS)
        rc = PMI_ERR_INVALID_ARG;
    else if (me.fd < 0)
        rc = pmi_table_drop(&me.names, service_name) ? PMI_SUCCESS : PMI_FAIL;
    else if ((rc = ask("cmd=unpublish_name service=%s", service_name)) == PMI_SUCCESS)
        rc = outcome();
    return leave(rc);
}

int PMI_Lookup_name(const char service_name[], char port[])
{
    const char *text = NULL;
    int rc = port ? enter() : PMI_ERR_INVALID_ARG;

    if (rc != PMI_SUCCESS)
        return rc;
    if ((rc = check_name(service_name)) != PMI_SUCCESS)
        return leave(rc);
    if (me.fd < 0)
        text = pmi_table_get(me.names, service_name);
    else if ((rc = ask("cmd=lookup_name service=%s", service_name)) == PMI_SUCCESS && (text = word("port")) && number("rc", 0) != 0)
        text = NULL;
    if (rc == PMI_SUCCESS)
        rc = text && pmi_copy(port, me.value_max + 1, text) ? PMI_SUCCESS : PMI_FAIL;
    return leave(rc);
}

/* ---- further processes, options ---- */

int PMI_Spawn_multiple(int count, const char *cmds[], const char **argvs[], const int maxprocs[], const int info_keyval_sizesp[],
                       const PMI_keyval_t *info_keyval_vectors[], int preput_keyval_size, const PMI_keyval_t preput_keyval_vector[], int errors[])
{
    int rc = count > 0 && cmds && maxprocs ? enter() : PMI_ERR_INVALID_ARG;

    (void)argvs, (void)info_keyval_sizesp, (void)info_keyval_vectors, (void)preput_keyval_size, (void)preput_keyval_vector;
    if (rc != PMI_SUCCESS)
        return rc;
    for (int i = 0; errors && i < count; i++)
        errors[i] = PMI_FAIL;
    fprintf(stderr, "PMI_Spawn_multiple: a step has the size it was started with, processes cannot be added\n");
    return leave(PMI_FAIL);
}

int PMI_Parse_option(int num_args, char *args[], int *num_parsed, PMI_keyval_t **keyvalp, int *size)
{
    if (num_args < 1)
        return PMI_ERR_INVALID_NUM_ARGS;
    if (!args)
        return PMI_ERR_INVALID_ARGS;
    if (!num_parsed)
        return PMI_ERR_INVALID_NUM_PARSED;
    if (!keyvalp)
        return PMI_ERR_INVALID_KEYVALP;
    if (!size)
        return PMI_ERR_INVALID_SIZE;
    *num_parsed = *size = 0;
    *keyvalp = NULL;
    return PMI_SUCCESS;
}

int PMI_Args_to_keyval(int *argcp, char *((*argvp)[]), PMI_keyval_t **keyvalp, int *size)
{
    if (!argcp || !argvp)
        return PMI_ERR_INVALID_ARG;
    if (!keyvalp)
        return PMI_ERR_INVALID_KEYVALP;
    if (!size)
        return PMI_ERR_INVALID_SIZE;
    *keyvalp = NULL;
    *size = 0;
    return PMI_SUCCESS;
}

int PMI_Free_keyvals(PMI_keyval_t keyvalp[], int size)
{
    return size < 0 || (size > 0 && !keyvalp) ? PMI_ERR_INVALID_ARG : size > 0 ? PMI_FAIL : PMI_SUCCESS;     /* none was ever given */
}

int PMI_Get_options(char *str, int *length)
{
    if (!str || !length)
        return PMI_ERR_INVALID_ARG;
    if (*length < 1)
        return PMI_ERR_INVALID_LENGTH;
    str[0] = '\0';
    *length = 0;
    return PMI_SUCCESS;
}
