# $1: the probe's folder; $2: script.kill.sh; stdin: a pipe that only the probe's shell holds open for writing. Its lines say
# which process group runs; at its end without `done`, that shell was killed, and all in its folder may be gone. A process id is
# killed too, for a test that has not yet made its session.

trap "" HUP INT TERM
group=
while read -r line; do
  [ "$line" != "done" ] || exit 0
  group=$line
done
[ -z "$group" ] || kill -KILL "-$group" "$group"
sh -c "$2" sh "$1/*/pipe" none
rm -rf "$1"
