"""Answers about the active environment, by `spack python`: one line of JSON. Runs inside of Spack.

`sources` are the files from which it is built, and the packages whose recipe is not the locked one any more;
`environment` is what loading it changes. Tried with Spack 0.23.
"""

from __future__ import annotations

import json
import sys

import spack.environment
import spack.fetch_strategy
import spack.user_environment


def sources(env):
    """Return each file by its sha256, empty if Spack knows none, with the place at which a mirror has it."""
    files, changed = [], []
    for spec in env.all_specs():
        if spec.external:
            continue
        if spec.package.content_hash() != spec._package_hash:
            changed.append(str(spec.name))
        for stage in spec.package.stage:
            fetcher = getattr(stage, "default_fetcher", None)
            if not isinstance(fetcher, spack.fetch_strategy.BundleFetchStrategy):
                known = isinstance(fetcher, spack.fetch_strategy.URLFetchStrategy)
                files.append(
                    {
                        "package": f"{spec.name}@{spec.version}",
                        "sha256": (fetcher.digest or "") if known else "",
                        "place": stage.mirror_layout.path if known else "",
                        "urls": list(dict.fromkeys(fetcher.candidate_urls)) if known else [],
                    }
                )
    return {"files": sorted(files, key=lambda file: (file["package"], file["place"])), "changed": sorted(changed)}


def environment(env):
    """Return the changes in order: the name of Spack's class, the variable, the value and the separator."""
    changes = spack.user_environment.environment_modifications_for_specs(*env.concrete_roots())
    rows = [[type(e).__name__, e.name, getattr(e, "value", ""), getattr(e, "separator", ":")] for e in changes]
    return {"changes": [[w, n, v if isinstance(v, list) else [str(v)], s] for w, n, v, s in rows]}


ANSWERS = {"sources": sources, "environment": environment}
sys.stdout.write("\n" + json.dumps(ANSWERS[sys.argv[1]](spack.environment.active_environment())) + "\n")
