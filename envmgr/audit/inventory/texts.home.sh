# What the home of this account has: its start-up files by digest, and known names and lines of what else lies there; never a listing.
inventory_homes='.lmod.d .modulerc .modulerc.lua .lmodrc.lua .config/lmod .condarc .pydistutils.cfg .Rprofile .Renviron .ssh/rc .ssh/environment
  .pam_environment'
# Names of modules that Python brings, and of some that many programs import.
inventory_imports='abc ast calendar code codecs collections copy csv datetime decimal email enum functools glob gzip html http io json logging math numpy
  operator os pandas parser pathlib pickle platform profile queue random re scipy secrets select signal site socket ssl stat statistics string
  struct subprocess sys tempfile test threading time token torch traceback types typing uuid warnings xml'
inventory_starts='.bashrc .bash_profile .bash_login .bash_logout .profile .cshrc .tcshrc .login .zshenv .zprofile .zshrc .config/pip/pip.conf .pip/pip.conf'
inventory_home() { # in the user's login shell, where a home that hangs is left behind
  set +f
  set --
  for inventory_name in $inventory_starts; do
    [ ! -f "$HOME/$inventory_name" ] || [ ! -r "$HOME/$inventory_name" ] || set -- "$@" "$HOME/$inventory_name"
  done
  if [ $# != 0 ]; then
    command sha256sum "$@" | while read -r inventory_found inventory_name; do printf 'private\t~%s\t%s\n' "${inventory_name#"$HOME"}" "$inventory_found"; done
    command awk '
      function tell(what) { print "home\t" FILENAME ":" FNR "\t" what }
      /^# >>> (conda|mamba) initialize >>>/ { print "home\t" FILENAME "\t" $3 " init" }
      FILENAME ~ /logout$/ && /(^|[;&| \t])(exit( +0)?|exec .*)[ \t]*(;|$)/ { tell("it ends the shell") }
      FILENAME ~ /pip\.conf$/ { $0 = tolower($0) }
      FILENAME ~ /pip\.conf$/ && /^[ \t]*user[ \t]*[=:][ \t]*(1|true|yes|on)/ { tell("user = true") }
      FILENAME ~ /pip\.conf$/ && /^[ \t]*(target|prefix|root)[ \t]*[=:]/ { sub(/[ \t]*[=:].*/, ""); tell($0) }' "$@"
  fi
  for inventory_name in .lmod.d .config .config/lmod .cache .cache/lmod .local .conda; do
    [ ! -e "$HOME/$inventory_name" ] && [ ! -h "$HOME/$inventory_name" ] || [ -w "$HOME/$inventory_name" ] || printf 'home\t~/%s/\tcannot be written\n' "$inventory_name"
  done
  set -- "$HOME"/.local/lib/python3*/site-packages
  for inventory_name in $inventory_homes; do set -- "$@" "$HOME/$inventory_name"; done
  for inventory_name in $inventory_imports; do set -- "$@" "$HOME/$inventory_name.py"; done
  for inventory_name; do [ ! -e "$inventory_name" ] || printf 'home\t~%s\tis there\n' "${inventory_name#"$HOME"}"; done
  # ssh takes no key that others can read, and none where others can write; a group of the account's own does no harm.
  set -- "$HOME"/.ssh/id_*
  [ ! -e "$HOME/.ssh/authorized_keys" ] || set -- "$@" "$HOME" "$HOME/.ssh" "$HOME/.ssh/authorized_keys"
  command find "$@" -maxdepth 0 \( -path '*/.ssh/id_*' -type f ! -name '*.pub' -perm /077 \
    -o ! -path '*/.ssh/id_*' -perm /022 \( -perm /002 -o ! -gid "${account_uid?}" \) \) -printf 'home\t%p\tmode %m\n' 2>/dev/null
  for inventory_name in "$HOME/.bash_profile" "$HOME/.bash_login"; do # bash reads only the first of them
    [ -r "$inventory_name" ] && [ -r "$HOME/.profile" ] || continue
    command grep -q -E '\.(profile|bashrc)' "$inventory_name" || printf 'home\t%s\thides ~/.profile\n' "$inventory_name"
    break
  done
  echo "looked	home"
}
