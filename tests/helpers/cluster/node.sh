#!/bin/bash
# The namespaces of a test cluster. Started by tests/helpers/cluster/cluster.py, never by hand:
#   node.sh holder FOLDER       PID 1 of a PID namespace in which every node lives, and owner of the network between them
#   node.sh node FOLDER NODE    PID 1 of one node
#
# The holder reads `boot NODE` lines on its standard input and ends at its end: that is when its owner has closed it, or has
# died in whatever way. With the first process of a PID namespace the kernel kills all others, in nested namespaces too, and
# with the last process of a network or mount namespace goes what was in it. So nothing is left, and nothing needs clean-up.
#
# FOLDER/settings is sourced: ADDRESS (node -> address), SHARE, BINDS (host paths that nodes see), HIDDEN (and
# which not), SHARED (those that nodes may write to).
set -eu
role=$1 folder=$2
. "$folder/settings"

holder() {
    ip link set lo up
    ip link add br0 type bridge
    ip address add "$GATEWAY/24" dev br0
    ip link set br0 up
    echo ready >"$folder/holder"
    while read -r _ name; do
        boot "$name" &
    done
    exit 0
}

boot() {
    rm -f "$folder/pids/$1"
    ip link delete "v-$1" 2>/dev/null || true # of a node that died a moment ago
    setsid unshare --net --uts --ipc --pid --mount --propagation private --fork --kill-child \
        bash "$0" node "$folder" "$1" >>"$folder/log/$1" 2>&1 </dev/null &
    until [ -s "$folder/pids/$1" ]; do sleep 0.01; done
    read -r pid <"$folder/pids/$1"
    # The same hardware address after a reboot: else its neighbours go on talking to the old one for a while.
    # shellcheck disable=SC2086 # four words
    printf -v mac '02:00:%02x:%02x:%02x:%02x' ${ADDRESS[$1]//./ }
    ip link add "v-$1" type veth peer name eth0 address "$mac" netns "/proc/$pid/ns/net"
    ip link set "v-$1" master br0 up
}

node() {
    local name=$1
    # /proc is still the host's: the first field is our id there, which is what the owner can use.
    read -r pid _ </proc/self/stat
    echo "$pid" >"$folder/pids/.$name" && mv "$folder/pids/.$name" "$folder/pids/$name"
    make_root "$name"
    configure "$name"
    umount -l /mnt/old
    until ip link show eth0 >/dev/null 2>&1; do sleep 0.01; done
    ip link set lo up
    ip address add "${ADDRESS[$name]}/24" dev eth0
    ip link set eth0 up
    serve "$name"
    echo ready >/run/node-ready
    while :; do sleep 3600 & wait $!; done # bash reaps the orphans of a node, as a first process must
}

# The host's / below, what the node writes in a tmpfs of its own above, and /proc, /sys, /dev, /run, /tmp of its own.
make_root() {
    local base=$folder/root root=$folder/root/root path
    mount -t tmpfs -o size=2g,mode=755 tmpfs "$base"
    mkdir "$base"/{upper,work,root,dev}
    mount -t overlay "$1" -o "lowerdir=/,upperdir=$base/upper,workdir=$base/work" "$root"
    mount -t proc proc "$root/proc"
    mount -t sysfs sysfs "$root/sys"
    make_dev "$base/dev"
    mount --rbind "$base/dev" "$root/dev"
    for path in /tmp /run "${HIDDEN[@]}"; do
        mkdir -p "$root$path"
        mount -t tmpfs -o mode=755 tmpfs "$root$path"
    done
    chmod 1777 "$root/tmp"
    chmod 711 "$root/root" # private, but the build user must reach an interpreter that lies below it
    mount --bind "$folder/home" "$root/home"
    for path in "${BINDS[@]}"; do
        mkdir -p "$root$path"
        mount --bind "$path" "$root$path"
        mount -o remount,bind,ro "$root$path"
    done
    for path in "${SHARED[@]}"; do
        mkdir -p "$root$path"
        mount --bind "$path" "$root$path"
    done
    mkdir -p "$root$PREFIX" "$root/export" "$root/mnt/old" "$root/mnt/own"
    mount --bind "$base/upper" "$root/mnt/own" # what the node wrote: see tests/helpers/states.py
    if [ "$1" = fs1 ]; then
        mount --bind "$folder/export" "$root/export"
    elif [ "$SHARE" = bind ] || [ "$SHARE-$1" = sshfs-login ]; then # sshfs cannot set a link's time, as a build does
        mount --bind "$folder/export/sw" "$root$PREFIX"
        [ -z "$MOUNT_OPTIONS" ] || mount -o "remount,bind,$MOUNT_OPTIONS" "$root$PREFIX"
    fi
    cd "$root"
    pivot_root . mnt/old
    cd /
}

make_dev() {
    local device
    for device in null zero full random urandom tty fuse; do
        [ -e "/dev/$device" ] || continue
        touch "$1/$device"
        mount --bind "/dev/$device" "$1/$device"
    done
    mknod "$1/loop-control" c 10 237
    for device in {0..63}; do mknod "$1/loop$device" b 7 "$device"; done
    mkdir "$1"/{pts,shm}
    mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$1/pts"
    mount -t tmpfs -o nosuid,nodev,mode=1777 shm "$1/shm"
    ln -s pts/ptmx "$1/ptmx"
    ln -s /proc/self/fd "$1/fd"
    ln -s /proc/self/fd/0 "$1/stdin"
    ln -s /proc/self/fd/1 "$1/stdout"
    ln -s /proc/self/fd/2 "$1/stderr"
}

# What the host has under these names would leak in; what every node has comes from FOLDER/etc.
configure() {
    local old=/mnt/old$folder
    rm -rf /etc/envmgr /etc/ssh/ssh_host_* /etc/ssh/sshd_config.d/* /etc/ssh/ssh_config.d/* /etc/slurm/plugstack.conf.d/*
    cp -a "$old/etc/." /etc/
    cp -a "$old/hostkeys/$1" /etc/ssh/ssh_host_ed25519_key
    cp -a "$old/hostkeys/$1.pub" /etc/ssh/ssh_host_ed25519_key.pub
    cp -a "$old/roothome/." /root/
    cp -a "$old/sbin/." /usr/local/sbin/
    hostname "$1"
    echo "$1" >/etc/hostname
}

serve() {
    mkdir -p /run/sshd
    /usr/sbin/sshd
    install -d -o munge -g munge -m 755 /run/munge
    install -d -o munge -g munge -m 700 /var/lib/munge /var/log/munge
    setpriv --reuid munge --regid munge --clear-groups /usr/sbin/munged --num-threads 2
    install -d -o slurm -g slurm /var/log/slurm /var/spool/slurmctld
    mkdir -p /var/spool/slurmd
    case $1 in
    fs1) cluster-share serve ;;
    login) setpriv --reuid slurm --regid slurm --clear-groups /usr/sbin/slurmctld ;;
    *) /usr/sbin/slurmd ;;
    esac
    [ "$1" = fs1 ] || cluster-share mount
}

case $role in
holder) holder ;;
node) node "$3" ;;
esac
