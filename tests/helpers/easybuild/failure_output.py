"""What `envmgr` says of an EasyBuild entry that fails, in a form that can be compared."""

from __future__ import annotations

from pathlib import Path

from envmgr.backends.easybuild.lock import LOCK_NAME
from envmgr.system.files import sha256_file
from tests.helpers.done import Done
from tests.helpers.easybuild.leftovers import nothing_left
from tests.helpers.easybuild.workshop import Workshop
from tests.helpers.scenes import error_of

LOCK_AGAIN = "hint: run `envmgr lock toy/1.0` and commit the result"
KEPT = "hint: the log has all of its output; what was built before is kept for the next run"


def told(box: Workshop, done: Done, code: int) -> str:
    """The error, when all else is as a failure leaves it: no half install, no module, no job, no folder of a build."""
    text = error_of(done, box)
    assert done.code == code, text
    assert nothing_left(box) == []
    return text


def locking(box: Workshop) -> str:
    """What `envmgr lock` says of `toy-1.0.eb`; no lock is written."""
    folder = box.entry("toy/1.0", "toy-1.0.eb")
    done = box.run("lock", "toy/1.0")
    assert not (folder / LOCK_NAME).exists()
    text = error_of(done, box)
    assert done.code == (3 if text.startswith(("error[unresolved", "error[easybuild")) else 2), text
    return text


def building(box: Workshop, *argv: str) -> str:
    """What `envmgr build` says of `toy-1.0.eb`, once it is locked; nothing is published or left."""
    box.locked("toy/1.0", "toy-1.0.eb")
    text = told(box, box.run("build", "toy/1.0", *argv), 3)
    assert box.current() is None
    return text


def logged(box: Workshop) -> str:
    """EasyBuild's newest log."""
    return max(box.prefix.glob("var/log/easybuild/*.log"), key=lambda p: p.stat().st_mtime_ns).read_text()


def patched(box: Workshop, *, checksum: str = "") -> Path:
    """A toy whose patch turns `toy 1.0` into `toy mended`."""
    archive = box.root / "mirror/t/toy/toy-1.0.tar.gz"
    patch = box.root / "easyconfigs/t/toy/toy-mended.patch"
    box.toy()
    patch.write_text(
        '--- a/toy.c\n+++ b/toy.c\n@@ -1,2 +1,2 @@\n #include <stdio.h>\n-int main(void) { puts("toy 1.0"); return 0; }\n'
        '+int main(void) { puts("toy mended"); return 0; }\n'
    )
    box.toy(patches=[patch.name], checksums=[sha256_file(archive), checksum or sha256_file(patch)])
    return patch
