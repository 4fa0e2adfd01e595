"""The YAML file of settings: every value stays the text that its author wrote.

YAML would make ``socket-mode: 0660`` the number 432 and ``period: 1:30`` the
number 90. Settings have types of their own, so here a scalar is text, whatever
it looks like; only null (an empty value) means "not set".
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

# Flags that make no sense in a file: "version: 1" would print the version and exit with success.
_NOT_SETTINGS = frozenset({"config", "help", "version"})


class SettingsFileError(ValueError):
    """The file is not a mapping of names to values; the message is one line for people."""


def read_settings_file(path: str) -> dict[str, str]:
    """The text of each setting in the file, by the name written there; a list is "a,b".

    Raises:
        OSError: the file cannot be read.
        SettingsFileError: its content is not a mapping of names to values.
    """
    try:
        document = yaml.load(Path(path).read_text(), Loader=_TextLoader)  # noqa: S506
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsFileError(f"{path}: {_reason(error)}") from None
    except RecursionError:
        raise SettingsFileError(f"{path}: its values are nested too deeply") from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise SettingsFileError(f'{path}: expected "setting: value" lines, found only a value')
    for name in document:
        if name.lstrip("-") in _NOT_SETTINGS:
            raise SettingsFileError(f'{path}: "{name}" cannot be set in a file')
    return {name: _text(path, name, value) for name, value in document.items() if value is not None}


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


def _text(path: str, name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        # An empty list is a value; the empty text would mean "not set".
        return ",".join(value) or ","
    raise SettingsFileError(
        f'{path}: "{name}" holds a nested value; expected text or a list of texts'
    )


def _reason(error: yaml.YAMLError | UnicodeDecodeError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    return f"not YAML text: {error}"
