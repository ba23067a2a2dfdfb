#!/bin/sh
# /usr/local/sbin/cluster-share on every node: `serve` the prefix (fs1), `mount` it as this node has it, `remount`.
# /etc/cluster-share says SHARE, PREFIX, MOUNT_OPTIONS. A FUSE daemon stays in the node, its id in /run/cluster-share.pid.
set -eu
. /etc/cluster-share

# $1: seconds; then a command
wait_for() {
    tries=$(($1 * 20))
    shift
    until "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || { echo "timeout: $*" >&2; exit 1; }
        sleep 0.05
    done
}

listens() { bash -c "exec 3<>/dev/tcp/fs1/$1"; }
mounted() { grep -q " $PREFIX .* - fuse" /proc/self/mountinfo && stat "$PREFIX" >/dev/null; }

serve_nfs() {
    mkdir -p /run/ganesha /run/rpcbind /var/log/ganesha /var/lib/nfs/ganesha
    rpcbind -w -h "$(getent hosts fs1 | cut -d' ' -f1)"
    ganesha.nfsd -f /etc/ganesha/ganesha.conf -L /var/log/ganesha/ganesha.log -p /run/ganesha.pid
}

# $@: the client, staying in the foreground. It is started again when the server was not quite ready for it.
mount_fuse() {
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        setsid "$@" </dev/null >>/var/log/cluster-share.log 2>&1 &
        client=$!
        echo $client >/run/cluster-share.pid
        tries=200
        while [ $tries -gt 0 ] && kill -0 $client 2>/dev/null; do
            ! mounted 2>/dev/null || return 0
            tries=$((tries - 1))
            sleep 0.05
        done
        kill -9 $client 2>/dev/null || true
        umount -l "$PREFIX" 2>/dev/null || true
        sleep 0.3
    done
    cat /var/log/cluster-share.log >&2
    exit 1
}

mount_nfs() {
    wait_for 60 listens 2049
    # shellcheck disable=SC2086 # options are words
    mount_fuse nfsfuse fs1 /export/sw "$PREFIX" -f -v 3 $MOUNT_OPTIONS \
        -o allow_other,default_permissions,fsname=fs1:/export/sw,subtype=nfs3
}

# The login node has the server's own disk: see node.sh.
mount_sshfs() {
    [ "$(hostname)" != login ] || return 0
    wait_for 60 listens 22
    # shellcheck disable=SC2086
    mount_fuse sshfs alice@fs1:/export/sw "$PREFIX" -f $MOUNT_OPTIONS \
        -o "ro,allow_other,default_permissions,fsname=fs1:/export/sw,IdentityFile=/root/.ssh/id_ed25519"
}

# After a server that died: its clients do not come back by themselves, or late.
unmount() {
    [ -e /run/cluster-share.pid ] || return 0
    kill -9 "$(cat /run/cluster-share.pid)" 2>/dev/null || true
    umount -l "$PREFIX" 2>/dev/null || true
}

[ "$1" != remount ] || { unmount; set -- mount; }
case $1-$SHARE in
serve-nfs) serve_nfs ;;
mount-nfs) mount_nfs ;;
mount-sshfs) mount_sshfs ;;
esac
