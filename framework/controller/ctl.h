/* SPDX-License-Identifier: Apache-2.0 */
/* ctl.h - the one struct of a running controller, and the seams between the files of this folder.
 *
 * Everything here belongs to the loop's thread. The way of a request: dispatch.c (identity, table, admit) -> proposer.c (one entry of all
 * that came meanwhile) -> store -> apply -> effects.c (launches, kills) and the answer. Reads never leave queries.c.
 */
#ifndef CONTROLLER_CTL_H
#define CONTROLLER_CTL_H

#include "config.h"
#include <uv.h>
#include <spur/auth.h>
#include <spur/priority.h>
#include <spur/select.h>
#include <spur/store.h>

#include "admit/admit.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/table.h"
#include "config/config.h"
#include "loader/loader.h"
#include "plan/plan.h"
#include "rpc/log.h"
#include "rpc/peers.h"
#include "rpc/server.h"
#include "state/apply.h"

struct proposer;
struct alarms;
struct blobs;
struct fetch;
struct names;
struct waits;
struct step_wait;
struct request;
struct hooks;
struct group;
struct mesh;
struct seat;
struct query;

struct ctl {
    uv_loop_t      *loop;
    struct config  *file_config;        /* as the files here say; the state's own is what counts */
    int             verbose;            /* how often -v was given: levels of the log beyond SlurmctldDebug */
    char            name[64];           /* of this controller */
    char            state_dir[1024], run_dir[512];
    struct rpc     *rpc;
    struct loaded  *store, *auth, *sw, *score, *select, *priority;
    struct peers   *peers;              /* channels of the store's threads, and their instance of the auth plugin */
    struct loaded  *peers_auth;
    const struct spur_store_ops *store_ops;
    struct spur_store_events events;    /* borrowed by the store */
    const struct spur_auth_ops *auth_ops;
    struct plan_plugins plugins;
    struct spur_host host;
    struct state   *state;
    struct plan    *plan;
    enum spur_store_role role;
    uint64_t        fence;
    char            leader[64];         /* who leads, as the store says; "": nobody is known */
    struct group   *group;
    bool            is_started;         /* the replay at start is over */
    bool            is_live;            /* this controller leads and replay is over: events have effects */
    bool            is_told_follower;   /* what a follower says once was said */
    bool            is_handing_over;    /* a stop has asked another member to lead */
    bool            is_stopping;
    bool            is_config_due;      /* a start with a changed file: nobody is answered by the old one */
    int64_t         boot_wall_ms;
    int64_t         clock_state, clock_boot;    /* the pair at which state and CLOCK_BOOTTIME were last set side by side */
    struct proposer *proposer;
    struct alarms  *alarms;
    struct blobs   *blobs;
    struct fetch   *fetch;
    struct names   *names;
    struct waits   *waits;
    struct step_wait *step_waits;       /* in the order of arrival; stepwaits.c */
    struct hooks   *hooks;
    struct table    fabric;             /* job_id -> what it holds of the switch plugin's; fabric.c */
    struct mesh    *mesh;               /* NULL: the switch plugin has none */
    struct seat    *seat;               /* this controller's own place in it; NULL: likewise */
    struct held    *held; uint32_t held_count;      /* held.c: reports that wait for the fate of a node */
    struct query   *waiting;            /* reads that wait for an entry */
    struct table    watches;            /* job id -> struct watch* */
    struct table    conns;              /* number of a connection -> struct peer*; an answer to one that has gone is dropped */
    uint64_t        next_conn;
    struct peer   **agent_of;           /* by node index: the connection that speaks for it */
    bool           *is_armed;           /* by node index: its silence has an alarm */
    uint32_t        agent_room;         /* length of both */
    uv_prepare_t    flush;              /* before the loop sleeps: propose what has queued, go on planning */
    uv_idle_t       again;              /* keeps the loop turning while a plan pass has more */
    uv_timer_t      plan_timer, second, reads, joins;
    uv_signal_t     sig_int, sig_term, sig_hup, sig_usr;
    uint8_t         hosts_told[32];     /* hash of what the agents know of controllers that joined */
    int64_t         suspects_from_ms;   /* suspects.c: the minute in which suspects_said lines were written */
    uint32_t        suspects_said;
    int64_t         purge_after_ms, stop_by_ms, hand_over_by_ms;
    uint64_t        submits, entries, passes, starts;
};

/* A connection, beside rpc's own: which queries it has under way, which nodes it speaks for. */
struct peer {
    struct rpc_conn *conn;
    uint64_t  number;
    struct query *queries;              /* streams that wait for the peer to read */
    uint32_t *nodes; uint32_t node_count;
    enum rank rank;
    int64_t   heard_ms;
};

/* clock.c: the two times of an entry. cluster_ms goes on from the last entry by CLOCK_BOOTTIME, so that a wall clock set back ends no job late. */
int64_t ctl_cluster_ms(struct ctl *c);

/* How a proposal ended: its results, or NULL and the reason why its entry was dropped. */
typedef void (*proposed_fn)(struct ctl *c, void *arg, const struct op_result *results, size_t n, const struct spur_error *err);

/* group.c: the group of controllers: who leads, where he is, what waits until that is known, and what is asked of the group itself. */
void group_create(struct ctl *c);
void group_destroy(struct ctl *c);
void group_role(struct ctl *c);                 /* role or leader have changed: what was parked goes on */
/* This controller takes what only the leader may: it leads, and its state has a configuration. */
bool group_leads(const struct ctl *c);
/* A request for the leader, while nobody leads: kept until somebody does, at most PARK_MS, then refused. Copies body. */
void group_park(struct ctl *c, struct peer *p, const struct frame *f, const uint8_t *body);
/* REFUSED with who leads and where, or with how many of the group answer. */
void group_refuse(struct ctl *c, uint64_t conn, uint64_t seq);
/* What to say to the asker of a proposal that was dropped: where to ask again, when that can help. */
void group_refuse_dropped(struct ctl *c, uint64_t conn, uint64_t seq, const struct spur_error *why);
/* How old this controller's state may be, ms: 0 on the leader; INT64_MAX when it has never heard of one. */
int64_t group_age_ms(const struct ctl *c);
bool group_has_lost_lease(const struct ctl *c, int64_t for_ms);     /* leads, as far as it knows, and has not heard of a majority for longer */
uint32_t group_level(const struct ctl *c);     /* feature level that every voter has (STATE_LEVEL); 0: one was not heard yet */
void group_voters(const struct ctl *c, uint32_t *voters, uint32_t *reachable);
bool group_leader_addr(const struct ctl *c, char out[160]);
void group_members(struct ctl *c, Wire__MembersReply *out, struct arena *a);
const char *group_role_word(enum spur_store_role role);
const char *group_addr(const struct ctl *c, const Wire__MemberChangeRequest *r);        /* as asked for, else as SlurmctldHost says, else the name */
/* spur controller add, remove, transfer, promote: 0 and a line for the user, or a refusal. */
int  group_change(struct ctl *c, const Wire__MemberChangeRequest *r, struct str *text, struct spur_error *err);

bool group_is_member(const struct ctl *c, const char *name);
const char *group_member_addr(const struct ctl *c, const char *name, struct arena *a);          /* without its port; NULL: it is none, or its address is not known */

/* held.c: true: this report waits; it is answered when the fate of the job's other nodes is known. */
bool held_take(struct ctl *c, struct peer *p, uint64_t seq, const Wire__Report *m);
void held_look(struct ctl *c);                          /* a node has come, or is down */
void held_forget(struct ctl *c);                        /* nobody waits any more: their agents send again */

/* joins.c: hosts that join with a token. */
void joins_changed(struct ctl *c);                      /* other lines in the log: the auth plugin, connections, agents, the group */
char *joins_for_agents(const struct ctl *c, struct arena *a);
bool joins_knows(struct ctl *c, const char *name);      /* a controller of this name has a key here, or keys are none of the auth plugin's business */
/* *token: free() it. done: when the log has it. */
int  joins_token(struct ctl *c, const char *name, const char *addr, const char *role, uint32_t life_s, char **token, proposed_fn done, void *arg, struct spur_error *err);
int  joins_take(struct ctl *c, const struct spur_identity *who, const Wire__JoinRequest *r, proposed_fn done, void *arg, struct spur_error *err);
void joins_reply(struct ctl *c, uint64_t conn, uint64_t seq, const char *role);
int  joins_revoke(struct ctl *c, const char *name, proposed_fn done, void *arg, struct spur_error *err);
int  joins_key(struct ctl *c, const struct spur_identity *who, const Wire__HostKeyRequest *r, proposed_fn done, void *arg, struct spur_error *err);
/* A user's own token; nothing of it is kept here. *token: wipe and free() it. */
int  joins_user_token(struct ctl *c, const struct spur_identity *who, uint32_t uid, uint32_t gid, const Wire__UserTokenRequest *r, char **token, struct spur_error *err);
int  joins_untoken(struct ctl *c, const char *id, proposed_fn done, void *arg, struct spur_error *err);
const struct node *joins_node(struct ctl *c, const char *host);             /* the node of a host, by either name; NULL: it is none */
Wire__Op *joins_node_set(struct arena *a, const struct node *n, const char *state, const char *reason, bool revoked);
/* suspects.c: a node's host wanted what is not its own: "wanted to register as node n2". Logged; the leader drains its node. */
void suspect_node(struct ctl *c, const struct spur_identity *who, const char *did);
int  joins_list(struct ctl *c, Wire__HostsReply *out, struct arena *a, struct spur_error *err);
void joins_forget(struct ctl *c, const char *name);     /* a member that was removed: its key too */
void joins_look(struct ctl *c);

/* roles.c: who the names of SlurmUser, admins, operators and coordinators are; once a configuration. */
void roles_look_up(struct ctl *c);
void roles_changed(struct ctl *c);             /* rows of users have: looked up again before the next request */

/* dispatch.c */
void dispatch_message(void *ctl, struct rpc_conn *conn, const struct frame *f, const uint8_t *body);
void dispatch_opened(void *ctl, struct rpc_conn *conn);
void dispatch_closed(void *ctl, struct rpc_conn *conn, const struct spur_error *why);
void dispatch_forget_all(struct ctl *c);        /* after rpc_destroy, which says nothing of each connection */
struct peer *ctl_peer(struct ctl *c, uint64_t number);                  /* NULL: gone */
void ctl_send(struct ctl *c, uint64_t conn, uint16_t type, uint64_t seq, const ProtobufCMessage *body);
void ctl_refuse(struct ctl *c, uint64_t conn, uint64_t seq, const struct spur_error *err, int slurm_errno);

/* proposer.c: ops wait here for the next entry. `arena` is taken over (moved) and lives until the answer. */
struct proposal_blobs { Wire__Blob **blobs; size_t count; };
void proposer_create(struct ctl *c);
void proposer_destroy(struct ctl *c);
/* Queues `n` ops as one piece (all in one entry). done may be NULL. Never calls done before it returns. */
void propose(struct ctl *c, Wire__Op **ops, size_t n, const struct proposal_blobs *blobs, struct arena *take_arena, proposed_fn done, void *arg);
void proposer_flush(struct ctl *c);
void proposer_committed(void *ctl, uint64_t index, const void *data, size_t n, void *cookie);
void proposer_dropped(void *ctl, void *cookie, const struct spur_error *why);
bool proposer_is_idle(const struct ctl *c);

/* effects.c: events of apply, on the leader: launches, kills, answers to those who wait. */
void effects_run(struct ctl *c, const struct event *events, size_t n);
void effects_follow(struct ctl *c, const struct event *events, size_t n);      /* on the others, and at replay: what is this controller's own alone */
void effects_reemit(struct ctl *c);             /* a new leader, a node that came back */
void effects_for_agent(struct ctl *c, const struct peer *p);
void effect_warn(struct ctl *c, const struct job *j, int signal, bool batch_only);
void effects_alarm(struct ctl *c, int kind, uint64_t id);
void effect_prolog(struct ctl *c, const struct job *j, uint32_t rank);  /* PrologFlags=Alloc: the Prolog of this node runs now */

/* hooks.c: PrologSlurmctld, EpilogSlurmctld. */
void hooks_create(struct ctl *c);
void hooks_close(struct ctl *c);                /* while the loop still turns */
void hooks_destroy(struct ctl *c);
bool hooks_started(struct ctl *c, const struct job *j);         /* runs what stands before the launch; true: it has to wait */
bool hooks_alloc_runs(const struct ctl *c);                     /* nodes run their Prolog when a job is given them */
void hooks_killed(struct ctl *c, const struct job *j);
void hooks_alarm(struct ctl *c, uint32_t job_id, uint32_t attempt);
/* Asks for a plan pass in this turn of the loop. */
void ctl_plan_soon(struct ctl *c);
void ctl_plan(struct ctl *c);

/* nodes.c: agents: registration, heartbeats, silence. */
/* These two take the arena their message lives in over (it is fresh again) when the ops go to the log. */
void nodes_register(struct ctl *c, struct peer *p, uint64_t seq, Wire__RegisterRequest *r, struct arena *take_arena);
void nodes_heartbeat(struct ctl *c, struct peer *p, uint64_t seq, const Wire__Heartbeat *h);
void nodes_report(struct ctl *c, struct peer *p, uint64_t seq, const Wire__Report *r, struct arena *take_arena);
void nodes_gone(struct ctl *c, struct peer *p);
void nodes_alarm(struct ctl *c, uint32_t node);
struct peer *nodes_agent(struct ctl *c, uint32_t node);
void nodes_changed(struct ctl *c, uint32_t node);       /* state of a node */
void nodes_reboot(struct ctl *c, uint32_t node);        /* it is empty and shall reboot: its agent is told */
void nodes_reboot_alarm(struct ctl *c, uint32_t node);
/* dial.c: sattach, sstat and sbcast: the nodes are told to dial the command. The answer to it, or the refusal, is sent. */
void dial_take(struct ctl *c, uint64_t conn, uint64_t seq, const struct spur_identity *who, const Wire__DialRequest *m, struct arena *a);
void nodes_configure(struct ctl *c);            /* a changed configuration goes to the agents */
void ctl_config_texts(const struct ctl *c, Wire__ConfigFiles *out);     /* the configuration of the log; texts are borrowed from the state */
void nodes_watch(struct ctl *c);                /* an election, a changed configuration: silence is counted from now */
void nodes_leave(struct ctl *c);                /* this controller leads no more: agents are told who does, and go there */

/* fabric.c: what the switch plugin allots to jobs. */
void fabric_allot(struct ctl *c, struct decisions *d, struct arena *a);     /* starts that get nothing are taken out of the decisions */
/* het.c: steps over several components of a heterogeneous job, and the variables of its components. */
void het_step_join(struct admitted *adm, struct arena *a);                  /* one operation of those that were admitted, one a component */
uint32_t het_step_parts(const struct ctl *c, const struct job *j, const struct step *st);      /* components it runs over; 0: no step of several */
const struct step *het_step_part(const struct ctl *c, const struct step *st, uint32_t k, const struct job **job);      /* NULL: it is not there any more */
/* Where a step runs, as its answer says it: nodes and their tasks, one component after the other. */
void het_step_reply(const struct ctl *c, const struct job *j, const struct step *st, Wire__StepReply *reply, struct str *nodes, struct str *tasks, struct arena *a);
bool het_awaits(const struct ctl *c, const struct job *j);        /* has another component still hooks to wait for? */
void het_launch(const struct ctl *c, const struct job *j, const struct step *st, Wire__Launch *l, struct arena *a);    /* fills het_env */
void fabric_refused(struct ctl *c, const Wire__Op *op);       /* the start was not taken after all */
void fabric_started(struct ctl *c, const struct job *j);
void fabric_gone(struct ctl *c, uint32_t job_id);
void fabric_lead(struct ctl *c);
void fabric_follow(struct ctl *c);
size_t fabric_blob(const char *hex, uint8_t blob[1024]);                    /* bytes; 0: none */

/* mesh.c: keys and addresses of the switch plugin's mesh, carried from each node to all others. */
void mesh_create(struct ctl *c);
void mesh_destroy(struct ctl *c);
void mesh_changed(struct ctl *c, uint32_t node);        /* key or endpoint of a node; NODE_REMOVED: of a controller */
uint32_t mesh_traits(const struct ctl *c);              /* SPUR_SWITCH_* */
void mesh_whole(struct ctl *c, Wire__MeshTable *t, struct arena *a);        /* all that are in it */
void mesh_for_agent(struct ctl *c, const struct peer *p);   /* it has registered: the whole table */
void mesh_job(struct ctl *c, const struct job *j, bool starts);     /* holds other nodes than before; NULL: some job does. starts: tell its nodes now */
void mesh_configure(struct ctl *c);                         /* nodes have other numbers */
bool mesh_wants_alone(const struct ctl *c);                 /* jobs of several nodes must have them alone */
void mesh_list(struct ctl *c, Wire__MeshReply *out, struct arena *a);
/* These nodes (a host list; NULL: all that are here) make a new key. *asked: how many were told. */
int  mesh_rotate(struct ctl *c, const char *nodes, uint32_t *asked, uint32_t *controllers, struct spur_error *err);

/* seat.c: this controller's own place in the mesh, where the switch plugin wants controllers there. */
void seat_create(struct ctl *c);
void seat_close(struct ctl *c);                 /* while the loop still turns */
void seat_destroy(struct ctl *c);
void seat_changed(struct ctl *c);               /* somebody's key or endpoint: on every controller, whoever leads */
void seat_renew(struct ctl *c, uint32_t host);  /* a new key for the controller in this place of the state's */
void seat_forget(struct ctl *c, const char *name);          /* a controller that is one no more: its key leaves the mesh */
/* Another controller's key. 0: `done` is called when the log has it. */
int  seat_take(struct ctl *c, const struct spur_identity *who, const Wire__OpMeshHost *m, proposed_fn done, void *arg, struct spur_error *err);
bool seat_is(const struct ctl *c, const struct rpc_conn *conn);         /* this connection is the one that the own key goes to the leader by */
void seat_opened(struct ctl *c, struct rpc_conn *conn);
void seat_message(struct ctl *c, const struct frame *f, const uint8_t *body);
void seat_closed(struct ctl *c, const struct spur_error *why);

/* queries.c: reads, streamed in parts as fast as the peer takes them. */
void query_start(struct ctl *c, struct peer *p, uint16_t type, uint64_t seq, const uint8_t *body, size_t n);
void query_drained(void *ctl, struct rpc_conn *conn);
void query_drop_all(struct peer *p);
void query_waiting_drop(struct ctl *c);
void query_applied(struct ctl *c);              /* the state has moved on: readers that wait for an entry are looked at */

/* stepwaits.c: requests for a step that other steps are in the way of. dispatch.c tries them: STEP_ANSWERED is a refusal. */
enum step_try { STEP_WAITS, STEP_PROPOSED, STEP_ANSWERED };
bool stepwaits_add(struct ctl *c, struct request *take_request, uint64_t conn, uint64_t seq, const Wire__StepRequest *m);      /* false: too many wait */
void stepwaits_event(struct ctl *c, uint32_t job_id);       /* a step of the job has ended, or was made; or the job has ended */
void stepwaits_rang(struct ctl *c);
void stepwaits_forget(struct ctl *c, uint64_t conn);
void stepwaits_move(struct ctl *c);                         /* this controller leads no more */
void stepwaits_destroy(struct ctl *c);
enum step_try dispatch_step_again(struct ctl *c, struct request *r, bool is_last);
void dispatch_step_drop(struct request *r);

/* waits.c: sbatch --wait, srun: an answer when a job has come to a state. */
void waits_create(struct ctl *c);
void waits_destroy(struct ctl *c);
void waits_add(struct ctl *c, struct peer *p, uint64_t seq, const Wire__WaitRequest *r);
void waits_event(struct ctl *c, uint32_t job_id);
void waits_forget(struct ctl *c, uint64_t conn);
void waits_move(struct ctl *c);                 /* this controller leads no more: each is told who does */

/* alarms.c: one heap of deadlines; what rang is checked by its handler, so that stale ones cost nothing. */
enum alarm_kind { ALARM_JOB_LIMIT, ALARM_LAUNCH, ALARM_KILL_AGAIN, ALARM_NODE_SILENT, ALARM_PURGE, ALARM_HOOK, ALARM_NODE_REBOOT, ALARM_STEP_WAIT };
void alarms_create(struct ctl *c);
void alarms_destroy(struct ctl *c);
void alarms_clear(struct ctl *c);               /* none rings any more */
void alarm_set(struct ctl *c, int64_t in_ms, enum alarm_kind kind, uint64_t id);

/* watch.c: what rings for a job that runs. */
void watch_limit(struct ctl *c, const struct job *j);                   /* it started, or its limit was changed: arms the limit and the warning */
bool watch_limit_rang(struct ctl *c, const struct job *j);              /* true: its time is up */
void watch_launch(struct ctl *c, const struct job *j, int64_t in_ms);   /* a launch was sent: confirmed by then, or ALARM_LAUNCH */
bool watch_launch_rang(struct ctl *c, const struct job *j);             /* true: it is time, false: put off */
void watch_kill(struct ctl *c, const struct job *j);                    /* likewise: a kill to be repeated */
bool watch_kill_rang(struct ctl *c, const struct job *j);
void watch_forget(struct ctl *c, uint32_t job_id);
void watch_forget_all(struct ctl *c);
void watch_destroy(struct ctl *c);

/* blobs.c: scripts and environments by their hash, in files beside the log. */
int  blobs_create(struct ctl *c, struct spur_error *err);
void blobs_destroy(struct ctl *c);
void blobs_put(struct ctl *c, const uint8_t hash[32], const void *data, size_t n);      /* from a committed entry */
/* Borrowed until the next call; NULL when it is not there. */
const uint8_t *blobs_get(struct ctl *c, const uint8_t hash[32], size_t *n);
void blobs_named(struct ctl *c, const uint8_t *hash, uint32_t job_id);                  /* this job names it, as a committed entry says; hash NULL: nothing */
bool blobs_is_kept(struct ctl *c, const uint8_t hash[32]);                              /* every controller has it, and keeps it for a while: an entry may leave it out */
bool blobs_has(struct ctl *c, const uint8_t hash[32]);                                  /* without a look inside */
int  blobs_sync(struct ctl *c, struct spur_error *err);                                 /* before a snapshot cuts the log */
void blobs_drop(struct ctl *c, const uint8_t hash[32]);                                 /* no job names it any more */
void blobs_sweep_start(struct ctl *c);                                                  /* after a start: drop those that no job names ... */
void blobs_sweep(struct ctl *c);                                                        /* ... a few in each turn of the loop */

/* fetch.c: blobs that are missing here come from another controller. */
void fetch_create(struct ctl *c);
void fetch_destroy(struct ctl *c);
void fetch_blobs(struct ctl *c);                /* something may be missing: after a snapshot of another member, or at a launch */
bool fetch_is(const struct ctl *c, const struct rpc_conn *conn);        /* this connection is the one that blobs come over */
void fetch_opened(struct ctl *c, struct rpc_conn *conn);
void fetch_message(struct ctl *c, const struct frame *m, const uint8_t *body);
void fetch_closed(struct ctl *c, const struct spur_error *why);

/* names.c: user and group names and the groups of a user, looked up off the loop and kept for five minutes. */
struct named { uint32_t uid, gid; char *user, *group; uint32_t *groups; char **group_names; size_t group_count; int64_t until_ms; };
void names_create(struct ctl *c);
void names_destroy(struct ctl *c);
void names_get(struct ctl *c, uint32_t uid, uint32_t gid, void (*done)(struct ctl *c, void *arg, const struct named *n), void *arg);

/* spurctld.c */
int  ctl_config_propose(struct ctl *c, const struct config *cfg, proposed_fn done, void *arg);
void ctl_config_followed(struct ctl *c);        /* a follower has met another configuration in the log */
void ctl_plugins_take(struct ctl *c);           /* plugins meet the state's configuration: options, or another one */
int  ctl_reconfigure(struct ctl *c, proposed_fn done, void *arg, struct spur_error *err);

#endif
