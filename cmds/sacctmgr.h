/* SPDX-License-Identifier: Apache-2.0 */
/* sacctmgr.h - what the two files of sacctmgr share: the options, the words of one command taken apart. */
#ifndef CMDS_SACCTMGR_H
#define CMDS_SACCTMGR_H

#include "base/arena.h"
#include "client/client.h"
#include "cmds/common/list.h"

enum entity { ENTITY_ACCOUNT, ENTITY_USER, ENTITY_ASSOC, ENTITY_COORDINATOR, ENTITY_CLUSTER };

/* "where name=a,b set parent=c": conditions, and what shall be. */
struct words {
    struct list names, accounts, users, partitions, parents;
    const char *parent, *description, *organization, *default_account, *format;
    int  admin_level;               /* -1: not named */
    bool with_assoc, with_coord, tree, is_set;
};

struct sacctmgr {
    bool immediate, no_header, parsable, parsable2, one_line, quiet, read_only, with_assoc, json;
    struct client *client;
    struct arena arena;
    const char *cluster, *host;     /* of the controller that answered */
};

int sacctmgr_show(struct sacctmgr *m, enum entity what, const struct words *w);     /* the exit status */
const char *admin_level_word(const Wire__AccountUser *u);

#endif
