"""Resource demand of a pod's specification, as the scheduler computes it. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from koord_model.keys import CPU
from koord_model.quantity import milli, whole

Amounts = Mapping[str, int]
"""By resource name: CPU in millicores, everything else whole (bytes, or pieces)."""

_NONE: Amounts = {}


@dataclass(frozen=True, slots=True)
class Demand:
    """Resource demand of a pod's specification.

    ``requests`` and ``limits`` are the whole pod's; those of containers and init containers are by
    container name. ``started`` is seconds since the epoch. ``priority_name`` is Kubernetes'
    priority class, ``controller`` the kind of what made the pod ("ReplicaSet"), "" where nothing
    did. ``grace_seconds`` is what it has to end in, ``None`` where that is not said.
    """

    priority: int | None = None
    phase: str = ""
    terminating: bool = False
    started: float = 0.0
    requests: Amounts = field(default_factory=dict)
    limits: Amounts = field(default_factory=dict)
    container_requests: Mapping[str, Amounts] = field(default_factory=dict)
    container_limits: Mapping[str, Amounts] = field(default_factory=dict)
    init_requests: Mapping[str, Amounts] = field(default_factory=dict)
    priority_name: str = ""
    controller: str = ""
    grace_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class InitContainer:
    """One that runs before the others: alone, or (``beside``) from then on with them."""

    amounts: Amounts
    beside: bool = False


def amounts(quantities: Mapping[str, object] | None) -> Amounts:
    """Kubernetes quantities as numbers; what is not a valid quantity is left out."""
    if not quantities:
        return _NONE
    found = ((name, amount(name, str(given))) for name, given in quantities.items())
    return {name: number for name, number in found if number is not None}


def requested(
    requests: Mapping[str, object] | None, limits: Mapping[str, object] | None
) -> Amounts:
    """Return requests, completed by limits: where there is only a limit, it is the request too."""
    return {**amounts(limits), **amounts(requests)}


def whole_pod(
    containers: Iterable[Amounts],
    inits: Iterable[InitContainer] = (),
    pod: Amounts = _NONE,
    overhead: Amounts = _NONE,
) -> Amounts:
    """The amounts of a pod.

    Containers run together; init containers one by one before them, those beside from
    then on. What is set for the ``pod`` as a whole counts instead, and its ``overhead``
    on top (Kubernetes' ``PodRequests``).
    """
    beside: dict[str, int] = {}
    most: dict[str, int] = {}
    for init in inits:
        if init.beside:
            _add(beside, init.amounts)
            _raise(most, beside)
        else:
            alone = dict(init.amounts)
            _add(alone, beside)
            _raise(most, alone)
    together = dict(beside)
    for each in containers:
        _add(together, each)
    _raise(together, most)
    together.update(pod)
    _add(together, overhead)
    return together


def _add(total: dict[str, int], more: Amounts) -> None:
    for name, number in more.items():
        total[name] = total.get(name, 0) + number


def _raise(total: dict[str, int], other: Amounts) -> None:
    for name, number in other.items():
        total[name] = max(total.get(name, 0), number)


# The same few texts over and over: a list comes every ten seconds.
@lru_cache(maxsize=4096)
def amount(name: str, text: str) -> int | None:
    """A quantity of one resource as a number; ``None`` if it is not a valid one."""
    try:
        return milli(text) if name == CPU else whole(text)
    except ValueError:
        return None
