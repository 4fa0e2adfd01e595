"""What a batch pod's containers ask for, as its annotation says.

The webhook takes ``batch-cpu`` and ``batch-memory`` out of reach of the
kubelet, which knows nothing of them, and leaves them in the annotation
``node.koordinator.sh/extended-resource-spec``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from koord_model import cpuset
from koord_model.annotations import decode, read
from koord_model.excerpt import excerpt
from koord_model.keys import ANNOTATION_EXTENDED_RESOURCE_SPEC, BATCH_CPU, BATCH_MEMORY
from koord_model.pod import Pod
from koord_model.quantity import whole

MAX_MILLI_CPU = cpuset.MAX_CPU * 1000
"""Larger numbers are typing errors, for instance bytes where millicores belong."""

MAX_BYTES = 1 << 53
"""8 PiB; larger numbers are typing errors."""


@dataclass(frozen=True, slots=True)
class Amount:
    """A quantity: its whole value, and the text it was written as."""

    value: int
    text: str


@dataclass(frozen=True, slots=True)
class BatchResources:
    """One container's batch resources: millicores and bytes; ``None`` is unset."""

    cpu_request: Amount | None = None
    cpu_limit: Amount | None = None
    memory_limit: Amount | None = None


def batch_resources(pod: Pod) -> Mapping[str, BatchResources] | None:
    """The batch resources of a pod's containers by name; ``None`` if it names no container.

    Raises:
        ValueError: the annotation is malformed; one line says how.
    """
    return read(pod, ANNOTATION_EXTENDED_RESOURCE_SPEC, parse) or None


_Quantity = str | int | float | None


class _Resources(msgspec.Struct, frozen=True):
    cpu: _Quantity = msgspec.field(default=None, name=BATCH_CPU)
    memory: _Quantity = msgspec.field(default=None, name=BATCH_MEMORY)


class _Container(msgspec.Struct, frozen=True):
    limits: _Resources | None = None
    requests: _Resources | None = None


class _Spec(msgspec.Struct, frozen=True):
    containers: dict[str, _Container] | None = None


_NOTHING = _Resources()
_DECODER = msgspec.json.Decoder(_Spec | None)


@lru_cache(maxsize=256)
def parse(text: str) -> Mapping[str, BatchResources]:
    """The annotation's text as batch resources by container name.

    Raises:
        ValueError: no JSON, JSON of another shape, or an amount out of range.
    """
    spec = decode(_DECODER, text) or _Spec()
    return {name: _batch(name, container) for name, container in (spec.containers or {}).items()}


def _batch(name: str, container: _Container) -> BatchResources:
    limits, requests = container.limits or _NOTHING, container.requests or _NOTHING
    where = f"container {excerpt(name)}"
    return BatchResources(
        cpu_request=_amount(requests.cpu, MAX_MILLI_CPU, f"{where} requests {BATCH_CPU}"),
        cpu_limit=_amount(limits.cpu, MAX_MILLI_CPU, f"{where} limits {BATCH_CPU}"),
        memory_limit=_amount(limits.memory, MAX_BYTES, f"{where} limits {BATCH_MEMORY}"),
    )


def _amount(quantity: _Quantity, most: int, where: str) -> Amount | None:
    if quantity is None:
        return None
    shown = str(quantity)
    try:
        value = whole(quantity)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    if not 0 <= value <= most:
        raise ValueError(f"{where}: {excerpt(shown)} is out of range; expected 0 to {most}")
    return Amount(value, shown)
