"""Usage of pods' containers, from the status of a NodeMetric. No IO."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
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


_NOTHING = msgspec.Raw(b"null")


class _PodMetric(msgspec.Struct, gc=False):
    """A pod of a report; what only few are asked for is not decoded."""

    name: str = ""
    namespace: str = ""
    usage: msgspec.Raw = msgspec.field(default=_NOTHING, name="podUsage")
    extensions: msgspec.Raw = _NOTHING


class _Status(msgspec.Struct):
    pods: list[_PodMetric] | None = msgspec.field(default=None, name="podsMetric")


_WHAT = "a valid NodeMetric status"
_STATUS = msgspec.json.Decoder(_Status)
_USAGE: msgspec.json.Decoder[_Usage | None] = msgspec.json.Decoder(_Usage | None)
_EXTENSIONS: msgspec.json.Decoder[_Extensions | None] = msgspec.json.Decoder(_Extensions | None)


def pods_usage(status: bytes, pods: Collection[tuple[str, str]]) -> Iterator[PodContainerUsage]:
    """Of each of the ``pods`` (namespace, name) in a NodeMetric's status that was measured.

    The status is JSON. What is reported of others is not looked at.

    Raises:
        ValueError: it is not a NodeMetric status.
    """
    for pod in decode_view(_STATUS, status, _WHAT).pods or ():
        if (pod.namespace, pod.name) not in pods:
            continue
        usage = decode_view(_USAGE, pod.usage, _WHAT)
        extensions = decode_view(_EXTENSIONS, pod.extensions, _WHAT)
        used = _amount(usage.resources if usage else None)
        if used is not None:
            yield PodContainerUsage(pod.namespace, pod.name, used, _containers(extensions))


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
