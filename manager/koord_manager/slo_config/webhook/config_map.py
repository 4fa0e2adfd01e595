"""Refuses a ``slo-controller-config`` of which something could not be used. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from koord_model.fields import Fields
from koord_model.quantity import whole
from koord_serving.admission.core.admission import (
    ADMITTED,
    AdmissionOperation,
    AdmissionRequest,
    AdmissionResponse,
    Object,
)

from koord_manager.slo_config.core.config import KEYS, RESOURCE_QOS, SYSTEM, read_key, unknown_in
from koord_manager.slo_config.core.layers import ConfigLayers
from koord_manager.slo_config.core.network import over_promised
from koord_manager.slo_config.core.overlap import overlap
from koord_manager.slo_config.core.view import SLOConfigView

_INVALID = 422


def validate_config_map(admission: AdmissionRequest, view: SLOConfigView) -> AdmissionResponse:
    """Only what changes is judged: what is bad already must not keep others from mending it."""
    if f"{admission.namespace}/{_name(admission)}" != view.config_map:
        return ADMITTED
    if admission.operation is AdmissionOperation.DELETE:
        return AdmissionResponse(
            warnings=("without it all strategies have their defaults: nothing is on",)
        )
    before, after = _data(admission.old), _data(admission.object)
    changed = {key for key in after if after[key] != before.get(key)}
    lines = list(_problems(after, changed, view.node_labels))
    warnings = tuple(problem.line for problem in unknown_in({key: after[key] for key in changed}))
    if not lines:
        return AdmissionResponse(warnings=warnings)
    more = f" (and {len(lines) - 1} more)" if lines[1:] else ""
    return AdmissionResponse(refusal=f"{lines[0]}{more}", code=_INVALID, warnings=warnings)


def _name(admission: AdmissionRequest) -> str:
    if admission.name:
        return admission.name
    meta = admission.object.get("metadata")
    return str(meta.get("name", "")) if isinstance(meta, Mapping) else ""


def _data(config_map: Object) -> dict[str, str]:
    data = config_map.get("data")
    if not isinstance(data, Mapping):
        return {}
    return {key: text for key, text in data.items() if isinstance(text, str)}


def _problems(
    data: Mapping[str, str], changed: set[str], nodes: Mapping[str, Mapping[str, str]]
) -> Iterator[str]:
    good: dict[str, ConfigLayers[Any]] = {}
    for key in sorted(KEYS & (changed | {RESOURCE_QOS, SYSTEM})):
        layers, lines = read_key(key, data.get(key, ""))
        if key in changed:
            yield from lines
        if layers is None or lines:
            continue
        good[key] = layers
        if key in changed and (line := overlap(key, layers, nodes)):
            yield line
    if changed & {RESOURCE_QOS, SYSTEM} and good.keys() >= {RESOURCE_QOS, SYSTEM}:
        yield from _over_promised(good[RESOURCE_QOS], good[SYSTEM])


def _over_promised(qos: ConfigLayers[Any], system: ConfigLayers[Any]) -> Iterator[str]:
    """Bits a second promised, against those of the nodes that the same selector matches."""
    totals = {layer.selector: _total(layer.value) for layer in system.nodes}
    usual = _total(system.cluster)
    for where, strategy, total in (
        (f"{RESOURCE_QOS} clusterStrategy", qos.cluster, usual),
        *((layer.where, layer.value, totals.get(layer.selector, usual)) for layer in qos.nodes),
    ):
        spec = {"resourceQOSStrategy": strategy}
        yield from (f"{where} {line}" for line in over_promised(spec, total))


def _total(system: Mapping[str, object]) -> int:
    return Fields(system, "", []).take("totalNetworkBandwidth", 0, _bits, "")


def _bits(given: object) -> int:
    return whole(given) if isinstance(given, str | int | float) else 0
