"""A prefix whose flips are signed: keys, the list of allowed signers, generations without entries."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from envmgr.catalog.site_file import Signing
from envmgr.publish import flipfile, flips
from envmgr.publish.candidates import mark, settle_candidates
from envmgr.publish.flips import flip, settle
from envmgr.publish.records import RECORD, GenerationRecord, current_number
from envmgr.publish.signature import NAMESPACE, KeySigner
from envmgr.report import SilentReporter
from envmgr.store.prefix import Prefix
from envmgr.system.files import sha256_file
from envmgr.system.run import Runner


def make_key(folder: Path, name: str) -> Path:
    """The private key `folder/name`, with its public part beside it."""
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", folder / name]
    subprocess.run(argv, check=True, capture_output=True)
    return folder / name


def allow(folder: Path, key: Path, options: str = f'namespaces="{NAMESPACE}"') -> Path:
    """The list `folder/allowed_signers`, by which `anna` may sign with that key."""
    signers = folder / "allowed_signers"
    signers.write_text(f"anna {options} {key.with_suffix('.pub').read_text()}")
    return signers


def make_signing(folder: Path) -> dict[str, str]:
    """A site's `signing`, with a key that it allows."""
    key = make_key(folder, "admin")
    return {"key": str(key), "allowed_signers": str(allow(folder, key))}


@dataclass
class SignedPrefix:
    """`folder` holds the keys `admin` and `stranger`, and `allowed_signers`, which allows the first; the prefix is `folder/sw`."""

    folder: Path

    def __post_init__(self) -> None:
        for name in ("admin", "stranger"):
            make_key(self.folder, name)
        self.allow()
        (self.prefix.root / "var").mkdir(parents=True, exist_ok=True)

    @property
    def prefix(self) -> Prefix:
        return Prefix(self.folder / "sw")

    @property
    def signers(self) -> Path:
        return self.folder / "allowed_signers"

    @property
    def signing(self) -> Signing:
        return Signing(key=self.folder / "admin", allowed_signers=self.signers)

    def allow(self, options: str = f'namespaces="{NAMESPACE}"') -> None:
        key = (self.folder / "admin.pub").read_text()
        self.signers.write_text(f"# who may publish\nanna@example.org,ben {options} {key}")

    def generation(self, number: int) -> Path:
        folder = self.prefix.generation(number)
        module = folder / "modules/hello/1.0.lua"
        module.parent.mkdir(parents=True)
        module.write_text(f'setenv("HELLO", "{number}")\n')
        (folder / "lmodrc.lua").write_text("scDescriptT = {}\n")
        record = GenerationRecord(
            number=number,
            parent=None,
            created="2026-01-01T00:00:00Z",
            user="u",
            host="h",
            reason="r",
            tools={},
            render="",
            entries={},
            files={str(p.relative_to(folder)): sha256_file(p) for p in folder.rglob("*") if p.is_file()},
            manifests={},
        )
        (folder / RECORD).write_text(record.model_dump_json(indent=1) + "\n")
        return folder

    def candidate(self, number: int) -> None:
        """A generation with a signed marker, as a publish makes it; `candidate` leads to it."""
        record = self.generation(number) / RECORD
        signer = KeySigner(self.signing, Runner())
        mark(self.prefix, number, 1, sha256_file(record), signer, SilentReporter())
        settle_candidates(self.prefix, SilentReporter())

    def flip(self, number: int, *, key: str = "admin") -> int:
        """As a publish does it; a stranger's is not looked at."""
        signer = KeySigner(self.signing.model_copy(update={"key": self.folder / key}), Runner())
        settle(self.prefix, SilentReporter())
        before = current_number(self.prefix)
        return flip(self.prefix, number, before, "a test", SilentReporter(), action="publish", signer=signer)

    def killed_flip(self, number: int) -> None:
        """By a run that is killed when its flip is written, before `current` changes: it cleans nothing up."""
        with (
            mock.patch.object(flips, "_rename", side_effect=KeyboardInterrupt),
            mock.patch.object(flipfile, "withdraw"),
            suppress(KeyboardInterrupt),
        ):
            self.flip(number)

    def sign(self, sequence: int, *, key: str = "admin", namespace: str = NAMESPACE) -> None:
        """Another signature for a flip."""
        path = self.prefix.flips / f"{sequence:06d}.json"
        done = subprocess.run(
            ["ssh-keygen", "-q", "-Y", "sign", "-n", namespace, "-f", self.folder / key],
            input=path.read_bytes(),
            capture_output=True,
            check=True,
        )
        signature = path.with_name(f"{path.name}.sig")
        signature.unlink(missing_ok=True)
        signature.write_bytes(done.stdout)

    def move(self, number: int) -> None:
        """As someone who may write the prefix does, without a flip."""
        self.prefix.current.unlink(missing_ok=True)
        self.prefix.current.symlink_to(f"generations/{number:04d}")

    def change(self, path: str, text: str) -> None:
        file = self.prefix.root / path
        file.unlink(missing_ok=True)
        file.write_text(text)
