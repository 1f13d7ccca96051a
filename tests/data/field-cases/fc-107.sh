# fc-107  area: long lines
# what must hold stands in tests/compat/t-field-cases; run in an empty directory
d=$(for i in $(seq 300); do sbatch --parsable -H --wrap true; done | paste -sd:); printf '#!/bin/sh\n#SBATCH -d afterany:%s\nexit 0\n' $d > dep.sh; j=$(sbatch --parsable dep.sh); squeue -h -j $j -o %E | tr , '\n' | wc -l   # 300
