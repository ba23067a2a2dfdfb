# shellcheck disable=SC2086 # where there is no user, there is no word of it; names of files
# The inventory of the node itself. What may hang (a directory service) is left behind with all that comes after it. No folder of a server is
# entered. Of a file that others cannot read the answer has only a digest that is good for this audit, of a private key not even that.
: "${user?}" "${build_user?}" "${inventory_salt?}" "${inventory_seconds?}" "${inventory_path?}" "${named_words?}" "${host_name?}" "${inventory_limit?}"
inventory_kernel='kernel/numa_balancing kernel/unprivileged_userns_clone kernel/yama/ptrace_scope kernel/apparmor_restrict_unprivileged_userns
  kernel/perf_event_paranoid kernel/randomize_va_space kernel/shmmax kernel/shmall kernel/sem kernel/keys/maxkeys kernel/keys/maxbytes kernel/core_pattern
  vm/overcommit_memory vm/overcommit_ratio vm/max_map_count vm/swappiness vm/zone_reclaim_mode vm/nr_hugepages /sys/kernel/mm/transparent_hugepage/enabled
  fs/nr_open fs/aio-max-nr fs/protected_hardlinks fs/protected_regular net/ipv6/conf/all/disable_ipv6 net/core/rmem_max net/core/wmem_max net/core/somaxconn
  net/ipv4/ip_local_port_range /sys/fs/selinux/enforce /sys/devices/system/cpu/smt/control'
# inventory_mounts: what is mounted where, without what differs by itself. In "$0.far" are the points that a server answers for, in "$0.near" others.
inventory_mounts() {
  awk -v far="$0.far" -v near="$0.near" -v own="${host_name%%.*}" '
    BEGIN { printf "" >far; printf "" >near }
    function kept(text, without,  n, i, part, all) {
      n = split(text, part, ",")
      for (i = 1; i <= n; i++) if (part[i] !~ without) all = all "," part[i]
      return substr(all, 2)
    }
    {
      for (i = 7; $i != "-"; i++);
      kind = $(i + 1); source = $(i + 2)
      gsub(/\\040/, " ", $5)
      is_near = kind ~ /^(ext[234]|xfs|btrfs|zfs|f2fs|tmpfs|overlay|vfat|jfs|reiserfs|squashfs|iso9660|ramfs|devtmpfs|rootfs)$/
      if (!is_near && kind !~ /^(proc|sysfs|devpts|cgroup2?|mqueue|hugetlbfs|securityfs|debugfs|tracefs|pstore|bpf|configfs|efivarfs|binfmt_misc|fusectl|nsfs|rpc_pipefs)$/) print $5 >far
    }
    $5 ~ /^\/(proc|sys|dev\/[a-z]+|run\/(user|credentials|netns|docker|containerd)|snap|var\/lib\/(docker|containers?|containerd|kubelet))(\/|$)/ && $5 !~ /^\/dev\/(shm|pts)$/ { next }
    kind == "squashfs" && $5 ~ /\/store\/[^\/]+\/[^\/]+$/ { next }
    {
      if (is_near && kind !~ /^(squashfs|iso9660|devtmpfs|rootfs)$/ && ("," $6 ",") !~ /,ro,/) print $5 >near
      if (source == own) source = "NODE"
      sub(/^\/dev\/loop[0-9]+$/, "/dev/loop", source)
      sub(/^UUID=.*|^\/dev\/disk\/by-.*/, "a disk", source)
      text = kind " " source ($4 == "/" ? "" : "[" $4 "]") " " kept($6, "^(no|rel|strict|lazy)a?time$")
      super = kept($(i + 3), "^(rw|clientaddr|addr|mountaddr|port|mountport|fd|pgrp|pipe_ino|context|seclabel|lowerdir|upperdir|workdir|size|nr_inodes)(=|$)")
      if (last[$5] != $3 " " $4) below[$5] = $5 in mount ? mount[$5] " + " : ""; else print "sys\ta mount of " $5 " over itself\tthere" # which hides nothing
      last[$5] = $3 " " $4; mount[$5] = below[$5] text (super == "" ? "" : " " super)
    }
    END { for (point in mount) print "mount\t" point "\t" mount[point] }' /proc/self/mountinfo
  inventory_far="
$(cat "$0.far")
"
}

# inventory_near FOLDER: whether no server answers for a folder, and no link leads to it. Nothing below the mount point of a server is touched.
inventory_near() {
  inventory_above='' inventory_rest=${1#/}${1:+/}
  while [ -n "$inventory_rest" ]; do
    inventory_above=$inventory_above/${inventory_rest%%/*}
    inventory_rest=${inventory_rest#*/}
    case $inventory_far in *"
$inventory_above
"*) return 1 ;; esac
    [ ! -h "$inventory_above" ] || return 1
  done
}

# inventory_files: of what find prints, links, folders and programs, and files with the first digits of their sha256.
inventory_files() {
  set -- /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty /dev/ptmx /dev/fd /dev/stdin /dev/stdout /dev/stderr /run/munge /run/sshd /tmp /var/tmp /dev/shm /var/spool /var/spool/slurmd
  [ ! -r /root ] || for inventory_file in .bashrc .bash_profile .bash_login .bash_logout .profile .cshrc .tcshrc .login .zshenv .zprofile .zshrc .zlogin \
    .modulerc .lmodrc.lua; do set -- "$@" "/root/$inventory_file"; done # those of the user: in the user's shell
  for inventory_folder in '' /opt /usr /usr/local /usr/local/bin /usr/local/sbin /usr/local/lib /usr/local/lib64 /usr/local/include /usr/local/etc \
    /run/slurm/conf /var/spool/slurmd/conf-cache; do
    inventory_near "$inventory_folder" || continue
    # Names only: a look at a mount point of a server might not come back.
    for inventory_file in "$inventory_folder"/*; do
      case $inventory_far in *"
$inventory_file
"*) ;; *) set -- "$@" "$inventory_file" ;; esac
    done
  done
  # Only /etc, which is among them, and the folders of programs are entered. What envmgr has on some nodes only is left out.
  find "$@" /usr/bin /usr/sbin -maxdepth 8 -xdev \( -path /etc/.git -o -path '/etc/pki/ca-trust/extracted/*' -o -path '/etc/lvm/*' \
    -o -path '/etc/envmgr/[!n]*' -o -path '/etc/envmgr/node/images*' -o -path /etc/envmgr/node/check-flip -o -path /etc/envmgr/node/signed.sh \
    -o -path '/etc/*/envmgr-*' -o -path /usr/local/bin/envmgr \) -prune -o \
    -printf '%y\t%m %u:%g\t%s\t%p\t%l\n' \( -path /etc -o -path '/etc/*' -o -path /usr/bin -o -path /usr/sbin -o -prune \) 2>/dev/null |
    # Paths to take the sum of are in `open`, and in `closed` where others cannot read them; in `told` such a file is `sum<TAB>PATH<TAB>MODE OWNER`.
    awk -F '\t' -v open="$0.open" -v closed="$0.closed" '
      BEGIN { printf "" >open; printf "" >closed }
      NF != 5 || $4 ~ /\\|\n/ { next }
      {
        above = $4; sub(/\/[^\/]*$/, "", above)
        last = substr($2, index($2, " ") - 1, 1)
        shut = (above in is_shut) || $4 ~ /^\/root\//
      }
      $4 == "/etc/envmgr" { next }
      $1 == "d" { if (shut || last % 2 == 0) is_shut[$4]; print "dir\t" $4 "\t" $2; next }
      $1 == "l" { print "link\t" $4 "\t-> " $5; next }
      $4 ~ /^\/etc\/(mtab|adjtime|\.pwd\.lock|\.updated|hostid|g?shadow)$|-$|\.cache$|\.swp$/ { next }
      $4 ~ /^\/usr\/s?bin\// { print "prog\t" $4 "\t" $2 " " $3; next }
      {
        # Others have these by themselves, and private keys are no one else'"'"'s.
        by_itself = $4 ~ /^\/etc\/(hostname|machine-id|hostid|udev\/hwdb\.bin|network\/|netplan\/|NetworkManager\/system-connections\/|sysconfig\/network-scripts\/ifcfg-|systemd\/network\/|iscsi\/initiatorname|nvme\/host|crypttab|mdadm|default\/grub$|kernel\/cmdline|initramfs-tools\/conf\.d\/resume)/
        is_key = $4 ~ /(^|\/)(ssh_host_[^\/]*|[^\/]*\.key|[^\/]*keytab|id_[a-z0-9]+|private\/.*)$/
        if ($1 != "f" || by_itself || is_key || $3 > 4194304) { print "file\t" $4 "\t- " $2; next }
        print $4 >(shut || int(last / 4) % 2 == 0 ? closed : open)
        print "sum\t" $4 "\t" $2
      }' >"$0.told"
  # Copies are made of closed files, with the salt before their text; and of files that have the name of their own node, or a number of its
  # disks, without that. Not of those that have names of other nodes, too, and of no program: those are written once for all nodes.
  mkdir "$0.copies"
  {
    case $host_name in
      *[0-9]*) grep -v -E '^/etc/envmgr/|^/usr/|\.(lua|py|pl|c?sh)$' "$0.open" | xargs -d '\n' -r grep -l -I -w -s -F -e "${host_name%%.*}" -- ;;
    esac
    [ ! -r /etc/fstab ] || echo /etc/fstab
  } >"$0.named"
  awk -v own="$host_name" -v folder="$0.copies" -v salt="$inventory_salt" "$named_words"'
    BEGIN {
      short = own; sub(/\..*/, "", short)
      stem = short; sub(/[0-9]+[^0-9]*$/, "", stem); gsub(/[^A-Za-z0-9_-]/, ".", stem)
      if (short == stem) own = ""
      four = "[0-9A-Fa-f][0-9A-Fa-f][0-9A-Fa-f][0-9A-Fa-f]"
      disk = four four "-" four "-" four "-" four "-" four four four
    }
    {
      text = ""
      while ((got = getline line <$0) > 0) text = text line "\n"
      close($0)
      if (got < 0) next
      closed = FILENAME ~ /\.closed$/
      if (!closed) {
        text = nameless(text, own)
        if (own != "" && text ~ ("(^|[^A-Za-z0-9_-])" stem "[0-9[]")) next
        gsub(disk, "DISK", text)
      }
      printf "%s%s", closed ? salt : "", text >(folder "/" ++count)
      close(folder "/" count)
      print folder "/" count "\t" $0 "\t" (closed ? "~" : "")
    }' "$0.closed" "$0.named" >"$0.copied"
  { cat "$0.open"; cut -f 1 "$0.copied"; } | xargs -d '\n' -r sha256sum >"$0.sums" 2>/dev/null
  awk -F '\t' '
    FILENAME ~ /\.sums$/ { sum[substr($0, 67)] = substr($0, 1, 12); next }
    FILENAME ~ /\.copied$/ { sum[$2] = $3 sum[$1]; next }
    $1 != "sum" { print; next }
    $2 in sum { print "file\t" $2 "\t" sum[$2] " " $3; next }
    { print "file\t" $2 "\t- " $3 "\nclosed\tfile " $2 }' "$0.sums" "$0.copied" "$0.told"
}

# inventory_trees: of folders of libraries and of software, and of those that daemons write in, one digest of what lies there: names, modes,
# sizes and links. The fourth folder of a path stands for all that is below it.
inventory_trees() {
  set -- /var/log /var/spool /var/lib
  for inventory_folder in /usr/lib /usr/lib64 /usr/libexec /usr/include /usr/share /usr/local /opt; do
    ! inventory_near "$inventory_folder" || set -- "$@" "$inventory_folder"
  done
  mkdir "$0.trees"
  find "$@" -xdev \( -name __pycache__ -o -path /usr/lib/modules -o -path /usr/lib/firmware -o -path /usr/share/man -o -path /usr/share/doc -o -path /usr/share/icons -o -path '/*/*/*/*/*/*/*/*' -o -path '/var/*/*/*' -o -path /var/lib/envmgr -o -path /usr/local/bin/envmgr \) -prune \
    -o -path '/var/*' ! -type d -o -type f -printf '%h\t%f %m %U %s\n' -o -printf '%h\t%f %y %m %U %l\n' 2>/dev/null | sort | awk -F '\t' -v there="$0.trees/" '
    $1 != folder {
      folder = $1
      count = split(folder, part, "/")
      key = there
      for (i = 2; i <= count && i < 6; i++) key = key "|" part[i]
      if (last != "" && key != last) close(last)
      last = key
    }
    folder != "" { print >>key } # the inventory has /opt itself'
  (cd "$0.trees" && find . -type f -printf '%P\0' | xargs -0 -r sha256sum --) |
    awk '{ path = substr($0, 67); gsub(/\|/, "/", path); print "tree\t" path "\t" substr($0, 1, 12) }'
}

# inventory_accounts: of the users that an audit knows. The day on which one ends is all that is read of its secrets.
inventory_accounts() {
  getent passwd $user $build_user root | awk -F: '{ print "account\t" $1 "\t" $3 ":" $4 " " $6 " " $7 }'
  for inventory_name in $user $build_user; do id "$inventory_name" 2>/dev/null | sed "s/^/account\t$inventory_name groups\t/"; done
  if [ -r /etc/shadow ]; then
    getent shadow $user $build_user | awk -F: -v today="$(($(date +%s) / 86400))" '{
      over = $3 == "0" || ($3 != "" && $5 != "" && $3 + $5 < today)
      print "account\t" $1 " ends\t" (over ? "with its password, which is over" : $8 == "" ? "never" : $8 ($8 < today ? " is over" : ""))
    }'
  else
    printf 'closed\taccount %s ends\n' $user $build_user
  fi
  for inventory_name in /etc/nologin /run/nologin; do [ ! -e "$inventory_name" ] || printf 'account\t%s\tno user may log in\n' "$inventory_name"; done
}

# inventory_daemons: those that jobs and logins come from, with the limits that they pass on.
inventory_daemons() {
  set --
  for inventory_name in slurmd sshd munged; do
    inventory_runs='does not run'
    if inventory_pid=$(pgrep -o -x "$inventory_name"); then
      inventory_runs=runs
      set -- "$@" "name=$inventory_name" "/proc/$inventory_pid/limits" "/proc/$inventory_pid/status"
    elif [ $? != 1 ]; then
      return 1 # pgrep does not run
    fi
    printf 'daemon\t%s\t%s\n' "$inventory_name" "$inventory_runs"
  done
  [ $# = 0 ] || awk "$inventory_limit"'
    BEGIN { getline online <"/sys/devices/system/cpu/online" }
    /^Cpus_allowed_list:/ { print "daemon\t" name "\047s cores\tare " ($2 == online ? "all" : $2) }
    /^Max / { print "limit\t" name " " limit($0) }' "$@"
}

looked() { printf 'looked\t%s\n' "$@"; }
inventory_look() {
  umask 077
  export PATH="$inventory_path" LC_ALL=C
  inventory_mounts
  (cd /proc/sys && grep -s . $inventory_kernel) | awk -F: '{ if (!/^\//) gsub(/\//, ".", $1); print "sysctl\t" $1 "\t" $2 }'
  printf 'sys\tkernel\t%s\nsys\tglibc\t%s\nsys\tzone\t%s\nsys\tlo\t%s\n' "$(uname -rm)" "$(getconf GNU_LIBC_VERSION 2>/dev/null)" "$(date +%Z)" "$(cat /sys/class/net/lo/operstate 2>/dev/null)"
  if [ -r /proc/driver/nvidia/version ] && read -r inventory_file </proc/driver/nvidia/version; then printf 'sys\tdriver\t%s\n' "$inventory_file"; fi
  awk -F '[:=]' '
    /^PRETTY_NAME/ { gsub(/"/, "", $2); print "sys\tos\t" $2 }
    /^processor/ { count++ }
    /^model name/ && !model { model = $2 }
    /^flags|^Features/ && !flags { flags = split($2, all, " ") }
    END { print "sys\tcpu\t" count " x" model ", " flags " flags" }' /proc/cpuinfo /etc/os-release 2>/dev/null
  awk -F ':[ \t]*' '/^Model/ { count[$2]++ } END { for (model in count) print "sys\tGPUs\t" count[model] " x " model }' /proc/driver/nvidia/gpus/*/information 2>/dev/null
  inventory_daemons && looked daemon limit
  looked mount sysctl sys
  ldconfig -p | awk '
    / => / {
      kind = $2 ~ /x86-64|AArch64|64bit|PPC64/ ? "" : " " $2
      if (!(($1, kind) in seen)) print "lib\t" $1 kind "\t" $NF
      seen[$1, kind]
    }
    END { exit !NR }' && looked lib
  if command -v dpkg-query >/dev/null; then
    dpkg-query -W -f 'pkg\t${Package}:${Architecture}\t${Version} ${db:Status-Status}\n' | sed 's/ installed$//'
  else
    rpm -qa --qf 'pkg\t%{NAME}.%{ARCH}\t%{VERSION}-%{RELEASE}\n' | grep -v '	gpg-pubkey'
  fi && looked pkg
  inventory_files
  looked file link dir prog
  xargs -d '\n' -r df -k --output=avail,itotal,iavail,size,target <"$0.near" 2>/dev/null | awk '
    NR > 1 && $4 > 0 { print "room\t" $5 "\t" ($1 < 1024 ? "full" : "yes") }
    NR > 1 && $4 > 0 && $2 > 0 { print "inodes\t" $5 "\t" ($3 < 100 ? "none left" : "yes") }'
  if [ -d /run/systemd/system ]; then
    { systemctl list-unit-files --state=enabled --no-legend; systemctl list-units --failed --no-legend --plain; } 2>/dev/null |
      awk '$1 !~ /^envmgr-|\\x|@dev-|\.(device|scope|slice|swap)$/ { print "service\t" $1 "\t" ($4 == "failed" ? "failed" : "enabled") }'
  fi
  looked room inodes service
  inventory_accounts && looked account
  inventory_trees
  looked tree
}

with_limit "$inventory_seconds" "$0.inventory" inventory_look
(inventory_tell mount sysctl sys daemon limit lib pkg file link dir prog room inodes service account tree <"$0.inventory")
