# A command in a private mount namespace, for which one install was never built: each of its folders lies under an empty one, into which
# all but the install's own files are bound. Of the first folder, that of locks, nothing is bound. The command has none of the rights that
# the mounts needed. $1: the install's label, by which its files are named; then pairs of a folder and what lies over it, up to `--`.
set -e
label=$1
mount --rbind "$3" "$2"
shift 3
while [ "$1" != -- ]; do
  for other in "$1"/*; do
    name=${other##*/}
    case $name in "$label" | "$label".*) continue ;; esac
    if [ -d "$other" ]; then
      mkdir "$2/$name"
    elif [ -f "$other" ]; then
      : >"$2/$name"
    else
      continue
    fi
    # What is gone since is not needed: `gc` keeps what this build stands on.
    mount --rbind "$other" "$2/$name" || [ ! -e "$other" ]
  done
  mount --rbind "$2" "$1"
  shift 2
done
shift
exec setpriv --inh-caps=-all --ambient-caps=-all "$@"
