/* SPDX-License-Identifier: Apache-2.0 */
/* test_loader.c - names to plugins, trust of files, descriptors, options, and what a plugin sees of its host. */
#include <check.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <spur/select.h>
#include <spur/switch.h>

#include "base/str.h"
#include "config/config.h"
#include "loader/file.h"
#include "loader/front.h"
#include "loader/loader.h"
#include "loader/options.h"

static char dir[64];            /* plugin folder of one test */
static char lines[4096];        /* what loader and plugins logged */
static struct spur_error err;

static void keep_line(void *ctx, int level, const char *text)
{
    size_t n = strlen(lines);

    (void)ctx;
    snprintf(lines + n, sizeof lines - n, "%d %s\n", level, text);
}
static const struct spur_host host = { .size = sizeof host, .log = keep_line };

static void setup(void)
{
    umask(022);
    strcpy(dir, "/tmp/test_loader.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    lines[0] = '\0';
    loader_log_to(keep_line, NULL);
}

static void teardown(void)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

static const char *path_of(const char *name)
{
    static char path[128];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static const char *probe_as(const char *name)
{
    char command[512];

    snprintf(command, sizeof command, "cp %s %s/%s && chmod 755 %s/%s", PROBE_SO, dir, name, dir, name);
    ck_assert_int_eq(system(command), 0);
    return path_of(name);
}

/* A configuration with PluginDir and, when given, ClusterName. */
static struct config *config_with(const char *plugin_dir, const char *cluster)
{
    static struct config c;
    static const char *const names[] = {
#define CONFIG_KEY(name, type, fallback, effect, note) #name,
#include "config/keys.def"
#undef CONFIG_KEY
    };

    memset(&c, 0, sizeof c);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = strcmp(names[i], "PluginDir") == 0 ? plugin_dir : strcmp(names[i], "ClusterName") == 0 ? cluster : NULL;

        c.values[i].text = (char *)(uintptr_t)value;
        c.values[i].is_set = value != NULL;
    }
    return &c;
}

static void says(const char *part)
{
    if (!strstr(err.text, part))
        ck_abort_msg("\"%s\" is not in: %s", part, err.text);
}

START_TEST(builtins_open_by_every_name)
{
    static const char *const names[] = { "switch/none", "none", "Switch/None" };

    for (size_t i = 0; i < 3; i++) {
        struct loaded *l = NULL;

        ck_assert_msg(loader_open(SPUR_KIND_switch, names[i], NULL, NULL, &l, &err) == 0, "%s", err.text);
        ck_assert_str_eq(l->name, "switch/none");
        ck_assert_ptr_null(l->path);
        loader_close(l);
    }
}
END_TEST

START_TEST(names_that_mean_nothing)
{
    static const struct { const char *wanted; int code; const char *part; } rows[] = {
        { "switch/nosuch", SPUR_ENOTFOUND, "switch/nosuch: no such plugin: no switch_nosuch.so in" },
        { "switch/nosuch", SPUR_ENOTFOUND, "built in: switch/none" },
        { "select/none", SPUR_EINVAL, "the name must begin with switch/" },
        { "switch/../../evil", SPUR_EINVAL, "letters, digits" },
        { "switch/", SPUR_EINVAL, "no name" }, { "", SPUR_EINVAL, "no name" }, { NULL, SPUR_EINVAL, "no name" },
        { "switch/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", SPUR_ELIMIT, "longer" },
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct loader_meaning m;

        ck_assert_int_eq(loader_resolve(SPUR_KIND_switch, rows[i].wanted, NULL, &m, &err), rows[i].code);
        says(rows[i].part);
    }
}
END_TEST

START_TEST(a_file_is_found_by_name_and_by_what_it_stands_for)
{
    static const char *const names[] = { "select/probe", "select/probe_old", "probe_older" };
    struct config *c = config_with(dir, "c9");
    struct loader_meaning m;
    struct loaded *l;
    char text[256];

    probe_as("select_probe.so");
    for (size_t i = 0; i < 3; i++) {
        ck_assert_msg(loader_resolve(SPUR_KIND_select, names[i], c, &m, &err) == 0, "%s", err.text);
        ck_assert_str_eq(m.name, "select/probe");
        ck_assert(m.is_alias == (i > 0) && !m.is_builtin);
        ck_assert_msg(loader_open(SPUR_KIND_select, names[i], c, &host, &l, &err) == 0, "%s", err.text);
        ck_assert_str_eq(l->path, path_of("select_probe.so"));
        ((const struct spur_select_ops *)loader_ops(l))->explain(l->self, NULL, text, sizeof text);
        ck_assert_str_eq(text, "7 0 plain 0.5 2000 0 cluster=c9 absent=0");
        loader_close(l);
    }
    ck_assert_ptr_nonnull(strstr(lines, "2 select/probe: 7 0 plain"));
    ck_assert_ptr_nonnull(strstr(lines, "select/probe_old means select/probe here"));
}
END_TEST

START_TEST(a_file_wins_over_a_builtin)
{
    struct config *c = config_with(dir, NULL);
    struct loader_meaning m;
    char command[512];
    struct loaded *l;

    snprintf(command, sizeof command, "cp %s %s && chmod 755 %s/switch_none.so", NONE_SO, dir, dir);
    ck_assert_int_eq(system(command), 0);
    ck_assert_msg(loader_open(SPUR_KIND_switch, "switch/none", c, &host, &l, &err) == 0, "%s", err.text);
    ck_assert_str_eq(l->path, path_of("switch_none.so"));
    loader_close(l);
    ck_assert_ptr_nonnull(strstr(lines, "/switch_none.so is used instead of the built-in one"));
    /* Also by an old name of the built-in one. */
    ck_assert_int_eq(loader_resolve(SPUR_KIND_switch, "switch/generic", c, &m, &err), 0);
    ck_assert_str_eq(m.path, path_of("switch_none.so"));
    /* And a bad one is never a reason to take the built-in. */
    chmod(path_of("switch_none.so"), 0777);
    ck_assert_int_eq(loader_open(SPUR_KIND_switch, "switch/none", c, &host, &l, &err), SPUR_EDENIED);
}
END_TEST

START_TEST(a_foreign_file_of_the_same_name_is_passed_over)
{
    struct config *c = config_with(dir, NULL);
    struct loader_meaning m;
    FILE *f = fopen(path_of("switch_none.so"), "w");

    fputs("\177ELF of somebody else", f);
    fclose(f);
    ck_assert_int_eq(loader_resolve(SPUR_KIND_switch, "switch/none", c, &m, &err), 0);
    ck_assert(m.is_builtin);
    ck_assert_ptr_nonnull(strstr(lines, "switch_none.so is not a plugin of spur: passed over"));
    f = fopen(path_of("switch_foreign.so"), "w");
    fclose(f);
    ck_assert_int_eq(loader_resolve(SPUR_KIND_switch, "switch/foreign", c, &m, &err), SPUR_ENOTFOUND);
    says("switch_foreign.so is Slurm's own");
}
END_TEST

START_TEST(untrusted_files_and_folders)
{
    struct config *c = config_with(dir, NULL);
    const char *path = probe_as("select_probe.so");
    struct loaded *l;
    char link_dir[128];

    chmod(path, 0775);
    ck_assert_int_eq(loader_open(SPUR_KIND_select, "probe", c, &host, &l, &err), SPUR_EDENIED);
    says("select_probe.so: refused: the file can be written by others (mode 0775); chmod go-w it");
    chmod(path, 0757);
    ck_assert_int_eq(loader_open(SPUR_KIND_select, "probe", c, &host, &l, &err), SPUR_EDENIED);
    chmod(path, 0755);
    chmod(dir, 0777);
    ck_assert_int_eq(loader_open(SPUR_KIND_select, "probe", c, &host, &l, &err), SPUR_EDENIED);
    says("the folder can be written by others (mode 0777)");
    chmod(dir, 01777);
    ck_assert_int_eq(loader_open(SPUR_KIND_select, "probe", c, &host, &l, &err), SPUR_EDENIED);
    chmod(dir, 0755);
    ck_assert_int_eq(loader_open(SPUR_KIND_select, "probe", c, &host, &l, &err), 0);
    loader_close(l);
    /* A link in a good folder to a file in a bad one, and the other way round. */
    snprintf(link_dir, sizeof link_dir, "%s/in", dir);
    mkdir(link_dir, 0755);
    snprintf(link_dir, sizeof link_dir, "%s/in/select_probe.so", dir);
    ck_assert_int_eq(symlink("../select_probe.so", link_dir), 0);
    ck_assert_int_eq(file_trusted(link_dir, &err), 0);
    chmod(path_of("in"), 0777);
    ck_assert_int_eq(file_trusted(link_dir, &err), SPUR_EDENIED);
    chmod(path_of("in"), 0755);
    chmod(dir, 0777);
    ck_assert_int_eq(file_trusted(link_dir, &err), SPUR_EDENIED);
    chmod(dir, 0755);
    if (geteuid() == 0) {
        ck_assert_int_eq(chown(path_of("select_probe.so"), 12345, 0), 0);
        ck_assert_int_eq(loader_open(SPUR_KIND_select, "probe", c, &host, &l, &err), SPUR_EDENIED);
        says("belongs to user 12345; it must belong to root or to user 0");
    }
}
END_TEST

START_TEST(files_that_are_no_plugins)
{
    struct loaded *l;
    FILE *f;

    ck_assert_int_eq(loader_open_file(SPUR_KIND_none, path_of("absent.so"), NULL, NULL, &l, &err), SPUR_ENOTFOUND);
    says("absent.so: No such file");
    f = fopen(path_of("text.so"), "w");
    fputs("hello", f);
    fclose(f);
    ck_assert_int_lt(loader_open_file(SPUR_KIND_none, path_of("text.so"), NULL, NULL, &l, &err), 0);
    says("does not load: ");
    probe_as("select_other.so");
    ck_assert_int_lt(loader_open(SPUR_KIND_select, "other", config_with(dir, NULL), NULL, &l, &err), 0);
    says("it calls itself select/probe; its file must be select_probe.so");
    probe_as("switch_probe.so");
    ck_assert_int_eq(loader_open(SPUR_KIND_switch, "probe", config_with(dir, NULL), NULL, &l, &err), SPUR_EABI);
    says("it is a select plugin, a switch plugin is wanted");
}
END_TEST

START_TEST(descriptors)
{
    static const struct spur_switch_ops no_join = { .size = sizeof no_join };
    static const struct spur_switch_ops cut = { .size = 8 };
    const struct spur_plugin *good = NULL;
    struct spur_plugin d;

    for (size_t i = 0; loader_builtins[i]; i++) {
        ck_assert_msg(descriptor_check(loader_builtins[i], SPUR_KIND_none, "built in", &err) == 0, "%s", err.text);
        if (loader_builtins[i]->kind == SPUR_KIND_switch)
            good = loader_builtins[i];
    }
    ck_assert_ptr_nonnull(good);
#define BAD(change, code, sentence) \
    d = *good; \
    change; \
    ck_assert_int_eq(descriptor_check(&d, SPUR_KIND_switch, "switch_x.so", &err), code); \
    says(sentence)
    BAD(d.magic = 0x12345678, SPUR_EABI, "switch_x.so: refused: its descriptor begins with 0x12345678, this spur reads 0x53505230");
    BAD(d.size = 40, SPUR_EABI, "has 40 bytes, this spur needs at least");
    BAD(d.kind = 99, SPUR_EABI, "kind 99, which this spur does not know");
    BAD(d.kind = SPUR_KIND_select, SPUR_EABI, "it is a select plugin, a switch plugin is wanted");
    BAD(d.abi_major = 7, SPUR_EABI, "built for switch ABI 7.");
    BAD(d.abi_major = 7, SPUR_EABI, "this spur offers 0.");
    BAD(d.abi_minor = 99, SPUR_EABI, "built for switch ABI 0.99, this spur offers 0.");
    BAD(d.name = NULL, SPUR_EINVAL, "its name is missing");
    BAD(d.name = "Up/Down", SPUR_EINVAL, "its name \"Up/Down\"");
    BAD(d.ops = NULL, SPUR_EINVAL, "no ops");
    BAD(d.open = NULL, SPUR_EINVAL, "no open");
    BAD(d.close = NULL, SPUR_EINVAL, "no close");
    BAD(d.ops = &no_join, SPUR_EINVAL, "lacks the operation job_join");
    BAD(d.ops = &cut, SPUR_EINVAL, "lacks the operation job_join (its table has 8 bytes)");
    d = *good;
    d.size += 64;
    ck_assert_int_eq(descriptor_check(&d, SPUR_KIND_switch, "x", &err), 0);
}
END_TEST

START_TEST(long_paths_leave_room_for_the_reason)
{
    char part[61], deep[400], path[440], command[1400];
    struct loaded *l;

    memset(part, 'd', 60);
    part[60] = '\0';
    snprintf(deep, sizeof deep, "%s/%s/%s/%s/%s", dir, part, part, part, part);
    snprintf(path, sizeof path, "%s/select_probe.so", deep);
    snprintf(command, sizeof command, "mkdir -p %s && cp %s %s && chmod 775 %s", deep, PROBE_SO, path, path);
    ck_assert_int_eq(system(command), 0);
    ck_assert_int_eq(loader_open_file(SPUR_KIND_select, path, NULL, NULL, &l, &err), SPUR_EDENIED);
    says("...");
    says("ddd/select_probe.so: refused: the file can be written by others (mode 0775); chmod go-w it");
    chmod(path, 0755);
    ck_assert_int_eq(loader_open_file(SPUR_KIND_switch, path, NULL, NULL, &l, &err), SPUR_EABI);
    says("ddd/select_probe.so: refused: it is a select plugin, a switch plugin is wanted");
    ck_assert_int_eq(loader_open_file(SPUR_KIND_select, path, NULL, NULL, &l, &err), 0);
    ck_assert_str_eq(l->path, path);
    loader_close(l);
}
END_TEST

static const struct spur_option rows[] = {
    { "count", SPUR_INT, "3", "h" }, { "on", SPUR_BOOL, "true", "h" }, { "word", SPUR_STRING, NULL, "h" }, { "ratio", SPUR_FLOAT, "1.5", "h" },
    { "wait", SPUR_DURATION_MS, "300ms", "h" }, { "room", SPUR_SIZE_MIB, "2G", "h" }, { 0 } };
static const struct spur_plugin with_rows = { .options = rows, .option_size = sizeof *rows };

START_TEST(options_are_read)
{
    static const struct { const char *text, *name; long number; const char *word; } good[] = {
        { NULL, "count", 3, "3" }, { "", "wait", 300, "300ms" }, { NULL, "room", 2048, "2G" }, { NULL, "word", 0, "" }, { NULL, "on", 1, "true" },
        { "count = -12", "count", -12, "-12" }, { "count=0x10", "count", 16, "0x10" }, { "on = no", "on", 0, "no" }, { "on = ON", "on", 1, "ON" },
        { "wait = 2s", "wait", 2000, "2s" }, { "wait = 1m", "wait", 60000, "1m" }, { "wait=1.5s", "wait", 1500, "1.5s" }, { "wait = 0", "wait", 0, "0" },
        { "wait = \"1h\"", "wait", 3600000, "1h" }, { "room = 512M", "room", 512, "512M" }, { "room = 64", "room", 64, "64" },
        { "# comment\nword = 'a b'\n", "word", 0, "a b" }, { "word = x\ncount = 9\n", "count", 9, "9" },
    };
    struct spur_conf *c;

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        ck_assert_msg(options_parse(&with_rows, "select/x", good[i].text, "spur.conf", 1, &c, &err) == 0, "%s: %s", good[i].text, err.text);
        ck_assert_int_eq(options_int(c, good[i].name), good[i].number);
        ck_assert_str_eq(options_text(c, good[i].name), good[i].word);
        options_free(c);
    }
    ck_assert_int_eq(options_parse(&with_rows, "select/x", "ratio = 0.25\nsha256 = abc", "spur.conf", 1, &c, &err), 0);
    ck_assert(options_float(c, "ratio") == 0.25 && options_float(c, "count") == 3);
    ck_assert_str_eq(options_sha256(c), "abc");
    options_free(c);
}
END_TEST

START_TEST(wrong_options_are_refused_with_file_and_line)
{
    static const struct { const char *text, *part; } bad[] = {
        { "\n\ncuont = 3\n", "/etc/spur.conf:42: plugin \"select/x\": no option cuont; the nearest is count" },
        { "zzzzzzzzz = 3", "no option zzzzzzzzz; `spur plugin info` lists them" },
        { "count = three", "/etc/spur.conf:40: plugin \"select/x\": count = three: not an integer" },
        { "on = 7", "on = 7: not one of true or false" }, { "\nwait = 5", "/etc/spur.conf:41: plugin \"select/x\": wait = 5: not a duration" },
        { "wait = 5 s", "wait = 5: not a duration" }, { "room = much", "room = much: not a size" }, { "ratio = x", "not a number" },
        { "count = 99999999999999999999", "not an integer" }, { "word = \"open", "/etc/spur.conf:40" }, { "count 3", "/etc/spur.conf:40" },
        { "count = {1, 2}", "/etc/spur.conf:40" }, { "wait = -1s", "not a duration" },
    };
    struct spur_conf *c;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_msg(options_parse(&with_rows, "select/x", bad[i].text, "/etc/spur.conf", 40, &c, &err) < 0, "%s", bad[i].text);
        says(bad[i].part);
    }
}
END_TEST

START_TEST(rows_that_a_plugin_got_wrong)
{
    static const struct { struct spur_option rows[3]; const char *part; } bad[] = {
        { { { "a", 99, NULL, "h" }, { 0 } }, "option a has type 99, this spur knows 1 to 6" },
        { { { "a", SPUR_INT, "x", "h" }, { 0 } }, "its own default of option a, \"x\"" },
        { { { "sha256", SPUR_STRING, NULL, "h" }, { 0 } }, "sha256 is the loader's" },
        { { { "A b", SPUR_STRING, NULL, "h" }, { 0 } }, "an option is named \"A b\"" },
        { { { "a", SPUR_INT, NULL, "h" }, { "a", SPUR_INT, NULL, "h" }, { 0 } }, "option a stands twice" },
    };
    static struct spur_option endless[300];
    struct spur_plugin d = { .option_size = sizeof *rows };
    struct spur_conf *c;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        d.options = bad[i].rows;
        ck_assert_int_lt(options_parse(&d, "select/x", NULL, NULL, 0, &c, &err), 0);
        says(bad[i].part);
    }
    for (size_t i = 0; i < 300; i++) {
        static char names[300][8];

        snprintf(names[i], sizeof names[i], "o%zu", i);
        endless[i] = (struct spur_option){ names[i], SPUR_INT, "1", "h" };
    }
    d.options = endless;
    ck_assert_int_eq(options_parse(&d, "select/x", NULL, NULL, 0, &c, &err), SPUR_ELIMIT);
    says("do not end");
}
END_TEST

START_TEST(longer_rows_of_a_newer_plugin)
{
    static const struct { struct spur_option row; const char *newer; } grown[] = {
        { { "a", SPUR_INT, "1", "h" }, "x" }, { { "b", SPUR_INT, "2", "h" }, "y" }, { { 0 }, NULL } };
    struct spur_plugin d = { .option_size = sizeof grown[0], .options = &grown[0].row };
    struct spur_conf *c;

    ck_assert_int_eq(options_parse(&d, "select/x", "a = 5", NULL, 0, &c, &err), 0);
    ck_assert_int_eq(options_int(c, "a"), 5);
    ck_assert_int_eq(options_int(c, "b"), 2);
    options_free(c);
}
END_TEST

START_TEST(a_hash_is_found_before_the_rows_are_known)
{
    static const struct { const char *text, *hex; } rows_[] = {
        { "weight = 3\nsha256 = abc\nlist = {1, 2}\n", "abc" }, { "# sha256 = no\nweight = 3", "" }, { "sha256='00ff'", "00ff" }, { NULL, "" }, { "sha256 = {", "" } };
    char hex[32];

    for (size_t i = 0; i < sizeof rows_ / sizeof *rows_; i++) {
        options_peek_sha256(rows_[i].text, hex, sizeof hex);
        ck_assert_str_eq(hex, rows_[i].hex);
    }
}
END_TEST

START_TEST(hashes)
{
    const char *path = probe_as("select_probe.so");
    char command[256], hex[80], wrong[80];
    FILE *f;

    snprintf(command, sizeof command, "sha256sum %s", path);
    f = popen(command, "r");
    ck_assert_int_eq(fscanf(f, "%64s", hex), 1);
    pclose(f);
    ck_assert_int_eq(file_hash_is(path, hex, &err), 0);
    strcpy(wrong, hex);
    wrong[5] = wrong[5] == '0' ? '1' : '0';
    ck_assert_int_eq(file_hash_is(path, wrong, &err), SPUR_EDENIED);
    says("refused: its sha256 is");
    ck_assert_int_eq(file_hash_is(path, "abc", &err), SPUR_EINVAL);
}
END_TEST

/* Options of spur.conf reach the plugin, and a wrong one is refused with its line there. */
START_TEST(options_of_the_configuration)
{
    static const char slurm[] = "ClusterName=c7\nSlurmctldHost=h\nNodeName=n CPUs=1\nPartitionName=p Nodes=n Default=YES\n";
    char pluginless[700], text[256];
    struct config *c, *d;
    struct loaded *l;

    probe_as("select_probe.so");
    snprintf(pluginless, sizeof pluginless, "%sPluginDir=%s\n", slurm, dir);
    ck_assert_msg(config_parse(pluginless, NULL, NULL, NULL, "\nplugin \"select/probe\" {\n  number = 12\n  wait = 300ms\n}\n", &c, &err) == 0, "%s", err.text);
    ck_assert_msg(loader_check_section(c, 0, &err) == 0, "%s", err.text);
    ck_assert_msg(loader_open(SPUR_KIND_select, "probe", c, &host, &l, &err) == 0, "%s", err.text);
    ((const struct spur_select_ops *)loader_ops(l))->explain(l->self, NULL, text, sizeof text);
    ck_assert_str_eq(text, "12 0 plain 0.5 300 0 cluster=c7 absent=0");
    ck_assert_int_eq(loader_reload(l, c, &err), 0);
    ck_assert_int_eq(config_parse(pluginless, NULL, NULL, NULL, "\nplugin \"select/probe\" {\n  number = 13\n}\n", &d, &err), 0);
    ck_assert_int_eq(loader_reload(l, d, &err), SPUR_ERESTART);     /* it has no reload */
    loader_close(l);
    config_free(d);

    ck_assert_int_eq(config_parse(pluginless, NULL, NULL, NULL, "\nplugin \"select/probe\" {\n\n  nunber = 13\n}\n", &d, &err), 0);
    ck_assert_int_lt(loader_open(SPUR_KIND_select, "probe", d, &host, &l, &err), 0);
    says("spur.conf:4: plugin \"select/probe\": no option nunber; the nearest is number");
    ck_assert_int_lt(loader_check_section(d, 0, &err), 0);
    says("spur.conf:4: ");
    config_free(d);
    ck_assert_int_eq(config_parse(pluginless, NULL, NULL, NULL, "plugin \"select/probe_old\" { number = 1 }\n", &d, &err), 0);
    ck_assert_int_lt(loader_check_section(d, 0, &err), 0);
    says("spur.conf:1: select/probe_old means select/probe, so the section must be plugin \"select/probe\"");
    config_free(d);
    ck_assert_int_eq(config_parse(pluginless, NULL, NULL, NULL, "plugin \"select/probe\" { sha256 = 0000000000000000000000000000000000000000000000000000000000000000 }\n", &d, &err), 0);
    ck_assert_int_eq(loader_open(SPUR_KIND_select, "probe", d, &host, &l, &err), SPUR_EDENIED);
    says("refused: its sha256 is");
    config_free(d);
    ck_assert_int_eq(config_parse(pluginless, NULL, NULL, NULL, "plugin \"switch/none\" { sha256 = 00 }\n", &d, &err), 0);
    ck_assert_int_eq(loader_open(SPUR_KIND_switch, "none", d, &host, &l, &err), SPUR_EDENIED);
    says("the plugin is built in: there is no file to check");
    config_free(d);
    config_free(c);
}
END_TEST

static void row(void *arg, const struct loader_row *r)
{
    struct str *s = arg;

    str_addf(s, "%s%s%s%s;", r->name, r->path ? " file" : "", r->refusal ? " refused" : "", r->is_shadowed ? " shadowed" : "");
}

START_TEST(the_list_shows_files_and_refusals)
{
    struct str s;

    str_init(&s);
    probe_as("select_probe.so");
    probe_as("select_wrong.so");
    probe_as("nothing.so");
    loader_list(config_with(dir, NULL), row, &s);
    ck_assert_ptr_nonnull(strstr(s.text, "switch/none;"));
    ck_assert_ptr_nonnull(strstr(s.text, "select/probe file;select/wrong file refused;"));
    str_fini(&s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("loader");
    TCase *t = tcase_create("loader");
    SRunner *runner;
    int failed;

    loader_installed = "/nowhere";
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, builtins_open_by_every_name);
    tcase_add_test(t, names_that_mean_nothing);
    tcase_add_test(t, a_file_is_found_by_name_and_by_what_it_stands_for);
    tcase_add_test(t, a_file_wins_over_a_builtin);
    tcase_add_test(t, a_foreign_file_of_the_same_name_is_passed_over);
    tcase_add_test(t, untrusted_files_and_folders);
    tcase_add_test(t, files_that_are_no_plugins);
    tcase_add_test(t, descriptors);
    tcase_add_test(t, long_paths_leave_room_for_the_reason);
    tcase_add_test(t, options_are_read);
    tcase_add_test(t, wrong_options_are_refused_with_file_and_line);
    tcase_add_test(t, rows_that_a_plugin_got_wrong);
    tcase_add_test(t, longer_rows_of_a_newer_plugin);
    tcase_add_test(t, a_hash_is_found_before_the_rows_are_known);
    tcase_add_test(t, hashes);
    tcase_add_test(t, options_of_the_configuration);
    tcase_add_test(t, the_list_shows_files_and_refusals);
    suite_add_tcase(suite, t);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
