# fc-024  area: dependency
# what must hold stands in tests/compat/t-field-cases; run in an empty directory
p=$(sbatch --parsable -a 0-2 --wrap true); sbatch -d afterok:$p --wrap 'echo child'; sbatch -d aftercorr:$p -a 0-2 --wrap 'echo $SLURM_ARRAY_TASK_ID'
