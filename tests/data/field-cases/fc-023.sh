# fc-023  area: array
# what must hold stands in tests/compat/t-field-cases; run in an empty directory
sbatch -a 3-4 -o '%A_%a.out' --wrap 'env | grep SLURM_ARRAY | sort'
