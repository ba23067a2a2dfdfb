"""Find easyconfigs that ask for the capabilities of GPUs, that need them, and templates that nothing would resolve.

An easyconfig asks by a template of the setting, or by an easyblock that reads the setting in a step for software with
CUDA or ROCm. EasyBuild looks at all that only while it builds, so the code of easyblocks is read here.
"""

import ast
import inspect
import re
import sys
from contextlib import suppress
from functools import cache

CUDA, AMD = "cuda_compute_capabilities", "amdgcn_capabilities"
SETTINGS = (CUDA, AMD)
BEGINNINGS = {CUDA: "cuda_", AMD: "amdgcn_"}  # of the names of a setting's templates
GETTERS = {CUDA: "get_cuda_cc_template_value", AMD: "get_amdgcn_cc_template_value"}
WITH = {CUDA: {"CUDA", "CUDAcore", "NVHPC", "nvidia-compilers"}, AMD: {"ROCm-LLVM", "ROCR-Runtime", "ROCm"}}
TARGETS = {CUDA: "NVPTX", AMD: "AMDGPU"}  # of compilers, as LLVM calls them
NVIDIA_COMPILERS = {"NVHPC", "nvidia-compilers"}  # they hand their own value to what is built with them
# EasyBuild knows these while it builds.
LATER = {"ext_name", "ext_version", "src", "python", "parallel", "mpi_cmd_prefix"}
FOR_EXTENSIONS = {"exts_filter"}  # resolved for each extension, by names of its own


def known_settings(values):
    """Return those of `values` that this EasyBuild has as an option. Earlier ones lack some: nothing asks for these."""
    from easybuild.tools.config import BUILD_OPTIONS_CMDLINE

    known = {name for names in BUILD_OPTIONS_CMDLINE.values() for name in names}
    return {name: each for name, each in values.items() if each and name in known}


def look_at(ordered):
    """Return what each item of a closure `asks` for and `lacks`, which settings may have `only_one` value, and which
    templates are `unresolved`.
    """
    found, below = [], {}
    for item in ordered:
        names = {item["ec"]["name"]: item["ec"]}
        for dep in item["ec"].all_dependencies:
            names |= below.get(dep["full_mod_name"], {dep["name"]: None})
        found.append(_Look(item["ec"], names).answer())
        runs_with = {dep["full_mod_name"] for dep in item["ec"].all_dependencies if not dep.get("build_only")}
        below[item["full_mod_name"]] = {item["ec"]["name"]: item["ec"]}
        for module in runs_with & below.keys():
            below[item["full_mod_name"]] |= below[module]
    return found


def lacks_in(error):
    """Return the settings of an error about a template that EasyBuild wants resolved before it knows the closure."""
    found = re.search(r'Failed to resolve all templates in "(.*?)" using template dictionary', error, re.DOTALL)
    why = "it, or what it stands on, has the template %({})s"
    return {s: why.format(name) for name in (templates_in(found[1]) if found else ()) if (s := setting_of(name))}


class _Look:
    """One easyconfig; `names` are the softwares whose modules are loaded while it is built, with their easyconfigs."""

    def __init__(self, config, names):
        self.config, self.names = config, names
        # With its templates resolved, an easyconfig no longer shows which ones it has.
        with config.disable_templating():
            self.raw = config.asdict()
        self.kinds = easyblocks_of(config, self.raw)
        config.generate_template_values()

    def answer(self):
        asks, lacks, unresolved = set(), {}, {}
        for parameter, name in self.templates():
            setting = setting_of(name)
            if setting is None:
                if not self.resolves(name):
                    unresolved[f"%({name})s"] = parameter
                continue
            asks.add(setting)
            if not self.value(setting):
                lacks.setdefault(setting, f"{parameter} has the template %({name})s")
        only_one = {}
        for setting, how, kind in self.readings():
            asks.add(setting)
            if how == "needs" and not self.value(setting):
                lacks.setdefault(setting, f"its easyblock {kind} needs it")
            if how == "one" and len(self.value(setting) or [""]) != 1:
                only_one.setdefault(setting, f"its easyblock {kind} takes just one")
        return {
            "asks": [setting for setting in SETTINGS if setting in asks],
            "lacks": lacks,
            "only_one": only_one,
            "unresolved": unresolved,
        }

    def value(self, setting):
        """Return what EasyBuild takes: the option, the easyconfig's own value, that of NVIDIA's compilers."""
        from easybuild.tools.config import build_option

        if found := (known_settings({setting: True}) and build_option(setting)) or self.raw.get(setting):
            return found
        compilers = [self.names.get(name) for name in NVIDIA_COMPILERS if setting == CUDA]
        return next((c[setting] for c in compilers if c is not None and c is not self.config and c[setting]), None)

    def templates(self):
        """Yield (parameter, name of a template in it), of the whole easyconfig."""
        for parameter, value in self.raw.items():
            if parameter not in FOR_EXTENSIONS:
                yield from ((parameter, name) for text in texts_in(value) for name in templates_in(text))

    def resolves(self, name):
        from easybuild.framework.easyconfig.templates import TEMPLATE_NAMES_EASYBLOCK_RUN_STEP

        known = LATER | self.config.template_values.keys() | set(TEMPLATE_NAMES_EASYBLOCK_RUN_STEP)
        if also_called(name) & known:
            return True
        if self.config["multi_deps"] or "builddependencies" in self.config.iterate_options:
            return name.endswith("ver")  # of the dependencies of one round
        if name.startswith("cuda") and name.endswith("ver") and self.names.keys() & NVIDIA_COMPILERS:
            return True
        return any(name in literals_of(each.__module__) for kind, _ in self.kinds for each in of_easyblocks(kind))

    def readings(self):
        """Yield (setting, `reads`, `needs` or `one`, name of the easyblock) of code that runs while it is built."""
        version = str(self.raw.get("version") or "")
        for kind, skipped in self.kinds:
            for each in of_easyblocks(kind):
                for setting, how, method, tests in readings_in(each):
                    concerned = self.concerned(setting, literals_of(each.__module__))
                    if not concerned or method in skipped or not method_runs(kind, each, method):
                        continue
                    if all(test_holds(test, version) is not False for test in tests):
                        yield setting, how if concerned == "surely" else "reads", each.__name__

    def concerned(self, setting, words):
        """Return `surely`, `maybe` or "": does an easyblock with these words build for such GPUs here?"""
        words = {word.lower() for word in words}
        if TARGETS[setting] in (self.raw.get("build_targets") or []) and TARGETS[setting].lower() in words:
            return "surely"
        loaded = {name.lower() for name in self.names.keys() & WITH[setting]}
        looked_for = {name.lower() for name in WITH[setting]} & words
        if setting == CUDA and looked_for:
            loaded &= looked_for
        compilers = {name.lower() for name in NVIDIA_COMPILERS}  # they bring a CUDA without a module of its own
        return "surely" if loaded - compilers else "maybe" if loaded else ""


def texts_in(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from texts_in(key)
            yield from texts_in(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from texts_in(each)


def templates_in(text):
    """Return the names of the templates in a text. An even number of % stands for itself."""
    return [name for percents, name in re.findall(r"(%+)\((\w+)\)s", text) if len(percents) % 2]


def also_called(name):
    """Return the names that EasyBuild takes for the same template."""
    from easybuild.framework.easyconfig import templates

    pairs = [*templates.ALTERNATIVE_EASYCONFIG_TEMPLATES.items()]
    pairs += [(old, new) for old, (new, _) in templates.DEPRECATED_EASYCONFIG_TEMPLATES.items()]
    return {name}.union(*(pair for pair in pairs if name in pair))


def setting_of(name):
    """Return the setting that the template follows from, if any."""
    from easybuild.framework.easyconfig.templates import TEMPLATE_NAMES_DYNAMIC

    names = {each if isinstance(each, str) else each[0] for each in TEMPLATE_NAMES_DYNAMIC} & also_called(name)
    return next((s for s in SETTINGS if any(each.startswith(BEGINNINGS[s]) for each in names)), None)


def easyblocks_of(config, raw):
    """Return the classes of an easyconfig, its components and extensions, each with the methods that are skipped."""
    from easybuild.framework.easyconfig.easyconfig import get_easyblock_class

    parts = [(raw.get("easyblock"), raw["name"], methods_of(raw)), (raw.get("exts_defaultclass"), None, ())]
    for each in [*(raw.get("components") or ()), *(raw.get("exts_list") or ())]:
        options = each[2] if isinstance(each, (list, tuple)) and len(each) > 2 and isinstance(each[2], dict) else {}
        name = each if isinstance(each, str) else each[0] if each else None
        parts.append((options.get("easyblock"), name, methods_of(options)))
    of_extensions = (raw.get("exts_default_options") or {}).get("easyblock")
    parts += [(raw.get("default_easyblock"), None, ()), (of_extensions, None, ())]
    kinds = {}
    lenient = {"error_on_failed_import": False, "error_on_missing_easyblock": False}
    for easyblock, name, skipped in dict.fromkeys(parts):
        if easyblock or name:
            with suppress(Exception):  # EasyBuild itself will report one that it does not have
                kind = get_easyblock_class(easyblock, name=config.resolve_template(name), **lenient)
                if kind is not None:
                    kinds[kind, skipped] = None
    return list(kinds)


def methods_of(parameters):
    """Return the methods of the steps that are skipped."""
    return tuple(f"{step}_step" for step in parameters.get("skipsteps") or ())


def of_easyblocks(kind):
    """Return the class and its bases, as far as they are easyblocks and not EasyBuild's framework."""
    return [each for each in kind.__mro__ if each.__module__.startswith("easybuild.easyblocks")]


@cache
def syntax_of(module):
    return ast.parse(inspect.getsource(sys.modules[module]))


@cache
def literals_of(module):
    """Return the texts in the code of a module."""
    with suppress(OSError, TypeError, SyntaxError):  # no source to read
        constants = (node.value for node in ast.walk(syntax_of(module)) if isinstance(node, ast.Constant))
        return frozenset(value for value in constants if isinstance(value, str))
    return frozenset()


@cache
def readings_in(kind):
    """Return (setting, how, method, tests that must hold) of a class without its bases and of functions beside it."""
    found = []
    with suppress(OSError, TypeError, SyntaxError):
        tree = syntax_of(kind.__module__)
        parts = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        own = next((n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == kind.__name__), None)
        parts += [node for node in own.body if isinstance(node, ast.FunctionDef)] if own else []
        for setting in SETTINGS:
            if setting in literals_of(kind.__module__) or GETTERS[setting] in inspect.getsource(kind):
                held = names_of(tree, setting)
                for part in parts:
                    method = part.name if own and part in own.body else None
                    found += [(setting, how, method, tests) for how, tests in _readings(part, setting, held, ())]
    return tuple(dict.fromkeys(found))


def names_of(tree, setting):
    """Return the variables of a module that hold the setting's value, or one that was made from it."""
    held, before = set(), None
    # Until no name is added: a variable may be made from one that is found later.
    while before != len(held):
        before = len(held)
        for node in ast.walk(tree):
            value, targets = None, ()
            if isinstance(node, ast.Assign):
                value, targets = node.value, node.targets
            elif isinstance(node, ast.For):
                value, targets = node.iter, [node.target]
            if value is not None and any(is_of(each, setting, held) for each in ast.walk(value)):
                held |= {target.id for target in targets if isinstance(target, ast.Name)}
    return held


def is_of(node, setting, held=()):
    """Return whether the setting is read there, or whether it is a variable that holds it."""
    if isinstance(node, ast.Name):
        return node.id in held
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and node.slice.value == setting
    if not isinstance(node, ast.Call):
        return False
    called = getattr(node.func, "attr", "") or getattr(node.func, "id", "")
    first = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
    return called == GETTERS[setting] or (called in ("build_option", "get") and first == setting)


def _readings(node, setting, held, tests):
    """Yield (how, tests) of all in `node`; `tests` are those that lead to it."""
    if isinstance(node, ast.If):
        stops, stops_else = (any(isinstance(n, ast.Raise) for n in part) for part in (node.body, node.orelse))
        parts = node.test.values if isinstance(node.test, ast.BoolOp) else [node.test]
        all_must_hold = isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And)
        for lack in parts if stops else ():
            sure = (*tests, *(_Sure(n) for n in parts if all_must_hold and n is not lack))
            if isinstance(lack, ast.UnaryOp) and isinstance(lack.op, ast.Not) and is_of(lack.operand, setting, held):
                yield "needs", sure
            if is_not_one(lack, held):
                yield "one", sure
        if stops_else and is_of(node.test, setting, held):
            yield "needs", tests
        yield from _readings(node.test, setting, held, tests)
        for each in node.body:
            yield from _readings(each, setting, held, (*tests, node.test))
        for each in node.orelse:
            yield from _readings(each, setting, held, (*tests, _Not(node.test)))
        return
    if not isinstance(node, ast.Name) and is_of(node, setting):
        getter = isinstance(node, ast.Call) and getattr(node.func, "attr", "") == GETTERS[setting]
        may_lack = getter and any(k.arg == "required" for k in node.keywords)
        yield ("needs" if getter and not may_lack else "reads"), tests
    for child in ast.iter_child_nodes(node):
        yield from _readings(child, setting, held, tests)


def is_not_one(test, held):
    """Return whether the test is `len(values) != 1`."""
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.ops[0], ast.NotEq)
        and getattr(test.comparators[0], "value", None) == 1
        and isinstance(test.left, ast.Call)
        and getattr(test.left.func, "id", "") == "len"
        and bool(test.left.args)
        and getattr(test.left.args[0], "id", None) in held
    )


class _Not:
    """A test that does not hold."""

    def __init__(self, test):
        self.test = test


class _Sure(_Not):
    """A test that counts only if it surely holds."""


def test_holds(test, version):
    """Return whether a test of the software's version holds; None for any other test."""
    from easybuild.tools import LooseVersion

    if isinstance(test, _Sure):
        return test_holds(test.test, version) is True
    if isinstance(test, _Not):
        inner = test_holds(test.test, version)
        return None if inner is None else not inner
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    of_version = any("version" in (getattr(n, "id", ""), getattr(n, "attr", "")) for n in ast.walk(test.left))
    limit = [n.value for n in ast.walk(test.comparators[0]) if isinstance(n, ast.Constant)]
    if not of_version or len(limit) != 1 or not isinstance(limit[0], str):
        return None
    here, there = LooseVersion(version), LooseVersion(limit[0])
    compare = {ast.Lt: here < there, ast.LtE: here <= there, ast.Gt: here > there, ast.GtE: here >= there}
    return compare.get(type(test.ops[0]))


def method_runs(kind, owner, method):
    """Return whether `owner`'s own `method` runs for `kind`: no class before it replaces it without calling it."""
    if method is None:
        return True
    for each in kind.__mro__:
        if each is owner:
            return True
        own = vars(each).get(method)
        if own is not None:
            with suppress(OSError, TypeError):
                if not re.search(rf"\.{method}\(", inspect.getsource(own)):
                    return False
    return False
