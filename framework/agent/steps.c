/* SPDX-License-Identifier: Apache-2.0 */
/* steps.c - what runs on this node: steps, the links to their supervisors, kills, adoption after a restart.
 *
 * A step is known from its launch until its container is empty and both reports (ENDED, GONE of the step) are durable; then its folder goes.
 * GONE of a job, which frees its resources, is said only when the leader has asked for the end (KILL until_empty), no step of the job is
 * left and its Epilog has run. A supervisor that vanishes without its last word has been killed: its tasks' sessions are killed by the agent, and when none
 * of them is left the step ends with what its state file says, or with signal 9.
 */
#include <errno.h>
#include <fcntl.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/contain.h"
#include "agent/container.h"
#include "agent/hooks.h"
#include "agent/inside.h"
#include "agent/private_tmp.h"
#include "agent/supervisor.h"
#include "client/link.h"
#include "rpc/folder.h"
#include "state/job.h"

#define STATE_MAX (1u << 20)
#define LEFT_FIRST_MS 2             /* between kills, where a supervisor was killed itself */
#define LEFT_LAST_MS  1000
#define KEEP_OVER_MS (3600 * 1000)      /* how long an ended attempt of a job is refused: longer than any credential lives */

struct supervisor_link {
    uv_poll_t poll;             /* first: freed in its close callback */
    struct link link;
    struct agent_step *step;    /* NULL once closed */
    bool greeted;
};

/* What a killed supervisor left: killed again until nobody is found, without the loop waiting for it. The step ends only then. */
struct left { uv_timer_t timer; struct agent_step *step; Wire__StepState *state; uint32_t pause_ms; int64_t since_ms; };

/* A supervisor's report on its way to the disk. */
struct passing { struct agent_step *step; uint64_t their_seq; };

const char *step_text(uint32_t step_id, char buf[16])
{
    if (step_id == STEP_BATCH)
        snprintf(buf, 16, "batch");
    else
        snprintf(buf, 16, "%u", step_id);
    return buf;
}

struct agent_step *step_find(struct identity *n, uint32_t job_id, uint32_t step_id)
{
    return table_get(&n->steps, step_key(job_id, step_id));
}

struct agent_step *step_create(struct identity *n, const Wire__Credential *grant)
{
    struct agent_step *s = mem_alloc(sizeof *s);
    char step[16];

    s->node = n;
    s->job_id = grant->job_id;
    s->step_id = grant->step_id;
    s->attempt = grant->attempt;
    s->uid = grant->uid;
    s->gid = grant->gid;
    if (!n->agent->is_emulated)
        snprintf(s->folder, sizeof s->folder, "job%u.%s.%u", s->job_id, step_text(s->step_id, step), s->attempt);
    table_put(&n->steps, step_key(s->job_id, s->step_id), s);
    return s;
}

static const struct agent_step *any_of_job(const struct identity *n, uint32_t job_id, uint32_t attempt)
{
    const struct agent_step *s;

    for (size_t i = 0; (s = table_next(&n->steps, &i)); )
        if (s->job_id == job_id && s->attempt <= attempt)
            return s;
    return NULL;
}

static void say_gone(struct identity *n, const struct ending *e)
{
    Wire__Report r = WIRE__REPORT__INIT;

    seen_add(&n->agent->seen, e->job_id, SEEN_JOB_OVER, e->attempt, node_hash(n), clock_wall_ms() + KEEP_OVER_MS);
    hooks_forget(n, e->job_id, e->attempt);
    private_tmp_over(n->agent, e->job_id);
    r.node = (char *)(uintptr_t)n->name;
    r.kind = WIRE__REPORT__KIND__GONE;
    r.job_id = e->job_id;
    r.attempt = e->attempt;
    r.has_wall_ms = 1;
    r.wall_ms = clock_wall_ms();
    r.drain = (char *)(uintptr_t)(e->epilog_failed ? "Epilog error" : NULL);
    node_report(n, &r, NULL, NULL);
}

void steps_endings(struct identity *n)
{
    struct ending **at = &n->endings, *e;

    while ((e = *at)) {
        if (any_of_job(n, e->job_id, e->attempt) || !hooks_over(n, e)) {
            at = &e->next;
            continue;
        }
        *at = e->next;
        say_gone(n, e);
        wire__job_info__free_unpacked(e->job, NULL);
        free(e);
    }
}

/* ---- links ---- */

static void link_freed(uv_handle_t *h)
{
    struct supervisor_link *l = (struct supervisor_link *)h;

    link_close(&l->link);
    free(l);
}

static void link_drop(struct agent_step *s)
{
    if (!s->link)
        return;
    s->link->step = NULL;
    uv_poll_stop(&s->link->poll);
    uv_close((uv_handle_t *)&s->link->poll, link_freed);
    s->link = NULL;
}

static void link_event(uv_poll_t *p, int status, int events);

static void link_arm(struct supervisor_link *l)
{
    uv_poll_start(&l->poll, UV_READABLE | (link_backlog(&l->link) ? UV_WRITABLE : 0), link_event);
}

static void link_say(struct agent_step *s, uint16_t type, uint64_t seq, const ProtobufCMessage *body)
{
    struct spur_error err = { 0 };

    if (!s->link)
        return;
    if (link_send(&s->link->link, type, seq, body, &err) >= 0)
        link_flush(&s->link->link, &err);       /* a broken link shows at the next read */
    link_arm(s->link);
}

void step_say(struct agent_step *s, uint16_t type, const ProtobufCMessage *body) { link_say(s, type, 0, body); }

static void step_settle(struct agent_step *s);

static void passing_done(void *arg, uint64_t number)
{
    struct passing *p = arg;
    struct agent_step *s = p->step;
    Wire__ReportAck ack = WIRE__REPORT_ACK__INIT;

    ack.seq = p->their_seq;
    ack.node = (char *)(uintptr_t)s->node->name;
    free(p);
    s->passing--;
    if (!number)                    /* the agent stops: the supervisor keeps its report */
        return;
    link_say(s, WIRE__MESSAGE_TYPE__STEP_ACK, 0, &ack.base);
    step_settle(s);
}

/* The step is over when its container is empty and its end is durable. */
static void step_settle(struct agent_step *s)
{
    if (s->phase == STEP_GONE && s->passing == 0 && !s->left)
        step_end(s);
}

/* Is its end in the spool already? Then a supervisor says it again because the agent that wrote it did not live to answer. */
static uint64_t end_in_spool(const struct agent_step *s)
{
    uint64_t seq = 0;

    for (const struct spooled *e = spool_first(s->node->agent->spool); e && !seq; e = e->next) {
        Wire__Report *r = e->durable && !e->in_memory && !strcmp(e->node, s->node->name) ? wire__report__unpack(NULL, e->len, e->bytes) : NULL;

        if (r && r->job_id == s->job_id && r->step_id == s->step_id && r->attempt == s->attempt &&
            (r->kind == WIRE__REPORT__KIND__ENDED || r->kind == WIRE__REPORT__KIND__LAUNCH_FAILED))
            seq = e->seq;
        wire__report__free_unpacked(r, NULL);
    }
    return seq;
}

static void take_event(struct agent_step *s, const Wire__Report *r)
{
    struct passing *p;
    Wire__Report copy = *r;

    copy.node = (char *)(uintptr_t)s->node->name;
    copy.job_id = s->job_id;                    /* a supervisor speaks for its own step only */
    copy.has_step_id = 1;
    copy.step_id = s->step_id;
    copy.attempt = s->attempt;
    switch (r->kind) {
    case WIRE__REPORT__KIND__STARTED:
        if (s->phase < STEP_RUNNING)
            s->phase = STEP_RUNNING;
        node_report(s->node, &copy, NULL, NULL);
        break;
    case WIRE__REPORT__KIND__ENDED: case WIRE__REPORT__KIND__LAUNCH_FAILED:
        s->phase = STEP_ENDED;
        if (!s->ended_seq && s->adopted)
            s->ended_seq = end_in_spool(s);
        if (s->ended_seq)
            break;
        p = mem_alloc(sizeof *p);
        p->step = s;
        p->their_seq = r->seq;
        s->passing++;
        s->ended_seq = UINT64_MAX;
        node_report(s->node, &copy, passing_done, p);
        s->ended_seq = copy.seq;
        return;
    case WIRE__REPORT__KIND__GONE:              /* of the step: the leader hears of the job's */
        s->phase = STEP_GONE;
        break;
    default:
        break;
    }
    {
        Wire__ReportAck ack = WIRE__REPORT_ACK__INIT;

        ack.seq = r->seq;
        ack.node = copy.node;
        link_say(s, WIRE__MESSAGE_TYPE__STEP_ACK, 0, &ack.base);
    }
}

static void supervisor_lost(struct agent_step *s, const char *why);

static void link_event(uv_poll_t *p, int status, int events)
{
    struct supervisor_link *l = (struct supervisor_link *)p;
    struct agent_step *s = l->step;
    struct spur_error err = { 0 };
    const uint8_t *body;
    struct frame f;
    int rc = 0, got = 0;

    if (!s)
        return;
    if (status < 0)
        rc = spur_fail(&err, SPUR_EIO, "%s", uv_strerror(status));
    else if (events & UV_READABLE)
        rc = link_read(&l->link, 1u << 20, &err);
    while (l->step && (got = link_next(&l->link, &f, &body, &err)) > 0) {
        if (f.type == WIRE__MESSAGE_TYPE__STEP_HELLO) {
            Wire__StepHello *hello = wire__step_hello__unpack(NULL, f.length, body);

            l->greeted = true;
            if (hello)
                contain_stuck(s, hello->has_stuck && hello->stuck);
            wire__step_hello__free_unpacked(hello, NULL);
        } else if (f.type == WIRE__MESSAGE_TYPE__STEP_EVENT) {
            Wire__Report *r = wire__report__unpack(NULL, f.length, body);

            if (r)
                take_event(s, r);
            wire__report__free_unpacked(r, NULL);
        }
    }
    if (!l->step)
        return;
    if (rc >= 0 && got >= 0)
        rc = link_flush(&l->link, &err);
    if (rc < 0 || got < 0)
        supervisor_lost(s, err.text);
    else {
        link_arm(l);
        step_settle(s);
    }
}

void step_linked(struct agent_step *s, int link_fd)
{
    struct supervisor_link *l = mem_alloc(sizeof *l);

    link_open(&l->link, link_fd, channel_local());
    l->step = s;
    s->link = l;
    if (s->phase < STEP_STARTING)
        s->phase = STEP_STARTING;
    uv_poll_init(s->node->agent->loop, &l->poll, link_fd);
    if (s->kill_asked)
        link_say(s, WIRE__MESSAGE_TYPE__STEP_SIGNAL, 0, &s->kill.base);
    link_arm(l);
}

/* ---- the end ---- */

static void left_freed(uv_handle_t *h)
{
    struct left *l = (struct left *)h;

    wire__step_state__free_unpacked(l->state, NULL);
    free(l);
}

static void left_drop(struct agent_step *s)
{
    if (!s->left)
        return;
    uv_close((uv_handle_t *)&s->left->timer, left_freed);
    s->left = NULL;
}

void step_end(struct agent_step *s)
{
    struct identity *n = s->node;
    struct agent *a = n->agent;
    struct spur_error err = { 0 };

    link_drop(s);
    left_drop(s);
    contain_stuck(s, false);
    if (s->emulated)
        emulate_free(s);
    if (s->joined && a->sw) {
        const struct spur_switch_ops *ops = loader_ops(a->sw);
        struct spur_switch_job job = { .size = sizeof job, .job_id = s->job_id, .step_id = s->step_id, .attempt = s->attempt, .uid = s->uid };

        ops->job_leave(a->sw->self, &job);
    }
    table_del(&n->steps, step_key(s->job_id, s->step_id));
    if (s->folder[0] && folder_remove(a->spool_fd, s->folder, &err) < 0)
        log_line(SPUR_LOG_WARN, "%s: %s", n->name, err.text);
    free(s);
    steps_endings(n);
}

static Wire__StepState *state_read(struct agent *a, const char *folder)
{
    int fd = openat(a->spool_fd, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    Wire__StepState *st = NULL;
    uint8_t *data = NULL;
    size_t n = 0;

    if (fd < 0)
        return NULL;
    if (folder_read(fd, STEP_STATE, STATE_MAX, &data, &n, NULL) == 0)
        st = wire__step_state__unpack(NULL, n, data);
    free(data);
    close(fd);
    return st;
}

static size_t kill_left(const struct agent *a, const Wire__StepState *st) { return contain_reclaim(a->contain, st); }

static void lost_report(struct agent_step *s, const Wire__StepState *st);

/* The call that finds nobody takes the container away; for the last of them a moment is needed. What does not die of it drains the node, as it does
 * under a supervisor. */
static void left_tick(uv_timer_t *t)
{
    struct left *l = (struct left *)t;
    struct agent_step *s = l->step;
    Wire__StepState *st = l->state;

    if (kill_left(s->node->agent, st) > 0) {
        if (clock_boot_ms() - l->since_ms > (int64_t)s->node->agent->set->contain.unkillable_s * 1000)
            contain_stuck(s, true);
        uv_timer_start(t, left_tick, l->pause_ms, 0);
        l->pause_ms = l->pause_ms * 2 > LEFT_LAST_MS ? LEFT_LAST_MS : l->pause_ms * 2;
        return;
    }
    l->state = NULL;
    left_drop(s);
    lost_report(s, st);
    wire__step_state__free_unpacked(st, NULL);
}

/* The supervisor is gone and did not say that all is over: end its tasks, report what the state file knows. */
static void supervisor_lost(struct agent_step *s, const char *why)
{
    struct identity *n = s->node;
    Wire__StepState *st;
    char step[16];

    link_drop(s);
    if (n->agent->is_stopping)
        return;
    if (s->phase == STEP_GONE) {
        step_settle(s);
        return;
    }
    st = s->folder[0] ? state_read(n->agent, s->folder) : NULL;
    log_line(SPUR_LOG_WARN, "job %u.%s: its supervisor has gone (%s): ending what it left behind", s->job_id, step_text(s->step_id, step), why);
    if (st && !strcmp(st->boot_id, boot_id())) {
        struct left *l = mem_alloc(sizeof *l);

        l->step = s;
        l->state = st;
        l->pause_ms = LEFT_FIRST_MS;
        l->since_ms = clock_boot_ms();
        s->left = l;
        uv_timer_init(n->agent->loop, &l->timer);
        left_tick(&l->timer);
        return;
    }
    lost_report(s, st);
    wire__step_state__free_unpacked(st, NULL);
}

/* The last call of whoever makes it: the step may be gone afterwards. */
static void lost_report(struct agent_step *s, const Wire__StepState *st)
{
    struct identity *n = s->node;

    if (s->adopted && !s->ended_seq)
        s->ended_seq = end_in_spool(s);
    if (!s->ended_seq) {
        Wire__Report r = WIRE__REPORT__INIT;
        struct passing *p = mem_alloc(sizeof *p);

        if (st && st->ended) {
            r = *st->ended;
        } else {
            r.kind = s->phase <= STEP_STARTING ? WIRE__REPORT__KIND__LAUNCH_FAILED : WIRE__REPORT__KIND__ENDED;
            r.has_status = 1;
            r.status = SIGKILL;
            r.text = (char *)(uintptr_t)(s->phase <= STEP_STARTING ? "the step's supervisor ended before its tasks had started" :
                                         "the step's supervisor was killed, and its tasks with it");
            r.has_wall_ms = 1;
            r.wall_ms = clock_wall_ms();
        }
        r.node = (char *)(uintptr_t)n->name;
        r.job_id = s->job_id;
        r.has_step_id = 1;
        r.step_id = s->step_id;
        r.attempt = s->attempt;
        p->step = s;
        s->passing++;
        s->ended_seq = UINT64_MAX;
        s->phase = STEP_GONE;
        node_report(n, &r, passing_done, p);
    } else {
        s->phase = STEP_GONE;
        step_settle(s);
    }
}

/* ---- kills ---- */

static bool is_meant(const struct agent_step *s, const Wire__Kill *k)
{
    if (s->job_id != k->job_id || (k->has_attempt && s->attempt != k->attempt && !(k->until_empty && s->attempt < k->attempt)))
        return false;
    if (k->has_step_id)
        return s->step_id == k->step_id;
    if (k->until_empty || k->full || k->has_freeze || k->signal == SIGKILL || k->signal == SIGSTOP || k->signal == SIGCONT || k->signal == SIGTSTP)
        return true;
    return k->batch_only ? s->step_id == STEP_BATCH : s->step_id != STEP_BATCH;     /* as scancel -s: a batch script asks for it with -b or -f */
}

static void kill_step(struct agent_step *s, const Wire__Kill *k)
{
    if (s->emulated) {
        emulate_kill(s, k);
    } else if (s->link) {
        link_say(s, WIRE__MESSAGE_TYPE__STEP_SIGNAL, 0, &k->base);
    } else if (k->until_empty || (k->has_step_id && k->signal == SIGKILL && !k->has_task)) {
        /* its credential is being checked: told when the supervisor is there, or never started */
        s->kill_asked = true;
        s->kill = *k;
    }
}

static Wire__JobInfo *job_copy(const Wire__JobInfo *job)
{
    size_t n = wire__job_info__get_packed_size(job);
    uint8_t *bytes = mem_alloc(n + 1);
    Wire__JobInfo *copy;

    wire__job_info__pack(job, bytes);
    copy = wire__job_info__unpack(NULL, n, bytes);
    free(bytes);
    return copy;
}

void steps_kill(struct identity *n, const Wire__Kill *k)
{
    struct spur_error err = { 0 };
    struct agent_step *s;

    if (k->has_fence && seen_fence(&n->agent->seen, k->fence, &err) < 0) {
        log_line(SPUR_LOG_WARN, "%s: kill of job %u refused: %s", n->name, k->job_id, err.text);
        return;
    }
    for (size_t i = 0; (s = table_next(&n->steps, &i)); )
        if (is_meant(s, k))
            kill_step(s, k);
    if (k->until_empty && !k->has_step_id) {
        struct ending *e = n->endings;

        while (e && (e->job_id != k->job_id || e->attempt != k->attempt))
            e = e->next;
        if (!e) {
            e = mem_alloc(sizeof *e);
            e->job_id = k->job_id;
            e->attempt = k->attempt;
            if (seen_has(&n->agent->seen, k->job_id, SEEN_JOB_OVER, k->attempt, node_hash(n)))
                e->epilog = EPILOG_DONE;        /* asked again because its GONE is still on its way */
            else if (k->job)            /* for the Epilog, or SPANK plugins */
                e->job = job_copy(k->job);
            e->next = n->endings;
            n->endings = e;
        }
        steps_endings(n);
    }
}

/* ---- after a restart ---- */

static struct identity *identity_of(struct agent *a, const char *name)
{
    for (size_t i = 0; name && i < a->count; i++)
        if (!strcmp(a->nodes[i].name, name))
            return &a->nodes[i];
    return NULL;
}

static void adopt_folder(struct agent *a, const char *folder)
{
    Wire__StepState *st = state_read(a, folder);
    struct identity *n = st ? identity_of(a, st->node) : NULL;
    Wire__Credential grant = WIRE__CREDENTIAL__INIT;
    struct spur_error err = { 0 };
    struct agent_step *s;
    int fd, link = -1;

    if (!st || st->version > STEP_PROTOCOL || !n || strcmp(st->boot_id, boot_id())) {
        if (st && n && !strcmp(st->boot_id, boot_id()))
            log_line(SPUR_LOG_WARN, "%s: its state file is of version %u, newer than %u: left alone", folder, st->version, STEP_PROTOCOL);
        else
            folder_remove(a->spool_fd, folder, &err);      /* of before the boot: nothing of it is alive, and the registration says so */
        wire__step_state__free_unpacked(st, NULL);
        return;
    }
    grant.job_id = st->job_id;
    grant.step_id = st->step_id;
    grant.attempt = st->attempt;
    grant.uid = st->uid;
    s = step_create(n, &grant);
    snprintf(s->folder, sizeof s->folder, "%s", folder);
    s->phase = STEP_RUNNING;
    s->adopted = true;
    seen_add(&a->seen, s->job_id, s->step_id, s->attempt, 0, clock_wall_ms() + KEEP_OVER_MS);
    fd = openat(a->spool_fd, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) {
        link = folder_connect(fd, STEP_SOCKET, &err);
        close(fd);
    }
    if (link >= 0) {
        log_line(SPUR_LOG_INFO, "%s adopted, supervisor %u", folder, st->pid);
        step_linked(s, link);
    }
    wire__step_state__free_unpacked(st, NULL);
}

static bool is_alive_besides(const struct identity *n, const struct agent_step *s)
{
    const struct agent_step *o;

    for (size_t i = 0; (o = table_next(&n->steps, &i)); )
        if (o != s && o->link && o->job_id == s->job_id && o->attempt == s->attempt)
            return true;
    return false;
}

/* A batch script that vanished with its supervisor while no agent was there, as when the whole machine went: there is no end to report. The
 * registration does not name it, and the job goes back to the queue or ends as NODE_FAIL. */
static void batch_vanished(struct agent_step *s)
{
    Wire__StepState *st = state_read(s->node->agent, s->folder);

    log_line(SPUR_LOG_WARN, "job %u.batch: gone with its supervisor while no agent ran", s->job_id);
    if (st && !strcmp(st->boot_id, boot_id()))
        for (int round = 0; round < 3 && kill_left(s->node->agent, st) > 0; round++)
            ;
    wire__step_state__free_unpacked(st, NULL);
    step_end(s);
}

static void adopt_lost(struct identity *n)
{
    struct agent_step *s;

    for (size_t i = 0; (s = table_next(&n->steps, &i)); ) {
        Wire__StepState *st;
        bool has_ended;

        if (s->link || !s->adopted || s->phase != STEP_RUNNING)
            continue;
        st = state_read(n->agent, s->folder);
        has_ended = (st && st->ended) || end_in_spool(s);
        wire__step_state__free_unpacked(st, NULL);
        if (s->step_id == STEP_BATCH && !has_ended && !is_alive_besides(n, s))
            batch_vanished(s);
        else
            supervisor_lost(s, "it does not answer");
    }
}

void steps_adopt(struct agent *a)
{
    struct dirent *d;
    int fd = a->spool_fd < 0 ? -1 : fcntl(a->spool_fd, F_DUPFD_CLOEXEC, 0);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    char **names = NULL;
    size_t n = 0;

    while (dir && (d = readdir(dir)))
        if (!strncmp(d->d_name, "job", 3) && strlen(d->d_name) < 60) {
            names = mem_grow(names, n + 1, sizeof *names);
            names[n++] = mem_copy(d->d_name);
        }
    if (dir)
        closedir(dir);
    for (size_t i = 0; i < n; i++) {
        adopt_folder(a, names[i]);
        free(names[i]);
    }
    free(names);
    for (size_t i = 0; i < a->count; i++)
        adopt_lost(&a->nodes[i]);
}

void steps_detach(struct identity *n)
{
    struct agent_step *s;

    for (size_t i = 0; (s = table_next(&n->steps, &i)); ) {
        link_drop(s);
        left_drop(s);
        if (s->emulated)
            emulate_free(s);
    }
}

bool steps_user_is_here(const struct agent *a, uint32_t uid)
{
    const struct agent_step *s;

    for (size_t k = 0; k < a->count; k++)
        for (size_t i = 0; (s = table_next(&a->nodes[k].steps, &i)); )
            if (s->uid == uid)
                return true;
    return false;
}

/* What is alive, and what has ended without the leader knowing: those reports are still in the spool. */
size_t steps_running(const struct identity *n, Wire__RunningStep ***rows)
{
    const struct agent_step *s;
    size_t count = 0, room = table_count(&n->steps) + spool_count(n->agent->spool);

    *rows = mem_array(room + 1, sizeof **rows);
    for (size_t i = 0; (s = table_next(&n->steps, &i)); ) {
        Wire__RunningStep *r = (*rows)[count++] = mem_alloc(sizeof *r);

        wire__running_step__init(r);
        r->job_id = s->job_id;
        r->step_id = s->step_id;
        r->attempt = s->attempt;
    }
    for (const struct spooled *e = spool_first(n->agent->spool); e; e = e->next) {
        Wire__Report *rep = strcmp(e->node, n->name) ? NULL : wire__report__unpack(NULL, e->len, e->bytes);

        if (rep && (rep->kind == WIRE__REPORT__KIND__ENDED || rep->kind == WIRE__REPORT__KIND__LAUNCH_FAILED) &&
            !table_get(&n->steps, step_key(rep->job_id, rep->step_id))) {
            Wire__RunningStep *r = (*rows)[count++] = mem_alloc(sizeof *r);

            wire__running_step__init(r);
            r->job_id = rep->job_id;
            r->step_id = rep->step_id;
            r->attempt = rep->attempt;
        }
        wire__report__free_unpacked(rep, NULL);
    }
    return count;
}
