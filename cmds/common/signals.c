/* SPDX-License-Identifier: Apache-2.0 */
/* signals.c - one table of signals, as Slurm's --signal names them. */
#include <signal.h>

#include "base/str.h"
#include "cmds/common/signals.h"

static const struct { const char *name; int number; } signals[] = {
    { "HUP", SIGHUP }, { "INT", SIGINT }, { "QUIT", SIGQUIT }, { "ILL", SIGILL }, { "TRAP", SIGTRAP }, { "ABRT", SIGABRT }, { "BUS", SIGBUS }, { "FPE", SIGFPE }, { "KILL", SIGKILL },
    { "USR1", SIGUSR1 }, { "SEGV", SIGSEGV }, { "USR2", SIGUSR2 }, { "PIPE", SIGPIPE }, { "ALRM", SIGALRM }, { "TERM", SIGTERM }, { "CHLD", SIGCHLD }, { "CONT", SIGCONT }, { "STOP", SIGSTOP },
    { "TSTP", SIGTSTP }, { "TTIN", SIGTTIN }, { "TTOU", SIGTTOU }, { "URG", SIGURG }, { "XCPU", SIGXCPU }, { "XFSZ", SIGXFSZ }, { "VTALRM", SIGVTALRM }, { "PROF", SIGPROF }, { "WINCH", SIGWINCH },
    { "IO", SIGIO }, { "PWR", SIGPWR }, { "SYS", SIGSYS },
};

int signal_parse(const char *text)
{
    uint32_t number;

    if (number_u32(text, &number))
        return number < 65 ? (int)number : -1;
    if (word_starts(text, "SIG"))
        text += 3;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (word_eq(text, signals[i].name))
            return signals[i].number;
    return -1;
}

const char *signal_name(int number)
{
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (signals[i].number == number)
            return signals[i].name;
    return NULL;
}
