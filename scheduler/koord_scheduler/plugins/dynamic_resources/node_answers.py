"""Answers about claims on nodes, kept until devices of the node change. No IO."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from koord_scheduler.plugins.dynamic_resources.allocator import MOST_STEPS, TIMED_OUT, SearchBudget
from koord_scheduler.plugins.dynamic_resources.assumed_claims import (
    alternatives_score,
    find_devices,
)
from koord_scheduler.plugins.dynamic_resources.claim_objects import DeviceObjects
from koord_scheduler.plugins.dynamic_resources.objects import ResourceClaimSpec
from koord_scheduler.plugins.dynamic_resources.pool_devices import ClaimingNode
from koord_scheduler.plugins.dynamic_resources.requests import AllocationError

MOST_STEPS_AT_ONCE = 60_000
"""Devices that are looked at on all nodes together in one go: two tenths of a second."""
_STEPS_OF_NODE = 50
"""Cost of a node relative to devices, where the first devices will do."""
_MOST_KINDS = 32
"""Of claims, that are remembered: some hundred bytes a node each."""


class NodeAnswer(NamedTuple):
    """Reason why claims cannot be allocated on a node, "" if they can, and a score."""

    reason: str
    score: int


_POSTPONED = NodeAnswer(TIMED_OUT, 0)


class _Known(NamedTuple):
    stamp: Hashable
    labels: Mapping[str, str]
    answer: NodeAnswer


class NodeAnswers:
    """Answers for claims that ask for the same: claims from one template are decided about once.

    ``postponed`` changes when nodes were not asked about, since there was too much to do: they
    are asked next time.
    """

    def __init__(self, objects: DeviceObjects) -> None:
        self.postponed = 0
        self._objects = objects
        self._kinds: OrderedDict[bytes, dict[str, _Known]] = OrderedDict()

    def of(self, claims: Sequence[ResourceClaimSpec], budget: SearchBudget) -> AnswerFor:
        """Answers about some claims."""
        kind = msgspec.json.encode(claims)
        known = self._kinds.setdefault(kind, {})
        self._kinds.move_to_end(kind)
        if len(self._kinds) > _MOST_KINDS:
            self._kinds.popitem(last=False)
        return AnswerFor(claims, self, self._objects, known, budget)


class AnswerFor:
    """Answers about some claims."""

    def __init__(
        self,
        claims: Sequence[ResourceClaimSpec],
        answers: NodeAnswers,
        objects: DeviceObjects,
        known: dict[str, _Known],
        budget: SearchBudget,
    ) -> None:
        self._claims = claims
        self._answers = answers
        self._objects = objects
        self._known = known
        self._budget = budget

    def on(self, node: ClaimingNode, *, is_first: bool = True) -> NodeAnswer:
        """The answer for a node; what was postponed is asked ``is_first`` again."""
        stamp = self._objects.node_stamp(node.name)
        known = self._known.get(node.name)
        if (
            known is None
            or known.stamp != stamp
            or (self._objects.follows_nodes and known.labels != node.labels)
            or (is_first and known.answer is _POSTPONED)
        ):
            known = self._known[node.name] = _Known(stamp, node.labels, self._ask(node))
        return known.answer

    def _ask(self, node: ClaimingNode) -> NodeAnswer:
        if self._budget.left <= 0:
            self._answers.postponed += 1
            return _POSTPONED
        budget = SearchBudget()
        try:
            found = find_devices(self._claims, node, self._objects, budget)
        except AllocationError as error:
            return NodeAnswer(str(error), 0)
        finally:
            self._budget.left -= _STEPS_OF_NODE + MOST_STEPS - budget.left
        return NodeAnswer(
            "",
            sum(
                alternatives_score(claim, {device.alternative.name for device in devices.devices})
                for claim, devices in zip(self._claims, found, strict=True)
            ),
        )
