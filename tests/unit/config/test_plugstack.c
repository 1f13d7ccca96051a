/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "config/plugstack.h"
#include "test_config.h"

static const struct { const char *text, *expected; } texts[] = {
    { "", "" },
    { "# nothing\n\n   \n", "" },
    { "required a.so", "required a.so" },
    { "optional a.so x=1 y # z\n", "optional a.so|x=1|y" },
    { "REQUIRED\ta.so\r\noptional b.so", "required a.so/optional b.so" },
    { "optional 'a b.so' \"c d\" e\\ f \"\"", "optional a b.so|c d|e f|" },
    { "optional a.so x#y", "optional a.so|x#y" },
    { "required", "conf:1: required needs the file of a plugin behind it" },
    { "\n\nrequire a.so", "conf:3: \"require\": a line begins with required, optional or include" },
    { "optional a.so \"b", "conf:1: a quote is not closed" },
    { "include a b", "conf:1: include takes one file or pattern" },
    { "include a", "conf:1: nothing can be included here" },
};

static void print(const struct plugstack *s, struct str *out)
{
    for (size_t i = 0; i < s->count; i++) {
        str_addf(out, "%s%s %s", i ? "/" : "", s->rows[i].required ? "required" : "optional", s->rows[i].file);
        for (int k = 0; k < s->rows[i].argc; k++)
            str_addf(out, "|%s", s->rows[i].argv[k]);
    }
}

START_TEST(lines)
{
    struct plugstack s = { 0 };
    struct spur_error err = { 0 };
    struct str got;

    arena_init(&s.arena, 0);
    str_init(&got);
    if (plugstack_parse(texts[_i].text, strlen(texts[_i].text), "conf", &s, NULL, NULL, &err) < 0)
        str_add(&got, err.text);
    else
        print(&s, &got);
    ck_assert_str_eq(got.text, texts[_i].expected);
    str_fini(&got);
    plugstack_fini(&s);
}
END_TEST

static void put(const char *dir, const char *name, const char *text)
{
    char path[300];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    ck_assert_ptr_nonnull(f = fopen(path, "w"));
    fputs(text, f);
    fclose(f);
}

START_TEST(files)
{
    char dir[] = "/tmp/plugstack.XXXXXX", path[300], command[350];
    struct spur_error err = { 0 };
    struct plugstack s;
    struct str got;

    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/plugstack.conf", dir);
    ck_assert_int_eq(plugstack_read(path, &s, &err), 0);        /* not there: empty */
    ck_assert_uint_eq(s.count, 0);
    plugstack_fini(&s);
    snprintf(command, sizeof command, "%s/d", dir);
    ck_assert_int_eq(mkdir(command, 0755), 0);
    put(dir, "plugstack.conf", "optional first.so\ninclude d/*.conf\ninclude nosuch.d/*\noptional last.so\n");
    put(dir, "d/2.conf", "required two.so\n");
    put(dir, "d/1.conf", "required one.so x\n");
    put(dir, "d/3.off", "required three.so\n");
    str_init(&got);
    ck_assert_int_eq(plugstack_read(path, &s, &err), 0);
    print(&s, &got);
    ck_assert_str_eq(got.text, "optional first.so/required one.so|x/required two.so/optional last.so");
    plugstack_fini(&s);
    put(dir, "d/2.conf", "include d/2.conf\n");      /* patterns are relative to the first file */
    ck_assert_int_lt(plugstack_read(path, &s, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "does a file include itself?"));
    plugstack_path("/etc/slurm/slurm.conf", NULL, path, sizeof path);
    ck_assert_str_eq(path, "/etc/slurm/plugstack.conf");
    plugstack_path("/etc/slurm/slurm.conf", "x/stack", path, sizeof path);
    ck_assert_str_eq(path, "/etc/slurm/x/stack");
    plugstack_path("/etc/slurm/slurm.conf", "/y", path, sizeof path);
    ck_assert_str_eq(path, "/y");
    str_fini(&got);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

void add_plugstack(Suite *s)
{
    TCase *t = tcase_create("plugstack");

    tcase_add_loop_test(t, lines, 0, (int)(sizeof texts / sizeof *texts));
    tcase_add_test(t, files);
    suite_add_tcase(s, t);
}
