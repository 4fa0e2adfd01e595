"""The YAML file of settings: every value stays the text its author wrote.

YAML would make ``socket-mode: 0660`` the number 432 and ``period: 1:30`` the
number 90. Settings have types of their own, so here a scalar is text, whatever
it looks like; only null (an empty value) means "not set".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import configargparse
import yaml

# Flags that make no sense in a file: "version: 1" would print the version and exit with success.
_NOT_SETTINGS = frozenset({"config", "help", "version"})


class YamlSettings(configargparse.ConfigFileParser):  # type: ignore[misc]
    """Reads a YAML mapping of flag names to text or lists of text."""

    def get_syntax_description(self) -> str:
        return "The file is a YAML mapping of flags without dashes in front to values."

    def parse(self, stream: Iterable[str]) -> dict[str, str | list[str]]:
        """The settings in the file.

        Raises:
            configargparse.ConfigFileParserException: it is no such mapping.
        """
        path = getattr(stream, "name", "settings file")
        try:
            document = yaml.load(stream, Loader=_TextLoader)  # type: ignore[arg-type]  # noqa: S506
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise _refused(f"{path}: {_reason(error)}") from None
        if document is None:
            return {}
        if not isinstance(document, dict):
            raise _refused(f'{path}: expected "setting: value" lines, found only a value')
        for name in document:
            if name.lstrip("-") in _NOT_SETTINGS:
                raise _refused(f'{path}: "{name}" cannot be set in a file')
        return {
            name: _value(path, name, value) for name, value in document.items() if value is not None
        }


class _TextLoader(yaml.BaseLoader):
    """Scalars as text, as ``yaml.BaseLoader`` gives them, but null as None."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [name.value for name, _ in node.value]
        for name in names:
            if names.count(name) > 1:
                raise yaml.constructor.ConstructorError(
                    None, None, f'"{name}" is set twice', node.start_mark
                )
        return super().construct_mapping(node, deep)


_NULL = "tag:yaml.org,2002:null"
_TextLoader.add_implicit_resolver(_NULL, re.compile(r"(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
_TextLoader.add_constructor(_NULL, lambda _loader, _node: None)


def _value(path: str, name: str, value: Any) -> str | list[str]:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        # One word, so that a part starting with "-" is not taken for a flag; an
        # empty list stays one, because an empty word would mean "not set".
        return ",".join(value) or []
    raise _refused(f'{path}: "{name}" holds a nested value; expected text or a list of texts')


def _reason(error: yaml.YAMLError | UnicodeDecodeError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    return f"not YAML text: {error}"


def _refused(message: str) -> Exception:
    refusal: Exception = configargparse.ConfigFileParserException(message)
    return refusal
