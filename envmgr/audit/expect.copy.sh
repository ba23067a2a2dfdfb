# shellcheck shell=sh
# $1: the prefix; $2: an empty folder. Copies what tells of the published generation, in one process that can be left behind;
# empty files stand for the others.

cd "$1" && target=$(readlink current) && mkdir -p "$2/$target" && stat -c %Y current >"$2/since" || exit 1
cp "$target/generation.json" "$target/modules.json" "$2/$target/" && ln -s "$target" "$2/current" || exit 1
for record in generations/*/generation.json; do
  mkdir -p "$2/${record%/*}" && { [ -e "$2/$record" ] || : >"$2/$record"; } || exit 1
done
