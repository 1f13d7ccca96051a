# SPDX-License-Identifier: Apache-2.0
# wireguard.sh - switch/wireguard on the kernel's own device: two hosts in network namespaces, TCP through the mesh, a new key and a peer that goes under
# a connection, more peers than fit into one message.
mkdir -p /run/netns /var/run
[ -x /bin/mesh_node ] || { echo "# this build has no switch/wireguard"; exit 0; }
if ! { ip netns add a && ip netns add b && ip link add va netns a type veth peer name vb netns b; } 2>/tmp/e; then
    echo "not ok wireguard: two hosts in namespaces"; sed 's/^/    /' /tmp/e; exit 0
fi
for h in a b; do
    [ $h = a ] && n=1 || n=2
    ip -n $h link set lo up
    ip -n $h addr add 192.0.2.$n/24 dev v$h
    ip -n $h link set v$h up
    mkdir -m 700 /tmp/key$n
    mkfifo /tmp/in$n
    : >/tmp/out$n
    MESH_NODE_DEVICE=kernel ip netns exec $h mesh_node /tmp/key$n wg$n 51871 10.77.0.0/16 </tmp/in$n >/tmp/out$n 2>&1 &
done
exec 5>/tmp/in1 6>/tmp/in2
# say N COMMAND...: its answer
say() {
    local n=$1 had i=0
    shift
    had=$(wc -l </tmp/out$n)
    if [ "$n" = 1 ]; then echo "$*" >&5; else echo "$*" >&6; fi
    until [ "$(wc -l </tmp/out$n)" -gt "$had" ]; do
        i=$((i + 1))
        [ $i -lt 600 ] || { echo "no answer"; return; }
        sleep 0.1
    done
    sed -n "$((had + 1))p" /tmp/out$n
}
is() { if [ "$2" = "$3" ]; then echo "ok wireguard: $1"; else echo "not ok wireguard: $1"; printf '    got:      %s\n    expected: %s\n' "$2" "$3"; fi; }
key1=$(say 1 up)
key2=$(say 2 up)
is "each makes a key and the kernel's interface" "${#key1} ${#key2} $(say 1 status | sed 's/:.*//')" "64 64 wg1 (kernel)"
row1="n1,$key1,192.0.2.1:51871,10.77.0.1" row2="n2,$key2,192.0.2.2:51871,10.77.0.2"
is "the first has its peer" "$(say 1 peers $row1 $row2)" ok
is "and the second" "$(say 2 peers $row1 $row2)" ok
is "it has its address" "$(ip -n b -o addr show wg2 | grep -c 'inet 10.77.0.2/16')" 1
is "one listens in the mesh" "$(say 2 serve 10.77.0.2 7000)" ok
is "the other gets through" "$(say 1 dial 10.77.0.2 7000)" ok
is "bytes come back" "$(say 1 echo 200000)" ok
is "the peer was heard, and bytes counted" "$(say 1 peer 0 | awk '{ print $1, $2, ($3 >= 0 && $3 < 180), ($4 > 200000), ($5 > 200000) }')" "n2 10.77.0.2 1 1 1"
key2=$(say 2 rotate)
row2="n2,$key2,192.0.2.2:51871,10.77.0.2"
is "the first takes the new key" "$(say 1 peers $row1 $row2)" ok
is "the connection goes on" "$(say 1 echo 50000)" ok
is "an address outside the prefix is refused" "$(say 1 peers $row1 n2,$key2,192.0.2.2:51871,10.78.0.2 | grep -c 'outside the prefix')" 1
is "and changes nothing" "$(say 1 echo 1000)" ok
is "a peer that goes" "$(say 1 peers $row1) $(say 1 status | sed 's/,.*//')" "ok wg1 (kernel): 0 peers"
is "1,000 peers, in several messages" "$(say 1 many 1000) $(say 1 status | sed 's/,.*//')" "ok wg1 (kernel): 1000 peers"
is "the last of them" "$(say 1 peer 999 | cut -d' ' -f1,2)" "x999 10.77.4.250"
is "its own end takes the interface along" "$(say 1 end down) $(i=0; while ip -n a link show wg1 >/dev/null 2>&1 && [ $i -lt 100 ]; do i=$((i + 1)); sleep 0.1; done; ip -n a link show wg1 >/dev/null 2>&1 && echo there || echo gone)" "ok gone"
echo end >&6
