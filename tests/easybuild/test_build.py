"""From easyconfigs to modules that load: the EasyBuild backend as an administrator and a user see it."""

from __future__ import annotations

import json

from envmgr.system.files import sha256_file
from tests.helpers.easybuild.workshop import Workshop, real_sources


def test_real_software_from_lock_to_a_module_that_loads(workshop: Workshop) -> None:
    real_sources("bzip2")
    workshop.locked("bzip2/1.0", "bzip2-1.0.8.eb")
    done = workshop.ok("build", "bzip2/1.0", "--format", "json").data
    assert done["built"] == ["bzip2/1.0"]
    (item,) = workshop.items()
    assert item.startswith("bzip2/1.0.8-")
    said = workshop.shell(
        "module load bzip2/1.0 && type -P bzip2 && echo $EBVERSIONBZIP2 && module unload bzip2 && echo [$EBROOTBZIP2]"
    )
    assert said.stdout.splitlines() == [f"{workshop.prefix}/store/{item}/bin/bzip2", "1.0.8", "[]"]
    assert workshop.leftovers() == []
    assert not list(workshop.prefix.glob("var/jobs/*.json"))


def test_what_depends_on_an_edited_easyconfig_is_built_anew_and_nothing_else(workshop: Workshop) -> None:
    base = workshop.toy("base")
    workshop.toy("other")
    workshop.toy("top", dependencies=[("base", "1.0"), ("other", "1.0")])
    workshop.locked("top/1.0", "top-1.0.eb")
    first = workshop.ok("build", "top/1.0", "--format", "json").data
    assert first["built"] == ["top/1.0"]
    before = workshop.items()
    assert [i.partition("/")[0] for i in before] == ["base", "other", "top"]
    old = sha256_file(base)[:8]
    new = sha256_file(workshop.toy("base", buildopts="VERBOSE=1"))[:8]
    assert workshop.run("build", "top/1.0").code == 3  # the lock is older than its easyconfig
    change = f"  ~ base 1.0 {old} -> 1.0 {new}\n"
    assert workshop.ok("lock", "top/1.0").stdout == f"top/1.0: written  4 packages\n{change}"
    workshop.ok("build", "top/1.0")
    assert workshop.ok("diff").stdout.endswith(change)
    after = workshop.items()
    assert set(before) < set(after)
    assert sorted(i.partition("/")[0] for i in set(after) - set(before)) == ["base", "top"]
    current = json.loads((workshop.prefix / "current/generation.json").read_text())["entries"]["top/1.0"]
    assert sorted(p.split("/")[1] for p in current["needs"]) == ["base", "other"]
