"""Registries, by skopeo: it has the sites' mirrors (registries.conf), credentials (auth.json, ~/.docker/config.json) and certificates.

A client of our own would have to learn all of these, and each registry's way to give tokens.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from envmgr.backends.container.input import ContainerInput, ContainerSettings
from envmgr.backends.container.lock import ContainerLock, LockedBlob
from envmgr.catalog.settings import backend_settings
from envmgr.catalog.site import Site
from envmgr.errors import CommandError, EnvmgrError
from envmgr.report import Stage
from envmgr.system.child import NETWORK
from envmgr.system.files import sha256_bytes
from envmgr.system.run import Runner, clean_env
from envmgr.wording import size_text

_ASK = 120.0  # seconds for one answer
_INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
_OWN = ("REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR", "DOCKER_CONFIG", *NETWORK)
_BY_FILE = "bring the image as a folder: `skopeo copy docker://… dir:FOLDER` elsewhere, `envmgr fetch ENTRY --file FOLDER` here"
_ROOM = "free some space (`envmgr gc`), then run the same command again"
# What skopeo says of a failure -> reference and hint; the first that fits.
_FAULTS = {
    r"manifest unknown|name unknown|not found|NOT_FOUND|repository not known": (
        "image-not-found",
        "is the name right, and the tag still there?",
    ),
    r"unauthorized|authentication required|denied|no basic auth|forbidden": (
        "download-refused",
        "`skopeo login REGISTRY` as the site's build user, or name a file with credentials in $REGISTRY_AUTH_FILE",
    ),
    r"no space left": ("disk-full", _ROOM),
    r"connection refused|no such host|timeout|timed out|unreachable|misbehaving|deadline|no end after|EOF|reset|HTTP response to HTTPS|x509": (
        "no-network",
        "name a mirror in registries.conf",
    ),
}


class Registry:
    """Asks the registry of an image."""

    def __init__(
        self, wanted: ContainerInput, site: Site, runner: Runner, environ: Mapping[str, str] = os.environ
    ) -> None:
        own = backend_settings(site, "container", ContainerSettings).registries_conf
        self._options = ["--insecure-policy", *(["--registries-conf", str(site.absolute(own))] if own else [])]
        self._wanted, self._runner, self._policies = wanted, runner, site.policies
        self._environ = clean_env() | {
            name: value
            for name, value in environ.items()
            if any(name == own or (own[0] == "*" and name.upper().endswith(own[1:])) for own in _OWN)
        }

    def resolve(self, recipe_digest: str) -> ContainerLock:
        """Return the image that the recipe's reference names now.

        Raises EnvmgrError `image-not-found`, `registry-refused`, `no-network`, `image-invalid`, `command-missing`.
        """
        wanted = self._wanted
        at = f"{wanted.repository}{wanted.wanted}"
        text = self._ask("inspect", "--raw", f"docker://{at}")
        manifest = _parsed(text, at)
        if manifest.get("mediaType") in _INDEXES or isinstance(manifest.get("manifests"), list):
            digest = _of_platform(manifest, wanted.platform, at)
            at = f"{wanted.repository}@{digest}"
            text = self._ask("inspect", "--raw", f"docker://{at}")
            manifest = _parsed(text, at)
        digest = sha256_bytes(text.encode())
        said = self.config(digest)
        image = _parsed(said, at)
        try:
            inner = image.get("config") or {}
            config, found = _blob(manifest["config"]), f"{image['os']}/{image['architecture']}"
            lock = ContainerLock(
                recipe_digest=recipe_digest,
                image=wanted.image,
                platform=wanted.platform,
                manifest=digest,
                config=config,
                layers=tuple(_blob(layer) for layer in manifest["layers"]),
                environment=tuple(inner.get("Env") or ()),
                entrypoint=tuple(inner.get("Entrypoint") or ()),
                workdir=inner.get("WorkingDir") or "",
                labels=inner.get("Labels") or {},
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:  # ValidationError is a ValueError
            raise _invalid(at, str(error)) from None
        if config.sha256 != sha256_bytes(said.encode()):
            raise _invalid(at, "its config has another sha256 than its manifest says")
        if found != wanted.platform:
            raise _other_platform(at, found, wanted.platform)
        return lock

    def config(self, manifest: str) -> str:
        """Return the text of an image's config. Raises as `resolve`."""
        return self._ask("inspect", "--config", "--raw", f"docker://{self._wanted.repository}@sha256:{manifest}")

    def bring(self, manifest: str, blobs: Path, scratch: Path, stage: Stage) -> None:
        """Bring the image's layers to `blobs`/sha256/. Files that are there already stay. `scratch` is an empty folder.

        Of an image in docker's own form skopeo writes another config than the registry has.

        Raises as `resolve`, and `disk-full`, `download-stalled`.
        """
        at = f"docker://{self._wanted.repository}@sha256:{manifest}"
        shared = ["--dest-shared-blob-dir", str(blobs), "--dest-oci-accept-uncompressed-layers"]
        tries = ["--retry-times", str(self._policies.download_retries)]
        first, most, moved = _size(blobs, scratch), 0, time.monotonic()

        def look() -> None:
            nonlocal most, moved
            done, now = _size(blobs, scratch) - first, time.monotonic()
            if done != most:
                most, moved = done, now
                stage.update(done)
            if now - moved > self._policies.stall_timeout:
                raise EnvmgrError(
                    "download-stalled",
                    f"{self._wanted.image}: no byte came for {self._policies.stall_timeout:g} s",
                    context=f"{size_text(done)} came; layers that came whole are kept",
                    hint="run the same command again, or name a mirror in registries.conf",
                )
            if shutil.disk_usage(blobs).free < self._policies.min_free:
                raise EnvmgrError("disk-full", f"no room for {self._wanted.image} in {blobs}", hint=_ROOM)

        self._ask("copy", "--quiet", *tries, *shared, at, f"oci:{scratch}:image", timeout=None, on_tick=look)

    def _ask(self, *argv: str, timeout: float | None = _ASK, on_tick: Callable[[], None] = lambda: None) -> str:
        command = ["skopeo", *self._options, *argv]
        try:
            # The policy of containers is for running them. Here the digest says what is right.
            return self._runner.run(command, env=self._environ, timeout=timeout, on_tick=on_tick).stdout
        except CommandError as error:
            instead = _BY_FILE if argv[0] == "copy" else "lock on a host that reaches the registry"
            said = (error.stderr or error.message).strip().splitlines()[-1:] or [error.message]
            for words, (reference, hint) in _FAULTS.items():
                if re.search(words, said[0], re.IGNORECASE):
                    raise EnvmgrError(
                        reference,
                        f"{self._wanted.image}: the registry did not give it",
                        context=said,
                        hint=f"{hint}, or {instead}" if reference == "no-network" else hint,
                    ) from None
            raise EnvmgrError(
                "image-not-read", f"{self._wanted.image} cannot be read", context=said, hint=instead
            ) from None


def _of_platform(index: Mapping[str, Any], platform: str, at: str) -> str:
    found = []
    for each in index.get("manifests", ()):
        own = each.get("platform") if isinstance(each, dict) else None
        if not isinstance(own, dict):
            continue
        name = f"{own.get('os')}/{own.get('architecture')}"
        if name == platform and own.get("variant") in (None, "", "v8"):
            return str(each.get("digest"))
        found.append(name)
    raise _other_platform(at, ", ".join(sorted({*found})), platform)


def _size(*folders: Path) -> int:
    """Return the bytes of the files below the folders, while somebody writes and moves them."""
    found = 0
    for folder in folders:
        for path in folder.rglob("*"):
            with suppress(OSError):
                found += path.stat().st_size if path.is_file() else 0
    return found


def _blob(row: Mapping[str, Any]) -> LockedBlob:
    return LockedBlob(sha256=str(row["digest"]).removeprefix("sha256:"), size=row["size"], media_type=row["mediaType"])


def _parsed(text: str, at: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise _invalid(at, str(error)) from None
    if not isinstance(found, dict) or found.get("schemaVersion", 2) != 2:
        raise _invalid(at, "its manifest has a format of before 2017 (schema 1)")
    return found


def _other_platform(at: str, found: str, platform: str) -> EnvmgrError:
    return EnvmgrError(
        "image-invalid",
        f"{at} is no image for this recipe",
        context=f"it is for {found}, and the recipe asks for {platform}",
        hint="name a platform that it is for (`input: {platform: …}` in recipe.yaml), or another image",
    )


def _invalid(at: str, why: str) -> EnvmgrError:
    return EnvmgrError(
        "image-invalid",
        f"{at} is no image for this recipe",
        context=why,
        hint=f"look at it: `skopeo inspect --raw docker://{at}`",
    )
