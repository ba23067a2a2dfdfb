#!/bin/sh
# Runs a program of an image on this node: `run PROGRAM [ARGUMENT…]`. The runtime replaces this process, so that signals and exit codes are
# the program's own. The image's variables are in the files `env` and `env.sh` beside it.
# As `node-check` it only says what this node lacks for that.
# ENVMGR_RUNTIME names one of apptainer, charliecloud, podman. Without it, it is the site's, or the first that this node has.
set -u
root='@root@'
entry='@entry@'
gpu='@gpu@'
binds='@binds@'
points='@points@'
default='@runtime@'
user_site='@user_site@'
image=$root/image.sqfs
staged='@staged@' # the copy on this node's disk, if there is one
own=$root/libexec

fail() {
    printf 'envmgr: %s: %s\n' "$entry" "$1" >&2
    exit 127
}

runtime=${ENVMGR_RUNTIME:-$default}
program=
for each in ${runtime:-apptainer charliecloud podman}; do
    case $each in
    apptainer) program=$(command -v apptainer || command -v singularity) ;;
    podman) program=$(command -v podman) ;;
    charliecloud) program=$(command -v ch-run) ;;
    *) fail "ENVMGR_RUNTIME is \`$each\`: it names none of apptainer, charliecloud, podman" ;;
    esac
    [ -z "$program" ] || { runtime=$each && break; }
done
[ -n "$program" ] || fail "this node has no ${runtime:-apptainer, charliecloud or podman}: install one of them"
[ ! -r "$staged" ] || image=$staged
[ -r "$image" ] || fail "$image cannot be read here"

# mine FOLDER: a folder of this user's, whom nobody else can have made it for.
mine() {
    mkdir -m 700 "$1" 2>/dev/null
    [ "$(stat -c '%u %F' "$1")" = "$(id -u) directory" ] || fail "$1 is not yours, or no folder: remove it, or set TMPDIR"
}

case $runtime in podman) as=--map-root-user ;; *) as='--map-current-user --keep-caps' ;; esac

# within WORDS…: become a command that sees the image at $own/rootfs, in namespaces of its own.
within() {
    # shellcheck disable=SC2086 # words
    set -- unshare --user $as --mount /bin/sh "$own/mounted" 1 "$image" "$own/rootfs" "$@"
    unshare --user true 2>/dev/null || fail 'this node lets users make no namespaces (user.max_user_namespaces)'
    start "$@"
}

# As node-check, all is done as for a program, of a name that no image has. If the runtime only misses it, it starts programs.
check=
case $0 in */node-check)
    check=/.envmgr-no-such-program
    set -- "$check"
    ;;
esac

# The host's Python, modules and search paths are not those of the image.
for name in $(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p'); do
    case $name in
    PYTHONPATH | PYTHONHOME | PYTHONSTARTUP | PYTHONUSERBASE | PYTHONEXECUTABLE | VIRTUAL_ENV | CONDA_* | LD_* | PERL5LIB | R_LIBS* | \
        LMOD_* | __LMOD_* | _ModuleTable* | MODULEPATH* | MODULESHOME | LOADEDMODULES | _LMFILES_ | BASH_ENV | ENV | FPATH | \
        MANPATH | INFOPATH | CPATH | *_INCLUDE_PATH | LIBRARY_PATH | PKG_CONFIG_PATH | CMAKE_PREFIX_PATH | ACLOCAL_PATH | XDG_DATA_DIRS | \
        CC | CXX | FC | F77 | MKLROOT | TCL_LIBRARY | TK_LIBRARY | JUPYTER_PATH)
        unset "$name"
        ;;
    esac
done

# A folder of the node is seen inside if the image has a place for it; apptainer makes one. The node's system never lies over the image's.
inside=
bind() {
    [ -d "$1" ] || return 0
    case " $inside " in *" $1 "*) return 0 ;; esac
    case "$runtime $points " in apptainer* | *" $1 "*) inside="$inside $1" ;; esac
}
bind_top() {
    top_rest=${1#/}
    case ${top_rest%%/*} in
    '' | bin | boot | dev | etc | lib | lib32 | lib64 | libx32 | mnt | opt | proc | run | sbin | srv | sys | usr | var) ;;
    *) bind "/${top_rest%%/*}" ;;
    esac
}
[ "$user_site" = yes ] || export PYTHONNOUSERSITE="${PYTHONNOUSERSITE-1}"
[ -n "${PWD-}" ] && [ -d "$PWD" ] || cd /
: "${USER:=$(id -un)}" "${HOME:=/}"
export USER HOME
for folder in $binds /tmp; do bind "$folder"; done
bind_top "$HOME"
bind_top "$PWD"
bind_top "${TMPDIR-}"
at=/ room=
for folder in $inside; do
    case $PWD/ in "$folder"/*) at=$PWD ;; esac
    case ${TMPDIR-}/ in "$folder"/*) room=$TMPDIR ;; esac
done
[ -d "$room" ] || room= # a folder that the program would not find
unset TMPDIR            # else charliecloud mounts it as /tmp
[ -n "$check" ] || [ "$at" = "$PWD" ] ||
    printf 'envmgr: %s: %s is not seen inside: name a folder above it with `bind` in the recipe; the working folder is /\n' "$entry" "$PWD" >&2

[ $# -gt 0 ] || fail 'name a program of the image: run PROGRAM [ARGUMENT...]'
# start PROGRAM WORDS...: become the runtime; as node-check, tell what it says, unless that is only that there is no such program.
start() {
    [ -n "$check" ] || exec "$@"
    said=$("$@" 2>&1 </dev/null)
    case $said in
    *"$check"*'o such file'* | *"$check"*'not found'*) exit 0 ;;
    esac
    printf '%s\n' "$said" >&2
    exit 127
}
what=$1
shift
case $runtime in
apptainer)
    options=
    [ "$gpu" = no ] || options=--nv
    [ -z "$room" ] || export TMPDIR="$room"
    # shellcheck disable=SC2086 # words
    start "$program" --silent exec $options --no-home --pwd "$at" --env-file "$own/env.sh" \
        --bind "$(echo $inside | tr ' ' ,)" "$image" "$what" "$@"
    ;;
charliecloud)
    set -- "$own/rootfs" -- "$what" "$@"
    [ -z "$room" ] || set -- "--set-env=TMPDIR=$room" "$@"
    for folder in $inside; do
        [ "$folder" = /tmp ] || set -- --bind "$folder:$folder" "$@" # it has /tmp by itself
    done
    # The driver's libraries are the node's, as its linker finds them: links to them, in a folder that the image's linker searches first.
    cuda=$(PATH=$PATH:/usr/sbin:/sbin ldconfig -p 2>/dev/null | sed -n 's/.*libcuda\.so\.1 (.*x86-64.*=> //p' | head -n 1)
    if [ "$gpu" = yes ] && [ -n "$cuda" ]; then
        libraries=$(dirname "$(readlink -f "$cuda")")
        links=${room:-/tmp}/.envmgr-driver-$(id -u)
        mine "$links"
        for file in "$libraries"/libcuda.so* "$libraries"/libnvidia-*.so* "$libraries"/libnvcuvid.so* "$libraries"/libcudadebugger.so*; do
            [ ! -e "$file" ] || ln -sfn "/mnt/host/${file##*/}" "$links/${file##*/}"
        done
        theirs=$(sed -n 's/^LD_LIBRARY_PATH=//p' "$own/env")
        set -- --bind "$libraries:/mnt/host" --bind "$links:/mnt/driver" "--set-env=LD_LIBRARY_PATH=/mnt/driver${theirs:+:$theirs}" "$@"
    fi
    within "$program" --env-no-expand "--set-env=$own/env" "--set-env=HOME=$HOME" --cd "$at" "$@"
    ;;
podman)
    # Inside, the user is root, who has the user's own rights. podman learns from its own variables that it is in a namespace of the user already.
    set -- --rootfs "$own/rootfs" "$what" "$@"
    for folder in $inside /dev/shm; do set -- --volume "$folder:$folder" "$@"; done
    if [ "$gpu" = yes ] && { [ -e /etc/cdi/nvidia.yaml ] || [ -e /var/run/cdi/nvidia.yaml ]; }; then
        set -- --device nvidia.com/gpu=all "$@"
    fi
    [ ! -d /dev/mqueue ] || set -- --ipc host "$@"
    if [ -t 0 ] && [ -t 1 ]; then set -- --tty "$@"; fi
    for name in $(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p'); do
        case $name in PATH) ;; *) set -- --env "$name" "$@" ;; esac
    done
    while IFS= read -r line; do set -- --env "$line" "$@"; done <"$own/env"
    [ -z "$room" ] || set -- --env "TMPDIR=$room" "$@"
    state=${room:-/tmp}/.envmgr-podman-$(id -u)
    mine "$state"
    _CONTAINERS_ROOTLESS_UID=$(id -u)
    _CONTAINERS_ROOTLESS_GID=$(id -g)
    export _CONTAINERS_ROOTLESS_UID _CONTAINERS_ROOTLESS_GID _CONTAINERS_USERNS_CONFIGURED='done'
    within "$program" --log-level fatal --root "$state" --runroot "$state/run" --tmpdir "$state/tmp" --storage-driver vfs \
        --events-backend none --cgroup-manager cgroupfs run --rm --interactive --read-only --read-only-tmpfs=false --network host \
        --uts host --pid host --cgroups no-conmon --security-opt label=disable --security-opt seccomp=unconfined --log-driver none \
        --workdir "$at" --env OMPI_ALLOW_RUN_AS_ROOT=1 --env OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$@"
    ;;
esac
