/* SPDX-License-Identifier: Apache-2.0 */
/* prove.h - who a command is when it leaves this host: the auth plugin, and the daemon here that vouches for its user. */
#ifndef CLIENT_PROVE_H
#define CLIENT_PROVE_H

#include "client/dialog.h"
#include "config/config.h"

struct prover;
/* `host` NULL: a command of a user; else a daemon, which proves itself. */
int  prover_open(const struct config_hint *hint, const struct spur_host *host, struct prover **out, struct spur_error *err);
/* The token in SLURM_JWT: then a command is its user, whoever runs it, and asks over TCP only. NULL: none. */
const char *prover_token(void);
void prover_close(struct prover *p);
struct dialog_auth prover_auth(struct prover *p);

#endif
