"""Usual requests of a cluster's pods, as kinds with frequencies. No IO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from koord_scheduler.plugins.device_share.gpu_nodes import GpuRequest
from koord_scheduler.state.arrays import Amounts, Mask


class TypicalWorkload(NamedTuple):
    """Kinds of requests; ``part`` of all pods request this (they sum to 1).

    ``accepts`` says of each kind and model whether the kind can use it. Units as in ``GpuRequest``.
    """

    part: Amounts
    cpu: Amounts
    memory: Amounts
    cards: Amounts
    share: Amounts
    accepts: Mask

    def of(self, kinds: Mask) -> TypicalWorkload:
        """These kinds alone; their parts do not sum to 1 any more."""
        return TypicalWorkload(
            self.part[kinds],
            self.cpu[kinds],
            self.memory[kinds],
            self.cards[kinds],
            self.share[kinds],
            self.accepts[kinds],
        )


def typical_workload(
    requests: Iterable[GpuRequest], models: int, coverage: float = 1.0
) -> TypicalWorkload:
    """The most frequent kinds, as many as it takes for ``coverage`` of the pods.

    ``models`` is the number of models of cards. Of kinds that are as frequent, those with more CPU,
    then with a larger share, more cards, and the models that come later go first, as in the public
    simulator of FGD.

    :raises ValueError: no requests.
    """
    counts = Counter(requests)
    if not counts:
        raise ValueError("a typical workload needs at least one request")
    kinds = sorted(counts, key=lambda kind: (counts[kind], *_order(kind)), reverse=True)
    total = float(counts.total())
    covered, taken = 0.0, 0
    while covered < coverage * total and taken < len(kinds):
        covered += counts[kinds[taken]]
        taken += 1
    kinds = kinds[:taken]
    return TypicalWorkload(
        # In these two steps, since FGD's whole scores depend on the last bit of it.
        np.array([counts[kind] / total / (covered / total) for kind in kinds]),
        np.array([kind.cpu for kind in kinds], np.float64),
        np.array([kind.memory for kind in kinds], np.float64),
        np.array([kind.cards for kind in kinds], np.float64),
        np.array([kind.share for kind in kinds], np.float64),
        np.array([[_accepts(kind, model) for model in range(models)] for kind in kinds]),
    )


def _order(kind: GpuRequest) -> tuple[float, int, int, list[int], float]:
    return kind.cpu, kind.share, kind.cards, sorted(kind.models or ()), kind.memory


def _accepts(kind: GpuRequest, model: int) -> bool:
    return kind.models is None or model in kind.models
