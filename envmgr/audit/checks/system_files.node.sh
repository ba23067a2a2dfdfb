# shellcheck shell=sh
# What the system says to programs before they run: lines `NAME:NUMBER:LINE` of its files, without comments and secrets in addresses, and in
# the same form of the kernel, of links, of certificates and of locales. One of them may be on a server that hangs.

# Users' programs read these, so users must be able to.
system_users='/etc/gitconfig /etc/pip.conf /etc/xdg/pip/pip.conf /etc/uv/uv.toml /etc/xdg/uv/uv.toml /etc/conda/.condarc /etc/conda/condarc
  /etc/conda/condarc.d/* /etc/npmrc /etc/gemrc /etc/wgetrc /etc/inputrc /etc/fish/config.fish /etc/fish/conf.d/* /etc/ksh.kshrc /etc/ssh/sshrc
  /etc/gai.conf /etc/host.conf /etc/krb5.conf /etc/krb5.conf.d/* /etc/locale.conf /etc/default/locale /etc/environment.d/*.conf
  /etc/nccl.conf /etc/ucx/*.conf /etc/openmpi*/openmpi-mca-params.conf /etc/libibverbs.d/* /etc/OpenCL/vendors/* /etc/fuse.conf
  /etc/apptainer/*.conf /etc/singularity/*.conf /etc/containers/*.conf /etc/enroot/*.conf /etc/R/*.site /etc/R/Renviron
  /usr/lib*/R/etc/*.site /usr/lib*/R/etc/Renviron /etc/perl/sitecustomize.pl /usr/lib/python3*/*customize.py /usr/lib/python3/dist-packages/*.pth
  /usr/lib/python3/dist-packages/*customize.py /usr/lib*/python3.*/site-packages/*.pth /usr/lib*/python3.*/site-packages/*customize.py
  /usr/local/lib*/python3.*/*-packages/*.pth /usr/local/lib*/python3.*/*-packages/*customize.py /etc/crypto-policies/state/current'
system_root='/etc/lmod/modulespath /etc/lmod/.modulespath /etc/login.defs /etc/security/*.conf /etc/security/*.d/*.conf /etc/pam.d/common-*
  /etc/pam.d/system-auth* /etc/pam.d/password-auth* /etc/pam.d/postlogin*
  /etc/pam.d/sshd /etc/pam.d/login /etc/pam.d/remote /etc/pam.d/su /etc/pam.d/su-l /etc/pam.d/sudo /etc/pam.d/runuser* /etc/pam.d/slurm*
  /etc/pam.d/systemd-user /etc/pam.d/cron* /etc/pam.d/atd /etc/pam.d/other /etc/systemd/*.conf /etc/systemd/*.conf.d/*.conf
  /etc/modprobe.d/*.conf /etc/tmpfiles.d/*.conf /etc/idmapd.conf /etc/nfsmount.conf'
system_kernel='kernel/pid_max kernel/threads-max kernel/numa_balancing kernel/unprivileged_userns_clone kernel/yama/ptrace_scope
  kernel/apparmor_restrict_unprivileged_userns kernel/perf_event_paranoid kernel/randomize_va_space kernel/shmmax kernel/shmall kernel/sem
  vm/overcommit_memory vm/overcommit_ratio vm/max_map_count vm/swappiness vm/zone_reclaim_mode vm/nr_hugepages user/max_user_namespaces
  fs/file-max fs/nr_open fs/protected_hardlinks fs/protected_regular fs/inotify/max_user_watches fs/inotify/max_user_instances
  net/core/rmem_max net/core/wmem_max net/core/somaxconn net/ipv4/ip_local_port_range net/ipv4/ip_unprivileged_port_start'
# What the kernel derives from memory and cores is alike as long as it is enough.
system_least='pid_max 32768 threads-max 4096 file-max 8192 max_user_namespaces 1 max_user_watches 8192'

# A host may have its own name in a file; one without a digit is a word that files have for other reasons.
system_named() { case $(uname -n) in *[0-9]*) nameless ;; *) cat ;; esac; }
system_look() {
  # shellcheck disable=SC2086 # patterns
  {
    grep -H -n -s -m 60 -d skip -D skip -v -E '^[[:space:]]*([#;]|$)' $system_users $system_root
    grep -H -n -s -E '^[[:space:]]*(MinProtocol|CipherString|Options|Groups|\.include)' /etc/ssl/openssl.cnf /etc/pki/tls/openssl.cnf
  } | sed -E -e 's/[ \t]+$//' -e 's/\r/\\r/g' -e 's/^(.{239}).+/\1…/' -e 's|://[^/@[:space:]]+@|://***@|' \
    -e 's/((token|password|passwd|secret|_auth)[a-z_]*[[:space:]]*[=:]).*/\1***/I' | system_named
  set --
  for system_name in $system_kernel; do set -- "$@" "/proc/sys/$system_name"; done
  grep -H -s . "$@" /sys/kernel/mm/transparent_hugepage/enabled /sys/fs/selinux/enforce /sys/devices/system/cpu/smt/control |
    awk -F: -v least="$system_least" '
      BEGIN { for (i = split(least, of, " "); i > 0; i -= 2) floor[of[i - 1]] = of[i] }
      { name = $1; sub(/.*\//, "", name); value = $2; gsub(/\t/, " ", value) }
      match(value, /\[[a-z]+\]/) { value = substr(value, RSTART + 1, RLENGTH - 2) }
      name in floor && value + 0 >= floor[name] { value = "enough" }
      { print $1 ":1:" value }'
  # Modules that do not load by themselves, of drivers that are loaded.
  awk '
    { has[$1] = 1 }
    /^(nvidia_peermem|nv_peer_mem|gdrdrv) / { with["nvidia"] = with["nvidia"] "driver nvidia:1:" $1 "\n" }
    /^(mlx5_ib|ib_uverbs|ib_umad|rdma_ucm|ib_ipoib|knem|xpmem) / { with["mlx5_core"] = with["mlx5_core"] "driver mlx5_core:1:" $1 "\n" }
    END { for (name in with) if (name in has) printf "%s", with[name] }' /proc/modules 2>/dev/null
  set --
  for system_name in /var/lib/dpkg/alternatives/* /var/lib/alternatives/*; do
    system_name=${system_name##*/}
    case $system_name in
      awk | c++ | c89 | c99 | cc | cpp | f77 | f95 | fc | gcc* | g++* | gfortran* | clang* | java | javac | ld | ld.* | mpi* | nawk | perl* | python* | R | lib*.so* | cuda*)
        set -- "$@" "/etc/alternatives/$system_name"
        ;;
    esac
  done
  [ $# = 0 ] || find "$@" -maxdepth 0 -type l -printf '%p:1:%l\n' 2>/dev/null
  sha256sum /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt 2>/dev/null | sed 's/^\(.\{12\}\)[^ ]* *\(.*\)/\2:1:\1/'
  # The rule of the time zone, which is the file's last line: zones of one rule have several names.
  printf '/etc/localtime:1:%s\n' "$(tail -n 1 /etc/localtime 2>/dev/null || echo UTC0)"
  ! command -v locale >/dev/null || locale -a 2>/dev/null | sed -n 's/^.*\.utf-\{0,1\}8$/locale -a:1:&/p'
  # shellcheck disable=SC2086 # patterns
  find -L $system_users /etc/ssl/openssl.cnf /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/localtime /etc/alternatives \
    /etc/ssl /etc/ssl/certs /etc/xdg /etc/R /usr/share/zoneinfo -maxdepth 0 \( ! -perm -004 -o -type d ! -perm -001 \) >"$0.closed" 2>/dev/null
  return 0
}
if with_limit 5 "$0.lines" system_look; then
  lines system_files.lines <"$0.lines"
  lines system_files.closed <"$0.closed"
  put system_files.os "$( (. /etc/os-release && printf '%s %s' "${ID-}" "${VERSION_ID%%.*}") 2>/dev/null)"
  put system_files.zone "$(readlink -f /etc/localtime)"
else
  put system_files.hung yes
fi
