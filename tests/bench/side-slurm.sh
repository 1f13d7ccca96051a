# SPDX-License-Identifier: Apache-2.0
# side-slurm.sh - the reference: Debian's slurmctld, slurmd and munged as they come, in a folder of their own. Sourced by bench.
#
# SLURM_ROOT names a folder with the packages slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge libmunge2 unpacked (dpkg -x); without it
# installed ones are taken. Tuned for throughput: logs of errors only, no accounting, no process tracking by cgroups, no node health checks.
# Its answers come before anything is written: the queue goes to the disk up to 5 seconds later.

slurm_root=${SLURM_ROOT:-/}
slurm_root=${slurm_root%/}
slurm_lib=$slurm_root/usr/lib/$(uname -m)-linux-gnu
# Debian names the daemons NAME-wlm and leaves the plain name to alternatives, which an unpacked tree has not.
slurm_program() { local p; for p in "$slurm_root/usr/sbin/$1-wlm" "$slurm_root/usr/sbin/$1"; do [ -x "$p" ] && { echo "$p"; return; }; done; return 1; }
slurm_is_there() { slurm_program slurmctld >/dev/null && slurm_program slurmd >/dev/null && slurm_program munged >/dev/null; }

slurm_env() {
    [ -z "$slurm_root" ] || export LD_LIBRARY_PATH=$slurm_lib:$slurm_lib/slurm-wlm PATH=$slurm_root/usr/bin:$PATH
    export SLURM_CONF=$work/slurm/slurm.conf
}
slurm_run() { (slurm_env; exec "$@"); }

slurm_port_free() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

slurm_conf() {
    local d=$work/slurm n=$1 i
    slurm_port=$((21000 + RANDOM % 11000))      # below the ports that the kernel gives to clients: the agents take the next ones
    until slurm_port_free "$slurm_port"; do slurm_port=$((slurm_port + 7)); done
    cat <<CONF
ClusterName=bench
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$slurm_port
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$d/munge.sock
CredType=cred/munge
PluginDir=$slurm_lib/slurm-wlm
StateSaveLocation=$d/state
SlurmdSpoolDir=$d/spool/%n
SlurmctldPidFile=$d/ctl.pid
SlurmdPidFile=$d/%n.pid
SlurmctldLogFile=$d/ctl.log
SlurmdLogFile=$d/%n.log
SlurmctldDebug=error
SlurmdDebug=error
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
MaxJobCount=100000
MaxArraySize=20001
MinJobAge=10
SlurmdParameters=config_overrides
CONF
    if [ "${2:-}" = emulated ]; then    # as a cloud's nodes that are switched off: no daemon stands behind them
        printf 'SuspendProgram=/bin/true\nResumeProgram=/bin/true\nSuspendTime=3600\nPrivateData=cloud\n'
        printf 'NodeName=n[1-%d] NodeAddr=127.0.0.1 CPUs=8 RealMemory=1000 State=CLOUD\n' "$n"
    else
        for ((i = 1; i <= n; i++)); do printf 'NodeName=n%d NodeHostname=localhost NodeAddr=127.0.0.1 Port=%d CPUs=8 RealMemory=1000\n' "$i" $((slurm_port + i)); done
    fi
    printf 'PartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n'
}

slurm_up() {
    local d=$work/slurm i nodes=$1 deadline=$((SECONDS + 60))
    mkdir -p "$d/state" "$d/spool"
    for ((i = 1; i <= nodes && nodes < 100; i++)); do mkdir -p "$d/spool/n$i"; done
    head -c 128 /dev/urandom >"$d/munge.key"
    chmod 400 "$d/munge.key"
    chmod 755 "$d"
    slurm_conf "$@" >"$d/slurm.conf"
    (slurm_env; exec "$(slurm_program munged)" --force --foreground --key-file="$d/munge.key" --socket="$d/munge.sock" --pid-file="$d/munged.pid" \
        --log-file="$d/munged.log" --seed-file="$d/munge.seed" --num-threads=2 >"$d/munged.out" 2>&1 </dev/null) &
    slurm_pids=$!
    until [ -S "$d/munge.sock" ] || [ $SECONDS -gt $deadline ]; do sleep 0.05; done
    slurm_start
    if [ "${2:-}" != emulated ]; then
        for ((i = 1; i <= nodes; i++)); do
            (slurm_env; exec "$(slurm_program slurmd)" -D -N "n$i" -d "$(slurm_program slurmstepd)" >"$d/n$i.out" 2>&1 </dev/null) &
            slurm_pids="$slurm_pids $!"
            [ "$i" = 1 ] && slurm_agent=$!
        done
    fi
    # Nodes that are switched off are idle too, and say "idle~".
    until [ "$(slurm_run sinfo -h -o '%D %T' 2>/dev/null | grep ' idle' | cut -d' ' -f1)" = "$nodes" ]; do
        [ $SECONDS -gt $deadline ] && { echo "reference: not all nodes came up" >&2; cat "$d"/*.out | tail -5 >&2; return 1; }
        sleep 0.2
    done
}
slurm_start() {
    (slurm_env; exec "$(slurm_program slurmctld)" -D >>"$work/slurm/ctl.out" 2>&1 </dev/null) &
    slurm_controller=$!
}
slurm_pid() { if [ "$1" = controller ]; then echo "$slurm_controller"; else echo "${slurm_agent:-}"; fi; }
slurm_supervisor() { pgrep -n -f "^[^ ]*slurmstepd: \[$1\.batch\]"; }     # it is nobody's child: the newest of that number
slurm_kill() { kill -9 "$slurm_controller"; wait "$slurm_controller" 2>/dev/null; }
slurm_back() { until slurm_run squeue -h >/dev/null 2>&1; do sleep 0.005; done; }
slurm_down() {
    local p
    [ -n "${slurm_controller:-}" ] || return 0
    slurm_run scancel -u "$(id -un)" >/dev/null 2>&1
    # shellcheck disable=SC2086
    kill $slurm_controller $slurm_pids 2>/dev/null
    for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 $slurm_controller $slurm_pids 2>/dev/null || break; sleep 0.5; done
    # A slurmd with a job waits for it; the job scripts go with their folder's name.
    for p in $slurm_controller $slurm_pids $(pgrep -f "$work/slurm/"); do kill -9 "$p" 2>/dev/null; done
    for p in $slurm_controller $slurm_pids; do wait "$p" 2>/dev/null; done
    slurm_controller="" slurm_pids=""
    rm -rf "$work/slurm"
}
