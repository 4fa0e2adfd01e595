"""Usual requests, learned from pods that got nodes; and scores from them. No IO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from enum import StrEnum

import numpy as np
from koord_model.demand import Amounts
from koord_model.keys import CPU, GPU_CORE, GPU_MEMORY_RATIO, LABEL_GPU_MODEL, MEMORY

from koord_scheduler.objects.node_selector import NodeRequirement, RequiredNodes
from koord_scheduler.plugins.device_share.device_needs import PodDeviceNeeds
from koord_scheduler.plugins.device_share.device_object import GPU_TYPE
from koord_scheduler.plugins.device_share.gpu_nodes import WHOLE, GpuNodes, GpuRequest
from koord_scheduler.plugins.device_share.gpu_scores import (
    GpuPolicy,
    as_scores,
    fragmentation_policy,
    place,
    value_policy,
)
from koord_scheduler.plugins.device_share.typical_workload import TypicalWorkload, typical_workload
from koord_scheduler.state.arrays import Amounts as Column

_FIRST = 64
"""Pods from which a workload is learned for the first time."""
_THOUSANDTHS = 10
"""Of a per cent."""
_STEP = 10.0
"""Step of ``as_scores`` for a point."""
_WORST = -1e9


class GPUScores(StrEnum):
    """Scoring of nodes with GPUs: by usage, or by a typical workload."""

    PLAIN = ""
    FRAGMENTATION = "FragmentationGradientDescent"
    VALUE = "FreeGPUValue"


_POLICIES: dict[GPUScores, Callable[[TypicalWorkload], GpuPolicy]] = {
    GPUScores.FRAGMENTATION: fragmentation_policy,
    GPUScores.VALUE: value_policy,
}


def accepted_models(required: RequiredNodes) -> frozenset[str] | None:
    """The models of GPUs that a pod names by its selectors of nodes; ``None``: any."""
    sets = [_named(required.selector)]
    if required.terms is not None:
        of_terms = [_named(term.labels) for term in required.terms]
        sets += [of_term for of_term in of_terms if of_term is None] or [
            frozenset().union(*filter(None, of_terms))
        ]
    named = [one for one in sets if one is not None]
    return frozenset.intersection(*named) if named else None


def _named(requirements: Iterable[NodeRequirement]) -> frozenset[str] | None:
    sets = [
        frozenset(requirement.values)
        for requirement in requirements
        if (requirement.key, requirement.operator) == (LABEL_GPU_MODEL, "In")
    ]
    return frozenset.intersection(*sets) if sets else None


def gpu_request(requests: Amounts, needs: PodDeviceNeeds) -> GpuRequest | None:
    """A pod's request in thousandths of cards, of any model.

    ``None``: parts of several cards, or bytes of one, which are another part of each model.
    """
    plain = GpuRequest(float(requests.get(CPU, 0)), float(requests.get(MEMORY, 0)))
    need = needs.by_type.get(GPU_TYPE)
    if need is None:
        return plain
    part = max(need.amounts.get(name, 0) for name in (GPU_CORE, GPU_MEMORY_RATIO))
    share = part * _THOUSANDTHS
    if not 0 < share <= WHOLE or (need.count > 1 and share != WHOLE):
        return None
    return plain._replace(cards=need.count, share=share)


class LearnedWorkload:
    """The requests of pods that got nodes, and the ``policy`` by them; ``None``: too few yet.

    It is made anew as the number of pods doubles; ``version`` says how often it was. Models of
    cards are distinguished as far as pods named them, or got them, by then.
    """

    def __init__(self, scores: GPUScores, first: int = _FIRST) -> None:
        self.scores = scores
        self.version = 0
        self.policy: GpuPolicy | None = None
        self._counts: Counter[GpuRequest] = Counter()
        self._next = first
        self._models: dict[str, int] = {"": 0}
        self._known_models = 1

    def model_code(self, model: str) -> int:
        """The code of a model of cards; 0 for one that the policy does not know."""
        code = self._models.get(model, 0)
        return code if code < self._known_models else 0

    def count(
        self,
        request: GpuRequest | None,
        model: str = "",
        accepted: frozenset[str] | None = None,
    ) -> None:
        """A pod got a node with cards of a ``model``; it would have ``accepted`` these."""
        make = _POLICIES.get(self.scores)
        if request is None or make is None:
            return
        codes = {one: self._code(one) for one in (model, *sorted(accepted or ()))}
        if request.cards and accepted is not None:
            request = request._replace(models=frozenset(codes[one] for one in accepted))
        self._counts[request] += 1
        if self._counts.total() >= self._next:
            self._next *= 2
            self.version += 1
            # Without GPUs there is nothing to tell nodes apart by.
            if any(count.cards for count in self._counts):
                self._known_models = len(self._models)
                workload = typical_workload(self._counts.elements(), self._known_models)
                self.policy = make(workload)

    def _code(self, model: str) -> int:
        return self._models.setdefault(model, len(self._models))

    def raw_scores(self, request: GpuRequest, nodes: GpuNodes) -> Column | None:
        """Of each node, to be made ``whole_scores`` of; ``None``: nothing is known yet."""
        if self.policy is None:
            return None
        grade = place(request, nodes, self.policy).grade
        worst = _WORST if self.scores is GPUScores.VALUE else 0.0
        return np.where(np.isneginf(grade), worst, grade)

    def plain_scores(self, scores: Column) -> Column:
        """Scores of another kind, in place of ``raw_scores``."""
        return scores * _STEP if self.scores is GPUScores.VALUE else scores

    def whole_scores(self, raw: Column) -> Column | None:
        """Scores from 0 to 100 of all nodes that are left; ``None``: the highest is to be 100."""
        return as_scores(raw) if self.scores is GPUScores.VALUE else None

    def card(self, request: GpuRequest, node: GpuNodes) -> int | None:
        """The number of the best card of the only ``node`` for a part of one."""
        if self.policy is None or not request.is_shared:
            return None
        (card,) = place(request, node, self.policy).card.tolist()
        return card if card >= 0 else None
