"""What extenders had against a pod. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class NodeFailure(NamedTuple):
    """Why an extender rejects a node; ``None``: it does not say.

    It is ``resolvable`` where preemption may help.
    """

    reason: str | None
    resolvable: bool


class ExtenderRefusal(NamedTuple):
    """The ``nodes`` that extenders reject, by name; or the ``failure`` for which nobody knows."""

    nodes: Mapping[str, NodeFailure] = {}
    failure: str = ""
