"""YAML files checked against a model; a fault is reported with file, line and field."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from yaml import CSafeLoader

from envmgr.errors import InputError
from envmgr.system.invisible import hidden_values, is_plain
from envmgr.system.models import each_fault
from envmgr.system.untrusted_files import Kind, read_file_text
from envmgr.wording import one_line

Model = TypeVar("Model", bound=BaseModel)

_MOST_VALUES = 2_000_000  # with those that aliases stand for: a few lines can expand without end
_DEEPEST = 200
_MOST_FAULTS = 20  # faults that are reported for one file
_MOST_PLACED = 500  # faults whose line is looked for
_MERGE = "tag:yaml.org,2002:merge"


_TEXT = "tag:yaml.org,2002:str"


class _UniqueKeys(CSafeLoader):
    """A loader that reports equal keys. PyYAML silently keeps the last one, and two `tests:` in a recipe are a
    mistake.
    """

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        """Return a node's tag, as PyYAML does: nearly all values are texts, and it asks four tables for each."""
        if kind is yaml.ScalarNode and value and not (implicit[0] and value[0] in self.yaml_implicit_resolvers):
            return _TEXT
        return super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]


def _value(loader: Any, node: yaml.Node) -> Any:
    if type(node) is yaml.ScalarNode and node.tag == _TEXT:
        return node.value
    return loader.construct_object(node, deep=True)


def _sequence(loader: Any, node: yaml.SequenceNode) -> list[Any]:
    return [_value(loader, each) for each in node.value]


def _mapping(loader: Any, node: yaml.MappingNode) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    merges = False
    for key_node, value_node in node.value:
        merges = merges or key_node.tag == _MERGE
        key = "<<" if key_node.tag == _MERGE else _value(loader, key_node)
        if not isinstance(key, Hashable):
            fault = "a list or mapping cannot be a key"
            raise yaml.constructor.ConstructorError(None, None, fault, key_node.start_mark)
        if key in found:
            raise yaml.constructor.ConstructorError(
                None, None, f"the key `{one_line(key, 60)}` is given twice", key_node.start_mark
            )
        found[key] = _value(loader, value_node)
    if not merges:
        return found
    # After the search for equal keys: a mapping may override keys that it merges with `<<`.
    loader.flatten_mapping(node)
    return {loader.construct_object(k, deep=True): loader.construct_object(v, deep=True) for k, v in node.value}


def _told(construct: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a constructor that reports a scalar which only looks like a date or number (2024-13-45) with its place.

    PyYAML itself would raise a ValueError.
    """

    def constructor(loader: Any, node: yaml.Node) -> Any:
        with suppress(ValueError, KeyError, AttributeError, OverflowError):
            return construct(loader, node)
        kind, shown = node.tag.rpartition(":")[2], one_line(node.value[:60]) if isinstance(node.value, str) else "{…}"
        raise yaml.constructor.ConstructorError(None, None, f"`{shown}` is no {kind}", node.start_mark)

    return constructor


_UniqueKeys.add_constructor("tag:yaml.org,2002:map", _told(_mapping))
_UniqueKeys.add_constructor("tag:yaml.org,2002:seq", _told(_sequence))
for _kind in ("bool", "int", "float", "timestamp"):
    _UniqueKeys.add_constructor(f"tag:yaml.org,2002:{_kind}", _told(getattr(CSafeLoader, f"construct_yaml_{_kind}")))


def parse_yaml(text: str, path: Path | str, *, reviewed: bool = True) -> Any:
    """Return the document as plain data. Raise InputError `yaml-syntax` with line and column, and `text-invisible` if
    people review it.
    """
    path = one_line(path)
    try:
        data = yaml.load(text, Loader=_UniqueKeys)  # noqa: S506 - a subclass of the safe loader
        _refuse_large(data)
        hidden = [*islice(hidden_values(data), _MOST_FAULTS)] if reviewed and not is_plain(text) else []
    except RecursionError:
        raise InputError("yaml-syntax", f"{path}: nested too deep") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise InputError("yaml-syntax", f"{where}: {one_line(error.problem or error.context)}") from None
    except yaml.YAMLError as error:
        raise InputError("yaml-syntax", f"{path}: {one_line(' '.join(str(error).split()))}") from None
    if hidden:
        raise InputError(
            "text-invisible",
            f"{path} has characters that cannot be seen in a review",
            context=faults_with_lines(hidden, text, Path(path)),
            hint="take them out: an escape such as `\\u2028` is one, too",
        )
    return data


def _refuse_large(data: Any) -> None:
    """Raise YAMLError for more values than any file has, with those that aliases repeat, and for deeper nesting."""
    level, seen, depth = [data], 0, 0
    while level:
        seen, depth = seen + len(level), depth + 1
        if seen > _MOST_VALUES:
            raise yaml.YAMLError(f"more than {_MOST_VALUES:,} values")
        if depth > _DEEPEST:
            raise yaml.YAMLError("nested too deep")
        inner = (each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list))
        level = [*islice(chain.from_iterable(inner), _MOST_VALUES + 1)]


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


def load_model(path: Path, model: type[Model], *, kind: Kind, reference: str, tree: Path | None = None) -> Model:
    """Read, parse and validate. `reference` is the error's; `kind` and `tree` are as in untrusted_files.py.

    Raises:
        InputError: the faults of the file in its context, each as `file:line: field: reason`.
    """
    found: Model = _validated(read_file_text(path, kind, tree=tree), model, path=path, reference=reference)
    return found


@lru_cache(maxsize=256)
def _validated(text: str, model: type[Model], *, path: Path, reference: str) -> Model:
    """Parse and validate, once for each text: a recipe that many others stand on is read with each of them."""
    return validate(parse_yaml(text, path), model, text=text, path=path, reference=reference)


def load_sound_part(
    path: Path, model: type[Model], *, kind: Kind, tree: Path | None = None
) -> tuple[Model | None, list[str], frozenset[str]]:
    """Return the model without its faulty fields (None if it cannot be without them), the faults as `load_model` has
    them, and the names of these fields. Raises InputError for a file that is not YAML.
    """
    text = read_file_text(path, kind, tree=tree)
    data = parse_yaml(text, path)
    found, faults = _model_or_faults(data, model)
    faulty = frozenset(str(location[0]) for location, _ in faults if location)
    if found is None and isinstance(data, dict):
        with suppress(ValidationError):
            found = model.model_validate({k: v for k, v in data.items() if str(k) not in faulty})
    return found, faults_with_lines(faults, text, path) if faults else [], faulty


def validate(data: Any, model: type[Model], *, text: str, path: Path, reference: str) -> Model:
    """Return `data`, which comes from `text`, as `model`. Errors as `load_model`."""
    found, faults = _model_or_faults(data, model)
    if found is not None:
        return found
    rows = sum(len(each_fault(reason)) for _, reason in faults)
    count = f"{rows} fault{'s' if rows > 1 else ''}"
    raise InputError(reference, f"{one_line(path)} has {count}", context=faults_with_lines(faults, text, path))


def _model_or_faults(data: Any, model: type[Model]) -> tuple[Model | None, list[Fault]]:
    """Return the model, or None and all faults.

    A mapping that has a faulty field is looked at again without that field: checks of the whole are made only then.
    """
    try:
        return model.model_validate({} if data is None else data), []
    except ValidationError as error:
        faults = [(fault["loc"], reason_of(fault)) for fault in error.errors(include_url=False)]
    inner = {location[:2] for location, _ in faults if len(location) > 1}
    if isinstance(data, dict) and inner:
        rest = {
            key: {k: v for k, v in value.items() if (key, k) not in inner} if isinstance(value, dict) else value
            for key, value in data.items()
        }
        try:
            model.model_validate(rest)
        except ValidationError as error:
            again = [fault for fault in error.errors(include_url=False) if fault["type"] != "missing"]
            faults += [row for fault in again if (row := (fault["loc"], reason_of(fault))) not in faults]
    return None, faults


def faults_with_lines(faults: Iterable[Fault], text: str, path: Path) -> list[str]:
    """Return each fault, its place in the document and its reason, as `file:line: field: reason`, in file order.

    If there are many, return the first ones and the number of further ones.
    """
    root = yaml.compose(text, Loader=CSafeLoader)
    every = [(location, each) for location, reason in faults for each in each_fault(reason)]
    rows = []
    for location, reason in every[:_MOST_PLACED]:
        field = ".".join(one_line(part, 60) for part in islice(location, 20)) or "(document)"
        rows.append((_line_of(root, location), f"{field}: {one_line(reason)}"))
    shown = [f"{one_line(path)}:{line}: {told}" for line, told in sorted(rows)[:_MOST_FAULTS]]
    return [*shown, f"and {len(every) - _MOST_FAULTS} more"] if len(every) > _MOST_FAULTS else shown


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


def _line_of(root: yaml.Node | None, location: tuple[int | str, ...]) -> int:
    """Return the 1-based line of the deepest node on the way to `location`: for a missing key, its parent's."""
    node, line = root, (root.start_mark.line if root else 0) + 1
    for part in location:
        if isinstance(node, yaml.MappingNode):
            pairs = [pair for pair in node.value if isinstance(pair[0], yaml.ScalarNode) and pair[0].value == str(part)]
            if not pairs:
                break
            key, node = pairs[0]
            line = key.start_mark.line + 1
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            break
    return line
