"""Answers about the active environment, by `spack python`: one line of JSON.

`sources` are the files from which it is built, `changed` the packages whose recipe is not the locked one any more, and
`environment` is what loading it changes. Tried with Spack 0.23.
"""

import json
import sys

import spack.environment
import spack.user_environment
from spack.fetch_strategy import BundleFetchStrategy, URLFetchStrategy

SHA256 = 64  # digits; Spack also knows shorter, older checksums


def sources(env):
    """Yield each file by its sha256, empty if Spack knows none, with the place at which a mirror has it."""
    for each, stage in [(spec, stage) for spec in built(env) for stage in spec.package.stage]:
        fetcher, row = getattr(stage, "default_fetcher", None), {"package": f"{each.name}@{each.version}", "sha256": ""}
        if isinstance(fetcher, URLFetchStrategy) and len(fetcher.digest or "") == SHA256:
            urls = list(dict.fromkeys(fetcher.candidate_urls))
            row |= {"sha256": fetcher.digest, "place": stage.mirror_layout.path, "urls": urls}
        if not isinstance(fetcher, BundleFetchStrategy):
            yield row


def changed(env):
    return (spec.name for spec in built(env) if spec.package.content_hash() != spec._package_hash)


def environment(env):
    """Yield the changes in order: the name of Spack's class, the variable, the value and the separator."""
    for each in spack.user_environment.environment_modifications_for_specs(*env.concrete_roots()):
        yield [type(each).__name__, each.name, str(getattr(each, "value", "")).removesuffix("/."), each.separator]


def built(env):
    return sorted(
        (spec for spec in env.all_specs() if not spec.external), key=lambda spec: (spec.name, spec.dag_hash())
    )


if __name__ == "__main__":
    ask = {"sources": sources, "changed": changed, "environment": environment}[sys.argv[1]]
    sys.stdout.write("\n" + json.dumps(list(ask(spack.environment.active_environment()))) + "\n")
