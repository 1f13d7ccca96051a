# fc-115  area: long lists
# what must hold stands in tests/compat/t-field-cases; run in an empty directory as a user who may submit
squeue -h -j $(seq -s, 1 20000) -o %i; echo rc=$?; scontrol show node $(seq -s, -f n%g 1 5000) | head -1
