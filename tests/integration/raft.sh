# SPDX-License-Identifier: Apache-2.0
# raft.sh - for tests with several controllers: clients that note what they were told, moments of faults, and the check at the end. Sourced after lib.sh.
# Use: clients ARGS of `history run`; `fault KIND`...; clients_end; history_holds NAME.
hist=$work/hist
"${CC:-cc}" -O1 -w -o "$work/history" "$source_dir/tests/integration/history.c" || exit 1
history() { local verb=$1; shift; "$work/history" "$verb" "$hist" "$@"; }
clients_process=
clients() { : >>"$hist"; history run "$@" & clients_process=$!; }
clients_end() { touch "$hist.stop"; wait "$clients_process"; clients_process=; rm -f "$hist.stop"; }
raft_cleanup() {
    local p
    touch "$hist.stop"
    for p in $(pgrep -f -- "$SPUR_SANDBOX/etc/"); do kill -CONT "$p"; done 2>/dev/null      # what is stopped does not hear the end
    [ -z "$clients_process" ] || wait "$clients_process"
    cleanup
}
trap raft_cleanup EXIT

leader() { spur sandbox leader --dir "$SPUR_SANDBOX" 2>/dev/null; }
has_leader() { [ -n "$(leader)" ]; }
leads() { [ "$(leader)" = "$1" ]; }
other_leads() { local l; l=$(leader); [ -n "$l" ] && [ "$l" != "$1" ]; }
gone() { [ -z "$(daemon "$1")" ]; }
answers() { grep -c '^R [^ ]* [0-9]* 0 ' "$hist"; }
# refusals: exit statuses of the submits that failed, how often each, and what the first said.
refusals() { local n; n=$(grep -c '^R [^ ]* [0-9]* [1-9]' "$hist"); [ "$n" = 0 ] || echo "$n failed: $(head -2 "$hist.errors" | tr '\n' ' ')"; }
# answered N: so many more acknowledged submits than when `answered_from` was set.
answered_from=0
answered() { [ $(($(answers) - answered_from)) -ge "$1" ]; }
# controllers_say: one line for each controller that answers: its role and the entry it stands at.
controllers_say() { spur sandbox status --dir "$SPUR_SANDBOX" | sed -n 's/^  daemon \(ctl[0-9]*\) *runs, \([a-z]*\), at entry \([0-9]*\)$/\1 \2 \3/p'; }
# serve N: N controllers answer, one leads and the others follow.
serve() { [ "$(controllers_say | awk '{ print $2 }' | sort | uniq -c | tr -s ' \n' ' ')" = " $(($1 - 1)) follower 1 leader " ]; }
# level N, when nobody submits: N controllers answer, all stand at the same entry, one of them leads.
level() {
    local said
    said=$(controllers_say)
    [ "$(wc -l <<<"$said") $(awk '{ print $3 }' <<<"$said" | sort -u | wc -l) $(grep -c ' leader ' <<<"$said")" = "$1 1 1" ]
}
# none_down: no node is counted as lost. (idle* is no loss: its agent has not found the new leader yet.)
none_down() { [ -z "$(sinfo -h -N -o '%N %T' | grep -E 'down|fail|unk')" ]; }
# history_holds NAME: all that the clients were told is true.
history_holds() {
    local out
    until_true 20 has_leader
    squeue -h -r -t all -o '%F %A %K %j' >"$work/queue" 2>"$work/queue.err"
    if out=$(history check "$work/queue"); then ok "$1 ($out)"; else not_ok "$1" "$out" "$(head -3 "$work/queue.err")"; fi
}
