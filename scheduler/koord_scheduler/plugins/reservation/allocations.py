"""Shares of a reservation that pods of its node have. No IO."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from koord_scheduler.state.pod_parts import PodPart, PodParts
from koord_scheduler.state.pod_usage import PodUsage
from koord_scheduler.state.ports import HostPort
from koord_scheduler.state.resources import PODS


@dataclass
class AllocatedRoom:
    """Usage of ``owners`` pods together."""

    owners: int = 0
    request: Counter[str] = field(default_factory=Counter)
    scored: list[float] = field(default_factory=lambda: [0.0, 0.0])
    ports: Counter[HostPort] = field(default_factory=Counter)
    parts: dict[PodPart[Any], list[Any]] = field(default_factory=dict)

    def add(self, pod: PodUsage, sign: int) -> None:
        """A pod has something of it, or with -1 not any more."""
        self.owners += sign
        for name, amount in pod.request:
            self.request[name] += sign * int(amount)
        self.scored[0] += sign * pod.scored[0]
        self.scored[1] += sign * pod.scored[1]
        for port in pod.ports:
            self.ports[port] += sign
        for key, part in pod.parts.shared():
            had = self.parts.setdefault(key, [])
            (had.append if sign > 0 else had.remove)(part)

    def what_is_left(self, whole: PodUsage) -> PodUsage:
        """Return a reservation's usage of its node beside them."""
        left = (
            (name, amount if name == PODS else max(amount - self.request[name], 0.0))
            for name, amount in whole.request
        )
        scored = [max(a - b, 0.0) for a, b in zip(whole.scored, self.scored, strict=True)]
        return whole._replace(
            request=tuple((name, amount) for name, amount in left if amount),
            scored=(scored[0], scored[1]),
            ports=tuple(port for port in whole.ports if not self.ports[port]),
            parts=self._parts_left(whole.parts),
        )

    def _parts_left(self, whole: PodParts) -> PodParts:
        left = {
            key: key.left(part, self.parts.get(key, ()))
            for key, part in whole.shared()
            if key.left is not None
        }
        return PodParts({**whole.by_key, **left}.items())
