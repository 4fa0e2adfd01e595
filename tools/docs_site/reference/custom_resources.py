"""Fields of the custom resources. No IO."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from koord_kube.definitions.catalogue import DEFINITIONS
from koord_kube.definitions.schema import Schema

from tools.docs_site.reference.markdown import code, table

_TOP = {"apiVersion", "kind", "metadata"}
_QUANTITY_START = r"^(\+|-)?((["


def markdown() -> str:
    """Return a section for each kind, with its fields."""
    return "\n".join(_section(definition) for definition in DEFINITIONS)


def _section(definition: dict[str, Any]) -> str:
    spec, [version, *_] = definition["spec"], definition["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    names = spec["names"]
    short = ", ".join(code(name) for name in names.get("shortNames", ()))
    lines = [
        f"## {names['kind']}",
        "",
        schema["description"],
        "",
        f"- `apiVersion: {spec['group']}/{version['name']}`, {spec['scope'].lower()}",
        f"- `kubectl get {names['plural']}`" + (f", also {short}" if short else ""),
        "",
        table(("field", "type", "what it is"), fields(schema)),
    ]
    return "\n".join(lines)


def fields(schema: Schema, path: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield path, type and description of all fields below one, in the schema's order."""
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        if not path and name in _TOP:
            continue
        below, suffix = _contents(field)
        full = f"{path}{name}{suffix}"
        kind = kind_of(field) + (", required" if name in required else "")
        yield f"`{full}`", kind, _about(field)
        yield from fields(below, f"{full}.")


def kind_of(field: Schema) -> str:
    """Return a field's type in words: with its values, its bounds and its default."""
    if field.get("x-kubernetes-int-or-string") or _is_quantity(field):
        kind = "quantity" if _is_quantity(field) else "integer or string"
    elif field["type"] == "array":
        kind = f"list of {kind_of(field['items'])}"
    elif "additionalProperties" in field:
        kind = f"map of {kind_of(field['additionalProperties'])}"
    else:
        kind = str(field["type"])
    words = " or ".join(code(str(value)) for value in field.get("enum", ()))
    default = code(str(field["default"])) if "default" in field else ""
    return kind + (f": {words}" if words else _bounds(field)) + (default and f", default {default}")


def _bounds(field: Schema) -> str:
    low, high = field.get("minimum"), field.get("maximum")
    if low is not None and high is not None:
        return f" from {low} to {high}"
    if low is not None:
        return f" from {low}"
    return f" up to {high}" if high is not None else ""


def _is_quantity(field: Schema) -> bool:
    return str(field.get("pattern", "")).startswith(_QUANTITY_START)


def _contents(field: Schema) -> tuple[Schema, str]:
    """The schema inside of a field, and how its path goes on."""
    if field.get("type") == "array":
        below, suffix = _contents(field["items"])
        return below, f"[]{suffix}"
    if "additionalProperties" in field:
        below, suffix = _contents(field["additionalProperties"])
        return below, f".*{suffix}"
    return field, ""


def _about(field: Schema) -> str:
    inner: Schema = field.get("items") or field.get("additionalProperties") or {}
    texts = dict.fromkeys(filter(None, (field.get("description"), inner.get("description"))))
    return " ".join(texts)
