"""From locks to installs: what a command needs is built once, here or as Slurm jobs."""
