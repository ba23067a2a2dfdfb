# shellcheck shell=sh disable=SC2154,SC2034 # pin reads this file; the settings name prefix and signed
# Installed by `envmgr node-setup`.
# What root's last check says of the generation that `current` names. It reads one small file, starts nothing, and touches the prefix
# only where another generation is to be kept.

LATE=1200 # seconds after which a check is old: its timer is five minutes

look_at_candidate() { # keeps $candidate only if the last check found its marker signed, where the site refuses what is not
    checked=
    if [ -r /var/lib/envmgr/candidate ]; then
        { read -r checked && read -r flip_prefix; } </var/lib/envmgr/candidate
        [ "$flip_prefix" = "$prefix" ] || checked=
    fi
    [ "$checked" = "signed $candidate" ] || [ "$signed" = note ] || candidate=
}

look_at_flip() { # sets $doubt to what is to be said, or nothing; where the site refuses, $number to the last generation that was signed
    doubt=
    flip_state=
    flip_good=
    if [ -r /var/lib/envmgr/flip ]; then
        {
            read -r flip_state flip_of _ flip_boot flip_at
            read -r flip_good _
            read -r _
            read -r flip_prefix
        } </var/lib/envmgr/flip
    fi
    [ "$flip_prefix" = "$prefix" ] || flip_state='' flip_good=''
    read -r boot </proc/sys/kernel/random/boot_id
    read -r now _ </proc/uptime
    bare=${number#"${number%%[!0]*}"}
    case $flip_at in '' | *[!0-9]*) flip_at=0 ;; esac
    case $flip_state in
    signed | expired)
        if [ "$flip_of" != "$bare" ]; then
            doubt="generation $bare of $prefix was not checked yet"
        elif [ "$flip_boot" != "$boot" ] || [ $((${now%%.*} - flip_at)) -gt $LATE ]; then
            doubt="the signature of generation $bare of $prefix was not checked lately"
        fi
        ;;
    '') doubt="nothing on this machine has checked who signed generation $bare of $prefix" ;;
    unchecked) doubt="it could not be checked who signed generation ${flip_of} of $prefix" ;;
    unsigned) doubt="nobody signed that generation ${flip_of} of $prefix is the current one" ;;
    stale) doubt="the signature of generation ${flip_of} of $prefix is older than this site allows" ;;
    replayed) doubt="generation ${flip_of} of $prefix was current before, and is again without a new signature" ;;
    *) doubt="what is current in $prefix is not what was signed" ;;
    esac
    [ -n "$doubt" ] && [ "$signed" != note ] || return 0
    case $flip_good in
    "$bare") return ;; # it is the one that is kept
    '' | 0 | *[!0-9]*) number= ;;
    *)
        number=$flip_good
        while [ ${#number} -lt 4 ]; do number=0$number; done
        [ -d "$prefix/generations/$number/modules" ] || number=
        ;;
    esac
    if [ -n "$number" ]; then
        doubt="$doubt: generation $flip_good is kept"
    else
        doubt="$doubt: its modules are not in this shell"
    fi
}
