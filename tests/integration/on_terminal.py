#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""on_terminal.py - runs a command on a terminal of its own: pty.py SCRIPT COMMAND...

SCRIPT is a file of lines: `expect TEXT` waits until TEXT has been printed since the last one that was expected, `send TEXT` types it (\\n, \\x03 as in
Python), `size ROWS COLUMNS` changes the size of the terminal, `kill NUMBER` sends the command a signal, `cooked` waits until the terminal echoes again.
All that was printed goes to standard output; the exit status is the command's, 128 and the number for a signal, 99 when something did not come.
"""
import fcntl, os, pty, select, struct, sys, termios, time

PATIENCE = 120


def main():
    lines = [l.rstrip('\n').split(' ', 1) for l in open(sys.argv[1]) if l.strip()]
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 80, 0, 0))
    pid = os.fork()
    if pid == 0:
        os.close(master)
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        for fd in 0, 1, 2:
            os.dup2(slave, fd)
        os.execvp(sys.argv[2], sys.argv[2:])
    seen, all_seen = b'', b''

    def more(seconds):
        nonlocal seen, all_seen
        if select.select([master], [], [], seconds)[0]:
            data = os.read(master, 65536)
            seen += data
            all_seen += data

    def fail(what):
        sys.stdout.buffer.write(all_seen + b'\n# never came: ' + what.encode() + b'\n')
        sys.stdout.flush()
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        sys.exit(99)

    for word, *rest in lines:
        text = rest[0].encode().decode('unicode_escape') if rest else ''
        until = time.monotonic() + PATIENCE
        if word == 'expect':
            while text.encode() not in seen:
                if time.monotonic() > until:
                    fail(text)
                more(0.5)
            seen = seen[seen.index(text.encode()) + len(text):]
        elif word == 'send':
            os.write(master, text.encode())
        elif word == 'size':
            rows, columns = map(int, text.split())
            fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))
        elif word == 'kill':
            os.kill(pid, int(text))
        elif word == 'cooked':
            while not termios.tcgetattr(slave)[3] & termios.ICANON:
                if time.monotonic() > until:
                    fail('cooked')
                more(0.1)
    until, status = time.monotonic() + PATIENCE, None
    while status is None:
        more(0.1)
        ended, status = os.waitpid(pid, os.WNOHANG)
        if not ended:
            status = None
            if time.monotonic() > until:
                fail('the end')
    while select.select([master], [], [], 0)[0]:
        more(0)
    cooked = termios.tcgetattr(slave)[3] & termios.ICANON
    sys.stdout.buffer.write(all_seen + (b'' if cooked else b'\n# the terminal is left raw\n'))
    sys.stdout.flush()
    sys.exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))


main()
