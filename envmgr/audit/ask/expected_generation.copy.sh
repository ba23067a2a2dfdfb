# shellcheck shell=sh
# $1: the prefix; $2: an empty folder. Copies what describes the published generation, in one process that can be left behind;
# empty files stand for the others. Links and pipes are copied as such: root follows none, and the reader of the copy reports them.

cd "$1" && target=$(readlink current) && stat -c %Y current >"$2/since" && ln -s "$target" "$2/current" || exit 1
case ${target#generations/} in
  "" | *[!0-9]* | "$target") ;; # damaged: it may lead out of the folder
  *) mkdir -p "$2/$target" && cp -RP "$target/generation.json" "$target/modules.json" "$2/$target/" || exit 1 ;;
esac
for record in generations/*/generation.json; do
  mkdir -p "$2/${record%/*}" && { [ -e "$2/$record" ] || : >"$2/$record"; } || exit 1
done
