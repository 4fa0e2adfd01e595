"""A plugin's content, and the fields of it that count. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from koord_model.excerpt import excerpt
from koord_proto.reporter_plugin_pb2 import (
    FieldType,
    GetReportContentResponse,
    ReportContent,
    ReportField,
)

from koordlet.metrics_reporter.documents.custom_node_resource import API_VERSION, KIND
from koordlet.metrics_reporter.plugins.core.merging import merged
from koordlet.metrics_reporter.plugins.core.types import OWN, TYPES

_MOST_PROBLEMS = 5
_REASON = 200

Fields = Mapping[str, Mapping[str, Any]]
"""Fields by the part of the object ("spec", "status", "metadata") and their names in JSON."""


@dataclass(frozen=True, slots=True)
class ReportedFields:
    """The fields that count; ``problems`` are lines about what does not."""

    fields: Fields = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def parse(said: GetReportContentResponse) -> ReportedFields:
    """Read a plugin's answer; of a field that it gives twice both count."""
    found: Fields = {}
    problems: list[str] = []
    for content in said.content:
        if not _is_ours(content):
            kind = content.groupVersionKind
            named = excerpt(f"{kind.group}/{kind.version} {kind.kind}")
            problems.append(f"content is of {named}; expected {API_VERSION} {KIND}")
            continue
        for part in content.field:
            try:
                found, conflicts = merged(found, _field(part))
            except ValueError as error:
                problems.append(str(error))
            else:
                problems += [f"{path} is there twice" for path in conflicts]
    return ReportedFields(found, tuple(dict.fromkeys(problems))[:_MOST_PROBLEMS])


def _is_ours(content: ReportContent) -> bool:
    kind = content.groupVersionKind
    return (f"{kind.group}/{kind.version}", kind.kind) == (API_VERSION, KIND)


def _field(said: ReportField) -> Fields:
    """One field by its names in JSON.

    Raises:
        ValueError: it is not one that plugins may report, or its value is not of its type.
    """
    named = f"{said.fieldType}/{said.fieldName}"
    if said.fieldType in FieldType.values():
        part = FieldType.Name(said.fieldType).lower()
        named = f"{part}.{said.fieldName}"
        if (part, said.fieldName) in OWN:
            raise ValueError(f"{named} is koordlet's own")
        if (part, said.fieldName) in TYPES:
            name, kind = TYPES[part, said.fieldName]
            return {part: {name: _value(named, said.value, kind)}}
    known = ", ".join(f"{part}.{name}" for part, name in TYPES)
    raise ValueError(f"field {excerpt(named)} is not exported; expected one of {known}")


def _value(named: str, text: bytes, kind: Any) -> Any:
    try:
        return msgspec.to_builtins(msgspec.json.decode(text, type=kind))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{named}: {excerpt(str(error), _REASON)}") from None
