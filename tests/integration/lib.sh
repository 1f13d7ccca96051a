# SPDX-License-Identifier: Apache-2.0
# lib.sh - for tests that need a cluster: a sandbox in a temporary folder, gone at the end. Sourced, never run.
# Use: cluster [ARGS of `spur sandbox start`]; then commands; ok NAME / not_ok NAME; `is NAME got expected`; `until_true SECONDS COMMAND...`.
#
# Seconds in tests are those of a quiet machine: `patience` makes them those of this one. A deadline costs nothing while things work, so a test waits for
# a condition, never for a time, and what has to last until something else has happened lasts until a file is there (`gate FILE`), never N seconds.
set -u
prefix=${SPUR_PREFIX:?the installed tree to test}
source_dir=${SPUR_SOURCE:?the checkout}
PATH=$prefix/bin:$prefix/sbin:$PATH
work=$(mktemp -d "${TMPDIR:-/tmp}/spur-test.XXXXXX")
export SPUR_SANDBOX=$work/c
unset SLURM_CONF SLURM_JOB_ID SLURM_JOBID
failures=0

cleanup() {
    "$prefix/bin/spur" sandbox stop --dir "$SPUR_SANDBOX" >/dev/null 2>&1
    [ -n "${KEEP:-}" ] || rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

cluster() {
    "$prefix/bin/spur" sandbox start --dir "$SPUR_SANDBOX" "$@" || { echo "not ok sandbox start $*"; exit 1; }
    export SLURM_CONF=$SPUR_SANDBOX/slurm.conf
    mkdir -p "$work/w"
    cd "$work/w" || exit 1
}
ok() { printf 'ok %s\n' "$1"; }
not_ok() { failures=$((failures + 1)); printf 'not ok %s\n' "$1"; shift; [ $# -eq 0 ] || printf '    %s\n' "$@"; }
is() { if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "got:      $2" "expected: $3"; fi; }
like() { if printf '%s\n' "$2" | grep -qE -- "$3"; then ok "$1"; else not_ok "$1" "got:      $2" "expected: /$3/"; fi; }
# patience SECONDS: five times as long, and more by the load of the last minute for each core, thirty times at most.
cores=$(nproc)
patience() {
    local load factor
    read -r load _ </proc/loadavg
    factor=$((5 + 2 * ${load%%.*} / cores))
    echo $(($1 * (factor < 30 ? factor : 30)))
}
# until_true SECONDS COMMAND...: polls ten times a second, with patience; a line in the log says what never came.
until_true() {
    local end=$((SECONDS + $(patience "$1")))
    shift
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || { echo "# in vain, line ${BASH_LINENO[0]}: $*"; return 1; }
        sleep 0.1
    done
}
# within SECONDS COMMAND...: ends what hangs.
within() { local s; s=$(patience "$1"); shift; timeout "$s" "$@"; }
ended() { [ -z "$(squeue -h -j "$1" -o %T 2>/dev/null | grep -vE '^(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL|OUT_OF_MEMORY|DEADLINE)')" ]; }
state_is() { [ "$(squeue -h -t all -j "$1" -o %T 2>/dev/null)" = "$2" ]; }
field() { scontrol -o show job "$1" | tr ' ' '\n' | sed -n "s|^$2=||p" | head -1; }
# daemon NAME: its process. supervisors [JOB.STEP]: those of this cluster's steps. Nothing is printed when there is none.
daemon() { pgrep -f -- "$SPUR_SANDBOX/etc/$1/slurm.conf"; }
supervisors() { local p; for p in $(pgrep -f "^spurstepd: \\[${1:-}"); do grep -qzxF "SPUR_SANDBOX_OF=$SPUR_SANDBOX" "/proc/$p/environ" 2>/dev/null && echo "$p"; done; }
# gate FILE: the words for a script that goes on when FILE is there.
gate() { printf 'until [ -e %q ]; do sleep 0.1; done' "$1"; }
# processes WORD: how many have WORD in their arguments. Tests give their jobs a word of their own.
processes() { pgrep -fc -- "$1"; }
no_process() { [ "$(processes "$1")" = 0 ]; }
rss_kib() { sed -n 's/^VmRSS:[[:space:]]*\([0-9]*\).*/\1/p' "/proc/$1/status"; }
cpus_of_nodes() { scontrol -o show node | tr ' ' '\n' | sed -n 's/^CPUAlloc=//p' | awk '{ n += $1 } END { print n + 0 }'; }
# cpus_of_jobs STATES: a job that is completing may have left some of its nodes already.
cpus_of_jobs() { squeue -h -t all -o '%t %C' | awk -v states=" $1 " 'index(states, " " $1 " ") { n += $2 } END { print n + 0 }'; }
# ledger: nothing while the CPUs that nodes have given away are those that jobs hold; two looks that differ say nothing.
ledger() {
    local nodes most least
    nodes=$(cpus_of_nodes) least=$(cpus_of_jobs 'R CF S') most=$(cpus_of_jobs 'R CF S CG RQ RH')
    [ "$nodes $least $most" = "$(cpus_of_nodes) $(cpus_of_jobs 'R CF S') $(cpus_of_jobs 'R CF S CG RQ RH')" ] || return 0
    [ "$nodes" -ge "$least" ] && [ "$nodes" -le "$most" ] || echo "$nodes not in $least-$most"
}
all_free() { [ "$(cpus_of_nodes)" = 0 ]; }
queue_empty() { [ -z "$(squeue -h 2>&1)" ]; }
nodes_idle() { [ -z "$(sinfo -h -N -o %T | grep -v '^idle$')" ]; }
ms() { echo $(($(date +%s%N) / 1000000)); }
finish() { exit $((failures != 0)); }
