# fc-067  area: memory unit
# what must hold stands in tests/compat/t-field-cases; run in an empty directory
sbatch -H --mem=1G --mem-per-cpu=1G --wrap true; echo rc=$?; sbatch --mem=200M -o mm.out --wrap 'srun --mem-per-cpu=50M true; echo rc=$?'; sleep 3; cat mm.out
