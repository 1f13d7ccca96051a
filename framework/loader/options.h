/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - a plugin's option rows and the text of its section in spur.conf become the values it reads. Inside the loader only. */
#ifndef LOADER_OPTIONS_H
#define LOADER_OPTIONS_H

#include <stdbool.h>
#include <spur/plugin.h>

/* What plugins see as `conf`: one value a row, in the order of the rows, and the loader's own option sha256 at the end. */
struct spur_conf;

/* `text`: between the braces of plugin "NAME" { ... }, NULL for none; it begins at LINE of FILE. Every sentence of an error names them. */
int  options_parse(const struct spur_plugin *desc, const char *name, const char *text, const char *file, unsigned line,
                   struct spur_conf **out, struct spur_error *err);
/* The sha256 of a section, before the plugin's rows are known: its file must be judged before anything of it runs. "" when it gives none, or
 * cannot be read, which options_parse will say. */
void options_peek_sha256(const char *text, char *out, size_t room);
void options_free(struct spur_conf *c);
bool options_equal(const struct spur_conf *a, const struct spur_conf *b);
const char *options_sha256(const struct spur_conf *c);      /* NULL when not given; for built-ins, which have no file */

/* For the host table. An unknown name gives 0 or "": the plugin asks for an option that is not in its rows. */
long        options_int(const struct spur_conf *c, const char *name);
double      options_float(const struct spur_conf *c, const char *name);
const char *options_text(const struct spur_conf *c, const char *name);

/* Rows of a descriptor, walked with the plugin's own row size; NULL at the end. */
const struct spur_option *options_row(const struct spur_plugin *desc, size_t i);
const char *options_type_name(int type);

#endif
