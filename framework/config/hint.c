/* SPDX-License-Identifier: Apache-2.0 */
/* hint.c - the few keys of slurm.conf and spur.conf that a command needs before it can talk: where the controllers are, who
 * proves identities, where the local sockets lie.
 *
 * A command's start is most of what its user waits for, so this reads with open, read, close and no allocation, looks at the
 * words of half a dozen keys only, judges nothing, and opens included files just when the main one gave no controller
 * or no cluster name. Called by the client library and by nothing that needs the truth.
 */
#include "config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "config/source.h"

#define HINT_LINE 1024          /* longer lines are node lists: none of ours */
#define HINT_INCLUDES 8

struct hint_file {
    int    fd;
    char   buf[32768];
    size_t at, len;
    bool   end;
};

struct hint {
    struct config_hint *out;
    char backup[256], backup_addr[256], machine[256], machine_addr[256];
    char includes[HINT_INCLUDES][256];
    size_t include_count;
    bool cluster_set;
    int  depth;                 /* of braces, in spur.conf */
    const char *key; char *value; size_t value_size;     /* of config_hint_value */
    uint16_t srun_first, srun_last;
    char *plugstack, *plugin_dir; size_t plugstack_size, plugin_dir_size;
};

static int next_byte(struct hint_file *f)
{
    if (f->at == f->len) {
        ssize_t n;

        if (f->end)
            return -1;
        do
            n = read(f->fd, f->buf, sizeof f->buf);
        while (n < 0 && errno == EINTR);
        if (n <= 0)
            return -1;
        f->at = 0;
        f->len = (size_t)n;
        f->end = f->len < sizeof f->buf;    /* a short read of a regular file is its end: saves a call */
    }
    return (unsigned char)f->buf[f->at++];
}

/* One line without its newline, cut at HINT_LINE (the rest is skipped). False at the end. Continued lines come as one. */
static bool next_line(struct hint_file *f, char *line)
{
    size_t n = 0;
    int c, before = 0;
    bool any = false;

    while ((c = next_byte(f)) >= 0) {
        any = true;
        if (c == '\r')
            continue;
        if (c == '\n') {
            if (before != '\\')
                break;
            if (n)
                n--;
            before = 0;
            continue;
        }
        before = c;
        if (n + 1 < HINT_LINE)
            line[n++] = (char)c;
    }
    line[n] = 0;
    return any;
}

static bool blank(char c)
{
    return c == ' ' || c == '\t';
}

/* KEY [op]= VALUE: true when the line begins with this key. The value goes to `out`, without quotes and comment. */
static bool line_value(const char *line, const char *key, char *out, size_t size)
{
    size_t len = strlen(key), n = 0;
    bool quoted;

    while (blank(*line))
        line++;
    if (!word_starts(line, key))
        return false;
    for (line += len; blank(*line); line++)
        ;
    if (*line == '+')
        line++;
    if (*line++ != '=')
        return false;
    while (blank(*line))
        line++;
    quoted = *line == '"' || *line == '\'';
    line += quoted;
    while (*line && n + 1 < size && (quoted ? *line != '"' && *line != '\'' : !blank(*line) && *line != '#'))
        out[n++] = *line++;
    out[n] = 0;
    return true;
}

static void controller_add(struct config_hint *out, const char *host, size_t host_len, const char *addr)
{
    size_t k = out->controller_count;

    if (!host_len || k == sizeof out->controllers / sizeof *out->controllers)
        return;
    snprintf(out->controllers[k].host, sizeof out->controllers[k].host, "%.*s", (int)host_len, host);
    snprintf(out->controllers[k].addr, sizeof out->controllers[k].addr, "%s", *addr ? addr : out->controllers[k].host);
    out->controller_count++;
}

static void slurm_line(struct hint *h, const char *line)
{
    struct config_hint *out = h->out;
    char value[512];

    while (blank(*line))
        line++;
    switch (*line | 32) {       /* most lines are none of ours */
    case 's':
        if (line_value(line, "SlurmctldHost", value, sizeof value)) {
            size_t host = strcspn(value, "(");
            char *addr = value[host] ? value + host + 1 : value + host;

            addr[strcspn(addr, ")")] = 0;
            controller_add(out, value, host, addr);
        } else if (line_value(line, "SlurmctldPort", value, sizeof value)) {
            char *dash = strchr(value, '-');
            uint32_t first, last;

            if (dash)
                *dash++ = 0;
            if (number_u32(value, &first) && first <= 65535) {
                out->port = out->port_last = (uint16_t)first;
                if (dash && number_u32(dash, &last) && last <= 65535 && last > first)
                    out->port_last = (uint16_t)last;
            }
        }
        break;
    case 'c':
        if (line_value(line, "ClusterName", value, sizeof value)) {
            snprintf(out->cluster, sizeof out->cluster, "%.*s", (int)sizeof out->cluster - 1, value);
            for (char *p = out->cluster; *p; p++)
                *p = *p >= 'A' && *p <= 'Z' ? (char)(*p + 32) : *p;
            h->cluster_set = true;
        } else if (!line_value(line, "ControlMachine", h->machine, sizeof h->machine)) {
            line_value(line, "ControlAddr", h->machine_addr, sizeof h->machine_addr);
        }
        break;
    case 'b':
        if (!line_value(line, "BackupController", h->backup, sizeof h->backup))
            line_value(line, "BackupAddr", h->backup_addr, sizeof h->backup_addr);
        break;
    case 'a':
        if (line_value(line, "AuthType", value, sizeof value))
            snprintf(out->auth, sizeof out->auth, "%.*s", (int)sizeof out->auth - 1, value);
        break;
    case 'i':
        if (word_starts(line, "include") && blank(line[7]) && h->include_count < HINT_INCLUDES) {
            const char *name = line + 8;
            size_t n;

            while (blank(*name))
                name++;
            n = strcspn(name, " \t#");
            if (n && *name != '=' && n < sizeof *h->includes)
                snprintf(h->includes[h->include_count++], sizeof *h->includes, "%.*s", (int)n, name);
        }
        break;
    default:
        break;
    }
}

static void spur_line(struct hint *h, const char *line)
{
    char value[256];

    if (!h->depth && line_value(line, "run_dir", value, sizeof value))
        snprintf(h->out->run_dir, sizeof h->out->run_dir, "%s", value);
    for (bool quoted = false; *line && (quoted || *line != '#'); line++) {
        quoted ^= *line == '"';
        h->depth += quoted ? 0 : *line == '{' ? 1 : *line == '}' && h->depth ? -1 : 0;
    }
}

/* Feeds the lines of a file to `take`. 0, or a negative errno. */
static int file_lines(const char *path, struct hint *h, void (*take)(struct hint *h, const char *line))
{
    struct hint_file f;
    char line[HINT_LINE];

    f.at = f.len = 0;
    f.end = false;
    f.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f.fd < 0)
        return -errno;
    while (next_line(&f, line))
        take(h, line);
    close(f.fd);
    return 0;
}

static void srun_line(struct hint *h, const char *line)
{
    char value[64], *dash;
    uint32_t first, last;

    while (blank(*line))
        line++;
    if (word_starts(line, "include")) {
        slurm_line(h, line);
        return;
    }
    if (!line_value(line, "SrunPortRange", value, sizeof value))
        return;
    if ((dash = strchr(value, '-')))
        *dash++ = 0;
    if (!number_u32(value, &first) || !number_u32(dash ? dash : value, &last) || last > 65535 || last < first)
        return;     /* the daemons have refused it in words */
    h->srun_first = (uint16_t)first;
    h->srun_last = (uint16_t)last;
}

static void plugin_line(struct hint *h, const char *line)
{
    while (blank(*line))
        line++;
    if ((*line | 32) == 'i')
        slurm_line(h, line);
    else if ((*line | 32) == 'p' && !line_value(line, "PlugStackConfig", h->plugstack, h->plugstack_size))
        line_value(line, "PluginDir", h->plugin_dir, h->plugin_dir_size);
}

/* Included files, relative to the main one's folder, %c for the cluster; one level is enough to find a controller. */
static void includes_follow(struct hint *h, const char *dir, void (*take)(struct hint *h, const char *line))
{
    size_t count = h->include_count;

    for (size_t i = 0; i < count; i++) {
        const char *name = h->includes[i], *percent = strstr(name, "%c");
        char path[1600];

        snprintf(path, sizeof path, "%s%s%.*s%s%s", *name == '/' ? "" : dir, *name == '/' ? "" : "/", percent ? (int)(percent - name) : (int)strlen(name), name,
            percent ? h->out->cluster : "", percent ? percent + 2 : "");
        file_lines(path, h, take);
    }
}

static void old_controllers(struct hint *h)
{
    if (h->out->controller_count)
        return;
    controller_add(h->out, h->machine, strcspn(h->machine, ", "), h->machine_addr);
    controller_add(h->out, h->backup, strcspn(h->backup, ", "), h->backup_addr);
}

int config_hint_read(const char *path, struct config_hint *out, struct spur_error *err)
{
    struct hint h = { .out = out };
    char dir[1024], spur[1100];
    int rc;

    memset(out, 0, sizeof *out);
    out->port = out->port_last = 6817;
    snprintf(out->cluster, sizeof out->cluster, "cluster");
    snprintf(out->auth, sizeof out->auth, "auth/munge");
    snprintf(out->run_dir, sizeof out->run_dir, "/run/spur");
    source_path(path, out->path, sizeof out->path);
    source_folder(out->path, dir, sizeof dir);
    if ((rc = file_lines(out->path, &h, slurm_line)) < 0)
        return spur_fail(err, rc == -ENOENT ? SPUR_ENOTFOUND : SPUR_EIO, "%.180s: %s", out->path, strerror(-rc));
    if (h.include_count && ((!out->controller_count && !*h.machine) || !h.cluster_set))
        includes_follow(&h, dir, slurm_line);
    old_controllers(&h);
    snprintf(spur, sizeof spur, "%s/spur.conf", dir);
    file_lines(spur, &h, spur_line);
    return 0;
}

static void value_line(struct hint *h, const char *line)
{
    while (blank(*line))
        line++;
    if (word_starts(line, "include"))
        slurm_line(h, line);
    else
        line_value(line, h->key, h->value, h->value_size);
}

bool config_hint_value(const struct config_hint *hint, const char *key, char *value, size_t size)
{
    struct config_hint copy = *hint;
    struct hint h = { .out = &copy, .key = key, .value = value, .value_size = size };
    char dir[1024];

    *value = '\0';
    source_folder(hint->path, dir, sizeof dir);
    if (file_lines(hint->path, &h, value_line) == 0)
        includes_follow(&h, dir, value_line);
    return *value != '\0';
}

bool config_hint_srun_ports(const struct config_hint *hint, uint16_t *first, uint16_t *last)
{
    struct config_hint copy = *hint;
    struct hint h = { .out = &copy };
    char dir[1024];

    source_folder(hint->path, dir, sizeof dir);
    if (file_lines(hint->path, &h, srun_line) == 0)
        includes_follow(&h, dir, srun_line);
    *first = h.srun_first;
    *last = h.srun_last;
    return h.srun_first > 0;
}

void config_hint_plugins(const char *path, char *plugstack, size_t plugstack_size, char *plugin_dir, size_t plugin_dir_size)
{
    struct config_hint out = { 0 };
    struct hint h = { .out = &out, .plugstack = plugstack, .plugstack_size = plugstack_size, .plugin_dir = plugin_dir, .plugin_dir_size = plugin_dir_size };
    char dir[1024];

    *plugstack = *plugin_dir = 0;
    source_folder(path, dir, sizeof dir);
    if (file_lines(path, &h, plugin_line) == 0)
        includes_follow(&h, dir, plugin_line);
}
