# fc-103  area: job id
# what must hold stands in tests/compat/t-field-cases; run in an empty directory, on a cluster with FirstJobId=67043320 MaxJobId=67043328 MinJobAge=2
tries=0; n=0
while [ $n -lt 14 ] && [ $tries -lt 300 ]; do
    tries=$((tries + 1))
    if j=$(sbatch --parsable -J "j$n" -o /dev/null --wrap 'exit 3' 2>err); then n=$((n + 1)); squeue -h -t all -j $j -o '%A %j %T'; else sleep 0.1; fi
done
cat err
