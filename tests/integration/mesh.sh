# SPDX-License-Identifier: Apache-2.0
# mesh.sh - four hosts in network namespaces for t-mesh and t-mesh-jobs: n0 the controller, n1 to n3 nodes with SwitchType=switch/wireguard. Sourced after
# lib.sh. `on HOST COMMAND...` runs there; `start N`, `stop N`, `control`; mesh_options: more lines of the plugin's configuration. Skips (77) without root,
# /dev/net/tun or wireguard-go.
node=${SPUR_BUILD:?}/tests/integration/mesh_node
[ "$(id -u)" = 0 ] || { echo "only root can make network namespaces"; exit 77; }
[ -x "$node" ] || make -s -C "$SPUR_BUILD" tests/integration/mesh_node >/dev/null 2>&1
[ -x "$node" ] && [ -e "$prefix/lib/spur/plugins/switch_wireguard.so" ] || { echo "this build has no switch/wireguard (libmnl)"; exit 77; }
[ -c /dev/net/tun ] && command -v wireguard-go >/dev/null || { echo "no /dev/net/tun or no wireguard-go here"; exit 77; }
tag=$$
ip netns add "m$tag-9" 2>/dev/null || { echo "this machine lets nobody make network namespaces"; exit 77; }
declare -A pid
gone() {
    exec 2>/dev/null
    local i p
    for i in 9 0 1 2 3; do for p in $(ip netns pids "m$tag-$i" 2>/dev/null); do kill -9 "$p" 2>/dev/null; done; done
    for i in 9 0 1 2 3; do
        until_true 10 eval '[ -z "$(ip netns pids "m$tag-$i" 2>/dev/null)" ]'
        ip netns del "m$tag-$i" 2>/dev/null
        rm -f "/var/run/wireguard/mw$tag-$i.sock"
    done
    cleanup
}
trap gone EXIT
ip -n "m$tag-9" link add br0 type bridge && ip -n "m$tag-9" link set br0 up
for i in 0 1 2 3; do
    ip netns add "m$tag-$i"
    ip link add "v$tag-$i" netns "m$tag-$i" type veth peer name "p$i" netns "m$tag-9"
    ip -n "m$tag-9" link set "p$i" master br0 up
    ip -n "m$tag-$i" addr add "192.0.2.1$i/24" dev "v$tag-$i"
    ip -n "m$tag-$i" link set "v$tag-$i" up
    ip -n "m$tag-$i" link set lo up
    mkdir -p "$work/run$i" "$work/$i"
    cat >"$work/$i/slurm.conf" <<END
ClusterName=meshed
SlurmctldHost=n0(192.0.2.10)
SlurmUser=root
AuthType=auth/sodium
SwitchType=switch/wireguard
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool/%n
SlurmctldLogFile=$work/ctl.log
SlurmdLogFile=$work/n$i.log
SlurmctldPidFile=$work/run$i/ctl.pid
SlurmdPidFile=$work/run$i/d.pid
SlurmdTimeout=30
KillWait=1
NodeName=n1 NodeAddr=192.0.2.11 CPUs=2 RealMemory=64
NodeName=n2 NodeAddr=192.0.2.12 CPUs=2 RealMemory=64
NodeName=n3 NodeAddr=192.0.2.13 CPUs=2 RealMemory=64
PartitionName=main Nodes=ALL Default=YES MaxTime=60
END
    cat >"$work/$i/spur.conf" <<END
run_dir = "$work/run$i"
plugin "auth/sodium" { key_dir = "$work/keys/n$i" }
plugin "switch/wireguard" {
    prefix = "10.77.0.0/16"
    interface = "mw$tag-$i"
    keepalive = 1
    set_ifname = yes
    ${mesh_options:-}
}
END
done
is "keys" "$(spur cluster init --dir "$work/keys" --controllers n0 --nodes 'n[1-3]' >/dev/null; echo $?)" 0
# on HOST COMMAND...: there, with its files.
on() { local i=$1; shift; (cd "$work" && SLURM_CONF=$work/$i/slurm.conf exec ip netns exec "m$tag-$i" "$@"); }
daemon_on() { (cd "$work" && SLURM_CONF=$work/$1/slurm.conf exec ip netns exec "m$tag-$1" "$prefix/sbin/$2" -D -N "n$1" >>"$work/n$1.out" 2>&1) & pid[$1]=$!; }
start() { daemon_on "$1" spurd; }
control() { daemon_on 0 spurctld; }
stop() { kill "${pid[$1]}"; wait "${pid[$1]}"; }
control
for i in 1 2 3; do start $i; done
idle() { [ "$(on 0 sinfo -h -N -t idle -o %N | wc -l)" = 3 ]; }
