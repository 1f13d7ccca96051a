/* SPDX-License-Identifier: Apache-2.0 */
/* pmi2.c - libpmi2.so.0: the interface of slurm/pmi2.h over PMI-2's wire: six digits of length, then "cmd=kvs-put;key=...;", a ';' in a value written twice.
 *
 * Each request carries a number (thrid) that its answer repeats, so several threads have requests under way: whoever waits and finds nobody reading reads for all,
 * and puts what is not his into a list. A thread that waits for a node attribute thus keeps no other one from putting it.
 * Alone, without PMI_FD, the same functions work on tables of this process.
 */
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inside.h"
#include <slurm/pmi2.h>

#define NAME_LEN_MAX 256
#define REQUEST_MAX  (4 * PMI2_MAX_VALLEN + 1024)
#define PAIRS_MAX    24

struct pairs { struct { const char *name, *value; } at[PAIRS_MAX]; size_t count; };
struct answer { struct answer *next; unsigned number; char *text; struct pairs pairs; };
struct request { char text[REQUEST_MAX + 8]; size_t len; bool is_full; };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t came;                /* an answer, a node attribute of who is alone, or nobody reads any more */
    bool is_up, is_finalized, is_read, is_broken;
    int  fd;                            /* -1: alone */
    int  spawned, size, rank, appnum;
    char job[NAME_LEN_MAX + 1];
    unsigned last;                      /* number of a request */
    int  rings;
    struct pmi_input in;
    struct answer *answers;
    struct pmi_entry *table, *node, *names;
} me = { .lock = PTHREAD_MUTEX_INITIALIZER, .came = PTHREAD_COND_INITIALIZER, .fd = -1 };

/* ---- requests and answers ---- */

static void add_bytes(struct request *q, const char *text, size_t n)
{
    if (q->len + n > REQUEST_MAX) {
        q->is_full = true;
        return;
    }
    memcpy(q->text + 6 + q->len, text, n);
    q->len += n;
}

static void add(struct request *q, const char *name, const char *value)
{
    add_bytes(q, name, strlen(name));
    add_bytes(q, "=", 1);
    for (; *value; value++) {
        if (*value == ';')
            add_bytes(q, ";", 1);
        add_bytes(q, value, 1);
    }
    add_bytes(q, ";", 1);
}

static void add_number(struct request *q, const char *name, int n)
{
    char text[16];

    snprintf(text, sizeof text, "%d", n);
    add(q, name, text);
}

/* With the lock: names the request's answer. */
static void begin(struct request *q, const char *cmd)
{
    q->len = 0;
    q->is_full = false;
    add(q, "cmd", cmd);
    add_number(q, "thrid", (int)(me.last = (me.last + 1) % INT_MAX));
}

static struct pairs cut(char *text)
{
    struct pairs p = { .count = 0 };

    while (*text && p.count < PAIRS_MAX) {
        char *eq = strchr(text, '='), *to, *from;

        if (!eq)
            break;
        *eq = '\0';
        p.at[p.count].name = text;
        p.at[p.count++].value = to = from = eq + 1;
        while (*from && (from[0] != ';' || from[1] == ';')) {
            if (*from == ';')
                from++;
            *to++ = *from++;
        }
        text = *from ? from + 1 : from;
        *to = '\0';
    }
    return p;
}

static const char *pair(const struct answer *a, const char *name)
{
    for (size_t i = 0; a && i < a->pairs.count; i++)
        if (!strcmp(a->pairs.at[i].name, name))
            return a->pairs.at[i].value;
    return NULL;
}

static int pair_number(const struct answer *a, const char *name, int otherwise)
{
    const char *text = pair(a, name);
    char *end;
    long n = text ? strtol(text, &end, 10) : 0;

    return !text || end == text || *end || n < INT_MIN || n > INT_MAX ? otherwise : (int)n;
}

static bool is_true(const char *text) { return text && (!strcmp(text, "TRUE") || !strcmp(text, "1")); }

static void answer_free(struct answer *a)
{
    if (a)
        free(a->text);
    free(a);
}

/* Without the lock, by one thread: the next answer. NULL: the launcher is gone or says what is none. */
static struct answer *answer_read(void)
{
    struct answer *a;
    char digits[7] = { 0 }, *end;
    ssize_t n = pmi_read(me.fd, &me.in, 6, false);
    long len;

    if (n < 0)
        return NULL;
    memcpy(digits, me.in.text, 6);
    len = strtol(digits, &end, 10);
    if (end[strspn(end, " ")] || len < 0 || pmi_read(me.fd, &me.in, 6 + (size_t)len, false) < 0 || !(a = calloc(1, sizeof *a)))
        return NULL;
    if (!(a->text = malloc((size_t)len + 1))) {
        free(a);
        return NULL;
    }
    memcpy(a->text, me.in.text + 6, (size_t)len);
    a->text[len] = '\0';
    pmi_taken(&me.in, 6 + (size_t)len);
    a->pairs = cut(a->text);
    a->number = (unsigned)pair_number(a, "thrid", -1);
    return a;
}

static struct answer *answer_take(unsigned number)
{
    for (struct answer **at = &me.answers, *a; (a = *at); at = &a->next)
        if (a->number == number || a->number == (unsigned)-1) {     /* a launcher without numbers serves one thread */
            *at = a->next;
            return a;
        }
    return NULL;
}

/* With the lock, which is let go while the launcher is waited for. NULL: it is gone, or the request is too long. Freed by the caller. */
static struct answer *ask(struct request *q)
{
    unsigned number = me.last;
    struct answer *a = NULL;
    char digits[8];

    if (q->is_full || me.is_broken)
        return NULL;
    snprintf(digits, sizeof digits, "%6u", (unsigned)q->len % 1000000u);
    memcpy(q->text, digits, 6);
    if (pmi_write(me.fd, q->text, 6 + q->len) < 0)
        me.is_broken = true;
    while (!me.is_broken && !(a = answer_take(number))) {
        struct answer *got;

        if (me.is_read) {
            pthread_cond_wait(&me.came, &me.lock);
            continue;
        }
        me.is_read = true;
        pthread_mutex_unlock(&me.lock);
        got = answer_read();
        pthread_mutex_lock(&me.lock);
        me.is_read = false;
        if (got) {
            got->next = me.answers;
            me.answers = got;
        } else {
            me.is_broken = true;
        }
        pthread_cond_broadcast(&me.came);
    }
    return a;
}

/* What the launcher refuses is PMI2_ERR_OTHER, as Slurm's library has it. */
static int outcome(const struct answer *a) { return !a ? PMI2_FAIL : pair_number(a, "rc", PMI2_FAIL) == 0 ? PMI2_SUCCESS : PMI2_ERR_OTHER; }

/* For a request of which only the outcome matters. */
static int done(struct request *q)
{
    struct answer *a = ask(q);
    int rc = outcome(a);

    answer_free(a);
    return rc;
}

static int enter(void)
{
    pthread_mutex_lock(&me.lock);
    if (me.is_up)
        return PMI2_SUCCESS;
    pthread_mutex_unlock(&me.lock);
    return PMI2_ERR_INIT;
}

static int leave(int rc)
{
    pthread_mutex_unlock(&me.lock);
    return rc;
}

/* ---- begin and end ---- */

static int meet(void)
{
    static const char hello[] = "cmd=init pmi_version=2 pmi_subversion=0\n";
    struct request q;
    struct answer *a;
    ssize_t n;
    int rc;

    if (pmi_write(me.fd, hello, sizeof hello - 1) < 0 || (n = pmi_read(me.fd, &me.in, 0, true)) < 0)
        return PMI2_ERR_INIT;
    me.in.text[n - 1] = '\0';
    rc = strstr(me.in.text, "pmi_version=2") && strstr(me.in.text, "rc=0") ? PMI2_SUCCESS : PMI2_ERR_INIT;
    pmi_taken(&me.in, (size_t)n);
    if (rc != PMI2_SUCCESS)
        return rc;
    begin(&q, "fullinit");
    add(&q, "pmijobid", getenv("PMI_JOBID") ? getenv("PMI_JOBID") : "");
    add_number(&q, "pmirank", me.rank);
    add(&q, "threaded", "TRUE");
    a = ask(&q);
    if ((rc = outcome(a)) == PMI2_SUCCESS) {
        me.rank = pair_number(a, "rank", me.rank);
        me.size = pair_number(a, "size", me.size);
        me.appnum = pair_number(a, "appnum", 0);
        me.spawned = is_true(pair(a, "spawner-jobid")) || pmi_number("PMI_SPAWNED", 0) > 0;
    }
    answer_free(a);
    if (rc != PMI2_SUCCESS)
        return PMI2_ERR_INIT;
    begin(&q, "job-getid");
    a = ask(&q);
    if (outcome(a) != PMI2_SUCCESS || !pair(a, "jobid") || !pmi_copy(me.job, sizeof me.job, pair(a, "jobid")))
        rc = PMI2_ERR_INIT;
    answer_free(a);
    return rc;
}

int PMI2_Init(int *spawned, int *size, int *rank, int *appnum)
{
    int rc = PMI2_SUCCESS;

    if (!spawned || !size || !rank || !appnum)
        return PMI2_ERR_INVALID_ARG;
    pthread_mutex_lock(&me.lock);
    if (me.is_finalized)
        rc = PMI2_FAIL;                 /* the launcher takes one beginning from a process */
    if (rc == PMI2_SUCCESS && !me.is_up) {
        me.fd = pmi_descriptor();
        me.rank = me.fd >= 0 ? pmi_number("PMI_RANK", 0) : 0;
        me.size = me.fd >= 0 ? pmi_number("PMI_SIZE", 1) : 1;
        me.spawned = 0;
        me.appnum = me.fd >= 0 ? 0 : -1;
        snprintf(me.job, sizeof me.job, "singleton_%ld_0", (long)getpid());
        rc = me.fd == -2 ? PMI2_ERR_INIT : me.fd >= 0 ? meet() : PMI2_SUCCESS;
        me.is_up = rc == PMI2_SUCCESS;
    }
    *spawned = me.spawned;
    *size = me.size;
    *rank = me.rank;
    *appnum = me.appnum;
    return leave(rc);
}

int PMI2_Initialized(void)
{
    int is_up;

    pthread_mutex_lock(&me.lock);
    is_up = me.is_up;
    return leave(is_up);
}

int PMI2_Finalize(void)
{
    struct request q;
    int rc = enter();

    if (rc != PMI2_SUCCESS)
        return rc;
    if (me.fd >= 0) {
        begin(&q, "finalize");
        rc = done(&q);
        me.is_broken = true;            /* for threads that still wait */
        pthread_cond_broadcast(&me.came);
        if (!me.is_read) {
            close(me.fd);
            free(me.in.text);
            me.in = (struct pmi_input){ 0 };
        }
        me.fd = -1;
    }
    while (me.answers) {
        struct answer *next = me.answers->next;

        answer_free(me.answers);
        me.answers = next;
    }
    pmi_table_free(&me.table);
    pmi_table_free(&me.node);
    pmi_table_free(&me.names);
    me.is_up = false;
    me.is_finalized = true;
    return leave(rc);
}

int PMI2_Abort(int flag, const char msg[])
{
    struct request q;

    if (msg && *msg)
        fprintf(stderr, "%s\n", msg);
    if (enter() == PMI2_SUCCESS) {
        if (me.fd >= 0) {
            char text[300], digits[8];

            pmi_copy(text, sizeof text, msg ? msg : "");
            begin(&q, "abort");
            add(&q, "isworld", flag ? "TRUE" : "FALSE");
            add(&q, "msg", text);
            snprintf(digits, sizeof digits, "%6u", (unsigned)q.len % 1000000u);
            memcpy(q.text, digits, 6);
            pmi_write(me.fd, q.text, 6 + q.len);        /* nobody answers it */
        }
        leave(PMI2_SUCCESS);
    }
    exit(PMI2_FAIL);
}

/* ---- who is there ---- */

int PMI2_Job_GetId(char jobid[], int jobid_size)
{
    int rc = jobid && jobid_size > 0 ? enter() : PMI2_ERR_INVALID_ARG;

    return rc != PMI2_SUCCESS ? rc : leave(pmi_copy(jobid, jobid_size, me.job) ? PMI2_SUCCESS : PMI2_ERR_INVALID_LENGTH);
}

int PMI2_Job_GetRank(int *rank)
{
    int rc = rank ? enter() : PMI2_ERR_INVALID_ARG;

    if (rc != PMI2_SUCCESS)
        return rc;
    *rank = me.rank;
    return leave(PMI2_SUCCESS);
}

/* With the lock. 0 with the value at *value (freed with *from, or borrowed where that is NULL), found or NULL. */
static int job_attribute(const char *name, struct answer **from, const char **value)
{
    struct request q;
    int rc;

    *from = NULL;
    *value = NULL;
    if (me.fd < 0) {
        *value = !strcmp(name, "universeSize") ? "1" : !strcmp(name, "PMI_process_mapping") ? "(vector,(0,1,1))" : !strcmp(name, "hasNameServ") ? "FALSE" : NULL;
        return PMI2_SUCCESS;
    }
    begin(&q, "info-getjobattr");
    add(&q, "key", name);
    *from = ask(&q);
    if ((rc = outcome(*from)) == PMI2_SUCCESS && is_true(pair(*from, "found")))
        *value = pair(*from, "value");
    return rc;
}

int PMI2_Info_GetSize(int *size)
{
    int rc = size ? enter() : PMI2_ERR_INVALID_ARG;

    if (rc != PMI2_SUCCESS)
        return rc;
    *size = me.size;
    return leave(PMI2_SUCCESS);
}

/* ---- keys and values ---- */

static int check_key(const char *key, size_t max)
{
    if (!key || !*key || key[strcspn(key, ";=")])
        return PMI2_ERR_INVALID_KEY;
    return strlen(key) > max ? PMI2_ERR_INVALID_KEY_LENGTH : PMI2_SUCCESS;
}

static int check_value(const char *value)
{
    return !value ? PMI2_ERR_INVALID_VAL : strlen(value) > PMI2_MAX_VALLEN ? PMI2_ERR_INVALID_VAL_LENGTH : PMI2_SUCCESS;
}

static int put(const char *cmd, struct pmi_entry **alone, const char *key, const char *value)
{
    struct request q;
    int rc = check_key(key, PMI2_MAX_KEYLEN);

    if (rc != PMI2_SUCCESS || (rc = check_value(value)) != PMI2_SUCCESS || (rc = enter()) != PMI2_SUCCESS)
        return rc;
    if (me.fd < 0) {
        rc = pmi_table_put(alone, key, value) ? PMI2_SUCCESS : PMI2_ERR_NOMEM;
        pthread_cond_broadcast(&me.came);
        return leave(rc);
    }
    begin(&q, cmd);
    add(&q, "key", key);
    add(&q, "value", value);
    return leave(done(&q));
}

int PMI2_KVS_Put(const char key[], const char value[]) { return put("kvs-put", &me.table, key, value); }
int PMI2_Info_PutNodeAttr(const char name[], const char value[]) { return put("info-putnodeattr", &me.node, name, value); }

int PMI2_KVS_Fence(void)
{
    struct request q;
    int rc = enter();

    if (rc != PMI2_SUCCESS)
        return rc;
    if (me.fd < 0)
        return leave(PMI2_SUCCESS);
    begin(&q, "kvs-fence");
    return leave(done(&q));
}

int PMI2_KVS_Get(const char *jobid, int src_pmi_id, const char key[], char value[], int maxvalue, int *vallen)
{
    const char *text = NULL;
    struct answer *a = NULL;
    struct request q;
    int rc = check_key(key, PMI2_MAX_KEYLEN);

    if (rc == PMI2_SUCCESS && (!value || maxvalue < 1 || !vallen))
        rc = PMI2_ERR_INVALID_ARG;
    if (rc != PMI2_SUCCESS || (rc = enter()) != PMI2_SUCCESS)
        return rc;
    *vallen = 0;
    if (me.fd < 0) {
        text = !jobid || !strcmp(jobid, me.job) ? pmi_table_get(me.table, key) : NULL;
    } else {
        begin(&q, "kvs-get");
        add(&q, "jobid", jobid ? jobid : me.job);
        add_number(&q, "srcid", src_pmi_id);
        add(&q, "key", key);
        a = ask(&q);
        text = outcome(a) == PMI2_SUCCESS && is_true(pair(a, "found")) ? pair(a, "value") : NULL;
    }
    rc = text ? PMI2_SUCCESS : me.is_broken ? PMI2_FAIL : PMI2_ERR_OTHER;
    if (text)
        *vallen = pmi_copy(value, maxvalue, text) ? (int)strlen(text) : -(int)strlen(text);
    answer_free(a);
    return leave(rc);
}

/* ---- attributes ---- */

int PMI2_Info_GetNodeAttr(const char name[], char value[], int valuelen, int *found, int waitfor)
{
    const char *text = NULL;
    struct answer *a = NULL;
    struct request q;
    int rc = check_key(name, PMI2_MAX_KEYLEN);

    if (rc == PMI2_SUCCESS && (!value || valuelen < 1 || !found))
        rc = PMI2_ERR_INVALID_ARG;
    if (rc != PMI2_SUCCESS || (rc = enter()) != PMI2_SUCCESS)
        return rc;
    if (me.fd < 0) {
        while (!(text = pmi_table_get(me.node, name)) && waitfor)
            pthread_cond_wait(&me.came, &me.lock);
    } else {
        begin(&q, "info-getnodeattr");
        add(&q, "key", name);
        add(&q, "wait", waitfor ? "TRUE" : "FALSE");
        a = ask(&q);
        if ((rc = outcome(a)) == PMI2_SUCCESS && is_true(pair(a, "found")))
            text = pair(a, "value");
    }
    *found = text != NULL;
    if (text && !pmi_copy(value, valuelen, text))
        rc = PMI2_ERR_INVALID_VAL_LENGTH;
    answer_free(a);
    return leave(rc);
}

int PMI2_Info_GetJobAttr(const char name[], char value[], int valuelen, int *found)
{
    const char *text;
    struct answer *a;
    int rc = check_key(name, PMI2_MAX_ATTRVALUE);

    if (rc == PMI2_SUCCESS && (!value || valuelen < 1 || !found))
        rc = PMI2_ERR_INVALID_ARG;
    if (rc != PMI2_SUCCESS || (rc = enter()) != PMI2_SUCCESS)
        return rc;
    rc = job_attribute(name, &a, &text);
    *found = rc == PMI2_SUCCESS && text;
    if (*found && !pmi_copy(value, valuelen, text))
        rc = PMI2_ERR_INVALID_VAL_LENGTH;
    answer_free(a);
    return leave(rc);
}

/* "1,2,5" */
static int numbers(const char *text, int array[], int arraylen, int *outlen)
{
    *outlen = 0;
    while (*text) {
        char *end;
        long n = strtol(text, &end, 10);

        if (end == text || (*end && *end != ',') || n < INT_MIN || n > INT_MAX)
            return PMI2_ERR_INVALID_VAL;
        if (*outlen == arraylen)
            return PMI2_ERR_INVALID_VAL_LENGTH;
        array[(*outlen)++] = (int)n;
        text = *end ? end + 1 : end;
    }
    return PMI2_SUCCESS;
}

int PMI2_Info_GetNodeAttrIntArray(const char name[], int array[], int arraylen, int *outlen, int *found)
{
    char text[PMI2_MAX_ATTRVALUE + 1];
    int rc = array && arraylen > 0 && outlen ? PMI2_Info_GetNodeAttr(name, text, sizeof text, found, 0) : PMI2_ERR_INVALID_ARG;

    return rc != PMI2_SUCCESS || !*found ? rc : numbers(text, array, arraylen, outlen);
}

int PMI2_Info_GetJobAttrIntArray(const char name[], int array[], int arraylen, int *outlen, int *found)
{
    char text[PMI2_MAX_ATTRVALUE + 1];
    int rc = array && arraylen > 0 && outlen ? PMI2_Info_GetJobAttr(name, text, sizeof text, found) : PMI2_ERR_INVALID_ARG;

    return rc != PMI2_SUCCESS || !*found ? rc : numbers(text, array, arraylen, outlen);
}

/* ---- published names ---- */

int PMI2_Nameserv_publish(const char service_name[], const struct MPID_Info *info_ptr, const char port[])
{
    struct request q;
    int rc = check_key(service_name, NAME_LEN_MAX - 1);

    (void)info_ptr;
    if (rc == PMI2_SUCCESS)
        rc = check_value(port);
    if (rc != PMI2_SUCCESS || (rc = enter()) != PMI2_SUCCESS)
        return rc;
    if (me.fd < 0)
        return leave(pmi_table_get(me.names, service_name) ? PMI2_ERR_OTHER : pmi_table_put(&me.names, service_name, port) ? PMI2_SUCCESS : PMI2_ERR_NOMEM);
    begin(&q, "name-publish");
    add(&q, "name", service_name);
    add(&q, "port", port);
    add_number(&q, "infokeycount", 0);
    return leave(done(&q));
}

int PMI2_Nameserv_lookup(const char service_name[], const struct MPID_Info *info_ptr, char port[], int portLen)
{
    const char *text = NULL;
    struct answer *a = NULL;
    struct request q;
    int rc = check_key(service_name, NAME_LEN_MAX - 1);

    (void)info_ptr;
    if (rc == PMI2_SUCCESS && (!port || portLen < 1))
        rc = PMI2_ERR_INVALID_ARG;
    if (rc != PMI2_SUCCESS || (rc = enter()) != PMI2_SUCCESS)
        return rc;
    if (me.fd < 0) {
        text = pmi_table_get(me.names, service_name);
    } else {
        begin(&q, "name-lookup");
        add(&q, "name", service_name);
        add_number(&q, "infokeycount", 0);
        a = ask(&q);
        if (outcome(a) == PMI2_SUCCESS && !(text = pair(a, "value")))
            text = pair(a, "port");
    }
    rc = !text ? PMI2_ERR_OTHER : pmi_copy(port, portLen, text) ? PMI2_SUCCESS : PMI2_ERR_INVALID_LENGTH;
    answer_free(a);
    return leave(rc);
}

int PMI2_Nameserv_unpublish(const char service_name[], const struct MPID_Info *info_ptr)
{
    struct request q;
    int rc = check_key(service_name, NAME_LEN_MAX - 1);

    (void)info_ptr;
    if (rc != PMI2_SUCCESS || (rc = enter()) != PMI2_SUCCESS)
        return rc;
    if (me.fd < 0)
        return leave(pmi_table_drop(&me.names, service_name) ? PMI2_SUCCESS : PMI2_ERR_OTHER);
    begin(&q, "name-unpublish");
    add(&q, "name", service_name);
    add_number(&q, "infokeycount", 0);
    return leave(done(&q));
}

/* ---- further processes, other jobs ---- */

int PMI2_Job_Spawn(int count, const char *cmds[], int argcs[], const char **argvs[], const int maxprocs[], const int info_keyval_sizes[],
                   const struct MPID_Info *info_keyval_vectors[], int preput_keyval_size, const struct MPID_Info *preput_keyval_vector[],
                   char jobId[], int jobIdSize, int errors[])
{
    int rc = count > 0 && cmds && maxprocs ? enter() : PMI2_ERR_INVALID_ARG;

    (void)argcs, (void)argvs, (void)info_keyval_sizes, (void)info_keyval_vectors, (void)preput_keyval_size, (void)preput_keyval_vector;
    if (rc != PMI2_SUCCESS)
        return rc;
    for (int i = 0; errors && i < count; i++)
        errors[i] = PMI2_FAIL;
    if (jobId && jobIdSize > 0)
        jobId[0] = '\0';
    fprintf(stderr, "PMI2_Job_Spawn: a step has the size it was started with, processes cannot be added\n");
    return leave(PMI2_FAIL);
}

int PMI2_Job_Connect(const char jobid[], PMI2_Connect_comm_t *conn)
{
    int rc = jobid && conn ? enter() : PMI2_ERR_INVALID_ARG;

    return rc != PMI2_SUCCESS ? rc : leave(PMI2_FAIL);
}

int PMI2_Job_Disconnect(const char jobid[])
{
    int rc = jobid ? enter() : PMI2_ERR_INVALID_ARG;

    return rc != PMI2_SUCCESS ? rc : leave(PMI2_FAIL);
}

/* ---- a ring of all ranks ---- */

static int ring_of(int ring, int rank, char text[PMI2_MAX_VALLEN + 1])
{
    char key[PMI2_MAX_KEYLEN + 1];
    int len;

    snprintf(key, sizeof key, "PMIX_Ring/%d/%d", ring, rank);
    return PMI2_KVS_Get(NULL, rank, key, text, PMI2_MAX_VALLEN + 1, &len);
}

int PMIX_Ring(const char value[], int *rank, int *ranks, char left[], char right[], int maxvalue)
{
    char key[PMI2_MAX_KEYLEN + 1], text[PMI2_MAX_VALLEN + 1];
    int rc = value && rank && ranks && left && right && maxvalue > 0 ? enter() : PMI2_ERR_INVALID_ARG, ring;

    if (rc != PMI2_SUCCESS)
        return rc;
    *rank = me.rank;
    *ranks = me.size;
    ring = me.rings++;
    leave(PMI2_SUCCESS);
    snprintf(key, sizeof key, "PMIX_Ring/%d/%d", ring, *rank);
    if ((rc = PMI2_KVS_Put(key, value)) != PMI2_SUCCESS || (rc = PMI2_KVS_Fence()) != PMI2_SUCCESS)
        return rc;
    if ((rc = ring_of(ring, (*rank + *ranks - 1) % *ranks, text)) != PMI2_SUCCESS)
        return rc;
    if (!pmi_copy(left, maxvalue, text))
        return PMI2_ERR_INVALID_LENGTH;
    if ((rc = ring_of(ring, (*rank + 1) % *ranks, text)) != PMI2_SUCCESS)
        return rc;
    return pmi_copy(right, maxvalue, text) ? PMI2_SUCCESS : PMI2_ERR_INVALID_LENGTH;
}
