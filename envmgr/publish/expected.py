"""The record of an audit's expectations of each entry of a generation, made when that is staged."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

from envmgr.errors import EnvmgrError
from envmgr.modules.spec import ModuleSpec
from envmgr.publish.records import PublishedSpec, published_spec
from envmgr.store.expected import ExpectedFile, expected_of
from envmgr.store.manifest import read_manifest
from envmgr.store.prefix import Prefix


def with_expected(
    merged: Mapping[str, PublishedSpec],
    old: Mapping[str, Any],
    changed: Collection[str],
    manifests: Mapping[str, str],
    prefix: Prefix,
) -> dict[str, PublishedSpec]:
    """Return the specs with what is expected of each entry. An entry that did not change keeps what `old`, the raw specs
    of the parent, has. `manifests` are those of the new record.
    """
    found = {}
    for name, item in merged.items():
        known = published_spec(old[name]).expected if name in old and name not in changed else ExpectedFile()
        expected = known if known.file else _expected(item.spec, manifests, prefix)
        found[name] = item.model_copy(update={"expected": expected})
    return found


def _expected(spec: ModuleSpec, manifests: Mapping[str, str], prefix: Prefix) -> ExpectedFile:
    if (tree := spec.outside) is not None:
        return ExpectedFile(program=tree.program, file=tree.file)
    path = prefix.named(spec.root)
    with suppress(EnvmgrError):  # `verify` reports a manifest that cannot be read, the audit what was not recorded
        manifest = read_manifest(prefix.install_at(path).manifest, named=manifests.get(path))
        return expected_of(spec.root, manifest.paths, spec.environment, spec.name)
    return ExpectedFile()
