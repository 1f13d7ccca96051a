/* SPDX-License-Identifier: Apache-2.0 */
/* probe.c - a select plugin for the tests of the loader: one option of each type, and it tells what it was given. */
#include <stdlib.h>
#include <spur/select.h>

struct probe { long number; char text[256]; };

static void probe_read(struct probe *p, const struct spur_host *host, const struct spur_conf *conf)
{
    const char *cluster = host->config(host->ctx, "clustername");

    p->number = host->conf_int(conf, "number");
    snprintf(p->text, sizeof p->text, "%ld %ld %s %g %ld %ld cluster=%s absent=%ld%s", host->conf_int(conf, "number"), host->conf_int(conf, "flag"),
             host->conf_text(conf, "word"), host->conf_float(conf, "real"), host->conf_int(conf, "wait"), host->conf_int(conf, "room"),
             cluster ? cluster : "(none)", host->conf_int(conf, "absent"), host->conf_text(conf, "absent"));
}

static int probe_open(const struct spur_host *host, const struct spur_conf *conf, void **self, struct spur_error *err)
{
    struct probe *p;

    if (strcmp(host->conf_text(conf, "word"), "fail") == 0)
        return spur_fail(err, SPUR_EIO, "the fabric is on fire");
    if (!(p = calloc(1, sizeof *p)))
        return spur_fail(err, SPUR_ENOMEM, "out of memory");
    probe_read(p, host, conf);
    host->log(host->ctx, SPUR_LOG_INFO, p->text);
    *self = p;
    return 0;
}

static int probe_place(void *self, const struct spur_view *view, const struct spur_ask *ask, struct spur_placement *out, struct spur_error *err)
{
    (void)view;
    (void)ask;
    (void)out;
    return spur_fail(err, SPUR_ENEVER, "probe %ld places nothing", ((struct probe *)self)->number);
}

static int probe_explain(void *self, const struct spur_placement *out, char *buf, size_t len)
{
    (void)out;
    snprintf(buf, len, "%s", ((struct probe *)self)->text);
    return 0;
}

static const struct spur_option probe_options[] = {
    { "number", SPUR_INT, "7", "a whole number" },
    { "flag", SPUR_BOOL, "no", "yes or no" },
    { "word", SPUR_STRING, "plain", "a word" },
    { "real", SPUR_FLOAT, "0.5", "a number" },
    { "wait", SPUR_DURATION_MS, "2s", "how long" },
    { "room", SPUR_SIZE_MIB, NULL, "how much" },
    { 0 } };
static const struct spur_select_ops probe_ops = { .size = sizeof probe_ops, .place = probe_place, .explain = probe_explain };

SPUR_PLUGIN(select, probe, .about = "for the tests of the loader", .stands_for = "probe_old probe_older", .options = probe_options,
            .ops = &probe_ops, .open = probe_open, .close = free);
