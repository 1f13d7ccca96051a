# fc-121  area: layout
# what must hold stands in tests/compat/t-field-cases; run in an empty directory
sbatch -N2 --ntasks-per-node=1 -c 2 -n 2 -o ly.out --wrap 'srun hostname | sort | uniq -c'
