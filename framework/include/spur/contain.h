/* SPDX-License-Identifier: Apache-2.0 */
/* spur/contain.h - the kind `contain`: what holds the processes of a step (Slurm's ProctrackType, and the limits of TaskPlugin=task/cgroup). ABI 0.1.
 *
 * A box is the container of one step on one node; boxes of one job stand in one larger box, which is made with the first and gone with the last.
 * The supervisor of a step makes one box, has each task enter it between fork and exec, and destroys it when it is empty. All calls come from that process,
 * which has one thread; `enter` comes in its child. `reclaim` alone is called by the agent, for a supervisor that died. Calls may read and
 * write /proc and /sys, and must not wait for processes. The host answers the keys of cgroup.conf by host->config too ("CgroupMountpoint").
 * Mandatory: create, enter, signal, kill, count, destroy. What is handed in is borrowed until the call returns. A plugin that cannot work on this
 * machine says so in `ready`; the host then takes contain/process, and drains the node when the site has asked for limits.
 */
#ifndef SPUR_CONTAIN_H
#define SPUR_CONTAIN_H

#include <stdbool.h>
#include <sys/types.h>
#include <spur/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SPUR_CONTAIN_NONE UINT64_MAX        /* of a limit: there is none */

/* Which limits a machine can keep: bits of `can`. */
#define SPUR_CONTAIN_CORES   (1u << 0)
#define SPUR_CONTAIN_MEMORY  (1u << 1)
#define SPUR_CONTAIN_SWAP    (1u << 2)
#define SPUR_CONTAIN_PIDS    (1u << 3)
#define SPUR_CONTAIN_DEVICES (1u << 4)
#define SPUR_CONTAIN_FREEZE  (1u << 5)

struct spur_contain_step {
    uint32_t size;
    uint32_t job_id, step_id, attempt, uid, gid;
    const char *step;           /* "batch", "0": a plain word for names */
    const char *scope;          /* plain word: this node of this cluster, unlike any other agent on the machine */
};

/* A character device. In a major that has a row, only the allowed ones may be opened. */
struct spur_contain_device { uint32_t major, minor; bool is_allowed; };

struct spur_contain_limits {
    uint32_t size;
    const char *cpus, *mems;    /* lists of the kernel's numbers, "0-3,8"; NULL: no limit */
    uint64_t memory;            /* bytes of RAM; SPUR_CONTAIN_NONE */
    uint64_t memory_soft;       /* where reclaim begins */
    uint64_t memory_swap;       /* bytes of RAM and swap together */
    uint64_t swappiness;        /* 0-100, v1 only; SPUR_CONTAIN_NONE */
    uint64_t pids;
    const struct spur_contain_device *devices; uint32_t device_count, device_size;     /* none: devices are not limited */
};

struct spur_contain_figures {
    uint32_t size;
    uint32_t processes;
    uint64_t user_us, system_us;            /* of all that ran in the box; contain/process: of what is alive */
    uint64_t rss_bytes, rss_max_bytes;      /* now; the most seen, 0: not known */
    uint64_t vm_bytes;
    uint64_t read_bytes, write_bytes;       /* of disks */
};

/* A task of a supervisor that has died: pid and its start in clock ticks after boot. */
struct spur_contain_leader { pid_t pid; uint64_t start; };

struct spur_contain_ops {
    uint32_t size;
    /* Makes or finds the box of a step. `job` limits the larger box, `step` this one; NULL: no limits. A limit that cannot be set is a failure. */
    int  (*create)(void *self, const struct spur_contain_step *step, const struct spur_contain_limits *job, const struct spur_contain_limits *limits,
                   void **box, struct spur_error *err);
    /* In the child, before the program is executed and while it still has the supervisor's rights: this process and all that comes of it is in the box. */
    int  (*enter)(void *self, void *box, struct spur_error *err);
    /* To every process of the box, not to the caller. How many there were. */
    size_t (*signal)(void *self, void *box, int signal);
    /* SIGKILL to all, so that none gets away by forking; thaws what is frozen. To be repeated until count is 0. How many there were. */
    size_t (*kill)(void *self, void *box);
    /* How many processes are in the box; up to `room` of them in `list` (NULL with room 0). */
    size_t (*count)(void *self, void *box, pid_t *list, size_t room);
    void (*destroy)(void *self, void *box);             /* of an empty box; accepts NULL */
    /* Stops all, in a way that they do not see, or lets them go on. Optional; 0 also when it was so already. */
    int  (*freeze)(void *self, void *box, bool frozen, struct spur_error *err);
    /* `out` comes with its size set and zeroed. Optional. */
    int  (*figures)(void *self, void *box, struct spur_contain_figures *out, struct spur_error *err);
    /* How many processes the kernel has killed for the memory limit of this box, or of the job's while this box was there. Optional: none ever. */
    uint64_t (*oom_kills)(void *self, void *box);
    /* What a supervisor left that died: one round of SIGKILL, and the box goes when it is empty. How many processes there were. Optional. */
    size_t (*reclaim)(void *self, const struct spur_contain_step *step, const struct spur_contain_leader *leaders, size_t count);
    /* SPUR_CONTAIN_* bits of what this machine can do. Optional: nothing. */
    uint32_t (*can)(void *self);
    /* Could a box be made here? 0, or a code with a sentence for the site. Optional: always. */
    int  (*ready)(void *self, struct spur_error *err);
    int  (*status)(void *self, char *buf, size_t len);  /* one line for people: what is used, and where; 0 or a code. Optional. */
    /* A child of the supervisor that helps it and is none of the step's: from now on neither it nor what comes of it is signalled, killed or counted. Optional: a box
     * that only `enter` puts processes into never has it. */
    void (*spare)(void *self, void *box, pid_t pid);
};

#ifdef __cplusplus
}
#endif
#endif
