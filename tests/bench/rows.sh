# SPDX-License-Identifier: Apache-2.0
# rows.sh - what is measured. Sourced by bench.
#
# row_N SIDE runs row N once on one side and prints `key value` lines; `row N STAGE PAIRS TITLE` declares it, `key KEY BETTER TARGET TEXT` its
# figures in the order of the table (BETTER is less or more). Stages: real (agents that run jobs), deep (the same with DEPTH jobs pending),
# kills (the same, the controller is killed), takeover (the same, another takes over), wide (many emulated nodes),
# agents (128 nodes, each with an agent).

row() { rows="$rows $1"; row_stage[$1]=$2; row_pairs[$1]=$3; row_title[$1]=$4; last_row=$1; }
key() { row_keys[$last_row]="${row_keys[$last_row]:-} $1"; key_better[$last_row.$1]=$2; key_target[$last_row.$1]=$3; key_text[$last_row.$1]=$4; }

# ---- small helpers: SIDE first ----

on() { local side=$1; shift; "${side}_run" "$@"; }
# The figures of a burst: burst_of SIDE 'NAME...' BURST-ARGUMENTS prints the asked values, in order.
burst_of() {
    local side=$1 names=$2
    shift 2
    on "$side" "$work/burst" "$@" 2>>"$work/errors" | awk -v names="$names" '{ for (i = 1; i <= NF; i++) { split($i, p, "="); v[p[1]] = p[2] } }
        END { n = split(names, k, " "); for (i = 1; i <= n; i++) printf "%s%s", v[k[i]], i < n ? " " : "\n"; if (v["failed"] > 0) print "burst: " v["failed"] " of " v["n"] " failed" > "/dev/stderr" }'
}
# CPU milliseconds that a process has used, ended threads included.
cpu_ms() { awk -v hz="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); print ($12 + $13) * 1000 / hz }' "/proc/$1/stat"; }
status_kib() { awk -v k="$2:" '$1 == k { print $2 }' "/proc/$1/status"; }
cancel_all() { on "$1" scancel -u "$(id -un)" >/dev/null 2>&1; drain "$1"; }
# Waits until nothing is queued or running, 100 s at most.
drain() {
    local deadline=$((SECONDS + 100))
    while [ -n "$(on "$1" squeue -h -o %i 2>/dev/null | head -1)" ] && [ $SECONDS -lt $deadline ]; do sleep 0.05; done
}
minus() { awk -v a="$1" -v b="$2" -v n="${3:-1}" 'BEGIN { printf "%.4f\n", (a - b) / n }'; }
now_ms() { echo $(($(date +%s%N) / 1000000)); }

# ---- idle cluster ----

row 24 real 1 "resident memory, idle"
key controller_mib less "<= 7 MiB" "controller, resident MiB"
key controller_anon_mib less "<= 3 MiB" "controller, anonymous MiB"
key agent_mib less "<= 4.5 MiB" "agent, resident MiB"
key agent_anon_mib less "<= 0.6 MiB" "agent, anonymous MiB"
row_24() {
    local who pid
    for who in controller agent; do
        pid=$("$1_pid" $who)
        awk -v w=$who '$1 == "VmRSS:" { printf "%s_mib %.2f\n", w, $2 / 1024 } $1 == "RssAnon:" { printf "%s_anon_mib %.2f\n", w, $2 / 1024 }' "/proc/$pid/status"
    done
}

row 25 real 5 "squeue and sinfo on an idle cluster"
key squeue_ms less ">= 2.2x" "squeue, p50 ms"
key sinfo_ms less ">= 2.2x" "sinfo, p50 ms"
key squeue_minstr less "<= 0.8, >= 6x" "squeue, million instructions"
key sinfo_minstr less "<= 0.8, >= 6x" "sinfo, million instructions"
key squeue_calls less "<= 60, >= 5x" "squeue, system calls"
key sinfo_calls less "<= 60, >= 5x" "sinfo, system calls"
row_25() {
    local c
    for c in squeue sinfo; do
        echo "${c}_ms $(burst_of "$1" p50_ms -n 60 $c)"
        [ "$pair" = 1 ] || continue      # these two do not change from run to run
        if command -v valgrind >/dev/null; then
            on "$1" valgrind --tool=callgrind --callgrind-out-file=/dev/null $c 2>&1 | awk -v c=$c '/refs:/ { gsub(",", "", $NF); printf "%s_minstr %.3f\n", c, $NF / 1e6 }'
        fi
        if command -v strace >/dev/null; then
            on "$1" strace -f -c -o "$work/strace.out" $c >/dev/null 2>&1
            awk -v c=$c '$NF == "total" { printf "%s_calls %d\n", c, $4 }' "$work/strace.out"
        fi
    done
}

# ---- submits: held, so that nothing but the submit is measured ----

row 1 real 7 "sbatch, one after the other"
key p50_ms less ">= 2.4x" "p50 ms, fork to exit"
key rate more ">= 2.4x" "submits/s"
key client_cpu_ms less "" "client CPU ms"
row_1() {
    set -- "$1" $(burst_of "$1" "p50_ms rate cpu_ms" -n 150 sbatch -H -o /dev/null --wrap true)
    printf 'p50_ms %s\nrate %s\nclient_cpu_ms %s\n' "$2" "$3" "$4"
    cancel_all "$1"
}

row 2 real 5 "sbatch, 8 at a time; with row 3, its controller CPU over 1,000 submits"
key rate more ">= 2.3x" "submits/s"
key controller_cpu_ms less "<= 0.2, >= 8x" "controller CPU ms a submit"
row_2() {
    local pid before
    pid=$("$1_pid" controller)
    before=$(cpu_ms "$pid")
    echo "rate $(burst_of "$1" rate -n 1000 -p 8 sbatch -H -o /dev/null --wrap true)"
    echo "controller_cpu_ms $(minus "$(cpu_ms "$pid")" "$before" 1000)"
    cancel_all "$1"
}

row 5 real 5 "array of 10,000 by one sbatch"
key p50_ms less ">= 2.2x" "p50 ms"
row_5() {
    echo "p50_ms $(burst_of "$1" p50_ms -n 1 sbatch -H --array=0-9999 -o /dev/null --wrap true)"
    cancel_all "$1"
}

# ---- jobs ----

row 6 real 3 "one-core jobs, submitted one by one, 8 at a time; with row 8, controller CPU of their whole life"
key rate more ">= 7x" "jobs/s"
key controller_cpu_ms less "<= 0.7, >= 12x" "controller CPU ms a job"
row_6() {
    local pid before from n=200
    pid=$("$1_pid" controller)
    before=$(cpu_ms "$pid")
    from=$(now_ms)
    burst_of "$1" n -n $n -p 8 sbatch -n1 -o /dev/null --wrap true >/dev/null
    drain "$1"
    echo "rate $(awk -v n=$n -v ms=$(($(now_ms) - from)) 'BEGIN { printf "%.2f", n * 1000 / ms }')"
    echo "controller_cpu_ms $(minus "$(cpu_ms "$pid")" "$before" $n)"
}

row 7 real 3 "one-core jobs, one array"
key rate more ">= 10x" "jobs/s"
row_7() {
    local from n=200
    from=$(now_ms)
    on "$1" sbatch -n1 --array=1-$n -o /dev/null --wrap true >/dev/null
    drain "$1"
    echo "rate $(awk -v n=$n -v ms=$(($(now_ms) - from)) 'BEGIN { printf "%.2f", n * 1000 / ms }')"
}

row 14 real 5 "srun -N1 true"
key p50_ms less ">= 5.5x" "p50 ms"
row_14() { echo "p50_ms $(burst_of "$1" p50_ms -n 10 srun -N1 true)"; }

row 15 real 5 "a step in an allocation"
key p50_ms less ">= 6.5x" "p50 ms"
row_15() {
    local out=$work/step.out deadline=$((SECONDS + 60))
    rm -f "$out" "$out.done"
    on "$1" sbatch -N1 -n1 -o "$work/step.log" --wrap "$work/burst -n 10 srun -n1 true >$out; mv $out $out.done" >/dev/null
    until [ -f "$out.done" ] || [ $SECONDS -gt $deadline ]; do sleep 0.05; done
    awk '{ for (i = 1; i <= NF; i++) if (sub("p50_ms=", "", $i)) print "p50_ms", $i }' "$out.done"
    drain "$1"
}

row 16 real 5 "srun -N16 hostname"
key p50_ms less ">= 7.5x" "p50 ms"
row_16() { echo "p50_ms $(burst_of "$1" p50_ms -n 3 srun -N16 hostname)"; }

row 17 real 3 "srun -N16 -n64 hostname"
key p50_ms less ">= 3.5x" "p50 ms"
row_17() { echo "p50_ms $(burst_of "$1" p50_ms -n 2 srun -N16 -n64 hostname)"; }

row 18 real 5 "sbatch --wait of true"
key p50_ms less ">= 40x" "p50 ms"
row_18() { echo "p50_ms $(burst_of "$1" p50_ms -n 3 sbatch --wait -o /dev/null --wrap true)"; }

row 34 real 1 "memory of a supervisor while its job sleeps"
key private_mib less "< 3 MiB" "its own pages, MiB"
key pss_mib less "< 3 MiB" "with its share of common pages, MiB"
key rss_mib less "" "resident, MiB"
row_34() {
    local id pid deadline=$((SECONDS + 20)) side=$1
    id=$(on "$side" sbatch --parsable -n1 -o /dev/null --wrap 'sleep 600')
    until pid=$("${side}_supervisor" "$id") || [ $SECONDS -gt $deadline ]; do sleep 0.05; done
    sleep 0.5       # it has started its task by then
    [ -z "$pid" ] || awk '{ v[$1] += $2 } END { printf "private_mib %.2f\npss_mib %.2f\nrss_mib %.2f\n", (v["Private_Clean:"] + v["Private_Dirty:"]) / 1024, v["Pss:"] / 1024, v["Rss:"] / 1024 }' \
        "/proc/$pid/smaps_rollup"
    cancel_all "$side"
}

# From the last thing that the script does, a stamp, until squeue has the job no more. The shell's own end and half a round of squeue are in it.
row 36 real 1 "out of COMPLETING after the last process has died, 4 at a time, 200 jobs"
key p50_ms less "" "p50 ms"
key p99_ms less "<= 500" "p99 ms"
row_36() {
    local ends=$work/$1.ends
    rm -f "$ends"
    # shellcheck disable=SC2016
    burst_of "$1" n -n 200 -p 4 -o "$ends" sh -c 'id=$(sbatch --parsable -n1 -o /dev/null --wrap "date +%s%N >$1") && until [ -s "$1" ] && [ -z "$(squeue -h -j $id -o %i 2>/dev/null)" ]; do :; done
        echo $(($(date +%s%N) - $(cat "$1")))' ends "$work/$1.end.{}" >/dev/null
    sort -n "$ends" | awk '{ v[NR] = $1 / 1e6 } END { if (NR) printf "p50_ms %.1f\np99_ms %.1f\n", v[int((NR - 1) * 0.5 + 0.5) + 1], v[int((NR - 1) * 0.99 + 0.5) + 1] }'
    rm -f "$work/$1".end.*
}

# ---- a deep queue ----

# Fills the queue: one job takes every node, all others wait for it. Slices, so that no single run is long.
deep_fill() {
    local side=$1 left=$depth
    status_kib "$("${side}_pid" controller)" VmRSS >"$work/$side.empty_kib"
    on "$side" sbatch -N16 --exclusive -t 600 -o /dev/null --wrap 'sleep 36000' >/dev/null
    while [ "$left" -gt 0 ]; do
        burst_of "$side" n -n $((left < 1000 ? left : 1000)) -p 8 sbatch -n1 -t 60 -J deep -o /dev/null --wrap true >/dev/null
        left=$((left - 1000))
    done
}

row 23 deep 1 "controller memory for each 1,000 pending jobs"
key mib less "<= 0.7, >= 5x" "MiB per 1,000"
row_23() { echo "mib $(minus "$(status_kib "$("$1_pid" controller)" VmRSS)" "$(cat "$work/$1.empty_kib")" "$(awk -v d="$depth" 'BEGIN { print 1.024 * d }')")"; }

row 30 deep 1 "controller CPU when nothing can start and nothing changes"
key percent less "<= 3 %" "% of a core, over 10 s"
row_30() {
    local pid before
    pid=$("$1_pid" controller)
    before=$(cpu_ms "$pid")
    sleep 10
    echo "percent $(minus "$(cpu_ms "$pid")" "$before" 100)"
}

row 9 deep 5 "squeue of the deep queue"
key p50_ms less ">= 10x" "p50 ms"
key rss_mib less "<= 8 MiB, >= 3x" "resident MiB"
row_9() {
    set -- "$1" $(burst_of "$1" "p50_ms rss_kib" -n 5 squeue)
    printf 'p50_ms %s\nrss_mib %s\n' "$2" "$(minus "$3" 0 1024)"
}

row 10 deep 5 'squeue -o "%i %T" of the deep queue'
key p50_ms less ">= 12x" "p50 ms"
row_10() { echo "p50_ms $(burst_of "$1" p50_ms -n 5 squeue -o '%i %T')"; }

row 11 deep 5 "scontrol show job of the deep queue"
key p50_ms less ">= 8x" "p50 ms"
row_11() { echo "p50_ms $(burst_of "$1" p50_ms -n 5 scontrol show job)"; }

row 12 deep 5 "squeue of the deep queue, 8 at a time"
key p50_ms less ">= 9x" "p50 ms"
row_12() { echo "p50_ms $(burst_of "$1" p50_ms -n 16 -p 8 squeue)"; }

row 13 deep 1 "scancel of the deep queue"
key ms less ">= 80x" "ms"
key controller_cpu_ms less "" "controller CPU ms"
row_13() {
    local pid before
    pid=$("$1_pid" controller)
    before=$(cpu_ms "$pid")
    echo "ms $(burst_of "$1" p50_ms scancel -n deep -u "$(id -un)")"
    echo "controller_cpu_ms $(minus "$(cpu_ms "$pid")" "$before")"
}

# ---- the controller goes away ----

row 22 kills 5 "restart of one controller, a small queue, until it answers squeue"
key ms less "<= 150, >= 8x" "ms after kill -9"
row_22() {
    local from side=$1
    burst_of "$side" n -n 20 sbatch -H -o /dev/null --wrap true >/dev/null
    # The reference writes its queue within 5 s; it is not asked for what it never wrote.
    [ "$side" = spur ] || sleep 6
    "${side}_kill"
    from=$(now_ms)
    "${side}_start"
    "${side}_back"
    echo "ms $(($(now_ms) - from))"
    cancel_all "$side"
}

row 21 kills 3 "kill -9 amid submits, 8 at a time"
key acknowledged more "" "submits acknowledged"
key lost less "0" "of them lost"
key doubled less "0" "submitted once, there twice"
row_21() {
    local side=$1 acks=$work/$1.acks
    rm -f "$acks"
    # shellcheck disable=SC2016
    (burst_of "$side" n -n 100000 -p 8 -s 6 -o "$acks" timeout 5 sh -c 'id=$(sbatch --parsable -H -J "$1" -o /dev/null --wrap true 2>/dev/null) && echo "$id $1"' submit 'b{}' >/dev/null 2>&1) &
    local submits=$!
    sleep 5.5
    "${side}_kill"
    cp "$acks" "$acks.then"
    sleep 0.5
    "${side}_start"
    until on "$side" squeue -h >/dev/null 2>&1; do sleep 0.02; done
    wait $submits
    on "$side" squeue -h -o '%i %j' >"$work/$side.there"
    awk -v there="$work/$side.there" -v acks="$acks" 'BEGIN {
        while ((getline l < there) > 0) { have[l] = 1; split(l, p, " "); names[p[2]]++ }
        while ((getline l < acks) > 0) { n++; if (!(l in have)) lost++ }
        for (k in names) doubled += names[k] > 1
        printf "acknowledged %d\nlost %d\ndoubled %d\n", n, lost, doubled }'
    cancel_all "$side"
}

# Of spur alone: the reference's backup needs a host of its own.
# takeover SIDE COMMAND...: kill -9 of the leader, then the command again and again until it is taken; the milliseconds that took. The dead one comes back.
takeover() {
    local side=$1 from took
    shift
    "${side}_kill"
    from=$(now_ms)
    until on "$side" timeout 60 "$@" >/dev/null 2>&1; do sleep 0.005; done
    took=$(($(now_ms) - from))
    "${side}_start"
    "${side}_back"
    echo $took
}

row 19 takeover 5 "takeover: kill -9 of the leader until a submit is accepted (200 kills: tests/bench/failover)"
key ms less ">= 5x" "ms"
row_19() {
    [ "$controllers" -ge 3 ] || return 0
    echo "ms $(takeover "$1" sbatch -H -o /dev/null --wrap true)"
    cancel_all "$1"
}

row 20 takeover 5 "takeover: until a new job has run"
key ms less "<= 1200, >= 10x" "ms"
row_20() {
    local mark=$work/$1.ran
    [ "$controllers" -ge 3 ] || return 0
    rm -f "$mark"
    # shellcheck disable=SC2016
    echo "ms $(takeover "$1" sh -c 'sbatch -o /dev/null --wrap "touch $1" && until [ -e "$1" ]; do sleep 0.005; done' takeover "$mark")"
    drain "$1"
}

# ---- many nodes ----

row 26 wide 5 "sinfo and scontrol show node with many nodes"
key sinfo_ms less ">= 4x" "sinfo, p50 ms"
key sinfo_N_ms less "" "sinfo -N, p50 ms"
key nodes_ms less ">= 3x" "scontrol show node, p50 ms"
row_26() {
    echo "sinfo_ms $(burst_of "$1" p50_ms -n 10 sinfo)"
    echo "sinfo_N_ms $(burst_of "$1" p50_ms -n 10 sinfo -N)"
    echo "nodes_ms $(burst_of "$1" p50_ms -n 10 scontrol show node)"
}

row 31 wide 3 "sbatch with many nodes, 8 at a time"
key rate more ">= 18x at 10,000" "submits/s"
key controller_cpu_ms less "" "controller CPU ms a submit"
row_31() {
    local pid before
    pid=$("$1_pid" controller)
    before=$(cpu_ms "$pid")
    echo "rate $(burst_of "$1" rate -n 300 -p 8 sbatch -H -o /dev/null --wrap true)"
    echo "controller_cpu_ms $(minus "$(cpu_ms "$pid")" "$before" 300)"
    cancel_all "$1"
}

row 33 wide 1 "controller memory, many idle nodes"
key mib less "" "resident MiB"
row_33() { echo "mib $(minus "$(status_kib "$("$1_pid" controller)" VmRSS)" 0 1024)"; }

# Of spur alone: no daemon stands behind the reference's nodes here.
row 35 wide 3 "a launch on every node: one array, a node a task, until all have started"
key controller_cpu_s less "< 1 s per 1,000" "controller CPU s per 1,000 launches"
key seconds less "" "seconds"
row_35() {
    local pid before from deadline=$((SECONDS + 100)) side=$1
    [ "$side" = spur ] || return 0
    pid=$("${side}_pid" controller)
    before=$(cpu_ms "$pid")
    from=$(now_ms)
    on "$side" sbatch --array=1-"$wide" -N1 --exclusive --comment='EMULATE: seconds=600' -o /dev/null --wrap true >/dev/null
    until [ -z "$(on "$side" sinfo -h -t idle -o %D)" ] || [ $SECONDS -gt $deadline ]; do sleep 0.1; done
    echo "seconds $(minus "$(now_ms)" "$from" 1000)"
    sleep 1         # what the agents report of the starts
    echo "controller_cpu_s $(minus "$(cpu_ms "$pid")" "$before" "$wide")"
    cancel_all "$side"
}

# ---- many nodes with agents of their own: of spur alone ----

row 40 agents 5 "MPI: fences of 1,024 ranks on 128 nodes with real supervisors, PMI-1, 200 bytes a rank, 10 fences a step"
key median_ms less "< 1000" "a fence, median, ms"
key worst_ms less "" "a fence, longest, ms"
key step_ms less "" "the whole step, ms"
row_40() {
    local from lib=$prefix/lib/spur/compat
    [ -x "$work/fence" ] || ${CC:-cc} -O2 -I"$prefix/include/spur-compat" "$here/../compat/libpmi.c" -o "$work/fence" -L"$lib" -lpmi -lpmi2 -lpthread || return
    from=$(now_ms)
    on "$1" env LD_LIBRARY_PATH="$lib" srun -N128 -n1024 --mpi=pmi2 "$work/fence" fence 10 200 2>>"$work/errors" | sed -n 's/^fence .*: \(.*\) ms$/\1/p' | sort -n |
        awk '{ v[NR] = $1 } END { if (NR) printf "median_ms %s\nworst_ms %s\n", v[int((NR + 1) / 2)], v[NR] }'
    echo "step_ms $(($(now_ms) - from))"
}
