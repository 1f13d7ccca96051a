/* SPDX-License-Identifier: Apache-2.0 */
/* fault.h - the calls of a launch that a test can make fail, one at a time, as if the kernel had refused them.
 *
 * In the order in which a launch meets them. Those of drop.c are counted there (drop_fail_at). In a daemon the hook is NULL, and nothing sets it: no
 * option, no variable, no file. The row says what becomes of the step: ENDS it, with nothing of the user run; or it GOES_ON, with
 * the right ids in the right container all the same.
 */
#ifndef AGENT_FAULT_H
#define AGENT_FAULT_H

#include <stdbool.h>
#include <stddef.h>

#define FAULT_POINTS(X) \
    /* the agent and the pool */ \
    X(ORDER_FILE, ENDS) X(STEP_LINK, ENDS) X(POOL_FORK, ENDS) \
    /* the supervisor: its folder, its socket, its container, the job's own mounts */ \
    X(FOLDER, ENDS) X(LISTEN, ENDS) X(SUBREAPER, ENDS) X(CONTAIN_OPEN, ENDS) X(CONTAIN_CREATE, ENDS) \
    X(TMP_SOURCE, ENDS) X(TMP_FORK, ENDS) X(TMP_UNSHARE, ENDS) X(TMP_PART, ENDS) X(TMP_OPEN, ENDS) X(TMP_BIND, ENDS) X(TMP_KEEP, ENDS) \
    X(SIGNALFD, ENDS) X(STATE_FILE, ENDS) X(SCRIPT_OPEN, ENDS) X(SCRIPT_OWNER, ENDS) X(SCRIPT_WRITE, ENDS) X(SCRIPT_MODE, ENDS) \
    X(TASK_SOCKET, ENDS) X(TASK_FORK, ENDS) \
    /* the task, as the agent's user */ \
    X(SESSION, ENDS) X(LIFT, ENDS) X(WORD, ENDS) X(CONTAIN_ENTER, ENDS) X(TMP_ENTER, ENDS) \
    /* the task, as the user */ \
    X(WORK_DIR, GOES_ON) X(LAST_DIR, GOES_ON) X(INPUT, ENDS) X(OUTPUT, ENDS) X(ERRORS, ENDS) X(PLACE, ENDS) X(STREAMS, ENDS) \
    X(LIMIT, GOES_ON) X(AFFINITY, GOES_ON) X(CLOSE_RANGE, GOES_ON) X(PROLOG, ENDS) X(EXEC, ENDS)

enum fault {
#define X(name, what) FAULT_##name,
    FAULT_POINTS(X)
#undef X
    FAULT_COUNT
};

/* True: fail. The hook sets errno. */
extern bool (*fault_hook)(enum fault at);

static inline bool fault(enum fault at) { return fault_hook && fault_hook(at); }

#endif
