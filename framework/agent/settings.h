/* SPDX-License-Identifier: Apache-2.0 */
/* settings.h - the little of slurm.conf that an agent keeps: the rest of the configuration is freed, so that spurd stays small. */
#ifndef AGENT_SETTINGS_H
#define AGENT_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <spur/error.h>

#include "base/hostlist.h"
#include "config/config.h"

struct settings {
    char    *cluster, *conf_path, *auth, *sw, *gres_types, *mpi;
    char    *host;                      /* this machine's short name */
    struct hostlist *names;             /* the nodes this process speaks for */
    struct { char *host, *addr; } controllers[8]; size_t controller_count;
    uint16_t port;
    char    *spool_dir, *pid_file, *log_file;
    char     run_dir[256];
    uint32_t kill_wait_s;
    bool     append, emulate_hardware;
    char    *cpu_bind;                  /* how tasks are bound unless srun says it: "", "cores", "verbose,autobind=cores"; NULL: not at all */
    char    *reboot_program;                    /* RebootProgram, NULL: none */
    char    *health_program, *health_states;    /* HealthCheckProgram, NULL: none; HealthCheckNodeState */
    uint32_t health_interval_s, health_timeout_s;
    char    *prolog, *epilog;                   /* a line each, or a pattern; NULL: none */
    char    *task_prolog, *task_epilog;
    uint32_t prolog_timeout_s, epilog_timeout_s;
    bool     hooks_serial;
    uint64_t limits_kept;               /* rlimits.c: bits of RLIMIT_* that jobs take along */
    uint32_t gpu_deadline_s, gpu_interval_s;
    char    *autodetect;                /* AutoDetect= of gres.conf for the first node: "nvml", "full"; NULL: none, or off */
    bool     has_gpu_options;           /* spur.conf has a section for a gpu plugin */
    char    *plugstack;                 /* PlugStackConfig as written; NULL: plugstack.conf beside slurm.conf */
    char    *plugin_dir, *spur_text;    /* what the probe needs to open plugins as we would */
    char    *emulate_topology;          /* file; NULL: none */
    int      log_level;                 /* SPUR_LOG_*, from SlurmdDebug; each -v is one more */
    struct settings_contain {               /* contain.c; texts of cgroup are this struct's own */
        char *proctrack;                    /* ProctrackType; NULL: not given */
        bool  constrain;                    /* TaskPlugin has task/cgroup */
        struct config_cgroup cgroup;
        uint32_t unkillable_s;
        char *unkillable_program, *job_container;       /* NULL: none */
    } contain;
    /* of the nodes, in the order of `names` */
    struct settings_node {
        char *addr, *hostname;
        uint32_t boards, sockets, cores_per_socket, threads_per_core, cpus;
        uint64_t mem_mib, tmp_mib;
        struct config_gres *gres; size_t gres_count;
    } *nodes;
    struct config_gres_line *gres_lines; size_t gres_line_count;       /* those for the first node */
};

/* rlimits.c: bits of RLIMIT_*; except, where it names some, stands above only. */
uint64_t limits_kept(const char *only, const char *except);
/* What AutoDetect= comes to. With emulated hardware a node has what its line says, and hardware is looked for only where spur.conf tells a gpu plugin where
 * to look (another root, another library). NULL: nothing is looked for. */
const char *settings_autodetect(const struct settings *s);
/* NAME NULL: this host's name is looked for, by NodeHostName, NodeName and NodeAddr. EMULATE: a host list, or NULL. */
int  settings_make(const struct config *c, const char *name, const char *emulate, struct settings **out, struct spur_error *err);
void settings_free(struct settings *s);
/* "%n" and "%h" in SlurmdSpoolDir, SlurmdPidFile, SlurmdLogFile. */
char *settings_path(const char *pattern, const char *node, const char *host);

#endif
