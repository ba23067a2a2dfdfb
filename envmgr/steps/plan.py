"""The plan of a build and a publish: entries compared with the store and the current generation."""

from __future__ import annotations

from collections.abc import Sequence

from envmgr.errors import EnvmgrError
from envmgr.modules.families import find_families, member_of
from envmgr.modules.render import fingerprint, render_digest, templates_digest
from envmgr.modules.statements import ModulePolicies
from envmgr.publish import records
from envmgr.publish.plan import BuildPlan, make_plan
from envmgr.steps import Context, require_current_if_ever
from envmgr.steps.resolved import EntryBuild
from envmgr.store.manifest import InstallFacts, read_facts
from envmgr.system.files import shipped
from envmgr.system.shelltext import quote


def _facts_of_unpublished(item: EntryBuild) -> InstallFacts:
    """Return the facts of an install that no generation names.

    Raises EnvmgrError `manifest-damaged`, with what makes such an install again.
    """
    try:
        return read_facts(item.install)
    except EnvmgrError as error:
        if error.reference == "manifest-damaged":
            error.hint = f"`rm {quote(str(item.install.manifest))}`; then `envmgr build {item.entry}` builds it again"
        raise


def plan_for(ctx: Context, wanted: Sequence[EntryBuild]) -> BuildPlan:
    """Compare the wanted entries with the store and `current`; it reads, and changes nothing."""
    policies = ModulePolicies.from_site(ctx.site)
    templates = shipped("modulefiles")
    current = records.read_current(ctx.prefix)
    # With generations left, a lost `current` is damage; without any, this is a first publish again.
    if current is None and records.can_go_back(ctx.prefix):
        require_current_if_ever(ctx)
    specs = records.read_specs(ctx.prefix, current.number) if current else {}
    digest = templates_digest(templates)

    def facts_of(item: EntryBuild) -> InstallFacts | None:
        raw = specs.get(str(item.entry))
        if raw is not None and raw["spec"]["digest"] == item.install.digest:
            return records.published_spec(raw).facts
        return _facts_of_unpublished(item) if item.install.exists() else None

    known = {str(item.entry): facts_of(item) for item in wanted}
    modules = {str(w.entry): w.module(facts).spec for w in wanted if (facts := known[str(w.entry)]) is not None}
    kept = {name: records.published_spec(raw) for name, raw in specs.items() if name not in modules}
    members = {name: member_of(item.spec) for name, item in kept.items()}
    members |= {str(item.entry): item.member() for item in wanted if str(item.entry) not in modules}
    families = find_families(members | {name: member_of(spec) for name, spec in modules.items()})
    prints = {name: fingerprint(spec, policies, digest, families[name]) for name, spec in modules.items()}
    planned = [item.planned(prints.get(str(item.entry))) for item in wanted]
    return make_plan(planned, current, render_digest(digest, policies))
