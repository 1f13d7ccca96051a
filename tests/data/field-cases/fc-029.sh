# fc-029  area: environment
# what must hold stands in tests/compat/t-field-cases; run in an empty directory
FOO=bar BAZ='a,b' sbatch -o e1 --export=ALL,FOO=y --wrap 'echo $FOO $BAZ'; sbatch -o e2 --export=FOO=a=b --wrap 'echo $FOO ${PATH:+set}'
