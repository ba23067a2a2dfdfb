#!/bin/sh
# shellcheck disable=SC2034 # install.whole.sh, which follows, reads task_prolog and slurm_state
# install.sh: puts envmgr's files on this node, shows what that would change, or takes them away again.
#
#   sh node-setup.sh apply | check | undo
#
# One line per file on stdout, parted by tabs: STATUS PATH REASON. STATUS is same, skipped, failed; with apply or undo
# written, removed; with check would-write (undo-check: would-remove). Then one line: slurm STATE VALUE, on this node's TaskProlog.
# Needs root. A file is replaced by rename: a login that happens now reads the old file or the new one.

set -u
umask 022
LC_ALL=C
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL PATH
action=${1:-check}
case $action in apply | check | undo | undo-check) ;; *) echo "usage: sh node-setup.sh apply|check|undo|undo-check" >&2; exit 2 ;; esac
nl='
'
BEGIN='# >>> envmgr >>>'
END='# <<< envmgr <<<'

say() { # STATUS PATH [REASON]
    reason=$(printf '%s' "${3-}" | tr '\n\t' '  ')
    printf '%s\t%s\t%s\n' "$1" "$2" "$reason"
}

contents() { # FILE: sets $text to it, byte for byte (a final character keeps the line ends); else false, and $text says why
    { text=$(cat -- "$1" 2>&1 && echo .); } 2>/dev/null || return # bash warns of a NUL
    text=${text%.}
    [ "${#text}" = "$(wc -c <"$1" | tr -d ' ')" ] || { # in the C locale both are bytes
        text="it has a NUL byte, which no shell reads: remove it by hand"
        return 1
    }
}

store() { # PATH MODE TEXT LIKE: writes by rename; LIKE is a file whose owner and mode are taken, or nothing
    store_to=$1.envmgr-$$
    fault=$({
        { [ -z "$4" ] || cp -p -- "$4" "$store_to"; } &&
            printf '%s' "$3" >"$store_to" &&
            { [ -n "$4" ] || { chmod "$2" "$store_to" && chown 0:0 "$store_to"; }; } &&
            mv -f -- "$store_to" "$1"
    } 2>&1) && {
        ! command -v restorecon >/dev/null 2>&1 || restorecon "$1" >/dev/null 2>&1
        return 0
    }
    rm -f -- "$store_to" 2>/dev/null
    return 1
}

clear_dead() { # PATH: what runs that were killed left beside it
    case $action in apply | undo) ;; *) return ;; esac
    for left in "$1".envmgr-*; do
        case ${left##*.envmgr-} in *[!0-9]*) continue ;; esac
        [ -e "/proc/${left##*.envmgr-}/exe" ] || rm -f -- "$left" 2>/dev/null # of a zombie there is none
    done
}

changed() { # PATH STATUS WORD [REASON]: says the line for a change that was made (STATUS 0) or not
    if [ "$2" = 0 ]; then say "$3" "$1" "${4-}"; else say failed "$1" "${fault:-it was killed, or does not say why}"; fi
}

without_block() { # LINES: sets $rest to $text without envmgr's block, $new to "new" when we made the file; else false, and $fault
    rest=$text
    new=
    while :; do
        case $rest in
        "$BEGIN"*) head= ;;
        *"$nl$BEGIN"*) head=${rest%%"$nl$BEGIN"*}$nl ;;
        *) break ;;
        esac
        block=${rest#"$head"}
        case $block in *"$nl$END"*) ;; *) fault="the line '$BEGIN' is there, and no '$END' follows: fix it by hand" && return 1 ;; esac
        first=${block%%"$nl"*}
        tail=${block#*"$nl$END"}
        inner=${block%%"$nl$END"*}
        case ${inner#*"$nl"} in
        "$1" | '[ ! -r /etc/profile.d/zz-envmgr.sh ] || . /etc/profile.d/zz-envmgr.sh' | 'if ( -r /etc/profile.d/zz-envmgr.csh ) source /etc/profile.d/zz-envmgr.csh') ;;
        *) first= ;; # it has more, or other lines
        esac
        case $first$tail in
        "$BEGIN" | "$BEGIN$nl"*) ;;
        "$BEGIN (new file)" | "$BEGIN (new file)$nl"*) new=new ;;
        "$BEGIN (line end added)" | "$BEGIN (line end added)$nl"*) head=${head%"$nl"} ;;
        *) fault="between '$BEGIN' and '$END' are lines that envmgr did not write: fix it by hand" && return 1 ;;
        esac
        rest=$head${tail#"$nl"}
    done
    case $nl$rest in *"$nl$END"*) fault="the line '$END' is there, and no '$BEGIN' before it: fix it by hand" && return 1 ;; esac
}

block() { # PATH top|end LINES: some lines of a file that is not ours, between two marks. A link's target is what is changed
    target=$(readlink -f -- "$1") || target=
    text=
    if [ -z "$target" ] || { [ -e "$target" ] && [ ! -f "$target" ] && [ ! -d "$target" ]; }; then
        say failed "$1" "it is no file, and no link to one"
        return
    fi
    clear_dead "$target"
    if [ -e "$target" ] && ! contents "$target"; then
        say failed "$1" "$text"
        return
    fi
    if ! without_block "$3"; then
        say failed "$1" "$fault"
        return
    fi
    like=$target
    [ -e "$target" ] || like=
    case $action in
    apply | check)
        mark=
        [ -n "$like" ] && [ -z "$new" ] || mark=" (new file)"
        case $2$rest in
        top*) want="$BEGIN$mark$nl$3$nl$END$nl$rest" ;;
        end | *"$nl") want="$rest$BEGIN$mark$nl$3$nl$END$nl" ;;
        *) want="$rest$nl$BEGIN (line end added)$nl$3$nl$END$nl" ;;
        esac
        if [ "$want" = "$text" ]; then
            say same "$1"
        elif [ "$action" = check ]; then
            say would-write "$1"
        else
            store "$target" 644 "$want" "$like"
            changed "$1" $? written
        fi
        ;;
    *)
        if [ "$rest" = "$text" ]; then
            say same "$1" "no lines of envmgr"
        elif [ "$action" = undo-check ]; then
            say would-remove "$1"
        elif [ -n "$new" ] && [ -z "$rest" ]; then
            fault=$(rm -f -- "$target" 2>&1)
            changed "$1" $? removed
        else
            store "$target" 644 "$rest" "$like"
            changed "$1" $? removed
        fi
        ;;
    esac
}

# Where a block goes on this machine. Debian's bash.bashrc ends early for shells without a prompt, so there it goes to the top;
# Red Hat's bashrc reads /etc/profile.d, which must come first.

block_bash() { # LINES
    if [ -e /etc/bash.bashrc ]; then
        block /etc/bash.bashrc top "$1"
    elif [ -e /etc/bashrc ]; then
        block /etc/bashrc end "$1"
    else
        say skipped /etc/bash.bashrc "this machine has neither it nor /etc/bashrc"
    fi
}

block_zsh() { # LINES
    if [ -d /etc/zsh ]; then
        block /etc/zsh/zshenv end "$1"
    elif [ -e /etc/zshenv ] || command -v zsh >/dev/null 2>&1; then
        block /etc/zshenv end "$1"
    else
        say skipped /etc/zsh/zshenv "no zsh here"
    fi
}

block_csh() { # LINES
    if [ ! -e /etc/csh.cshrc ]; then
        say skipped /etc/csh.cshrc "no csh here"
    elif [ -f /etc/csh.cshrc ] && contents /etc/csh.cshrc && without_block "$1" && case $rest in *profile.d*) ;; *) false ;; esac && [ "$rest" = "$text" ]; then
        say skipped /etc/csh.cshrc "reads /etc/profile.d itself"
    else
        block /etc/csh.cshrc end "$1"
    fi
}

look_at_slurm() { # TASK_PROLOG: what this node's own slurm.conf says of it; slurmctld is not asked by a thousand nodes at once
    task_prolog=$1
    for slurm_value in "${SLURM_CONF-}" /etc/slurm/slurm.conf /etc/slurm-llnl/slurm.conf /run/slurm/conf/slurm.conf /var/spool/slurmd/conf-cache/slurm.conf; do
        [ -n "$slurm_value" ] && [ -r "$slurm_value" ] || continue
        named=$(sed -n 's/^[[:space:]]*[Tt][Aa][Ss][Kk][Pp][Rr][Oo][Ll][Oo][Gg][[:space:]]*=[[:space:]]*\([^[:space:]#]*\).*/\1/p' "$slurm_value" | tail -n 1)
        case $named in
        '') slurm_state='unset' ;;
        "$1") slurm_state=named ;;
        *) slurm_state=other slurm_value=$named ;;
        esac
        return
    done
    slurm_value=
    slurm_state=absent
    if command -v slurmd >/dev/null 2>&1 || command -v srun >/dev/null 2>&1; then slurm_state=unknown; fi
}

where() { # PATH MODE, its text on stdin: a file for a program that may not be here
    if [ -d "${1%/*}" ]; then file "$@"; else say skipped "$1" "there is no ${1%/*} here"; fi
}

unit() { # PATH PROGRAM, its text on stdin: a file of systemd's
    if [ -d /etc/systemd/system ]; then
        file "$1" 644
    else
        say skipped "$1" "no systemd here: let what starts services run $2 at boot"
    fi
}

service() { # UNIT LINK PROGRAM, the unit's text on stdin: what runs PROGRAM at boot, or starts what does, where there is systemd
    unit "$1" "$3"
    if [ -d /etc/systemd/system ]; then
        link "$2" "../${1##*/}"
    else
        say skipped "$2" "no systemd here"
    fi
}

cron() { # PATH MODE PROGRAM, its text on stdin: what runs PROGRAM where systemd does not run. It may be installed all the same: in a
    # container it never runs, and in an image it runs later. Its line does nothing where systemd runs, so one that is there stays.
    if [ -d /run/systemd/system ] && [ ! -e "$1" ]; then
        say skipped "$1" "systemd runs $3"
    elif [ -d /etc/cron.d ]; then
        file "$1" "$2"
    else
        say skipped "$1" "neither does systemd run here, nor is there cron: let root run $3 every five minutes"
    fi
}

gpus() { # PROGRAM RESULT: looks now, too; on a node with a driver in the background, for nvidia-smi may take its time
    case $action in
    apply)
        if [ -d /run/systemd/system ]; then
            systemctl daemon-reload && systemctl --no-block restart envmgr-gpus.service
        elif command -v nvidia-smi >/dev/null; then
            "$1" &
        else
            "$1"
        fi </dev/null >/dev/null 2>&1
        ;;
    undo)
        rm -f -- "$2"
        rmdir -- "${2%/*}" 2>/dev/null
        [ ! -d /run/systemd/system ] || systemctl daemon-reload >/dev/null 2>&1
        ;;
    esac
}

flip_check() { # PROGRAM FOLDER: looks now, in the background, for the prefix may hang
    case $action in
    apply)
        if [ -d /run/systemd/system ]; then
            systemctl daemon-reload && systemctl --no-block restart envmgr-flip.timer && systemctl --no-block start envmgr-flip.service
        else
            "$1" &
        fi </dev/null >/dev/null 2>&1
        ;;
    undo)
        [ ! -d /run/systemd/system ] || systemctl --no-block stop envmgr-flip.timer >/dev/null 2>&1
        rm -rf -- "$2/flip" "$2/good" "$2/good.new" "$2/candidate" "$2/work" "$2/lock"
        rmdir -- "$2" 2>/dev/null
        [ ! -d /run/systemd/system ] || systemctl daemon-reload >/dev/null 2>&1
        ;;
    esac
}

folders() { # FOLDER…: removed, with those of $KEPT, when they are empty and everything else was
    [ "$action" != undo ] || {
        [ ! -d "$KEPT" ] || find "$KEPT" -depth -type d -exec rmdir {} + 2>/dev/null
        rmdir -- "$@" 2>/dev/null
    }
}

case $action in
apply | undo)
    [ "$(id -u)" = 0 ] || {
        say not-root "$(id -un 2>/dev/null || id -u)"
        exit 0
    }
    ;;
esac
