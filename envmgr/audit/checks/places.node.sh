# shellcheck shell=sh
# Devices and links that every program may want, and how much shared memory there is.

for places_name in /dev/fd /dev/stdin /dev/stdout /dev/stderr /dev/ptmx /dev/full /dev/random; do
  [ -e "$places_name" ] || [ -L "$places_name" ] || printf '%s\n' "$places_name"
done | lines places.devices
[ -r /proc/self/stat ] || put places.proc "not mounted"
places_size=$(df -P -k /dev/shm 2>/dev/null | sed -n '2s/^[^ ]* *\([0-9]*\) .*/\1/p')
[ -z "$places_size" ] || own places.shm_kib "$places_size"
