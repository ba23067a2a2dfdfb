# shellcheck shell=sh
# Devices and links that every program may want, and how much shared memory there is. What is mounted read-only of the places that Slurm
# and users write to, by a file that no mount can hang.

for places_name in /dev/fd /dev/stdin /dev/stdout /dev/stderr /dev/ptmx /dev/full /dev/random; do
  [ -e "$places_name" ] || [ -L "$places_name" ] || printf '%s\n' "$places_name"
done | lines places.devices
[ -r /proc/self/stat ] || put places.proc "not mounted"
places_size=$(df -P -k /dev/shm 2>/dev/null | sed -n '2s/^[^ ]* *\([0-9]*\) .*/\1/p')
[ -z "$places_size" ] || own places.shm_kib "$places_size"

places_conf=${SLURM_CONF:-/etc/slurm/slurm.conf}
places_spool=
if pidof slurmd >/dev/null 2>&1; then
  places_spool=$(sed -n -E 's/^[[:space:]]*SlurmdSpoolDir[[:space:]]*=[[:space:]]*([^[:space:]#]+).*/\1/Ip' "$places_conf" 2>/dev/null | tail -n 1)
  places_name=$(uname -n)
  places_spool=$(printf '%s\n' "${places_spool:-/var/spool/slurmd}" | sed "s/%[hn]/${places_name%%.*}/g")
fi
# Lines `POINT PATH…`: the last mount on the longest way to a path counts.
awk -v spool="$places_spool" '
  BEGIN { count = split("/ /var /var/log /var/tmp /tmp /run /dev/shm", path, " "); if (spool != "") path[++count] = spool }
  {
    for (i = 7; $i != "-"; i++);
    readonly = index("," $6 ",", ",ro,") || index("," $(i + 3) ",", ",ro,")
    for (n = 1; n <= count; n++)
      if ($5 == "/" || index(path[n] "/", $5 "/") == 1)
        if (length($5) >= length(point[n])) { point[n] = $5; is[n] = readonly }
  }
  END {
    for (n = 1; n <= count; n++) if (is[n]) of[point[n]] = of[point[n]] " " (path[n] == spool ? "SlurmdSpoolDir" : path[n])
    for (each in of) print each of[each]
  }
' /proc/self/mountinfo | LC_ALL=C sort | lines places.readonly
