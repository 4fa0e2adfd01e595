"""Samples of the last minutes by node, while somebody may ask for aggregates. No IO."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import replace

from koord_manager.metrics_apis.core.samples import UsageSample

KEPT_SECONDS = 300.0
"""Time that Katalyst keeps points (``store-gc-period``)."""

_MOST = 32
"""Samples of one node: nodes that report more often have a shorter history."""

_FORGOTTEN_SECONDS = 3600.0
"""Silence after which a node's samples go; whether they are shown is decided much earlier."""


ASKED_SECONDS = 900.0
"""Time for which samples of a node are wanted after a question; autoscalers ask each 15 s."""


class UsageHistory:
    """The samples of each node that somebody asks about, oldest first.

    Their names are kept once for as long as the same containers run, so that a sample takes 24
    bytes for each container.
    """

    def __init__(self) -> None:
        self._by_node: OrderedDict[str, deque[UsageSample]] = OrderedDict()
        self._asked: dict[str, float] = {}

    def ask(self, node: str, now: float) -> None:
        """Note a question about a node whose samples are here; ``now`` by a steady clock."""
        if node in self._by_node:
            self._asked[node] = now

    def wants(self, node: str, now: float) -> bool:
        """True if somebody asked about a node lately; if nobody did, its samples go."""
        asked = self._asked.get(node)
        if asked is not None and now - asked > ASKED_SECONDS:
            self._forget(node)
        return node in self._asked

    def add(self, node: str, sample: UsageSample) -> None:
        """Add a node's newest sample.

        What is not before it goes: the node's clock was set back, or this is the same report.
        """
        samples = self._by_node.setdefault(node, deque(maxlen=_MOST))
        self._by_node.move_to_end(node)
        while samples and samples[-1].time >= sample.time:
            samples.pop()
        while samples and samples[0].time <= sample.time - KEPT_SECONDS:
            samples.popleft()
        if samples and samples[-1].keys == sample.keys:
            sample = replace(sample, keys=samples[-1].keys)
        samples.append(sample)
        self._forget_silent(sample.time)

    def of(self, node: str, now: float, oldest: float) -> Sequence[UsageSample]:
        """Samples of the last minutes, and the newest one if it is not older than ``oldest``."""
        samples = self._by_node.get(node)
        if not samples or now - samples[-1].time > oldest:
            return ()
        recent = [sample for sample in samples if sample.time > now - KEPT_SECONDS]
        return recent or [samples[-1]]

    def clear(self) -> None:
        """Forget everything."""
        self._by_node.clear()
        self._asked.clear()

    def _forget_silent(self, now: float) -> None:
        while self._by_node:
            node, samples = next(iter(self._by_node.items()))
            if samples[-1].time > now - _FORGOTTEN_SECONDS:
                return
            self._forget(node)

    def _forget(self, node: str) -> None:
        self._by_node.pop(node, None)
        self._asked.pop(node, None)
