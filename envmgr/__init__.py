"""envmgr: reproducible software environments for GPU and HPC clusters."""

__version__ = "0.1.0"
