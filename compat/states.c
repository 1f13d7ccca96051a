/* SPDX-License-Identifier: Apache-2.0 */
/* states.c - base states have the same numbers on both sides; flags do not. Bits are those of slurm.h, which cannot be included here. */
#include <stddef.h>

#include "state/apply.h"
#include "states.h"

struct bit { uint32_t ours; unsigned theirs; };

static uint32_t bits_of(uint32_t flags, const struct bit *rows, size_t n)
{
    uint32_t out = 0;

    for (size_t i = 0; i < n; i++)
        out |= flags & rows[i].ours ? UINT32_C(1) << rows[i].theirs : 0;
    return out;
}

uint32_t job_state_word(uint32_t state, uint32_t flags)
{
    static const struct bit rows[] = {
        { JOB_FLAG_COMPLETING, 15 }, { JOB_FLAG_CONFIGURING, 14 }, { JOB_FLAG_REQUEUE, 10 }, { JOB_FLAG_REQUEUE_HOLD, 11 },
        { JOB_FLAG_SPECIAL_EXIT, 12 }, { JOB_FLAG_STOPPED, 16 }, { JOB_FLAG_RESIZING, 13 }, { JOB_FLAG_SIGNALING, 22 },
    };

    return (state & 0xff) | bits_of(flags, rows, sizeof rows / sizeof *rows);
}

uint32_t node_state_word(uint32_t state, uint32_t flags)
{
    static const struct bit rows[] = {
        { NODE_FLAG_DRAIN, 9 }, { NODE_FLAG_COMPLETING, 10 }, { NODE_FLAG_NO_RESPOND, 11 }, { NODE_FLAG_CLOUD, 7 }, { NODE_FLAG_FAIL, 13 },
        { NODE_FLAG_MAINT, 15 }, { NODE_FLAG_RESERVED, 5 }, { NODE_FLAG_INVALID_REG, 22 }, { NODE_FLAG_POWERED_DOWN, 12 }, { NODE_FLAG_PLANNED, 21 },
        { NODE_FLAG_REBOOT_REQUESTED, 16 },
    };

    return (state & 0xf) | bits_of(flags, rows, sizeof rows / sizeof *rows);
}

uint64_t job_fields(bool with_detail)
{
    return JOB_FIELD_SPEC | JOB_FIELD_TRES | JOB_FIELD_PATHS | JOB_FIELD_TEXTS | (with_detail ? JOB_FIELD_ALLOCS : 0);
}
