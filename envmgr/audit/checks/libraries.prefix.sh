# What libraries.look.sh, in `libraries_look`, finds as the ordinary user; its arguments are this shell's.
: "${user?}" "${libraries_seconds?}" "${libraries_look?}"

libraries_driver=no
if [ -e /sys/module/nvidia/version ] || [ -e /proc/driver/nvidia/version ]; then libraries_driver=yes; fi
put libraries.driver "$libraries_driver"
if libraries_uid=$(id -u "$user" 2>/dev/null) && [ "$libraries_uid" != 0 ] && command -v ldd >/dev/null; then
  with_limit "$libraries_seconds" "$0.ldd" as "$user" /bin/sh -c "$libraries_look" sh "$@"
  sed -n '/^@libraries\./p' "$0.ldd"
fi
