"""Caches of other tools' modules that Lmod names can be read, and are not older than what they list.

Without a cache Lmod reads every modulefile at each command, which is slow on a network file system. With an old one it
does not list what was installed since, and cannot load that where it loads by the cache (LMOD_CACHED_LOADS). The check
asks Lmod in the ordinary user's login shell, and compares each cache with its time stamp and with the folders of
modules in MODULEPATH. The check `generation` compares the cache of what is published.
"""

from __future__ import annotations

from envmgr.audit.model import Check, scripts

CHECK = Check(probe=scripts(__file__, "login"))
