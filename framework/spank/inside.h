/* SPDX-License-Identifier: Apache-2.0 */
/* inside.h - what the files of this folder share: a plugin, its handle, its options. */
#ifndef SPANK_INSIDE_H
#define SPANK_INSIDE_H

#include "config/plugstack.h"
#include "spank/stack.h"

#define SPANK_OPTIONS_MAX 256           /* of all plugins together */
#define HANDLE_MAGIC 0x5b4e4b01u

struct spank_handle {                   /* what a plugin holds as its spank_t */
    uint32_t magic;
    struct spank_stack *stack;
    struct spank_plugin *plugin;
    enum spank_hook hook;               /* that runs now; SPANK_HOOKS: none */
};

struct spank_plugin {
    struct spank_handle handle;
    const struct plugstack_row *row;
    char    *path;
    const char *name;                   /* plugin_name, in the library */
    unsigned version;
    void    *library;
    spank_f *hooks[SPANK_HOOKS];
};

struct spank_opt {
    struct spank_plugin *plugin;
    char    *name, *arginfo, *usage;
    int      has_arg, val;
    spank_opt_cb_f cb;
    bool     given;
    char    *value;
};

struct spank_stack {
    struct plugstack conf;
    struct spank_facts *facts;
    spank_context_t context;
    struct spank_plugin *plugins; size_t count;
    struct spank_opt *options; size_t option_count;
};

extern struct spank_stack *spank_stack_here;    /* of this process; NULL: none. spank_context() has no argument */

/* options.c */
spank_err_t option_register(struct spank_plugin *p, const struct spank_option *o);
void        given_free(struct spank_stack *s);
/* calls.c; keeps its functions linked in: plugins alone name them */
void        spank_calls_here(void);

#endif
