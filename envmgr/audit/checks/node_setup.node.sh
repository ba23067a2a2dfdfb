# Files and lines that node-setup wrote, and that are not what it would write now: `lost`, `changed` or `old` (as it was written then) and the
# file, `lines` where those of a file of the system are not in it, `marks` where others are. `node_setup_files` are lines FOLDER SHA256 PATH, of a file that is wanted where
# there is FOLDER. A node with none of them was never set up.
: "${node_setup_files?}" "${node_setup_kernels?}" "${node_setup_target?}" "${node_setup_begin?}" "${node_setup_end?}" "${node_setup_bash?}" "${node_setup_csh?}"
node_setup_wanted() { # as sha256sum reads it, without what somebody masked
  printf '%s\n' "$node_setup_files" | while read -r node_setup_folder node_setup_sum node_setup_path; do
    case $node_setup_folder:$node_setup_path in
      /etc/cron.d:*) [ ! -d /run/systemd/system ] || [ -e "$node_setup_path" ] || continue ;;
      # Each signed flip is another floor.
      *:*/settings) [ "$(grep -v '^signed_floor=' "$node_setup_path" | sum)" != "$node_setup_sum" ] || node_setup_sum=$(sum <"$node_setup_path") ;;
    esac
    [ ! -d "$node_setup_folder" ] || { [ -h "$node_setup_path" ] && [ "$(readlink "$node_setup_path")" = /dev/null ]; } || printf '%s  %s\n' "$node_setup_sum" "$node_setup_path"
  done
}
node_setup_block() { # FILE LINES
  if [ -e "$1" ] && ! [ -r "$1" ]; then return; fi # the inventory tells that
  node_setup_has=$(sed -n "/^# $node_setup_begin/,/^# $node_setup_end/{/^# $node_setup_begin/d;/^# $node_setup_end/d;p;}" "$1")
  case $node_setup_has:$(grep -c -e "^# $node_setup_begin" -e "^# $node_setup_end" "$1") in "$2:2") echo "same $1" ;; : | :0) echo "lines $1" ;; *) echo "marks $1" ;; esac
}
node_setup_look() { # it chooses the files as node-setup does
  grep -v -F " $node_setup_kernels" /etc/envmgr/written | sha256sum --check | sed 's/^/then /' # where that link leads may hang
  node_setup_wanted | sha256sum --check | sed 's/^/now /'
  if [ -e /etc/bash.bashrc ]; then node_setup_block /etc/bash.bashrc "$node_setup_bash"; elif [ -e /etc/bashrc ]; then node_setup_block /etc/bashrc "$node_setup_bash"; fi
  if [ -d /etc/zsh ]; then node_setup_block /etc/zsh/zshenv "$node_setup_bash"; elif [ -e /etc/zshenv ] || command -v zsh >/dev/null; then node_setup_block /etc/zshenv "$node_setup_bash"; fi
  if [ -e /etc/csh.cshrc ] && { grep -q "^# $node_setup_begin" /etc/csh.cshrc || ! grep -q profile.d /etc/csh.cshrc; }; then # else it reads the folder itself
    node_setup_block /etc/csh.cshrc "$node_setup_csh"
  fi
  if [ -n "$node_setup_target" ] && [ "$(readlink "$node_setup_kernels")" = "$node_setup_target" ]; then echo "unchecked $node_setup_kernels"; fi
}
# An ordinary user cannot look into a closed folder.
if [ "${probe_uid?}" = 0 ] || [ -x /etc/envmgr/node/lmod ]; then
  node_setup_look 2>/dev/null | awk -F ': ' '
    /^then / { if ($2 == "OK") written[substr($1, 6)]; next }
    /^now / { path = substr($1, 5); $0 = ($2 == "OK" ? "same " : $2 ~ /open/ ? "lost " : path in written ? "old " : "changed ") path }
    /^(same|changed|old) / { set_up = 1 }
    !/^same / { told = told $0 "\n" }
    END { if (set_up) printf "%s", told }' | LC_ALL=C sort -u | lines node_setup.faults
fi
