# On the node of a job that Slurm could not start: why its output cannot be written there. Says nothing if it can.
: "${prefix?}" "${folder?}"

file="$folder/.asked-$$"
if [ ! -d "$prefix" ]; then
  echo "$prefix is not there"
elif [ ! -d "$folder" ]; then
  echo "$folder is not there"
elif ! why=$( (LC_ALL=C; export LC_ALL; echo >"$file") 2>&1); then
  echo "cannot write $folder: ${why##*: }"
else
  rm -f "$file"
fi
echo asked
