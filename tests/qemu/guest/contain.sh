# SPDX-License-Identifier: Apache-2.0
# contain.sh - contain/cgroup on version 2, in a kernel of its own: every limit, the freezer, the kill.
mkdir -p /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup || echo "not ok contain: cgroup2 can be mounted"
grep -q memory /sys/fs/cgroup/cgroup.controllers || echo "# controllers: $(cat /sys/fs/cgroup/cgroup.controllers)"
said() { echo "$out" | grep -qx "$1"; }
check() { if said "$2"; then echo "ok contain: $1"; else echo "not ok contain: $1"; echo "$out" | sed 's/^/    /'; fi; }

out=$(conform_contain -t 120 contain/cgroup 2>&1)
if echo "$out" | grep -q '^contain: .* 0 failed$' && ! echo "$out" | grep -q 'skipped *holds'; then echo "ok contain: the contract of its kind"; else
    echo "not ok contain: the contract of its kind"; echo "$out" | sed 's/^/    /'; fi

out=$(box --cpus 1 sh -c 'grep Cpus_allowed_list /proc/self/status')
check "a step has the CPUs that it was given" "Cpus_allowed_list:	1"
out=$(box --memory 20971520 --swap 20971520 sh -c 'x=$(head -c 60000000 /dev/zero | tr "\0" x); echo "got ${#x}"')
if said 'oom 0' || said 'got 60000000'; then echo "not ok contain: who takes more memory is killed, and it is told"; echo "$out"; else echo "ok contain: who takes more memory is killed, and it is told"; fi
out=$(box --memory 52428800 sh -c 'echo fine')
check "a step within its memory is left alone" "oom 0"
out=$(box --pids 5 sh -c 'n=0; for i in 1 2 3 4 5 6 7 8; do sleep 1000 & done 2>/dev/null; echo forked' 2>/dev/null; echo end)
if said forked; then echo "not ok contain: a step has no more processes than it may"; else echo "ok contain: a step has no more processes than it may"; fi
out=$(box --pids 50 sh -c 'sleep 1000 & sleep 1000 & echo forked')
check "a step may have several" forked
check "what it leaves is killed" "left 0"

# devices: 1:3 null, 1:5 zero, 1:8 random; 5:0 is of another major
out=$(box --deny 1:5 sh -c 'head -c 1 /dev/zero >/dev/null 2>&1 || echo denied')
check "a device that is denied cannot be opened" denied
out=$(box --deny 1:5 sh -c 'head -c 1 /dev/random >&2 2>/dev/null || echo denied')
check "nor another of its major that no row allows" denied
out=$(box --deny 1:5 --allow 1:8 --allow 1:3 sh -c 'head -c 1 /dev/random >/dev/null && echo opened')
check "a device that is allowed can be opened" opened
out=$(box --deny 195:0 sh -c 'head -c 1 /dev/zero >/dev/null && echo opened')
check "other majors are left alone" opened
out=$(box --deny 195:0 --allow 195:1 sh -c 'mknod /tmp/n0 c 195 0; mknod /tmp/n1 c 195 1; (: </tmp/n0) 2>/tmp/e0; (: </tmp/n1) 2>/tmp/e1; cat /tmp/e0 /tmp/e1')
echo "$out" | grep -qE 'n0.*(not permitted|no such file)' && echo "$out" | grep -q 'n1.*No such device' && echo "ok contain: a device file of one's own making opens no more" || {
    echo "not ok contain: a device file of one's own making opens no more"; echo "$out" | sed 's/^/    /'; }

out=$(box --freeze 300 sh -c 'while :; do echo x; sleep 0.01; done')
check "what is frozen writes nothing" "frozen 0"
check "and goes on after" thawed
out=$(box --end sh -c 'trap "" TERM; (setsid sh -c "trap \"\" TERM; sleep 1000" &); echo x; while :; do sleep 1000; done')
check "setsid does not outlive the kill" "left 0"
[ ! -e /sys/fs/cgroup/spur_box ] && echo "ok contain: nothing is left in the tree" || { echo "not ok contain: nothing is left in the tree"; find /sys/fs/cgroup/spur_box -type d; }
