# shellcheck shell=sh
# Which folders modules open, and what lies in these, by content. Behind opened.sh and folder_content.sh.
: "${room?}" "${module_cmd?}"

if [ -n "$module_cmd" ]; then
  opened_folders
  [ ! -e "$room/opened.cut" ] || put hierarchy.cut yes
  while IFS='|' read -r hierarchy_chain hierarchy_folders; do
    case $hierarchy_folders in
      '!') put "hierarchy.opens.$hierarchy_chain" '!' ;;
      *) printf '%s' "$hierarchy_folders" | tr : '\n' | lines "hierarchy.opens.$hierarchy_chain" ;;
    esac
  done <"$room/openers"
  while IFS='|' read -r hierarchy_folder hierarchy_chain; do
    [ -d "$hierarchy_folder" ] || {
      printf '%s\n' "$hierarchy_folder" | lines hierarchy.absent
      continue
    }
    hierarchy_number=$((${hierarchy_number:-0} + 1))
    folder_content hierarchy "$hierarchy_number" "$hierarchy_folder" || continue
    put "hierarchy.by.$hierarchy_number" "$hierarchy_chain"
  done <"$room/opened"
fi
