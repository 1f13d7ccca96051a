/* SPDX-License-Identifier: Apache-2.0 */
/* log.c - writes the lines of log.h. Before log_open they go to stderr, so that nothing said early is lost.
 *
 * A line that cannot be written (disk full) is dropped and counted; the count is told with the next line that can. The file is
 * opened for appending, so several daemons and logrotate's copytruncate can share it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "rpc/log.h"

#define LINE_MAX_BYTES 4096

static struct { pthread_mutex_t lock; int fd, level; char *path; unsigned long dropped; } the_log = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .fd = 2, .level = SPUR_LOG_INFO };

static int open_file(const char *path)
{
    return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0640);
}

static void change(int fd, char *path)
{
    if (the_log.fd > 2)
        close(the_log.fd);
    free(the_log.path);
    the_log.fd = fd;
    the_log.path = path;
}

int log_open(const char *path, int level, struct spur_error *err)
{
    int fd = path ? open_file(path) : 2;

    if (fd < 0)
        return spur_fail(err, SPUR_EIO, "log file %s: %s", path, strerror(errno));
    pthread_mutex_lock(&the_log.lock);
    change(fd, mem_copy(path));
    the_log.level = level;
    pthread_mutex_unlock(&the_log.lock);
    return 0;
}

int log_reopen(void)
{
    int fd, rc = 0;

    pthread_mutex_lock(&the_log.lock);
    if (the_log.path) {
        if ((fd = open_file(the_log.path)) < 0) {
            rc = SPUR_EIO;
        } else {
            close(the_log.fd);
            the_log.fd = fd;
        }
    }
    pthread_mutex_unlock(&the_log.lock);
    return rc;
}

void log_close(void)
{
    pthread_mutex_lock(&the_log.lock);
    change(2, NULL);
    pthread_mutex_unlock(&the_log.lock);
}

void log_level(int level)
{
    the_log.level = level;
}

int log_level_of(unsigned debug)
{
    enum { ERROR = 2, VERBOSE = 4 };        /* of Slurm's quiet fatal error info verbose debug ... */

    return debug <= ERROR ? SPUR_LOG_ERROR : debug <= VERBOSE ? SPUR_LOG_INFO : SPUR_LOG_DEBUG;
}

int log_is_on(int level)
{
    return level <= the_log.level;
}

void log_text(void *ctx, int level, const char *text)
{
    static const char *const words[] = { "error: ", "warning: ", "", "debug: " };
    char line[LINE_MAX_BYTES], safe[LINE_MAX_BYTES - 128];
    struct timeval now;
    struct tm tm;
    size_t n;

    (void)ctx;
    if (level < SPUR_LOG_ERROR || !log_is_on(level))
        return;
    gettimeofday(&now, NULL);
    localtime_r(&now.tv_sec, &tm);
    word_printable(text, safe, sizeof safe);
    n = strftime(line, sizeof line, "[%Y-%m-%dT%H:%M:%S", &tm);
    n += (size_t)snprintf(line + n, sizeof line - n, ".%03d] %s%s\n", (int)(now.tv_usec / 1000), words[level > SPUR_LOG_DEBUG ? SPUR_LOG_DEBUG : level], safe);
    pthread_mutex_lock(&the_log.lock);
    if (the_log.dropped) {
        char lost[80];
        int k = snprintf(lost, sizeof lost, "[log: %lu lines could not be written]\n", the_log.dropped);

        if (write(the_log.fd, lost, (size_t)k) == k)
            the_log.dropped = 0;
    }
    if (write(the_log.fd, line, n) != (ssize_t)n)
        the_log.dropped++;
    pthread_mutex_unlock(&the_log.lock);
}

void log_line(int level, const char *format, ...)
{
    char text[LINE_MAX_BYTES];
    va_list args;

    if (!log_is_on(level))
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    log_text(NULL, level, text);
}
