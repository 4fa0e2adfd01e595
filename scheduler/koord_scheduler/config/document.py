"""YAML and JSON as Kubernetes' programs read them, where PyYAML reads otherwise. No IO.

What begins with ``{`` is JSON. In YAML ``y`` and ``n`` are booleans, ``1:30`` and dates are
text, ``0o17`` is a number and ``16.0`` a whole one. In both, a field may be there once, and
``null`` is as if it were not there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, ClassVar

import yaml
from koord_model.yaml_documents import check_aliases

from koord_scheduler.arguments.problems import SchedulerConfigError

_TAG = "tag:yaml.org,2002:"


class _Loader(yaml.SafeLoader):
    """Scalars as Go's YAML resolves them, and no field twice."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - as PyYAML's own
    yaml_constructors: ClassVar[dict[str | None, Any]] = {
        tag: make
        for tag, make in yaml.SafeLoader.yaml_constructors.items()
        if tag is None or tag.rpartition(":")[2] in ("null", "str", "seq", "map")
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    None, None, "the name of a field is not text", key.start_mark
                )
            if key.value in names:
                raise yaml.constructor.ConstructorError(
                    None, None, f'"{key.value}" is set twice', key.start_mark
                )
            names.add(key.value)
            if key.tag != f"{_TAG}merge":
                key.tag = f"{_TAG}str"
        return super().construct_mapping(node, deep)


def _resolve(tag: str, pattern: str, first: Iterable[str]) -> None:
    _Loader.add_implicit_resolver(_TAG + tag, re.compile(pattern), [*first])


_BOOLEANS = {
    **dict.fromkeys(("y", "yes", "true", "on"), True),
    **dict.fromkeys(("n", "no", "false", "off"), False),
}
_SIGN = r"[-+]?"
_resolve("bool", r"(?:y|Y|n|N)$|(?:yes|no|true|false|on|off)$", "yYnNtTfFoO")
_resolve("bool", r"(?:Yes|No|True|False|On|Off|YES|NO|TRUE|FALSE|ON|OFF)$", "YNTFO")
_resolve("int", rf"{_SIGN}(?:0|0o?[0-7_]+|[1-9][0-9_]*|0b[01_]+|0x[0-9a-fA-F_]+)$", "-+0123456789")
_resolve("float", rf"{_SIGN}(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", "-+.0123456789")
_resolve("merge", r"<<$", "<")
_resolve("null", r"(?:~|null|Null|NULL|)$", ["~", "n", "N", ""])


def _bool(loader: _Loader, node: yaml.ScalarNode) -> bool:
    text = str(loader.construct_scalar(node)).lower()
    if text not in _BOOLEANS:
        raise ValueError(f'"{text}" is not true or false')
    return _BOOLEANS[text]


def _int(loader: _Loader, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node)).replace("_", "")
    digits = text.lstrip("+-")
    octal = digits.isdigit() and digits.startswith("0")
    return int(text, 8 if octal else 0)


def _float(loader: _Loader, node: yaml.ScalarNode) -> int | float:
    number = float(loader.construct_scalar(node))
    return int(number) if number.is_integer() else number


_Loader.add_constructor(f"{_TAG}bool", _bool)
_Loader.add_constructor(f"{_TAG}int", _int)
_Loader.add_constructor(f"{_TAG}float", _float)


def parse_document(text: str) -> dict[str, Any]:
    """The one document of a text, without the fields that are ``null``.

    Raises:
        SchedulerConfigError: it is not one document with fields.
    """
    try:
        if text.lstrip().startswith("{"):
            document = json.loads(text, object_pairs_hook=_object)
        else:
            document = yaml.load(text, Loader=_Loader)  # noqa: S506 - it is a SafeLoader
        check_aliases([document], len(text))
        document = without_nulls(document)
    except yaml.YAMLError as error:
        raise SchedulerConfigError([_reason(error)]) from None
    except (ValueError, RecursionError) as error:
        raise SchedulerConfigError([f"cannot read the document: {error}"]) from None
    if not isinstance(document, dict):
        raise SchedulerConfigError(["the document has no fields; expected apiVersion, kind, …"])
    return document


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f'"{twice}" is set twice')
    return found


def without_nulls(value: Any) -> Any:
    """Leave out what is null: it is read as if it were not there."""
    if isinstance(value, dict):
        return {name: without_nulls(part) for name, part in value.items() if part is not None}
    return [without_nulls(part) for part in value] if isinstance(value, list) else value


def _reason(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        context = f"{error.context}, " if error.context else ""
        return f"line {mark.line + 1}, column {mark.column + 1}: {context}{error.problem}"
    return f"cannot read the document: {' '.join(str(error).split())}"
