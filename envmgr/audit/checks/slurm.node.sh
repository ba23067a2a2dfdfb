# shellcheck shell=sh
# Whether slurmd was given its name (`slurmd -N NAME`): then the host may have another. What the node's own slurm.conf has, whether users
# can read it, which plugins lie in PluginDir, and which of them plugstack.conf requires that are not there.
: "${user?}" "${prefix?}" "${slurm_ours?}"

for slurm_pid in $(pidof slurmd 2>/dev/null); do
  slurm_command=$(tr '\000' ' ' <"/proc/$slurm_pid/cmdline" 2>/dev/null)
  # What is started by it, or what it starts, has these of its variables.
  if slurm_said=$(tr '\000' '\n' <"/proc/$slurm_pid/environ" 2>/dev/null); then
    printf '%s\n' "$slurm_said" | grep -E '^(LD_|GLIBC_|MALLOC_|PYTHON|PERL|LUA_|MODULE|LMOD_|BASH_ENV=|ENV=|TMP|TEMP|TZ=|SLURM_CONF=|[A-Za-z]*_proxy=|OMP_|CUDA_|OPENSSL_|KRB5|PATH=|LANG|LC_)' |
      LC_ALL=C sort | lines slurm.environ
    put slurm.told_environ yes
  fi
  # Jobs inherit the cores on which slurmd may run.
  slurm_cores=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/$slurm_pid/status" 2>/dev/null)
  [ "$slurm_cores" = "$(cat /sys/devices/system/cpu/online 2>/dev/null)" ] && slurm_cores=all
  put slurm.cores "$slurm_cores"
  case " $slurm_command " in *" -N"*) put slurm.named yes ;; esac
done
slurm_conf=${SLURM_CONF:-/etc/slurm/slurm.conf}
if [ -r "$slurm_conf" ]; then
  put slurm.conf "$slurm_conf"
  put slurm.prolog "$(sed -n -E 's/^[[:space:]]*TaskProlog[[:space:]]*=[[:space:]]*"?([^"[:space:]#]+).*/\1/Ip' "$slurm_conf" | tail -n 1)"
  put slurm.sum "$(sed -e 's/#.*//' -e 's/[[:space:]]*$//' "$slurm_conf" | grep . | sum)"
fi
slurm_setting() { sed -n -E "s/^[[:space:]]*$1[[:space:]]*=[[:space:]]*\"?([^\"[:space:]#]+).*/\1/Ip" "$slurm_conf" 2>/dev/null | tail -n 1; }

slurm_dirs=$(slurm_setting PluginDir)
if [ -z "$slurm_dirs" ]; then
  slurm_bin=$(command -v slurmd || command -v sinfo || echo /usr/sbin/slurmd)
  slurm_bin=$(readlink -f "$slurm_bin")
  for slurm_dirs in "${slurm_bin%/*/*}/lib64/slurm" "${slurm_bin%/*/*}/lib/slurm" /usr/lib64/slurm /usr/lib/*/slurm-wlm /usr/lib/*/slurm /usr/lib/slurm-wlm /usr/lib/slurm; do
    if [ -e "$slurm_dirs/auth_munge.so" ] || [ -e "$slurm_dirs/select_cons_tres.so" ]; then break; fi
    slurm_dirs=
  done
fi
if [ -n "$slurm_dirs" ]; then
  put slurm.plugin_dir "$slurm_dirs"
  printf '%s\n' "$slurm_dirs" | tr : '\n' | while read -r slurm_dir; do
    for slurm_file in "$slurm_dir"/*.so; do
      [ ! -e "$slurm_file" ] || printf '%s\n' "${slurm_file##*/}"
    done
  done | LC_ALL=C sort -u | lines slurm.plugins
fi

slurm_stack=$(slurm_setting PlugStackConfig)
slurm_stack=${slurm_stack:-${slurm_conf%/*}/plugstack.conf}
# slurm_requires FILE DEPTH: the lines that require a plugin which is not there. Source: spank(7), CONFIGURATION.
slurm_requires() {
  [ -r "$1" ] && [ "$2" -lt 4 ] || return 0
  sed -n -E '=; s/#.*//; p' "$1" 2>/dev/null | paste - - | while read -r slurm_line slurm_word slurm_name _; do
    case $slurm_word in
      include)
        case $slurm_name in /*) ;; *) slurm_name=${slurm_conf%/*}/$slurm_name ;; esac
        for slurm_file in $slurm_name; do
          slurm_requires "$slurm_file" $(($2 + 1))
        done
        ;;
      required)
        slurm_found=
        case $slurm_name in
          /*) [ ! -e "$slurm_name" ] || slurm_found=yes ;;
          *)
            [ -n "$slurm_dirs" ] || slurm_found=unknown
            for slurm_dir in $(printf '%s\n' "$slurm_dirs" | tr : ' '); do
              [ ! -e "$slurm_dir/$slurm_name" ] || slurm_found=yes
            done
            ;;
        esac
        case $slurm_found in
          '') printf '%s:%s %s\n' "$1" "$slurm_line" "$slurm_name" ;;
          yes) printf 'brought %s\n' "$slurm_name" ;;
        esac
        ;;
    esac
  done
}
slurm_requires "$slurm_stack" 0 >"$0.stack"
grep -v '^brought ' "$0.stack" | lines slurm.required
sed -n 's/^brought //p' "$0.stack" | LC_ALL=C sort -u | lines slurm.brought

# slurm_reads FILE: as the ordinary user, where that can be asked.
slurm_reads() {
  if [ "$(id -u)" != 0 ]; then
    [ -r "$1" ]
  elif id -u "$user" >/dev/null 2>&1; then
    # shellcheck disable=SC2016 # the inner shell's
    (as "$user" /bin/sh -c '[ -r "$1" ]' sh "$1")
  fi
}
for slurm_file in "$slurm_conf" "$slurm_stack"; do
  [ -e "$slurm_file" ] && [ -n "$user" ] || continue
  with_limit 5 "$0.reads" slurm_reads "$slurm_file"
  if [ $? = 1 ]; then
    slurm_folder=${slurm_file%/*}
    case $(stat -c %a "$slurm_file") in
      *[4-7]) printf '%s %s\n' "$slurm_folder" "$(stat -c %a "$slurm_folder")" ;;
      *) printf '%s %s\n' "$slurm_file" "$(stat -c %a "$slurm_file")" ;;
    esac
  fi
done | lines slurm.unreadable

# What slurmd runs around each job, `SETTING FILE SHA256`, and what it cannot run, `SETTING FILE WHAT`; its other settings, `FILE SHA256`.
# They may lie on a server that hangs, but for the prefix: that is not touched here. Files of node-setup are another check's.
# slurm_runs SETTING FILE: users run those of tasks.
slurm_runs() {
  case $1 in Task*) case $(stat -L -c %a "$2") in *[1357]) ;; *) return 1 ;; esac ;; esac
}
slurm_around() {
  for slurm_name in Prolog Epilog TaskProlog TaskEpilog HealthCheckProgram UnkillableStepProgram; do
    sed -n -E "s/^[[:space:]]*${slurm_name}[[:space:]]*=[[:space:]]*\"?([^\"#]*[^\"#[:space:]]).*/\1/Ip" "$slurm_conf" | tr ',' '\n' |
      while read -r slurm_pattern; do
        case $slurm_pattern in "$prefix"/* | "$slurm_ours"/*) continue ;; /*) ;; *) slurm_pattern=${slurm_conf%/*}/$slurm_pattern ;; esac
        for slurm_file in $slurm_pattern; do
          if ! [ -e "$slurm_file" ]; then
            case $slurm_file in *[*?[]*) ;; *) printf 'broken %s %s is not there\n' "$slurm_name" "$slurm_file" ;; esac
          elif ! [ -x "$slurm_file" ] || ! slurm_runs "$slurm_name" "$slurm_file"; then
            printf 'broken %s %s is not executable\n' "$slurm_name" "$slurm_file"
          else
            printf 'file %s %s %s\n' "$slurm_name" "$slurm_file" "$(sum <"$slurm_file")"
          fi
        done
      done
  done
  # shellcheck disable=SC2046 # patterns
  for slurm_file in cgroup.conf gres.conf job_container.conf namespace.yaml plugstack.conf mpi.conf oci.conf acct_gather.conf topology.conf topology.yaml \
    cli_filter.lua "${slurm_conf%/*}"/plugstack.conf.d/* $(sed -n -E 's/^[[:space:]]*include[[:space:]]+([^[:space:]#]+).*/\1/Ip' "$slurm_conf"); do
    case $slurm_file in /*) ;; *) slurm_file=${slurm_conf%/*}/$slurm_file ;; esac
    [ ! -r "$slurm_file" ] || printf 'file - %s %s\n' "$slurm_file" "$(sed -e 's/#.*//' -e 's/[[:space:]]*$//' "$slurm_file" | grep . | sum)"
  done
  slurm_file=${slurm_conf%/*}/job_container.conf
  if slurm_setting JobContainerType | grep -q tmpfs && ! grep -q -s -i -E '^[^#]*(AutoBasePath[[:space:]]*=[[:space:]]*true|NodeName)' "$slurm_file"; then
    slurm_name=$(sed -n -E 's/^[^#]*BasePath[[:space:]]*=[[:space:]]*([^[:space:]#]+).*/\1/Ip' "$slurm_file" 2>/dev/null | head -n 1)
    [ -z "$slurm_name" ] || [ -d "$slurm_name" ] || printf 'broken BasePath %s is not there\n' "$slurm_name"
  fi
}
if [ -r "$slurm_conf" ] && pidof slurmd >/dev/null 2>&1; then
  if with_limit 5 "$0.around" slurm_around; then put slurm.told_files yes; fi
  sed -n 's/^broken //p' "$0.around" | LC_ALL=C sort -u | lines slurm.broken
  sed -n 's/^file //p' "$0.around" | LC_ALL=C sort -u | lines slurm.files
fi
