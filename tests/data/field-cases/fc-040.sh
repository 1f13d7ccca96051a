# fc-040  area: exit code
# what must hold stands in tests/compat/t-field-cases; run in an empty directory
for x in 'exit 0' 'exit 1' 'exit 255' 'exit 256' nosuchcmd 'srun sh -c "exit 3"' 'kill -9 $$' 'kill -TERM $$' 'srun sh -c "kill -9 \$\$"'; do sbatch --wait --wrap "$x"; echo rc=$?; done
