# shellcheck shell=sh
# `pip` at a loaded module: it stands first in PATH, and keeps users from installing into what all share. What changes nothing, or
# goes to another place, is done by the module's own pip. In front are set `subject`, `reason`, `lines` (the way out) and `folder` (of that pip).
#
# It reads the command line as pip's optparse does: options before and after the command, values, bundles of letters, abbreviations.
# The word after an option that it does not know is taken neither for a place nor for a command.
: "${subject?}" "${reason?}" "${lines?}" "${folder?}"

# Of pip itself, install, uninstall and config, from pip 19 to 25.
VALUES=' --abi --build-constraint --cache-dir --cert --client-cert --config-setting --config-settings --constraint --default-timeout
 --editable --editor --exists-action --extra-index-url --find-links --global-option --group --implementation --index-url
 --install-option --keyring-provider --local-log --log --log-file --no-binary --only-binary --platform --prefix --progress-bar --proxy
 --pypi-url --python --python-version --report --requirement --resume-retries --retries --root --root-user-action --source
 --source-dir --source-directory --src --target --timeout --trusted-host --upgrade-strategy --use-deprecated --use-feature '
FLAGS=' --break-system-packages --check-build-dependencies --compile --debug --disable-pip-version-check --dry-run --force-reinstall
 --global --help --ignore-installed --ignore-requires-python --isolated --no-build-isolation --no-cache-dir --no-clean --no-color
 --no-compile --no-dependencies --no-deps --no-index --no-input --no-python-version-warning --no-use-pep517 --no-user
 --no-warn-conflicts --no-warn-script-location --pre --prefer-binary --quiet --require-hashes --require-venv --require-virtualenv
 --site --upgrade --use-pep517 --user --verbose --version --yes '

refuse() { # FACT [HINT]
  printf 'error: %s\n\n%s\n' "$1" "${2-$lines}" >&2
  exit 1
}

option() { # NAME: sets $full to what it may abbreviate, and $takes: value, nothing, or unknown
  full=$1 takes=unknown
  case $FLAGS in *" $1"[!a-z-]*) takes=nothing; return ;; esac
  case $VALUES in *" $1"[!a-z-]*) takes=value; return ;; esac
  case $FLAGS in *" $1"*) takes=nothing ;; esac
  case $VALUES in *" $1"*) if [ $takes = nothing ]; then takes=unknown; else takes=value; fi ;; esac
  for full in --target --prefix --root --python --dry-run --help --site --user --global "$1"; do
    case $full in "$1"*) return ;; esac
  done
}

given() { # OPTION VALUE
  case $1 in
  --target) target=$2 ;;
  --prefix) base=$2 ;;
  --root) top=$2 ;;
  --python) [ -n "$command" ] || python=$2 ;;
  --dry-run | --help) harmless=yes ;;
  --site) site=yes ;;
  --user | --global) others=yes ;;
  unknown) [ -n "$command" ] || unsure=yes ;;
  esac
}

short() { # LETTERS
  letters=$1
  while [ -n "$letters" ]; do
    letter=${letters%"${letters#?}"} letters=${letters#?}
    case $letter in
    h) given --help '' ;;
    [vqVUIy]) ;;
    *)
      case $letter in t) pending=--target ;; [rceifCb]) pending=no ;; *) pending=unknown ;; esac
      [ -z "$letters" ] || { given "$pending" "$letters"; pending=; }
      return
      ;;
    esac
  done
}

long() { # NAME
  option "$1"
  case $takes in
  value) pending=$full ;;
  nothing) given "$full" '' ;;
  *) given "$full" '' && pending=unknown ;;
  esac
}

positional() { # WORD
  if [ -z "$command" ]; then command=$1; else action=${action:-$1}; fi
}

look_at() { # WORDS: what pip will do
  command='' action='' pending='' ended='' harmless='' site='' others='' unsure=''
  target=${PIP_TARGET-} base=${PIP_PREFIX-} top=${PIP_ROOT-} python=${PIP_PYTHON-} site=${PIP_SITE-}
  case ${PIP_DRY_RUN-} in 1 | [Tt]rue | [Yy]es | [Oo]n) harmless=yes ;; esac
  for word; do
    [ "$word" != --isolated ] || harmless='' target='' base='' top=''
  done
  for word; do
    if [ -n "$pending" ]; then
      given "$pending" "$word"
      pending=
      continue
    fi
    case $ended$word in
    --) ended=yes ;;
    --*=*) option "${word%%=*}" && given "$full" "${word#*=}" ;;
    --*) long "$word" ;;
    -?*) short "${word#-}" ;;
    *) positional "$word" ;;
    esac
  done
}

outside() { # PATH: whether it lies in no install of the store; false, too, when that is not known
  real=$(readlink -m -- "$1" 2>/dev/null) && [ -n "$real" ] || return
  case $real/ in "$store"/*) return 1 ;; esac
}

elsewhere() { # whether `install` puts all into another place than the module
  if [ -n "$target" ]; then
    outside "$target"
  elif [ -n "$base$top" ]; then
    case ${base:=$home} in /*) ;; *) base=$PWD/$base ;; esac
    outside "$top$base" || return
    # pip would remove the version that the module has, where it may.
    [ ! -w "$home" ] || export PIP_IGNORE_INSTALLED=1
  else
    false
  fi
}

other_python() { # whether --python names an environment of the user's, or a Python out of the store; pip refuses one that is not there
  [ -n "$python" ] || return
  [ ! -d "$python" ] || python=$python/bin/python
  [ -e "$python" ] || return 0
  case $python in */*) ;; *) python=./$python ;; esac
  if [ -e "${python%/*}/pyvenv.cfg" ] || [ -e "${python%/*}/../pyvenv.cfg" ]; then outside "${python%/*}"; else outside "$python"; fi
}

unset _PIP_RUNNING_IN_SUBPROCESS # with it pip does not look at --python
home=$(command cd -P -- "${folder:-/}/.." 2>/dev/null && pwd) || home=
store=${home%/*/*}
store=${store:-${home:-/}}
look_at "$@"
if [ -n "$unsure" ]; then # an option before the command that is not known
  for word; do
    case $word in install | uninstall | config) command=$word action=set site=yes harmless='' target='' base='' top='' ;; esac
  done
fi
[ -z "$harmless" ] && ! other_python || command=
case $command in
install | uninstall)
  { [ "$command" = install ] && elsewhere; } ||
    refuse "pip cannot $command packages in $subject: $reason" ;;
config)
  case $action in
  set | edit | unset)
    if [ -n "$site" ] || { [ -z "$others" ] && [ -e "$home/pip.conf" ]; }; then
      refuse "pip cannot change the settings of $subject: $reason" \
        "hint: for settings of your own run \`pip config --user $action …\`"
    fi
    ;;
  esac ;;
esac
[ -n "$folder" ] && [ -x "$folder/pip" ] || refuse "$subject has no pip"
# What the module sets for `python -m pip` is not for this one.
[ -z "${ENVMGR_DEFAULT_PIP_REQUIRE_VIRTUALENV-}" ] || unset PIP_REQUIRE_VIRTUALENV
exec "$folder/pip" "$@"
