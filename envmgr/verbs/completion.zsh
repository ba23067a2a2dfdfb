# The lines for zsh; no linter reads this language.
_envmgr() {
  local -a offered
  offered=(${(f)"$(/bin/sh -c $_envmgr_words sh "${(j: :)words[1,CURRENT-1]} $PREFIX")"}) || { compset -P '--*='; _files; return }
  offered=(${offered//:/\\:})
  offered=(${offered/$'\t'/:})
  _describe envmgr offered
}
whence compdef >/dev/null || { autoload -Uz compinit && compinit -i }
compdef _envmgr envmgr
