# shellcheck disable=SC2046,SC2086,SC3013,SC3028,SC3044,SC3045 # lists of words; bash's, where it is bash
# The inventory of this very shell: `shell_flags`, `shell_ifs` and `path_brought` are as the start-up files left them. What a look at a folder may keep
# waiting is left behind. It starts few processes: every shell pays for them. Behind texts.home.sh.
: "${shell_flags?}" "${shell_ifs?}" "${user?}" "${room?}" "${inventory_salt?}" "${inventory_seconds?}" "${inventory_path?}" "${inventory_limit?}"
inventory_programs='awk bash cat cc chmod cp curl env find g++ gcc gfortran git grep hostname java ls make mkdir mpicc mpirun nvcc nvidia-smi perl pip pip3
  ps python python3 R rm rsync sbatch scontrol sed sh sort srun ssh tar tr'
inventory_state() { # FOLDER
  if [ -w "$1" ]; then inventory_is=writable; else inventory_is='not writable'; fi
  [ -r "$1" ] && [ -x "$1" ] || inventory_is=closed
  [ -d "$1" ] || inventory_is='a file'
  [ -e "$1" ] || inventory_is=missing
  echo "$inventory_is"
}

# What this shell finds by its variables: programs, folders, what its home has.
inventory_paths() {
  set -f
  inventory_usual=$IFS inventory_found='' inventory_line='
'
  IFS=:
  set -- $inventory_brought
  IFS=$inventory_usual
  for inventory_name in $inventory_programs; do
    for inventory_folder; do
      [ -x "$inventory_folder/$inventory_name" ] && [ ! -d "$inventory_folder/$inventory_name" ] || continue
      inventory_found=$inventory_found$inventory_line$inventory_folder/$inventory_name
      break
    done
  done
  IFS=$inventory_line
  set -- $inventory_found
  IFS=$inventory_usual
  command readlink -f "$@" >"$inventory_file.real"
  while IFS= read -r inventory_name; do
    printf 'cmd\t%s\t%s %s\n' "${1##*/}" "$1" "$inventory_name"
    shift
  done <"$inventory_file.real"
  echo "looked	cmd"
  IFS=:
  for inventory_folder in ${MODULEPATH-}; do
    [ -z "$inventory_folder" ] || printf 'moddir\t%s\t' "$inventory_folder" && inventory_state "$inventory_folder"
  done
  IFS=$inventory_usual
  echo "looked	moddir"
  for inventory_folder in /tmp /var/tmp /dev/shm; do printf 'folder\t%s\t' "$inventory_folder" && inventory_state "$inventory_folder"; done
  while IFS='=' read -r inventory_name inventory_folder; do
    case $inventory_name in
      TZ) # a file, or a rule such as CET-1CEST
        case ${inventory_folder#:} in '' | UTC | GMT | *[0-9]*) ;; /*) [ -r "${inventory_folder#:}" ] ;; *) [ -r "/usr/share/zoneinfo/${inventory_folder#:}" ] ;; esac ||
          printf 'folder\tTZ\t%s missing\n' "$inventory_folder"
        continue ;;
      XDG_RUNTIME_DIR) [ ! -w "$inventory_folder" ] || continue ;;
      SLURM_CONF) ;;
      *[!A-Z0-9_]* | [!A-Z]* | *TOKEN* | *SECRET* | *PASS* | *KEY* | *CRED* | *PWD | SHELL | LMOD* | MODULE* | SLURM* | ENVMGR* | MAIL | HISTFILE) continue ;;
    esac
    case $inventory_folder in
      *:* | *' '*) ;;
      /*) printf 'folder\t%s\t%s ' "$inventory_name" "$inventory_folder" && inventory_state "$inventory_folder" ;;
    esac
  done <"$inventory_file.env"
  echo "looked	folder"
  [ -n "$inventory_login" ] || return 0
  inventory_home
  command -v module >/dev/null || return 0
  printf '\002avail\n' && PATH=$inventory_brought
  module -t avail 2>&1
  printf '\n\002default\n' && module -t -d avail 2>&1
  printf '\002\nlooked\tavail\n'
}

# `KEY=VALUE` of what else start-up files have left. A key begins with the variable, or `:` and the command, that does it.
inventory_state_left() {
  [ -z "${shell_said-}" ] || printf 'said=%s\n' "$shell_said"
  [ -z "$inventory_unread" ] || printf ':read=taken\n'
  case $- in *i*) ;; *) [ "$PWD" = / ] || printf ':cd=%s\n' "$PWD" ;; esac
  account_of "${user:-root}" && [ "${account_uid?}" = "${EUID-none}" ] || account_of root
  if [ "${account_uid?}" = "${EUID-none}" ]; then
    case ${account_home?}/ in "${HOME-}/" | / | /nonexistent/) ;; *) [ "$account_home" -ef "${HOME-}" ] || printf 'HOME=%s\n' "${HOME-}" ;; esac
  fi
  for inventory_name in /etc/profile /etc/bash.bashrc /etc/bashrc /etc/environment /etc/profile.d /etc/profile.d/*.sh /etc/lmod /etc/ld.so.cache /etc/passwd \
    /etc/group /etc/nsswitch.conf /etc/hosts /etc/resolv.conf /etc/localtime "$HOME/.bashrc" "$HOME/.profile" "$HOME/.bash_profile"; do
    [ ! -e "$inventory_name" ] || [ -r "$inventory_name" ] || printf 'unread %s=yes\n' "$inventory_name"
  done
  [ -z "${BASH_VERSION-}" ] || { trap; readonly -p; }
}

inventory_look() (
  inventory_umask=$(umask) inventory_unread=
  if [ -f /proc/self/fd/0 ] && [ -z "${shell_line-}" ]; then inventory_unread=taken; fi
  umask 077
  inventory_file=$room/inventory.$$ inventory_brought=${path_brought-$PATH}
  PATH=$inventory_path
  # What is exported, one variable a line.
  /usr/bin/env -0 2>/dev/null | command tr '\n\0' ' \n' >"$inventory_file.env"
  export inventory_flags="$shell_flags" inventory_options="${BASHOPTS-}" inventory_ifs="$shell_ifs" inventory_brought inventory_salt inventory_file
  with_limit "$inventory_seconds" "$inventory_file" inventory_paths
  {
    printf '\002\numask\tumask\t%s\nlooked\tumask\n' "$inventory_umask" # behind what was cut off
    printf '\002alias\n'
    alias 2>/dev/null
    printf '\002func\n'
    if [ -n "${BASH_VERSION-}" ]; then # NAME LINE FILE of each
      shopt -s extdebug
      compgen -A function >"$inventory_file.func" && while read -r inventory_name; do declare -F "$inventory_name"; done <"$inventory_file.func" 2>/dev/null
    fi
    printf '\002state\n'
    inventory_state_left
    printf '\002env\n'
  } >"$inventory_file.left"
  LC_ALL=C command awk -F '\t' -v job="${job-}" "$inventory_limit"'
    # Of a value that is nobody else'"'"'s there is only a digest, good for this audit; see END.
    function private(kind, key, value) {
      if (++hidden > 40) return
      print ENVIRON["inventory_salt"] value | digest
      close(digest)
      row[hidden] = kind "\t" key
    }
    function tell(kind, key, value) {
      if (toupper(key (kind == "alias" ? value : "")) ~ /TOKEN|SECRET|PASS|KEY|CRED/ || toupper(value) ~ /(TOKEN|SECRET|PASS|KEY|CRED)[A-Z_]*[ =]/) { private(kind, key, value); return }
      while (match(value, /:\/\/[^\/@ ]*@/)) value = substr(value, 1, RSTART - 1) ":/\001/***" substr(value, RSTART + RLENGTH - 1)
      gsub(/\001/, "", value)
      print kind "\t" key "\t" value
    }
    BEGIN {
      file = ENVIRON["inventory_file"] ".digests"
      digest = "exec sha256sum >>'"'"'" file "'"'"'"
      by_session = "^(_|PWD|OLDPWD|SHLVL|HOST|HOSTNAME|TERM|COLUMNS|LINES|MAIL|HISTFILE|LS_COLORS|SSH_.*|XDG_(SESSION|RUNTIME|SEAT|VTNR).*|DBUS_.*|KRB5CCNAME|INVOCATION_ID|JOURNAL_STREAM|PMIX?_.*|ROCR_.*|GPU_DEVICE_ORDINAL|SRUN_DEBUG|_ModuleTable.*|__LMOD.*|LMOD_TERM_WIDTH|__Init.*|ENVMGR_.*|inventory_.*|host_name|BASH_FUNC_.*)$"
      if (job != "") by_session = by_session "|^(SLURM_.*|XDG_.*|CUDA_VISIBLE_DEVICES|ZE_AFFINITY_MASK)$"
    }
    substr($0, 1, 1) == "\002" { mode = substr($0, 2); folder = ""; next }
    mode == "alias" {
      sub(/^alias ([-+][a-zA-Z-]* )*/, "")
      at = index($0, "=")
      if (at > 1 && substr($0, 1, at - 1) !~ /[ \047"]/) tell("alias", substr($0, 1, at - 1), substr($0, at + 1))
      next
    }
    mode == "func" {
      split($0, word, " ")
      where = substr($0, length(word[1] word[2]) + 3)
      # What a folder of a home has is private.
      if (index(where, ENVIRON["HOME"] "/") == 1 && substr(where, length(ENVIRON["HOME"]) + 2) ~ /\//) where = ENVIRON["HOME"]
      if (where !~ /envmgr-audit\./ && $0 ~ /^[A-Za-z0-9]/) print "func\t" word[1] "\t" where ":" word[2]
      next
    }
    mode == "state" {
      gsub(/envmgr-audit\.[A-Za-z0-9]*/, "envmgr-audit")
      if (/^trap -- \047\047 (SIG)?(TERM|USR1|USR2|ALRM|CHLD|XCPU)$/) { sub(/.* (SIG)?/, ""); tell("state", ":trap " $0, "yes") }
      else if (match($0, /^(said|:read|:cd|HOME|unread [^=]*)=/)) tell("state", substr($0, 1, RLENGTH - 1), substr($0, RLENGTH + 1))
      else if (/^(declare|readonly) /) {
        sub(/=.*/, ""); sub(/.* /, "")
        if (/^(PATH|MODULEPATH|LOADEDMODULES|_LMFILES_|MANPATH|LD_LIBRARY_PATH|PYTHONPATH|LMOD_[A-Z_]*)$/) tell("state", ":readonly " $0, "yes")
      }
      next
    }
    mode == "env" {
      at = index($0, "=")
      name = substr($0, 1, at - 1)
      value = substr($0, at + 1)
      if (at < 2 || (name ~ by_session && name != "SLURM_CONF")) next
      if (name == "PATH") value = ENVIRON["inventory_brought"]
      if (name ~ /^(LANG|LC_)/ && value !~ /^(C|POSIX|C\.UTF-8)?$/ && value ~ /^[A-Za-z0-9_.@-]*$/) foreign = foreign " " name "=" value
      tell("env", name, value)
      next
    }
    mode == "avail" || mode == "default" {
      if ($0 ~ /^\/.*:$/) { folder = substr($0, 1, length($0) - 1); next }
      mark = ""
      if (match($0, /\([^()]*\)$/)) { mark = " " substr($0, RSTART); $0 = substr($0, 1, RSTART - 1) }
      if (folder != "" && $0 != "" && $0 !~ /\/$/) print "avail\t" folder " " $0 "\tis " (mode == "avail" ? "listed" : "the default") mark
      next
    }
    $1 == "private" { private("home", $2, $3); next }
    { print }
    END {
      for (i = 1; i <= hidden && (getline line <file) > 0; i++) print row[i] "\t~" substr(line, 1, 12)
      flags = ENVIRON["inventory_flags"]
      gsub(/[^aefnuvxCEPT]/, "", flags)
      print "flags\tset\t" flags
      if (ENVIRON["inventory_options"] != "") print "flags\tshopt\t" ENVIRON["inventory_options"]
      ifs = ENVIRON["inventory_ifs"]
      if (ifs == "unset" || ifs == " \t\n") ifs = "blanks"
      print "ifs\tIFS\t" ifs
      # What the probe limits itself is passed over.
      while ((getline line <"/proc/self/limits") > 0) if (line ~ /^Max / && line !~ /^Max file size +(8388608|[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]+|unlimited) /) print "ulimit\t" limit(line)
      said = ""
      if (foreign != "") ("exec env -u LC_ALL" foreign " locale 2>&1 >/dev/null") | getline said
      print "locale\tsaid\t" said
      split("flags ifs ulimit env alias func locale state", all, " ")
      for (i in all) print "looked\t" all[i]
    }' "$inventory_file" "$inventory_file.left" "$inventory_file.env" >"$inventory_file.lines"
  inventory_tell umask flags ifs ulimit env alias func cmd locale state folder moddir ${inventory_login:+avail home} <"$inventory_file.lines"
)

inventory_login=
# Once for an account: the user's login bash, which has the home as others see it.
if [ -n "${BASH_VERSION-}" ] && [ -z "${job-}" ] && shopt -q login_shell; then
  account_of "${user:-root}"
  [ "${account_uid:-0}" != "$EUID" ] || inventory_login=yes
fi
inventory_look || put inventory.closed all
