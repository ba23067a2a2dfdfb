"""The paths of what `envmgr node-setup` installs on nodes."""

from __future__ import annotations

HOME = "/etc/envmgr/node"
HOOK = f"{HOME}/lmod"
PROFILE = "/etc/profile.d/zz-envmgr.sh"  # after Lmod's own lmod.sh, z00_lmod.sh
CSH_PROFILE = "/etc/profile.d/zz-envmgr.csh"
FISH_PROFILE = "/etc/fish/conf.d/zz-envmgr.fish"
FISH_COMPLETION = "/etc/fish/completions/envmgr.fish"
TASK_PROLOG = f"{HOME}/task-prolog"
# EasyBuild looks for `lmod` in the output of `type module`, and takes other programs for a fault.
PROGRAM = f"{HOOK}/bin"
GPUS = f"{HOME}/gpus"
GPU_FACTS = "/run/envmgr/gpus"
GPU_UNIT = "/etc/systemd/system/envmgr-gpus.service"
GPU_LINK = "/etc/systemd/system/multi-user.target.wants/envmgr-gpus.service"
IMAGES = f"{HOME}/images"
IMAGES_UNIT = "/etc/systemd/system/envmgr-images.service"
IMAGES_LINK = "/etc/systemd/system/multi-user.target.wants/envmgr-images.service"
SIGNERS = "/etc/envmgr/allowed_signers"
CHECK_FLIP = f"{HOME}/check-flip"
CHECKED = "/var/lib/envmgr"
FLIP_STAMP = f"{CHECKED}/flip"
FLIP_UNIT = "/etc/systemd/system/envmgr-flip.service"
FLIP_TIMER = "/etc/systemd/system/envmgr-flip.timer"
FLIP_LINK = "/etc/systemd/system/timers.target.wants/envmgr-flip.timer"
FLIP_CRON = "/etc/cron.d/envmgr-flip"
SLURM_LINE = f"TaskProlog={TASK_PROLOG}"
