"""YAML as Kubernetes' programs read it, which differs from PyYAML's reading. No IO.

``y`` and ``n`` are booleans, ``1:30`` and dates are text, ``0o17`` is a number, a whole number
may be written ``16.0``, a field may be there once, and ``null`` is as if it were not there.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from koord_scheduler.config.problems import SchedulerConfigError

_INT = "tag:yaml.org,2002:int"
_FLOAT = "tag:yaml.org,2002:float"


class _Loader(yaml.SafeLoader):
    """Scalars as Go's YAML resolves them, and no field twice."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML fills it

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
            if key.tag != "tag:yaml.org,2002:merge":
                key.tag = "tag:yaml.org,2002:str"
        return super().construct_mapping(node, deep)


def _resolve(tag: str, pattern: str, first: str) -> None:
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), [*first])


_SIGN = r"[-+]?"
_resolve("bool", r"(?:y|Y|n|N)$|(?:yes|no|true|false|on|off)$", "yYnNtTfFoO")
_resolve("bool", r"(?:Yes|No|True|False|On|Off|YES|NO|TRUE|FALSE|ON|OFF)$", "YNTFO")
_resolve("int", rf"{_SIGN}(?:0|0o?[0-7_]+|[1-9][0-9_]*|0b[01_]+|0x[0-9a-fA-F_]+)$", "-+0123456789")
_resolve("float", rf"{_SIGN}(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", "-+.0123456789")
_resolve("merge", r"<<$", "<")
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:null", re.compile(r"(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]
)


def _int(loader: _Loader, node: yaml.ScalarNode) -> int:
    text = node.value.replace("_", "")
    sign, digits = (text[0], text[1:]) if text[0] in "-+" else ("", text)
    octal = digits.isdigit() and digits.startswith("0")
    return int(sign + digits, 8 if octal else 0)


def _float(loader: _Loader, node: yaml.ScalarNode) -> int | float:
    number = float(node.value)
    return int(number) if number.is_integer() else number


_Loader.add_constructor(_INT, _int)
_Loader.add_constructor(_FLOAT, _float)


def parse_yaml(text: str) -> dict[str, Any]:
    """The one document of a text, without the fields that are ``null``.

    Raises:
        SchedulerConfigError: it is not one document with fields.
    """
    try:
        document = yaml.load(text, Loader=_Loader)  # noqa: S506 - it is a SafeLoader
    except yaml.YAMLError as error:
        raise SchedulerConfigError([_reason(error)]) from None
    except (ValueError, RecursionError) as error:
        raise SchedulerConfigError([f"not YAML text: {error}"]) from None
    if not isinstance(document, dict):
        raise SchedulerConfigError(["the document has no fields; expected apiVersion, kind, …"])
    return dict(_without_nulls(document))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value


def _reason(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    return f"not YAML text: {' '.join(str(error).split())}"
