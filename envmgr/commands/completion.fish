# The lines for fish; no linter reads this language.
function __envmgr_offered
    /bin/sh -c $__envmgr_words sh (commandline -cp | string join ' ')
    or __fish_complete_path (commandline -ct)
end
complete -c envmgr -f -a '(__envmgr_offered)'
