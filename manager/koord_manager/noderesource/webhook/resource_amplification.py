"""A Node's allocatable CPU and memory, multiplied by the ratios in its annotation. No IO.

The kubelet writes what there is; the webhook keeps that in an annotation and shows more. It
tells the two apart as Koordinator does: an amount that a write changes is the kubelet's, for
nobody else writes these; one that stays is ours. A status is the kubelet's sign of life:
nothing in here refuses one.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec
from koord_model.annotations import decode
from koord_model.demand import amounts
from koord_model.fields import Fields, text
from koord_model.keys import ANNOTATION_AMPLIFICATION_RATIO as RATIOS
from koord_model.keys import ANNOTATION_RAW_ALLOCATABLE as RAW
from koord_model.keys import CPU, MEMORY
from koord_model.node_document import MAX_RATIO
from koord_serving.admission.core.admission import (
    ADMITTED,
    AdmissionOperation,
    AdmissionRequest,
    AdmissionResponse,
)

_AMPLIFIED = (CPU, MEMORY)

_ANY: msgspec.json.Decoder[object] = msgspec.json.Decoder()


def mutate_node_status(admission: AdmissionRequest, _view: object) -> AdmissionResponse:
    """The Node with amplified amounts; without ratios, with the amounts as the kubelet has them."""
    node = admission.object
    annotations, now = _annotations(node), _allocatable(node)
    ours = annotations.keys() & {RATIOS, RAW}
    if admission.operation is not AdmissionOperation.UPDATE or not ours or not now:
        return ADMITTED
    ignored: list[str] = []
    ratios = _ratios(node, ignored)
    raw = _raw(node, _allocatable(admission.old), ratios, ignored)
    warnings = tuple(ignored)
    if raw is None:
        return AdmissionResponse(warnings=warnings)
    has, shown = amounts(now), _shown(raw, ratios)
    wanted = {
        name: shown[name] for name, amount in amounts(shown).items() if has.get(name) != amount
    }
    kept = {name: value for name, value in annotations.items() if name != RAW}
    if kept.get(RATIOS):
        kept[RAW] = msgspec.json.encode(raw).decode()
    changed = {
        **node,
        "metadata": {**node["metadata"], "annotations": kept},
        "status": {**node["status"], "allocatable": {**node["status"]["allocatable"], **wanted}},
    }
    return AdmissionResponse(object=changed if changed != node else None, warnings=warnings)


def _raw(
    node: Mapping[str, Any],
    before: Mapping[str, str],
    ratios: Mapping[str, Decimal],
    ignored: list[str],
) -> Mapping[str, str] | None:
    """The amounts that the kubelet reports; ``None`` if unknown."""
    now = _allocatable(node)
    if RAW not in _annotations(node):
        return now
    lines = len(ignored)
    fields = _object(node, RAW, ignored)
    kept = _readable({name: fields.text(name) for name in _AMPLIFIED})
    if amounts(now) != amounts(before) and not _is_shown(now, kept, ratios):
        return now
    return None if len(ignored) > lines else kept


def _is_shown(
    now: Mapping[str, str], kept: Mapping[str, str], ratios: Mapping[str, Decimal]
) -> bool:
    """True if the amounts come from those kept: this webhook has been here before."""
    return bool(kept) and amounts(now) == {**amounts(now), **amounts(_shown(kept, ratios))}


def _shown(raw: Mapping[str, str], ratios: Mapping[str, Decimal]) -> dict[str, str]:
    """Return the amounts for the scheduler; rounded down, to a millicore or a byte."""
    unit = {CPU: "m", MEMORY: ""}
    numbers = amounts(raw)
    return {
        name: f"{int(numbers[name] * ratios[name])}{unit[name]}" if name in ratios else said
        for name, said in raw.items()
    }


def _ratios(node: Mapping[str, Any], ignored: list[str]) -> dict[str, Decimal]:
    """Those above 1."""
    if not _annotations(node).get(RATIOS):
        return {}
    fields = _object(node, RATIOS, ignored)
    expected = f"a number from 1 to {MAX_RATIO:g}"
    given = {name: fields.take(name, None, _ratio, expected, "1 kept") for name in _AMPLIFIED}
    return {name: ratio for name, ratio in given.items() if ratio is not None and ratio > 1}


def _ratio(given: object) -> Decimal:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 1 <= given <= MAX_RATIO:
        raise ValueError(given)
    return Decimal(str(given))


def _object(node: Mapping[str, Any], key: str, ignored: list[str]) -> Fields:
    """The JSON in an annotation of the Node."""
    annotations = Fields(_annotations(node), "Node annotation", ignored)
    given = annotations.take(key, {}, lambda said: decode(_ANY, text(said)), "JSON", "left out")
    return Fields(given, f"Node annotation {key}:", ignored)


def _annotations(node: Mapping[str, Any]) -> Mapping[str, Any]:
    return _mapping(_mapping(node.get("metadata")).get("annotations"))


def _allocatable(node: Mapping[str, Any]) -> Mapping[str, str]:
    return _readable(_mapping(_mapping(node.get("status")).get("allocatable")))


def _readable(given: Mapping[str, object]) -> Mapping[str, str]:
    """The quantities that may be amplified, as they are written."""
    said = {name: str(given[name]) for name in _AMPLIFIED if name in given}
    return {name: said[name] for name in amounts(said)}


def _mapping(given: object) -> Mapping[str, Any]:
    return given if isinstance(given, Mapping) else {}
