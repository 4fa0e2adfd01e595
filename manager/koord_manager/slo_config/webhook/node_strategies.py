"""Review of a Node's labels, which may choose one strategy of each kind. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from koord_serving.admission.core.admission import (
    ADMITTED,
    AdmissionOperation,
    AdmissionRequest,
    AdmissionResponse,
)

from koord_manager.slo_config.core.config import KEYS, read_key
from koord_manager.slo_config.core.layers import ConfigLayers
from koord_manager.slo_config.core.view import SLOConfigView


def validate_node(admission: AdmissionRequest, view: SLOConfigView) -> AdmissionResponse:
    """A change of labels after which two entries of one key match is refused.

    A Node that two match already may change in other ways. A new one is admitted with a
    warning: it may have its labels from its kubelet.
    """
    labels, before = _labels(admission.object), _labels(admission.old)
    created = admission.operation is AdmissionOperation.CREATE
    if (
        admission.operation not in (AdmissionOperation.CREATE, AdmissionOperation.UPDATE)
        or labels == before
    ):
        return ADMITTED
    had = set() if created else set(_overlaps(before, view.config))
    new = [overlap for overlap in _overlaps(labels, view.config) if overlap not in had]
    if not new:
        return ADMITTED
    lines = [
        f"labels match {' and '.join(overlap)}; expected one of them at most" for overlap in new
    ]
    if created:
        return AdmissionResponse(warnings=tuple(lines))
    return AdmissionResponse(refusal=f"node {admission.name}: {'; '.join(lines)}")


def _overlaps(labels: Mapping[str, str], config: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """The entries of each key that match where there are several, as lines name them."""
    for key in sorted(KEYS):
        layers = _layers(key, config.get(key, ""))
        if layers is not None and (rivals := layers.rivals(labels)):
            yield tuple(layer.where for layer in rivals)


# Nodes change often, the ConfigMap does not.
@lru_cache(maxsize=2 * len(KEYS))
def _layers(key: str, text: str) -> ConfigLayers[Any] | None:
    return read_key(key, text)[0]


def _labels(node: Mapping[str, Any]) -> Mapping[str, str]:
    metadata = node.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
    if not isinstance(labels, Mapping):
        return {}
    return {key: value for key, value in labels.items() if isinstance(value, str)}
