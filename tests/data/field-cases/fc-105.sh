# fc-105  area: unicode
# what must hold stands in tests/compat/t-field-cases; run in an empty directory as a user who may submit
for n in 'für-μ-日本' $(printf 'bad\377\376'); do sbatch -H -J "$n" --wrap true; done; LANG=C squeue -o '%i|%j|%.8j|'; squeue --json >q.json; printf '#!/bin/sh\n# f\374r\nexit 0\n' | sbatch
