/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_group.c - `spur sandbox controllers N`: the group grows or shrinks while the cluster runs, as an administrator would do it.
 *
 * Growing: files and keys of the new controller, its daemon with an empty folder, then the leader is asked to add it; done when it votes. Shrinking, the last
 * one first: the leader is asked to remove it; done when no member has its name, then its daemon ends and its line goes. One at a time, since a group
 * takes one change at a time. Called by sandbox.c.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "client/client.h"
#include "cmds/sandbox.h"
#include "config/config.h"
#include "wire/unpack.h"

#define CALL_ROOM (1u << 20)

enum membership { MEMBER_UNKNOWN, MEMBER_NONE, MEMBER_LEARNER, MEMBER_VOTER };

/* As the leader sees it: one that was removed may go on believing in itself. MEMBER_UNKNOWN: no leader answers. */
static enum membership membership(const struct sandbox *s, const struct daemons *d, const char *name)
{
    const char *leader = controller_leading(s, d);
    enum membership is = MEMBER_UNKNOWN;
    const Wire__MembersReply *reply;
    struct arena a;

    arena_init(&a, CALL_ROOM);
    if (leader && (reply = controller_ask(s, d, leader, WIRE__MESSAGE_TYPE__MEMBERS, WIRE__MESSAGE_TYPE__MEMBERS_LIST, &wire__members_reply__descriptor, &a)) &&
        reply->role && !strcmp(reply->role, "leader")) {
        is = MEMBER_NONE;
        for (size_t i = 0; i < reply->n_members; i++)
            if (!strcmp(reply->members[i]->name, name))
                is = reply->members[i]->voter ? MEMBER_VOTER : MEMBER_LEARNER;
    }
    arena_fini(&a);
    return is;
}

static int change(struct client *c, Wire__MemberChangeRequest__Verb verb, const char *name, const char *addr, struct spur_error *err)
{
    Wire__MemberChangeRequest request = WIRE__MEMBER_CHANGE_REQUEST__INIT;
    struct arena a;
    void *reply;
    int number, rc;

    request.verb = verb;
    request.name = (char *)(uintptr_t)name;
    request.addr = (char *)(uintptr_t)addr;
    arena_init(&a, CALL_ROOM);
    rc = client_call(c, WIRE__MESSAGE_TYPE__MEMBER_CHANGE, &request.base, WIRE__MESSAGE_TYPE__DONE, &wire__done_reply__descriptor, &a, &reply, &number, err);
    arena_fini(&a);
    return rc;
}

/* Asks, and asks again what an election or another change has kept from being done, until the member is what it shall be. */
static int member_become(const struct sandbox *s, const struct daemons *d, struct client *c, const char *name, const char *addr, enum membership wanted, int64_t deadline, struct spur_error *err)
{
    int64_t asked_ms = 0;
    enum membership is;

    while ((is = membership(s, d, name)) != wanted) {
        if (clock_mono_ms() > deadline)
            return err->code ? spur_context(err, "%s", name) : spur_fail(err, SPUR_ETIMEOUT, "%s did not %s in time; `spur controller status` says how far it is", name,
                                                                         wanted == MEMBER_VOTER ? "become a voter" : "leave the group");
        if (clock_mono_ms() - asked_ms > 3000 && is != MEMBER_UNKNOWN && !(wanted == MEMBER_VOTER && is == MEMBER_LEARNER)) {
            change(c, wanted == MEMBER_VOTER ? WIRE__MEMBER_CHANGE_REQUEST__VERB__ADD : WIRE__MEMBER_CHANGE_REQUEST__VERB__REMOVE, name, addr, err);
            asked_ms = clock_mono_ms();
        }
        nanosleep(&(struct timespec){ 0, 50000000 }, NULL);
    }
    err->code = 0;
    return 0;
}

int sandbox_group(struct sandbox *s, struct config *cfg, uint32_t count, int64_t deadline, struct spur_error *err)
{
    uint32_t have = (uint32_t)cfg->controller_count;
    struct client *c = NULL;
    char conf[1024], name[64];
    int rc = 0;

    snprintf(conf, sizeof conf, "%s/slurm.conf", s->dir);
    if ((rc = client_open(conf, &c, err)) < 0)
        return rc;
    if (have < count && change(c, WIRE__MEMBER_CHANGE_REQUEST__VERB__ADD, cfg->controllers[0].host, NULL, err) == SPUR_EUNSUPPORTED) {     /* before a file is changed */
        client_close(c);
        return err->code;
    }
    err->code = 0;
    while (have != count && rc == 0) {
        struct config *now = NULL;
        struct daemons d, before;

        snprintf(name, sizeof name, "ctl%u", have > count ? have : have + 1);
        daemons_of(s, cfg, &before);       /* with those that leave: one of them may lead */
        if (have > count)
            rc = member_become(s, &before, c, name, NULL, MEMBER_NONE, deadline, err);
        daemons_free(&before);
        if (rc == 0)
            rc = sandbox_conf_controllers(s, have > count ? have - 1 : have + 1, &now, err);
        if (rc < 0)
            break;
        daemons_of(s, now, &d);
        if (have > count) {
            processes_end(s, name, SIGTERM, true, deadline);
            printf("%s has left\n", name);
            have--;
        } else if ((rc = daemons_start_one(s, &d, name, err)) == 0 && (rc = member_become(s, &d, c, name, now->controllers[have].addr, MEMBER_VOTER, deadline, err)) == 0) {
            printf("%s votes\n", name);
            have++;
        }
        fflush(stdout);
        daemons_free(&d);
        config_free(now);
    }
    client_close(c);
    return rc;
}
