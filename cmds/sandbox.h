/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox.h - the seams between the files of `spur sandbox`: sandbox.c (verbs), sandbox_conf.c (files), sandbox_process.c (processes), sandbox_ask.c
 * (the cluster through its own protocol), sandbox_group.c (the group of controllers). */
#ifndef CMDS_SANDBOX_H
#define CMDS_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <protobuf-c/protobuf-c.h>
#include <spur/error.h>

#include "base/arena.h"
#include "base/hostlist.h"
#include "base/str.h"

#define SANDBOX_NODES_REAL      16      /* above so many nodes one process plays them all, unless --agents asks for an agent each */
#define SANDBOX_CONTROLLERS_MAX 5

struct config;
struct sandbox {
    char dir[700], run[256];        /* absolute; run: folder of the sockets */
    char topology[4096];            /* file of --gpus, "" without */
    uint32_t controllers, nodes, cpus;
    const char *gpus, *conf, *at;   /* --gpus, --conf, --at; NULL: none */
    struct str extra;               /* --set lines */
    struct str spur;                /* --spur lines, %n not yet replaced */
    bool has_agents;                /* --agents */
};

/* ---- sandbox_conf.c: files ---- */
/* Writes every file of the cluster; *cfg is what they mean (config_free). */
int sandbox_conf_write(struct sandbox *s, struct config **cfg, struct spur_error *err);
/* Makes it a cluster of so many controllers: their lines, their folders, their keys; *cfg is what the files mean then. */
int sandbox_conf_controllers(struct sandbox *s, uint32_t count, struct config **cfg, struct spur_error *err);
/* Fills s->run of a cluster that is there. */
int sandbox_run_dir(struct sandbox *s, bool make, struct spur_error *err);
int sandbox_file_put(const char *path, const char *text, struct spur_error *err);

/* ---- sandbox_process.c: processes and daemons ---- */
/* How many processes of the cluster (name NULL) or of one daemon there are; daemons_only: without supervisors and jobs. */
size_t processes_count(const struct sandbox *s, const char *name, bool daemons_only);
/* Signals them again and again until they are gone or the deadline (clock_mono_ms) has come. */
void processes_end(const struct sandbox *s, const char *name, int signal, bool daemons_only, int64_t deadline);

/* The daemons of a cluster: its controllers first, then its nodes, or the one process that plays them. */
bool sandbox_is_emulated(const struct sandbox *s);      /* one process plays all nodes, as its files were made */
struct daemons { struct hostlist *names; uint32_t controllers; bool is_emulated; struct str nodes; };
void daemons_of(const struct sandbox *s, const struct config *cfg, struct daemons *d);
void daemons_free(struct daemons *d);
int  daemons_start_one(const struct sandbox *s, const struct daemons *d, const char *name, struct spur_error *err);
bool daemon_lives(const struct sandbox *s, const char *name);
void daemon_last_words(const struct sandbox *s, const char *name);     /* to stderr: the end of its log */

/* ---- sandbox_ask.c: the cluster through its own protocol ---- */
struct tally { uint32_t nodes, idle; struct str text; };
/* The nodes as the leader sees them; false: nobody answers. */
bool nodes_tally(const struct sandbox *s, struct tally *t);
/* The answer of this one controller to a message without a body, in the arena; NULL: none, or another one. */
void *controller_ask(const struct sandbox *s, const struct daemons *d, const char *name, uint16_t type, uint16_t reply_type, const ProtobufCMessageDescriptor *reply_desc,
                     struct arena *a);
/* What one controller says of itself: "leader", "follower", "learner", "starting"; false: it does not answer. */
bool controller_role(const struct sandbox *s, const struct daemons *d, const char *name, char role[32], uint64_t *index);
/* Which of them leads; NULL: none. */
const char *controller_leading(const struct sandbox *s, const struct daemons *d);

/* ---- sandbox_group.c: more controllers, or fewer, while the cluster runs ---- */
int sandbox_group(struct sandbox *s, struct config *cfg, uint32_t count, int64_t deadline, struct spur_error *err);

#endif
