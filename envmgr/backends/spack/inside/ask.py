"""Answers about the active environment, by `spack python`: one line of JSON.

`sources` are the files from which it is built, and the packages whose recipe is not the locked one any more;
`environment` is what loading it changes. Tried with Spack 0.23.
"""

import json
import sys

import spack.environment
import spack.user_environment
from spack.fetch_strategy import BundleFetchStrategy, URLFetchStrategy


def sources(specs, roots):
    """Return each file by its sha256, empty if Spack knows none, with the place at which a mirror has it."""
    files = []
    for spec, stage in ((spec, stage) for spec in specs for stage in spec.package.stage):
        fetcher, row = getattr(stage, "default_fetcher", None), {"package": f"{spec.name}@{spec.version}", "sha256": ""}
        if isinstance(fetcher, URLFetchStrategy):
            urls = list(dict.fromkeys(fetcher.candidate_urls))
            row |= {"sha256": fetcher.digest or "", "place": stage.mirror_layout.path, "urls": urls}
        if not isinstance(fetcher, BundleFetchStrategy):
            files.append(row)
    return sorted(files, key=lambda row: (row["package"], row["sha256"]))


def changed(specs, roots):
    return [spec.name for spec in specs if spec.package.content_hash() != spec._package_hash]


def environment(specs, roots):
    """Return the changes in order: the name of Spack's class, the variable, the value and the separator."""
    changes = spack.user_environment.environment_modifications_for_specs(*roots)
    rows = [[type(each).__name__, each.name, getattr(each, "value", ""), each.separator] for each in changes]
    return [[*row[:2], row[2] if isinstance(row[2], list) else [str(row[2])], row[3]] for row in rows]


if __name__ == "__main__":
    env = spack.environment.active_environment()
    ask = {"sources": sources, "changed": changed, "environment": environment}[sys.argv[1]]
    built = [spec for spec in env.all_specs() if not spec.external]
    sys.stdout.write("\n" + json.dumps(ask(built, list(env.concrete_roots()))) + "\n")
