/* SPDX-License-Identifier: Apache-2.0 */
/* value.h - one value of slurm.conf: from what is written to the canonical text and number. Internal to config/. */
#ifndef CONFIG_VALUE_H
#define CONFIG_VALUE_H

#include "config/config.h"

struct config_row { const char *name, *fallback, *note; enum config_type type; enum config_effect effect; };
const struct config_row *config_row(enum config_key key);
int  config_key_find(const char *name);         /* enum config_key, without case; -1 unknown */

/* Reads `raw` as TYPE. out->text is allocated (NULL for an empty list), out->number set; is_set is left alone. Words that mean nothing are dropped and
 * named in `warn`. Fails with what is wrong with the value, without the key. */
int  value_read(enum config_type type, const char *raw, struct config_value *out, struct str *warn, struct spur_error *err);
/* yes, up, true, 1 -> 1; no, down, false, 0 -> 0; else -1. */
int  value_bool(const char *text);
/* "DefCpuPerGPU=3,DefMemPerGPU=60000", without what is 0; NULL when both are. */
char *job_defaults_text(uint64_t cpu_per_gpu, uint64_t mem_per_gpu);
/* Lists of words with one canonical spelling and order (words.c). */
int  words_read(enum config_type type, const char *raw, struct str *out, struct str *warn, struct spur_error *err);
/* Is this value the same as "off" or as the default, so that ignoring it changes nothing? */
bool value_is_idle(enum config_key key, const struct config_value *v);

#endif
