# shellcheck shell=sh
# A command in a private mount namespace, where what is staged lies over the store's folder of this name, and over EasyBuild's folder
# of its modules. Other installs of the name, which the build may stand on, are bound into what is staged. The command has none of the
# rights that the mounts needed. $1 to $5: the two folders, each before what lies over it, and the install's own label.
set -e
store=$1 staged=$2 modules=$3 staged_modules=$4 label=$5
shift 5
for other in "$store"/*/; do
  name=${other%/}
  name=${name##*/}
  if [ "$name" = '*' ] || [ "$name" = "$label" ]; then continue; fi
  mkdir "$staged/$name"
  mount --rbind "$store/$name" "$staged/$name"
done
mount --rbind "$staged" "$store"
mount --rbind "$staged_modules" "$modules"
exec setpriv --inh-caps=-all --ambient-caps=-all "$@"
