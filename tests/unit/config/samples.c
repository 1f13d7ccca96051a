/* SPDX-License-Identifier: Apache-2.0 */
/* samples.c - loads each file of tests/data/slurm-conf and holds it against its .expect: what `scontrol -o show config`, `show
 * nodes` and `show partitions` must say. A new kind of site file is added as a pair of files, without a line here. */
#include "test_config.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"

#ifndef TEST_DATA
#define TEST_DATA "tests/data"
#endif

struct wanted { const char *key, *value; bool found; char shown[4096]; };

static void row_matches(void *arg, const char *key, const char *value)
{
    struct wanted *w = arg;

    if (strcmp(w->key, key) != 0)
        return;
    w->found = true;
    snprintf(w->shown, sizeof w->shown, "%s", value ? value : "");
}

/* Cuts the next KEY=VALUE; values may hold blanks up to the next " Key=". */
static bool next_pair(char **cursor, char **key, char **value)
{
    char *p = *cursor, *end;

    while (*p == ' ')
        p++;
    if (!*p || !strchr(p, '='))
        return false;
    *key = p;
    p = strchr(p, '=');
    *p++ = 0;
    *value = p;
    end = strchr(p, ' ');
    if (end) {
        *end = 0;
        *cursor = end + 1;
    } else {
        *cursor = p + strlen(p);
    }
    return true;
}

static void expect_rows(const char *where, char *pairs, void (*show)(const struct config *c, const char *name, struct wanted *w), const struct config *c, const char *name)
{
    char *key, *value;

    while (next_pair(&pairs, &key, &value)) {
        struct wanted w = { .key = key, .value = value };

        show(c, name, &w);
        ck_assert_msg(w.found, "%s: %s: no key %s", where, name, key);
        ck_assert_msg(strcmp(w.shown, value) == 0, "%s: %s: %s=%s, expected %s", where, name, key, w.shown, value);
    }
}

static void show_node(const struct config *c, const char *name, struct wanted *w)
{
    const struct config_node *n = config_node_find(c, name);

    ck_assert_msg(n != NULL, "no node %s", name);
    config_show_node(c, n, row_matches, w);
}

static void show_partition(const struct config *c, const char *name, struct wanted *w)
{
    const struct config_partition *p = config_partition_find(c, name);

    ck_assert_msg(p != NULL, "no partition %s", name);
    config_show_partition(c, p, row_matches, w);
}

static void expect_line(const struct config *c, const char *where, char *line)
{
    char *rest = strchr(line, ' '), *name;

    ck_assert_msg(rest != NULL, "%s", where);
    *rest++ = 0;
    if (strcmp(line, "config") == 0) {
        struct wanted w = { .key = rest };

        w.value = strchr(rest, '=') + 1;
        strchr(rest, '=')[0] = 0;
        config_show(c, row_matches, &w);
        ck_assert_msg(w.found && strcmp(w.shown, w.value) == 0, "%s: %s=%s, expected %s", where, w.key, w.shown, w.value);
    } else if (strcmp(line, "partition") == 0) {
        name = rest + strlen("PartitionName=");
        rest = strchr(name, ' ');
        *rest++ = 0;
        expect_rows(where, rest, show_partition, c, name);
    } else {
        char *cursor = rest, *pairs = strchr(rest, ' ');

        *pairs++ = 0;
        while ((name = word_next(&cursor, ","))) {
            char *copy = mem_copy(pairs);

            expect_rows(where, copy, show_node, c, name);
            free(copy);
        }
    }
}

static void sample_check(const char *expect)
{
    struct config *c;
    struct spur_error err = { 0 };
    char path[512], *line = NULL;
    size_t room = 0;
    ssize_t n;
    FILE *f = fopen(expect, "r");

    ck_assert_ptr_nonnull(f);
    snprintf(path, sizeof path, "%.*s.conf", (int)(strlen(expect) - strlen(".expect")), expect);
    ck_assert_msg(config_load(path, false, &c, &err) == 0, "%s: %s", path, err.text);
    while ((n = getline(&line, &room, f)) > 0) {
        line[strcspn(line, "\n")] = 0;
        if (*line)
            expect_line(c, path, line);
    }
    free(line);
    fclose(f);
    /* The texts alone, as the log carries them, mean the same. */
    {
        struct config *again;

        ck_assert_msg(config_parse(c->slurm_text, c->gres_text, c->topology_text, c->cgroup_text, c->spur_text, &again, &err) == 0, "%s: %s", path, err.text);
        ck_assert_uint_eq(again->node_count, c->node_count);
        ck_assert_uint_eq(again->partition_count, c->partition_count);
        ck_assert_uint_eq(again->note_count, c->note_count);
        config_free(again);
    }
    config_free(c);
}

START_TEST(samples_agree)
{
    glob_t g;
    const char *dir = getenv("SPUR_TEST_DATA");
    char pattern[512];

    snprintf(pattern, sizeof pattern, "%s/slurm-conf/*.expect", dir ? dir : TEST_DATA);
    ck_assert_int_eq(glob(pattern, 0, NULL, &g), 0);
    ck_assert_uint_ge(g.gl_pathc, 10);
    for (size_t i = 0; i < g.gl_pathc; i++)
        sample_check(g.gl_pathv[i]);
    globfree(&g);
}
END_TEST

static char *file_text(const char *path)
{
    struct str text;
    char buf[4096];
    size_t n;
    FILE *f = fopen(path, "r");

    ck_assert_msg(f != NULL, "%s", path);
    str_init(&text);
    while ((n = fread(buf, 1, sizeof buf, f)))
        str_add_n(&text, buf, n);
    fclose(f);
    return str_take(&text);
}

/* The examples that are installed: accepted, and without a word about what does nothing. */
START_TEST(examples_act)
{
    char *slurm = file_text(TEST_DATA "/../../etc/slurm.conf.example"), *spur = file_text(TEST_DATA "/../../etc/spur.conf.example");
    struct config *c;
    struct spur_error err = { 0 };

    ck_assert_msg(config_parse(slurm, NULL, NULL, NULL, spur, &c, &err) == 0, "%s", err.text);
    for (size_t i = 0; i < c->note_count; i++)
        ck_assert_msg(c->notes[i].effect == CONFIG_MAPPED || !*c->notes[i].text, "%s: %s", c->notes[i].key, c->notes[i].text);
    ck_assert_uint_eq(c->node_count, 8);
    ck_assert_uint_eq(c->controller_count, 3);
    config_free(c);
    free(slurm);
    free(spur);
}
END_TEST

void add_samples(Suite *s)
{
    TCase *t = tcase_create("samples");

    tcase_add_test(t, samples_agree);
    tcase_add_test(t, examples_act);
    suite_add_tcase(s, t);
}
