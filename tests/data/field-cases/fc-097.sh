# fc-097  area: pending reason
# what must hold stands in tests/compat/t-field-cases; run in an empty directory as a user who may submit
sbatch --mem=999999 --wrap true; sbatch -H --wrap true; sbatch -b now+1hour --wrap true; sbatch -d singleton -J a --wrap 'sleep 30'; sbatch -d singleton -J a --wrap true; sbatch --exclusive --wrap true; sleep 5; squeue -h -t PD -o '%i %r'
