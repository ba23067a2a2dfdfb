"""YAML files checked against a model; a fault is told with file, line and field."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from envmgr.errors import InputError

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # PyYAML without libyaml: slower, same result
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]

Model = TypeVar("Model", bound=BaseModel)

_MAX_DEPTH = 100  # nested collections; libyaml's own recursion ends in a segmentation fault
_MAX_ALIASED = 10_000  # nodes that aliases stand for: "billion laughs" is a few lines that expand without end
_CAN_BE_HUGE = re.compile(rf"(?:^|[\s\[{{,])&\S|^[ ?:-]{{{_MAX_DEPTH}}}", re.MULTILINE)
_MERGE = "tag:yaml.org,2002:merge"


class _UniqueKeys(_Loader):
    """PyYAML keeps the last of two equal keys without a word; a recipe with two `tests:` is a mistake to tell."""


def _mapping(loader: Any, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        key = "<<" if key_node.tag == _MERGE else loader.construct_object(key_node, deep=True)
        if not isinstance(key, Hashable):
            fault = "a list or mapping cannot be a key"
            raise yaml.constructor.ConstructorError(None, None, fault, key_node.start_mark)
        if key in seen:
            raise yaml.constructor.ConstructorError(None, None, f"the key `{key}` is given twice", key_node.start_mark)
        seen.add(key)
    loader.flatten_mapping(node)
    return {loader.construct_object(k, deep=True): loader.construct_object(v, deep=True) for k, v in node.value}


def _told(construct: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A scalar that looks like a date or number and is none (2024-13-45) is a fault with a place, not a ValueError."""

    def constructor(loader: Any, node: yaml.Node) -> Any:
        try:
            return construct(loader, node)
        except (ValueError, KeyError, AttributeError, OverflowError):
            kind, shown = node.tag.rpartition(":")[2], str(node.value)[:60]
            raise yaml.constructor.ConstructorError(None, None, f"`{shown}` is no {kind}", node.start_mark) from None

    return constructor


_UniqueKeys.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)
for _kind in ("bool", "int", "float", "timestamp"):
    _UniqueKeys.add_constructor(f"tag:yaml.org,2002:{_kind}", _told(getattr(_Loader, f"construct_yaml_{_kind}")))


def parse_yaml(text: str, path: Path | str) -> Any:
    """The document as plain data; InputError `yaml-syntax` with line and column."""
    try:
        _refuse_huge(text)
        return yaml.load(text, Loader=_UniqueKeys)  # noqa: S506 - a subclass of the safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise InputError("yaml-syntax", f"{where}: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise InputError("yaml-syntax", f"{path}: {error}") from None


def _refuse_huge(text: str) -> None:
    """Count nesting and what aliases stand for without building anything; most files need no look.

    Raises MarkedYAMLError.
    """
    opened = sum(text.count(both[0]) - text.count(both) for both in ("[]", "{}"))
    if opened <= _MAX_DEPTH and not _CAN_BE_HUGE.search(text):
        return
    sizes: dict[str, int] = {}
    anchors: list[str | None] = []
    counts = [0]
    aliased = 0
    event: Any
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            anchors.append(event.anchor)
            counts.append(1)
        elif isinstance(event, yaml.CollectionEndEvent):
            size = counts.pop()
            counts[-1] += size
            if anchor := anchors.pop():
                sizes[anchor] = size
        elif isinstance(event, yaml.AliasEvent):
            size = sizes.get(event.anchor or "", 1)
            aliased += size
            counts[-1] += size
        elif isinstance(event, yaml.ScalarEvent):
            counts[-1] += 1
        fault = f"nested more than {_MAX_DEPTH} deep" if len(anchors) > _MAX_DEPTH else ""
        fault = f"aliases stand for more than {_MAX_ALIASED} nodes" if aliased > _MAX_ALIASED else fault
        if fault:
            raise yaml.MarkedYAMLError(problem=fault, problem_mark=event.start_mark)


def dump_yaml(document: Any, *, width: int) -> str:
    """The document as people review it: keys in their order, the same bytes everywhere."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=width)


class _Dumper(yaml.SafeDumper):
    """The pure Python emitter: libyaml's, where it is installed, may break lines elsewhere."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - an anchor for every repeated list helps no reader
        return True


# `1e5` and `08` are texts for PyYAML, and numbers for readers of YAML 1.2 such as pixi: versions and builds can look so.
# Source: YAML 1.2.2, section 10.3.2 (core schema).
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|0o[0-7]+|0x[0-9a-fA-F]+)$"),
    list("-+.0123456789"),
)


def read_text(path: Path, *, what: str) -> str:
    """The file's text; InputError when it is missing, unreadable or not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError("file-missing", f"{what} {path} does not exist") from None
    except OSError as error:
        raise InputError("file-unreadable", f"cannot read {what} {path}", context=str(error)) from None
    except UnicodeDecodeError as error:
        raise InputError("yaml-syntax", f"{path}: not UTF-8 (byte {error.start})") from None


Fault = tuple[tuple[int | str, ...], str]
"""A place in a document, and what is wrong with what stands there."""


def load_model(path: Path, model: type[Model], *, what: str, reference: str) -> Model:
    """Read, parse and validate. `what` names the file's role in errors; `reference` is the error's reference.

    Raises:
        InputError: every fault of the file in its context, each as `file:line: field: reason`.
    """
    text = read_text(path, what=what)
    return validate(parse_yaml(text, path), model, text=text, path=path, reference=reference)


def validate(
    data: Any, model: type[Model], *, text: str, path: Path, reference: str, faults: Sequence[Fault] = ()
) -> Model:
    """`data`, which comes from `text`, as `model`; `faults` are those that were found before. Errors as `load_model`."""
    rows = [*faults]
    try:
        made = model.model_validate({} if data is None else data)
        if not rows:
            return made
    except ValidationError as error:
        rows += [(fault["loc"], reason_of(fault)) for fault in error.errors(include_url=False)]
    lines = faults_with_lines(rows, text, path)
    raise InputError(reference, f"{path} has {len(lines)} fault{'s' if len(lines) > 1 else ''}", context=lines)


def faults_with_lines(faults: Iterable[Fault], text: str, path: Path) -> list[str]:
    """Each fault, its place in the document and its reason, as `file:line: field: reason`, in file order."""
    root = yaml.compose(text, Loader=_Loader)
    rows = []
    for location, reason in faults:
        line = _line_of(root, location)
        field = ".".join(str(part) for part in location) or "(document)"
        rows.append((line, f"{path}:{line}: {field}: {reason}"))
    return [row for _, row in sorted(rows)]


# What a validation says in Python's words -> in the words of YAML.
_REASONS = {
    "extra_forbidden": "unknown field",
    "string_type": "must be text: put it in quotes",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "path_type": "must be a path",
}


def reason_of(fault: Mapping[str, Any]) -> str:
    """The reason of one pydantic fault, for people."""
    return _REASONS.get(fault["type"]) or str(fault["msg"]).removeprefix("Value error, ")


def _line_of(node: yaml.Node | None, location: tuple[int | str, ...]) -> int:
    """1-based line of the deepest node on the way to `location`: for a missing key, its parent's."""
    line = (node.start_mark.line if node else 0) + 1
    for part in location:
        if isinstance(node, yaml.MappingNode):
            found = next(((k, v) for k, v in node.value if k.value == str(part)), None)
            if found is None:
                return line
            line, node = found[0].start_mark.line + 1, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            return line
    return line
