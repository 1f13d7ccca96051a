/* SPDX-License-Identifier: Apache-2.0 */
/* names.c - names of users and groups, and the groups of a user, looked up on the pool and kept for five minutes.
 *
 * A directory service may be slow or gone; nothing on the loop waits for it. A look-up that fails is kept for five seconds only, and the
 * user is then known by number.
 */
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

#include "controller/ctl.h"

#define NAMES_KEEP_MS 300000
#define NAMES_KEEP_FAILED_MS 5000
#define NAMES_GROUPS_MAX 65536

struct names_wait { void (*done)(struct ctl *, void *, const struct named *); void *arg; struct names_wait *next; };
struct names_entry { struct named named; struct names_wait *waits; bool is_asked; uv_work_t work; struct ctl *ctl; struct named fresh; };
struct names { struct table table; size_t asked; };

static uint64_t names_key(uint32_t uid, uint32_t gid) { return (uint64_t)uid << 32 | gid; }

static void named_clear(struct named *n)
{
    for (size_t i = 0; n->group_names && i < n->group_count; i++)
        free(n->group_names[i]);
    free(n->user); free(n->group); free(n->groups); free(n->group_names);
    n->user = n->group = NULL; n->groups = NULL; n->group_names = NULL; n->group_count = 0;
}

/* On the pool: touches only e->fresh. */
static void names_look_up(uv_work_t *work)
{
    struct names_entry *e = work->data;
    char buf[16384];
    struct passwd pw, *found = NULL;
    struct group gr, *group = NULL;

    if (getpwuid_r(e->fresh.uid, &pw, buf, sizeof buf, &found) == 0 && found) {
        int count = 64;
        gid_t *groups = malloc((size_t)count * sizeof *groups);

        e->fresh.user = mem_copy(pw.pw_name);
        if (groups && getgrouplist(pw.pw_name, e->fresh.gid, groups, &count) < 0 && count > 0 && count <= NAMES_GROUPS_MAX) {
            free(groups);
            groups = malloc((size_t)count * sizeof *groups);
            if (groups && getgrouplist(pw.pw_name, e->fresh.gid, groups, &count) < 0)
                count = 0;
        }
        if (groups && count > 0) {
            e->fresh.groups = mem_array((size_t)count, sizeof *e->fresh.groups);
            e->fresh.group_names = mem_array((size_t)count, sizeof *e->fresh.group_names);
            for (int i = 0; i < count; i++) {
                e->fresh.groups[i] = groups[i];
                if (getgrgid_r(groups[i], &gr, buf, sizeof buf, &group) == 0 && group)
                    e->fresh.group_names[i] = mem_copy(gr.gr_name);
            }
            e->fresh.group_count = (size_t)count;
        }
        free(groups);
    }
    if (getgrgid_r(e->fresh.gid, &gr, buf, sizeof buf, &group) == 0 && group)
        e->fresh.group = mem_copy(gr.gr_name);
}

static void names_found(uv_work_t *work, int status)
{
    struct names_entry *e = work->data;
    struct ctl *c = e->ctl;
    struct names_wait *w = e->waits;

    (void)status;
    named_clear(&e->named);
    e->named = e->fresh;
    e->named.until_ms = clock_boot_ms() + (e->named.user ? NAMES_KEEP_MS : NAMES_KEEP_FAILED_MS);
    e->is_asked = false;
    e->waits = NULL;
    c->names->asked--;
    while (w) {
        struct names_wait *next = w->next;

        w->done(c, w->arg, &e->named);
        free(w);
        w = next;
    }
}

void names_get(struct ctl *c, uint32_t uid, uint32_t gid, void (*done)(struct ctl *, void *, const struct named *), void *arg)
{
    struct names_entry *e = table_get(&c->names->table, names_key(uid, gid));
    struct names_wait *w, **last;

    if (e && !e->is_asked && e->named.until_ms > clock_boot_ms()) {
        done(c, arg, &e->named);
        return;
    }
    if (!e) {
        e = mem_alloc(sizeof *e);
        e->ctl = c;
        e->named.uid = uid;
        e->named.gid = gid;
        table_put(&c->names->table, names_key(uid, gid), e);
    }
    w = mem_alloc(sizeof *w);
    w->done = done;
    w->arg = arg;
    for (last = &e->waits; *last; last = &(*last)->next)
        ;
    *last = w;
    if (!e->is_asked) {
        e->is_asked = true;
        e->fresh = (struct named){ .uid = uid, .gid = gid };
        e->work.data = e;
        c->names->asked++;
        uv_queue_work(c->loop, &e->work, names_look_up, names_found);
    }
}

void names_create(struct ctl *c)
{
    c->names = mem_alloc(sizeof *c->names);
    table_init(&c->names->table);
}

/* Called when the loop has stopped: no look-up is under way any more. */
void names_destroy(struct ctl *c)
{
    struct names_entry *e;

    if (!c->names)
        return;
    for (size_t i = 0; (e = table_next(&c->names->table, &i)); ) {
        named_clear(&e->named);
        free(e);
    }
    table_fini(&c->names->table);
    free(c->names);
    c->names = NULL;
}
