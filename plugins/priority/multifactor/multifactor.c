/* SPDX-License-Identifier: Apache-2.0 */
/* multifactor.c - priority as a weighted sum, by the formula of Slurm's manual:
 *
 *   site factor + weight(age) * age + weight(job size) * job size + weight(partition) * partition - nice
 *
 * Each factor lies between 0 and 1. The weights and rules come from slurm.conf (PriorityWeight*, PriorityMaxAge, PriorityFavorSmall,
 * PriorityFlags), so an old file keeps its meaning. Fair share, QOS, association and TRES have no figures in the job view of this ABI:
 * a weight for one of them is named in the log at open and adds nothing.
 */
#include <ctype.h>
#include <stdlib.h>
#include <strings.h>
#include <spur/priority.h>

struct multifactor {
    const struct spur_host *host;
    double   weight_age, weight_size, weight_partition;
    int64_t  max_age_s;
    uint32_t period_s;
    bool     favor_small, relative_to_time, accrue_always, raw_partition;
};

static const char *key(const struct multifactor *m, const char *name)
{
    const char *text = m->host->config(m->host->ctx, name);

    return text ? text : "";
}

/* Is WORD in a list like "FAIR_TREE,SMALL_RELATIVE_TO_TIME"? */
static bool list_has(const char *list, const char *word)
{
    size_t n = strlen(word);

    while (*list) {
        size_t len = strcspn(list, ", ");

        if (len == n && strncasecmp(list, word, n) == 0)
            return true;
        list += len + strspn(list + len, ", ");
    }
    return false;
}

/* "M", "H:M:S" with or without "D-" in front, "D-H", "D-H:M", UNLIMITED: seconds; -1 when it is none of these. */
static int64_t seconds(const char *text)
{
    int64_t days = 0, part[3] = { 0 };
    const char *at = text, *dash = strchr(text, '-');
    int n = 0;
    char *end;

    if (!strcasecmp(text, "UNLIMITED") || !strcasecmp(text, "INFINITE"))
        return UINT32_MAX;
    if (dash) {
        days = strtoll(text, &end, 10);
        if (end != dash)
            return -1;
        at = dash + 1;
    }
    do {
        if (!isdigit((unsigned char)*at) || n == 3)
            return -1;
        part[n++] = strtoll(at, &end, 10);
        at = end + 1;
    } while (*end == ':');
    if (*end)
        return -1;
    if (dash || n == 3)
        return days * 86400 + part[0] * 3600 + part[1] * 60 + part[2];
    return n == 2 ? part[0] * 60 + part[1] : part[0] * 60;
}

static int weight(const struct multifactor *m, const char *name, double *out, struct spur_error *err)
{
    const char *text = key(m, name);
    char *end;

    *out = *text ? strtod(text, &end) : 0;
    if (*text && (*end || *out < 0 || *out > UINT32_MAX))
        return spur_fail(err, SPUR_EINVAL, "%s=%.60s: a weight is a whole number from 0 to 4294967295", name, text);
    return 0;
}

/* Weights and flags whose figures this ABI's job view does not carry. */
static void warn_of_missing(const struct multifactor *m)
{
    static const char *const weights[] = { "PriorityWeightFairshare", "PriorityWeightQOS", "PriorityWeightAssoc", "PriorityWeightTRES" };
    char text[240];

    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
        const char *value = key(m, weights[i]);

        if (*value && strcmp(value, "0") != 0 && strcasecmp(value, "(null)") != 0) {
            snprintf(text, sizeof text, "%s=%.100s adds nothing yet: spur keeps no figures for this factor", weights[i], value);
            m->host->log(m->host->ctx, SPUR_LOG_WARN, text);
        }
    }
    if (list_has(key(m, "PriorityFlags"), "INCR_ONLY"))
        m->host->log(m->host->ctx, SPUR_LOG_WARN, "PriorityFlags=INCR_ONLY does nothing yet: priorities may also fall");
}

static int multifactor_read(struct multifactor *m, struct spur_error *err)
{
    struct multifactor n = { .host = m->host };
    const char *flags = key(m, "PriorityFlags"), *text;
    int64_t period;
    int rc;

    if ((rc = weight(m, "PriorityWeightAge", &n.weight_age, err)) < 0 || (rc = weight(m, "PriorityWeightJobSize", &n.weight_size, err)) < 0 ||
        (rc = weight(m, "PriorityWeightPartition", &n.weight_partition, err)) < 0)
        return rc;
    text = key(m, "PriorityMaxAge");
    n.max_age_s = *text ? seconds(text) : 7 * 86400;
    if (n.max_age_s < 0)
        return spur_fail(err, SPUR_EINVAL, "PriorityMaxAge=%.60s is not a time (7-0, 12:00:00, minutes)", text);
    text = key(m, "PriorityCalcPeriod");
    period = *text ? seconds(text) : 300;
    if (period < 0)
        return spur_fail(err, SPUR_EINVAL, "PriorityCalcPeriod=%.60s is not a time (minutes, 00:05:00)", text);
    n.period_s = period < 1 ? 60 : period > 86400 ? 86400 : (uint32_t)period;
    text = key(m, "PriorityFavorSmall");
    n.favor_small = !strcasecmp(text, "yes") || !strcasecmp(text, "true") || !strcasecmp(text, "up") || !strcmp(text, "1");
    n.relative_to_time = list_has(flags, "SMALL_RELATIVE_TO_TIME");
    n.accrue_always = list_has(flags, "ACCRUE_ALWAYS");
    n.raw_partition = list_has(flags, "NO_NORMAL_PART") || list_has(flags, "NO_NORMAL_ALL");
    *m = n;
    warn_of_missing(m);
    return 0;
}

static int multifactor_open(const struct spur_host *host, const struct spur_conf *conf, void **self, struct spur_error *err)
{
    struct multifactor *m = calloc(1, sizeof *m);
    int rc;

    (void)conf;
    if (!m)
        return spur_fail(err, SPUR_ENOMEM, "out of memory");
    m->host = host;
    if ((rc = multifactor_read(m, err)) < 0) {
        free(m);
        return rc;
    }
    *self = m;
    return 0;
}

static int multifactor_reload(void *self, const struct spur_conf *conf, struct spur_error *err)
{
    (void)conf;
    return multifactor_read(self, err);
}

static double share(double part, double whole)
{
    return whole <= 0 || part <= 0 ? 0 : part >= whole ? 1 : part / whole;
}

static double age_factor(const struct multifactor *m, const struct spur_job_view *job, int64_t now)
{
    int64_t since = job->eligible_wall_s;

    if (m->accrue_always)
        since = job->submit_wall_s;
    if (since <= 0 || now <= since)
        return 0;
    return m->max_age_s == 0 ? 1 : share((double)(now - since), (double)m->max_age_s);
}

/* Measured on Slurm 22.05, whose manual is shorter than its behaviour: the mean of both shares; relative to time the larger share by the
 * minutes of the limit, and 0 for a job without one. */
static double size_factor(const struct multifactor *m, const struct spur_job_view *job)
{
    double nodes = share(job->nodes, job->cluster_nodes), cpus = share(job->cpus, job->cluster_cpus), large;

    if (m->relative_to_time)
        large = job->time_limit_min ? (nodes > cpus ? nodes : cpus) / job->time_limit_min : 0;
    else
        large = (nodes + cpus) / 2;
    return m->favor_small ? 1 - large : large;
}

static uint64_t multifactor_rank(void *self, const struct spur_job_view *job, int64_t now, struct spur_priority_factors *out)
{
    const struct multifactor *m = self;
    double age = age_factor(m, job, now), size = size_factor(m, job), partition, sum;

    partition = m->raw_partition ? job->partition_factor : share(job->partition_factor, job->partition_factor_max);
    if (out) {
        struct spur_priority_factors f = { .size = out->size, .age = age, .job_size = size, .partition = partition,
                                           .site = (double)job->site_factor, .nice = job->nice };

        memcpy(out, &f, out->size < sizeof f ? out->size : sizeof f);
    }
    sum = (double)job->site_factor + m->weight_age * age + m->weight_size * size + m->weight_partition * partition - job->nice;
    return sum < 1 ? 1 : sum > (double)UINT32_MAX - 1 ? UINT32_MAX - 1 : (uint64_t)sum;
}

static uint32_t multifactor_period(void *self)
{
    const struct multifactor *m = self;

    return m->weight_age > 0 ? m->period_s : 0;
}

static const struct spur_priority_ops multifactor_ops = { .size = sizeof multifactor_ops, .rank = multifactor_rank, .period_s = multifactor_period };

SPUR_PLUGIN(priority, multifactor, .about = "a weighted sum of age, size, partition, site factor and nice",
            .ops = &multifactor_ops, .open = multifactor_open, .reload = multifactor_reload, .close = free);
