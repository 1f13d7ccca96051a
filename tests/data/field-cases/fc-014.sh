# fc-014  area: time format
# what must hold stands in tests/compat/t-field-cases; run in an empty directory as a user who may submit
j=$(sbatch --parsable -H -t 0 --wrap true); squeue -h -j $j -o '%l|%L|%M'; squeue -j $j --json | head -c 300
