"""The statements of a modulefile, as data and in order, from a spec and the policies. Pure; render.py prints them.

Each statement was tried at load and unload with Lmod 8.6.19; tests/unit/modules/test_module_load.py keeps that true.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from envmgr.catalog.environment import LOAD_NAMES
from envmgr.catalog.gpus import CONSUMER, DATA_CENTRE, FLOORS, GpuNeeds, toolkit_driver
from envmgr.catalog.names import variable_name
from envmgr.catalog.shell_rules import VARIABLE, fault_in_value
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError
from envmgr.modules.families import NO_FAMILIES, Families
from envmgr.modules.lmod import lua_quote
from envmgr.modules.spec import SHIMS, EnvOp, ModuleSpec, Pip
from envmgr.system.known_programs import KNOWN
from envmgr.system.models import FrozenModel
from envmgr.system.shelltext import quote
from envmgr.wording import LINES, escaped

GENERATION_VARIABLE = "ENVMGR_GENERATION"

# In these lists an empty element means "and the usual places": without it, the list would hide the system's pages.
# Sources: man-db manpath(1), GNU Texinfo "Invoking Info".
_EMPTY_MEANS_SYSTEM = frozenset({"MANPATH", "INFOPATH"})


# A value that is known only at load: pieces (text, is the name of a variable).
AtLoad = tuple[tuple[str, bool], ...]


class ModulePolicies(FrozenModel):
    """The policies of the site that a modulefile depends on."""

    driver_gate: Literal["warn", "refuse"] = "warn"
    user_site: bool = False
    usage: bool = False

    @classmethod
    def from_site(cls, site: Site) -> ModulePolicies:
        return cls(driver_gate=site.policies.driver_gate, user_site=site.policies.user_site, usage=site.usage)


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a modulefile, as data.

    `kind` says how the template prints it:
        call        `name(arguments…)`; an argument is text, False, or pieces of text known at load
        function    arguments = (text for shells like sh, text for csh)
        at-unload   arguments = (shell type, text): that shell runs it, after everything else
        generation  `name(arguments…, generation)`
        in-generation `name(arguments…)`, the last one a path: of two pieces, with the generation's folder between them
        deprecated  arguments = (message,): printed at load
        gpu-gate    arguments = (entry, `warn` or `refuse`, a Lua table: see `needs_table`)
        set-default arguments = (value, name of the list of holders, entry): sets variable `name` where it is empty
        wrap        arguments = (`alone`, before, after): text around what `name` holds, `alone` where it holds nothing
        keep-system an empty element for list `name`, where it was empty; printed before its first element
        drop-system takes that empty element away at unload; printed after its last element
    """

    kind: Literal[
        "call",
        "generation",
        "in-generation",
        "deprecated",
        "gpu-gate",
        "set-default",
        "wrap",
        "keep-system",
        "drop-system",
        "function",
        "at-unload",
    ]
    name: str
    arguments: tuple[str | bool | AtLoad, ...] = ()

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that must have a value at load for this to happen. Unloading ignores them: the value may be
        gone by then.
        """
        pieces = [piece for argument in self.arguments if isinstance(argument, tuple) for piece in argument]
        return tuple(dict.fromkeys(text for text, is_variable in pieces if is_variable))


def operations(spec: ModuleSpec, policies: ModulePolicies, families: Families = NO_FAMILIES) -> list[Statement]:
    """Return the statements of the module of `spec`, in the order of the modulefile. `families` are those in its
    generation.

    Raises:
        EnvmgrError: `module-value`, for a change of the environment that Lmod cannot hand to a shell.
    """
    for op in spec.environment:
        _refuse_what_no_shell_gets(op, spec.entry)
    told = [*_metadata(spec, families), *_gates(spec, policies), *_relations(spec, families)]
    return [*told, *_environment(spec, policies), *_shell(spec)]


def _refuse_what_no_shell_gets(op: EnvOp, entry: str) -> None:
    """Refuse names and values that some shells cannot read back: Lmod writes names unchanged, and values with
    limits.
    """
    plain = string.Template(op.value).safe_substitute(dict.fromkeys(LOAD_NAMES, "/x")) if op.at_load else op.value
    as_list = op.kind in ("prepend", "append") and op.separator == ":"
    if not VARIABLE.fullmatch(op.name):
        fault = "that is not a variable name"
    elif unfit := fault_in_value(plain + op.separator.strip(":"), as_list=as_list):
        fault = f"{op.value!r}: {unfit}"
    elif not op.separator:
        fault = "a list needs a separator"
    elif op.at_load and op.separator != ":":
        fault = "a value that is known at load cannot be an element of a list without colons"
    else:
        return
    raise EnvmgrError("module-value", f"the module of {entry} cannot change {op.name!r}", context=fault)


def _metadata(spec: ModuleSpec, families: Families) -> Iterator[Statement]:
    # What packages and recipes say ends in terminals: Lmod prints it as it is.
    yield _call("help", escaped(_help_text(spec, families), LINES))
    facts = {
        "Name": spec.name,
        "Version": spec.version,
        "Description": spec.description,
        "URL": spec.homepage,
        "License": spec.licence,
        "Category": spec.category,
        "Requires": "; ".join(_requirements(spec)),
        "Deprecated": _deprecation(spec),
    }
    # One line each: `module whatis` prints a line per fact and `module keyword` searches them.
    yield from (_call("whatis", f"{key}: {escaped(' '.join(value.split()))}") for key, value in facts.items() if value)
    if spec.extensions:
        yield _call("extensions", escaped(", ".join(spec.extensions)))


def _gates(spec: ModuleSpec, policies: ModulePolicies) -> Iterator[Statement]:
    if (needs := spec.gpu) is not None:
        yield Statement("gpu-gate", "gpu_gate", (spec.entry, policies.driver_gate, needs_table(needs)))
    if spec.deprecated:
        yield Statement("deprecated", "LmodMessage", (escaped(_deprecation(spec)),))


def _relations(spec: ModuleSpec, families: Families) -> Iterator[Statement]:
    yield from (_call("family", family) for family in families.own)
    if conflicts := (*spec.conflicts, *(each for each in families.conflicts if each not in spec.conflicts)):
        yield _call("conflict", *conflicts)
    # A line for each: in one call, Lmod 8 looks first which are loaded, and fails where loading one of them unloads
    # another.
    yield from (_call("depends_on", name) for name in spec.depends)


def has_root(stem: str) -> bool:
    """Return whether a module sets `STEM_ROOT`: PIP_ROOT is a setting of every pip."""
    return KNOWN.fullmatch(stem) is None


def _environment(spec: ModuleSpec, policies: ModulePolicies) -> Iterator[Statement]:
    # pushenv everywhere: setenv of one variable by two modules is lost when the first of them is unloaded, and it never
    # brings back the user's own value.
    stem = variable_name(spec.name)
    if has_root(stem):
        yield _call("pushenv", f"{stem}_ROOT", spec.home)
    yield _call("pushenv", f"ENVMGR_{stem}_DIGEST", spec.digest)
    yield Statement("generation", "pushenv", (GENERATION_VARIABLE,))
    if spec.python and not policies.user_site:
        yield _call("pushenv", "PYTHONNOUSERSITE", "1")
    lists = [op.name for op in spec.environment if op.kind in ("prepend", "append")]
    lists = sorted(_EMPTY_MEANS_SYSTEM.intersection(lists))
    yield from (Statement("keep-system", name) for name in lists)
    yield from _changes(spec.environment, spec.entry)
    if spec.pip is not None:
        yield from _keep_pip_off(spec, spec.pip)
    yield from (Statement("drop-system", name) for name in lists)


def _keep_pip_off(spec: ModuleSpec, pip: Pip) -> Iterator[Statement]:
    """Yield the statements that keep pip from changing the install.

    The shim comes before the install's own pip. The shim cannot see `python -m pip`, which a setting of pip refuses
    where the mark does not. That setting also reaches the pips of other Pythons outside virtual environments: so only
    such installs set it, and a user's own value counts.
    """
    yield Statement(
        "in-generation", "prepend_path", ("PATH", f"{spec.made_for}/generations/", f"/{SHIMS}/{spec.entry}")
    )
    if pip.writes:
        yield _set_default("PIP_REQUIRE_VIRTUALENV", "1", spec.entry)


def _changes(ops: Sequence[EnvOp], entry: str) -> Iterator[Statement]:
    """Yield the changes of variables. Lists with another separator than a colon are edited as text: Lmod would fold
    repeated words and turn `//` into `/`.
    """
    position = 0
    while position < len(ops):
        op = ops[position]
        if op.kind not in ("prepend", "append") or op.separator == ":":
            yield _change(op, entry)
            position += 1
            continue
        end = position
        while end < len(ops) and _same_list(ops[end], op):
            end += 1
        first = [o.value for o in reversed(ops[position:end]) if o.kind == "prepend"]
        last = [o.value for o in ops[position:end] if o.kind == "append"]
        before = "".join(value + op.separator for value in first)
        after = "".join(op.separator + value for value in last)
        yield Statement("wrap", op.name, (op.separator.join([*first, *last]), before, after))
        position = end


def _same_list(op: EnvOp, other: EnvOp) -> bool:
    return op.kind in ("prepend", "append") and (op.name, op.separator) == (other.name, other.separator)


def _change(op: EnvOp, entry: str) -> Statement:
    match op.kind:
        case "set":
            return _call("pushenv", op.name, _value(op))
        case "unset":
            # Not `unsetenv`: pushenv brings the user's own value back at unload.
            return _call("pushenv", op.name, False)
        case "set-default":
            return _set_default(op.name, _value(op), entry)
        case "prepend" | "append":
            return _call(f"{op.kind}_path", op.name, _value(op))


def _set_default(name: str, value: str | AtLoad, entry: str) -> Statement:
    return Statement("set-default", name, (value, f"ENVMGR_DEFAULT_{name}", entry))


def _value(op: EnvOp) -> str | AtLoad:
    if not op.at_load:
        return op.value
    pieces: list[tuple[str, bool]] = []
    end = 0
    for match in string.Template.pattern.finditer(op.value):
        variable = match["named"] or match["braced"]
        pieces += [(op.value[end : match.start()], False), (variable or "$", variable is not None)]
        end = match.end()
    pieces.append((op.value[end:], False))
    return tuple(piece for piece in pieces if piece[0])


def _shell(spec: ModuleSpec) -> Iterator[Statement]:
    for function in spec.functions:
        # As a word that the function evaluates: whatever its text is, loading defines one function and runs nothing.
        yield Statement("function", function.name, (f"eval {quote(function.bash)}", function.csh))
    # Text that no shell can parse must not keep an unload from undoing the rest.
    bash = spec.on_unload.bash and f"eval {quote(spec.on_unload.bash)}"
    for shell, text in (("sh", bash), ("csh", spec.on_unload.csh)):
        if text:
            yield Statement("at-unload", "execute", (shell, text))


def _call(name: str, *arguments: str | bool | AtLoad) -> Statement:
    return Statement("call", name, arguments)


def _requirements(spec: ModuleSpec) -> list[str]:
    """Return the requirements of a node, for people."""
    needs = spec.requires
    lines = []
    if needs.nvidia_driver:
        lines.append(f"NVIDIA driver {needs.nvidia_driver} or newer")
    if needs.compute_capability:
        lines.append(f"GPU of compute capability {' or '.join(needs.compute_capability)}")
    if needs.glibc:
        lines.append(f"glibc {needs.glibc} or newer")
    if needs.cpu_level:
        lines.append(f"CPU of level {needs.cpu_level} or higher")
    return lines


def _deprecation(spec: ModuleSpec) -> str:
    if spec.deprecated is None:
        return ""
    message = " ".join(spec.deprecated.message.split())
    return f"{spec.entry} is deprecated and goes away on {spec.deprecated.date.isoformat()}: {message}"


def _replaces(families: Families) -> str:
    """Return which families the module replaces, including by what it loads."""
    names = families.replaces
    if not names:
        return ""
    which = f"family {names[0]}" if len(names) == 1 else f"the families {', '.join(names[:-1])} and {names[-1]}"
    return f"Loading it replaces any other loaded module of {which}."


def _help_text(spec: ModuleSpec, families: Families) -> str:
    requires = "\n".join(f"  {line}" for line in _requirements(spec))
    paragraphs = [
        f"{spec.entry}: {spec.description.strip()}",
        _deprecation(spec),
        spec.help.strip(),
        spec.own_packages if spec.python else "",
        f"Needs:\n{requires}" if requires else "",
        _replaces(families),
        f"More: {spec.homepage}" if spec.homepage else "",
        _place(spec),
    ]
    return "\n\n".join(p for p in paragraphs if p) + "\n"


def _place(spec: ModuleSpec) -> str:
    if spec.outside is None:
        return f"Installed in {spec.root}"
    return (
        f"Not ours: {spec.home}\n"
        "Somebody else made it and keeps it. It can change, and a rollback brings back this module, not its files."
    )


def needs_table(needs: GpuNeeds) -> str:
    """Return an entry's needs as modulefiles/gpu_rules.lua reads them."""
    fields: dict[str, str] = {}
    if needs.cuda is not None:
        fields["cuda"] = lua_quote(needs.cuda or "?")
        if floor := FLOORS.get(needs.cuda.partition(".")[0]):
            fields["floor"] = lua_quote(floor)
        if driver := toolkit_driver(needs.cuda):
            fields["branch"] = driver.partition(".")[0]
    if needs.codes is not None:
        fields["codes"] = _lua_list(needs.codes)
    if needs.driver:
        fields["driver"] = lua_quote(needs.driver)
    if needs.compat:
        fields["compat"] = lua_quote(needs.compat)
        if driver := toolkit_driver(needs.compat):
            fields["compat_branch"] = driver.partition(".")[0]
        fields["consumer"] = _lua_list(CONSUMER)
        fields["data_centre"] = _lua_list(DATA_CENTRE)
    return "{ " + ", ".join(f"{key} = {value}" for key, value in fields.items()) + " }"


def _lua_list(values: tuple[str, ...]) -> str:
    return "{ " + ", ".join(map(lua_quote, values)) + " }"
