"""Documents for programs: keys in camelCase, written as JSON or YAML. No IO."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
from koord_service.terminal import printable_json
from msgspec import inspect

_SNAKE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)+")


def from_page(body: bytes, kind: Any = Any) -> Any:
    """The document of a program's page with keys in camelCase.

    Fields that ``kind`` does not have stay in it. Names of things, such as the keys of a
    ``dict[str, float]``, are no fields and stay as they are.
    """
    return renamed(msgspec.json.decode(body), kind)


def from_value(value: Any) -> Any:
    """The document of a value: of a ``Struct``, a dataclass, or of a list of these."""
    return renamed(msgspec.to_builtins(value, enc_hook=str), type(value))


def renamed(document: Any, kind: Any) -> Any:
    """A document of the type ``kind`` with keys in camelCase."""
    return _renamed(document, inspect.type_info(kind))


def as_json(document: Any) -> str:
    """The text of a document as JSON."""
    return printable_json(json.dumps(document, indent=2, ensure_ascii=False))


def as_yaml(document: Any) -> str:
    """The text of a document as YAML: that of its JSON, so that it has no references."""
    # Imported late: most output is text for people.
    import yaml

    plain = json.loads(json.dumps(document))
    text: str = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
    if not all(letter.isprintable() or letter == "\n" for letter in text):
        # Escaped by YAML's own rules, so that a terminal shows it and a program gets it whole.
        text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=False)
    return text.rstrip("\n")


def camel(name: str) -> str:
    """A field's name in camelCase."""
    first, *rest = name.split("_")
    return f"{first[:1].lower()}{first[1:]}{''.join(map(str.capitalize, rest))}"


def _renamed(document: Any, kind: inspect.Type) -> Any:
    kind = _of(document, kind)
    if isinstance(document, list):
        item = getattr(kind, "item_type", inspect.AnyType())
        return [_renamed(each, item) for each in document]
    if not isinstance(document, dict):
        return document
    if isinstance(kind, inspect.StructType | inspect.DataclassType | inspect.TypedDictType):
        fields = {field.encode_name: field.type for field in kind.fields}
        unknown = inspect.AnyType()
        return {
            camel(key): _renamed(each, fields.get(key, unknown)) for key, each in document.items()
        }
    if isinstance(kind, inspect.DictType):
        return {key: _renamed(each, kind.value_type) for key, each in document.items()}
    return {
        camel(key) if _SNAKE.fullmatch(key) else key: _renamed(each, inspect.AnyType())
        for key, each in document.items()
    }


def _of(document: Any, kind: inspect.Type) -> inspect.Type:
    """The part of a union that a document may be of."""
    if not isinstance(kind, inspect.UnionType):
        return kind
    is_list = isinstance(document, list)
    parts = (part for part in kind.types if not isinstance(part, inspect.NoneType))
    return next((p for p in parts if hasattr(p, "item_type") == is_list), inspect.AnyType())
