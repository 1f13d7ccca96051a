/* SPDX-License-Identifier: Apache-2.0 */
/* probe.c - the process that asks drivers and vendors' libraries, so that spurd never waits for one, and keeps nothing of their memory.
 *
 * It reads the lines of gres.conf for the node, opens the gpu plugins that AutoDetect= names, joins both, and looks up by PCI address where the
 * devices hang. Then, when a plugin can tell the health of its devices, it stays and tells it each interval. It may hang at any point: spurd
 * kills it at the deadline and knows from the last PROBE_DOING whom to blame. It ends with its standard input, so it never outlives its spurd.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "agent/probe.h"
#include "hardware/look.h"

#define ASK_MAX (16u << 20)

/* ---- the ask ---- */

static void text_put(struct str *out, const char *text)
{
    str_add_n(out, text ? text : "", (text ? strlen(text) : 0) + 1);
}

static void number_put(struct str *out, uint64_t n)
{
    char text[24];

    snprintf(text, sizeof text, "%llu", (unsigned long long)n);
    text_put(out, text);
}

void probe_ask_write(const struct settings *set, struct str *out)
{
    uint32_t length = 0;
    const struct settings_node *node = &set->nodes[0];

    str_add_n(out, (const char *)&length, sizeof length);
    text_put(out, set->plugin_dir);
    text_put(out, set->spur_text);
    text_put(out, settings_autodetect(set));
    number_put(out, set->emulate_hardware);
    number_put(out, set->gpu_interval_s);
    number_put(out, set->gres_line_count);
    for (size_t i = 0; i < set->gres_line_count; i++) {
        const struct config_gres_line *l = &set->gres_lines[i];
        struct str files;

        str_init(&files);
        if (l->files)
            hostlist_print(l->files, &files);
        text_put(out, l->name);
        text_put(out, l->type);
        text_put(out, l->files_are_one ? NULL : files.text);
        text_put(out, l->files_are_one ? files.text : NULL);
        text_put(out, l->cores);
        text_put(out, l->links);
        text_put(out, l->flags);
        if (l->count_set)
            number_put(out, l->count);
        else
            text_put(out, NULL);
        text_put(out, l->file);
        number_put(out, l->line);
        str_fini(&files);
    }
    number_put(out, node->gres_count);
    for (size_t i = 0; i < node->gres_count; i++) {
        text_put(out, node->gres[i].name);
        text_put(out, node->gres[i].type);
        number_put(out, node->gres[i].count);
    }
    length = (uint32_t)(out->len - sizeof length);
    memcpy(out->text, &length, sizeof length);
}

struct ask {
    char *text; size_t size, at;
    const char *plugin_dir, *spur_text, *autodetect;
    bool emulate;
    uint32_t interval_s;
    struct spur_gres_line *lines; uint32_t line_count;
    struct config_gres *wants; size_t want_count;
};

static const char *text_get(struct ask *a)
{
    const char *text = a->at < a->size ? a->text + a->at : "";

    a->at += strlen(text) + 1;
    return text;
}

static uint64_t number_get(struct ask *a)
{
    return strtoull(text_get(a), NULL, 10);
}

static bool read_whole(void *to, size_t n)
{
    for (size_t done = 0; done < n; ) {
        ssize_t got = read(0, (char *)to + done, n - done);

        if (got <= 0 && !(got < 0 && errno == EINTR))
            return false;
        done += got > 0 ? (size_t)got : 0;
    }
    return true;
}

static bool ask_read(struct ask *a)
{
    uint32_t length;

    if (!read_whole(&length, sizeof length) || length > ASK_MAX)
        return false;
    a->text = mem_alloc(length + 1u);
    a->size = length;
    if (!read_whole(a->text, length))
        return false;
    a->plugin_dir = text_get(a);
    a->spur_text = text_get(a);
    a->autodetect = text_get(a);
    a->emulate = number_get(a);
    a->interval_s = (uint32_t)number_get(a);
    a->line_count = (uint32_t)number_get(a);
    a->lines = mem_array(a->line_count + 1u, sizeof *a->lines);
    for (uint32_t i = 0; i < a->line_count; i++) {
        struct spur_gres_line *l = &a->lines[i];

        l->name = text_get(a);
        l->type = text_get(a);
        l->file = text_get(a);
        l->multiple_files = text_get(a);
        l->cores = text_get(a);
        l->links = text_get(a);
        l->flags = text_get(a);
        l->count = text_get(a);
        l->source = text_get(a);
        l->line = (uint32_t)number_get(a);
    }
    a->want_count = number_get(a);
    a->wants = mem_array(a->want_count + 1, sizeof *a->wants);
    for (size_t i = 0; i < a->want_count; i++) {
        a->wants[i].name = (char *)(uintptr_t)text_get(a);
        a->wants[i].type = (char *)(uintptr_t)text_get(a);
        a->wants[i].type = *a->wants[i].type ? a->wants[i].type : NULL;
        a->wants[i].count = number_get(a);
    }
    return true;
}

/* ---- frames ---- */

static bool write_whole(const void *from, size_t n)
{
    for (size_t done = 0; done < n; ) {
        ssize_t put = write(1, (const char *)from + done, n - done);

        if (put < 0 && errno != EINTR)
            return false;
        done += put > 0 ? (size_t)put : 0;
    }
    return true;
}

static void frame_write(enum probe_frame kind, const struct str *body)
{
    struct str out;
    uint32_t length = (uint32_t)body->len;
    char k = (char)kind;

    str_init(&out);
    str_add_n(&out, (const char *)&length, sizeof length);
    str_add_n(&out, &k, 1);
    str_add_n(&out, body->text, body->len);
    if (!write_whole(out.text, out.len))
        _exit(0);       /* spurd has gone */
    str_fini(&out);
}

static void say_doing(void *arg, const char *what)
{
    struct str body;

    (void)arg;
    str_init(&body);
    str_add(&body, what);
    frame_write(PROBE_DOING, &body);
    str_fini(&body);
}

static void answer(struct look *l, bool watches)
{
    struct probe_answer head = { .rows = l->rows.count, .nics = l->rig.nic_count, .gpu_size = sizeof(struct spur_gpu), .sockets = l->rig.sockets,
                                 .cores_per_socket = l->rig.cores_per_socket, .threads_per_core = l->rig.threads_per_core, .numa_nodes = l->rig.numa_nodes, .watches = watches };
    struct str body;

    head.fault = l->err;
    if (watches)
        head.health.faulty = look_health(l, head.health.text, sizeof head.health.text);
    if (l->err.code)
        head.rows = head.nics = 0;
    str_init(&body);
    str_add_n(&body, (const char *)&head, sizeof head);
    if (head.rows)
        str_add_n(&body, (const char *)l->rows.list, head.rows * sizeof *l->rows.list);
    if (head.nics)
        str_add_n(&body, (const char *)l->rig.nics, head.nics * sizeof *l->rig.nics);
    frame_write(PROBE_ANSWER, &body);
    str_fini(&body);
}

static void health_say(struct look *l)
{
    struct probe_health h = { .faulty = 0 };
    struct str body;

    h.faulty = look_health(l, h.text, sizeof h.text);
    str_init(&body);
    str_add_n(&body, (const char *)&h, sizeof h);
    frame_write(PROBE_HEALTH, &body);
    str_fini(&body);
}

static void watch(struct look *l, uint32_t interval_s)
{
    struct pollfd in = { .fd = 0, .events = POLLIN };
    char byte;

    for (;;) {
        if (poll(&in, 1, (int)interval_s * 1000) > 0 && read(0, &byte, 1) <= 0)
            return;
        health_say(l);
    }
}

int probe_main(void)
{
    struct look *l = mem_alloc(sizeof *l);
    struct config *cfg = NULL;
    struct ask ask = { .at = 0 };
    struct str conf;
    bool watches;

    prctl(PR_SET_PDEATHSIG, SIGKILL);       /* also from within a library that hangs */
    signal(SIGPIPE, SIG_IGN);
    if (!ask_read(&ask))
        return 1;
    str_init(&conf);
    str_add(&conf, "ClusterName=probe\nSlurmctldHost=probe\nNodeName=probe\nPartitionName=probe Nodes=probe\n");
    if (*ask.plugin_dir)
        str_addf(&conf, "PluginDir=%s\n", ask.plugin_dir);
    l->autodetect = ask.autodetect;
    l->lines = ask.lines;
    l->line_count = ask.line_count;
    l->wants = ask.wants;
    l->want_count = ask.want_count;
    l->emulate = ask.emulate;
    l->doing = say_doing;
    if (config_parse(conf.text, NULL, NULL, NULL, *ask.spur_text ? ask.spur_text : NULL, &cfg, &l->err) == 0) {
        l->cfg = cfg;
        look(l);
    }
    watches = !l->err.code && look_can_watch(l);
    answer(l, watches);
    if (watches)
        watch(l, ask.interval_s);
    _exit(0);       /* what libraries hold ends with the process; their destructors may hang too */
}
