# fc-012  area: time format
# what must hold stands in tests/compat/t-field-cases; run in an empty directory
for t in 3600.0 abc 1d 1h ' 10' +10 1:2:3:4 1-2-3 ''; do sbatch -H -t "$t" --wrap true; echo rc=$?; done
