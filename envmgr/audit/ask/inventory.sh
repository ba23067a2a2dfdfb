# shellcheck shell=sh
# Modules, a line each: `NAME|FOLDER|what made it|ROOT`, and `|gone` where the user finds no ROOT. Behind opened.sh.
: "${prefix?}" "${room?}" "${inventory_most?}" "${inventory_seconds?}"

if [ -n "${module_cmd?}" ]; then
  module_visible | sed 's/([A-Z:a-z]*)$//' | grep -v -E '(^|/)(lmod|settarg)$|^(dot|module-git|module-info|modules|null|use\.own)$' | awk -v prefix="$prefix/" '
    /^\/.*:$/ { folder = substr($0, 1, length($0) - 1); sub(/\/+$/, "", folder); next }
    folder != "" && index(folder "/", prefix) != 1 && !/\/$/ && NF { print folder "\t" $0 }
  ' >"$room/inventory.listed"
  # And those of folders that modules open, which are listed once these are loaded.
  opened_folders
  while IFS='|' read -r inventory_folder _; do
    opened_names "$inventory_folder" | sed "s|^|$inventory_folder$(printf '\t')|"
  done <"$room/opened" >>"$room/inventory.listed"
  head -n "$inventory_most" "$room/inventory.listed" >"$room/inventory"
  # shellcheck disable=SC2016 # the inner shell's
  with_limit "$inventory_seconds" "$room/inventory.told" /bin/sh -c '
    tab=$(printf "\t")
    while IFS=$tab read -r folder name; do
      file=$folder/$name
      [ -f "$file" ] || file=$file.lua
      [ -f "$file" ] || continue
      root=$(grep -v -s -E "MODULEPATH|^[[:space:]]*(#|--)" "$file" | grep -o -E "[\"{[:space:]]/[A-Za-z0-9_./+-]+" | grep -v -E "^./(usr|bin|sbin|lib|lib64|etc|dev|proc|sys|run|tmp)(/|\$)" | head -n 1 | cut -c2-)
      root=${root%/}
      case ${root##*/} in bin | sbin | lib | lib64 | include | share) root=${root%/*} ;; esac
      if grep -q -s -i -E "built with EasyBuild|Module built by EasyBuild|setenv[( \"]+EBROOT" "$file" || [ -d "$root/easybuild" ]; then
        made=EasyBuild
      elif grep -q -s -i -E "module file created by spack" "$file" || [ -d "$root/.spack" ]; then
        made=Spack
      elif [ -d "$root/conda-meta" ]; then
        made=conda
      else
        made="by hand"
      fi
      case $root in /cvmfs/software.eessi.io/*) made=EESSI ;; esac
      gone=
      [ -z "$root" ] || [ -e "$root" ] || gone="|gone"
      printf "%s|%s|%s|%s%s\n" "$name" "$folder" "$made" "$root" "$gone"
    done <"$1"
  ' sh "$room/inventory" || put inventory.cut yes
  LC_ALL=C sort "$room/inventory.told" | lines inventory.modules
fi
