"""YAML files checked against a model; a fault is reported with file, line and field."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from envmgr.errors import InputError
from envmgr.system.invisible import hidden_values
from envmgr.system.models import each_fault
from envmgr.system.untrusted_files import Kind, read_file_text
from envmgr.wording import one_line

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # PyYAML without libyaml: slower, same result
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]

Model = TypeVar("Model", bound=BaseModel)

_MAX_DEPTH = 100  # nested collections; libyaml's own recursion ends in a segmentation fault
_MAX_ALIASED = 10_000  # nodes that aliases stand for: "billion laughs" is a few lines that expand without end
MOST_NODES = 20_000  # of a file that people write; the longest known has some hundred
_MOST_FAULTS = 20  # faults that are reported for one file
_CAN_BE_HUGE = re.compile(rf"(?:^|[\s\[{{,])&\S|^[ ?:-]{{{_MAX_DEPTH}}}", re.MULTILINE)
_LONGEST_NUMBER = 500  # characters; `1:1:1…`, sixty for each, takes the square of its length
_MERGE = "tag:yaml.org,2002:merge"


class _UniqueKeys(_Loader):
    """A loader that reports equal keys. PyYAML silently keeps the last one, and two `tests:` in a recipe are a
    mistake.
    """


def _mapping(loader: Any, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        key = "<<" if key_node.tag == _MERGE else loader.construct_object(key_node, deep=True)
        if not isinstance(key, Hashable):
            fault = "a list or mapping cannot be a key"
            raise yaml.constructor.ConstructorError(None, None, fault, key_node.start_mark)
        if (
            isinstance(key, int) and abs(key) >= sys.hash_info.modulus
        ):  # such numbers can be made to fall into one place of a table
            raise yaml.constructor.ConstructorError(
                None, None, "the number is too large for a key", key_node.start_mark
            )
        if key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"the key `{one_line(key, 60)}` is given twice", key_node.start_mark
            )
        seen.add(key)
    # After the search for equal keys: a mapping may override keys that it merges with `<<`.
    loader.flatten_mapping(node)
    return {loader.construct_object(k, deep=True): loader.construct_object(v, deep=True) for k, v in node.value}


def _told(construct: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a constructor that reports a scalar which only looks like a date or number (2024-13-45) with its place.

    PyYAML itself would raise a ValueError.
    """

    def constructor(loader: Any, node: yaml.Node) -> Any:
        with suppress(ValueError, KeyError, AttributeError, OverflowError):
            if len(node.value) <= _LONGEST_NUMBER:
                return construct(loader, node)
        kind, shown = node.tag.rpartition(":")[2], one_line(str(node.value)[:60])
        raise yaml.constructor.ConstructorError(None, None, f"`{shown}` is no {kind}", node.start_mark)

    return constructor


_UniqueKeys.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)
for _kind in ("bool", "int", "float", "timestamp"):
    _UniqueKeys.add_constructor(f"tag:yaml.org,2002:{_kind}", _told(getattr(_Loader, f"construct_yaml_{_kind}")))


def parse_yaml(text: str, path: Path | str, *, most: int = MOST_NODES, reviewed: bool = True) -> Any:
    """Return the document as plain data, of at most `most` keys and values. Raise InputError `yaml-syntax` with line
    and column, and `text-invisible` if people review it.
    """
    path = one_line(path)
    try:
        _refuse_huge(text, most)
        data = yaml.load(text, Loader=_UniqueKeys)  # noqa: S506 - a subclass of the safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise InputError("yaml-syntax", f"{where}: {one_line(error.problem or error.context)}") from None
    except yaml.YAMLError as error:
        raise InputError("yaml-syntax", f"{path}: {one_line(' '.join(str(error).split()))}") from None
    if reviewed and (hidden := [*islice(hidden_values(data), _MOST_FAULTS)]):
        raise InputError(
            "text-invisible",
            f"{path} has characters that cannot be seen in a review",
            context=faults_with_lines(hidden, text, Path(path)),
            hint="take them out: an escape such as `\\u2028` is one, too",
        )
    return data


def _refuse_huge(text: str, most: int) -> None:
    """Count nesting, keys and values, and the nodes of aliases, without building anything; most files need no count.

    Raises MarkedYAMLError.
    """
    opened = sum(text.count(both[0]) - text.count(both) for both in ("[]", "{}"))
    # Each key and each value but the first comes after one of these.
    possible = 1 + sum(text.count(mark) for mark in "\n,:-?[{")
    if possible <= most and opened <= _MAX_DEPTH and not _CAN_BE_HUGE.search(text):
        return
    sizes: dict[str, int] = {}
    anchors: list[str | None] = []
    counts = [0]
    aliased = nodes = 0
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
        nodes += isinstance(event, yaml.NodeEvent)
        fault = f"nested more than {_MAX_DEPTH} deep" if len(anchors) > _MAX_DEPTH else ""
        fault = f"aliases stand for more than {_MAX_ALIASED} nodes" if aliased > _MAX_ALIASED else fault
        fault = f"more than {most} keys and values" if nodes > most else fault
        if fault:
            raise yaml.MarkedYAMLError(problem=fault, problem_mark=event.start_mark)


def dump_yaml(document: Any, *, width: int, blocks: bool = False) -> str:
    """Return the document as people review it: keys in their order, the same bytes everywhere. `blocks`: texts of
    several lines as lines.
    """
    dumper = _Blocks if blocks else _Dumper
    return yaml.dump(document, Dumper=dumper, sort_keys=False, allow_unicode=True, width=width)


class _Dumper(yaml.SafeDumper):
    """The pure Python emitter: libyaml's, where it is installed, may break lines elsewhere."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - an anchor for every repeated list helps no reader
        return True


class _Blocks(_Dumper):
    """Texts of several lines as literal blocks."""

    def represent_text(self, text: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Blocks.add_representer(str, _Blocks.represent_text)


# `1e5` and `08` are texts for PyYAML, and numbers for readers of YAML 1.2 such as pixi: versions and builds can look
# so. Source: YAML 1.2.2, section 10.3.2 (core schema).
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|0o[0-7]+|0x[0-9a-fA-F]+)$"),
    list("-+.0123456789"),
)


Fault = tuple[tuple[int | str, ...], str]
"""A place in a document, and what is wrong with what stands there."""


def load_model(
    path: Path, model: type[Model], *, kind: Kind, reference: str, tree: Path | None = None, context: object = None
) -> Model:
    """Read, parse and validate. `reference` is the error's; `kind` and `tree` are as in untrusted_files.py, `context`
    is the model's own.

    Raises:
        InputError: the faults of the file in its context, each as `file:line: field: reason`.
    """
    text = read_file_text(path, kind, tree=tree)
    return validate(parse_yaml(text, path), model, text=text, path=path, reference=reference, context=context)


def load_sound_part(
    path: Path, model: type[Model], *, kind: Kind, tree: Path | None = None, context: object = None
) -> tuple[Model | None, list[str], frozenset[str]]:
    """Return the model without its faulty fields (None if it cannot be without them), the faults as `load_model` has
    them, and the names of these fields. Raises InputError for a file that is not YAML.
    """
    text = read_file_text(path, kind, tree=tree)
    data = parse_yaml(text, path)
    found, faults = _model_or_faults(data, model, context)
    faulty = frozenset(str(location[0]) for location, _ in faults if location)
    if found is None and isinstance(data, dict):
        with suppress(ValidationError):
            found = model.model_validate({k: v for k, v in data.items() if str(k) not in faulty}, context=context)
    return found, faults_with_lines(faults, text, path) if faults else [], faulty


def validate(data: Any, model: type[Model], *, text: str, path: Path, reference: str, context: object = None) -> Model:
    """Return `data`, which comes from `text`, as `model`. Errors as `load_model`."""
    found, faults = _model_or_faults(data, model, context)
    if found is not None:
        return found
    rows = sum(len(each_fault(reason)) for _, reason in faults)
    count = f"{rows} fault{'s' if rows > 1 else ''}"
    raise InputError(reference, f"{one_line(path)} has {count}", context=faults_with_lines(faults, text, path))


def _model_or_faults(data: Any, model: type[Model], context: object) -> tuple[Model | None, list[Fault]]:
    """Return the model, or None and all faults.

    A mapping that has a faulty field is looked at again without that field: checks of the whole are made only then.
    """
    try:
        return model.model_validate({} if data is None else data, context=context), []
    except ValidationError as error:
        faults = [(fault["loc"], reason_of(fault)) for fault in error.errors(include_url=False)]
    inner = {location[:2] for location, _ in faults if len(location) > 1}
    if isinstance(data, dict) and inner:
        rest = {
            key: {k: v for k, v in value.items() if (key, k) not in inner} if isinstance(value, dict) else value
            for key, value in data.items()
        }
        try:
            model.model_validate(rest, context=context)
        except ValidationError as error:
            again = [fault for fault in error.errors(include_url=False) if fault["type"] != "missing"]
            faults += [row for fault in again if (row := (fault["loc"], reason_of(fault))) not in faults]
    return None, faults


def faults_with_lines(faults: Iterable[Fault], text: str, path: Path) -> list[str]:
    """Return each fault, its place in the document and its reason, as `file:line: field: reason`, in file order.

    If there are very many, return the first ones and the number of further ones.
    """
    lines = _Lines(yaml.compose(text, Loader=_Loader))
    rows = []
    for location, reason in faults:
        field = ".".join(one_line(part, 60) for part in islice(location, 20)) or "(document)"
        rows += [(lines.of(location), f"{field}: {one_line(each)}") for each in each_fault(reason)]
    shown = [f"{one_line(path)}:{line}: {told}" for line, told in sorted(rows)[:_MOST_FAULTS]]
    return [*shown, f"and {len(rows) - _MOST_FAULTS} more"] if len(rows) > _MOST_FAULTS else shown


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
    """Return the reason of one pydantic fault, for people."""
    if fault["type"] == "too_long":
        return f"has {fault['ctx']['actual_length']} items: there are {fault['ctx']['max_length']} at most"
    if fault["type"] in ("tuple_type", "list_type") and isinstance(fault["input"], str):
        return f"must be a list: `[{one_line(fault['input'], 60)}]`"
    return _REASONS.get(fault["type"]) or str(fault["msg"]).removeprefix("Value error, ")


class _Lines:
    """The places of things in a document."""

    def __init__(self, root: yaml.Node | None) -> None:
        self._root = root
        self._keys: dict[int, dict[str, tuple[yaml.Node, yaml.Node]]] = {}

    def of(self, location: tuple[int | str, ...]) -> int:
        """Return the 1-based line of the deepest node on the way to `location`: for a missing key, its parent's."""
        node = self._root
        line = (node.start_mark.line if node else 0) + 1
        for part in location:
            if isinstance(node, yaml.MappingNode):
                found = self._in(node).get(str(part))
                if found is None:
                    return line
                line, node = found[0].start_mark.line + 1, found[1]
            elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
                node = node.value[part]
                line = node.start_mark.line + 1
            else:
                return line
        return line

    def _in(self, node: yaml.MappingNode) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        if id(node) not in self._keys:
            pairs = reversed(node.value)  # of two keys that look alike, the first
            self._keys[id(node)] = {str(key.value): (key, value) for key, value in pairs if _is_scalar(key)}
        return self._keys[id(node)]


def _is_scalar(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode)
