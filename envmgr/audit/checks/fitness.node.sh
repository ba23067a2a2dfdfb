# shellcheck shell=sh
# Driver, GPUs, glibc and CPU. nvidia-smi of drivers before 510 does not know compute_cap; it then says so and names nothing.
: "${fitness_seconds?}" "${fitness_flags?}"

fitness_driver=
for fitness_file in /sys/module/nvidia/version /proc/driver/nvidia/version; do
  if [ -z "$fitness_driver" ] && [ -r "$fitness_file" ]; then
    fitness_driver=$(sed -n '1{s/.*Kernel Module//;s/^ for [^ ]*//;s/^[[:space:]]*\([0-9][0-9.]*[0-9]\).*/\1/p;}' "$fitness_file")
  fi
done
put fitness.driver "$fitness_driver"
fitness_devices=0
for fitness_file in /sys/bus/pci/devices/*/vendor; do
  if [ -r "$fitness_file" ] && read -r fitness_vendor <"$fitness_file" && [ "$fitness_vendor" = 0x10de ]; then
    read -r fitness_class <"${fitness_file%vendor}class"
    case $fitness_class in 0x03*) fitness_devices=$((fitness_devices + 1)) ;; esac
  fi
done
put fitness.devices "$fitness_devices"
if [ -n "$fitness_driver" ]; then
  fitness_known=
  if command -v nvidia-smi >/dev/null; then
    for fitness_fields in name,compute_cap name; do
      [ -z "$fitness_known" ] || continue
      with_limit "$fitness_seconds" "$0.smi" nvidia-smi "--query-gpu=$fitness_fields" --format=csv,noheader
      case $? in
        0) fitness_known=yes ;;
        124) fitness_known=hung ;;
        *) fitness_said=$(grep -h . "$0.smi" "$0.smi.err" | head -n 1 | cut -c1-200) ;;
      esac
    done
    case $fitness_known in
      yes) grep -v '^No devices' "$0.smi" | LC_ALL=C sort | lines fitness.gpus ;;
      hung) put fitness.smi hung ;;
      *) put fitness.smi "${fitness_said:-nothing}" ;;
    esac
  fi
  if [ "$fitness_known" != yes ]; then
    sed -n 's/^Model:[[:space:]]*//p' /proc/driver/nvidia/gpus/*/information 2>/dev/null | LC_ALL=C sort | lines fitness.gpus
  fi
fi
fitness_libc=$(getconf GNU_LIBC_VERSION 2>/dev/null)
put fitness.glibc "${fitness_libc#glibc }"
put fitness.arch "$(uname -m)"
put fitness.flags "$(sed -n '/^\(flags\|Features\)[[:space:]]*:/{s/[^:]*://p;q;}' /proc/cpuinfo |
  tr -s ' ' '\n' | grep -x -E "$fitness_flags" | LC_ALL=C sort -u | paste -sd ' ' -)"
put fitness.os "$( (. /etc/os-release && printf '%s %s' "${ID-}" "${VERSION_ID-}") 2>/dev/null)"
