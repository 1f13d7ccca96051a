/* SPDX-License-Identifier: Apache-2.0 */
/* file.c - one plugin file: may it be trusted, does it load, is its descriptor one that this spur can use.
 *
 * The order matters: nothing of a file is run before its owner, its mode and its hash are known to be right. Two traps:
 *  - libltdl binds lazily and says only "file not found" when a symbol is missing. So the file is opened once with dlopen and RTLD_NOW,
 *    whose own words are repeated, and libltdl then shares that handle.
 *  - A site's old PluginDir is full of Slurm's own modules under the very names we look for. They are told apart by their bytes.
 */
#include <dlfcn.h>
#include <errno.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <ltdl.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <spur/auth.h>
#include <spur/contain.h>
#include <spur/gpu.h>
#include <spur/mpi.h>
#include <spur/score.h>
#include <spur/priority.h>
#include <spur/select.h>
#include <spur/store.h>
#include <spur/switch.h>

#include "base/str.h"
#include "loader/file.h"
#include "loader/loader.h"

/* A path as our sentences show it: an error has 240 characters, and what is wrong must fit beside the name of the file. */
struct shown { char text[104]; };
static const char *shown(const char *path, struct shown *s)
{
    size_t n = strlen(path);

    if (n < sizeof s->text)
        return path;
    snprintf(s->text, sizeof s->text, "...%s", path + n - (sizeof s->text - 4));
    return s->text;
}

bool file_looks(const char *path, bool *is_ours)
{
    static const char symbol[] = "\0spur_plugin";
    struct stat st;
    void *bytes;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

    *is_ours = false;
    if (fd < 0) {
        /* There, but not readable by us: ours to refuse in words, not to pass over. */
        *is_ours = errno != ENOENT && errno != ENOTDIR;
        return *is_ours;
    }
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return false;
    }
    if (st.st_size > 0 && (bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0)) != MAP_FAILED) {
        *is_ours = memmem(bytes, (size_t)st.st_size, symbol, sizeof symbol) != NULL;
        munmap(bytes, (size_t)st.st_size);
    }
    close(fd);
    return true;
}

/* dlopen maps what the headers promise, and a file that is shorter ends the process with SIGBUS: a cut copy is refused before. */
int file_is_whole(const char *path, struct spur_error *err)
{
    ElfW(Ehdr) head;
    ElfW(Phdr) part;
    struct shown shorter;
    struct stat st;
    uint64_t end = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;

    if (fd < 0 || fstat(fd, &st) < 0)
        rc = spur_fail(err, SPUR_EIO, "%s: %s", shown(path, &shorter), strerror(errno));
    else if (pread(fd, &head, sizeof head, 0) != (ssize_t)sizeof head || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_phentsize != sizeof part)
        rc = spur_fail(err, SPUR_EINVAL, "%s: refused: it does not load: no shared library of this machine", shown(path, &shorter));
    for (unsigned i = 0; rc == 0 && i < head.e_phnum; i++) {
        if (pread(fd, &part, sizeof part, (off_t)(head.e_phoff + i * sizeof part)) != (ssize_t)sizeof part)
            end = head.e_phoff + (uint64_t)head.e_phnum * sizeof part;
        else if (part.p_type == PT_LOAD && part.p_offset + part.p_filesz > end)
            end = part.p_offset + part.p_filesz;
    }
    if (rc == 0 && end > (uint64_t)st.st_size)
        rc = spur_fail(err, SPUR_ECORRUPT, "%s: refused: the file is cut: it has %lld bytes, its headers speak of %llu", shown(path, &shorter), (long long)st.st_size, (unsigned long long)end);
    if (fd >= 0)
        close(fd);
    return rc;
}

static int owner_trusted(const char *path, bool is_parent, struct spur_error *err)
{
    struct shown shorter;
    struct stat st;
    const char *what;

    if (stat(path, &st) < 0)
        return spur_fail(err, SPUR_EIO, "%s: %s", shown(path, &shorter), strerror(errno));
    what = S_ISDIR(st.st_mode) ? "folder" : "file";
    if (st.st_uid != 0 && st.st_uid != geteuid())
        return spur_fail(err, SPUR_EDENIED, "%s: refused: the %s belongs to user %u; it must belong to root or to user %u, who runs spur", shown(path, &shorter), what,
                         (unsigned)st.st_uid, (unsigned)geteuid());
    /* In a sticky parent (/tmp) others can add names but not replace this one. */
    if ((st.st_mode & (S_IWGRP | S_IWOTH)) && !(is_parent && (st.st_mode & S_ISVTX)))
        return spur_fail(err, SPUR_EDENIED, "%s: refused: the %s can be written by others (mode %04o); chmod go-w it", shown(path, &shorter), what,
                         (unsigned)(st.st_mode & 07777));
    return 0;
}

/* The folder of `path` and every folder above it. */
static int parents_trusted(const char *path, struct spur_error *err)
{
    struct shown shorter;
    char *real = realpath(path, NULL), *slash;
    bool is_parent = false;
    int rc = 0;

    if (!real)
        return spur_fail(err, errno == ENOENT ? SPUR_ENOTFOUND : SPUR_EIO, "%s: %s", shown(path, &shorter), strerror(errno));
    while (!rc && (slash = strrchr(real, '/'))) {
        *slash = '\0';
        rc = owner_trusted(*real ? real : "/", is_parent, err);
        is_parent = true;
    }
    free(real);
    return rc;
}

int file_trusted(const char *path, struct spur_error *err)
{
    int rc;
    char *folder, *slash;

    if ((rc = owner_trusted(path, false, err)) < 0 || (rc = parents_trusted(path, err)) < 0)
        return rc;
    /* Where a symbolic link lies counts as much as where it leads. */
    folder = mem_copy(path);
    slash = strrchr(folder, '/');
    if (slash) {
        slash[slash == folder] = '\0';
        rc = owner_trusted(folder, false, err);
    }
    free(folder);
    return rc;
}

int file_hash_is(const char *path, const char *hex, struct spur_error *err)
{
    struct shown shorter;
    crypto_hash_sha256_state state;
    unsigned char digest[crypto_hash_sha256_BYTES], buf[16384];
    char text[2 * sizeof digest + 1];
    ssize_t n;
    int fd;

    if (strlen(hex) != 2 * sizeof digest || strspn(hex, "0123456789abcdefABCDEF") != 2 * sizeof digest)
        return spur_fail(err, SPUR_EINVAL, "sha256: %.80s is not 64 hexadecimal digits", hex);
    if ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        return spur_fail(err, SPUR_EIO, "%s: %s", shown(path, &shorter), strerror(errno));
    crypto_hash_sha256_init(&state);
    while ((n = read(fd, buf, sizeof buf)) > 0)
        crypto_hash_sha256_update(&state, buf, (unsigned long long)n);
    close(fd);
    if (n < 0)
        return spur_fail(err, SPUR_EIO, "%s: %s", shown(path, &shorter), strerror(errno));
    crypto_hash_sha256_final(&state, digest);
    sodium_bin2hex(text, sizeof text, digest, sizeof digest);
    if (!word_eq(text, hex))
        return spur_fail(err, SPUR_EDENIED, "%s: refused: its sha256 is %.16s..., the configuration says %.16s...", shown(path, &shorter), text, hex);
    return 0;
}

/* Operations that the host calls without asking. */
static const struct mandatory {
    enum spur_kind kind;
    size_t offset;
    const char *name;
} mandatory[] = {
#define MANDATORY(kind, op) { SPUR_KIND_##kind, offsetof(struct spur_##kind##_ops, op), #op }
    MANDATORY(store, start), MANDATORY(store, propose), MANDATORY(store, status), MANDATORY(store, stop),
    MANDATORY(select, place),
    MANDATORY(switch, job_join), MANDATORY(switch, job_leave),
    MANDATORY(auth, prove), MANDATORY(auth, check),
    MANDATORY(priority, rank),
    MANDATORY(gpu, scan),
    MANDATORY(score, best),
    MANDATORY(contain, create), MANDATORY(contain, enter), MANDATORY(contain, signal), MANDATORY(contain, kill), MANDATORY(contain, count),
    MANDATORY(contain, destroy),
    MANDATORY(mpi, start), MANDATORY(mpi, task),
#undef MANDATORY
};

static bool name_is_plain(const char *name)
{
    size_t n = strlen(name);

    return n > 0 && n < 48 && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == n;
}

int descriptor_check(const struct spur_plugin *desc, enum spur_kind kind, const char *where, struct spur_error *err)
{
    /* Up to `close` a descriptor of the first ABI has every member. */
    const size_t smallest = offsetof(struct spur_plugin, close) + sizeof desc->close;
    const char *kind_name;
    unsigned major = 0, minor = 0;
    uint32_t ops_size;

    if (desc->magic != SPUR_PLUGIN_MAGIC)
        return spur_fail(err, SPUR_EABI, "%s: refused: its descriptor begins with 0x%08x, this spur reads 0x%08x: built for another generation", where,
                         (unsigned)desc->magic, (unsigned)SPUR_PLUGIN_MAGIC);
    if (desc->size < smallest)
        return spur_fail(err, SPUR_EABI, "%s: refused: its descriptor has %u bytes, this spur needs at least %zu", where, (unsigned)desc->size, smallest);
    kind_name = loader_kind_name((enum spur_kind)desc->kind);
    if (!kind_name)
        return spur_fail(err, SPUR_EABI, "%s: refused: it is of kind %u, which this spur does not know", where, (unsigned)desc->kind);
    if (kind != SPUR_KIND_none && desc->kind != kind)
        return spur_fail(err, SPUR_EABI, "%s: refused: it is a %s plugin, a %s plugin is wanted", where, kind_name, loader_kind_name(kind));
    switch (desc->kind) {
#define KIND_ABI(name, number, abi_major_, abi_minor_) case number: major = abi_major_; minor = abi_minor_; break;
        SPUR_KINDS(KIND_ABI)
#undef KIND_ABI
    }
    if (desc->abi_major != major || desc->abi_minor > minor)
        return spur_fail(err, SPUR_EABI, "%s: refused: built for %s ABI %u.%u, this spur offers %u.%u; %s", where, kind_name, desc->abi_major, desc->abi_minor,
                         major, minor, desc->abi_major > major || (desc->abi_major == major && desc->abi_minor > minor)
                         ? "take a newer spur or an older build of the plugin" : "build the plugin again with this spur's headers");
    if (!desc->name || !name_is_plain(desc->name))
        return spur_fail(err, SPUR_EINVAL, "%s: refused: its name %s%.64s%s is not of a-z, 0-9, _ and -", where, desc->name ? "\"" : "", desc->name ? desc->name :
                         "is missing: it", desc->name ? "\"" : "");
    if (desc->options && desc->option_size < offsetof(struct spur_option, help) + sizeof desc->options->help)
        return spur_fail(err, SPUR_EABI, "%s: refused: its option rows have %u bytes, this spur needs at least %zu", where, (unsigned)desc->option_size,
                         offsetof(struct spur_option, help) + sizeof desc->options->help);
    if (!desc->ops || !desc->open || !desc->close)
        return spur_fail(err, SPUR_EINVAL, "%s: refused: its descriptor has no %s", where, !desc->ops ? "ops" : !desc->open ? "open" : "close");
    memcpy(&ops_size, desc->ops, sizeof ops_size);
    for (size_t i = 0; i < sizeof mandatory / sizeof *mandatory; i++) {
        const struct mandatory *m = &mandatory[i];
        void (*op)(void) = NULL;

        if (m->kind != desc->kind)
            continue;
        if (ops_size >= m->offset + sizeof op)
            memcpy(&op, (const char *)desc->ops + m->offset, sizeof op);
        if (!op)
            return spur_fail(err, SPUR_EINVAL, "%s: refused: %s/%s lacks the operation %s (its table has %u bytes)", where, kind_name, desc->name, m->name,
                             (unsigned)ops_size);
    }
    return 0;
}

/* dlerror's own words, without the path that our sentence begins with. */
static int load_failed(const char *path, const char *why, struct spur_error *err)
{
    struct shown shorter;
    size_t n = strlen(path);

    if (!why)
        why = "unknown reason";
    if (strncmp(why, path, n) == 0 && why[n] == ':')
        why += n + 1 + strspn(why + n + 1, " ");
    return spur_fail(err, SPUR_EINVAL, "%s: refused: it does not load: %s", shown(path, &shorter), why);
}

int file_open(const char *path, enum spur_kind kind, const char *expected, struct plugin_file *out, struct spur_error *err)
{
    struct shown shorter;
    lt_dladvise advise = NULL;
    void *early = NULL;
    int rc;

    *out = (struct plugin_file){ .path = mem_alloc(strlen(path) + 3) };
    /* Without a slash the dynamic linker would look in folders of its own. */
    sprintf(out->path, "%s%s", strchr(path, '/') ? "" : "./", path);
    path = out->path;
    if (access(path, R_OK) < 0) {
        rc = spur_fail(err, errno == ENOENT ? SPUR_ENOTFOUND : SPUR_EIO, "%s: %s", shown(path, &shorter), strerror(errno));
        goto failed;
    }
    if ((rc = file_trusted(path, err)) < 0)
        goto failed;
    if ((rc = file_is_whole(path, err)) < 0)
        goto failed;
    if (!(early = dlopen(path, RTLD_NOW | RTLD_LOCAL))) {
        rc = load_failed(path, dlerror(), err);
        goto failed;
    }
    if (lt_dlinit() != 0) {
        rc = load_failed(path, lt_dlerror(), err);
        goto failed;
    }
    if (lt_dladvise_init(&advise) == 0)
        lt_dladvise_local(&advise);
    if (!(out->handle = lt_dlopenadvise(path, advise))) {
        rc = load_failed(path, lt_dlerror(), err);
        lt_dladvise_destroy(&advise);
        lt_dlexit();
        goto failed;
    }
    lt_dladvise_destroy(&advise);
    if (!(out->desc = lt_dlsym(out->handle, "spur_plugin"))) {
        rc = spur_fail(err, SPUR_EINVAL, "%s: refused: it exports no spur_plugin, so it is no plugin of spur", shown(path, &shorter));
        goto failed;
    }
    if ((rc = descriptor_check(out->desc, kind, shown(path, &shorter), err)) < 0)
        goto failed;
    if (expected && strcmp(expected, out->desc->name) != 0) {
        rc = spur_fail(err, SPUR_EINVAL, "%s: refused: it calls itself %s/%s; its file must be %s_%s.so", shown(path, &shorter),
                       loader_kind_name((enum spur_kind)out->desc->kind), out->desc->name, loader_kind_name((enum spur_kind)out->desc->kind), out->desc->name);
        goto failed;
    }
    dlclose(early);
    return 0;

failed:
    if (early)
        dlclose(early);
    file_close(out);
    return rc;
}

void file_close(struct plugin_file *f)
{
    if (f->handle) {
        lt_dlclose(f->handle);
        lt_dlexit();
    }
    free(f->path);
    *f = (struct plugin_file){ 0 };
}
