# The lines for fish; no linter reads this language.
function __envmgr_offered
    /bin/sh -c $__envmgr_words sh (commandline -cp | string join ' ')
    or begin
        set -l before (string match -r '^--[a-z-]+=' -- (commandline -ct))
        __fish_complete_path (string replace -r '^--[a-z-]+=' '' -- (commandline -ct)) | string replace -r -- '^' "$before"
    end
end
complete -c envmgr -f -a '(__envmgr_offered)'
