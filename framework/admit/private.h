/* SPDX-License-Identifier: Apache-2.0 */
/* private.h - what the files of admit share: refusals in Slurm's words, and the checks that submit and update have in common. */
#ifndef ADMIT_PRIVATE_H
#define ADMIT_PRIVATE_H

#include "admit/admit.h"

enum refusal {
#define REFUSAL(name, number, code, sentence) REFUSE_##name,
#include "admit/refusals.def"
#undef REFUSAL
    REFUSE_COUNT
};
/* Writes the sentence, and behind a colon what exactly is wrong; returns the code. `format` may be NULL. */
int deny(struct admitted *out, struct spur_error *err, enum refusal why, const char *format, ...) __attribute__((format(printf, 4, 5)));

struct asker {                  /* who asks, and what is known of him */
    const struct spur_identity *who;
    const struct facts *facts;
    enum rank rank;
    uint32_t uid;
};

/* check.c: one checker of a job's wish, for submit and for update. `was`: the spec before an update, NULL for a new job; values that did not
 * change are not judged again (an operator may have set them). */
int check_spec(struct state *s, const Wire__JobSpec *spec, const Wire__JobSpec *was, const struct asker *asker, struct arena *a, struct admitted *out, struct spur_error *err);
/* partition.c: may he use the partitions of the spec, and does the wish keep within their limits? */
int check_partitions(struct state *s, const Wire__JobSpec *spec, const struct asker *asker, struct admitted *out, struct spur_error *err);
/* account.c: fills in the default account of `user` (NULL: his name is not known), and asks for an association where the configuration wants one. */
int check_account(const struct state *s, const char *user, Wire__JobSpec *spec, struct arena *a, struct admitted *out, struct spur_error *err);
/* dependency.c: words, ids that were issued, no loop through `job_id` (0: a new job). */
int check_dependency(struct state *s, const char *text, uint32_t job_id, struct admitted *out, struct spur_error *err);
/* table.c: does this channel speak for that node? */
bool speaks_for(const struct state *s, const struct spur_identity *who, const char *node);
bool list_names(const char *list, const char *word);        /* comma list, without case */

Wire__Op *op_new(struct arena *a, const struct asker *asker, ProtobufCBinaryData token, bool has_token, int64_t token_wall_ms);
void op_add(struct admitted *out, struct arena *a, Wire__Op *op);
void warn(struct admitted *out, struct arena *a, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* 0: new; 1: the answer is known (nothing to do); or a refusal. */
int  check_token(const struct state *s, bool has_token, ProtobufCBinaryData token, int64_t token_wall_ms, struct admitted *out, struct spur_error *err);

#endif
