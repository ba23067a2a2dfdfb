"""Files that run in EasyBuild's own environment, under its Python: they import EasyBuild and nothing of envmgr."""
