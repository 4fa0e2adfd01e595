"""The contract of plugins. No IO.

Kubernetes asks a plugin about one pod and one node. Here it is asked once about a class of
pods, and answers with functions of rows: of thousands of nodes at once, or the few that changed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from koord_scheduler.classes.pod_class import PodClass
from koord_scheduler.columns.arrays import Amounts, Mask, Rows
from koord_scheduler.columns.nodes import NodeColumns, PodUsage
from koord_scheduler.columns.usage_table import CountOf

MAX_SCORE = 100.0

Filter = Callable[[Rows], Mask]
"""Of each of these rows, whether a pod of the class can run there."""
Score = Callable[[Rows], Amounts]
"""Of each of these rows, how good it is: a whole number, 0 to 100 once it is normalized."""


class Limit(NamedTuple):
    """A part of a filter, as a sum over the pods of a node that may not grow beyond some limit.

    ``room`` is, for some rows, how much more there may be; the filter lets through those where no
    room is negative. A pod that leaves a row gives ``of`` it back to the room of this row. It is
    -inf where that cannot help (Kubernetes' UnschedulableAndUnresolvable), inf where nothing can
    hurt.
    """

    of: CountOf
    room: Amounts


class AcrossNodes(Protocol):
    """A plugin's answer about a class that depends on all nodes; nothing of it is kept."""

    def filter(self, rows: Rows) -> Mask | None:
        """Of each of these rows, whether a pod can run there; ``None`` if it can on all."""
        ...

    def score(self, rows: Rows) -> Amounts | None:
        """Scores from 0 to 100 of all nodes that are left; ``None`` if all are equally good."""
        ...


class Plugin:
    """One concern of placing pods; what a plugin does not override does not concern it.

    A filter and a score may depend on what ``NodeColumns`` has of the row that they are asked
    about, and on nothing else, unless ``depends_on`` says so: rows that did not change are not
    asked about again.
    """

    name: ClassVar[str]
    normalizes: ClassVar[bool] = False
    """Whether ``normalize`` does anything."""

    def filter(self, pod: PodClass, nodes: NodeColumns) -> Filter | None:
        """What keeps pods of a class off nodes; ``None`` where nothing does."""
        return None

    def score(self, pod: PodClass, nodes: NodeColumns) -> Score | None:
        """What a class prefers; ``None`` where all nodes are equally good."""
        return None

    def normalize(self, scores: Amounts) -> Amounts:
        """Scores from 0 to 100 of all nodes that are left, where they depend on each other."""
        return scores

    def across(self, pod: PodClass, nodes: NodeColumns) -> AcrossNodes | None:
        """What depends on the pods of other nodes, too; ``None`` where nothing does."""
        return None

    def limits(
        self, pod: PodClass, nodes: NodeColumns, rows: Rows, nominated: Sequence[PodUsage] = ()
    ) -> Sequence[Limit] | None:
        """The whole filter as limits; none of them: it does not depend on pods of the rows.

        They are also those that the filter has when ``nominated`` pods are on rows.
        ``None``: it cannot be said so; preemption then asks the filter again and again, while it
        takes pods off a row.
        """
        return None

    def depends_on(self, pod: PodClass, nodes: NodeColumns) -> Hashable:
        """What else than its own row the score of a row depends on."""
        return None


def normalized(scores: Amounts, *, reverse: bool = False) -> Amounts:
    """The highest score becomes 100, the others in proportion; the other way round in ``reverse``.

    As Kubernetes' ``DefaultNormalizeScore``.
    """
    most = scores.max(initial=0.0)
    if most == 0:
        return np.full(len(scores), MAX_SCORE) if reverse else scores
    found: Amounts = np.floor(MAX_SCORE * scores / most)
    return MAX_SCORE - found if reverse else found
