/* SPDX-License-Identifier: Apache-2.0 */
/* generic.c - the devices of a node as the site wrote them in gres.conf: no driver and no vendor library is asked.
 *
 * A line gives one device a file, numbered in the order of the lines, or a plain count when it has no file. Shares of a GPU (mps, shard) take
 * the number of the GPU whose file they name. A line that contradicts itself is refused with file and line, before the node
 * takes a job: a wrong device list is found at the agent's start, not by the first user's job.
 *
 * Links= counts links, it does not say what one carries: all links of a node are taken for equal, with the speed of the vendor that the device
 * file names. On AMD's nodes two devices with a common neighbour reach each other over it, and have no capacity of their own.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>
#include <spur/gpu.h>

#define ENV_FLAGS (SPUR_GPU_ENV_CUDA | SPUR_GPU_ENV_ROCM | SPUR_GPU_ENV_OPENCL | SPUR_GPU_ENV_INTEL)
#define NAMES_MAX 4096      /* files one line may expand to; the limit that counts, SPUR_GPU_MAX devices a name, is checked later */

/* Where the devices of the last scan are, for health. */
struct generic {
    const struct spur_host *host;
    uint32_t count;
    struct { uint32_t index; char path[256]; } devices[SPUR_GPU_MAX];
};

static int generic_open(const struct spur_host *host, const struct spur_conf *conf, void **self, struct spur_error *err)
{
    struct generic *g = calloc(1, sizeof *g);

    (void)conf;
    if (!g)
        return spur_fail(err, SPUR_ENOMEM, "out of memory");
    g->host = host;
    *self = g;
    return 0;
}

static int generic_reload(void *self, const struct spur_conf *conf, struct spur_error *err)
{
    (void)self;
    (void)conf;
    (void)err;
    return 0;
}

/* Every sentence about a line begins with its place. */
__attribute__((format(printf, 3, 4)))
static int line_fail(const struct spur_gres_line *line, struct spur_error *err, const char *format, ...)
{
    char text[200];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return spur_fail(err, SPUR_EINVAL, "%s:%u: %s", line->source ? line->source : "gres.conf", line->line, text);
}

static bool given(const char *text)
{
    return text && *text;
}

/* "/dev/nvidia[0-3,5],/dev/x" one name at a time: calls each(arg, name). False: the text is not such a list. */
static bool names_each(const char *text, bool (*each)(void *arg, const char *name), void *arg)
{
    char name[256];
    unsigned made = 0;

    while (*text) {
        size_t head = strcspn(text, "[,"), close, tail;
        const char *at;

        if (text[head] != '[') {
            if (head == 0 || head >= sizeof name)
                return false;
            snprintf(name, sizeof name, "%.*s", (int)head, text);
            if (!each(arg, name))
                return false;
            text += head + (text[head] == ',');
            continue;
        }
        close = strcspn(text, "]");
        if (!text[close])
            return false;
        tail = strcspn(text + close + 1, ",");
        if (memchr(text + close + 1, '[', tail))
            return false;
        for (at = text + head + 1; at < text + close; ) {
            unsigned long first, last;
            char *end;
            int width;

            if (!isdigit((unsigned char)*at))
                return false;
            first = last = strtoul(at, &end, 10);
            width = (int)(end - at);
            if (*end == '-') {
                if (!isdigit((unsigned char)end[1]))
                    return false;
                last = strtoul(end + 1, &end, 10);
            }
            if ((*end != ',' && *end != ']') || last < first)
                return false;
            for (unsigned long i = first; i <= last; i++) {
                if (++made > NAMES_MAX || snprintf(name, sizeof name, "%.*s%0*lu%.*s", (int)head, text, width, i, (int)tail, text + close + 1) >= (int)sizeof name)
                    return false;
                if (!each(arg, name))
                    return false;
            }
            at = end + 1;
        }
        text += close + 1 + tail;
        text += *text == ',';
    }
    return true;
}

static bool name_count(void *arg, const char *name)
{
    (void)name;
    ++*(uint32_t *)arg;
    return true;
}

static bool count_read(const char *text, uint64_t *out)
{
    static const char suffixes[] = "KMGTP";
    const char *at;
    char *end;

    if (!isdigit((unsigned char)*text))
        return false;
    errno = 0;
    *out = strtoull(text, &end, 10);
    if (errno)
        return false;
    if (*end && (at = strchr(suffixes, toupper((unsigned char)*end)))) {
        unsigned shift = 10 * (unsigned)(at - suffixes + 1);

        if (*out > UINT64_MAX >> shift)
            return false;
        *out <<= shift;
        end++;
    }
    return !*end;
}

/* "0-3,8" with or without brackets around it; copied without them. */
static bool cores_read(const char *text, char *out, size_t room)
{
    size_t n = strlen(text);

    if (n >= 2 && text[0] == '[' && text[n - 1] == ']') {
        text++;
        n -= 2;
    }
    if (n >= room)
        return false;
    snprintf(out, room, "%.*s", (int)n, text);
    for (const char *at = out; ; ) {
        unsigned long first, last;
        char *end;

        if (!isdigit((unsigned char)*at))
            return false;
        first = last = strtoul(at, &end, 10);
        if (*end == '-') {
            if (!isdigit((unsigned char)end[1]))
                return false;
            last = strtoul(end + 1, &end, 10);
        }
        if (last < first)
            return false;
        if (!*end)
            return true;
        if (*end != ',')
            return false;
        at = end + 1;
    }
}

/* Flags= of a line. *env: its environment flags, *env_given: it has any (no_gpu_env included). */
static int flags_read(const struct spur_gres_line *line, uint32_t *env, bool *env_given, bool *count_only, struct spur_error *err)
{
    static const struct { const char *word; uint32_t env; } words[] = {
        { "nvidia_gpu_env", SPUR_GPU_ENV_CUDA }, { "amd_gpu_env", SPUR_GPU_ENV_ROCM }, { "intel_gpu_env", SPUR_GPU_ENV_INTEL },
        { "opencl_env", SPUR_GPU_ENV_OPENCL }, { "no_gpu_env", 0 }, { "CountOnly", 0 }, { "one_sharing", 0 }, { "all_sharing", 0 },
        { "explicit", 0 }, { "env_uuid", 0 } };
    bool none = false, one = false, all = false;
    const char *at = line->flags;

    *env = 0;
    *env_given = *count_only = false;
    while (given(at)) {
        size_t n = strcspn(at, ","), i;

        for (i = 0; i < sizeof words / sizeof *words; i++)
            if (strlen(words[i].word) == n && strncasecmp(words[i].word, at, n) == 0)
                break;
        if (i == sizeof words / sizeof *words)
            return line_fail(line, err, "Flags=%.*s: unknown; known are nvidia_gpu_env amd_gpu_env intel_gpu_env opencl_env no_gpu_env CountOnly one_sharing all_sharing", (int)n, at);
        if (strcmp(words[i].word, "env_uuid") == 0 || strcmp(words[i].word, "explicit") == 0)
            return line_fail(line, err, "Flags=%s: not supported yet; leave it out", words[i].word);
        *env |= words[i].env;
        none |= strcmp(words[i].word, "no_gpu_env") == 0;
        *env_given |= words[i].env != 0 || none;
        *count_only |= strcmp(words[i].word, "CountOnly") == 0;
        one |= strcmp(words[i].word, "one_sharing") == 0;
        all |= strcmp(words[i].word, "all_sharing") == 0;
        at += n + (at[n] == ',');
    }
    if (none && *env)
        return line_fail(line, err, "Flags=%.80s: no_gpu_env excludes the other environment flags", line->flags);
    if (one && all)
        return line_fail(line, err, "Flags=%.80s: one_sharing and all_sharing exclude each other", line->flags);
    return 0;
}

/* One scan. */
struct scan {
    struct generic *self;
    const struct spur_gres_line *lines; uint32_t line_count, line_size;
    const char *root;
    bool emulate;
    struct spur_gpu_found *found;
    struct spur_error *err;
    /* Of the line being read: */
    const struct spur_gres_line *line;
    struct spur_gpu row;
    int rc;
};

static struct spur_gpu *found_at(const struct spur_gpu_found *found, uint32_t i)
{
    return (struct spur_gpu *)(void *)((char *)found->gpus + (size_t)i * found->gpu_size);
}

static const struct spur_gres_line *line_at(const struct scan *s, uint32_t i)
{
    return (const struct spur_gres_line *)(const void *)((const char *)s->lines + (size_t)i * s->line_size);
}

static const char *line_multiple(const struct scan *s)
{
    return s->line_size > offsetof(struct spur_gres_line, multiple_files) ? s->line->multiple_files : NULL;
}

static bool is_share(const char *name)
{
    return strcasecmp(name, "mps") == 0 || strcasecmp(name, "shard") == 0;
}

static uint32_t found_stored(const struct scan *s)
{
    return s->found->count < s->found->room ? s->found->count : s->found->room;
}

/* The number of the next device of this name; of a share the number of the GPU with its file. */
static uint32_t index_next(const struct scan *s)
{
    uint32_t next = 0;

    for (uint32_t i = 0; i < found_stored(s); i++) {
        const struct spur_gpu *g = found_at(s->found, i);

        if (is_share(s->row.name) && s->row.file[0] && strcmp(g->name, "gpu") == 0 && strcmp(g->file, s->row.file) == 0)
            return g->index;
        if (strcmp(g->name, s->row.name) == 0)
            next = g->index + 1;
    }
    return next;
}

static void row_store(struct scan *s)
{
    struct spur_gpu_found *found = s->found;

    if (found->count < found->room) {
        struct spur_gpu *to = found_at(found, found->count);

        memset(to, 0, found->gpu_size);
        memcpy(to, &s->row, found->gpu_size < sizeof s->row ? found->gpu_size : sizeof s->row);
    }
    found->count++;
}

static bool file_exists(struct scan *s, const char *name)
{
    char path[512];
    struct stat st;

    snprintf(path, sizeof path, "%s%s", given(s->root) && strcmp(s->root, "/") != 0 ? s->root : "", name);
    if (s->emulate || stat(path, &st) == 0)
        return true;
    s->rc = line_fail(s->line, s->err, "File %s: %s", path, strerror(errno));
    return false;
}

/* One file of File=: one device. */
static bool device_add(void *arg, const char *name)
{
    struct scan *s = arg;

    if (*name != '/') {
        s->rc = line_fail(s->line, s->err, "File=%.100s: not a full path", name);
        return false;
    }
    if (!file_exists(s, name))
        return false;
    for (uint32_t i = 0; i < found_stored(s); i++) {
        const struct spur_gpu *g = found_at(s->found, i);

        if (strcmp(g->file, name) == 0 && strcmp(g->name, s->row.name) == 0) {
            s->rc = line_fail(s->line, s->err, "File=%.100s: already device %u of %s", name, g->index, g->name);
            return false;
        }
    }
    if (snprintf(s->row.file, sizeof s->row.file, "%s", name) >= (int)sizeof s->row.file) {
        s->rc = line_fail(s->line, s->err, "File=%.60s...: longer than %zu characters", name, sizeof s->row.file - 1);
        return false;
    }
    s->row.index = s->row.card = index_next(s);
    if (s->row.index >= SPUR_GPU_MAX) {
        s->rc = line_fail(s->line, s->err, "Name=%s: more than %d devices with a file on one node", s->row.name, SPUR_GPU_MAX);
        return false;
    }
    if (!s->emulate && s->self->count < SPUR_GPU_MAX && strcmp(s->row.name, "gpu") == 0) {
        s->self->devices[s->self->count].index = s->row.index;
        snprintf(s->self->devices[s->self->count++].path, sizeof s->self->devices->path, "%.100s%s",
                 given(s->root) && strcmp(s->root, "/") != 0 ? s->root : "", name);
    }
    row_store(s);
    return true;
}

/* One file of MultipleFiles=: only looked at. */
static bool part_check(void *arg, const char *name)
{
    struct scan *s = arg;

    if (*name != '/') {
        s->rc = line_fail(s->line, s->err, "MultipleFiles=%.100s: not a full path", name);
        return false;
    }
    if (!file_exists(s, name))
        return false;
    if (strlen(s->row.file) + strlen(name) + 2 > sizeof s->row.file) {
        s->rc = line_fail(s->line, s->err, "MultipleFiles: longer than %zu characters in all", sizeof s->row.file - 1);
        return false;
    }
    if (s->row.file[0])
        strcat(s->row.file, ",");
    strcat(s->row.file, name);
    return true;
}

static int links_read(struct scan *s)
{
    const char *at = s->line->links;
    uint32_t n = 0, row = index_next(s);
    bool has_self = false;

    while (true) {
        char *end;
        long value = strtol(at, &end, 10);

        if (end != at && (value < -1 || value > 255))
            return line_fail(s->line, s->err, "Links row %u column %u is %ld: a number of links from 0 to 255, or -1 for the device itself, is wanted", row, n, value);
        if (end == at || (*end && *end != ','))
            return line_fail(s->line, s->err, "Links=%.100s: numbers of links to device 0, 1, ... are wanted, -1 for the device itself", s->line->links);
        if (n == SPUR_GPU_MAX)
            return line_fail(s->line, s->err, "Links=%.60s...: more than %d devices", s->line->links, SPUR_GPU_MAX);
        if (value == -1 && has_self)
            return line_fail(s->line, s->err, "Links=%.100s: two places are -1, but a device is itself only once", s->line->links);
        has_self |= value == -1;
        s->row.links[n++] = (int32_t)value;
        if (!*end)
            break;
        at = end + 1;
    }
    return 0;
}

/* Name, type, count, cores, links, flags of a line into the row that its devices share. */
static int line_read(struct scan *s, uint32_t *files, uint64_t *count)
{
    const struct spur_gres_line *line = s->line;
    const char *multiple = line_multiple(s);
    bool env_given, count_only;
    uint32_t env;
    int rc;

    s->row = (struct spur_gpu){ .numa = -1, .pcie_switch = -1, .count = 1, .line = line->line };
    if (strlen(line->name) >= sizeof s->row.name || (given(line->type) && strlen(line->type) >= sizeof s->row.type))
        return line_fail(line, s->err, "Name=%.60s Type=%.60s: names have at most %zu characters, types %zu", line->name, line->type ? line->type : "",
                         sizeof s->row.name - 1, sizeof s->row.type - 1);
    for (size_t i = 0; line->name[i]; i++)
        s->row.name[i] = (char)tolower((unsigned char)line->name[i]);
    snprintf(s->row.type, sizeof s->row.type, "%s", line->type ? line->type : "");
    if (given(line->file) && given(multiple))
        return line_fail(line, s->err, "File and MultipleFiles exclude each other");
    *files = 0;
    if (given(line->file) && (!names_each(line->file, name_count, files) || *files == 0))
        return line_fail(line, s->err, "File=%.100s: not a list of files with ranges like /dev/nvidia[0-3]", line->file);
    *count = *files ? (is_share(s->row.name) ? 1 : *files) : 1;
    if (given(line->count)) {
        uint64_t asked;

        if (!count_read(line->count, &asked) || asked == 0)
            return line_fail(line, s->err, "Count=%.60s: a number above 0 with K, M, G, T, P or nothing behind it is wanted", line->count);
        if (*files && !is_share(s->row.name) && asked != *files)
            return line_fail(line, s->err, "Count=%.60s contradicts the %u files of File=%.80s", line->count, *files, line->file);
        if (given(multiple) && asked != 1)
            return line_fail(line, s->err, "Count=%.60s: MultipleFiles is one device", line->count);
        *count = asked;
    }
    if (given(line->cores) && !cores_read(line->cores, s->row.cores, sizeof s->row.cores))
        return line_fail(line, s->err, "Cores=%.100s: a list like 0-3,8 with rising ranges is wanted", line->cores);
    if ((rc = flags_read(line, &env, &env_given, &count_only, s->err)) < 0)
        return rc;
    if (count_only && (*files || given(multiple)))
        return line_fail(line, s->err, "Flags=CountOnly contradicts a device file");
    /* On a line of several devices Links says nothing of any one of them. Slurm takes it all the same, and sites have it. */
    if (given(line->links) && *files <= 1) {
        if (!*files && !given(multiple))
            return line_fail(line, s->err, "Links is for a line with one device; this one has no file");
        if ((rc = links_read(s)) < 0)
            return rc;
    }

    /* Without flags of its own a line goes on with those of the line before it of the same name and type; without any, all are set. */
    s->row.flags = env_given ? env : ENV_FLAGS;
    for (uint32_t i = found_stored(s); i-- > 0; ) {
        const struct spur_gpu *g = found_at(s->found, i);

        if (strcmp(g->name, s->row.name) != 0 || strcmp(g->type, s->row.type) != 0)
            continue;
        if (env_given && (g->flags & ENV_FLAGS) != env)
            return line_fail(line, s->err, "Flags=%.80s: another line of %s %s has other environment flags; they must be equal", line->flags, g->name, g->type);
        s->row.flags = g->flags & ENV_FLAGS;
        break;
    }
    if (strcmp(s->row.name, "gpu") != 0)
        s->row.flags = 0;
    return 0;
}

static int line_scan(struct scan *s)
{
    const char *multiple = line_multiple(s);
    uint32_t files = 0;
    uint64_t count = 0;
    int rc;

    if (!given(s->line->name)) {
        if (given(s->line->file) || given(s->line->count) || given(multiple) || given(s->line->type))
            return line_fail(s->line, s->err, "a line with a device has no Name");
        return 0;       /* AutoDetect alone */
    }
    if ((rc = line_read(s, &files, &count)) < 0)
        return rc;
    s->rc = 0;
    if (files) {
        s->row.count = is_share(s->row.name) ? count : 1;
        names_each(s->line->file, device_add, s);
    } else if (given(multiple)) {
        if (!names_each(multiple, part_check, s) && s->rc == 0)
            return line_fail(s->line, s->err, "MultipleFiles=%.100s: not a list of files", multiple);
        if (s->rc == 0) {
            s->row.index = s->row.card = index_next(s);
            if (s->row.index >= SPUR_GPU_MAX)
                return line_fail(s->line, s->err, "Name=%s: more than %d devices with a file on one node", s->row.name, SPUR_GPU_MAX);
            row_store(s);
        }
    } else {
        s->row.count = count;
        s->row.flags |= SPUR_GPU_COUNT_ONLY;
        row_store(s);
    }
    return s->rc;
}

/* What only all lines together show. */
static int links_check(struct scan *s)
{
    uint32_t devices = 0;

    for (uint32_t i = 0; i < found_stored(s); i++)
        devices += strcmp(found_at(s->found, i)->name, "gpu") == 0 && found_at(s->found, i)->file[0];
    for (uint32_t l = 0, i = 0; l < s->line_count; l++) {
        const struct spur_gres_line *line = line_at(s, l);
        const struct spur_gpu *g;
        uint32_t files = 0, places = 1;

        if (!given(line->name))
            continue;
        if (given(line->file))
            names_each(line->file, name_count, &files);
        else
            files = 1;
        if (i >= found_stored(s))
            break;
        g = found_at(s->found, i);
        i += files;
        if (!given(line->links) || files > 1 || strcmp(g->name, "gpu") != 0)
            continue;
        for (const char *at = line->links; (at = strchr(at, ',')); at++)
            places++;
        if (places != devices)
            return line_fail(line, s->err, "Links row %u: Links=%.100s has %u places, the node has %u devices", g->index, line->links, places, devices);
        for (uint32_t k = 0; k < places; k++)
            if ((g->links[k] == -1) != (k == g->index))
                return line_fail(line, s->err, "Links=%.100s: -1 must stand at the place of the device itself, which is %u", line->links, g->index);
    }
    return 0;
}

/* The devices by number; those without a row of links have -1 nowhere. */
static struct spur_gpu *device_at(const struct scan *s, uint32_t index)
{
    for (uint32_t i = 0; i < found_stored(s); i++) {
        struct spur_gpu *g = found_at(s->found, i);

        if (strcmp(g->name, "gpu") == 0 && g->file[0] && g->index == index)
            return g;
    }
    return NULL;
}

static bool has_links(const struct spur_gpu *g)
{
    return g && g->links[g->index] == -1;
}

static bool is_amd(const struct spur_gpu *g)
{
    return strncmp(g->file, "/dev/dri/", 9) == 0;
}

/* Do two devices without a link have a neighbour in common? */
static bool have_neighbour(const struct spur_gpu *a, const struct spur_gpu *b)
{
    for (uint32_t n = 0; n < SPUR_GPU_MAX; n++)
        if (n != a->index && n != b->index && a->links[n] > 0 && b->links[n] > 0)
            return true;
    return false;
}

/* Both halves of the matrix say the same; then what the counts mean in bandwidth. */
static int links_weigh(struct scan *s)
{
    for (uint32_t i = 0; i < SPUR_GPU_MAX; i++) {
        struct spur_gpu *a = device_at(s, i);

        for (uint32_t k = 0; a && k < SPUR_GPU_MAX; k++) {
            const struct spur_gpu *b = k == i ? NULL : device_at(s, k);

            if (!b)
                continue;
            a->pcie_mbps = is_amd(a) ? 32000 : 16000;
            if (a->cores[0] && b->cores[0])
                a->path[k] = strcmp(a->cores, b->cores) == 0 ? SPUR_PATH_NUMA : SPUR_PATH_SYSTEM;
            if (!has_links(a) || !has_links(b))
                continue;
            if (a->links[k] != b->links[i])
                return spur_fail(s->err, SPUR_EINVAL, "%s:%u: Links row %u column %u is %d, but row %u column %u (line %u) is %d", line_at(s, 0)->source ? line_at(s, 0)->source : "gres.conf",
                                 a->line, i, k, (int)a->links[k], k, i, b->line, (int)b->links[i]);
            a->mbps[k] = (uint32_t)a->links[k] * (is_amd(a) ? 50000u : 25000u);
            if (!a->links[k] && is_amd(a) && have_neighbour(a, b))
                a->hops |= UINT64_C(1) << k;
        }
    }
    return 0;
}

static int generic_scan(void *self, const struct spur_gres_line *lines, uint32_t line_count, uint32_t line_size, const char *root, bool emulate,
                        struct spur_gpu_found *found, struct spur_error *err)
{
    struct scan s = { .self = self, .lines = lines, .line_count = line_count, .line_size = line_size, .root = root, .emulate = emulate,
                      .found = found, .err = err };
    int rc;

    found->count = 0;
    s.self->count = 0;
    for (uint32_t i = 0; i < line_count; i++) {
        s.line = line_at(&s, i);
        if ((rc = line_scan(&s)) < 0)
            return rc;
    }
    if (found->count > found->room)
        return spur_fail(err, SPUR_ELIMIT, "gres.conf gives this node %u devices and counts, there is room for %u", found->count, found->room);
    if ((rc = links_check(&s)) < 0)
        return rc;
    return found->gpu_size >= sizeof(struct spur_gpu) ? links_weigh(&s) : 0;
}

static int generic_health(void *self, uint32_t index, char *buf, size_t len)
{
    const struct generic *g = self;
    struct stat st;

    if (len)
        buf[0] = '\0';
    for (uint32_t i = 0; i < g->count; i++) {
        if (g->devices[i].index == index && stat(g->devices[i].path, &st) < 0) {
            snprintf(buf, len, "%s: %s", g->devices[i].path, strerror(errno));
            return 1;
        }
    }
    return 0;
}

static const struct spur_gpu_ops generic_ops = { .size = sizeof generic_ops, .scan = generic_scan, .health = generic_health };

SPUR_PLUGIN(gpu, generic, .caps = SPUR_CAP_MAY_BLOCK, .about = "devices as gres.conf lists them",
            .ops = &generic_ops, .open = generic_open, .reload = generic_reload, .close = free);
