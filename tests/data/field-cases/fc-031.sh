# fc-031  area: environment
# what must hold stands in tests/compat/t-field-cases; run in an empty directory as a user who may submit
FOO=1 sbatch --export=NONE -o en --wrap 'echo $SLURM_EXPORT_ENV; export BAR=2; srun sh -c "echo [\$BAR]"; srun --export=ALL sh -c "echo [\$BAR]"'
