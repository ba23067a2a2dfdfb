# Modules, a line each: `NAME|FOLDER|what made it|ROOT`, and `|gone` where the user finds no ROOT. Behind opened.sh.
: "${prefix?}" "${room?}" "${other_modules_most?}" "${other_modules_seconds?}"
if [ -n "${module_cmd?}" ]; then
  module_visible | sed 's/([A-Z:a-z]*)$//' | grep -v -E '(^|/)(lmod|settarg)$|^(dot|module-git|module-info|modules|null|use\.own)$' | awk -v prefix="$prefix/" '
    /^\/.*:$/ { folder = substr($0, 1, length($0) - 1); sub(/\/+$/, "", folder); next }
    folder != "" && index(folder "/", prefix) != 1 && !/\/$/ && NF { print folder "\t" $0 }
  ' >"$room/other_modules.listed"
  # And those of folders that modules open, which are listed once these are loaded.
  opened_folders
  while IFS='|' read -r other_modules_folder _; do
    opened_names "$other_modules_folder" | sed "s|^|$other_modules_folder$(printf '\t')|"
  done <"$room/opened" >>"$room/other_modules.listed"
  head -n "$other_modules_most" "$room/other_modules.listed" >"$room/other_modules"
  with_limit "$other_modules_seconds" "$room/other_modules.told" /bin/sh -c '
    tab=$(printf "\t")
    while IFS=$tab read -r folder name; do
      file=$folder/$name
      [ -f "$file" ] || file=$file.lua
      [ -f "$file" ] || continue
      root=$(grep -v -s -E "MODULEPATH|^[[:space:]]*(#|--)" "$file" | grep -o -E "[\"{[:space:]]/[A-Za-z0-9_./+-]+" | grep -v -E "^./(usr|bin|sbin|lib|lib64|etc|dev|proc|sys|run|tmp)(/|\$)" | head -n 1 | cut -c2-)
      root=${root%/}
      case ${root##*/} in bin | sbin | lib | lib64 | include | share) root=${root%/*} ;; esac
      made="by hand"
      [ ! -d "$root/conda-meta" ] || made=conda
      if grep -q -s -i -E "built with EasyBuild|Module built by EasyBuild|setenv[( \"]+EBROOT" "$file" || [ -d "$root/easybuild" ]; then made=EasyBuild
      elif grep -q -s -i -E "module file created by spack" "$file" || [ -d "$root/.spack" ]; then made=Spack; fi
      case $root in /cvmfs/software.eessi.io/*) made=EESSI ;; esac
      gone=
      [ -z "$root" ] || [ -e "$root" ] || gone="|gone"
      printf "%s|%s|%s|%s%s\n" "$name" "$folder" "$made" "$root" "$gone"
    done <"$1"
  ' sh "$room/other_modules" || put other_modules.cut yes
  LC_ALL=C sort "$room/other_modules.told" | lines other_modules.modules
fi
