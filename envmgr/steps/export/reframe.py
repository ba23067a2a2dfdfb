"""The configuration for ReFrame 4: YAML, which ReFrame reads and does not run.

It has one system, a partition for each group, and an environment for each entry.

Source: ReFrame 4.10, "Configuration Reference", its schemas/config.json, and `load_config_yaml` of its core/config.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from envmgr.modules.spec import ModuleSpec
from envmgr.smoke.here import own_tests
from envmgr.steps.export import Cluster, ClusterPart
from envmgr.system.yamlfile import dump_yaml


def cluster_text(cluster: Cluster) -> str:
    system = _word(cluster.name)
    environments = _names(entry.entry for entry in cluster.entries)
    partitions = _names(part.name for part in cluster.parts)
    what = f"generation {cluster.generation} of {cluster.prefix}"
    config = {
        "systems": [
            {
                "name": system,
                "descr": f"{cluster.name}: {what}",
                "hostnames": [_pattern(host) for host in cluster.hosts],
                "modules_system": "lmod",
                "partitions": [_partition(part, partitions[part.name], environments) for part in cluster.parts],
            }
        ],
        "environments": [_environment(entry, environments[entry.entry], system) for entry in cluster.entries],
        # A job's shell reads the start-up files that make modules resolve. ReFrame itself loads none: it may run on
        # another generation than the job, and Lmod settles conflicts.
        "general": [{"use_login_shell": True, "resolve_module_conflicts": False, "target_systems": [system]}],
    }
    head = f"# For `reframe -C`: {what}, by `envmgr export --to reframe`.\n"
    return _as_template(head + dump_yaml(config, width=120))


def _as_template(text: str) -> str:
    """Return the text that gives `text` again when ReFrame reads it as a template of Jinja's.

    In such a template a shell's `${#words}` begins a comment.
    """
    return re.sub(r"\{(?=[{%#])", "{{ '{' }}", text)


def _partition(part: ClusterPart, name: str, environments: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": name,
        "descr": part.folded or "this host",
        **_way(part),
        "environs": [environments[entry] for entry in part.entries],
        "features": ["gpu"] if part.gpu else [],
        "extras": {"group": part.name, "nodes": part.folded},
    }


def _way(part: ClusterPart) -> dict[str, Any]:
    """Return ReFrame's fields for a partition's scheduler.

    `squeue` is ReFrame's name for a Slurm without accounting: it does not ask for jobs that have ended.
    """
    if part.slurm is not None:
        scheduler = "slurm" if part.slurm.accounting else "squeue"
        return {"scheduler": scheduler, "launcher": "srun", "access": list(part.slurm.options)}
    if part.nodes:
        return {"scheduler": "ssh", "launcher": "local", "sched_options": {"ssh_hosts": list(part.nodes)}}
    return {"scheduler": "local", "launcher": "local"}


def _environment(entry: ModuleSpec, name: str, system: str) -> dict[str, Any]:
    """Return ReFrame's environment of an entry. `extras` has the entry's own tests, for checks that run them."""
    cuda = bool(entry.requires.nvidia_driver or entry.requires.compute_capability)
    features = {"envmgr": True, _word(entry.name): True, "python": entry.python, "cuda": cuda}
    return {
        "name": name,
        "modules": [entry.entry],
        "cc": "cc",
        "cxx": "c++",
        "ftn": "gfortran",
        "features": [word for word, has in features.items() if has],
        "extras": {
            "entry": entry.entry,
            "version": entry.version,
            "root": entry.home,
            "digest": entry.digest,
            "tests": [  # `run` has their files
                test.model_dump(mode="json", exclude={"files", "imports"}) for test in own_tests(entry)
            ],
        },
        "target_systems": [system],
    }


def _names(texts: Iterable[str]) -> dict[str, str]:
    """Return text -> a name, no name twice: `a/1.0` and `a/1-0` are `a-1_0` and `a-1-0`; `a/1+0` is then `a-1_0_2`."""
    found: dict[str, str] = {}
    for text in texts:
        name, count = _word(text), 1
        while name in found.values():
            count += 1
            name = f"{_word(text)}_{count}"
        found[text] = name
    return found


def _word(text: str) -> str:
    """Return `text` as a name for ReFrame: letters, digits, `_` and `-`, with no digit or `-` in front."""
    word = re.sub(r"[^A-Za-z0-9_-]", "_", text.replace("/", "-"))
    return word if re.match(r"[A-Za-z_]", word) else f"_{word}"


def _pattern(host: str) -> str:
    """Return the pattern of a host's name, with or without a domain. ReFrame compares it from the beginning with the
    host's own name.
    """
    return rf"{re.escape(host.partition('.')[0])}(\.|$)"
