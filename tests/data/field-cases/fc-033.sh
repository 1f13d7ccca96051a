# fc-033  area: environment
# what must hold stands in tests/compat/t-field-cases; run in an empty directory
srun -c1 sh -c 'sbatch -c2 -o in.out --wrap "nproc; env | grep -E ^SLURM_\(CPU_BIND\|STEP\|PROCID\)"'
