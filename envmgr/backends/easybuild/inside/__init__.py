"""What runs inside EasyBuild's own environment, under its Python: these files import EasyBuild and nothing of envmgr."""
