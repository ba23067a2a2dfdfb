"""YAML files checked against a model; a fault is told with file, line and field."""

from __future__ import annotations

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


class _UniqueKeys(_Loader):
    """PyYAML keeps the last of two equal keys without a word; a recipe with two `tests:` is a mistake to tell."""


def _mapping(loader: Any, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, (str, int, float, bool)):
            continue
        if key in seen:
            raise yaml.constructor.ConstructorError(None, None, f"the key `{key}` is given twice", key_node.start_mark)
        seen.add(key)
    loader.flatten_mapping(node)
    return {loader.construct_object(k, deep=True): loader.construct_object(v, deep=True) for k, v in node.value}


_UniqueKeys.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def parse_yaml(text: str, path: Path | str) -> Any:
    """The document as plain data; InputError `yaml-syntax` with line and column."""
    try:
        return yaml.load(text, Loader=_UniqueKeys)  # noqa: S506 - a subclass of the safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise InputError("yaml-syntax", f"{where}: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise InputError("yaml-syntax", f"{path}: {error}") from None


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


def load_model(path: Path, model: type[Model], *, what: str, reference: str) -> Model:
    """Read, parse and validate. `what` names the file's role in errors; `reference` is the error's reference.

    Raises:
        InputError: every fault of the file in its context, each as `file:line: field: reason`.
    """
    text = read_text(path, what=what)
    data = parse_yaml(text, path)
    try:
        return model.model_validate({} if data is None else data)
    except ValidationError as error:
        lines = faults_with_lines(error, text, path)
    raise InputError(reference, f"{path} has {len(lines)} fault{'s' if len(lines) > 1 else ''}", context=lines)


def faults_with_lines(error: ValidationError, text: str, path: Path) -> list[str]:
    """Each fault of a validation as `file:line: field: reason`, in file order."""
    root = yaml.compose(text, Loader=_Loader)
    rows = []
    for fault in error.errors(include_url=False):
        line = _line_of(root, fault["loc"])
        field = ".".join(str(part) for part in fault["loc"]) or "(document)"
        reason = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            reason = "unknown field"
        rows.append((line, f"{path}:{line}: {field}: {reason}"))
    return [row for _, row in sorted(rows)]


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
