/* SPDX-License-Identifier: Apache-2.0 */
/* scontrol.h - what the files of scontrol share: what was asked for with options, one way to ask the controller, verbs. */
#ifndef CMDS_SCONTROL_H
#define CMDS_SCONTROL_H

#include "base/arena.h"
#include "client/client.h"

struct scontrol {
    bool fresh, one_line, details, quiet, json, future, all, verbose, is_done;
    const char *clusters;
    struct client *client;
    struct arena arena;             /* of one command */
};

/* A verb, or what `show` can show: may be shortened to `least` characters. run() gets the words behind it; argv[-1] is the verb itself. */
struct verb { const char *name; size_t least; int (*run)(struct scontrol *, int argc, char **argv); };
const struct verb *verb_find(const struct verb *verbs, size_t count, const char *word);

/* scontrol.c */
int scontrol_ready(struct scontrol *s, struct spur_error *err);        /* s->client is there */
int scontrol_ask(struct scontrol *s, uint16_t type, const ProtobufCMessage *request, uint16_t reply_type, const ProtobufCMessageDescriptor *d, void **reply,
                 int *number, struct spur_error *err);
int scontrol_failed(const struct scontrol *s, const char *what, const struct spur_error *err);     /* says "what error: sentence", returns 1 */
const char *scontrol_words(int number, const struct spur_error *err);  /* Slurm's own words for a number that says all there is to say, else the sentence */

int scontrol_ping(struct scontrol *s, int argc, char **argv);

/* scontrol_show.c */
int scontrol_show(struct scontrol *s, int argc, char **argv);
int scontrol_completing(struct scontrol *s, int argc, char **argv);

/* scontrol_topology.c */
int scontrol_show_topology(struct scontrol *s, int argc, char **argv);

/* token.c: scontrol token */
int scontrol_token(struct scontrol *s, int argc, char **argv);

/* scontrol_change.c */
extern const struct verb scontrol_changes[];
extern const size_t scontrol_change_count;

#endif
