/* SPDX-License-Identifier: Apache-2.0 */
/* config.c - from texts to struct config: the loop over the lines of slurm.conf, what follows when all is read, and the look-ups.
 *
 * config_load reads files (source.c) and hands their flat texts to the same reading that config_parse does, so a replica that
 * knows only the texts comes to the same result. Nothing here looks at the machine: no user, no address, no clock.
 * One note a line is kept for `spur config check`; the daemons log those that carry a text.
 */
#include "config/config.h"

#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "config/reader.h"
#include "config/source.h"
#include "config/value.h"

/* The texts of one configuration and the names for messages. */
struct texts { const char *slurm, *gres, *topology, *cgroup, *spur; const char *slurm_name, *gres_name, *topology_name, *cgroup_name, *spur_name, *dir; };

/* --- life --- */

void config_free(struct config *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < CONF_COUNT; i++)
        free(c->values[i].text);
    for (size_t i = 0; i < CONF_SETTINGS; i++)
        free(c->settings[i].text);
    for (size_t i = 0; i < c->user_count; i++)
        free(c->users[i].name);
    free(c->users);
    for (size_t i = 0; i < c->section_count; i++) {
        free(c->sections[i].name);
        free(c->sections[i].text);
    }
    free(c->sections);
    for (size_t i = 0; i < c->controller_count; i++) {
        free(c->controllers[i].host);
        free(c->controllers[i].addr);
    }
    free(c->controllers);
    table_fini(&c->node_by_name);
    for (size_t i = 0; i < c->node_count; i++)
        node_fini(&c->nodes[i]);
    free(c->nodes);
    for (size_t i = 0; i < c->partition_count; i++)
        partition_fini(&c->partitions[i]);
    free(c->partitions);
    for (size_t i = 0; i < c->switch_count; i++)
        switch_fini(&c->switches[i]);
    free(c->switches);
    free(c->block_sizes);
    for (size_t i = 0; i < c->gres_line_count; i++)
        gres_line_fini(&c->gres_lines[i]);
    free(c->gres_lines);
    for (size_t i = 0; i < c->note_count; i++) {
        free(c->notes[i].file);
        free(c->notes[i].key);
        free(c->notes[i].value);
        free(c->notes[i].text);
    }
    free(c->notes);
    free(c->slurm_text);
    free(c->gres_text);
    free(c->topology_text);
    free(c->cgroup_text);
    free(c->cgroup.mountpoint);
    free(c->cgroup.plugin);
    free(c->spur_text);
    free(c->hosts_text);
    free(c->path);
    free(c);
}

static void reader_fini(struct reader *r)
{
    record_fini(&r->node_defaults);
    record_fini(&r->partition_defaults);
    for (size_t i = 0; i < r->partition_count; i++)
        record_fini(&r->partitions[i]);
    free(r->partitions);
    for (size_t i = 0; i < r->down_count; i++)
        record_fini(&r->down_nodes[i]);
    free(r->down_nodes);
    for (size_t i = 0; i < r->nodeset_count; i++) {
        free(r->nodesets[i].name);
        free(r->nodesets[i].nodes);
        free(r->nodesets[i].feature);
    }
    free(r->nodesets);
}

static void defaults_set(struct config *c)
{
    struct str warn;

    str_init(&warn);
    for (int k = 0; k < CONF_COUNT; k++) {
        const struct config_row *row = config_row((enum config_key)k);
        struct config_value *v = &c->values[k];
        char bare[80];

        if (!row->fallback)
            continue;
        /* The default stands as it is shown, "60 sec": the number before the unit is what the reader of the type takes. */
        snprintf(bare, sizeof bare, "%.*s", row->type == CONFIG_STRING ? (int)strlen(row->fallback) : (int)strcspn(row->fallback, " "), row->fallback);
        if (row->type == CONFIG_STRING || value_read(row->type, bare, v, &warn, NULL) < 0 || !v->text || strcmp(v->text, row->fallback) != 0) {
            free(v->text);
            v->text = mem_copy(row->fallback);
        }
    }
    str_fini(&warn);
    settings_default(c);
}

/* --- one line of slurm.conf --- */

static const struct line_kind { const char *name; int (*read)(struct reader *r, const char *head, char **cursor, struct spur_error *err); } line_kinds[] = {
    { "NodeName", node_line }, { "PartitionName", partition_line }, { "NodeSet", nodeset_line }, { "DownNodes", down_nodes_line }, { 0 } };

/* Lines of records that spur knows by name only. */
static const struct { const char *name, *note; } other_lines[] = {
    { "FrontendName", "there are no front-end systems: nodes run their own daemon" },
    { "PowerAction", "nodes are not powered up or down by this version" }, { 0 } };

/* Values that name a plugin of Slurm's where another of ours does the work, or nothing does. */
static const struct { enum config_key key; const char *value; enum config_effect effect; const char *note; } value_notes[] = {
    { CONF_SelectType, "select/cons_tres", CONFIG_MAPPED, "select/topo" },
    { CONF_SelectType, "select/cons_res", CONFIG_MAPPED, "select/topo" },
    { CONF_SelectType, "select/cray_aries", CONFIG_MAPPED, "select/topo" },
    { CONF_AuthType, "auth/slurm", CONFIG_MAPPED, "auth/sodium" },
    { CONF_AuthType, "auth/none", CONFIG_MAPPED, "auth/sodium: identities are always proven" },
    { CONF_AccountingStorageType, "accounting_storage/none", CONFIG_ACTS, "" },
    { CONF_CredType, "cred/none", CONFIG_MAPPED, "launch credentials are always signed" },
    { CONF_TopologyPlugin, "topology/3d_torus", CONFIG_NO_EFFECT, "tori do not steer placement" },
    { CONF_TopologyPlugin, "topology/torus3d", CONFIG_NO_EFFECT, "tori do not steer placement" },
    { CONF_TopologyPlugin, "topology/ring", CONFIG_NO_EFFECT, "rings do not steer placement: write them as blocks" },
    { CONF_TopologyPlugin, "topology/hypercube", CONFIG_NO_EFFECT, "hypercubes do not steer placement" },
    { CONF_SchedulerType, "sched/hold", CONFIG_MAPPED, "sched/backfill" },
    { CONF_SchedulerType, "sched/wiki", CONFIG_MAPPED, "sched/backfill" },
    { CONF_SchedulerType, "sched/wiki2", CONFIG_MAPPED, "sched/backfill" },
};

/* Lists of which only some words act: those words, blank-separated, and what the others are. */
static const struct { enum config_key key; const char *acting; } word_notes[] = {
    { CONF_SchedulerParameters, "bf_window bf_resolution bf_interval bf_max_job_test bf_max_job_start bf_job_part_count_reserve bf_continue kill_invalid_depend "
      "max_script_size max_switch_wait nohold_on_prolog_fail whole_hetjob disable_hetjob_steps" },
    { CONF_PrologFlags, "Alloc DeferBatch ForceRequeueOnFail NoHold Serial" },
    { CONF_DependencyParameters, "kill_invalid_depend" },
    { CONF_SlurmctldParameters, "enable_configless" },
    { CONF_SlurmdParameters, "config_overrides" },
    { CONF_PriorityFlags, "SMALL_RELATIVE_TO_TIME ACCRUE_ALWAYS NO_NORMAL_PART NO_NORMAL_ALL" },
    { CONF_ReconfigFlags, "KeepPartInfo KeepPartState" },
    { CONF_PrivateData, "jobs nodes partitions accounts users none" },
    { CONF_AccountingStorageEnforce, "associations qos none" },
    { CONF_SelectTypeParameters, "CR_CPU CR_CPU_MEMORY CR_CORE CR_CORE_MEMORY CR_SOCKET CR_SOCKET_MEMORY CR_MEMORY CR_ONE_TASK_PER_CORE CR_PACK_NODES CR_LLN NONE" },
};

static bool word_acts(const char *acting, const char *word, size_t len)
{
    for (const char *p = acting; *p; p += strcspn(p, " "), p += *p == ' ')
        if (strcspn(p, " ") == len && strncasecmp(p, word, len) == 0)
            return true;
    return false;
}

/* Writes the words of the key's value that do nothing here. False when no word acts. */
static bool words_idle(enum config_key key, const char *value, struct str *idle)
{
    const char *acting = NULL, *p = value;
    bool any = false;

    for (size_t i = 0; i < sizeof word_notes / sizeof *word_notes; i++)
        if (word_notes[i].key == key)
            acting = word_notes[i].acting;
    if (!acting || !p || !*p)
        return true;
    while (*p) {
        size_t len = strcspn(p, ","), name = strcspn(p, ",=");

        if (word_acts(acting, p, name))
            any = true;
        else if (name)
            str_addf(idle, "%s%.*s", idle->len ? "," : "", (int)(name < 40 ? name : 40), p);
        p += len;
        p += *p == ',';
    }
    return any;
}

static int controller_add(struct reader *r, const char *host, size_t host_len, const char *addr, size_t addr_len, struct spur_error *err)
{
    struct config_controller *k;

    if (!host_len || host_len > 255 || addr_len > 255)
        return spur_fail(err, SPUR_EINVAL, "\"%.*s\" is not HOST or HOST(ADDRESS)", (int)(host_len < 60 ? host_len : 60), host);
    k = reader_grow((void **)&r->config->controllers, &r->config->controller_count, &r->controller_room, sizeof *k);
    k->host = mem_copy_n(host, host_len);
    k->addr = addr_len ? mem_copy_n(addr, addr_len) : mem_copy(k->host);
    return 0;
}

/* "mgmt01(192.0.2.5)" */
static int controller_read(struct reader *r, const char *text, struct spur_error *err)
{
    size_t host = strcspn(text, "(");
    size_t addr = text[host] ? strcspn(text + host + 1, ")") : 0;

    if (text[host] && (text[host + 1 + addr] != ')' || text[host + 2 + addr] || !addr))
        return spur_fail(err, SPUR_EINVAL, "\"%.60s\" is not HOST or HOST(ADDRESS)", text);
    return controller_add(r, text, host, text + host + 1, addr, err);
}

static bool scheduler_known(const char *text)
{
    static const char *const names[] = { "backfill", "builtin", "hold", "wiki", "wiki2" };

    if (word_starts(text, "sched/"))
        text += 6;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (word_eq(names[i], text))
            return true;
    return false;
}

static int global_store(struct reader *r, enum config_key key, const struct lex_pair *pair, struct str *warn, struct spur_error *err)
{
    const struct config_row *row = config_row(key);
    struct config_value *v = &r->config->values[key], read = { 0 };
    int rc;

    if ((rc = value_read(row->type, pair->value, &read, warn, err)) < 0)
        return rc;
    if ((key == CONF_FirstJobId || key == CONF_MaxJobCount) && !read.number) {
        free(read.text);
        return spur_fail(err, SPUR_EINVAL, "0 leaves no job: give 1 or more");
    }
    if (key == CONF_MinJobAge && *pair->value == '-') {
        free(read.text);
        return spur_fail(err, SPUR_EINVAL, "\"%.60s\" is less than zero", pair->value);
    }
    if (key == CONF_SchedulerType && !scheduler_known(pair->value)) {
        free(read.text);
        return spur_fail(err, SPUR_EINVAL, "\"%.60s\" is neither sched/backfill nor sched/builtin", pair->value);
    }
    if (key == CONF_SlurmctldHost && (rc = controller_read(r, pair->value, err)) < 0) {
        free(read.text);
        return rc;
    }
    if (row->type == CONFIG_MANY && v->is_set && v->text) {
        struct str both;

        str_init(&both);
        str_addf(&both, "%s\n%s", v->text, read.text);
        free(read.text);
        read.text = str_take(&both);
        str_fini(&both);
    } else if (v->is_set) {
        str_addf(warn, "%sgiven again: the last one counts", warn->len ? "; " : "");
    }
    free(v->text);
    v->text = read.text;
    v->number = read.number;
    v->is_set = true;
    return 0;
}

static void global_note(struct reader *r, enum config_key key, const struct lex_pair *pair, const char *odd)
{
    const struct config_row *row = config_row(key);
    const struct config_value *v = &r->config->values[key];
    enum config_effect effect = row->effect;
    const char *note = row->note;
    struct str idle, text;

    for (size_t i = 0; i < sizeof value_notes / sizeof *value_notes; i++)
        if (value_notes[i].key == key && word_eq(value_notes[i].value, v->text)) {
            effect = value_notes[i].effect;
            note = value_notes[i].note;
        }
    str_init(&idle);
    str_init(&text);
    if (effect == CONFIG_NO_EFFECT && value_is_idle(key, v))
        effect = CONFIG_ACTS, note = "";
    if (effect == CONFIG_ACTS && !words_idle(key, v->text, &idle))
        effect = CONFIG_NO_EFFECT;
    str_add(&text, note);
    if (idle.len)
        str_addf(&text, effect == CONFIG_ACTS ? "without effect here: %s" : "%s: no counterpart in this version", idle.text);
    if (*odd)
        str_addf(&text, "%s%s", text.len ? "; " : "", odd);
    reader_note(r, r->lex->file, r->lex->line, row->name, row->type == CONFIG_SECRET ? "********" : pair->value, effect, text.text);
    str_fini(&idle);
    str_fini(&text);
}

static const char *key_nearest(const char *text)
{
    const char *names[CONF_COUNT + 8];
    size_t n = 0;

    for (int k = 0; k < CONF_COUNT; k++)
        names[n++] = config_row((enum config_key)k)->name;
    for (size_t i = 0; line_kinds[i].name; i++)
        names[n++] = line_kinds[i].name;
    names[n++] = "Include";
    names[n] = NULL;
    return word_nearest(text, names);
}

static int global_line(struct reader *r, const struct lex_pair *pair, char *rest, struct spur_error *err)
{
    int key = config_key_find(pair->key), rc;
    struct str odd, words;

    if (key < 0) {
        const char *near = key_nearest(pair->key);

        spur_fail(err, SPUR_EINVAL, "unknown keyword \"%.60s\"%s%s%s", pair->key, near ? " (nearest known: " : "", near ? near : "", near ? ")" : "");
        return reader_error(r, r->lex->file, r->lex->line, pair->key, pair->value, err);
    }
    while (*rest == ' ' || *rest == '\t')
        rest++;
    if (*rest) {
        spur_fail(err, SPUR_ESYNTAX, "cannot read \"%.100s\" behind %s: one keyword a line, a value with blanks in \"quotes\"", rest, pair->key);
        return reader_error(r, r->lex->file, r->lex->line, pair->key, pair->value, err);
    }
    str_init(&odd);
    str_init(&words);
    if ((rc = global_store(r, (enum config_key)key, pair, &words, err)) < 0) {
        spur_context(err, "%s", config_row((enum config_key)key)->name);
        rc = reader_error(r, r->lex->file, r->lex->line, pair->key, pair->value, err);
    } else {
        if (pair->op != '=')
            str_addf(&odd, "%c= sets the value, as = does", pair->op);
        if (words.len && (word_starts(words.text, "given again") || word_starts(words.text, "more than")))
            str_addf(&odd, "%s%s", odd.len ? "; " : "", words.text);
        else if (words.len)
            str_addf(&odd, "%sunknown or old words dropped: %s", odd.len ? "; " : "", words.text);
        global_note(r, (enum config_key)key, pair, odd.text);
    }
    str_fini(&odd);
    str_fini(&words);
    return rc;
}

static int slurm_line(struct reader *r, struct spur_error *err)
{
    char *cursor = r->lex->buf.text;
    struct lex_pair pair;

    if (lex_include(r->lex)) {
        spur_fail(err, SPUR_EINVAL, "an include cannot be followed here");
        return reader_error(r, r->lex->file, r->lex->line, "Include", "", err);
    }
    if (lex_pair(&cursor, &pair) < 0) {
        spur_fail(err, SPUR_ESYNTAX, "cannot read \"%.100s\": expected KEYWORD=VALUE", cursor);
        return reader_error(r, r->lex->file, r->lex->line, cursor, "", err);
    }
    for (size_t i = 0; line_kinds[i].name; i++)
        if (word_eq(line_kinds[i].name, pair.key))
            return line_kinds[i].read(r, pair.value, &cursor, err);
    for (size_t i = 0; other_lines[i].name; i++)
        if (word_eq(other_lines[i].name, pair.key)) {
            reader_note(r, r->lex->file, r->lex->line, other_lines[i].name, pair.value, CONFIG_NO_EFFECT, other_lines[i].note);
            return 0;
        }
    return global_line(r, &pair, cursor, err);
}

static int slurm_read(struct reader *r, const char *text, const char *file, struct spur_error *err)
{
    struct lex lex;
    int rc;

    lex_init(&lex, text, file, 1);
    r->lex = &lex;
    while ((rc = lex_line(&lex, err)) > 0)
        if ((rc = slurm_line(r, err)) < 0)
            break;
    lex_fini(&lex);
    r->lex = NULL;
    return rc;
}

/* --- when all lines are read --- */

static void value_put(struct config *c, enum config_key key, const char *text, int64_t number)
{
    free(c->values[key].text);
    c->values[key].text = mem_copy(text);
    c->values[key].number = number;
}

/* ControlMachine, ControlAddr, BackupController and BackupAddr of old files. */
static int controllers_old(struct reader *r, struct spur_error *err)
{
    static const enum config_key keys[][2] = { { CONF_ControlMachine, CONF_ControlAddr }, { CONF_BackupController, CONF_BackupAddr } };
    struct config *c = r->config;
    int rc = 0;

    if (c->controller_count)
        return 0;
    for (size_t i = 0; i < 2 && rc == 0; i++) {
        const char *host = config_text(c, keys[i][0]), *addr = config_text(c, keys[i][1]);
        size_t len = host ? strcspn(host, ", ") : 0;

        if (len)
            rc = controller_add(r, host, len, addr ? addr : "", addr ? strlen(addr) : 0, err);
    }
    return rc;
}

char *job_defaults_text(uint64_t cpu_per_gpu, uint64_t mem_per_gpu)
{
    char text[80] = "";
    size_t n = 0;

    if (cpu_per_gpu)
        n = (size_t)snprintf(text, sizeof text, "DefCpuPerGPU=%llu", (unsigned long long)cpu_per_gpu);
    if (mem_per_gpu)
        snprintf(text + n, sizeof text - n, "%sDefMemPerGPU=%llu", n ? "," : "", (unsigned long long)mem_per_gpu);
    return *text ? mem_copy(text) : NULL;
}

/* One of two keys that exclude each other holds, the other is as if never given. */
static void exclude(struct config *c, enum config_key by_cpu, enum config_key by_node)
{
    if (c->values[by_node].is_set) {
        free(c->values[by_cpu].text);
        c->values[by_cpu] = (struct config_value){ 0 };
    } else if (c->values[by_cpu].is_set) {
        free(c->values[by_node].text);
        c->values[by_node] = (struct config_value){ 0 };
    }
}

/* Kinds of generic resources that nodes have but GresTypes does not name: Slurm ignores them, so sites must hear it. */
static void gres_types_check(struct reader *r)
{
    struct config *c = r->config;
    char said[256] = "";

    for (size_t i = 0; i < c->node_count; i++)
        for (size_t k = 0; k < c->nodes[i].gres_count; k++) {
            const char *name = c->nodes[i].gres[k].name;
            char mark[80];

            snprintf(mark, sizeof mark, ",%.70s,", name);
            if (config_has_word(c, CONF_GresTypes, name) || strstr(said, mark) || strlen(said) + strlen(mark) >= sizeof said)
                continue;
            strcat(said, mark);
            reader_note(r, "slurm.conf", 0, "GresTypes", name, CONFIG_ACTS, "nodes have this kind of generic resource, but GresTypes does not name it");
        }
}

static int resolve(struct reader *r, struct spur_error *err)
{
    struct config *c = r->config;
    int rc;

    if ((rc = controllers_old(r, err)) < 0 && (rc = reader_error(r, "slurm.conf", 0, "ControlMachine", "", err)) < 0)
        return rc;
    /* StoreType and ScoreType may stand in either file; spur.conf has the last word, as the file that is ours. */
    if (c->settings[SETTING_store_type].is_set)
        value_put(c, CONF_StoreType, config_setting(c, SETTING_store_type), 0);
    else if (!c->values[CONF_StoreType].is_set && c->controller_count > 1)      /* several SlurmctldHost lines are a group */
        value_put(c, CONF_StoreType, "store/raft", 0);
    if (c->settings[SETTING_score_type].is_set)
        value_put(c, CONF_ScoreType, config_setting(c, SETTING_score_type), 0);
    if (!c->values[CONF_SelectTypeParameters].is_set && word_eq(config_text(c, CONF_SelectType), "select/linear"))
        value_put(c, CONF_SelectTypeParameters, "NONE", 0);
    if (c->values[CONF_AcctGatherInfinibandType].is_set && !c->values[CONF_AcctGatherInterconnectType].is_set)
        value_put(c, CONF_AcctGatherInterconnectType, config_text(c, CONF_AcctGatherInfinibandType), 0);
    if (config_number(c, CONF_MinJobAge) >= 0 && config_number(c, CONF_MinJobAge) < 2)
        value_put(c, CONF_MinJobAge, "2 sec", 2);
    exclude(c, CONF_DefMemPerCPU, CONF_DefMemPerNode);
    exclude(c, CONF_MaxMemPerCPU, CONF_MaxMemPerNode);
    if ((rc = down_nodes_resolve(r, err)) < 0 || (rc = partitions_resolve(r, err)) < 0)
        return rc;
    for (size_t i = 0; i < c->node_count; i++)
        c->nodes[i].leaf = -1;
    table_fini(&c->node_by_name);
    table_init(&c->node_by_name);
    for (size_t i = 0; i < c->node_count; i++) {
        table_put_text(&c->node_by_name, c->nodes[i].name, &c->nodes[i]);
        if (!c->nodes[i].port)
            c->nodes[i].port = (uint16_t)config_number(c, CONF_SlurmdPort);
    }
    gres_types_check(r);
    if (c->partition_count && config_default_partition(c) < 0)
        reader_note(r, "slurm.conf", 0, "PartitionName", "", CONFIG_ACTS, "no partition is the default: jobs must name one");
    return 0;
}

static int parse(const struct texts *t, bool keep_going, struct config **out, struct spur_error *err)
{
    struct config *c = mem_alloc(sizeof *c);
    struct reader r = { .config = c, .keep_going = keep_going, .dir = t->dir };
    struct spur_error own = { 0 };
    int rc;

    if (!err)
        err = &own;
    table_init(&c->node_by_name);
    defaults_set(c);
    cgroup_default(c);
    c->slurm_text = mem_copy(t->slurm ? t->slurm : "");
    c->gres_text = mem_copy(t->gres);
    c->topology_text = mem_copy(t->topology);
    c->cgroup_text = mem_copy(t->cgroup);
    c->spur_text = mem_copy(t->spur);
    if ((rc = slurm_read(&r, t->slurm, t->slurm_name, err)) < 0 ||
        (t->spur && (rc = spurconf_read(&r, t->spur, t->spur_name, err)) < 0) || (rc = resolve(&r, err)) < 0 ||
        (t->gres && (rc = gres_read(&r, t->gres, t->gres_name, err)) < 0) ||
        (t->topology && (rc = topology_read(&r, t->topology, t->topology_name, err)) < 0) ||
        (t->cgroup && (rc = cgroup_read(&r, t->cgroup, t->cgroup_name, err)) < 0)) {
        /* An error that ends the reading (a limit) in spite of keep_going: it becomes the last note. */
        if (keep_going && !r.failed) {
            r.failed = true;
            r.first = *err;
            reader_note(&r, t->slurm_name, 0, "", "", CONFIG_ACTS, err->text)->is_error = true;
        }
    }
    if (r.failed) {
        *err = r.first;
        rc = err->code;
    }
    reader_fini(&r);
    if (rc < 0 && !keep_going) {
        config_free(c);
        c = NULL;
    }
    *out = c;
    return rc;
}

int config_parse(const char *slurm, const char *gres, const char *topology, const char *cgroup, const char *spur, struct config **out, struct spur_error *err)
{
    struct texts t = { slurm, gres, topology, cgroup, spur, "slurm.conf", "gres.conf", "topology.conf", "cgroup.conf", "spur.conf", NULL };

    return parse(&t, false, out, err);
}

/* STEM.gres.conf beside STEM.conf when the main file is not called slurm.conf, else gres.conf. False when neither is there. */
static bool beside(const char *dir, const char *main_name, const char *name, char *out, size_t size)
{
    size_t stem = strlen(main_name);

    if (stem > 5 && strcmp(main_name + stem - 5, ".conf") == 0 && strcmp(main_name, "slurm.conf") != 0) {
        snprintf(out, size, "%.*s.%s", (int)(stem - 5), main_name, name);
        if (source_exists(dir, out))
            return true;
    }
    snprintf(out, size, "%s", name);
    return source_exists(dir, out);
}

int config_load(const char *path, bool keep_going, struct config **out, struct spur_error *err)
{
    static const char *const names[] = { "gres.conf", "topology.conf", "cgroup.conf", "spur.conf" };
    char full[1024], dir[1024], others[4][300] = { "" };
    const char *main_name;
    struct str texts[5];
    bool have[4] = { false }, is_yaml;
    struct texts t;
    int rc;

    *out = NULL;
    source_path(path, full, sizeof full);
    source_folder(full, dir, sizeof dir);
    main_name = strrchr(full, '/') ? strrchr(full, '/') + 1 : full;
    for (size_t i = 0; i < 5; i++)
        str_init(&texts[i]);
    if ((rc = source_read(dir, main_name, &texts[0], err)) < 0)
        goto out;
    is_yaml = beside(dir, main_name, "topology.yaml", others[1], sizeof others[1]);     /* it takes the place of topology.conf, as in Slurm */
    for (size_t i = 0; i < 4; i++) {
        if (!(i == 1 && is_yaml) && !beside(dir, main_name, names[i], others[i], sizeof others[i]))
            continue;
        have[i] = true;
        rc = i == 3 || (i == 1 && is_yaml) ? source_read_plain(dir, others[i], &texts[i + 1], err) : source_read(dir, others[i], &texts[i + 1], err);
        if (rc < 0)
            goto out;
    }
    t = (struct texts){ texts[0].text, have[0] ? texts[1].text : NULL, have[1] ? texts[2].text : NULL, have[2] ? texts[3].text : NULL,
        have[3] ? texts[4].text : NULL, main_name, others[0], others[1], others[2], others[3], dir };
    rc = parse(&t, keep_going, out, err);
    if (*out)
        (*out)->path = mem_copy(full);
out:
    for (size_t i = 0; i < 5; i++)
        str_fini(&texts[i]);
    return rc;
}

/* --- look-ups --- */

const char *config_key_name(enum config_key k)
{
    return config_row(k)->name;
}

/* Next word of a comma-separated list: its length, with *p at its begin; 0 at the end. */
static size_t list_word(const char **p)
{
    while (**p == ',' || **p == ' ' || **p == '\t')
        ++*p;
    return strcspn(*p, ", \t");
}

bool config_has_word(const struct config *c, enum config_key k, const char *word)
{
    const char *p = config_text(c, k);
    size_t n, len = strlen(word);

    for (; p && (n = list_word(&p)); p += n)
        if (n == len && word_starts(p, word))
            return true;
    return false;
}

const char *config_word_value(const struct config *c, enum config_key k, const char *word, char *buf, size_t len)
{
    const char *p = config_text(c, k);
    size_t n, word_len = strlen(word);

    for (; p && (n = list_word(&p)); p += n)
        if (n > word_len && word_starts(p, word) && p[word_len] == '=') {
            snprintf(buf, len, "%.*s", (int)(n - word_len - 1), p + word_len + 1);
            return buf;
        }
    return NULL;
}

#define TIMEOUT_NONE 65534      /* as Slurm shows a time that is not set */

uint32_t config_hook_timeout_s(const struct config *c, enum config_key k)
{
    int64_t own = config_number(c, k), both = config_number(c, CONF_PrologEpilogTimeout), s = c->values[k].is_set ? own : both;

    return s > 0 && s < TIMEOUT_NONE ? (uint32_t)s : CONFIG_HOOK_LONGEST_S;
}

const struct config_node *config_node_find(const struct config *c, const char *name)
{
    return table_get_text(&c->node_by_name, name);
}

const struct config_partition *config_partition_find(const struct config *c, const char *name)
{
    for (size_t i = 0; i < c->partition_count; i++)
        if (c->partitions[i].name && strcmp(c->partitions[i].name, name) == 0)
            return &c->partitions[i];
    return NULL;
}

ptrdiff_t config_default_partition(const struct config *c)
{
    for (size_t i = 0; i < c->partition_count; i++)
        if (c->partitions[i].is_default)
            return (ptrdiff_t)i;
    return -1;
}
