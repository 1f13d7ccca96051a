/* SPDX-License-Identifier: Apache-2.0 */
/* admit.h - admit(request, identity, facts, state) -> operations, or a refusal in words: may this be asked?
 *
 * Pure. The authorisation table (table.def) has one row a message: who may send it, on whose objects. A message without a row does not
 * link: the dispatch table of the controller is generated from the same rows. Default deny.
 */
#ifndef ADMIT_ADMIT_H
#define ADMIT_ADMIT_H

#include <spur/auth.h>

#include "base/arena.h"
#include "state/apply.h"

/* What slow look-ups found before admit runs (off the loop). */
struct facts {
    const char *user, *group;           /* names of the caller's ids; NULL: unknown */
    const uint32_t *groups; size_t group_count;
    const char *const *group_names;     /* of `groups`, a NULL for one that has no name; NULL: not known, so AllowGroups knows the primary group alone */
    int64_t wall_ms;                    /* now */
    bool    is_local;
    const char *never;                  /* the select plugin's sentence when an empty cluster could not hold it; NULL: it can */
    const char *const *het_never;       /* the same of further components; NULL: not asked */
};
enum rank { RANK_NONE, RANK_USER, RANK_OPERATOR, RANK_ADMIN };

enum rank admit_rank(const struct state *s, const struct spur_identity *who);     /* root, SlurmUser and `admins` are ADMIN */
/* Is he coordinator of the account this job runs for? Then it is for him what an own job is. */
bool admit_coordinates(const struct state *s, const struct job *j, const struct spur_identity *who);
/* PrivateData for whole kinds of things, before anything of the message is looked at: 0 or SPUR_EDENIED. Jobs are looked at one by one, see admit_sees_job. */
int  admit_private(const struct state *s, unsigned message_type, const struct spur_identity *who, enum rank rank, struct spur_error *err);
/* The table: may this identity send this message at all? 0 or SPUR_EDENIED with a sentence. */
int  admit_message(unsigned message_type, const struct spur_identity *who, enum rank rank, struct spur_error *err);
/* "sent SUBMIT" of a message that is listed, and that no agent of any version sends; NULL: agents may, or nobody here knows it. */
const char *admit_not_for_nodes(unsigned message_type);

/* A user who came with a token of his own: may that token send this message, now? 0 or SPUR_EDENIED. */
int  admit_scope(unsigned message_type, const struct spur_identity *who, int64_t now_wall_s, struct spur_error *err);

/* May the host that vouched for this user speak for him? A compute host only while he has a job on it; others, and local peers, always. */
int  admit_vouched(const struct state *s, const struct spur_identity *who, struct spur_error *err);

struct admitted {
    Wire__Op **ops; size_t op_count;        /* in the arena */
    char **warnings; size_t warning_count;
    uint32_t *row_of_op;                    /* admit_cancel: which row of the reply an operation belongs to, in the arena */
    int slurm_errno;                        /* of the refusal, when admit_* fails */
    const char *suspect;                    /* admit_register, admit_report, admitted or not: what no honest agent does; "wanted to register as node n2" */
};
int  admit_submit(struct state *s, const Wire__SubmitRequest *r, const struct spur_identity *who, const struct facts *f, struct arena *a, struct admitted *out, struct spur_error *err);
int  admit_cancel(struct state *s, const Wire__CancelRequest *r, const struct spur_identity *who, const struct facts *f, struct arena *a, struct admitted *out, Wire__DoneReply *reply, struct spur_error *err);
/* What became of its operations, into the rows of the reply: an id fails when all that it named was refused. Jobs that filters alone have found and that have ended
 * meanwhile get no row. */
void admit_cancelled(const struct admitted *out, const struct op_result *results, size_t n, Wire__DoneReply *reply, struct arena *a);
int  admit_job_update(struct state *s, const Wire__JobUpdateRequest *r, const struct spur_identity *who, const struct facts *f, struct arena *a, struct admitted *out, struct spur_error *err);
int  admit_node_update(struct state *s, const Wire__NodeUpdateRequest *r, const struct spur_identity *who, const struct facts *f, struct arena *a, struct admitted *out, struct spur_error *err);
int  admit_node_reboot(struct state *s, const Wire__NodeRebootRequest *r, const struct spur_identity *who, const struct facts *f, struct arena *a, struct admitted *out, struct spur_error *err);
int  admit_partition_update(struct state *s, const Wire__PartitionUpdateRequest *r, const struct spur_identity *who, const struct facts *f, struct arena *a, struct admitted *out, struct spur_error *err);
int  admit_account_change(struct state *s, const Wire__AccountChange *r, const struct spur_identity *who, const struct facts *f, struct arena *a, struct admitted *out, struct spur_error *err);
/* The rows that he may see (PrivateData=accounts, users); `user` is his name, NULL when unknown. Borrowed until the next apply. */
const Wire__Accounts *admit_accounts_seen(const struct state *s, const struct spur_identity *who, const char *user, enum rank rank, struct arena *a);
int  admit_step(struct state *s, const Wire__StepRequest *r, const struct spur_identity *who, const struct facts *f, struct arena *a, struct admitted *out, struct spur_error *err);
/* A command that wants the nodes of a job or step to dial it: the job's owner and administrators. *job; *step NULL: the batch step, or all nodes of the job. */
int  admit_dial(struct state *s, const Wire__DialRequest *r, const struct spur_identity *who, struct admitted *out, const struct job **job, const struct step **step,
                struct spur_error *err);
int  admit_register(struct state *s, const Wire__RegisterRequest *r, const struct spur_identity *who, struct arena *a, struct admitted *out, Wire__RegisterReply *reply, struct spur_error *err);
int  admit_report(struct state *s, const Wire__Report *r, const struct spur_identity *who, struct arena *a, struct admitted *out, struct spur_error *err);
/* May `who` see this job (PrivateData)? */
bool admit_sees_job(const struct state *s, const struct job *j, const struct spur_identity *who, enum rank rank);
/* May `who` have this job's script and environment? Owner and admin. */
bool admit_owns_job(const struct job *j, const struct spur_identity *who, enum rank rank);
/* Does the job match a query of squeue or scancel? */
bool admit_matches(const struct state *s, const struct job *j, const Wire__JobsRequest *r);

#endif
