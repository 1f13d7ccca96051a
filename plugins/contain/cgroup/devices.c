/* SPDX-License-Identifier: Apache-2.0 */
/* devices.c - devices that a step may open: a program on version 2, lines on version 1.
 *
 * Both say the same: in a major number of which a row is given, only the rows that are allowed may be opened; everything else (disks, /dev/null,
 * terminals) is left as it is. Version 2 has no file for it: the kernel asks a small program, which is made here by hand, some instructions a row:
 * char device? -> an allowed pair: yes -> one of the majors: no -> yes.
 * Version 1 keeps a list of exceptions in which a wildcard hides what is allowed beside it, so a major with something allowed is denied
 * minor by minor, as the rows name them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "devices.h"
#include "tree.h"

static const struct spur_contain_device *row_at(const struct spur_contain_device *rows, uint32_t i, uint32_t size)
{
    return (const struct spur_contain_device *)(const void *)((const char *)rows + (size_t)i * size);
}

static bool is_first_of_major(const struct spur_contain_device *rows, uint32_t i, uint32_t size)
{
    for (uint32_t k = 0; k < i; k++)
        if (row_at(rows, k, size)->major == row_at(rows, i, size)->major)
            return false;
    return true;
}

static struct bpf_insn insn(uint8_t code, uint8_t dst, uint8_t src, int off, int32_t imm)
{
    return (struct bpf_insn){ .code = code, .dst_reg = (uint8_t)(dst & 15), .src_reg = (uint8_t)(src & 15), .off = (int16_t)off, .imm = imm };
}

size_t devices_program(const struct spur_contain_device *rows, uint32_t count, uint32_t row_size, struct bpf_insn *out)
{
    size_t n = 0;

#define ADD(...) do { if (out) out[n] = insn(__VA_ARGS__); n++; } while (0)
    ADD(BPF_LDX | BPF_MEM | BPF_W, BPF_REG_2, BPF_REG_1, offsetof(struct bpf_cgroup_dev_ctx, access_type), 0);
    ADD(BPF_ALU | BPF_AND | BPF_K, BPF_REG_2, 0, 0, 0xffff);
    ADD(BPF_LDX | BPF_MEM | BPF_W, BPF_REG_3, BPF_REG_1, offsetof(struct bpf_cgroup_dev_ctx, major), 0);
    ADD(BPF_LDX | BPF_MEM | BPF_W, BPF_REG_4, BPF_REG_1, offsetof(struct bpf_cgroup_dev_ctx, minor), 0);
    ADD(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 1);
    ADD(BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_2, 0, 1, BPF_DEVCG_DEV_CHAR);
    ADD(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
    for (uint32_t i = 0; i < count; i++) {
        const struct spur_contain_device *d = row_at(rows, i, row_size);

        if (!d->is_allowed)
            continue;
        ADD(BPF_JMP | BPF_JNE | BPF_K, BPF_REG_3, 0, 2, (int32_t)d->major);
        ADD(BPF_JMP | BPF_JNE | BPF_K, BPF_REG_4, 0, 1, (int32_t)d->minor);
        ADD(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!is_first_of_major(rows, i, row_size))
            continue;
        ADD(BPF_JMP | BPF_JNE | BPF_K, BPF_REG_3, 0, 2, (int32_t)row_at(rows, i, row_size)->major);
        ADD(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 0);
        ADD(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
    }
    ADD(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
#undef ADD
    return n;
}

static int bpf(int command, union bpf_attr *attr) { return (int)syscall(SYS_bpf, command, attr, sizeof *attr); }

int devices_attach(const char *folder, const struct spur_contain_device *rows, uint32_t count, uint32_t row_size, struct spur_error *err)
{
    size_t n = devices_program(rows, count, row_size, NULL);
    struct bpf_insn *program = calloc(n, sizeof *program);
    union bpf_attr load, attach;
    int fd = -1, dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;

    if (!program || dir < 0) {
        rc = spur_fail(err, SPUR_EIO, "cannot limit the devices of %.150s: %s", folder, strerror(errno));
        goto out;
    }
    devices_program(rows, count, row_size, program);
    memset(&load, 0, sizeof load);
    load.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
    load.insns = (uint64_t)(uintptr_t)program;
    load.insn_cnt = (uint32_t)n;
    load.license = (uint64_t)(uintptr_t)"Apache-2.0";
    if ((fd = bpf(BPF_PROG_LOAD, &load)) < 0) {
        rc = spur_fail(err, SPUR_EUNSUPPORTED, "the kernel takes no program for devices: %s", strerror(errno));
        goto out;
    }
    memset(&attach, 0, sizeof attach);
    attach.target_fd = (uint32_t)dir;
    attach.attach_bpf_fd = (uint32_t)fd;
    attach.attach_type = BPF_CGROUP_DEVICE;
    attach.attach_flags = BPF_F_ALLOW_MULTI;       /* what systemd hangs above counts too */
    if (bpf(BPF_PROG_ATTACH, &attach) < 0)
        rc = spur_fail(err, SPUR_EUNSUPPORTED, "cannot limit the devices of %.150s: %s", folder, strerror(errno));
out:
    if (fd >= 0)
        close(fd);
    if (dir >= 0)
        close(dir);
    free(program);
    return rc;
}

int devices_deny(const char *folder, const struct spur_contain_device *rows, uint32_t count, uint32_t row_size, struct spur_error *err)
{
    char line[64];
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < count; i++) {
        const struct spur_contain_device *d = row_at(rows, i, row_size);
        bool any_allowed = false;

        for (uint32_t k = 0; k < count; k++)
            any_allowed |= row_at(rows, k, row_size)->major == d->major && row_at(rows, k, row_size)->is_allowed;
        if (d->is_allowed || (!any_allowed && !is_first_of_major(rows, i, row_size)))
            continue;
        if (any_allowed)
            snprintf(line, sizeof line, "c %u:%u rwm", d->major, d->minor);
        else
            snprintf(line, sizeof line, "c %u:* rwm", d->major);
        rc = file_write(folder, "devices.deny", line, err);
    }
    return rc;
}
