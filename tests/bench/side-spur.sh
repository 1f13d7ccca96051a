# SPDX-License-Identifier: Apache-2.0
# side-spur.sh - the bench's own side: one controller and its agents in a sandbox. Sourced by bench; $prefix and $work are set.
#
# What both side files offer (SIDE is spur or slurm): SIDE_up NODES [emulated], SIDE_down, SIDE_run COMMAND... (in that cluster's
# environment), SIDE_pid controller|agent, SIDE_kill (kill -9 of the controller), SIDE_start (the controller again; returns at once).
# Answers are durable and every channel between processes of different hosts is encrypted, as in production.

spur_run() { PATH=$prefix/bin:$prefix/sbin:$PATH SLURM_CONF=$work/spur/slurm.conf SPUR_SANDBOX=$work/spur "$@"; }

# Above 16 nodes the sandbox plays them all in one process.
spur_up() {
    spur_run spur sandbox start --dir "$work/spur" --nodes "$1" --cpus 8 --set MaxArraySize=20001 --set MaxJobCount=100000 --set MinJobAge=10 >"$work/spur.out" 2>&1 ||
        { cat "$work/spur.out" >&2; return 1; }
}
spur_down() { spur_run spur sandbox stop --dir "$work/spur" >/dev/null 2>&1; rm -rf "$work/spur"; }

# The process of a role: the first whose command line is that of this sandbox's daemon.
spur_pid() {
    local name=spurctld
    [ "$1" = agent ] && name=spurd
    pgrep -o -f "^[^ ]*$name -D -f $work/spur/"
}
spur_kill() { kill -9 "$(spur_pid controller)"; while [ -n "$(spur_pid controller)" ]; do sleep 0.01; done; }
spur_start() {
    (SPUR_SANDBOX_OF=$work/spur SPUR_SANDBOX_NAME=ctl1 setsid "$prefix/sbin/spurctld" -D -f "$work/spur/etc/ctl1/slurm.conf" -N ctl1 \
        >>"$work/spur/log/ctl1.log" 2>&1 </dev/null &)
}
