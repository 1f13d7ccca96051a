/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_show.c - `spur gpu show`: the GPUs of this host, or of a recorded topology, with their links, as lines that gres.conf takes.
 *
 * It asks what a node's agent asks, in this process: no configuration is read and no controller is needed, so it is also the way to see why a
 * node reports what it does. What is no line of gres.conf begins with #, so the whole can go into the file.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmds/common/filetext.h"
#include "cmds/gpu.h"
#include "config/config.h"
#include "hardware/look.h"

#define DEADLINE_S 60

static const char usage_text[] =
    "Usage: spur gpu show [--from=PATH] [--node=NAME] [--conf=FILE]\n"
    "\n"
    "Prints the GPUs of this host, where they hang and how they are joined, as lines for gres.conf.\n"
    "\n"
    "  --from=PATH   not this host's but those of a topology: a .json, an hwloc .xml, a .kfdtree,\n"
    "                a folder with sys/ in it, or a KFD `nodes` folder\n"
    "  --node=NAME   begin each line with NodeName=NAME\n"
    "  --conf=FILE   take the options of plugins from this spur.conf\n"
    "  -h, --help    this text\n";

static char doing_now[100] = "nothing";

static void doing(void *arg, const char *what)
{
    (void)arg;
    snprintf(doing_now, sizeof doing_now, "%s", what);
}

static void deadline(int number)
{
    static const char text[] = "spur gpu show: no answer within 60 s from ";

    (void)number;
    if (write(2, text, sizeof text - 1) > 0 && write(2, doing_now, strlen(doing_now)) > 0 && write(2, "\n", 1) > 0)
        _exit(1);
    _exit(1);
}

/* A configuration of nothing but plugin options. */
static int options_read(const char *path, struct config **cfg, struct spur_error *err)
{
    char *text = file_text(path);
    int rc;

    if (!text)
        return spur_fail(err, SPUR_ENOTFOUND, "%s: cannot be read", path);
    rc = config_parse("ClusterName=show\nSlurmctldHost=show\nNodeName=show\nPartitionName=show Nodes=show\n", NULL, NULL, NULL, text, cfg, err);
    free(text);
    return rc;
}

static void print(const struct rig *m, const char *node)
{
    struct str out;

    str_init(&out);
    if (!m->gpu_count)
        str_add(&out, "# no GPU\n");
    rig_print(m, &out);
    rig_print_gres(m, node, &out);
    fputs(out.text, stdout);
    str_fini(&out);
}

int gpu_show(int argc, char **argv)
{
    static const struct option longs[] = { { "from", required_argument, NULL, 'f' }, { "node", required_argument, NULL, 'n' }, { "conf", required_argument, NULL, 'c' },
                                           { "autocomplete", no_argument, NULL, 'a' }, { "help", no_argument, NULL, 'h' }, { 0 } };
    const char *from = NULL, *node = NULL, *conf = NULL;
    struct look l = { .autodetect = "full", .doing = doing };
    struct config *cfg = NULL;
    struct spur_error err = { 0 };
    struct rig rig = { .name = "" };
    int ch, rc;

    optind = 1;
    while ((ch = getopt_long(argc, argv, "h", longs, NULL)) != -1)
        switch (ch) {
        case 'f': from = optarg; break;
        case 'n': node = optarg; break;
        case 'c': conf = optarg; break;
        case 'a': puts("--from=\n--node=\n--conf=\n--help"); return 0;
        case 'h': fputs(usage_text, stdout); return 0;
        default:  fputs(usage_text, stderr); return 1;
        }
    if (optind < argc) {
        fprintf(stderr, "spur gpu show: %s is no option; --help lists them\n", argv[optind]);
        return 1;
    }
    if (from) {
        rc = rig_read(from, &rig, &err);
        if (rc == 0)
            print(&rig, node);
        else
            fprintf(stderr, "spur gpu show: %s\n", err.text);
        rig_fini(&rig);
        return rc < 0;
    }
    if (conf && options_read(conf, &cfg, &err) < 0) {
        fprintf(stderr, "spur gpu show: %s\n", err.text);
        return 1;
    }
    signal(SIGALRM, deadline);
    alarm(DEADLINE_S);
    l.cfg = cfg;
    rc = look(&l);
    if (rc == 0)
        print(&l.rig, node);
    else
        fprintf(stderr, "spur gpu show: %s\n", l.err.text);
    look_fini(&l);
    config_free(cfg);
    return rc < 0;
}
