# fc-009  area: hostlist
# what must hold stands in tests/compat/t-field-cases; run in an empty directory
sbatch -N2 -o hl.out --wrap 'scontrol show hostnames | wc -l'   # 2
env -u SLURM_JOB_NODELIST -u SLURM_NODELIST scontrol show hostnames; echo rc=$?
printf 'n1,n2\nn3\n' | scontrol show hostlist -
