# fc-016  area: begin time
# what must hold stands in tests/compat/t-field-cases; run in an empty directory
for b in now now+60 now+1hour now+1day midnight noon teatime tomorrow 16:00 2027-03-28 03/28/27 010127 2027-13-01 yesterday now+1fortnight now+10000000000; do sbatch --parsable -H -b $b --wrap true; done
