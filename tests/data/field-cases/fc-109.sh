# fc-109  area: script text
# what must hold stands in tests/compat/t-field-cases; run in an empty directory
printf '#!/bin/sh\r\necho hi\r\n' > a.sh; printf '\n#!/bin/sh\n' > b.sh; printf 'echo hi\n' > c.sh; : > d.sh; printf '  #!/bin/sh\n' > e.sh; for f in a b c d e; do sbatch $f.sh; echo rc=$?; done
