# SPDX-License-Identifier: Apache-2.0
# side-spur.sh - the bench's own side: controllers and agents in a sandbox. Sourced by bench; $prefix, $work and $controllers are set.
#
# What both side files offer (SIDE is spur or slurm): SIDE_up NODES [emulated], SIDE_down, SIDE_run COMMAND... (in that cluster's
# environment), SIDE_pid controller|agent, SIDE_supervisor JOB, SIDE_kill (kill -9 of the controller that leads), SIDE_start (the same again; returns at once), SIDE_back (until
# that one answers).
# Answers are durable and every channel between processes of different hosts is encrypted, as in production.

spur_run() { PATH=$prefix/bin:$prefix/sbin:$PATH SLURM_CONF=$work/spur/slurm.conf SPUR_SANDBOX=$work/spur "$@"; }

# Above 16 nodes the sandbox plays them all in one process; spur_up NODES agents gives each an agent all the same.
spur_up() {
    local agents=""
    [ "${2:-}" != agents ] || agents=--agents
    spur_run spur sandbox start --dir "$work/spur" --controllers "$controllers" --nodes "$1" ${agents:+"$agents"} --cpus 8 --set MaxArraySize=20001 --set MaxJobCount=100000 --set MinJobAge=10 >"$work/spur.out" 2>&1 ||
        { cat "$work/spur.out" >&2; return 1; }
}
spur_down() { spur_run spur sandbox stop --dir "$work/spur" >/dev/null 2>&1; rm -rf "$work/spur"; }

# The process of a role: the leader, or the first agent.
spur_leader() { spur_run spur sandbox leader --dir "$work/spur" 2>/dev/null; }
spur_process() { pgrep -o -f "^[^ ]*$1 -D -f $work/spur/etc/${2:-}"; }
spur_pid() {
    local name
    [ "$1" != agent ] || { spur_process spurd; return; }
    until name=$(spur_leader); do sleep 0.05; done
    spur_process spurctld "$name/"
}
# The supervisor of a batch job: a child of the pool of some agent of ours.
spur_supervisor() {
    local agent pool
    for agent in $(pgrep -f "^[^ ]*spurd -D -f $work/spur/etc/"); do
        for pool in $(pgrep -P "$agent"); do pgrep -P "$pool" -f "^spurstepd: \[$1\.batch\]" && return 0; done
    done
    return 1
}
spur_killed=""
spur_kill() {
    local pid
    until spur_killed=$(spur_leader); do sleep 0.05; done
    pid=$(spur_process spurctld "$spur_killed/")
    kill -9 "$pid"
    while kill -0 "$pid" 2>/dev/null; do sleep 0.001; done
}
spur_start() {
    (SPUR_SANDBOX_OF=$work/spur SPUR_SANDBOX_NAME=$spur_killed setsid "$prefix/sbin/spurctld" -D -f "$work/spur/etc/$spur_killed/slurm.conf" -N "$spur_killed" \
        >>"$work/spur/log/$spur_killed.log" 2>&1 </dev/null &)
}
# Asked alone, by its own socket.
spur_back() {
    local alone=$work/spur/only-$spur_killed
    if [ "$controllers" -gt 1 ] && [ ! -d "$alone" ]; then
        mkdir -p "$alone/run"
        grep -v '^SlurmctldHost=' "$work/spur/slurm.conf" >"$alone/slurm.conf"
        grep "^SlurmctldHost=$spur_killed(" "$work/spur/slurm.conf" >>"$alone/slurm.conf"
        sed "s|^run_dir.*|run_dir = \"$alone/run\"|" "$work/spur/spur.conf" >"$alone/spur.conf"
        ln -s "$(cat "$work/spur/run_dir")/ctl-$spur_killed.sock" "$alone/run/"
    fi
    [ "$controllers" = 1 ] && alone=$work/spur
    until SLURM_CONF=$alone/slurm.conf "$prefix/bin/squeue" -h >/dev/null 2>&1; do sleep 0.005; done
}
