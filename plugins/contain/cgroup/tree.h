/* SPDX-License-Identifier: Apache-2.0 */
/* tree.h - the control groups of this machine: which hierarchies there are, folders in them, their small files. */
#ifndef CONTAIN_TREE_H
#define CONTAIN_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <spur/contain.h>

enum controller { CTL_MEMORY, CTL_CPUSET, CTL_PIDS, CTL_DEVICES, CTL_FREEZER, CTL_IO, CTL_COUNT };

#define ROOT_MAX 200
#define NAME_MAX_ 200                   /* scope/job_1/step_batch */
#define PATH_MAX_ 640

/* Unified is version 2. On a hybrid machine it is there beside the hierarchies of version 1, without the controllers that those have taken. */
struct tree {
    char root[ROOT_MAX];                /* CgroupMountpoint */
    char unified[ROOT_MAX + 16];        /* "": there is none */
    bool is_in_unified[CTL_COUNT], is_v1[CTL_COUNT];
    bool has_memsw;
};

/* Looks at `root`. version: 0 whatever there is, 1 or 2: that one alone. */
int  tree_look(const char *root, int version, struct tree *out, struct spur_error *err);
const char *tree_words(const struct tree *t, char *buf, size_t len);
const char *controller_name(enum controller c);

/* Folder of the hierarchy that this controller is in, then NAME. False: no hierarchy has it. */
bool tree_path(const struct tree *t, enum controller c, const char *name, char path[PATH_MAX_]);

/* One small file in a folder. Writing: 0 or a code; the sentence has path, value and the kernel's word. */
int  file_write(const char *folder, const char *file, const char *value, struct spur_error *err);
int  file_write_number(const char *folder, const char *file, uint64_t value, struct spur_error *err);
bool file_read(const char *folder, const char *file, char *buf, size_t len);
bool file_is_there(const char *folder, const char *file);
/* Number behind "name " at the start of a line; 0: no such line. */
uint64_t line_number(const char *text, const char *name);

#endif
