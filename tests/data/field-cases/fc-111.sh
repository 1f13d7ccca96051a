# fc-111  area: squeue format
# what must hold stands in tests/compat/t-field-cases; run in an empty directory as a user who may submit
j=$(sbatch --parsable -H -J bk --comment 'c o' --wrap true); squeue --name=bk --noheader --format=%k,%A; scancel --name=bk; squeue -h --name=bk | wc -l
