"""What a node has to offer as batch resources: reckoned anew from what koordlet reports.

This is Koordinator's formula for policy "usage", written down once more, and the ways in which
the manager says it: its page, and the Node's annotation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from koord_kube.protocol.api import Object
from koord_model.decision import shown
from koord_model.quantity import milli, whole

_LOW = ("koord-batch", "koord-free")


class Terms(NamedTuple):
    """What makes up one batch resource: millicores, or bytes."""

    capacity: int
    margin: int
    kept: int
    high: int

    @property
    def amount(self) -> int:
        return max(self.capacity - self.margin - self.kept - self.high, 0)


def used(status: Object) -> dict[str, int]:
    """Millicores of each pod that is reported."""
    return {
        one["name"]: milli(one["podUsage"]["resources"]["cpu"])
        for one in status.get("podsMetric", ())
    }


def reckoned(
    status: Object, node: Object, percent: Mapping[str, int], reserved: Mapping[str, int]
) -> dict[str, Terms]:
    """The terms by resource, of a NodeMetric's status and a Node.

    ``percent`` of the capacity are kept back as margin; ``reserved`` is what the system has at
    least, in millicores and bytes.
    """
    metric, capacity = status["nodeMetric"], node["status"]["capacity"]
    readers: dict[str, Callable[[str], int]] = {"cpu": milli, "memory": whole}
    high = [one for one in status["podsMetric"] if one["priority"] not in _LOW]
    found = {}
    for name, read in readers.items():
        size = read(capacity[name])
        found[name] = Terms(
            capacity=size,
            margin=int(size * (percent[name] / 100)),
            kept=max(read(metric["systemUsage"]["resources"][name]), reserved[name]),
            high=sum(read(one["podUsage"]["resources"][name]) for one in high),
        )
    return found


def explained(page: Any) -> dict[str, Terms]:
    """The terms that ``/v1/why`` shows."""
    found = {}
    for one in page.get("decisions", ()):
        if one["aspect"] in ("batch-cpu", "batch-memory"):
            name = one["aspect"].removeprefix("batch-")
            given = {term["name"]: term["value"] for term in one["given"]}
            unit = 1000 if name == "cpu" else 1
            found[name] = Terms(*(round(given[term] * unit) for term in Terms._fields))
    return found


def in_short(terms: dict[str, Terms]) -> str:
    """The terms as the Node's annotation has them."""

    def said(name: str, number: int) -> str:
        return shown(number / 1000, "cores") if name == "cpu" else shown(number, "bytes")

    return "; ".join(
        f"{name} {said(name, one.amount)} of {said(name, one.capacity)}"
        f" - {said(name, one.margin)} margin - {said(name, one.kept)} system"
        f" - {said(name, one.high)} high-priority"
        for name, one in terms.items()
    )
