# A command in a private mount namespace, where the folder $1 lies over $2. It has none of the rights that the mount needed.
set -e
mount --bind "$1" "$2"
shift 2
exec setpriv --inh-caps=-all --ambient-caps=-all "$@"
