# fc-026  area: dependency
# what must hold stands in tests/compat/t-field-cases; run in an empty directory
sbatch -d afterok:99999999 --wrap true; echo rc=$?; sbatch -d afternotok:99999999 --wrap true; echo rc=$?
