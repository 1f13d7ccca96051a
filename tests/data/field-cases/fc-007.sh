# fc-007  area: hostlist
# what must hold stands in tests/compat/t-field-cases; run in an empty directory
scontrol show hostnames 'node[0001-0003]-int'
