# shellcheck shell=bash
# The lines for bash. readline completes less than a word that has `=`, `:` or `@`: just $2, the part after it.
: "${_envmgr_words?}"
_envmgr() {
  local each word line=${COMP_LINE:0:COMP_POINT}
  COMPREPLY=()
  word=${line##*[[:blank:]]}
  word=${word#[\'\"]}
  word=${word%"$2"}
  while IFS= read -r each; do
    each=${each%%$'\t'*}
    [ "$each" = : ] && compopt -o default || COMPREPLY+=("${each#"$word"}")
  done < <(/bin/sh -c "$_envmgr_words" sh "$line" || echo :)
}
complete -F _envmgr envmgr
