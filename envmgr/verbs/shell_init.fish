# The lines for fish, as those of shell_init.sh; no linter reads this language. fish keeps variables that end in PATH as lists.

if test -n "$ENVMGR_PIN"; and not string match -q -- "$envmgr_prefix/*" "$ENVMGR_PIN"
    # of another prefix, whose lines came later: what this one has is in MODULEPATH
    for each in (string split -n : -- "$MODULEPATH")
        string match -q -- "$envmgr_prefix/generations/*/modules" "$each"; and set -gx ENVMGR_PIN (string replace -r -- '/modules$' '' $each)
    end
end
set -l envmgr_own (string replace -r -- '.*/' '' "$ENVMGR_PIN")
if test "$ENVMGR_USE" != candidate; and test -n "$ENVMGR_CANDIDATE"; and test "$envmgr_own" = "$ENVMGR_CANDIDATE"
    set -gx ENVMGR_PIN
    set -e ENVMGR_CANDIDATE
else if test "$ENVMGR_USE" = candidate; and test "$envmgr_own" != "$ENVMGR_CANDIDATE" -o -z "$envmgr_own"; and test -d "$envmgr_prefix/candidate/modules"
    set -gx ENVMGR_PIN $envmgr_prefix/(readlink $envmgr_prefix/candidate)
    set -gx ENVMGR_CANDIDATE (string replace -r -- '.*/' '' "$ENVMGR_PIN")
end
if not string match -q -- "$envmgr_prefix/generations/*" "$ENVMGR_PIN"; or not test -d "$ENVMGR_PIN/modules"
    set -gx ENVMGR_PIN $envmgr_prefix/(readlink $envmgr_prefix/current; or echo)
end
if test -d "$ENVMGR_PIN/modules"
    # other prefixes and the site have files in this list, too: each names caches
    set -l envmgr_kept
    for each in (string split -n : -- "$LMOD_RC")
        string match -q -- "$envmgr_prefix/*" "$each"; or set -a envmgr_kept $each
    end
    set -gx LMOD_RC (string join : -- $ENVMGR_PIN/lmodrc.lua $envmgr_kept)
    set -gx LMOD_CACHED_LOADS yes
    set envmgr_kept
    for each in (string split -n : -- "$JUPYTER_PATH")
        string match -q -- "$envmgr_prefix/*" "$each"; or set -a envmgr_kept $each
    end
    set -gx JUPYTER_PATH (string join : -- $envmgr_kept $ENVMGR_PIN)
    set -q LMOD_AVAIL_EXTENSIONS; or set -gx LMOD_AVAIL_EXTENSIONS no
    set envmgr_kept
    for each in (string split -n : -- "$LMOD_PACKAGE_PATH")
        test "$each" = "$envmgr_hook"; or set -a envmgr_kept $each
    end
    set -gx LMOD_PACKAGE_PATH (string join : -- $envmgr_kept $envmgr_hook)
    set envmgr_kept
    for each in (string split -n : -- "$LMOD_SITEPACKAGE_PREPEND")
        test "$each" = "$envmgr_hook/prepend.lua"; or set -a envmgr_kept $each
    end
    set -gx LMOD_SITEPACKAGE_PREPEND (string join : -- $envmgr_kept $envmgr_hook/prepend.lua)
    functions -q module; or source $envmgr_init
    # another generation that was inherited goes: a shell sees one
    for each in (string split -n : -- "$MODULEPATH")
        if string match -q -- "$envmgr_prefix/generations/*" "$each"; and test "$each" != "$ENVMGR_PIN/modules"
            module unuse $each
        end
    end
    contains -- "$ENVMGR_PIN/modules" (string split -n : -- "$MODULEPATH"); or module use $ENVMGR_PIN/modules
    # modules of the user's own packages (`envmgr user`)
    set -l envmgr_own "$XDG_DATA_HOME"
    string match -q -- "/*" "$envmgr_own"; or set envmgr_own $HOME/.local/share
    set envmgr_own $envmgr_own/envmgr/envs/.envmgr/modules
    if test -d "$envmgr_own"; and test -O "$envmgr_own"; and not contains -- "$envmgr_own" (string split -n : -- "$MODULEPATH")
        module use --append $envmgr_own
    end
else
    set -e ENVMGR_PIN
end
set -e envmgr_prefix envmgr_init envmgr_hook
