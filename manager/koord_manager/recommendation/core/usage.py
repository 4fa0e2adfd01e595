"""Usage of pods' containers, from the status of a NodeMetric. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec
from koord_kube.views.decode import decode_view
from koord_model.demand import amounts
from koord_model.keys import CPU, MEMORY
from koord_prediction.amount import ResourceAmount


@dataclass(frozen=True, slots=True)
class PodContainerUsage:
    """A pod's usage; ``containers`` by name if the node reports them."""

    namespace: str
    name: str
    used: ResourceAmount
    containers: Mapping[str, ResourceAmount] = field(default_factory=dict)


_Quantities = dict[str, str | int | float | None]


class _Usage(msgspec.Struct):
    resources: _Quantities | None = None


class _PykoordExtension(msgspec.Struct):
    containers: dict[str, _Quantities] | None = None


class _Extensions(msgspec.Struct):
    pykoord: _PykoordExtension | None = None


class _PodMetric(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    usage: _Usage | None = msgspec.field(default=None, name="podUsage")
    extensions: _Extensions | None = None


class _Status(msgspec.Struct):
    pods: list[_PodMetric] | None = msgspec.field(default=None, name="podsMetric")


_DECODER = msgspec.json.Decoder(_Status)


def pods_usage(status: bytes) -> Iterator[PodContainerUsage]:
    """Of each pod in a NodeMetric's status, given as JSON, that was measured.

    Raises:
        ValueError: it is not a NodeMetric status.
    """
    found = decode_view(_DECODER, status, "a valid NodeMetric status")
    for pod in found.pods or ():
        used = _amount(pod.usage.resources if pod.usage else None)
        if used is not None:
            yield PodContainerUsage(pod.namespace, pod.name, used, _containers(pod.extensions))


def _containers(extensions: _Extensions | None) -> Mapping[str, ResourceAmount]:
    ours = extensions.pykoord if extensions else None
    found = (
        {name: _amount(amounts) for name, amounts in (ours.containers or {}).items()}
        if ours
        else {}
    )
    return {name: usage for name, usage in found.items() if usage is not None}


def _amount(given: _Quantities | None) -> ResourceAmount | None:
    found = amounts(given)
    if CPU not in found or MEMORY not in found:
        return None
    return ResourceAmount(found[CPU] / 1000, float(found[MEMORY]))
