# fc-005  area: hostlist
# what must hold stands in tests/compat/t-field-cases; run in an empty directory
for h in 'n]1[' 'n[1-' 'n[1-2' 'n[1-3]]' 'n[]' 'n[-1]' 'n[a-b]' 'n[3-1]'; do scontrol show hostnames "$h"; echo rc=$?; done
