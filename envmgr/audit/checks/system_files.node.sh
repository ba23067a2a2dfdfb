# shellcheck shell=sh
# What the system says to programs before they run: lines `NAME:NUMBER:LINE` of its files, without comments and secrets in addresses, and in
# the same form of the kernel, of links, of certificates and of locales. One of them may be on a server that hangs.
: "${user?}"

# Users' programs read these, so users must be able to.
system_users='/etc/gitconfig /etc/pip.conf /etc/xdg/pip/pip.conf /etc/uv/uv.toml /etc/xdg/uv/uv.toml /etc/conda/.condarc /etc/conda/condarc
  /etc/conda/condarc.d/* /etc/npmrc /etc/gemrc /etc/wgetrc /etc/inputrc /etc/fish/config.fish /etc/fish/conf.d/* /etc/ksh.kshrc /etc/ssh/sshrc
  /etc/gai.conf /etc/host.conf /etc/krb5.conf /etc/krb5.conf.d/* /etc/locale.conf /etc/default/locale /etc/environment.d/*.conf
  /etc/nccl.conf /etc/ucx/*.conf /etc/openmpi*/openmpi-mca-params.conf /etc/libibverbs.d/* /etc/OpenCL/vendors/* /etc/fuse.conf
  /etc/apptainer/*.conf /etc/singularity/*.conf /etc/containers/*.conf /etc/enroot/*.conf /etc/R/*.site /etc/R/Renviron
  /usr/lib*/R/etc/*.site /usr/lib*/R/etc/Renviron /etc/perl/sitecustomize.pl /usr/lib/python3*/*customize.py /usr/lib/python3/dist-packages/*.pth
  /usr/lib/python3/dist-packages/*customize.py /usr/lib*/python3.*/site-packages/*.pth /usr/lib*/python3.*/site-packages/*customize.py
  /usr/local/lib*/python3.*/*-packages/*.pth /usr/local/lib*/python3.*/*-packages/*customize.py /etc/crypto-policies/state/current
  /etc/crypto-policies/back-ends/*.config'
# Of these the lines have their section with them, as there are more than others have.
system_sections='/etc/ssl/openssl.cnf /etc/pki/tls/openssl.cnf'
system_open='/etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/localtime /etc/alternatives /etc/ssl /etc/ssl/certs /etc/xdg
  /etc/R /usr/share/zoneinfo'
system_root='/etc/lmod/modulespath /etc/lmod/.modulespath /etc/login.defs /etc/security/*.conf /etc/security/*.d/*.conf /etc/pam.d/common-*
  /etc/pam.d/system-auth* /etc/pam.d/password-auth* /etc/pam.d/postlogin*
  /etc/pam.d/sshd /etc/pam.d/login /etc/pam.d/remote /etc/pam.d/su /etc/pam.d/su-l /etc/pam.d/sudo /etc/pam.d/runuser* /etc/pam.d/slurm*
  /etc/pam.d/systemd-user /etc/pam.d/cron* /etc/pam.d/atd /etc/pam.d/other /etc/systemd/*.conf /etc/systemd/*.conf.d/*.conf /etc/systemd/system/user.slice.d/*.conf
  /etc/systemd/system/user-*.slice.d/*.conf /etc/systemd/system/user@*.service.d/*.conf /etc/systemd/system/slurmd.service*
  /etc/systemd/system/slurmd.service.d/*.conf /etc/systemd/system/system.slice.d/*.conf
  /etc/modprobe.d/*.conf /etc/tmpfiles.d/*.conf /etc/idmapd.conf /etc/nfsmount.conf'
system_kernel='kernel/pid_max kernel/threads-max kernel/numa_balancing kernel/unprivileged_userns_clone kernel/yama/ptrace_scope
  kernel/apparmor_restrict_unprivileged_userns kernel/perf_event_paranoid kernel/randomize_va_space kernel/shmmax kernel/shmall kernel/sem
  vm/overcommit_memory vm/overcommit_ratio vm/max_map_count vm/swappiness vm/zone_reclaim_mode vm/nr_hugepages user/max_user_namespaces
  user/max_mnt_namespaces user/max_pid_namespaces user/max_net_namespaces kernel/keys/maxkeys kernel/keys/maxbytes kernel/core_pattern fs/aio-max-nr
  net/ipv6/conf/all/disable_ipv6
  fs/file-max fs/nr_open fs/protected_hardlinks fs/protected_regular fs/inotify/max_user_watches fs/inotify/max_user_instances
  net/core/rmem_max net/core/wmem_max net/core/somaxconn net/ipv4/ip_local_port_range net/ipv4/ip_unprivileged_port_start'
# What the kernel derives from memory and cores is alike as long as it is enough.
system_least='pid_max 32768 threads-max 4096 file-max 8192 max_user_namespaces 1 max_mnt_namespaces 1 max_pid_namespaces 1 max_net_namespaces 1
  max_user_watches 8192'

# A host may have its own name in a file; one without a digit is a word that files have for other reasons.
system_named() { case $(uname -n) in *[0-9]*) nameless ;; *) cat ;; esac; }
# Of what its arguments name, as this account: what it cannot read, or a folder on the way that keeps it out.
# shellcheck disable=SC2016 # the inner shell's
system_unread='
  for file; do
    way=$file
    while [ ! -e "${way:-/}" ]; do way=${way%/*}; done
    if [ -d "${way:-/}" ]; then [ -x "${way:-/}" ]; else [ -r "$way" ]; fi || printf "%s\n" "${way:-/}"
  done'
system_look() {
  # One file may have several names.
  # shellcheck disable=SC2086 # patterns
  find -L $system_users $system_root $system_sections -maxdepth 0 -type f -printf '%D:%i %p\n' 2>/dev/null |
    awk '{ at = $1; sub(/^[^ ]* /, ""); if (at in first) print $0, first[at]; else first[at] = $0 }' >"$0.same"
  # shellcheck disable=SC2086 # patterns
  {
    grep -H -n -s -m 60 -d skip -D skip -v -E '^[[:space:]]*([#;]|$)' $system_users $system_root
    set --
    for system_name in $system_sections; do [ ! -r "$system_name" ] || set -- "$@" "$system_name"; done
    [ $# = 0 ] || awk '
      FNR == 1 { section = "" }
      /^[[:space:]]*(#|$)/ { next }
      /^[[:space:]]*\[/ { section = $0; gsub(/[[:space:]]|\].*/, "", section); section = section "] "; next }
      { print FILENAME ":" FNR ":" section $0 }' "$@"
  } | sed -E -e 's/[ \t]+$//' -e 's/\r/\\r/g' -e 's/^(.{239}).+/\1…/' -e 's|://[^/@[:space:]]+@|://***@|' -e 's/:/\x01:/' \
    -e 's/(((token|password|passwd|secret)[a-z_]*|_auth)[[:space:]]*[=:]).*/\1***/I' -e 's/\x01//' | system_named # the name is no secret
  set --
  for system_name in $system_kernel; do set -- "$@" "/proc/sys/$system_name"; done
  grep -H -s . "$@" /sys/kernel/mm/transparent_hugepage/enabled /sys/fs/selinux/enforce /sys/devices/system/cpu/smt/control |
    awk -F: -v least="$system_least" '
      BEGIN { for (i = split(least, of, " "); i > 0; i -= 2) floor[of[i - 1]] = of[i] }
      { name = $1; sub(/.*\//, "", name); value = substr($0, length($1) + 2); gsub(/\t/, " ", value) }
      match(value, /\[[a-z]+\]/) { value = substr(value, RSTART + 1, RLENGTH - 2) }
      name in floor && value + 0 >= floor[name] { value = "enough" }
      { print $1 ":1:" value }'
  # Modules that do not load by themselves, of drivers that are loaded.
  awk '
    /^(nvidia|mlx5_core|ib_core) / { has[$1] = 1; with[$1] = with[$1] "driver " $1 ":1:" $1 "\n" }
    /^(nvidia_peermem|nv_peer_mem|gdrdrv) / { with["nvidia"] = with["nvidia"] "driver nvidia:1:" $1 "\n" }
    /^mlx5_ib / { with["mlx5_core"] = with["mlx5_core"] "driver mlx5_core:1:" $1 "\n" }
    /^(mlx4_ib|irdma|bnxt_re|hfi1|qedr|efa|ib_uverbs|ib_umad|rdma_ucm|ib_ipoib|knem|xpmem) / { with["ib_core"] = with["ib_core"] "driver ib_core:1:" $1 "\n" }
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
  set --
  for system_name in $system_users $system_sections $system_open; do [ ! -e "$system_name" ] || set -- "$@" "$system_name"; done
  (as "$user" /bin/sh -c "$system_unread" sh "$@") 2>/dev/null | sort -u >"$0.closed"
  return 0
}
if with_limit 5 "$0.lines" system_look; then
  lines system_files.lines <"$0.lines"
  lines system_files.same <"$0.same"
  lines system_files.closed <"$0.closed"
  put system_files.os "$( (. /etc/os-release && printf '%s %s' "${ID-}" "${VERSION_ID%%.*}") 2>/dev/null)"
  put system_files.zone "$(readlink -f /etc/localtime)"
else
  put system_files.hung yes
fi
