# shellcheck shell=sh
# What the home of this account has: its start-up files by digest, and known names and lines of what else lies there; never a listing.

inventory_homes='.lmod.d .modulerc .modulerc.lua .lmodrc.lua .config/lmod .config/pip/pip.conf .pip/pip.conf .condarc .pydistutils.cfg .Rprofile .Renviron
  .ssh/rc .ssh/environment .pam_environment'
inventory_parts='.lmod.d .config .config/lmod .cache .cache/lmod .local .conda'
# Names of modules that Python brings, and of some that many programs import.
inventory_imports='abc ast calendar code codecs collections copy csv datetime decimal email enum functools glob gzip html http io json logging math
  numpy operator os pandas parser pathlib pickle platform profile queue random re scipy secrets select signal site socket ssl stat statistics string
  struct subprocess sys tempfile test threading time token torch traceback types typing uuid warnings xml'
inventory_starts='.bashrc .bash_profile .bash_login .bash_logout .profile .cshrc .tcshrc .login .zshenv .zprofile .zshrc'

# inventory_home: looked at in the user's login shell, where a home that hangs is left behind.
inventory_home() {
  set +f
  inventory_usual=$IFS
  inventory_line='
'
  set --
  for inventory_name in $inventory_starts; do [ ! -r "$HOME/$inventory_name" ] || set -- "$@" "$HOME/$inventory_name"; done
  [ $# = 0 ] || command sha256sum "$@" | while read -r inventory_found inventory_name; do
    printf 'private\t~%s\t%s\n' "${inventory_name#"$HOME"}" "$inventory_found"
  done
  set --
  for inventory_name in $inventory_homes; do set -- "$@" "$HOME/$inventory_name"; done
  for inventory_name in $inventory_parts; do
    [ ! -e "$HOME/$inventory_name" ] && [ ! -h "$HOME/$inventory_name" ] || [ -w "$HOME/$inventory_name" ] || printf 'home\t~/%s/\tcannot be written\n' "$inventory_name"
  done
  for inventory_name in $inventory_imports; do [ ! -e "$HOME/$inventory_name.py" ] || printf 'home\t~/%s.py\tis there\n' "$inventory_name"; done
  for inventory_name in "$@" "$HOME"/.local/lib/python3*/site-packages; do
    [ ! -e "$inventory_name" ] || printf 'home\t~%s\tis there\n' "${inventory_name#"$HOME"}"
  done
  # ssh takes no key that others can read, and none where others can write; a group of the account's own does no harm.
  command find "$HOME"/.ssh/id_* -maxdepth 0 -type f ! -name '*.pub' -perm /077 -printf 'home\t~/.ssh/%f\tmode %m\n' 2>/dev/null
  [ ! -e "$HOME/.ssh/authorized_keys" ] || command find "$HOME" "$HOME/.ssh" "$HOME/.ssh/authorized_keys" -maxdepth 0 -perm /022 \
    \( -perm /002 -o ! -gid "${account_uid?}" \) -printf 'home\t%p\tmode %m\n'
  for inventory_name in "$HOME/.bash_profile" "$HOME/.bash_login"; do # bash reads only the first of them
    [ -r "$inventory_name" ] && [ -r "$HOME/.profile" ] || continue
    command grep -q -E '\.(profile|bashrc)' "$inventory_name" || printf 'home\t%s\thides ~/.profile\n' "$inventory_name"
    break
  done
  inventory_lines
  for inventory_name in "$HOME"/.lmod.d/.cache/spiderT*.lua "$HOME"/.cache/lmod/spiderT*.lua; do
    case $inventory_name in *.old.lua) continue ;; esac
    [ -s "$inventory_name" ] && [ ! -e "${inventory_name%/*}/invalidated" ] || continue
    IFS=:
    # shellcheck disable=SC2086 # folders; a cache is used for a day
    inventory_found=$(command find "$inventory_name" -mmin -1440 -exec find ${MODULEPATH-} ! -type d -newer {} -print -quit \; 2>/dev/null)
    IFS=$inventory_usual
    [ -z "$inventory_found" ] || printf 'home\t~%s\tolder than %s\n' "${inventory_name#"$HOME"}" "${inventory_found%%"$inventory_line"*}"
  done
  echo "looked	home"
}

# inventory_lines: lines of known files in the home, by number.
inventory_lines() {
  set --
  for inventory_name in .bashrc .bash_profile .profile .zshrc .cshrc .tcshrc .bash_logout .config/pip/pip.conf .pip/pip.conf; do
    [ ! -f "$HOME/$inventory_name" ] || [ ! -r "$HOME/$inventory_name" ] || set -- "$@" "$HOME/$inventory_name"
  done
  # shellcheck disable=SC2016 # awk's
  [ $# = 0 ] || command awk '
    function tell(what) { print "home\t" FILENAME ":" FNR "\t" what }
    /^# >>> (conda|mamba) initialize >>>/ { print "home\t" FILENAME "\t" $3 " init" }
    FILENAME ~ /logout$/ && /(^|[;&| \t])(exit( +0)?|exec .*)[ \t]*(;|$)/ { tell("it ends the shell") }
    FILENAME ~ /pip\.conf$/ {
      line = tolower($0)
      if (line ~ /^[ \t]*user[ \t]*[=:][ \t]*(1|true|yes|on)/) tell("user = true")
      if (line ~ /^[ \t]*(target|prefix|root)[ \t]*[=:]/) { sub(/[ \t]*[=:].*/, "", line); tell(line) }
    }' "$@"
}
