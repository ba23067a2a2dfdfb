# shellcheck shell=sh
# Installed by `envmgr node-setup`.
# gpus_look: what this node has of GPUs, a line each: driver, library (its folder), library_version, cuda, gpu, smi.
#   gpu VENDOR ARCH DRIVER NAME; `-`: there is none, `?`: it is not known (a GPU that is hidden from who asks, for example).
# `ask_smi` runs nvidia-smi with these words, in bounded time: 0, or its exit status, 124 when it hung; its words are in $smi_said.

gpus_look() {
  gpus_driver=
  gpus_seen=
  for gpus_file in /sys/module/nvidia/version /proc/driver/nvidia/version; do
    [ ! -e "$gpus_file" ] || gpus_seen=yes
    if [ -z "$gpus_driver" ] && [ -r "$gpus_file" ]; then
      gpus_driver=$(sed -n '1{s/.*Kernel Module//;s/^ for [^ ]*//;s/^[[:space:]]*\([0-9][0-9.]*[0-9]\).*/\1/p;}' "$gpus_file")
    fi
  done
  [ -n "$gpus_driver" ] || [ -z "$gpus_seen" ] || gpus_driver='?'
  printf 'driver %s\n' "${gpus_driver:--}"
  gpus_library
  gpus_listed=0
  if [ -n "$gpus_driver" ]; then
    gpus_by_smi || gpus_by_proc ''
  fi
  gpus_bus=0
  for gpus_file in /sys/bus/pci/devices/*/vendor; do
    [ -r "$gpus_file" ] || continue
    read -r gpus_vendor <"$gpus_file"
    read -r gpus_class <"${gpus_file%vendor}class"
    case $gpus_vendor:$gpus_class in
      0x10de:0x03*) gpus_bus=$((gpus_bus + 1)) ;;
      # Graphics of a processor or a board is no GPU that programs compute on; these classes are for nothing else.
      0x1002:0x0380* | 0x1002:0x12*) printf 'gpu amd %s ? AMD Instinct\n' "$(gpus_amd)" ;;
      0x8086:0x0380* | 0x8086:0x12*) echo 'gpu intel ? ? Intel Data Center GPU' ;;
    esac
  done
  while [ "$gpus_listed" -lt "$gpus_bus" ]; do # on the bus, and driven by nothing
    gpus_listed=$((gpus_listed + 1))
    echo 'gpu nvidia ? - NVIDIA GPU'
  done
}

gpus_library() { # of libcuda.so.1: the linker's place, or the usual ones
  gpus_lib=$(PATH=$PATH:/usr/sbin:/sbin ldconfig -p 2>/dev/null | sed -n 's/.*libcuda\.so\.1 (libc6,[^)]*64.*=> //p' | head -n 1)
  for gpus_file in "$gpus_lib" "/usr/lib/$(uname -m)-linux-gnu/libcuda.so.1" /usr/lib64/libcuda.so.1 /usr/lib/libcuda.so.1; do
    if [ -n "$gpus_file" ] && [ -e "$gpus_file" ]; then
      gpus_target=$(readlink -f "$gpus_file")
      printf 'library %s\n' "${gpus_file%/*}"
      case $gpus_target in
        *.so.[0-9]*.[0-9]*) printf 'library_version %s\n' "${gpus_target##*.so.}" ;;
        *) echo 'library_version ?' ;;
      esac
      return
    fi
  done
  printf 'library -\nlibrary_version -\n'
}

gpus_by_smi() { # false where nvidia-smi lists none
  command -v nvidia-smi >/dev/null || return 1
  for gpus_fields in name,compute_cap name; do # drivers before 510 do not know compute_cap: they say so, and list nothing
    ask_smi "--query-gpu=$gpus_fields" --format=csv,noheader
    gpus_status=$?
    [ "$gpus_status" != 0 ] || break
    if [ "$gpus_status" = 124 ]; then
      echo 'smi hung'
      return 1
    fi
  done
  if [ "$gpus_status" != 0 ] || [ -z "$smi_said" ] || [ "${smi_said#No devices}" != "$smi_said" ]; then
    printf 'smi %s\n' "$(printf '%s' "${smi_said:-nothing}" | head -n 1 | cut -c1-200)"
    return 1
  fi
  gpus_listed=$(printf '%s\n' "$smi_said" | grep -c .)
  gpus_names=$(if [ "$gpus_fields" = name ]; then printf '%s\n' "$smi_said"; else printf '%s\n' "$smi_said" | sed 's/, [^,]*$//'; fi)
  printf '%s\n' "$smi_said" | LC_ALL=C sort | while IFS= read -r gpus_line; do
    gpus_arch=${gpus_line##*, }
    case $gpus_fields:$gpus_arch in
      name,compute_cap:[0-9]*.[0-9]) gpus_name=${gpus_line%, *} ;;
      name,compute_cap:*) gpus_name=${gpus_line%, *} gpus_arch='?' ;;
      *) gpus_name=$gpus_line gpus_arch='?' ;;
    esac
    printf 'gpu nvidia %s %s %s\n' "$gpus_arch" "$gpus_driver" "$gpus_name"
  done
  ask_smi && gpus_cuda=$(printf '%s\n' "$smi_said" | sed -n 's/.*CUDA Version: *\([0-9][0-9.]*\).*/\1/p' | head -n 1)
  printf 'cuda %s\n' "${gpus_cuda:-?}"
  gpus_by_proc "$gpus_names"
}

gpus_by_proc() { # NAMES, a line each, of those that were shown: the driver may have others, too, as many as it has more
  gpus_rest=$1
  gpus_all=0
  gpus_others=
  for gpus_file in /proc/driver/nvidia/gpus/*/information; do
    [ -r "$gpus_file" ] || continue
    gpus_all=$((gpus_all + 1))
    gpus_name=$(sed -n 's/^Model:[[:space:]]*//p' "$gpus_file")
    if [ -n "$gpus_rest" ] && printf '%s\n' "$gpus_rest" | grep -q -x -F -e "$gpus_name"; then
      gpus_rest=$(printf '%s\n' "$gpus_rest" | awk -v name="$gpus_name" '!found && $0 == name { found = 1; next } { print }')
    else
      gpus_others="$gpus_others$gpus_name
"
    fi
  done
  [ "$gpus_all" -gt "$gpus_listed" ] || return 0
  printf '%s' "$gpus_others" | head -n $((gpus_all - gpus_listed)) | while IFS= read -r gpus_name; do
    printf 'gpu nvidia ? %s %s\n' "$gpus_driver" "$gpus_name"
  done
  gpus_listed=$gpus_all
}

gpus_amd() { # gfx90a, from 90010: major, minor and stepping, the last one in hexadecimal
  gpus_target=$(sed -n 's/^gfx_target_version \([1-9][0-9]*\)$/\1/p' /sys/class/kfd/kfd/topology/nodes/*/properties 2>/dev/null | head -n 1)
  if [ -n "$gpus_target" ]; then
    printf 'gfx%d%x%x' $((gpus_target / 10000)) $((gpus_target / 100 % 100)) $((gpus_target % 100))
  else
    printf '?'
  fi
}
