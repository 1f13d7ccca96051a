/* SPDX-License-Identifier: Apache-2.0 */
/* spur/error.h - how everything in spur reports a failure: a negative code for programs, one sentence for people.
 *
 * Header only, so that a plugin needs no symbol of the host. The deepest function writes what happened with spur_fail();
 * each caller puts who asked in front with spur_context(). Text is cut at the buffer's end, never overrun. Any thread.
 */
#ifndef SPUR_ERROR_H
#define SPUR_ERROR_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One list makes the codes and their names, so that they cannot drift apart. Append only. */
#define SPUR_ERRORS(X) \
    X(SPUR_ENOMEM,    -1, "out of memory") \
    X(SPUR_EINVAL,    -2, "invalid value") \
    X(SPUR_ESYNTAX,   -3, "syntax error") \
    X(SPUR_ENOTFOUND, -4, "not found") \
    X(SPUR_EEXISTS,   -5, "exists already") \
    X(SPUR_EDENIED,   -6, "permission denied") \
    X(SPUR_ELIMIT,    -7, "over a limit") \
    X(SPUR_EIO,       -8, "input/output error") \
    X(SPUR_ENOSPACE,  -9, "no space left") \
    X(SPUR_ECORRUPT, -10, "damaged data") \
    X(SPUR_EABI,     -11, "built for another ABI") \
    X(SPUR_ESTALE,   -12, "out of date") \
    X(SPUR_ELATER,   -13, "fits, but not now") \
    X(SPUR_ENEVER,   -14, "can never fit") \
    X(SPUR_ERESTART, -15, "needs a restart") \
    X(SPUR_ETIMEOUT, -16, "deadline passed") \
    X(SPUR_ECLOSED,  -17, "connection closed") \
    X(SPUR_EUNSUPPORTED, -18, "not supported") \
    X(SPUR_ENOTLEADER, -19, "not the leader") \
    X(SPUR_EBUSY,    -20, "busy") \
    X(SPUR_EAUTH,    -21, "identity not proven")

enum spur_code {
#define SPUR_ERROR_ROW(name, value, text) name = value,
    SPUR_ERRORS(SPUR_ERROR_ROW)
#undef SPUR_ERROR_ROW
    SPUR_OK = 0
};

struct spur_error {
    int  code;          /* 0 or SPUR_E* */
    char text[240];     /* one sentence, no newline at the end */
};

static inline const char *spur_code_text(int code)
{
    switch (code) {
#define SPUR_ERROR_ROW(name, value, text) case value: return text;
    SPUR_ERRORS(SPUR_ERROR_ROW)
#undef SPUR_ERROR_ROW
    case 0: return "success";
    default: return "unknown error";
    }
}

/* Writes code and sentence, returns code. `err` may be NULL: then only the code is returned. */
__attribute__((format(printf, 3, 4), unused))
static int spur_fail(struct spur_error *err, int code, const char *format, ...)
{
    va_list args;

    if (!err)
        return code;
    err->code = code;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    return code;
}

/* Puts its words and ": " in front of the sentence that is there; returns the code that is there. */
__attribute__((format(printf, 2, 3), unused))
static int spur_context(struct spur_error *err, const char *format, ...)
{
    char old[sizeof ((struct spur_error *)0)->text];
    const char *from = old;
    va_list args;
    int n;

    if (!err)
        return SPUR_EINVAL;
    memcpy(old, err->text, sizeof old);
    va_start(args, format);
    n = vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    if (n < 0 || (size_t)n + 3 > sizeof err->text)
        return err->code;
    memcpy(err->text + n, ": ", 2);
    n += 2;
    while ((size_t)n + 1 < sizeof err->text && *from)
        err->text[n++] = *from++;
    err->text[n] = '\0';
    return err->code;
}

#ifdef __cplusplus
}
#endif
#endif
