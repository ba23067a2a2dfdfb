# $1: a folder; $2: where this process, and what it starts, sees it; then a command. In a mount namespace of its own.

mount --bind "$1" "$2" && cd "$2" || exit 1
hostname envmgr 2>/dev/null # in a namespace of its own, too; a host may lack the program
shift 2
exec setpriv --inh-caps=-all --ambient-caps=-all "$@"
