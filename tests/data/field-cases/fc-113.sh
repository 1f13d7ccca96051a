# fc-113  area: squeue format
# what must hold stands in tests/compat/t-field-cases; run in an empty directory
j=$(sbatch --parsable -H -J abcdefghij -t 90 --wrap true); for f in '%.3j|' '%.10i|' '%10i|' '%-5i|' '%Q %p' '%b|%D|%C|%m' '%t %T %r'; do squeue -h -j $j -o "$f"; done; squeue -h -j $j -O 'jobid:8,name:4|,timelimit:.12'; squeue -h -j $j -O 'jobid:|,account:|,state:|'; squeue -h -j $j -O nosuch; echo rc=$?
