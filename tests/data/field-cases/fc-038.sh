# fc-038  area: output pattern
# what must hold stands in tests/compat/t-field-cases; run in an empty directory
sbatch -o 'newdir/sub/%j.out' --wrap 'echo hi'; sleep 2; ls newdir/sub; sbatch -o '/proc/nope/%j' --wrap true; sleep 2; scontrol show job | grep -E 'Reason|StdOut'
