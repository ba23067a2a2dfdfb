# How the subshell begins in which the job's script runs: it lives until the script has ended, and has nothing of ours.

trap : TERM
unset envmgr_dir envmgr_base envmgr_turns envmgr_child
unset -f envmgr_end_rest envmgr_over
