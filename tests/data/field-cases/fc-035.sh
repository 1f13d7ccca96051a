# fc-035  area: arguments
# what must hold stands in tests/compat/t-field-cases; run in an empty directory
printf '#!/bin/sh\necho "n=$# [$1] [$2] [$3]"\n' > ar.sh; sbatch -o ar.out ar.sh 'a b' '' '$HOME;id'; srun sh -c 'echo "[$1]"' x 'q"uo te$X`id`'
