"""Commands that no package may hide from users without a word of the recipe: what guards an account, starts jobs, or is the shell itself.

A build looks at what its install puts on PATH.
Not here: what ordinary environments bring beside their own programs (`clear`, `tar`, `openssl`, `curl`, `git`, `kinit`; R's `sed` and `make`).
"""

from __future__ import annotations

# Of bash, zsh, dash and tcsh. Source: their manuals, "Shell builtin commands".
_BUILTINS = """
. : [ alias bg bind break builtin caller case cd chdir command compgen complete compopt continue coproc declare dirs disown echo emulate
enable eval exec exit export false fc fg foreach function getopts hash help history if jobs kill let limit local logout mapfile nice nohup
notify onintr popd print printenv printf pushd pwd read readarray readonly rehash repeat return select set setenv setopt shift shopt source
stop suspend switch test then time times trap true type typeset ulimit umask unalias unhash unlimit unset unsetenv unsetopt until wait
whence where which while
"""
_SHELLS = "sh bash rbash dash ash ksh mksh zsh csh tcsh fish"
# Who a user is, and becomes; what guards files and hosts.
_ACCOUNTS = """
sudo sudoedit sudoreplay visudo su doas pkexec runuser setpriv login nologin passwd chpasswd chsh chfn newgrp sg gpasswd useradd usermod
userdel groupadd vipw ssh ssh-add ssh-agent ssh-copy-id ssh-keygen ssh-keyscan sshd sshpass scp sftp slogin rsh rcp rlogin mosh munge unmunge
"""
_SYSTEM = """
awk basename cat chgrp chmod chown chroot cp cut date dd df dirname du egrep env expr fgrep find grep head hostname id join less ln ls man mkdir
mktemp more mv nl paste ps pwd readlink realpath rm rmdir seq sleep sort split stat stty tail tee timeout touch tr tty uname uniq vi wc who whoami xargs
mount umount fusermount fusermount3 unshare nsenter systemctl systemd-run journalctl dmesg ip iptables nft crontab at batch
"""
_SLURM = """
sacct sacctmgr salloc sattach sbatch sbcast scancel scontrol scrun sdiag sinfo sprio squeue sreport srun sshare sstat strigger sview
slurmctld slurmd slurmdbd slurmstepd
"""
_MODULES = "module ml modulecmd lmod clearMT clearLmod settarg envmgr"
COMMANDS = frozenset(f"{_BUILTINS} {_SHELLS} {_ACCOUNTS} {_SYSTEM} {_SLURM} {_MODULES}".split())
