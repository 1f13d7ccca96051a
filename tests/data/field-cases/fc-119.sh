# fc-119  area: steps
# what must hold stands in tests/compat/t-field-cases; run in an empty directory
sbatch -n2 --mem=400M -o st.out --wrap 'date +%s; for i in 1 2; do srun -n1 --exact --mem=100M sleep 5 & done; wait; date +%s'   # about 5 s apart, not 10
