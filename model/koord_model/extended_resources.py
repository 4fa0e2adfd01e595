"""Batch resources of a pod's containers, from its annotation.

The webhook takes ``batch-cpu`` and ``batch-memory`` out of reach of the
kubelet, which knows nothing of them, and leaves them in the annotation
``node.koordinator.sh/extended-resource-spec``. Its ``containers`` run together. Our own
``initContainers`` come before them; one that is in both goes on running beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import msgspec

from koord_model import cpuset
from koord_model.annotations import about, decode, read
from koord_model.excerpt import excerpt
from koord_model.fields import shown
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
    """One container's batch resources: millicores and bytes; ``None`` is unset.

    ``unusable`` names the fields (``cpu_limit``) whose amount could not be read. They are
    unset too, but not for want of a limit. ``ignored`` has a line about each.
    """

    cpu_request: Amount | None = None
    cpu_limit: Amount | None = None
    memory_limit: Amount | None = None
    unusable: frozenset[str] = frozenset()
    ignored: tuple[str, ...] = ()


def batch_resources(pod: Pod) -> Mapping[str, BatchResources] | None:
    """The batch resources of a pod's containers by name; ``None`` if it names no container.

    Raises:
        ValueError: the annotation is not valid JSON, or names no containers; one line says how.
    """
    return _with_subject(pod, read(pod, ANNOTATION_EXTENDED_RESOURCE_SPEC, parse)) or None


def init_resources(pod: Pod) -> Mapping[str, BatchResources]:
    """The batch resources of a pod's init containers by name.

    Raises:
        ValueError: the annotation is not valid JSON, or names no containers; one line says how.
    """
    return _with_subject(pod, read(pod, ANNOTATION_EXTENDED_RESOURCE_SPEC, parse_inits))


def _with_subject(
    pod: Pod, found: Mapping[str, BatchResources] | None
) -> Mapping[str, BatchResources]:
    """The same, with lines that begin with the pod."""
    begin = f"{about(pod, ANNOTATION_EXTENDED_RESOURCE_SPEC)}: "
    return {
        name: replace(spec, ignored=tuple(begin + line for line in spec.ignored))
        if spec.ignored
        else spec
        for name, spec in (found or {}).items()
    }


class _Spec(msgspec.Struct, frozen=True):
    containers: dict[str, object] | None = None
    inits: dict[str, object] | None = msgspec.field(default=None, name="initContainers")


_DECODER = msgspec.json.Decoder(_Spec | None)
_FIELDS = {
    "cpu_request": ("requests", BATCH_CPU, MAX_MILLI_CPU),
    "cpu_limit": ("limits", BATCH_CPU, MAX_MILLI_CPU),
    "memory_limit": ("limits", BATCH_MEMORY, MAX_BYTES),
}


@lru_cache(maxsize=256)
def parse(text: str) -> Mapping[str, BatchResources]:
    """The annotation's text as batch resources by container name; lines begin with the name.

    Raises:
        ValueError: no JSON, or JSON that has no containers by name.
    """
    spec = decode(_DECODER, text) or _Spec()
    return {name: _batch(name, given) for name, given in (spec.containers or {}).items()}


@lru_cache(maxsize=256)
def parse_inits(text: str) -> Mapping[str, BatchResources]:
    """As ``parse``, of init containers."""
    spec = decode(_DECODER, text) or _Spec()
    return {name: _batch(name, given) for name, given in (spec.inits or {}).items()}


def _batch(name: str, given: object) -> BatchResources:
    amounts: dict[str, Amount | None] = {}
    ignored: list[str] = []
    for field, (group, resource, most) in _FIELDS.items():
        try:
            amounts[field] = _amount(_member(_member(given, group), resource), most)
        except ValueError as error:
            ignored.append(f"container {excerpt(name)} {group} {resource}: {error} (left out)")
    unusable = frozenset(_FIELDS.keys() - amounts.keys())
    return BatchResources(**amounts, unusable=unusable, ignored=tuple(ignored))


def _member(given: object, name: str) -> object:
    if given is None:
        return None
    if not isinstance(given, dict):
        raise ValueError(f"{shown(given)} is not an object")  # noqa: TRY004 - bad input, not a defect
    return given.get(name)


def _amount(quantity: object, most: int) -> Amount | None:
    if quantity is None:
        return None
    if isinstance(quantity, bool) or not isinstance(quantity, str | int | float):
        problem = f"{shown(quantity)} is not a valid quantity; expected one like 500m, 2 or 1Gi"
        raise ValueError(problem)  # noqa: TRY004 - bad input, not a defect
    value = whole(quantity)
    if not 0 <= value <= most:
        raise ValueError(f"{excerpt(str(quantity))} is out of range; expected 0 to {most}")
    return Amount(value, str(quantity))
