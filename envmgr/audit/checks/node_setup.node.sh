# shellcheck shell=sh
# Files and lines that node-setup wrote, and that are not what it would write now. `node_setup_files` are lines KIND SHA256 MODE PATH, of MODE
# 4 (users read it) or 5 (they run it, too),
# `node_setup_units` lines LINK TARGET, `node_setup_kernels` is a link that the site may have its own folder for. A node with none of them was never set up.
: "${node_setup_files?}" "${node_setup_units?}" "${node_setup_kernels?}" "${node_setup_target?}" "${node_setup_refused?}" "${node_setup_begin?}" "${node_setup_end?}" "${node_setup_bash?}" "${node_setup_csh?}"

node_setup_whole() { # each file: lost, changed, old (its sum is listed as written), closed; else same
  printf '%s\n' "$node_setup_files" | while read -r node_setup_kind node_setup_sum node_setup_mode node_setup_path; do
    case $node_setup_kind in
      optional) [ -d "${node_setup_path%/*}" ] || continue ;;
      unit) [ -d /etc/systemd/system ] || continue ;;
      cron) if [ -d /run/systemd/system ]; then [ -e "$node_setup_path" ] || continue; else [ -d /etc/cron.d ] || continue; fi ;;
    esac
    if [ -h "$node_setup_path" ] && [ "$(readlink "$node_setup_path")" = /dev/null ]; then
      continue # somebody masked it
    elif [ ! -e "$node_setup_path" ]; then
      printf 'lost %s\n' "$node_setup_path"
      continue
    elif [ "$node_setup_kind" = settings ] && [ "$(grep -v '^signed_floor=' "$node_setup_path" | sum)" = "$node_setup_sum" ]; then
      node_setup_sum=any # each signed flip is another floor
    fi
    printf 'is %s %s %s\n' "$node_setup_sum" "$node_setup_mode" "$node_setup_path"
  done 2>/dev/null >"$0.whole"
  sed -n 's/^is [^ ]* [^ ]* //p' "$0.whole" | tr '\n' '\0' >"$0.paths"
  xargs -0 -r sha256sum <"$0.paths" 2>/dev/null >"$0.sums"
  xargs -0 -r stat -L -c 'mode %n %a' <"$0.paths" 2>/dev/null >>"$0.sums"
  sed 's/^/written /' /etc/envmgr/written 2>/dev/null | awk '
    function keeps_out(mode, wanted, digit, i) { # whether one of the three digits lacks a bit of 4 or 5
      for (i = length(mode) - 2; i <= length(mode); i++) {
        digit = substr(mode, i, 1)
        if (digit < 4 || (wanted == 5 && digit % 2 == 0)) return 1
      }
    }
    $1 == "mode" { mode[$2] = $3; next }
    FILENAME == ARGV[1] { sum[$2] = $1; next }
    $1 == "written" { wrote[$3] = $2; next }
    $1 != "is" { print; next }
    length(mode[$4]) > 2 && keeps_out(mode[$4], $3) { print "closed", $4 }
    { print (sum[$4] == "" || $2 == "any" || sum[$4] == $2 ? "same" : wrote[$4] == sum[$4] ? "old" : "changed"), $4 }' "$0.sums" - "$0.whole"
  printf '%s\n' "$node_setup_units" | while read -r node_setup_path node_setup_link; do
    [ -d /etc/systemd/system ] || continue
    case $(readlink "$node_setup_path") in
      /dev/null) ;;
      "$node_setup_link" | "${node_setup_path%/*/*}/${node_setup_link##*/}") printf 'same %s\n' "$node_setup_path" ;;
      *) if [ -e "$node_setup_path" ]; then printf 'changed %s\n' "$node_setup_path"; else printf 'lost %s\n' "$node_setup_path"; fi ;;
    esac
  done
}
node_setup_link() { # LINK TARGET REFUSED: what it leads to is not looked at, for it may hang
  if [ "$(readlink "$1")" = "$2" ]; then
    if [ -n "$3" ]; then printf 'unchecked %s\n' "$1"; else printf 'same %s\n' "$1"; fi
  elif [ -z "$3" ] && grep -q -s " $1\$" /etc/envmgr/written; then
    if [ -h "$1" ] || [ -e "$1" ]; then printf 'changed %s\n' "$1"; else printf 'lost %s\n' "$1"; fi
  fi
}
node_setup_block() { # FILE LINES: lines, damaged or same
  [ -e "$1" ] || {
    printf 'lines %s\n' "$1"
    return
  }
  [ -r "$1" ] || return # another check tells that
  node_setup_want=$2 awk -v file="$1" -v begin="# $node_setup_begin" -v end="# $node_setup_end" '
    index($0, begin) == 1 { bad += inside; inside = 1; found = 1; text = ""; next }
    index($0, end) == 1 { bad += !inside || text != ENVIRON["node_setup_want"] "\n"; inside = 0; next }
    inside { text = text $0 "\n" }
    END { print (bad + inside ? "damaged" : found ? "same" : "lines"), file }' "$1"
}
node_setup_blocks() { # as node-setup chooses the files
  if [ -e /etc/bash.bashrc ]; then node_setup_block /etc/bash.bashrc "$node_setup_bash"; elif [ -e /etc/bashrc ]; then node_setup_block /etc/bashrc "$node_setup_bash"; fi
  if [ -d /etc/zsh ]; then
    node_setup_block /etc/zsh/zshenv "$node_setup_bash"
  elif [ -e /etc/zshenv ] || command -v zsh >/dev/null 2>&1; then
    node_setup_block /etc/zshenv "$node_setup_bash"
  fi
  if [ -e /etc/csh.cshrc ]; then
    case $(node_setup_block /etc/csh.cshrc "$node_setup_csh") in
      lines*) grep -q profile.d /etc/csh.cshrc || printf 'lines /etc/csh.cshrc\n' ;; # else it reads the folder itself
      ?*) node_setup_block /etc/csh.cshrc "$node_setup_csh" ;;
    esac
  fi
}
# An ordinary user cannot look into a closed folder.
for node_setup_folder in /etc/envmgr /etc/envmgr/node /etc/envmgr/node/lmod /etc/envmgr/node/lmod/bin; do
  [ ! -d "$node_setup_folder" ] || [ -x "$node_setup_folder" ] || {
    node_setup_folder=closed
    break
  }
done
if [ "$node_setup_folder" != closed ]; then
  node_setup_found=$(
    node_setup_whole
    node_setup_link "$node_setup_kernels" "$node_setup_target" "$node_setup_refused"
    node_setup_blocks
  )
  case $node_setup_found in
    *same\ * | *changed\ * | *old\ * | *damaged\ *) printf '%s\n' "$node_setup_found" | grep -v '^same ' | LC_ALL=C sort -u | lines node_setup.faults ;;
  esac
fi
