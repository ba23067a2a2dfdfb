# shellcheck shell=sh disable=SC2154,SC2034,SC2016 # install.sh has action, nl, slurm_state, slurm_value, task_prolog; reads fault
# Files and links that are wholly envmgr's; the second part of what install.sh begins.
#
# What is not envmgr's is not lost: apply copies it to $KEPT, as it was, and undo puts it back. envmgr's is what is listed in $WRITTEN
# with its sum, or bears its mark and has the text that is to be there. What is listed with another sum, or bears the mark and has
# another text (an edit, or what Ansible put there, which keeps no list), goes to $KEPT with the ending `.edited`, and stays there.
KEPT=/etc/envmgr/kept
WRITTEN=/etc/envmgr/written
NO_SUM=unknown # in place of a sum

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

marked() { # PATH: whether it bears envmgr's mark at its place, a whole line of its head. The list of signers can bear none: it is
    # envmgr's where check-flip is, and is not listed either: Ansible keeps no list
    if [ "$1" = /etc/envmgr/allowed_signers ]; then
        set -- /etc/envmgr/node/check-flip
        ! wrote "$1" || return
    fi
    head -n 4 -- "$1" 2>/dev/null | grep -q -E -e '^# ((envmgr|pin|check-flip): .*[Ii]|I)nstalled by `envmgr node-setup`' \
        -e '^# Read by /etc/envmgr/node/pin[.] Written by `envmgr node-setup`' -e '^# gpus_look: what this node has of GPUs' \
        -e '^# What root.s last check says of the generation' -e '^-- (SitePackage|prepend|collections|newer)[.]lua: .*envmgr.s hook' \
        -e '^-- (restore|closure)[.]lua: the (copy|modules) of a collection'
}

whose() { # PATH: sets $whose to nobody, ours, edited (ours, and changed since), other, or folder; $unlisted, when no sum says so
    whose=other reason='' unlisted=
    if ! there "$1"; then
        whose=nobody
    elif [ -d "$1" ] && [ ! -h "$1" ]; then
        whose=folder
    elif [ -f "$1" ] && [ ! -h "$1" ]; then
        sum_of "$1"
        if wrote "$1"; then
            [ "$its_sum" = "$sum" ] && whose=ours || whose=edited
            [ "$its_sum" != "$NO_SUM" ] || unlisted=yes
        elif marked "$1"; then # by Ansible, or the list was lost
            whose=edited unlisted=yes
            [ "$1" = /etc/envmgr/allowed_signers ] || ! is_wanted "$1" || whose=ours
        fi
    fi
}

is_wanted() { # PATH: whether its text is $want
    contents "$1" && [ "$text" = "$want" ]
}

there() { # PATH
    [ -e "$1" ] || [ -h "$1" ]
}

keep() { # PATH: a copy of what lies there, if $whose it is asks for one; sets $reason to what is, or would be, done. False when it failed
    reason='' aside=
    case $whose in
    other)
        kept=$KEPT$1 reason="it is not envmgr's: kept as $KEPT$1, and --undo puts it back"
        if there "$kept" && ! alike "$kept" "$1"; then # the site put another one there since
            free_name "$kept.before" "$kept"
            aside=$free reason="$reason; what was kept before is $free"
        fi
        ;;
    edited)
        free_name "$KEPT$1.edited" "$1"
        kept=$free reason="it was edited since envmgr wrote it: kept as $free"
        [ -z "$unlisted" ] || reason="no list says that envmgr wrote it so: kept as $free"
        ;;
    *) return 0 ;;
    esac
    case $action in check | undo-check) return 0 ;; esac
    ! alike "$kept" "$1" || return 0 # by a run that was killed then
    fault=$({ { [ -z "$aside" ] || mv -f -T -- "$kept" "$aside"; } &&
        mkdir -p -- "${kept%/*}" && rm -rf -- "$kept.new" && cp -a -- "$1" "$kept.new" && mv -f -T -- "$kept.new" "$kept"; } 2>&1)
}

free_name() { # NAME FILE: sets $free to NAME, NAME.2 and so on: the first that nothing has, or a copy of FILE. No kept file is replaced
    free=$1 count=1
    while there "$free" && ! alike "$free" "$2"; do
        count=$((count + 1))
        free=$1.$count
    done
}

alike() { # FILE FILE: whether one is as the other
    [ "$(stat -c '%F %a %u %g %s %t %T' -- "$1" 2>/dev/null)" = "$(stat -c '%F %a %u %g %s %t %T' -- "$2" 2>/dev/null)" ] || return
    if [ -h "$2" ]; then [ "$(readlink -- "$1")" = "$(readlink -- "$2")" ]; else [ ! -f "$2" ] || cmp -s -- "$1" "$2"; fi
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
        if [ -f "$1" ] && [ ! -h "$1" ] && is_wanted "$1" && [ "$(stat -c '%a %u' -- "$1" 2>/dev/null)" = "$2 0" ]; then
            [ "$action$unlisted" != applyyes ] || list_as_found "$1"
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

list_as_found() { # PATH: by Ansible; from now on an edit of it is seen. Whether the signers are ours nobody knows for sure
    case $whose:$its_sum in
    ours:*) note "$1" "$sum" ;;
    edited:) note "$1" "$NO_SUM" ;;
    esac
}

put() { # PATH MODE: writes $want there; it is listed first, so that a run that is killed never leaves what nobody knows
    fault=$(mkdir -p -- "${1%/*}" "${WRITTEN%/*}" 2>&1) && keep "$1" || return
    sum=$(printf '%s' "$want" | sha256sum)
    note "$1" "${sum%% *}" && store "$1" "$2" "$want" ""
}

take_away() { # PATH: undo of what is wholly envmgr's
    before=
    ! there "$KEPT$1" || before=yes
    if [ "$whose$before" = nobody ]; then
        say same "$1" "not there"
    elif [ "$whose" = other ] || [ "$whose" = folder ]; then
        say same "$1" "it is not envmgr's: it stays"
        [ "$action" != undo ] || ! alike "$KEPT$1" "$1" || rm -f -- "$KEPT$1"
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
    want=
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

kernels() { # PATH TARGET [refuse]: the link by which a Jupyter whose service reads no start-up file finds the kernels of what is current.
    # With refuse there is none: nobody checks the signature of what is read through it. Ours leads to TARGET, or is listed with its target's sum
    is=$(readlink -- "$1") # nothing but that: the prefix may hang
    sum=$(printf '%s' "$is" | sha256sum)
    sum=${sum%% *} whose=site act=$action
    other="let JupyterHub give its spawners JUPYTER_PATH=${2%/kernels}"
    if [ "$is" = "$2" ]; then
        whose=ours
    elif [ -n "$is" ]; then
        ! wrote "$1" || [ "$its_sum" != "$sum" ] || whose=old # of another prefix
    elif [ ! -e "$1" ]; then
        whose=nobody
    fi
    if [ -n "${3-}" ]; then
        other="policies.unsigned is refuse, and nobody checks the signature of kernels that Jupyter reads without a shell"
        case $action:$whose in
        *:nobody) whose=none ;;
        apply:*) act=undo ;;
        check:*) act=undo-check ;;
        esac
    fi
    case $act:$whose in
    *:site)
        case $action in apply | undo) ! wrote "$1" || note "$1" ;; esac
        say skipped "$1" "what is there is the site's, and stays: $other"
        ;;
    apply:none | check:none) say skipped "$1" "$other" ;;
    undo:no* | undo-check:no*) say same "$1" "not there" ;;
    undo-check:*) say would-remove "$1" ;;
    check:ours) say same "$1" ;;
    check:*)
        if [ "$whose" = nobody ] && cannot_make "$1"; then
            say skipped "$1" "$place takes no link: $other"
        else
            say would-write "$1" "${is:+it leads to $is}"
        fi
        ;;
    apply:ours)
        wrote "$1" || note "$1" "$sum"
        say same "$1"
        ;;
    apply:*)
        sum=$(printf '%s' "$2" | sha256sum)
        if ! fault=$(mkdir -p -- "${1%/*}" 2>&1); then
            say skipped "$1" "$fault: $other"
        elif ! fault=$(mkdir -p -- "${WRITTEN%/*}" 2>&1) || ! note "$1" "${sum%% *}"; then
            say failed "$1" "$fault"
            rmdir -- "${1%/*}" 2>/dev/null
        elif fault=$(ln -sfn -- "$2" "$1" 2>&1); then
            say written "$1" "${is:+it led to $is}"
        else
            say skipped "$1" "$fault: $other"
            note "$1"
        fi
        ;;
    undo:*)
        fault=$(rm -f -- "$1" 2>&1) && note "$1"
        changed "$1" $? removed
        rmdir -- "${1%/*}" 2>/dev/null # if it was made for the link
        ;;
    esac
}

cannot_make() { # PATH: whether root could make nothing there; sets $place to the folder, or to what is in its place
    place=${1%/*}
    while ! there "$place"; do place=${place%/*}; done
    [ "$(id -u)" = 0 ] && { [ ! -d "$place" ] || [ ! -w "$place" ]; }
}

# --- The files follow; `envmgr node-setup` writes these calls.
