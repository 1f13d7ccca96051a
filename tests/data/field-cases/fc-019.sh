# fc-019  area: array
# what must hold stands in tests/compat/t-field-cases; run in an empty directory
sbatch --parsable -H -a '0-15%4' --wrap true; sbatch --parsable -H -a '1-7:2' --wrap true; sbatch --parsable -H -a '1-10%0' --wrap true; squeue -h -o '%i %F %K'
