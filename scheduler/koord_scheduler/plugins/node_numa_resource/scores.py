"""Scores of usage of some amounts. No IO.

Koordinator's ``plugins/nodenumaresource/scoring.go``, for single nodes and NUMA nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from koord_model.demand import Amounts
from koord_model.keys import CPU, MEMORY

from koord_scheduler.state.resource_scores import least_taken
from koord_scheduler.state.resources import ALWAYS

AmountScore = Callable[[int, int], int]


@dataclass(frozen=True)
class AmountScorer:
    """The mean of ``strategy`` over resources by their ``weights``, rounded down; 0 to 100."""

    strategy: AmountScore = least_taken
    weights: Mapping[str, int] = field(default_factory=lambda: {CPU: 1, MEMORY: 1})

    def score(self, taken: Amounts, has: Amounts, requests: Amounts) -> int:
        """For a pod with ``requests``, beside what is ``taken``.

        Resources that there are none of do not count, nor do those that not every node has if the
        pod asks for none.
        """
        total = weights = 0
        for name, weight in self.weights.items():
            asked = requests.get(name, 0)
            if not has.get(name) or (not asked and name not in ALWAYS):
                continue
            total += weight * self.strategy(taken.get(name, 0) + asked, has[name])
            weights += weight
        return total // weights if weights else 0
