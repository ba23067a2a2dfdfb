# $1: the prefix; $2: an empty folder; $3: the generation, empty for what is current (status 3: no link names it). Copies what describes it, in one process
# that can be left behind; empty files stand for other generations. Links and pipes are copied as such: root follows none, and the reader reports them.
cd "$1" || exit 1
link=current
if [ -n "$3" ] && [ "$(readlink current)" != "$3" ]; then
  link=candidate
  [ "$(readlink candidate)" = "$3" ] || exit 3
fi
echo "$link" >"$2/link" && target=$(readlink "$link") && stat -c %Y "$link" >"$2/since" && ln -s "$target" "$2/current" || exit 1
case ${target#generations/} in
  "" | *[!0-9]* | "$target") ;; # damaged: it may lead out of the folder
  *) mkdir -p "$2/$target" && cp -RP "$target/generation.json" "$target/modules.json" "$2/$target/" || exit 1 ;;
esac
for record in generations/*/generation.json; do
  mkdir -p "$2/${record%/*}" && { [ -e "$2/$record" ] || : >"$2/$record"; } || exit 1
done
