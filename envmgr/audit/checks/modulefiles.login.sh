# shellcheck shell=sh
# What lies in the folders of MODULEPATH that are not the prefix's, by content. Behind folder_content.sh. A folder whose server hangs is left behind.
: "${prefix?}" "${room?}"

printf '%s\n' "${MODULEPATH-}" | tr : '\n' | sed 's|//*$||' | grep '^/' | grep -v -F -e "$prefix/" | sort -u |
  while read -r modulefiles_folder; do
    [ -d "$modulefiles_folder" ] || continue
    modulefiles_number=$((${modulefiles_number:-0} + 1))
    folder_content modulefiles "$modulefiles_number" "$modulefiles_folder"
  done
