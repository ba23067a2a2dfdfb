# The lines for csh and tcsh, as those of shell_init.sh; no linter reads this language. csh takes no empty lines here.

if ( ! $?ENVMGR_PIN ) setenv ENVMGR_PIN ""
if ( ! $?MODULEPATH ) setenv MODULEPATH ""
# Of another prefix, whose lines came later: what this one has is in MODULEPATH.
if ( "$ENVMGR_PIN" != "" && "$ENVMGR_PIN" !~ $envmgr_prefix/* ) then
  foreach envmgr_path ( `echo "$MODULEPATH" | tr : " "` )
    if ( "$envmgr_path" =~ $envmgr_prefix/generations/*/modules ) setenv ENVMGR_PIN "$envmgr_path:h"
  end
endif
if ( ! $?ENVMGR_USE ) set ENVMGR_USE = ""
if ( $?ENVMGR_CANDIDATE ) then
  if ( "$ENVMGR_USE" != candidate && "$ENVMGR_PIN:t" == "$ENVMGR_CANDIDATE" ) setenv ENVMGR_PIN ""
  if ( "$ENVMGR_PIN:t" != "$ENVMGR_CANDIDATE" ) unsetenv ENVMGR_CANDIDATE
endif
if ( "$ENVMGR_USE" == candidate && ! $?ENVMGR_CANDIDATE && -d $envmgr_prefix/candidate/modules ) then
  setenv ENVMGR_PIN $envmgr_prefix/`readlink $envmgr_prefix/candidate`
  setenv ENVMGR_CANDIDATE "$ENVMGR_PIN:t"
endif
if ( "$ENVMGR_PIN" !~ $envmgr_prefix/generations/* || ! -d "$ENVMGR_PIN/modules" ) then
  setenv ENVMGR_PIN $envmgr_prefix/`readlink $envmgr_prefix/current`
endif
if ( -d "$ENVMGR_PIN/modules" ) then
  set envmgr_path = "`printenv LMOD_RC | tr : '\n' | grep . | grep -v -F ${envmgr_prefix:q}/generations/ | sed 's/^/:/' | tr -d '\n'`"
  setenv LMOD_RC "$ENVMGR_PIN/lmodrc.lua$envmgr_path"
  setenv LMOD_CACHED_LOADS yes
  set envmgr_path = "`printenv JUPYTER_PATH | tr : '\n' | grep . | grep -v -x -F ${envmgr_prefix:q}/current | grep -v -F ${envmgr_prefix:q}/generations/ | tr '\n' :`"
  setenv JUPYTER_PATH "${envmgr_path}$ENVMGR_PIN"
  if ( ! $?LMOD_AVAIL_EXTENSIONS ) setenv LMOD_AVAIL_EXTENSIONS no
  set envmgr_path = "`printenv LMOD_PACKAGE_PATH | tr : '\n' | grep . | grep -v -x -F ${envmgr_hook:q} | tr '\n' :`"
  setenv LMOD_PACKAGE_PATH "${envmgr_path}$envmgr_hook"
  set envmgr_path = "`printenv LMOD_SITEPACKAGE_PREPEND | tr : '\n' | grep . | grep -v -x -F ${envmgr_hook:q}/prepend.lua | tr '\n' :`"
  setenv LMOD_SITEPACKAGE_PREPEND "${envmgr_path}$envmgr_hook/prepend.lua"
  if ( ! $?LMOD_CMD ) source "$envmgr_init"
  if ( "`alias module`" == "" ) source "$envmgr_init"
  if ( ! $?MODULEPATH ) setenv MODULEPATH ""
  foreach envmgr_path ( `echo "$MODULEPATH" | tr : " "` )
    if ( "$envmgr_path" =~ $envmgr_prefix/generations/* && "$envmgr_path" != "$ENVMGR_PIN/modules" ) then
      module unuse "$envmgr_path"
    endif
  end
  if ( ":${MODULEPATH}:" !~ *":${ENVMGR_PIN}/modules:"* ) then
    module use "$ENVMGR_PIN/modules"
  endif
  set envmgr_path = /nonexistent
  if ( $?HOME ) set envmgr_path = "$HOME/.local/share"
  if ( $?XDG_DATA_HOME ) then
    if ( "$XDG_DATA_HOME" =~ /* ) set envmgr_path = "$XDG_DATA_HOME"
  endif
  set envmgr_path = "$envmgr_path/envmgr/envs/.envmgr/modules"
  if ( -d "$envmgr_path" && -o "$envmgr_path" && ":${MODULEPATH}:" !~ *":${envmgr_path}:"* ) then
    module use --append "$envmgr_path"
  endif
else
  unsetenv ENVMGR_PIN
endif
unset envmgr_prefix
unset envmgr_init
unset envmgr_hook
unset envmgr_path
