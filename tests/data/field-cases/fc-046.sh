# fc-046  area: exit code
# what must hold stands in tests/compat/t-field-cases; run in an empty directory
squeue -h -j 99999999; echo rc=$?; j=$(sbatch --parsable -H --wrap true); squeue -h -j $j,99999999; echo rc=$?; scontrol show job 99999999; echo rc=$?
