#!/bin/sh
# Runs a program of an image on this node: `run PROGRAM [ARGUMENT…]`. What follows replaces this process where the runtime allows that, so
# that signals and exit codes are the program's own. The image's variables are in the files `env` and `env.sh` beside it.
# ENVMGR_RUNTIME names one of apptainer, podman, charliecloud; without it, the first that this node has.
set -u
root='@root@'
entry='@entry@'
gpu='@gpu@'
binds='@binds@'
points='@points@'
image=$root/image.sqfs
own=$root/libexec

fail() {
    printf 'envmgr: %s: %s\n' "$entry" "$1" >&2
    exit 127
}

runtime=${ENVMGR_RUNTIME:-}
program=
for each in ${runtime:-apptainer podman charliecloud}; do
    case $each in
    apptainer) program=$(command -v apptainer || command -v singularity) ;;
    podman) program=$(command -v podman) ;;
    charliecloud) program=$(command -v ch-run) ;;
    *) fail "ENVMGR_RUNTIME is \`$each\`: it names none of apptainer, podman, charliecloud" ;;
    esac
    [ -z "$program" ] || { runtime=$each && break; }
done
[ -n "$program" ] || fail "this node has no ${runtime:-apptainer, podman or charliecloud}: install one of them"
[ -r "$image" ] || fail "$image cannot be read here"

# The host's Python, modules and search paths are not those of the image.
for name in $(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p'); do
    case $name in
    PYTHONPATH | PYTHONHOME | PYTHONSTARTUP | PYTHONUSERBASE | PYTHONEXECUTABLE | VIRTUAL_ENV | CONDA_* | LD_* | PERL5LIB | R_LIBS* | \
        LMOD_* | __LMOD_* | _ModuleTable* | MODULEPATH* | MODULESHOME | LOADEDMODULES | _LMFILES_ | BASH_ENV | ENV | FPATH | \
        MANPATH | INFOPATH | CPATH | *_INCLUDE_PATH | LIBRARY_PATH | PKG_CONFIG_PATH | CMAKE_PREFIX_PATH | ACLOCAL_PATH | XDG_DATA_DIRS)
        unset "$name"
        ;;
    esac
done

# A folder of the node is seen inside if the image has a place for it.
inside=
bind() {
    [ -d "$1" ] || return 0
    case " $inside " in *" $1 "*) return 0 ;; esac
    case " $points " in
    *" $1 "*) inside="$inside $1" ;;
    *) [ "$runtime" = apptainer ] && inside="$inside $1" ;;
    esac
}
top() {
    top_rest=${1#/}
    echo "/${top_rest%%/*}"
}
for folder in $binds "$(top "${HOME:-/}")" "$(top "$PWD")" /tmp; do
    [ "$folder" = / ] || bind "$folder"
done
at=$PWD
case " $inside " in
*" $(top "$PWD") "*) ;;
*)
    at=/
    printf 'envmgr: %s: %s is not seen inside: name it with `bind` in the recipe; the working folder is /\n' "$entry" "$PWD" >&2
    ;;
esac

what=$1
shift
: "${USER:=$(id -un)}" "${HOME:=/}"
export USER HOME

case $runtime in
apptainer)
    options=
    [ "$gpu" = no ] || options=--nv
    # shellcheck disable=SC2086 # words
    exec "$program" --silent exec $options --no-home --pwd "$at" --env-file "$own/env.sh" \
        --bind "$(echo $inside | tr ' ' ,)" "$image" "$what" "$@"
    ;;
charliecloud)
    set -- "$image" -- "$what" "$@"
    for folder in $inside; do
        [ "$folder" = /tmp ] || set -- --bind "$folder:$folder" "$@"
    done
    # The driver's own libraries, which the image's programs need as they are on this node. They are found as the linker finds them.
    if [ "$gpu" = yes ] && [ -e /proc/driver/nvidia/version ]; then
        version=$(sed -n '1s/.*Kernel Module[^0-9]*\([0-9.]*\).*/\1/p' /proc/driver/nvidia/version)
        driver=${TMPDIR:-/tmp}/.envmgr-driver-$version-$(id -u)
        if ! [ -e "$driver/whole" ]; then
            mkdir -p -m 700 "$driver" || fail "$driver cannot be made, which the driver's libraries are to lie in"
            ldconfig -p | sed -n 's/.*x86-64.*=> \(.*\/lib\(cuda\|nvidia-[a-z0-9-]*\|nvcuvid\|cudadebugger\)\.so\.[0-9.]*\)$/\1/p' |
                while read -r file; do cp -f "$file" "$driver/.$$" && mv "$driver/.$$" "$driver/${file##*/}"; done
            cp -f "$(command -v nvidia-smi)" "$driver/" 2>/dev/null
            : >"$driver/whole"
        fi
        set -- --bind "$driver:/mnt/driver" "--set-env=LD_LIBRARY_PATH=/mnt/driver:$(sed -n 's/^LD_LIBRARY_PATH=//p' "$own/env")" "$@"
    fi
    exec "$program" --env-no-expand "--set-env=$own/env" "--set-env=HOME=$HOME" --cd "$at" "$@"
    ;;
podman)
    # Its root file system is mounted first, by a process that the kernel ends when this one has ended.
    fuse=$(command -v squashfuse_ll || command -v squashfuse) || fail "podman needs squashfuse, which this node lacks"
    rootfs=$(mktemp -d "${TMPDIR:-/tmp}/envmgr-XXXXXX") || fail "no folder can be made in ${TMPDIR:-/tmp}"
    trap 'rmdir "$rootfs" 2>/dev/null' EXIT
    setsid setpriv --pdeathsig TERM "$fuse" -f -o ro "$image" "$rootfs" </dev/null >/dev/null 2>&1 &
    serving=$!
    until [ -d "$rootfs/proc" ]; do
        kill -0 "$serving" 2>/dev/null || fail "$fuse did not mount $image: is /dev/fuse closed to you?"
        sleep 0.02
    done
    set -- --rootfs "$rootfs" "$what" "$@"
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
    state=${TMPDIR:-/tmp}/.envmgr-podman-$(id -u)
    "$program" --root "$state" --runroot "$state/run" --storage-driver vfs --events-backend none --cgroup-manager cgroupfs \
        run --rm --interactive --read-only --read-only-tmpfs=false --network host --uts host --cgroups disabled \
        --security-opt label=disable --security-opt seccomp=unconfined --log-driver none --workdir "$at" "$@" <&0 &
    running=$!
    for signal in HUP INT QUIT TERM USR1 USR2; do
        # shellcheck disable=SC2064 # now
        trap "kill -$signal $running" "$signal"
    done
    wait "$running"
    status=$?
    # A signal ends `wait`, and not what is waited for.
    while kill -0 "$running" 2>/dev/null; do
        wait "$running"
        status=$?
    done
    kill "$serving"
    wait "$serving"
    exit "$status"
    ;;
esac
