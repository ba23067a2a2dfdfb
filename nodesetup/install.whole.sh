# shellcheck shell=sh disable=SC2154,SC2034,SC2016 # install.sh has action, nl, slurm_state, slurm_value, task_prolog; reads fault
# Files and links that are wholly envmgr's; the second part of what install.sh begins.
#
# What is not envmgr's is not lost: apply copies it to $KEPT, as it was, and undo puts it back. envmgr's is what bears its mark, or is
# listed in $WRITTEN with its sum. Of that, what somebody edited since goes to $KEPT with the ending `.edited`, and stays there.
KEPT=/etc/envmgr/kept
WRITTEN=/etc/envmgr/written

clear_dead "$WRITTEN"
case $action in
apply | undo) [ ! -d "$KEPT" ] || find "$KEPT" -name '*.new' ! -type d -exec rm -f {} + ;; # of a run that was killed
esac

sum_of() { # FILE: sets $sum
    sum=$(sha256sum <"$1" 2>/dev/null)
    sum=${sum%% *}
}

wrote() { # PATH: whether $WRITTEN lists it; sets $its_sum
    its_sum=
    [ -r "$WRITTEN" ] || return
    while read -r its_sum listed; do
        [ "$listed" != "$1" ] || return 0
    done <"$WRITTEN"
    its_sum=
    return 1
}

note() { # PATH [SUM]: lists PATH in $WRITTEN with that sum, or no more
    noted=
    if [ -r "$WRITTEN" ]; then
        while read -r noted_sum listed; do
            [ "$listed" = "$1" ] || noted=$noted$noted_sum' '$listed$nl
        done <"$WRITTEN"
    fi
    [ -z "${2-}" ] || noted=$noted$2' '$1$nl
    if [ -n "$noted" ]; then store "$WRITTEN" 644 "$noted" ""; else rm -f -- "$WRITTEN"; fi
}

whose() { # PATH: sets $whose to nobody, ours, edited (ours, and changed since), other, or folder
    whose=other reason=
    if [ ! -e "$1" ] && [ ! -h "$1" ]; then
        whose=nobody
    elif [ -d "$1" ] && [ ! -h "$1" ]; then
        whose=folder
    elif [ -f "$1" ] && [ ! -h "$1" ]; then
        sum_of "$1"
        if wrote "$1"; then
            [ "$its_sum" = "$sum" ] && whose=ours || whose=edited
        elif grep -q -s -E -e '([Ii]nstalled|Written) by `envmgr node-setup`|^# gpus_look: what this node has|^# What root.s last check says of the generation' \
            -e '^-- (SitePackage|prepend|collections|restore|closure)[.]lua: ' -- "$1"; then
            whose=ours # of an earlier envmgr, or by Ansible
        fi
    fi
}

keep() { # PATH: a copy of what lies there, if $whose it is asks for one; sets $reason to what is, or would be, done. False when it failed
    reason=
    case $whose in
    other) kept=$KEPT$1 reason="it is not envmgr's: kept as $KEPT$1, and --undo puts it back" ;;
    edited) kept=$KEPT$1.edited reason="it was edited since envmgr wrote it: kept as $KEPT$1.edited" ;;
    *) return 0 ;;
    esac
    case $action in check | undo-check) return 0 ;; esac
    ! is_kept "$1" "$1" || return 0 # by a run that was killed then
    fault=$({ mkdir -p -- "${kept%/*}" && rm -rf -- "$kept.new" && cp -a -- "$1" "$kept.new" && mv -f -T -- "$kept.new" "$kept"; } 2>&1)
}

is_kept() { # PATH FILE: whether what was there before is kept, and FILE is like it
    [ "$(stat -c '%F %a %u %g %s' -- "$KEPT$1" 2>/dev/null)" = "$(stat -c '%F %a %u %g %s' -- "$2" 2>/dev/null)" ] || return
    if [ -h "$2" ]; then [ "$(readlink -- "$KEPT$1")" = "$(readlink -- "$2")" ]; else cmp -s -- "$KEPT$1" "$2"; fi
}

give_back() { # PATH: removes what is ours there, or puts back what was there before
    if [ -n "$before" ]; then
        fault=$(mv -f -T -- "$KEPT$1" "$1" 2>&1) && reason="what was there before is back${reason:+; $reason}"
    else
        fault=$(rm -f -- "$1" 2>&1)
    fi
}

file() { # PATH MODE, its text on stdin: a file that is wholly envmgr's
    want=$(cat && echo .)
    want=${want%.}
    clear_dead "$1"
    whose "$1"
    case $action in
    apply | check)
        if [ -f "$1" ] && [ ! -h "$1" ] && contents "$1" && [ "$text" = "$want" ] &&
            [ "$(stat -c '%a %u' -- "$1" 2>/dev/null)" = "$2 0" ]; then
            say same "$1"
        elif [ "$whose" = folder ]; then
            say failed "$1" "there is a folder of that name"
        elif [ "$(readlink -- "$1")" = /dev/null ]; then
            say failed "$1" "it is a link to /dev/null: somebody masked it"
        elif [ "$action" = check ]; then
            keep "$1"
            say would-write "$1" "$reason"
        else
            put "$1" "$2"
            changed "$1" $? written "$reason"
        fi
        ;;
    *) take_away "$1" ;;
    esac
}

put() { # PATH MODE: writes $want there; it is listed first, so that a run that is killed never leaves what nobody knows
    fault=$(mkdir -p -- "${1%/*}" "${WRITTEN%/*}" 2>&1) && keep "$1" || return
    sum=$(printf '%s' "$want" | sha256sum)
    note "$1" "${sum%% *}" && store "$1" "$2" "$want" ""
}

take_away() { # PATH: undo of what is wholly envmgr's
    before=
    [ ! -e "$KEPT$1" ] && [ ! -h "$KEPT$1" ] || before=yes
    if [ "$whose$before" = nobody ]; then
        say same "$1" "not there"
    elif [ "$whose" = other ] || [ "$whose" = folder ]; then
        say same "$1" "it is not envmgr's: it stays"
        [ "$action" != undo ] || ! is_kept "$1" "$1" || rm -f -- "$KEPT$1"
    elif [ -z "$before" ] && [ "$slurm_state:$task_prolog" = "named:$1" ]; then
        say failed "$1" "stays: $slurm_value names it, and without it every task fails. Take the line out first"
    elif [ "$action" = undo-check ]; then
        keep "$1"
        [ -z "$before" ] || reason="what was there before comes back${reason:+; $reason}"
        say would-remove "$1" "$reason"
    else
        keep "$1" && give_back "$1" && note "$1"
        changed "$1" $? removed "$reason"
    fi
}

link() { # PATH TARGET: a link that is wholly envmgr's; one by `systemctl enable` is as good
    whose "$1"
    case $(readlink -- "$1") in "$2" | "${1%/*/*}/${2##*/}") whose=ours ;; esac
    case $action in
    apply | check)
        if [ "$whose" = ours ]; then
            say same "$1"
        elif [ "$whose" = folder ]; then
            say failed "$1" "there is a folder of that name"
        elif [ "$action" = check ]; then
            keep "$1"
            say would-write "$1" "$reason"
        else
            fault=$(mkdir -p -- "${1%/*}" 2>&1) && keep "$1" && fault=$(ln -sfn -- "$2" "$1" 2>&1)
            changed "$1" $? written "$reason"
        fi
        ;;
    *)
        take_away "$1"
        [ "$action" != undo ] || rmdir -- "${1%/*}" 2>/dev/null # if it was made for the link
        ;;
    esac
}

# --- The files follow; `envmgr node-setup` writes these calls.
