/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - options that plugins bring: registration, what the user gave, and the way of a value from the command to the node.
 *
 * A value travels as a variable of the job's environment, _SLURM_SPANK_OPTION_plugin_name: that is how an srun in a batch script gets the options of its
 * sbatch, and a node those of its step. The same name is what plugins' own wrappers set. A value is the user's word: nothing of it is
 * trusted on the node beyond being handed to the plugin that asked for it.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "spank/inside.h"

static bool name_is_plain(const char *name)
{
    size_t n = strlen(name);

    if (n == 0 || n > SPANK_OPTION_MAXLEN || name[0] == '-')
        return false;
    for (; *name; name++)
        if (!isgraph((unsigned char)*name) || *name == '=')
            return false;
    return true;
}

spank_err_t option_register(struct spank_plugin *p, const struct spank_option *o)
{
    struct spank_stack *s = p->handle.stack;
    struct spank_opt *opt;

    if (!o || !o->name || !name_is_plain(o->name) || o->has_arg < 0 || o->has_arg > 2) {
        spank_log_line(SPANK_LOG_ERROR, "SPANK plugin %s: option \"%.80s\" is not taken: a name has 1 to %d printable characters without =, has_arg is 0, 1 or 2",
                       p->name, o && o->name ? o->name : "", SPANK_OPTION_MAXLEN);
        return ESPANK_BAD_ARG;
    }
    for (size_t i = 0; i < s->option_count; i++)
        if (!strcmp(s->options[i].name, o->name)) {
            if (s->options[i].plugin == p)
                return ESPANK_SUCCESS;
            spank_log_line(SPANK_LOG_ERROR, "SPANK plugin %s: option --%s belongs to plugin %s already", p->name, o->name, s->options[i].plugin->name);
            return ESPANK_BAD_ARG;
        }
    if (s->option_count == SPANK_OPTIONS_MAX) {
        spank_log_line(SPANK_LOG_ERROR, "SPANK plugin %s: option --%s is not taken: more than %d options", p->name, o->name, SPANK_OPTIONS_MAX);
        return ESPANK_NOSPACE;
    }
    s->options = mem_grow(s->options, s->option_count + 1, sizeof *s->options);
    opt = &s->options[s->option_count++];
    *opt = (struct spank_opt){ .plugin = p, .name = mem_copy(o->name), .arginfo = mem_copy(o->arginfo), .usage = mem_copy(o->usage), .has_arg = o->has_arg,
                               .val = o->val, .cb = o->cb };
    return ESPANK_SUCCESS;
}

void given_free(struct spank_stack *s)
{
    for (size_t i = 0; i < s->option_count; i++) {
        free(s->options[i].name);
        free(s->options[i].arginfo);
        free(s->options[i].usage);
        free(s->options[i].value);
    }
    free(s->options);
    s->options = NULL;
    s->option_count = 0;
}

size_t spank_stack_options(const struct spank_stack *s) { return s ? s->option_count : 0; }

void spank_stack_option(const struct spank_stack *s, size_t i, struct spank_stack_option *out)
{
    const struct spank_opt *o = &s->options[i];

    *out = (struct spank_stack_option){ o->plugin->name, o->name, o->arginfo, o->usage, o->has_arg };
}

int spank_stack_option_take(struct spank_stack *s, size_t i, const char *value, struct spur_error *err)
{
    struct spank_opt *o = &s->options[i];
    char *copy = o->has_arg ? mem_copy(value) : NULL;
    int result;

    free(o->value);
    o->value = copy;
    o->given = true;
    result = o->cb ? o->cb(o->val, o->value, s->context == S_CTX_REMOTE) : 0;
    if (result == 0)
        return 0;
    if (s->context == S_CTX_REMOTE && !o->plugin->row->required) {
        spank_log_line(SPANK_LOG_ERROR, "optional SPANK plugin %s does not take --%s", o->plugin->name, o->name);
        return 0;
    }
    return spur_fail(err, SPUR_EINVAL, "Invalid --%s argument: %.120s (SPANK plugin %.40s)", o->name, o->value ? o->value : "", o->plugin->name);
}

void spank_option_variable(const char *plugin, const char *name, char *out, size_t size)
{
    snprintf(out, size, "_SLURM_SPANK_OPTION_%.100s_%.100s", plugin, name);
    for (; *out; out++)
        if (!isalnum((unsigned char)*out) && *out != '_')
            *out = '_';
}

int spank_stack_options_carried(struct spank_stack *s, const char *(*get)(void *of, const char *name), void *of, struct spur_error *err)
{
    for (size_t i = 0; i < spank_stack_options(s); i++) {
        const struct spank_opt *o = &s->options[i];
        const char *value;
        char name[256];
        int rc;

        spank_option_variable(o->plugin->name, o->name, name, sizeof name);
        if (!(value = get(of, name)))
            continue;
        if ((rc = spank_stack_option_take(s, i, *value || o->has_arg == 1 ? value : NULL, err)) < 0)
            return rc;
    }
    return 0;
}

bool spank_stack_option_value(const struct spank_stack *s, size_t i, const char **value)
{
    *value = s->options[i].value;
    return s->options[i].given;
}
