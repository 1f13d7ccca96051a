/* SPDX-License-Identifier: Apache-2.0 */
/* inside.h - what the files of spurd share: one struct agent a process, one struct identity a node it speaks for.
 *
 * The loop owns all of it; nothing is locked. A real agent has one identity, `spurd --emulate` has many, each with a connection of its own.
 *
 *     spurd.c      options, background, signals, the loop       pool.c       the keyless process that forks supervisors
 *     settings.c   what is taken from slurm.conf                launch.c     credential -> order
 *     inventory.c  hardware                                     steps.c      what runs here, its supervisors, adoption, kills
 *     node.c       the connection to the leader                 spool.c      reports on disk until acknowledged
 *     gpus.c       the probe of the GPUs                        health.c     HealthCheckProgram
 *     emulate.c    scripted jobs                                seen.c       fence and attempts, on disk
 *     hooks.c      Prolog and Epilog
 *     cores.c      cores and threads for the binding of tasks
 *     reboot.c     RebootProgram                            jobnodes.c   tells a job which nodes it has
 *     mesh.c       key, peers and state of the switch plugin's mesh
 */
#ifndef AGENT_INSIDE_H
#define AGENT_INSIDE_H

#include "config.h"
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>
#include <spur/auth.h>
#include <spur/gpu.h>
#include <spur/switch.h>

#include "agent/pool.h"
#include "agent/seen.h"
#include "agent/settings.h"
#include "agent/spool.h"
#include "base/clock.h"
#include "base/table.h"
#include "loader/loader.h"
#include "rpc/log.h"
#include "rpc/member.h"
#include "rpc/server.h"
#include "wire/spur.pb-c.h"

struct agent;
struct cores;
struct identity;
struct probe;
struct programs;
struct rig;

/* One step of one job on one node, from the launch until its container is empty and that is on disk. */
enum step_phase { STEP_CHECKING, STEP_STARTING, STEP_RUNNING, STEP_ENDED, STEP_GONE };
struct agent_step {
    struct identity *node;
    uint32_t job_id, step_id, attempt, uid, gid;
    enum step_phase phase;
    bool     kill_asked;            /* before there was anybody to tell */
    Wire__Kill kill;
    char     folder[64];            /* name in the spool; "" when emulated */
    struct supervisor_link *link;   /* NULL: none (checking, emulated, supervisor lost) */
    struct emulated *emulated;
    uint64_t ended_seq;             /* spool number of its ENDED report; 0: none yet */
    uint32_t passing;               /* reports on their way to the disk */
    bool     adopted;               /* found at the start of this agent */
    bool     joined;                /* the switch plugin knows it */
    bool     is_stuck;              /* its processes do not die of SIGKILL */
    struct left *left;              /* its supervisor was killed: what that left behind is being ended */
};

/* A job whose emptiness the leader waits for. */
struct ending {
    uint32_t job_id, attempt;
    enum { EPILOG_NONE, EPILOG_RUNS, EPILOG_DONE } epilog;
    bool     epilog_failed;
    Wire__JobInfo *job;             /* what the Epilog is told; NULL: nothing is known */
    struct ending *next;
};

struct identity {
    struct agent *agent;
    const char *name;
    struct rpc_conn *conn;
    uint32_t dialling;              /* dials under way */
    bool     registered;
    char     guest[128]; uint16_t guest_port;   /* a leader that no file of ours names; "": none */
    bool     is_guest_next, is_moving;          /* is_moving: the connection is closed for another controller, who is known */
    uint32_t spread_ms;             /* as the last leader said */
    bool     has_unsent;            /* a report was refused for now: all go again with the next heartbeat */
    uint32_t controller;            /* index of the one tried now */
    uint32_t backoff_ms;
    uint64_t seq;
    uint32_t heartbeat_ms; uint32_t beats_unanswered;
    int64_t  heard_ms;              /* when its connection last said something */
    uv_timer_t timer;               /* next dial, or next heartbeat */
    struct table steps;             /* step_key -> struct agent_step */
    struct ending *endings;
    uint64_t reboot_number;         /* of the reboot it was told of last */
    bool     in_mesh, is_mesh_dialled;      /* the connection goes through the mesh; one into it is tried beside the other */
    char     mesh_addr[64]; uint32_t mesh_port;     /* where */
    int64_t  mesh_since_ms, mesh_after_ms; uint32_t mesh_pause_ms;         /* no other is tried before; longer each time that one does not last */
    struct rpc_conn *before;        /* the connection that `conn` goes on for in the mesh: heard until that has had an answer; NULL: none */
    Wire__NodeInventory *inventory; /* owned by the agent's inventory */
};


struct agent {
    uv_loop_t *loop;
    struct settings *set;
    struct spur_host host;
    struct loaded *auth, *sw;
    struct rpc *rpc;
    struct pool pool;
    struct spool *spool;
    struct seen seen;
    int      spool_fd;              /* SlurmdSpoolDir */
    char     spool_fault[200];      /* it has no room: the node drains with this reason and takes no step; "": it has */
    struct identity *nodes; size_t count;
    bool     is_emulated, is_stopping, foreground;
    int      verbose;               /* how often -v was given */
    uint64_t config_version;
    char    *enrolled;              /* the lines about hosts that the auth plugin has taken last; NULL: none yet */
    int64_t  start_wall_ms;
    Wire__NodeInventory **inventories;
    struct spur_gpu *gpus; uint32_t gpu_count;
    struct cores *cores;            /* of this machine, one by one; NULL: not known */
    struct probe *probe;            /* gpus.c; NULL: none runs */
    struct rig *printed;            /* of spurd -C */
    struct taking *taking; bool take_again;         /* inventory.c: one at a time */
    uv_timer_t gpu_timer;           /* when the GPUs are looked at again after a watch that broke */
    struct health *health;
    struct spank_node *spank;           /* the process of SPANK plugins in slurmd context; NULL: none */          /* health.c: HealthCheckProgram; NULL: none */
    /* What is wrong with the node, each "" when nothing: of the inventory, of the watched GPUs (with their numbers), of HealthCheckProgram. */
    char     contain_fault[240], stuck_fault[64]; int stuck_count;     /* limits that cannot be kept; steps whose processes do not die */
    char     scan_fault[240], gpu_fault[240], program_fault[240]; uint64_t gpu_faulty;
    Wire__DeviceTable *devices;     /* of all its nodes; NULL: no GPU with a number */
    uv_signal_t signals[5];
    const char *log_path;           /* -L */
    Wire__Contain *contain;         /* contain.c: what all orders say; NULL: contain/process, without limits */
    struct member *mesh;            /* NULL: the switch plugin has none */
    struct programs *programs;      /* hooks.c; NULL: none has run yet */
    struct table hooks;             /* job and attempt -> struct hook */
};

static inline uint64_t step_key(uint32_t job_id, uint32_t step_id) { return (uint64_t)job_id << 32 | step_id; }
const char *step_text(uint32_t step_id, char buf[16]);      /* "batch", "0" */

/* node.c */
void node_start(struct identity *n, uint32_t after_ms);     /* begins to dial */
uint32_t node_hash(const struct identity *n);              /* for seen.h: 0 on a real node */
void node_stop(struct identity *n);
void node_register(struct identity *n);                     /* again, when the inventory has changed; nothing without a connection */
/* Puts the report into the spool and on the wire; `then` runs when it is durable. */
void node_report(struct identity *n, Wire__Report *r, void (*then)(void *arg, uint64_t number), void *arg);
void node_report_text(struct identity *n, Wire__Report__Kind kind, uint32_t job_id, uint32_t step_id, uint32_t attempt, int status, const char *text);
void node_check_spool(struct agent *a);                     /* looks for room, and registers anew when that has changed */
void node_connected(struct agent *a, struct rpc_conn *c);
void node_message(struct agent *a, struct rpc_conn *c, const struct frame *f, const uint8_t *body);
void agent_config(struct agent *a, const Wire__ConfigFiles *files);     /* the leader's configuration has changed */
void agent_enrol(struct agent *a, const char *lines);        /* hosts that joined the cluster, as the leader says */
void node_closed(struct agent *a, struct rpc_conn *c, const struct spur_error *why);

/* reboot.c */
void node_reboot(struct identity *n, const Wire__NodeReboot *m);

/* launch.c */
void launch_take(struct identity *n, const Wire__Launch *l, const uint8_t *bytes, size_t len);
void launch_begin(struct agent_step *s, const Wire__Launch *l, Wire__Credential *grant);       /* nothing is to be waited for any more: its supervisor gets the order */
void launch_order_gpus(const struct agent *a, Wire__StepOrder *o);
void launch_order_free(Wire__StepOrder *o);

/* dial.c: a command wants this node to dial it: its credential is checked, then the step's supervisor does it, or a writer for sbcast. */
void agent_dial(struct identity *n, const uint8_t *bytes, size_t len);

/* steps.c */
void step_say(struct agent_step *s, uint16_t type, const ProtobufCMessage *body);       /* to its supervisor, if there is one */
struct agent_step *step_find(struct identity *n, uint32_t job_id, uint32_t step_id);
struct agent_step *step_create(struct identity *n, const Wire__Credential *grant);
void step_linked(struct agent_step *s, int link_fd);        /* a supervisor has been started or found: talk to it */
void step_end(struct agent_step *s);                        /* nothing of it is alive, and that is said: forget it */
void steps_kill(struct identity *n, const Wire__Kill *k);
void steps_endings(struct identity *n);                     /* says GONE of the jobs of which nothing is left */
void steps_adopt(struct agent *a);                          /* at start: folders of the spool */
void steps_detach(struct identity *n);                      /* at stop: supervisors keep running */
bool steps_user_is_here(const struct agent *a, uint32_t uid);
/* RunningStep rows of a registration. */
size_t steps_running(const struct identity *n, Wire__RunningStep ***rows);

/* emulate.c */
void emulate_launch(struct agent_step *s, const Wire__Launch *l);
void emulate_kill(struct agent_step *s, const Wire__Kill *k);
void emulate_free(struct agent_step *s);

/* mesh.c: the switch plugin's mesh, seen from this node */
void node_mesh_start(struct agent *a);
void node_mesh_stop(struct agent *a);
void node_mesh_free(struct agent *a);
void node_mesh_fill(const struct agent *a, Wire__NodeInventory *inv);        /* key and endpoint of this node, or why it is not in the mesh; borrowed */
bool node_mesh_row(const struct agent *a, const char *name, struct spur_switch_node *out);     /* what is known of a node, borrowed until the loop turns */
void node_mesh_table(struct agent *a, const Wire__MeshTable *t);             /* the leader's table, or what has changed in it */
void node_mesh_rotate(struct agent *a);
void node_mesh_lost(struct identity *n);    /* the connection in the mesh has ended */
void node_mesh_way(struct identity *n);     /* peers were looked at: the connection to the leader goes into the mesh, or out of it */
void node_mesh_answer(struct agent *a, struct rpc_conn *c, uint64_t seq);    /* to a command on this host: how the interface does */

/* inventory.c */
void inventory_take(struct agent *a, void (*then)(struct agent *a));
void inventory_tell(struct agent *a);                       /* registers all nodes again, those whose registration is under way, too: it went out without the news */
/* The watch of the GPUs: devices with a fault and the words for it, NULL: all are well. A change is told to the leader at once. */
void inventory_health(struct agent *a, uint64_t faulty, const char *text);
void inventory_program(struct agent *a, const char *text);  /* HealthCheckProgram's word; NULL: all is well */
void inventory_contain(struct agent *a, const char *text);  /* limits that the site asks for and the machine cannot keep; NULL: none */
void inventory_stuck(struct agent *a, const char *text);    /* processes that do not die; NULL: there are none */
void inventory_free(struct agent *a);
int  inventory_print(const char *name);                     /* spurd -C */

#endif
