/* SPDX-License-Identifier: Apache-2.0 */
/* settings.c - picks out of a resolved configuration what an agent needs, and finds out which node it is. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/settings.h"
#include "loader/loader.h"
#include "rpc/log.h"

char *settings_path(const char *pattern, const char *node, const char *host)
{
    struct str out;

    if (!pattern)
        return NULL;
    str_init(&out);
    for (const char *p = pattern; *p; p++) {
        if (p[0] == '%' && (p[1] == 'n' || p[1] == 'h'))
            str_add(&out, *++p == 'n' ? node : host);
        else
            str_add_char(&out, *p);
    }
    return str_take(&out);
}

static const struct config_node *own_node(const struct config *c, const char *host, struct spur_error *err)
{
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < c->node_count; i++) {
            const struct config_node *n = &c->nodes[i];
            const char *is = round == 0 ? n->hostname : round == 1 ? n->name : n->addr;
            size_t len = is ? strcspn(is, ".") : 0;

            if (is && len == strlen(host) && !strncmp(is, host, len))
                return n;
        }
    spur_fail(err, SPUR_ENOTFOUND, "no NodeName line of %s is this host (%s): add one, or say which one with -N NAME", c->path ? c->path : "slurm.conf", host);
    return NULL;
}

static void copy_gres(struct settings_node *to, const struct config_node *from)
{
    to->gres_count = from->gres_count;
    to->gres = mem_array(from->gres_count + 1, sizeof *to->gres);
    for (size_t i = 0; i < from->gres_count; i++) {
        to->gres[i] = from->gres[i];
        to->gres[i].name = mem_copy(from->gres[i].name);
        to->gres[i].type = mem_copy(from->gres[i].type);
    }
}

/* A line for the node by name is stronger than one for all; of equals the last counts. */
static void take_autodetect(struct settings *s, const struct config_gres_line *from, bool *by_name)
{
    if (!from->autodetect || (*by_name && !from->nodes))
        return;
    *by_name = from->nodes != NULL;
    free(s->autodetect);
    s->autodetect = word_eq(from->autodetect, "off") ? NULL : mem_copy(from->autodetect);
}

static void copy_lines(struct settings *s, const struct config *c, const char *name)
{
    bool autodetect_by_name = false;

    s->gres_lines = mem_array(c->gres_line_count + 1, sizeof *s->gres_lines);
    for (size_t i = 0; i < c->gres_line_count; i++) {
        const struct config_gres_line *from = &c->gres_lines[i];
        struct config_gres_line *to = &s->gres_lines[s->gres_line_count];
        struct hostlist *h = NULL;
        bool mine = !from->nodes;

        if (from->nodes && hostlist_parse(from->nodes, &h, NULL) == 0)
            mine = hostlist_find(h, name) >= 0;
        hostlist_destroy(h);
        if (!mine)
            continue;
        take_autodetect(s, from, &autodetect_by_name);
        *to = *from;
        to->nodes = NULL;
        to->name = mem_copy(from->name);
        to->type = mem_copy(from->type);
        to->autodetect = mem_copy(from->autodetect);
        to->cores = mem_copy(from->cores);
        to->links = mem_copy(from->links);
        to->flags = mem_copy(from->flags);
        to->file = mem_copy(from->file);
        to->files = NULL;
        if (from->files) {
            to->files = hostlist_create();
            for (size_t k = 0; k < hostlist_count(from->files); k++)
                hostlist_add(to->files, hostlist_nth(from->files, k));
        }
        s->gres_line_count++;
    }
}

static int take_node(struct settings *s, const struct config *c, size_t i, struct spur_error *err)
{
    const char *name = hostlist_nth(s->names, i);
    const struct config_node *n = config_node_find(c, name);
    struct settings_node *to = &s->nodes[i];

    if (!n)
        return spur_fail(err, SPUR_ENOTFOUND, "node %s stands in no NodeName line of %s", name, c->path ? c->path : "slurm.conf");
    to->addr = mem_copy(n->addr);
    to->hostname = mem_copy(n->hostname);
    to->boards = n->boards;
    to->sockets = n->sockets;
    to->cores_per_socket = n->cores_per_socket;
    to->threads_per_core = n->threads_per_core;
    to->cpus = n->cpus;
    to->mem_mib = n->mem_mib;
    to->tmp_mib = n->tmp_mib;
    copy_gres(to, n);
    return 0;
}

/* Links are kept as they are: the files beside slurm.conf are found by the name it was given with. */
static char *absolute(const char *path)
{
    char here[4096];
    struct str out;

    if (!path || *path == '/' || !getcwd(here, sizeof here))
        return mem_copy(path);
    str_init(&out);
    str_addf(&out, "%s/%s", here, path);
    return str_take(&out);
}

const char *settings_autodetect(const struct settings *s)
{
    return s->emulate_hardware && !s->has_gpu_options ? NULL : s->autodetect;
}

static char *text_or_null(const char *text) { return text && *text ? mem_copy(text) : NULL; }

/* TaskPlugin and TaskPluginParam, for agent/cpus.c. */
static char *cpu_bind_of(const struct config *c)
{
    const char *plugins = config_text(c, CONF_TaskPlugin), *params = config_text(c, CONF_TaskPluginParam), *kind = "";
    char *copy, *at, *word;
    bool verbose = false;
    struct str out;

    if (!plugins || !strstr(plugins, "affinity"))
        return NULL;
    copy = at = mem_copy(params ? params : "");
    while ((word = word_next(&at, ", ")))
        if (word_eq(word, "verbose"))
            verbose = true;
        else if (word_starts(word, "autobind=") || word_eq(word, "none") || word_eq(word, "sockets") || word_eq(word, "cores") || word_eq(word, "threads") || word_eq(word, "ldoms"))
            kind = word;
    str_init(&out);
    str_addf(&out, "%s%s", verbose ? "verbose," : "", kind);
    free(copy);
    return str_take(&out);
}

/* MpiDefault is for every step, also of programs that are not MPI: a plugin that is not here must not fail all of them, only who asks for it by name. */
static char *take_mpi(const struct config *c)
{
    const char *name = config_text(c, CONF_MpiDefault);
    struct spur_error err = { 0 };
    struct loader_meaning m;

    if (!name || word_eq(name, "none") || loader_resolve(SPUR_KIND_mpi, name, c, &m, &err) != SPUR_ENOTFOUND)
        return mem_copy(name);
    log_line(SPUR_LOG_WARN, "MpiDefault=%s: %s; steps that do not ask for another run as with none", name, err.text);
    return mem_copy("none");
}

int settings_make(const struct config *c, const char *name, const char *emulate, struct settings **out, struct spur_error *err)
{
    struct settings *s = mem_alloc(sizeof *s);
    char host[256] = "localhost";
    const char *first;
    int rc = 0;

    gethostname(host, sizeof host - 1);
    host[strcspn(host, ".")] = '\0';
    s->host = mem_copy(host);
    if (emulate) {
        rc = hostlist_parse(emulate, &s->names, err);
        if (rc == 0 && hostlist_count(s->names) == 0)
            rc = spur_fail(err, SPUR_EINVAL, "--emulate names no node");
    } else {
        const struct config_node *own = name ? NULL : own_node(c, host, err);

        s->names = hostlist_create();
        if (name || own)
            hostlist_add(s->names, name ? name : own->name);
        else
            rc = err->code;
    }
    if (rc == 0)
        s->nodes = mem_array(hostlist_count(s->names), sizeof *s->nodes);
    for (size_t i = 0; rc == 0 && i < hostlist_count(s->names); i++)
        rc = take_node(s, c, i, err);
    if (rc < 0) {
        settings_free(s);
        return rc;
    }
    first = hostlist_nth(s->names, 0);
    copy_lines(s, c, first);
    s->cluster = mem_copy(config_text(c, CONF_ClusterName));
    s->conf_path = absolute(c->path);       /* jobs see it as SLURM_CONF, wherever they are */
    s->auth = mem_copy(config_text(c, CONF_AuthType));
    s->sw = mem_copy(config_text(c, CONF_SwitchType));
    s->gres_types = mem_copy(config_text(c, CONF_GresTypes));
    s->mpi = take_mpi(c);
    for (size_t i = 0; i < c->controller_count && i < sizeof s->controllers / sizeof *s->controllers; i++) {
        s->controllers[i].host = mem_copy(c->controllers[i].host);
        s->controllers[i].addr = mem_copy(c->controllers[i].addr ? c->controllers[i].addr : c->controllers[i].host);
        s->controller_count++;
    }
    s->port = (uint16_t)config_number(c, CONF_SlurmctldPort);
    s->spool_dir = settings_path(config_text(c, CONF_SlurmdSpoolDir), first, host);
    s->pid_file = settings_path(config_text(c, CONF_SlurmdPidFile), first, host);
    s->log_file = settings_path(config_text(c, CONF_SlurmdLogFile), first, host);
    s->log_level = log_level_of((unsigned)config_number(c, CONF_SlurmdDebug));
    s->kill_wait_s = (uint32_t)config_number(c, CONF_KillWait);
    s->append = config_number(c, CONF_JobFileAppend) != 0;
    s->cpu_bind = cpu_bind_of(c);
    s->emulate_hardware = emulate || c->settings[SETTING_emulate_hardware].number != 0;
    s->reboot_program = mem_copy(config_text(c, CONF_RebootProgram));
    s->health_program = mem_copy(config_text(c, CONF_HealthCheckProgram));
    s->health_states = mem_copy(config_text(c, CONF_HealthCheckNodeState));
    s->health_interval_s = (uint32_t)config_number(c, CONF_HealthCheckInterval);
    s->health_timeout_s = (uint32_t)config_number(c, CONF_HealthCheckTimeout);
    s->prolog = text_or_null(config_text(c, CONF_Prolog));
    s->epilog = text_or_null(config_text(c, CONF_Epilog));
    s->task_prolog = text_or_null(config_text(c, CONF_TaskProlog));
    s->task_epilog = text_or_null(config_text(c, CONF_TaskEpilog));
    s->prolog_timeout_s = config_hook_timeout_s(c, CONF_PrologTimeout);
    s->epilog_timeout_s = config_hook_timeout_s(c, CONF_EpilogTimeout);
    s->limits_kept = limits_kept(config_text(c, CONF_PropagateResourceLimits), config_text(c, CONF_PropagateResourceLimitsExcept));
    s->hooks_serial = config_has_word(c, CONF_PrologFlags, "Serial");
    s->gpu_deadline_s = (uint32_t)c->settings[SETTING_gpu_deadline].number;
    s->gpu_interval_s = (uint32_t)c->settings[SETTING_gpu_interval].number;
    for (size_t i = 0; i < c->section_count; i++)
        s->has_gpu_options |= word_starts(c->sections[i].name, "gpu/");
    s->contain = (struct settings_contain){ .cgroup = c->cgroup, .unkillable_s = (uint32_t)config_number(c, CONF_UnkillableStepTimeout),
        .proctrack = c->values[CONF_ProctrackType].is_set ? mem_copy(config_text(c, CONF_ProctrackType)) : NULL,
        .constrain = config_has_word(c, CONF_TaskPlugin, "task/cgroup") || config_has_word(c, CONF_TaskPlugin, "cgroup"),
        .unkillable_program = mem_copy(config_text(c, CONF_UnkillableStepProgram)), .job_container = mem_copy(config_text(c, CONF_JobContainerType)) };
    s->contain.cgroup.mountpoint = mem_copy(c->cgroup.mountpoint);
    s->contain.cgroup.plugin = mem_copy(c->cgroup.plugin);
    s->plugstack = mem_copy(config_text(c, CONF_PlugStackConfig));
    s->plugin_dir = mem_copy(config_text(c, CONF_PluginDir));
    s->spur_text = mem_copy(c->spur_text);
    s->emulate_topology = s->emulate_hardware ? absolute(config_setting(c, SETTING_emulate_topology)) : NULL;
    snprintf(s->run_dir, sizeof s->run_dir, "%s", config_setting(c, SETTING_run_dir));
    *out = s;
    return 0;
}

void settings_free(struct settings *s)
{
    if (!s)
        return;
    for (size_t i = 0; s->nodes && i < hostlist_count(s->names); i++) {
        for (size_t k = 0; k < s->nodes[i].gres_count; k++) {
            free(s->nodes[i].gres[k].name);
            free(s->nodes[i].gres[k].type);
        }
        free(s->nodes[i].gres);
        free(s->nodes[i].addr);
        free(s->nodes[i].hostname);
    }
    for (size_t i = 0; i < s->gres_line_count; i++) {
        struct config_gres_line *l = &s->gres_lines[i];

        free(l->name);
        free(l->type);
        free(l->autodetect);
        free(l->cores);
        free(l->links);
        free(l->flags);
        free(l->file);
        hostlist_destroy(l->files);
    }
    for (size_t i = 0; i < s->controller_count; i++) {
        free(s->controllers[i].host);
        free(s->controllers[i].addr);
    }
    hostlist_destroy(s->names);
    free(s->nodes);
    free(s->gres_lines);
    free(s->cluster);
    free(s->conf_path);
    free(s->auth);
    free(s->sw);
    free(s->gres_types);
    free(s->mpi);
    free(s->emulate_topology);
    free(s->prolog);
    free(s->epilog);
    free(s->task_prolog);
    free(s->task_epilog);
    free(s->reboot_program);
    free(s->health_program);
    free(s->health_states);
    free(s->autodetect);
    free(s->contain.proctrack);
    free(s->contain.cgroup.mountpoint);
    free(s->contain.cgroup.plugin);
    free(s->contain.unkillable_program);
    free(s->contain.job_container);
    free(s->plugstack);
    free(s->plugin_dir);
    free(s->spur_text);
    free(s->host);
    free(s->spool_dir);
    free(s->pid_file);
    free(s->log_file);
    free(s->cpu_bind);
    free(s);
}
