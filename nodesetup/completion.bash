# shellcheck shell=bash
# envmgr: completion of its commands in bash, asked for at the first Tab. Installed by `envmgr node-setup`.
_envmgr() { # `envmgr completion` defines another one
    \eval "$(\command envmgr completion bash 2>/dev/null)"
    [ -n "${_envmgr_words-}" ] && return 124 # bash asks again
}
complete -o default -F _envmgr envmgr
